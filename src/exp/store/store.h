/* store.h - where checkpoints live.
 *
 * A checkpoint is a directory named by a UUID. It is written under a staging name, then sealed
 * (metadata.json, manifest.json with size and sums of every other file), made durable and
 * renamed; under its final name a checkpoint is whole or damaged, never half-written, and the
 * manifest tells.
 *
 *  T1  Nothing outside <directory>/<uuid> and <directory>/.<uuid>.tmp is read, written or removed:
 *      names are checked, links are never followed; one to a file of the same checkpoint
 *      becomes that file when it is sealed, others are refused.
 *  T2  Publishing or removing again what already is, is success.
 *  T3  A location (JSON) says all that is needed to find a checkpoint again, whatever the
 *      experiment's storage is then.
 *
 *  T4  A location holds no secrets: it names the experiment whose configuration has them.
 *
 * Two kinds: shared_fs is used in place. The others (s3, gcs, hdfs: "remote") are uploaded to:
 * checkpoints are sealed in a directory of this machine (a shared_fs store, the staging), uploaded
 * from there, and fetched into another (the cache) to be read.
 *
 * Functions block; a store is immutable after opening and may be used by several threads. */
#ifndef EBB_EXP_STORE_STORE_H
#define EBB_EXP_STORE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "exp/config/config.h"

struct exp_store;
struct exp_store_net; /* what remote stores share: connections, tokens, what was learned */

enum ebb_status exp_store_net_create(struct exp_store_net **net, struct ebb_error *err);
void exp_store_net_destroy(struct exp_store_net *net); /* NULL is fine */
/* How long a transfer may stand still before it counts as broken: 60 s unless said before the first
 * one. */
void exp_store_net_set_patience(struct exp_store_net *net, int seconds);

/* experiment: whose configuration it is, for locations. net is borrowed for the store's life; NULL:
 * a remote store is only named. EBB_EUNSUPPORTED: a kind that is not built. */
enum ebb_status exp_store_open(const struct exp_storage *storage, int64_t experiment,
                               struct exp_store_net *net, struct exp_store **store,
                               struct ebb_error *err);
struct exp_store_keys { /* NULL = not given: the environment has them */
    const char *access_key, *secret_key;
};
/* From what exp_store_location wrote; keys may be NULL. */
enum ebb_status exp_store_open_location(const char *location, const struct exp_store_keys *keys,
                                        struct exp_store_net *net, struct exp_store **store,
                                        struct ebb_error *err);
void exp_store_close(struct exp_store *store);
void exp_store_location(const struct exp_store *store, struct ebb_str *out);
bool exp_store_location_is_remote(const char *location);
/* The experiment whose configuration has the keys of a location; 0: it needs none. */
int64_t exp_store_location_owner(const char *location);
bool exp_store_is_remote(const struct exp_store *store);
/* Of files there. */
struct exp_store_names exp_store_names(const struct exp_store *store);
/* Do they mean the same place (keys aside)? */
bool exp_store_is_same(const struct exp_store *a, const struct exp_storage *b);

/* Make the place itself, if missing: mode 0777 whatever the umask. Nothing to do for remote ones. */
enum ebb_status exp_store_prepare(const struct exp_store *store, struct ebb_error *err);
/* Where a trial writes: shared_fs only. Where a checkpoint is: a path, or "s3://bucket/uuid". */
void exp_store_staging_path(const struct exp_store *store, const char *uuid, struct ebb_str *out);
void exp_store_path(const struct exp_store *store, const char *uuid, struct ebb_str *out);

struct exp_store_file { /* a file (or directory) of a model definition */
    const char *path;
    bool is_directory;
    uint32_t mode;
    int64_t mtime;
    const char *data;
    size_t length;
};

struct exp_store_watch { /* how far it is; shared with whoever may stop it; NULL = nobody does */
    atomic_bool is_unwanted;
    atomic_llong bytes; /* that are there */
    int tries;          /* of each request; 0 = the usual five */
};

struct exp_store_names {
    size_t max;          /* bytes, with their directories; 0 = EXP_NAME_MAX */
    const char *without; /* static: characters that no name may have, or NULL */
};
#define EXP_NAME_MAX 1024

struct exp_store_item {
    const char *uuid;
    const char *metadata;              /* a JSON object; its keys win over those the trial wrote */
    const struct exp_store_file *code; /* copied to code/, read-only */
    size_t code_count;
    struct exp_store_names names; /* that the store takes which it goes to */
    const char
        *code_from; /* a checkpoint whose code/ is the same: linked to; NULL = none is known */
    enum ebb_status status; /* filled from here on */
    struct ebb_error err;
    struct ebb_str resources; /* {"state/":0,"state/weights":1024,...}; initialised by the call */
    int64_t size;
};

/* Seal, make durable and rename a batch: two syncs for all of it. Each item has its own status.
 * shared_fs only. */
void exp_store_publish(const struct exp_store *store, struct exp_store_item *items, size_t count);
/* Every file as the manifest says. EBB_ECORRUPT: which one is not; EBB_EINPUT: there is no such
 * checkpoint; any other: it could not be read, and may be good. shared_fs only. */
enum ebb_status exp_store_verify(const struct exp_store *store, const char *uuid,
                                 struct ebb_error *err);
/* The same of a copy in a folder of any name. */
enum ebb_status exp_store_verify_copy(const char *directory, const char *uuid,
                                      struct ebb_error *err);
/* Final and staging form. resources: the record of a checkpoint in a remote store, of which exactly
 * these files are removed, and uploads that were not finished; NULL: only those. journal: of its
 * upload, or NULL. */
enum ebb_status exp_store_remove(const struct exp_store *store, const char *uuid,
                                 const char *resources, const char *journal,
                                 struct exp_store_watch *watch, struct ebb_error *err);
/* Store a checkpoint with VALIDATE.txt, read it back, remove it. `scratch`: a directory for what a
 * remote store needs on this machine. */
enum ebb_status exp_store_check(const struct exp_store *store, const char *scratch,
                                struct exp_store_watch *watch, struct ebb_error *err);

/* ---- remote stores ---- */

/* The sealed copy in `directory` to the store, going on where `journal` (a file) ends. EBB_EIO: a later try may go better;
 * EBB_ECORRUPT: none does, the copy is damaged or gone; EBB_ECANCELED: unwanted. */
enum ebb_status exp_store_upload(const struct exp_store *store, const char *uuid,
                                 const char *directory, const char *journal,
                                 struct exp_store_watch *watch, struct ebb_error *err);
/* The checkpoint into <directory>/<uuid>, every file proved by the manifest; resources as in its
 * record, or NULL. */
enum ebb_status exp_store_fetch(const struct exp_store *store, const char *uuid,
                                const char *resources, const char *directory,
                                struct exp_store_watch *watch, struct ebb_error *err);

/* ---- event files in remote stores ---- */

/* The files below `directory` (names that begin with a dot aside) to <folder>/... in the store, each
 * whole, replacing what is there: such stores cannot append. What was sent stands in
 * <directory>/.sent.json; a file that has not grown since is not sent again. */
enum ebb_status exp_store_mirror(const struct exp_store *store, const char *folder,
                                 const char *directory, struct exp_store_watch *watch,
                                 struct ebb_error *err);
/* There goes what lies here; a directory that is not here names nothing. */
enum ebb_status exp_store_unmirror(const struct exp_store *store, const char *folder,
                                   const char *directory, struct exp_store_watch *watch,
                                   struct ebb_error *err);

/* ---- used by others ---- */

/* 36 characters, lower case. */
bool exp_store_is_uuid(const char *text);
#define EXP_UUID_TEXT 37
/* A random one (version 4) from the system's generator. */
enum ebb_status exp_uuid_make(char text[EXP_UUID_TEXT], struct ebb_error *err);

/* Relative, no empty, "." or ".." component, no control character, at most 1024 bytes. */
bool exp_store_is_safe_path(const char *path);
/* Write files below a directory that exists; paths are checked. */
enum ebb_status exp_store_unpack(const char *directory, const struct exp_store_file *files,
                                 size_t count, struct ebb_error *err);
struct ebb_arena;
struct ebb_manifest;
/* manifest.json of an open directory, in the arena. */
enum ebb_status exp_store_read_manifest(int directory, struct ebb_arena *arena,
                                        struct ebb_manifest *manifest, struct ebb_error *err);
/* Remove a directory with everything in it, links not followed; already gone is success. */
enum ebb_status exp_store_remove_tree(const char *path, struct ebb_error *err);

#endif
