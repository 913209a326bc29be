/* cmd_plan_show.c - `ebb plan show`: a plan for people, step by step, with the memory in use. */
#include "cli/cmd_plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"
#include "cli/train_file.h"

static const char *op_text(const struct trace *trace, uint32_t op)
{
    const char *label = trace_label(trace, &trace->ops[op]);
    return label && *label ? label : trace->ops[op].kind->name;
}

static void print_step(const struct trace *trace, const struct plan *plan, size_t at,
                       uint64_t bytes, uint32_t runs)
{
    static const char *const names[] = {"place", "run", "drop", "send", "fetch", "forget", "move"};
    const struct plan_step *step = &plan->steps[at];
    char in_use[32], size[32];
    ebb_format_bytes(bytes, in_use, sizeof in_use);
    if (step->act == PLAN_RUN) {
        printf("%6zu  %-10s %-6s op %" PRIu32 " %s%s\n", at, in_use, runs > 1 ? "rerun" : "run",
               step->index, op_text(trace, step->index), runs > 1 ? " (again)" : "");
        return;
    }
    const struct trace_storage *s = &trace->storages[step->index];
    printf("%6zu  %-10s %-6s storage %" PRIu32 " of %s, %s", at, in_use, names[step->act],
           step->index, op_text(trace, trace->tensors[s->root].op),
           ebb_format_bytes(s->bytes, size, sizeof size));
    if ((step->act == PLAN_PLACE || step->act == PLAN_MOVE) && step->offset != PLAN_NOWHERE)
        printf(" at %" PRIu64, step->offset);
    printf("\n");
}

static enum ebb_status show(const struct trace *trace, const struct plan *plan, bool is_json,
                            struct ebb_error *err)
{
    struct plan_limits limits = {{UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    struct plan_report report;
    uint64_t bytes = 0;
    EBB_TRY(plan_check(trace, plan, &limits, &report, err));
    if (is_json) {
        printf("{\"planner\":\"%s\",\"budget_bytes\":%" PRIu64 ",\"steps\":%zu,\"cost\":%" PRIu64
               ",\"base_cost\":%" PRIu64 ",\"peak_bytes\":%" PRIu64 ",\"height_bytes\":%" PRIu64
               ",\"runs\":%" PRIu64 ",\"reruns\":%" PRIu64 "}\n",
               plan->planner, plan->budget_bytes, plan->step_count, report.cost_ns, report.base_ns,
               report.peak_bytes, report.height_bytes, report.run_count, report.rerun_count);
        return EBB_OK;
    }
    uint32_t *runs = ebb_calloc(trace->op_count + 1, sizeof *runs);
    if (!runs)
        return ebb_no_memory(err, trace->op_count * sizeof *runs);
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
    printf("\n%s: overhead %.6f, peak %s at step %zu, height %s, %" PRIu64 " runs, %" PRIu64
           " again\n",
           plan->planner, report.base_ns ? (double)report.cost_ns / (double)report.base_ns : 1.0,
           ebb_format_bytes(report.peak_bytes, peak, sizeof peak), report.peak_step,
           ebb_format_bytes(report.height_bytes, height, sizeof height), report.run_count,
           report.rerun_count);
    return EBB_OK;
}

int cli_plan_show(int argc, char **argv)
{
    const char *trace_path = NULL;
    bool is_json = false;
    const struct cli_spec spec = {
        .usage = "ebb plan show PLAN --trace FILE",
        .description =
            "Print a plan with the names of its ops and the bytes in use after each step,\n"
            "after proving it again.\n\n"
            "Example:\n"
            "  ebb plan show step.plan --trace step.trace",
        CLI_OPTION_ROWS({"trace", 't', CLI_STRING, &trace_path, "FILE",
                         "the trace, log or graph it was made for"},
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
    if (!trace_path) {
        code = cli_usage_error("say what the plan was made for: --trace FILE");
    } else {
        enum ebb_status status = cli_load_trace(trace_path, &trace, &err);
        EBB_THEN(status, plan_load(args.positional[0], &plan, &err));
        EBB_THEN(status, show(trace, &plan, is_json, &err));
        code = status == EBB_OK ? 0 : cli_report(&err);
    }
    plan_fini(&plan);
    trace_destroy(trace);
    cli_args_fini(&args);
    return code;
}
