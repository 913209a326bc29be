#include "test.h"

#include <string.h>

#include "base/crypto.h"
#include "base/rng.h"

/* FIPS 180-4 examples, added in pieces. */
static void check_hash(const char *data, size_t bytes, size_t piece, const char *want)
{
    struct ebb_sha256 h;
    struct ebb_error err;
    char text[EBB_SHA256_TEXT];
    ebb_sha256_init(&h);
    for (size_t i = 0; i < bytes; i += piece)
        ebb_sha256_add(&h, data + i, bytes - i < piece ? bytes - i : piece);
    CHECK_OK(ebb_sha256_text(&h, text, &err), &err);
    CHECK_STR(text, want);
}

TEST(sha256__published_examples)
{
    static char many[1000000];
    memset(many, 'a', sizeof many);
    check_hash("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_hash("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check_hash(two, 56, 56, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    for (size_t piece = 1; piece < 200; piece += 31)
        check_hash(many, sizeof many, piece,
                   "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(sha256__ended_says_so_and_leaves_the_text)
{
    struct ebb_sha256 h;
    struct ebb_error err;
    char text[EBB_SHA256_TEXT] = "kept";
    ebb_sha256_init(&h);
    ebb_sha256_fini(&h);
    ebb_sha256_add(&h, "abc", 3);
    CHECK(ebb_sha256_text(&h, text, &err) == EBB_EINTERNAL);
    CHECK_STR(text, "kept");
    ebb_sha256_fini(&h);
}

static uint64_t md5_head(const char *text)
{
    struct ebb_error err;
    uint64_t head = 0;
    CHECK_OK(ebb_md5_head(text, &head, &err), &err);
    return head;
}

TEST(md5__first_bytes)
{
    /* d41d8cd98f00b204..., 900150983cd24fb0..., c3fcd3d76192e400..., 57edf4a22be3c955... */
    CHECK(md5_head("") == 0x04b2008fd98c1dd4u);
    CHECK(md5_head("abc") == 0xb04fd23c98500190u);
    CHECK(md5_head("abcdefghijklmnopqrstuvwxyz") == 0x00e49261d7d3fcc3u);
    CHECK(md5_head("1234567890123456789012345678901234567890123456789012345678901234567890"
                   "1234567890") == 0x55c9e32ba2f4ed57u);
}

static void check_decodes(const char *text, const char *want)
{
    char out[64];
    size_t length = 99;
    CHECK(strlen(text) / 4 * 3 + 3 <= sizeof out);
    CHECK(ebb_base64_decode(text, strlen(text), out, &length));
    CHECK_EQ(length, strlen(want));
    CHECK(memcmp(out, want, length) == 0);
}

TEST(base64__vectors_of_rfc_4648_both_ways)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xfb\xff\xbf", "+/+/"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct ebb_str text;
        ebb_str_init(&text);
        ebb_base64_add(&text, pairs[i][0], strlen(pairs[i][0]));
        CHECK_STR(ebb_str_c(&text), pairs[i][1]);
        ebb_str_fini(&text);
        check_decodes(pairs[i][1], pairs[i][0]);
    }
}

TEST(base64__blanks_missing_ends_and_the_other_alphabet)
{
    check_decodes("Zm 9v\r\nYg", "foob");
    check_decodes("Zm9vYmE", "fooba");
    check_decodes("Zm9vYg==\n", "foob");
    check_decodes("-_-_", "\xfb\xff\xbf");
}

TEST(base64__anything_else_is_refused)
{
    static const char *const bad[] = {
        "Z",          "Zm9vY",   "Zm9v*g==",   "Zg==Zg==",    "Zm9v\tYg",
        "\t\t\t\tZm", "Zm9vYg.", "Zm\xc3\xa4", "Zm9v\t\t\t\t"};
    char out[64];
    size_t length;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!ebb_base64_decode(bad[i], strlen(bad[i]), out, &length));
    CHECK(!ebb_base64_decode("Zm\0v", 4, out, &length));
}

TEST(base64__long_data_of_every_remainder)
{
    static char data[20000], out[20003];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 131 + (i >> 7));
    for (size_t length = 3070; length < 3076; length++)
        for (size_t scale = 1; scale <= 6; scale += 5) {
            struct ebb_str text;
            size_t back;
            ebb_str_init(&text);
            ebb_base64_add(&text, data, length * scale);
            CHECK_EQ(text.length, (length * scale + 2) / 3 * 4);
            CHECK(ebb_base64_decode(text.data, text.length, out, &back));
            CHECK_EQ(back, length * scale);
            CHECK(memcmp(out, data, back) == 0);
            ebb_str_fini(&text);
        }
}

TEST(md5_hmac_and_rs256__are_what_others_compute)
{
    struct ebb_error err;
    struct ebb_md5 md5;
    uint8_t bytes[32];
    char text[65];
    ebb_md5_init(&md5);
    ebb_md5_add(&md5, "message ", 8);
    ebb_md5_add(&md5, "digest", 6);
    CHECK_OK(ebb_md5_bytes(&md5, bytes, &err), &err);
    ebb_hex(bytes, 16, text);
    CHECK_STR(text, "f96b697d7cb7938d525a2f31aaf161d0"); /* RFC 1321 */
    CHECK_OK(ebb_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, bytes, &err), &err);
    ebb_hex(bytes, 32, text);
    CHECK_STR(text,
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"); /* RFC 4231 */
    struct ebb_str signature = {0};
    CHECK_EQ(ebb_rs256_sign("-----BEGIN PRIVATE KEY-----\nno\n-----END PRIVATE KEY-----\n", "x",
                            &signature, &err),
             EBB_EINPUT);
    ebb_str_fini(&signature);
}

/* Lengths around the borders of blocks and of pieces, and any; each lane its own message. */
TEST(md5_lanes__are_what_libcrypto_computes)
{
    enum { MOST = 9000 };
    static uint8_t messages[EBB_MD5_LANES][MOST];
    uint64_t state = 5;
    struct ebb_error err;
    for (size_t i = 0; i < sizeof messages; i++)
        messages[i / MOST][i % MOST] = (uint8_t)ebb_splitmix64(&state);
    for (size_t round = 0; round < 600; round++) {
        size_t length = round < 200 ? round : ebb_splitmix64(&state) % MOST, at = 0;
        struct ebb_md5_lanes h;
        uint8_t sums[EBB_MD5_LANES][16], one[16];
        ebb_md5_lanes_init(&h);
        while (at < length) {
            size_t n = 64 * (1 + ebb_splitmix64(&state) % 40);
            const uint8_t *data[EBB_MD5_LANES];
            n = n < length - at ? n : length - at;
            for (size_t lane = 0; lane < EBB_MD5_LANES; lane++)
                data[lane] = messages[lane] + at;
            ebb_md5_lanes_add(&h, data, n);
            at += n;
        }
        ebb_md5_lanes_end(&h, sums);
        for (size_t lane = 0; lane < EBB_MD5_LANES; lane++) {
            struct ebb_md5 md5;
            ebb_md5_init(&md5);
            ebb_md5_add(&md5, messages[lane], length);
            CHECK_OK(ebb_md5_bytes(&md5, one, &err), &err);
            CHECK(memcmp(sums[lane], one, 16) == 0);
        }
    }
}

TEST_MAIN()
