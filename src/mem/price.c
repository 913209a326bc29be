/* price.c - what it costs to have a storage again: the one place where ways back are compared. */
#include "mem/mem.h"

double mem_copy_ns(const struct device_link *link, uint64_t bytes)
{
    return (double)link->latency_ns +
           (link->bytes_per_ns > 0 ? (double)bytes / link->bytes_per_ns : 0.0);
}

double mem_swap_ns(const struct device_link *in, const struct device_link *out, uint64_t bytes,
                   bool is_clean)
{
    return mem_copy_ns(in, bytes) + (is_clean ? 0 : mem_copy_ns(out, bytes));
}

double mem_price(double make_ns, double copy_ns, bool *is_copied)
{
    bool copies = copy_ns < make_ns;
    if (is_copied)
        *is_copied = copies;
    return copies ? copy_ns : make_ns;
}
