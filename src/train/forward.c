/* forward.c - a model evaluated by itself: one program in an engine of its own, in the memory it is
 * given. Weights and buffers are the program's persistent leaves; inputs and outputs lie beside the
 * engine, where the host reads and writes them. */
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/str.h"
#include "ops/ops.h"
#include "train/trial.h"

/* ---- recording -------------------------------------------------------------------------------- */

static enum ebb_status open_engine(struct train_forward *f, const struct train_forward_options *o,
                                   struct ebb_error *err)
{
    struct train_config alone = {.budget_bytes = UINT64_MAX, .threads = 1};
    struct train_config config = o->memory ? *o->memory : alone;
    train_take_ratios(&config, o->machine_bytes);
    struct train_engine_options options = train_engine_asked(&config);
    if (config.costs)
        EBB_TRY(profile_load(config.costs, &f->costs, err));
    options.costs = f->costs;
    return train_engine_create(&f->engine, &options, err);
}

static enum ebb_status record(struct train_forward *f, const struct nn_config *net,
                              const struct train_forward_options *o, struct ebb_error *err)
{
    void *backend = f->engine ? train_engine_backend(f->engine) : NULL;
    EBB_TRY(tensor_session_create(&f->session, backend, err));
    nn_builder_init(&f->builder, f->session, &(struct nn_mode){.precision = o->precision});
    f->port_count = nn_inputs(net, o->batch, f->ports);
    EBB_TRY(nn_leaves(&f->builder, net, o->batch, f->inputs, err));
    EBB_TRY(nn_build(&f->builder, net, f->inputs, f->outputs, &f->output_count, err));
    return tensor_status(f->session, err);
}

/* Promised memory that is not there ends a process without a word: say it before. */
static enum ebb_status check_machine(const struct train_forward *f, uint64_t machine_bytes,
                                     struct ebb_error *err)
{
    uint64_t needs = train_program_info(f->program)->peak_bytes;
    uint64_t has = train_machine_bytes(machine_bytes);
    char text[2][32];
    if (needs <= has || strcmp(train_engine_bits(f->engine), "cpu") != 0)
        return EBB_OK;
    return ebb_fail(err, EBB_ENOMEM, "evaluating %s takes %s, this machine has %s",
                    train_program_trace(f->program)->name,
                    ebb_format_bytes(needs, text[0], sizeof text[0]),
                    ebb_format_bytes(has, text[1], sizeof text[1]));
}

static enum ebb_status add_program(struct train_forward *f, const char *name, struct ebb_error *err)
{
    struct trace *trace;
    for (size_t i = 0; i < nn_item_count(&f->builder); i++)
        tensor_keep(f->session, nn_item_at(&f->builder, i)->id);
    for (size_t i = 0; i < f->output_count; i++) {
        f->outputs[i].id = ops_settle(f->session, f->outputs[i].id);
        tensor_keep(f->session, f->outputs[i].id);
    }
    EBB_TRY(tensor_finish(f->session, name, &trace, err));
    return train_engine_add(f->engine, trace, &f->program, err);
}

/* ---- inputs and outputs ----------------------------------------------------------------------- */

static struct train_forward_place *find_place(const struct train_forward *f, uint32_t tensor)
{
    for (size_t i = 0; i < f->place_count; i++)
        if (f->places[i].tensor == tensor)
            return (struct train_forward_place *)&f->places[i];
    return NULL;
}

/* Where a tensor of the session lies beside the engine; what nothing reads has no place. */
static enum ebb_status add_place(struct train_forward *f, tensor_id id, bool is_input,
                                 struct ebb_error *err)
{
    const struct trace *t = train_program_trace(f->program);
    uint32_t tensor = tensor_trace_id(f->session, id);
    struct train_forward_place *p = find_place(f, tensor), *new = &f->places[f->place_count];
    if (tensor == TRACE_NONE)
        return EBB_OK;
    if (p) { /* an input that is an output as well lasts: the engine does not ask for it */
        p->is_lasting = p->is_input && !is_input;
        return EBB_OK;
    }
    *new = (struct train_forward_place){.tensor = tensor,
                                        .is_input = is_input,
                                        .is_lasting =
                                            !is_input && t->ops[t->tensors[tensor].op].is_leaf,
                                        .count = t->storages[t->tensors[tensor].storage].bytes};
    new->bytes = ebb_alloc_aligned(256, (size_t) new->count + 1);
    if (!new->bytes)
        return ebb_no_memory(err, (size_t) new->count);
    f->place_count++;
    return EBB_OK;
}

static enum ebb_status fill(void *context, uint32_t tensor, void *bytes, uint64_t count,
                            struct ebb_error *err)
{
    const struct train_forward_place *p = find_place(context, tensor);
    if (!p || p->count != count)
        return ebb_fail(err, EBB_EINTERNAL, "tensor %u is no input of the model", tensor);
    memcpy(bytes, p->bytes, (size_t)count);
    return EBB_OK;
}

static enum ebb_status take(void *context, uint32_t tensor, const void *bytes, uint64_t count,
                            struct ebb_error *err)
{
    const struct train_forward_place *p = find_place(context, tensor);
    (void)err;
    if (p)
        memcpy(p->bytes, bytes, (size_t)(count < p->count ? count : p->count));
    return EBB_OK;
}

void *train_forward_place(const struct train_forward *f, tensor_id id)
{
    const struct train_forward_place *p = find_place(f, tensor_trace_id(f->session, id));
    return p ? p->bytes : NULL;
}

enum ebb_status train_forward_run(struct train_forward *f, struct ebb_error *err)
{
    struct exec_io io = {.context = f, .fill = fill, .read = take};
    struct exec_report report;
    for (size_t i = 0; i < f->place_count; i++) {
        const struct train_forward_place *p = &f->places[i];
        if (p->is_input && p->is_lasting)
            EBB_TRY(train_engine_put(f->engine, f->program, p->tensor, 0, p->bytes, p->count, err));
    }
    EBB_TRY(train_engine_run(f->engine, f->program, &io, NULL, &report, err));
    for (size_t i = 0; i < f->place_count; i++) { /* weights that are results */
        const struct train_forward_place *p = &f->places[i];
        if (!p->is_input && p->is_lasting)
            EBB_TRY(train_engine_get(f->engine, f->program, p->tensor, 0, p->bytes, p->count, err));
    }
    return EBB_OK;
}

/* ---- weights ---------------------------------------------------------------------------------- */

static uint32_t item_tensor(const struct train_forward *f, size_t item)
{
    return tensor_trace_id(f->session, nn_item_at(&f->builder, item)->leaf);
}

static size_t item_bytes(const struct train_forward *f, size_t item)
{
    const struct tensor_view *v = &nn_item_at(&f->builder, item)->view;
    return (size_t)tensor_count(v) * tensor_dtype_bytes((enum tensor_dtype)v->dtype);
}

void *train_forward_item(const struct train_forward *f, size_t item)
{
    return train_engine_direct(f->engine, f->program, item_tensor(f, item));
}

typedef enum ebb_status item_writer(const struct train_forward *f, size_t item, void *to,
                                    const void *source, struct ebb_error *err);

/* Written where they lie or, out of the host's reach, elsewhere first. */
static enum ebb_status write_items(struct train_forward *f, item_writer *write, const void *source,
                                   struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < nn_item_count(&f->builder) && status == EBB_OK; i++) {
        size_t bytes = item_bytes(f, i);
        void *direct = train_forward_item(f, i), *room = NULL;
        if (!direct)
            EBB_TRY(ebb_new(&room, 1, bytes + 1, err));
        status = write(f, i, direct ? direct : room, source, err);
        if (room)
            EBB_THEN(status, train_engine_put(f->engine, f->program, item_tensor(f, i), 0, room,
                                              bytes, err));
        ebb_free(room);
    }
    return status;
}

static enum ebb_status draw(const struct train_forward *f, size_t item, void *to,
                            const void *source, struct ebb_error *err)
{
    (void)f, (void)err;
    nn_initialize(source, item, to);
    return EBB_OK;
}

enum ebb_status train_forward_initialize(struct train_forward *f, uint64_t seed,
                                         struct ebb_error *err)
{
    struct nn_initializer *init = NULL;
    EBB_TRY(nn_initializer_create(&init, &f->builder, f->builder.config->generator, seed, err));
    enum ebb_status status = write_items(f, draw, init, err);
    nn_initializer_destroy(init);
    return status;
}

static enum ebb_status check_weights(const struct train_forward *f, const struct tensor_weights *w,
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
static enum ebb_status copy(const struct train_forward *f, size_t i, void *to, const void *source,
                            struct ebb_error *err)
{
    const struct tensor_weights *w = source;
    const struct nn_item *item = nn_item_at(&f->builder, i);
    const struct tensor_entry *entry = tensor_file_find(&w->all, item->name);
    if (!entry)
        memset(to, 0, item_bytes(f, i));
    else if (!tensor_entry_copy(entry, (enum tensor_dtype)item->view.dtype, to))
        return ebb_fail(err, EBB_EINPUT, "'%s' has numbers of another kind", item->name);
    return EBB_OK;
}

static enum ebb_status load_file(struct train_forward *f, const char *path,
                                 const struct tensor_changes *changes, struct ebb_str *note,
                                 struct ebb_error *err)
{
    struct tensor_weights w;
    EBB_TRY(tensor_weights_open(&w, path, changes, err));
    enum ebb_status status = check_weights(f, &w, path, note, err);
    if (status == EBB_OK && (status = write_items(f, copy, &w, err)) == EBB_EINPUT)
        status = ebb_context(err, status, "%s", path);
    tensor_weights_close(&w);
    return status;
}

static enum ebb_status take_average(struct train_forward *f, const struct tensor_weights *states,
                                    size_t i, struct ebb_error *err)
{
    const struct nn_item *item = nn_item_at(&f->builder, i);
    struct ebb_str name = {0};
    ebb_str_printf(&name, "%s.ema", item->name);
    const struct tensor_entry *e = tensor_file_find(&states->all, ebb_str_c(&name));
    enum ebb_status status = ebb_str_status(&name, err);
    ebb_str_fini(&name);
    if (status != EBB_OK || !e || !tensor_same_shape(&e->view, &item->view))
        return status;
    void *room;
    EBB_TRY(ebb_new(&room, 1, item_bytes(f, i) + 1, err));
    if (tensor_entry_copy(e, (enum tensor_dtype)item->view.dtype, room))
        status = train_engine_put(f->engine, f->program, item_tensor(f, i), 0, room,
                                  item_bytes(f, i), err);
    ebb_free(room);
    return status;
}

static enum ebb_status load_averages(struct train_forward *f, const char *path,
                                     struct ebb_error *err)
{
    struct tensor_weights states;
    EBB_TRY(tensor_weights_open(&states, path, NULL, err));
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < nn_item_count(&f->builder) && status == EBB_OK; i++)
        status = take_average(f, &states, i, err);
    tensor_weights_close(&states);
    return status;
}

enum ebb_status train_forward_load(struct train_forward *f, const char *path,
                                   const struct tensor_changes *changes, struct ebb_str *note,
                                   struct ebb_error *err)
{
    struct ebb_str dir = {0}, weights = {0}, states = {0};
    enum ebb_status status = train_store_find(path, &dir, err);
    bool is_ours = dir.length > 0;
    ebb_str_printf(&weights, is_ours ? "%s/state/weights.safetensors" : "%s",
                   is_ours ? ebb_str_c(&dir) : path);
    ebb_str_printf(&states, "%s/state/optimizer.safetensors", ebb_str_c(&dir));
    EBB_THEN(status, ebb_str_status(&weights, err));
    EBB_THEN(status, ebb_str_status(&states, err));
    EBB_THEN(status, load_file(f, ebb_str_c(&weights), changes, note, err));
    if (is_ours && access(ebb_str_c(&states), F_OK) == 0)
        EBB_THEN(status, load_averages(f, ebb_str_c(&states), err));
    ebb_str_fini(&dir);
    ebb_str_fini(&weights);
    ebb_str_fini(&states);
    return status;
}

/* ---- life ------------------------------------------------------------------------------------- */

static enum ebb_status make(struct train_forward *f, const struct nn_config *net,
                            const struct train_forward_options *o, struct ebb_error *err)
{
    if (!o->is_dry)
        EBB_TRY(open_engine(f, o, err));
    EBB_TRY(record(f, net, o, err));
    if (o->is_dry)
        return EBB_OK;
    EBB_TRY(add_program(f, net->model->name, err));
    EBB_TRY(check_machine(f, o->machine_bytes, err));
    for (size_t i = 0; i < f->port_count; i++)
        EBB_TRY(add_place(f, f->inputs[i], true, err));
    for (size_t i = 0; i < f->output_count; i++)
        EBB_TRY(add_place(f, f->outputs[i].id, false, err));
    return train_engine_reserve(f->engine, err);
}

enum ebb_status train_forward_open(struct train_forward *f, const struct nn_config *net,
                                   const struct train_forward_options *options,
                                   struct ebb_error *err)
{
    *f = (struct train_forward){0};
    enum ebb_status status = make(f, net, options, err);
    if (status != EBB_OK)
        train_forward_close(f);
    return status;
}

void train_forward_close(struct train_forward *f)
{
    for (size_t i = 0; i < f->place_count; i++)
        ebb_free(f->places[i].bytes);
    if (f->session) {
        nn_builder_fini(&f->builder);
        tensor_session_destroy(f->session);
    }
    train_engine_destroy(f->engine);
    profile_destroy(f->costs);
    *f = (struct train_forward){0};
}
