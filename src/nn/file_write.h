/* file_write.h - private to those who write a model as the text of a model file: the journal of its
 * calls, and what is known while it is written. */
#ifndef EBB_NN_FILE_WRITE_H
#define EBB_NN_FILE_WRITE_H

#include "nn/file.h"

struct nn_note {               /* one call */
    const char *what;          /* of the op, or of a function of model files */
    const struct ops_def *def; /* NULL: no op of the table */
    const void *attr;
    const tensor_id *in, *out;
    size_t in_count, out_count;
    double first, second;
};

struct nn_journal {
    struct ebb_arena arena;
    struct nn_note *notes;
    size_t count, capacity;
    int depth; /* inside a call that is noted as a whole */
    bool failed;
};

/* A model, built at one batch. */
struct nn_built {
    int64_t batch;
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_journal journal;
    struct nn_port ports[NN_PORTS];
    size_t port_count;
    tensor_id inputs[NN_PORTS];
    struct nn_output outputs[NN_PORTS];
    size_t output_count;
};

/* In training, or as it is evaluated. */
enum ebb_status nn_built_open(struct nn_built *m, const struct nn_config *config, int64_t batch,
                              bool is_training, struct ebb_error *err);
void nn_built_close(struct nn_built *m); /* all zero is fine */

struct nn_writer {
    const struct nn_config *config;
    struct nn_built *small, *large; /* two batches */
    struct ebb_str *out;
    struct ebb_arena *arena;
    struct ebb_map items;  /* handle to 1 + item */
    struct ebb_map values; /* handle to number of the variable */
    struct ebb_map inputs; /* handle to number of the input */
    uint64_t next;
    const char **modules; /* per item: text of the module that begins with it, or NULL */
    bool *is_inside;      /* per item: part of a module */
    const char *problem;  /* what cannot be written; NULL: nothing */
};

/* The shortest text that reads back to the same float. */
void nn_write_float(struct ebb_str *out, float v);
/* The weight or buffer that it is; NULL: none. */
const struct nn_item *nn_write_item(const struct nn_writer *w, tensor_id x);

/* ---- file_write_modules.c ---- */

/* Attributes of the op by their names; NULL: none, or out of memory. */
const struct ebb_doc_node *nn_write_attributes(struct nn_writer *w, const struct nn_note *n);
/* The module that a call is, as text, and of how many items; NULL: it is none. */
const char *nn_write_module(struct nn_writer *w, const struct nn_note *n, size_t *items);
/* Which calls are modules (w->modules, w->is_inside), and their section. */
void nn_write_modules(struct nn_writer *w);

#endif
