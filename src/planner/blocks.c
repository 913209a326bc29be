/* blocks.c - a seed for steps that are a chain of blocks: which block inputs are checkpoints, and
 * when, by dynamic programming.
 *
 * A block is a run of forward nodes between two places where little crosses; what crosses is its
 * *input*. The backward pass meets the blocks in reverse. opt(u, a, b) = least time to run the
 * backward passes of blocks b..a while u bytes of checkpoints lie there, the input of a among
 * them:
 *   a = b           the inside of a is made again from its input, if u leaves room for it
 *   input of j too  forward to j, then opt(u + input, j, b), then opt(u, a, j - 1)
 *   some of a, too  forward to a + 1, then opt(u + some + input, a + 1, b), then the rest of a is
 *                   made again; a few choices of what stays, by time saved per byte
 * How much room a backward pass needs is not known: two figures (everything read later stays; only
 * what the running op reads) give a scale, and several places on it are tried. Repair and the exact
 * evaluation decide. */
#include "planner/blocks.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "planner/best.h"

#define MOST_BLOCKS 64
#define UNITS 512 /* room is counted in this many parts */
#define MOST_CHOICES 6
#define EXACT_WORK 40000000 /* of a repair: some tenths of a second */
#define NEAR 16             /* nodes: so far a narrow place is compared with others */

struct planner_blocks {
    const struct planner_graph *g;
    struct ebb_arena arena; /* owns the arrays */
    uint32_t forward_end;   /* first node of the backward pass */
    uint32_t count;
    uint32_t begin[MOST_BLOCKS + 1]; /* first node of each block; the last: forward_end */
    uint32_t start[MOST_BLOCKS];     /* stage at which its backward pass begins */
    uint32_t last[MOST_BLOCKS];      /* last stage that reads its input or its inside */
    uint64_t input[MOST_BLOCKS];     /* bytes */
    /* what may stay of a block: nested choices, the first is nothing */
    uint32_t choice_count[MOST_BLOCKS];
    uint64_t stays[MOST_BLOCKS][MOST_CHOICES]; /* bytes */
    double again[MOST_BLOCKS][MOST_CHOICES];   /* time to make the rest again */
    uint32_t *rank;  /* node -> first choice in which its outputs stay; MOST_CHOICES: none */
    uint8_t *needed; /* node -> it runs again; scratch */
    uint64_t least[MOST_BLOCKS],
        most[MOST_BLOCKS]; /* bytes of its backward pass, by both figures */
    double cost[MOST_BLOCKS];
    uint32_t *block;    /* node -> block */
    uint64_t *crossing; /* node -> bytes that cross just before it */
    double *time;       /* node -> time of all before it */
    /* the program: sizes in units */
    uint32_t in_units[MOST_BLOCKS], stay_units[MOST_BLOCKS][MOST_CHOICES];
    int32_t room[MOST_BLOCKS];
    float *opt;    /* [(a * count + b) * (UNITS + 1) + u] */
    int16_t *pick; /* j: input of j; a: at once; count + k: choice k of a; -1: impossible */
};

static bool is_movable(const struct planner_graph *g, uint32_t item)
{
    return !g->items[item].is_fixed && g->items[item].bytes > 0;
}

/* Last forward node that reads it; its maker when none does. */
static uint32_t last_forward_use(const struct planner_blocks *c, uint32_t item)
{
    return planner_graph_last_use_before(c->g, &c->g->items[item], c->forward_end);
}

static uint32_t last_use(const struct planner_blocks *c, uint32_t item)
{
    const struct planner_item *it = &c->g->items[item];
    if (it->is_kept)
        return c->g->node_count - 1;
    return planner_graph_last_use(c->g, it, it->node);
}

/* ---- the blocks ------------------------------------------------------------------------------ */

static void find_crossing(struct planner_blocks *c)
{
    const struct planner_graph *g = c->g;
    for (uint32_t i = 0; i < g->item_count; i++)
        if (is_movable(g, i) && g->items[i].node < c->forward_end) {
            uint32_t last = last_forward_use(c, i);
            c->crossing[g->items[i].node + 1] += g->items[i].bytes;
            c->crossing[last + 1] -= g->items[i].bytes; /* wraps and comes back */
        }
    for (uint32_t v = 1; v <= c->forward_end; v++)
        c->crossing[v] += c->crossing[v - 1];
}

/* Is what crosses before v no more than beside it, and not much more than anywhere near? */
static bool is_narrow(const struct planner_blocks *c, uint32_t v)
{
    uint64_t here = c->crossing[v];
    uint32_t low = v > NEAR ? v - NEAR : 1;
    if (here == 0 || c->g->nodes[v].is_fixed || here > c->crossing[v - 1] ||
        (v + 1 < c->forward_end && here > c->crossing[v + 1]))
        return false;
    for (uint32_t u = low; u <= v + NEAR && u < c->forward_end; u++)
        if (c->crossing[u] > 0 && here / 3 > c->crossing[u] / 2)
            return false;
    return true;
}

/* Join neighbours that cost least together until there are few enough. Uses c->time. */
static uint32_t join_blocks(struct planner_blocks *c, uint32_t *at, uint32_t n)
{
    for (uint32_t v = 0; v < c->forward_end; v++)
        c->time[v + 1] = c->time[v] + (double)c->g->nodes[v].cost;
    while (n > MOST_BLOCKS) {
        double least = INFINITY;
        uint32_t where = 1;
        for (uint32_t k = 1; k < n; k++) {
            double sum = c->time[k + 1 < n ? at[k + 1] : c->forward_end] - c->time[at[k - 1]];
            if (sum < least) {
                least = sum;
                where = k;
            }
        }
        memmove(&at[where], &at[where + 1], (n - where - 1) * sizeof *at);
        n--;
    }
    return n;
}

/* Cut where what crosses is least. */
static void find_blocks(struct planner_blocks *c)
{
    const struct planner_graph *g = c->g;
    uint32_t first = 0, n = 0;
    uint32_t *at = c->block; /* borrowed as a list of places */
    while (first < c->forward_end && (g->nodes[first].is_fixed || c->crossing[first + 1] == 0))
        first++;
    at[n++] = first;
    for (uint32_t v = first + 1; v < c->forward_end; v++)
        if (is_narrow(c, v))
            at[n++] = v;
    n = join_blocks(c, at, n);
    memcpy(c->begin, at, n * sizeof *at);
    c->begin[n] = c->forward_end;
    c->count = n;
    for (uint32_t v = 0, l = 0; v < c->forward_end; v++) {
        while (l + 1 < n && v >= c->begin[l + 1])
            l++;
        c->block[v] = l;
    }
}

/* Does it cross into block l? */
static bool is_input(const struct planner_blocks *c, uint32_t item, uint32_t l)
{
    return is_movable(c->g, item) && c->g->items[item].node < c->begin[l] &&
           last_forward_use(c, item) >= c->begin[l];
}

/* The block in whose backward pass it is read: what crosses belongs to the block it enters. */
static uint32_t block_of(const struct planner_blocks *c, uint32_t item)
{
    uint32_t l = c->block[c->g->items[item].node];
    return l + 1 < c->count && is_input(c, item, l + 1) ? l + 1 : l;
}

static bool is_inside(const struct planner_blocks *c, uint32_t item, uint32_t l)
{
    return is_movable(c->g, item) && c->block[c->g->items[item].node] == l &&
           last_use(c, item) >= c->forward_end;
}

/* When each backward pass begins and ends. False when the passes do not follow each other. */
static bool find_stages(struct planner_blocks *c)
{
    const struct planner_graph *g = c->g;
    uint32_t lowest = c->count;
    for (uint32_t l = 0; l < c->count; l++)
        c->start[l] = c->last[l] = 0;
    for (uint32_t t = c->forward_end; t < g->node_count; t++)
        for (uint32_t k = 0; k < g->nodes[t].in_count; k++) {
            uint32_t i = g->ins[g->nodes[t].in_first + k];
            if (!is_movable(g, i) || g->items[i].node >= c->forward_end)
                continue;
            uint32_t l = block_of(c, i);
            c->last[l] = t;
            while (lowest > l)
                c->start[--lowest] = t;
        }
    bool is_chain = lowest < c->count / 2;
    while (lowest > 0) /* nobody reads these */
        c->start[--lowest] = g->node_count - 1;
    for (uint32_t l = 0; l < c->count; l++)
        if (c->last[l] < c->start[l])
            c->last[l] = c->start[l];
    return is_chain;
}

/* Sizes and costs of the blocks, and what their backward passes need besides checkpoints. */
static void measure(struct planner_blocks *c)
{
    const struct planner_graph *g = c->g;
    for (uint32_t l = 0; l < c->count; l++) {
        c->input[l] = l > 0 ? c->crossing[c->begin[l]] : 0;
        for (uint32_t v = c->begin[l]; v < c->begin[l + 1]; v++) {
            c->cost[l] += (double)g->nodes[v].cost;
        }
    }
    for (uint32_t t = c->forward_end; t < g->node_count; t++) {
        uint64_t base = g->nodes[t].workspace_bytes, least, most;
        uint32_t l = c->count - 1;
        while (l > 0 && c->start[l - 1] <= t)
            l--;
        for (uint32_t i = 0; i < g->item_count && g->items[i].node <= t; i++)
            if ((g->items[i].is_fixed || g->items[i].node >= c->forward_end) &&
                (last_use(c, i) >= t || g->items[i].node == t))
                base += g->items[i].bytes;
        least = most = base;
        for (uint32_t k = 0; k < g->nodes[t].in_count; k++) {
            uint32_t i = g->ins[g->nodes[t].in_first + k];
            if (is_movable(g, i) && g->items[i].node < c->forward_end && !is_input(c, i, l))
                least += g->items[i].bytes;
        }
        for (uint32_t v = c->begin[l]; v < c->begin[l + 1]; v++)
            for (uint32_t o = g->nodes[v].out_first;
                 o < g->nodes[v].out_first + g->nodes[v].out_count; o++)
                if (is_inside(c, o, l) && block_of(c, o) == l && last_use(c, o) >= t)
                    most += g->items[o].bytes;
        most = most > least ? most : least;
        c->least[l] = least > c->least[l] ? least : c->least[l];
        c->most[l] = most > c->most[l] ? most : c->most[l];
    }
}

/* Bytes of what node v makes that is read in the backward pass of its own block l. */
static uint64_t inside_bytes(const struct planner_blocks *c, uint32_t v, uint32_t l)
{
    const struct planner_node *node = &c->g->nodes[v];
    uint64_t bytes = 0;
    for (uint32_t o = node->out_first; o < node->out_first + node->out_count; o++)
        if (is_inside(c, o, l) && block_of(c, o) == l)
            bytes += c->g->items[o].bytes;
    return bytes;
}

/* Time to make again what is read of block l, besides what stays by choice k or node `also` makes.
 */
static double time_again(struct planner_blocks *c, uint32_t l, uint32_t k, uint32_t also)
{
    const struct planner_graph *g = c->g;
    double sum = 0;
    for (uint32_t v = c->begin[l + 1]; v-- > c->begin[l];) {
        const struct planner_node *node = &g->nodes[v];
        bool stays = c->rank[v] <= k || v == also;
        bool is_needed = !node->is_fixed && !stays && (c->needed[v] || inside_bytes(c, v, l) > 0);
        for (uint32_t i = 0; i < node->in_count && is_needed; i++) {
            uint32_t maker = g->items[g->ins[node->in_first + i]].node;
            if (maker >= c->begin[l])
                c->needed[maker] = 1;
        }
        sum += is_needed ? (double)node->cost : 0;
        c->needed[v] = 0;
    }
    return sum;
}

/* Add to what stays the node whose outputs save most time per byte, again and again. */
static void find_choices(struct planner_blocks *c, uint32_t l)
{
    uint32_t k = 0;
    c->stays[l][0] = 0;
    c->again[l][0] = time_again(c, l, 0, TRACE_NONE);
    while (k + 1 < MOST_CHOICES && c->again[l][k] > 0) {
        uint32_t best = TRACE_NONE;
        double rate = 0, again = 0;
        for (uint32_t v = c->begin[l]; v < c->begin[l + 1]; v++) {
            uint64_t bytes = c->rank[v] <= k ? 0 : inside_bytes(c, v, l);
            double time = bytes ? time_again(c, l, k, v) : 0;
            if (bytes && (c->again[l][k] - time) / (double)bytes > rate) {
                rate = (c->again[l][k] - time) / (double)bytes;
                best = v;
                again = time;
            }
        }
        if (best == TRACE_NONE)
            break;
        k++;
        c->rank[best] = k;
        c->stays[l][k] = c->stays[l][k - 1] + inside_bytes(c, best, l);
        c->again[l][k] = again;
    }
    c->choice_count[l] = k + 1;
}

/* ---- the program ----------------------------------------------------------------------------- */

static size_t cell(const struct planner_blocks *c, uint32_t a, uint32_t b)
{
    return ((size_t)a * c->count + b) * (UNITS + 1);
}

static void solve_cell(struct planner_blocks *c, uint32_t a, uint32_t b)
{
    float *opt = &c->opt[cell(c, a, b)];
    int16_t *pick = &c->pick[cell(c, a, b)];
    for (uint32_t u = 0; u <= UNITS; u++) {
        bool is_room = (int32_t)u <= c->room[a];
        opt[u] = a == b && is_room ? (float)c->again[a][0] : INFINITY;
        pick[u] = a == b && is_room ? (int16_t)a : -1;
    }
    if (a == b)
        return;
    const float *next = &c->opt[cell(c, a + 1, b)];
    for (uint32_t k = 1; k < c->choice_count[a]; k++) {
        uint32_t more = c->stay_units[a][k] + c->in_units[a + 1];
        for (uint32_t u = 0; u + more <= UNITS && (int32_t)u <= c->room[a]; u++) {
            float time = (float)(c->cost[a] + c->again[a][k]) + next[u + more];
            if (time < opt[u]) {
                opt[u] = time;
                pick[u] = (int16_t)(c->count + k);
            }
        }
    }
    float forward = 0;
    for (uint32_t j = a + 1; j <= b; j++) {
        forward += (float)c->cost[j - 1];
        const float *right = &c->opt[cell(c, j, b)], *left = &c->opt[cell(c, a, j - 1)];
        for (uint32_t u = 0; u + c->in_units[j] <= UNITS; u++) {
            float time = forward + right[u + c->in_units[j]] + left[u];
            if (time < opt[u]) {
                opt[u] = time;
                pick[u] = (int16_t)j;
            }
        }
    }
}

/* With room by the two figures: share 0 the least, 1 the most; below 0 there is more than is. */
static bool solve(struct planner_blocks *c, uint64_t budget, double share)
{
    double widest = 0, room[MOST_BLOCKS];
    for (uint32_t l = 0; l < c->count; l++) {
        room[l] = (double)budget - (double)c->least[l] - share * (double)(c->most[l] - c->least[l]);
        widest = room[l] > widest ? room[l] : widest;
    }
    if (widest <= 0)
        return false;
    double unit = widest / UNITS;
    for (uint32_t l = 0; l < c->count; l++) {
        c->room[l] = room[l] < 0 ? -1 : (int32_t)(room[l] / unit + 1e-9);
        c->in_units[l] = (uint32_t)((double)c->input[l] / unit);
        for (uint32_t k = 0; k < c->choice_count[l]; k++)
            c->stay_units[l][k] = (uint32_t)((double)c->stays[l][k] / unit);
        if (c->room[l] < (int32_t)c->in_units[l]) /* it is there whatever happens */
            c->room[l] = (int32_t)c->in_units[l];
    }
    for (uint32_t length = 0; length < c->count; length++)
        for (uint32_t a = 0; a + length < c->count; a++)
            solve_cell(c, a, a + length);
    return c->opt[cell(c, 0, c->count - 1)] < INFINITY;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* What is made in stage `made` (0: in the forward pass itself) stays until it is read last. */
static void keep_input(const struct planner_blocks *c, struct planner_sched *s, uint32_t l,
                       uint32_t made)
{
    for (uint32_t i = 0; i < c->g->item_count && c->g->items[i].node < c->begin[l]; i++)
        if (is_input(c, i, l))
            planner_sched_keep(s, i, made ? made + 1 : c->g->items[i].node + 1, c->last[l]);
}

/* What stays by choice k when stage `made` has made it; the rest once it is made again. */
static void keep_inside(const struct planner_blocks *c, struct planner_sched *s, uint32_t l,
                        uint32_t k, uint32_t made)
{
    const struct planner_graph *g = c->g;
    for (uint32_t v = c->begin[l]; v < c->begin[l + 1]; v++)
        for (uint32_t o = g->nodes[v].out_first; o < g->nodes[v].out_first + g->nodes[v].out_count;
             o++)
            if (is_inside(c, o, l) && block_of(c, o) == l)
                planner_sched_keep(s, o,
                                   c->rank[v] > k ? c->start[l] + 1
                                   : made         ? made + 1
                                                  : v + 1,
                                   last_use(c, o));
}

static void emit(const struct planner_blocks *c, struct planner_sched *s, uint32_t a, uint32_t b,
                 uint32_t u, uint32_t made)
{
    int16_t pick = c->pick[cell(c, a, b) + u];
    if (pick < 0)
        return;
    if (a == b) {
        keep_inside(c, s, a, made || b + 1 < c->count ? 0 : MOST_CHOICES, 0);
    } else if (pick >= (int16_t)c->count) {
        uint32_t k = (uint32_t)pick - c->count;
        keep_inside(c, s, a, k, made);
        keep_input(c, s, a + 1, made);
        emit(c, s, a + 1, b, u + c->stay_units[a][k] + c->in_units[a + 1], made);
    } else {
        uint32_t j = (uint32_t)pick;
        keep_input(c, s, j, made);
        emit(c, s, j, b, u + c->in_units[j], made);
        emit(c, s, a, j - 1, u, c->start[j - 1]);
    }
}

static void make_rows(const struct planner_blocks *c, struct planner_sched *s)
{
    const struct planner_graph *g = c->g;
    planner_sched_clear(s);
    for (uint32_t i = 0; i < g->item_count; i++) {
        bool is_forward = g->items[i].node < c->forward_end && is_movable(g, i);
        planner_sched_keep(s, i, g->items[i].node + 1,
                           is_forward ? last_forward_use(c, i) : last_use(c, i));
    }
    emit(c, s, 0, c->count - 1, 0, 0);
}

/* ---- all of it ------------------------------------------------------------------------------- */

void planner_blocks_destroy(struct planner_blocks *c)
{
    if (c)
        ebb_arena_fini(&c->arena);
    ebb_free(c);
}

/* The program's cells are written before they are read. */
static enum ebb_status allocate(struct planner_blocks *c, struct ebb_error *err)
{
    size_t nodes = (size_t)c->g->node_count + 2;
    size_t cells = (size_t)MOST_BLOCKS * MOST_BLOCKS * (UNITS + 1);
    c->block = ebb_arena_calloc(&c->arena, nodes, sizeof *c->block);
    c->needed = ebb_arena_calloc(&c->arena, nodes, sizeof *c->needed);
    c->rank = ebb_arena_calloc(&c->arena, nodes, sizeof *c->rank);
    c->crossing = ebb_arena_calloc(&c->arena, nodes, sizeof *c->crossing);
    c->time = ebb_arena_calloc(&c->arena, nodes, sizeof *c->time);
    c->opt = ebb_arena_alloc(&c->arena, cells * sizeof *c->opt);
    c->pick = ebb_arena_alloc(&c->arena, cells * sizeof *c->pick);
    return ebb_arena_status(&c->arena, err);
}

enum ebb_status planner_blocks_create(const struct planner_graph *g, struct planner_blocks **blocks,
                                      struct ebb_error *err)
{
    struct planner_blocks *c;
    *blocks = NULL;
    EBB_TRY(ebb_new(&c, 1, sizeof *c, err));
    c->g = g;
    while (c->forward_end < g->node_count && g->nodes[c->forward_end].phase != TRACE_BACKWARD)
        c->forward_end++;
    enum ebb_status status = allocate(c, err);
    bool is_chain = status == EBB_OK && c->forward_end >= 2 && c->forward_end < g->node_count;
    if (is_chain) {
        find_crossing(c);
        find_blocks(c);
        is_chain = c->count >= 3 && find_stages(c);
    }
    if (!is_chain) {
        planner_blocks_destroy(c);
        return status;
    }
    measure(c);
    for (uint32_t v = 0; v < g->node_count; v++)
        c->rank[v] = MOST_CHOICES;
    for (uint32_t l = 0; l < c->count; l++)
        find_choices(c, l);
    *blocks = c;
    return EBB_OK;
}

bool planner_blocks_rows(struct planner_blocks *c, uint64_t budget, double share, float *time,
                         struct planner_sched *sched)
{
    float last = *time;
    if (!solve(c, budget, share))
        return false;
    *time = c->opt[cell(c, 0, c->count - 1)];
    if (*time == last)
        return false;
    make_rows(c, sched);
    return true;
}

/* What crosses into a block is its input, also where later ones read it. */
static bool is_any_input(const struct planner_blocks *c, uint32_t item)
{
    for (uint32_t l = 1; l < c->count; l++)
        if (is_input(c, item, l))
            return true;
    return false;
}

static void tell_fates(const struct planner_blocks *c, struct planner_fate *fates)
{
    const struct planner_graph *g = c->g;
    for (uint32_t i = 0; i < g->item_count; i++) {
        const struct planner_item *item = &g->items[i];
        if (item->node >= c->forward_end || !is_movable(g, i) || item->is_kept ||
            last_use(c, i) < c->forward_end)
            continue;
        fates[item->storage] =
            (struct planner_fate){.after = g->nodes[last_forward_use(c, i)].op,
                                  .way = is_any_input(c, i) ? PLANNER_INPUT : PLANNER_AGAIN};
    }
}

enum ebb_status planner_fates(const struct trace *trace, struct planner_fate **fates,
                              struct ebb_error *err)
{
    struct planner_graph *graph = NULL;
    struct planner_blocks *blocks = NULL;
    bool has_backward = false;
    *fates = NULL;
    for (uint32_t o = 0; o < trace->op_count; o++)
        has_backward |= trace->ops[o].phase == TRACE_BACKWARD;
    if (!has_backward)
        return EBB_OK;
    EBB_TRY(planner_graph_create(trace, false, &graph, err));
    enum ebb_status status = planner_blocks_create(graph, &blocks, err);
    if (status == EBB_OK && !blocks)
        status =
            ebb_fail(err, EBB_EUNSUPPORTED,
                     "%s is no chain of blocks: nothing says which inputs to keep", trace->name);
    EBB_THEN(status, ebb_new(fates, trace->storage_count + 1, sizeof **fates, err));
    if (status == EBB_OK)
        tell_fates(blocks, *fates);
    planner_blocks_destroy(blocks);
    planner_graph_destroy(graph);
    return status;
}

enum ebb_status planner_best_blocks(struct best *b, struct ebb_error *err)
{
    static const double shares[] = {0, -1, -2, 1, -4, -6};
    struct planner_job *job = b->job;
    struct planner_blocks *blocks;
    float time = 0;
    EBB_TRY(planner_blocks_create(job->graph, &blocks, err));
    b->search.exact_work = EXACT_WORK;
    for (size_t k = 0; blocks && k < sizeof shares / sizeof *shares && !planner_best_is_done(b);
         k++) {
        if (!planner_blocks_rows(blocks, job->budget, shares[k], &time, &job->trial))
            continue;
        planner_best_repair(b, "blocks");
        if (job->has_best && job->request->effort <= 0)
            break;
    }
    b->search.exact_work = 0;
    planner_blocks_destroy(blocks);
    return EBB_OK;
}
