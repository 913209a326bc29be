/* golden_data.c - reference cases of data: batch arithmetic, file formats. The folder data runs
 * them; here they are counted. */
#include "dev/golden.h"

#include <string.h>

#include "data/data.h"

static void count(void *context, const char *group, const char *name, const char *failure)
{
    struct dev_golden *g = context;
    dev_begin(g, group, name);
    if (failure)
        dev_fail(g, "%s", failure);
    dev_end(g);
}

enum ebb_status dev_golden_config(struct dev_golden *g, struct ebb_error *err)
{
    if (!dev_has(g, "config_cases.json"))
        return EBB_OK;
    const struct ebb_doc_node *root = dev_json(g, "config_cases.json", err);
    return root ? data_golden_batches(root, count, g, err) : err->status;
}

struct formats {
    struct dev_golden *g;
    struct dev_tensors tensors;
};

static bool find(void *context, const char *name, struct data_reference *out)
{
    struct formats *f = context;
    const struct tensor_entry *e = dev_find(&f->tensors, "%s", name);
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
    struct formats *f = context;
    count(f->g, group, name, failure);
}

enum ebb_status dev_golden_formats(struct dev_golden *g, struct ebb_error *err)
{
    struct formats f = {.g = g};
    char *dir = ebb_arena_printf(&g->arena, "%s/formats", g->dir);
    if (!dev_has(g, "formats/expected.safetensors"))
        return EBB_OK;
    if (!dir)
        return ebb_no_memory(err, strlen(g->dir));
    EBB_TRY(dev_tensors_open(g, "formats/expected.safetensors", &f.tensors, err));
    enum ebb_status status = data_golden_formats(dir, find, count_format, &f, err);
    dev_tensors_close(&f.tensors);
    return status;
}
