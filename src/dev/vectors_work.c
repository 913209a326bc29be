/* vectors_work.c - reference cases of trial sequencing, scheduling and checkpoint retention. */
#include "dev/vectors.h"

#include <string.h>

#include "base/str.h"
#include "exp/exp.h"

/* ---- one trial ---- */

struct trial_case {
    const struct ebb_doc_node *input, *metrics;
    struct exp_sequence sequence;
    struct exp_best best;
    bool smaller_is_better;
    int64_t started; /* workloads begun */
    int64_t *steps;  /* distinct validated ones, in order of their first validation */
    size_t step_count;
    int64_t last_checkpoint;
    struct ebb_str trace;
};

static bool has_position(const struct ebb_doc_node *list, int64_t position)
{
    for (size_t i = 0; list != NULL && list->kind == EBB_DOC_LIST && i < list->count; i++)
        if (list->items[i]->kind == EBB_DOC_INT && list->items[i]->integer == position)
            return true;
    return false;
}

/* The metric of a step: the list goes round, in order of first validation. */
static double metric_of(struct trial_case *c, int64_t step)
{
    size_t i = 0;
    while (i < c->step_count && c->steps[i] != step)
        i++;
    if (i == c->step_count)
        c->steps[c->step_count++] = step;
    return c->metrics->count > 0 ? c->metrics->items[i % c->metrics->count]->number : 0;
}

/* One process, from its start to its end. */
static enum ebb_status run_process(struct trial_case *c, enum exp_sequence_exit *exit,
                                   struct ebb_error *err)
{
    static const char letters[] = {'S', 'V', 'C'};
    struct exp_sequence *q = &c->sequence;
    ebb_str_printf(&c->trace, "%sSTART(ckpt=%lld)", c->trace.length > 0 ? " " : "",
                   (long long)exp_sequence_start(q));
    for (;;) {
        struct exp_workload work = exp_sequence_next(q);
        if (work.kind == EXP_WORK_TERMINATE) {
            ebb_str_add(&c->trace, " EXIT");
            *exit = exp_sequence_exit(q, EXP_END_CLEAN);
            return EBB_OK;
        }
        c->started++;
        ebb_str_printf(&c->trace, " %c%lld", letters[work.kind], (long long)work.step);
        if (has_position(ebb_doc_get(c->input, "preempt_during_workload"), c->started))
            exp_sequence_stop(q);
        if (has_position(ebb_doc_get(c->input, "crash_during_workload"), c->started)) {
            ebb_str_addc(&c->trace, '!');
            *exit = exp_sequence_exit(q, EXP_END_FAULT);
            return EBB_OK;
        }
        bool is_best = work.kind == EXP_WORK_VALIDATE &&
                       exp_best_update(&c->best, metric_of(c, work.step), c->smaller_is_better);
        EBB_TRY(exp_sequence_complete(q, &work, is_best, err));
        if (work.kind == EXP_WORK_CHECKPOINT)
            c->last_checkpoint = work.step;
    }
}

static enum ebb_status ask_all(struct exp_sequence *q, int64_t steps, struct ebb_error *err)
{
    struct exp_op ops[] = {{.kind = EXP_OP_TRAIN, .first_step = 1, .last_step = steps},
                           {.kind = EXP_OP_VALIDATE, .last_step = steps},
                           {.kind = EXP_OP_CLOSE}};
    for (size_t i = 0; i < 3; i++)
        EBB_TRY(exp_sequence_ask(q, &ops[i], err));
    return EBB_OK;
}

static enum ebb_status run_trial(struct trial_case *c, const char **state, struct ebb_error *err)
{
    *state = "COMPLETED";
    while (exp_sequence_has_work(&c->sequence)) {
        enum exp_sequence_exit exit = EXP_SEQUENCE_UNCHANGED;
        if (c->started > 1000000)
            return ebb_fail(err, EBB_ELIMIT, "the trial does not end");
        EBB_TRY(run_process(c, &exit, err));
        if (exit == EXP_SEQUENCE_ROLLED_BACK)
            ebb_str_printf(&c->trace, " ROLLBACK(%lld)", (long long)c->sequence.checkpoint);
        if (exit == EXP_SEQUENCE_FAILED)
            *state = "ERROR";
    }
    return EBB_OK;
}

static enum ebb_status read_policy(const struct ebb_doc_node *input,
                                   enum exp_checkpoint_policy *policy, struct ebb_error *err)
{
    const char *name = ebb_doc_string(input, "checkpoint_policy", "best");
    size_t index; /* in the order of the enum */
    if (!ebb_words_find("best all none", name, strlen(name), &index))
        return ebb_fail(err, EBB_EINPUT, "checkpoint_policy: '%s'", name);
    *policy = (enum exp_checkpoint_policy)index;
    return EBB_OK;
}

enum ebb_status dev_case_sequencer(struct ebb_arena *a, const struct ebb_doc_node *input,
                                   struct ebb_doc_node **computed, struct ebb_error *err)
{
    struct exp_sequence_rules rules = {
        .min_validation_period = ebb_doc_int(input, "min_validation_period", 0),
        .min_checkpoint_period = ebb_doc_int(input, "min_checkpoint_period", 0),
        .max_restarts = ebb_doc_int(input, "max_restarts", 5)};
    struct trial_case c = {.input = input,
                           .smaller_is_better = ebb_doc_bool(input, "smaller_is_better", true)};
    const struct ebb_doc_node *steps = NULL;
    const char *state = "";
    EBB_TRY(dev_member(input, "max_steps", EBB_DOC_INT, &steps, err));
    EBB_TRY(dev_member(input, "validation_metrics", EBB_DOC_LIST, &c.metrics, err));
    EBB_TRY(read_policy(input, &rules.checkpoint_policy, err));
    if (steps->integer < 1 || steps->integer > 1000000)
        return ebb_fail(err, EBB_EINPUT, "max_steps: %lld", (long long)steps->integer);
    EBB_TRY(dev_array(a, (size_t)steps->integer, sizeof *c.steps, &c.steps, err));
    exp_sequence_init(&c.sequence, &rules);
    enum ebb_status status = ask_all(&c.sequence, steps->integer, err);
    EBB_THEN(status, run_trial(&c, &state, err));
    EBB_THEN(status, ebb_str_status(&c.trace, err));
    if (status == EBB_OK) {
        *computed = dev_map(a);
        dev_set_text(a, *computed, "trace", ebb_str_c(&c.trace));
        dev_set_text(a, *computed, "trial_state", state);
        dev_set_int(a, *computed, "restarts", c.sequence.restarts);
        dev_set_int(a, *computed, "last_checkpoint_step", c.last_checkpoint);
    }
    ebb_str_fini(&c.trace);
    exp_sequence_fini(&c.sequence);
    return status;
}

/* ---- one scheduling pass ---- */

struct sched_case {
    struct exp_sched_agent *agents;
    struct exp_sched_group *groups;
    struct exp_sched_task *tasks;
    struct exp_sched_input input;
};

static enum ebb_status read_agents(struct ebb_arena *a, const struct ebb_doc_node *input,
                                   struct sched_case *c, struct ebb_error *err)
{
    const struct ebb_doc_node *list = NULL;
    EBB_TRY(dev_member(input, "agents", EBB_DOC_LIST, &list, err));
    EBB_TRY(dev_array(a, list->count, sizeof *c->agents, &c->agents, err));
    for (size_t i = 0; i < list->count; i++)
        c->agents[i] =
            (struct exp_sched_agent){.id = ebb_doc_string(list->items[i], "id", ""),
                                     .label = ebb_doc_string(list->items[i], "label", ""),
                                     .slots = ebb_doc_int(list->items[i], "slots", 0)};
    c->input.agents = c->agents;
    c->input.agent_count = list->count;
    return EBB_OK;
}

static enum ebb_status read_groups(struct ebb_arena *a, const struct ebb_doc_node *input,
                                   struct sched_case *c, struct ebb_error *err)
{
    const struct ebb_doc_node *list = NULL;
    EBB_TRY(dev_member(input, "groups", EBB_DOC_LIST, &list, err));
    EBB_TRY(dev_array(a, list->count, sizeof *c->groups, &c->groups, err));
    for (size_t i = 0; i < list->count; i++)
        c->groups[i] =
            (struct exp_sched_group){.id = ebb_doc_string(list->items[i], "id", ""),
                                     .weight = ebb_doc_double(list->items[i], "weight", 1),
                                     .max_slots = ebb_doc_int(list->items[i], "max_slots", -1)};
    c->input.groups = c->groups;
    c->input.group_count = list->count;
    return EBB_OK;
}

static enum ebb_status read_placements(struct ebb_arena *a, const struct sched_case *c,
                                       const struct ebb_doc_node *node, struct exp_sched_task *task,
                                       struct ebb_error *err)
{
    struct exp_placement *places;
    if (node == NULL || node->kind != EBB_DOC_MAP)
        return EBB_OK;
    EBB_TRY(dev_array(a, node->count, sizeof *places, &places, err));
    for (size_t i = 0; i < node->count; i++) {
        size_t agent = 0;
        while (agent < c->input.agent_count &&
               strcmp(c->agents[agent].id, node->keys[i]->text) != 0)
            agent++;
        if (agent == c->input.agent_count)
            return ebb_fail(err, EBB_EINPUT, "running_on: no agent %s", node->keys[i]->text);
        places[i] = (struct exp_placement){.agent = agent, .slots = node->items[i]->integer};
    }
    task->placements = places;
    task->placement_count = node->count;
    task->state = EXP_TASK_RUNNING;
    return EBB_OK;
}

static enum ebb_status read_tasks(struct ebb_arena *a, const struct ebb_doc_node *input,
                                  struct sched_case *c, struct ebb_error *err)
{
    const struct ebb_doc_node *list = NULL;
    EBB_TRY(dev_member(input, "tasks", EBB_DOC_LIST, &list, err));
    EBB_TRY(dev_array(a, list->count, sizeof *c->tasks, &c->tasks, err));
    for (size_t i = 0; i < list->count; i++) {
        const struct ebb_doc_node *node = list->items[i];
        struct exp_sched_task *task = &c->tasks[i];
        const char *group = ebb_doc_string(node, "group", "");
        *task = (struct exp_sched_task){.id = ebb_doc_string(node, "id", ""),
                                        .label = ebb_doc_string(node, "label", ""),
                                        .slots = ebb_doc_int(node, "slots", 0),
                                        .is_non_preemptible =
                                            ebb_doc_bool(node, "non_preemptible", false)};
        while (task->group < c->input.group_count && strcmp(c->groups[task->group].id, group) != 0)
            task->group++;
        EBB_TRY(read_placements(a, c, ebb_doc_get(node, "running_on"), task, err));
        if (ebb_doc_bool(node, "terminating", false))
            task->state = EXP_TASK_TERMINATING;
    }
    c->input.tasks = c->tasks;
    c->input.task_count = list->count;
    return EBB_OK;
}

static enum ebb_status read_sched(struct ebb_arena *a, const struct ebb_doc_node *input,
                                  struct sched_case *c, struct ebb_error *err)
{
    const char *kind = ebb_doc_string(input, "scheduler", ""),
               *fit = ebb_doc_string(input, "fit", "");
    *c = (struct sched_case){0};
    if (strcmp(kind, "fair_share") != 0 && strcmp(kind, "priority") != 0)
        return ebb_fail(err, EBB_EINPUT, "scheduler: '%s'", kind);
    if (strcmp(fit, "best") != 0 && strcmp(fit, "worst") != 0)
        return ebb_fail(err, EBB_EINPUT, "fit: '%s'", fit);
    c->input.kind = kind[0] == 'f' ? EXP_SCHED_FAIR_SHARE : EXP_SCHED_PRIORITY;
    c->input.fit = fit[0] == 'b' ? EXP_FIT_BEST : EXP_FIT_WORST;
    EBB_TRY(read_agents(a, input, c, err));
    EBB_TRY(read_groups(a, input, c, err));
    return read_tasks(a, input, c, err);
}

static struct ebb_doc_node *task_after(struct ebb_arena *a, const struct sched_case *c,
                                       size_t index, const struct exp_sched_decision *decision)
{
    const struct exp_sched_task *task = &c->tasks[index];
    bool starts = decision->action == EXP_SCHED_START;
    enum exp_task_state state = starts                               ? EXP_TASK_RUNNING
                                : decision->action == EXP_SCHED_STOP ? EXP_TASK_TERMINATING
                                                                     : task->state;
    const struct exp_placement *places = starts ? decision->placements : task->placements;
    size_t count = starts ? decision->placement_count : task->placement_count;
    struct ebb_doc_node *map = dev_map(a), *placement = dev_map(a);
    dev_set_text(a, map, "id", task->id);
    dev_set_text(a, map, "state", exp_task_state_text(state));
    for (size_t i = 0; i < count; i++)
        dev_set_int(a, placement, c->agents[places[i].agent].id, places[i].slots);
    if (count > 0)
        ebb_doc_set(a, map, "placement", placement);
    return map;
}

enum ebb_status dev_case_scheduler(struct ebb_arena *a, const struct ebb_doc_node *input,
                                   struct ebb_doc_node **computed, struct ebb_error *err)
{
    struct sched_case c;
    struct exp_sched_output output = {0};
    EBB_TRY(read_sched(a, input, &c, err));
    EBB_TRY(exp_sched_pass(&c.input, a, &output, err));
    struct ebb_doc_node *map = dev_map(a), *demand = dev_map(a), *offers = dev_map(a),
                        *tasks = dev_items(a);
    for (size_t g = 0; g < c.input.group_count; g++) {
        if (!output.shares[g].is_counted)
            continue;
        dev_set_int(a, demand, c.groups[g].id, output.shares[g].demand);
        dev_set_int(a, offers, c.groups[g].id, output.shares[g].offered);
    }
    for (size_t t = 0; t < c.input.task_count; t++)
        ebb_doc_append(a, tasks, task_after(a, &c, t, &output.decisions[t]));
    if (c.input.kind == EXP_SCHED_FAIR_SHARE) {
        ebb_doc_set(a, map, "demand", demand);
        ebb_doc_set(a, map, "offers", offers);
    }
    ebb_doc_set(a, map, "tasks", tasks);
    *computed = map;
    return EBB_OK;
}

/* ---- retention ---- */

enum ebb_status dev_case_retention(struct ebb_arena *a, const struct ebb_doc_node *input,
                                   struct ebb_doc_node **computed, struct ebb_error *err)
{
    struct exp_retention policy = {
        .save_experiment_best = ebb_doc_int(input, "save_experiment_best", 0),
        .save_trial_best = ebb_doc_int(input, "save_trial_best", 1),
        .save_trial_latest = ebb_doc_int(input, "save_trial_latest", 1),
        .smaller_is_better = ebb_doc_bool(input, "smaller_is_better", true)};
    const struct ebb_doc_node *list = NULL;
    struct exp_checkpoint *checkpoints;
    bool *is_deleted;
    EBB_TRY(dev_member(input, "checkpoints", EBB_DOC_LIST, &list, err));
    EBB_TRY(dev_array(a, list->count, sizeof *checkpoints, &checkpoints, err));
    EBB_TRY(dev_array(a, list->count, sizeof *is_deleted, &is_deleted, err));
    for (size_t i = 0; i < list->count; i++) {
        const struct ebb_doc_node *node = list->items[i], *metric = ebb_doc_get(node, "metric");
        struct exp_checkpoint *c = &checkpoints[i];
        *c = (struct exp_checkpoint){
            .id = ebb_doc_int(node, "id", 0),
            .trial = ebb_doc_int(node, "trial", 0),
            .step = ebb_doc_int(node, "step", 0),
            .is_completed = strcmp(ebb_doc_string(node, "state", ""), "COMPLETED") == 0,
            .has_metric = metric != NULL && metric->kind != EBB_DOC_NULL,
            .metric = ebb_doc_double(node, "metric", 0)};
        c->is_protected = has_position(ebb_doc_get(input, "warm_start_checkpoints"), c->id);
    }
    EBB_TRY(exp_retention_select(checkpoints, list->count, &policy, is_deleted, err));
    struct ebb_doc_node *map = dev_map(a), *gone = dev_items(a), *kept = dev_items(a);
    for (size_t i = 0; i < list->count; i++)
        if (checkpoints[i].is_completed)
            ebb_doc_append(a, is_deleted[i] ? gone : kept, ebb_doc_new_int(a, checkpoints[i].id));
    ebb_doc_set(a, map, "delete", gone);
    ebb_doc_set(a, map, "keep", kept);
    *computed = map;
    return EBB_OK;
}
