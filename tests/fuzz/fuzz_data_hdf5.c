/* fuzz_data_hdf5.c - HDF5 files of any bytes: names are looked up, data are read.
 *
 * Checked beyond not crashing: a dataset that was found has sizes that do not overflow, reading it
 * stays within the scratch it asked for, and nothing stays allocated. */

#include "fuzz.h"

#include "data/bert.h"

static void read_all(const struct data_h5 *h, const char *name, struct ebb_error *err)
{
    enum { MOST = 4096, SCRATCH = 1 << 16 };
    static uint8_t memory[SCRATCH + DATA_STREAM_BYTES];
    static int64_t out[MOST];
    struct data_h5_dataset d;
    if (data_h5_find(h, name, &d, err) != EBB_OK)
        return;
    uint64_t per_row = data_h5_row_count(&d), rows = d.rank ? d.dims[0] : 1;
    size_t need = data_h5_scratch(&d), count;
    if (need > sizeof memory)
        return;
    struct data_scratch scratch = {.memory = memory, .bytes = need};
    uint64_t n = per_row == 0 ? rows : MOST / per_row;
    n = n < rows ? n : rows;
    for (int dtype = DATA_F32; dtype <= DATA_I64; dtype++) {
        uint64_t first = rows - n;
        if (data_h5_read(h, &d, first, n, (enum data_dtype)dtype, out, &scratch, err) == EBB_OK)
            require(scratch.used == 0);
        scratch.used = 0;
    }
    if (rows)
        data_h5_read_row(h, &d, rows - 1, MOST, out, &count, &scratch, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {
        "x",    "y",      "climate/data", "rows",         "chunk_all", "chunk_gzip",
        "flat", "single", "in/side",      "many/item050", "input_ids"};
    struct data_file file;
    struct data_h5 h;
    struct ebb_error err = {0};
    uint64_t live = ebb_heap_live();
    require(data_file_memory(&file, "fuzz", data, size, &err) == EBB_OK);
    if (data_h5_open(&h, &file, &err) == EBB_OK) {
        uint64_t rows;
        int64_t sequence = 16;
        size_t scratch;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            read_all(&h, names[i], &err);
        data_bert_shape(&h, &rows, &sequence, &scratch, &err);
    } else {
        require(err.message[0] != '\0');
    }
    data_file_close(&file);
    require(ebb_heap_live() == live);
    return 0;
}
