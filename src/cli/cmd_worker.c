/* cmd_worker.c - ebb worker: the process of one trial, started by a master. */
#include "cli/cli.h"

#include <string.h>

#include "train/train.h"
#include "worker/worker.h"

static int run_trial(const struct worker_trial *trial, const char *entrypoint)
{
    struct ebb_error err = {0};
    int exit_code = 1;
    enum ebb_status status = worker_run(trial, entrypoint, &exit_code, &err);
    if (status != EBB_OK && !worker_sample_is_invalid(status))
        fprintf(stderr, "ebb worker: %s\n", err.message);
    return exit_code;
}

static int run_library(const char *entrypoint)
{
    struct ebb_error err = {0};
    struct worker_library *library = NULL;
    const struct worker_trial *trial = NULL;
    if (worker_library_open(entrypoint, &library, &trial, &err) != EBB_OK) {
        cli_report(&err);
        return 1;
    }
    int code = run_trial(trial, entrypoint);
    worker_library_close(library);
    return code;
}

static int run(int argc, char **argv)
{
    bool is_json = false;
    const struct cli_spec spec = {
        .usage = "ebb worker ENTRYPOINT [--json]",
        .description =
            "The process of one trial. A master starts it with EBB_SOCKET, EBB_CONFIG and\n"
            "EBB_ALLOCATION_ID in its environment (docs/trial-protocol.md); it is of no use by\n"
            "hand. ENTRYPOINT is that of the experiment file: ebb:TASK for a built-in model,\n"
            "onnx:PATH for an ONNX file, or\n"
            "FILE.so:SYMBOL for a shared object (include/ebb.h).\n"
            "\n"
            "Exit code 0: told to terminate; 75: the master is gone; 1: the trial failed.",
        CLI_OPTION_ROWS(
            {"json", 0, CLI_FLAG, &is_json, NULL, "accepted; the protocol is JSON anyway"}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    const char *entrypoint = args.positional[0];
    bool is_task = strncmp(entrypoint, "ebb:", 4) == 0;
    if (!is_task && strncmp(entrypoint, "onnx:", 5) != 0) {
        code = run_library(entrypoint);
    } else {
        const struct worker_trial *trial = train_worker(is_task ? entrypoint + 4 : NULL);
        code = trial != NULL ? run_trial(trial, entrypoint)
                             : (cli_usage_error("%s: this build cannot train it", entrypoint), 1);
    }
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_worker = {
    .name = "worker",
    .summary = "the process of one trial (started by a master)",
    .is_hidden = true,
    .run = run,
};
