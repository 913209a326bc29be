/* forward.c - a model evaluated as it is written: every op once, on this processor, everything kept. */
#include <string.h>

#include "base/heap.h"
#include "ops/ops.h"
#include "train/train.h"

static enum ebb_status record(struct train_forward *f, const struct nn_config *net, int64_t batch,
                              enum nn_precision precision, bool is_dry, struct ebb_error *err)
{
    EBB_TRY(ops_backend_create(&f->backend, NULL, NULL, NULL, 1, err));
    EBB_TRY(tensor_session_create(&f->session, is_dry ? NULL : f->backend, err));
    nn_builder_init(&f->builder, f->session, &(struct nn_mode){.precision = precision});
    f->port_count = nn_inputs(net, batch, f->ports);
    EBB_TRY(nn_leaves(&f->builder, net, batch, f->inputs, err));
    EBB_TRY(nn_build(&f->builder, net, f->inputs, f->outputs, &f->output_count, err));
    if (is_dry)
        return tensor_status(f->session, err);
    for (size_t i = 0; i < f->output_count; i++) {
        f->outputs[i].id = ops_contiguous(f->session, f->outputs[i].id);
        tensor_keep(f->session, f->outputs[i].id);
    }
    EBB_TRY(tensor_status(f->session, err));
    EBB_TRY(tensor_finish(f->session, net->model->name, &f->trace, err));
    EBB_TRY(ebb_new(&f->host, 1, sizeof *f->host, err));
    enum ebb_status status = ops_host_create(f->host, f->trace, f->backend, err);
    if (status != EBB_OK) {
        ebb_free(f->host);
        f->host = NULL;
    }
    return status;
}

enum ebb_status train_forward_open(struct train_forward *f, const struct nn_config *net,
                                   int64_t batch, enum nn_precision precision, bool is_dry,
                                   struct ebb_error *err)
{
    *f = (struct train_forward){0};
    enum ebb_status status = record(f, net, batch, precision, is_dry, err);
    if (status != EBB_OK)
        train_forward_close(f);
    return status;
}

void train_forward_close(struct train_forward *f)
{
    if (f->host)
        ops_host_destroy(f->host);
    ebb_free(f->host);
    trace_destroy(f->trace);
    if (f->session) {
        nn_builder_fini(&f->builder);
        tensor_session_destroy(f->session);
    }
    if (f->backend)
        ops_backend_destroy(f->backend);
    *f = (struct train_forward){0};
}

void *train_forward_place(const struct train_forward *f, tensor_id id)
{
    uint32_t t = tensor_trace_id(f->session, id);
    return t == TRACE_NONE ? NULL : ops_host_tensor(f->host, t);
}

static enum ebb_status check(const struct train_forward *f, const struct tensor_weights *w,
                             const char *path, struct ebb_str *note, struct ebb_error *err)
{
    struct tensor_wanted *wanted;
    size_t count = nn_item_count(&f->builder);
    EBB_TRY(ebb_new(&wanted, count + 1, sizeof *wanted, err));
    for (size_t i = 0; i < count; i++) {
        const struct nn_item *item = nn_item_at(&f->builder, i);
        wanted[i] = (struct tensor_wanted){item->name, &item->view};
    }
    enum ebb_status status = tensor_weights_check(w, path, wanted, count, NULL, 0, note, err);
    ebb_free(wanted);
    return status;
}

/* Counters may be missing: they begin at zero. */
enum ebb_status train_forward_load(struct train_forward *f, const char *path,
                                   const struct tensor_changes *changes, struct ebb_str *note,
                                   struct ebb_error *err)
{
    struct tensor_weights w;
    EBB_TRY(tensor_weights_open(&w, path, changes, err));
    enum ebb_status status = check(f, &w, path, note, err);
    for (size_t i = 0; i < nn_item_count(&f->builder) && status == EBB_OK; i++) {
        const struct nn_item *item = nn_item_at(&f->builder, i);
        const struct tensor_entry *entry = tensor_file_find(&w.all, item->name);
        enum tensor_dtype dtype = (enum tensor_dtype)item->view.dtype;
        void *to = train_forward_place(f, item->leaf);
        if (to && !entry)
            memset(to, 0, (size_t)tensor_count(&item->view) * tensor_dtype_bytes(dtype));
        else if (to && !tensor_entry_copy(entry, dtype, to))
            status =
                ebb_fail(err, EBB_EINPUT, "%s: '%s' has numbers of another kind", path, item->name);
    }
    tensor_weights_close(&w);
    return status;
}

enum ebb_status train_forward_run(struct train_forward *f, struct ebb_error *err)
{
    return ops_host_run(f->host, err);
}
