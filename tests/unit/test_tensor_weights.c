/* Weights of other programs: tests/golden/weights was made by torch and numpy
 * (tools/make_weight_vectors.py). */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "tensor/tensor.h"

#define FOLDER EBB_SOURCE_DIR "/tests/golden/weights/"

static void open_weights(const char *name, const struct tensor_changes *c, struct tensor_weights *w)
{
    char path[512];
    struct ebb_error err = {0};
    snprintf(path, sizeof path, FOLDER "%s", name);
    CHECK_OK(tensor_weights_open(w, path, c, &err), &err);
}

/* Values of `have` as floats are those of `want`. */
static void check_same(const struct tensor_file *have, const struct tensor_file *want,
                       const char *but)
{
    for (size_t i = 0; i < want->count; i++) {
        const struct tensor_entry *w = &want->entries[i], *h = tensor_file_find(have, w->name);
        if (but && strcmp(but, w->name) == 0)
            continue;
        if (!h)
            fail_msg("no '%s'", w->name);
        CHECK(tensor_same_shape(&h->view, &w->view));
        size_t n = (size_t)tensor_count(&w->view);
        float *a = ebb_alloc(n * sizeof *a + 1), *b = ebb_alloc(n * sizeof *b + 1);
        CHECK(tensor_entry_copy(h, TENSOR_F32, a));
        CHECK(tensor_entry_copy(w, TENSOR_F32, b));
        for (size_t k = 0; k < n; k++)
            if (memcmp(&a[k], &b[k], sizeof *a) != 0)
                fail_msg("%s[%zu]: %.9g instead of %.9g", w->name, k, (double)a[k], (double)b[k]);
        ebb_free(a);
        ebb_free(b);
    }
}

TEST(files__of_torch_and_numpy_have_their_values)
{
    static const char *const names[] = {"dtypes.pt", "checkpoint.pt", "dtypes.safetensors",
                                        "arrays.npz", "packed.npz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tensor_weights have, want;
        open_weights(names[i], NULL, &have);
        open_weights("dtypes.expected.safetensors", NULL, &want);
        check_same(&have.all, &want.all, strstr(names[i], ".npz") ? "bf16" : NULL);
        tensor_weights_close(&have);
        tensor_weights_close(&want);
    }
}

TEST(dtypes__of_the_file_are_kept)
{
    struct tensor_weights w;
    open_weights("dtypes.pt", NULL, &w);
    CHECK_EQ(tensor_file_find(&w.all, "f16")->view.dtype, TENSOR_F16);
    CHECK_EQ(tensor_file_find(&w.all, "i8")->view.dtype, TENSOR_I8);
    CHECK_EQ(tensor_file_find(&w.all, "empty")->view.rank, 2);
    int64_t values[24];
    CHECK(tensor_entry_copy(tensor_file_find(&w.all, "i32"), TENSOR_I64, values));
    CHECK_EQ(values[0], -2);
    CHECK(!tensor_entry_copy(tensor_file_find(&w.all, "f32"), TENSOR_I64, values));
    tensor_weights_close(&w);
}

TEST(eight_bits__are_read_by_their_definition)
{
    /* 0, smallest, 1.5, largest, -1, not a number */
    static const unsigned char e4m3[] = {0x00, 0x01, 0x3c, 0x7e, 0xb8, 0x7f};
    static const unsigned char e5m2[] = {0x00, 0x01, 0x3e, 0x7b, 0xbc, 0x7c};
    static const float want4[] = {0, 0x1p-9f, 1.5f, 448, -1},
                       want5[] = {0, 0x1p-16f, 1.5f, 57344, -1};
    struct tensor_entry e = {.name = "x", .data = e4m3, .bytes = 6};
    float y[6];
    tensor_view_init(&e.view, TENSOR_F8_E4M3, 1, (int64_t[]){6});
    CHECK(tensor_entry_copy(&e, TENSOR_F32, y));
    CHECK(memcmp(y, want4, sizeof want4) == 0 && isnan(y[5]));
    tensor_view_init(&e.view, TENSOR_F8_E5M2, 1, (int64_t[]){6});
    e.data = e5m2;
    CHECK(tensor_entry_copy(&e, TENSOR_F32, y));
    CHECK(memcmp(y, want5, sizeof want5) == 0 && isinf(y[5]));
}

TEST(what_is_no_state_dict__is_refused_by_name)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"module.pt", "state_dict"}, {"legacy.pt", "torch before 1.6"}, {"none.pt", "cannot"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tensor_weights w;
        struct ebb_error err = {0};
        char path[512];
        snprintf(path, sizeof path, FOLDER "%s", rows[i].name);
        CHECK(tensor_weights_open(&w, path, NULL, &err) != EBB_OK);
        if (!strstr(err.message, rows[i].text))
            fail_msg("%s: %s", rows[i].name, err.message);
    }
}

TEST(shards__are_one_set_of_weights)
{
    struct tensor_weights a, b, c;
    open_weights("model.safetensors.index.json", NULL, &a);
    open_weights("resnet.pt", NULL, &b);
    open_weights("", NULL, &c); /* the folder */
    CHECK_EQ(a.all.count, b.all.count);
    check_same(&a.all, &b.all, NULL);
    check_same(&c.all, &b.all, NULL);
    tensor_weights_close(&a);
    tensor_weights_close(&b);
    tensor_weights_close(&c);
}

TEST(renaming__moves_what_stars_stand_for)
{
    const char *const rename[] = {"module.*=*"};
    struct tensor_weights a, b;
    open_weights("parallel.pt", &(struct tensor_changes){.rename = rename, .rename_count = 1}, &a);
    open_weights("resnet.pt", NULL, &b);
    CHECK_EQ(a.all.count, b.all.count);
    check_same(&a.all, &b.all, NULL);
    tensor_weights_close(&a);
    tensor_weights_close(&b);
    struct ebb_error err = {0};
    CHECK_EQ(tensor_rename_check("a.*=b", &err), EBB_EINPUT);
    CHECK_EQ(tensor_rename_check("a", &err), EBB_EINPUT);
    CHECK_EQ(tensor_rename_check("a.*.c=b.*", &err), EBB_OK);
}

TEST(patterns__fit_whole_names)
{
    CHECK(tensor_pattern_fits("*", "a.b"));
    CHECK(tensor_pattern_fits("layer?", "layer?"));
    CHECK(tensor_pattern_fits("*.weight", "a.weight.weight"));
    CHECK(tensor_pattern_fits("h.*.c_*.weight", "h.0.attn.c_proj.weight"));
    CHECK(!tensor_pattern_fits("h.*.c_*.weight", "h.0.attn.c_proj.bias"));
    CHECK(!tensor_pattern_fits("layer1", "layer1.0"));
    CHECK(!tensor_pattern_fits("a*b", "a"));
    CHECK(tensor_pattern_fits("", ""));
}

TEST(transposing__turns_matrices)
{
    const char *const turn[] = {"transposed"};
    struct tensor_weights a;
    open_weights("dtypes.pt", &(struct tensor_changes){.transpose = turn, .transpose_count = 1},
                 &a);
    const struct tensor_entry *t = tensor_file_find(&a.all, "transposed"),
                              *f = tensor_file_find(&a.all, "f32");
    float x[24], y[24];
    CHECK(tensor_same_shape(&t->view, &f->view));
    CHECK(tensor_entry_copy(t, TENSOR_F32, x) && tensor_entry_copy(f, TENSOR_F32, y));
    CHECK(memcmp(x, y, sizeof x) == 0);
    tensor_weights_close(&a);
    const char *const none[] = {"nothing*"};
    struct ebb_error err = {0};
    CHECK_EQ(tensor_weights_open(&a, FOLDER "dtypes.pt",
                                 &(struct tensor_changes){.transpose = none, .transpose_count = 1},
                                 &err),
             EBB_EINPUT);
}

TEST(what_does_not_fit__is_listed_at_once)
{
    struct tensor_weights w;
    struct tensor_view same, other;
    struct ebb_str list = {0};
    struct ebb_error err = {0};
    tensor_view_init(&same, TENSOR_F32, 2, (int64_t[]){4, 6});
    tensor_view_init(&other, TENSOR_F32, 2, (int64_t[]){6, 4});
    struct tensor_wanted wanted[] = {
        {"f32", &same}, {"f64", &other}, {"body.i32", &same}, {"head.weight", &same}};
    const char *const fresh[] = {"head.*", "u*", "s*", "t*", "b*", "c*", "e*", "p*"};
    open_weights("dtypes.pt", NULL, &w);
    CHECK_EQ(tensor_weights_check(&w, "w", wanted, 4, fresh, 2, &list, &err), EBB_EINPUT);
    CHECK(strstr(ebb_str_c(&list), "missing: body.i32 [4, 6] (there is 'i32': --rename)"));
    CHECK(strstr(ebb_str_c(&list), "other: f64 is F64 [4, 6], the model has F32 [6, 4] (turned"));
    CHECK(strstr(ebb_str_c(&list), "unexpected: column [4]"));
    CHECK(!strstr(ebb_str_c(&list), "head"));
    CHECK(strstr(err.message, "1 missing"));
    ebb_str_fini(&list);
    tensor_weights_close(&w);
}

TEST(arrays__written_here_are_read_here)
{
    char path[64];
    float x[6] = {1, 2, 3, 4, 5, 6};
    int64_t n = 7;
    struct ebb_error err = {0};
    struct tensor_weights w;
    struct tensor_to_write items[2] = {{.name = "a.b", .data = x}, {.name = "count", .data = &n}};
    tensor_view_init(&items[0].view, TENSOR_F32, 2, (int64_t[]){2, 3});
    tensor_view_init(&items[1].view, TENSOR_I64, 0, NULL);
    snprintf(path, sizeof path, "/tmp/ebb_test_%d.npz", (int)getpid());
    CHECK_OK(tensor_file_write(path, items, 2, &err), &err);
    CHECK_OK(tensor_weights_open(&w, path, NULL, &err), &err);
    CHECK_EQ(w.all.count, 2);
    CHECK(memcmp(tensor_file_find(&w.all, "a.b")->data, x, sizeof x) == 0);
    CHECK(memcmp(tensor_file_find(&w.all, "count")->data, &n, sizeof n) == 0);
    tensor_weights_close(&w);
    struct ebb_file_view view;
    CHECK_OK(ebb_file_view_open(&view, path, SIZE_MAX, &err), &err);
    unsigned char *bytes = ebb_alloc(view.length);
    memcpy(bytes, view.data, view.length);
    unsigned char *at = memmem(bytes, view.length, x, sizeof x);
    CHECK(at != NULL);
    at[5] ^= 1; /* a number, not the form of the file */
    struct tensor_file file;
    CHECK_EQ(tensor_file_read(&file, "changed", bytes, view.length, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "CRC-32") != NULL);
    ebb_free(bytes);
    ebb_file_view_close(&view);
    unlink(path);
}

/* Every cut and many changed bytes: a status, no crash, nothing left. */
TEST(damaged_files__are_refused)
{
    static const char *const names[] = {"dtypes.pt", "checkpoint.pt", "packed.npz"};
    uint64_t live = ebb_heap_live();
    for (size_t f = 0; f < sizeof names / sizeof *names; f++) {
        char path[512];
        struct ebb_file_view view;
        struct ebb_error err = {0};
        snprintf(path, sizeof path, FOLDER "%s", names[f]);
        CHECK_OK(ebb_file_view_open(&view, path, SIZE_MAX, &err), &err);
        unsigned char *bytes = ebb_alloc(view.length);
        memcpy(bytes, view.data, view.length);
        for (size_t i = 0; i < view.length; i++) {
            struct tensor_file file;
            unsigned char old = bytes[i];
            if (tensor_file_read(&file, "cut", bytes, i, &err) == EBB_OK)
                tensor_file_fini(&file);
            for (int k = 0; k < 3; k++) {
                bytes[i] = k == 0 ? (unsigned char)~old : k == 1 ? 0xff : 0x30;
                if (tensor_file_read(&file, "changed", bytes, view.length, &err) == EBB_OK)
                    tensor_file_fini(&file);
            }
            bytes[i] = old;
        }
        ebb_free(bytes);
        ebb_file_view_close(&view);
    }
    CHECK_EQ(ebb_heap_live(), live);
}

TEST_MAIN()
