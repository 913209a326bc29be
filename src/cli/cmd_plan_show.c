/* cmd_plan_show.c - `ebb plan show`: a plan for people, step by step, with the memory in use. */
#include "cli/cmd_plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"
#include "cli/json.h"
#include "cli/link.h"
#include "cli/train_file.h"
#include "exec/exec.h"
#include "plot/plot.h"

static const char *op_text(const struct trace *trace, uint32_t op)
{
    const char *label = trace_label(trace, &trace->ops[op]);
    return label && *label ? label : trace->ops[op].kind->name;
}

static const char *const tier_names[PLAN_TIERS] = {"device memory", "host memory", "the file"};

static void print_step(const struct trace *trace, const struct plan *plan, size_t at,
                       uint64_t bytes, uint32_t runs)
{
    static const char *const names[] = {"place", "run",    "drop", "send",
                                        "fetch", "forget", "move", "room"};
    const struct plan_step *step = &plan->steps[at];
    char in_use[32], size[32];
    ebb_format_bytes(bytes, in_use, sizeof in_use);
    if (step->act == PLAN_RUN) {
        printf("%6zu  %-10s %-6s op %" PRIu32 " %s%s%s\n", at, in_use, runs > 1 ? "rerun" : "run",
               step->index, op_text(trace, step->index), runs > 1 ? " (again)" : "",
               step->tier ? " on the host" : "");
        return;
    }
    const struct trace_storage *s = &trace->storages[step->index];
    printf("%6zu  %-10s %-6s storage %" PRIu32 " of %s, %s", at, in_use, names[step->act],
           step->index, op_text(trace, trace->tensors[s->root].op),
           ebb_format_bytes(s->bytes, size, sizeof size));
    bool is_put = step->act == PLAN_SEND || step->act == PLAN_ROOM;
    if (step->tier)
        printf(" %s %s", step->act == PLAN_FETCH ? "from" : "in", tier_names[step->tier]);
    if ((step->act == PLAN_PLACE || step->act == PLAN_MOVE || is_put) &&
        step->offset != PLAN_NOWHERE)
        printf(" at %" PRIu64, step->offset);
    printf("\n");
}

/* Where state lives while the plan does not hold it in tier 0. */
static void print_homes(const struct trace *trace, const struct plan *plan)
{
    char size[32];
    for (size_t i = 0; i < plan->homes.count; i++) {
        const struct plan_home *h = &plan->homes.list[i];
        const struct trace_storage *s = &trace->storages[h->storage];
        printf("%6s  %-10s %-6s storage %" PRIu32 " of %s, %s lives in %s at %" PRIu64 "\n", "", "",
               "home", h->storage, op_text(trace, trace->tensors[s->root].op),
               ebb_format_bytes(s->bytes, size, sizeof size), tier_names[h->tier], h->offset);
    }
}

/* The budget is the plan's own; in a lower tier everything that goes there has room side by side. */
static struct plan_limits limits_of(const struct trace *trace, const struct plan *plan)
{
    struct plan_limits limits = {{plan->budget_bytes, 0, 0}};
    uint64_t work = 0; /* of what the host runs, one after the other */
    for (size_t i = 0; i < plan->homes.count; i++) {
        const struct plan_home *h = &plan->homes.list[i];
        if (h->tier < PLAN_TIERS && h->storage < trace->storage_count)
            limits.budget_bytes[h->tier] += plan_size(plan, trace->storages[h->storage].bytes);
    }
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        bool is_copy = step->act == PLAN_SEND || step->act == PLAN_ROOM;
        if (is_copy && step->tier < PLAN_TIERS && step->index < trace->storage_count)
            limits.budget_bytes[step->tier] += plan_size(plan, trace->storages[step->index].bytes);
        bool is_below =
            step->act == PLAN_RUN && step->tier == PLAN_HOST && step->index < trace->op_count;
        uint64_t bytes = is_below ? plan_size(plan, trace->ops[step->index].workspace_bytes) : 0;
        uint64_t end =
            is_below && step->offset != PLAN_NOWHERE && bytes && step->offset < TRACE_MAX_BYTES
                ? step->offset + bytes
                : bytes;
        work = end > work ? end : work;
    }
    limits.budget_bytes[PLAN_HOST] += work;
    return limits;
}

/* The time on the null device with copies over these links. 0: nobody said what links there are. */
static enum ebb_status take_time(const struct trace *trace, const struct plan *plan,
                                 const struct device_config *links, uint64_t *ns,
                                 struct ebb_error *err)
{
    struct plan_limits limits = limits_of(trace, plan);
    struct exec_program *program = NULL;
    struct exec_report report;
    *ns = 0;
    if (!links)
        return EBB_OK;
    struct exec_options o = {.plan = plan, .budget_bytes = limits.budget_bytes[0], .links = *links};
    for (int k = DEVICE_HOST; k < DEVICE_TIERS; k++) {
        o.tier_bytes[k] = limits.budget_bytes[k];
        if (o.tier_bytes[k] && links->out[k].bytes_per_ns == 0)
            return ebb_fail(err, EBB_EINPUT, "the plan copies to %s, too: add --link %s=GB/s",
                            tier_names[k], k == DEVICE_HOST ? "host" : "file");
    }
    EBB_TRY(exec_program_create(&program, trace, EXEC_EBB, err));
    enum ebb_status status = exec_run(program, &o, &report, err);
    exec_program_destroy(program);
    *ns = status == EBB_OK ? report.device_ns : 0;
    return status;
}

static enum ebb_status prove(const struct trace *trace, const struct plan *plan,
                             struct plan_report *report, struct ebb_error *err)
{
    struct plan_limits limits = limits_of(trace, plan);
    enum ebb_status status = plan_check(trace, plan, &limits, report, err);
    if (status == EBB_EBUDGET) /* it breaks its own word */
        status = err->status = EBB_EINPUT;
    return status;
}

static void show_json(const struct plan *plan, const struct plan_report *report, bool is_placed,
                      uint64_t time_ns)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "planner", plan->planner);
    ebb_jsonw_key_uint(w, "budget_bytes", plan->budget_bytes);
    ebb_jsonw_key_uint(w, "steps", plan->step_count);
    ebb_jsonw_key_uint(w, "cost", report->cost_ns);
    ebb_jsonw_key_uint(w, "base_cost", report->base_ns);
    ebb_jsonw_key_uint_or_null(w, "time_ns", time_ns, time_ns > 0);
    ebb_jsonw_key_uint(w, "sent_bytes", report->sent_bytes);
    ebb_jsonw_key_uint(w, "fetched_bytes", report->fetched_bytes);
    ebb_jsonw_key_uint(w, "host_peak_bytes", report->tier_peak_bytes[DEVICE_HOST]);
    ebb_jsonw_key_uint(w, "file_peak_bytes", report->tier_peak_bytes[DEVICE_FILE]);
    ebb_jsonw_key_uint(w, "peak_bytes", report->peak_bytes);
    ebb_jsonw_key_uint_or_null(w, "height_bytes", report->height_bytes, is_placed);
    ebb_jsonw_key_uint(w, "runs", report->run_count);
    ebb_jsonw_key_uint(w, "reruns", report->rerun_count);
    cli_json_object_end(&json);
}

static bool has_copies(const struct plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].act == PLAN_SEND || plan->steps[i].act == PLAN_FETCH)
            return true;
    return false;
}

static void print_copies(const struct plan *plan, const struct plan_report *report,
                         uint64_t time_ns)
{
    char sent[32], fetched[32], host[32], file[32];
    if (!has_copies(plan) && !time_ns)
        return;
    printf("copies: %s sent, %s fetched, at most %s in host memory and %s in the file; ",
           ebb_format_bytes(report->sent_bytes, sent, sizeof sent),
           ebb_format_bytes(report->fetched_bytes, fetched, sizeof fetched),
           ebb_format_bytes(report->tier_peak_bytes[DEVICE_HOST], host, sizeof host),
           ebb_format_bytes(report->tier_peak_bytes[DEVICE_FILE], file, sizeof file));
    if (time_ns)
        printf("with them overhead %.6f\n",
               report->base_ns ? (double)time_ns / (double)report->base_ns : 1.0);
    else
        printf("--link host=GB/s,file=GB/s tells their time\n");
}

static enum ebb_status show(const struct trace *trace, const struct plan *plan, bool is_json,
                            const struct device_config *links, struct ebb_error *err)
{
    struct plan_report report;
    uint64_t bytes = 0, time_ns;
    EBB_TRY(prove(trace, plan, &report, err));
    EBB_TRY(take_time(trace, plan, links, &time_ns, err));
    bool is_placed = plan_has_addresses(plan);
    if (is_json) {
        show_json(plan, &report, is_placed, time_ns);
        return EBB_OK;
    }
    uint32_t *runs = ebb_calloc(trace->op_count + 1, sizeof *runs);
    if (!runs)
        return ebb_no_memory(err, trace->op_count * sizeof *runs);
    print_homes(trace, plan);
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct plan_step *step = &plan->steps[i];
        uint64_t size = step->act == PLAN_RUN ? 0 : trace->storages[step->index].bytes;
        if (!plan->exact_bytes)
            size = plan_round(size);
        if (step->act == PLAN_PLACE)
            bytes += size;
        if (step->act == PLAN_DROP)
            bytes -= size;
        uint32_t count = step->act == PLAN_RUN ? ++runs[step->index] : 0;
        print_step(trace, plan, i, bytes, count);
    }
    ebb_free(runs);
    char peak[32], height[32];
    ebb_format_bytes(report.height_bytes, height, sizeof height);
    printf("\n%s: overhead %.6f%s, peak %s at step %zu, %s%s, %" PRIu64 " runs, %" PRIu64
           " again\n",
           plan->planner, report.base_ns ? (double)report.cost_ns / (double)report.base_ns : 1.0,
           has_copies(plan) ? " of ops alone" : "",
           ebb_format_bytes(report.peak_bytes, peak, sizeof peak), report.peak_step,
           is_placed ? "height " : "no addresses", is_placed ? height : "", report.run_count,
           report.rerun_count);
    print_copies(plan, &report, time_ns);
    return EBB_OK;
}

/* ---- the schedule as a matrix ----------------------------------------------------------------- */

/* Rows are stages: each begins with the first run of an op; columns are ops in the order of their
 * first runs. A cell says whether an output of the op lies in memory when the stage begins, and
 * whether the op runs in it. Large schedules are drawn in squares of ops and stages. */
enum { SIDE = 160 };
enum { KEPT = 1, RUN_FIRST, RUN_AGAIN };

struct matrix {
    const struct trace *trace;
    uint32_t *number; /* per op: its column; UINT32_MAX: a leaf, or a view */
    uint32_t *ops;    /* per column */
    size_t count, group, side;
    unsigned char *cells; /* side x side */
};

static enum ebb_status matrix_init(struct matrix *m, const struct trace *trace,
                                   const struct plan *plan, struct ebb_error *err)
{
    *m = (struct matrix){.trace = trace};
    EBB_TRY(ebb_new(&m->number, trace->op_count + 1, sizeof *m->number, err));
    EBB_TRY(ebb_new(&m->ops, trace->op_count + 1, sizeof *m->ops, err));
    memset(m->number, 0xff, (trace->op_count + 1) * sizeof *m->number);
    for (size_t i = 0; i < plan->step_count; i++) {
        uint32_t op = plan->steps[i].index;
        if (plan->steps[i].act != PLAN_RUN || trace->ops[op].is_leaf || m->number[op] != UINT32_MAX)
            continue;
        m->number[op] = (uint32_t)m->count;
        m->ops[m->count++] = op;
    }
    if (m->count == 0)
        return ebb_fail(err, EBB_EINPUT, "the plan runs nothing: there is no schedule to draw");
    m->group = (m->count + SIDE - 1) / SIDE;
    m->side = (m->count + m->group - 1) / m->group;
    return ebb_new(&m->cells, m->side * m->side, 1, err);
}

static void matrix_fini(struct matrix *m)
{
    ebb_free(m->number);
    ebb_free(m->ops);
    ebb_free(m->cells);
}

static void mark(struct matrix *m, size_t stage, size_t column, unsigned char value)
{
    unsigned char *cell = &m->cells[stage / m->group * m->side + column / m->group];
    *cell = *cell > value ? *cell : value;
}

static bool is_kept(const struct matrix *m, const struct plan_walk *walk, size_t column)
{
    const struct trace_op *op = &m->trace->ops[m->ops[column]];
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct plan_residence *r = &walk->storages[trace_output_of(m->trace, op, k)->storage];
        if (r->is_placed && r->is_filled)
            return true;
    }
    return false;
}

static enum ebb_status matrix_fill(struct matrix *m, const struct plan *plan, struct ebb_error *err)
{
    struct plan_walk walk;
    size_t stage = 0;
    EBB_TRY(plan_walk_init(&walk, m->trace, plan, err));
    enum ebb_status status = EBB_OK;
    /* runs between two first ones belong to the stage that ends with the second */
    for (size_t i = 0, begun = SIZE_MAX; i < plan->step_count && status == EBB_OK; i++) {
        const struct plan_step *step = &plan->steps[i];
        uint32_t column = step->act == PLAN_RUN ? m->number[step->index] : UINT32_MAX;
        if (begun != stage && stage < m->count && stage % m->group == 0) {
            for (size_t k = 0; k < stage; k++)
                if (is_kept(m, &walk, k))
                    mark(m, stage, k, KEPT);
            begun = stage;
        }
        status = plan_walk_step(&walk, i, err);
        if (column == UINT32_MAX || stage >= m->count)
            continue;
        bool is_first = walk.run_counts[step->index] == 1;
        mark(m, stage, column, is_first ? RUN_FIRST : RUN_AGAIN);
        stage += is_first;
    }
    plan_walk_fini(&walk);
    return status;
}

static enum ebb_status draw(const struct matrix *m, const struct plan *plan, const char *path,
                            struct ebb_error *err)
{
    static const char *const names[] = {"in memory when the stage begins", "runs", "runs again"};
    static const char *const colors[] = {"#a6cee3", "#33588f", "#d55e00"};
    struct plot_series series[3];
    char title[160], subtitle[160], text[32];
    size_t used = 0, most = m->side * m->side;
    double *room;
    EBB_TRY(ebb_new(&room, 3 * 3 * most, sizeof *room, err));
    for (int value = KEPT; value <= RUN_AGAIN; value++) {
        double *x = room + 3 * (size_t)(value - 1) * most, *y = x + most;
        size_t n = 0;
        for (size_t i = 0; i < most; i++)
            if (m->cells[i] == value) {
                x[n] = (double)(i % m->side * m->group);
                y[n++] = (double)(i / m->side * m->group);
            }
        series[used++] = (struct plot_series){.name = names[value - 1],
                                              .style = PLOT_SQUARES,
                                              .x = x,
                                              .y = y,
                                              .count = n,
                                              .color = colors[value - 1]};
    }
    snprintf(title, sizeof title, "Schedule of planner %s", plan->planner);
    snprintf(subtitle, sizeof subtitle, "%zu ops in %s%s", m->count,
             ebb_format_bytes(plan->budget_bytes, text, sizeof text),
             m->group > 1 ? "; a square is several ops and stages" : "");
    struct plot_panel panel = {.x_label = "op, in the order of first runs",
                               .y_label = "stage: until the first run of op",
                               .series = series,
                               .series_count = used,
                               .x_min = -0.5 * (double)m->group,
                               .x_max = ((double)m->side - 0.5) * (double)m->group,
                               .y_min = -0.5 * (double)m->group,
                               .y_max = ((double)m->side - 0.5) * (double)m->group};
    struct plot_chart chart = {
        .title = title, .subtitle = subtitle, .panels = &panel, .panel_count = 1};
    enum ebb_status status = plot_write(&chart, path, err);
    ebb_free(room);
    return status;
}

static enum ebb_status show_chart(const struct trace *trace, const struct plan *plan,
                                  const char *path, struct ebb_error *err)
{
    struct matrix m;
    struct plan_report report;
    EBB_TRY(prove(trace, plan, &report, err));
    enum ebb_status status = matrix_init(&m, trace, plan, err);
    EBB_THEN(status, matrix_fill(&m, plan, err));
    EBB_THEN(status, draw(&m, plan, path, err));
    matrix_fini(&m);
    return status;
}

int cli_plan_show(int argc, char **argv)
{
    const char *trace_path = NULL, *chart = NULL;
    struct cli_list link_list = {0};
    struct device_config links = {0};
    bool is_json = false;
    const struct cli_spec spec = {
        .usage = "ebb plan show PLAN --trace FILE [--link TIER=GB/s] [--chart FILE]",
        .description =
            "Print a plan with the names of its ops and the bytes in use after each step,\n"
            "after proving it again. --chart draws its schedule as a matrix instead: what is kept\n"
            "from stage to stage, and what runs again. With --link a plan with copies is timed: "
            "they\n"
            "go beside the ops, one after the other over each link.\n\n"
            "Examples:\n"
            "  ebb plan show step.plan --trace step.trace\n"
            "  ebb plan show step.plan --trace step.trace --chart schedule.svg",
        CLI_OPTION_ROWS(
            {"trace", 't', CLI_STRING, &trace_path, "FILE",
             "the trace, log or graph it was made for"},
            {"link", 0, CLI_LIST, &link_list, "TIER=GB/s",
             "rates of links, as host=2,file=0.3: the time with copies"},
            {"chart", 0, CLI_STRING, &chart, "FILE", "draw the schedule: .svg, .png, .pdf"},
            {"json", 0, CLI_FLAG, &is_json, NULL, "the summary as one object"}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args;
    struct ebb_error err;
    struct trace *trace = NULL;
    struct plan plan;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    plan_init(&plan);
    code = trace_path ? cli_read_links(&link_list, &links)
                      : cli_usage_error("say what the plan was made for: --trace FILE");
    if (code < 0) {
        enum ebb_status status = chart ? plot_check_name(chart, &err) : EBB_OK;
        EBB_THEN(status, cli_load_trace(trace_path, &trace, &err));
        EBB_THEN(status, plan_load(args.positional[0], &plan, &err));
        if (!chart || is_json)
            EBB_THEN(status, show(trace, &plan, is_json, link_list.count ? &links : NULL, &err));
        if (chart)
            EBB_THEN(status, show_chart(trace, &plan, chart, &err));
        code = status == EBB_OK ? 0 : cli_report(&err);
    }
    plan_fini(&plan);
    trace_destroy(trace);
    cli_args_fini(&args);
    return code;
}
