/* cmd_sim.h - private to the command `ebb sim`: what was asked, what came out, how it is shown. */
#ifndef EBB_CLI_CMD_SIM_H
#define EBB_CLI_CMD_SIM_H

#include "cli/cli.h"
#include "exec/exec.h"

#define SIM_MAX_POLICIES 64
#define SIM_MAX_BUDGETS 1024

struct sim_budget {
    double ratio; /* NaN: bytes were given */
    uint64_t bytes;
};

struct sim_log {
    const char *path; /* borrowed from the arguments */
    struct trace *trace;
    struct trace_stats stats;
    struct exec_program *program;
    uint64_t floor_bytes; /* 0: not looked for */
};

struct sim_row {
    const struct sim_log *log;
    const struct mem_policy *policy; /* NULL: none */
    double ratio, seconds;
    uint64_t budget_bytes;
    double bound_ns; /* with tiers: no plan is faster; 0: not looked for */
    struct exec_report report;
    enum ebb_status status;
    struct ebb_error err;
    bool is_done;
};

struct sim_job {
    const struct mem_policy *policies[SIM_MAX_POLICIES];
    struct sim_budget budgets[SIM_MAX_BUDGETS];
    size_t policy_count, budget_count, log_count, row_count;
    struct sim_log *logs;
    struct sim_row *rows; /* log-major, then policy, then budget */
    enum exec_rules rules;
    enum exec_dealloc dealloc;
    const char *runtime;
    double limit;
    uint64_t seed;
    int64_t repeat;
    bool sampling, ignore_small;
    uint64_t tier_bytes[DEVICE_TIERS];
    struct device_config links;
};

void cli_sim_print_json(const struct sim_job *job, const struct sim_row *row);
void cli_sim_print_tables(const struct sim_job *job);
enum ebb_status cli_sim_chart_file(const struct sim_job *job, const char *path,
                                   struct ebb_error *err);
enum ebb_status cli_sim_chart_terminal(const struct sim_job *job, struct ebb_error *err);

#endif
