/* reserve.c - memory.reserve: auto: what the monitor saw beyond the reserve is allowed from the next
 * start on. It is remembered in the cache folder of this machine, per program and device, as a
 * profile with one fact; nothing that is decided reads it. */
#include <inttypes.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "train/trial.h"

#define STEP_BYTES (UINT64_C(1) << 20)

static bool is_auto(const struct train_trial *t)
{
    return t->config.wishes.reserve_bytes == UINT64_MAX;
}

/* Where it is remembered: the same for every budget, since those are not part of a trace. */
static enum ebb_status find_place(struct train_trial *t, struct ebb_error *err)
{
    struct ebb_hash128 sign = train_program_trace(t->main.program)->signature;
    const char *device = t->config.device ? t->config.device : "cpu";
    struct ebb_str folder = {0};
    enum ebb_status status = ebb_file_cache_folder(&folder, err);
    if (status == EBB_OK) {
        t->reserve_file = ebb_arena_printf(&t->arena, "%s/reserve-%s-%016" PRIx64 ".profile",
                                           ebb_str_c(&folder), device, sign.low ^ sign.high);
        status = t->reserve_file ? EBB_OK : ebb_no_memory(err, folder.length);
    }
    ebb_str_fini(&folder);
    return status;
}

enum ebb_status train_reserve_recall(struct train_trial *t, struct ebb_error *err)
{
    uint64_t given = t->config.wishes.reserve_bytes, remembered;
    struct profile *profile = NULL;
    t->allowed_bytes = given && !is_auto(t) ? given : TRAIN_RESERVE;
    if (!is_auto(t))
        return EBB_OK;
    EBB_TRY(find_place(t, err));
    if (access(t->reserve_file, F_OK) != 0)
        return EBB_OK;
    enum ebb_status status = profile_load(t->reserve_file, &profile, err);
    if (status != EBB_OK)
        return ebb_context(err, status,
                           "memory.reserve: auto, remembered by an earlier start "
                           "(remove the file to begin anew)");
    if (profile_fact(profile, "reserve_bytes", &remembered))
        t->allowed_bytes = remembered;
    profile_destroy(profile);
    return EBB_OK;
}

enum ebb_status train_trial_remember(struct train_trial *t, uint64_t *next_bytes,
                                     struct ebb_error *err)
{
    struct train_sight sight;
    struct profile *profile;
    *next_bytes = 0;
    if (!t->monitor || !t->reserve_file)
        return EBB_OK;
    train_monitor_look(t->monitor, &sight);
    if (sight.beyond_bytes <= t->allowed_bytes)
        return EBB_OK;
    uint64_t next = (sight.beyond_bytes + sight.beyond_bytes / 4 + STEP_BYTES - 1) / STEP_BYTES;
    next *= STEP_BYTES;
    EBB_TRY(profile_create(&profile, t->config.device ? t->config.device : "cpu", err));
    enum ebb_status status = profile_set_fact(profile, "reserve_bytes", next, err);
    EBB_THEN(status, profile_finish(profile, err));
    EBB_THEN(status, profile_write(profile, t->reserve_file, err));
    profile_destroy(profile);
    if (status != EBB_OK)
        return ebb_context(err, status, "memory.reserve: auto");
    *next_bytes = next;
    return EBB_OK;
}
