/* manifest.c - see manifest.h. */
#include "base/manifest.h"

#include <string.h>

#include "base/json.h"

enum { VERSION = 1 };

void ebb_manifest_write(const struct ebb_manifest *manifest, int indent, struct ebb_str *out)
{
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, out, indent);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_int(&w, "version", VERSION);
    if (manifest->uuid)
        ebb_jsonw_key_string(&w, "uuid", manifest->uuid);
    ebb_jsonw_key(&w, "files");
    ebb_jsonw_array(&w);
    for (size_t i = 0; i < manifest->count; i++) {
        const struct ebb_manifest_file *f = &manifest->files[i];
        ebb_jsonw_object(&w);
        ebb_jsonw_key_string(&w, "path", f->path);
        ebb_jsonw_key_int(&w, "bytes", f->bytes);
        ebb_jsonw_key_string(&w, "sha256", f->sha256);
        ebb_jsonw_object_end(&w);
    }
    ebb_jsonw_array_end(&w);
    ebb_jsonw_object_end(&w);
    ebb_str_addc(out, '\n');
}

enum ebb_status ebb_manifest_read(struct ebb_arena *arena, const char *name,
                                  const struct ebb_doc_node *root, struct ebb_manifest *manifest,
                                  struct ebb_error *err)
{
    const struct ebb_doc_node *list = ebb_doc_get(root, "files");
    if (ebb_doc_int(root, "version", 0) != VERSION || !list || list->kind != EBB_DOC_LIST)
        return ebb_fail(err, EBB_ECORRUPT, "%s is no manifest of version %d", name, VERSION);
    struct ebb_manifest m = {.uuid = ebb_doc_string(root, "uuid", NULL), .count = list->count};
    m.files = ebb_arena_calloc(arena, list->count + 1, sizeof *m.files);
    if (!m.files)
        return ebb_no_memory(err, list->count * sizeof *m.files);
    for (size_t i = 0; i < list->count; i++)
        m.files[i] =
            (struct ebb_manifest_file){.path = ebb_doc_string(list->items[i], "path", ""),
                                       .bytes = ebb_doc_int(list->items[i], "bytes", -1),
                                       .sha256 = ebb_doc_string(list->items[i], "sha256", "")};
    *manifest = m;
    return EBB_OK;
}

const struct ebb_manifest_file *ebb_manifest_find(const struct ebb_manifest *manifest,
                                                  const char *path)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (strcmp(manifest->files[i].path, path) == 0)
            return &manifest->files[i];
    return NULL;
}
