/* args.h - private: named arguments from a document into a struct. */
#ifndef EBB_OPTIM_ARGS_H
#define EBB_OPTIM_ARGS_H

#include "base/doc.h"
#include "base/status.h"

enum optim_arg_kind {
    OPTIM_DOUBLE, /* double */
    OPTIM_INT,    /* int64_t */
    OPTIM_BOOL,   /* bool */
    OPTIM_PAIR,   /* two doubles behind each other */
    OPTIM_TEXT,   /* const char *: in the document's arena */
    OPTIM_NODE,   /* const struct ebb_doc_node *: taken as it is */
};

struct optim_arg {
    const char *name;
    enum optim_arg_kind kind;
    size_t offset;
    bool is_required;
    double low, high; /* numbers: allowed range, both ends; ignored when low > high */
};

/* `what` names the optimizer or schedule. rows end with name NULL. */
enum ebb_status optim_args_read(const char *what, const struct optim_arg *rows,
                                const struct ebb_doc_node *map, void *target,
                                struct ebb_error *err);
/* Index of name in a NULL-terminated list, any case; -1 and an error with the nearest name
 * otherwise. */
int optim_args_choose(const char *what, const char *name, const char *const *names, size_t count,
                      struct ebb_error *err);

#endif
