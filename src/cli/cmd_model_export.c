/* cmd_model_export.c - ebb model export: a model with weights as an ONNX file. */
#include <stdio.h>

#include "base/heap.h"
#include "base/str.h"
#include "cli/cmd_model.h"
#include "cli/json.h"

struct job {
    struct nn_config config;
    int64_t batch, seed;
    const char *file, *weights_file;
    struct cli_list rename, transpose;
    bool as_json, is_fixed;
    struct train_forward model;
    const void **values; /* per item; NULL: nothing reads it */
};

static enum ebb_status fill_items(struct job *e, struct ebb_error *err)
{
    struct nn_initializer *init = NULL;
    const struct nn_builder *b = &e->model.builder;
    EBB_TRY(nn_initializer_create(&init, b, e->config.generator, (uint64_t)e->seed, err));
    for (size_t i = 0; i < nn_item_count(b); i++) {
        void *dst = train_forward_place(&e->model, nn_item_at(b, i)->leaf);
        if (dst != NULL)
            nn_initialize(init, i, dst);
    }
    nn_initializer_destroy(init);
    return EBB_OK;
}

static enum ebb_status load_weights(struct job *e, struct ebb_error *err)
{
    struct tensor_changes changes = {e->rename.items, e->rename.count, e->transpose.items,
                                     e->transpose.count};
    struct ebb_str note = {0};
    enum ebb_status status = train_forward_load(&e->model, e->weights_file, &changes, &note, err);
    fputs(ebb_str_c(&note), stderr);
    ebb_str_fini(&note);
    return status;
}

static enum ebb_status work(struct job *e, struct ebb_error *err)
{
    const struct nn_builder *b = &e->model.builder;
    int64_t batch = nn_config_batch(&e->config, e->batch > 0 ? e->batch : 1);
    EBB_TRY(train_forward_open(&e->model, &e->config, batch, NN_FP32, false, err));
    EBB_TRY(e->weights_file != NULL ? load_weights(e, err) : fill_items(e, err));
    EBB_TRY(ebb_new(&e->values, nn_item_count(b) + 1, sizeof *e->values, err));
    for (size_t i = 0; i < nn_item_count(b); i++)
        e->values[i] = train_forward_place(&e->model, nn_item_at(b, i)->leaf);
    return nn_config_export(&e->config, e->batch, e->values, e->file, &e->is_fixed, err);
}

static int finish(struct job *e)
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
        ebb_jsonw_key_bool(w, "any_batch", !e->is_fixed);
        code = cli_json_object_end(&json);
    } else {
        printf("%s: opset 17, %s\n", e->file,
               e->is_fixed ? "for one batch size" : "for any batch size");
    }
    train_forward_close(&e->model);
    ebb_free(e->values);
    return code;
}

static int run_export(int argc, char **argv)
{
    struct job e = {.seed = 1};
    struct cli_list set = {0};
    const struct cli_option options[] = {
        {CLI_MODEL_OUTPUT(&e.file, "ONNX file to write")},
        {"weights", 'w', CLI_STRING, &e.weights_file, "FILE",
         "weights and buffers: safetensors, .pt, .npz, an index of several files\nor a folder with "
         "one; default: initial ones"},
        {CLI_MODEL_RENAME(&e.rename)},
        {CLI_MODEL_TRANSPOSE(&e.transpose)},
        {CLI_MODEL_SET(&set, CLI_MODEL_SET_HELP)},
        {CLI_MODEL_BATCH(&e.batch, "samples of a batch; default: any number, where the model can")},
        {"seed", 0, CLI_INT, &e.seed, "N", "of initial weights; default 1"},
        {CLI_MODEL_JSON(&e.as_json)},
    };
    const struct cli_spec spec = {
        .usage = "ebb model export NAME|FILE -o FILE [OPTION...]",
        .description =
            "Writes a model as an ONNX file (opset 17) as it is evaluated: no dropout, batch "
            "norms\n"
            "by their statistics. Names of weights stay. More than 2 GiB of weights go to a file\n"
            "beside it. An op that has no form there is an error that names it. What ebb reads\n"
            "from the file again gives the same bits.\n\n"
            "Examples:\n"
            "  ebb model export resnet18 --weights best.safetensors -o net.onnx\n"
            "  ebb model export ./net.yaml --weights w.pt --set planes=32 -o net.onnx\n",
        CLI_OPTIONS(options),
        CLI_NEEDS({"rename", "weights"}, {"transpose", "weights"}, {"seed", "!weights"}),
        CLI_LIMITS({"seed", 0, 9e18}, {"batch", 1, 1 << 24}),
        CLI_POSITIONAL(1, 1)};
    struct cli_args args;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct ebb_arena arena = {0};
    if (e.file == NULL)
        code = cli_usage_error("-o FILE is missing: where should the model go?");
    if (code < 0)
        code = cli_model_config(&arena, args.positional[0], &set, &e.config);
    if (code < 0)
        code = finish(&e);
    ebb_arena_fini(&arena);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_model_export = {
    .name = "export", .summary = "a model with weights as an ONNX file", .run = run_export};
