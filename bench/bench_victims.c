/* bench_victims.c - does choosing a victim stay cheap when the pool grows?
 *
 *     bench_victims [MOST_OPS]        default 1000000; sizes 1000, 3162, 10000, ... up to that
 *
 * Two measurements per policy and size, both under rules ebb, best of several repetitions:
 *
 *   run    a training step of a chain (all storages equal, then sizes spread over two orders of
 *          magnitude) in half its memory: seconds of the whole run / pressure victims. Everything
 *          is in it - model ops, recomputation, addresses, the upkeep of the index - so it is an
 *          upper bound of what a choice costs, and its growth an upper bound of the choice's
 * growth. index  the index alone with the pattern of a run: one choice, the victim leaves, three
 * storages are used (their stamps renewed), one arrives, the clock goes on. Nanoseconds per round.
 *
 * The pool is the number of storages that fit the budget. `exponent` is the slope of a
 * least-squares line through log(ns) over log(pool); the bar is 0.6 (a scan has 1). A series ends
 * when a run takes more than four seconds. Exit code 1 when an exponent is above the bar. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/str.h"
#include "exec/exec.h"

#define BAR 0.6
#define SIZES 16
#define MOST_SECONDS 4.0 /* longer runs end their series */

static const char *const policies[] = {"lru", "largest", "dtr_local", "dtr_eq"};

struct series {
    double pool[SIZES], ns[SIZES];
    size_t count;
    double seconds; /* of the last run */
};

static double exponent(const struct series *s)
{
    double n = (double)s->count, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < s->count; i++) {
        double a = log(s->pool[i]), b = log(s->ns[i]);
        x += a;
        y += b;
        xx += a * a;
        xy += a * b;
    }
    return s->count < 2 ? NAN : (n * xy - x * y) / (n * xx - x * x);
}

static struct trace *make_chain(uint32_t ops, double spread)
{
    struct ebb_error err;
    struct trace *t = NULL;
    /* per layer: weight, forward, two backward ops */
    struct trace_synth synth = {
        .layers = ops / 4 + 1, .bytes = 1 << 20, .weight_bytes = 256, .seed = 1, .spread = spread};
    for (size_t i = 0; i < trace_shape_count; i++) {
        if (strcmp(trace_shapes[i].name, "chain") == 0 &&
            trace_shape_make(&trace_shapes[i], &synth, &t, &err) != EBB_OK) {
            fprintf(stderr, "bench_victims: %s\n", err.message);
            exit(1);
        }
    }
    return t;
}

/* Seconds of the fastest of a few runs. */
static double time_run(const struct exec_program *program, const struct exec_options *o,
                       struct exec_report *r)
{
    struct ebb_error err;
    double best = INFINITY, total = 0;
    for (int i = 0; i < 50 && (i < 2 || total < 0.2); i++) {
        uint64_t begin = ebb_clock_ns();
        if (exec_run(program, o, r, &err) != EBB_OK) {
            fprintf(stderr, "bench_victims: %s\n", err.message);
            exit(1);
        }
        double s = (double)(ebb_clock_ns() - begin) * 1e-9;
        best = s < best ? s : best;
        total += s;
    }
    return best;
}

static void bench_runs(uint32_t ops, double spread, struct series *series)
{
    struct ebb_error err;
    struct exec_program *program = NULL;
    struct trace_stats stats;
    struct trace *t = make_chain(ops, spread);
    if (exec_program_create(&program, t, EXEC_EBB, &err) != EBB_OK ||
        trace_stats_compute(t, &stats, &err) != EBB_OK) {
        fprintf(stderr, "bench_victims: %s\n", err.message);
        exit(1);
    }
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct exec_report r;
        if (series[i].seconds > MOST_SECONDS) {
            printf("%-9s %8u  left out: the size before took %.1f s\n", policies[i], t->op_count,
                   series[i].seconds);
            continue;
        }
        struct exec_options o = {.policy = mem_policy_find(policies[i]),
                                 .budget_bytes = stats.baseline_bytes / 2,
                                 .limit = 3,
                                 .links.in[DEVICE_T0].bytes_per_ns = 300};
        double s = time_run(program, &o, &r);
        double pool = (double)o.budget_bytes / ((double)stats.total_bytes / t->storage_count);
        double ns = s * 1e9 / (double)(r.evictions_pressure ? r.evictions_pressure : 1);
        printf("%-9s %8u %9.0f %9llu %8.2f %9.1f %9.3f  %s\n", policies[i], t->op_count, pool,
               (unsigned long long)r.evictions_pressure,
               (double)r.eval_count / (double)(r.evictions_pressure ? r.evictions_pressure : 1), ns,
               s, exec_result_text(r.result));
        fflush(stdout);
        series[i].seconds = s;
        if (series[i].count < SIZES) {
            series[i].pool[series[i].count] = pool;
            series[i].ns[series[i].count++] = ns;
        }
    }
    exec_program_destroy(program);
    trace_destroy(t);
}

/* `pool` entries; `by_cost`: weights differ, else all are 1. */
static double bench_index(uint32_t pool, bool by_stale, bool by_cost)
{
    struct ebb_error err;
    struct mem_index *index = NULL;
    uint32_t capacity = 2 * pool; /* half of the storages are away */
    uint32_t *inside = calloc(capacity, sizeof *inside), *away = calloc(capacity, sizeof *away);
    uint32_t rounds = 200000, away_count = capacity - pool;
    uint64_t random = 1;
    if (!inside || !away || mem_index_create(&index, capacity, by_stale, &err) != EBB_OK) {
        fprintf(stderr, "bench_victims: out of memory\n");
        exit(1);
    }
    double clock = capacity, best = INFINITY;
    for (uint32_t id = 0; id < capacity; id++) {
        inside[id] = id < pool;
        if (id < pool)
            mem_index_set(index, id, by_cost ? 1 + (double)(ebb_splitmix64(&random) % 100) : 1, id);
        else
            away[id - pool] = id;
    }
    for (int repetition = 0; repetition < 3; repetition++) {
        uint64_t begin = ebb_clock_ns();
        for (uint32_t i = 0; i < rounds; i++) {
            uint32_t victim = mem_index_top(index, clock);
            mem_index_remove(index, victim);
            inside[victim] = 0;
            for (int k = 0; k < 3; k++) { /* neighbours in time are neighbours in memory */
                uint32_t id = (victim + 1 + (uint32_t)k * 7) % capacity;
                if (inside[id])
                    mem_index_set(index, id,
                                  by_cost ? 1 + (double)(ebb_splitmix64(&random) % 100) : 1, clock);
            }
            uint32_t at = (uint32_t)(ebb_splitmix64(&random) % away_count), comes = away[at];
            away[at] = victim;
            inside[comes] = 1;
            mem_index_set(index, comes, by_cost ? 1 + (double)(ebb_splitmix64(&random) % 100) : 1,
                          clock);
            clock += 3;
        }
        double ns = (double)(ebb_clock_ns() - begin) / rounds;
        best = ns < best ? ns : best;
    }
    mem_index_destroy(index);
    free(inside);
    free(away);
    return best;
}

static int verdict(const char *what, const char *policy, const struct series *s)
{
    double e = exponent(s);
    printf("%-22s %-12s exponent %5.2f  %s\n", what, policy, e, e <= BAR ? "ok" : "ABOVE THE BAR");
    return e > BAR;
}

int main(int argc, char **argv)
{
    uint64_t most = 1000000;
    int above = 0;
    static struct series runs[2][4], index_series[3];
    static const char *const kinds[] = {"staleness", "weight", "both"};
    if (argc > 2 || (argc > 1 && (!ebb_parse_u64(argv[1], &most) || most < 1000))) {
        fprintf(stderr, "usage: bench_victims [MOST_OPS]\n");
        return 2;
    }
    for (int spread = 0; spread < 2; spread++) {
        printf("\nchain in half its memory, %s\n", spread ? "sizes spread" : "all storages equal");
        printf("policy         ops      pool   victims  scored/v      ns/v   seconds\n");
        for (double ops = 1000; ops <= (double)most * 1.01; ops *= sqrt(10))
            bench_runs((uint32_t)ops, spread, runs[spread]);
    }
    printf("\nindex alone, ns per round\n     pool  staleness    weight      both\n");
    for (double pool = 1000; pool <= (double)most * 1.01; pool *= sqrt(10)) {
        double ns[3] = {bench_index((uint32_t)pool, true, false),
                        bench_index((uint32_t)pool, false, true),
                        bench_index((uint32_t)pool, true, true)};
        printf("%9.0f %10.1f %9.1f %9.1f\n", pool, ns[0], ns[1], ns[2]);
        fflush(stdout);
        for (int k = 0; k < 3; k++) {
            index_series[k].pool[index_series[k].count] = pool;
            index_series[k].ns[index_series[k].count++] = ns[k];
        }
    }
    printf("\n");
    for (int spread = 0; spread < 2; spread++)
        for (size_t i = 0; i < 4; i++)
            above += verdict(spread ? "run, sizes spread" : "run, equal sizes", policies[i],
                             &runs[spread][i]);
    for (int k = 0; k < 3; k++)
        above += verdict("index alone, by", kinds[k], &index_series[k]);
    return above > 0;
}
