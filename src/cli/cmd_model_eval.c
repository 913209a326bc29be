/* cmd_model_eval.c - ebb model init|eval: initial weights as a file; one evaluation of a model on
 * made-up inputs, for comparison with other programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "cli/cmd_model.h"
#include "cli/json.h"
#include "cli/machine.h"

struct eval {
    struct cli_model_run r;
    const char *precision, *input_file;
    struct tensor_to_write *items; /* what the result file holds */
    size_t item_count;
};

static void add(struct eval *e, const char *kind, const char *name, const struct tensor_view *view,
                const void *data)
{
    struct tensor_view plain;
    char *full = ebb_arena_printf(&e->r.arena, "%s%s", kind, name);
    tensor_view_init(&plain, (enum tensor_dtype)view->dtype, view->rank, view->dims);
    e->items[e->item_count++] =
        (struct tensor_to_write){.name = full != NULL ? full : name, .view = plain, .data = data};
}

static enum ebb_status write_items(const struct eval *e, struct ebb_error *err)
{
    EBB_TRY(ebb_arena_status(&e->r.arena, err));
    return tensor_file_write(e->r.file, e->items, e->item_count, err);
}

static void say(const struct cli_model_run *r, struct ebb_json_writer *w)
{
    const struct eval *e = (const struct eval *)r;
    if (w)
        ebb_jsonw_key_uint(w, "tensors", e->item_count);
    else
        printf("%zu tensors\n", e->item_count);
}

static int run(struct eval *e, const struct cli_spec *spec, int argc, char **argv,
               cli_model_work *work)
{
    int code = cli_model_do(&e->r, spec, argc, argv, work, say);
    ebb_free(e->items);
    return code;
}

/* ---- initial weights --------------------------------------------------------------------------- */

/* Memory that is promised and not there ends the process without a word. */
static enum ebb_status check_room(uint64_t bytes, struct ebb_error *err)
{
    uint64_t room = cli_machine_bytes();
    char text[2][32];
    if (bytes <= room)
        return EBB_OK;
    return ebb_fail(err, EBB_ENOMEM, "the weights take %s, this machine has %s",
                    ebb_format_bytes(bytes, text[0], sizeof text[0]),
                    ebb_format_bytes(room, text[1], sizeof text[1]));
}

static size_t view_bytes(const struct tensor_view *v)
{
    return (size_t)tensor_count(v) * tensor_dtype_bytes((enum tensor_dtype)v->dtype);
}

static enum ebb_status init(struct cli_model_run *r, struct ebb_error *err)
{
    struct eval *e = (struct eval *)r;
    const struct nn_builder *b = &r->model.builder;
    struct train_forward_options o = {.batch = nn_config_batch(&r->config, 2), .is_dry = true};
    struct nn_initializer *draws = NULL;
    uint64_t sum = 0;
    EBB_TRY(train_forward_open(&r->model, &r->config, &o, err));
    for (size_t i = 0; i < nn_item_count(b); i++)
        sum += view_bytes(&nn_item_at(b, i)->view);
    EBB_TRY(check_room(sum, err));
    EBB_TRY(ebb_new(&e->items, nn_item_count(b) + 1, sizeof *e->items, err));
    EBB_TRY(nn_initializer_create(&draws, b, r->config.generator, (uint64_t)r->seed, err));
    for (size_t i = 0; i < nn_item_count(b); i++) {
        const struct nn_item *item = nn_item_at(b, i);
        void *data = ebb_arena_alloc(&r->arena, view_bytes(&item->view));
        if (data == NULL)
            break;
        nn_initialize(draws, i, data);
        add(e, "", item->name, &item->view, data);
    }
    nn_initializer_destroy(draws);
    return write_items(e, err);
}

/* ---- one evaluation -------------------------------------------------------------------------- */

static void fill_input(struct eval *e, size_t i, void *dst)
{
    const struct nn_port *port = &e->r.model.ports[i];
    int64_t n = tensor_count(&port->view), most = nn_config_int(&e->r.config, "vocabulary", 2);
    uint64_t state = (uint64_t)e->r.seed + i;
    if (strcmp(port->name, "segments") == 0)
        most = 2;
    if (port->is_generated) {
        nn_generate(&e->r.config, port, (uint64_t)e->r.seed, 0, dst);
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
    const struct nn_port *port = &e->r.model.ports[i];
    const struct tensor_entry *a = tensor_file_find(&arrays->all, port->name);
    char want[96], found[96];
    if (a == NULL && e->r.model.port_count == 1 && arrays->all.count == 1)
        a = &arrays->all.entries[0];
    if (a == NULL && (port->is_generated || port->is_target)) {
        nn_generate(&e->r.config, port, (uint64_t)e->r.seed, 0, dst);
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
    size_t n = nn_inputs(&e->r.config, 1, ports);
    EBB_TRY(tensor_weights_open(&arrays, e->input_file, NULL, err));
    const struct tensor_entry *a = tensor_file_find(&arrays.all, ports[0].name);
    if (a == NULL && n == 1 && arrays.all.count == 1)
        a = &arrays.all.entries[0];
    if (a != NULL && a->view.rank > 0 && a->view.dims[0] > 0 && a->view.dims[0] < 1 << 24)
        e->r.batch = a->view.dims[0];
    tensor_weights_close(&arrays);
    return EBB_OK;
}

static enum ebb_status read_inputs(struct eval *e, struct ebb_error *err)
{
    struct tensor_weights arrays;
    enum ebb_status status = EBB_OK;
    EBB_TRY(tensor_weights_open(&arrays, e->input_file, NULL, err));
    for (size_t i = 0; i < e->r.model.port_count && status == EBB_OK; i++) {
        void *to = train_forward_place(&e->r.model, e->r.model.inputs[i]);
        if (to != NULL)
            status = read_input(e, &arrays, i, to, err);
    }
    tensor_weights_close(&arrays);
    return status;
}

static enum ebb_status evaluate(struct eval *e, struct ebb_error *err)
{
    struct train_forward *m = &e->r.model;
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
    return write_items(e, err);
}

static enum ebb_status eval(struct cli_model_run *r, struct ebb_error *err)
{
    struct eval *e = (struct eval *)r;
    struct train_forward_options o = {.machine_bytes = cli_machine_bytes()};
    EBB_TRY(cli_model_precision(e->precision, &o.precision, err));
    if (e->input_file != NULL)
        EBB_TRY(find_batch(e, err));
    o.batch = r->batch > 0 ? r->batch : nn_config_batch(&r->config, 2);
    EBB_TRY(train_forward_open(&r->model, &r->config, &o, err));
    EBB_TRY(ebb_new(&e->items, 2 * NN_PORTS, sizeof *e->items, err));
    EBB_TRY(cli_model_fill(r, err));
    return evaluate(e, err);
}

#define OUTPUT_OPTION CLI_MODEL_OUTPUT(&e.r.file, "file to write: safetensors, or .npz")
#define SET_OPTION CLI_MODEL_SET(&e.r.set, "an option of the model, or rng=torch; repeatable")
#define SEED_OPTION "seed", 0, CLI_INT, &e.r.seed, "N", "of the weights and inputs; default 1"
static int run_init(int argc, char **argv)
{
    struct eval e = {.r.seed = 1};
    const struct cli_option options[] = {
        {OUTPUT_OPTION}, {SET_OPTION}, {SEED_OPTION}, {CLI_MODEL_JSON(&e.r.as_json)}};
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
    return run(&e, &spec, argc, argv, init);
}

static int run_eval(int argc, char **argv)
{
    struct eval e = {.r.seed = 1, .precision = "fp32"};
    const struct cli_option options[] = {
        {OUTPUT_OPTION},
        {SET_OPTION},
        {CLI_MODEL_WEIGHTS(&e.r.weights_file)},
        {CLI_MODEL_RENAME(&e.r.rename)},
        {CLI_MODEL_TRANSPOSE(&e.r.transpose)},
        {"input", 0, CLI_STRING, &e.input_file, "FILE",
         "arrays under the names of the inputs (.npz, safetensors); default: made up"},
        {CLI_MODEL_BATCH(&e.r.batch, "samples; default 2, or those of --input")},
        {CLI_MODEL_PRECISION(&e.precision)},
        {SEED_OPTION},
        {CLI_MODEL_JSON(&e.r.as_json)},
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
    return run(&e, &spec, argc, argv, eval);
}

const struct cli_command cli_cmd_model_init = {
    .name = "init", .summary = "initial weights as a file", .run = run_init};
const struct cli_command cli_cmd_model_eval = {
    .name = "eval", .summary = "inputs and outputs of one evaluation as a file", .run = run_eval};
