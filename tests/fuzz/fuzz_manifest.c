/* Manifests: any bytes as one; what was read can be written, and read again as the same. */
#include "fuzz.h"

#include "base/manifest.h"

static enum ebb_status read_text(struct ebb_arena *arena, const char *text, size_t length,
                                 struct ebb_manifest *manifest)
{
    const struct ebb_doc_node *root;
    struct ebb_error err;
    EBB_TRY(ebb_doc_parse_json(arena, "fuzz", text, length, &root, &err));
    return ebb_manifest_read(arena, "fuzz", root, manifest, &err);
}

static void check_same(const struct ebb_manifest *a, const struct ebb_manifest *b)
{
    require(a->count == b->count && (a->uuid == NULL) == (b->uuid == NULL));
    require(a->uuid == NULL || strcmp(a->uuid, b->uuid) == 0);
    for (size_t i = 0; i < a->count; i++) {
        const struct ebb_manifest_file *x = &a->files[i], *y = &b->files[i];
        require(strcmp(x->path, y->path) == 0 && x->bytes == y->bytes);
        require(strcmp(x->sha256, y->sha256) == 0 && (x->xxh128 == NULL) == (y->xxh128 == NULL));
        require(x->xxh128 == NULL || strcmp(x->xxh128, y->xxh128) == 0);
        require(ebb_manifest_find(a, x->path) != NULL);
    }
}

/* Without sums of its own, as older ones are, and with them, which no bytes hit by chance. */
static void read_one(const char *text, size_t length)
{
    struct ebb_arena arena;
    struct ebb_manifest manifest, again;
    ebb_arena_init(&arena);
    for (int way = 0; way < 2 && read_text(&arena, text, length, &manifest) == EBB_OK; way++) {
        struct ebb_str out = {0};
        for (size_t i = 0; way == 1 && i < manifest.count; i++)
            manifest.files[i].xxh128 = manifest.files[i].path;
        ebb_manifest_write(&manifest, way, &out);
        require(!out.failed && read_text(&arena, ebb_str_c(&out), out.length, &again) == EBB_OK);
        check_same(&manifest, &again);
        ebb_str_fini(&out);
    }
    ebb_arena_fini(&arena);
}

FUZZ(read_one)
