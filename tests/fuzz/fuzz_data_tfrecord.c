/* fuzz_data_tfrecord.c - TFRecord streams and tf.Example messages of any bytes.
 *
 * Checksums stop most of what a fuzzer makes, so the bytes are also taken as a message by
 * themselves. Nothing found in a message may lie outside it. */

#include "fuzz.h"

#include "data/tfrecord.h"

static void read_example(const uint8_t *record, size_t length, struct ebb_error *err)
{
    static const char *const keys[] = {"x", "y", ""};
    float floats[4];
    int64_t ints[4];
    for (int i = 0; i < 3; i++) {
        struct data_feature f;
        const uint8_t *bytes;
        size_t n;
        if (data_example_find("fuzz", record, length, keys[i], &f, err) != EBB_OK)
            continue;
        require(f.kind == DATA_FEATURE_NONE ||
                (f.data >= record && f.data + f.length <= record + length));
        if (data_feature_bytes("fuzz", &f, &bytes, &n, err) == EBB_OK)
            require(bytes >= record && bytes + n <= record + length);
        data_feature_floats("fuzz", &f, 4, floats, err);
        data_feature_ints("fuzz", &f, 4, ints, err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t memory[1 << 16];
    struct data_file file;
    struct data_stream s;
    struct ebb_error err = {0};
    uint64_t live = ebb_heap_live();
    require(data_file_memory(&file, "fuzz", data, size, &err) == EBB_OK);
    if (data_stream_open(&s, &file, DATA_WRAP_AUTO, 0, size, &err) == EBB_OK) {
        for (;;) {
            struct data_scratch scratch = {.memory = memory, .bytes = sizeof memory};
            uint8_t *record;
            size_t length;
            if (data_tfrecord_next(&s, sizeof memory / 2, &scratch, &record, &length, &err) !=
                    EBB_OK ||
                !record)
                break;
            read_example(record, length, &err);
        }
        data_stream_close(&s);
    }
    read_example(data, size, &err);
    data_file_close(&file);
    require(ebb_heap_live() == live);
    return 0;
}
