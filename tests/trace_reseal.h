/* trace_reseal.h - makes the checksums of a native trace file right again after it was damaged, so
 * that tests and fuzzers reach the code behind them. */
#ifndef EBB_TESTS_TRACE_RESEAL_H
#define EBB_TESTS_TRACE_RESEAL_H

#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "trace/native.h"

static inline void trace_reseal(unsigned char *bytes, size_t length)
{
    if (length < NATIVE_HEADER_BYTES)
        return;
    memcpy(bytes, TRACE_NATIVE_MAGIC, TRACE_NATIVE_MAGIC_BYTES);
    ebb_store_u32(bytes + NATIVE_AT_VERSION, TRACE_NATIVE_VERSION);
    ebb_store_u64(bytes + NATIVE_AT_FILE_BYTES, length);
    for (int i = 0; i < NATIVE_SECTIONS; i++) {
        unsigned char *row = bytes + NATIVE_AT_TABLE + i * NATIVE_TABLE_ROW;
        uint64_t offset = ebb_load_u64(row), n = ebb_load_u64(row + 8);
        if (offset <= length && n <= length - offset)
            ebb_store_u64(row + 16, ebb_hash64(bytes + offset, (size_t)n));
    }
    ebb_store_u64(bytes + NATIVE_AT_CHECKSUM, ebb_hash64(bytes, NATIVE_AT_CHECKSUM));
}

#endif
