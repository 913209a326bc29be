/* bench_memory_grid.c - is planner `unified` as good as the better of recomputing and copying?
 *
 *     bench_memory_grid [-b SECONDS] [-o 1] [-r R,...] [-l GB/s,...] FILE...
 *
 * Files: traces, as of `ebb model trace`. For parts R of the peak (0.9, 0.75, 0.6, 0.45, 0.36, 0.3) that
 * are no less than the floor with a host, and links to a host with room for everything (10, 1, 0.1, 0.008
 * GB/s each way, latency 10 us; moves 8 GB/s), overheads on the null device:
 *
 *   best         planner `best` without tiers, in -b SECONDS (20; 0: not asked)
 *   without      what training takes by default without tiers
 *   swap         nothing made again, copies beside the ops: games, and Belady's policy
 *   unified      what training takes by default
 *   ratio        unified over the least of the others; more than 1.02 is a miss
 *
 * Further misses: a tier or a faster link makes it slower, more bytes by more than 1 %; bars of single rows
 * (`bars`). With -o 1 it asks that of policy `unified`, which decides while it runs:
 *
 *   dtr_eq       without tiers
 *   with tiers   dtr_eq with them
 *   swap         unified and belady, nothing made again
 *   ratio        unified over the least of dtr_eq without tiers and swap
 *
 * Null time: the table is the same everywhere, except where `best` ends by its clock. Exit code 1
 * when a row misses. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/heap.h"
#include "exec/exec.h"
#include "planner/planner.h"

#define MOST 16
#define ABOVE 1.02
#define MORE_BYTES 1.01
#define SAME 1e-9

struct grid {
    double ratios[MOST], links[MOST], seconds;
    size_t ratio_count, link_count;
    bool is_online;
    size_t rows, misses;
    double worst, plan_seconds;
};

struct subject {
    const char *name;
    struct trace *trace;
    struct exec_program *program;
    uint64_t peak_bytes, floor_bytes;
    double before[MOST]; /* per link: unified at the next smaller budget; NAN: none */
};

static const struct {
    const char *name;
    double ratio, link, most;
} bars[] = {{"cifar_resnet20", 0.3, 10, 1.005},
            {"cifar_resnet20", 0.3, 1, 1.13},
            {"resnet50", 0.36, 1, 1.15}};

static struct planner_tiers tiers_at(uint64_t budget, double rate)
{
    struct device_link link = {.latency_ns = 10000, .bytes_per_ns = rate};
    struct planner_tiers t = {.bytes = {budget, rate > 0 ? UINT64_C(1) << 40 : 0, 0},
                              .links = {.in = {[DEVICE_T0] = {.bytes_per_ns = 8}}}};
    t.links.in[DEVICE_HOST] = t.links.out[DEVICE_HOST] = link;
    return t;
}

static enum ebb_status time_plan(const struct subject *s, const struct plan *plan,
                                 const struct planner_tiers *t, double *overhead,
                                 struct ebb_error *err)
{
    struct exec_report report;
    struct exec_options o = {.plan = plan,
                             .budget_bytes = t->bytes[0],
                             .tier_bytes = {0, t->bytes[1], t->bytes[2]},
                             .links = t->links};
    EBB_TRY(exec_run(s->program, &o, &report, err));
    if (report.result == EXEC_OK && !(*overhead <= exec_overhead(&report)))
        *overhead = exec_overhead(&report);
    return EBB_OK;
}

/* NAN: it has no plan. */
static enum ebb_status by_unified(struct grid *g, const struct subject *s,
                                  const struct planner_tiers *t, double *overhead,
                                  struct ebb_error *err)
{
    struct plan plan = {0};
    struct exec_report report;
    bool is_found = false;
    clock_t begin = clock();
    enum ebb_status status =
        planner_unified(s->program, s->trace, t, s->floor_bytes, 0, &plan, &report, &is_found, err);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    g->plan_seconds = seconds > g->plan_seconds ? seconds : g->plan_seconds;
    *overhead = NAN;
    if (status == EBB_OK && is_found)
        status = time_plan(s, &plan, t, overhead, err);
    plan_fini(&plan);
    return status;
}

static enum ebb_status by_best(const struct grid *g, const struct subject *s,
                               const struct planner_tiers *t, double *overhead,
                               struct ebb_error *err)
{
    struct planner_request request;
    struct planner_result result;
    planner_request_init(&request);
    planner_result_init(&result);
    request.budget_bytes = t->bytes[0];
    request.time_limit_s = g->seconds;
    request.move_bytes_per_ns = t->links.in[DEVICE_T0].bytes_per_ns;
    *overhead = NAN;
    if (g->seconds <= 0)
        return EBB_OK;
    enum ebb_status status = planner_run(planner_find("best"), s->trace, &request, &result, err);
    if (status == EBB_OK && result.status == PLANNER_OK)
        status = time_plan(s, &result.plan, t, overhead, err);
    planner_result_fini(&result);
    return status;
}

/* Belady's policy, its copies beside the ops. */
static enum ebb_status by_belady(const struct subject *s, const struct planner_tiers *t,
                                 double *overhead, struct ebb_error *err)
{
    struct exec_log log = {0};
    struct exec_report report;
    struct plan plan = {0}, early = {0};
    bool is_found = false;
    struct exec_options o = {.policy = mem_policy_find("belady"),
                             .budget_bytes = t->bytes[0],
                             .tier_bytes = {0, t->bytes[1], t->bytes[2]},
                             .ways = MEM_HOST,
                             .links = t->links,
                             .log = &log};
    enum ebb_status status = exec_run(s->program, &o, &report, err);
    if (status == EBB_OK && report.result == EXEC_OK)
        status = exec_log_to_plan(&log, s->trace, &plan, err);
    if (status == EBB_OK && plan.step_count > 0)
        status = planner_early(s->trace, &plan, t, true, &early, &is_found, err);
    if (status == EBB_OK && is_found)
        status = time_plan(s, &early, t, overhead, err);
    exec_log_fini(&log);
    plan_fini(&plan);
    plan_fini(&early);
    return status;
}

static enum ebb_status by_swapping(struct grid *g, const struct subject *s, struct planner_tiers t,
                                   double *overhead, struct ebb_error *err)
{
    t.demands = PLANNER_NOTHING_AGAIN;
    EBB_TRY(by_unified(g, s, &t, overhead, err));
    t.demands = 0;
    return by_belady(s, &t, overhead, err);
}

static double least(double a, double b)
{
    return isnan(a) || b < a ? b : a;
}

static const char *text(double x, char *buffer, size_t size)
{
    snprintf(buffer, size, isnan(x) ? "-" : "%.4f", x);
    return buffer;
}

static double bar_of(const struct subject *s, double ratio, double link)
{
    for (size_t i = 0; i < sizeof bars / sizeof *bars; i++)
        if (strncmp(s->name, bars[i].name, strlen(bars[i].name)) == 0 &&
            fabs(bars[i].ratio - ratio) < SAME && fabs(bars[i].link - link) < SAME)
            return bars[i].most;
    return NAN;
}

struct row {
    double ratio, link, best, without, swap, unified;
    double slower; /* unified at the next slower link, or without */
    double less;   /* at the next smaller budget */
};

static void print_row(struct grid *g, const struct subject *s, const struct row *r)
{
    char best[24], without[24], swap[24], why[120] = "";
    double other = least(least(r->best, r->without), r->swap), bar = bar_of(s, r->ratio, r->link);
    double ratio = r->unified / other;
    if (ratio > ABOVE)
        strcat(why, " ABOVE");
    if (!isnan(r->slower) && r->unified > r->slower * (1 + SAME))
        strcat(why, " SLOWER-WITH-FASTER-LINK");
    if (!isnan(r->less) && r->unified > r->less * MORE_BYTES)
        strcat(why, " SLOWER-WITH-MORE-BYTES");
    if (!isnan(bar) && r->unified > bar)
        strcat(why, " BAR");
    g->rows++;
    g->misses += *why != '\0';
    g->worst = ratio > g->worst ? ratio : g->worst;
    printf("| %s | %.2f | %g | %s | %s | %s | %.4f | %.4f |%s\n", s->name, r->ratio, r->link,
           text(r->best, best, sizeof best), text(r->without, without, sizeof without),
           text(r->swap, swap, sizeof swap), r->unified, ratio, why);
    fflush(stdout);
}

/* All links at a budget, from slow to fast. */
static enum ebb_status run_budget(struct grid *g, struct subject *s, double ratio,
                                  struct ebb_error *err)
{
    uint64_t budget = (uint64_t)((double)s->peak_bytes * ratio) / PLAN_UNIT * PLAN_UNIT;
    struct planner_tiers none = tiers_at(budget, 0);
    struct row row = {.ratio = ratio};
    if (budget < s->floor_bytes)
        return EBB_OK;
    EBB_TRY(by_best(g, s, &none, &row.best, err));
    EBB_TRY(by_unified(g, s, &none, &row.without, err));
    row.slower = row.without;
    for (size_t i = 0; i < g->link_count; i++) {
        struct planner_tiers t = tiers_at(budget, g->links[i]);
        row.link = g->links[i];
        row.less = s->before[i];
        EBB_TRY(by_swapping(g, s, t, &row.swap, err));
        EBB_TRY(by_unified(g, s, &t, &row.unified, err));
        if (isnan(row.unified))
            return ebb_fail(err, EBB_EINTERNAL, "%s: no plan above the floor", s->name);
        print_row(g, s, &row);
        row.slower = row.unified;
        s->before[i] = row.unified;
    }
    return EBB_OK;
}

/* ---- policies that decide while they run ------------------------------------------------------- */

/* NAN: it gives up. */
static enum ebb_status by_policy(const struct subject *s, const struct planner_tiers *t,
                                 const char *name, unsigned ways, double *overhead,
                                 struct ebb_error *err)
{
    struct exec_report report;
    struct exec_options o = {.policy = mem_policy_find(name),
                             .budget_bytes = t->bytes[0],
                             .tier_bytes = {0, t->bytes[1], t->bytes[2]},
                             .ways = ways,
                             .limit = PLANNER_MOST_OVERHEAD,
                             .links = t->links};
    EBB_TRY(exec_run(s->program, &o, &report, err));
    *overhead = report.result == EXEC_OK ? exec_overhead(&report) : NAN;
    return EBB_OK;
}

static enum ebb_status run_online(struct grid *g, struct subject *s, double ratio,
                                  struct ebb_error *err)
{
    uint64_t budget = (uint64_t)((double)s->peak_bytes * ratio) / PLAN_UNIT * PLAN_UNIT;
    struct planner_tiers none = tiers_at(budget, 0);
    double alone, with, swap, belady, unified;
    if (budget < s->floor_bytes)
        return EBB_OK;
    EBB_TRY(by_policy(s, &none, "dtr_eq", MEM_DROP, &alone, err));
    for (size_t i = 0; i < g->link_count; i++) {
        struct planner_tiers t = tiers_at(budget, g->links[i]);
        char texts[4][24];
        EBB_TRY(by_policy(s, &t, "dtr_eq", MEM_DROP | MEM_HOST, &with, err));
        EBB_TRY(by_policy(s, &t, "unified", MEM_HOST, &swap, err));
        EBB_TRY(by_policy(s, &t, "belady", MEM_HOST, &belady, err));
        EBB_TRY(by_policy(s, &t, "unified", MEM_DROP | MEM_HOST, &unified, err));
        swap = least(swap, belady);
        double other = isnan(swap) ? alone : least(alone, swap), ratio_to = unified / other;
        bool is_miss = !isnan(other) && !(ratio_to <= ABOVE);
        g->rows++;
        g->misses += is_miss;
        g->worst = ratio_to > g->worst ? ratio_to : g->worst;
        printf("| %s | %.2f | %g | %s | %s | %s | %s | %.4f |%s\n", s->name, ratio, g->links[i],
               text(alone, texts[0], sizeof texts[0]), text(with, texts[1], sizeof texts[1]),
               text(swap, texts[2], sizeof texts[2]), text(unified, texts[3], sizeof texts[3]),
               ratio_to, is_miss ? " ABOVE" : "");
    }
    return EBB_OK;
}

static enum ebb_status open_subject(struct subject *s, const char *path, struct ebb_error *err)
{
    struct planner_tiers any = tiers_at(0, 1);
    const struct plan *all = NULL;
    const char *slash = strrchr(path, '/');
    *s = (struct subject){.name = slash ? slash + 1 : path};
    for (size_t i = 0; i < MOST; i++)
        s->before[i] = NAN;
    EBB_TRY(trace_load(path, TRACE_FORMAT_AUTO, &s->trace, err));
    EBB_TRY(exec_program_create(&s->program, s->trace, EXEC_EBB, err));
    EBB_TRY(exec_keep_all(s->program, UINT64_MAX, &all, err));
    s->peak_bytes = all->budget_bytes;
    return planner_floor(s->trace, &any, NULL, &s->floor_bytes, err);
}

static enum ebb_status run_file(struct grid *g, const char *path, struct ebb_error *err)
{
    struct subject s;
    enum ebb_status status = open_subject(&s, path, err);
    for (size_t i = 0; i < g->ratio_count && status == EBB_OK; i++) /* from less to more */
        status = (g->is_online ? run_online : run_budget)(g, &s, g->ratios[i], err);
    exec_program_destroy(s.program);
    trace_destroy(s.trace);
    return status;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t read_list(const char *from, double *list)
{
    size_t count = 0;
    char *end;
    for (; *from && count < MOST; from = *end ? end + 1 : end) {
        list[count++] = strtod(from, &end);
        if (end == from)
            return 0;
    }
    qsort(list, count, sizeof *list, ascending);
    return count;
}

int main(int argc, char **argv)
{
    struct grid g = {.seconds = 20};
    int first = 1, code = 0;
    g.ratio_count = read_list("0.3,0.36,0.45,0.6,0.75,0.9", g.ratios);
    g.link_count = read_list("0.008,0.1,1,10", g.links);
    for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
        if (argv[first][1] == 'b')
            g.seconds = strtod(argv[first + 1], NULL);
        else if (argv[first][1] == 'o')
            g.is_online = strtod(argv[first + 1], NULL) > 0;
        else if (argv[first][1] == 'r')
            g.ratio_count = read_list(argv[first + 1], g.ratios);
        else
            g.link_count = read_list(argv[first + 1], g.links);
    }
    if (first >= argc || g.ratio_count == 0 || g.link_count == 0) {
        fprintf(stderr,
                "usage: bench_memory_grid [-b SECONDS] [-o 1] [-r R,...] [-l GB/s,...] TRACE...\n");
        return 2;
    }
    printf("| trace | of the peak | GB/s | %s | swap only | unified | ratio |\n"
           "|---|---|---|---|---|---|---|---|\n",
           g.is_online ? "dtr_eq | with tiers" : "best | without tiers");
    for (int i = first; i < argc; i++) {
        struct ebb_error err = {0};
        if (run_file(&g, argv[i], &err) != EBB_OK) {
            fprintf(stderr, "%s: %s\n", argv[i], err.message);
            code = 1;
        }
    }
    printf(
        "%zu rows, %zu miss; largest ratio %.4f; a plan takes at most %.2f s of processor time\n",
        g.rows, g.misses, g.worst, g.plan_seconds);
    return code || g.misses > 0;
}
