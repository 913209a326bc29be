/* hash.c - MD5 (RFC 1321) of a short text; not for secrecy: it spreads tasks over equal agents the
 * way existing clusters do. The sine table is computed once more than needed rather than typed in.
 */
#include "exp/sched/sched.h"

#include <math.h>
#include <string.h>

static uint32_t rotate(uint32_t x, unsigned by)
{
    return x << by | x >> (32 - by);
}

static uint32_t word_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void take_block(uint32_t state[4], const uint32_t sines[64], const uint8_t block[64])
{
    static const unsigned shifts[4][4] = {
        {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    for (unsigned i = 0; i < 64; i++) {
        uint32_t mix;
        unsigned word;
        switch (i / 16) {
        case 0:
            mix = (b & c) | (~b & d);
            word = i;
            break;
        case 1:
            mix = (d & b) | (~d & c);
            word = (5 * i + 1) % 16;
            break;
        case 2:
            mix = b ^ c ^ d;
            word = (3 * i + 5) % 16;
            break;
        default:
            mix = c ^ (b | ~d);
            word = 7 * i % 16;
            break;
        }
        uint32_t sum = a + mix + sines[i] + word_at(block + 4 * (size_t)word);
        a = d;
        d = c;
        c = b;
        b += rotate(sum, shifts[i / 16][i % 4]);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

uint64_t exp_sched_hash(const char *text)
{
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}, sines[64];
    uint8_t block[64];
    size_t length = strlen(text), left = length;
    for (unsigned i = 0; i < 64; i++)
        sines[i] = (uint32_t)(int64_t)floor(fabs(sin((double)(i + 1))) * 4294967296.0);
    for (; left >= 64; left -= 64, text += 64) {
        memcpy(block, text, 64);
        take_block(state, sines, block);
    }
    memset(block, 0, sizeof block);
    memcpy(block, text, left);
    block[left] = 0x80;
    if (left >= 56) {
        take_block(state, sines, block);
        memset(block, 0, sizeof block);
    }
    for (unsigned i = 0; i < 8; i++)
        block[56 + i] = (uint8_t)((uint64_t)length * 8 >> (8 * i));
    take_block(state, sines, block);
    return (uint64_t)state[1] << 32 | state[0];
}
