/* codec.h - numbers in files: little-endian bytes, CRC-32C, the frames and varints that TensorFlow's
 * record files are made of. */
#ifndef EBB_BASE_CODEC_H
#define EBB_BASE_CODEC_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

/* The first n bytes, at most 8. */
static inline uint64_t ebb_load_bytes(const void *p, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, p, n);
    return le64toh(v);
}

static inline uint32_t ebb_load_u32(const void *p)
{
    return (uint32_t)ebb_load_bytes(p, 4);
}

static inline uint64_t ebb_load_u64(const void *p)
{
    return ebb_load_bytes(p, 8);
}

static inline void ebb_store_u32(void *p, uint32_t value)
{
    value = htole32(value);
    memcpy(p, &value, sizeof value);
}

static inline void ebb_store_u64(void *p, uint64_t value)
{
    value = htole64(value);
    memcpy(p, &value, sizeof value);
}

/* The most significant byte first. */
static inline uint64_t ebb_load_big(const void *p, size_t n)
{
    const uint8_t *byte = p;
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | byte[i];
    return v;
}

uint32_t ebb_crc32c(const void *bytes, size_t n);
uint32_t ebb_crc32c_add(uint32_t crc, const void *bytes, size_t n); /* of more bytes; 0 at first */

/* A record is a head, its bytes, and the masked checksum of the bytes. The head is the length (u64)
 * and its masked checksum. */
#define EBB_RECORD_HEAD 12
uint32_t ebb_record_sum(const void *bytes, size_t n);
void ebb_record_head(uint8_t head[EBB_RECORD_HEAD], uint64_t length);

/* Protocol buffers: a number, and the head of a field of bytes. */
void ebb_add_varint(struct ebb_str *s, uint64_t value);
void ebb_add_field(struct ebb_str *s, unsigned field, uint64_t bytes);

#endif
