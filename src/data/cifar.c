/* cifar.c - the binary CIFAR-10 and CIFAR-100 files: label byte(s), then 3 x 32 x 32 bytes. */
#include "data/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "data/pixels.h"

enum { PIXELS = 3 * 32 * 32, MAX_FILES = 6 };

struct cifar_state {
    struct data_file files[MAX_FILES];
    uint64_t first[MAX_FILES + 1]; /* samples before file i; validation starts anew */
    int split_files[DATA_SPLITS + 1];
    int file_count;
    uint64_t record, label_at; /* bytes of a record, place of the label within */
    int64_t classes;
    struct data_small small;
};

static void cifar_close(struct data_set *set)
{
    struct cifar_state *state = set->state;
    for (int i = 0; i < MAX_FILES; i++)
        data_file_close(&state->files[i]);
}

static enum ebb_status cifar_add(struct data_set *set, const char *name, enum data_split split,
                                 struct ebb_error *err)
{
    struct cifar_state *state = set->state;
    int i = state->file_count;
    struct data_file *file = &state->files[i];
    EBB_TRY(data_file_open_in(file, set->folder, name, err));
    if (file->length == 0 || file->length % state->record)
        return data_corrupt(err, file, file->length / state->record * state->record,
                            "%llu bytes are no whole number of records of %llu bytes",
                            (unsigned long long)file->length, (unsigned long long)state->record);
    state->first[i] = set->info.full_count[split];
    set->info.full_count[split] += file->length / state->record;
    state->file_count++;
    state->split_files[split + 1] = state->file_count;
    return EBB_OK;
}

static enum ebb_status cifar_open(struct data_set *set, const struct data_values *v,
                                  struct ebb_error *err)
{
    static const struct data_norm norms[] = {
        {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}},
        {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}},
    };
    struct cifar_state *state = set->state;
    bool is_100 = set->row->variant;
    state->classes = is_100 ? 100 : 10;
    state->label_at = is_100 ? 1 : 0; /* coarse label first, fine label second */
    state->record = state->label_at + 1 + PIXELS;
    for (int i = 1; i <= (is_100 ? 1 : 5); i++) {
        char name[32];
        snprintf(name, sizeof name, is_100 ? "train.bin" : "data_batch_%d.bin", i);
        EBB_TRY(cifar_add(set, name, DATA_TRAIN, err));
    }
    EBB_TRY(cifar_add(set, is_100 ? "test.bin" : "test_batch.bin", DATA_VALIDATION, err));
    int64_t size = v->size ? v->size : 32;
    state->small = (struct data_small){
        .in_channels = 3, .height = 32, .width = 32, .channels = 3, .size_y = size, .size_x = size};
    data_small_describe(&state->small, v, &norms[is_100], &set->info);
    set->view = data_small_view(&state->small);
    set->info.classes = state->classes;
    set->info.scratch_bytes = state->record + 64;
    return EBB_OK;
}

static enum ebb_status cifar_read(const struct data_request *request, struct ebb_error *err)
{
    const struct cifar_state *state = request->set->state;
    int i = state->split_files[request->split];
    while (i + 1 < state->split_files[request->split + 1] && state->first[i + 1] <= request->index)
        i++;
    const struct data_file *file = &state->files[i];
    uint64_t offset = (request->index - state->first[i]) * state->record;
    uint8_t *record;
    EBB_TRY(data_scratch_take(request->scratch, state->record, &record, err));
    EBB_TRY(data_file_read(file, offset, record, state->record, err));
    uint8_t label = record[state->label_at];
    if (label >= state->classes)
        return data_corrupt(err, file, offset + state->label_at, "label %u; 0 to %lld are allowed",
                            label, (long long)state->classes - 1);
    if (request->fields[0])
        data_small_make(&state->small, record + state->label_at + 1, request, request->fields[0]);
    if (request->fields[1])
        *(int64_t *)request->fields[1] = label;
    return EBB_OK;
}

static const char *cifar_check(const struct data_values *v, const char **key)
{
    *key = "size";
    if (v->size && (v->size < 32 || v->size > 4096))
        return "allowed: 32 to 4096 (the image is padded)";
    return data_pixels_check(v, 3, key);
}

#define CIFAR_ROW(text, what, is_100)                                                              \
    {                                                                                              \
        DATA_ROW(text, what, DATA_CLASSES, struct cifar_state, cifar_open, cifar_read,             \
                 cifar_close),                                                                     \
            .keys = "data_dir size normalize mean std image_dtype augment",                        \
            .required = "data_dir", .check = cifar_check, .variant = (is_100)                      \
    }

const struct data_row data_row_cifar10 = CIFAR_ROW("cifar10", "CIFAR-10, binary version", false);
const struct data_row data_row_cifar100 =
    CIFAR_ROW("cifar100", "CIFAR-100, binary version, fine labels", true);
