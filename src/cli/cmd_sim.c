/* cmd_sim.c - `ebb sim`: run traces on the null device, one row per log x policy x budget. */
#include "cli/cmd_sim.h"
#include "cli/link.h"
#include "cli/train_file.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/thread.h"
#include "planner/planner.h"
#include "plot/plot.h"

#define FLOOR_OPS                                                                                  \
    20000 /* the floor of longer traces is found only on demand: it takes many runs                \
           */

#define NOT_GIVEN -1 /* of numbers that cannot be negative */

struct settings { /* what the command line says */
    struct cli_list policies, ratios, budgets, links;
    const char *rules, *runtime, *dealloc, *chart;
    double limit, copy_rate, host_rate, file_rate;
    int64_t seed, repeat, jobs, latency_ns;
    uint64_t host_bytes, file_bytes;
    bool sampling, ignore_small, wants_floor, no_floor, is_json;
};

static int bad_value(const char *option, const char *found, const char *allowed)
{
    return cli_usage_error("--%s: found '%s', allowed: %s", option, found, allowed);
}

/* ---- reading the settings -------------------------------------------------------------------- */

static int read_runtime(const struct settings *set, struct sim_job *job)
{
    static const struct {
        const char *name;
        enum exec_dealloc dealloc;
        bool has_features;
    } runtimes[] = {
        {"V1", EXEC_BANISH, false},
        {"V2", EXEC_IGNORE, false},
        {"V2Eager", EXEC_EAGER, false},
        {"V2Optimized", EXEC_IGNORE, true},
        {"V2EagerOptimized", EXEC_EAGER, true},
    };
    if (!set->runtime)
        return -1;
    if (job->rules != EXEC_SIMRD)
        return cli_usage_error("--runtime %s belongs to the published simulator: add --rules simrd",
                               set->runtime);
    for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++) {
        if (strcmp(runtimes[i].name, set->runtime) != 0)
            continue;
        if (set->dealloc && runtimes[i].dealloc != job->dealloc)
            return cli_usage_error("--runtime %s and --dealloc %s contradict each other",
                                   set->runtime, set->dealloc);
        job->dealloc = runtimes[i].dealloc;
        for (size_t p = 0; p < job->policy_count && !runtimes[i].has_features; p++) {
            const struct mem_policy *policy = job->policies[p];
            if (policy && (policy->numerator == MEM_REGION || policy->numerator == MEM_EQ ||
                           policy->numerator == MEM_ANCESTORS))
                return cli_usage_error("policy %s needs a runtime that tracks neighbourhoods; %s "
                                       "does not (use V2EagerOptimized, or dtr_unopt)",
                                       policy->name, set->runtime);
        }
        return -1;
    }
    return bad_value("runtime", set->runtime, "V1, V2, V2Eager, V2Optimized, V2EagerOptimized");
}

static int read_policies(const struct settings *set, struct sim_job *job)
{
    const char *names[64];
    size_t count = 0;
    names[count++] = "none";
    for (size_t i = 0; i < mem_policy_total && count < 64; i++)
        names[count++] = mem_policies[i].name;
    for (size_t i = 0; i < set->policies.count; i++) {
        const char *name = set->policies.items[i];
        if (strcmp(name, "all") == 0) {
            bool has_tiers = set->host_bytes || set->file_bytes;
            size_t all = has_tiers ? mem_policy_total : mem_policy_count;
            for (size_t p = 0; p < all && job->policy_count < SIM_MAX_POLICIES; p++)
                job->policies[job->policy_count++] = &mem_policies[p];
            continue;
        }
        const struct mem_policy *policy = mem_policy_find(name);
        if (!policy && strcmp(name, "none") != 0) {
            if (planner_find(name))
                return cli_usage_error("%s is a planner, not a policy: use `ebb plan`", name);
            const char *near = ebb_nearest(name, names, count);
            return cli_usage_error("unknown policy '%s'%s%s%s; `ebb sim --help` lists them", name,
                                   near ? ", did you mean " : "", near ? near : "",
                                   near ? "?" : "");
        }
        if (policy && mem_policy_needs_tier(policy) && !(set->host_bytes || set->file_bytes))
            return cli_usage_error("policy %s copies to lower tiers: add --host or --file", name);
        if (job->policy_count == SIM_MAX_POLICIES)
            return cli_usage_error("more than %d policies", SIM_MAX_POLICIES);
        job->policies[job->policy_count++] = policy;
    }
    return -1;
}

static int read_budgets(const struct settings *set, struct sim_job *job)
{
    if ((set->ratios.count > 0) == (set->budgets.count > 0))
        return cli_usage_error("give either --ratio or --budget");
    size_t count = set->ratios.count + set->budgets.count;
    if (count > SIM_MAX_BUDGETS)
        return cli_usage_error("more than %d budgets", SIM_MAX_BUDGETS);
    for (size_t i = 0; i < count; i++) {
        struct sim_budget *b = &job->budgets[job->budget_count++];
        struct ebb_error err;
        *b = (struct sim_budget){.ratio = NAN};
        if (set->ratios.count) {
            if (!ebb_parse_double(set->ratios.items[i], &b->ratio) || !(b->ratio > 0))
                return bad_value("ratio", set->ratios.items[i], "a number above 0, such as 0.5");
        } else if (ebb_parse_bytes(set->budgets.items[i], &b->bytes, &err) != EBB_OK) {
            return cli_usage_error("--budget: %s", err.message);
        }
    }
    return -1;
}

/* What the rules and tiers asked for have no use for, and what no run can use. Returns -1, or the
 * exit code. */
static int refuse_unused(const struct settings *set, enum exec_rules rules)
{
    bool is_simrd = rules == EXEC_SIMRD;
    bool has_tier = set->host_bytes || set->file_bytes;
    const struct {
        bool is_given, is_unused;
        const char *name, *needs;
    } rows[] = {
        {set->sampling, is_simrd, "sampling", "--rules ebb"},
        {set->ignore_small, is_simrd, "ignore-small", "--rules ebb"},
        {set->host_bytes, is_simrd, "host", "--rules ebb"},
        {set->file_bytes, is_simrd, "file", "--rules ebb"},
        {set->copy_rate != NOT_GIVEN, is_simrd, "copy-rate", "--rules ebb"},
        {set->wants_floor, is_simrd, "floor", "--rules ebb"},
        {set->links.count > 0, !has_tier, "link", "--host BYTES or --file BYTES"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is_given && rows[i].is_unused)
            return cli_usage_error("--%s needs %s", rows[i].name, rows[i].needs);
    struct ebb_error err;
    if (set->chart && plot_check_name(set->chart, &err) != EBB_OK)
        return cli_report(&err);
    if (set->limit > 0 && set->limit < 1)
        return cli_usage_error("--limit: found %g, allowed: 0, or a number from 1 on", set->limit);
    return -1;
}

static double rate(double given, double usual)
{
    return given != NOT_GIVEN ? given : usual;
}

static int read_settings(const struct settings *set, struct sim_job *job)
{
    if (set->rules && strcmp(set->rules, "simrd") == 0)
        job->rules = EXEC_SIMRD;
    else if (set->rules && strcmp(set->rules, "ebb") != 0)
        return bad_value("rules", set->rules, "ebb, simrd");
    if (set->dealloc) {
        if (strcmp(set->dealloc, "banish") == 0)
            job->dealloc = EXEC_BANISH;
        else if (strcmp(set->dealloc, "ignore") == 0)
            job->dealloc = EXEC_IGNORE;
        else if (strcmp(set->dealloc, "eager") != 0)
            return bad_value("dealloc", set->dealloc, "eager, banish, ignore");
    }
    if (job->rules == EXEC_EBB && job->dealloc == EXEC_BANISH)
        return cli_usage_error("--dealloc banish is the published V1 runtime: add --rules simrd");
    int unused = refuse_unused(set, job->rules);
    if (unused >= 0)
        return unused;
    job->limit = set->limit;
    job->seed = (uint64_t)set->seed;
    job->repeat = set->repeat;
    job->runtime = set->runtime;
    job->sampling = set->sampling;
    job->ignore_small = set->ignore_small;
    job->tier_bytes[DEVICE_HOST] = set->host_bytes;
    job->tier_bytes[DEVICE_FILE] = set->file_bytes;
    uint64_t latency = set->latency_ns != NOT_GIVEN ? (uint64_t)set->latency_ns : 10000;
    job->links.in[DEVICE_T0] = (struct device_link){0, rate(set->copy_rate, 300)};
    job->links.out[DEVICE_HOST] = job->links.in[DEVICE_HOST] =
        (struct device_link){latency, rate(set->host_rate, 12)};
    job->links.out[DEVICE_FILE] = job->links.in[DEVICE_FILE] =
        (struct device_link){latency, rate(set->file_rate, 2)};
    int code = cli_read_links(&set->links, &job->links);
    if (code < 0)
        code = read_policies(set, job);
    if (code < 0)
        code = read_runtime(set, job);
    return code < 0 ? read_budgets(set, job) : code;
}

/* ---- running --------------------------------------------------------------------------------- */

static enum ebb_status load_log(struct sim_job *job, const char *path, struct ebb_error *err)
{
    struct sim_log *log = &job->logs[job->log_count];
    *log = (struct sim_log){.path = path};
    EBB_TRY(cli_load_trace(path, &log->trace, err));
    job->log_count++;
    EBB_TRY(trace_stats_compute(log->trace, &log->stats, err));
    EBB_TRY(exec_program_create(&log->program, log->trace, job->rules, err));
    return EBB_OK;
}

struct batch {
    struct sim_job *job;
    struct ebb_progress *progress;
};

static void run_cell(void *context, size_t i)
{
    struct batch *batch = context;
    struct sim_job *job = batch->job;
    struct sim_row *row = &job->rows[i];
    const struct sim_log *log = row->log;
    struct exec_options options = {.policy = row->policy,
                                   .dealloc = job->dealloc,
                                   .budget_bytes = row->budget_bytes,
                                   .limit = job->limit,
                                   .seed = job->seed,
                                   .sampling = job->sampling,
                                   .ignore_small = job->ignore_small,
                                   .links = job->links};
    options.ways = MEM_DROP | (job->tier_bytes[DEVICE_HOST] ? MEM_HOST : 0u) |
                   (job->tier_bytes[DEVICE_FILE] ? MEM_FILE : 0u);
    memcpy(options.tier_bytes, job->tier_bytes, sizeof options.tier_bytes);
    if (cli_interrupted())
        return;
    uint64_t start = ebb_clock_ns();
    for (int64_t k = 0; k < job->repeat && row->status == EBB_OK; k++)
        row->status = exec_run(log->program, &options, &row->report, &row->err);
    row->seconds = (double)(ebb_clock_ns() - start) * 1e-9 / (double)job->repeat;
    if (row->report.result != EXEC_OK && log->floor_bytes && row->budget_bytes < log->floor_bytes)
        row->report.result = EXEC_REFUSED;
    row->is_done = true;
    ebb_progress_add(batch->progress, 1);
}

static enum ebb_status run_all(struct sim_job *job, int threads, struct ebb_error *err)
{
    job->row_count = job->log_count * job->policy_count * job->budget_count;
    job->rows = ebb_calloc(job->row_count + 1, sizeof *job->rows);
    if (!job->rows)
        return ebb_no_memory(err, job->row_count * sizeof *job->rows);
    size_t at = 0;
    for (size_t l = 0; l < job->log_count; l++) {
        for (size_t p = 0; p < job->policy_count; p++) {
            for (size_t b = 0; b < job->budget_count; b++) {
                struct sim_row *row = &job->rows[at++];
                const struct sim_budget *budget = &job->budgets[b];
                double base = (double)job->logs[l].stats.baseline_bytes;
                row->log = &job->logs[l];
                row->policy = job->policies[p];
                row->budget_bytes =
                    isnan(budget->ratio) ? budget->bytes : (uint64_t)(base * budget->ratio);
                row->ratio = isnan(budget->ratio) ? (double)budget->bytes / base : budget->ratio;
            }
        }
    }
    struct batch batch = {job, ebb_progress_create("runs", job->row_count)};
    enum ebb_status status = ebb_parallel(threads, job->row_count, run_cell, &batch, err);
    ebb_progress_destroy(batch.progress);
    for (size_t i = 0; i < job->row_count && status == EBB_OK; i++) {
        if (job->rows[i].status != EBB_OK) {
            *err = job->rows[i].err;
            status = ebb_context(err, err->status, "%s", job->rows[i].log->path);
        }
    }
    return status;
}

/* What no plan is faster than, for each trace and budget: rows of all policies share it. */
static void bound_cell(void *context, size_t i)
{
    struct sim_job *job = context;
    size_t log = i / job->budget_count, budget = i % job->budget_count;
    size_t first = log * job->policy_count * job->budget_count + budget;
    struct planner_tiers tiers = {.links = job->links};
    double bound = 0;
    memcpy(tiers.bytes, job->tier_bytes, sizeof tiers.bytes);
    tiers.bytes[0] = job->rows[first].budget_bytes;
    struct sim_row *row = &job->rows[first];
    if (row->log->trace->op_count > FLOOR_OPS)
        return;
    if (row->status == EBB_OK && !cli_interrupted())
        row->status = planner_bound(row->log->trace, &tiers, 0, &bound, &row->err);
    for (size_t p = 0; p < job->policy_count; p++)
        job->rows[first + p * job->budget_count].bound_ns = bound;
}

static enum ebb_status find_bounds(struct sim_job *job, int threads, struct ebb_error *err)
{
    bool has_tiers = job->tier_bytes[DEVICE_HOST] || job->tier_bytes[DEVICE_FILE];
    if (!has_tiers)
        return EBB_OK;
    EBB_TRY(ebb_parallel(threads, job->log_count * job->budget_count, bound_cell, job, err));
    for (size_t i = 0; i < job->row_count; i++)
        if (job->rows[i].status != EBB_OK) {
            *err = job->rows[i].err;
            return job->rows[i].status;
        }
    return EBB_OK;
}

/* ---- help ------------------------------------------------------------------------------------ */

static const char description[] =
    "Runs each trace (native, text, DTR log or Checkmate graph) on the null device: the same "
    "executor "
    "and\n"
    "the same policies as a real run, with a clock instead of kernels. One row per trace, policy "
    "and\n"
    "budget: how much longer the step takes than with unlimited memory, or why it does not fit.\n"
    "\n"
    "Ratios are of the peak with plain reference counting (`ebb trace stat` prints it). Rules "
    "`ebb`\n"
    "(default) place every storage at an address inside the budget; rules `simrd` reproduce the\n"
    "published DTR simulator decision for decision, counting bytes.\n"
    "\n"
    "Status: ok; oom (nothing left to evict); thrashed (more recomputation than --limit allows);\n"
    "refused (below the floor, the smallest budget for which a plan is known).\n"
    "\n"
    "With --host or --file there is a bound, too: no plan that keeps weights and optimizer state "
    "in\n"
    "tier 0 is faster, whoever makes it.\n"
    "\n"
    "Examples:\n"
    "  ebb trace make transformer -o gpt.trace\n"
    "  ebb sim gpt.trace --policy dtr,dtr_eq,lru --ratio 1,0.8,0.6,0.4,0.2\n"
    "  ebb sim gpt.trace --policy all --ratio 0.5 --json\n"
    "  ebb sim gpt.trace --policy dtr --budget 2GiB --host 8GiB --host-rate 24\n"
    "  ebb sim run.log --policy DTREqClass --ratio 0.3 --rules simrd\n"
    "\n"
    "Policies (published names work too):\n";

static char *full_description(void)
{
    struct ebb_str s = {0};
    ebb_str_add(&s, description);
    ebb_str_printf(&s, "  %-14s %s\n", "none", "never evict");
    for (size_t i = 0; i < mem_policy_total; i++)
        ebb_str_printf(&s, "  %-14s %s\n", mem_policies[i].name, mem_policies[i].help);
    ebb_str_printf(&s, "  %-14s %s", "all",
                   "every policy of this list; belady, capuchin and unified with a tier");
    return ebb_str_take(&s);
}

static void job_fini(struct sim_job *job)
{
    for (size_t i = 0; i < job->log_count; i++) {
        exec_program_destroy(job->logs[i].program);
        trace_destroy(job->logs[i].trace);
    }
    ebb_free(job->logs);
    ebb_free(job->rows);
}

static int run_command(struct sim_job *job, const struct settings *set, const struct cli_args *args)
{
    struct ebb_error err;
    enum ebb_status status = EBB_OK;
    job->logs = ebb_calloc(args->positional_count, sizeof *job->logs);
    if (!job->logs) {
        ebb_no_memory(&err, args->positional_count * sizeof *job->logs);
        return cli_report(&err);
    }
    for (size_t i = 0; i < args->positional_count && status == EBB_OK; i++)
        status = load_log(job, args->positional[i], &err);
    /* with what policies may use: persistent leaves stay in tier 0 */
    struct planner_tiers tiers = {.bytes = {0, set->host_bytes, set->file_bytes},
                                  .links = job->links};
    bool wants_floor = job->rules == EXEC_EBB && !set->no_floor;
    for (size_t i = 0; i < job->log_count && status == EBB_OK && wants_floor; i++) {
        struct sim_log *log = &job->logs[i];
        if (set->wants_floor || (log->trace->op_count <= FLOOR_OPS && !log->trace->is_graph))
            status = planner_floor(log->trace, &tiers, NULL, &log->floor_bytes, &err);
    }
    int threads = set->jobs ? (int)set->jobs : ebb_cpu_count();
    EBB_THEN(status, run_all(job, threads, &err));
    EBB_THEN(status, find_bounds(job, threads, &err));
    if (status != EBB_OK)
        return cli_report(&err);
    if (cli_interrupted()) {
        fprintf(stderr, "ebb: interrupted; rows that were finished follow\n");
        for (size_t i = 0; i < job->row_count; i++) {
            if (job->rows[i].is_done)
                cli_sim_print_json(job, &job->rows[i]);
        }
        return 1;
    }
    if (set->is_json) {
        for (size_t i = 0; i < job->row_count; i++)
            cli_sim_print_json(job, &job->rows[i]);
    } else {
        cli_sim_print_tables(job);
    }
    status = EBB_OK;
    if (set->chart)
        status = cli_sim_chart_file(job, set->chart, &err);
    else if (!set->is_json && job->budget_count > 2 && isatty(STDOUT_FILENO))
        status = cli_sim_chart_terminal(job, &err);
    if (status != EBB_OK)
        return cli_report(&err);
    for (size_t i = 0; i < job->row_count; i++) {
        if (job->rows[i].report.result == EXEC_OK)
            return 0;
    }
    return 1; /* no row survived */
}

static int run(int argc, char **argv)
{
    struct settings set = {.limit = 2.0,
                           .repeat = 1,
                           .copy_rate = NOT_GIVEN,
                           .host_rate = NOT_GIVEN,
                           .file_rate = NOT_GIVEN,
                           .latency_ns = NOT_GIVEN};
    const struct cli_option options[] = {
        {"policy", 'p', CLI_LIST, &set.policies, "P[,P...]", "policies to run (list above)"},
        {"ratio", 'r', CLI_LIST, &set.ratios, "R[,R...]", "budgets as parts of the baseline peak"},
        {"budget", 'b', CLI_LIST, &set.budgets, "B[,B...]",
         "budgets in bytes: 2GiB, 512MiB, 1000000"},
        {"rules", 0, CLI_STRING, &set.rules, "ebb|simrd", "which executor (default ebb)"},
        {"runtime", 0, CLI_STRING, &set.runtime, "NAME",
         "rules simrd: V1, V2, V2Eager, V2Optimized, V2EagerOptimized (default)"},
        {"dealloc", 0, CLI_STRING, &set.dealloc, "eager|banish|ignore",
         "what a release does (default eager; banish: rules simrd)"},
        {"limit", 0, CLI_DOUBLE, &set.limit, "L",
         "give up when the step takes L times as long (default 2; 0: never)"},
        {"seed", 0, CLI_INT, &set.seed, "N", "for policies that draw (default 0)"},
        {"repeat", 0, CLI_INT, &set.repeat, "K", "run each row K times; seconds is the mean"},
        {"jobs", 'j', CLI_INT, &set.jobs, "N", "rows at a time (default: one per CPU)"},
        {"sampling", 0, CLI_FLAG, &set.sampling, NULL, "score about 2*sqrt(n) candidates only"},
        {"ignore-small", 0, CLI_FLAG, &set.ignore_small, NULL,
         "never evict what is below 1 % of the average size"},
        {"copy-rate", 0, CLI_DOUBLE, &set.copy_rate, "GB/s",
         "moving a storage inside the budget (default 300); counted in the overhead"},
        {"host", 0, CLI_BYTES, &set.host_bytes, "BYTES", "host memory to swap to (default none)"},
        {"link", 0, CLI_LIST, &set.links, "TIER=GB/s",
         "rates both ways, as host=12,file=2 (which they are)"},
        {"host-rate", 0, CLI_DOUBLE, &set.host_rate, "GB/s", "the same as --link host=GB/s"},
        {"file", 0, CLI_BYTES, &set.file_bytes, "BYTES", "file to swap to (default none)"},
        {"file-rate", 0, CLI_DOUBLE, &set.file_rate, "GB/s", "the same as --link file=GB/s"},
        {"latency", 0, CLI_INT, &set.latency_ns, "NS", "of both links (default 10000)"},
        {"floor", 0, CLI_FLAG, &set.wants_floor, NULL,
         "find the floor of long traces too (above 20,000 ops)"},
        {"no-floor", 0, CLI_FLAG, &set.no_floor, NULL, "do not look for the floor"},
        {"chart", 'o', CLI_STRING, &set.chart, "FILE",
         "overhead against budget: .svg, .png or .pdf"},
        {"json", 0, CLI_FLAG, &set.is_json, NULL, "one JSON object per row"},
    };
    char *text = full_description();
    const struct cli_spec spec = {
        .usage =
            "ebb sim LOG... --policy P[,P...] (--ratio R[,R...] | --budget B[,B...]) [options]",
        .description = text ? text : description,
        CLI_OPTIONS(options),
        CLI_NEEDS({"floor", "!no-floor"}, {"host-rate", "host"}, {"file-rate", "file"},
                  {"host-rate", "!link"}, {"file-rate", "!link"}, {"latency", "host file"}),
        CLI_LIMITS({"limit", 0, 1e9}, {"seed", 0, 1e18}, {"repeat", 1, 1e9}, {"jobs", 1, 4096},
                   {"copy-rate", DEVICE_LEAST_RATE, DEVICE_MOST_RATE},
                   {"host-rate", DEVICE_LEAST_RATE, DEVICE_MOST_RATE},
                   {"file-rate", DEVICE_LEAST_RATE, DEVICE_MOST_RATE}, {"latency", 0, 1e12}),
        CLI_POSITIONAL(1, 10000),
    };
    struct cli_args args;
    int code = cli_parse(&spec, argc, argv, &args);
    ebb_free(text);
    if (code >= 0)
        return code;
    struct sim_job job = {0};
    if (set.policies.count == 0)
        code = cli_usage_error("--policy is missing: name one or more, or `all`");
    if (code < 0)
        code = read_settings(&set, &job);
    cli_catch_interrupts();
    if (code < 0)
        code = run_command(&job, &set, &args);
    job_fini(&job);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_sim = {
    .name = "sim", .summary = "run traces under a memory budget, without the hardware", .run = run};
