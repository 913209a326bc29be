/* text_write.c - a trace as lines of JSON (docs/formats/trace.md): everything that it says, for
 * programs that have no native files. */
#include <string.h>

#include "base/crypto.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "trace/trace.h"

struct writer {
    const struct trace *t;
    struct ebb_str line;
    struct ebb_json_writer json;
    FILE *stream;
    const char *path;
};

static struct ebb_json_writer *begin(struct writer *w)
{
    ebb_str_clear(&w->line);
    ebb_jsonw_init(&w->json, &w->line, 0);
    ebb_jsonw_object(&w->json);
    return &w->json;
}

static enum ebb_status end(struct writer *w, struct ebb_error *err)
{
    ebb_jsonw_object_end(&w->json);
    ebb_str_addc(&w->line, '\n');
    EBB_TRY(ebb_str_status(&w->line, err));
    return fwrite(w->line.data, 1, w->line.length, w->stream) == w->line.length
               ? EBB_OK
               : ebb_fail(err, EBB_EIO, "%s: writing the trace failed", w->path);
}

static enum ebb_status write_head(struct writer *w, struct ebb_error *err)
{
    struct ebb_json_writer *json = begin(w);
    ebb_jsonw_key_uint(json, "ebb_trace", 1);
    ebb_jsonw_key_string(json, "name", w->t->name);
    if (w->t->is_graph)
        ebb_jsonw_key_uint(json, "graph_fixed_bytes", w->t->graph_fixed_bytes);
    return end(w, err);
}

static void write_outputs(struct ebb_json_writer *json, const struct trace *t,
                          const struct trace_op *op)
{
    ebb_jsonw_key_array(json, "out");
    for (uint32_t k = 0; k < op->output_count; k++) {
        const struct trace_tensor *x = trace_output_of(t, op, k);
        if (x->alias == TRACE_FRESH) {
            ebb_jsonw_uint(json, t->storages[x->storage].bytes);
            continue;
        }
        ebb_jsonw_object(json);
        ebb_jsonw_key_uint(json, x->alias == TRACE_VIEW ? "view" : "mutate", x->alias_input);
        ebb_jsonw_object_end(json);
    }
    ebb_jsonw_array_end(json);
}

static enum ebb_status write_attr(struct ebb_json_writer *json, const struct trace *t,
                                  const struct trace_op *op, struct ebb_error *err)
{
    char *digits;
    if (op->attr_bytes == 0)
        return EBB_OK;
    EBB_TRY(ebb_new(&digits, 2 * (size_t)op->attr_bytes + 1, 1, err));
    ebb_hex(t->attrs + op->attr_first, op->attr_bytes, digits);
    ebb_jsonw_key_string(json, "attr", digits);
    ebb_free(digits);
    return EBB_OK;
}

static enum ebb_status write_op(struct writer *w, const struct trace_op *op, struct ebb_error *err)
{
    static const char *const phases[] = {"f", "b", "u"};
    const struct trace *t = w->t;
    struct ebb_json_writer *json = begin(w);
    const char *label = trace_label(t, op);
    ebb_jsonw_key_string(json, "op", op->kind->name);
    if (op->input_count)
        ebb_jsonw_key_array(json, "in");
    for (uint32_t k = 0; k < op->input_count; k++)
        ebb_jsonw_uint(json, t->inputs[op->input_first + k]);
    if (op->input_count)
        ebb_jsonw_array_end(json);
    write_outputs(json, t, op);
    if (op->cost_ns)
        ebb_jsonw_key_uint(json, "ns", op->cost_ns);
    if (op->workspace_bytes)
        ebb_jsonw_key_uint(json, "workspace", op->workspace_bytes);
    if (op->phase != TRACE_FORWARD)
        ebb_jsonw_key_string(json, "phase", phases[op->phase]);
    if (*label)
        ebb_jsonw_key_string(json, "label", label);
    if (op->partner != TRACE_NONE)
        ebb_jsonw_key_uint(json, "of", op->partner);
    if (op->is_leaf)
        ebb_jsonw_key_bool(json, "leaf", true);
    if (op->kind->purity == TRACE_ONCE)
        ebb_jsonw_key_bool(json, "once", true);
    if (op->kind->can_skip_outputs)
        ebb_jsonw_key_bool(json, "skip", true);
    EBB_TRY(write_attr(json, t, op, err));
    return end(w, err);
}

static enum ebb_status write_backward(struct writer *w, struct ebb_error *err)
{
    ebb_jsonw_key_uint(begin(w), "backward", 1);
    return end(w, err);
}

/* Commands of one kind that follow each other are one line; *at moves to the last of them. */
static enum ebb_status write_handles(struct writer *w, uint32_t *at, struct ebb_error *err)
{
    static const char *const names[] = {
        [TRACE_GET] = "get", [TRACE_RELEASE] = "release", [TRACE_PIN] = "pin"};
    const struct trace *t = w->t;
    unsigned kind = t->commands[*at].kind;
    struct ebb_json_writer *json = begin(w);
    ebb_jsonw_key_array(json, names[kind]);
    ebb_jsonw_uint(json, t->commands[*at].index);
    while (*at + 1 < t->command_count && t->commands[*at + 1].kind == kind &&
           *at + 1 != t->backward_command)
        ebb_jsonw_uint(json, t->commands[++*at].index);
    ebb_jsonw_array_end(json);
    return end(w, err);
}

static enum ebb_status write_lines(struct writer *w, struct ebb_error *err)
{
    const struct trace *t = w->t;
    EBB_TRY(write_head(w, err));
    for (uint32_t at = 0; at < t->command_count; at++) {
        if (at == t->backward_command)
            EBB_TRY(write_backward(w, err));
        if (t->commands[at].kind == TRACE_RUN)
            EBB_TRY(write_op(w, &t->ops[t->commands[at].index], err));
        else
            EBB_TRY(write_handles(w, &at, err));
    }
    return EBB_OK;
}

enum ebb_status trace_write_text(const struct trace *trace, const char *path, struct ebb_error *err)
{
    struct ebb_file_out file;
    EBB_TRY(ebb_file_out_open(&file, path, err));
    struct writer w = {.t = trace, .stream = file.stream, .path = path};
    enum ebb_status status = write_lines(&w, err);
    EBB_THEN(status, ebb_file_out_commit(&file, err));
    ebb_file_out_abort(&file);
    ebb_str_fini(&w.line);
    return status;
}
