/* builder.c - appends ops and commands, then packs them into an immutable trace.
 *
 * Appending either succeeds whole or changes nothing: room is made in every array before the first
 * element is written. What only a whole trace can show (rules T1..T7) is proved once, by finish. */
#include "trace/builder.h"

#include <string.h>

#include "base/heap.h"

static void builder_clear(struct trace_builder *b)
{
    ebb_arena_fini(&b->arena);
    for (int i = 0; i < 6; i++)
        ebb_strmap_fini(&b->kinds[i / 2][i % 2]);
    ebb_free(b->ops);
    ebb_free(b->tensors);
    ebb_free(b->storages);
    ebb_free(b->inputs);
    ebb_free(b->commands);
    ebb_free(b->text);
    ebb_free(b->attrs);
    *b = (struct trace_builder){.backward_command = SIZE_MAX};
}

enum ebb_status trace_builder_create(struct trace_builder **builder, struct ebb_error *err)
{
    struct trace_builder *b;
    EBB_TRY(ebb_new(&b, 1, sizeof *b, err));
    b->backward_command = SIZE_MAX;
    *builder = b;
    return EBB_OK;
}

void trace_builder_destroy(struct trace_builder *builder)
{
    if (builder == NULL)
        return;
    builder_clear(builder);
    ebb_free(builder);
}

enum ebb_status trace_builder_kind(struct trace_builder *builder, const char *name, size_t length,
                                   enum trace_purity purity, bool can_skip,
                                   const struct trace_kind **kind, struct ebb_error *err)
{
    struct ebb_strmap *known = &builder->kinds[purity][can_skip];
    uint64_t found = 0;
    if (ebb_strmap_get(known, name, length, &found)) {
        *kind = (const struct trace_kind *)(uintptr_t)found;
        return EBB_OK;
    }
    struct trace_kind *made = ebb_arena_calloc(&builder->arena, 1, sizeof *made);
    char *copy = ebb_arena_strndup(&builder->arena, name, length);
    EBB_TRY(ebb_arena_status(&builder->arena, err));
    made->name = copy;
    made->purity = purity;
    made->can_skip_outputs = can_skip;
    EBB_TRY(ebb_strmap_put(known, name, length, (uint64_t)(uintptr_t)made, err));
    *kind = made;
    return EBB_OK;
}

/* ---- one op ---------------------------------------------------------------------------------- */

static const char *desc_name(const struct trace_op_desc *desc)
{
    return desc->kind != NULL ? desc->kind->name : desc->kind_name;
}

/* What must hold before anything is appended; the rest is trace_check's. */
static enum ebb_status desc_check(const struct trace_builder *b, const struct trace_op_desc *desc,
                                  struct ebb_error *err)
{
    const char *name = desc_name(desc);
    if (name == NULL)
        return ebb_fail(err, EBB_EINPUT, "trace: op %zu has neither kind nor kind name",
                        b->op_count);
    if (desc->output_count == 0)
        return ebb_fail(err, EBB_EINPUT, "trace: op %zu (%s) has no output", b->op_count, name);
    if (b->op_count >= TRACE_MAX_INDEX || desc->output_count > TRACE_MAX_INDEX ||
        b->tensor_count + desc->output_count > TRACE_MAX_INDEX ||
        desc->input_count > UINT32_MAX - b->input_count ||
        desc->attr_bytes > UINT32_MAX - b->attr_bytes)
        return ebb_fail(err, EBB_ELIMIT,
                        "trace: op %zu (%s): a trace holds at most %u ops and tensors, and 4 GiB "
                        "of inputs and attributes",
                        b->op_count, name, (unsigned)TRACE_MAX_INDEX);
    for (size_t i = 0; i < desc->input_count; i++)
        if (desc->inputs[i] >= b->tensor_count)
            return ebb_fail(err, EBB_EINPUT,
                            "trace: op %zu (%s): input %zu is tensor %u, only %zu exist (T2)",
                            b->op_count, name, i, desc->inputs[i], b->tensor_count);
    for (size_t i = 0; i < desc->output_count; i++) {
        const struct trace_output *o = &desc->outputs[i];
        if (o->alias == TRACE_FRESH) {
            if (o->bytes > TRACE_MAX_BYTES)
                return ebb_fail(err, EBB_EINPUT,
                                "trace: op %zu (%s): output %zu has %llu bytes, at most 2^62 (T6)",
                                b->op_count, name, i, (unsigned long long)o->bytes);
        } else if (o->alias_input >= desc->input_count) {
            return ebb_fail(err, EBB_EINPUT,
                            "trace: op %zu (%s): output %zu aliases input %u of %zu", b->op_count,
                            name, i, o->alias_input, desc->input_count);
        } else if (o->bytes != 0) {
            return ebb_fail(err, EBB_EINPUT,
                            "trace: op %zu (%s): output %zu aliases an input and has %llu bytes of "
                            "its own (T6)",
                            b->op_count, name, i, (unsigned long long)o->bytes);
        }
    }
    return EBB_OK;
}

enum ebb_status trace_builder_reserve(struct trace_builder *builder,
                                      const struct trace_sizes *sizes, struct ebb_error *err)
{
    struct trace_builder *b = builder;
    EBB_TRY(ebb_grow(&b->ops, &b->op_capacity, sizes->ops, sizeof *b->ops, err));
    EBB_TRY(ebb_grow(&b->tensors, &b->tensor_capacity, sizes->tensors, sizeof *b->tensors, err));
    EBB_TRY(ebb_grow(&b->storages, &b->storage_capacity, sizes->tensors, sizeof *b->storages, err));
    EBB_TRY(ebb_grow(&b->inputs, &b->input_capacity, sizes->inputs + 1, sizeof *b->inputs, err));
    EBB_TRY(
        ebb_grow(&b->commands, &b->command_capacity, sizes->commands, sizeof *b->commands, err));
    return ebb_grow(&b->attrs, &b->attr_capacity, sizes->attr_bytes + 1, 1, err);
}

static enum ebb_status make_room(struct trace_builder *b, const struct trace_op_desc *desc,
                                 size_t label_bytes, struct ebb_error *err)
{
    if (b->op_count < b->op_capacity &&
        b->tensor_count + desc->output_count <= b->tensor_capacity &&
        b->tensor_count + desc->output_count <= b->storage_capacity &&
        b->input_count + desc->input_count < b->input_capacity &&
        b->command_count < b->command_capacity &&
        b->attr_bytes + desc->attr_bytes < b->attr_capacity &&
        b->text_bytes + label_bytes + 2 <= b->text_capacity)
        return EBB_OK; /* the usual case: all of it was reserved */
    const struct trace_sizes sizes = {.ops = b->op_count + 1,
                                      .tensors = b->tensor_count + desc->output_count,
                                      .inputs = b->input_count + desc->input_count,
                                      .commands = b->command_count + 1,
                                      .attr_bytes = b->attr_bytes + desc->attr_bytes};
    EBB_TRY(trace_builder_reserve(b, &sizes, err));
    /* +1 for the empty label at offset 0 */
    return ebb_grow(&b->text, &b->text_capacity, b->text_bytes + label_bytes + 2, 1, err);
}

static uint32_t add_label(struct trace_builder *b, const char *label, size_t length)
{
    if (b->text_bytes == 0)
        b->text[b->text_bytes++] = '\0';
    if (length == 0)
        return 0;
    /* Ops of one layer follow each other: the last label is often this one again. */
    if (b->op_count > 0) {
        uint32_t last = b->ops[b->op_count - 1].label;
        if (last != 0 && strcmp(b->text + last, label) == 0)
            return last;
    }
    uint32_t at = (uint32_t)b->text_bytes;
    memcpy(b->text + at, label, length + 1);
    b->text_bytes += length + 1;
    return at;
}

static void add_output(struct trace_builder *b, const struct trace_op_desc *desc,
                       const struct trace_output *o)
{
    uint32_t id = (uint32_t)b->tensor_count++;
    struct trace_tensor *t = &b->tensors[id];
    *t = (struct trace_tensor){.op = (uint32_t)b->op_count, .alias = (uint8_t)o->alias};
    if (o->alias == TRACE_FRESH) {
        t->storage = (uint32_t)b->storage_count++;
        t->alias_input = TRACE_NONE;
        b->storages[t->storage] =
            (struct trace_storage){.bytes = o->bytes, .root = id, .version_count = 1};
        return;
    }
    const struct trace_tensor *base = &b->tensors[desc->inputs[o->alias_input]];
    t->storage = base->storage;
    t->version = base->version;
    t->alias_input = o->alias_input;
    if (o->alias == TRACE_MUTATE) {
        t->version++;
        b->storages[t->storage].version_count++;
    }
}

void *trace_builder_room(struct trace_builder *builder, size_t attr_bytes, struct ebb_error *err)
{
    struct trace_builder *b = builder; /* as much as make_room asks for: nothing moves there */
    size_t need = b->attr_bytes + attr_bytes + 1;
    return ebb_grow(&b->attrs, &b->attr_capacity, need, 1, err) ? NULL : b->attrs + b->attr_bytes;
}

enum ebb_status trace_builder_op(struct trace_builder *builder, const struct trace_op_desc *desc,
                                 uint32_t *first_output, struct ebb_error *err)
{
    struct trace_builder *b = builder;
    EBB_TRY(desc_check(b, desc, err));
    size_t label_bytes = desc->label != NULL ? strlen(desc->label) : 0;
    if (label_bytes >= UINT32_MAX - 2 || b->text_bytes + label_bytes + 2 > UINT32_MAX)
        return ebb_fail(err, EBB_ELIMIT, "trace: labels exceed 4 GiB at op %zu", b->op_count);
    EBB_TRY(make_room(b, desc, label_bytes, err));
    const struct trace_kind *kind = desc->kind;
    if (kind == NULL) {
        enum trace_purity purity = desc->purity;
        for (size_t i = 0; i < desc->output_count; i++)
            if (desc->outputs[i].alias == TRACE_MUTATE)
                purity = TRACE_MUTATING;
        EBB_TRY(trace_builder_kind(b, desc->kind_name, strlen(desc->kind_name), purity,
                                   desc->can_skip_outputs, &kind, err));
    }
    struct trace_op op = {
        .kind = kind,
        .cost_ns = desc->cost_ns,
        .workspace_bytes = desc->workspace_bytes,
        .input_first = (uint32_t)b->input_count,
        .input_count = (uint32_t)desc->input_count,
        .output_first = (uint32_t)b->tensor_count,
        .output_count = (uint32_t)desc->output_count,
        .attr_first = (uint32_t)b->attr_bytes,
        .attr_bytes = (uint32_t)desc->attr_bytes,
        .partner = desc->partner,
        .label = add_label(b, desc->label, label_bytes),
        .phase = (uint8_t)desc->phase,
        .is_leaf = desc->is_leaf,
    };
    for (size_t i = 0; i < desc->output_count; i++)
        add_output(b, desc, &desc->outputs[i]);
    if (desc->input_count > 0)
        memcpy(b->inputs + b->input_count, desc->inputs, desc->input_count * sizeof *b->inputs);
    b->input_count += desc->input_count;
    if (desc->attr_bytes > 0 && desc->attr != b->attrs + b->attr_bytes)
        memcpy(b->attrs + b->attr_bytes, desc->attr, desc->attr_bytes);
    b->attr_bytes += desc->attr_bytes;
    b->commands[b->command_count++] =
        (struct trace_command){.kind = TRACE_RUN, .index = (uint32_t)b->op_count & TRACE_MAX_INDEX};
    b->ops[b->op_count++] = op;
    *first_output = op.output_first;
    return EBB_OK;
}

enum ebb_status trace_builder_command(struct trace_builder *builder, enum trace_command_kind kind,
                                      uint32_t tensor, struct ebb_error *err)
{
    struct trace_builder *b = builder;
    if (kind == TRACE_RUN)
        return ebb_fail(err, EBB_EINPUT, "trace: RUN commands are appended with their op");
    if (tensor >= b->tensor_count)
        return ebb_fail(err, EBB_EINPUT, "trace: command %zu names tensor %u, only %zu exist",
                        b->command_count, tensor, b->tensor_count);
    if (b->command_count >= UINT32_MAX - 1)
        return ebb_fail(err, EBB_ELIMIT, "trace: more than 2^32 - 2 commands");
    EBB_TRY(ebb_grow(&b->commands, &b->command_capacity, b->command_count + 1, sizeof *b->commands,
                     err));
    b->commands[b->command_count++] = (struct trace_command){
        .kind = (unsigned)kind & 3u,
        .index = tensor & TRACE_MAX_INDEX,
    };
    return EBB_OK;
}

void trace_builder_mark_backward(struct trace_builder *builder)
{
    builder->backward_command = builder->command_count;
}

/* ---- the finished trace ---------------------------------------------------------------------- */

/* Moves everything from builder to trace; on failure both own what they hold. */
static enum ebb_status builder_pack(struct trace_builder *b, const char *name, struct trace *t,
                                    struct ebb_error *err)
{
    t->arena = b->arena; /* kinds live there */
    b->arena = (struct ebb_arena){0};
    t->op_count = (uint32_t)b->op_count;
    t->tensor_count = (uint32_t)b->tensor_count;
    t->storage_count = (uint32_t)b->storage_count;
    t->command_count = (uint32_t)b->command_count;
    t->input_count = b->input_count;
    t->attr_bytes = b->attr_bytes;
    t->text_bytes = b->text_bytes;
    t->backward_command =
        b->backward_command < b->command_count ? (uint32_t)b->backward_command : TRACE_NONE;
    t->graph_fixed_bytes = b->graph_fixed_bytes;
    t->is_graph = b->is_graph;
#define PACK(array, count)                                                                         \
    do {                                                                                           \
        t->array = ebb_realloc(b->array, (count), sizeof *b->array);                               \
        if (t->array == NULL)                                                                      \
            return ebb_no_memory(err, (count) * sizeof *b->array);                                 \
        b->array = NULL;                                                                           \
    } while (0)
    PACK(ops, b->op_count);
    PACK(tensors, b->tensor_count);
    PACK(storages, b->storage_count);
    PACK(inputs, b->input_count);
    PACK(commands, b->command_count);
    PACK(attrs, b->attr_bytes);
    PACK(text, b->text_bytes);
#undef PACK
    t->name = ebb_arena_strndup(&t->arena, name, strlen(name));
    return ebb_arena_status(&t->arena, err);
}

enum ebb_status trace_builder_draft(struct trace_builder *builder, const char *name,
                                    struct trace **trace, struct ebb_error *err)
{
    struct trace_builder *b = builder;
    struct trace *t = NULL;
    enum ebb_status status = ebb_new(&t, 1, sizeof *t, err);
    EBB_THEN(status, ebb_grow(&b->text, &b->text_capacity, 1, 1, err));
    if (status == EBB_OK && b->text_bytes == 0)
        b->text[b->text_bytes++] = '\0';
    EBB_THEN(status, builder_pack(b, name, t, err));
    if (status == EBB_OK)
        *trace = t;
    else
        trace_destroy(t);
    builder_clear(b);
    return status;
}

enum ebb_status trace_builder_finish(struct trace_builder *builder, const char *name,
                                     struct trace **trace, struct ebb_error *err)
{
    struct trace *t;
    EBB_TRY(trace_builder_draft(builder, name, &t, err));
    enum ebb_status status = trace_check(t, err);
    if (status == EBB_OK)
        t->signature = trace_signature(t);
    return EBB_HAND_OUT(status, trace, t, trace_destroy);
}

void trace_destroy(struct trace *trace)
{
    if (trace == NULL)
        return;
    ebb_free(trace->ops);
    ebb_free(trace->tensors);
    ebb_free(trace->storages);
    ebb_free(trace->inputs);
    ebb_free(trace->commands);
    ebb_free(trace->text);
    ebb_free(trace->attrs);
    ebb_arena_fini(&trace->arena);
    ebb_free(trace);
}

const char *trace_label(const struct trace *trace, const struct trace_op *op)
{
    return trace->text + op->label;
}
