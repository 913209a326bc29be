/* waits.c - which earlier copies a step must follow, found from the bytes it touches.
 *
 * Copies between tiers are numbered per stream in the order of the plan. A stream runs in order, so
 * whoever has waited for a copy has waited for those before it: of every stream only the latest copy
 * in the way counts, and a copy that compute has waited for is in nobody's way any more, because
 * every copy, and what runs below, follows what compute has done so far. What is left is the list of open copies.
 *
 *   W1 RUN    follows copies in that fill what it reads, and any copy that reads or fills what it
 *             writes: outputs, workspace, scratch
 *   W2 FETCH  follows copies that touch its bytes in tier 0, and the copy out that made the bytes
 *             it reads
 *   W3 SEND   follows the copy in that fills the storage, and copies in that still read the place
 *             in the lower tier
 *   W4 DROP, FORGET, PLACE  follow nothing: who takes the bytes next does
 *   W5 MOVE   follows copies of either range
 *   W6 the end follows all
 *   W7 RUN below  follows copies out that make what it reads, and copies that read or fill what it
 *             writes in tier 1; copies that touch its bytes there follow it */
#include "exec/internal.h"

#include "base/heap.h"

struct exec_copy { /* or one range of a run below */
    uint8_t stream, tier;
    bool is_out;      /* it reads tier 0 */
    bool writes_low;  /* it writes the lower tier */
    uint32_t index;   /* among all copies */
    uint32_t number;  /* on its stream, from 1 */
    uint64_t at, low; /* in tier 0, in the lower tier */
    uint64_t bytes, at_bytes;
};

static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static void follow(struct exec_waits *w, const struct exec_copy *c)
{
    if (c->number > w->need[c->stream].number)
        w->need[c->stream] = (struct exec_wait){c->number, c->index};
}

void exec_waits_touch(struct exec_waits *w, uint64_t offset, uint64_t bytes, bool is_write)
{
    for (size_t i = 0; i < w->open_count && bytes; i++) {
        const struct exec_copy *c = &w->open[i];
        if ((is_write || !c->is_out) && overlap(c->at, c->at_bytes, offset, bytes))
            follow(w, c);
    }
}

/* Nobody need look at copies that compute has waited for. */
static void close_known(struct exec_waits *w)
{
    size_t left = 0;
    for (size_t i = 0; i < w->open_count; i++)
        if (w->open[i].number > w->known[w->open[i].stream])
            w->open[left++] = w->open[i];
    w->open_count = left;
}

static enum ebb_status note(struct exec_waits *w, uint32_t copy, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&w->list, &w->capacity, (size_t)w->count + 1, sizeof *w->list, err));
    w->list[w->count++] = copy;
    return EBB_OK;
}

enum ebb_status exec_waits_compute(struct exec_waits *w, struct exec_waits_of *of,
                                   struct ebb_error *err)
{
    bool has_waited = false;
    of->first = w->count;
    for (int k = 0; k < DEVICE_STREAMS; k++) {
        if (w->need[k].number > w->known[k]) {
            EBB_TRY(note(w, w->need[k].copy, err));
            w->known[k] = w->need[k].number;
            has_waited = true;
        }
        w->need[k] = (struct exec_wait){0};
    }
    of->count = w->count - of->first;
    if (has_waited)
        close_known(w);
    w->done++; /* what comes now on compute */
    return EBB_OK;
}

/* Whoever is under way in a range of a lower tier, on another stream. */
static void touch_low(struct exec_waits *w, size_t count, enum device_stream stream,
                      enum device_tier tier, uint64_t low, uint64_t bytes, bool is_write)
{
    for (size_t i = 0; i < count; i++) {
        const struct exec_copy *c = &w->open[i];
        if (c->stream != stream && c->tier == tier && (is_write || c->writes_low) &&
            overlap(c->low, c->bytes, low, bytes))
            follow(w, c);
    }
}

/* What was found to be followed by the next on `stream`, but for what compute has waited for. */
static enum ebb_status take_needs(struct exec_waits *w, enum device_stream stream,
                                  struct exec_waits_of *of, struct ebb_error *err)
{
    of->first = w->count;
    for (int k = 0; k < DEVICE_STREAMS; k++) {
        if (k != (int)stream && w->need[k].number > w->known[k])
            EBB_TRY(note(w, w->need[k].copy, err));
        w->need[k] = (struct exec_wait){0};
    }
    of->count = w->count - of->first;
    return EBB_OK;
}

enum ebb_status exec_waits_copy(struct exec_waits *w, enum device_tier tier, bool is_out,
                                uint64_t offset, uint64_t low, uint64_t bytes,
                                struct exec_waits_of *of, struct ebb_error *err)
{
    enum device_stream stream = device_copy_stream(tier, is_out);
    exec_waits_touch(w, offset, bytes, !is_out);
    touch_low(w, w->open_count, stream, tier, low, bytes, is_out);
    of->follows_compute = w->done > w->seen[stream];
    w->seen[stream] = w->done;
    EBB_TRY(take_needs(w, stream, of, err));
    EBB_TRY(ebb_grow(&w->open, &w->open_capacity, w->open_count + 1, sizeof *w->open, err));
    w->open[w->open_count++] = (struct exec_copy){.stream = (uint8_t)stream,
                                                  .tier = (uint8_t)tier,
                                                  .is_out = is_out,
                                                  .writes_low = is_out,
                                                  .index = w->copies++,
                                                  .number = ++w->last[stream],
                                                  .at = offset,
                                                  .low = low,
                                                  .bytes = bytes,
                                                  .at_bytes = bytes};
    return EBB_OK;
}

enum ebb_status exec_waits_touch_below(struct exec_waits *w, uint64_t low, uint64_t bytes,
                                       bool is_write, struct ebb_error *err)
{
    if (bytes == 0)
        return EBB_OK;
    touch_low(w, w->open_count - w->below_count, DEVICE_BELOW, DEVICE_HOST, low, bytes, is_write);
    EBB_TRY(ebb_grow(&w->open, &w->open_capacity, w->open_count + 1, sizeof *w->open, err));
    w->open[w->open_count++] = (struct exec_copy){.stream = DEVICE_BELOW,
                                                  .tier = DEVICE_HOST,
                                                  .is_out = true,
                                                  .writes_low = is_write,
                                                  .index = w->copies,
                                                  .number = w->last[DEVICE_BELOW] + 1,
                                                  .low = low,
                                                  .bytes = bytes};
    w->below_count++;
    return EBB_OK;
}

enum ebb_status exec_waits_below(struct exec_waits *w, struct exec_waits_of *of,
                                 struct ebb_error *err)
{
    w->below_count = 0;
    of->follows_compute = w->done > w->seen[DEVICE_BELOW]; /* as copies do */
    w->seen[DEVICE_BELOW] = w->done;
    w->copies++;
    w->last[DEVICE_BELOW]++;
    return take_needs(w, DEVICE_BELOW, of, err);
}

enum ebb_status exec_waits_end(struct exec_waits *w, struct exec_waits_of *of,
                               struct ebb_error *err)
{
    for (size_t i = 0; i < w->open_count; i++)
        follow(w, &w->open[i]);
    return exec_waits_compute(w, of, err);
}

void exec_waits_fini(struct exec_waits *w)
{
    ebb_free(w->open);
    ebb_free(w->list);
}
