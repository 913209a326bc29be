/* Planner `floor` against exhaustive search on tiny traces.
 *
 * A state is what has run and what lies there, in which version. All states reachable within a
 * number of bytes are walked; the least number that reaches the end is the optimum, over every
 * schedule the checker accepts (any order) and over those whose first runs follow the trace and
 * make all that is read, and whose other runs read nothing that was overwritten and write in place
 * only to make that storage again. The floor is never below the first, the lower bound never above
 * the second. And a case whose optimum is known to be far above the bound: residual blocks. */
#include "test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/rng.h"
#include "planner/planner.h"

/* ---- tiny traces ------------------------------------------------------------------------------
 */

#define MOST_STORAGES 12
#define MOST_OPS 12

struct tiny {
    uint64_t random;
    struct trace_builder *builder;
    uint32_t newest[64], storages; /* storage -> newest tensor */
};

static uint32_t draw(struct tiny *t, uint32_t below)
{
    return (uint32_t)(ebb_splitmix64(&t->random) % below);
}

static void add_op(struct tiny *t, bool is_leaf, bool has_mutation)
{
    struct ebb_error err;
    struct trace_output outputs[3];
    uint32_t inputs[3], sources[3], count = 0, outs = 0, first;
    struct trace_op_desc desc = {.kind_name = "op", .partner = TRACE_NONE, .is_leaf = is_leaf};
    for (uint32_t want = is_leaf ? 0 : 1 + draw(t, 3); want > 0; want--) {
        uint32_t back = draw(t, draw(t, 2) ? 2 : t->storages);
        sources[count] = t->storages - 1 - (back < t->storages ? back : 0);
        inputs[count] = t->newest[sources[count]];
        count++;
    }
    bool writes = has_mutation && !is_leaf && draw(t, 4) == 0;
    if (writes)
        outputs[outs++] = (struct trace_output){.alias = TRACE_MUTATE};
    for (uint32_t k = is_leaf ? 1 : draw(t, 4) == 0 ? 2 : writes ? 0 : 1; k > 0; k--)
        outputs[outs++] = (struct trace_output){.bytes = 256 * (1 + draw(t, 6))};
    desc.purity = writes ? TRACE_MUTATING : !is_leaf && draw(t, 12) == 0 ? TRACE_ONCE : TRACE_PURE;
    desc.phase = writes && draw(t, 2) ? TRACE_UPDATE : TRACE_FORWARD;
    desc.cost_ns = is_leaf ? 0 : 1 + draw(t, 9);
    desc.workspace_bytes = !is_leaf && draw(t, 4) == 0 ? 256 * draw(t, 4) : 0;
    desc.inputs = inputs;
    desc.input_count = count;
    desc.outputs = outputs;
    desc.output_count = outs;
    CHECK_OK(trace_builder_op(t->builder, &desc, &first, &err), &err);
    if (writes)
        t->newest[sources[0]] = first;
    for (uint32_t k = writes; k < outs; k++)
        t->newest[t->storages++] = first + k;
}

static struct trace *make_tiny(uint64_t seed, bool has_mutation)
{
    struct tiny t = {.random = seed};
    struct ebb_error err;
    struct trace *trace = NULL;
    CHECK_OK(trace_builder_create(&t.builder, &err), &err);
    uint32_t leaves = 1 + draw(&t, 2), ops = 4 + draw(&t, 5);
    for (uint32_t i = 0; i < leaves; i++)
        add_op(&t, true, false);
    for (uint32_t i = 0; i < ops && t.storages < MOST_STORAGES - 1; i++)
        add_op(&t, false, has_mutation);
    for (uint32_t s = 0; s < t.storages; s++)
        if (s + 1 == t.storages || draw(&t, 6) == 0)
            CHECK_OK(trace_builder_command(t.builder, TRACE_PIN, t.newest[s], &err), &err);
    CHECK_OK(trace_builder_finish(t.builder, "tiny", &trace, &err), &err);
    trace_builder_destroy(t.builder);
    return trace;
}

/* ---- the walk ---------------------------------------------------------------------------------
 */

/* Low 4 bits per storage: 0 absent, else 1 + version; above them one bit per op that has run. */
typedef uint64_t state;

struct walk {
    const struct trace *trace;
    uint64_t base[MOST_STORAGES], base_bytes, budget;
    bool is_ordered;
    bool is_read[MOST_STORAGES]; /* or kept */
    state *seen;                 /* open addressing; 0 = empty (the first state is kept apart) */
    size_t capacity, count;
    state *stack;
    size_t depth, stack_capacity;
};

static uint32_t status_of(state s, uint32_t storage)
{
    return (uint32_t)(s >> (4 * storage)) & 15;
}

static state with(state s, uint32_t storage, uint32_t status)
{
    return (s & ~((state)15 << (4 * storage))) | (state)status << (4 * storage);
}

static bool has_run(state s, uint32_t op)
{
    return s >> (4 * MOST_STORAGES + op) & 1;
}

static uint64_t bytes_of(const struct walk *w, state s)
{
    uint64_t sum = w->base_bytes;
    for (uint32_t i = 0; i < w->trace->storage_count; i++)
        if (status_of(s, i) && w->base[i] == PLAN_NOWHERE)
            sum += plan_round(w->trace->storages[i].bytes);
    return sum;
}

static void visit(struct walk *w, state s)
{
    if (w->count * 2 >= w->capacity) {
        size_t old = w->capacity;
        state *from = w->seen;
        w->capacity = old ? old * 2 : 1 << 12;
        w->seen = ebb_calloc(w->capacity, sizeof *w->seen);
        for (size_t i = 0; i < old; i++) {
            size_t at = (from[i] * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (w->capacity - 1);
            while (from[i] && w->seen[at])
                at = (at + 1) & (w->capacity - 1);
            if (from[i])
                w->seen[at] = from[i];
        }
        ebb_free(from);
    }
    size_t at = (s * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (w->capacity - 1);
    while (w->seen[at] && w->seen[at] != s)
        at = (at + 1) & (w->capacity - 1);
    if (w->seen[at] == s)
        return;
    w->seen[at] = s;
    w->count++;
    struct ebb_error err;
    CHECK_OK(ebb_grow(&w->stack, &w->stack_capacity, w->depth + 1, sizeof *w->stack, &err), &err);
    w->stack[w->depth++] = s;
}

/* A recipe is good only while what it reads is current: a second run finds no input that has been
 * overwritten, except by this very op. */
static bool is_current(const struct trace *t, state s, uint32_t op, const struct trace_tensor *in)
{
    for (uint32_t i = 0; i < t->tensor_count; i++)
        if (t->tensors[i].storage == in->storage && t->tensors[i].version > in->version &&
            t->tensors[i].op != op && has_run(s, t->tensors[i].op) &&
            !(t->ops[op].kind->purity == TRACE_MUTATING && /* its own storage is made again */
              t->tensors[t->ops[op].output_first].storage == in->storage))
            return false;
    return true;
}

static bool may_run(const struct walk *w, state s, uint32_t op)
{
    const struct trace *t = w->trace;
    const struct trace_op *o = &t->ops[op];
    if (has_run(s, op) && (o->is_leaf || o->kind->purity == TRACE_ONCE))
        return false;
    if (has_run(s, op) && w->is_ordered && o->kind->purity == TRACE_MUTATING && o->output_count > 1)
        return false;
    for (uint32_t before = 0; before < op && w->is_ordered && !has_run(s, op); before++)
        if (!has_run(s, before))
            return false;
    for (uint32_t i = 0; i < o->input_count; i++) {
        const struct trace_tensor *in = &t->tensors[t->inputs[o->input_first + i]];
        if (status_of(s, in->storage) != in->version + 1)
            return false;
        if (w->is_ordered && has_run(s, op) && !is_current(t, s, op, in))
            return false;
    }
    return true;
}

/* All ways to run an op: any set of its absent outputs is made. */
static void run(struct walk *w, state s, uint32_t op)
{
    const struct trace *t = w->trace;
    const struct trace_op *o = &t->ops[op];
    for (uint32_t made = 0; made < 1u << o->output_count; made++) {
        state next = s | (state)1 << (4 * MOST_STORAGES + op);
        bool is_possible = true;
        for (uint32_t k = 0; k < o->output_count; k++) {
            const struct trace_tensor *out = &t->tensors[o->output_first + k];
            bool is_made = made >> k & 1;
            bool is_first = w->is_ordered && !has_run(s, op) && w->is_read[out->storage];
            if (out->alias == TRACE_MUTATE || w->base[out->storage] != PLAN_NOWHERE || is_first)
                is_possible &= is_made;
            else if (is_made && status_of(s, out->storage))
                is_possible = false;
            if (is_made)
                next = with(next, out->storage, out->version + 1);
        }
        if (is_possible && bytes_of(w, next) + plan_round(o->workspace_bytes) <= w->budget)
            visit(w, next);
    }
}

static bool is_end(const struct walk *w, state s)
{
    const struct trace *t = w->trace;
    for (uint32_t op = 0; op < t->op_count; op++)
        if (!has_run(s, op))
            return false;
    for (uint32_t c = t->command_count; c-- > 0 && t->commands[c].kind != TRACE_RUN;) {
        const struct trace_tensor *kept = &t->tensors[t->commands[c].index];
        if (status_of(s, kept->storage) != kept->version + 1)
            return false;
    }
    return true;
}

static bool is_reachable(const struct trace *trace, uint64_t budget, bool is_ordered)
{
    struct walk w = {.trace = trace, .budget = budget, .is_ordered = is_ordered};
    struct ebb_error err;
    bool is_found = false;
    CHECK_OK(plan_base_layout(trace, NULL, w.base, &w.base_bytes, &err), &err);
    for (size_t i = 0; i < trace->input_count; i++)
        w.is_read[trace->tensors[trace->inputs[i]].storage] = true;
    for (uint32_t c = trace->command_count; c-- > 0 && trace->commands[c].kind != TRACE_RUN;)
        w.is_read[trace->tensors[trace->commands[c].index].storage] = true;
    for (uint32_t op = 0; op < trace->op_count && w.base_bytes <= budget; op++)
        if (may_run(&w, 0, op))
            run(&w, 0, op);
    while (w.depth > 0 && !is_found) {
        state s = w.stack[--w.depth];
        is_found = is_end(&w, s);
        for (uint32_t op = 0; op < trace->op_count; op++)
            if (may_run(&w, s, op))
                run(&w, s, op);
        for (uint32_t i = 0; i < trace->storage_count; i++)
            if (status_of(s, i) && w.base[i] == PLAN_NOWHERE)
                visit(&w, with(s, i, 0));
    }
    ebb_free(w.seen);
    ebb_free(w.stack);
    return is_found;
}

static uint64_t find_optimum(const struct trace *trace, uint64_t high, bool is_ordered)
{
    uint64_t low = 0; /* not reachable at low, reachable at high */
    while (high - low > PLAN_UNIT) {
        uint64_t middle = low + plan_round((high - low) / 2);
        if (middle >= high)
            break;
        if (is_reachable(trace, middle, is_ordered))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* ---- the comparison ----------------------------------------------------------------------------
 */

static void compare(bool has_mutation, uint64_t seeds)
{
    double sum = 0, worst = 0, ordered_sum = 0;
    int count = 0, optimal = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct trace *trace = make_tiny(seed * 31 + has_mutation, has_mutation);
        struct planner_floor_facts facts;
        struct ebb_error err;
        if (trace->storage_count > MOST_STORAGES || trace->op_count > MOST_OPS) {
            trace_destroy(trace);
            continue;
        }
        CHECK_OK(planner_floor_facts_compute(trace, &facts, &err), &err);
        CHECK(is_reachable(trace, facts.floor_bytes, false));
        uint64_t any = find_optimum(trace, facts.floor_bytes, false);
        uint64_t ordered = find_optimum(trace, 2 * facts.floor_bytes + 65536, true);
        CHECK(any <= ordered);
        CHECK(facts.lower_bound_bytes <= ordered);
        double ratio = (double)facts.floor_bytes / (double)any;
        sum += ratio;
        ordered_sum += (double)facts.floor_bytes / (double)ordered;
        worst = ratio > worst ? ratio : worst;
        optimal += facts.floor_bytes <= any;
        count++;
        trace_destroy(trace);
    }
    printf("%s mutation: %d traces, optimal %d; floor / optimum mean %.4f worst %.3f; of those in "
           "trace order mean %.4f\n",
           has_mutation ? "with" : "without", count, optimal, sum / count, worst,
           ordered_sum / count);
    CHECK(count > 20);
    CHECK(sum / count < 1.08);
    CHECK(ordered_sum / count < 1.03);
    CHECK(worst < 1.6);
}

TEST(floor__is_near_the_optimum)
{
    compare(false, 150);
}

TEST(floor__is_near_the_optimum_with_mutation)
{
    compare(true, 150);
}

/* ---- residual blocks ---------------------------------------------------------------------------
 */

#define BLOCKS 3
#define BLOCK_OPS (14 * BLOCKS + 6)

/* Convolution, norm, relu, convolution, norm, add, relu, and back: every tensor has one unit. */
struct residual {
    struct trace_builder *builder;
    uint64_t needs[64]; /* tensor -> tensors it is made from */
    uint32_t count;
};

static uint32_t residual_op(struct residual *r, const char *kind, uint32_t a, uint32_t b)
{
    struct ebb_error err;
    uint32_t inputs[2] = {a, b}, made;
    struct trace_output output = {.bytes = PLAN_UNIT};
    struct trace_op_desc desc = {.kind_name = kind,
                                 .partner = TRACE_NONE,
                                 .cost_ns = 100,
                                 .inputs = inputs,
                                 .input_count = (a != TRACE_NONE) + (size_t)(b != TRACE_NONE),
                                 .outputs = &output,
                                 .output_count = 1};
    CHECK_OK(trace_builder_op(r->builder, &desc, &made, &err), &err);
    CHECK_EQ(made, r->count);
    r->needs[r->count++] =
        (a == TRACE_NONE ? 0 : UINT64_C(1) << a) | (b == TRACE_NONE ? 0 : UINT64_C(1) << b);
    return made;
}

static struct trace *make_residual(struct residual *r)
{
    struct ebb_error err;
    struct trace *trace = NULL;
    uint32_t none = TRACE_NONE, x[BLOCKS + 1], c1[BLOCKS], r1[BLOCKS], c2[BLOCKS];
    CHECK_OK(trace_builder_create(&r->builder, &err), &err);
    uint32_t stem = residual_op(r, "conv", none, none);
    x[0] = residual_op(r, "relu", residual_op(r, "norm", stem, none), none);
    for (int k = 0; k < BLOCKS; k++) {
        c1[k] = residual_op(r, "conv", x[k], none);
        r1[k] = residual_op(r, "relu", residual_op(r, "norm", c1[k], none), none);
        c2[k] = residual_op(r, "conv", r1[k], none);
        uint32_t sum = residual_op(r, "add", residual_op(r, "norm", c2[k], none), x[k]);
        x[k + 1] = residual_op(r, "relu", sum, none);
    }
    uint32_t g = residual_op(r, "loss_grad", x[BLOCKS], none);
    for (int k = BLOCKS; k-- > 0;) {
        uint32_t skip = residual_op(r, "relu_grad", g, x[k + 1]);
        g = residual_op(r, "conv_grad", residual_op(r, "norm_grad", skip, c2[k]), r1[k]);
        g = residual_op(r, "norm_grad", residual_op(r, "relu_grad", g, r1[k]), c1[k]);
        g = residual_op(r, "add", residual_op(r, "conv_grad", g, x[k]), skip);
    }
    g = residual_op(r, "norm_grad", residual_op(r, "relu_grad", g, x[0]), stem);
    CHECK_EQ(r->count, BLOCK_OPS);
    CHECK_OK(trace_builder_command(r->builder, TRACE_PIN, g, &err), &err);
    CHECK_OK(trace_builder_finish(r->builder, "residual", &trace, &err), &err);
    trace_builder_destroy(r->builder);
    return trace;
}

/* Can the last tensor be had with at most `units` at a time? Every set of residents is a state. */
static bool is_had(const struct residual *r, int units)
{
    struct walk w = {0};
    bool is_found = false;
    visit(&w, 1); /* the first op reads nothing */
    while (w.depth > 0 && !is_found) {
        state s = w.stack[--w.depth];
        is_found = s >> (r->count - 1) & 1;
        for (uint32_t t = 0; t < r->count; t++) {
            state one = (state)1 << t;
            if (s & one && s != one)
                visit(&w, s & ~one);
            else if (!(s & one) && (r->needs[t] & ~s) == 0 && __builtin_popcountll(s) < units)
                visit(&w, s | one);
        }
    }
    ebb_free(w.seen);
    ebb_free(w.stack);
    return is_found;
}

TEST(floor__of_residual_blocks_is_the_optimum)
{
    struct residual r = {0};
    struct planner_floor_facts facts;
    struct ebb_error err;
    struct trace *trace = make_residual(&r);
    CHECK_OK(planner_floor_facts_compute(trace, &facts, &err), &err);
    CHECK(!is_had(&r, 4)); /* though no op needs more than three */
    CHECK(is_had(&r, 5));
    CHECK_EQ(facts.working_bytes, 3 * PLAN_UNIT);
    CHECK_EQ(facts.floor_bytes, 5 * PLAN_UNIT);
    trace_destroy(trace);
}

TEST_MAIN()
