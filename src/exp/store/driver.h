/* driver.h - what a kind of store offers to store.c, remote_put.c and remote_get.c. Private to exp/store. */
#ifndef EBB_EXP_STORE_DRIVER_H
#define EBB_EXP_STORE_DRIVER_H

#include "base/manifest.h"
#include "exp/store/http.h"
#include "exp/store/journal.h"
#include "exp/store/net.h"
#include "exp/store/store.h"

struct exp_remote_driver;

struct exp_store_driver {
    const char *name; /* checkpoint_storage.type */
    /* Directories that are used in place; NULL in those that are uploaded to. */
    enum ebb_status (*prepare)(const struct exp_store *store, struct ebb_error *err);
    void (*publish)(const struct exp_store *store, struct exp_store_item *items, size_t count);
    enum ebb_status (*verify)(const struct exp_store *store, const char *uuid,
                              struct ebb_error *err);
    enum ebb_status (*remove)(const struct exp_store *store, const char *uuid,
                              struct ebb_error *err);
    const struct exp_remote_driver *remote; /* NULL: used in place */
};

struct exp_store {
    const struct exp_store_driver *driver;
    char *directory;                      /* shared_fs; hdfs: hdfs_path */
    char *bucket, *prefix;                /* s3, gcs; prefix "" or ends in '/' */
    char *endpoint;                       /* s3: endpoint_url; hdfs: hdfs_url; NULL = none */
    char *access_key, *secret_key, *user; /* NULL = not given */
    int64_t experiment;                   /* whose configuration has the keys; 0 = nobody's */
    struct exp_store_net *net;            /* borrowed */
};

extern const struct exp_store_driver exp_store_shared_fs, exp_store_s3, exp_store_gcs,
    exp_store_hdfs;

/* ---- stores that are uploaded to (remote_put.c, remote_get.c) ---- */

struct exp_remote { /* a piece of work with one store; several threads share it */
    const struct exp_store *store;
    struct exp_http *http;
    struct exp_store_watch *watch;
    struct exp_journal *journal; /* uploads only */
};

struct exp_sums { /* of a body; "" where the driver needs none */
    char md5[32], md5_hex[33], sha256[EBB_SHA256_TEXT];
};

struct exp_remote_file {
    const char *uuid;
    const char *path; /* a directory ends in '/': its marker is empty */
    int fd;
    int64_t bytes;
    const char *sha256; /* as the manifest says; NULL: the manifest itself, and directories */
    bool is_alone;      /* of no checkpoint: it replaces what is there, and has no journal */
};

/* Every function tries again by itself what may go better; err names store, key and cause. */
struct exp_remote_driver {
    /* Where a checkpoint is, for people: "s3://bucket/prefix/uuid". uuid "": the place itself. */
    void (*address)(const struct exp_store *store, const char *uuid, struct ebb_str *out);
    bool has_markers; /* directories are objects of their own */
    size_t key_max;   /* bytes that a key may have, with prefix and UUID; 0 = enough for any name */
    const char *no_names_with; /* characters that no name may have, or NULL */
    /* Before the first file and after the last; NULL: nothing to do. */
    enum ebb_status (*begin)(struct exp_remote *r, const char *uuid, struct ebb_error *err);
    enum ebb_status (*finish)(struct exp_remote *r, const char *uuid, struct ebb_error *err);
    /* A whole file, and a file in parts of part_bytes (0: whole after all) by several threads. */
    enum ebb_status (*put)(struct exp_remote *r, const struct exp_remote_file *f,
                           struct ebb_error *err);
    int64_t (*part_bytes)(int64_t bytes);
    enum ebb_status (*begin_parts)(struct exp_remote *r, const struct exp_remote_file *f,
                                   char id[EXP_UPLOAD_ID], struct ebb_error *err);
    /* What proves some of them, at most EBB_MD5_LANES: called before they are sent. */
    enum ebb_status (*sum_parts)(struct exp_remote *r, const struct exp_remote_file *f,
                                 const size_t *parts, size_t count, struct exp_sums *sums,
                                 struct ebb_error *err);
    enum ebb_status (*put_part)(struct exp_remote *r, const struct exp_remote_file *f,
                                const char *id, size_t part, const struct exp_sums *sums,
                                char etag[EXP_ETAG], struct ebb_error *err);
    enum ebb_status (*finish_parts)(struct exp_remote *r, const struct exp_remote_file *f,
                                    const char *id, size_t parts, struct ebb_error *err);
    /* bytes < 0: to the end. EBB_EIO: it is not there. */
    enum ebb_status (*get)(struct exp_remote *r, const char *uuid, const char *path, int64_t offset,
                           int64_t bytes, exp_http_sink sink, void *context, struct ebb_error *err);
    /* Exactly these, and what is unfinished below the checkpoint; what is gone is gone. */
    enum ebb_status (*remove)(struct exp_remote *r, const char *uuid, const char *const *paths,
                              size_t count, struct ebb_error *err);
};

/* What a server says of a failure, in err. */
void exp_gcs_explain(const struct exp_http_answer *answer, struct ebb_error *err);
void exp_hdfs_explain(const struct exp_http_answer *answer, char exception[80],
                      struct ebb_error *err);

/* Bytes asked for again from where a broken answer ended. */
struct exp_range {
    int64_t offset, bytes, received; /* bytes < 0: to the end */
    exp_http_sink sink;
    void *context;
};
bool exp_range_take(void *range, const char *bytes, size_t count); /* a sink */
/* "Range: bytes=..." in text; false: everything is wanted, no header. */
bool exp_range_header(const struct exp_range *range, char *text, size_t size);

/* As exp_store_unpack, for reading only: files that are the same in the tree `twin` (a directory; -1:
 * there is none) are linked to. */
enum ebb_status exp_store_unpack_linked(int root, int twin, const struct exp_store_file *files,
                                        size_t count, struct ebb_error *err);

/* ---- trees (tree.c) ---- */

struct exp_tree_entry {
    char *path; /* owned; directories end in '/' */
    int64_t bytes;
    struct ebb_sums_text sums; /* files, when asked for; else "" */
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
/* Links to files of the tree become other names of those files. EBB_EINPUT: one leads elsewhere. */
enum ebb_status exp_tree_flatten(int directory, struct ebb_error *err);
/* Is the file below a directory what its entry says? EBB_ECORRUPT: it is not, or there is none, or a
 * link or directory has its place; any other status says nothing about it. */
enum ebb_status exp_tree_prove(int directory, const struct ebb_manifest_file *want,
                               struct ebb_error *err);
/* What an errno value of reading a file of a tree is: EBB_ECORRUPT when it is not there (see above),
 * else as in base/status.h. */
enum ebb_status exp_tree_errno(int code);
/* Remove `name` in a directory, whatever it is. */
enum ebb_status exp_tree_remove(int parent, const char *name, struct ebb_error *err);

#endif
