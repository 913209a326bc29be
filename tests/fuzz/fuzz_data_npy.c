/* fuzz_data_npy.c - NPY arrays and NPZ archives of any bytes.
 *
 * Checked beyond not crashing: an accepted array lies inside its bytes and can be read; an unpacked
 * member is no larger than its packed bytes allow; nothing stays allocated. */

#include "fuzz.h"

#include "data/npy.h"

static void read_array(const struct data_file *file, const struct data_h5_dataset *d)
{
    static double out[1024];
    struct ebb_error err = {0};
    struct data_h5 h = {.file = file};
    struct data_scratch scratch = {0};
    uint64_t rows = d->rank ? d->dims[0] : 1, per_row = data_h5_row_count(d);
    require(data_h5_count(d) * d->type.bytes <= d->bytes);
    require(d->address + d->bytes <= file->length);
    if (rows && per_row && per_row <= 1024)
        require(data_h5_read(&h, d, rows - 1, 1, DATA_F64, out, &scratch, &err) == EBB_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct data_file file, unpacked = {0};
    struct data_h5_dataset d;
    struct ebb_error err = {0};
    uint64_t live = ebb_heap_live();
    require(data_file_memory(&file, "fuzz", data, size, &err) == EBB_OK);
    if (data_npy_read(&file, 0, size, &d, &err) == EBB_OK && d.is_fortran) {
        struct data_file ordered = {0};
        require(data_npy_order(&file, &d, NULL, &ordered, &err) == EBB_OK);
        read_array(&ordered, &d);
        data_file_close(&ordered);
    } else if (err.status == EBB_OK)
        read_array(&file, &d);
    else
        require(err.message[0] != '\0');
    if (data_npz_find(&file, "x", NULL, &unpacked, &d, &err) == EBB_OK) {
        require(unpacked.length <= size * 1032 + 65536);
        read_array(unpacked.path ? &unpacked : &file, &d);
    }
    data_file_close(&unpacked);
    data_file_close(&file);
    require(ebb_heap_live() == live);
    return 0;
}
