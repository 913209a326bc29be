/* manifest.h - manifest.json of a folder: path, bytes, SHA-256 and XXH3 of every other file in it
 * (docs/formats/checkpoint.md, docs/formats/state.md).
 *
 * SHA-256 names a file for everybody. Damage is found by XXH3, which takes a fifteenth of the time:
 * whoever could make another file of the same XXH3 could write another manifest. A manifest with
 * them has one of its own, over its entries, so that a changed SHA-256 is noticed, too; without it
 * (older ones) files are compared by SHA-256. */
#ifndef EBB_BASE_MANIFEST_H
#define EBB_BASE_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/crypto.h"
#include "base/doc.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/str.h"

#define EBB_MANIFEST "manifest.json"

struct ebb_manifest_file {
    const char *path; /* below the folder */
    int64_t bytes;
    const char *sha256; /* 64 hexadecimal digits */
    const char *xxh128; /* 32 hexadecimal digits; NULL: there is none to go by */
};

struct ebb_manifest {
    const char *uuid; /* whose it is; NULL: does not say */
    struct ebb_manifest_file *files;
    size_t count;
};

/* Appends the text; indent as of JSON writers. */
void ebb_manifest_write(const struct ebb_manifest *manifest, int indent, struct ebb_str *out);
/* What the document says, no file of it proved; in the arena. EBB_ECORRUPT: it is no manifest, or of
 * another version, an entry has no SHA-256, or its own sum is wrong. */
enum ebb_status ebb_manifest_read(struct ebb_arena *arena, const char *name,
                                  const struct ebb_doc_node *root, struct ebb_manifest *manifest,
                                  struct ebb_error *err);
/* The entry of a path; NULL: there is none. */
const struct ebb_manifest_file *ebb_manifest_find(const struct ebb_manifest *manifest,
                                                  const char *path);

/* What an entry says of a file that is read in pieces. init, add ..., text; fini only where text is
 * not reached. */
struct ebb_sums {
    struct ebb_sha256 sha256;
    struct ebb_hash128_stream xxh128;
    int64_t bytes; /* so far */
};
struct ebb_sums_text {
    char sha256[EBB_SHA256_TEXT], xxh128[EBB_HASH128_TEXT];
};
void ebb_sums_init(struct ebb_sums *s);
void ebb_sums_add(struct ebb_sums *s, const void *data, size_t bytes);
enum ebb_status ebb_sums_text(struct ebb_sums *s, struct ebb_sums_text *text,
                              struct ebb_error *err);
void ebb_sums_fini(struct ebb_sums *s);

/* Is what arrives in pieces the file of an entry? init, ebb_sums_add() to its sums ..., end; fini only
 * where end is not reached. */
struct ebb_proof {
    const struct ebb_manifest_file *want; /* borrowed until the end */
    struct ebb_sums sums;                 /* one of them runs */
};
void ebb_proof_init(struct ebb_proof *p, const struct ebb_manifest_file *want);
/* EBB_ECORRUPT: it is not. */
enum ebb_status ebb_proof_end(struct ebb_proof *p, struct ebb_error *err);
void ebb_proof_fini(struct ebb_proof *p);

#endif
