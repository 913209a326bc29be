/* fuzz_data_idx.c - IDX files, plain or gzip, of any bytes.
 *
 * Checked beyond not crashing: what was accepted can be read to its end; memory stays within what
 * the packed bytes can hold; nothing stays allocated. */

#include "fuzz.h"

#include "data/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct data_file file;
    struct data_idx idx;
    struct ebb_error err = {0};
    uint64_t live = ebb_heap_live();
    require(data_file_memory(&file, "fuzz", data, size, &err) == EBB_OK);
    if (data_idx_read(&idx, &file, NULL, &err) == EBB_OK) {
        uint64_t total = idx.dims[0] * idx.item;
        require(idx.offset + total == idx.file.length);
        require(total <= size * 1032 + 65536);
        uint8_t last;
        if (total)
            require(data_file_read(&idx.file, idx.offset + total - 1, &last, 1, &err) == EBB_OK);
        data_idx_fini(&idx);
    } else {
        require(err.message[0] != '\0');
    }
    require(ebb_heap_live() == live);
    return 0;
}
