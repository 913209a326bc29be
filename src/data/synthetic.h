/* synthetic.h - generated samples of the real shapes, learnable, a pure function of (seed, split,
 * index). Private. */
#ifndef EBB_DATA_SYNTHETIC_H
#define EBB_DATA_SYNTHETIC_H

#include "data/internal.h"
#include "data/pixels.h"

enum data_synthetic_id { /* second half of the Philox key: which generator */
                         DATA_SYN_IMAGE = 1,
                         DATA_SYN_DEEPCAM,
                         DATA_SYN_COSMOFLOW,
                         DATA_SYN_LANGUAGE,
                         DATA_SYN_BERT,
                         DATA_SYN_TREES,
                         DATA_SYN_GAN,
                         DATA_SYN_UNET,
};

/* Where the numbers of one sample come from: key = (seed, generator), counter = (element / 4,
 * index, split, 0). */
struct data_synthetic {
    uint64_t seed;
    enum data_synthetic_id id;
};
struct data_random data_synthetic_random(const struct data_synthetic *s, enum data_split split,
                                         uint64_t index);

/* Make `set` synthetic: fields, counts, read. */
enum ebb_status data_synthetic_language(struct data_set *set, const struct data_values *v,
                                        struct ebb_error *err);
enum ebb_status data_synthetic_bert(struct data_set *set, const struct data_values *v,
                                    struct ebb_error *err);

/* Raw samples, as files hold them. */

/* A picture of 256 x 256: smooth waves of its class and noise. */
enum { DATA_PICTURE = 256, DATA_WAVES = 4 };
struct data_waves {
    struct data_random noise;
    double sine[DATA_WAVES][DATA_PICTURE], cosine[DATA_WAVES][DATA_PICTURE]; /* across */
    double down[DATA_WAVES], phase[DATA_WAVES], share[DATA_WAVES][3];
};
void data_waves_init(struct data_waves *w, uint64_t seed, enum data_split split, uint64_t index,
                     int64_t class);
void data_waves_row(struct data_waves *w, int64_t y, uint8_t *rgb); /* rows in order */

/* DeepCAM: x[channels][height][width] in [0, 1] (may be NULL) and classes 0..2. Scratch: the grid.
 */
struct data_climate {
    uint64_t seed;
    int64_t channels, height, width;
};
size_t data_climate_scratch(const struct data_climate *c);
void data_climate_make(const struct data_climate *c, enum data_split split, uint64_t index,
                       float *scratch, float *x, int64_t *labels);

/* CosmoFlow: counts[4][size^3], y[4]. */
size_t data_cosmos_scratch(void);
void data_cosmos_make(uint64_t seed, int64_t size, enum data_split split, uint64_t index,
                      float *scratch, int16_t *counts, float y[4]);

/* Counts of a synthetic set: keys samples and val_samples, or these. */
void data_synthetic_counts(struct data_set *set, const struct data_values *v, uint64_t train,
                           uint64_t validation);

#endif
