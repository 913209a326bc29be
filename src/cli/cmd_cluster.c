/* cmd_cluster.c - ebb agent, slot, task, master: what the running master has and does. */
#include "cli/cli.h"

#include <string.h>
#include <time.h>

#include "base/json.h"
#include "cli/cmd_experiment.h"
#include "cli/master.h"
#include "cli/show.h"

struct cluster_options {
    struct cli_where where;
    const char *agent, *slot; /* positionals; the slot is a number */
    bool is_enable, follows;
    int64_t tail;
};

/* ---- tables ---- */

static void print_agents(const struct ebb_doc_node *root, bool is_csv)
{
    static const char *const headers[] = {"Agent ID", "Label", "Slots", "Busy", "Enabled"};
    const struct ebb_doc_node *list = ebb_doc_get(root, "agents");
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof headers[0]);
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *slots = ebb_doc_get(list->items[i], "slots");
        size_t count = slots != NULL ? slots->count : 0, busy = 0, enabled = 0;
        for (size_t k = 0; k < count; k++) {
            busy += ebb_doc_int(slots->items[k], "trial_id", 0) > 0;
            enabled += ebb_doc_bool(slots->items[k], "enabled", true);
        }
        cli_table_cell(table, "%s", ebb_doc_string(list->items[i], "id", ""));
        cli_table_cell(table, "%s", ebb_doc_string(list->items[i], "label", ""));
        cli_table_cell(table, "%zu", count);
        cli_table_cell(table, "%zu", busy);
        cli_table_cell(table, "%zu", enabled);
    }
    cli_table_show(table, is_csv);
}

static void print_slots(const struct ebb_doc_node *root, bool is_csv)
{
    static const char *const headers[] = {"Agent ID", "Slot ID", "Enabled", "Trial ID", "Device"};
    const struct ebb_doc_node *list = ebb_doc_get(root, "agents");
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof headers[0]);
    char buf[CLI_CELL];
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *slots = ebb_doc_get(list->items[i], "slots");
        for (size_t k = 0; slots != NULL && k < slots->count; k++) {
            const struct ebb_doc_node *s = slots->items[k];
            cli_table_cell(table, "%s", ebb_doc_string(list->items[i], "id", ""));
            cli_table_cell(table, "%s", cli_show_number(s, "id", buf));
            cli_table_cell(table, "%s", ebb_doc_bool(s, "enabled", true) ? "yes" : "no");
            cli_table_cell(table, "%s", cli_show_number(s, "trial_id", buf));
            cli_table_cell(table, "%s", ebb_doc_string(s, "device", ""));
        }
    }
    cli_table_show(table, is_csv);
}

static void print_tasks(const struct ebb_doc_node *root, bool is_csv)
{
    static const char *const headers[] = {"ID",    "Experiment ID", "Trial ID",
                                          "State", "Slots",         "Waits for"};
    const struct ebb_doc_node *list = ebb_doc_get(root, "tasks");
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof headers[0]);
    char buf[CLI_CELL];
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *t = list->items[i], *slots = ebb_doc_get(t, "slots");
        struct ebb_str text;
        ebb_str_init(&text);
        for (size_t k = 0; slots != NULL && slots->kind == EBB_DOC_LIST && k < slots->count; k++) {
            ebb_str_add(&text, k > 0 ? "," : "");
            cli_show_value(&text, slots->items[k]);
        }
        cli_table_cell(table, "%s", ebb_doc_string(t, "id", ""));
        cli_table_cell(table, "%s", cli_show_number(t, "experiment_id", buf));
        cli_table_cell(table, "%s", cli_show_number(t, "trial_id", buf));
        cli_table_cell(table, "%s", ebb_doc_string(t, "state", ""));
        cli_table_cell(table, "%s", ebb_str_c(&text));
        cli_table_cell(table, "%s", ebb_doc_string(t, "waiting", ""));
        ebb_str_fini(&text);
    }
    cli_table_show(table, is_csv);
}

static void print_master(const struct ebb_doc_node *root, bool is_csv)
{
    (void)is_csv;
    for (size_t i = 0; root != NULL && root->kind == EBB_DOC_MAP && i < root->count; i++) {
        struct ebb_str text;
        ebb_str_init(&text);
        if (root->items[i]->kind != EBB_DOC_NULL)
            cli_show_value(&text, root->items[i]);
        if (text.length > 0)
            printf("%-14s %s\n", root->keys[i]->text, ebb_str_c(&text));
        ebb_str_fini(&text);
    }
}

static void print_config(const struct ebb_doc_node *root, bool is_csv)
{
    struct ebb_str text;
    (void)is_csv;
    ebb_str_init(&text);
    if (root != NULL)
        cli_show_yaml(&text, root, 0);
    fputs(ebb_str_c(&text), stdout);
    ebb_str_fini(&text);
}

/* ---- asking ---- */

static int ask_and_print(struct cli_master *m, const struct cluster_options *o, const char *target,
                         void (*print)(const struct ebb_doc_node *root, bool is_csv))
{
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    enum ebb_status status = cli_ask(m, &answer, &err, "GET", NULL, "%s", target);
    if (status == EBB_OK && m->own != NULL)
        fprintf(stderr, "ebb: note: no master runs; this is what the state directory says\n");
    if (status == EBB_OK && o->where.is_json)
        cli_print_body(&answer.response.body);
    else if (status == EBB_OK)
        print(answer.root, o->where.is_csv);
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int list_agents(struct cli_master *m, void *context)
{
    return ask_and_print(m, context, "/agents", print_agents);
}

static int list_slots(struct cli_master *m, void *context)
{
    return ask_and_print(m, context, "/agents", print_slots);
}

static int list_tasks(struct cli_master *m, void *context)
{
    return ask_and_print(m, context, "/tasks", print_tasks);
}

static int show_master(struct cli_master *m, void *context)
{
    return ask_and_print(m, context, "/master", print_master);
}

static int show_config(struct cli_master *m, void *context)
{
    return ask_and_print(m, context, "/master/config", print_config);
}

/* ---- the master's log ---- */

static enum ebb_status print_logs(struct cli_master *m, const struct cluster_options *o,
                                  struct ebb_error *err)
{
    int64_t after = 0;
    for (bool is_first = true; is_first || !cli_interrupted(); is_first = false) {
        struct cli_answer answer = {0};
        enum ebb_status status =
            is_first && o->tail >= 0 /* of none, where new ones begin */
                ? cli_ask(m, &answer, err, "GET", NULL, "/master/logs?tail=%lld",
                          (long long)(o->tail > 0 ? o->tail : 1))
                : cli_ask(m, &answer, err, "GET", NULL, "/master/logs?greater_than_id=%lld",
                          (long long)after);
        const struct ebb_doc_node *list = ebb_doc_get(answer.root, "logs");
        size_t count = status == EBB_OK && list != NULL ? list->count : 0;
        if (is_first && o->tail == 0)
            count = 0;
        for (size_t i = 0; i < count && o->where.is_json; i++) {
            struct ebb_str text;
            ebb_str_init(&text);
            cli_show_json(&text, list->items[i]);
            puts(ebb_str_c(&text));
            ebb_str_fini(&text);
        }
        for (size_t i = 0; i < count && !o->where.is_json; i++)
            cli_print_line(ebb_doc_get(list->items[i], "message"), stdout);
        fflush(stdout);
        after = ebb_doc_int(answer.root, "next", after);
        cli_answer_fini(&answer);
        EBB_TRY(status);
        bool is_end = count == 0 || o->tail >= 0;
        if (is_end && (!o->follows || m->own != NULL))
            return EBB_OK;
        if (count == 0)
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return EBB_OK;
}

static int show_logs(struct cli_master *m, void *context)
{
    const struct cluster_options *o = context;
    struct ebb_error err = {0};
    if (o->follows)
        cli_catch_interrupts();
    return print_logs(m, o, &err) == EBB_OK ? 0 : cli_report(&err);
}

/* ---- changing slots ---- */

static int set_slots(struct cli_master *m, void *context)
{
    const struct cluster_options *o = context;
    const char *agent = o->agent != NULL ? o->agent : "local";
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    struct ebb_str target;
    int64_t slot = -1;
    if (o->slot != NULL && (!ebb_parse_i64(o->slot, &slot) || slot < 0))
        return cli_usage_error("'%s' is no slot number; 'ebb slot list' shows them", o->slot);
    if (o->slot != NULL && strcmp(agent, "local") != 0)
        return cli_usage_error("there is no agent '%s'; 'ebb agent list' shows them", agent);
    if (m->own != NULL) {
        cli_usage_error("no master runs, so there are no slots to change; 'ebb run' starts one");
        return 1;
    }
    ebb_str_init(&target);
    ebb_str_add(&target, "/agents/");
    serve_http_escape(&target, agent);
    if (o->slot != NULL)
        ebb_str_printf(&target, "/slots/%lld", (long long)slot);
    enum ebb_status status = cli_ask(m, &answer, &err, "PATCH",
                                     o->is_enable ? "{\"enabled\": true}" : "{\"enabled\": false}",
                                     "%s", ebb_str_c(&target));
    ebb_str_fini(&target);
    const char *past = o->is_enable ? "Enabled" : "Disabled";
    if (status == EBB_OK && o->where.is_json)
        cli_print_body(&answer.response.body);
    else if (status == EBB_OK && o->slot != NULL)
        printf("%s slot %lld\n", past, (long long)slot);
    else if (status == EBB_OK)
        printf("%s agent %s\n", past, agent);
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

/* ---- verbs ---- */

static const struct cluster_verb {
    const char *noun, *verb, *usage, *description;
    size_t min_positional, max_positional;
    bool is_table;
    int (*what)(struct cli_master *m, void *context);
} kinds[] = {
    {"agent", "list", "ebb agent list [OPTION...]",
     "Machines that offer slots. This build has one: the master's own.", 0, 0, true, list_agents},
    {"agent", "enable", "ebb agent enable [AGENT] [OPTION...]",
     "Let all slots of a machine be used again. There is one, local: it need not be named.", 0, 1,
     false, set_slots},
    {"agent", "disable", "ebb agent disable [AGENT] [OPTION...]",
     "Take all slots of a machine out of use, until the master ends: trials in them save\n"
     "checkpoints and wait.",
     0, 1, false, set_slots},
    {"slot", "list", "ebb slot list [OPTION...]",
     "Slots of the running master, and the trials in them.", 0, 0, true, list_slots},
    {"slot", "enable", "ebb slot enable [AGENT] SLOT [OPTION...]", "Let a slot be used again.", 1,
     2, false, set_slots},
    {"slot", "disable", "ebb slot disable [AGENT] SLOT [OPTION...]",
     "Take a slot out of use: the trial in it saves a checkpoint and goes on elsewhere.", 1, 2,
     false, set_slots},
    {"task", "list", "ebb task list [OPTION...]",
     "Trials that have slots or want some, and what they wait for.", 0, 0, true, list_tasks},
    {"master", "info", "ebb master info [OPTION...]",
     "The running master: process, slots, state directory, and whether it can write.", 0, 0, false,
     show_master},
    {"master", "config", "ebb master config [OPTION...]",
     "What the running master was started with, as YAML: slots, scheduler, where checkpoints\n"
     "go by default. Without one, what 'ebb run' would use.",
     0, 0, false, show_config},
    {"master", "logs", "ebb master logs [OPTION...]",
     "What masters of this state directory logged: when they began and ended, experiments that\n"
     "ended, trials that failed, what could not be written.\n"
     "\n"
     "Example:\n"
     "  ebb master logs --tail 20 --follow",
     0, 0, false, show_logs},
};

static int run_kind(const char *noun, const char *fallback, int argc, char **argv)
{
    struct cluster_options o = {.tail = CLI_TAIL_ALL, .is_enable = strcmp(argv[0], "enable") == 0};
    const struct cluster_verb *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].noun, noun) == 0 &&
            (strcmp(kinds[i].verb, argv[0]) == 0 ||
             (kind == NULL && strcmp(kinds[i].verb, fallback) == 0)))
            kind = &kinds[i];
    const struct cli_option options[] = {
        {"follow", 'f', CLI_FLAG, &o.follows, NULL, "go on until Ctrl-C"},
        {"tail", 0, CLI_INT, &o.tail, "N", "only the last N lines"},
    };
    bool is_log = kind->what == show_logs;
    const struct cli_spec spec = {
        .usage = kind->usage,
        .description = kind->description,
        .options = options,
        .option_count = is_log ? sizeof options / sizeof options[0] : 0,
        CLI_LIMITS({"tail", 0, 1e9}),
        .min_positional = kind->min_positional,
        .max_positional = kind->max_positional,
        .where = &o.where,
        .json_help = is_log ? "one JSON object per line of the log" : NULL,
        .is_table = kind->is_table,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    bool has_slot = strcmp(noun, "slot") == 0 && args.positional_count > 0;
    if (has_slot)
        o.slot = args.positional[args.positional_count - 1];
    if (args.positional_count > (has_slot ? 1u : 0u))
        o.agent = args.positional[0];
    code = cli_with_master(&o.where, kind->what, &o);
    cli_args_fini(&args);
    return code;
}

static int run_agent_verb(int argc, char **argv)
{
    return run_kind("agent", "list", argc, argv);
}

static int run_slot_verb(int argc, char **argv)
{
    return run_kind("slot", "list", argc, argv);
}

static int run_task_verb(int argc, char **argv)
{
    return run_kind("task", "list", argc, argv);
}

static int run_master_verb(int argc, char **argv)
{
    return run_kind("master", "info", argc, argv);
}

/* clang-format off */
static const struct cli_command agent_list = {"agent list", "machines with slots", false, run_agent_verb};
static const struct cli_command agent_enable = {"agent enable", "let all its slots be used", false, run_agent_verb};
static const struct cli_command agent_disable = {"agent disable", "take them out of use", false, run_agent_verb};
static const struct cli_command slot_list = {"slot list", "slots and who is in them", false, run_slot_verb};
static const struct cli_command slot_enable = {"slot enable", "let it be used", false, run_slot_verb};
static const struct cli_command slot_disable = {"slot disable", "take it out of use", false, run_slot_verb};
static const struct cli_command task_list = {"task list", "what runs and what waits for what", false, run_task_verb};
static const struct cli_command master_info = {"master info", "process, slots, state directory", false, run_master_verb};
static const struct cli_command master_config = {"master config", "what it was started with", false, run_master_verb};
static const struct cli_command master_logs = {"master logs", "what it logged", false, run_master_verb};
/* clang-format on */

static int run_agent(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&agent_list, &agent_enable, &agent_disable};
    return cli_dispatch("agent", verbs, 3, argc, argv);
}

static int run_slot(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&slot_list, &slot_enable, &slot_disable};
    return cli_dispatch("slot", verbs, 3, argc, argv);
}

static int run_task(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&task_list};
    return cli_dispatch("task", verbs, 1, argc, argv);
}

static int run_master(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&master_info, &master_config, &master_logs};
    return cli_dispatch("master", verbs, 3, argc, argv);
}

const struct cli_command cli_cmd_agent = {
    .name = "agent", .summary = "machines that offer slots", .run = run_agent};
const struct cli_command cli_cmd_slot = {
    .name = "slot", .summary = "slots of the running master", .run = run_slot};
const struct cli_command cli_cmd_task = {
    .name = "task", .summary = "what runs, and what waits for what", .run = run_task};
const struct cli_command cli_cmd_master = {
    .name = "master", .summary = "the running master", .run = run_master};
