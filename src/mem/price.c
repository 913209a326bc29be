/* price.c - what copies cost; mem_price (mem.h) compares them with making a storage again. */
#include "mem/mem.h"

double mem_copy_ns(const struct device_link *link, uint64_t bytes)
{
    double ns = (double)link->latency_ns +
                (link->bytes_per_ns > 0 ? (double)bytes / link->bytes_per_ns : 0.0);
    return ns < (double)DEVICE_MOST_COPY_NS ? ns : (double)DEVICE_MOST_COPY_NS;
}

double mem_swap_ns(const struct device_link *in, const struct device_link *out, uint64_t bytes,
                   bool is_clean)
{
    return mem_copy_ns(in, bytes) + (is_clean ? 0 : mem_copy_ns(out, bytes));
}
