/* golden_data.c - reference cases of data: batch arithmetic, file formats. The folder data runs
 * them; here they are counted. */
#include "cli/golden.h"

#include <string.h>

#include "data/data.h"

static void count(void *context, const char *group, const char *name, const char *failure)
{
    struct golden *g = context;
    golden_begin(g, group, name);
    if (failure)
        golden_fail(g, "%s", failure);
    golden_end(g);
}

enum ebb_status golden_config(struct golden *g, struct ebb_error *err)
{
    if (!golden_has(g, "config_cases.json"))
        return EBB_OK;
    const struct ebb_doc_node *root = golden_json(g, "config_cases.json", err);
    return root ? data_golden_batches(root, count, g, err) : err->status;
}

struct formats {
    struct golden *g;
    struct golden_tensors tensors;
};

static bool find(void *context, const char *name, struct data_reference *out)
{
    struct formats *f = context;
    const struct tensor_entry *e = golden_find(&f->tensors, "%s", name);
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

enum ebb_status golden_formats(struct golden *g, struct ebb_error *err)
{
    struct formats f = {.g = g};
    char *dir = ebb_arena_printf(&g->arena, "%s/formats", g->dir);
    if (!golden_has(g, "formats/expected.safetensors"))
        return EBB_OK;
    if (!dir)
        return ebb_no_memory(err, strlen(g->dir));
    EBB_TRY(golden_tensors_open(g, "formats/expected.safetensors", &f.tensors, err));
    enum ebb_status status = data_golden_formats(dir, find, count_format, &f, err);
    golden_tensors_close(&f.tensors);
    return status;
}
