/* predict_answers.c - answers of a model as lines of CSV, as JSON, or as they are. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/names.h"
#include "cli/cmd_predict.h"

static const struct tensor_view *view_of(const struct cli_prediction *p, size_t out)
{
    return tensor_view_of(p->model.session, p->model.outputs[out].id);
}

static const struct tensor_view *answer_view(const struct cli_prediction *p)
{
    return view_of(p, p->out);
}

/* Elements of one sample. */
static int64_t count_of(const struct cli_prediction *p, size_t out)
{
    return tensor_count(view_of(p, out)) / p->batch;
}

static int64_t each_count(const struct cli_prediction *p)
{
    return count_of(p, p->out);
}

/* An answer to every sample by itself. */
static bool is_answer(const struct cli_prediction *p, size_t out)
{
    enum nn_output_kind kind = p->model.outputs[out].kind;
    const struct tensor_view *v = view_of(p, out);
    return (kind == NN_LOGITS || kind == NN_VALUES) && v->dtype == TENSOR_F32 && v->rank > 0 &&
           v->dims[0] % p->batch == 0;
}

/* ---- which form ------------------------------------------------------------------------------- */

/* A language model scores every token; one that answers once for a sequence tells its class. */
static enum cli_predict_form form_of(const struct cli_prediction *p, const struct tensor_view *v)
{
    const struct nn_port *port = &p->model.ports[p->port];
    bool is_once = v->rank == 2 && v->dims[0] == p->batch && tensor_count(&port->view) > p->batch;
    bool is_class =
        p->model.outputs[p->out].kind == NN_LOGITS ||
        (p->net.model->task == NN_IMAGE_CLASSIFICATION && v->rank > 1 && v->dims[1] > 1);
    return p->net.model->task == NN_LANGUAGE_MODEL && !is_once ? CLI_FORM_TOKENS
           : is_class && v->rank == 2                          ? CLI_FORM_CLASS
           : is_class && v->rank > 2                           ? CLI_FORM_MASK
                                                               : CLI_FORM_NUMBERS;
}

static enum ebb_status find_form(struct cli_prediction *p, struct ebb_error *err)
{
    size_t n = p->model.output_count;
    for (p->out = 0; p->out < n; p->out++)
        if (p->model.outputs[p->out].kind == NN_LOGITS ||
            p->model.outputs[p->out].kind == NN_VALUES)
            break;
    if (p->out == n)
        return ebb_fail(err, EBB_EINPUT, "model %s answers with nothing but its loss",
                        p->net.model->name);
    const struct tensor_view *v = answer_view(p);
    if (!is_answer(p, p->out))
        return ebb_fail(err, EBB_EINPUT, "model %s does not answer every sample by itself",
                        p->net.model->name);
    p->form = form_of(p, v);
    p->is_logit = p->form == CLI_FORM_CLASS && v->dims[1] == 1;
    p->width = p->form == CLI_FORM_NUMBERS                                    ? each_count(p)
               : p->is_logit || (p->form == CLI_FORM_MASK && v->dims[1] == 1) ? 2
                                                                              : v->dims[1];
    bool is_text = p->kind == CLI_PREDICT_TEXTS;
    if (is_text != (p->form == CLI_FORM_TOKENS) && p->kind != CLI_PREDICT_ARRAYS)
        return ebb_fail(err, EBB_EINPUT, "--input %s: model %s takes %s", p->names.items[0],
                        p->net.model->name, is_text ? "no text" : "text");
    if (p->form == CLI_FORM_TOKENS && (v->rank != 2 || v->dims[0] % p->batch != 0))
        return ebb_fail(err, EBB_EINPUT, "model %s does not score the next token",
                        p->net.model->name);
    return EBB_OK;
}

static void add_cell(struct ebb_str *out, const char *text)
{
    bool is_plain = text[strcspn(text, ",\"\n\r")] == '\0';
    if (is_plain) {
        ebb_str_add(out, text);
        return;
    }
    ebb_str_addc(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"')
            ebb_str_addc(out, '"');
        ebb_str_addc(out, *text);
    }
    ebb_str_addc(out, '"');
}

static void begin_csv(struct cli_prediction *p)
{
    static const char *const heads[] = {[CLI_FORM_CLASS] = "input,class,name,probability",
                                        [CLI_FORM_MASK] = "input",
                                        [CLI_FORM_NUMBERS] = "input",
                                        [CLI_FORM_TOKENS] =
                                            "input,perplexity,next,text,probability"};
    ebb_str_add(&p->text, heads[p->form]);
    for (int64_t i = 0; i < p->width && (p->form == CLI_FORM_MASK || p->form == CLI_FORM_NUMBERS);
         i++)
        ebb_str_printf(&p->text, ",%s_%" PRId64, p->form == CLI_FORM_MASK ? "class" : "value", i);
    ebb_str_addc(&p->text, '\n');
}

enum ebb_status cli_predict_form(struct cli_prediction *p, struct ebb_error *err)
{
    EBB_TRY(find_form(p, err));
    p->is_arrays = p->output != NULL && ebb_name_ends(p->output, ".npz");
    for (size_t i = 0; p->is_arrays && i < p->model.output_count; i++)
        if (is_answer(p, i))
            EBB_TRY(
                ebb_new(&p->kept[i], (size_t)(count_of(p, i) * p->count), sizeof *p->kept[i], err));
    if (p->is_arrays)
        return EBB_OK;
    p->is_json = p->as_json || (p->output != NULL && ebb_name_ends(p->output, ".json"));
    if (p->is_json) {
        ebb_jsonw_init(&p->w, &p->text, 0);
        ebb_jsonw_array(&p->w);
    } else {
        begin_csv(p);
    }
    return EBB_OK;
}

/* ---- one answer ------------------------------------------------------------------------------- */

/* Of rows of one file the number of the row. */
static const char *input_name(const struct cli_prediction *p, int64_t sample, char *room,
                              size_t size)
{
    if (p->kind == CLI_PREDICT_PICTURES || p->kind == CLI_PREDICT_TEXTS)
        return p->names.items[sample];
    snprintf(room, size, "%" PRId64, sample);
    return room;
}

/* log of the sum of exp: probabilities are exp(score - it). */
static double log_sum(const float *scores, int64_t n)
{
    double most = (double)scores[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = fmax(most, (double)scores[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)scores[i] - most);
    return most + log(sum);
}

/* The k-th best; of equal scores the lower class comes first. */
static int64_t next_best(const float *scores, int64_t n, int64_t before)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++) {
        bool is_later = before < 0 || scores[i] < scores[before] ||
                        (!(scores[i] > scores[before]) && i > before);
        if (is_later && (best < 0 || scores[i] > scores[best]))
            best = i;
    }
    return best;
}

static void say_class(const struct cli_prediction *p, int64_t k, struct ebb_str *out)
{
    const char *name =
        p->set != NULL && p->form == CLI_FORM_CLASS ? data_class_name(p->set, k) : NULL;
    if (p->form == CLI_FORM_TOKENS && p->set != NULL)
        (void)data_decode(p->set, &k, 1, out, NULL);
    else if (name != NULL)
        ebb_str_add(out, name);
}

static void json_best(struct cli_prediction *p, const float *scores, const char *key)
{
    double all = log_sum(scores, p->width);
    ebb_jsonw_key_array(&p->w, "top");
    for (int64_t i = 0, k = -1; i < p->top && (k = next_best(scores, p->width, k)) >= 0; i++) {
        struct ebb_str name = {0};
        say_class(p, k, &name);
        ebb_jsonw_object(&p->w);
        ebb_jsonw_key_int(&p->w, key, k);
        if (name.length > 0)
            ebb_jsonw_key_string(&p->w, p->form == CLI_FORM_TOKENS ? "text" : "name",
                                 ebb_str_c(&name));
        ebb_jsonw_key_double(&p->w, "probability", exp((double)scores[k] - all));
        ebb_jsonw_object_end(&p->w);
        ebb_str_fini(&name);
    }
    ebb_jsonw_array_end(&p->w);
}

static void take_class(struct cli_prediction *p, const float *given)
{
    struct ebb_str name = {0};
    const float *scores = p->is_logit ? (const float[]){0, *given} : given; /* of classes 0 and 1 */
    int64_t best = next_best(scores, p->width, -1);
    double share = exp((double)scores[best] - log_sum(scores, p->width));
    say_class(p, best, &name);
    if (p->is_json) {
        ebb_jsonw_key_int(&p->w, "class", best);
        if (name.length > 0)
            ebb_jsonw_key_string(&p->w, "name", ebb_str_c(&name));
        ebb_jsonw_key_double(&p->w, "probability", share);
        json_best(p, scores, "class");
    } else {
        ebb_str_printf(&p->text, ",%" PRId64 ",", best);
        add_cell(&p->text, ebb_str_c(&name));
        ebb_str_printf(&p->text, ",%.6g", share);
    }
    ebb_str_fini(&name);
}

/* Places of each class; of one channel those above zero are class 1. */
static void take_mask(struct cli_prediction *p, const float *scores)
{
    int64_t channels = answer_view(p)->dims[1], places = each_count(p) / channels;
    for (int64_t c = 0; c < p->width; c++) {
        int64_t count = 0;
        for (int64_t i = 0; i < places; i++) {
            int64_t best = channels == 1 && scores[i] > 0 ? 1 : 0;
            for (int64_t k = 1; k < channels; k++)
                best = scores[k * places + i] > scores[best * places + i] ? k : best;
            count += best == c;
        }
        if (p->is_json)
            ebb_jsonw_int(&p->w, count);
        else
            ebb_str_printf(&p->text, ",%" PRId64, count);
    }
}

static void take_numbers(struct cli_prediction *p, const float *values)
{
    for (int64_t i = 0; i < p->width; i++)
        if (p->is_json)
            ebb_jsonw_double(&p->w, (double)values[i]);
        else
            ebb_str_printf(&p->text, ",%.9g", (double)values[i]);
}

/* How well the text was foreseen, and what follows it. */
static void take_tokens(struct cli_prediction *p, const float *scores)
{
    double loss = 0;
    int64_t last = p->kind == CLI_PREDICT_TEXTS ? p->seen - 1 : each_count(p) / p->width - 1;
    for (int64_t i = 0; i < last && p->tokens != NULL; i++)
        loss += log_sum(scores + i * p->width, p->width) -
                (double)scores[i * p->width + p->tokens[i + 1]];
    double perplexity = last > 0 && p->tokens != NULL ? exp(loss / (double)last) : (double)NAN;
    const float *end = scores + last * p->width;
    struct ebb_str text = {0};
    int64_t best = next_best(end, p->width, -1);
    say_class(p, best, &text);
    if (p->is_json) {
        ebb_jsonw_key_double(&p->w, "perplexity", perplexity);
        json_best(p, end, "token");
    } else {
        ebb_str_printf(&p->text, ",%.6g,%" PRId64 ",", perplexity, best);
        add_cell(&p->text, ebb_str_c(&text));
        ebb_str_printf(&p->text, ",%.6g", exp((double)end[best] - log_sum(end, p->width)));
    }
    ebb_str_fini(&text);
}

static void take_one(struct cli_prediction *p, int64_t sample, const float *answer)
{
    static const struct {
        void (*take)(struct cli_prediction *, const float *);
        const char *list; /* key of a list, in JSON */
    } forms[] = {[CLI_FORM_CLASS] = {take_class, NULL},
                 [CLI_FORM_MASK] = {take_mask, "places"},
                 [CLI_FORM_NUMBERS] = {take_numbers, "values"},
                 [CLI_FORM_TOKENS] = {take_tokens, NULL}};
    char room[32];
    const char *name = input_name(p, sample, room, sizeof room);
    if (!p->is_json) {
        add_cell(&p->text, name);
        forms[p->form].take(p, answer);
        ebb_str_addc(&p->text, '\n');
        return;
    }
    ebb_jsonw_object(&p->w);
    ebb_jsonw_key_string(&p->w, "input", name);
    if (forms[p->form].list != NULL)
        ebb_jsonw_key_array(&p->w, forms[p->form].list);
    forms[p->form].take(p, answer);
    if (forms[p->form].list != NULL)
        ebb_jsonw_array_end(&p->w);
    ebb_jsonw_object_end(&p->w);
}

enum ebb_status cli_predict_take(struct cli_prediction *p, int64_t first, int64_t n,
                                 struct ebb_error *err)
{
    const float *answers = train_forward_place(&p->model, p->model.outputs[p->out].id);
    for (size_t i = 0; i < p->model.output_count; i++) {
        int64_t each = p->kept[i] != NULL ? count_of(p, i) : 0;
        if (p->kept[i] != NULL)
            memcpy(p->kept[i] + first * each,
                   train_forward_place(&p->model, p->model.outputs[i].id),
                   (size_t)(n * each) * sizeof *p->kept[i]);
    }
    for (int64_t k = 0; k < n && !p->is_arrays; k++)
        take_one(p, first + k, answers + k * each_count(p));
    return ebb_str_status(&p->text, err);
}

/* ---- the end ---------------------------------------------------------------------------------- */

static enum ebb_status write_arrays(struct cli_prediction *p, struct ebb_error *err)
{
    struct tensor_to_write items[NN_PORTS];
    size_t count = 0;
    for (size_t i = 0; i < p->model.output_count; i++) {
        const struct tensor_view *v = view_of(p, i);
        int64_t dims[TENSOR_RANK];
        if (p->kept[i] == NULL)
            continue;
        memcpy(dims, v->dims, sizeof dims);
        dims[0] = v->dims[0] / p->batch * p->count;
        items[count] =
            (struct tensor_to_write){.name = p->model.outputs[i].name, .data = p->kept[i]};
        tensor_view_init(&items[count++].view, TENSOR_F32, v->rank, dims);
    }
    return tensor_file_write(p->output, items, count, err);
}

enum ebb_status cli_predict_write(struct cli_prediction *p, struct ebb_error *err)
{
    if (p->is_arrays)
        return write_arrays(p, err);
    if (p->is_json) {
        ebb_jsonw_array_end(&p->w);
        ebb_str_addc(&p->text, '\n');
    }
    EBB_TRY(ebb_str_status(&p->text, err));
    if (p->output != NULL)
        return ebb_file_write_atomic(p->output, p->text.data, p->text.length, err);
    return fwrite(p->text.data, 1, p->text.length, stdout) == p->text.length
               ? EBB_OK
               : ebb_fail(err, EBB_EIO, "cannot write the answers");
}

void cli_predict_fini(struct cli_prediction *p)
{
    train_forward_close(&p->model);
    if (p->has_arrays)
        tensor_weights_close(&p->arrays);
    data_close(p->set);
    ebb_names_fini(&p->names);
    ebb_str_fini(&p->text);
    ebb_free(p->rows);
    for (size_t i = 0; i < NN_PORTS; i++)
        ebb_free(p->kept[i]);
}
