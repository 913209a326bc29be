/* slots.c - the bytes of a trial's slots, wherever they lie: values as the view says them, in one leaf
 * or several, split or whole; how they begin; averages and hashes of them. */
#include "train/trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/crypto.h"
#include "base/heap.h"
#include "kernel/kernel.h"

struct slot_bytes { /* get or put */
    unsigned char *to;
    const unsigned char *from;
    uint64_t count;
};

/* Bytes of a slot from `at` on, which may lie in several leaves. */
static enum ebb_status pass_slot(struct train_trial *t, size_t slot, uint64_t at,
                                 const struct slot_bytes *b, struct ebb_error *err)
{
    const struct train_slot *s = &t->main.slots[slot];
    const struct train_program *p = t->main.program;
    for (uint64_t done = 0, n; done < b->count; done += n) {
        uint64_t k = s->piece_count ? (at + done) / s->piece_bytes : 0;
        uint64_t from = at + done - k * s->piece_bytes;
        uint32_t tensor = s->piece_count ? s->tensors[k] : s->tensor;
        n = b->count - done;
        if (s->piece_count && n > s->piece_bytes - from)
            n = s->piece_bytes - from;
        EBB_TRY(b->to ? train_engine_get(t->engine, p, tensor, from, b->to + done, n, err)
                      : train_engine_put(t->engine, p, tensor, from, b->from + done, n, err));
    }
    return EBB_OK;
}

static enum ebb_status get(struct train_trial *t, size_t slot, uint64_t at, void *bytes,
                           uint64_t count, struct ebb_error *err)
{
    return pass_slot(t, slot, at, &(struct slot_bytes){.to = bytes, .count = count}, err);
}

static enum ebb_status put(struct train_trial *t, size_t slot, uint64_t at, const void *bytes,
                           uint64_t count, struct ebb_error *err)
{
    return pass_slot(t, slot, at, &(struct slot_bytes){.from = bytes, .count = count}, err);
}

/* Elements that pass at once: few, so that memory beside the budget is little. */
#define PIECE 262144

struct train_halves {
    uint16_t high[PIECE], rest[PIECE];
    float whole[PIECE];
};

static enum ebb_status read_split(struct train_trial *t, size_t slot, tensor_sink *reader,
                                  void *context, struct ebb_error *err)
{
    struct train_halves *h = t->halves;
    const struct train_slot *s = &t->main.slots[slot];
    uint64_t n = (uint64_t)tensor_count(&s->view);
    for (uint64_t at = 0; at < n; at += PIECE) {
        uint64_t count = n - at < PIECE ? n - at : PIECE, bytes = count * sizeof *h->high;
        EBB_TRY(get(t, slot, at * sizeof *h->high, h->high, bytes, err));
        EBB_TRY(get(t, s->rest, at * sizeof *h->rest, h->rest, bytes, err));
        kernel_master_join(train_engine_backend(t->engine), (int64_t)count, h->high, h->rest,
                           h->whole);
        EBB_TRY(reader(context, h->whole, (size_t)count * sizeof *h->whole, err));
    }
    return EBB_OK;
}

enum ebb_status train_slot_read(struct train_trial *t, size_t slot, tensor_sink *reader,
                                void *context, struct ebb_error *err)
{
    const struct train_slot *s = &t->main.slots[slot];
    struct train_halves *h = t->halves;
    if (s->rest)
        return read_split(t, slot, reader, context, err);
    for (uint64_t at = 0; at < s->bytes; at += sizeof h->whole) {
        uint64_t left = s->bytes - at, count = left < sizeof h->whole ? left : sizeof h->whole;
        EBB_TRY(get(t, slot, at, h->whole, count, err));
        EBB_TRY(reader(context, h->whole, (size_t)count, err));
    }
    return EBB_OK;
}

struct bytes {
    char *to;
    size_t at;
};

static enum ebb_status collect(void *context, const void *bytes, size_t count,
                               struct ebb_error *err)
{
    struct bytes *b = context;
    (void)err;
    memcpy(b->to + b->at, bytes, count);
    b->at += count;
    return EBB_OK;
}

enum ebb_status train_slot_copy(struct train_trial *t, size_t slot, void *to, struct ebb_error *err)
{
    return train_slot_read(t, slot, collect, &(struct bytes){to, 0}, err);
}

enum ebb_status train_slot_write_part(struct train_trial *t, size_t slot, uint64_t first,
                                      uint64_t elements, const void *values, struct ebb_error *err)
{
    const struct train_slot *s = &t->main.slots[slot];
    struct train_halves *h = t->halves;
    enum ebb_status status = EBB_OK;
    uint64_t all = (uint64_t)tensor_count(&s->view), size = all ? s->bytes / all : 0;
    if (!s->rest)
        return put(t, slot, first * size, values, elements * size, err);
    for (uint64_t at = 0; at < elements && status == EBB_OK; at += PIECE) {
        uint64_t count = elements - at < PIECE ? elements - at : PIECE;
        uint64_t bytes = count * sizeof *h->high, to = (first + at) * sizeof *h->high;
        memcpy(h->whole, (const unsigned char *)values + at * sizeof *h->whole,
               count * sizeof *h->whole); /* in a file they may lie anywhere */
        kernel_master_split(train_engine_backend(t->engine), (int64_t)count, h->whole, h->high,
                            h->rest);
        status = put(t, slot, to, h->high, bytes, err);
        EBB_THEN(status, put(t, s->rest, to, h->rest, bytes, err));
    }
    return status;
}

enum ebb_status train_slot_write(struct train_trial *t, size_t slot, const void *values,
                                 struct ebb_error *err)
{
    uint64_t all = (uint64_t)tensor_count(&t->main.slots[slot].view);
    return train_slot_write_part(t, slot, 0, all, values, err);
}

/* All elements the same float. */
static enum ebb_status fill_slot(struct train_trial *t, size_t slot, float value,
                                 struct ebb_error *err)
{
    const struct train_slot *s = &t->main.slots[slot];
    float piece[4096];
    if (value == 0.0f && !s->piece_count)
        return train_engine_zero(t->engine, t->main.program, s->tensor, err);
    for (size_t k = 0; k < s->piece_count && value == 0.0f; k++)
        EBB_TRY(train_engine_zero(t->engine, t->main.program, s->tensors[k], err));
    if (value == 0.0f)
        return EBB_OK;
    for (size_t k = 0; k < sizeof piece / sizeof *piece; k++)
        piece[k] = value;
    for (uint64_t at = 0; at < s->bytes; at += sizeof piece)
        EBB_TRY(put(t, slot, at, piece, s->bytes - at < sizeof piece ? s->bytes - at : sizeof piece,
                    err));
    return EBB_OK;
}

enum ebb_status train_clear_gradients(struct train_trial *t, struct ebb_error *err)
{
    for (size_t i = 0; i < t->main.slot_count; i++)
        if (t->main.slots[i].kind == TRAIN_GRADIENT)
            EBB_TRY(fill_slot(t, i, 0.0f, err));
    return EBB_OK;
}

/* Drawn where they lie, or, split, in blocks or out of reach, elsewhere first. */
static enum ebb_status initialize_item(struct train_trial *t, struct nn_initializer *init,
                                       size_t slot, struct ebb_error *err)
{
    const struct train_slot *s = &t->main.slots[slot];
    bool is_one = !s->rest && !s->piece_count;
    void *direct = is_one ? train_engine_direct(t->engine, t->main.program, s->tensor) : NULL;
    if (direct) {
        nn_initialize(init, s->item, direct);
        return EBB_OK;
    }
    void *values;
    EBB_TRY(ebb_new(&values, 1, s->bytes, err));
    nn_initialize(init, s->item, values);
    enum ebb_status status = train_slot_write(t, slot, values, err);
    ebb_free(values);
    return status;
}

/* Weights as the model begins; states at their initial values. */
enum ebb_status train_slots_begin(struct train_trial *t, struct ebb_error *err)
{
    struct tensor_session *s = NULL;
    struct nn_builder b;
    struct nn_initializer *init = NULL;
    struct nn_output outputs[NN_PORTS];
    tensor_id inputs[NN_PORTS];
    size_t count;
    EBB_TRY(ebb_new(&t->halves, 1, sizeof *t->halves, err));
    EBB_TRY(tensor_session_create(&s, train_engine_backend(t->engine), err));
    nn_builder_init(&b, s, &(struct nn_mode){.is_training = false});
    enum ebb_status status = nn_leaves(&b, &t->net, 1, inputs, err);
    EBB_THEN(status, nn_build(&b, &t->net, inputs, outputs, &count, err));
    EBB_THEN(status, nn_initializer_create(&init, &b, t->net.generator, t->config.seed, err));
    for (size_t i = 0; status == EBB_OK && i < t->main.slot_count; i++) {
        const struct train_slot *slot = &t->main.slots[i];
        if (slot->kind == TRAIN_ITEM)
            status = initialize_item(t, init, i, err);
        else if (slot->kind != TRAIN_REST)
            status = fill_slot(t, i, slot->initial, err);
    }
    nn_initializer_destroy(init);
    nn_builder_fini(&b);
    tensor_session_destroy(s);
    return status;
}

/* ---- averages of weights (opt.ema) ----------------------------------------------------------- */

static enum ebb_status read_part(struct train_trial *t, size_t slot, uint64_t first, uint64_t count,
                                 float *to, struct ebb_error *err)
{
    const struct train_slot *s = &t->main.slots[slot];
    struct train_halves *h = t->halves;
    if (!s->rest)
        return get(t, slot, first * sizeof *to, to, count * sizeof *to, err);
    uint64_t bytes = count * sizeof *h->high;
    EBB_TRY(get(t, slot, first * sizeof *h->high, h->high, bytes, err));
    EBB_TRY(get(t, s->rest, first * sizeof *h->rest, h->rest, bytes, err));
    kernel_master_join(train_engine_backend(t->engine), (int64_t)count, h->high, h->rest, to);
    return EBB_OK;
}

enum { EXCHANGED = 65536 }; /* elements at once: no item lies beside the budget as a whole */

/* Item and average, one or both ways. */
static enum ebb_status exchange(struct train_trial *t, size_t item, size_t average, bool is_swap,
                                struct ebb_error *err)
{
    uint64_t all = (uint64_t)tensor_count(&t->main.slots[item].view);
    float *weights, *averages;
    EBB_TRY(ebb_new(&weights, 2 * EXCHANGED, sizeof *weights, err));
    averages = weights + EXCHANGED;
    enum ebb_status status = EBB_OK;
    for (uint64_t at = 0, n; at < all && status == EBB_OK; at += n) {
        n = all - at < EXCHANGED ? all - at : EXCHANGED;
        status = read_part(t, item, at, n, weights, err);
        if (is_swap)
            EBB_THEN(status, read_part(t, average, at, n, averages, err));
        EBB_THEN(status, train_slot_write_part(t, average, at, n, weights, err));
        if (is_swap)
            EBB_THEN(status, train_slot_write_part(t, item, at, n, averages, err));
    }
    ebb_free(weights);
    return status;
}

static enum ebb_status exchange_all(struct train_trial *t, bool is_swap, struct ebb_error *err)
{
    for (size_t i = 0; t->config.ema > 0 && i < t->main.slot_count; i++)
        if (train_slot_is_average(&t->config, &t->main.slots[i]))
            EBB_TRY(exchange(t, t->main.slots[i].item, i, is_swap, err));
    return EBB_OK;
}

enum ebb_status train_begin_averages(struct train_trial *t, struct ebb_error *err)
{
    return exchange_all(t, false, err);
}

enum ebb_status train_swap_averages(struct train_trial *t, struct ebb_error *err)
{
    return exchange_all(t, true, err);
}

/* ---- the hash of the weights ---------------------------------------------------------------- */

struct named {
    const char *name;
    size_t slot;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static enum ebb_status add_to_hash(void *context, const void *bytes, size_t count,
                                   struct ebb_error *err)
{
    (void)err;
    ebb_sha256_add(context, bytes, count);
    return EBB_OK;
}

static enum ebb_status hash_slots(struct train_trial *t, enum train_slot_kind kind, char text[65],
                                  struct ebb_error *err)
{
    struct ebb_sha256 h;
    size_t count = 0;
    struct named *names;
    EBB_TRY(ebb_new(&names, t->main.slot_count + 1, sizeof *names, err));
    for (size_t i = 0; i < t->main.slot_count; i++)
        if (t->main.slots[i].kind == kind)
            names[count++] = (struct named){t->main.slots[i].name, i};
    qsort(names, count, sizeof *names, by_name);
    ebb_sha256_init(&h);
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < count && status == EBB_OK; i++) {
        const struct train_slot *slot = &t->main.slots[names[i].slot];
        unsigned char length[8];
        ebb_store_u64(length, slot->bytes);
        ebb_sha256_add(&h, slot->name, strlen(slot->name) + 1);
        ebb_sha256_add(&h, length, sizeof length);
        status = train_slot_read(t, names[i].slot, add_to_hash, &h, err);
    }
    ebb_free(names);
    enum ebb_status told = ebb_sha256_text(&h, text, status == EBB_OK ? err : NULL); /* frees it */
    return status == EBB_OK ? told : status;
}

enum ebb_status train_trial_hash(struct train_trial *t, char text[65], struct ebb_error *err)
{
    return hash_slots(t, TRAIN_ITEM, text, err);
}

enum ebb_status train_trial_gradients(struct train_trial *t, char text[65], struct ebb_error *err)
{
    return hash_slots(t, TRAIN_GRADIENT, text, err);
}
