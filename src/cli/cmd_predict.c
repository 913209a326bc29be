/* cmd_predict.c - ebb predict: what trained weights say about pictures, texts, rows and arrays. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/names.h"
#include "base/str.h"
#include "cli/cmd_model.h"
#include "cli/cmd_predict.h"
#include "cli/json.h"
#include "cli/machine.h"
#include "cli/train_file.h"

enum { USUAL_BATCH = 16 };

static const char *const pictures[] = {".jpg", ".jpeg", ".png", NULL};

/* ---- what is asked ---------------------------------------------------------------------------- */

static bool is_picture(const char *name)
{
    for (size_t i = 0; pictures[i] != NULL; i++)
        if (ebb_name_ends(name, pictures[i]))
            return true;
    return false;
}

static enum ebb_status add_folder(struct cli_prediction *p, const char *path, struct ebb_error *err)
{
    struct ebb_names names = {0};
    size_t found = p->names.count;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return ebb_fail(err, EBB_EIO, "--input %s: cannot be read", path);
    enum ebb_status status = ebb_names_read(&names, folder, NULL, NULL, err);
    for (size_t i = 0; i < names.count && status == EBB_OK; i++) {
        struct ebb_str full = {0};
        ebb_str_printf(&full, "%s/%s", path, names.items[i]);
        if (is_picture(names.items[i]))
            status = ebb_names_add(&p->names, ebb_str_c(&full), err);
        ebb_str_fini(&full);
    }
    ebb_names_fini(&names);
    if (status == EBB_OK && p->names.count == found)
        status = ebb_fail(err, EBB_EINPUT, "--input %s: no .jpg, .jpeg or .png file in this folder",
                          path);
    p->kind = CLI_PREDICT_PICTURES;
    return status;
}

/* Rows of one file are samples of their own; so are pictures and texts. */
static enum ebb_status find_inputs(struct cli_prediction *p, struct ebb_error *err)
{
    for (size_t i = 0; i < p->inputs.count; i++) {
        const char *path = p->inputs.items[i];
        struct stat about;
        if (stat(path, &about) != 0)
            return ebb_fail(err, EBB_EINPUT, "--input %s: there is no such file", path);
        enum cli_predict_kind kind =
            S_ISDIR(about.st_mode) || is_picture(path) ? CLI_PREDICT_PICTURES
            : ebb_name_ends(path, ".npz") || ebb_name_ends(path, ".safetensors")
                ? CLI_PREDICT_ARRAYS
            : ebb_name_ends(path, ".csv") ? CLI_PREDICT_ROWS
                                          : CLI_PREDICT_TEXTS;
        if (i > 0 && (kind != p->kind || kind == CLI_PREDICT_ARRAYS || kind == CLI_PREDICT_ROWS))
            return ebb_fail(err, EBB_EINPUT,
                            "--input %s: allowed: one file of arrays or rows, or several pictures, "
                            "or several texts",
                            path);
        p->kind = kind;
        EBB_TRY(S_ISDIR(about.st_mode) ? add_folder(p, path, err)
                                       : ebb_names_add(&p->names, path, err));
    }
    p->count = (int64_t)p->names.count;
    return EBB_OK;
}

/* ---- inputs ----------------------------------------------------------------------------------- */

/* What somebody must give: neither made up nor what answers are compared with. */
static bool is_asked_for(const struct nn_port *port)
{
    return !port->is_generated && !port->is_target && port->kind != NN_STATE;
}

/* The array of its name; of a model with one input also the only one. */
static const struct tensor_entry *array_of(const struct cli_prediction *p,
                                           const struct nn_port *ports, size_t count, size_t i)
{
    size_t asked = 0;
    for (size_t k = 0; k < count; k++)
        asked += is_asked_for(&ports[k]);
    const struct tensor_entry *a = tensor_file_find(&p->arrays.all, ports[i].name);
    return a == NULL && asked == 1 && is_asked_for(&ports[i]) && p->arrays.all.count == 1
               ? &p->arrays.all.entries[0]
               : a;
}

/* One array against the input it is for; `two`: the input with two samples. The samples of the file
 * are as many as its arrays have. */
static enum ebb_status check_array(struct cli_prediction *p, const struct tensor_entry *a,
                                   const struct nn_port *one, const struct nn_port *two,
                                   struct ebb_error *err)
{
    struct tensor_view want = one->view;
    char found[96], wanted[96];
    bool is_first = one->view.rank > 0 && one->view.dims[0] != two->view.dims[0];
    if (!is_first && !tensor_same_shape(&one->view, &two->view))
        return ebb_fail(err, EBB_EINPUT,
                        "input '%s' has its samples in another place than the first: one of them "
                        "cannot be asked for by itself ('ebb model eval' takes whole batches)",
                        one->name);
    if (is_first && a->view.rank > 0)
        want.dims[0] = a->view.dims[0];
    if (!tensor_same_shape(&a->view, &want) ||
        (is_first && p->count >= 0 && a->view.dims[0] != p->count))
        return ebb_fail(err, EBB_EINPUT, "%s: '%s' is %s, the model takes %s%s", p->names.items[0],
                        a->name, tensor_shape_text(&a->view, found, sizeof found),
                        tensor_shape_text(&one->view, wanted, sizeof wanted),
                        is_first ? ", any number of samples first, of all inputs as many" : "");
    if (is_first)
        p->count = a->view.dims[0];
    return EBB_OK;
}

static enum ebb_status open_arrays(struct cli_prediction *p, struct ebb_error *err)
{
    struct nn_port one[NN_PORTS], two[NN_PORTS];
    size_t n = nn_inputs(&p->net, 1, one);
    (void)nn_inputs(&p->net, 2, two);
    EBB_TRY(tensor_weights_open(&p->arrays, p->names.items[0], NULL, err));
    p->has_arrays = true;
    p->count = -1;
    for (size_t i = 0; i < n; i++) {
        const struct tensor_entry *a = array_of(p, one, n, i);
        p->is_shared[i] = tensor_same_shape(&one[i].view, &two[i].view);
        if (a == NULL && is_asked_for(&one[i]))
            return ebb_fail(err, EBB_EINPUT, "%s has no array '%s'", p->names.items[0],
                            one[i].name);
        if (a != NULL)
            EBB_TRY(check_array(p, a, &one[i], &two[i], err));
    }
    return p->count > 0 ? EBB_OK : ebb_fail(err, EBB_EINPUT, "%s: no sample", p->names.items[0]);
}

/* Samples first .. first + n - 1 of an array, or all of what is the same for every sample; the rest
 * of the batch is zeros. */
static enum ebb_status copy_rows(struct cli_prediction *p, size_t port, int64_t first, int64_t n,
                                 struct ebb_error *err)
{
    const struct nn_port *to = &p->model.ports[port];
    const struct tensor_entry *a = array_of(p, p->model.ports, p->model.port_count, port);
    char *room = train_forward_place(&p->model, p->model.inputs[port]);
    enum tensor_dtype dtype = (enum tensor_dtype)to->view.dtype;
    if (room == NULL)
        return EBB_OK;
    if (a == NULL) {
        nn_generate(&p->net, to, 0, 0, room);
        return EBB_OK;
    }
    if (!p->is_shared[port])
        memset(room, 0, (size_t)tensor_count(&to->view) * tensor_dtype_bytes(dtype));
    bool ok = p->is_shared[port] ? tensor_entry_copy(a, dtype, room)
                                 : tensor_entry_rows(a, first, n, dtype, room);
    if (!ok)
        return ebb_fail(err, EBB_EINPUT, "%s: '%s' has fractions, the model takes whole numbers",
                        p->names.items[0], a->name);
    return EBB_OK;
}

/* The input that data come for. */
static enum ebb_status find_port(struct cli_prediction *p, struct ebb_error *err)
{
    size_t found = 0;
    for (size_t i = p->model.port_count; i-- > 0;)
        if (is_asked_for(&p->model.ports[i])) {
            p->port = i;
            found++;
        }
    if (p->kind == CLI_PREDICT_ARRAYS || found == 1)
        return EBB_OK;
    return ebb_fail(err, EBB_EINPUT,
                    "model %s has %zu inputs: give them as arrays in one .npz file",
                    p->net.model->name, found);
}

/* A row has as many numbers as the input takes. */
static enum ebb_status check_rows(const struct cli_prediction *p, struct ebb_error *err)
{
    const struct nn_port *port = &p->model.ports[p->port];
    const struct data_field *field = &data_describe(p->set)->fields[0];
    size_t columns = field->bytes / sizeof(float);
    char shape[96];
    if (p->kind != CLI_PREDICT_ROWS ||
        (port->view.dtype == TENSOR_F32 &&
         (size_t)tensor_count(&port->view) == columns * (size_t)p->batch))
        return EBB_OK;
    return ebb_fail(err, EBB_EINPUT,
                    "%s: a row has %zu numbers, the model's '%s' is %s %s for %lld",
                    p->names.items[0], columns, port->name,
                    tensor_dtype_name((enum tensor_dtype)port->view.dtype),
                    tensor_shape_text(&port->view, shape, sizeof shape), (long long)p->batch);
}

static enum ebb_status fill_text(struct cli_prediction *p, int64_t sample, struct ebb_error *err)
{
    struct ebb_file_view text = {0};
    int64_t *tokens = NULL, *to = train_forward_place(&p->model, p->model.inputs[p->port]);
    int64_t length = p->model.ports[p->port].view.dims[1];
    size_t count = 0;
    EBB_TRY(ebb_file_view_open(&text, p->names.items[sample], (size_t)1 << 30, err));
    enum ebb_status status = data_encode(p->set, text.data, text.length, &tokens, &count, err);
    if (status == EBB_OK && count == 0)
        status = ebb_fail(err, EBB_EINPUT, "%s: no text", p->names.items[sample]);
    if (status == EBB_OK) { /* as much of its end as the model sees */
        size_t seen = count < (size_t)length ? count : (size_t)length;
        for (int64_t i = 0; i < length; i++)
            to[i] = (size_t)i < seen ? tokens[count - seen + (size_t)i] : 0;
        p->seen = (int64_t)seen;
        p->tokens = to;
    }
    ebb_free(tokens);
    ebb_file_view_close(&text);
    return status;
}

static enum ebb_status fill_sample(struct cli_prediction *p, int64_t sample, int64_t place,
                                   struct ebb_error *err)
{
    const struct nn_port *port = &p->model.ports[p->port];
    char *room = train_forward_place(&p->model, p->model.inputs[p->port]);
    size_t each = (size_t)(tensor_count(&port->view) / p->batch) *
                  tensor_dtype_bytes((enum tensor_dtype)port->view.dtype);
    if (room == NULL)
        return EBB_OK;
    if (p->kind == CLI_PREDICT_TEXTS)
        return fill_text(p, sample, err);
    if (p->kind == CLI_PREDICT_ROWS)
        memcpy(room + (size_t)place * each, (const char *)p->rows + (size_t)sample * each, each);
    else
        EBB_TRY(data_picture(p->set, p->names.items[sample],
                             (float *)(void *)(room + (size_t)place * each), each / sizeof(float),
                             err));
    return EBB_OK;
}

static enum ebb_status fill(struct cli_prediction *p, int64_t first, int64_t n,
                            struct ebb_error *err)
{
    for (size_t i = 0; i < p->model.port_count; i++) {
        void *room = train_forward_place(&p->model, p->model.inputs[i]);
        if (p->kind == CLI_PREDICT_ARRAYS)
            EBB_TRY(copy_rows(p, i, first, n, err));
        else if (i != p->port && room != NULL)
            nn_generate(&p->net, &p->model.ports[i], 0, 0, room);
    }
    for (int64_t k = 0; k < n && p->kind != CLI_PREDICT_ARRAYS; k++)
        EBB_TRY(fill_sample(p, first + k, k, err));
    return EBB_OK;
}

/* ---- the model -------------------------------------------------------------------------------- */

static enum ebb_status open_inputs(struct cli_prediction *p, struct ebb_error *err)
{
    uint64_t rows = 0;
    if (p->kind == CLI_PREDICT_ARRAYS)
        return open_arrays(p, err);
    if (p->set == NULL)
        return ebb_fail(err, EBB_EINPUT,
                        "the file has no section data, which says how inputs become numbers: give "
                        "arrays (.npz)");
    if (p->kind != CLI_PREDICT_ROWS)
        return EBB_OK;
    EBB_TRY(data_rows(p->set, p->names.items[0], &p->rows, &rows, err));
    p->count = (int64_t)rows;
    return EBB_OK;
}

static enum ebb_status build(struct cli_prediction *p, struct ebb_error *err)
{
    EBB_TRY(find_inputs(p, err));
    EBB_TRY(train_open_net(&p->file.config, &p->net, &p->set, err));
    EBB_TRY(open_inputs(p, err));
    int64_t most = p->wanted_batch > 0 ? p->wanted_batch : USUAL_BATCH;
    p->batch = p->kind == CLI_PREDICT_TEXTS ? 1 : p->count < most ? p->count : most;
    p->batch = nn_config_batch(&p->net, p->batch);
    struct train_forward_options o = {.batch = p->batch,
                                      .precision = (enum nn_precision)p->file.config.precision,
                                      .memory = &p->file.config,
                                      .machine_bytes = cli_machine_bytes()};
    EBB_TRY(train_forward_open(&p->model, &p->net, &o, err));
    EBB_TRY(find_port(p, err));
    EBB_TRY(check_rows(p, err));
    EBB_TRY(cli_predict_form(p, err));
    return cli_model_weights(&p->model, p->weights, &p->rename, &p->transpose, err);
}

static enum ebb_status predict(struct cli_prediction *p, struct ebb_error *err)
{
    EBB_TRY(build(p, err));
    cli_catch_interrupts();
    for (int64_t first = 0; first < p->count && !cli_interrupted(); first += p->batch) {
        int64_t left = p->count - first, n = left < p->batch ? left : p->batch;
        EBB_TRY(fill(p, first, n, err));
        EBB_TRY(train_forward_run(&p->model, err));
        EBB_TRY(cli_predict_take(p, first, n, err));
    }
    if (cli_interrupted())
        return ebb_fail(err, EBB_ECANCELED, "interrupted: nothing is written");
    return cli_predict_write(p, err);
}

/* ---- the command ------------------------------------------------------------------------------ */

static int run(int argc, char **argv)
{
    struct cli_prediction p = {.changes.seed = -1, .top = 5};
    const struct cli_option options[] = {
        {"weights", 'w', CLI_STRING, &p.weights, "FILE",
         "safetensors, .pt, .npz, an index of several files, a folder with one, a\ncheckpoint of "
         "ebb"},
        {CLI_MODEL_RENAME(&p.rename)},
        {CLI_MODEL_TRANSPOSE(&p.transpose)},
        {"input", 'i', CLI_TEXTS, &p.inputs, "PATH",
         "pictures (.jpg, .png, or a folder of them), texts, rows of a table (.csv) or\narrays "
         "under "
         "the names of the inputs (.npz, .safetensors); repeatable"},
        {CLI_MODEL_OUTPUT(&p.output, "write it there: .csv, .json, or the numbers themselves as "
                                     ".npz")},
        {"top", 0, CLI_INT, &p.top, "K", "classes that JSON names, best first; default 5"},
        {CLI_MODEL_BATCH(&p.wanted_batch, "samples at once; default 16")},
        {"set", 0, CLI_LIST, &p.changes.sets, "KEY=VALUE", "put a value over one of the file"},
        {"budget", 0, CLI_STRING, &p.changes.budget, "BYTES",
         "memory of the device; default: as the file says"},
        {"threads", 0, CLI_INT, &p.changes.threads, "N", "of kernels"},
        {CLI_MODEL_JSON(&p.as_json)},
    };
    const struct cli_spec spec = {
        .usage = "ebb predict FILE --weights FILE --input PATH [OPTION...]",
        .description =
            "Says what the model of an experiment file answers with these weights: the class of a\n"
            "picture, the numbers of a row, the share of every class in a mask, the next token of "
            "a\n"
            "text. Inputs become numbers as the file's data do in validation. CSV on standard\n"
            "output, a line for each sample, or JSON.\n\n"
            "Examples:\n"
            "  ebb predict exp.yaml --weights best.safetensors --input cat.jpg\n"
            "  ebb predict exp.yaml --weights ckpt/best --input pictures/ --json\n"
            "  ebb predict exp.yaml --weights w.pt --input x.npz -o answers.csv --budget 64MiB\n",
        CLI_OPTIONS(options),
        CLI_LIMITS({"threads", 0, 4096}, {"top", 1, 1000}, {"batch", 1, 1 << 20}),
        CLI_POSITIONAL(1, 1)};
    struct cli_args args = {0};
    struct ebb_error err = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (p.weights == NULL || p.inputs.count == 0) {
        code =
            cli_usage_error("%s is missing", p.weights == NULL ? "--weights FILE" : "--input PATH");
    } else {
        code = cli_train_open(&p.file, args.positional[0], &p.changes);
        if (code < 0)
            code = predict(&p, &err) == EBB_OK ? 0 : cli_report(&err);
        cli_predict_fini(&p);
        cli_train_close(&p.file);
    }
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_predict = {
    .name = "predict", .summary = "what trained weights say about new inputs", .run = run};
