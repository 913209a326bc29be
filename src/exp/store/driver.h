/* driver.h - what a kind of store offers to store.c. Private to exp/store. */
#ifndef EBB_EXP_STORE_DRIVER_H
#define EBB_EXP_STORE_DRIVER_H

#include "exp/store/store.h"

struct exp_store_driver {
    const char *name; /* checkpoint_storage.type */
    enum ebb_status (*prepare)(const struct exp_store *store, struct ebb_error *err);
    void (*publish)(const struct exp_store *store, struct exp_store_item *items, size_t count);
    enum ebb_status (*verify)(const struct exp_store *store, const char *uuid,
                              struct ebb_error *err);
    enum ebb_status (*remove)(const struct exp_store *store, const char *uuid,
                              struct ebb_error *err);
};

struct exp_store {
    const struct exp_store_driver *driver;
    char *directory; /* shared_fs */
};

extern const struct exp_store_driver exp_store_shared_fs;

/* ---- trees (tree.c) ---- */

struct exp_tree_entry {
    char *path; /* owned; directories end in '/' */
    int64_t bytes;
    char sha256[65]; /* files, when asked for */
};

struct exp_tree {
    struct exp_tree_entry *entries; /* ascending by path */
    size_t count, capacity;
};

/* What lies below `directory`. EBB_EINPUT: something that is neither file nor directory, or more
 * than 32 levels. */
enum ebb_status exp_tree_read(struct exp_tree *tree, int directory, bool wants_hash,
                              struct ebb_error *err);
void exp_tree_fini(struct exp_tree *tree);
/* Hash of one file below a directory; links refused. */
enum ebb_status exp_tree_hash(int directory, const char *path, char sha256[65], int64_t *bytes,
                              struct ebb_error *err);
/* Remove `name` in a directory, whatever it is. */
enum ebb_status exp_tree_remove(int parent, const char *name, struct ebb_error *err);

#endif
