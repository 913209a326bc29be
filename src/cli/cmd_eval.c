/* cmd_eval.c - ebb eval: weights measured on the validation data of an experiment, class by class. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/cmd_model.h"
#include "cli/json.h"
#include "cli/machine.h"
#include "cli/train_file.h"

struct evaluation {
    struct cli_train_changes changes;
    const char *weights, *confusion, *answers;
    struct ebb_str rows; /* of --answers */
    struct cli_list rename, transpose;
    bool as_json;
    struct cli_train_file file;
    struct train_trial *trial;
    struct train_metrics metrics;
};

/* Of one class: how many there are, how many answers are right of those given and of those wanted. */
struct class_numbers {
    uint64_t wanted, answered, right;
    double precision, recall, f1; /* NaN: divided by nothing */
};

static struct class_numbers numbers_of(const struct train_confusion *c, int64_t k)
{
    struct class_numbers n = {.right = c->counts[k * c->classes + k]};
    for (int64_t i = 0; i < c->classes; i++) {
        n.wanted += c->counts[k * c->classes + i];
        n.answered += c->counts[i * c->classes + k];
    }
    n.precision = n.answered ? (double)n.right / (double)n.answered : (double)NAN;
    n.recall = n.wanted ? (double)n.right / (double)n.wanted : (double)NAN;
    n.f1 =
        n.wanted + n.answered ? 2 * (double)n.right / (double)(n.wanted + n.answered) : (double)NAN;
    return n;
}

static void print_share(struct cli_table *table, double v)
{
    if (isfinite(v))
        cli_table_cell(table, "%.4f", v);
    else
        cli_table_cell(table, "-");
}

static void print_text(const struct evaluation *e, const struct train_confusion *c)
{
    static const char *const headers[] = {"class", "samples", "right", "precision", "recall", "f1"};
    for (size_t i = 0; i < e->metrics.count; i++)
        printf("%-26s %.6g\n", e->metrics.items[i].name, e->metrics.items[i].value);
    printf("%-26s %" PRId64 "\n", "samples", e->metrics.records);
    if (c == NULL)
        return;
    printf("\n");
    struct cli_table *table = cli_table_create(headers, 6);
    for (int64_t k = 0; table != NULL && k < c->classes; k++) {
        struct class_numbers n = numbers_of(c, k);
        cli_table_cell(table, "%" PRId64, k);
        cli_table_cell(table, "%" PRIu64, n.wanted);
        cli_table_cell(table, "%" PRIu64, n.right);
        print_share(table, n.precision);
        print_share(table, n.recall);
        print_share(table, n.f1);
    }
    cli_table_out(table);
}

static int print_json(const struct evaluation *e, const struct train_confusion *c)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_object(w, "metrics");
    for (size_t i = 0; i < e->metrics.count; i++)
        ebb_jsonw_key_double(w, e->metrics.items[i].name, e->metrics.items[i].value);
    ebb_jsonw_object_end(w);
    ebb_jsonw_key_int(w, "samples", e->metrics.records);
    ebb_jsonw_key_array(w, "classes");
    for (int64_t k = 0; c != NULL && k < c->classes; k++) {
        struct class_numbers n = numbers_of(c, k);
        ebb_jsonw_object(w);
        ebb_jsonw_key_uint(w, "samples", n.wanted);
        ebb_jsonw_key_uint(w, "answered", n.answered);
        ebb_jsonw_key_uint(w, "right", n.right);
        ebb_jsonw_key_double(w, "precision", n.precision);
        ebb_jsonw_key_double(w, "recall", n.recall);
        ebb_jsonw_key_double(w, "f1", n.f1);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    ebb_jsonw_key_array(w, "confusion");
    for (int64_t k = 0; c != NULL && k < c->classes; k++) {
        ebb_jsonw_array(w);
        for (int64_t i = 0; i < c->classes; i++)
            ebb_jsonw_uint(w, c->counts[k * c->classes + i]);
        ebb_jsonw_array_end(w);
    }
    ebb_jsonw_array_end(w);
    return cli_json_object_end(&json);
}

/* Rows are what was wanted, columns what was answered. */
static enum ebb_status write_confusion(const char *path, const struct train_confusion *c,
                                       struct ebb_error *err)
{
    struct ebb_str text = {0};
    ebb_str_add(&text, "wanted\\answered");
    for (int64_t i = 0; i < c->classes; i++)
        ebb_str_printf(&text, ",%" PRId64, i);
    ebb_str_addc(&text, '\n');
    for (int64_t k = 0; k < c->classes; k++) {
        ebb_str_printf(&text, "%" PRId64, k);
        for (int64_t i = 0; i < c->classes; i++)
            ebb_str_printf(&text, ",%" PRIu64, c->counts[k * c->classes + i]);
        ebb_str_addc(&text, '\n');
    }
    enum ebb_status status = ebb_str_status(&text, err);
    EBB_THEN(status, ebb_file_write_atomic(path, text.data, text.length, err));
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status load(struct evaluation *e, struct ebb_error *err)
{
    struct train_init init = {
        .path = e->weights,
        .changes = {e->rename.items, e->rename.count, e->transpose.items, e->transpose.count}};
    struct ebb_str list = {0}, dir = {0};
    enum ebb_status status = train_store_find(e->weights, &dir, err);
    if (dir.length > 0 && e->rename.count + e->transpose.count > 0)
        EBB_THEN(status, ebb_fail(err, EBB_EINPUT,
                                  "%s is a checkpoint of ebb: --rename and --transpose are for "
                                  "weights of others",
                                  ebb_str_c(&dir)));
    if (dir.length > 0)
        EBB_THEN(status, train_trial_load(e->trial, ebb_str_c(&dir), TRAIN_RESUME, err));
    else
        EBB_THEN(status, train_trial_import(e->trial, &init, &list, err));
    fputs(ebb_str_c(&list), stderr);
    ebb_str_fini(&list);
    ebb_str_fini(&dir);
    return status;
}

/* sample,wanted,answered,probability; of numbers sample,wanted_0,...,answered_0,... */
static void add_answer(void *context, int64_t sample, int64_t wanted_class, const float *wanted,
                       const float *given, int64_t count)
{
    struct ebb_str *rows = context;
    if (wanted != NULL) {
        if (sample == 0) {
            ebb_str_add(rows, "sample");
            for (int64_t i = 0; i < 2 * count; i++)
                ebb_str_printf(rows, ",%s_%" PRId64, i < count ? "wanted" : "answered", i % count);
            ebb_str_addc(rows, '\n');
        }
        ebb_str_printf(rows, "%" PRId64, sample);
        for (int64_t i = 0; i < 2 * count; i++)
            ebb_str_printf(rows, ",%.9g", (double)(i < count ? wanted[i] : given[i - count]));
        ebb_str_addc(rows, '\n');
        return;
    }
    int64_t best = 0;
    double sum = 0;
    for (int64_t i = 1; i < count; i++)
        best = given[i] > given[best] ? i : best;
    for (int64_t i = 0; i < count; i++)
        sum += exp((double)given[i] - (double)given[best]);
    if (sample == 0)
        ebb_str_add(rows, "sample,wanted,answered,probability\n");
    ebb_str_printf(rows, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%.6g\n", sample, wanted_class, best,
                   1 / sum);
}

static enum ebb_status write_answers(struct evaluation *e, struct ebb_error *err)
{
    if (e->rows.length == 0)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "--answers: this model answers neither with one class nor with numbers for "
                        "a sample");
    EBB_TRY(ebb_str_status(&e->rows, err));
    return ebb_file_write_atomic(e->answers, e->rows.data, e->rows.length, err);
}

static enum ebb_status measure(struct evaluation *e, struct ebb_error *err)
{
    struct train_options options = {.workers = -1,
                                    .only_validates = true,
                                    .machine_bytes = cli_machine_bytes(),
                                    .wants_classes = true,
                                    .any_threads = true,
                                    .answer = e->answers != NULL ? add_answer : NULL,
                                    .answer_context = &e->rows};
    e->file.config.init = NULL; /* these weights, whatever training begins with */
    EBB_TRY(train_trial_create(&e->trial, &e->file.config, &options, err));
    EBB_TRY(load(e, err));
    return train_trial_validate(e->trial, NULL, NULL, &e->metrics, err);
}

static int evaluate(struct evaluation *e)
{
    struct ebb_error err = {0};
    if (measure(e, &err) != EBB_OK)
        return cli_report(&err);
    const struct train_confusion *c = train_trial_confusion(e->trial);
    if (e->confusion != NULL && c == NULL)
        return cli_usage_error("--confusion: this model does not answer with 2 to 4096 classes");
    if (e->confusion != NULL && write_confusion(e->confusion, c, &err) != EBB_OK)
        return cli_report(&err);
    if (e->answers != NULL && write_answers(e, &err) != EBB_OK)
        return err.status == EBB_EUNSUPPORTED ? cli_usage_error("%s", err.message)
                                              : cli_report(&err);
    if (e->as_json)
        return print_json(e, c);
    print_text(e, c);
    return 0;
}

static int run(int argc, char **argv)
{
    struct evaluation e = {.changes.seed = -1};
    const struct cli_option options[] = {
        {"weights", 'w', CLI_STRING, &e.weights, "FILE",
         "what to measure: safetensors, .pt, .npz, an index of several files, a\nfolder with one, "
         "a "
         "checkpoint of ebb"},
        {CLI_MODEL_RENAME(&e.rename)},
        {CLI_MODEL_TRANSPOSE(&e.transpose)},
        {"confusion", 0, CLI_STRING, &e.confusion, "FILE",
         "write the confusion matrix as CSV: a row for each class that was wanted"},
        {"answers", 0, CLI_STRING, &e.answers, "FILE",
         "write the answer to every sample as CSV: the class with its probability,\nor the "
         "numbers"},
        {"set", 0, CLI_LIST, &e.changes.sets, "KEY=VALUE", "put a value over one of the file"},
        {"budget", 0, CLI_STRING, &e.changes.budget, "BYTES", "memory of the device"},
        {"threads", 0, CLI_INT, &e.changes.threads, "N", "of kernels"},
        {CLI_MODEL_JSON(&e.as_json)},
    };
    const struct cli_spec spec = {
        .usage = "ebb eval FILE --weights FILE [OPTION...]",
        .description =
            "Measures weights on the validation data of an experiment file: loss and metrics of "
            "the\n"
            "task, for classifiers also the five best answers and, class by class, precision, "
            "recall\n"
            "and F1. Nothing is trained or written, but what is asked for.\n\n"
            "Examples:\n"
            "  ebb eval exp.yaml --weights weights.safetensors --confusion confusion.csv\n"
            "  ebb eval exp.yaml --weights w.pt --set data.val_files=new.csv --answers "
            "answers.csv\n",
        CLI_OPTIONS(options),
        CLI_LIMITS({"threads", 0, 4096}),
        CLI_POSITIONAL(1, 1)};
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (e.weights == NULL) {
        code = cli_usage_error("--weights FILE is missing: what should be measured?");
    } else {
        code = cli_train_open(&e.file, args.positional[0], &e.changes);
        if (code < 0)
            code = evaluate(&e);
        train_trial_destroy(e.trial);
        cli_train_close(&e.file);
        ebb_str_fini(&e.rows);
    }
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_eval = {
    .name = "eval", .summary = "measure weights on the validation data", .run = run};
