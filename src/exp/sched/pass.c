/* pass.c - one scheduling pass: fair share by progressive filling, or priority by round robin. */
#include "exp/sched/place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct state { /* of a group that counts */
    size_t group;
    double weight;
    int64_t demand, active, offered;
    int64_t smallest_pending; /* 0 = nothing pending */
    bool is_disabled;
};

struct pass {
    const struct exp_sched_input *input;
    struct exp_sched_cluster cluster;
    struct exp_sched_decision *decisions;
    struct exp_sched_share *shares;
    bool *is_counted;           /* by task, see counts() */
    size_t *first_of, *next_of; /* tasks of a group in their order; task_count ends the list */
    struct ebb_arena *arena;
};

static enum ebb_status start(struct pass *pass, size_t task, bool *is_placed, struct ebb_error *err)
{
    return exp_sched_place(&pass->cluster, task, &pass->decisions[task], is_placed, err);
}

static bool is_pending(const struct pass *pass, size_t task)
{
    return pass->input->tasks[task].state == EXP_TASK_PENDING &&
           pass->decisions[task].action == EXP_SCHED_KEEP;
}

/* ---- fair share ---- */

/* Counted: not gone, needs slots, and the agents of its label could hold it. */
static bool counts(const struct exp_sched_input *input, const struct exp_sched_task *task)
{
    return task->state != EXP_TASK_TERMINATED && task->slots > 0 &&
           task->slots <= exp_sched_capacity(input, task->label);
}

static void add_task(struct state *state, const struct exp_sched_task *task)
{
    state->demand += task->slots;
    if (task->state == EXP_TASK_RUNNING)
        state->active += task->slots;
    if (task->state == EXP_TASK_PENDING &&
        (state->smallest_pending == 0 || task->slots < state->smallest_pending))
        state->smallest_pending = task->slots;
}

/* The groups whose earliest counted task has this label. */
static size_t collect(const struct pass *pass, const char *const *label_of, const char *label,
                      struct state *states)
{
    const struct exp_sched_input *input = pass->input;
    size_t count = 0;
    for (size_t g = 0; g < input->group_count; g++) {
        if (label_of[g] == NULL || strcmp(label_of[g], label) != 0)
            continue;
        struct state *state = &states[count++];
        *state = (struct state){.group = g, .weight = input->groups[g].weight};
        for (size_t t = pass->first_of[g]; t < input->task_count; t = pass->next_of[t])
            if (pass->is_counted[t])
                add_task(state, &input->tasks[t]);
        int64_t limit = input->groups[g].max_slots;
        if (limit >= 0 && state->demand > limit)
            state->demand = limit;
    }
    return count;
}

static int by_demand(const void *a, const void *b)
{
    const struct state *x = a, *y = b;
    if (x->demand != y->demand)
        return x->demand < y->demand ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

static double total_weight(const struct state *states, size_t count)
{
    double total = 0;
    for (size_t i = 0; i < count; i++)
        if (!states[i].is_disabled && states[i].offered < states[i].demand)
            total += states[i].weight;
    return total;
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The latest registered group that was offered something, but not enough for any task of its own.
 */
static struct state *find_starved(struct state *states, size_t count)
{
    struct state *found = NULL;
    for (size_t i = 0; i < count; i++) {
        struct state *s = &states[i];
        if (!s->is_disabled && s->offered != s->demand && s->smallest_pending > s->offered &&
            (found == NULL || s->group > found->group))
            found = s;
    }
    return found;
}

/* One round: everybody who wants more gets a share of what was there at its beginning. */
static bool offer_round(struct state *states, size_t count, int64_t *capacity, double *total,
                        size_t *left)
{
    bool progressed = false;
    int64_t at_start = *capacity;
    for (size_t i = 0; i < count; i++) {
        struct state *s = &states[i];
        if (s->is_disabled || s->offered == s->demand)
            continue;
        double part = (double)at_start * s->weight / *total;
        int64_t share = part >= 1 ? (int64_t)fmin(part, (double)at_start) : 1;
        int64_t offer = min_of(share, min_of(*capacity, s->demand - s->offered));
        s->offered += offer;
        *capacity -= offer;
        progressed = true;
        if (s->offered == s->demand) {
            --*left;
            *total = total_weight(states, count); /* also in the middle of a round */
        }
    }
    return progressed;
}

static void offer(struct state *states, size_t count, int64_t capacity)
{
    double total = total_weight(states, count);
    size_t left = count;
    while (left > 0) {
        bool progressed = offer_round(states, count, &capacity, &total, &left);
        if (capacity > 0) {
            if (!progressed)
                return;
            continue;
        }
        struct state *starved = find_starved(states, count);
        if (starved == NULL)
            return;
        capacity += starved->offered; /* gangs that wait for each other: the latest gives way */
        starved->offered = 0;
        starved->is_disabled = true;
        left--;
        total = total_weight(states, count);
    }
}

static void stop_tasks(struct pass *pass, struct state *state)
{
    for (size_t t = pass->first_of[state->group];
         t < pass->input->task_count && state->active > state->offered; t = pass->next_of[t]) {
        const struct exp_sched_task *task = &pass->input->tasks[t];
        if (task->state != EXP_TASK_RUNNING || task->slots == 0 || task->is_non_preemptible ||
            !pass->is_counted[t])
            continue;
        pass->decisions[t].action = EXP_SCHED_STOP;
        state->active -= task->slots;
    }
}

static enum ebb_status start_tasks(struct pass *pass, struct state *state, struct ebb_error *err)
{
    int64_t budget = state->offered - state->active;
    for (size_t t = pass->first_of[state->group]; t < pass->input->task_count && budget > 0;
         t = pass->next_of[t]) {
        const struct exp_sched_task *task = &pass->input->tasks[t];
        bool is_placed;
        if (!is_pending(pass, t) || !pass->is_counted[t] || task->slots > budget)
            continue;
        EBB_TRY(start(pass, t, &is_placed, err));
        if (is_placed)
            budget -= task->slots;
    }
    return EBB_OK;
}

static enum ebb_status share_label(struct pass *pass, const char *const *label_of,
                                   const char *label, struct state *states, struct ebb_error *err)
{
    size_t count = collect(pass, label_of, label, states);
    qsort(states, count, sizeof *states, by_demand);
    offer(states, count, exp_sched_capacity(pass->input, label));
    for (size_t i = 0; i < count; i++) {
        struct state *s = &states[i];
        pass->shares[s->group] = (struct exp_sched_share){
            .is_counted = true, .demand = s->demand, .offered = s->offered};
        if (s->active > s->offered)
            stop_tasks(pass, s); /* never both in one pass: slots are not free at once */
        else if (s->active < s->offered)
            EBB_TRY(start_tasks(pass, s, err));
    }
    return EBB_OK;
}

static enum ebb_status fair_share(struct pass *pass, struct ebb_error *err)
{
    const struct exp_sched_input *input = pass->input;
    const char **label_of = ebb_arena_calloc(pass->arena, input->group_count + 1, sizeof *label_of);
    struct state *states = ebb_arena_calloc(pass->arena, input->group_count + 1, sizeof *states);
    if (label_of == NULL || states == NULL)
        return ebb_no_memory(err, input->group_count * sizeof *states);
    for (size_t t = 0; t < input->task_count; t++) {
        bool is_placed;
        if (input->tasks[t].slots == 0 && is_pending(pass, t))
            EBB_TRY(start(pass, t, &is_placed, err));
        if (label_of[input->tasks[t].group] == NULL && pass->is_counted[t])
            label_of[input->tasks[t].group] = input->tasks[t].label;
    }
    for (size_t g = 0; g < input->group_count; g++) { /* each label once, at its first group */
        bool is_new = label_of[g] != NULL;
        for (size_t before = 0; is_new && before < g; before++)
            is_new = label_of[before] == NULL || strcmp(label_of[before], label_of[g]) != 0;
        if (is_new)
            EBB_TRY(share_label(pass, label_of, label_of[g], states, err));
    }
    return EBB_OK;
}

/* ---- priority ---- */

static int by_held(const void *a, const void *b)
{
    const struct state *x = a, *y = b;
    if (x->active != y->active)
        return x->active < y->active ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

/* The group's oldest pending task starts, or the group is out. */
static enum ebb_status take_turn(struct pass *pass, struct state *state, struct ebb_error *err)
{
    for (size_t t = pass->first_of[state->group]; t < pass->input->task_count;
         t = pass->next_of[t]) {
        bool is_placed;
        if (!is_pending(pass, t))
            continue;
        EBB_TRY(start(pass, t, &is_placed, err));
        state->is_disabled = !is_placed;
        return EBB_OK;
    }
    state->is_disabled = true;
    return EBB_OK;
}

static enum ebb_status priority(struct pass *pass, struct ebb_error *err)
{
    const struct exp_sched_input *input = pass->input;
    struct state *states = ebb_arena_calloc(pass->arena, input->group_count + 1, sizeof *states);
    if (states == NULL)
        return ebb_no_memory(err, input->group_count * sizeof *states);
    for (size_t g = 0; g < input->group_count; g++)
        states[g].group = g;
    for (size_t t = 0; t < input->task_count; t++)
        if (input->tasks[t].state == EXP_TASK_RUNNING ||
            input->tasks[t].state == EXP_TASK_TERMINATING)
            states[input->tasks[t].group].active += input->tasks[t].slots;
    qsort(states, input->group_count, sizeof *states, by_held);
    for (bool is_left = true; is_left;) {
        is_left = false;
        for (size_t i = 0; i < input->group_count; i++) {
            if (states[i].is_disabled)
                continue;
            EBB_TRY(take_turn(pass, &states[i], err));
            is_left |= !states[i].is_disabled;
        }
    }
    return EBB_OK;
}

/* ---- the pass ---- */

/* Slot counts stay below this, so that no sum can overflow. */
#define SLOTS_MAX ((int64_t)1 << 32)

static enum ebb_status check_task(const struct exp_sched_input *input,
                                  const struct exp_sched_task *task, struct ebb_error *err)
{
    if (task->group >= input->group_count || task->slots < 0 || task->slots > SLOTS_MAX)
        return ebb_fail(err, EBB_EINPUT, "scheduler: task %s: group %zu of %zu, %lld slots",
                        task->id, task->group, input->group_count, (long long)task->slots);
    for (size_t p = 0; p < task->placement_count; p++)
        if (task->placements[p].agent >= input->agent_count || task->placements[p].slots < 0)
            return ebb_fail(err, EBB_EINPUT, "scheduler: task %s runs on agent %zu of %zu",
                            task->id, task->placements[p].agent, input->agent_count);
    return EBB_OK;
}

static enum ebb_status check(const struct exp_sched_input *input, struct ebb_error *err)
{
    for (size_t a = 0; a < input->agent_count; a++)
        if (input->agents[a].slots < 0 || input->agents[a].slots > SLOTS_MAX)
            return ebb_fail(err, EBB_EINPUT, "scheduler: agent %s has %lld slots",
                            input->agents[a].id, (long long)input->agents[a].slots);
    for (size_t g = 0; g < input->group_count; g++)
        if (!(input->groups[g].weight > 0) || isinf(input->groups[g].weight))
            return ebb_fail(err, EBB_EINPUT, "scheduler: group %s has weight %g",
                            input->groups[g].id, input->groups[g].weight);
    for (size_t t = 0; t < input->task_count; t++)
        EBB_TRY(check_task(input, &input->tasks[t], err));
    return EBB_OK;
}

/* Lists of each group's tasks, so that a pass is linear in the tasks. */
static enum ebb_status sort_tasks(struct pass *pass, struct ebb_error *err)
{
    const struct exp_sched_input *input = pass->input;
    pass->first_of = ebb_arena_calloc(pass->arena, input->group_count + 1, sizeof *pass->first_of);
    pass->next_of = ebb_arena_calloc(pass->arena, input->task_count + 1, sizeof *pass->next_of);
    if (pass->first_of == NULL || pass->next_of == NULL)
        return ebb_no_memory(err, input->task_count * sizeof *pass->next_of);
    for (size_t g = 0; g < input->group_count; g++)
        pass->first_of[g] = input->task_count;
    for (size_t t = input->task_count; t-- > 0;) {
        size_t *first = &pass->first_of[input->tasks[t].group];
        pass->next_of[t] = *first;
        *first = t;
    }
    return EBB_OK;
}

enum ebb_status exp_sched_pass(const struct exp_sched_input *input, struct ebb_arena *arena,
                               struct exp_sched_output *output, struct ebb_error *err)
{
    struct pass pass = {.input = input, .arena = arena};
    EBB_TRY(check(input, err));
    EBB_TRY(exp_sched_cluster_init(&pass.cluster, input, arena, err));
    pass.decisions = ebb_arena_calloc(arena, input->task_count + 1, sizeof *pass.decisions);
    pass.shares = ebb_arena_calloc(arena, input->group_count + 1, sizeof *pass.shares);
    pass.is_counted = ebb_arena_calloc(arena, input->task_count + 1, sizeof *pass.is_counted);
    if (pass.decisions == NULL || pass.shares == NULL || pass.is_counted == NULL)
        return ebb_no_memory(err, input->task_count * sizeof *pass.decisions);
    EBB_TRY(sort_tasks(&pass, err));
    for (size_t t = 0; t < input->task_count; t++)
        pass.is_counted[t] = counts(input, &input->tasks[t]);
    if (input->kind == EXP_SCHED_FAIR_SHARE)
        EBB_TRY(fair_share(&pass, err));
    else
        EBB_TRY(priority(&pass, err));
    for (size_t t = 0; t < input->task_count; t++)
        if (is_pending(&pass, t) && pass.decisions[t].wait == EXP_WAIT_NONE)
            pass.decisions[t].wait =
                input->tasks[t].slots > exp_sched_capacity(input, input->tasks[t].label)
                    ? EXP_WAIT_TOO_LARGE
                    : EXP_WAIT_SHARE;
    *output = (struct exp_sched_output){.decisions = pass.decisions, .shares = pass.shares};
    return EBB_OK;
}

const char *exp_task_state_text(enum exp_task_state state)
{
    static const char *const texts[] = {"PENDING", "RUNNING", "TERMINATING", "TERMINATED"};
    return texts[state];
}

const char *exp_sched_wait_text(enum exp_sched_wait wait)
{
    static const char *const texts[] = {
        "",
        "its experiment has no share of the slots left (max_slots, weight, disabled slots)",
        "the slots are busy",
        "needs more slots than all agents with its label have",
        "no set of agents can hold it: a gang takes whole agents of one size",
    };
    return texts[wait];
}
