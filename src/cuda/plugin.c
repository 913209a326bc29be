/* plugin.c - what ebb_cuda.so exports: its tables, to a program built with the same headers. */
#include "cuda/runtime.h"
#include "cuda/table.h"

__attribute__((visibility("default"))) const struct kernel_plugin *ebb_plugin(uint64_t abi);

const struct kernel_plugin *ebb_plugin(uint64_t abi)
{
    static const struct kernel_plugin plugin = {&cuda_device_table, &kernel_cuda};
    return abi == EBB_PLUGIN_ABI ? &plugin : NULL;
}
