/* cmd_cluster.c - ebb agent, slot, task, master: what the running master has and does. */
#include "cli/verb.h"

#include <string.h>
#include <time.h>

#include "cli/cmd_experiment.h"
#include "cli/show.h"

struct options {
    bool follows;
    int64_t tail;
};

static const struct options defaults = {.tail = CLI_TAIL_ALL};

/* ---- tables ---- */

static void show_slots(struct ebb_str *out, const struct ebb_doc_node *slots, bool is_csv)
{
    (void)is_csv;
    ebb_str_printf(out, "%zu", slots != NULL ? slots->count : 0);
}

static void show_busy(struct ebb_str *out, const struct ebb_doc_node *slots, bool is_csv)
{
    size_t busy = 0;
    (void)is_csv;
    for (size_t k = 0; slots != NULL && k < slots->count; k++)
        busy += ebb_doc_int(slots->items[k], "trial_id", 0) > 0;
    ebb_str_printf(out, "%zu", busy);
}

static void show_enabled(struct ebb_str *out, const struct ebb_doc_node *slots, bool is_csv)
{
    size_t enabled = 0;
    (void)is_csv;
    for (size_t k = 0; slots != NULL && k < slots->count; k++)
        enabled += ebb_doc_bool(slots->items[k], "enabled", true);
    ebb_str_printf(out, "%zu", enabled);
}

static void show_numbers(struct ebb_str *out, const struct ebb_doc_node *list, bool is_csv)
{
    (void)is_csv;
    cli_show_list(out, list, ",");
}

static const struct cli_column agent_columns[] = {
    {"Agent ID", "id", CLI_AS_TEXT, NULL},           {"Label", "label", CLI_AS_TEXT, NULL},
    {"Slots", "slots", CLI_AS_TEXT, show_slots},     {"Busy", "slots", CLI_AS_TEXT, show_busy},
    {"Enabled", "slots", CLI_AS_TEXT, show_enabled},
};

static const struct cli_column slot_columns[] = {
    {"Agent ID", NULL, CLI_AS_TEXT, NULL}, /* of the agent */
    {"Slot ID", "id", CLI_AS_NUMBER, NULL},        {"Enabled", "enabled", CLI_AS_YES_NO, NULL},
    {"Trial ID", "trial_id", CLI_AS_NUMBER, NULL}, {"Device", "device", CLI_AS_TEXT, NULL},
};

static const struct cli_column task_columns[] = {
    {"ID", "id", CLI_AS_TEXT, NULL},
    {"Experiment ID", "experiment_id", CLI_AS_NUMBER, NULL},
    {"Trial ID", "trial_id", CLI_AS_NUMBER, NULL},
    {"State", "state", CLI_AS_TEXT, NULL},
    {"Slots", "slots", CLI_AS_TEXT, show_numbers},
    {"Waits for", "waiting", CLI_AS_TEXT, NULL},
};

/* One row for a slot, over all agents. */
static void print_slots(const struct cli_call *c, const struct ebb_doc_node *root)
{
    const size_t count = sizeof slot_columns / sizeof slot_columns[0];
    const struct ebb_doc_node *list = ebb_doc_get(root, "agents");
    struct cli_table *table = cli_columns_table(slot_columns, count);
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *agent = list->items[i], *slots = ebb_doc_get(agent, "slots");
        for (size_t k = 0; slots != NULL && k < slots->count; k++) {
            cli_columns_add(table, slot_columns, 1, ebb_doc_get(agent, "id"), c->where.is_csv);
            cli_columns_add(table, slot_columns + 1, count - 1, slots->items[k], c->where.is_csv);
        }
    }
    cli_table_show(table, c->where.is_csv);
}

static void print_pairs(const struct cli_call *c, const struct ebb_doc_node *root)
{
    (void)c;
    for (size_t i = 0; root != NULL && root->kind == EBB_DOC_MAP && i < root->count; i++)
        cli_print_pair(root->keys[i]->text, root->items[i]);
}

static void print_config(const struct cli_call *c, const struct ebb_doc_node *root)
{
    (void)c;
    cli_print_yaml(root);
}

/* ---- the master's log ---- */

static enum ebb_status print_logs(struct cli_call *c, struct ebb_error *err)
{
    const struct options *o = c->options;
    int64_t after = 0;
    if (o->follows)
        cli_catch_interrupts();
    for (bool is_first = true; is_first || !cli_interrupted(); is_first = false) {
        struct cli_answer answer = {0};
        bool is_tail = is_first && o->tail >= 0; /* of none, where new ones begin */
        enum ebb_status status =
            cli_ask(c->m, &answer, err, "GET", NULL, "/master/logs?%s=%lld",
                    is_tail ? "tail" : "greater_than_id",
                    (long long)(is_tail ? (o->tail > 0 ? o->tail : 1) : after));
        const struct ebb_doc_node *list = ebb_doc_get(answer.root, "logs");
        size_t count = status == EBB_OK && list != NULL ? list->count : 0;
        if (is_first && o->tail == 0)
            count = 0;
        for (size_t i = 0; i < count; i++)
            cli_print_log(list->items[i], c->where.is_json);
        fflush(stdout);
        after = ebb_doc_int(answer.root, "next", after);
        cli_answer_fini(&answer);
        EBB_TRY(status);
        bool is_end = count == 0 || o->tail >= 0;
        if (is_end && (!o->follows || c->m->own != NULL))
            return EBB_OK;
        if (count == 0)
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return EBB_OK;
}

/* ---- changing slots: [AGENT] for agents, [AGENT] SLOT for slots ---- */

static enum ebb_status set_slots(struct cli_call *c, bool has_slot, struct ebb_error *err)
{
    bool is_enable = strcmp(c->verb->name, "enable") == 0;
    const char *slot_text = has_slot ? c->words[c->word_count - 1] : NULL;
    const char *agent = c->word_count > (has_slot ? 1u : 0u) ? c->words[0] : "local";
    const char *past = is_enable ? "Enabled" : "Disabled";
    const struct ebb_doc_node *root;
    struct ebb_str target = {0};
    int64_t slot = -1;
    if (has_slot && (!ebb_parse_i64(slot_text, &slot) || slot < 0))
        return cli_leave(
            c, cli_usage_error("'%s' is no slot number; 'ebb slot list' shows them", slot_text));
    if (has_slot && strcmp(agent, "local") != 0)
        return cli_leave(
            c, cli_usage_error("there is no agent '%s'; 'ebb agent list' shows them", agent));
    if (c->m->own != NULL)
        return ebb_fail(err, EBB_EINFEASIBLE,
                        "no master runs, so there are no slots to change; 'ebb run' starts one");
    serve_http_escape(&target, agent);
    if (has_slot)
        ebb_str_printf(&target, "/slots/%lld", (long long)slot);
    enum ebb_status status = cli_send(c->m, &root, err, "PATCH",
                                      is_enable ? "{\"enabled\": true}" : "{\"enabled\": false}",
                                      "/agents/%s", ebb_str_c(&target));
    ebb_str_fini(&target);
    EBB_TRY(status);
    if (has_slot)
        cli_say(c, NULL, "%s slot %lld", past, (long long)slot);
    else
        cli_say(c, NULL, "%s agent %s", past, agent);
    return EBB_OK;
}

static enum ebb_status set_agent(struct cli_call *c, struct ebb_error *err)
{
    return set_slots(c, false, err);
}

static enum ebb_status set_slot(struct cli_call *c, struct ebb_error *err)
{
    return set_slots(c, true, err);
}

/* ---- the rows ---- */

static const struct cli_verb agent_verbs[] = {
    {.name = "list",
     .summary = "machines with slots",
     .text = "Machines that offer slots. This build has one: the master's own.",
     .has_csv = true,
     .is_live = true,
     .route = "/agents",
     .list = "agents",
     CLI_COLUMNS(agent_columns)},
    {.name = "enable",
     .summary = "let all its slots be used",
     CLI_WORDS("[AGENT]", 0, 1),
     .text = "Let all slots of a machine be used again. There is one, local: it need not be named.",
     .run = set_agent},
    {.name = "disable",
     .summary = "take them out of use",
     CLI_WORDS("[AGENT]", 0, 1),
     .text = "Take all slots of a machine out of use, until the master ends: trials in them save\n"
             "checkpoints and wait.",
     .run = set_agent},
};

static const struct cli_verb slot_verbs[] = {
    {.name = "list",
     .summary = "slots and who is in them",
     .text = "Slots of the running master, and the trials in them.",
     .has_csv = true,
     .is_live = true,
     .route = "/agents",
     .print = print_slots},
    {.name = "enable",
     .summary = "let it be used",
     CLI_WORDS("[AGENT] SLOT", 1, 2),
     .text = "Let a slot be used again.",
     .run = set_slot},
    {.name = "disable",
     .summary = "take it out of use",
     CLI_WORDS("[AGENT] SLOT", 1, 2),
     .text = "Take a slot out of use: the trial in it saves a checkpoint and goes on elsewhere.",
     .run = set_slot},
};

static const struct cli_verb task_verbs[] = {
    {.name = "list",
     .summary = "what runs and what waits for what",
     .text = "Trials that have slots or want some, and what they wait for.",
     .has_csv = true,
     .is_live = true,
     .route = "/tasks",
     .list = "tasks",
     CLI_COLUMNS(task_columns)},
};

static const struct cli_field log_options[] = {
    {"follow", 'f', CLI_FLAG, offsetof(struct options, follows), NULL, "go on until Ctrl-C", 0, 0},
    {"tail", 0, CLI_INT, offsetof(struct options, tail), "N", "only the last N lines", 0, 1e9},
};

static const struct cli_verb master_verbs[] = {
    {.name = "info",
     .summary = "process, slots, state directory",
     .text = "The running master: process, slots, state directory, and whether it can write.",
     .is_live = true,
     .route = "/master",
     .print = print_pairs},
    {.name = "config",
     .summary = "what it was started with",
     .text =
         "What the running master was started with, as YAML: slots, scheduler, where checkpoints\n"
         "go by default. Without one, what 'ebb run' would use.",
     .is_live = true,
     .route = "/master/config",
     .print = print_config},
    {.name = "logs",
     .summary = "what it logged",
     .text = "What masters of this state directory logged: when they began and ended, experiments "
             "that\n"
             "ended, trials that failed, what could not be written.\n"
             "\n"
             "Example:\n"
             "  ebb master logs --tail 20 --follow",
     CLI_OPTIONS(log_options),
     .json_help = "one JSON object per line of the log",
     .run = print_logs},
};

static const struct cli_noun agent = CLI_NOUN("agent", agent_verbs, defaults);
static const struct cli_noun slot = CLI_NOUN("slot", slot_verbs, defaults);
static const struct cli_noun task = CLI_NOUN("task", task_verbs, defaults);
static const struct cli_noun master = CLI_NOUN("master", master_verbs, defaults);

const struct cli_command cli_cmd_agent = {
    .name = "agent", .summary = "machines that offer slots", .noun = &agent};
const struct cli_command cli_cmd_slot = {
    .name = "slot", .summary = "slots of the running master", .noun = &slot};
const struct cli_command cli_cmd_task = {
    .name = "task", .summary = "what runs, and what waits for what", .noun = &task};
const struct cli_command cli_cmd_master = {
    .name = "master", .summary = "the running master", .noun = &master};
