/* text_read.c - lines of JSON (docs/formats/trace.md) into a trace: a head, then ops and commands in
 * order. A line is collected into a record first, as its keys may come in any order; rows say which
 * keys there are, and a line has keys of one group only. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/json.h"
#include "base/str.h"
#include "trace/builder.h"

struct ids {
    uint32_t *items; /* owned */
    size_t count, capacity;
};

struct outputs {
    struct trace_output *items; /* owned */
    size_t count, capacity;
};

struct record { /* one line */
    uint64_t version, fixed_bytes, cost_ns, workspace, partner, backward;
    struct ebb_str name, op, label, attr;
    struct ids in, handles;
    struct outputs out;
    unsigned phase;
    bool is_leaf, is_once, can_skip;
};

enum group { HEAD, OP, RELEASE, GET, PIN, BACKWARD };
enum type { TEXT, HEX, NUMBER, FLAG, IDS, OUTPUTS, PHASE };

static const struct row {
    const char *name;
    enum group group;
    enum type type;
    size_t at;
} rows[] = {
    {"ebb_trace", HEAD, NUMBER, offsetof(struct record, version)},
    {"name", HEAD, TEXT, offsetof(struct record, name)},
    {"graph_fixed_bytes", HEAD, NUMBER, offsetof(struct record, fixed_bytes)},
    {"op", OP, TEXT, offsetof(struct record, op)},
    {"in", OP, IDS, offsetof(struct record, in)},
    {"out", OP, OUTPUTS, offsetof(struct record, out)},
    {"ns", OP, NUMBER, offsetof(struct record, cost_ns)},
    {"workspace", OP, NUMBER, offsetof(struct record, workspace)},
    {"phase", OP, PHASE, offsetof(struct record, phase)},
    {"label", OP, TEXT, offsetof(struct record, label)},
    {"of", OP, NUMBER, offsetof(struct record, partner)},
    {"leaf", OP, FLAG, offsetof(struct record, is_leaf)},
    {"once", OP, FLAG, offsetof(struct record, is_once)},
    {"skip", OP, FLAG, offsetof(struct record, can_skip)},
    {"attr", OP, HEX, offsetof(struct record, attr)},
    {"release", RELEASE, IDS, offsetof(struct record, handles)},
    {"get", GET, IDS, offsetof(struct record, handles)},
    {"pin", PIN, IDS, offsetof(struct record, handles)},
    {"backward", BACKWARD, NUMBER, offsetof(struct record, backward)},
};
enum { ROWS = sizeof rows / sizeof *rows };
enum { R_VERSION, R_FIXED = 2, R_OP, R_OUT = 5, R_PARTNER = 10 };

struct reader {
    struct ebb_json json;
    struct ebb_error *err;
    struct trace_builder *builder;
    struct record record;
    struct ebb_str name; /* of the trace */
    unsigned has;        /* bit i: the line has key i */
    uint32_t line;       /* where it begins */
    uint32_t *lines;     /* per command; owned */
    size_t line_capacity;
    bool has_head;
};

__attribute__((format(printf, 3, 4))) static enum ebb_status
bad(const struct reader *r, const struct ebb_json_event *at, const char *fmt, ...)
{
    char message[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (at)
        return ebb_fail(r->err, EBB_EINPUT, "%s:%u:%u: %s", r->json.name, at->line, at->column,
                        message);
    return ebb_fail(r->err, EBB_EINPUT, "%s:%u: %s", r->json.name, r->line, message);
}

/* ---- values ---------------------------------------------------------------------------------- */

static enum ebb_status next(struct reader *r, struct ebb_json_event *e)
{
    return ebb_json_next(&r->json, e, r->err);
}

static enum ebb_status take_number(struct reader *r, const struct ebb_json_event *e,
                                   const char *key, uint64_t most, uint64_t *to)
{
    if (e->kind != EBB_JSON_INT || e->integer < 0 || (uint64_t)e->integer > most)
        return bad(r, e, "\"%s\": allowed: a whole number from 0 to %llu", key,
                   (unsigned long long)most);
    *to = (uint64_t)e->integer;
    return EBB_OK;
}

static enum ebb_status take_text(struct reader *r, const struct ebb_json_event *e, const char *key,
                                 struct ebb_str *to)
{
    ebb_str_clear(to);
    if (e->kind != EBB_JSON_STRING || memchr(e->text, 0, e->length))
        return bad(r, e, "\"%s\": allowed: text", key);
    ebb_str_addn(to, e->text, e->length);
    return ebb_str_status(to, r->err);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum ebb_status take_hex(struct reader *r, const struct ebb_json_event *e, const char *key,
                                struct ebb_str *to)
{
    ebb_str_clear(to);
    bool is_good = e->kind == EBB_JSON_STRING && e->length % 2 == 0;
    for (size_t i = 0; is_good && i < e->length; i += 2) {
        int high = digit(e->text[i]), low = digit(e->text[i + 1]);
        is_good = high >= 0 && low >= 0;
        ebb_str_addc(to, (char)(high * 16 + low));
    }
    return is_good ? ebb_str_status(to, r->err)
                   : bad(r, e, "\"%s\": allowed: two digits 0-9, a-f for each byte", key);
}

static enum ebb_status take_phase(struct reader *r, const struct ebb_json_event *e, unsigned *to)
{
    static const char letters[] = "fbu";
    const char *at =
        e->kind == EBB_JSON_STRING && e->length == 1 ? memchr(letters, *e->text, 3) : NULL;
    if (!at)
        return bad(r, e, "\"phase\": allowed: \"f\", \"b\" or \"u\"");
    *to = (unsigned)(at - letters);
    return EBB_OK;
}

static enum ebb_status take_ids(struct reader *r, struct ebb_json_event *e, const char *key,
                                struct ids *to)
{
    uint64_t id = 0;
    if (e->kind != EBB_JSON_ARRAY)
        return bad(r, e, "\"%s\": allowed: a list of tensors", key);
    for (to->count = 0;;) {
        EBB_TRY(next(r, e));
        if (e->kind == EBB_JSON_ARRAY_END)
            return EBB_OK;
        if (r->builder->tensor_count == 0)
            return bad(r, e, "\"%s\": no op has made a tensor so far", key);
        EBB_TRY(take_number(r, e, key, r->builder->tensor_count - 1, &id));
        EBB_TRY(ebb_grow(&to->items, &to->capacity, to->count + 1, sizeof *to->items, r->err));
        to->items[to->count++] = (uint32_t)id;
    }
}

/* 4096, {"view": 0} or {"mutate": 0} */
static enum ebb_status take_output(struct reader *r, struct ebb_json_event *e,
                                   struct trace_output *to)
{
    uint64_t number = 0;
    *to = (struct trace_output){.alias = TRACE_FRESH};
    if (e->kind != EBB_JSON_OBJECT)
        return take_number(r, e, "out", TRACE_MAX_BYTES, &to->bytes);
    EBB_TRY(next(r, e));
    bool is_view = e->kind == EBB_JSON_KEY && e->length == 4 && memcmp(e->text, "view", 4) == 0;
    bool is_write = e->kind == EBB_JSON_KEY && e->length == 6 && memcmp(e->text, "mutate", 6) == 0;
    if (!is_view && !is_write)
        return bad(r, e, "\"out\": allowed: bytes, {\"view\": i} or {\"mutate\": i}");
    EBB_TRY(next(r, e));
    EBB_TRY(take_number(r, e, "out", TRACE_MAX_INDEX, &number));
    to->alias = is_view ? TRACE_VIEW : TRACE_MUTATE;
    to->alias_input = (uint32_t)number;
    EBB_TRY(next(r, e));
    return e->kind == EBB_JSON_OBJECT_END ? EBB_OK : bad(r, e, "\"out\": one key for each output");
}

static enum ebb_status take_outputs(struct reader *r, struct ebb_json_event *e, struct outputs *to)
{
    if (e->kind != EBB_JSON_ARRAY)
        return bad(r, e, "\"out\": allowed: a list");
    for (to->count = 0;; to->count++) {
        EBB_TRY(next(r, e));
        if (e->kind == EBB_JSON_ARRAY_END)
            return EBB_OK;
        EBB_TRY(ebb_grow(&to->items, &to->capacity, to->count + 1, sizeof *to->items, r->err));
        EBB_TRY(take_output(r, e, &to->items[to->count]));
    }
}

static enum ebb_status take_value(struct reader *r, const struct row *row)
{
    struct ebb_json_event e;
    void *field = (char *)&r->record + row->at;
    EBB_TRY(next(r, &e));
    switch (row->type) {
    case TEXT:
        return take_text(r, &e, row->name, field);
    case HEX:
        return take_hex(r, &e, row->name, field);
    case NUMBER:
        return take_number(r, &e, row->name, TRACE_MAX_BYTES, field);
    case PHASE:
        return take_phase(r, &e, field);
    case IDS:
        return take_ids(r, &e, row->name, field);
    case OUTPUTS:
        return take_outputs(r, &e, field);
    case FLAG:
        break;
    }
    if (e.kind != EBB_JSON_BOOL)
        return bad(r, &e, "\"%s\": allowed: true or false", row->name);
    *(bool *)field = e.boolean;
    return EBB_OK;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static enum ebb_status unknown(const struct reader *r, const struct ebb_json_event *e)
{
    const char *names[ROWS];
    char key[64];
    for (size_t i = 0; i < ROWS; i++)
        names[i] = rows[i].name;
    snprintf(key, sizeof key, "%.*s", (int)(e->length < 60 ? e->length : 60), e->text);
    const char *near = ebb_nearest(key, names, ROWS);
    return bad(r, e, "unknown key \"%s\"%s%s", key, near ? ", nearest: " : "", near ? near : "");
}

static enum ebb_status take_member(struct reader *r, const struct ebb_json_event *e)
{
    size_t i = 0, first = 0;
    while (i < ROWS &&
           (strlen(rows[i].name) != e->length || memcmp(rows[i].name, e->text, e->length) != 0))
        i++;
    if (i == ROWS)
        return unknown(r, e);
    if (r->has & 1u << i)
        return bad(r, e, "\"%s\" is given twice", rows[i].name);
    while (r->has && !(r->has & 1u << first))
        first++;
    if (r->has && rows[first].group != rows[i].group)
        return bad(r, e, "\"%s\" does not belong to a line with \"%s\"", rows[i].name,
                   rows[first].name);
    r->has |= 1u << i;
    return take_value(r, &rows[i]);
}

/* Commands that were added since then stand on this line. */
static enum ebb_status note_lines(struct reader *r, size_t from)
{
    size_t count = r->builder->command_count;
    EBB_TRY(ebb_grow(&r->lines, &r->line_capacity, count + 1, sizeof *r->lines, r->err));
    for (size_t i = from; i < count; i++)
        r->lines[i] = r->line;
    return EBB_OK;
}

static enum ebb_status add_op(struct reader *r)
{
    const struct record *x = &r->record;
    struct trace_op_desc desc = {
        .kind_name = ebb_str_c(&x->op),
        .cost_ns = x->cost_ns,
        .workspace_bytes = x->workspace,
        .inputs = x->in.items,
        .input_count = x->in.count,
        .outputs = x->out.items,
        .output_count = x->out.count,
        .attr = x->attr.data,
        .attr_bytes = x->attr.length,
        .label = ebb_str_c(&x->label),
        .partner = r->has & 1u << R_PARTNER ? (uint32_t)x->partner : TRACE_NONE,
        .phase = (enum trace_phase)x->phase,
        .purity = x->is_once ? TRACE_ONCE : TRACE_PURE,
        .can_skip_outputs = x->can_skip,
        .is_leaf = x->is_leaf,
    };
    uint32_t made;
    struct ebb_error why = {0};
    if (!(r->has & 1u << R_OP) || !(r->has & 1u << R_OUT))
        return bad(r, NULL, "an op has \"op\" and \"out\"");
    if (x->partner >= TRACE_NONE)
        return bad(r, NULL, "\"of\": there is no op %llu", (unsigned long long)x->partner);
    enum ebb_status status = trace_builder_op(r->builder, &desc, &made, &why);
    if (status == EBB_EINPUT)
        return bad(r, NULL, "%s", why.message);
    if (status != EBB_OK && r->err)
        *r->err = why;
    return status;
}

static enum ebb_status add_head(struct reader *r)
{
    const struct record *x = &r->record;
    if (!(r->has & 1u << R_VERSION) || x->version != 1)
        return bad(r, NULL, "found version %llu, allowed: \"ebb_trace\": 1",
                   (unsigned long long)x->version);
    r->has_head = true;
    r->builder->is_graph = r->has & 1u << R_FIXED;
    r->builder->graph_fixed_bytes = x->fixed_bytes;
    ebb_str_addn(&r->name, ebb_str_c(&x->name), x->name.length);
    return ebb_str_status(&r->name, r->err);
}

static enum ebb_status add_line(struct reader *r)
{
    static const enum trace_command_kind kinds[] = {
        [RELEASE] = TRACE_RELEASE, [GET] = TRACE_GET, [PIN] = TRACE_PIN};
    size_t from = r->builder->command_count, first = 0;
    while (first < ROWS && !(r->has & 1u << first))
        first++;
    if (first == ROWS)
        return bad(r, NULL, "a line without keys");
    if ((rows[first].group == HEAD) == r->has_head)
        return bad(r, NULL,
                   r->has_head ? "a second head"
                               : "the first line is the head: {\"ebb_trace\": 1, \"name\": ...}");
    switch (rows[first].group) {
    case HEAD:
        return add_head(r);
    case OP:
        EBB_TRY(add_op(r));
        break;
    case BACKWARD:
        trace_builder_mark_backward(r->builder);
        return EBB_OK;
    case RELEASE:
    case GET:
    case PIN:
        for (size_t i = 0; i < r->record.handles.count; i++)
            EBB_TRY(trace_builder_command(r->builder, kinds[rows[first].group],
                                          r->record.handles.items[i], r->err));
    }
    return note_lines(r, from);
}

static void clear_record(struct reader *r)
{
    struct record *x = &r->record, kept = *x;
    *x = (struct record){.name = kept.name,
                         .op = kept.op,
                         .label = kept.label,
                         .attr = kept.attr,
                         .in.items = kept.in.items,
                         .in.capacity = kept.in.capacity,
                         .handles.items = kept.handles.items,
                         .handles.capacity = kept.handles.capacity,
                         .out.items = kept.out.items,
                         .out.capacity = kept.out.capacity};
    struct ebb_str *texts[] = {&x->name, &x->op, &x->label, &x->attr};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ebb_str_clear(texts[i]);
    r->has = 0;
}

static enum ebb_status read_lines(struct reader *r)
{
    struct ebb_json_event e;
    for (;;) {
        EBB_TRY(next(r, &e));
        if (e.kind == EBB_JSON_END)
            break;
        if (e.kind != EBB_JSON_OBJECT)
            return bad(r, &e, "a line must be one JSON object");
        clear_record(r);
        r->line = e.line;
        for (;;) {
            EBB_TRY(next(r, &e));
            if (e.kind == EBB_JSON_OBJECT_END)
                break;
            EBB_TRY(take_member(r, &e));
        }
        EBB_TRY(add_line(r));
    }
    r->line = r->json.line;
    return r->has_head ? EBB_OK : bad(r, NULL, "no head: {\"ebb_trace\": 1, \"name\": ...}");
}

/* ---- the whole ------------------------------------------------------------------------------- */

static uint32_t line_of_op(const struct reader *r, const struct trace *t, size_t op)
{
    for (uint32_t c = 0; c < t->command_count; c++)
        if (t->commands[c].kind == TRACE_RUN && t->commands[c].index == op)
            return r->lines[c];
    return r->line;
}

/* Where a rule is broken. */
static uint32_t line_of(const struct reader *r, const struct trace *t,
                        const struct trace_fault *fault)
{
    size_t i = fault->index, op = 0;
    switch (fault->part) {
    case TRACE_PART_OP:
        return line_of_op(r, t, i);
    case TRACE_PART_TENSOR:
        return i < t->tensor_count ? line_of_op(r, t, t->tensors[i].op) : r->line;
    case TRACE_PART_STORAGE:
        return i < t->storage_count ? line_of_op(r, t, t->tensors[t->storages[i].root].op)
                                    : r->line;
    case TRACE_PART_INPUT:
        while (op + 1 < t->op_count && t->ops[op + 1].input_first <= i)
            op++;
        return line_of_op(r, t, op);
    case TRACE_PART_COMMAND:
        return i < t->command_count ? r->lines[i] : r->line;
    case TRACE_PART_NONE:
    case TRACE_PART_HEADER:
        break;
    }
    return r->line;
}

static enum ebb_status finish(struct reader *r, struct trace **trace)
{
    struct trace *t = NULL;
    struct trace_fault fault = {0};
    struct ebb_error why = {0};
    EBB_TRY(trace_builder_draft(r->builder, ebb_str_c(&r->name), &t, r->err));
    enum ebb_status status = trace_check_at(t, &fault, &why);
    if (status == EBB_OK) {
        t->signature = trace_signature(t);
        *trace = t;
        return EBB_OK;
    }
    if (fault.part == TRACE_PART_NONE) /* out of memory */
        ebb_fail(r->err, status, "%s", why.message);
    else
        status = ebb_fail(r->err, EBB_EINPUT, "%s:%u: %s", r->json.name, line_of(r, t, &fault),
                          why.message);
    trace_destroy(t);
    return status;
}

enum ebb_status trace_read_text(const char *name, const char *bytes, size_t length,
                                struct trace **trace, struct ebb_error *err)
{
    struct reader r = {.err = err};
    ebb_json_init(&r.json, name, bytes, length, EBB_JSON_MANY);
    enum ebb_status status = trace_builder_create(&r.builder, err);
    EBB_THEN(status, read_lines(&r));
    EBB_THEN(status, finish(&r, trace));
    trace_builder_destroy(r.builder);
    ebb_json_fini(&r.json);
    ebb_str_fini(&r.name);
    ebb_str_fini(&r.record.name);
    ebb_str_fini(&r.record.op);
    ebb_str_fini(&r.record.label);
    ebb_str_fini(&r.record.attr);
    ebb_free(r.record.in.items);
    ebb_free(r.record.handles.items);
    ebb_free(r.record.out.items);
    ebb_free(r.lines);
    return status;
}
