/* dtr_read.c - a DTR log into a trace (docs/formats/trace.md), command for command.
 *
 * State: a map name -> tensor in order of insertion (a rebound name keeps its place) and a handle
 * count per tensor. A CALL waits for the MEMORY and ALIAS lines of its results, a CONSTANT for its
 * MEMORY line; nothing may stand between. In-place operators are copies on write: pure ops with
 * fresh outputs. At the end every name whose tensor still has a handle pins it. Errors carry
 * file:line:column. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "trace/builder.h"
#include "trace/dtr.h"

enum waiting { FOR_ANY, FOR_CONSTANT_MEMORY, FOR_MEMORY, FOR_ALIAS };

struct reader {
    const char *name;
    uint32_t line;
    struct ebb_error *err;
    struct trace_builder *builder;
    struct trace_dtr_record record;
    struct trace_dtr_names names;
    uint32_t *tensor_of; /* by number of the name */
    size_t tensor_of_capacity;
    uint32_t *handles; /* by tensor */
    size_t handle_capacity;
    struct ebb_strmap kinds; /* operator name -> const struct trace_kind * */
    enum { FORWARD, BACKWARD_BY_NAME, BACKWARD } pass;
    size_t backward_op; /* first op of the backward pass by name */
    /* the op under construction */
    enum waiting waiting;
    const struct trace_kind *kind;
    uint64_t cost_ns;
    uint32_t *inputs;
    size_t input_count, input_capacity;
    struct trace_output *outputs;
    size_t output_count, output_capacity;
    size_t output_next;  /* result the next MEMORY or ALIAS line is about */
    uint32_t first_name; /* number of the first result's name */
};

__attribute__((format(printf, 3, 4))) static enum ebb_status bad(struct reader *r, uint32_t column,
                                                                 const char *fmt, ...)
{
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return ebb_fail(r->err, EBB_EINPUT, "%s:%u:%u: %s", r->name, r->line, column, message);
}

/* For %.*s: long names are cut in messages. */
static int shown(const struct trace_dtr_text *t)
{
    return t->length < 60 ? (int)t->length : 60;
}

static bool text_is(const struct trace_dtr_text *t, const char *word)
{
    size_t n = strlen(word);
    return t->length == n && memcmp(t->text, word, n) == 0;
}

/* The value of at most `most` decimal digits (19 at most); false: something else stands there. */
static bool read_digits(const struct trace_dtr_text *t, uint32_t most, uint64_t *value)
{
    bool ok = t->length <= most;
    *value = 0;
    for (uint32_t i = 0; ok && i < t->length; i++) {
        unsigned digit = (unsigned)(unsigned char)t->text[i] - '0';
        ok = digit <= 9;
        *value = *value * 10 + digit;
    }
    return ok;
}

static enum ebb_status number_of(struct reader *r, enum trace_dtr_key key, uint64_t *value)
{
    const struct trace_dtr_text *t = &r->record.scalar[key];
    uint64_t n;
    if (!read_digits(t, 19, &n) || t->length == 0 || n > TRACE_MAX_BYTES)
        return bad(r, t->column, "%s is \"%.*s\", must be a whole number from 0 to 2^62",
                   key == DTR_TIME ? "TIME" : "MEMORY", shown(t), t->text);
    *value = n;
    return EBB_OK;
}

/* ---- names, tensors, commands ---------------------------------------------------------------- */

static enum ebb_status name_find(struct reader *r, const struct trace_dtr_text *t, uint32_t *number)
{
    *number = trace_dtr_names_find(&r->names, t);
    if (*number == TRACE_NONE)
        return bad(r, t->column, "\"%.*s\" is used before it is made", shown(t), t->text);
    return EBB_OK;
}

static enum ebb_status name_add(struct reader *r, const struct trace_dtr_text *t, uint32_t tensor)
{
    if (trace_dtr_names_find(&r->names, t) != TRACE_NONE)
        return bad(r, t->column, "\"%.*s\" exists already, a new value needs a new name", shown(t),
                   t->text);
    size_t number = r->names.count;
    EBB_TRY(
        ebb_grow(&r->tensor_of, &r->tensor_of_capacity, number + 1, sizeof *r->tensor_of, r->err));
    EBB_TRY(trace_dtr_names_add(&r->names, t, r->err));
    r->tensor_of[number] = tensor;
    return EBB_OK;
}

static enum ebb_status get(struct reader *r, uint32_t tensor)
{
    r->handles[tensor]++;
    return trace_builder_command(r->builder, TRACE_GET, tensor, r->err);
}

static enum ebb_status release(struct reader *r, uint32_t tensor, const struct trace_dtr_text *t)
{
    if (r->handles[tensor] == 0)
        return bad(r, t->column, "the value of \"%.*s\" has no handle left to release", shown(t),
                   t->text);
    r->handles[tensor]--;
    return trace_builder_command(r->builder, TRACE_RELEASE, tensor, r->err);
}

static enum ebb_status kind_find(struct reader *r, const struct trace_dtr_text *t)
{
    uint64_t found = 0;
    if (ebb_strmap_get(&r->kinds, t->text, t->length, &found)) {
        r->kind = (const struct trace_kind *)(uintptr_t)found;
        return EBB_OK;
    }
    if (memchr(t->text, '\0', t->length) != NULL)
        return bad(r, t->column, "operator name with a NUL byte");
    EBB_TRY(
        trace_builder_kind(r->builder, t->text, t->length, TRACE_PURE, false, &r->kind, r->err));
    return ebb_strmap_put(&r->kinds, t->text, t->length, (uint64_t)(uintptr_t)r->kind, r->err);
}

/* An operator with "backward" in its name begins the backward pass, unless the log says itself
 * where it begins: the logger calls some forward operators so (max_pool2d_backward). */
static void begin_backward_by_name(struct reader *r)
{
    if (r->pass != FORWARD || strstr(r->kind->name, "backward") == NULL)
        return;
    r->pass = BACKWARD_BY_NAME;
    r->backward_op = r->builder->op_count;
    trace_builder_mark_backward(r->builder);
}

static void begin_backward(struct reader *r)
{
    if (r->pass == BACKWARD)
        return;
    for (size_t i = r->backward_op; r->pass == BACKWARD_BY_NAME && i < r->builder->op_count; i++)
        r->builder->ops[i].phase = TRACE_FORWARD;
    r->pass = BACKWARD;
    trace_builder_mark_backward(r->builder);
}

/* Appends the op under construction; its outputs get one handle each. */
static enum ebb_status emit(struct reader *r, bool is_leaf, uint32_t *first)
{
    if (!is_leaf)
        begin_backward_by_name(r);
    struct trace_op_desc desc = {
        .kind = r->kind,
        .cost_ns = r->cost_ns,
        .inputs = r->inputs,
        .input_count = r->input_count,
        .outputs = r->outputs,
        .output_count = r->output_count,
        .partner = TRACE_NONE,
        .phase = r->pass == FORWARD ? TRACE_FORWARD : TRACE_BACKWARD,
        .is_leaf = is_leaf,
    };
    enum ebb_status status = trace_builder_op(r->builder, &desc, first, r->err);
    if (status != EBB_OK)
        return ebb_context(r->err, status, "%s:%u", r->name, r->line);
    EBB_TRY(ebb_grow(&r->handles, &r->handle_capacity, *first + r->output_count, sizeof *r->handles,
                     r->err));
    for (size_t i = 0; i < r->output_count; i++)
        r->handles[*first + i] = 1;
    return EBB_OK;
}

static enum ebb_status set_output_count(struct reader *r, size_t count)
{
    EBB_TRY(ebb_grow(&r->outputs, &r->output_capacity, count, sizeof *r->outputs, r->err));
    memset(r->outputs, 0, count * sizeof *r->outputs);
    r->output_count = count;
    r->output_next = 0;
    return EBB_OK;
}

/* ARGS, TIME and NAME of a CALL or MUTATE line. */
static enum ebb_status begin_op(struct reader *r)
{
    const struct trace_dtr_list *args = &r->record.args;
    EBB_TRY(kind_find(r, &r->record.scalar[DTR_NAME]));
    EBB_TRY(number_of(r, DTR_TIME, &r->cost_ns));
    EBB_TRY(ebb_grow(&r->inputs, &r->input_capacity, args->count, sizeof *r->inputs, r->err));
    r->input_count = args->count;
    for (size_t i = 0; i < args->count; i++) {
        uint32_t number;
        EBB_TRY(name_find(r, &args->items[i], &number));
        r->inputs[i] = r->tensor_of[number];
    }
    return EBB_OK;
}

/* ---- instructions ---------------------------------------------------------------------------- */

#define BIT(key) (1u << (key))

static enum ebb_status on_annotate(struct reader *r)
{
    if (text_is(&r->record.scalar[DTR_ANNOTATION], "BACKWARD"))
        begin_backward(r);
    return EBB_OK; /* START is found before reading begins; other annotations say nothing to us */
}

static enum ebb_status on_constant(struct reader *r)
{
    r->first_name = (uint32_t)r->names.count;
    EBB_TRY(name_add(r, &r->record.scalar[DTR_NAME], TRACE_NONE));
    r->waiting = FOR_CONSTANT_MEMORY;
    return EBB_OK;
}

static enum ebb_status on_call(struct reader *r)
{
    const struct trace_dtr_list *result = &r->record.result;
    if (result->count == 0)
        return bad(r, 1, "CALL without a RESULT");
    EBB_TRY(begin_op(r));
    r->first_name = (uint32_t)r->names.count;
    for (size_t i = 0; i < result->count; i++)
        EBB_TRY(name_add(r, &result->items[i], TRACE_NONE));
    r->waiting = FOR_MEMORY;
    return set_output_count(r, result->count);
}

/* The line must be about result `output_next` of the op that waits. */
static enum ebb_status expect_name(struct reader *r, const char *instruction)
{
    const struct trace_dtr_text *t = &r->record.scalar[DTR_NAME];
    if (trace_dtr_names_find(&r->names, t) != r->first_name + r->output_next)
        return bad(r, t->column, "%s of \"%.*s\", expected that of result %zu of the call before",
                   instruction, shown(t), t->text, r->output_next);
    return EBB_OK;
}

static enum ebb_status on_memory(struct reader *r)
{
    if (r->waiting == FOR_CONSTANT_MEMORY) {
        uint32_t tensor;
        r->input_count = 0;
        r->cost_ns = 0;
        EBB_TRY(set_output_count(r, 1));
        EBB_TRY(expect_name(r, "MEMORY"));
        EBB_TRY(number_of(r, DTR_MEMORY, &r->outputs[0].bytes));
        EBB_TRY(kind_find(r, &(struct trace_dtr_text){.text = "constant", .length = 8}));
        EBB_TRY(emit(r, true, &tensor));
        r->tensor_of[r->first_name] = tensor;
        r->waiting = FOR_ANY;
        return trace_builder_command(r->builder, TRACE_PIN, tensor, r->err);
    }
    EBB_TRY(expect_name(r, "MEMORY"));
    EBB_TRY(number_of(r, DTR_MEMORY, &r->outputs[r->output_next].bytes));
    r->waiting = FOR_ALIAS;
    return EBB_OK;
}

static enum ebb_status on_alias(struct reader *r)
{
    EBB_TRY(expect_name(r, "ALIAS"));
    const struct trace_dtr_text *t = &r->record.scalar[DTR_ALIAS];
    struct trace_output *output = &r->outputs[r->output_next];
    if (!text_is(t, "-1")) {
        uint64_t index;
        if (!read_digits(t, 9, &index) || t->length == 0 || index >= r->input_count)
            return bad(r, t->column, "ALIAS is \"%.*s\", must be -1 or an index into the %zu ARGS",
                       shown(t), t->text, r->input_count);
        *output = (struct trace_output){.alias = TRACE_VIEW, .alias_input = (uint32_t)index};
    }
    r->waiting = FOR_MEMORY;
    if (++r->output_next < r->output_count)
        return EBB_OK;
    uint32_t first;
    EBB_TRY(emit(r, false, &first));
    for (size_t i = 0; i < r->output_count; i++)
        r->tensor_of[r->first_name + i] = first + (uint32_t)i;
    r->waiting = FOR_ANY;
    return EBB_OK;
}

static enum ebb_status on_mutate(struct reader *r)
{
    const struct trace_dtr_list *args = &r->record.args, *mutate = &r->record.mutate;
    if (mutate->count == 0)
        return bad(r, 1, "MUTATE without an index");
    EBB_TRY(begin_op(r));
    EBB_TRY(set_output_count(r, mutate->count));
    for (size_t i = 0; i < mutate->count; i++) {
        const struct trace_dtr_text *t = &mutate->items[i];
        uint64_t index;
        if (!read_digits(t, 9, &index) || index >= args->count)
            return bad(r, t->column, "MUTATE index %.*s, there are %zu ARGS", shown(t), t->text,
                       args->count);
        const struct trace_tensor *old = &r->builder->tensors[r->inputs[index]];
        r->outputs[i].bytes = r->builder->storages[old->storage].bytes; /* the whole storage */
        r->outputs[i].alias_input = (uint32_t)index; /* unused by FRESH: remembers the argument */
    }
    uint32_t first;
    EBB_TRY(emit(r, false, &first));
    for (size_t i = 0; i < mutate->count; i++) {
        const struct trace_dtr_text *t = &args->items[r->outputs[i].alias_input];
        uint32_t number = trace_dtr_names_find(&r->names, t);
        uint32_t old = r->tensor_of[number]; /* not inputs[]: the name may be rebound twice */
        r->tensor_of[number] = first + (uint32_t)i;
        EBB_TRY(release(r, old, t));
    }
    return EBB_OK;
}

static enum ebb_status on_copy(struct reader *r)
{
    uint32_t source;
    EBB_TRY(name_find(r, &r->record.scalar[DTR_SRC], &source));
    uint32_t tensor = r->tensor_of[source];
    EBB_TRY(name_add(r, &r->record.scalar[DTR_DST], tensor));
    return get(r, tensor);
}

static enum ebb_status on_copy_from(struct reader *r)
{
    uint32_t target, source;
    EBB_TRY(name_find(r, &r->record.scalar[DTR_DST], &target));
    EBB_TRY(name_find(r, &r->record.scalar[DTR_SRC], &source));
    uint32_t old = r->tensor_of[target];
    r->tensor_of[target] = r->tensor_of[source];
    EBB_TRY(release(r, old, &r->record.scalar[DTR_DST]));
    return get(r, r->tensor_of[target]);
}

static enum ebb_status on_release(struct reader *r)
{
    const struct trace_dtr_text *t = &r->record.scalar[DTR_NAME];
    uint32_t number = trace_dtr_names_find(&r->names, t);
    if (number == TRACE_NONE)
        return EBB_OK; /* made before START */
    return release(r, r->tensor_of[number], t);
}

static const struct instruction {
    const char *name;
    enum ebb_status (*run)(struct reader *r);
    unsigned keys;     /* without which it says nothing */
    const char *needs; /* the same for people */
} instructions[] = {
    {"RELEASE", on_release, BIT(DTR_NAME), "NAME"},
    {"MEMORY", on_memory, BIT(DTR_NAME) | BIT(DTR_MEMORY), "NAME and MEMORY"},
    {"COPY", on_copy, BIT(DTR_DST) | BIT(DTR_SRC), "DST and SRC"},
    {"ALIAS", on_alias, BIT(DTR_NAME) | BIT(DTR_ALIAS), "NAME and ALIAS"},
    {"CALL", on_call, BIT(DTR_NAME) | BIT(DTR_ARGS) | BIT(DTR_RESULT) | BIT(DTR_TIME),
     "NAME, ARGS, RESULT and TIME"},
    {"CONSTANT", on_constant, BIT(DTR_NAME), "NAME"},
    {"MUTATE", on_mutate, BIT(DTR_NAME) | BIT(DTR_ARGS) | BIT(DTR_MUTATE) | BIT(DTR_TIME),
     "NAME, ARGS, MUTATE and TIME"},
    {"COPY_FROM", on_copy_from, BIT(DTR_DST) | BIT(DTR_SRC), "DST and SRC"},
    {"ANNOTATE", on_annotate, BIT(DTR_ANNOTATION), "ANNOTATION"},
};

static const struct instruction *instruction_of(const struct trace_dtr_record *record)
{
    for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++)
        if (text_is(&record->scalar[DTR_INSTRUCTION], instructions[i].name))
            return &instructions[i];
    return NULL;
}

static enum ebb_status read_line(struct reader *r, const char *line, size_t length)
{
    EBB_TRY(trace_dtr_scan(&r->record, r->name, r->line, line, length, r->err));
    if (!(r->record.has & BIT(DTR_INSTRUCTION)))
        return bad(r, 1, "a line needs INSTRUCTION");
    const struct trace_dtr_text *t = &r->record.scalar[DTR_INSTRUCTION];
    const struct instruction *instruction = instruction_of(&r->record);
    if (instruction == NULL)
        return bad(r, t->column, "unknown INSTRUCTION \"%.*s\"", shown(t), t->text);
    bool wants_memory = r->waiting == FOR_MEMORY || r->waiting == FOR_CONSTANT_MEMORY;
    if ((instruction->run == on_memory) != wants_memory ||
        (instruction->run == on_alias) != (r->waiting == FOR_ALIAS))
        return bad(r, t->column, "%s where %s is expected", instruction->name,
                   wants_memory              ? "a MEMORY line"
                   : r->waiting == FOR_ALIAS ? "an ALIAS line"
                                             : "an instruction of its own");
    if ((r->record.has & instruction->keys) != instruction->keys)
        return bad(r, 1, "%s needs %s", instruction->name, instruction->needs);
    return instruction->run(r);
}

/* ---- the file -------------------------------------------------------------------------------- */

static size_t line_length(const char *at, const char *end)
{
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    return (size_t)((stop != NULL ? stop : end) - at);
}

static bool is_blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

/* Where reading begins: behind the first START annotation, or at the beginning if there is none.
 * *line = its number. */
static const char *find_start(struct reader *r, const char *bytes, size_t length, uint32_t *line)
{
    const char *end = bytes + length, *at = bytes;
    uint32_t number = 1; /* of the line `counted` is in */
    const char *counted = bytes;
    for (;;) {
        const char *hit = memmem(at, (size_t)(end - at), "START", 5);
        if (hit == NULL)
            return bytes;
        const char *begin = hit;
        while (begin > bytes && begin[-1] != '\n')
            begin--;
        size_t n = line_length(begin, end);
        at = begin + n;
        for (const char *p = counted; (p = memchr(p, '\n', (size_t)(begin - p))) != NULL; p++)
            number++;
        counted = begin;
        if (trace_dtr_scan(&r->record, r->name, number, begin, n, NULL) == EBB_OK &&
            (r->record.has & (BIT(DTR_INSTRUCTION) | BIT(DTR_ANNOTATION))) ==
                (BIT(DTR_INSTRUCTION) | BIT(DTR_ANNOTATION)) &&
            text_is(&r->record.scalar[DTR_INSTRUCTION], "ANNOTATE") &&
            text_is(&r->record.scalar[DTR_ANNOTATION], "START")) {
            *line = number + 1;
            return at < end ? at + 1 : end;
        }
    }
}

static enum ebb_status read_lines(struct reader *r, const char *bytes, size_t length)
{
    const char *end = bytes + length;
    r->line = 1;
    const char *at = find_start(r, bytes, length, &r->line);
    for (; at < end; r->line++) {
        size_t n = line_length(at, end);
        if (!is_blank(at, n))
            EBB_TRY(read_line(r, at, n));
        at += n + 1;
    }
    if (r->waiting != FOR_ANY)
        return bad(r, 1, "the log ends where %s line is expected",
                   r->waiting == FOR_ALIAS ? "an ALIAS" : "a MEMORY");
    return EBB_OK;
}

/* The output condition: one PIN per name, in order of insertion, whose tensor has a handle left. */
static enum ebb_status pin_outputs(struct reader *r)
{
    for (size_t i = 0; i < r->names.count; i++)
        if (r->handles[r->tensor_of[i]] > 0)
            EBB_TRY(trace_builder_command(r->builder, TRACE_PIN, r->tensor_of[i], r->err));
    return EBB_OK;
}

static void reader_fini(struct reader *r)
{
    trace_dtr_record_fini(&r->record);
    trace_dtr_names_fini(&r->names);
    ebb_strmap_fini(&r->kinds);
    ebb_free(r->tensor_of);
    ebb_free(r->handles);
    ebb_free(r->inputs);
    ebb_free(r->outputs);
}

enum ebb_status trace_read_dtr(const char *name, const char *bytes, size_t length,
                               struct trace **trace, struct ebb_error *err)
{
    struct reader r = {.name = name, .err = err};
    EBB_TRY(trace_builder_create(&r.builder, err));
    struct trace_builder *builder = r.builder;
    enum ebb_status status = read_lines(&r, bytes, length);
    EBB_THEN(status, pin_outputs(&r));
    reader_fini(&r); /* before the trace is packed: the names are a good part of the peak */
    if (status == EBB_OK) {
        status = trace_builder_finish(builder, name, trace, err);
        if (status != EBB_OK)
            ebb_context(err, status, "%s", name);
    }
    trace_builder_destroy(builder);
    return status;
}
