/* submit_secrets.c - "********" in the configuration of a fork means the parent's secret, and in a
 * template that is stored again the one it has.
 *
 * Only while everything beside it in its mapping is as there: a key must not be sent to another
 * endpoint, nor a password to another user, by somebody who never knew it. */
#include <string.h>

#include "serve/rest.h"

#define MASK "********"

struct fork {
    struct serve_rest *r;
    const char *whose; /* "experiment 7"; NULL: there is none */
    enum ebb_status status;
};

static bool is_mask(const struct ebb_doc_node *node)
{
    return node->kind == EBB_DOC_STRING && strcmp(node->text, MASK) == 0;
}

/* The mapping with secrets in place of masks. `shown` and `secret`: the same mapping of the parent,
 * masked and not; `layer`: of a template, which would add to it; NULL where it has none. NULL:
 * refused, or no memory. */
static const struct ebb_doc_node *reveal(struct fork *f, const char *path,
                                         const struct ebb_doc_node *node,
                                         const struct ebb_doc_node *shown,
                                         const struct ebb_doc_node *secret,
                                         const struct ebb_doc_node *layer)
{
    struct ebb_arena *arena = f->r->arena;
    if (node->kind != EBB_DOC_MAP)
        return node;
    struct ebb_doc_node *copy = ebb_doc_new(arena, EBB_DOC_MAP);
    bool is_same =
        shown != NULL && ebb_doc_equal(node, shown) && (layer == NULL || path[0] == '\0');
    for (size_t i = 0; copy != NULL && f->status == EBB_OK && i < node->count; i++) {
        const char *key = node->keys[i]->text;
        const struct ebb_doc_node *value = node->items[i], *known = ebb_doc_get(secret, key);
        const char *here = ebb_arena_printf(arena, "%s%s%s", path, path[0] != '\0' ? "." : "", key);
        if (is_mask(value) && (!is_same || known == NULL))
            f->status = serve_refuse(
                f->r, 400,
                f->whose != NULL
                    ? "%s: %s stands for the secret of %s, but what stands beside it is not as "
                      "there: write the secret out, or leave the rest unchanged"
                    : "%s: %s stands for a secret that is not shown: write it out",
                here != NULL ? here : key, MASK, f->whose);
        else
            value = is_mask(value)
                        ? known
                        : reveal(f, here != NULL ? here : key, value, ebb_doc_get(shown, key),
                                 known, ebb_doc_get(layer, key));
        if (f->status == EBB_OK && (value == NULL || !ebb_doc_set(arena, copy, key, value)))
            f->status = ebb_no_memory(f->r->err, sizeof *copy);
    }
    return f->status == EBB_OK ? copy : NULL;
}

static enum ebb_status read_parent(struct serve_rest *r, int64_t parent,
                                   const struct ebb_doc_node **secret)
{
    struct exp_db_config row;
    bool is_there = false;
    if (parent <= 0)
        return EBB_OK;
    EBB_TRY(exp_db_only(exp_db_config_read(r->db, EXP_DB_ID(parent), &row, r->err), r->arena,
                        &is_there));
    return is_there ? ebb_doc_parse_json(r->arena, "config", row.config, strlen(row.config), secret,
                                         r->err)
                    : EBB_OK;
}

static enum ebb_status to_text(struct serve_rest *r, const struct ebb_doc_node *root,
                               const struct ebb_doc_node **text)
{
    struct ebb_str whole = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &whole, 0);
    ebb_doc_write_json(root, &w); /* JSON is YAML */
    struct ebb_doc_node *made =
        whole.failed ? NULL : ebb_doc_new_string(r->arena, ebb_str_c(&whole));
    ebb_str_fini(&whole);
    *text = made;
    return made != NULL ? EBB_OK : ebb_no_memory(r->err, sizeof *made);
}

/* `secret` is whose the masks are; NULL: nobody's. */
static enum ebb_status reveal_all(struct fork *f, const struct ebb_doc_node *root,
                                  const struct ebb_doc_node *secret,
                                  const struct ebb_doc_node *layer,
                                  const struct ebb_doc_node **text)
{
    const struct ebb_doc_node *shown =
        secret != NULL ? exp_config_masked(f->r->arena, secret) : NULL;
    root = reveal(f, "", root, shown, secret, layer);
    EBB_TRY(f->status);
    return to_text(f->r, root, text);
}

/* NULL: there is no mask in it; or it is none, which is found by who reads it. */
static const struct ebb_doc_node *with_masks(struct serve_rest *r, const struct ebb_doc_node *text)
{
    const struct ebb_doc_node *root = NULL;
    if (strstr(text->text, MASK) == NULL ||
        ebb_doc_parse_yaml(r->arena, "config", text->text, text->length, &root, NULL) != EBB_OK)
        return NULL;
    return root;
}

enum ebb_status serve_submit_reveal(struct serve_rest *r, int64_t parent,
                                    const struct ebb_doc_node *layer,
                                    const struct ebb_doc_node **text)
{
    const struct ebb_doc_node *root = with_masks(r, *text), *secret = NULL;
    struct fork f = {.r = r};
    if (root == NULL)
        return EBB_OK;
    EBB_TRY(read_parent(r, parent, &secret));
    if (parent > 0 &&
        (f.whose = ebb_arena_printf(r->arena, "experiment %lld", (long long)parent)) == NULL)
        return ebb_no_memory(r->err, 32);
    return reveal_all(&f, root, secret, layer, text);
}

enum ebb_status serve_template_reveal(struct serve_rest *r, const struct exp_db_template *old,
                                      const struct ebb_doc_node **text)
{
    const struct ebb_doc_node *root = with_masks(r, *text), *secret = NULL;
    struct fork f = {.r = r};
    if (root == NULL)
        return EBB_OK;
    if (old != NULL) {
        EBB_TRY(ebb_doc_parse_yaml(r->arena, old->name, old->config, strlen(old->config), &secret,
                                   r->err));
        f.whose = ebb_arena_printf(r->arena, "template %s", old->name);
        if (f.whose == NULL)
            return ebb_no_memory(r->err, strlen(old->name));
    }
    return reveal_all(&f, root, secret, NULL, text);
}

enum ebb_status serve_template_hide(struct serve_rest *r, struct exp_db_template *row)
{
    const struct ebb_doc_node *root = NULL, *text = NULL;
    EBB_TRY(
        ebb_doc_parse_yaml(r->arena, row->name, row->config, strlen(row->config), &root, r->err));
    const struct ebb_doc_node *shown = exp_config_masked(r->arena, root);
    if (shown == NULL)
        return ebb_no_memory(r->err, sizeof *shown);
    if (ebb_doc_equal(root, shown))
        return EBB_OK; /* as it was written, comments included */
    EBB_TRY(to_text(r, shown, &text));
    row->config = text->text;
    return EBB_OK;
}
