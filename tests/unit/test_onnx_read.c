/* ONNX files: what is written reads back and computes; what is wrong is refused with a reason, in
 * bounded memory. */
#include "test_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "onnx/onnx.h"

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const float weights[6] = {1, 2, 3, 4, 5, 6};
static const int64_t shape[1] = {-1};

/* y = reshape(Gemm(x, w), [-1]) */
static void write_small(const char *path, const char *op)
{
    struct onnx_writer *w;
    struct ebb_error err;
    struct onnx_dim in[2] = {{.value = -1, .label = "batch"}, {.value = 3}},
                    out[1] = {{.value = 4}};
    CHECK_OK(onnx_writer_create(&w, "small", &err), &err);
    onnx_write_input(w, "x", ONNX_FLOAT, 2, in);
    onnx_write_output(w, "y", ONNX_FLOAT, 1, out);
    onnx_write_initializer(w, "w", ONNX_FLOAT, 2, (int64_t[]){2, 3}, weights, sizeof weights);
    onnx_write_initializer(w, "w", ONNX_FLOAT, 2, (int64_t[]){2, 3}, weights, sizeof weights);
    onnx_write_initializer(w, "shape", ONNX_INT64, 1, (int64_t[]){1}, shape, sizeof shape);
    onnx_write_node(w, op);
    onnx_write_in(w, "x");
    onnx_write_in(w, "w");
    onnx_write_out(w, "z");
    onnx_write_int(w, "transB", 1);
    onnx_write_number(w, "alpha", 0.5f);
    onnx_write_text(w, "note", "text");
    onnx_write_ints(w, "list", (int64_t[]){7, -8}, 2);
    onnx_write_end(w);
    onnx_write_node(w, "Reshape");
    onnx_write_in(w, "z");
    onnx_write_in(w, "shape");
    onnx_write_out(w, "y");
    onnx_write_end(w);
    CHECK_OK(onnx_writer_save(w, path, &err), &err);
    onnx_writer_destroy(w);
}

TEST(a_written_model__reads_back)
{
    struct ebb_arena arena = {0};
    const struct onnx_model *m;
    struct ebb_error err;
    size_t count;
    write_small(path_of("a.onnx"), "Gemm");
    CHECK_OK(onnx_open(&arena, path_of("a.onnx"), &m, &err), &err);
    CHECK_EQ(m->opset, 17);
    CHECK_EQ(m->graph.node_count, 2);
    CHECK_EQ(m->graph.initializer_count, 2);
    CHECK_EQ(m->graph.input_count, 1);
    CHECK_STR(m->graph.inputs[0].dims[0].label, "batch");
    CHECK_EQ(m->graph.inputs[0].dims[1].value, 3);
    const struct onnx_node *n = &m->graph.nodes[0];
    CHECK_EQ(onnx_attr_int(n, "transB", 0), 1);
    CHECK(onnx_attr_number(n, "alpha", 0) > 0.49 && onnx_attr_number(n, "alpha", 0) < 0.51);
    CHECK_STR(onnx_attr_text(n, "note", ""), "text");
    const int64_t *list = onnx_attr_ints(n, "list", &count);
    CHECK(count == 2 && list[1] == -8);
    CHECK_EQ(strlen(m->sha256), 64);
    ebb_arena_fini(&arena);
}

TEST(a_model__computes)
{
    struct ebb_arena arena = {0};
    const struct onnx_model *m;
    struct ebb_error err;
    struct onnx_value values[8] = {0};
    double x[6] = {1, 0, 0, 0, 1, 1};
    write_small(path_of("b.onnx"), "Gemm");
    CHECK_OK(onnx_open(&arena, path_of("b.onnx"), &m, &err), &err);
    struct onnx_eval e = {.arena = &arena, .opset = m->opset, .room = 1 << 16, .steps = 1 << 20};
    values[m->graph.inputs[0].value] =
        (struct onnx_value){.type = ONNX_FLOAT, .rank = 2, .dims = {2, 3}, .count = 6, .number = x};
    CHECK_OK(onnx_eval_graph(&e, &m->graph, values, &err), &err);
    const struct onnx_value *y = &values[m->graph.outputs[0].value];
    CHECK(y->rank == 1 && y->count == 4);
    static const double want[4] = {0.5, 2, 2.5, 5.5};
    CHECK(memcmp(y->number, want, sizeof want) == 0);
    e.room = 8; /* O3 */
    CHECK_EQ(onnx_eval_graph(&e, &m->graph, values, &err), EBB_ELIMIT);
    ebb_arena_fini(&arena);
}

TEST(an_op_or_version__is_refused_by_name)
{
    struct ebb_error err;
    struct onnx_node n = {.op = "Frobnicate", .domain = ""};
    CHECK_EQ(onnx_op_check(&n, 17, &err), EBB_EUNSUPPORTED);
    CHECK(strstr(err.message, "Frobnicate"));
    n = (struct onnx_node){.op = "ReduceMean",
                           .domain = "",
                           .in_count = 1,
                           .in = (uint32_t[]){0},
                           .out_count = 1,
                           .out = (uint32_t[]){1}};
    CHECK_EQ(onnx_op_check(&n, 17, &err), EBB_OK);
    CHECK_EQ(onnx_op_check(&n, 18, &err), EBB_EUNSUPPORTED); /* axes are an input there */
    CHECK(strstr(err.message, "ReduceMean") && strstr(err.message, "18"));
    n.domain = "com.microsoft";
    CHECK_EQ(onnx_op_check(&n, 17, &err), EBB_EUNSUPPORTED);
    CHECK(strstr(err.message, "com.microsoft"));
}

TEST(windows_larger_than_everything__take_no_time)
{
    struct ebb_arena arena = {0};
    struct ebb_error err;
    int64_t kernel[2] = {1 << 29, 1 << 29}, pads[4] = {1 << 29, 1 << 29, 1 << 29, 1 << 29};
    struct onnx_attr attrs[2] = {
        {.name = "kernel_shape", .kind = ONNX_ATTR_INTS, .integers = kernel, .count = 2},
        {.name = "pads", .kind = ONNX_ATTR_INTS, .integers = pads, .count = 4}};
    int64_t strides[2] = {1 << 30, 1 << 30};
    struct onnx_attr more = {
        .name = "strides", .kind = ONNX_ATTR_INTS, .integers = strides, .count = 2};
    struct onnx_attr all[3] = {attrs[0], attrs[1], more};
    double x[1] = {1};
    struct onnx_value in = {.type = ONNX_FLOAT,
                            .rank = 4,
                            .dims = {1, 1, 1, 1},
                            .count = 1,
                            .number = x},
                      out;
    struct onnx_node n = {.op = "MaxPool",
                          .domain = "",
                          .name = "",
                          .in = (uint32_t[]){0},
                          .in_count = 1,
                          .out = (uint32_t[]){1},
                          .out_count = 1,
                          .attrs = all,
                          .attr_count = 3};
    struct onnx_eval e = {.arena = &arena, .opset = 13, .room = 1 << 20, .steps = 1 << 20};
    CHECK_EQ(onnx_eval_node(&e, &n, &in, &out, &err), EBB_ELIMIT);
    CHECK(strstr(err.message, "steps"));
    ebb_arena_fini(&arena);
}

/* ---- bytes by hand ---------------------------------------------------------------------------- */

static void add_varint(struct ebb_str *s, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        ebb_str_addc(s, (char)(v | 128));
    ebb_str_addc(s, (char)v);
}

static void add_bytes(struct ebb_str *s, unsigned field, const char *bytes, size_t n)
{
    add_varint(s, field << 3 | 2);
    add_varint(s, n);
    ebb_str_addn(s, bytes, n);
}

static void add_text(struct ebb_str *s, unsigned field, const char *text)
{
    add_bytes(s, field, text, strlen(text));
}

static void add_int(struct ebb_str *s, unsigned field, uint64_t v)
{
    add_varint(s, field << 3);
    add_varint(s, v);
}

static void add_part(struct ebb_str *s, unsigned field, struct ebb_str *part)
{
    add_bytes(s, field, part->length ? part->data : "", part->length);
    ebb_str_fini(part);
}

static void add_node(struct ebb_str *graph, const char *op, const char *in, const char *out)
{
    struct ebb_str n = {0};
    add_text(&n, 1, in);
    add_text(&n, 2, out);
    add_text(&n, 4, op);
    add_part(graph, 1, &n);
}

static void add_output(struct ebb_str *graph, const char *name)
{
    struct ebb_str p = {0};
    add_text(&p, 1, name);
    add_part(graph, 12, &p);
}

static void read_graph(struct ebb_str *graph, enum ebb_status want, const char *reason)
{
    struct ebb_arena arena = {0};
    struct ebb_str m = {0};
    struct ebb_error err = {0};
    const struct onnx_model *model;
    add_int(&m, 1, 8);
    add_part(&m, 7, graph);
    enum ebb_status status =
        onnx_read(&arena, path_of("hostile.onnx"), m.data, m.length, &model, &err);
    if (status != want || !strstr(err.message, reason))
        fail_msg("status %d, %s", (int)status, err.message);
    CHECK(arena.total_bytes < 1 << 20);
    ebb_str_fini(&m);
    ebb_arena_fini(&arena);
}

TEST(a_cycle__is_refused)
{
    struct ebb_str g = {0};
    add_node(&g, "Relu", "b", "a");
    add_node(&g, "Relu", "a", "b");
    add_output(&g, "b");
    read_graph(&g, EBB_EINPUT, "cycle");
}

TEST(a_value_made_twice__is_refused)
{
    struct ebb_str g = {0}, p = {0};
    add_text(&p, 1, "x");
    add_part(&g, 11, &p);
    add_node(&g, "Relu", "x", "a");
    add_node(&g, "Relu", "x", "a");
    add_output(&g, "a");
    read_graph(&g, EBB_EINPUT, "second time");
}

TEST(a_missing_output__is_refused)
{
    struct ebb_str g = {0};
    add_output(&g, "y");
    read_graph(&g, EBB_EINPUT, "nothing makes output 'y'");
}

static void add_tensor(struct ebb_str *graph, uint64_t first, uint64_t second, int type)
{
    struct ebb_str t = {0};
    add_int(&t, 1, first);
    add_int(&t, 1, second);
    add_int(&t, 2, (uint64_t)type);
    add_text(&t, 8, "w");
    add_part(graph, 5, &t);
}

TEST(huge_shapes__take_no_memory)
{
    struct ebb_str g = {0};
    add_tensor(&g, UINT64_C(1) << 39, UINT64_C(1) << 39, 1);
    read_graph(&g, EBB_EINPUT, "too many elements");
    add_tensor(&g, 1 << 20, 1 << 18, 1); /* and not an element is there */
    read_graph(&g, EBB_EINPUT, "has not the elements its shape says");
    add_tensor(&g, (uint64_t)-1, 1, 1);
    read_graph(&g, EBB_EINPUT, "a size is -1");
    add_tensor(&g, 1, 1, 77);
    read_graph(&g, EBB_EUNSUPPORTED, "an unknown type (77)");
}

static void add_external(struct ebb_str *graph, const char *location, const char *offset)
{
    struct ebb_str t = {0}, entry = {0};
    add_int(&t, 1, 4);
    add_int(&t, 2, 1);
    add_text(&t, 8, "w");
    add_text(&entry, 1, "location");
    add_text(&entry, 2, location);
    add_part(&t, 13, &entry);
    add_text(&entry, 1, "offset");
    add_text(&entry, 2, offset);
    add_part(&t, 13, &entry);
    add_int(&t, 14, 1);
    add_part(graph, 5, &t);
}

TEST(external_data__stays_in_its_folder_and_file)
{
    struct ebb_str g = {0};
    struct ebb_error err;
    add_external(&g, "../passwords", "0");
    read_graph(&g, EBB_EINPUT, "below the model's folder");
    add_external(&g, "/etc/hostname", "0");
    read_graph(&g, EBB_EINPUT, "below the model's folder");
    add_external(&g, "missing.data", "0");
    read_graph(&g, EBB_EIO, "missing.data");
    CHECK_OK(ebb_file_write_atomic(path_of("there.data"), weights, sizeof weights, &err), &err);
    add_external(&g, "there.data", "12");
    read_graph(&g, EBB_EINPUT, "which has 24");
    add_external(&g, "there.data", "18446744073709551615");
    read_graph(&g, EBB_EINPUT, "which has 24");
    add_external(&g, "there.data", "8");
    read_graph(&g, EBB_OK, "");
}

/* Links lead nowhere else, and nobody waits for a pipe. */
TEST(external_data__is_a_plain_file_of_the_folder)
{
    struct ebb_str g = {0};
    struct ebb_error err;
    CHECK_OK(ebb_file_write_atomic(path_of("there.data"), weights, sizeof weights, &err), &err);
    CHECK_EQ(symlink("/etc/passwd", path_of("out.data")), 0);
    CHECK_EQ(symlink("there.data", path_of("near.data")), 0);
    CHECK_EQ(mkfifo(path_of("pipe.data"), 0600), 0);
    add_external(&g, "out.data", "0");
    read_graph(&g, EBB_EINPUT, "a link that leads to /etc/passwd, out of the model's folder");
    add_external(&g, "pipe.data", "0");
    read_graph(&g, EBB_EINPUT, "allowed is a plain file");
    add_external(&g, "near.data", "0");
    read_graph(&g, EBB_OK, "");
}

/* Whoever resumes finds out that numbers beside the model are others. */
TEST(external_data__is_part_of_the_hash)
{
    struct ebb_str g = {0}, m = {0};
    struct ebb_error err;
    char first[65] = "";
    add_external(&g, "hashed.data", "0");
    add_int(&m, 1, 8);
    add_part(&m, 7, &g);
    for (int i = 0; i < 3; i++) {
        struct ebb_arena arena = {0};
        const struct onnx_model *model;
        float values[6] = {1, 2, 3, 4, 5, i == 1 ? 7 : 6};
        CHECK_OK(ebb_file_write_atomic(path_of("hashed.data"), values, sizeof values, &err), &err);
        CHECK_OK(onnx_read(&arena, path_of("h.onnx"), m.data, m.length, &model, &err), &err);
        CHECK_EQ(strcmp(first, model->sha256) == 0, i == 2);
        if (i == 0)
            memcpy(first, model->sha256, sizeof first);
        ebb_arena_fini(&arena);
    }
    ebb_str_fini(&m);
}

TEST(a_file_cut_anywhere__is_refused)
{
    struct ebb_file_view view;
    struct ebb_error err;
    write_small(path_of("c.onnx"), "Gemm");
    CHECK_OK(ebb_file_view_open(&view, path_of("c.onnx"), SIZE_MAX, &err), &err);
    uint64_t live = ebb_heap_live();
    for (size_t n = 0; n < view.length; n++) {
        struct ebb_arena arena = {0};
        const struct onnx_model *m;
        char *copy = ebb_alloc(n + 1); /* so that a sanitizer sees the end */
        memcpy(copy, view.data, n);
        CHECK(onnx_read(&arena, "c", copy, n, &m, &err) != EBB_OK);
        ebb_free(copy);
        ebb_arena_fini(&arena);
    }
    CHECK_EQ(ebb_heap_live(), live);
    ebb_file_view_close(&view);
}

TEST_MAIN_ONCE(folder_open, folder_close)
