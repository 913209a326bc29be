/* cmd_model_export.c - ebb model export: a model with weights as an ONNX file. */
#include <stdio.h>

#include "base/heap.h"
#include "cli/cmd_model.h"
#include "cli/json.h"
#include "cli/machine.h"

struct job {
    struct cli_model_run r;
    bool is_fixed;
};

static enum ebb_status write_onnx(struct cli_model_run *r, struct ebb_error *err)
{
    struct job *e = (struct job *)r;
    const struct nn_builder *b = &r->model.builder;
    struct train_forward_options o = {.batch =
                                          nn_config_batch(&r->config, r->batch > 0 ? r->batch : 1),
                                      .machine_bytes = cli_machine_bytes()};
    const void **values; /* per item */
    EBB_TRY(train_forward_open(&r->model, &r->config, &o, err));
    EBB_TRY(cli_model_fill(r, err));
    EBB_TRY(ebb_new(&values, nn_item_count(b) + 1, sizeof *values, err));
    for (size_t i = 0; i < nn_item_count(b); i++)
        values[i] = train_forward_item(&r->model, i);
    enum ebb_status status =
        nn_config_export(&r->config, r->batch, values, r->file, &e->is_fixed, err);
    ebb_free(values);
    return status;
}

static void say(const struct cli_model_run *r, struct ebb_json_writer *w)
{
    const struct job *e = (const struct job *)r;
    if (w)
        ebb_jsonw_key_bool(w, "any_batch", !e->is_fixed);
    else
        printf("opset 17, %s\n", e->is_fixed ? "for one batch size" : "for any batch size");
}

static int run_export(int argc, char **argv)
{
    struct job e = {.r.seed = 1};
    const struct cli_option options[] = {
        {CLI_MODEL_OUTPUT(&e.r.file, "ONNX file to write")},
        {CLI_MODEL_WEIGHTS(&e.r.weights_file)},
        {CLI_MODEL_RENAME(&e.r.rename)},
        {CLI_MODEL_TRANSPOSE(&e.r.transpose)},
        {CLI_MODEL_SET(&e.r.set, CLI_MODEL_SET_HELP)},
        {CLI_MODEL_BATCH(&e.r.batch,
                         "samples of a batch; default: any number, where the model can")},
        {"seed", 0, CLI_INT, &e.r.seed, "N", "of initial weights; default 1"},
        {CLI_MODEL_JSON(&e.r.as_json)},
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
    return cli_model_do(&e.r, &spec, argc, argv, write_onnx, say);
}

const struct cli_command cli_cmd_model_export = {
    .name = "export", .summary = "a model with weights as an ONNX file", .run = run_export};
