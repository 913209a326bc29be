/* Numbers in files. */
#include "test.h"

#include "base/codec.h"

TEST(bytes__in_both_orders)
{
    const uint8_t bytes[9] = {1, 2, 3, 4, 5, 6, 7, 0x88, 9};
    uint8_t out[9];
    CHECK_EQ(ebb_load_bytes(bytes, 0), 0);
    CHECK_EQ(ebb_load_bytes(bytes, 3), 0x030201);
    CHECK_EQ(ebb_load_u32(bytes + 1), 0x05040302);
    CHECK(ebb_load_u64(bytes) == UINT64_C(0x8807060504030201));
    CHECK_EQ(ebb_load_big(bytes, 3), 0x010203);
    ebb_store_u64(out, ebb_load_u64(bytes));
    ebb_store_u32(out + 5, ebb_load_u32(bytes + 5));
    CHECK(memcmp(out, bytes, sizeof out) == 0);
}

/* RFC 3720, B.4, and the parts that are not whole words. */
TEST(crc32c__of_known_texts)
{
    uint8_t zeros[32] = {0}, counted[32];
    for (int i = 0; i < 32; i++)
        counted[i] = (uint8_t)i;
    CHECK_EQ(ebb_crc32c("123456789", 9), 0xe3069283);
    CHECK_EQ(ebb_crc32c(zeros, 32), 0x8a9136aa);
    CHECK_EQ(ebb_crc32c(counted, 32), 0x46dd794e);
    CHECK_EQ(ebb_crc32c("", 0), 0);
}

TEST(records_and_varints__as_the_format_has_them)
{
    uint8_t head[EBB_RECORD_HEAD];
    struct ebb_str s;
    ebb_record_head(head, 300);
    CHECK_EQ(ebb_load_u64(head), 300);
    CHECK_EQ(ebb_load_u32(head + 8), ebb_record_sum(head, 8));
    ebb_str_init(&s);
    ebb_add_varint(&s, 127);
    ebb_add_field(&s, 3, 300);
    CHECK_EQ(s.length, 4);
    CHECK(memcmp(s.data, "\x7f\x1a\xac\x02", 4) == 0);
    ebb_str_fini(&s);
}

TEST_MAIN()
