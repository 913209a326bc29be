/* cmd_dev.c - `ebb dev`: run folders of reference cases. Hidden: for developers and for other
 * programs that judge. */
#include "cli/cli.h"

#include "base/thread.h"
#include "dev/dev.h"

#define COUNT(options) (sizeof(options) / sizeof *(options))

struct settings {
    struct dev_request request;
    struct cli_list kinds;
    bool is_json;
};

/* Lines about cases and last the counts; with --json the counts alone go to stdout. */
static int judge(dev_judge_fn run, struct settings *set, const char *usage, const char *description,
                 const struct cli_option *options, size_t option_count, int argc, char **argv)
{
    const struct cli_spec spec = {.usage = usage,
                                  .description = description,
                                  .options = options,
                                  .option_count = option_count,
                                  CLI_POSITIONAL(1, 1)};
    struct cli_args args;
    struct dev_counts counts = {0};
    struct ebb_error err;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    set->request.dir = args.positional[0];
    set->request.out = set->is_json ? stderr : stdout;
    set->request.kinds = set->kinds.items;
    set->request.kind_count = set->kinds.count;
    if (run(&set->request, &counts, &err) != EBB_OK) {
        code = cli_report(&err);
    } else {
        printf(set->is_json ? "{\"passed\":%zu,\"failed\":%zu,\"skipped\":%zu}\n"
                            : "%zu passed, %zu failed, %zu skipped\n",
               counts.passed, counts.failed, counts.skipped);
        code = counts.is_broken ? 2 : counts.failed > 0 || counts.passed == 0;
    }
    cli_args_fini(&args);
    return code;
}

static int run_simrd(int argc, char **argv)
{
    struct settings set = {0};
    const struct cli_option options[] = {
        {"dump", 0, CLI_STRING, &set.request.dump, "FILE",
         "write what was computed, one JSON object per line and case"},
        {"json", 0, CLI_FLAG, &set.is_json, NULL, "print the counts as JSON"},
    };
    return judge(
        dev_simrd, &set, "ebb dev simrd DIR [--dump FILE]",
        "Runs every recorded run of golden.json and linear.json in DIR under rules simrd.\n"
        "Exact rows must agree in result, clock, counters and every victim; region-based rows\n"
        "within 1 %. The last line is \"N passed, N failed, N skipped\" (skipped: rows without\n"
        "numbers, because the original gave up on time).",
        options, COUNT(options), argc, argv);
}

static int run_checkmate(int argc, char **argv)
{
    struct settings set = {.request = {.time_limit = 10, .threads = ebb_cpu_count()}};
    const struct cli_option options[] = {
        {"dump", 0, CLI_STRING, &set.request.dump, "FILE",
         "write what was computed, one JSON object per case"},
        {"only", 0, CLI_STRING, &set.request.only, "TEXT",
         "only graphs whose file name contains TEXT"},
        {"kind", 0, CLI_LIST, &set.kinds, "K[,K...]", "strategies, optimum, bounds (default: all)"},
        {"time-limit", 0, CLI_DOUBLE, &set.request.time_limit, "S",
         "seconds per case of optimum and bounds (default 10)"},
        {"threads", 0, CLI_INT, &set.request.threads, "N", "cases at a time (default: all cores)"},
        {"verbose", 'v', CLI_FLAG, &set.request.is_verbose, NULL, "print passed cases too"},
        {"json", 0, CLI_FLAG, &set.is_json, NULL, "only the last line, as one JSON object"},
    };
    return judge(
        dev_checkmate, &set, "ebb dev checkmate DIR [--kind K[,K...]] [--only TEXT] [--dump FILE]",
        "Run the planners on a folder of reference cases.", options, COUNT(options), argc, argv);
}

static int run_golden(int argc, char **argv)
{
    struct settings set = {.request = {.threads = 1}};
    const struct cli_option options[] = {
        {"dump", 0, CLI_STRING, &set.request.dump, "FILE",
         "write what was computed as safetensors"},
        {"threads", 0, CLI_INT, &set.request.threads, "N", "threads of the kernels (default 1)"},
        {"device", 0, CLI_STRING, &set.request.device, "NAME",
         "where the ops run: cpu (default), cuda (docs/gpu.md) or far"},
        {"library", 0, CLI_FLAG, &set.request.is_library, NULL,
         "small convolutions by the library, too, as large ones are"},
        {"verbose", 'v', CLI_FLAG, &set.request.is_verbose, NULL, "print every case"},
        {"json", 0, CLI_FLAG, &set.is_json, NULL, "print the counts as JSON"},
    };
    return judge(
        dev_golden, &set,
        "ebb dev golden DIR [--dump FILE] [--threads N] [--device NAME] [--library] [--verbose]",
        "Run the reference vectors in DIR through the engine: ops with their gradients, "
        "optimizers, rates, reduced precision, random numbers, small trainings, batch "
        "arithmetic, file formats. Leaves with 1 when a case gave other numbers, with 2 when a "
        "case or a file could not be run as it is written.",
        options, COUNT(options), argc, argv);
}

static int run_vectors(int argc, char **argv)
{
    struct settings set = {0};
    const struct cli_option options[] = {
        {"dump", 0, CLI_STRING, &set.request.dump, "FILE",
         "write what was computed: one JSON object per line and case, with file,\n"
         "index, name, passed, computed"},
        {"json", 0, CLI_FLAG, &set.is_json, NULL, "print the counts as JSON"},
    };
    return judge(
        dev_vectors, &set, "ebb dev vectors DIR [--dump FILE]",
        "Runs every case of every *.json file in DIR and compares with what the case expects.\n"
        "The last line is \"N passed, N failed, N skipped\". Exit 1 if a case failed or none\n"
        "passed; a file or case of unknown kind is a failed one.",
        options, COUNT(options), argc, argv);
}

static int run_onnx(int argc, char **argv)
{
    struct settings set = {.request = {.threads = 1}};
    const struct cli_option options[] = {
        {"threads", 0, CLI_INT, &set.request.threads, "N", "threads of the kernels (default 1)"},
        {"verbose", 'v', CLI_FLAG, &set.request.is_verbose, NULL, "print every case"},
        {"json", 0, CLI_FLAG, &set.is_json, NULL, "print the counts as JSON"},
    };
    return judge(
        dev_onnx, &set, "ebb dev onnx DIR [--threads N] [--verbose]",
        "Runs every ONNX test model below DIR (model.onnx beside test_data_set_N), as Debian's\n"
        "libonnx-testdata has them in /usr/share/libonnx-testdata/data: by the evaluator of\n"
        "constants and, where the model can be trained, by the engine. The last line is\n"
        "\"N passed, N failed, N skipped\"; skipped are models that are refused, each with a line\n"
        "that names the op, version or type.",
        options, COUNT(options), argc, argv);
}

static const struct cli_command dev_verbs[] = {
    {.name = "simrd",
     .summary = "recorded runs of the published simulator: same decisions?",
     .run = run_simrd},
    {.name = "checkmate",
     .summary = "planner strategies and optima: same cost and peak?",
     .run = run_checkmate},
    {.name = "golden",
     .summary = "kernels, gradients, optimizers and schedules against PyTorch's vectors",
     .run = run_golden},
    {.name = "vectors",
     .summary = "search, scheduling, retention and configuration cases",
     .run = run_vectors},
    {.name = "onnx", .summary = "test models of the format ONNX: same numbers?", .run = run_onnx}};

static int run(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&dev_verbs[0], &dev_verbs[1], &dev_verbs[2],
                                                      &dev_verbs[3], &dev_verbs[4]};
    return cli_dispatch("dev", verbs, COUNT(verbs), argc, argv);
}

const struct cli_command cli_cmd_dev = {
    .name = "dev", .summary = "run folders of reference cases", .is_hidden = true, .run = run};
