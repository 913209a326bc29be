/* labels.h - files of pictures with what each of them is. Private. */
#ifndef EBB_DATA_LABELS_H
#define EBB_DATA_LABELS_H

#include "data/internal.h"

struct data_labels {             /* {0}: none */
    struct ebb_str text;         /* paths, one after the other */
    uint64_t *offsets;           /* [count] of the paths in text */
    uint32_t *classes;           /* [count] */
    float *values;               /* [count * targets], when they are numbers */
    size_t count, rows, targets; /* targets: 0 = classes */
    size_t capacity, class_capacity, value_capacity;
};

void data_labels_fini(struct data_labels *labels);
uint64_t data_labels_bytes(const struct data_labels *labels); /* memory that they hold */
/* One more, below `folder` (NULL: none). */
enum ebb_status data_labels_add(struct data_labels *labels, const char *folder, const char *name,
                                uint32_t class, struct ebb_error *err);
/* The rows of a table: a column with names of files (data.inputs, else `file`), one or more with what
 * they are (data.target, else `label`). Classes that are words become the set's names of classes, when
 * it is the table of training; the set's classes grow to their number. */
enum ebb_status data_labels_read(struct data_set *set, struct data_labels *labels, const char *name,
                                 const struct data_values *values, bool is_training,
                                 struct ebb_error *err);

#endif
