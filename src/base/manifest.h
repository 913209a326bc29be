/* manifest.h - manifest.json of a folder: path, bytes and SHA-256 of every other file in it
 * (docs/formats/checkpoint.md, docs/formats/state.md). */
#ifndef EBB_BASE_MANIFEST_H
#define EBB_BASE_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/status.h"
#include "base/str.h"

#define EBB_MANIFEST "manifest.json"

struct ebb_manifest_file {
    const char *path; /* below the folder */
    int64_t bytes;
    const char *sha256; /* 64 hexadecimal digits */
};

struct ebb_manifest {
    const char *uuid; /* whose it is; NULL: does not say */
    struct ebb_manifest_file *files;
    size_t count;
};

/* Appends the text; indent as of JSON writers. */
void ebb_manifest_write(const struct ebb_manifest *manifest, int indent, struct ebb_str *out);
/* What the document says, nothing of it proved; in the arena. EBB_ECORRUPT: it is no manifest, or of
 * another version. */
enum ebb_status ebb_manifest_read(struct ebb_arena *arena, const char *name,
                                  const struct ebb_doc_node *root, struct ebb_manifest *manifest,
                                  struct ebb_error *err);
/* The entry of a path; NULL: there is none. */
const struct ebb_manifest_file *ebb_manifest_find(const struct ebb_manifest *manifest,
                                                  const char *path);

#endif
