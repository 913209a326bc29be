/* bert.c - the dataset `bert`: shards of masked sentence pairs.
 *
 * Version 1 has fixed rows and input_mask; version 2 rows of variable length, padded here. Every
 * row of every shard is a sample; ranks share samples, not shards. */
#include "data/bert.h"

#include <string.h>

#include "base/heap.h"
#include "data/synthetic.h"

enum { MAX_MASKED = 1024, DEFAULT_MASKED = 76 };

static const char *const row_names[] = {"input_ids",     "masked_lm_positions",
                                        "masked_lm_ids", "segment_ids",
                                        "input_mask",    "next_sentence_labels"};
enum { IDS, POSITIONS, MASKED_IDS, SEGMENTS, MASK, NEXT, NAMES };

static enum ebb_status find_all(const struct data_h5 *h, struct data_h5_dataset d[NAMES],
                                bool *has_mask, struct ebb_error *err)
{
    if (data_h5_has(h, "packed_input_len"))
        return ebb_fail(err, EBB_EUNSUPPORTED, "%s: packed sequences are not read here",
                        h->file->path);
    *has_mask = data_h5_has(h, "input_mask");
    for (int i = 0; i < NAMES; i++) {
        if (i == MASK && !*has_mask)
            continue;
        EBB_TRY(data_h5_find(h, row_names[i], &d[i], err));
        if (d[i].rank < 1 || d[i].dims[0] != d[IDS].dims[0])
            return ebb_fail(err, EBB_ECORRUPT, "%s: %s has another number of rows than input_ids",
                            h->file->path, row_names[i]);
    }
    return EBB_OK;
}

enum ebb_status data_bert_shape(const struct data_h5 *h, uint64_t *rows, int64_t *sequence,
                                size_t *scratch_bytes, struct ebb_error *err)
{
    struct data_h5_dataset d[NAMES];
    bool has_mask;
    size_t most = 64;
    EBB_TRY(find_all(h, d, &has_mask, err));
    *rows = d[IDS].dims[0];
    if (d[IDS].type.class != DATA_H5_ROWS && d[IDS].rank == 2 && d[IDS].dims[1] <= 1 << 20)
        *sequence = (int64_t)d[IDS].dims[1];
    for (int i = 0; i < NAMES; i++) {
        size_t bytes = i == MASK && !has_mask ? 0 : data_h5_scratch(&d[i]);
        most = bytes > most ? bytes : most;
    }
    *scratch_bytes = most;
    return EBB_OK;
}

/* A row of at most `sequence` numbers into a field, the rest zero. */
static enum ebb_status padded_row(const struct data_h5 *h, const struct data_h5_dataset *d,
                                  uint64_t row, int64_t sequence, int64_t *out, size_t *count,
                                  struct data_scratch *scratch, struct ebb_error *err)
{
    memset(out, 0, (size_t)sequence * sizeof *out);
    return data_h5_read_row(h, d, row, (size_t)sequence, out, count, scratch, err);
}

static enum ebb_status make_targets(const struct data_h5 *h, const struct data_h5_dataset *d,
                                    uint64_t row, int64_t sequence, int64_t vocabulary,
                                    int64_t *targets, struct data_scratch *scratch,
                                    struct ebb_error *err)
{
    int64_t *places, *ids;
    size_t place_count = 0, id_count = 0, masked = 0;
    EBB_TRY(data_scratch_take(scratch, MAX_MASKED * sizeof *places, &places, err));
    EBB_TRY(data_scratch_take(scratch, MAX_MASKED * sizeof *ids, &ids, err));
    EBB_TRY(
        data_h5_read_row(h, &d[POSITIONS], row, MAX_MASKED, places, &place_count, scratch, err));
    EBB_TRY(data_h5_read_row(h, &d[MASKED_IDS], row, MAX_MASKED, ids, &id_count, scratch, err));
    for (size_t i = 0; i < place_count; i++)
        masked += places[i] != 0;
    masked = masked ? masked : DEFAULT_MASKED;
    masked = masked < place_count ? masked : place_count;
    masked = masked < id_count ? masked : id_count;
    for (int64_t i = 0; i < sequence; i++)
        targets[i] = -100;
    for (size_t i = 0; i < masked; i++) {
        if (places[i] < 0 || places[i] >= sequence || ids[i] < 0 || ids[i] >= vocabulary)
            return ebb_fail(err, EBB_ECORRUPT, "%s: row %llu: token %lld masked at place %lld",
                            h->file->path, (unsigned long long)row, (long long)ids[i],
                            (long long)places[i]);
        targets[places[i]] = ids[i];
    }
    return EBB_OK;
}

enum ebb_status data_bert_row(const struct data_h5 *h, uint64_t row, int64_t sequence,
                              int64_t vocabulary, void *const *fields, struct data_scratch *scratch,
                              struct ebb_error *err)
{
    struct data_h5_dataset d[NAMES];
    bool has_mask;
    size_t length = 0, count = 0;
    size_t bytes = (size_t)sequence * sizeof(int64_t);
    EBB_TRY(find_all(h, d, &has_mask, err));
    int64_t *tokens = fields[0];
    if (!tokens)
        EBB_TRY(data_scratch_take(scratch, bytes, &tokens, err));
    EBB_TRY(padded_row(h, &d[IDS], row, sequence, tokens, &length, scratch, err));
    for (size_t i = 0; i < length; i++) {
        if (tokens[i] < 0 || tokens[i] >= vocabulary)
            return ebb_fail(err, EBB_ECORRUPT, "%s: row %llu: token %lld, the vocabulary has %lld",
                            h->file->path, (unsigned long long)row, (long long)tokens[i],
                            (long long)vocabulary);
    }
    if (fields[1])
        EBB_TRY(make_targets(h, d, row, sequence, vocabulary, fields[1], scratch, err));
    if (fields[2])
        EBB_TRY(padded_row(h, &d[SEGMENTS], row, sequence, fields[2], &count, scratch, err));
    if (fields[3] && has_mask)
        EBB_TRY(padded_row(h, &d[MASK], row, sequence, fields[3], &count, scratch, err));
    for (int64_t i = 0; fields[3] && !has_mask && i < sequence; i++)
        ((int64_t *)fields[3])[i] = i < (int64_t)length;
    if (fields[4])
        EBB_TRY(data_h5_read_row(h, &d[NEXT], row, 1, fields[4], &count, scratch, err));
    return EBB_OK;
}

/* ---- the dataset ---- */

void data_bert_describe(struct data_info *info, int64_t vocabulary, int64_t sequence)
{
    info->vocabulary = vocabulary;
    info->sequence = sequence;
    data_add_field(info, "tokens", DATA_I64, 1, &sequence);
    data_add_field(info, "targets", DATA_I64, 1, &sequence);
    data_add_field(info, "segments", DATA_I64, 1, &sequence);
    data_add_field(info, "attention", DATA_I64, 1, &sequence);
    data_add_field(info, "next_sentence", DATA_I64, 0, NULL);
}

struct bert_state {
    struct data_folders files;
    uint64_t *first[DATA_SPLITS]; /* rows before shard i; one more than shards */
    int64_t sequence, vocabulary;
};

static void bert_close(struct data_set *set)
{
    struct bert_state *state = set->state;
    data_folders_fini(&state->files);
    for (int s = 0; s < DATA_SPLITS; s++)
        ebb_free(state->first[s]);
}

static enum ebb_status measure_shards(struct data_set *set, int split, struct ebb_error *err)
{
    struct bert_state *state = set->state;
    size_t count = state->files.names[split].count;
    EBB_TRY(ebb_new(&state->first[split], count + 1, sizeof(uint64_t), err));
    for (size_t i = 0; i < count; i++) {
        struct data_file file;
        struct data_h5 h;
        uint64_t rows = 0;
        int64_t sequence = state->sequence;
        size_t scratch = 0;
        enum ebb_status status =
            data_folders_open(&state->files, (enum data_split)split, i, &file, err);
        EBB_THEN(status, data_h5_open(&h, &file, err));
        EBB_THEN(status, data_bert_shape(&h, &rows, &sequence, &scratch, err));
        if (status == EBB_OK && (split || i) && sequence != state->sequence)
            status = ebb_fail(err, EBB_ECORRUPT, "%s: rows of %lld tokens, others have %lld",
                              file.path, (long long)sequence, (long long)state->sequence);
        data_file_close(&file);
        EBB_TRY(status);
        state->sequence = sequence;
        state->first[split][i + 1] = state->first[split][i] + rows;
        if (scratch > set->info.scratch_bytes)
            set->info.scratch_bytes = scratch;
    }
    set->info.full_count[split] = state->first[split][count];
    set->info.resident_bytes += (count + 1) * sizeof(uint64_t);
    return EBB_OK;
}

static enum ebb_status bert_open(struct data_set *set, const struct data_values *v,
                                 struct ebb_error *err)
{
    if (v->is_synthetic)
        return data_synthetic_bert(set, v, err);
    struct bert_state *state = set->state;
    state->sequence = v->sequence_length;
    state->vocabulary = v->vocabulary;
    static const char *const folders[] = {"train", "validation"};
    EBB_TRY(data_folders_list(&state->files, set, folders, data_h5_suffixes, NULL, err));
    for (int s = 0; s < DATA_SPLITS; s++)
        EBB_TRY(measure_shards(set, s, err));
    data_bert_describe(&set->info, state->vocabulary, state->sequence);
    set->info.scratch_bytes += ((size_t)state->sequence + 2 * MAX_MASKED) * sizeof(int64_t) + 256;
    return EBB_OK;
}

static enum ebb_status bert_read(const struct data_request *q, struct ebb_error *err)
{
    const struct bert_state *state = q->set->state;
    const uint64_t *first = state->first[q->split];
    size_t shard = data_find_start(first, state->files.names[q->split].count, q->index);
    struct data_file file;
    struct data_h5 h;
    enum ebb_status status = data_folders_open(&state->files, q->split, shard, &file, err);
    EBB_THEN(status, data_h5_open(&h, &file, err));
    EBB_THEN(status, data_bert_row(&h, q->index - first[shard], state->sequence, state->vocabulary,
                                   q->fields, q->scratch, err));
    data_file_close(&file);
    return status;
}

static void bert_defaults(struct data_values *v)
{
    v->sequence_length = 512;
    v->vocabulary = 30522;
}

const struct data_row data_row_bert = {
    DATA_ROW("bert", "masked sentence pairs in HDF5 shards", DATA_MASKED, struct bert_state,
             bert_open, bert_read, bert_close),
    .keys = "data_dir sequence_length vocabulary samples val_samples",
    .required = "data_dir",
    .can_synthesize = true,
    .defaults = bert_defaults,
};
