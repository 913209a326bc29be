/* engine_inside.h - private to engine.c and leaves.c: an engine and its programs. */
#ifndef EBB_TRAIN_ENGINE_INSIDE_H
#define EBB_TRAIN_ENGINE_INSIDE_H

#include "train/decide.h"
#include "train/engine.h"
#include "train/place.h"

struct train_program {
    struct trace *trace;
    struct exec_program *exec;
    struct train_choice choice;
    struct exec_image *image;
    uint32_t *persistent;    /* leaf tensors in order */
    uint64_t *base;          /* per storage: plan_base_layout */
    uint64_t base_bytes;     /* in tier 0 */
    struct plan_homes homes; /* of the others, as the engine has them */
    uint32_t persistent_count;
    bool is_settled; /* it came after the first: the homes were given */
    struct train_program *next;
};

struct train_engine {
    struct train_engine_options options;
    char *file_path;
    struct train_ways ways;
    struct train_place place;
    struct profile *own_costs; /* the table's own; NULL: given, or as built in */
    void *backend;             /* context of its kernels */
    void *below;               /* of the host's, where it may run some; else NULL */
    struct device *device;
    unsigned char *stage;
    bool is_reserved;
    uint64_t slab_bytes;
    uint64_t needed_bytes;          /* largest floor of the programs refused so far */
    struct plan_homes homes;        /* of the first program; storage: number of the leaf */
    struct train_program *programs; /* newest first */
};

/* How its programs run is decided anew, for `ways`; where state lives changes, its bytes do not. */
enum ebb_status train_engine_decide_again(struct train_engine *engine, struct ebb_error *err);

#endif
