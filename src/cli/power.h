/* power.h - what the machine draws while it trains: its processors by RAPL, a GPU by NVML.
 *
 *     cli_power_open(&power, is_gpu, &err);
 *     cli_power_begin(&power);                          // an epoch begins
 *     ... cli_power_look(&power);                       // after every iteration
 *     struct cli_power_mean mean = cli_power_mean(&power);
 *
 * NVML is the driver's own library and is opened only when a GPU is asked about. */
#ifndef EBB_CLI_POWER_H
#define EBB_CLI_POWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct cli_power_use { /* percent of the time before a look */
    unsigned gpu, memory;
};

struct cli_power_nvml { /* the calls that are needed */
    int (*init)(void);
    int (*by_index)(unsigned index, void **device);
    int (*by_uuid)(const char *uuid, void **device);
    int (*power)(void *device, unsigned *milliwatts);
    int (*use)(void *device, struct cli_power_use *use);
    const char *(*words)(int code);
};

struct cli_power { /* one owner thread */
    struct cli_power_nvml nvml;
    void *gpu; /* NVML's handle; NULL: none */
    uint64_t begin_ns, begin_uj;
    uint64_t milliwatts, percents, looks; /* sums over looks at the GPU */
};

struct cli_power_mean { /* since the beginning; NaN: not known here */
    double cpu_watts, gpu_watts, gpu_percent;
};

/* EBB_EUNSUPPORTED: nothing is known of the GPU, and err says what is missing; the rest works. */
enum ebb_status cli_power_open(struct cli_power *power, bool has_gpu, struct ebb_error *err);
void cli_power_begin(struct cli_power *power);
void cli_power_look(struct cli_power *power);
struct cli_power_mean cli_power_mean(const struct cli_power *power);

#endif
