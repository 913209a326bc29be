/* dtr_write.c - a trace as a DTR log (docs/formats/trace.md) that reads back as the same program
 * wherever the format can say it.
 *
 * Every handle is a name x<counter>. The reader pins, at the end, one tensor per name in order of
 * the names' insertion; which name stands where depends on whether a value came by a new name
 * (CALL, COPY) or by rebinding one (MUTATE, COPY_FROM), a difference the trace does not record. So
 * the writer starts from the likely choice (operators spelled name_ are in place), predicts what
 * the reader will pin, and where that differs from the trace tries the other choice for the tensor
 * at the first difference. What remains different, and all else the format has no words for, is
 * said in `lost`. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "trace/dtr_write.h"

#define SEARCH_STEPS                                                                               \
    UINT64_C(200000000) /* commands walked at most while looking for better choices */

/* ---- names ----------------------------------------------------------------------------------- */

static void names_reset(struct trace_dtr_writer *w)
{
    size_t bytes = ((size_t)w->t->tensor_count + 1) * sizeof(uint32_t);
    memset(w->live_head, 0xff, bytes);
    memset(w->live_tail, 0xff, bytes);
    memset(w->dead, 0xff, bytes);
    w->name_count = 0;
}

static void live_append(struct trace_dtr_writer *w, uint32_t tensor, uint32_t name)
{
    uint32_t tail = w->live_tail[tensor];
    w->bound[name] = tensor;
    w->next[name] = TRACE_NONE;
    w->previous[name] = tail;
    if (tail == TRACE_NONE)
        w->live_head[tensor] = name;
    else
        w->next[tail] = name;
    w->live_tail[tensor] = name;
}

static void live_remove(struct trace_dtr_writer *w, uint32_t tensor, uint32_t name)
{
    uint32_t before = w->previous[name], after = w->next[name];
    if (before == TRACE_NONE)
        w->live_head[tensor] = after;
    else
        w->next[before] = after;
    if (after == TRACE_NONE)
        w->live_tail[tensor] = before;
    else
        w->previous[after] = before;
}

static uint32_t name_new(struct trace_dtr_writer *w, uint32_t tensor, bool is_first)
{
    uint32_t name = w->name_count++;
    w->is_first[name] = is_first;
    live_append(w, tensor, name);
    return name;
}

/* Which handle a RELEASE drops is free, as long as nothing is rebound. Recorded programs drop the
 * handle a value is born with as soon as a variable holds a copy, and else the youngest; so the
 * name of the variable stays. */
static uint32_t released_name(const struct trace_dtr_writer *w, uint32_t tensor)
{
    uint32_t head = w->live_head[tensor];
    return w->is_first[head] ? head : w->live_tail[tensor];
}

/* The name a MUTATE or COPY_FROM gives another value: the variable's. */
static uint32_t rebound_name(const struct trace_dtr_writer *w, uint32_t tensor)
{
    uint32_t head = w->live_head[tensor];
    return head != TRACE_NONE && w->is_first[head] && w->next[head] != TRACE_NONE ? w->next[head]
                                                                                  : head;
}

static void rebind(struct trace_dtr_writer *w, uint32_t from, uint32_t to, uint32_t name)
{
    live_remove(w, from, name);
    w->is_first[name] = false;
    live_append(w, to, name);
}

/* Any name that means this tensor now: a handle, or one released but not rebound. */
static uint32_t name_of(const struct trace_dtr_writer *w, uint32_t tensor)
{
    return w->live_head[tensor] != TRACE_NONE ? w->live_head[tensor] : w->dead[tensor];
}

/* May a handle of `tensor` be given away at command `at`? Later readers need some name. */
static bool can_rebind(const struct trace_dtr_writer *w, uint32_t tensor, uint32_t at)
{
    uint32_t name = w->live_head[tensor];
    return name != TRACE_NONE && (w->next[name] != TRACE_NONE || w->dead[tensor] != TRACE_NONE ||
                                  w->last_use[tensor] <= at);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void put_text(struct trace_dtr_writer *w, const char *text)
{
    if (w->out != NULL)
        ebb_str_add(w->out, text);
}

static void put_name(struct trace_dtr_writer *w, uint32_t name)
{
    if (w->out == NULL)
        return;
    char digits[16];
    char *p = digits + sizeof digits;
    *--p = '"';
    do
        *--p = (char)('0' + name % 10);
    while ((name /= 10) > 0);
    *--p = 'x';
    *--p = '"';
    ebb_str_addn(w->out, p, (size_t)(digits + sizeof digits - p));
}

static void put_number(struct trace_dtr_writer *w, uint64_t value)
{
    if (w->out != NULL)
        ebb_str_printf(w->out, "\"%llu\"", (unsigned long long)value);
}

static void put_kind(struct trace_dtr_writer *w, const char *name)
{
    if (w->out == NULL)
        return;
    struct ebb_json_writer json;
    ebb_jsonw_init(&json, w->out, 0);
    ebb_jsonw_string(&json, name);
}

static void put_handle(struct trace_dtr_writer *w, const char *instruction, uint32_t name)
{
    put_text(w, "{\"INSTRUCTION\":\"");
    put_text(w, instruction);
    put_text(w, "\",\"NAME\":");
    put_name(w, name);
    put_text(w, "}\n");
}

static void put_memory(struct trace_dtr_writer *w, uint32_t name, uint64_t bytes)
{
    put_text(w, "{\"INSTRUCTION\":\"MEMORY\",\"MEMORY\":");
    put_number(w, bytes);
    put_text(w, ",\"NAME\":");
    put_name(w, name);
    put_text(w, "}\n");
}

static void put_copy(struct trace_dtr_writer *w, const char *instruction, uint32_t to,
                     uint32_t from)
{
    put_text(w, "{\"DST\":");
    put_name(w, to);
    put_text(w, ",\"INSTRUCTION\":\"");
    put_text(w, instruction);
    put_text(w, "\",\"SRC\":");
    put_name(w, from);
    put_text(w, "}\n");
}

/* ---- commands -------------------------------------------------------------------------------- */

static uint64_t tensor_bytes(const struct trace *t, uint32_t tensor)
{
    return t->storages[t->tensors[tensor].storage].bytes;
}

/* A leaf: one CONSTANT per output; the PIN the reader adds behind each is taken from the trace
 * where it stands. */
static uint32_t write_leaf(struct trace_dtr_writer *w, uint32_t at, const struct trace_op *op)
{
    const struct trace *t = w->t;
    uint32_t taken = 1;
    for (uint32_t i = 0; i < op->output_count; i++) {
        uint32_t tensor = op->output_first + i, name = name_new(w, tensor, true);
        put_handle(w, "CONSTANT", name);
        put_memory(w, name, tensor_bytes(t, tensor));
        if (at + taken < t->command_count && t->commands[at + taken].kind == TRACE_PIN &&
            t->commands[at + taken].index == tensor)
            taken++;
    }
    return taken;
}

/* Could the op run by command `at` be a MUTATE: are its inputs released right behind it, sizes
 * equal, one per output? */
static bool mutate_fits(const struct trace *t, uint32_t at)
{
    const struct trace_op *op = &t->ops[t->commands[at].index];
    if (op->is_leaf || t->command_count - at <= op->output_count)
        return false;
    for (uint32_t i = 0; i < op->output_count; i++) {
        const struct trace_command *next = &t->commands[at + 1 + i];
        const struct trace_tensor *x = trace_output_of(t, op, i);
        bool is_input = false;
        if (next->kind != TRACE_RELEASE || x->alias == TRACE_VIEW ||
            tensor_bytes(t, next->index) != tensor_bytes(t, op->output_first + i))
            return false;
        for (uint32_t k = 0; k < op->input_count; k++)
            is_input |= t->inputs[op->input_first + k] == next->index;
        for (uint32_t k = 0; k < i; k++)
            if (t->commands[at + 1 + k].index == next->index)
                return false;
        if (!is_input)
            return false;
    }
    return true;
}

/* One line of the log cannot hold the beginning of the backward pass in its middle. */
static bool is_marked_inside(const struct trace *t, uint32_t at, uint32_t behind)
{
    return t->backward_command > at && t->backward_command - at <= behind;
}

static bool mutate_possible(const struct trace_dtr_writer *w, uint32_t at)
{
    const struct trace_op *op = &w->t->ops[w->t->commands[at].index];
    for (uint32_t i = 0; i < op->output_count; i++)
        if (!can_rebind(w, w->t->commands[at + 1 + i].index, at + op->output_count))
            return false;
    return !is_marked_inside(w->t, at, op->output_count);
}

static void put_args(struct trace_dtr_writer *w, const struct trace_op *op, bool is_mutate)
{
    put_text(w, "{\"ARGS\":[");
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t tensor = w->t->inputs[op->input_first + i], name = name_of(w, tensor);
        if (is_mutate && w->live_head[tensor] != TRACE_NONE)
            name = rebound_name(w, tensor);
        if (name == TRACE_NONE)
            w->is_nameless = true;
        put_text(w, i > 0 ? "," : "");
        put_name(w, name);
    }
}

static uint32_t write_mutate(struct trace_dtr_writer *w, uint32_t at, const struct trace_op *op)
{
    const struct trace *t = w->t;
    put_args(w, op, true);
    put_text(w, "],\"INSTRUCTION\":\"MUTATE\",\"MUTATE\":[");
    for (uint32_t i = 0; i < op->output_count; i++) {
        uint32_t old = t->commands[at + 1 + i].index, index = 0;
        while (t->inputs[op->input_first + index] != old)
            index++;
        if (w->out != NULL)
            ebb_str_printf(w->out, "%s%u", i > 0 ? "," : "", index);
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        uint32_t old = t->commands[at + 1 + i].index;
        rebind(w, old, op->output_first + i, rebound_name(w, old));
    }
    put_text(w, "],\"NAME\":");
    put_kind(w, op->kind->name);
    put_text(w, ",\"TIME\":");
    put_number(w, op->cost_ns);
    put_text(w, "}\n");
    return 1 + op->output_count;
}

static uint32_t write_call(struct trace_dtr_writer *w, const struct trace_op *op)
{
    const struct trace *t = w->t;
    uint32_t first = w->name_count;
    put_args(w, op, false);
    put_text(w, "],\"INSTRUCTION\":\"CALL\",\"NAME\":");
    put_kind(w, op->kind->name);
    put_text(w, ",\"RESULT\":[");
    for (uint32_t i = 0; i < op->output_count; i++) {
        put_text(w, i > 0 ? "," : "");
        put_name(w, name_new(w, op->output_first + i, true));
    }
    put_text(w, "],\"TIME\":");
    put_number(w, op->cost_ns);
    put_text(w, "}\n");
    for (uint32_t i = 0; w->out != NULL && i < op->output_count; i++) {
        const struct trace_tensor *x = trace_output_of(t, op, i);
        put_memory(w, first + i, tensor_bytes(t, op->output_first + i));
        ebb_str_printf(w->out, "{\"ALIAS\":\"%d\",\"INSTRUCTION\":\"ALIAS\",\"NAME\":",
                       x->alias == TRACE_VIEW ? (int)x->alias_input : -1);
        put_name(w, first + i);
        put_text(w, "}\n");
    }
    return 1;
}

static uint32_t write_release(struct trace_dtr_writer *w, uint32_t at)
{
    const struct trace_command *cmd = &w->t->commands[at];
    if (w->rebind[at] && can_rebind(w, cmd->index, at + 1) && !is_marked_inside(w->t, at, 1)) {
        uint32_t target = cmd[1].index, source = name_of(w, target);
        w->is_nameless |= source == TRACE_NONE;
        uint32_t name = rebound_name(w, cmd->index);
        put_copy(w, "COPY_FROM", name, source);
        rebind(w, cmd->index, target, name);
        return 2;
    }
    uint32_t name = released_name(w, cmd->index);
    live_remove(w, cmd->index, name);
    w->dead[cmd->index] = name;
    put_handle(w, "RELEASE", name);
    return 1;
}

/* Writes what stands at command `at`; how many commands that was. */
static uint32_t write_command(struct trace_dtr_writer *w, uint32_t at)
{
    const struct trace_command *cmd = &w->t->commands[at];
    const struct trace_op *op;
    switch ((enum trace_command_kind)cmd->kind) {
    case TRACE_RUN:
        op = &w->t->ops[cmd->index];
        if (op->is_leaf)
            return write_leaf(w, at, op);
        if (w->rebind[at] && mutate_possible(w, at))
            return write_mutate(w, at, op);
        return write_call(w, op);
    case TRACE_GET: {
        uint32_t source = name_of(w, cmd->index);
        w->is_nameless |= source == TRACE_NONE;
        put_copy(w, "COPY", name_new(w, cmd->index, false), source);
        return 1;
    }
    case TRACE_RELEASE:
        return write_release(w, at);
    case TRACE_PIN:
        break; /* the reader makes its own */
    }
    return 1;
}

/* Without an annotation the reader takes the first operator with "backward" in its name for the
 * beginning. */
static bool starts_backward(const struct trace *t, uint32_t at)
{
    const struct trace_op *op = &t->ops[t->commands[at].index];
    return t->commands[at].kind == TRACE_RUN && !op->is_leaf &&
           strstr(op->kind->name, "backward") != NULL;
}

/* Walks all commands under the current choices; writes when w->out and w->stream are set. */
static enum ebb_status walk(struct trace_dtr_writer *w, struct ebb_error *err)
{
    const struct trace *t = w->t;
    names_reset(w);
    w->is_nameless = false;
    w->mark = TRACE_NONE;
    put_text(w, "{\"ANNOTATION\":\"START\",\"INSTRUCTION\":\"ANNOTATE\"}\n");
    bool is_marked = t->backward_command == TRACE_NONE;
    for (uint32_t at = 0; at < t->command_count;) {
        if (!is_marked && at >= t->backward_command) {
            put_text(w, "{\"ANNOTATION\":\"BACKWARD\",\"INSTRUCTION\":\"ANNOTATE\"}\n");
            is_marked = true;
            w->mark = at;
        }
        if (w->out != NULL && is_marked && w->mark == TRACE_NONE && starts_backward(t, at))
            w->mark = at;
        at += write_command(w, at);
        if (w->out != NULL && w->out->length >= 1 << 16) {
            EBB_TRY(ebb_str_status(w->out, err));
            if (fwrite(w->out->data, 1, w->out->length, w->stream) != w->out->length)
                return ebb_fail(err, EBB_EIO, "writing the log failed");
            ebb_str_clear(w->out);
        }
    }
    if (w->is_nameless)
        return ebb_fail(err, EBB_EINTERNAL, "a tensor lost its last name before its last use");
    return EBB_OK;
}

/* ---- choices --------------------------------------------------------------------------------- */

/* First pin that the reader will make differently, or SIZE_MAX when all agree. *theirs = the tensor
 * it will pin there, or TRACE_NONE. */
static size_t pins_differ(const struct trace_dtr_writer *w, uint32_t *theirs)
{
    size_t at = 0;
    *theirs = TRACE_NONE;
    for (uint32_t name = 0; name < w->name_count; name++) {
        uint32_t tensor = w->bound[name];
        if (w->live_head[tensor] == TRACE_NONE)
            continue;
        if (at == w->pin_count || w->t->commands[w->pin_first + at].index != tensor) {
            *theirs = tensor;
            return at;
        }
        at++;
    }
    return at == w->pin_count ? SIZE_MAX : at;
}

/* May the choice at command `at` move a pin of `tensor`? */
static bool is_choice(const struct trace *t, uint32_t at, uint32_t tensor)
{
    const struct trace_command *cmd = &t->commands[at];
    if (cmd->kind == TRACE_RELEASE)
        return at + 1 < t->command_count && cmd[1].kind == TRACE_GET && cmd[1].index == tensor;
    if (cmd->kind != TRACE_RUN)
        return false;
    const struct trace_op *op = &t->ops[cmd->index];
    return tensor >= op->output_first && tensor - op->output_first < op->output_count &&
           mutate_fits(t, at);
}

/* Flips one choice about either tensor of the first difference so that it moves back; false when
 * none does. */
static bool improve(struct trace_dtr_writer *w, size_t *differ, uint32_t *theirs)
{
    const struct trace *t = w->t;
    uint32_t ours =
        *differ < w->pin_count ? (uint32_t)t->commands[w->pin_first + *differ].index : TRACE_NONE;
    w->steps += t->command_count;
    for (uint32_t at = 0; at < t->command_count; at++) {
        if (!is_choice(t, at, ours) && !is_choice(t, at, *theirs))
            continue;
        if (w->steps + t->command_count > SEARCH_STEPS)
            return false;
        w->steps += t->command_count;
        w->rebind[at] ^= 1;
        uint32_t their_next = TRACE_NONE;
        size_t next = walk(w, NULL) == EBB_OK ? pins_differ(w, &their_next) : 0;
        if (next > *differ) {
            *differ = next;
            *theirs = their_next;
            return true;
        }
        w->rebind[at] ^= 1;
    }
    return false;
}

static void find_pins(struct trace_dtr_writer *w)
{
    const struct trace *t = w->t;
    uint32_t first = t->command_count;
    while (first > 0 && t->commands[first - 1].kind == TRACE_PIN)
        first--;
    /* pins directly behind a leaf belong to it */
    if (first > 0 && t->commands[first - 1].kind == TRACE_RUN) {
        const struct trace_op *op = &t->ops[t->commands[first - 1].index];
        for (uint32_t i = 0; op->is_leaf && i < op->output_count && first < t->command_count; i++)
            first += t->commands[first].index == op->output_first + i;
    }
    w->pin_first = first;
    w->pin_count = t->command_count - first;
}

static void find_uses(struct trace_dtr_writer *w)
{
    const struct trace *t = w->t;
    for (uint32_t at = 0; at < t->command_count; at++) {
        const struct trace_command *cmd = &t->commands[at];
        if (cmd->kind == TRACE_GET)
            w->last_use[cmd->index] = at;
        if (cmd->kind != TRACE_RUN)
            continue;
        const struct trace_op *op = &t->ops[cmd->index];
        for (uint32_t i = 0; i < op->input_count; i++)
            w->last_use[t->inputs[op->input_first + i]] = at;
        size_t length = strlen(op->kind->name);
        bool in_place =
            op->kind->purity == TRACE_MUTATING || (length > 0 && op->kind->name[length - 1] == '_');
        w->rebind[at] = in_place && mutate_fits(t, at);
    }
}

static enum ebb_status writer_init(struct trace_dtr_writer *w, const struct trace *t,
                                   struct ebb_error *err)
{
    size_t tensors = (size_t)t->tensor_count + 1;
    size_t names = tensors + t->command_count; /* at most one per tensor and one per GET */
    *w = (struct trace_dtr_writer){.t = t};
    w->live_head = ebb_arena_calloc(&w->arena, tensors, sizeof(uint32_t));
    w->live_tail = ebb_arena_calloc(&w->arena, tensors, sizeof(uint32_t));
    w->dead = ebb_arena_calloc(&w->arena, tensors, sizeof(uint32_t));
    w->last_use = ebb_arena_calloc(&w->arena, tensors, sizeof(uint32_t));
    w->bound = ebb_arena_calloc(&w->arena, names, sizeof(uint32_t));
    w->next = ebb_arena_calloc(&w->arena, names, sizeof(uint32_t));
    w->previous = ebb_arena_calloc(&w->arena, names, sizeof(uint32_t));
    w->is_first = ebb_arena_calloc(&w->arena, names, sizeof(bool));
    w->rebind = ebb_arena_calloc(&w->arena, (size_t)t->command_count + 1, 1);
    return ebb_arena_status(&w->arena, err);
}

static enum ebb_status write_file(struct trace_dtr_writer *w, const char *path,
                                  struct ebb_error *err)
{
    struct ebb_file_out file;
    struct ebb_str text = {0};
    EBB_TRY(ebb_file_out_open(&file, path, err));
    w->out = &text;
    w->stream = file.stream;
    enum ebb_status status = walk(w, err);
    EBB_THEN(status, ebb_str_status(&text, err));
    if (status == EBB_OK && text.length > 0 &&
        fwrite(text.data, 1, text.length, file.stream) != text.length)
        status = ebb_fail(err, EBB_EIO, "%s: writing the log failed", path);
    EBB_THEN(status, ebb_file_out_commit(&file, err));
    ebb_file_out_abort(&file);
    ebb_str_fini(&text);
    return status;
}

enum ebb_status trace_write_dtr(const struct trace *trace, const char *path, char *lost,
                                size_t lost_size, struct ebb_error *err)
{
    struct trace_dtr_writer w;
    uint32_t theirs = TRACE_NONE;
    enum ebb_status status = writer_init(&w, trace, err);
    if (status == EBB_OK) {
        find_pins(&w);
        find_uses(&w);
        status = walk(&w, err);
    }
    if (status == EBB_OK) {
        size_t differ = pins_differ(&w, &theirs);
        while (differ != SIZE_MAX && improve(&w, &differ, &theirs))
            ;
        status = write_file(&w, path, err);
    }
    if (status == EBB_OK && lost != NULL)
        trace_dtr_lost(&w, pins_differ(&w, &theirs) == SIZE_MAX, lost, lost_size);
    ebb_arena_fini(&w.arena);
    return status;
}
