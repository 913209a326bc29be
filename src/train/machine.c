/* machine.c - the profile of this machine: what `ebb device measure` keeps in the cache folder.
 *
 * There is a file for every processor, number of threads and version of ebb: times of one say nothing
 * about another. A trial that may go by it (train_options.knows_machine) does so when it knows
 * nearly all of the step; else everything is as built in, since plans that compare measured
 * times with guesses are worse than plans of guesses alone. Results have the same bits either way. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/thread.h"
#include "train/costs.h"
#include "train/trial.h"

#define LEAST_KNOWN 0.9 /* of the step's time */

/* What the kernels' speed depends on; "" where nothing tells. */
static void describe(struct ebb_str *text)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    char instructions[TRAIN_INSTRUCTIONS];
    train_instruction_set(instructions, sizeof instructions);
    ebb_str_printf(text, "ebb %s; %s; ", EBB_VERSION, instructions);
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "model name", strlen("model name")) != 0)
            continue;
        ebb_str_add(text, line);
        break;
    }
    if (f)
        fclose(f);
}

enum ebb_status train_machine_path(int threads, struct ebb_str *path, struct ebb_error *err)
{
    struct ebb_str text = {0};
    describe(&text);
    struct ebb_hash128 hash = ebb_hash128(ebb_str_c(&text), text.length);
    ebb_file_cache_name(path);
    ebb_str_printf(path, "/devices/cpu-%d-%016" PRIx64 ".device",
                   threads > 0 ? threads : ebb_cpu_count(), hash.low);
    ebb_str_fini(&text);
    return ebb_str_status(path, err);
}

static bool is_processor(const char *device)
{
    return !device || strcmp(device, "cpu") == 0;
}

enum ebb_status train_machine_recall(struct train_trial *t, struct ebb_error *err)
{
    const struct train_config *c = &t->config;
    struct ebb_str path = {0};
    if (!t->options.knows_machine || c->costs || c->is_builtin || !is_processor(c->device))
        return EBB_OK;
    enum ebb_status status = train_machine_path(c->threads, &path, err);
    if (status == EBB_OK && access(ebb_str_c(&path), R_OK) == 0) {
        t->machine_costs = ebb_arena_printf(&t->arena, "%s", ebb_str_c(&path));
        status = t->machine_costs ? profile_load(t->machine_costs, &t->costs, err)
                                  : ebb_no_memory(err, path.length);
        if (status != EBB_OK)
            status =
                ebb_context(err, status, "profile of this machine (remove the file to do without)");
    }
    ebb_str_fini(&path);
    return status;
}

void train_machine_judge(struct train_trial *t)
{
    uint64_t known_ns, all_ns;
    if (!t->machine_costs)
        return;
    train_costs_known(t->main.trace, t->costs, &known_ns, &all_ns);
    t->machine_known = all_ns ? (double)known_ns / (double)all_ns : 1;
    if (t->machine_known >= LEAST_KNOWN)
        train_engine_go_by(t->engine, t->costs);
}
