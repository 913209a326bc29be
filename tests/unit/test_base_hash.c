#include "test.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"

TEST(fnv1a__is_the_published_function)
{
    /* FNV-1a of the four bytes "abcd". */
    CHECK_EQ(ebb_fnv1a_u32(EBB_FNV1A_INIT, 0x64636261u), UINT64_C(0xfc179f83ee0724dd));
}

TEST(xxh3__known_answers)
{
    CHECK_EQ(ebb_hash64("", 0), UINT64_C(0x2d06800538d394c2));
    struct ebb_hash128 h = ebb_hash128("", 0);
    CHECK_EQ(h.high, UINT64_C(0x99aa06d3014798d8));
    CHECK_EQ(h.low, UINT64_C(0x6001c324468d497f));
    CHECK(ebb_hash64("a", 1) != ebb_hash64("b", 1));
}

TEST(xxh3__in_pieces_is_that_of_the_whole_as_canonical_text)
{
    static char data[5000];
    char text[EBB_HASH128_TEXT], want[EBB_HASH128_TEXT];
    struct ebb_hash128_stream h;
    struct ebb_error err;
    ebb_hash128_init(&h);
    CHECK_OK(ebb_hash128_text(&h, text, &err), &err);
    CHECK_STR(text, "99aa06d3014798d86001c324468d497f");
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * i);
    struct ebb_hash128 whole = ebb_hash128(data, sizeof data);
    snprintf(want, sizeof want, "%016llx%016llx", (unsigned long long)whole.high,
             (unsigned long long)whole.low);
    for (size_t piece = 1; piece < sizeof data; piece += 333) {
        ebb_hash128_init(&h);
        for (size_t i = 0; i < sizeof data; i += piece)
            ebb_hash128_add(&h, data + i, sizeof data - i < piece ? sizeof data - i : piece);
        CHECK_OK(ebb_hash128_text(&h, text, &err), &err);
        CHECK_STR(text, want);
    }
    ebb_hash128_fini(&h);                                   /* also where it has ended */
    CHECK_EQ(ebb_hash128_text(&h, text, &err), EBB_ENOMEM); /* as where none could begin */
}

TEST(clock__goes_forward)
{
    uint64_t a = ebb_clock_ns(), cpu = ebb_clock_cpu_ns();
    volatile unsigned sum = 0;
    for (unsigned i = 0; i < 3000000; i++)
        sum = sum + i;
    CHECK(sum != 1);
    CHECK(ebb_clock_ns() > a);
    CHECK(ebb_clock_cpu_ns() > cpu);
}

TEST_MAIN()
