/* cmd_cluster.c - ebb agent, slot, task, master: what the running master has and does. */
#include "cli/cli.h"

#include <string.h>

#include "base/json.h"
#include "cli/master.h"
#include "cli/show.h"

struct cluster_options {
    struct cli_where where;
    const char *slot; /* number, or "local/N" */
    bool is_enable, is_csv;
};

static void print_table(struct cli_table *table, bool is_csv)
{
    if (is_csv)
        cli_table_csv(table, stdout);
    else
        cli_table_print(table, stdout);
    cli_table_destroy(table);
}

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
    print_table(table, is_csv);
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
    print_table(table, is_csv);
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
    print_table(table, is_csv);
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
        print(answer.root, o->is_csv);
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

static int set_slot(struct cli_master *m, void *context)
{
    const struct cluster_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    int64_t slot;
    if (m->own != NULL) {
        cli_usage_error("no master runs, so there are no slots to change; 'ebb run' starts one");
        return 1;
    }
    if (!ebb_parse_i64(o->slot, &slot) || slot < 0)
        return cli_usage_error("'%s' is no slot number; 'ebb slot list' shows them", o->slot);
    enum ebb_status status = cli_ask(m, &answer, &err, "PATCH",
                                     o->is_enable ? "{\"enabled\": true}" : "{\"enabled\": false}",
                                     "/agents/local/slots/%lld", (long long)slot);
    if (status == EBB_OK && o->where.is_json)
        cli_print_body(&answer.response.body);
    else if (status == EBB_OK)
        printf("%s slot %lld\n", o->is_enable ? "Enabled" : "Disabled", (long long)slot);
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

/* ---- verbs ---- */

struct cluster_verb {
    const char *usage, *description;
    size_t positionals;
    int (*what)(struct cli_master *m, void *context);
};

static int run_verb(const struct cluster_verb *verb, int argc, char **argv)
{
    struct cluster_options o = {.is_enable = strcmp(argv[0], "enable") == 0};
    const struct cli_option options[] = {
        {"state", 0, CLI_STRING, &o.where.state, "DIR", cli_help_state},
        {"master", 'm', CLI_STRING, &o.where.master, "ADDRESS", cli_help_master},
        {"json", 0, CLI_FLAG, &o.where.is_json, NULL, cli_help_json},
        {"csv", 0, CLI_FLAG, &o.is_csv, NULL, "comma-separated values"}, /* tables only: last */
    };
    bool is_table = verb->positionals == 0 && verb->what != show_master;
    const struct cli_spec spec = {
        .usage = verb->usage,
        .description = verb->description,
        .options = options,
        .option_count = sizeof options / sizeof options[0] - (is_table ? 0 : 1),
        .min_positional = verb->positionals,
        .max_positional = verb->positionals,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    o.slot = args.positional_count > 0 ? args.positional[0] : NULL;
    code = cli_with_master(&o.where, verb->what, &o);
    cli_args_fini(&args);
    return code;
}

static int run_agent_list(int argc, char **argv)
{
    return run_verb(&(struct cluster_verb){"ebb agent list [OPTION...]",
                                           "Machines that offer slots. This build has one: the "
                                           "master's own.",
                                           0, list_agents},
                    argc, argv);
}

static int run_slot_list(int argc, char **argv)
{
    return run_verb(&(struct cluster_verb){"ebb slot list [OPTION...]",
                                           "Slots of the running master, and the trials in them.",
                                           0, list_slots},
                    argc, argv);
}

static int run_slot_set(int argc, char **argv)
{
    bool is_enable = strcmp(argv[0], "enable") == 0;
    return run_verb(&(struct cluster_verb){is_enable ? "ebb slot enable SLOT [OPTION...]"
                                                     : "ebb slot disable SLOT [OPTION...]",
                                           is_enable
                                               ? "Let a slot be used again."
                                               : "Take a slot out of use: the trial in it saves a "
                                                 "checkpoint and goes on elsewhere.",
                                           1, set_slot},
                    argc, argv);
}

static int run_task_list(int argc, char **argv)
{
    return run_verb(&(struct cluster_verb){"ebb task list [OPTION...]",
                                           "Trials that have slots or want some, and what they "
                                           "wait for.",
                                           0, list_tasks},
                    argc, argv);
}

static int run_master_info(int argc, char **argv)
{
    return run_verb(&(struct cluster_verb){"ebb master info [OPTION...]",
                                           "The running master: process, slots, state directory, "
                                           "and whether it can write.",
                                           0, show_master},
                    argc, argv);
}

static const struct cli_command cmd_agent_list = {
    .name = "agent list", .summary = "machines with slots", .run = run_agent_list};
static const struct cli_command cmd_slot_list = {
    .name = "slot list", .summary = "slots and who is in them", .run = run_slot_list};
static const struct cli_command cmd_slot_enable = {
    .name = "slot enable", .summary = "let it be used", .run = run_slot_set};
static const struct cli_command cmd_slot_disable = {
    .name = "slot disable", .summary = "take it out of use", .run = run_slot_set};
static const struct cli_command cmd_task_list = {
    .name = "task list", .summary = "what runs and what waits for what", .run = run_task_list};
static const struct cli_command cmd_master_info = {
    .name = "master info", .summary = "process, slots, state directory", .run = run_master_info};

static int run_agent(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&cmd_agent_list};
    return cli_dispatch("agent", verbs, 1, argc, argv);
}

static int run_slot(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&cmd_slot_list, &cmd_slot_enable,
                                                      &cmd_slot_disable};
    return cli_dispatch("slot", verbs, 3, argc, argv);
}

static int run_task(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&cmd_task_list};
    return cli_dispatch("task", verbs, 1, argc, argv);
}

static int run_master(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&cmd_master_info};
    return cli_dispatch("master", verbs, 1, argc, argv);
}

const struct cli_command cli_cmd_agent = {
    .name = "agent", .summary = "machines that offer slots", .run = run_agent};
const struct cli_command cli_cmd_slot = {
    .name = "slot", .summary = "slots of the running master", .run = run_slot};
const struct cli_command cli_cmd_task = {
    .name = "task", .summary = "what runs, and what waits for what", .run = run_task};
const struct cli_command cli_cmd_master = {
    .name = "master", .summary = "the running master", .run = run_master};
