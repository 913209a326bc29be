/* cmd_model.c - ebb model list|show|trace|init|eval: the zoo. trace is in cmd_model_trace.c, init
 * and eval are in cmd_model_eval.c. */
#include "cli/cmd_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "cli/cmd_trace.h"
#include "cli/json.h"
#include "cli/show.h"

#define NOT_GIVEN INT64_MIN

/* ---- shared ---------------------------------------------------------------------------------- */

static enum ebb_status set_one(struct nn_config *config, const char *text, struct ebb_error *err)
{
    char key[64];
    const char *eq = strchr(text, '=');
    if (eq == NULL || eq == text || (size_t)(eq - text) >= sizeof key)
        return ebb_fail(err, EBB_EINPUT, "--set %s: must be key=value", text);
    memcpy(key, text, (size_t)(eq - text));
    key[eq - text] = '\0';
    return nn_config_set(config, key, eq + 1, err);
}

static enum ebb_status set_all(const struct cli_list *set, struct nn_config *c,
                               struct ebb_error *err)
{
    struct ebb_str text = {0};
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < set->count && status == EBB_OK; i++) {
        if (i > 0 && strchr(set->items[i], '=') == NULL) {
            ebb_str_addc(&text, ',');
        } else if (text.length > 0) {
            status = set_one(c, ebb_str_c(&text), err);
            ebb_str_clear(&text);
        }
        ebb_str_add(&text, set->items[i]);
    }
    EBB_THEN(status, ebb_str_status(&text, err));
    if (status == EBB_OK && text.length > 0)
        status = set_one(c, ebb_str_c(&text), err);
    ebb_str_fini(&text);
    EBB_THEN(status, nn_config_check(c, err));
    return status;
}

int cli_model_config(struct ebb_arena *arena, const char *name, const struct cli_list *set,
                     struct nn_config *config)
{
    struct nn_config c;
    struct ebb_error err = {0};
    struct ebb_report report = {0};
    if (nn_config_open(arena, name, &c, &report, &err) != EBB_OK) {
        if (report.errors == 0)
            return cli_report(&err);
        cli_print_report(&report, name, stderr);
        return 2;
    }
    if (report.notes > 0)
        cli_print_report(&report, NULL, stderr);
    if (set_all(set, &c, &err) != EBB_OK)
        return cli_report(&err);
    *config = c;
    return -1;
}

enum ebb_status cli_model_precision(const char *text, enum nn_precision *precision,
                                    struct ebb_error *err)
{
    static const char *const names[] = {"fp32", "bf16", "fp16"};
    for (int i = 0; i < 3; i++)
        if (strcasecmp(text, names[i]) == 0) {
            *precision = (enum nn_precision)i;
            return EBB_OK;
        }
    return ebb_fail(err, EBB_EINPUT, "--precision %s: fp32, bf16 or fp16 is possible", text);
}

/* ---- list ------------------------------------------------------------------------------------ */

static void list_row(struct cli_table *table, const struct nn_model *m, const struct nn_stats *s)
{
    char aliases[160] = "";
    for (size_t k = 0; m->aliases != NULL && m->aliases[k] != NULL; k++) {
        size_t at = strlen(aliases);
        snprintf(aliases + at, sizeof aliases - at, "%s%s", at ? ", " : "", m->aliases[k]);
    }
    cli_table_cell(table, "%s", m->name);
    cli_table_cell(table, "%s", nn_task_name(m->task));
    cli_table_cell(table, "%" PRIu64, s->parameters);
    cli_table_cell(table, "%s%s%s%s", m->summary, aliases[0] ? " (also " : "", aliases,
                   aliases[0] ? ")" : "");
}

static void list_json(struct ebb_json_writer *w, const struct nn_model *m, const struct nn_stats *s)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "name", m->name);
    ebb_jsonw_key_array(w, "aliases");
    for (size_t k = 0; m->aliases != NULL && m->aliases[k] != NULL; k++)
        ebb_jsonw_string(w, m->aliases[k]);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key_string(w, "task", nn_task_name(m->task));
    ebb_jsonw_key_string(w, "summary", m->summary);
    ebb_jsonw_key_uint(w, "parameters", s->parameters);
    ebb_jsonw_object_end(w);
}

static int run_list(int argc, char **argv)
{
    static const char *const headers[] = {"model", "task", "parameters", "what it is"};
    bool as_json = false;
    const struct cli_spec spec = {
        .usage = "ebb model list [OPTION...]",
        .description = "Lists the models, their tasks and the number of their parameters at the "
                       "default size.\n\nExample:\n  ebb model list\n",
        CLI_OPTION_ROWS({"json", 0, CLI_FLAG, &as_json, NULL, "one JSON object per line"})};
    struct cli_args args;
    struct ebb_error err;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct cli_table *table = cli_table_create(headers, 4);
    code = 0;
    for (size_t i = 0; i < nn_model_count() && code == 0; i++) {
        const struct nn_model *m = nn_model_at(i);
        struct nn_config c;
        struct nn_stats s;
        if (nn_config_init(&c, m->name, &err) != EBB_OK ||
            train_model_stats(&(struct train_model){.net = &c, .batch = 2}, &s, &err) != EBB_OK) {
            code = cli_report(&err);
        } else if (as_json) {
            struct cli_json json;
            struct ebb_json_writer *w = cli_json_begin(&json);
            list_json(w, m, &s);
            code = cli_json_end(&json);
        } else {
            list_row(table, m, &s);
        }
    }
    if (!as_json && code == 0)
        cli_table_print(table, stdout);
    cli_table_destroy(table);
    cli_args_fini(&args);
    return code;
}

/* ---- show ------------------------------------------------------------------------------------ */

struct show {
    struct nn_config config;
    enum nn_precision precision;
    int64_t batch;
    bool is_all, as_json;
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_output outputs[NN_PORTS];
    size_t output_count;
    struct nn_stats stats;
};

static const char *const role_names[] = {"weight", "bias", "norm", "embedding", "buffer"};

static uint64_t layer_parameters(const struct show *p, const struct nn_layer *l)
{
    uint64_t n = 0;
    for (uint32_t i = l->first_item; i < l->end_item; i++)
        if (nn_item_at(&p->b, i)->role != NN_BUFFER)
            n += (uint64_t)tensor_count(&nn_item_at(&p->b, i)->view);
    return n;
}

/* An activation may have been fused into the product before it: the work is the product's. */
static double layer_flops(const struct show *p, const struct nn_layer *l)
{
    static const char *const kinds[] = {"conv", "transposed conv", "linear", "attention"};
    bool has_work = false;
    double n = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        has_work = has_work || strcmp(l->kind, kinds[i]) == 0;
    if (!has_work)
        return 0;
    for (uint32_t i = l->first_node; i < l->end_node; i++)
        n += nn_node_flops(p->s, i);
    return n;
}

static uint64_t bytes_of(const struct tensor_view *v)
{
    return (uint64_t)tensor_count(v) * tensor_dtype_bytes((enum tensor_dtype)v->dtype);
}

static void show_options(const struct show *p)
{
    static const char *const headers[] = {"option", "value", "what it is"};
    struct cli_table *table = cli_table_create(headers, 3);
    const struct nn_model *m = p->config.model;
    for (size_t i = 0; table != NULL && i < m->option_count; i++) {
        struct ebb_str value = {0};
        ebb_say_value(&m->options[i], p->config.bytes, &value);
        cli_table_cell(table, "%s", m->options[i].path);
        cli_table_cell(table, "%s", ebb_str_c(&value));
        cli_table_cell(table, "%s", m->options[i].help);
        ebb_str_fini(&value);
    }
    cli_table_out(table);
}

static bool is_of_layer(const struct show *p, uint32_t item)
{
    for (size_t i = 0; i < nn_layer_count(&p->b); i++) {
        const struct nn_layer *l = nn_layer_at(&p->b, i);
        if (item >= l->first_item && item < l->end_item)
            return true;
    }
    return false;
}

/* A parameter that is used by itself. */
static void show_item(struct cli_table *table, const struct nn_item *item)
{
    char shape[96], bytes[32];
    cli_table_cell(table, "%s", item->name);
    cli_table_cell(table, "parameter");
    cli_table_cell(table, "%s", tensor_shape_text(&item->view, shape, sizeof shape));
    cli_table_cell(table, "%" PRIu64, (uint64_t)tensor_count(&item->view));
    cli_table_cell(table, "0.000");
    cli_table_cell(table, "%s", ebb_format_bytes(bytes_of(&item->view), bytes, sizeof bytes));
}

static void show_layers(const struct show *p)
{
    static const char *const headers[] = {"layer",      "kind",  "output",
                                          "parameters", "GFLOP", "bytes"};
    struct cli_table *table = cli_table_create(headers, 6);
    for (size_t i = 0; table != NULL && i < nn_layer_count(&p->b); i++) {
        const struct nn_layer *l = nn_layer_at(&p->b, i);
        const struct tensor_view *v = tensor_view_of(p->s, l->out);
        uint64_t parameters = layer_parameters(p, l);
        double flops = layer_flops(p, l);
        char shape[96], bytes[32];
        if (!p->is_all && parameters == 0 && !(flops > 0))
            continue;
        cli_table_cell(table, "%s", l->name);
        cli_table_cell(table, "%s", l->kind);
        cli_table_cell(table, "%s", tensor_shape_text(v, shape, sizeof shape));
        cli_table_cell(table, "%" PRIu64, parameters);
        cli_table_cell(table, "%.3f", flops / 1e9);
        cli_table_cell(table, "%s", ebb_format_bytes(bytes_of(v), bytes, sizeof bytes));
    }
    for (uint32_t i = 0; table != NULL && i < nn_item_count(&p->b); i++)
        if (nn_item_at(&p->b, i)->role != NN_BUFFER && !is_of_layer(p, i))
            show_item(table, nn_item_at(&p->b, i));
    cli_table_out(table);
}

static void show_text(const struct show *p)
{
    const struct nn_stats *s = &p->stats;
    char a[32], b[32], c[32];
    printf("%s: %s\n\n", p->config.model->name, p->config.model->summary);
    show_options(p);
    printf("\n");
    show_layers(p);
    printf("\n%" PRIu64 " parameters, %s; buffers %s; inputs %s at batch %" PRId64 "\n",
           s->parameters, ebb_format_bytes(s->parameter_bytes, a, sizeof a),
           ebb_format_bytes(s->buffer_bytes, b, sizeof b),
           ebb_format_bytes(s->input_bytes, c, sizeof c), p->batch);
    printf("forward %.3f GFLOP, backward %.3f GFLOP, %" PRIu64 " ops\n", s->forward_flops / 1e9,
           s->backward_flops / 1e9, s->ops);
    printf("activations: %s made by the forward pass, %s kept for the backward pass\n",
           ebb_format_bytes(s->forward_bytes, a, sizeof a),
           ebb_format_bytes(s->saved_bytes, b, sizeof b));
}

static void json_shape(struct ebb_json_writer *w, const struct tensor_view *v)
{
    ebb_jsonw_key_array(w, "shape");
    for (int d = 0; d < v->rank; d++)
        ebb_jsonw_int(w, v->dims[d]);
    ebb_jsonw_array_end(w);
}

static void json_items(const struct show *p, struct ebb_json_writer *w)
{
    ebb_jsonw_key_array(w, "items");
    for (size_t i = 0; i < nn_item_count(&p->b); i++) {
        const struct nn_item *item = nn_item_at(&p->b, i);
        ebb_jsonw_object(w);
        ebb_jsonw_key_string(w, "name", item->name);
        json_shape(w, &item->view);
        ebb_jsonw_key_string(w, "role", role_names[item->role]);
        ebb_jsonw_key_bool(w, "trained", item->is_trained);
        ebb_jsonw_key_bool(w, "decay", item->has_decay);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
}

static void json_layers(const struct show *p, struct ebb_json_writer *w)
{
    ebb_jsonw_key_array(w, "layers");
    for (size_t i = 0; i < nn_layer_count(&p->b); i++) {
        const struct nn_layer *l = nn_layer_at(&p->b, i);
        ebb_jsonw_object(w);
        ebb_jsonw_key_string(w, "name", l->name);
        ebb_jsonw_key_string(w, "kind", l->kind);
        json_shape(w, tensor_view_of(p->s, l->out));
        ebb_jsonw_key_uint(w, "parameters", layer_parameters(p, l));
        ebb_jsonw_key_double(w, "flops", layer_flops(p, l));
        ebb_jsonw_key_uint(w, "bytes", bytes_of(tensor_view_of(p->s, l->out)));
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
}

static int show_json(const struct show *p)
{
    const struct nn_stats *s = &p->stats;
    const struct nn_model *m = p->config.model;
    struct ebb_str value = {0};
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "name", m->name);
    ebb_jsonw_key_string(w, "task", nn_task_name(m->task));
    ebb_jsonw_key_object(w, "options");
    for (size_t i = 0; i < m->option_count; i++) {
        ebb_str_clear(&value);
        ebb_say_value(&m->options[i], p->config.bytes, &value);
        ebb_jsonw_key_string(w, m->options[i].path, ebb_str_c(&value));
    }
    ebb_jsonw_object_end(w);
    ebb_jsonw_key_uint(w, "batch", (uint64_t)p->batch);
    ebb_jsonw_key_uint(w, "parameters", s->parameters);
    ebb_jsonw_key_uint(w, "trained_parameters", s->trained_parameters);
    ebb_jsonw_key_uint(w, "parameter_bytes", s->parameter_bytes);
    ebb_jsonw_key_uint(w, "buffer_bytes", s->buffer_bytes);
    ebb_jsonw_key_uint(w, "input_bytes", s->input_bytes);
    ebb_jsonw_key_double(w, "forward_flops", s->forward_flops);
    ebb_jsonw_key_double(w, "backward_flops", s->backward_flops);
    ebb_jsonw_key_uint(w, "forward_bytes", s->forward_bytes);
    ebb_jsonw_key_uint(w, "saved_bytes", s->saved_bytes);
    ebb_jsonw_key_uint(w, "ops", s->ops);
    json_items(p, w);
    json_layers(p, w);
    ebb_str_fini(&value);
    return cli_json_object_end(&json);
}

static enum ebb_status measure(struct show *p, struct ebb_error *err)
{
    return train_model_stats(&(struct train_model){.net = &p->config,
                                                   .batch = p->batch,
                                                   .precision = (enum train_precision)p->precision},
                             &p->stats, err);
}

static int show(struct show *p)
{
    struct ebb_error err;
    tensor_id inputs[NN_PORTS];
    int code = 1;
    bool is_open = p->batch == NOT_GIVEN; /* one sample, or two where a norm needs them */
    if (is_open)
        p->batch = nn_config_batch(&p->config, 1);
    enum ebb_status status = measure(p, &err);
    if (status != EBB_OK && is_open) {
        p->batch++;
        status = measure(p, &err);
    }
    if (status != EBB_OK || tensor_session_create(&p->s, NULL, &err) != EBB_OK)
        return cli_report(&err);
    nn_builder_init(&p->b, p->s, &(struct nn_mode){.is_training = true, .precision = p->precision});
    if (nn_leaves(&p->b, &p->config, p->batch, inputs, &err) != EBB_OK ||
        nn_build(&p->b, &p->config, inputs, p->outputs, &p->output_count, &err) != EBB_OK) {
        code = cli_report(&err);
    } else if (p->as_json) {
        code = show_json(p);
    } else {
        show_text(p);
        code = 0;
    }
    nn_builder_fini(&p->b);
    tensor_session_destroy(p->s);
    return code;
}

static int write_file(const struct show *p)
{
    struct ebb_error err = {0};
    struct ebb_str text = {0};
    int code = 0;
    if (nn_config_write(&p->config, &text, &err) != EBB_OK)
        code = cli_report(&err);
    else
        fputs(ebb_str_c(&text), stdout);
    ebb_str_fini(&text);
    return code;
}

static int run_show(int argc, char **argv)
{
    struct show p = {.batch = NOT_GIVEN};
    bool as_file = false;
    const char *precision = "fp32";
    struct cli_list set = {0};
    const struct cli_option options[] = {
        {CLI_MODEL_BATCH(&p.batch,
                         "samples of one step; default 1, or 2 where the model needs them")},
        {CLI_MODEL_SET(&set, CLI_MODEL_SET_HELP)},
        {CLI_MODEL_PRECISION(&precision)},
        {"all", 0, CLI_FLAG, &p.is_all, NULL, "also layers without parameters and products"},
        {"as-file", 0, CLI_FLAG, &as_file, NULL, "as a model file, to change and train"},
        {CLI_MODEL_JSON(&p.as_json)},
    };
    const struct cli_spec spec = {
        .usage = "ebb model show NAME|FILE [OPTION...]",
        .description =
            "Shows a model: its options, its layers with parameters, work and bytes, and what one\n"
            "training step needs at a batch. Nothing is allocated: any size is shown at once.\n"
            "FILE is a model file (docs/own-model.md) or an ONNX file (docs/onnx.md); --as-file\n"
            "writes a model file.\n\n"
            "Examples:\n"
            "  ebb model show resnet50 --batch 8\n"
            "  ebb model show ./net.yaml --set width=64\n"
            "  ebb model show cifar_resnet20 --as-file > net.yaml\n"
            "  ebb model show GPT_175B\n"
            "  ebb model show cifar_resnet20 --set blocks=1,1,1 --set planes=8\n",
        CLI_OPTIONS(options),
        CLI_NEEDS({"all", "!as-file json"}, {"batch", "!as-file"}, {"precision", "!as-file"},
                  {"json", "!as-file"}),
        CLI_LIMITS({"batch", 1, 1 << 24}),
        CLI_POSITIONAL(1, 1)};
    struct cli_args args;
    struct ebb_error err;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct ebb_arena arena = {0};
    if (cli_model_precision(precision, &p.precision, &err) != EBB_OK)
        code = cli_report(&err);
    else
        code = cli_model_config(&arena, args.positional[0], &set, &p.config);
    if (code < 0)
        code = as_file ? write_file(&p) : show(&p);
    ebb_arena_fini(&arena);
    cli_args_fini(&args);
    return code;
}

/* ---- verbs that make a file of a model with weights --------------------------------------------- */

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

enum ebb_status cli_model_fill(struct cli_model_run *r, struct ebb_error *err)
{
    return r->weights_file != NULL
               ? cli_model_weights(&r->model, r->weights_file, &r->rename, &r->transpose, err)
               : train_forward_initialize(&r->model, (uint64_t)r->seed, err);
}

int cli_model_do(struct cli_model_run *r, const struct cli_spec *spec, int argc, char **argv,
                 cli_model_work *work, cli_model_say *say)
{
    struct cli_args args;
    struct cli_json json;
    struct ebb_error err;
    int code = cli_parse(spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (r->file == NULL)
        code = cli_usage_error("-o FILE is missing: where should it go?");
    if (code < 0)
        code = cli_model_config(&r->arena, args.positional[0], &r->set, &r->config);
    if (code < 0 && work(r, &err) != EBB_OK)
        code = cli_report(&err);
    if (code < 0 && r->as_json) {
        struct ebb_json_writer *w = cli_json_object(&json);
        ebb_jsonw_key_string(w, "file", r->file);
        ebb_jsonw_key_string(w, "name", r->config.model->name);
        say(r, w);
        code = cli_json_object_end(&json);
    } else if (code < 0) {
        printf("%s: ", r->file);
        say(r, NULL);
        code = 0;
    }
    train_forward_close(&r->model);
    ebb_arena_fini(&r->arena);
    cli_args_fini(&args);
    return code;
}

static const struct cli_command cmd_list = {
    .name = "list", .summary = "all models and their sizes", .run = run_list};
static const struct cli_command cmd_show = {
    .name = "show", .summary = "layers, parameters, work and bytes of one model", .run = run_show};

static int run_model(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {
        &cmd_list,           &cmd_show,           &cli_cmd_model_trace,
        &cli_cmd_model_init, &cli_cmd_model_eval, &cli_cmd_model_export};
    return cli_dispatch("ebb model", verbs, sizeof verbs / sizeof *verbs, argc, argv);
}

const struct cli_command cli_cmd_model = {
    .name = "model", .summary = "the built-in models: sizes, traces, weights", .run = run_model};
