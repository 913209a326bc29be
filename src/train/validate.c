/* validate.c - the validation split in evaluation mode, and what is measured on it.
 *
 * Every sample counts once: batches are weighted by their size. Metrics by what the model answers:
 *   classes per sample       validation_accuracy; where classes are wanted validation_top5_accuracy:
 *                            the target is among the five best scores, ties going to lower classes
 *   classes per pixel        validation_iou: per sample the mean over classes of tp / (tp+fp+fn),
 *                            0/0 counts as 1; logits of one class: of the foreground alone
 *   numbers                  validation_mae
 *   language                 validation_perplexity = exp(loss of the tokens); of masked tokens
 *                            validation_mlm_accuracy as well */
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "train/trial.h"

struct tally {
    struct train_trial *t;
    const int64_t *classes; /* targets of the batch, staged */
    const float *values;
    int64_t batch;
    double right, seen; /* accuracy, mae */
    double iou;         /* sum over samples */
    double loss, part, metrics[NN_PORTS];
    int64_t records;
    uint64_t *counts; /* 3 per class: tp, answered, wanted */
    int64_t class_count;
    double top5;
};

/* ---- answers -------------------------------------------------------------------------------- */

/* One answer of the confusion matrix. */
static void add_pair(struct tally *a, int64_t wanted, int64_t got)
{
    int64_t n = a->t->confusion.classes;
    if (wanted >= 0 && wanted < n && got >= 0 && got < n)
        a->t->confusion_counts[wanted * n + got]++;
}

static void add_scores(struct tally *a, const float *scores, const struct tensor_view *view)
{
    int64_t classes = view->dims[1];
    const struct train_options *o = &a->t->options;
    for (int64_t i = 0; i < view->dims[0]; i++, scores += classes) {
        int64_t best = 0, want = a->classes[i], above = 0;
        if (o->answer)
            o->answer(o->answer_context, a->records + i, want, NULL, scores, classes);
        if (want < 0 || want >= classes)
            continue; /* no target */
        for (int64_t k = 1; k < classes; k++)
            best = scores[k] > scores[best] ? k : best;
        for (int64_t k = 0; k < classes; k++)
            above += scores[k] > scores[want] || (k < want && !(scores[k] < scores[want]));
        a->right += best == want;
        a->top5 += above < 5;
        a->seen++;
        add_pair(a, want, best);
    }
}

static void add_accuracy(struct tally *a, const int64_t *got, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        a->right += got[i] == a->classes[i] && a->classes[i] >= 0;
        a->seen += a->classes[i] >= 0; /* -100: no target */
        add_pair(a, a->classes[i], got[i]);
    }
}

static void add_iou(struct tally *a, const int64_t *got, int64_t count)
{
    int64_t pixels = count / a->batch, n = a->class_count;
    for (int64_t b = 0; b < a->batch; b++) {
        double sum = 0;
        memset(a->counts, 0, (size_t)n * 3 * sizeof *a->counts);
        for (int64_t i = b * pixels; i < (b + 1) * pixels; i++) {
            int64_t g = got[i], w = a->classes[i];
            if (w < 0 || w >= n || g < 0 || g >= n)
                continue;
            add_pair(a, w, g);
            a->counts[3 * g] += g == w;
            a->counts[3 * g + 1]++;
            a->counts[3 * w + 2]++;
        }
        for (int64_t j = 0; j < n; j++) {
            uint64_t tp = a->counts[3 * j];
            uint64_t all = a->counts[3 * j + 1] + a->counts[3 * j + 2] - tp;
            sum += all ? (double)tp / (double)all : 1;
        }
        a->iou += sum / (double)n;
    }
}

static void add_foreground(struct tally *a, const float *logits, int64_t count)
{
    int64_t pixels = count / a->batch;
    for (int64_t b = 0; b < a->batch; b++) {
        double tp = 0, any = 0;
        for (int64_t i = b * pixels; i < (b + 1) * pixels; i++) {
            bool got = logits[i] > 0, want = a->values[i] > 0.5f;
            tp += got && want;
            any += got || want;
        }
        a->iou += any > 0 ? tp / any : 1;
    }
}

static void add_error(struct tally *a, const float *got, int64_t count)
{
    const struct train_options *o = &a->t->options;
    int64_t each = count / a->batch;
    for (int64_t i = 0; o->answer && i < a->batch; i++)
        o->answer(o->answer_context, a->records + i, -1, a->values + i * each, got + i * each,
                  each);
    for (int64_t i = 0; i < count; i++)
        a->right += fabs((double)got[i] - (double)a->values[i]);
    a->seen += (double)count;
}

static void add_answer(void *context, const struct train_step *step, const void *bytes)
{
    struct tally *a = context;
    int64_t count = tensor_count(&step->answer_view);
    if (step->answer == TRAIN_CLASS && a->classes && a->counts)
        add_iou(a, bytes, count);
    else if (step->answer == TRAIN_CLASS && a->classes)
        add_accuracy(a, bytes, count);
    else if (step->answer == TRAIN_SCORES && a->classes)
        add_scores(a, bytes, &step->answer_view);
    else if (step->answer == TRAIN_LOGIT && a->values)
        add_foreground(a, bytes, count);
    else if (step->answer == TRAIN_VALUE && a->values)
        add_error(a, bytes, count);
}

/* ---- the pass ------------------------------------------------------------------------------- */

static enum ebb_status run_batch(struct tally *a, const struct train_step *step, int64_t number,
                                 struct ebb_error *err)
{
    struct train_trial *t = a->t;
    int field = t->target_fields[0];
    struct train_pass pass = {.trial = t,
                              .step = step,
                              .number = number,
                              .scale = 1,
                              .answer = add_answer,
                              .answer_context = a};
    struct exec_report report = {0};
    a->batch = step->batch;
    a->classes = NULL;
    a->values = NULL;
    if (field >= 0 && step->target_count && t->info->fields[field].dtype == DATA_I64)
        a->classes = t->fields[field];
    else if (field >= 0 && step->target_count && t->info->fields[field].dtype == DATA_F32)
        a->values = t->fields[field];
    EBB_TRY(train_pass_run(&pass, &report, err));
    if (report.peak_bytes > t->total.peak_bytes)
        t->total.peak_bytes = report.peak_bytes;
    a->loss += pass.loss * (double)step->batch;
    a->part += pass.part * (double)step->batch;
    for (size_t i = 0; i < step->metric_count; i++)
        a->metrics[i] += pass.metrics[i] * (double)step->batch;
    a->records += step->batch;
    return EBB_OK;
}

static enum ebb_status run_data(struct tally *a, train_poll_fn poll, void *context,
                                struct ebb_error *err)
{
    struct train_trial *t = a->t;
    struct data_loader_options o;
    struct data_loader *loader;
    struct data_batch b;
    data_loader_options_of(t->set, DATA_VALIDATION, &o);
    o.batch = (size_t)t->eval.batch;
    o.seed = t->config.seed;
    o.epochs = 1;
    o.drop_last = false;
    if (t->options.workers >= 0)
        o.workers = t->options.workers;
    EBB_TRY(data_loader_create(t->set, &o, &loader, err));
    enum ebb_status status = EBB_OK;
    for (int64_t i = 0; status == EBB_OK; i++) {
        status = data_loader_next(loader, t->fields, &b, err);
        if (status != EBB_OK || b.count == 0)
            break;
        const struct train_step *step = (int64_t)b.count == t->eval.batch ? &t->eval : &t->rest;
        if ((int64_t)b.count != step->batch)
            status = ebb_fail(err, EBB_EINTERNAL, "a validation batch of %zu samples", b.count);
        EBB_THEN(status, run_batch(a, step, i, err));
        if (status == EBB_OK && poll)
            status = poll(context, err);
        if (status == EBB_OK && b.is_last)
            break;
    }
    data_loader_destroy(loader);
    return status;
}

static enum ebb_status run_made(struct tally *a, train_poll_fn poll, void *context,
                                struct ebb_error *err)
{
    for (int64_t i = 0; i < TRAIN_MADE_CHECK; i++) {
        EBB_TRY(run_batch(a, &a->t->eval, TRAIN_MADE_FIRST + i, err));
        if (poll)
            EBB_TRY(poll(context, err));
    }
    return EBB_OK;
}

static void put(struct train_metrics *m, const char *name, double value)
{
    if (m->count < TRAIN_METRICS)
        m->items[m->count++] = (struct train_metric){name, value};
}

static void conclude(struct tally *a, struct train_metrics *m)
{
    struct train_trial *t = a->t;
    double n = a->records ? (double)a->records : NAN;
    memset(m, 0, sizeof *m);
    m->records = a->records;
    put(m, "validation_loss", a->loss / n);
    bool is_tokens = t->net.model->task == NN_LANGUAGE_MODEL && !t->eval.is_once;
    if (is_tokens)
        put(m, "validation_perplexity", exp(a->part / n));
    if (is_tokens && a->seen > 0)
        put(m, "validation_mlm_accuracy", a->right / a->seen);
    else if (t->eval.answer == TRAIN_LOGIT && t->eval.is_once)
        put(m, "validation_accuracy", a->iou / n); /* of one place: right or wrong */
    else if (t->eval.answer == TRAIN_LOGIT || a->counts)
        put(m, "validation_iou", a->iou / n);
    else if (a->seen > 0 && (t->eval.answer == TRAIN_CLASS || t->eval.answer == TRAIN_SCORES))
        put(m, "validation_accuracy", a->right / a->seen); /* not of targets that are made up */
    else if (a->seen > 0 && t->eval.answer == TRAIN_VALUE)
        put(m, "validation_mae", a->right / a->seen);
    if (a->seen > 0 && t->eval.answer == TRAIN_SCORES && t->eval.answer_view.dims[1] > 5)
        put(m, "validation_top5_accuracy", a->top5 / a->seen);
    for (size_t i = 0; i < t->eval.metric_count; i++)
        put(m, ebb_arena_printf(&t->arena, "validation_%s", t->eval.metric_names[i]),
            a->metrics[i] / n);
}

#define MOST_CLASSES 4096 /* of a confusion matrix */

/* Zeros for the matrix, where one is wanted. */
static enum ebb_status begin_confusion(struct train_trial *t, struct ebb_error *err)
{
    enum train_answer answer = t->eval.answer;
    int64_t n = answer == TRAIN_SCORES             ? t->eval.answer_view.dims[1]
                : answer == TRAIN_CLASS && t->info ? t->info->classes
                                                   : 0;
    ebb_free(t->confusion_counts);
    t->confusion_counts = NULL;
    t->confusion = (struct train_confusion){0};
    if (!t->options.wants_classes || n < 2 || n > MOST_CLASSES)
        return EBB_OK;
    EBB_TRY(ebb_new(&t->confusion_counts, (size_t)(n * n), sizeof *t->confusion_counts, err));
    t->confusion = (struct train_confusion){n, t->confusion_counts};
    return EBB_OK;
}

enum ebb_status train_trial_ones(struct train_trial *t, double *loss, struct ebb_error *err)
{
    struct train_pass pass = {.trial = t, .step = &t->eval, .scale = 1, .is_ones = true};
    struct exec_report report = {0};
    if (!t->has_eval)
        return ebb_fail(err, EBB_EINPUT, "there is no validation data");
    EBB_TRY(train_pass_run(&pass, &report, err));
    *loss = pass.loss;
    return EBB_OK;
}

enum ebb_status train_trial_validate(struct train_trial *t, train_poll_fn poll, void *context,
                                     struct train_metrics *metrics, struct ebb_error *err)
{
    struct tally a = {.t = t};
    if (!t->has_eval)
        return ebb_fail(err, EBB_EINPUT, "there is no validation data");
    EBB_TRY(begin_confusion(t, err));
    if (t->net.model->task == NN_SEGMENTATION && t->eval.answer == TRAIN_CLASS) {
        a.class_count = t->info && t->info->classes > 0 ? t->info->classes
                                                        : nn_config_int(&t->net, "classes", 2);
        EBB_TRY(ebb_new(&a.counts, (size_t)a.class_count, 3 * sizeof *a.counts, err));
    }
    enum ebb_status status = train_swap_averages(t, err); /* they are what is measured */
    if (status == EBB_OK) {
        status = t->set ? run_data(&a, poll, context, err) : run_made(&a, poll, context, err);
        enum ebb_status back = train_swap_averages(t, status == EBB_OK ? err : NULL);
        EBB_THEN(status, back);
    }
    if (status == EBB_OK)
        conclude(&a, metrics);
    EBB_THEN(status, train_tell_metric(t, metrics->items[0].value, err));
    ebb_free(a.counts);
    return status;
}
