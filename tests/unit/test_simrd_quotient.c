/* Correctly rounded quotients of 64-bit by 128-bit integers, against long arithmetic. */
#include <math.h>
#include <string.h>
#include "test.h"

#include "base/rng.h"
#include "simrd/run.h"

#define LIMBS 10 /* 640 bits, little endian */

struct big {
    uint64_t limb[LIMBS];
};

static struct big big_of(ebb_u128 value, unsigned shift)
{
    struct big b = {{0}};
    for (unsigned bit = 0; bit < 128; bit++) {
        if (value >> bit & 1)
            b.limb[(bit + shift) / 64] |= UINT64_C(1) << ((bit + shift) % 64);
    }
    return b;
}

static struct big big_times(const struct big *a, uint64_t factor)
{
    struct big b = {{0}};
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        ebb_u128 t = (ebb_u128)a->limb[i] * factor + carry;
        b.limb[i] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
    return b;
}

static int big_compare(const struct big *a, const struct big *b)
{
    for (int i = LIMBS; i-- > 0;) {
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    }
    return 0;
}

/* Sign of n / d - m * 2^e, exactly. */
static int compare(uint64_t n, ebb_u128 d, uint64_t m, int e)
{
    struct big left = big_of(n, e < 0 ? (unsigned)-e : 0);
    struct big right = big_of(d, e > 0 ? (unsigned)e : 0);
    right = big_times(&right, m);
    return big_compare(&left, &right);
}

static void check(int64_t n, ebb_u128 d)
{
    double q = simrd_quotient(n, d);
    if (n == 0) {
        CHECK(q == 0);
        return;
    }
    CHECK((q < 0) == (n < 0));
    CHECK(simrd_quotient(-n, d) == -q);
    uint64_t un = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    int exponent;
    uint64_t m = (uint64_t)ldexp(frexp(fabs(q), &exponent), 53); /* q = m * 2^(exponent - 53) */
    CHECK(m >= UINT64_C(1) << 52 && m < UINT64_C(1) << 53);
    int e = exponent - 54; /* midpoints are (2m +- 1) * 2^e; below a power of two half as far */
    int above = compare(un, d, 2 * m + 1, e);
    int below =
        m == UINT64_C(1) << 52 ? compare(un, d, 4 * m - 1, e - 1) : compare(un, d, 2 * m - 1, e);
    CHECK(above <= 0 && below >= 0);
    CHECK(above != 0 || m % 2 == 0); /* a tie goes to even */
    CHECK(below != 0 || m % 2 == 0);
}

TEST(small_integers__divide_as_doubles)
{
    CHECK(simrd_quotient(1, 3) == 1.0 / 3.0);
    CHECK(simrd_quotient(-7, 2) == -3.5);
    CHECK(simrd_quotient(0, 5) == 0);
    CHECK(simrd_quotient(INT64_MAX, 1) == 0x1p63);
    CHECK(simrd_quotient(INT64_MIN, 1) == -0x1p63);
    CHECK(simrd_quotient(1, (ebb_u128)1 << 100) == 0x1p-100);
}

TEST(random_quotients__are_correctly_rounded)
{
    uint64_t random = 1;
    for (int i = 0; i < 40000; i++) {
        uint64_t a = ebb_splitmix64(&random), b = ebb_splitmix64(&random);
        uint64_t c = ebb_splitmix64(&random), s = ebb_splitmix64(&random);
        int64_t n = (int64_t)(a >> (1 + s % 62));
        ebb_u128 d = ((ebb_u128)b << 64 | c) >> (1 + (s >> 8) % 126);
        if (d != 0)
            check(n, d);
    }
}

/* Where long double, rounded twice, goes wrong: quotients a hair beside the middle of two doubles.
 */
TEST(near_ties__are_rounded_once)
{
    uint64_t random = 2;
    for (int i = 0; i < 20000; i++) {
        uint64_t m = (UINT64_C(1) << 53 | ebb_splitmix64(&random) >> 11) | 1; /* 54 bits, odd */
        uint64_t d = 1 + ebb_splitmix64(&random) % 500;
        ebb_u128 product = (ebb_u128)m * d;
        if (product >= (ebb_u128)INT64_MAX)
            continue;
        for (int64_t step = -1; step <= 1; step++)
            check((int64_t)product + step, d); /* exactly the middle at step 0 */
        check((int64_t)product, (ebb_u128)d << 60);
    }
}

TEST_MAIN()
