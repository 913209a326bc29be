/* safetensors: what is written reads back; what is wrong is refused with a reason. */
#include "torture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "tensor/tensor.h"

/* header text and data bytes make a file */
static enum ebb_status read_text(const char *header, size_t data_bytes, struct tensor_file *file,
                                 struct ebb_error *err)
{
    size_t n = strlen(header);
    unsigned char *bytes = ebb_calloc(1, 8 + n + data_bytes);
    bytes[0] = (unsigned char)n;
    bytes[1] = (unsigned char)(n >> 8);
    memcpy(bytes + 8, header, n);
    enum ebb_status status = tensor_file_read(file, "t", bytes, 8 + n + data_bytes, err);
    if (status == EBB_OK)
        tensor_file_fini(file);
    ebb_free(bytes);
    return status;
}

TEST(a_written_file__reads_back)
{
    static const float a[6] = {1, 2, 3, 4, 5, 6};
    static const int64_t b[1] = {-7};
    struct tensor_to_write items[2] = {{.name = "z/a", .data = a}, {.name = "b", .data = b}};
    struct tensor_file file;
    struct ebb_file_view view;
    struct ebb_error err;
    char path[] = "/tmp/ebb-tensors-XXXXXX";
    close(mkstemp(path));
    tensor_view_init(&items[0].view, TENSOR_F32, 2, (int64_t[]){2, 3});
    tensor_view_init(&items[1].view, TENSOR_I64, 0, NULL);
    CHECK_OK(tensor_file_write(path, items, 2, &err), &err);
    CHECK_OK(ebb_file_view_open(&view, path, SIZE_MAX, &err), &err);
    CHECK_OK(tensor_file_read(&file, path, view.data, view.length, &err), &err);
    CHECK_EQ(file.count, 2);
    CHECK_STR(file.entries[0].name, "b"); /* sorted */
    const struct tensor_entry *e = tensor_file_find(&file, "z/a");
    CHECK(e && e->view.rank == 2 && e->view.dims[1] == 3 && e->view.dtype == TENSOR_F32);
    CHECK(memcmp(e->data, a, sizeof a) == 0);
    CHECK(tensor_file_find(&file, "z") == NULL);
    tensor_file_fini(&file);
    ebb_file_view_close(&view);
    unlink(path);
}

TEST(wrong_headers__are_refused)
{
    static const struct {
        const char *header;
        size_t data;
        const char *reason;
    } cases[] = {
        {"[]", 0, "object"},
        {"{\"a\":1}", 0, "object"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "leave"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "use"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "starts"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "integers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "needs"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"x\":1}}", 4, "keys"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,4],\"data_offsets\":[0,0]}}", 0,
         "large"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, "twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}} x", 1, ""},
    };
    uint64_t live = ebb_heap_live();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tensor_file file;
        struct ebb_error err = {0};
        CHECK_EQ(read_text(cases[i].header, cases[i].data, &file, &err), EBB_EINPUT);
        if (!strstr(err.message, cases[i].reason))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.message, cases[i].reason);
    }
    CHECK_EQ(ebb_heap_live(), live);
}

TEST(short_files__are_refused)
{
    struct tensor_file file;
    struct ebb_error err;
    CHECK_EQ(tensor_file_read(&file, "t", "1234567", 7, &err), EBB_EINPUT);
    CHECK_EQ(tensor_file_read(&file, "t", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, &err),
             EBB_EINPUT);
}

TEST(metadata_and_padding__are_fine)
{
    struct tensor_file file;
    struct ebb_error err;
    CHECK_OK(read_text("{\"__metadata__\":{\"a\":\"b\"},\"e\":{\"dtype\":\"F16\",\"shape\":[0],"
                       "\"data_offsets\":[0,0]}}   ",
                       0, &file, &err),
             &err);
}

static enum ebb_status read_small(void *context)
{
    struct tensor_file file;
    static const char bytes[] = "\x40\0\0\0\0\0\0\0"
                                "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"
                                "             x";
    (void)context;
    EBB_TRY(tensor_file_read(&file, "t", bytes, 8 + 64 + 1, NULL));
    tensor_file_fini(&file);
    return EBB_OK;
}

TEST(memory__may_run_out_anywhere)
{
    torture(read_small, NULL, 100);
}

TEST_MAIN()
