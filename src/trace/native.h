/* native.h - layout of the native trace file, version 1 (docs/formats/trace.md); private to this
 * folder.
 *
 * Everything is little endian. A header with counts, the section table and its own checksum; then
 * the sections in table order, each on a multiple of eight bytes, zero padded, with a checksum
 * each. What can be derived (first input, storage and version of a tensor, roots) is not stored, so
 * it cannot contradict. */
#ifndef EBB_TRACE_NATIVE_H
#define EBB_TRACE_NATIVE_H

#include <stdint.h>

#include "base/codec.h"

#define TRACE_NATIVE_MAGIC                                                                         \
    "\x89"                                                                                         \
    "EBBT\r\n\x1a"
#define TRACE_NATIVE_MAGIC_BYTES 8
#define TRACE_NATIVE_VERSION 1

enum trace_native_section {
    NATIVE_NAME,    /* bytes of the trace's name */
    NATIVE_KINDS,   /* per kind: purity u8, flags u8 (1 = can skip outputs), 0 u16, name length u32,
                       name */
    NATIVE_OPS,     /* 44 bytes each */
    NATIVE_TENSORS, /* u32 each: 0 fresh, 1 + 2 i view of input i, 2 + 2 i mutates input i */
    NATIVE_STORAGES, /* u64 each: bytes, in order of their roots */
    NATIVE_INPUTS,   /* u32 each */
    NATIVE_COMMANDS, /* u32 each: kind << 30 | index */
    NATIVE_TEXT,     /* labels, each terminated; the first is empty */
    NATIVE_ATTRS,
    NATIVE_SECTIONS,
};

/* Header: offsets of its fields. */
enum {
    NATIVE_AT_VERSION = 8,       /* u32 */
    NATIVE_AT_HEADER_BYTES = 12, /* u32: all of the header, checksum included */
    NATIVE_AT_FILE_BYTES = 16,   /* u64 */
    NATIVE_AT_SIGNATURE = 24,    /* u64 low, u64 high */
    NATIVE_AT_FIXED = 40,        /* u64: fixed bytes of a graph */
    NATIVE_AT_FLAGS = 48,        /* u32: 1 = is a graph */
    NATIVE_AT_OPS = 52,          /* u32 counts */
    NATIVE_AT_TENSORS = 56,
    NATIVE_AT_STORAGES = 60,
    NATIVE_AT_COMMANDS = 64,
    NATIVE_AT_KINDS = 68,
    NATIVE_AT_BACKWARD = 72,      /* u32: command, or 2^32 - 1 */
    NATIVE_AT_SECTION_COUNT = 76, /* u32: 9 */
    NATIVE_AT_TABLE = 80,         /* per section: offset u64, bytes u64, XXH3-64 of its bytes u64 */
    NATIVE_TABLE_ROW = 24,
    NATIVE_AT_CHECKSUM = NATIVE_AT_TABLE + NATIVE_SECTIONS * NATIVE_TABLE_ROW, /* XXH3-64, u64 */
    NATIVE_HEADER_BYTES = NATIVE_AT_CHECKSUM + 8,
    NATIVE_OP_BYTES = 44,
};

#endif
