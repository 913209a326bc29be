/* fuzz_worker_state.c - any bytes as the safetensors file of a checkpoint. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ebb.h>

#include "worker/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    float w[6], b;
    ebb_tensor tensors[] = {
        {.name = "w", .dtype = EBB_F32, .rank = 2, .shape = {2, 3}, .data = w},
        {.name = "b", .dtype = EBB_F32, .rank = 0, .data = &b},
    };
    struct ebb_error err;
    worker_state_parse("fuzz", (const char *)data, size, tensors, 2, &err);
    return 0;
}
