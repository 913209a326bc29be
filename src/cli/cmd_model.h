/* cmd_model.h - what the verbs of `ebb model` share. */
#ifndef EBB_CLI_CMD_MODEL_H
#define EBB_CLI_CMD_MODEL_H

#include "base/status.h"
#include "cli/cli.h"
#include "nn/nn.h"
#include "train/train.h"

extern const struct cli_command cli_cmd_model, cli_cmd_model_trace, cli_cmd_model_init,
    cli_cmd_model_eval, cli_cmd_model_export;

/* NAME, or the path of a model file or an ONNX file, and the items of --set; "a=1,2" arrives in two pieces and is
 * put together again. What is read lives in the arena. -1, or the exit code after every mistake was
 * printed. */
int cli_model_config(struct ebb_arena *arena, const char *name, const struct cli_list *set,
                     struct nn_config *config);
enum ebb_status cli_model_precision(const char *text, enum nn_precision *precision,
                                    struct ebb_error *err);

/* Weights of a file into a model; what of it is not used is said. */
enum ebb_status cli_model_weights(struct train_forward *model, const char *path,
                                  const struct cli_list *rename, const struct cli_list *transpose,
                                  struct ebb_error *err);

/* Verbs that make a file of a model with weights: the first member of what is theirs. */
struct cli_model_run {
    struct nn_config config;
    struct train_forward model;
    int64_t batch, seed;
    const char *file, *weights_file; /* to write; to read, NULL: initial weights */
    struct cli_list set, rename, transpose;
    bool as_json;
    struct ebb_arena arena; /* for the time of the command */
};
typedef enum ebb_status cli_model_work(struct cli_model_run *run, struct ebb_error *err);
/* w: an object with file and name that is still open; NULL: a line is, behind "FILE: ". */
typedef void cli_model_say(const struct cli_model_run *run, struct ebb_json_writer *w);

/* The weights that the options name. */
enum ebb_status cli_model_fill(struct cli_model_run *run, struct ebb_error *err);
/* Options are read, the model is found, `work` does it and `say` says what was done. The exit code. */
int cli_model_do(struct cli_model_run *run, const struct cli_spec *spec, int argc, char **argv,
                 cli_model_work *work, cli_model_say *say);

/* Options that several verbs have. */
#define CLI_MODEL_SET(list, text) "set", 's', CLI_LIST, (list), "KEY=VALUE", (text)
#define CLI_MODEL_BATCH(number, text) "batch", 'b', CLI_INT, (number), "N", (text)
#define CLI_MODEL_PRECISION(text)                                                                  \
    "precision", 0, CLI_STRING, (text), "P", "fp32, bf16 or fp16; default fp32"
#define CLI_MODEL_OUTPUT(file, text) "output", 'o', CLI_STRING, (file), "FILE", (text)
#define CLI_MODEL_JSON(flag) "json", 0, CLI_FLAG, (flag), NULL, "one JSON object"
#define CLI_MODEL_WEIGHTS(file)                                                                    \
    "weights", 'w', CLI_STRING, (file), "FILE",                                                    \
        "weights and buffers: safetensors, .pt, .npz, an index of several files,\na folder with "  \
        "one, a checkpoint of ebb; default: initial ones"
#define CLI_MODEL_RENAME(list)                                                                     \
    "rename", 0, CLI_LIST, (list), "OLD=NEW",                                                      \
        "names in the file are others: 'module.*=*'; repeatable"
#define CLI_MODEL_TRANSPOSE(list)                                                                  \
    "transpose", 0, CLI_LIST, (list), "PATTERN",                                                   \
        "matrices that the file has the other way round; repeatable"
#define CLI_MODEL_SET_HELP "an option of the model; repeatable; lists as 1,2,3"

#endif
