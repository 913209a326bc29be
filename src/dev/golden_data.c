/* golden_data.c - reference cases of data: batch arithmetic, samplers, file formats (which the
 * folder data runs: they look into its readers). */
#include "dev/golden.h"

#include <inttypes.h>
#include <string.h>

#include "data/data.h"

/* ---- batch arithmetic ---- */

static void batch_case(struct dev_judge *j, const struct ebb_doc_node *c)
{
    const char *benchmark = ebb_doc_string(c, "benchmark", "");
    const struct ebb_doc_node *want = ebb_doc_get(c, "expect");
    struct data_batching b = {
        .devices = (uint64_t)ebb_doc_int(c, "devices", 0),
        .global_batch = (uint64_t)ebb_doc_int(c, "global_batch_size", 0),
        .local_batch = (uint64_t)ebb_doc_int(c, "local_batch_size", 0),
        .accumulation = ebb_doc_int(c, "gradient_accumulation_freq", 1),
        .cap = strcmp(benchmark, "cosmoflow") == 0 ? 16 : 64,
        .samples = (uint64_t)ebb_doc_int(c, "dataset_size", 0),
        .drop_last = ebb_doc_bool(c, "drop_last", false),
        .sampler_drop_last = strcmp(benchmark, "resnet50") != 0,
    };
    enum ebb_status status = data_batch_plan(&b, NULL);
    bool is_refusal = ebb_doc_get(want, "error") != NULL;
    if (is_refusal && status == EBB_OK)
        dev_fail(j, "accepted, but no sample is left for a device");
    if (!is_refusal && status != EBB_OK)
        dev_fail(j, "refused");
    if (is_refusal || status != EBB_OK)
        return;
    const struct {
        const char *key;
        uint64_t got;
    } rows[] = {
        {"local_batch_size", b.local},        {"gradient_accumulation_freq", b.accumulate},
        {"global_batch_size", b.global},      {"effective_batch", b.effective},
        {"samples_per_device", b.per_device}, {"iterations_per_epoch", b.iterations},
        {"updates_per_epoch", b.updates},     {"leftover_iterations", b.leftover},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t expected = ebb_doc_int(want, rows[i].key, -1);
        if ((int64_t)rows[i].got != expected)
            dev_fail(j, "%s is %" PRIu64 ", the reference %" PRId64, rows[i].key, rows[i].got,
                     expected);
    }
    if (b.is_exact != ebb_doc_bool(want, "exact", !b.is_exact))
        dev_fail(j, "exact differs");
}

void dev_golden_config(struct dev_judge *j, const struct ebb_doc_node *root,
                       struct dev_tensors *tensors)
{
    const struct ebb_doc_node *list = ebb_doc_get(root, "cases");
    (void)tensors;
    if (!list || list->kind != EBB_DOC_LIST)
        dev_broken(j, "config", "batch cases: no list `cases`");
    for (size_t i = 0; list && list->kind == EBB_DOC_LIST && i < list->count; i++) {
        dev_begin(j, "config/%zu_%.40s", i, ebb_doc_string(list->items[i], "benchmark", ""));
        batch_case(j, list->items[i]);
        dev_end(j);
    }
}

/* ---- samplers ---- */

#define MOST_SAMPLES 4096

void dev_golden_sampler(struct dev_judge *j, const struct ebb_doc_node *c)
{
    const struct ebb_doc_node *ranks = ebb_doc_get(c, "indices");
    uint32_t all[MOST_SAMPLES], list[MOST_SAMPLES];
    struct data_sampler s = {
        .count = (uint64_t)ebb_doc_int(c, "dataset", 0),
        .world = (uint32_t)ebb_doc_int(c, "replicas", 1),
        .order = ebb_doc_bool(c, "shuffle", false) ? DATA_SHUFFLE_TORCH : DATA_SEQUENTIAL,
        .drop_last = ebb_doc_bool(c, "drop_last", false),
        .seed = (uint64_t)ebb_doc_int(c, "seed", 0),
    };
    if (!ranks || ranks->kind != EBB_DOC_LIST || ranks->count != s.world || s.count == 0 ||
        s.count > MOST_SAMPLES) {
        dev_refuse(j, "dataset, replicas and a list of indices per replica are needed");
        return;
    }
    for (s.rank = 0; s.rank < s.world; s.rank++) {
        const struct ebb_doc_node *want = ranks->items[s.rank];
        if (data_sampler_length(&s) != want->count) {
            dev_fail(j, "rank %" PRIu32 " has %zu samples, expected %" PRIu64, s.rank, want->count,
                     data_sampler_length(&s));
            return;
        }
        data_sampler_list(&s, (uint64_t)ebb_doc_int(c, "epoch", 0), all, list);
        for (size_t i = 0; want->kind == EBB_DOC_LIST && i < want->count; i++)
            dev_compare_number(j, "index", (double)list[i], want->items[i]->number, 0, 0);
    }
}

/* ---- formats ---- */

struct formats {
    struct dev_judge *j;
    const struct dev_tensors *tensors;
};

static bool find(void *context, const char *name, struct data_reference *out)
{
    const struct formats *f = context;
    const struct tensor_entry *e = dev_find(f->tensors, "%s", name);
    if (!e || e->view.rank > DATA_MAX_RANK)
        return false;
    *out = (struct data_reference){.data = e->data,
                                   .bytes = e->bytes,
                                   .dtype = tensor_dtype_name((enum tensor_dtype)e->view.dtype),
                                   .rank = e->view.rank};
    memcpy(out->dims, e->view.dims, sizeof out->dims);
    return true;
}

static void count_format(void *context, const char *group, const char *name, const char *failure)
{
    struct dev_judge *j = ((struct formats *)context)->j;
    dev_begin(j, "%s/%s", group, name);
    if (failure)
        dev_fail(j, "%s", failure);
    dev_end(j);
}

void dev_golden_formats(struct dev_judge *j, const struct ebb_doc_node *root,
                        struct dev_tensors *tensors)
{
    struct formats f = {.j = j, .tensors = tensors};
    struct ebb_error err;
    (void)root;
    if (data_golden_formats(dev_path(j, "formats"), find, count_format, &f, &err) != EBB_OK)
        dev_broken(j, "formats", err.message);
}
