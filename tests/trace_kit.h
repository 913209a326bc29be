/* trace_kit.h - traces built by hand, op by op, and a file to write them to. */
#ifndef EBB_TESTS_TRACE_KIT_H
#define EBB_TESTS_TRACE_KIT_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

#include "trace/trace.h"

static inline struct trace_builder *trace_kit_begin(void)
{
    struct ebb_error err;
    struct trace_builder *b = NULL;
    CHECK_OK(trace_builder_create(&b, &err), &err);
    return b;
}

/* The op `like` (kind, cost, phase, leaf or not) with one output: a new storage of `bytes` or, when
 * that is 0, its first input written in place. */
static inline uint32_t trace_kit_op(struct trace_builder *b, struct trace_op_desc like,
                                    uint64_t bytes, const uint32_t *inputs, size_t count)
{
    struct ebb_error err;
    uint32_t made = 0;
    struct trace_output out = {.bytes = bytes, .alias = bytes ? TRACE_FRESH : TRACE_MUTATE};
    like.inputs = inputs;
    like.input_count = count;
    like.outputs = &out;
    like.output_count = 1;
    like.partner = TRACE_NONE;
    CHECK_OK(trace_builder_op(b, &like, &made, &err), &err);
    return made;
}

static inline void trace_kit_command(struct trace_builder *b, enum trace_command_kind kind,
                                     uint32_t tensor)
{
    struct ebb_error err;
    CHECK_OK(trace_builder_command(b, kind, tensor, &err), &err);
}

/* The builder is gone. */
static inline struct trace *trace_kit_end(struct trace_builder *b, const char *name)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(trace_builder_finish(b, name, &t, &err), &err);
    trace_builder_destroy(b);
    return t;
}

/* ---- a file of the test, as setup and teardown ---- */

static char trace_kit_path[64];

static inline int trace_kit_make_path(void **state)
{
    (void)state;
    snprintf(trace_kit_path, sizeof trace_kit_path, "/tmp/ebb_test_trace_XXXXXX");
    int fd = mkstemp(trace_kit_path);
    return fd < 0 ? -1 : close(fd);
}

static inline int trace_kit_drop_path(void **state)
{
    (void)state;
    return unlink(trace_kit_path);
}

#endif
