/* cmd_plan.h - private to the command `ebb plan`: how rows are made and shown. */
#ifndef EBB_CLI_CMD_PLAN_H
#define EBB_CLI_CMD_PLAN_H

#include "cli/cli.h"
#include "study/study.h"

/* Options that the verbs share. */
#define CLI_PLAN_LIMITS                                                                            \
    {"gap", 0, 1}, {"time-limit", 0.001, 1e6},                                                     \
    {                                                                                              \
        "jobs", 1, 4096                                                                            \
    }

struct study_how cli_plan_how(void); /* how this program runs studies; stops at Ctrl-C */
void cli_plan_print_json(const struct study_row *row);
void cli_plan_print_table(const struct study_row *rows, size_t count);

int cli_plan_figure(int argc, char **argv);
int cli_plan_show(int argc, char **argv);
int cli_plan_sweep(int argc, char **argv);
int cli_plan_maxbatch(int argc, char **argv);
int cli_plan_gap(int argc, char **argv);
int cli_plan_approx(int argc, char **argv);
int cli_plan_solve_time(int argc, char **argv);

#endif
