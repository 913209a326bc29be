/* cmd_measure.c - ebb measure: the process of one trial of a measurement, started by ebb pareto. */
#include "cli/cli.h"

#include <unistd.h>

#include "base/file.h"
#include "harness/harness.h"

#define MAX_REQUEST ((size_t)16 << 20)

static enum ebb_status tell(void *context, const char *line, struct ebb_error *err)
{
    (void)context;
    return puts(line) < 0 || fflush(stdout) != 0
               ? ebb_fail(err, EBB_EIO, "nobody reads what is measured")
               : EBB_OK;
}

static int run(int argc, char **argv)
{
    bool is_json = false;
    const struct cli_spec spec = {
        .usage = "ebb measure [--json] <REQUEST",
        .description =
            "The process of one trial of 'ebb pareto': reads what to measure from standard input\n"
            "and prints a line of JSON after every repetition. Of no use by hand.",
        CLI_OPTION_ROWS({"json", 0, CLI_FLAG, &is_json, NULL, "accepted; it is JSON anyway"}),
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    cli_args_fini(&args);
    if (code >= 0)
        return code;
    struct ebb_file_view request;
    struct ebb_error err = {0};
    enum ebb_status status = ebb_file_view_open(&request, "-", MAX_REQUEST, &err);
    if (status == EBB_OK) {
        struct harness_listener listener = {.tell = tell};
        status = harness_measure(request.data, request.length, &listener, &err);
        ebb_file_view_close(&request);
    }
    return status == EBB_OK ? 0 : cli_report(&err);
}

const struct cli_command cli_cmd_measure = {
    .name = "measure", .summary = "one trial of a measurement", .is_hidden = true, .run = run};
