/* cmd_predict.h - one run of `ebb predict`: inputs (cmd_predict.c) and answers (predict_answers.c).
 * Private to cli. */
#ifndef EBB_CLI_CMD_PREDICT_H
#define EBB_CLI_CMD_PREDICT_H

#include "base/names.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/train_file.h"

enum cli_predict_kind {
    CLI_PREDICT_PICTURES,
    CLI_PREDICT_TEXTS,
    CLI_PREDICT_ARRAYS,
    CLI_PREDICT_ROWS
};

enum cli_predict_form {                 /* of an answer */
                        CLI_FORM_CLASS, /* scores of classes */
                        CLI_FORM_MASK,  /* the same for every place */
                        CLI_FORM_NUMBERS,
                        CLI_FORM_TOKENS, /* scores of the next token at every place */
};

struct cli_prediction {
    struct cli_train_changes changes;
    const char *weights, *output;
    struct cli_list inputs, rename, transpose;
    int64_t wanted_batch, top;
    bool as_json;
    struct cli_train_file file;
    struct nn_config net;
    struct data_set *set; /* NULL: the file has none */
    struct train_forward model;
    int64_t batch, count; /* samples at once; of all */
    enum cli_predict_kind kind;
    struct ebb_names names; /* files: of each sample, or the one of all */
    struct tensor_weights arrays;
    bool has_arrays;
    bool is_shared[NN_PORTS]; /* the input is the same for all samples */
    float *rows;              /* owned: of a table */
    size_t port;              /* input that pictures, texts and rows are for */
    const int64_t *tokens;    /* of the text, in the model's input */
    int64_t seen;             /* tokens of it */
    /* answers */
    enum cli_predict_form form;
    size_t out;               /* output that is looked at */
    int64_t width;            /* classes, or numbers of a sample */
    bool is_logit;            /* one score tells class 1 from class 0 */
    struct ebb_str text;      /* CSV or JSON so far */
    struct ebb_json_writer w; /* of JSON */
    bool is_json;
    bool is_arrays;
    float *kept[NN_PORTS]; /* owned: outputs of all samples, for .npz */
};

/* What the model's answers are, and the first line of them. */
enum ebb_status cli_predict_form(struct cli_prediction *p, struct ebb_error *err);
/* The answers to samples first .. first + n - 1, which the model has just given. */
enum ebb_status cli_predict_take(struct cli_prediction *p, int64_t first, int64_t n,
                                 struct ebb_error *err);
enum ebb_status cli_predict_write(struct cli_prediction *p, struct ebb_error *err);
void cli_predict_fini(struct cli_prediction *p);

#endif
