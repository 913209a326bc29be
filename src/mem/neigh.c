/* neigh.c - evicted neighbourhoods for rules ebb: union-find classes, and exact regions, with lower
 * bounds (mem.h). */
#include "mem/mem.h"

#include <string.h>

#include "base/heap.h"

struct mem_class { /* node of the forest; the root speaks for the class */
    uint32_t parent;
    uint32_t members;
    uint32_t left;                     /* members that came back since it was last split */
    uint32_t member_head, member_tail; /* evicted storages, through next_member and prev_member */
    uint32_t link_head, link_tail; /* candidates next to the class; entries may be out of date */
    int64_t value;                 /* sum of what the members contributed */
};

struct mem_class_link {
    uint32_t storage, next;
};

/* A storage that is away is NEEDED when something that will be used again may have to be rebuilt
 * through it, else GONE. */
enum { HERE, NEEDED, GONE };

enum ebb_status mem_neigh_init(struct mem_neigh *n, const struct mem_graph *graph,
                               enum mem_numerator numerator, struct ebb_error *err)
{
    size_t count = (size_t)graph->storage_count + 1;
    *n = (struct mem_neigh){.graph = graph, .numerator = numerator, .spare_link = MEM_NONE};
    n->bound = ebb_arena_calloc(&n->arena, count, sizeof *n->bound);
    n->state = ebb_arena_calloc(&n->arena, count, 1);
    n->lowered = ebb_arena_calloc(&n->arena, 2 * count, sizeof *n->lowered);
    n->class_of = ebb_arena_calloc(&n->arena, count, sizeof *n->class_of);
    n->contributed = ebb_arena_calloc(&n->arena, count, sizeof *n->contributed);
    n->mark = ebb_arena_calloc(&n->arena, count, sizeof *n->mark);
    n->walk = ebb_arena_calloc(&n->arena, count, sizeof *n->walk);
    n->walk_more = ebb_arena_calloc(&n->arena, count, sizeof *n->walk_more);
    n->next_member = ebb_arena_calloc(&n->arena, count, sizeof *n->next_member);
    n->prev_member = ebb_arena_calloc(&n->arena, count, sizeof *n->prev_member);
    n->far = ebb_arena_calloc(&n->arena, count, sizeof *n->far);
    n->is_far = ebb_arena_calloc(&n->arena, count, 1);
    n->visit = 1;
    EBB_TRY(ebb_arena_status(&n->arena, err));
    memset(n->class_of, 0xff, count * sizeof *n->class_of);
    return EBB_OK;
}

void mem_neigh_fini(struct mem_neigh *n)
{
    ebb_arena_fini(&n->arena);
    ebb_free(n->classes);
    ebb_free(n->links);
    *n = (struct mem_neigh){0};
}

static bool has_classes(const struct mem_neigh *n)
{
    return n->numerator == MEM_EQ;
}

static bool has_regions(const struct mem_neigh *n)
{
    return n->numerator == MEM_REGION || n->numerator == MEM_ANCESTORS || n->numerator == MEM_UNION;
}

/* ---- classes --------------------------------------------------------------------------------- */

static uint32_t find(struct mem_class *classes, uint32_t c)
{
    while (classes[c].parent != c) {
        classes[c].parent = classes[classes[c].parent].parent;
        c = classes[c].parent;
    }
    return c;
}

static enum ebb_status link_add(struct mem_neigh *n, uint32_t root, uint32_t storage,
                                struct ebb_error *err)
{
    uint32_t at = n->spare_link;
    if (at != MEM_NONE) {
        n->spare_link = n->links[at].next;
    } else {
        EBB_TRY(ebb_grow(&n->links, &n->link_capacity, n->link_count + 1, sizeof *n->links, err));
        at = (uint32_t)n->link_count++;
    }
    struct mem_class *c = &n->classes[root];
    n->links[at] = (struct mem_class_link){storage, c->link_head};
    if (c->link_head == MEM_NONE)
        c->link_tail = at;
    c->link_head = at;
    return EBB_OK;
}

static void merge(struct mem_neigh *n, uint32_t into, uint32_t from)
{
    struct mem_class *a = &n->classes[into], *b = &n->classes[from];
    a->value += b->value;
    a->members += b->members;
    a->left += b->left;
    b->parent = into;
    n->next_member[a->member_tail] = b->member_head; /* neither list is ever empty here */
    n->prev_member[b->member_head] = a->member_tail;
    a->member_tail = b->member_tail;
    if (b->link_head == MEM_NONE)
        return;
    if (a->link_head == MEM_NONE)
        a->link_head = b->link_head;
    else
        n->links[a->link_tail].next = b->link_head;
    a->link_tail = b->link_tail;
}

static enum ebb_status class_new(struct mem_neigh *n, uint32_t *root, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&n->classes, &n->class_capacity, n->class_count + 1, sizeof *n->classes, err));
    *root = (uint32_t)n->class_count++;
    n->classes[*root] = (struct mem_class){.parent = *root,
                                           .member_head = MEM_NONE,
                                           .member_tail = MEM_NONE,
                                           .link_head = MEM_NONE,
                                           .link_tail = MEM_NONE};
    return EBB_OK;
}

static void class_join(struct mem_neigh *n, uint32_t root, uint32_t storage)
{
    struct mem_class *c = &n->classes[root];
    c->members++;
    c->value += n->contributed[storage];
    n->class_of[storage] = root;
    n->next_member[storage] = MEM_NONE;
    n->prev_member[storage] = c->member_tail;
    if (c->member_tail == MEM_NONE)
        c->member_head = storage;
    else
        n->next_member[c->member_tail] = storage;
    c->member_tail = storage;
}

static void class_leave(struct mem_neigh *n, uint32_t root, uint32_t storage)
{
    struct mem_class *c = &n->classes[root];
    uint32_t prev = n->prev_member[storage], next = n->next_member[storage];
    if (prev == MEM_NONE)
        c->member_head = next;
    else
        n->next_member[prev] = next;
    if (next == MEM_NONE)
        c->member_tail = prev;
    else
        n->prev_member[next] = prev;
    c->members--;
    c->left++;
    c->value -= n->contributed[storage];
    n->class_of[storage] = MEM_NONE;
}

static enum ebb_status class_evicted(struct mem_neigh *n, uint32_t storage, struct ebb_error *err)
{
    const struct mem_graph *g = n->graph;
    uint32_t root;
    EBB_TRY(class_new(n, &root, err));
    n->contributed[storage] = n->cost[storage];
    class_join(n, root, storage);
    for (uint32_t e = g->neighbour_first[storage]; e < g->neighbour_first[storage + 1]; e++) {
        if (g->neighbours[e].birth > n->now_op)
            break;
        uint32_t other = g->neighbours[e].storage;
        if (n->class_of[other] != MEM_NONE) {
            uint32_t theirs = find(n->classes, n->class_of[other]);
            if (theirs == root)
                continue;
            /* the smaller forest hangs below the larger: paths stay short */
            if (n->classes[theirs].members > n->classes[root].members) {
                merge(n, theirs, root);
                root = theirs;
            } else {
                merge(n, root, theirs);
            }
        } else if (n->is_candidate[other] && n->is_resident[other]) {
            EBB_TRY(link_add(n, root, other, err));
        }
    }
    return EBB_OK;
}

static void lower(struct mem_neigh *n, uint32_t storage, int64_t bound)
{
    if (bound < n->cost[storage])
        bound = n->cost[storage];
    if (bound >= n->bound[storage] && n->numerator != MEM_UNION) /* its freshest member may go */
        return;
    n->bound[storage] = bound;
    n->lowered[n->lowered_count++] = storage;
}

static void links_free(struct mem_neigh *n, struct mem_class *c)
{
    while (c->link_head != MEM_NONE) {
        uint32_t at = c->link_head;
        c->link_head = n->links[at].next;
        n->links[at].next = n->spare_link;
        n->spare_link = at;
    }
    c->link_tail = MEM_NONE;
}

/* Members that were connected only through storages that came back part company: every member gets
 * the class of its connected component. Done when as many have left as stay, so the work is paid
 * for by the leaving. */
static enum ebb_status class_split(struct mem_neigh *n, uint32_t old, struct ebb_error *err)
{
    const struct mem_graph *g = n->graph;
    uint32_t first = n->classes[old].member_head;
    for (uint32_t at = n->classes[old].link_head; at != MEM_NONE; at = n->links[at].next) {
        if (n->is_resident[n->links[at].storage])
            lower(n, n->links[at].storage, 0);
    }
    links_free(n, &n->classes[old]);
    uint32_t visit = ++n->visit;
    size_t count = 0;
    for (uint32_t s = first; s != MEM_NONE; s = n->next_member[s]) {
        n->walk[count++] = s;
        n->mark[s] = visit; /* still to be placed */
    }
    n->work += count;
    /* walk[0..count) are the members; the component under construction grows in walk_more */
    for (size_t i = 0; i < count; i++) {
        uint32_t root, depth = 0;
        if (n->mark[n->walk[i]] != visit)
            continue;
        EBB_TRY(class_new(n, &root, err));
        n->walk_more[depth++] = n->walk[i];
        n->mark[n->walk[i]] = visit - 1;
        while (depth > 0) {
            uint32_t s = n->walk_more[--depth];
            class_join(n, root, s);
            for (uint32_t e = g->neighbour_first[s]; e < g->neighbour_first[s + 1]; e++) {
                if (g->neighbours[e].birth > n->now_op)
                    break;
                uint32_t other = g->neighbours[e].storage;
                if (n->mark[other] == visit) {
                    n->mark[other] = visit - 1;
                    n->walk_more[depth++] = other;
                } else if (n->class_of[other] == MEM_NONE && n->is_candidate[other] &&
                           n->is_resident[other]) {
                    EBB_TRY(link_add(n, root, other, err));
                }
            }
        }
    }
    return EBB_OK;
}

static enum ebb_status class_returned(struct mem_neigh *n, uint32_t storage, struct ebb_error *err)
{
    const struct mem_graph *g = n->graph;
    uint32_t root = find(n->classes, n->class_of[storage]);
    class_leave(n, root, storage);
    struct mem_class *c = &n->classes[root];
    if (c->members == 0) {
        links_free(n, c);
    } else if (c->left > c->members) {
        EBB_TRY(class_split(n, root, err));
    } else { /* everyone next to the class may lose what it put in; entries that are stale or double
                go */
        uint32_t visit = ++n->visit, previous = MEM_NONE;
        for (uint32_t at = c->link_head; at != MEM_NONE;) {
            uint32_t next = n->links[at].next, other = n->links[at].storage;
            n->work++;
            if (!n->is_resident[other] || n->mark[other] == visit) {
                if (previous == MEM_NONE)
                    c->link_head = next;
                else
                    n->links[previous].next = next;
                if (c->link_tail == at)
                    c->link_tail = previous;
                n->links[at].next = n->spare_link;
                n->spare_link = at;
            } else {
                n->mark[other] = visit;
                lower(n, other, n->bound[other] - n->contributed[storage]);
                previous = at;
            }
            at = next;
        }
    }
    /* its neighbours may lose the whole class */
    for (uint32_t e = g->neighbour_first[storage]; e < g->neighbour_first[storage + 1]; e++) {
        if (g->neighbours[e].birth > n->now_op)
            break;
        uint32_t other = g->neighbours[e].storage;
        if (n->class_of[other] == MEM_NONE && n->is_candidate[other] && n->is_resident[other])
            lower(n, other, 0); /* may be listed twice: the caller does not mind */
    }
    return EBB_OK;
}

/* It joins the links of the classes around it: also what was away with a copy, and so never in a
 * class itself. */
static enum ebb_status class_join_links(struct mem_neigh *n, uint32_t storage,
                                        struct ebb_error *err)
{
    const struct mem_graph *g = n->graph;
    if (!n->is_candidate[storage])
        return EBB_OK;
    for (uint32_t e = g->neighbour_first[storage]; e < g->neighbour_first[storage + 1]; e++) {
        if (g->neighbours[e].birth > n->now_op)
            break;
        uint32_t other = g->neighbours[e].storage;
        if (n->class_of[other] != MEM_NONE)
            EBB_TRY(link_add(n, find(n->classes, n->class_of[other]), storage, err));
    }
    return EBB_OK;
}

/* Its value hangs on storages that do not know it as a neighbour: whatever returns may lower it. */
static void note_far(struct mem_neigh *n, uint32_t storage)
{
    if (n->is_far[storage])
        return;
    n->is_far[storage] = 1;
    n->far[n->far_count++] = storage;
}

static void lower_far(struct mem_neigh *n)
{
    while (n->far_count > 0) { /* paid for by the evaluations that noted them */
        uint32_t storage = n->far[--n->far_count];
        n->is_far[storage] = 0;
        if (n->is_resident[storage])
            lower(n, storage, 0);
    }
}

/* Own cost, the classes around it, and the chain of gone ancestors that would have to be rebuilt
 * first. */
static int64_t class_sum(struct mem_neigh *n, uint32_t storage)
{
    const struct mem_graph *g = n->graph;
    int64_t sum = n->cost[storage];
    uint32_t roots[64], count = 0;
    uint32_t visit = ++n->visit;
    size_t depth = 0;
    n->walk[depth++] = storage;
    n->mark[storage] = visit;
    while (depth > 0) {
        uint32_t at = n->walk[--depth];
        bool is_self = at == storage;
        n->work++;
        const uint32_t *first = is_self ? g->neighbour_first : g->parent_first;
        const struct mem_edge *edges = is_self ? g->neighbours : g->parents;
        for (uint32_t e = first[at]; e < first[at + 1]; e++) {
            if (edges[e].birth > n->now_op)
                break;
            uint32_t other = edges[e].storage;
            if (n->state[other] == GONE && other < at && n->mark[other] != visit) {
                note_far(n, storage);
                n->mark[other] = visit;
                sum += n->cost[other];
                n->walk[depth++] = other;
            }
            if (n->class_of[other] == MEM_NONE)
                continue;
            uint32_t root = find(n->classes, n->class_of[other]);
            bool is_seen = false;
            for (uint32_t k = 0; k < count && !is_seen; k++)
                is_seen = roots[k] == root;
            if (is_seen)
                continue;
            sum += n->classes[root].value;
            if (count < 64) /* with more distinct classes one may count twice: still a function of
                               the state */
                roots[count++] = root;
        }
    }
    return sum;
}

/* ---- regions --------------------------------------------------------------------------------- */

/* Walk through evicted storages in one direction. Counts their cost, or lists the resident
 * candidates at the rim. */
static int64_t walk_region(struct mem_neigh *n, uint32_t storage, bool is_backward, uint32_t visit,
                           bool lists_rim)
{
    const struct mem_graph *g = n->graph;
    const uint32_t *first = is_backward ? g->parent_first : g->child_first;
    const struct mem_edge *edges = is_backward ? g->parents : g->children;
    int64_t sum = 0;
    size_t depth = 0;
    n->walk[depth++] = storage;
    n->mark[storage] = visit;
    while (depth > 0) {
        uint32_t at = n->walk[--depth];
        n->work++;
        for (uint32_t e = first[at]; e < first[at + 1]; e++) {
            if (edges[e].birth > n->now_op)
                break;
            uint32_t other = edges[e].storage;
            if (n->mark[other] == visit)
                continue;
            if (n->state[other] == GONE && !is_backward && !lists_rim)
                continue; /* nobody will rebuild it; but who lies behind it counts what returns */
            n->mark[other] = visit;
            if (n->state[other] == HERE) {
                if (lists_rim && n->is_candidate[other] && n->is_resident[other])
                    lower(n, other, 0);
                continue;
            }
            sum += n->cost[other];
            if (n->last && n->last[other] > n->latest)
                n->latest = n->last[other];
            n->walk[depth++] = other;
        }
    }
    return sum;
}

/* ---- the interface --------------------------------------------------------------------------- */

static enum ebb_status become_needed(struct mem_neigh *n, uint32_t storage, struct ebb_error *err)
{
    const struct mem_graph *g = n->graph;
    size_t depth = 0;
    n->walk_more[depth++] = storage;
    n->state[storage] = NEEDED;
    while (depth > 0) { /* and whatever it would be rebuilt from */
        uint32_t at = n->walk_more[--depth];
        if (has_classes(n))
            EBB_TRY(class_evicted(n, at, err));
        for (uint32_t e = g->parent_first[at]; e < g->parent_first[at + 1]; e++) {
            uint32_t other = g->parents[e].storage;
            if (g->parents[e].birth > n->now_op)
                break;
            if (n->state[other] != GONE)
                continue;
            n->state[other] = NEEDED;
            n->walk_more[depth++] = other;
        }
    }
    return EBB_OK;
}

enum ebb_status mem_neigh_evicted(struct mem_neigh *n, uint32_t storage, bool is_needed,
                                  struct ebb_error *err)
{
    n->lowered_count = 0;
    if (is_needed)
        return become_needed(n, storage, err);
    n->state[storage] = GONE;
    return EBB_OK;
}

enum ebb_status mem_neigh_returned(struct mem_neigh *n, uint32_t storage, struct ebb_error *err)
{
    uint8_t was = n->state[storage];
    n->lowered_count = 0;
    n->bound[storage] = n->cost[storage];
    n->state[storage] = HERE;
    if (was == HERE) /* first time, or back from another tier: nobody counted it */
        return has_classes(n) ? class_join_links(n, storage, err) : EBB_OK;
    if (has_regions(n)) {
        walk_region(n, storage, true, ++n->visit, true);
        walk_region(n, storage, false, ++n->visit, true);
    }
    if (!has_classes(n))
        return EBB_OK;
    lower_far(n);
    if (was == NEEDED)
        EBB_TRY(class_returned(n, storage, err));
    return class_join_links(n, storage, err);
}

int64_t mem_neigh_exact(struct mem_neigh *n, uint32_t storage)
{
    switch (n->numerator) {
    case MEM_ONE:
    case MEM_RANDOM:
        return 1;
    case MEM_LOCAL:
        return n->cost[storage];
    case MEM_EQ:
        return class_sum(n, storage);
    case MEM_ANCESTORS:
        return n->cost[storage] + walk_region(n, storage, true, ++n->visit, false);
    case MEM_REGION:
    case MEM_UNION:
        break;
    }
    n->latest = n->last ? n->last[storage] : 0;
    int64_t sum = n->cost[storage] + walk_region(n, storage, true, ++n->visit, false);
    if (n->numerator != MEM_UNION) /* one set: the second walk keeps the marks of the first */
        n->visit++;
    return sum + walk_region(n, storage, false, n->visit, false);
}
