/* Numbers in files. */
#include "test.h"

#include "base/codec.h"
#include "base/npy.h"
#include "base/zip.h"

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

/* ---- NumPy's arrays ---- */

TEST(npy__header_as_numpy_writes_it)
{
    static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 40,), }";
    struct ebb_npy a = {.kind = 'f', .item_bytes = 4, .rank = 2, .dims = {3, 40}}, back = {0};
    struct ebb_str s = {0};
    struct ebb_error err;
    ebb_npy_write(&a, &s);
    CHECK_EQ(s.length % 64, 0);
    CHECK(memcmp(s.data, "\x93NUMPY\1\0\x76\0", 10) == 0);
    CHECK(memcmp(s.data + 10, text, strlen(text)) == 0);
    CHECK_EQ(s.data[s.length - 1], '\n');
    CHECK_OK(ebb_npy_read(s.data, s.length, &back, &err), &err);
    CHECK_EQ(back.kind, 'f');
    CHECK_EQ(back.item_bytes, 4);
    CHECK(!back.is_big_endian && !back.is_fortran);
    CHECK_EQ(back.rank, 2);
    CHECK_EQ(back.dims[1], 40);
    CHECK_EQ(back.head_bytes, s.length);
    CHECK_EQ(back.data_bytes, 480);
    for (size_t n = 0; n < s.length; n++)
        CHECK(ebb_npy_read(s.data, n, &back, &err) == EBB_ECORRUPT);
    ebb_str_fini(&s);
}

TEST(npy__what_is_not_read_is_named)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"{'descr': '<c8', 'fortran_order': False, 'shape': ()}", "a type that is not read"},
        {"{'descr': '<f3', 'fortran_order': False, 'shape': ()}", "a type that is not read"},
        {"{'descr': '|f1', 'fortran_order': False, 'shape': ()}", "a type that is not read"},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}", "neither True nor False"},
        {"{'descr': '<f4', 'shape': (), 'fortran_order'", "neither True nor False"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (-1,)}", "a shape that is not read"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1,2,3,4,5,6,7,8,9)}", "a shape"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (0, 99999999999999, 99999999)}",
         "a shape"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (7x)}", "a shape"},
    };
    struct ebb_npy a;
    struct ebb_error err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t bytes[256] = "\x93NUMPY\1";
        bytes[8] = (uint8_t)strlen(rows[i].text);
        memcpy(bytes + 10, rows[i].text, strlen(rows[i].text));
        CHECK(ebb_npy_read(bytes, sizeof bytes, &a, &err) == EBB_ECORRUPT);
        CHECK(strstr(err.message, rows[i].why) != NULL);
    }
}

/* ---- zip ---- */

struct bytes {
    const uint8_t *at;
    size_t length;
};

static enum ebb_status read_bytes(const void *context, uint64_t at, void *out, size_t n,
                                  struct ebb_error *err)
{
    const struct bytes *b = context;
    if (at > b->length || n > b->length - at)
        return ebb_fail(err, EBB_ECORRUPT, "outside");
    memcpy(out, b->at + at, n);
    return EBB_OK;
}

static enum ebb_status say_wrong(const void *context, uint64_t at, const char *what,
                                 struct ebb_error *err)
{
    (void)context, (void)at;
    return ebb_fail(err, EBB_ECORRUPT, "%s", what);
}

/* One stored member "a" of three bytes. */
static size_t make_zip(uint8_t *z)
{
    memset(z, 0, 102);
    memcpy(z, "PK\3\4", 4);
    z[26] = 1;
    memcpy(z + 30, "axyz", 4);
    uint8_t *head = z + 34, *end = z + 81;
    memcpy(head, "PK\1\2", 4);
    head[20] = head[24] = 3;
    head[28] = 1;
    head[46] = 'a';
    memcpy(end, "PK\5\6", 4);
    end[12] = 47;
    end[16] = 34;
    return 103;
}

static enum ebb_status walk(const uint8_t *z, size_t n, struct ebb_zip_member *m, size_t *count,
                            struct ebb_error *err)
{
    struct bytes b = {z, n};
    struct ebb_zip zip = {.context = &b, .length = n, .read = read_bytes, .wrong = say_wrong};
    bool is_end = false;
    EBB_TRY(ebb_zip_open(&zip, err));
    for (*count = 0;; ++*count) {
        EBB_TRY(ebb_zip_next(&zip, m, &is_end, err));
        if (is_end)
            return EBB_OK;
    }
}

TEST(zip__members_are_found_and_damage_is_named)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *why;
    } rows[] = {
        {81, 'X', "no directory at the end"},
        {34, 'X', "a damaged directory"},
        {0, 'X', "no local header"},
        {44, 9, "neither stored nor deflated"},
        {54, 4, "has two sizes"},
        {26, 250, "leaves the file"},
        {98, 9, "lies outside the file"},
        {62, 90, "a damaged directory"},
    };
    uint8_t z[128];
    size_t n = make_zip(z), count = 0;
    struct ebb_zip_member m;
    struct ebb_error err;
    CHECK_OK(walk(z, n, &m, &count, &err), &err);
    CHECK_EQ(count, 1);
    CHECK_EQ(m.data, 31);
    CHECK_EQ(m.bytes, 3);
    CHECK(!m.is_packed && m.name_length == 1 && z[m.name] == 'a');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_zip(z);
        z[rows[i].at] = rows[i].value;
        CHECK(walk(z, n, &m, &count, &err) == EBB_ECORRUPT);
        if (strstr(err.message, rows[i].why) == NULL)
            fail_msg("byte %zu: %s", rows[i].at, err.message);
    }
}

TEST_MAIN()
