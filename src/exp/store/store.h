/* store.h - where checkpoints live.
 *
 * A checkpoint is a directory named by a UUID. It is written under a staging name, then sealed
 * (metadata.json, manifest.json with size and SHA-256 of every other file), made durable and
 * renamed; under its final name a checkpoint is whole or damaged, never half-written, and the
 * manifest tells.
 *
 *  T1  Nothing outside <directory>/<uuid> and <directory>/.<uuid>.tmp is read, written or removed:
 *      names are checked, links are refused and never followed.
 *  T2  Publishing or removing again what already is, is success.
 *  T3  A location (JSON) says all that is needed to find a checkpoint again, whatever the
 *      experiment's storage is then.
 *
 * Drivers (driver.h) are ready for stores that are uploaded to; shared_fs is the one that is built.
 * Functions block; a store is immutable after opening and may be used by several threads. */
#ifndef EBB_EXP_STORE_STORE_H
#define EBB_EXP_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/str.h"
#include "exp/config/config.h"

struct exp_store;

/* EBB_EUNSUPPORTED: a kind that is not built. */
enum ebb_status exp_store_open(const struct exp_storage *storage, struct exp_store **store,
                               struct ebb_error *err);
/* From what exp_store_location wrote. */
enum ebb_status exp_store_open_location(const char *location, struct exp_store **store,
                                        struct ebb_error *err);
void exp_store_close(struct exp_store *store);
void exp_store_location(const struct exp_store *store, struct ebb_str *out);

/* Make the place itself, if missing: mode 0777 whatever the umask. */
enum ebb_status exp_store_prepare(const struct exp_store *store, struct ebb_error *err);
/* Where a trial writes, and where it reads. */
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

struct exp_store_item {
    const char *uuid;
    const char *metadata;              /* a JSON object; its keys win over those the trial wrote */
    const struct exp_store_file *code; /* copied to code/ */
    size_t code_count;
    enum ebb_status status; /* filled from here on */
    struct ebb_error err;
    struct ebb_str resources; /* {"state/":0,"state/weights":1024,...}; initialised by the call */
    int64_t size;
};

/* Seal, make durable and rename a batch: two syncs for all of it. Each item has its own status. */
void exp_store_publish(const struct exp_store *store, struct exp_store_item *items, size_t count);
/* Every file as the manifest says. EBB_ECORRUPT: which one is not; EBB_EIO: it is not there. */
enum ebb_status exp_store_verify(const struct exp_store *store, const char *uuid,
                                 struct ebb_error *err);
/* Final and staging form. */
enum ebb_status exp_store_remove(const struct exp_store *store, const char *uuid,
                                 struct ebb_error *err);
/* Store a directory with VALIDATE.txt, read it back, remove it. */
enum ebb_status exp_store_check(const struct exp_store *store, struct ebb_error *err);

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
/* Remove a directory with everything in it, links not followed; already gone is success. */
enum ebb_status exp_store_remove_tree(const char *path, struct ebb_error *err);

#endif
