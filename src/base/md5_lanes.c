/* md5_lanes.c - several MD5s side by side (declared in crypto.h): RFC 1321 over vectors, one message
 * in each lane. */
#include <string.h>

#include "base/codec.h"
#include "base/crypto.h"

#define BLOCK 64

typedef uint32_t lanes __attribute__((vector_size(4 * EBB_MD5_LANES)));

static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

#define F(b, c, d) ((d) ^ ((b) & ((c) ^ (d))))
#define G(b, c, d) ((c) ^ ((d) & ((b) ^ (c))))
#define H(b, c, d) ((b) ^ (c) ^ (d))
#define I(b, c, d) ((c) ^ ((b) | ~(d)))
#define STEP(f, a, b, c, d, i, word, turn)                                                         \
    a += f(b, c, d) + w[word] + sines[i];                                                          \
    a = b + (a << (turn) | a >> (32 - (turn)));
/* Steps i to i + 3: the words they take, and how far they turn. */
#define FOUR(f, i, w0, w1, w2, w3, t0, t1, t2, t3)                                                 \
    STEP(f, a, b, c, d, i, w0, t0)                                                                 \
    STEP(f, d, a, b, c, (i) + 1, w1, t1)                                                           \
    STEP(f, c, d, a, b, (i) + 2, w2, t2)                                                           \
    STEP(f, b, c, d, a, (i) + 3, w3, t3)
#define WORD(lane) ebb_load_u32(data[lane] + BLOCK * n + 4 * k)

/* Of each message so many blocks. */
static void add_blocks(uint32_t state[4][EBB_MD5_LANES], const uint8_t *const data[EBB_MD5_LANES],
                       size_t blocks)
{
    lanes s[4], w[16];
    memcpy(s, state, sizeof s);
    for (size_t n = 0; n < blocks; n++) {
        for (size_t k = 0; k < 16; k++)
            w[k] = (lanes){WORD(0), WORD(1), WORD(2), WORD(3), WORD(4), WORD(5), WORD(6), WORD(7)};
        lanes a = s[0], b = s[1], c = s[2], d = s[3];
        FOUR(F, 0, 0, 1, 2, 3, 7, 12, 17, 22)
        FOUR(F, 4, 4, 5, 6, 7, 7, 12, 17, 22)
        FOUR(F, 8, 8, 9, 10, 11, 7, 12, 17, 22)
        FOUR(F, 12, 12, 13, 14, 15, 7, 12, 17, 22)
        FOUR(G, 16, 1, 6, 11, 0, 5, 9, 14, 20)
        FOUR(G, 20, 5, 10, 15, 4, 5, 9, 14, 20)
        FOUR(G, 24, 9, 14, 3, 8, 5, 9, 14, 20)
        FOUR(G, 28, 13, 2, 7, 12, 5, 9, 14, 20)
        FOUR(H, 32, 5, 8, 11, 14, 4, 11, 16, 23)
        FOUR(H, 36, 1, 4, 7, 10, 4, 11, 16, 23)
        FOUR(H, 40, 13, 0, 3, 6, 4, 11, 16, 23)
        FOUR(H, 44, 9, 12, 15, 2, 4, 11, 16, 23)
        FOUR(I, 48, 0, 7, 14, 5, 6, 10, 15, 21)
        FOUR(I, 52, 12, 3, 10, 1, 6, 10, 15, 21)
        FOUR(I, 56, 8, 15, 6, 13, 6, 10, 15, 21)
        FOUR(I, 60, 4, 11, 2, 9, 6, 10, 15, 21)
        s[0] += a;
        s[1] += b;
        s[2] += c;
        s[3] += d;
    }
    memcpy(state, s, sizeof s);
}

void ebb_md5_lanes_init(struct ebb_md5_lanes *h)
{
    static const uint32_t first[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    *h = (struct ebb_md5_lanes){0};
    for (size_t i = 0; i < 4; i++)
        for (size_t lane = 0; lane < EBB_MD5_LANES; lane++)
            h->state[i][lane] = first[i];
}

void ebb_md5_lanes_add(struct ebb_md5_lanes *h, const uint8_t *const data[EBB_MD5_LANES],
                       size_t bytes)
{
    add_blocks(h->state, data, bytes / BLOCK);
    h->rest_bytes = bytes % BLOCK;
    for (size_t lane = 0; lane < EBB_MD5_LANES; lane++)
        memcpy(h->rest[lane], data[lane] + bytes - h->rest_bytes, h->rest_bytes);
    h->bytes += bytes;
}

void ebb_md5_lanes_end(struct ebb_md5_lanes *h, uint8_t sums[EBB_MD5_LANES][16])
{
    const uint8_t *last[EBB_MD5_LANES];
    size_t blocks = h->rest_bytes < BLOCK - 8 ? 1 : 2;
    for (size_t lane = 0; lane < EBB_MD5_LANES; lane++) {
        uint8_t *rest = h->rest[lane];
        memset(rest + h->rest_bytes, 0, sizeof h->rest[lane] - h->rest_bytes);
        rest[h->rest_bytes] = 0x80;
        ebb_store_u64(rest + BLOCK * blocks - 8, 8 * h->bytes);
        last[lane] = rest;
    }
    add_blocks(h->state, last, blocks);
    for (size_t lane = 0; lane < EBB_MD5_LANES; lane++)
        for (size_t i = 0; i < 4; i++)
            ebb_store_u32(sums[lane] + 4 * i, h->state[i][lane]);
}
