/* sums.c - see sums.h. */
#include "planner/sums.h"

#include "base/heap.h"

enum ebb_status planner_sums_init(struct sums *s, size_t count, struct ebb_error *err)
{
    s->leaves = 1;
    while (s->leaves < count)
        s->leaves *= 2;
    EBB_TRY(ebb_new(&s->most, 2 * s->leaves, sizeof *s->most, err));
    return ebb_new(&s->add, 2 * s->leaves, sizeof *s->add, err);
}

void planner_sums_fini(struct sums *s)
{
    ebb_free(s->most);
    ebb_free(s->add);
}

/* The value of a node follows from those below it. */
static void settle(struct sums *s, size_t node)
{
    int64_t a = s->most[2 * node], b = s->most[2 * node + 1];
    s->most[node] = s->add[node] + (a > b ? a : b);
}

/* From the leaves up: on each level at most two nodes are wholly in the range, and those above its two ends
 * follow. */
void planner_sums_add(struct sums *s, size_t first, size_t end, uint64_t value)
{
    if (first >= end)
        return;
    size_t low = first + s->leaves, high = end + s->leaves;
    size_t left = low, right = high - 1;
    while (left > 1) {
        if (low < high && low % 2) {
            s->most[low] += (int64_t)value;
            s->add[low++] += (int64_t)value;
        }
        if (low < high && high % 2) {
            s->most[--high] += (int64_t)value;
            s->add[high] += (int64_t)value;
        }
        low /= 2;
        high /= 2;
        left /= 2;
        right /= 2;
        settle(s, left);
        if (right != left)
            settle(s, right);
    }
    if (low < high) { /* all of them */
        s->most[1] += (int64_t)value;
        s->add[1] += (int64_t)value;
    }
}

static size_t last_above(const struct sums *s, size_t node, size_t from, size_t to, size_t end,
                         int64_t limit)
{
    if (from >= end || s->most[node] <= limit)
        return 0;
    if (to - from == 1)
        return to;
    size_t middle = (from + to) / 2;
    limit -= s->add[node];
    size_t found = last_above(s, 2 * node + 1, middle, to, end, limit);
    return found ? found : last_above(s, 2 * node, from, middle, end, limit);
}

static size_t first_above(const struct sums *s, size_t node, size_t from, size_t to, size_t first,
                          size_t end, int64_t limit)
{
    if (to <= first || from >= end || s->most[node] <= limit)
        return end;
    if (to - from == 1)
        return from;
    size_t middle = (from + to) / 2;
    limit -= s->add[node];
    size_t found = first_above(s, 2 * node, from, middle, first, end, limit);
    return found < end ? found : first_above(s, 2 * node + 1, middle, to, first, end, limit);
}

size_t planner_sums_last_above(const struct sums *s, size_t end, int64_t limit)
{
    return last_above(s, 1, 0, s->leaves, end, limit);
}

size_t planner_sums_first_above(const struct sums *s, size_t first, size_t end, int64_t limit)
{
    return first_above(s, 1, 0, s->leaves, first, end, limit);
}

int64_t planner_sums_most(const struct sums *s)
{
    return s->most[1];
}
