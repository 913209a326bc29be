/* cmd_dev.c - `ebb dev`: run folders of reference cases. Hidden: for developers and for other
 * programs that judge. */
#include "cli/cli.h"

int cli_dev_simrd(int argc, char **argv);
int cli_dev_checkmate(int argc, char **argv);
int cli_dev_golden(int argc, char **argv);
int cli_dev_vectors(int argc, char **argv);

static const struct cli_command dev_simrd = {
    .name = "simrd",
    .summary = "recorded runs of the published simulator: same decisions?",
    .run = cli_dev_simrd};
static const struct cli_command dev_checkmate = {
    .name = "checkmate",
    .summary = "planner strategies and optima: same cost and peak?",
    .run = cli_dev_checkmate};
static const struct cli_command dev_golden = {
    .name = "golden",
    .summary = "kernels, gradients, optimizers and schedules against PyTorch's vectors",
    .run = cli_dev_golden};
static const struct cli_command dev_vectors = {
    .name = "vectors",
    .summary = "search, scheduling, retention and configuration cases",
    .run = cli_dev_vectors};

static int run(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&dev_simrd, &dev_checkmate, &dev_golden,
                                                      &dev_vectors};
    return cli_dispatch("dev", verbs, sizeof verbs / sizeof *verbs, argc, argv);
}

const struct cli_command cli_cmd_dev = {
    .name = "dev", .summary = "run folders of reference cases", .is_hidden = true, .run = run};
