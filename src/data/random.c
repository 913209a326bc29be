/* random.c - random numbers by coordinates, and the order of samples. */
#include "data/internal.h"

#include <math.h>

#include "base/rng.h"

/* Uses 32 bits each of a; b's and the stream's words stand in the counter: no two uses overlap. */
void data_random_init(struct data_random *r, uint64_t seed, uint64_t a, uint32_t b, uint32_t stream)
{
    r->key[0] = (uint32_t)seed;
    r->key[1] = (uint32_t)(seed >> 32);
    r->counter[0] = 0;
    r->counter[1] = (uint32_t)a;
    r->counter[2] = b;
    r->counter[3] = stream + ((uint32_t)(a >> 32) << 8);
    r->used = 4;
}

uint32_t data_random_u32(struct data_random *r)
{
    if (r->used == 4) {
        ebb_philox(r->key, r->counter, r->words);
        r->counter[0]++;
        r->used = 0;
    }
    return r->words[r->used++];
}

double data_random_unit(struct data_random *r)
{
    return (double)(data_random_u32(r) >> 8) * 0x1p-24;
}

double data_random_between(struct data_random *r, double low, double high)
{
    return low + (high - low) * data_random_unit(r);
}

uint64_t data_random_below(struct data_random *r, uint64_t n)
{
    uint64_t high = data_random_u32(r);
    uint64_t x = high << 32 | data_random_u32(r);
    return x % n; /* n < 2^32 here: bias below 2^-32 */
}

double data_random_normal(struct data_random *r)
{
    double u = 1.0 - data_random_unit(r), v = data_random_unit(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

void data_permute(uint32_t *list, uint64_t n, uint64_t seed, uint64_t epoch, uint32_t stream)
{
    struct data_random r;
    data_random_init(&r, seed, epoch, 0, stream);
    for (uint64_t i = 0; i + 1 < n; i++) {
        uint64_t j = i + data_random_below(&r, n - i);
        uint32_t t = list[i];
        list[i] = list[j];
        list[j] = t;
    }
}
