/* engine_inside.h - private to engine.c and leaves.c: an engine and its programs. */
#ifndef EBB_TRAIN_ENGINE_INSIDE_H
#define EBB_TRAIN_ENGINE_INSIDE_H

#include "train/decide.h"
#include "train/engine.h"
#include "train/place.h"

struct train_program {
    struct trace *trace;
    struct trace plain; /* what is decided about, with the times that are built in; no ops: it has
                           them itself */
    struct exec_program *exec;
    struct train_choice choice;
    struct exec_image *image;
    uint32_t *persistent;    /* leaf tensors in order */
    uint64_t *base;          /* per storage: plan_base_layout */
    uint64_t base_bytes;     /* in tier 0 */
    struct plan_homes homes; /* of the others, as the engine has them */
    /* Tables in host memory: the choice is made for the light trace and said for this one. NULL:
     * there are none. */
    struct planner_tables *tables;
    struct exec_program *light;
    struct plan_homes light_homes;
    struct plan said;
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
    struct ebb_error refusal; /* of a reservation that failed */
    uint64_t slab_bytes;
    uint64_t needed_bytes;          /* largest floor of the programs refused so far */
    bool *is_table;                 /* leaf: lives in host memory, see tables.c; NULL: not known */
    struct plan_homes homes;        /* of the first program; storage: number of the leaf */
    struct train_program *programs; /* newest first */
};

/* Of a persistent leaf by its number. */
static inline uint32_t train_leaf_storage(const struct train_program *p, uint32_t leaf)
{
    return p->trace->tensors[p->persistent[leaf]].storage;
}

/* What runs. */
static inline const struct plan *train_plan_of(const struct train_program *p)
{
    return p->tables ? &p->said : &p->choice.plan;
}

/* tables.c: nothing happens unless the option asks for it. EBB_EINPUT: nothing is looked up;
 * EBB_EBUDGET: host memory is too small. */
enum ebb_status train_tables_make(struct train_engine *engine, struct train_program *program,
                                  struct ebb_error *err);
void train_tables_fini(struct train_program *program);
/* The trace has other costs. */
enum ebb_status train_tables_reprice(struct train_program *program, struct ebb_error *err);
/* What the tables leave to decide about. */
enum ebb_status train_tables_ways(struct train_program *program, struct train_ways *ways,
                                  struct ebb_error *err);
/* Of a program with tables: the choice, and what it means for the program. */
enum ebb_status train_tables_decide(const struct train_engine *engine,
                                    struct train_program *program, struct train_ways *ways,
                                    struct ebb_error *err);
/* The same: as much of its state as there is room for has a home below. */
enum ebb_status train_tables_below(const struct train_engine *engine, struct train_program *program,
                                   struct ebb_error *err);

/* How its programs run is decided anew, for `ways`; where state lives changes, its bytes do not. */
enum ebb_status train_engine_decide_again(struct train_engine *engine, struct ebb_error *err);

#endif
