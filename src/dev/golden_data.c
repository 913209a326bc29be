/* golden_data.c - reference cases of data: batch arithmetic, file formats. The folder data runs
 * them; here they are counted. */
#include "dev/golden.h"

#include <string.h>

#include "data/data.h"

static void count(void *context, const char *group, const char *name, const char *failure)
{
    struct dev_judge *j = context;
    dev_begin(j, "%s/%s", group, name);
    if (failure)
        dev_fail(j, "%s", failure);
    dev_end(j);
}

void dev_golden_config(struct dev_judge *j, const struct ebb_doc_node *root,
                       struct dev_tensors *tensors)
{
    struct ebb_error err;
    (void)tensors;
    if (data_golden_batches(root, count, j, &err) != EBB_OK)
        dev_broken(j, "config", err.message);
}

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
    count(((struct formats *)context)->j, group, name, failure);
}

void dev_golden_formats(struct dev_judge *j, const struct ebb_doc_node *root,
                        struct dev_tensors *tensors)
{
    struct formats f = {.j = j, .tensors = tensors};
    struct ebb_error err;
    const char *dir = dev_path(j, "formats");
    (void)root;
    if (!dir)
        dev_broken(j, "formats", "out of memory");
    else if (data_golden_formats(dir, find, count_format, &f, &err) != EBB_OK)
        dev_broken(j, "formats", err.message);
}
