/* manifest.c - see manifest.h. */
#include "base/manifest.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum { VERSION = 1 };

/* Of all that a manifest says, terminators included. */
static enum ebb_status sum_entries(const struct ebb_manifest *manifest, char text[EBB_HASH128_TEXT],
                                   struct ebb_error *err)
{
    struct ebb_hash128_stream h;
    char bytes[24];
    ebb_hash128_init(&h);
    const char *uuid = manifest->uuid ? manifest->uuid : "";
    ebb_hash128_add(&h, uuid, strlen(uuid) + 1);
    for (size_t i = 0; i < manifest->count; i++) {
        const struct ebb_manifest_file *f = &manifest->files[i];
        snprintf(bytes, sizeof bytes, "%lld", (long long)f->bytes);
        const char *parts[] = {f->path, bytes, f->sha256, f->xxh128 ? f->xxh128 : ""};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            ebb_hash128_add(&h, parts[k], strlen(parts[k]) + 1);
    }
    return ebb_hash128_text(&h, text, err);
}

static bool has_all_sums(const struct ebb_manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (!manifest->files[i].xxh128)
            return false;
    return true;
}

void ebb_manifest_write(const struct ebb_manifest *manifest, int indent, struct ebb_str *out)
{
    struct ebb_json_writer w;
    char sum[EBB_HASH128_TEXT];
    bool is_summed = has_all_sums(manifest) && sum_entries(manifest, sum, NULL) == EBB_OK;
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
        if (is_summed)
            ebb_jsonw_key_string(&w, "xxh128", f->xxh128);
        ebb_jsonw_object_end(&w);
    }
    ebb_jsonw_array_end(&w);
    if (is_summed)
        ebb_jsonw_key_string(&w, "xxh128", sum);
    ebb_jsonw_object_end(&w);
    ebb_str_addc(out, '\n');
}

static bool is_sha256(const char *text)
{
    return strspn(text, "0123456789abcdef") == EBB_SHA256_TEXT - 1 &&
           text[EBB_SHA256_TEXT - 1] == '\0';
}

/* want: the manifest's own sum; without one, none is gone by. */
static enum ebb_status prove_entries(struct ebb_manifest *manifest, const char *want,
                                     const char *name, struct ebb_error *err)
{
    char sum[EBB_HASH128_TEXT];
    for (size_t i = 0; !want && i < manifest->count; i++)
        manifest->files[i].xxh128 = NULL;
    if (!want)
        return EBB_OK;
    EBB_TRY(sum_entries(manifest, sum, err));
    return has_all_sums(manifest) && strcmp(sum, want) == 0
               ? EBB_OK
               : ebb_fail(err, EBB_ECORRUPT, "%s: its entries are not what it was written with",
                          name);
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
    for (size_t i = 0; i < list->count; i++) {
        struct ebb_manifest_file *f = &m.files[i];
        *f = (struct ebb_manifest_file){.path = ebb_doc_string(list->items[i], "path", ""),
                                        .bytes = ebb_doc_int(list->items[i], "bytes", -1),
                                        .sha256 = ebb_doc_string(list->items[i], "sha256", ""),
                                        .xxh128 = ebb_doc_string(list->items[i], "xxh128", NULL)};
        if (!is_sha256(f->sha256))
            return ebb_fail(err, EBB_ECORRUPT, "%s: \"%s\" has no SHA-256", name, f->path);
    }
    EBB_TRY(prove_entries(&m, ebb_doc_string(root, "xxh128", NULL), name, err));
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

/* ---- sums ---- */

void ebb_sums_init(struct ebb_sums *s)
{
    *s = (struct ebb_sums){.bytes = 0};
    ebb_sha256_init(&s->sha256);
    ebb_hash128_init(&s->xxh128);
}

void ebb_sums_add(struct ebb_sums *s, const void *data, size_t bytes)
{
    ebb_sha256_add(&s->sha256, data, bytes);
    ebb_hash128_add(&s->xxh128, data, bytes);
    s->bytes += (int64_t)bytes;
}

enum ebb_status ebb_sums_text(struct ebb_sums *s, struct ebb_sums_text *text, struct ebb_error *err)
{
    enum ebb_status status = ebb_hash128_text(&s->xxh128, text->xxh128, err);
    EBB_THEN(status, ebb_sha256_text(&s->sha256, text->sha256, err));
    ebb_sums_fini(s);
    return status;
}

void ebb_sums_fini(struct ebb_sums *s)
{
    ebb_sha256_fini(&s->sha256);
    ebb_hash128_fini(&s->xxh128);
}

/* ---- proofs ---- */

void ebb_proof_init(struct ebb_proof *p, const struct ebb_manifest_file *want)
{
    *p = (struct ebb_proof){.want = want};
    if (want->xxh128)
        ebb_hash128_init(&p->sums.xxh128);
    else
        ebb_sha256_init(&p->sums.sha256);
}

enum ebb_status ebb_proof_end(struct ebb_proof *p, struct ebb_error *err)
{
    const struct ebb_manifest_file *want = p->want;
    struct ebb_sums_text found;
    bool is_quick = want->xxh128 != NULL;
    EBB_TRY(is_quick ? ebb_hash128_text(&p->sums.xxh128, found.xxh128, err)
                     : ebb_sha256_text(&p->sums.sha256, found.sha256, err));
    if (p->sums.bytes != want->bytes)
        return ebb_fail(err, EBB_ECORRUPT, "%s has %lld bytes, manifest.json says %lld", want->path,
                        (long long)p->sums.bytes, (long long)want->bytes);
    if (is_quick ? strcmp(found.xxh128, want->xxh128) == 0
                 : strcmp(found.sha256, want->sha256) == 0)
        return EBB_OK;
    return ebb_fail(err, EBB_ECORRUPT, "%s of %s is not the manifest's",
                    is_quick ? "XXH3" : "SHA-256", want->path);
}

void ebb_proof_fini(struct ebb_proof *p)
{
    ebb_sums_fini(&p->sums);
}
