/* runtime.h - the device table of a CUDA GPU. Private to the plug-in. */
#ifndef EBB_CUDA_RUNTIME_H
#define EBB_CUDA_RUNTIME_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct device_table cuda_device_table;
void *cuda_stream_of(struct device *device,
                     enum device_stream stream); /* cudaStream_t, for kernels */

#ifdef __cplusplus
}
#endif

#endif
