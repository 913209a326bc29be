/* cmd_model_eval.c - ebb model init|eval: initial weights as a file; one evaluation of a model on
 * made-up inputs, for comparison with other programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "cli/cmd_model.h"
#include "cli/cmd_trace.h"
#include "cli/json.h"

struct eval {
    struct nn_config config;
    enum nn_precision precision;
    int64_t batch, seed;
    const char *file, *weights_file, *input_file;
    bool as_json, is_init;
    struct train_forward model;
    struct cli_list rename, transpose;
    struct tensor_to_write *items; /* what the result file holds */
    size_t item_count;
    struct ebb_arena arena; /* names, weights, a model file */
};

static size_t view_bytes(const struct tensor_view *v)
{
    return (size_t)tensor_count(v) * tensor_dtype_bytes((enum tensor_dtype)v->dtype);
}

static enum ebb_status build(struct eval *e, struct ebb_error *err)
{
    EBB_TRY(train_forward_open(&e->model, &e->config, e->batch, e->precision, e->is_init, err));
    size_t n = nn_item_count(&e->model.builder) + 2 * NN_PORTS;
    return ebb_new(&e->items, n, sizeof *e->items, err);
}

static void add(struct eval *e, const char *kind, const char *name, const struct tensor_view *view,
                const void *data)
{
    struct tensor_view plain;
    char *full = ebb_arena_printf(&e->arena, "%s%s", kind, name);
    tensor_view_init(&plain, (enum tensor_dtype)view->dtype, view->rank, view->dims);
    e->items[e->item_count++] =
        (struct tensor_to_write){.name = full != NULL ? full : name, .view = plain, .data = data};
}

/* ---- weights --------------------------------------------------------------------------------- */

enum ebb_status cli_model_weights(struct train_forward *model, const char *path,
                                  const struct cli_list *rename, const struct cli_list *transpose,
                                  struct ebb_error *err)
{
    struct tensor_changes changes = {rename->items, rename->count, transpose->items,
                                     transpose->count};
    struct ebb_str note = {0};
    enum ebb_status status = train_forward_load(model, path, &changes, &note, err);
    fputs(ebb_str_c(&note), stderr);
    ebb_str_fini(&note);
    return status;
}

/* Initial values of every item, in the place that `at` gives it; NULL: nothing reads it. */
static enum ebb_status fill_items(struct eval *e,
                                  void *(*at)(struct eval *, const struct nn_item *),
                                  struct ebb_error *err)
{
    struct nn_initializer *init = NULL;
    const struct nn_builder *b = &e->model.builder;
    EBB_TRY(nn_initializer_create(&init, b, e->config.generator, (uint64_t)e->seed, err));
    for (size_t i = 0; i < nn_item_count(b); i++) {
        void *dst = at(e, nn_item_at(b, i));
        if (dst != NULL)
            nn_initialize(init, i, dst);
    }
    nn_initializer_destroy(init);
    return EBB_OK;
}

static void *in_arena(struct eval *e, const struct nn_item *item)
{
    void *data = ebb_arena_alloc(&e->arena, view_bytes(&item->view));
    if (data != NULL)
        add(e, "", item->name, &item->view, data);
    return data;
}

/* Memory that is promised and not there ends the process without a word. */
static enum ebb_status check_room(const struct eval *e, struct ebb_error *err)
{
    char needs[32], has[32];
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t room = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
    uint64_t sum = 0;
    for (size_t i = 0; i < nn_item_count(&e->model.builder); i++)
        sum += view_bytes(&nn_item_at(&e->model.builder, i)->view);
    if (sum <= room)
        return EBB_OK;
    ebb_format_bytes(sum, needs, sizeof needs);
    ebb_format_bytes(room, has, sizeof has);
    return ebb_fail(err, EBB_ENOMEM, "the weights take %s, this machine has %s", needs, has);
}

static void *in_model(struct eval *e, const struct nn_item *item)
{
    return train_forward_place(&e->model, item->leaf);
}

/* ---- one evaluation -------------------------------------------------------------------------- */

static void fill_input(struct eval *e, size_t i, void *dst)
{
    const struct nn_port *port = &e->model.ports[i];
    int64_t n = tensor_count(&port->view), most = nn_config_int(&e->config, "vocabulary", 2);
    uint64_t state = (uint64_t)e->seed + i;
    if (strcmp(port->name, "segments") == 0)
        most = 2;
    if (port->is_generated) {
        nn_generate(&e->config, port, (uint64_t)e->seed, 0, dst);
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        uint64_t u = ebb_splitmix64(&state);
        if (port->kind == NN_MASK) /* the first token of a row is always real */
            ((int64_t *)dst)[k] = k % port->view.dims[1] == 0 || u % 4 != 0;
        else if (port->view.dtype == TENSOR_I64)
            ((int64_t *)dst)[k] = (int64_t)(u % (uint64_t)(most > 0 ? most : 2));
        else
            ((float *)dst)[k] = (float)((double)(u >> 40) * 0x1p-23 - 1.0);
    }
}

/* The array of its name; of a model with one input also the only array. */
static enum ebb_status read_input(struct eval *e, const struct tensor_weights *arrays, size_t i,
                                  void *dst, struct ebb_error *err)
{
    const struct nn_port *port = &e->model.ports[i];
    const struct tensor_entry *a = tensor_file_find(&arrays->all, port->name);
    char want[96], found[96];
    if (a == NULL && e->model.port_count == 1 && arrays->all.count == 1)
        a = &arrays->all.entries[0];
    if (a == NULL && port->is_generated) {
        nn_generate(&e->config, port, (uint64_t)e->seed, 0, dst);
        return EBB_OK;
    }
    if (a == NULL)
        return ebb_fail(err, EBB_EINPUT, "%s has no array '%s'", e->input_file, port->name);
    if (!tensor_same_shape(&a->view, &port->view))
        return ebb_fail(err, EBB_EINPUT, "%s: '%s' is %s, the model takes %s", e->input_file,
                        a->name, tensor_shape_text(&a->view, found, sizeof found),
                        tensor_shape_text(&port->view, want, sizeof want));
    if (!tensor_entry_copy(a, (enum tensor_dtype)port->view.dtype, dst))
        return ebb_fail(err, EBB_EINPUT, "%s: '%s' has fractions, the model takes whole numbers",
                        e->input_file, a->name);
    return EBB_OK;
}

/* The batch is that of the arrays. */
static enum ebb_status find_batch(struct eval *e, struct ebb_error *err)
{
    struct tensor_weights arrays;
    struct nn_port ports[NN_PORTS];
    size_t n = nn_inputs(&e->config, 1, ports);
    EBB_TRY(tensor_weights_open(&arrays, e->input_file, NULL, err));
    const struct tensor_entry *a = tensor_file_find(&arrays.all, ports[0].name);
    if (a == NULL && n == 1 && arrays.all.count == 1)
        a = &arrays.all.entries[0];
    if (a != NULL && a->view.rank > 0 && a->view.dims[0] > 0 && a->view.dims[0] < 1 << 24)
        e->batch = a->view.dims[0];
    tensor_weights_close(&arrays);
    return EBB_OK;
}

static enum ebb_status read_inputs(struct eval *e, struct ebb_error *err)
{
    struct tensor_weights arrays;
    enum ebb_status status = EBB_OK;
    EBB_TRY(tensor_weights_open(&arrays, e->input_file, NULL, err));
    for (size_t i = 0; i < e->model.port_count && status == EBB_OK; i++) {
        void *to = train_forward_place(&e->model, e->model.inputs[i]);
        if (to != NULL)
            status = read_input(e, &arrays, i, to, err);
    }
    tensor_weights_close(&arrays);
    return status;
}

static enum ebb_status evaluate(struct eval *e, struct ebb_error *err)
{
    struct train_forward *m = &e->model;
    EBB_TRY(e->weights_file != NULL
                ? cli_model_weights(m, e->weights_file, &e->rename, &e->transpose, err)
                : fill_items(e, in_model, err));
    for (size_t i = 0; i < m->port_count; i++) {
        void *to = train_forward_place(m, m->inputs[i]);
        if (to == NULL)
            continue;
        if (e->input_file == NULL)
            fill_input(e, i, to);
        add(e, "input/", m->ports[i].name, &m->ports[i].view, to);
    }
    if (e->input_file != NULL)
        EBB_TRY(read_inputs(e, err));
    EBB_TRY(train_forward_run(m, err));
    for (size_t i = 0; i < m->output_count; i++)
        add(e, "output/", m->outputs[i].name, tensor_view_of(m->session, m->outputs[i].id),
            train_forward_place(m, m->outputs[i].id));
    return EBB_OK;
}

static enum ebb_status work(struct eval *e, struct ebb_error *err)
{
    if (e->input_file != NULL)
        EBB_TRY(find_batch(e, err));
    if (e->batch == 0)
        e->batch = nn_config_batch(&e->config, 2);
    EBB_TRY(build(e, err));
    if (e->is_init)
        EBB_TRY(check_room(e, err));
    EBB_TRY(e->is_init ? fill_items(e, in_arena, err) : evaluate(e, err));
    if (e->is_init && e->item_count < nn_item_count(&e->model.builder))
        return ebb_no_memory(err, e->arena.total_bytes);
    return tensor_file_write(e->file, e->items, e->item_count, err);
}

static int finish(struct eval *e)
{
    struct ebb_error err;
    int code = 0;
    if (work(e, &err) != EBB_OK) {
        code = cli_report(&err);
    } else if (e->as_json) {
        struct cli_json json;
        struct ebb_json_writer *w = cli_json_object(&json);
        ebb_jsonw_key_string(w, "file", e->file);
        ebb_jsonw_key_string(w, "name", e->config.model->name);
        ebb_jsonw_key_uint(w, "tensors", e->item_count);
        code = cli_json_object_end(&json);
    } else {
        printf("%s: %zu tensors\n", e->file, e->item_count);
    }
    train_forward_close(&e->model);
    ebb_free(e->items);
    return code;
}

static int run(struct eval *e, const struct cli_spec *spec, const char *const *precision,
               const struct cli_list *set, int argc, char **argv)
{
    struct cli_args args;
    struct ebb_error err;
    int code = cli_parse(spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (e->file == NULL)
        code = cli_usage_error("-o FILE is missing: where should the tensors go?");
    else if (cli_model_precision(*precision, &e->precision, &err) != EBB_OK)
        code = cli_report(&err);
    ebb_arena_init(&e->arena);
    if (code < 0)
        code = cli_model_config(&e->arena, args.positional[0], set, &e->config);
    if (code < 0)
        code = finish(e);
    ebb_arena_fini(&e->arena);
    cli_args_fini(&args);
    return code;
}

#define OUTPUT_OPTION CLI_MODEL_OUTPUT(&e.file, "file to write: safetensors, or .npz")
#define SET_OPTION CLI_MODEL_SET(&set, "an option of the model, or rng=torch; repeatable")
#define SEED_OPTION "seed", 0, CLI_INT, &e.seed, "N", "of the weights and inputs; default 1"
static int run_init(int argc, char **argv)
{
    struct eval e = {.seed = 1, .is_init = true};
    const char *precision = "fp32";
    struct cli_list set = {0};
    const struct cli_option options[] = {
        {OUTPUT_OPTION}, {SET_OPTION}, {SEED_OPTION}, {CLI_MODEL_JSON(&e.as_json)}};
    const struct cli_spec spec = {
        .usage = "ebb model init NAME|FILE -o FILE [OPTION...]",
        .description =
            "Writes the initial weights and buffers of a model, under torch's names. With\n"
            "--set rng=torch they are those that torch draws for this seed.\n\n"
            "Example:\n"
            "  ebb model init cifar_resnet20 --seed 1 -o weights.safetensors\n",
        CLI_OPTIONS(options),
        CLI_LIMITS({"seed", 0, 9e18}),
        CLI_POSITIONAL(1, 1)};
    return run(&e, &spec, &precision, &set, argc, argv);
}

static int run_eval(int argc, char **argv)
{
    struct eval e = {.seed = 1};
    const char *precision = "fp32";
    struct cli_list set = {0};
    const struct cli_option options[] = {
        {OUTPUT_OPTION},
        {SET_OPTION},
        {"weights", 'w', CLI_STRING, &e.weights_file, "FILE",
         "weights and buffers: safetensors, .pt, .npz, an index of several files\nor a folder with "
         "one; default: initial ones"},
        {CLI_MODEL_RENAME(&e.rename)},
        {CLI_MODEL_TRANSPOSE(&e.transpose)},
        {"input", 0, CLI_STRING, &e.input_file, "FILE",
         "arrays under the names of the inputs (.npz, safetensors); default: made up"},
        {CLI_MODEL_BATCH(&e.batch, "samples; default 2, or those of --input")},
        {CLI_MODEL_PRECISION(&precision)},
        {SEED_OPTION},
        {CLI_MODEL_JSON(&e.as_json)},
    };
    const struct cli_spec spec = {
        .usage = "ebb model eval NAME|FILE -o FILE [OPTION...]",
        .description =
            "Evaluates a model once and writes inputs (input/NAME) and outputs (output/NAME): on "
            "your\n"
            "arrays, or on made-up ones, so that another program can compute the same and "
            "compare.\n\n"
            "Examples:\n"
            "  ebb model eval unet --set planes=4 --weights w.safetensors -o out.safetensors\n"
            "  ebb model eval ./net.yaml --weights w.pt --input x.npz -o out.npz\n",
        CLI_OPTIONS(options),
        CLI_NEEDS({"rename", "weights"}, {"transpose", "weights"}, {"batch", "!input"}),
        CLI_LIMITS({"seed", 0, 9e18}, {"batch", 1, 1 << 24}),
        CLI_POSITIONAL(1, 1)};
    return run(&e, &spec, &precision, &set, argc, argv);
}

const struct cli_command cli_cmd_model_init = {
    .name = "init", .summary = "initial weights as a file", .run = run_init};
const struct cli_command cli_cmd_model_eval = {
    .name = "eval", .summary = "inputs and outputs of one evaluation as a file", .run = run_eval};
