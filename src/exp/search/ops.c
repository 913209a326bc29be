/* ops.c - lists of operations, request ids as text, events as JSON. */
#include "exp/search/method.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/heap.h"

/* ---- request ids ---- */

const char *exp_request_format(struct exp_request_id id, char text[EXP_REQUEST_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    char *at = text;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = digits[id.bytes[i] >> 4];
        *at++ = digits[id.bytes[i] & 15];
    }
    *at = '\0';
    return text;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool exp_request_parse(const char *text, size_t length, struct exp_request_id *id)
{
    struct exp_request_id result;
    if (length != EXP_REQUEST_TEXT - 1)
        return false;
    for (int i = 0; i < 16; i++) {
        if ((i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
            return false;
        int high = hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);
        if (low < 0)
            return false;
        result.bytes[i] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    *id = result;
    return true;
}

/* ---- operations ---- */

void exp_ops_init(struct exp_ops *ops)
{
    *ops = (struct exp_ops){0};
}

void exp_ops_fini(struct exp_ops *ops)
{
    ebb_free(ops->items);
    ebb_free(ops->creates);
    ebb_free(ops->values);
    exp_ops_init(ops);
}

void exp_ops_clear(struct exp_ops *ops)
{
    ops->count = ops->create_count = ops->value_count = 0;
}

enum ebb_status exp_ops_copy(struct exp_ops *to, const struct exp_ops *from,
                             const struct exp_op *op, size_t params, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&to->items, &to->capacity, to->count + 1, sizeof *to->items, err));
    struct exp_op copy = *op;
    if (op->kind == EXP_OP_CREATE) {
        struct exp_create create = from->creates[op->create];
        EBB_TRY(ebb_grow(&to->creates, &to->create_capacity, to->create_count + 1,
                         sizeof *to->creates, err));
        if (params > 0) {
            EBB_TRY(ebb_grow(&to->values, &to->value_capacity, to->value_count + params,
                             sizeof *to->values, err));
            memcpy(to->values + to->value_count, from->values + create.values,
                   params * sizeof *to->values);
            create.values = to->value_count;
            to->value_count += params;
        }
        copy.create = to->create_count;
        to->creates[to->create_count++] = create;
    }
    to->items[to->count++] = copy;
    return EBB_OK;
}

enum ebb_status exp_ops_hparams(const struct exp_ops *ops, const struct exp_op *op,
                                const struct exp_hparams *space, struct ebb_arena *arena,
                                const struct ebb_doc_node **hparams, struct ebb_error *err)
{
    const struct exp_create *create = &ops->creates[op->create];
    const struct ebb_doc_node *doc = exp_sample_doc(arena, space, ops->values + create->values);
    if (doc == NULL)
        return ebb_no_memory(err, 0);
    *hparams = doc;
    return EBB_OK;
}

static void write_request(struct ebb_json_writer *w, const char *key, struct exp_request_id id)
{
    char text[EXP_REQUEST_TEXT];
    ebb_jsonw_key_string(w, key, exp_request_format(id, text));
}

static void write_create(const struct exp_create *create, const struct ebb_doc_node *hparams,
                         struct ebb_json_writer *w)
{
    ebb_jsonw_key_int(w, "trial_seed", create->trial_seed);
    ebb_jsonw_key(w, "hparams");
    if (hparams != NULL)
        ebb_doc_write_json(hparams, w);
    else
        ebb_jsonw_null(w);
    if (create->has_source) {
        write_request(w, "source_request_id", create->source);
        ebb_jsonw_key_int(w, "source_step", create->source_step);
    }
}

void exp_op_write(const struct exp_ops *ops, const struct exp_op *op,
                  const struct ebb_doc_node *hparams, struct ebb_json_writer *w)
{
    static const char *const names[] = {"create",     "train", "validate",
                                        "checkpoint", "close", "shutdown"};
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "type", names[op->kind]);
    if (op->kind != EXP_OP_SHUTDOWN)
        write_request(w, "request_id", op->request);
    if (op->kind == EXP_OP_CREATE)
        write_create(&ops->creates[op->create], hparams, w);
    if (op->kind == EXP_OP_TRAIN) {
        ebb_jsonw_key_int(w, "first_step", op->first_step);
        ebb_jsonw_key_int(w, "last_step", op->last_step);
    }
    if (op->kind == EXP_OP_VALIDATE || op->kind == EXP_OP_CHECKPOINT)
        ebb_jsonw_key_int(w, "step", op->last_step);
    if (op->kind == EXP_OP_SHUTDOWN)
        ebb_jsonw_key_bool(w, "failure", op->is_failure);
    ebb_jsonw_object_end(w);
}

/* ---- events ---- */

static const char *const event_names[] = {
    "trial_created",        "step_completed", "validation_completed",
    "checkpoint_completed", "trial_closed",   "trial_exited_early",
};

static const char *const exit_names[] = {"ERRORED", "INVALID_HP", "USER_CANCELED"};

const char *exp_event_name(enum exp_event_kind kind)
{
    return event_names[kind];
}

const char *exp_exit_name(enum exp_exit_reason reason)
{
    return exit_names[reason];
}

void exp_event_write(const struct exp_event *event, struct ebb_json_writer *w)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "type", exp_event_name(event->kind));
    write_request(w, "request_id", event->request);
    if (event->kind == EXP_EVENT_CREATED)
        ebb_jsonw_key_int(w, "trial_id", event->trial_id);
    if (event->kind == EXP_EVENT_TRAINED || event->kind == EXP_EVENT_VALIDATED ||
        event->kind == EXP_EVENT_CHECKPOINTED)
        ebb_jsonw_key_int(w, "step", event->step);
    if (event->kind == EXP_EVENT_VALIDATED) {
        ebb_jsonw_key(w, "metric");
        ebb_jsonw_metric(w, event->metric);
    }
    if (event->kind == EXP_EVENT_EXITED)
        ebb_jsonw_key_string(w, "reason", exp_exit_name(event->reason));
    ebb_jsonw_object_end(w);
}

bool exp_metric_read(const struct ebb_doc_node *node, double *value)
{
    if (node == NULL)
        return false;
    if (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE) {
        *value = node->number;
        return true;
    }
    if (node->kind != EBB_DOC_STRING)
        return false;
    if (strcmp(node->text, "NaN") == 0)
        *value = (double)NAN;
    else if (strcmp(node->text, "Infinity") == 0)
        *value = (double)INFINITY;
    else if (strcmp(node->text, "-Infinity") == 0)
        *value = -(double)INFINITY;
    else
        return false;
    return true;
}

enum ebb_status exp_event_read(const struct ebb_doc_node *node, struct exp_event *event,
                               struct ebb_error *err)
{
    struct exp_event result = {0};
    const char *type = ebb_doc_string(node, "type", NULL);
    int kind = ebb_name_index(type, event_names, sizeof event_names / sizeof *event_names);
    if (kind < 0)
        return ebb_fail(err, EBB_EINPUT, "search event: type is %s%s%s", type != NULL ? "'" : "",
                        type != NULL ? type : "missing", type != NULL ? "'" : "");
    result.kind = (enum exp_event_kind)kind;
    const struct ebb_doc_node *id = ebb_doc_get(node, "request_id");
    if (id == NULL || id->kind != EBB_DOC_STRING ||
        !exp_request_parse(id->text, id->length, &result.request))
        return ebb_fail(err, EBB_EINPUT, "search event %s: request_id is no UUID", type);
    result.trial_id = ebb_doc_int(node, "trial_id", 0);
    result.step = ebb_doc_int(node, "step", 0);
    if ((kind == EXP_EVENT_TRAINED || kind == EXP_EVENT_VALIDATED ||
         kind == EXP_EVENT_CHECKPOINTED) &&
        result.step < 1)
        return ebb_fail(err, EBB_EINPUT, "search event %s: step is missing or below 1", type);
    if (kind == EXP_EVENT_VALIDATED &&
        !exp_metric_read(ebb_doc_get(node, "metric"), &result.metric))
        return ebb_fail(err, EBB_EINPUT, "search event %s: metric is no number", type);
    if (kind == EXP_EVENT_EXITED) {
        const char *reason = ebb_doc_string(node, "reason", NULL);
        int index = ebb_name_index(reason, exit_names, sizeof exit_names / sizeof *exit_names);
        if (index < 0)
            return ebb_fail(err, EBB_EINPUT,
                            "search event %s: reason is '%s', allowed: ERRORED, INVALID_HP, "
                            "USER_CANCELED",
                            type, reason != NULL ? reason : "");
        result.reason = (enum exp_exit_reason)index;
    }
    *event = result;
    return EBB_OK;
}

/* ---- metrics ---- */

enum ebb_status exp_metric_find(const struct ebb_doc_node *metrics, const char *metric,
                                double *value, struct ebb_error *err)
{
    const struct ebb_doc_node *node = ebb_doc_get(metrics, metric);
    if (exp_metric_read(node, value))
        return EBB_OK;
    struct ebb_str names = {0};
    for (size_t i = 0; metrics != NULL && metrics->kind == EBB_DOC_MAP && i < metrics->count; i++)
        ebb_str_printf(&names, "%s%s", i > 0 ? ", " : "", metrics->keys[i]->text);
    if (node == NULL)
        ebb_fail(err, EBB_EINPUT, "searcher metric '%s' is not among the validation metrics: %s",
                 metric, names.length > 0 ? ebb_str_c(&names) : "(none)");
    else
        ebb_fail(err, EBB_EINPUT,
                 "searcher metric '%s' must be a number, found %s; validation metrics: %s", metric,
                 ebb_doc_kind_text(node->kind), ebb_str_c(&names));
    ebb_str_fini(&names);
    return EBB_EINPUT;
}

double exp_metric_signed(double reported, bool smaller_is_better)
{
    if (isnan(reported))
        return DBL_MAX; /* +DBL_MAX when minimising, -DBL_MAX (turned here) when maximising */
    return smaller_is_better ? reported : -reported;
}
