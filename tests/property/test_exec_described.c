/* Rules simrd against a second implementation of the published algorithm, written from its
 * description with lists, recursion and walks from scratch: same victims, clock and counters on
 * random graphs with views, several outputs, inputs read twice and handles lost early. */
#include <math.h>
#include <stdio.h>
#include "test.h"
#include "exec_traces.h"

#include "base/hash.h"
#include "base/rng.h"
#include "exec/exec.h"
#include "simrd/run.h"

#define MOST 400

enum verdict { GOES_ON, OOM, THRASHED };

struct naive {
    const struct trace *t;
    const struct mem_policy *policy;
    uint64_t clock, memory, budget, limit;
    uint32_t pool[MOST], pool_count;
    bool material[MOST], pinned[MOST], defined[MOST];
    uint32_t locks[MOST], refs[MOST], exists; /* tensors that exist: ids below this */
    uint64_t last[MOST];
    uint32_t parent[20 * MOST], node[MOST], nodes; /* union-find; node[s] = 0: none */
    int64_t value[20 * MOST];
    bool seen[MOST];
    struct exec_report r;
};

/* ---- facts, from scratch each time (edges apart)
 * ------------------------------------------------------------------- */

static int64_t cost_of(const struct naive *w, uint32_t s)
{
    int64_t sum = 0;
    uint32_t last = UINT32_MAX; /* outputs of a call follow each other */
    for (uint32_t x = w->t->storages[s].root; x < w->exists; x++) {
        if (w->t->tensors[x].storage == s && w->t->tensors[x].op != last) {
            last = w->t->tensors[x].op;
            sum += (int64_t)w->t->ops[last].cost_ns;
        }
    }
    return sum;
}

static uint32_t birth[MOST][MOST]; /* first tensor on [1] that is made from [0] */

static void collect_edges(const struct trace *t)
{
    memset(birth, 0xff, sizeof birth);
    for (uint32_t x = t->tensor_count; x-- > 0;) {
        const struct trace_op *op = &t->ops[t->tensors[x].op];
        for (uint32_t i = 0; i < op->input_count; i++)
            birth[t->tensors[t->inputs[op->input_first + i]].storage][t->tensors[x].storage] = x;
    }
}

/* Is `child` made from `s` by some call so far? */
static bool has_edge(const struct naive *w, uint32_t s, uint32_t child)
{
    return s != child && birth[s][child] < w->exists;
}

static int64_t region(struct naive *w, uint32_t s, bool is_backward, uint64_t *latest)
{
    int64_t sum = 0;
    for (uint32_t o = 0; o < w->t->storage_count; o++) {
        if (w->seen[o] || w->t->storages[o].root >= w->exists || w->material[o])
            continue;
        if (!(is_backward ? has_edge(w, o, s) : has_edge(w, s, o)))
            continue;
        w->seen[o] = true;
        *latest = w->last[o] > *latest ? w->last[o] : *latest;
        sum += cost_of(w, o) + region(w, o, is_backward, latest);
    }
    return sum;
}

static uint32_t root_of(const struct naive *w, uint32_t node)
{
    while (w->parent[node] != node)
        node = w->parent[node];
    return node;
}

static int64_t classes(struct naive *w, uint32_t s)
{
    uint32_t roots[MOST], count = 0;
    int64_t sum = 0;
    for (uint32_t o = 0; o < w->t->storage_count; o++) {
        if (w->t->storages[o].root >= w->exists || w->material[o] ||
            !(has_edge(w, o, s) || has_edge(w, s, o)))
            continue;
        uint32_t root = root_of(w, w->node[o]);
        bool is_seen = false;
        for (uint32_t k = 0; k < count; k++)
            is_seen |= roots[k] == root;
        if (!is_seen) {
            roots[count++] = root;
            sum += w->value[root];
        }
    }
    return sum;
}

static double score(struct naive *w, uint32_t s)
{
    const struct mem_policy *p = w->policy;
    uint64_t latest = 0, last = w->last[s];
    int64_t n = p->numerator == MEM_ONE ? 1 : cost_of(w, s);
    if (strcmp(p->name, "lru") == 0)
        return (double)last;
    memset(w->seen, 0, sizeof w->seen);
    w->seen[s] = true;
    if (p->numerator == MEM_EQ)
        n += classes(w, s);
    if (p->numerator == MEM_REGION || p->numerator == MEM_UNION)
        n += region(w, s, false, &latest);
    if (p->numerator == MEM_REGION) { /* the two directions are counted apart */
        memset(w->seen, 0, sizeof w->seen);
        w->seen[s] = true;
    }
    if (p->numerator == MEM_REGION || p->numerator == MEM_UNION || p->numerator == MEM_ANCESTORS)
        n += region(w, s, true, &latest);
    if (p->numerator == MEM_UNION && latest > last)
        last = latest;
    ebb_u128 d = p->by_size ? w->t->storages[s].bytes : 1;
    d *= p->by_stale ? w->clock - last : 1;
    return d == 0 ? INFINITY : simrd_quotient(n, d);
}

/* ---- the runtime
 * ------------------------------------------------------------------------------------- */

static void pool_remove(struct naive *w, uint32_t s)
{
    uint32_t to = 0;
    for (uint32_t i = 0; i < w->pool_count; i++)
        if (w->pool[i] != s)
            w->pool[to++] = w->pool[i];
    CHECK_EQ(to + 1, w->pool_count);
    w->pool_count = to;
}

static void lock(struct naive *w, uint32_t s)
{
    if (w->locks[s]++ == 0)
        pool_remove(w, s);
}

static void unlock(struct naive *w, uint32_t s)
{
    if (--w->locks[s] == 0)
        w->pool[w->pool_count++] = s;
}

static void new_class(struct naive *w, uint32_t s, int64_t value)
{
    uint32_t node = ++w->nodes;
    CHECK(node < 20 * MOST);
    w->parent[node] = node;
    w->value[node] = value;
    w->node[s] = node;
}

static void evict(struct naive *w, uint32_t s)
{
    w->material[s] = false;
    w->memory -= w->t->storages[s].bytes;
    pool_remove(w, s);
    for (uint32_t x = 0; x < w->exists; x++)
        if (w->t->tensors[x].storage == s)
            w->defined[x] = false;
    new_class(w, s, cost_of(w, s));
    for (uint32_t o = 0; o < w->t->storage_count; o++) {
        if (o == s || w->t->storages[o].root >= w->exists || w->material[o] ||
            !(has_edge(w, o, s) || has_edge(w, s, o)))
            continue;
        uint32_t theirs = root_of(w, w->node[o]), mine = root_of(w, w->node[s]);
        if (theirs != mine) {
            w->parent[theirs] = mine;
            w->value[mine] += w->value[theirs];
        }
    }
}

static enum verdict make_room(struct naive *w, uint64_t bytes)
{
    while (w->memory + bytes > w->budget) {
        double best = INFINITY;
        uint32_t victim = UINT32_MAX;
        if (w->pool_count == 0)
            return OOM;
        for (uint32_t i = 0; i < w->pool_count; i++) {
            double cost = score(w, w->pool[i]);
            w->r.eval_count++;
            if (cost <= best) {
                best = cost;
                victim = w->pool[i];
            }
            if (cost == 0)
                break;
        }
        w->r.evictions_pressure++;
        w->r.evict_hash = ebb_fnv1a_u32(w->r.evict_hash, w->t->storages[victim].root);
        evict(w, victim);
    }
    return GOES_ON;
}

static void execute(struct naive *w, uint32_t tensor, bool is_remat)
{
    const struct trace_op *op = &w->t->ops[w->t->tensors[tensor].op];
    uint64_t total = 0;
    uint32_t order[8], count = 0;
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct trace_tensor *x = &w->t->tensors[op->output_first + k];
        total += x->alias == TRACE_FRESH ? w->t->storages[x->storage].bytes : 0;
        if (op->output_first + k != tensor)
            order[count++] = op->output_first + k;
    }
    order[count++] = tensor;
    w->clock += op->cost_ns;
    w->memory += total;
    w->r.peak_bytes = w->memory > w->r.peak_bytes ? w->memory : w->r.peak_bytes;
    w->r.remat_ns += is_remat ? op->cost_ns : 0;
    w->r.remat_ops += is_remat;
    for (uint32_t i = 0; i < count; i++) {
        const struct trace_tensor *x = &w->t->tensors[order[i]];
        if (w->defined[order[i]]) { /* only siblings can be */
            w->memory -= x->alias == TRACE_FRESH ? w->t->storages[x->storage].bytes : 0;
            continue;
        }
        w->r.remat_collateral += is_remat && order[i] != tensor;
        w->defined[order[i]] = true;
        if (!w->material[x->storage]) {
            w->material[x->storage] = true;
            w->value[root_of(w, w->node[x->storage])] -= cost_of(w, x->storage);
            w->node[x->storage] = 0;
            w->pool[w->pool_count++] = x->storage;
        }
    }
}

static enum verdict materialize(struct naive *w, uint32_t tensor, bool is_remat)
{
    const struct trace *t = w->t;
    const struct trace_op *op = &t->ops[t->tensors[tensor].op];
    const uint32_t *in = t->inputs + op->input_first;
    uint32_t missing[8], count = 0;
    uint64_t total = 0;
    for (uint32_t i = 0; i < op->input_count; i++)
        w->last[t->tensors[in[i]].storage] = w->clock;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (w->defined[in[i]])
            lock(w, t->tensors[in[i]].storage);
        else
            missing[count++] = in[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        enum verdict v = w->defined[missing[i]] ? GOES_ON : materialize(w, missing[i], true);
        if (v != GOES_ON)
            return v;
        lock(w, t->tensors[missing[i]].storage);
    }
    for (uint32_t k = 0; k < op->output_count; k++)
        if (t->tensors[op->output_first + k].alias == TRACE_FRESH)
            total += t->storages[t->tensors[op->output_first + k].storage].bytes;
    enum verdict v = make_room(w, total);
    if (v != GOES_ON)
        return v;
    execute(w, tensor, is_remat);
    for (uint32_t i = 0; i < op->input_count; i++)
        unlock(w, t->tensors[in[i]].storage);
    return w->r.remat_ns > w->limit ? THRASHED : GOES_ON;
}

static enum verdict run_command(struct naive *w, struct trace_command c, bool ignores_releases)
{
    const struct trace *t = w->t;
    uint32_t s = t->tensors[c.index].storage;
    enum verdict v = GOES_ON;
    switch (c.kind) {
    case TRACE_RUN: {
        const struct trace_op *op = &t->ops[c.index];
        w->r.ops_done++;
        w->exists = op->output_first + op->output_count;
        for (uint32_t k = 0; k < op->output_count; k++) {
            uint32_t made = t->tensors[op->output_first + k].storage;
            w->refs[made]++;
            if (t->tensors[op->output_first + k].alias == TRACE_FRESH)
                new_class(w, made, 0);
        }
        v = materialize(w, op->output_first, false);
        for (uint32_t k = 0; k < op->output_count && v == GOES_ON; k++)
            w->last[t->tensors[op->output_first + k].storage] = w->clock;
        return v;
    }
    case TRACE_GET:
        w->refs[s]++;
        return GOES_ON;
    case TRACE_RELEASE:
        if (--w->refs[s] == 0 && w->material[s] && !w->pinned[s] && !ignores_releases) {
            w->r.evictions_release++;
            evict(w, s);
        }
        return GOES_ON;
    default:
        if (!w->defined[c.index])
            v = materialize(w, c.index, true);
        if (v == GOES_ON && !w->pinned[s]) {
            w->pinned[s] = true;
            lock(w, s);
        }
        return v;
    }
}

static void run_naive(struct naive *w, const struct trace *t, const struct exec_options *o,
                      uint64_t base)
{
    memset(w, 0, sizeof *w);
    w->t = t;
    w->policy = o->policy;
    w->clock = 1;
    w->budget = o->budget_bytes;
    w->limit = o->limit <= 0 ? UINT64_MAX : (uint64_t)((o->limit - 1) * (double)base);
    w->r.evict_hash = EBB_FNV1A_INIT;
    enum verdict v = GOES_ON;
    for (uint32_t c = 0; c < t->command_count && v == GOES_ON; c++)
        v = run_command(w, t->commands[c], o->dealloc == EXEC_IGNORE);
    w->r.result = v == OOM ? EXEC_OOM : v == THRASHED ? EXEC_THRASHED : EXEC_OK;
    w->r.clock_ns = w->clock;
}

static size_t run_count, ok_count, remat_count;

static void compare(const struct exec_program *program, const struct trace *t,
                    struct exec_options *o, uint64_t base)
{
    static struct naive w;
    struct ebb_error err;
    run_naive(&w, t, o, base);
    for (int scan = 0; scan < 2; scan++) {
        struct exec_report r;
        o->reference_scan = scan;
        CHECK_OK(exec_run(program, o, &r, &err), &err);
        if (r.result != w.r.result || r.clock_ns != w.r.clock_ns ||
            r.peak_bytes != w.r.peak_bytes || r.remat_ns != w.r.remat_ns ||
            r.remat_ops != w.r.remat_ops || r.remat_collateral != w.r.remat_collateral ||
            r.ops_done != w.r.ops_done || r.evictions_pressure != w.r.evictions_pressure ||
            r.evictions_release != w.r.evictions_release || r.evict_hash != w.r.evict_hash ||
            r.eval_count != w.r.eval_count)
            fail_msg("%s, policy %s, budget %llu, dealloc %d, limit %g%s: %s clock %llu, %llu "
                     "victims, %llu scored; described %s, %llu, %llu, %llu",
                     t->name, o->policy->name, (unsigned long long)o->budget_bytes, (int)o->dealloc,
                     o->limit, scan ? ", plain scan" : "", exec_result_text(r.result),
                     (unsigned long long)r.clock_ns, (unsigned long long)r.evictions_pressure,
                     (unsigned long long)r.eval_count, exec_result_text(w.r.result),
                     (unsigned long long)w.r.clock_ns, (unsigned long long)w.r.evictions_pressure,
                     (unsigned long long)w.r.eval_count);
        CHECK(r.peak_bytes <= o->budget_bytes);
        CHECK(r.result != EXEC_OK || r.clock_ns == 1 + r.base_ns + r.remat_ns);
    }
    run_count++;
    ok_count += w.r.result == EXEC_OK;
    remat_count += w.r.remat_ops > 0;
}

static void sweep(const struct trace *t, uint64_t seed, size_t policies)
{
    static const double parts[] = {1.2, 1.0, 0.85, 0.7, 0.55, 0.4, 0.25};
    struct ebb_error err;
    struct exec_program *program = NULL;
    struct trace_stats stats;
    uint64_t random = seed;
    CHECK(t->tensor_count < MOST);
    collect_edges(t);
    CHECK_OK(exec_program_create(&program, t, EXEC_SIMRD, &err), &err);
    CHECK_OK(trace_stats_compute(t, &stats, &err), &err);
    for (size_t b = 0; b < sizeof parts / sizeof *parts; b++) {
        for (size_t k = 0; k < policies; k++) {
            uint64_t bits = ebb_splitmix64(&random);
            size_t p = policies == mem_policy_count ? k : bits % mem_policy_count;
            struct exec_options o = {.policy = &mem_policies[p],
                                     .budget_bytes =
                                         (uint64_t)((double)stats.baseline_bytes * parts[b]),
                                     .limit = bits >> 32 & 1 ? 2 : 6,
                                     .dealloc = (bits >> 33 & 3) == 0 ? EXEC_IGNORE : EXEC_EAGER};
            if (o.policy->numerator != MEM_RANDOM)
                compare(program, t, &o, stats.base_ns);
        }
    }
    exec_program_destroy(program);
}

TEST(nasty_graphs__run_as_described)
{
    for (uint64_t seed = 1; seed <= 80; seed++) {
        struct trace *t = exec_traces_nasty(seed, false);
        sweep(t, seed, 5);
        trace_destroy(t);
    }
    print_message("%zu runs, %zu ok, %zu with replays\n", run_count, ok_count, remat_count);
    CHECK(remat_count > run_count / 4);
}

TEST(training_graphs__run_as_described)
{
    for (uint64_t seed = 1; seed <= 45; seed++) {
        struct trace *t = exec_traces_random(seed, false);
        sweep(t, seed, 4);
        trace_destroy(t);
    }
}

/* Random programs use what they gave up: banishing says so, and is otherwise sound. */
TEST(banishing__runs_or_names_what_is_lost)
{
    struct ebb_error err;
    size_t good = 0, bad = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct trace *t =
            seed % 2 ? exec_traces_nasty(seed, false) : exec_traces_random(seed, false);
        struct exec_program *program = NULL;
        struct trace_stats stats;
        CHECK_OK(exec_program_create(&program, t, EXEC_SIMRD, &err), &err);
        CHECK_OK(trace_stats_compute(t, &stats, &err), &err);
        for (uint64_t part = 3; part <= 8; part++) {
            struct exec_options o = {.policy = &mem_policies[seed % mem_policy_count],
                                     .budget_bytes = stats.baseline_bytes * part / 6,
                                     .dealloc = EXEC_BANISH,
                                     .limit = 4};
            struct exec_report r;
            enum ebb_status status = exec_run(program, &o, &r, &err);
            CHECK(status == EBB_OK || status == EBB_EINPUT);
            CHECK(status == EBB_OK || strstr(err.message, "given up") != NULL);
            good += status == EBB_OK;
            bad += status != EBB_OK;
            CHECK(r.peak_bytes <= o.budget_bytes);
        }
        exec_program_destroy(program);
        trace_destroy(t);
    }
    CHECK(good > 100 && bad > 100);
}

TEST(every_policy__runs_as_described_on_chain_and_tree)
{
    struct trace_synth synth = {.layers = 10, .bytes = 4096, .weight_bytes = 512, .spread = 1};
    struct trace *t = exec_traces_shape("chain", &synth);
    sweep(t, 1, mem_policy_count);
    trace_destroy(t);
    synth.layers = 2;
    t = exec_traces_shape("tree", &synth);
    sweep(t, 2, mem_policy_count);
    trace_destroy(t);
    t = exec_traces_shape("linear", &(struct trace_synth){.layers = 30});
    sweep(t, 3, mem_policy_count);
    trace_destroy(t);
}

TEST_MAIN()
