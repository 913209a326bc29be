/* submit_secrets.c - "********" in the configuration of a fork means the parent's secret.
 *
 * Only while everything beside it in its mapping is as the parent has it: a key must not be sent to
 * another endpoint, nor a password to another user, by somebody who never knew it. */
#include <string.h>

#include "serve/rest.h"

#define MASK "********"

struct fork {
    struct serve_rest *r;
    int64_t parent;
    enum ebb_status status;
};

static bool is_mask(const struct ebb_doc_node *node)
{
    return node->kind == EBB_DOC_STRING && strcmp(node->text, MASK) == 0;
}

/* The mapping with secrets in place of masks. `shown` and `secret`: the same mapping of the parent,
 * masked and not; NULL where it has none. NULL: refused, or no memory. */
static const struct ebb_doc_node *reveal(struct fork *f, const char *path,
                                         const struct ebb_doc_node *node,
                                         const struct ebb_doc_node *shown,
                                         const struct ebb_doc_node *secret)
{
    struct ebb_arena *arena = f->r->arena;
    if (node->kind != EBB_DOC_MAP)
        return node;
    struct ebb_doc_node *copy = ebb_doc_new(arena, EBB_DOC_MAP);
    bool is_same = shown != NULL && ebb_doc_equal(node, shown);
    for (size_t i = 0; copy != NULL && f->status == EBB_OK && i < node->count; i++) {
        const char *key = node->keys[i]->text;
        const struct ebb_doc_node *value = node->items[i], *known = ebb_doc_get(secret, key);
        const char *here = ebb_arena_printf(arena, "%s%s%s", path, path[0] != '\0' ? "." : "", key);
        if (is_mask(value) && (!is_same || known == NULL))
            f->status = serve_refuse(
                f->r, 400,
                f->parent > 0
                    ? "%s: %s stands for the secret of experiment %lld, but what stands beside it "
                      "is not as there: write the secret out, or leave the rest unchanged"
                    : "%s: %s stands for a secret that is not shown: write it out",
                here != NULL ? here : key, MASK, (long long)f->parent);
        else
            value = is_mask(value) ? known
                                   : reveal(f, here != NULL ? here : key, value,
                                            ebb_doc_get(shown, key), known);
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

enum ebb_status serve_submit_reveal(struct serve_rest *r, int64_t parent,
                                    const struct ebb_doc_node **text)
{
    const struct ebb_doc_node *root = NULL, *secret = NULL;
    struct fork f = {.r = r, .parent = parent};
    if (strstr((*text)->text, MASK) == NULL ||
        ebb_doc_parse_yaml(r->arena, "config", (*text)->text, (*text)->length, &root, NULL) !=
            EBB_OK)
        return EBB_OK; /* its mistakes are found by who reads it */
    EBB_TRY(read_parent(r, parent, &secret));
    const struct ebb_doc_node *shown = secret != NULL ? exp_config_masked(r->arena, secret) : NULL;
    root = reveal(&f, "", root, shown, secret);
    EBB_TRY(f.status);
    struct ebb_str whole = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &whole, 0);
    ebb_doc_write_json(root, &w);
    struct ebb_doc_node *made =
        whole.failed ? NULL : ebb_doc_new_string(r->arena, ebb_str_c(&whole));
    ebb_str_fini(&whole);
    *text = made;
    return made != NULL ? EBB_OK : ebb_no_memory(r->err, sizeof *made);
}
