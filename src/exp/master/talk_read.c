/* talk_read.c - see talk.h. */
#include <math.h>
#include <string.h>

#include "exp/master/inner.h"
#include "exp/master/talk.h"

static double number(const struct ebb_doc_node *map, const char *key)
{
    double v = ebb_doc_double(map, key, 0.0);
    return v > 0 && v < 1e12 ? v : 0.0;
}

static enum ebb_status read_work(const struct ebb_doc_node *root, struct exp_workload *work,
                                 struct ebb_error *err)
{
    const struct ebb_doc_node *node = ebb_doc_get(root, "workload");
    const char *kind = ebb_doc_string(node, "kind", "");
    if (!exp_workload_parse(kind, &work->kind))
        return ebb_fail(err, EBB_EINPUT, "no workload kind \"%.40s\"", kind);
    work->step = ebb_doc_int(node, "step_id", -1);
    if (work->step < 0)
        return ebb_fail(err, EBB_EINPUT, "a workload without step_id");
    return EBB_OK;
}

static enum ebb_status read_done(const struct ebb_doc_node *root, struct exp_talk_message *m,
                                 struct ebb_error *err)
{
    m->seq = ebb_doc_int(root, "seq", -1);
    if (m->seq < 1)
        return ebb_fail(err, EBB_EINPUT, "DONE without seq");
    EBB_TRY(read_work(root, &m->work, err));
    m->start = number(root, "start");
    m->end = number(root, "end");
    m->metrics = ebb_doc_get(root, "metrics");
    if (m->metrics != NULL && m->metrics->kind == EBB_DOC_NULL)
        m->metrics = NULL;
    if (m->metrics != NULL && m->metrics->kind != EBB_DOC_MAP)
        return ebb_fail(err, EBB_EINPUT, "DONE: metrics are not a mapping");
    return EBB_OK;
}

static enum ebb_status read_failed(const struct ebb_doc_node *root, struct exp_talk_message *m,
                                   struct ebb_error *err)
{
    const char *kind = ebb_doc_string(root, "kind", "ERRORED");
    m->work.step = -1;
    m->reason = ebb_doc_string(root, "reason", "no reason given");
    for (int i = EXP_EXIT_ERRORED; i <= EXP_EXIT_USER_CANCELED; i++)
        if (strcmp(exp_exit_name((enum exp_exit_reason)i), kind) == 0) {
            m->exit_reason = (enum exp_exit_reason)i;
            return EBB_OK;
        }
    return ebb_fail(err, EBB_EINPUT, "FAILED: no kind \"%.40s\"", kind);
}

enum ebb_status exp_talk_read(struct ebb_arena *arena, const char *line, size_t length,
                              struct exp_talk_message *message, struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    *message = (struct exp_talk_message){0};
    EBB_TRY(ebb_doc_parse_json(arena, "line", line, length, &root, err));
    if (root == NULL || root->kind != EBB_DOC_MAP)
        return ebb_fail(err, EBB_EINPUT, "not a JSON object");
    const char *type = ebb_doc_string(root, "type", "");
    if (strcmp(type, "HELLO") == 0) {
        message->kind = EXP_TALK_HELLO;
        message->protocol = ebb_doc_int(root, "protocol", -1);
        message->trial_id = ebb_doc_int(root, "trial_id", -1);
        message->allocation = ebb_doc_string(root, "allocation", "");
        return EBB_OK;
    }
    if (strcmp(type, "DONE") == 0) {
        message->kind = EXP_TALK_DONE;
        return read_done(root, message, err);
    }
    if (strcmp(type, "FAILED") == 0) {
        message->kind = EXP_TALK_FAILED;
        return read_failed(root, message, err);
    }
    if (strcmp(type, "HEARTBEAT") == 0) {
        message->kind = EXP_TALK_HEARTBEAT;
        return EBB_OK;
    }
    return ebb_fail(err, EBB_EINPUT, "no message of type \"%.40s\"", type);
}

/* ---- averages ---- */

static bool is_number(const struct ebb_doc_node *n)
{
    return n != NULL && (n->kind == EBB_DOC_INT || n->kind == EBB_DOC_DOUBLE);
}

static struct ebb_doc_node *average_one(struct ebb_arena *arena, const struct ebb_doc_node *batches,
                                        const char *name)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < batches->count; i++) {
        const struct ebb_doc_node *v = ebb_doc_get(batches->items[i], name);
        if (v == NULL || v->kind == EBB_DOC_NULL)
            continue;
        if (!is_number(v))
            return ebb_doc_new(arena, EBB_DOC_NULL);
        sum += v->number;
        count++;
    }
    sum /= (double)count;
    return count == 0 || !isfinite(sum) ? ebb_doc_new(arena, EBB_DOC_NULL)
                                        : ebb_doc_new_double(arena, sum);
}

enum ebb_status exp_talk_average(struct ebb_arena *arena, const struct ebb_doc_node *batches,
                                 const struct ebb_doc_node **average, struct ebb_error *err)
{
    struct ebb_doc_node *out = ebb_doc_new(arena, EBB_DOC_MAP);
    bool is_ok = out != NULL;
    for (size_t i = 0; is_ok && i < batches->count; i++) {
        const struct ebb_doc_node *batch = batches->items[i];
        if (batch->kind != EBB_DOC_MAP)
            return ebb_fail(err, EBB_EINPUT, "batch_metrics: not a list of mappings");
        for (size_t k = 0; is_ok && k < batch->count; k++) {
            const char *name = batch->keys[k]->text;
            if (ebb_doc_get(out, name) != NULL)
                continue;
            struct ebb_doc_node *value = average_one(arena, batches, name);
            is_ok = value != NULL && ebb_doc_set(arena, out, name, value);
        }
    }
    if (!is_ok)
        return ebb_no_memory(err, sizeof *out);
    *average = out;
    return EBB_OK;
}
