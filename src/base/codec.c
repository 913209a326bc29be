/* codec.c - see codec.h. */
#include "base/codec.h"

/* CRC-32C, reflected polynomial 0x82f63b78: the processor's instruction, or a table. */
static uint32_t crc_byte(uint32_t crc)
{
    for (int k = 0; k < 8; k++)
        crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_fast(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t wide = crc, word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; n > 0; n--, p++)
        crc = __builtin_ia32_crc32qi(crc, *p);
    return crc;
}
#endif

uint32_t ebb_crc32c_add(uint32_t crc, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    crc = ~crc;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc_fast(crc, p, n);
#endif
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++)
        table[i] = crc_byte(i);
    for (size_t i = 0; i < n; i++)
        crc = table[(crc ^ p[i]) & 255] ^ crc >> 8;
    return ~crc;
}

uint32_t ebb_crc32c(const void *bytes, size_t n)
{
    return ebb_crc32c_add(0, bytes, n);
}

uint32_t ebb_record_sum(const void *bytes, size_t n)
{
    uint32_t crc = ebb_crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void ebb_record_head(uint8_t head[EBB_RECORD_HEAD], uint64_t length)
{
    ebb_store_u64(head, length);
    ebb_store_u32(head + 8, ebb_record_sum(head, 8));
}

void ebb_add_varint(struct ebb_str *s, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        ebb_str_addc(s, (char)(uint8_t)(value | 128));
    ebb_str_addc(s, (char)(uint8_t)value);
}

void ebb_add_field(struct ebb_str *s, unsigned field, uint64_t bytes)
{
    ebb_add_varint(s, field << 3 | 2);
    ebb_add_varint(s, bytes);
}
