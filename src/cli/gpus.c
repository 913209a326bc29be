/* gpus.c - see gpus.h. */
#include "cli/gpus.h"

#include <stdlib.h>
#include <string.h>

#include "cli/machine.h"

enum ebb_status cli_gpus_find(struct ebb_arena *arena, const char *const **ids, size_t *count,
                              struct ebb_error *err)
{
    struct cli_machine machine;
    const char *given = getenv("CUDA_VISIBLE_DEVICES");
    cli_machine_probe(&machine, "");
    size_t usable = 0; /* the driver knows their memory; files alone may show what is not ours */
    while (usable < machine.gpu_count && machine.gpus[usable].memory_bytes > 0)
        usable++;
    const char **found = ebb_arena_calloc(arena, usable + 1, sizeof *found);
    EBB_TRY(ebb_arena_status(arena, err));
    *count = 0;
    for (const char *at = given; *count < usable; ++*count) {
        size_t n = given != NULL ? strcspn(at, ",") : 0;
        if (given != NULL && n == 0)
            break;
        found[*count] = given != NULL ? ebb_arena_strndup(arena, at, n)
                                      : ebb_arena_printf(arena, "%zu", *count);
        at = given != NULL ? at + n + (at[n] == ',') : NULL;
    }
    *ids = found;
    return ebb_arena_status(arena, err);
}

enum ebb_status cli_gpus_give(struct ebb_arena *arena, const char *const *ids, size_t count,
                              struct exp_master_options *options, struct ebb_error *err)
{
    if (count == 0)
        return EBB_OK;
    if (options->slots <= 0)
        options->slots = (int64_t)count;
    const char **of_slots = ebb_arena_calloc(arena, (size_t)options->slots, sizeof *of_slots);
    EBB_TRY(ebb_arena_status(arena, err));
    for (size_t i = 0; i < (size_t)options->slots; i++)
        of_slots[i] = ids[i % count];
    options->gpu_ids = of_slots;
    return EBB_OK;
}
