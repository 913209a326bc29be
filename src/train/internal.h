/* internal.h - private to train: rows of the configuration, the table of tasks. */
#ifndef EBB_TRAIN_INTERNAL_H
#define EBB_TRAIN_INTERNAL_H

#include "nn/nn.h"
#include "train/train.h"

/* ---- checking sections (check.c) ---- */

struct train_checker { /* one pass over a section: reports, counts */
    struct ebb_arena *arena;
    train_report_fn report; /* may be NULL */
    void *context;
    const char *section;
    size_t errors;
};

void train_complain(struct train_checker *c, const struct ebb_doc_node *node, const char *key,
                    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

enum train_value_kind {
    TRAIN_V_TEXT,
    TRAIN_V_INT,
    TRAIN_V_NUMBER,
    TRAIN_V_BOOL,
    TRAIN_V_BYTES,  /* "48MiB", an integer, or "unlimited" where high says so */
    TRAIN_V_NUMBERS /* a list of numbers */
};

struct train_key { /* of a section that this folder reads itself */
    const char *name;
    enum train_value_kind kind;
    double low, high;         /* numbers: allowed range */
    const char *const *names; /* texts: allowed ones, NULL-terminated; NULL: any */
    const char *help;
};

/* Every key known and of its kind. `extra` names keys read elsewhere, NULL-terminated; NULL: none.
 */
void train_check_keys(struct train_checker *c, const struct ebb_doc_node *map,
                      const struct train_key *keys, const char *const *extra);
/* A copy of a mapping without the named keys (NULL-terminated). */
struct ebb_doc_node *train_without(struct ebb_arena *arena, const struct ebb_doc_node *map,
                                   const char *const *names);
/* A number, also when YAML 1.1 made it a string ("1e-6"). */
bool train_number(const struct ebb_doc_node *node, double *value);

/* Report everything that a reader of arguments which stops at its first mistake would say: it is
 * called again without the key it complained about until it has nothing left. Messages start with
 * "line:column: " where they have a place. */
typedef enum ebb_status (*train_reader_fn)(void *self, const struct ebb_doc_node *map,
                                           struct ebb_error *err);
void train_check_all(struct train_checker *c, const struct ebb_doc_node *map,
                     train_reader_fn reader, void *self);

/* ---- tasks (task.c) ---- */

struct train_task {
    const char *name;
    unsigned models; /* bit per enum nn_task it can train */
    const char *help;
};
bool train_task_takes(const struct train_task *task, enum nn_task kind);

/* ---- losses (loss.c) ---- */

void train_check_loss(struct train_checker *c, const struct ebb_doc_node *map);

#endif
