/* floor_sweep.c - plays the pebbling game within a number of bytes.
 *
 * The main level runs every node once, in order. What a node reads and does not find is made
 * again: the missing recipes, cut off at what lies there, are run in node order as a level of
 * their own, and so on downwards. While a level runs, what the nodes above wait for may itself
 * leave (it has a near use, so it is expensive); when they find it missing afterwards it is made
 * once more, this time with all they already have pinned: so every wait ends. */
#include "planner/floor_play.h"

#include <string.h>

#include "base/heap.h"

/* ---- levels ---------------------------------------------------------------------------------- */

/* The recipes of the targets of a level, cut off at what lies there. False: one is gone. */
static enum ebb_status collect(struct floor_play *w, struct floor_level *level, bool *is_possible)
{
    const struct plan_recipes *g = w->g;
    uint32_t lowest = UINT32_MAX, highest = 0, count = 0;
    *is_possible = true;
    while (w->stack_count > 0) {
        struct plan_ref ref = w->stack[--w->stack_count];
        for (uint32_t v = ref.version + 1; v-- > 0;) {
            uint32_t n = plan_version_of(g, ref.storage, v)->maker;
            const struct plan_node *node = &g->nodes[n];
            if (w->bitmap[n / 64] >> (n % 64) & 1)
                break;
            if (!node->is_replayable || n >= w->stage) {
                *is_possible = false;
                continue;
            }
            w->bitmap[n / 64] |= UINT64_C(1) << (n % 64);
            lowest = n < lowest ? n : lowest;
            highest = n > highest ? n : highest;
            count++;
            for (uint32_t i = 0; i < node->in_count; i++) {
                struct plan_ref in = g->ins[node->in_first + i];
                if (in.storage != ref.storage && !planner_floor_have(w, in) &&
                    !planner_floor_has_copy(w, in)) /* copies are fetched when wanted */
                    EBB_TRY(planner_floor_push(w, in));
            }
        }
    }
    EBB_TRY(
        ebb_grow(&level->seq, &level->seq_capacity, (size_t)count + 1, sizeof *level->seq, w->err));
    EBB_TRY(ebb_grow(&level->clock, &level->clock_capacity, (size_t)count + 1, sizeof *level->clock,
                     w->err)); /* clock[count]: all of it */
    level->count = level->at = 0;
    level->clock[0] = 0;
    for (uint32_t k = lowest / 64; count > 0 && k <= highest / 64; k++) {
        for (uint64_t bits = w->bitmap[k]; bits; bits &= bits - 1) {
            uint32_t n = k * 64 + (uint32_t)__builtin_ctzll(bits);
            level->clock[level->count + 1] = level->clock[level->count] + g->nodes[n].cost;
            level->seq[level->count++] = n;
            level->position[n] = level->count;
        }
        w->bitmap[k] = 0;
    }
    return EBB_OK;
}

static enum ebb_status run_node(struct floor_play *w, uint32_t n, bool *is_done);

static bool is_wanted(struct floor_play *w, const struct floor_level *level, struct plan_ref out)
{
    if (w->is_resident[out.storage] && w->version[out.storage] >= out.version)
        return false;
    if (planner_floor_level_use(w, level, out.storage, level->at + 1) != PLAN_NEVER)
        return true;
    for (uint32_t i = 0; w->targeted[out.storage] && i < level->target_count; i++)
        if (level->targets[i] == out.storage)
            return true;
    return false;
}

static enum ebb_status run_level(struct floor_play *w, struct floor_level *level, bool *is_done)
{
    const struct plan_recipes *g = w->g;
    *is_done = true;
    for (; level->at < level->count && *is_done; level->at++) {
        const struct plan_node *node = &g->nodes[level->seq[level->at]];
        bool wanted = false;
        for (uint32_t k = 0; k < node->out_count && !wanted; k++)
            wanted = is_wanted(w, level, g->outs[node->out_first + k]);
        if (wanted)
            EBB_TRY(run_node(w, level->seq[level->at], is_done));
    }
    return EBB_OK;
}

/* Run a level for the refs on the stack that are missing. */
static enum ebb_status descend(struct floor_play *w, bool *is_done)
{
    *is_done = false;
    if (w->depth == FLOOR_DEPTH)
        return EBB_OK;
    struct floor_level *level = &w->levels[w->depth];
    if (!level->position) {
        level->position =
            ebb_arena_calloc(&w->arena, (size_t)w->g->node_count + 1, sizeof *level->position);
        EBB_TRY(ebb_arena_status(&w->arena, w->err));
    }
    EBB_TRY(ebb_grow(&level->targets, &level->target_capacity, w->stack_count,
                     sizeof *level->targets, w->err));
    level->target_count = 0;
    for (size_t i = 0; i < w->stack_count; i++) {
        level->targets[level->target_count++] = w->stack[i].storage;
        w->targeted[w->stack[i].storage]++;
    }
    bool is_possible;
    enum ebb_status status = collect(w, level, &is_possible);
    w->depth++;
    if (status == EBB_OK && is_possible)
        status = run_level(w, level, is_done);
    w->depth--;
    for (uint32_t i = 0; i < level->count; i++)
        level->position[level->seq[i]] = 0;
    for (uint32_t i = 0; i < level->target_count; i++)
        w->targeted[level->targets[i]]--;
    /* what a run inside a deeper level made superfluous */
    for (uint32_t i = 0; i < level->count && status == EBB_OK && *is_done; i++) {
        const struct plan_node *node = &w->g->nodes[level->seq[i]];
        for (uint32_t k = 0; k < node->out_count && status == EBB_OK; k++) {
            uint32_t s = w->g->outs[node->out_first + k].storage;
            if (w->is_resident[s] && w->pins[s] == 0 && w->targeted[s] == 0 &&
                !planner_floor_is_useful(w, s))
                status = planner_floor_discard(w, s);
        }
    }
    return status;
}

static enum ebb_status hold(struct floor_play *w, uint32_t s)
{
    EBB_TRY(
        ebb_grow(&w->frames, &w->frame_capacity, w->frame_count + 1, sizeof *w->frames, w->err));
    w->frames[w->frame_count++] = s;
    w->pins[s]++;
    return EBB_OK;
}

static void let_go(struct floor_play *w, size_t frame)
{
    while (w->frame_count > frame)
        w->pins[w->frames[--w->frame_count]]--;
}

/* What node n wants: what it reads; at the main level then what must be restored. */
static struct plan_ref wanted_by(const struct plan_recipes *g, const struct plan_node *node,
                                 uint32_t i)
{
    return i < node->in_count ? g->ins[node->in_first + i]
                              : g->restores[node->restore_first + i - node->in_count];
}

/* Bring from lower tiers what is there, pinned. */
static enum ebb_status fetch(struct floor_play *w, const struct plan_node *node, bool *is_done)
{
    const struct plan_recipes *g = w->g;
    *is_done = true;
    bool has_copies = w->low_sum[DEVICE_HOST] + w->low_sum[DEVICE_FILE] > 0;
    for (uint32_t i = 0; i < node->in_count && has_copies && *is_done; i++) {
        struct plan_ref ref = wanted_by(g, node, i);
        if (planner_floor_have(w, ref) || !planner_floor_has_copy(w, ref))
            continue;
        *is_done = w->pins[ref.storage] == 0;
        if (*is_done && w->is_resident[ref.storage]) /* an older version, made on the way */
            EBB_TRY(planner_floor_clear(w, ref.storage));
        if (*is_done)
            EBB_TRY(planner_floor_make_room(w, g->storages[ref.storage].bytes, is_done));
        if (!*is_done)
            break;
        EBB_TRY(planner_floor_place(w, ref));
        EBB_TRY(planner_floor_emit(w, PLAN_FETCH, ref.storage));
        EBB_TRY(hold(w, ref.storage));
    }
    return EBB_OK;
}

/* Make everything node n reads lie there, pinned from frame on. */
static enum ebb_status bring(struct floor_play *w, uint32_t n, bool *is_done)
{
    const struct plan_recipes *g = w->g;
    const struct plan_node *node = &g->nodes[n];
    size_t frame = w->frame_count;
    uint32_t wants = node->in_count + (w->depth == 0 ? node->restore_count : 0);
    for (uint32_t round = 0;; round++) {
        let_go(w, frame);
        for (uint32_t i = 0; i < wants && round > 0; i++) {
            struct plan_ref ref = wanted_by(g, node, i);
            if (!planner_floor_have(w, ref))
                continue;
            if (w->rules->is_patient && i >= node->in_count)
                w->is_restored[ref.storage] = 1;
            else
                EBB_TRY(hold(w, ref.storage));
        }
        EBB_TRY(fetch(w, node, is_done));
        w->stack_count = 0;
        uint32_t later = 0; /* fetched and gone again: the next round holds the others */
        for (uint32_t i = 0; i < wants && *is_done; i++) {
            struct plan_ref ref = wanted_by(g, node, i);
            if (planner_floor_have(w, ref))
                continue;
            if (!planner_floor_has_copy(w, ref))
                EBB_TRY(planner_floor_push(w, ref));
            else
                later += i < node->in_count; /* a restore may stay below */
        }
        if (!*is_done || round > wants + 2) {
            *is_done = false;
            return EBB_OK;
        }
        if (w->stack_count == 0 && later == 0 && round > 0)
            break;
        if (w->stack_count > 0)
            EBB_TRY(descend(w, is_done));
        if (!*is_done)
            return EBB_OK;
    }
    *is_done = true;
    return EBB_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Is an output made when its node runs for the first time? */
static bool is_made_first(const struct floor_play *w, const struct plan_node *node,
                          const struct plan_storage *st)
{
    if (st->base != PLAN_NOWHERE)
        return true;
    bool is_skipped = w->rules->ways && st->use_count > 0 && node->is_replayable &&
                      node->can_skip && (w->rules->ways[st->use_first] & FLOOR_SKIP);
    return st->use_count > 0 && !is_skipped;
}

/* Which outputs are made: at the main level all that anybody will read; below, those the levels
 * want. Returns the bytes they need; *extra: workspace and scratch for the others. */
static uint64_t plan_outputs(struct floor_play *w, const struct plan_node *node, uint64_t *extra)
{
    const struct plan_recipes *g = w->g;
    uint64_t need = 0;
    w->placing_count = 0;
    *extra = node->workspace_bytes;
    for (uint32_t k = 0; k < node->out_count; k++) {
        struct plan_ref out = g->outs[node->out_first + k];
        const struct plan_storage *st = &g->storages[out.storage];
        if (out.version > 0)
            continue;
        bool wanted = !w->is_resident[out.storage] &&
                      (w->depth == 0 ? is_made_first(w, node, st)
                                     : is_wanted(w, &w->levels[w->depth - 1], out));
        if (wanted) {
            w->placing[w->placing_count++] = out.storage;
            need += st->base == PLAN_NOWHERE ? st->bytes : 0;
        } else if (!node->can_skip) {
            *extra += st->bytes;
        }
    }
    return need;
}

/* Outputs nobody waits for now but somebody will read: made too where they cost no room. */
static void add_bonus(struct floor_play *w, const struct plan_node *node, uint64_t *need,
                      uint64_t *extra)
{
    const struct plan_recipes *g = w->g;
    for (uint32_t k = 0; k < node->out_count && w->depth > 0 && node->out_count > 1; k++) {
        struct plan_ref out = g->outs[node->out_first + k];
        uint64_t bytes = g->storages[out.storage].bytes;
        bool is_listed = false;
        for (size_t i = 0; i < w->placing_count; i++)
            is_listed |= w->placing[i] == out.storage;
        bool is_old = w->copy[out.storage] != FLOOR_OUTDATED &&
                      w->copy[out.storage] > out.version + 1; /* what is read later lies below */
        if (is_listed || is_old || out.version > 0 || w->is_resident[out.storage] ||
            planner_floor_main_use(w, out.storage) == PLAN_NEVER)
            continue;
        uint64_t less = node->can_skip ? 0 : bytes;
        if (w->sum + *need + *extra + bytes - less > w->rules->budget_bytes)
            continue;
        w->placing[w->placing_count++] = out.storage;
        *need += bytes;
        *extra -= less;
    }
}

/* One stage may take a few times what everything before it took: more is thrashing, and the sooner
 * it ends the better. */
static bool is_too_long(struct floor_play *w, const struct plan_node *node)
{
    uint64_t spent = w->game->cost - w->stage_cost, runs = w->runs - w->stage_runs;
    uint64_t times = w->rules->stage_limit;
    w->runs++;
    w->game->work += 8;
    return w->game->work > w->rules->work_limit ||
           w->game->cost + node->cost > w->rules->cost_limit || w->runs > w->rules->run_limit ||
           spent > times * (w->g->clock[w->stage] + w->g->base_cost / 256) / 2 + node->cost ||
           runs > times * ((uint64_t)w->stage + 256) / 2;
}

/* No room: remember what was being made again, on all levels. */
static enum ebb_status remember(struct floor_play *w)
{
    struct floor_game *game = w->game;
    for (uint32_t d = 0; d < w->depth; d++) {
        const struct floor_level *level = &w->levels[d];
        EBB_TRY(ebb_grow(&game->missed, &game->missed_capacity,
                         game->missed_count + level->target_count + 1, sizeof *game->missed,
                         w->err));
        for (uint32_t i = 0; i < level->target_count; i++)
            game->missed[game->missed_count++] = level->targets[i];
    }
    return EBB_OK;
}

static enum ebb_status run_node(struct floor_play *w, uint32_t n, bool *is_done)
{
    const struct plan_recipes *g = w->g;
    const struct plan_node *node = &g->nodes[n];
    size_t frame = w->frame_count;
    uint64_t extra, need;
    EBB_TRY(bring(w, n, is_done));
    if (*is_done) {
        need = plan_outputs(w, node, &extra);
        EBB_TRY(planner_floor_make_room(w, need + extra, is_done));
        if (!*is_done)
            EBB_TRY(remember(w));
    }
    if (*is_done && is_too_long(w, node))
        *is_done = false;
    if (!*is_done) {
        let_go(w, frame);
        return EBB_OK;
    }
    add_bonus(w, node, &need, &extra);
    for (size_t i = 0; i < w->placing_count; i++)
        EBB_TRY(planner_floor_place(w, (struct plan_ref){w->placing[i], 0}));
    EBB_TRY(planner_floor_emit(w, PLAN_RUN, node->op));
    w->game->cost += node->cost;
    w->game->reruns[n] |= w->depth > 0;
    if (w->sum + extra > w->game->peak_bytes)
        w->game->peak_bytes = w->sum + extra;
    for (uint32_t k = 0; k < node->out_count; k++) {
        struct plan_ref out = g->outs[node->out_first + k];
        if (out.version > 0) {
            w->version[out.storage] = out.version;
            w->there[out.storage] = w->is_resident[out.storage] ? out.version + 1 : 0;
            EBB_TRY(planner_floor_outdate(w, out.storage));
        }
    }
    let_go(w, frame);
    for (uint32_t i = 0; i < node->restore_count && w->depth == 0; i++)
        w->is_restored[g->restores[node->restore_first + i].storage] = 0;
    if (w->depth == 0)
        w->stage++;
    else
        w->levels[w->depth - 1].at++; /* it has run: what it read counts no more */
    enum ebb_status status = EBB_OK;
    for (uint32_t k = 0; k < node->in_count + node->out_count && status == EBB_OK; k++) {
        uint32_t s = k < node->in_count ? g->ins[node->in_first + k].storage
                                        : g->outs[node->out_first + k - node->in_count].storage;
        if (k < node->in_count)
            w->game->last_stage[s] = w->depth == 0 ? n : w->stage;
        if (w->is_resident[s] && w->pins[s] == 0 && !planner_floor_is_useful(w, s))
            status = planner_floor_discard(w, s);
    }
    if (w->depth > 0)
        w->levels[w->depth - 1].at--;
    return status;
}

/* A leaf that need not run: its bytes are at home. */
static bool lives_below(const struct plan_recipes *g, const struct plan_node *node)
{
    return node->is_leaf && node->out_count && g->storages[g->outs[node->out_first].storage].home;
}

/* At the beginning what has a home below is there; at the end all of it is again. */
static void move_in(struct floor_play *w)
{
    for (uint32_t s = 0; s < w->g->storage_count; s++) {
        const struct plan_storage *st = &w->g->storages[s];
        w->copy[s] = st->home ? 1 : 0;
        w->copy_tier[s] = st->home;
        w->has_below |= st->home != 0;
        w->low_sum[st->home] += st->home ? st->bytes : 0;
    }
}

static enum ebb_status move_out(struct floor_play *w)
{
    for (uint32_t s = 0; s < w->g->storage_count; s++)
        if (w->g->storages[s].home && w->is_resident[s])
            EBB_TRY(planner_floor_discard(w, s));
    return EBB_OK;
}

/* What the forward pass reads no more leaves behind its last reader there. */
static enum ebb_status part(struct floor_play *w, const struct plan_node *node, bool *is_done)
{
    const struct plan_recipes *g = w->g;
    for (uint32_t k = 0; w->rules->fates && k < node->in_count + node->out_count && *is_done; k++) {
        uint32_t s = k < node->in_count ? g->ins[node->in_first + k].storage
                                        : g->outs[node->out_first + k - node->in_count].storage;
        const struct planner_fate *fate = &w->rules->fates[s];
        if (fate->way != PLANNER_FREE && fate->after == node->op && w->is_resident[s])
            EBB_TRY(planner_floor_part(w, s, is_done));
    }
    return EBB_OK;
}

static enum ebb_status play(struct floor_play *w)
{
    const struct plan_recipes *g = w->g;
    bool is_done = true;
    for (uint32_t n = 0; n < g->node_count && is_done; n++) {
        if (lives_below(g, &g->nodes[n])) {
            w->stage++;
            continue;
        }
        w->stage_cost = w->game->cost;
        w->stage_runs = w->runs;
        EBB_TRY(run_node(w, n, &is_done));
        if (is_done)
            EBB_TRY(part(w, &g->nodes[n], &is_done));
        for (uint32_t i = 0; i < g->nodes[n].end_count && is_done; i++) {
            uint32_t s = g->ends[g->nodes[n].end_first + i];
            if (g->storages[s].base == PLAN_NOWHERE && !planner_floor_is_useful(w, s))
                EBB_TRY(planner_floor_discard(w, s));
        }
    }
    if (is_done)
        EBB_TRY(bring(w, g->node_count, &is_done));
    EBB_TRY(move_out(w));
    w->game->is_won = is_done;
    w->game->stage = w->stage;
    return EBB_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Last node that reads it, or a smaller version made of it. */
static uint32_t helps_until(const struct plan_recipes *g, struct plan_ref ref)
{
    const struct plan_storage *st = &g->storages[ref.storage];
    uint32_t until = plan_version_of(g, ref.storage, ref.version)->last_use;
    for (uint32_t u = 0; u < st->use_count; u++) {
        const struct plan_node *node = &g->nodes[g->uses[st->use_first + u]];
        if (!planner_floor_is_source(g, node, ref.storage))
            continue;
        struct plan_ref out = g->outs[node->out_first];
        uint32_t last = plan_version_of(g, out.storage, out.version)->last_use;
        until = last > until ? last : until;
    }
    return until;
}

/* Recipes as walks read them. */
static enum ebb_status list_inputs(struct floor_play *w)
{
    const struct plan_recipes *g = w->g;
    size_t count = 0, at = 0;
    for (uint32_t n = 0; n < g->node_count; n++)
        count += g->nodes[n].in_count;
    w->walk_nodes = ebb_arena_calloc(&w->arena, (size_t)g->node_count + 1, sizeof *w->walk_nodes);
    w->walk_inputs = ebb_arena_calloc(&w->arena, count + 1, sizeof *w->walk_inputs);
    w->walk = ebb_arena_calloc(&w->arena, count + 1, sizeof *w->walk);
    EBB_TRY(ebb_arena_status(&w->arena, w->err));
    for (uint32_t n = 0; n < g->node_count; n++) {
        const struct plan_node *node = &g->nodes[n];
        w->walk_nodes[n] = (struct floor_node){
            .cost = node->cost + 1, .in_first = (uint32_t)at, .in_count = node->in_count};
        for (uint32_t i = 0; i < node->in_count; i++) {
            struct plan_ref ref = g->ins[node->in_first + i];
            const struct plan_version *v = plan_version_of(g, ref.storage, ref.version);
            w->walk_inputs[at++] =
                (struct floor_input){.storage = ref.storage,
                                     .version = ref.version,
                                     .maker = v->maker,
                                     .until = v->expire == 0            ? PLAN_NEVER
                                              : w->rules->keeps_sources ? helps_until(g, ref)
                                                                        : v->last_use};
        }
    }
    return EBB_OK;
}

static enum ebb_status allocate(struct floor_play *w)
{
    size_t storages = (size_t)w->g->storage_count + 1, nodes = (size_t)w->g->node_count + 1;
    struct ebb_arena *a = &w->arena;
    w->is_resident = ebb_arena_calloc(a, storages, 1);
    w->version = ebb_arena_calloc(a, storages, 4);
    w->there = ebb_arena_calloc(a, storages, 4);
    w->pins = ebb_arena_calloc(a, storages, 4);
    w->targeted = ebb_arena_calloc(a, storages, 4);
    w->is_restored = ebb_arena_calloc(a, storages, 1);
    w->use_at = ebb_arena_calloc(a, storages, 4);
    w->next = ebb_arena_calloc(a, storages, 4);
    w->prev = ebb_arena_calloc(a, storages, 4);
    w->copy = ebb_arena_calloc(a, storages, 4);
    w->copy_tier = ebb_arena_calloc(a, storages, 1);
    w->list_of = ebb_arena_calloc(a, storages, 1);
    w->placing = ebb_arena_calloc(a, storages, 4);
    w->known_cost = ebb_arena_calloc(a, storages, 8);
    w->candidates = ebb_arena_calloc(a, storages, sizeof *w->candidates);
    w->mark = ebb_arena_calloc(a, nodes, 4);
    w->bitmap = ebb_arena_calloc(a, nodes / 64 + 1, 8);
    EBB_TRY(ebb_arena_status(a, w->err));
    EBB_TRY(list_inputs(w));
    EBB_TRY(ebb_new(&w->game->reruns, nodes, 1, w->err));
    return ebb_new(&w->game->last_stage, storages, 4, w->err);
}

static void release(struct floor_play *w)
{
    ebb_free(w->stack);
    ebb_free(w->frames);
    for (int d = 0; d < FLOOR_DEPTH; d++) {
        ebb_free(w->levels[d].seq);
        ebb_free(w->levels[d].clock);
        ebb_free(w->levels[d].targets);
    }
    ebb_arena_fini(&w->arena);
}

enum ebb_status planner_floor_play(const struct plan_recipes *graph,
                                   const struct floor_rules *rules, struct floor_game *game,
                                   struct ebb_error *err)
{
    struct floor_play w = {.g = graph, .rules = rules, .game = game, .err = err};
    *game = (struct floor_game){0};
    plan_init(&game->plan);
    memset(w.heads, 0xff, sizeof w.heads);
    w.is_plain = !rules->tiers && !rules->ways && !rules->demands && !rules->fates && !rules->dear;
    w.has_below = rules->tiers != NULL;
    w.sum = graph->base_bytes;
    game->peak_bytes = w.sum;
    enum ebb_status status = allocate(&w);
    if (rules->tiers && rules->tiers->homes)
        EBB_THEN(status, plan_homes_copy(&game->plan.homes, rules->tiers->homes, err));
    if (status == EBB_OK)
        move_in(&w);
    if (status == EBB_OK && w.sum <= rules->budget_bytes)
        status = play(&w);
    release(&w);
    if (status != EBB_OK)
        planner_floor_game_fini(game);
    return status;
}

void planner_floor_game_fini(struct floor_game *game)
{
    plan_fini(&game->plan);
    ebb_free(game->reruns);
    ebb_free(game->last_stage);
    ebb_free(game->missed);
    *game = (struct floor_game){0};
}
