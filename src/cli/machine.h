/* machine.h - what this machine offers, read from /proc, /sys and the GPU driver. Facts only:
 * cmd_doctor.c words them. Private to this folder.
 *
 * Every fact is optional: what cannot be read is 0 or "". `root` is put before every path ("" for
 * the real machine), so that tests can describe one in a folder. */
#ifndef EBB_CLI_MACHINE_H
#define EBB_CLI_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_MACHINE_GPUS 16

struct cli_gpu {
    char name[128];
    uint64_t memory_bytes; /* 0 = not known */
};

struct cli_machine {
    char system[128]; /* "Debian GNU/Linux 12 (bookworm)" */
    char kernel[128];
    char cpu[128];
    char cpu_features[128]; /* those that matter for speed: "avx2 fma avx512f" */
    int cpus_online, cpus_usable;
    double cpu_quota; /* cgroup limit in CPUs; 0 = none */
    uint64_t memory_bytes, memory_available_bytes;
    uint64_t memory_limit_bytes; /* smallest cgroup limit on the way to the root; 0 = none */
    char gpu_driver[64];         /* "550.54.15"; "" = none */
    struct cli_gpu gpus[CLI_MACHINE_GPUS];
    size_t gpu_count;
};

void cli_machine_probe(struct cli_machine *machine, const char *root);
/* Memory of this machine: installed, or what a container may take of it. */
uint64_t cli_machine_bytes(void);

/* Full path of a program found in `path` (the value of $PATH; may be NULL), or false. */
bool cli_machine_which(const char *program, const char *path, char *buf, size_t size);

#endif
