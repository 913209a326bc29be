/* image.h - private to exec: a bound plan. image.c makes it, image_run.c runs it. */
#ifndef EBB_EXEC_IMAGE_H
#define EBB_EXEC_IMAGE_H

#include "exec/internal.h"

struct image_step {
    uint8_t act, tier; /* PLAN_*; a SEND of a clean copy is left out */
    bool is_again;     /* RUN: a recomputation; DROP: it comes back */
    bool has_work;
    bool is_boxed; /* RUN of a leaf that comes from the inbox */
    uint32_t index;
    uint32_t launch; /* RUN */
    uint32_t box;    /* RUN of such a leaf: which */
    uint32_t copy;   /* SEND, FETCH, RUN below: its number */
    struct exec_waits_of waits;
    uint64_t offset;     /* in tier 0 */
    uint64_t low_offset; /* SEND, FETCH: in the lower tier; MOVE: where from; leaf: in the inbox */
};

/* Leaves may be lent from two places in turn: a graph copies from where they lay when it was made. */
enum { IMAGE_GRAPHS = 2 };

struct image_graph {
    struct device_graph *graph; /* a whole run; NULL: none yet */
    const void **sources;       /* per box */
};

struct exec_image {
    const struct exec_program *p;
    struct exec_options o; /* io and log are those of the run */
    struct device *device;
    struct image_step *steps;
    size_t step_count;
    struct exec_launch *launches;
    uint32_t launch_count;
    uint32_t node_count; /* launches, moves and copies: what a capture of it holds */
    void **pointers;     /* of all launches */
    size_t pointer_count;
    uint64_t *final_offset; /* per storage, PLAN_NOWHERE when absent at the end */
    uint32_t *waits;        /* lists of copies */
    struct exec_waits_of end;
    device_event *events; /* per copy, of the run that is under way */
    bool *is_awaited;     /* per copy */
    /* Where the host cannot reach tier 0: leaves and results lie here in between. */
    unsigned char *inbox, *outbox;
    uint64_t inbox_bytes, outbox_bytes;
    uint32_t box_count;
    const void **sources; /* per box, of the run under way: in the inbox, or lent */
    struct image_graph graphs[IMAGE_GRAPHS];
    int next_graph; /* that is made anew when none fits */
    int graph_most; /* that the device has room for, as far as is known */
    uint64_t runs;
    bool is_timed;                        /* the run under way */
    uint64_t first_ns, again_ns, move_ns; /* of the run under way, when it is measured */
    struct exec_report report;
};

/* Gives its graphs back (image_run.c). */
void exec_image_forget(struct exec_image *image);

static inline uint64_t exec_image_bytes(const struct exec_image *image, uint32_t storage)
{
    return image->p->recipes->storages[storage].bytes;
}

static inline uint64_t exec_move_ns(const struct exec_image *image, uint64_t bytes)
{
    return (uint64_t)mem_copy_ns(&image->o.links.in[DEVICE_T0], bytes);
}

#endif
