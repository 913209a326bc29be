/* tokens.c - token files, windows of them, the dataset `tokens`. */
#include "data/tokens.h"

#include <string.h>

#include "base/heap.h"
#include "data/synthetic.h"

enum { HEADER_BYTES = 1024, HEADER_MAGIC = 20240520 };

void data_tokens_fini(struct data_tokens *t)
{
    for (size_t i = 0; i < t->count; i++)
        data_file_close(&t->files[i].file);
    ebb_free(t->files);
    ebb_free(t->first);
    *t = (struct data_tokens){0};
}

static enum ebb_status tokens_header(const struct data_tokens *t, const struct data_file *file,
                                     uint64_t *start, uint64_t *count, struct ebb_error *err)
{
    uint8_t head[12];
    uint32_t words[3];
    *start = 0;
    *count = file->length / (uint64_t)t->width;
    if (t->width == 1 || file->length < HEADER_BYTES)
        goto plain;
    EBB_TRY(data_file_read(file, 0, head, sizeof head, err));
    memcpy(words, head, sizeof words);
    if (words[0] != HEADER_MAGIC)
        goto plain;
    if (words[1] != 1 || t->width != 2)
        return data_corrupt(err, file, 4, "token file of version %u; 1 (u16) is supported",
                            words[1]);
    *start = HEADER_BYTES;
    *count = words[2];
    if (*count > (file->length - HEADER_BYTES) / 2)
        return data_corrupt(err, file, 8, "the header promises %u tokens, the file has %llu",
                            words[2], (unsigned long long)((file->length - HEADER_BYTES) / 2));
    return EBB_OK;
plain:
    if (file->length % (uint64_t)t->width)
        return data_corrupt(err, file, file->length, "no whole number of %d-byte tokens", t->width);
    return EBB_OK;
}

enum ebb_status data_tokens_add(struct data_tokens *t, struct data_file *take_file,
                                struct ebb_error *err)
{
    struct data_file file = *take_file;
    uint64_t start = 0, count = 0;
    *take_file = (struct data_file){0};
    enum ebb_status status = tokens_header(t, &file, &start, &count, err);
    EBB_THEN(status, ebb_grow(&t->files, &t->capacity, t->count + 1, sizeof *t->files, err));
    EBB_THEN(status, ebb_grow(&t->first, &t->first_capacity, t->count + 2, sizeof *t->first, err));
    if (status != EBB_OK) {
        data_file_close(&file);
        return status;
    }
    if (t->count == 0)
        t->first[0] = 0;
    t->files[t->count] = (struct data_token_file){file, start};
    t->first[t->count + 1] = t->first[t->count] + count;
    t->count++;
    return EBB_OK;
}

uint64_t data_tokens_total(const struct data_tokens *t)
{
    return t->count ? t->first[t->count] : 0;
}

/* Widen n tokens of `width` bytes that lie at the end of out's own memory. */
static void tokens_widen(int64_t *out, size_t n, int width)
{
    const uint8_t *from = (const uint8_t *)(out + n) - n * (size_t)width;
    for (size_t i = 0; i < n; i++, from += width) {
        uint64_t value = 0;
        memcpy(&value, from, (size_t)width); /* little endian, as the files */
        memcpy(&out[i], &value, sizeof value);
    }
}

/* Tokens [start, start + n) as 64-bit integers; each must be in [0, vocabulary). */
static enum ebb_status read_tokens(const struct data_tokens *t, uint64_t start, size_t n,
                                   int64_t vocabulary, int64_t *out, struct ebb_error *err)
{
    for (size_t i = data_find_start(t->first, t->count, start); n > 0 && i < t->count; i++) {
        uint64_t left = t->first[i + 1] - start;
        size_t now = n < left ? n : (size_t)left;
        const struct data_file *file = &t->files[i].file;
        uint64_t offset = t->files[i].start + (start - t->first[i]) * (uint64_t)t->width;
        uint8_t *at = (uint8_t *)(out + now) - now * (size_t)t->width;
        EBB_TRY(data_file_read(file, offset, at, now * (size_t)t->width, err));
        tokens_widen(out, now, t->width);
        for (size_t k = 0; k < now; k++) {
            if (out[k] < 0 || out[k] >= vocabulary)
                return data_corrupt(err, file, offset + k * (uint64_t)t->width,
                                    "token %lld, the vocabulary has %lld", (long long)out[k],
                                    (long long)vocabulary);
        }
        out += now;
        start += now;
        n -= now;
    }
    if (n > 0)
        return ebb_fail(err, EBB_EINTERNAL, "tokens: %zu beyond the end of the stream", n);
    return EBB_OK;
}

/* ---- windows ---- */

void data_windows_split(struct data_windows *w, const struct data_values *v, bool has_validation)
{
    uint64_t total = data_tokens_total(&w->tokens[DATA_TRAIN]);
    w->sequence = v->sequence_length;
    w->stride = v->stride ? v->stride : v->sequence_length;
    w->end[DATA_TRAIN] = total;
    w->end[DATA_VALIDATION] = data_tokens_total(&w->tokens[DATA_VALIDATION]);
    if (has_validation)
        return;
    w->begin[DATA_VALIDATION] = w->end[DATA_TRAIN] =
        total - (uint64_t)((double)total * v->validation_fraction);
    w->end[DATA_VALIDATION] = total;
}

enum ebb_status data_windows_describe(struct data_set *set, struct data_windows *w,
                                      struct ebb_error *err)
{
    struct data_info *info = &set->info;
    for (int s = 0; s < DATA_SPLITS; s++) {
        uint64_t tokens = w->end[s] - w->begin[s], need = (uint64_t)w->sequence + 1;
        info->full_count[s] = tokens < need ? 0 : (tokens - need) / (uint64_t)w->stride + 1;
    }
    if (info->full_count[DATA_TRAIN] == 0)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: %llu training tokens do not make one sequence of %lld and its target",
                        info->name, (unsigned long long)(w->end[DATA_TRAIN] - w->begin[DATA_TRAIN]),
                        (long long)w->sequence);
    info->vocabulary = w->vocabulary;
    info->sequence = w->sequence;
    data_add_field(info, "tokens", DATA_I64, 1, &w->sequence);
    data_add_field(info, "targets", DATA_I64, 1, &w->sequence);
    return EBB_OK;
}

enum ebb_status data_windows_read(const struct data_request *request, struct ebb_error *err)
{
    const struct data_windows *w = request->set->state;
    enum data_split s = request->split;
    const struct data_tokens *t = &w->tokens[w->tokens[s].count ? s : DATA_TRAIN];
    uint64_t start = w->begin[s] + request->index * (uint64_t)w->stride;
    for (size_t f = 0; f < 2; f++) {
        if (request->fields[f])
            EBB_TRY(read_tokens(t, start + f, (size_t)w->sequence, w->vocabulary,
                                request->fields[f], err));
    }
    return EBB_OK;
}

void data_windows_close(struct data_set *set)
{
    struct data_windows *w = set->state;
    for (int s = 0; s < DATA_SPLITS; s++)
        data_tokens_fini(&w->tokens[s]);
}

/* ---- the dataset ---- */

static int token_width(const char *dtype)
{
    if (strcmp(dtype, "u16") == 0)
        return 2;
    return strcmp(dtype, "i64") == 0 ? 8 : 4;
}

static enum ebb_status tokens_open_files(struct data_set *set, const struct data_values *v,
                                         const struct data_texts *names, struct data_tokens *t,
                                         struct ebb_error *err)
{
    t->width = token_width(v->token_dtype);
    for (size_t i = 0; i < names->count; i++) {
        struct data_file file;
        EBB_TRY(data_file_open_in(&file, set->folder, names->v[i], err));
        EBB_TRY(data_tokens_add(t, &file, err));
    }
    return EBB_OK;
}

static enum ebb_status tokens_open(struct data_set *set, const struct data_values *v,
                                   struct ebb_error *err)
{
    if (v->is_synthetic)
        return data_synthetic_language(set, v, err);
    struct data_windows *w = set->state;
    w->vocabulary = v->vocabulary;
    struct data_texts train = v->train_files, val = v->val_files;
    if (!train.count) { /* as `ebb data make` names them */
        train = (struct data_texts){.v = {"train.bin"}, .count = 1};
        val = val.count ? val : (struct data_texts){.v = {"val.bin"}, .count = 1};
    }
    EBB_TRY(tokens_open_files(set, v, &train, &w->tokens[DATA_TRAIN], err));
    EBB_TRY(tokens_open_files(set, v, &val, &w->tokens[DATA_VALIDATION], err));
    data_windows_split(w, v, val.count > 0);
    return data_windows_describe(set, w, err);
}

static const char *tokens_check(const struct data_values *v, const char **key)
{
    *key = "vocabulary";
    if (!v->is_synthetic && !v->vocabulary)
        return "missing: the number of different tokens";
    return NULL;
}

const struct data_row data_row_tokens = {
    DATA_ROW("tokens", "files of token numbers", DATA_LANGUAGE, struct data_windows, tokens_open,
             data_windows_read, data_windows_close),
    .keys = "data_dir train_files val_files token_dtype vocabulary sequence_length stride "
            "validation_fraction samples val_samples",
    .required = "train_files|data_dir vocabulary",
    .can_synthesize = true,
    .check = tokens_check,
};
