/* builder.h - the inside of a trace under construction; private to this folder.
 *
 * Arrays grow by doubling; finish cuts them to size and hands them over. Kinds and their names are
 * made in the arena from the start. */
#ifndef EBB_TRACE_BUILDER_H
#define EBB_TRACE_BUILDER_H

#include "base/map.h"
#include "trace/trace.h"

struct trace_builder {
    struct ebb_arena arena; /* becomes the trace's */
    struct trace_op *ops;
    struct trace_tensor *tensors;
    struct trace_storage *storages;
    uint32_t *inputs;
    struct trace_command *commands;
    char *text;
    unsigned char *attrs;
    size_t op_count, op_capacity;
    size_t tensor_count, tensor_capacity;
    size_t storage_count, storage_capacity;
    size_t input_count, input_capacity;
    size_t command_count, command_capacity;
    size_t text_bytes, text_capacity;
    size_t attr_bytes, attr_capacity;
    /* By purity, and whether outputs can be left out: name -> const struct trace_kind *. */
    struct ebb_strmap kinds[3][2];
    size_t backward_command; /* SIZE_MAX: not marked */
    uint64_t graph_fixed_bytes;
    bool is_graph;
};

/* The kind of this name, purity and can_skip_outputs, made in the arena on first use (run == NULL).
 */
enum ebb_status trace_builder_kind(struct trace_builder *builder, const char *name, size_t length,
                                   enum trace_purity purity, bool can_skip,
                                   const struct trace_kind **kind, struct ebb_error *err);

/* Where trace_check found a fault, so that a file reader can name the byte. */
enum trace_part {
    TRACE_PART_NONE,
    TRACE_PART_OP,
    TRACE_PART_TENSOR,
    TRACE_PART_STORAGE,
    TRACE_PART_INPUT,
    TRACE_PART_COMMAND,
    TRACE_PART_HEADER,
};

struct trace_fault {
    enum trace_part part;
    size_t index;
};

/* trace_check with the place of the fault. Safe on any struct whose arrays have the stated lengths
 * and whose kinds are valid: every index is tested before it is used. */
enum ebb_status trace_check_at(const struct trace *trace, struct trace_fault *fault,
                               struct ebb_error *err);

#endif
