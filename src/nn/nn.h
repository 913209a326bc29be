/* nn.h - layers and models; for now the random numbers that initialise them.
 *
 * nn_torch_rng reproduces torch's CPU generator draw for draw (option `rng: torch`): MT19937,
 * floats of 24 bits, normals by Box-Muller, singly in double below 16 elements and in blocks of 16
 * floats from there on. The generator of ebb itself is Philox (kernel_random_*, ops_dropout): it
 * needs no state. */
#ifndef EBB_NN_NN_H
#define EBB_NN_NN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

struct nn_torch_rng {
    struct ebb_mt19937 mt;
    double cached; /* second normal of a pair */
    bool has_cached;
};

void nn_torch_seed(struct nn_torch_rng *rng, uint64_t seed);
void nn_torch_uniform(struct nn_torch_rng *rng, size_t n, float low, float high, float *y);
void nn_torch_normal(struct nn_torch_rng *rng, size_t n, float mean, float deviation, float *y);
void nn_torch_bernoulli(struct nn_torch_rng *rng, size_t n, double p, float *y);
void nn_torch_randperm(struct nn_torch_rng *rng, size_t n, int64_t *y);

/* Bound of torch's default for linear and convolution weights and biases: 1/sqrt(fan_in), as
 * Kaiming uniform with a = sqrt(5) works out. */
float nn_default_bound(int64_t fan_in);

#endif
