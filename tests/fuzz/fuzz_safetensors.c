/* fuzz_safetensors.c - the reader of tensor files on any bytes: safetensors, .pt, .npz.
 *
 * Checked beyond not crashing: an accepted file's tensors can be read, lie inside it and fill it
 * (safetensors: what is packed or strided lies elsewhere), and are found by name; nothing stays
 * allocated. */

#include "fuzz.h"

#include "tensor/tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tensor_file file;
    struct ebb_error err = {0};
    uint64_t live = ebb_heap_live();
    bool is_zip = size > 4 && memcmp(data, "PK\3\4", 4) == 0;
    if (tensor_file_read(&file, "fuzz", data, size, &err) == EBB_OK) {
        size_t total = 0;
        for (size_t i = 0; i < file.count; i++) {
            const struct tensor_entry *e = &file.entries[i];
            const uint8_t *p = e->data;
            require(is_zip || (p >= data && p + e->bytes <= data + size));
            require((uint64_t)tensor_count(&e->view) * tensor_dtype_bytes(e->view.dtype) ==
                    e->bytes);
            require(tensor_file_find(&file, e->name) == e);
            total += e->bytes;
            float *values = e->bytes < 1 << 20 ? ebb_alloc(8 * e->bytes + 4) : NULL;
            if (values)
                require(tensor_entry_copy(e, TENSOR_F32, values));
            ebb_free(values);
        }
        require(is_zip || total <= size);
        tensor_file_fini(&file);
    } else {
        require(err.message[0] != '\0');
    }
    require(ebb_heap_live() == live);
    return 0;
}
