/* cosmoflow.h - one CosmoFlow file. Private; shared with the reference cases. */
#ifndef EBB_DATA_COSMOFLOW_H
#define EBB_DATA_COSMOFLOW_H

#include "data/internal.h"

enum data_cosmo_norm { DATA_COSMO_LOG, DATA_COSMO_MEAN, DATA_COSMO_NONE };

struct data_cosmo {
    bool is_h5, is_packed; /* packed: the TFRecord file is gzip */
    enum data_cosmo_norm norm;
    int64_t size;
};

/* x f32 [4, size, size, size] and y f32 [4]. */
enum ebb_status data_cosmo_read(const struct data_cosmo *cosmo, const struct data_file *file,
                                void *const *fields, struct data_scratch *scratch,
                                struct ebb_error *err);

#endif
