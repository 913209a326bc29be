/* place.c - see place.h. A gang of two slots or more takes whole agents of one size, all or
 * nothing. */
#include "exp/sched/place.h"

#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/heap.h"

struct candidate {
    size_t agent;
    double score;
    uint64_t distance;
    const char *id;
};

/* Addresses are "/" + id: the spelling that the tie-breaking hash is defined on. */
static enum ebb_status hash_address(struct ebb_arena *arena, const char *id, uint64_t *hash,
                                    struct ebb_error *err)
{
    const char *address = ebb_arena_printf(arena, "/%s", id);
    if (address == NULL)
        return ebb_no_memory(err, strlen(id) + 2);
    return ebb_md5_head(address, hash, err);
}

enum ebb_status exp_sched_cluster_init(struct exp_sched_cluster *cluster,
                                       const struct exp_sched_input *input, struct ebb_arena *arena,
                                       struct ebb_error *err)
{
    *cluster = (struct exp_sched_cluster){.input = input, .arena = arena};
    cluster->free = ebb_arena_calloc(arena, input->agent_count + 1, sizeof *cluster->free);
    cluster->hash = ebb_arena_calloc(arena, input->agent_count + 1, sizeof *cluster->hash);
    if (cluster->free == NULL || cluster->hash == NULL)
        return ebb_no_memory(err, input->agent_count * sizeof *cluster->free);
    for (size_t a = 0; a < input->agent_count; a++) {
        cluster->free[a] = input->agents[a].slots;
        EBB_TRY(hash_address(arena, input->agents[a].id, &cluster->hash[a], err));
    }
    for (size_t t = 0; t < input->task_count; t++) {
        const struct exp_sched_task *task = &input->tasks[t];
        if (task->state != EXP_TASK_RUNNING && task->state != EXP_TASK_TERMINATING)
            continue;
        for (size_t p = 0; p < task->placement_count; p++)
            cluster->free[task->placements[p].agent] -= task->placements[p].slots;
    }
    return EBB_OK;
}

int64_t exp_sched_capacity(const struct exp_sched_input *input, const char *label)
{
    int64_t sum = 0;
    for (size_t a = 0; a < input->agent_count; a++)
        if (strcmp(input->agents[a].label, label) == 0)
            sum += input->agents[a].slots;
    return sum;
}

static double score(const struct exp_sched_cluster *cluster, size_t agent)
{
    double free = (double)cluster->free[agent], all = (double)cluster->input->agents[agent].slots;
    if (cluster->input->fit == EXP_FIT_BEST)
        return 1.0 / (1.0 + free);
    return all > 0 ? free / all : 0;
}

static int best_first(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return strcmp(x->id, y->id);
}

/* Slots that a candidate must have free; size > 0: only agents of exactly that size. */
struct need {
    int64_t free, size;
};

/* The agents of the task's label that meet the need, best first. */
static enum ebb_status rank(const struct exp_sched_cluster *cluster,
                            const struct exp_sched_task *task, struct need need,
                            struct candidate **list, size_t *count, struct ebb_error *err)
{
    const struct exp_sched_input *input = cluster->input;
    uint64_t hash = 0;
    EBB_TRY(hash_address(cluster->arena, task->id, &hash, err));
    *list = ebb_arena_calloc(cluster->arena, input->agent_count + 1, sizeof **list);
    if (*list == NULL)
        return ebb_no_memory(err, input->agent_count * sizeof **list);
    *count = 0;
    for (size_t a = 0; a < input->agent_count; a++) {
        const struct exp_sched_agent *agent = &input->agents[a];
        if (strcmp(agent->label, task->label) != 0 || cluster->free[a] < need.free ||
            (need.size > 0 && agent->slots != need.size))
            continue;
        (*list)[(*count)++] = (struct candidate){.agent = a,
                                                 .score = score(cluster, a),
                                                 .distance = hash - cluster->hash[a],
                                                 .id = agent->id};
    }
    qsort(*list, *count, sizeof **list, best_first);
    return EBB_OK;
}

/* Largest agent size n of the label with k mod n = 0 and enough agents for k; 0 = none. */
static int64_t gang_size(const struct exp_sched_input *input, const char *label, int64_t k)
{
    int64_t best = 0;
    for (size_t a = 0; a < input->agent_count; a++) {
        int64_t n = input->agents[a].slots, agents = 0;
        if (strcmp(input->agents[a].label, label) != 0 || n <= best || k % n != 0)
            continue;
        for (size_t i = 0; i < input->agent_count; i++)
            agents += strcmp(input->agents[i].label, label) == 0 && input->agents[i].slots == n;
        if (agents >= k / n)
            best = n;
    }
    return best;
}

static int64_t largest_agent(const struct exp_sched_input *input, const char *label)
{
    int64_t most = 0;
    for (size_t a = 0; a < input->agent_count; a++)
        if (strcmp(input->agents[a].label, label) == 0 && input->agents[a].slots > most)
            most = input->agents[a].slots;
    return most;
}

/* Take `each` slots of the first `count` candidates. */
static enum ebb_status take(struct exp_sched_cluster *cluster, const struct candidate *list,
                            size_t count, int64_t each, struct exp_sched_decision *decision,
                            struct ebb_error *err)
{
    struct exp_placement *places = ebb_arena_calloc(cluster->arena, count + 1, sizeof *places);
    if (places == NULL)
        return ebb_no_memory(err, count * sizeof *places);
    for (size_t i = 0; i < count; i++) {
        places[i] = (struct exp_placement){.agent = list[i].agent, .slots = each};
        cluster->free[list[i].agent] -= each;
    }
    *decision = (struct exp_sched_decision){
        .action = EXP_SCHED_START, .placements = places, .placement_count = count};
    return EBB_OK;
}

static enum exp_sched_wait reason(const struct exp_sched_input *input,
                                  const struct exp_sched_task *task)
{
    int64_t k = task->slots;
    if (k > exp_sched_capacity(input, task->label))
        return EXP_WAIT_TOO_LARGE;
    if (k >= 2 && gang_size(input, task->label, k) == 0 &&
        !(input->allow_partial_agents && k <= largest_agent(input, task->label)))
        return EXP_WAIT_NEVER_FITS;
    return EXP_WAIT_FIT;
}

enum ebb_status exp_sched_place(struct exp_sched_cluster *cluster, size_t task,
                                struct exp_sched_decision *decision, bool *is_placed,
                                struct ebb_error *err)
{
    const struct exp_sched_input *input = cluster->input;
    const struct exp_sched_task *t = &input->tasks[task];
    struct candidate *list = NULL;
    size_t count = 0;
    *is_placed = true;
    if (t->slots >= 2) {
        int64_t n = gang_size(input, t->label, t->slots);
        if (n > 0) {
            EBB_TRY(rank(cluster, t, (struct need){.free = n, .size = n}, &list, &count, err));
            if ((int64_t)count >= t->slots / n)
                return take(cluster, list, (size_t)(t->slots / n), n, decision, err);
        }
    }
    if (t->slots < 2 || input->allow_partial_agents) {
        EBB_TRY(rank(cluster, t, (struct need){.free = t->slots}, &list, &count, err));
        if (count > 0)
            return take(cluster, list, 1, t->slots, decision, err);
    }
    *is_placed = false;
    decision->wait = reason(input, t);
    return EBB_OK;
}
