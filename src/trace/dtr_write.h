/* dtr_write.h - the DTR log writer's state, and what a log cannot say; private to this folder. */
#ifndef EBB_TRACE_DTR_WRITE_H
#define EBB_TRACE_DTR_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/str.h"
#include "trace/trace.h"

struct trace_dtr_writer {
    const struct trace *t;
    struct ebb_arena arena; /* owns the arrays */
    /* names: per tensor the handles in order of age, and one name released but still bound */
    uint32_t *live_head, *live_tail, *dead;
    uint32_t *bound, *next, *previous; /* per name: its tensor, the next younger and older handle */
    bool *is_first;                    /* per name: the one the value was born with */
    uint32_t name_count;
    uint32_t *last_use; /* per tensor: last command that needs a name for it */
    /* choices, per command: RUN as MUTATE, RELEASE + GET as COPY_FROM */
    uint8_t *rebind;
    uint64_t steps;
    size_t pin_first, pin_count; /* the pins at the end of the trace */
    struct ebb_str *out;         /* NULL: only walk */
    FILE *stream;
    uint32_t mark;    /* where the reader will see the backward pass begin; known after writing */
    bool is_nameless; /* the choices left an input without a name */
};

/* One sentence per line for everything the written log does not say. */
void trace_dtr_lost(const struct trace_dtr_writer *w, bool are_pins_kept, char *lost, size_t size);

#endif
