/* The native file: lossless, and no damage goes unnoticed. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "test.h"
#include "torture.h"
#include "trace_equal.h"
#include "trace_kit.h"

#include "base/file.h"
#include "base/heap.h"
#include "trace/trace.h"

static const struct trace_kind skipping = {
    .name = "dropout", .purity = TRACE_PURE, .can_skip_outputs = true};

/* One of everything: leaf, views, several outputs, mutation, once, workspace, attributes, labels,
 * partner, pins. */
static struct trace *rich(void)
{
    struct ebb_error err;
    struct trace_builder *b = NULL;
    CHECK_OK(trace_builder_create(&b, &err), &err);
    uint32_t w = 0, x = 0, y = 0, v = 0;
    struct trace_output fresh[2] = {{.bytes = 1000}, {.bytes = 24}};
    struct trace_op_desc leaf = {.kind_name = "weight",
                                 .outputs = fresh,
                                 .output_count = 1,
                                 .label = "layer.w",
                                 .partner = TRACE_NONE,
                                 .is_leaf = true};
    CHECK_OK(trace_builder_op(b, &leaf, &w, &err), &err);
    struct trace_op_desc two = {.kind = &skipping,
                                .cost_ns = 123456789012,
                                .workspace_bytes = 4096,
                                .inputs = &w,
                                .input_count = 1,
                                .outputs = fresh,
                                .output_count = 2,
                                .attr = "\1\2\0\4",
                                .attr_bytes = 4,
                                .label = "layer",
                                .partner = TRACE_NONE};
    CHECK_OK(trace_builder_op(b, &two, &x, &err), &err);
    struct trace_output view = {.alias = TRACE_VIEW, .alias_input = 1};
    uint32_t pair[2] = {w, x};
    struct trace_op_desc look = {.kind_name = "view",
                                 .inputs = pair,
                                 .input_count = 2,
                                 .outputs = &view,
                                 .output_count = 1,
                                 .partner = 1,
                                 .phase = TRACE_BACKWARD};
    trace_builder_mark_backward(b);
    CHECK_OK(trace_builder_op(b, &look, &v, &err), &err);
    struct trace_output written = {.alias = TRACE_MUTATE, .alias_input = 0};
    struct trace_op_desc step = {.kind_name = "sgd",
                                 .cost_ns = 5,
                                 .inputs = pair,
                                 .input_count = 2,
                                 .outputs = &written,
                                 .output_count = 1,
                                 .partner = TRACE_NONE,
                                 .phase = TRACE_UPDATE};
    CHECK_OK(trace_builder_op(b, &step, &y, &err), &err);
    struct trace_op_desc log = {.kind_name = "log",
                                .inputs = &v,
                                .input_count = 1,
                                .outputs = fresh,
                                .output_count = 1,
                                .partner = TRACE_NONE,
                                .purity = TRACE_ONCE};
    CHECK_OK(trace_builder_op(b, &log, &v, &err), &err);
    CHECK_OK(trace_builder_command(b, TRACE_GET, v, &err), &err);
    CHECK_OK(trace_builder_command(b, TRACE_RELEASE, w, &err), &err);
    CHECK_OK(trace_builder_command(b, TRACE_PIN, y, &err), &err);
    struct trace *t = NULL;
    CHECK_OK(trace_builder_finish(b, "rich", &t, &err), &err);
    trace_builder_destroy(b);
    return t;
}

/* The bytes of a trace's file; the caller frees. */
static unsigned char *bytes_of(const struct trace *t, size_t *length)
{
    struct ebb_error err;
    struct ebb_file_view view;
    CHECK_OK(trace_write_native(t, trace_kit_path, &err), &err);
    CHECK_OK(ebb_file_view_open(&view, trace_kit_path, 1 << 30, &err), &err);
    unsigned char *copy = ebb_alloc(view.length + 8);
    CHECK(copy != NULL);
    memcpy(copy, view.data, view.length);
    *length = view.length;
    ebb_file_view_close(&view);
    return copy;
}

static void expect_corrupt(const unsigned char *bytes, size_t length, const char *what,
                           size_t where)
{
    struct ebb_error err;
    struct trace *t = NULL;
    uint64_t before = ebb_heap_live();
    enum ebb_status status = trace_read_native("file", bytes, length, &t, &err);
    if (status != EBB_ECORRUPT || strncmp(err.message, "file: byte ", 11) != 0)
        fail_msg("%s at %zu gives %d %s", what, where, (int)status,
                 status == EBB_OK ? "" : err.message);
    CHECK_EQ(ebb_heap_live(), before);
}

TEST(native__keeps_everything)
{
    struct ebb_error err;
    char why[200];
    struct trace *t = rich(), *back = NULL;
    CHECK_OK(trace_write_native(t, trace_kit_path, &err), &err);
    CHECK_OK(trace_load(trace_kit_path, TRACE_FORMAT_AUTO, &back, &err), &err);
    if (!trace_equal(t, back, why))
        fail_msg("%s", why);
    CHECK_STR(back->name, "rich");
    CHECK(back->ops[1].kind->run == NULL);
    trace_destroy(back);
    trace_destroy(t);
}

TEST(native__of_an_empty_trace_is_a_file)
{
    struct ebb_error err;
    struct trace_builder *b = NULL;
    struct trace *t = NULL, *back = NULL;
    CHECK_OK(trace_builder_create(&b, &err), &err);
    CHECK_OK(trace_builder_finish(b, "", &t, &err), &err);
    trace_builder_destroy(b);
    CHECK_OK(trace_write_native(t, trace_kit_path, &err), &err);
    CHECK_OK(trace_load(trace_kit_path, TRACE_FORMAT_NATIVE, &back, &err), &err);
    CHECK_EQ(back->op_count, 0);
    trace_destroy(back);
    trace_destroy(t);
}

TEST(native__notices_every_changed_bit)
{
    size_t length = 0;
    struct trace *t = rich();
    unsigned char *bytes = bytes_of(t, &length);
    for (size_t i = 0; i < length; i++)
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1u << bit);
            expect_corrupt(bytes, length, "a flipped bit", i);
            bytes[i] ^= (unsigned char)(1u << bit);
        }
    ebb_free(bytes);
    trace_destroy(t);
}

TEST(native__notices_every_missing_or_added_byte)
{
    size_t length = 0;
    struct trace *t = rich();
    unsigned char *bytes = bytes_of(t, &length);
    for (size_t n = 0; n < length; n++)
        expect_corrupt(bytes, n, "the end", n);
    bytes[length] = 0;
    expect_corrupt(bytes, length + 1, "an added byte", length);
    ebb_free(bytes);
    trace_destroy(t);
}

TEST(native__says_which_version_it_reads)
{
    size_t length = 0;
    struct trace *t = rich(), *back = NULL;
    unsigned char *bytes = bytes_of(t, &length);
    struct ebb_error err;
    bytes[8] = 2;
    CHECK_EQ(trace_read_native("file", bytes, length, &back, &err), EBB_ECORRUPT);
    CHECK_STR(err.message, "file: byte 8: format version 2, this program reads 1");
    ebb_free(bytes);
    trace_destroy(t);
}

struct file {
    const struct trace *trace;
    const unsigned char *bytes;
    size_t length;
};

static enum ebb_status read_file(void *context)
{
    const struct file *file = context;
    struct trace *back = NULL;
    enum ebb_status status = trace_read_native("file", file->bytes, file->length, &back, NULL);
    trace_destroy(back);
    return status;
}

static enum ebb_status write_file(void *context)
{
    return trace_write_native(((const struct file *)context)->trace, trace_kit_path, NULL);
}

TEST(native__survives_every_failing_allocation)
{
    size_t length = 0;
    struct trace *t = rich();
    unsigned char *bytes = bytes_of(t, &length);
    struct file file = {t, bytes, length};
    torture(read_file, &file, 1000);
    torture(write_file, &file, 1000);
    ebb_free(bytes);
    trace_destroy(t);
}

TEST(load__says_what_it_could_have_read)
{
    struct ebb_error err;
    struct trace *t = NULL;
    CHECK_OK(ebb_file_write_atomic(trace_kit_path, "hello", 5, &err), &err);
    CHECK_EQ(trace_load(trace_kit_path, TRACE_FORMAT_AUTO, &t, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "DTR log") != NULL);
    CHECK_EQ(trace_load("/nonexistent/file", TRACE_FORMAT_AUTO, &t, &err), EBB_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(native__keeps_everything),
        RUN(native__of_an_empty_trace_is_a_file),
        RUN(native__notices_every_changed_bit),
        RUN(native__notices_every_missing_or_added_byte),
        RUN(native__says_which_version_it_reads),
        RUN(native__survives_every_failing_allocation),
        RUN(load__says_what_it_could_have_read),
    };
    return cmocka_run_group_tests(tests, trace_kit_make_path, trace_kit_drop_path);
}
