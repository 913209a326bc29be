/* rewrite.c - the table of rewrites: named, switched, tried. */
#include <stdio.h>

#include "base/str.h"
#include "ops/internal.h"

static const struct ops_rewrite *const table[] = {
#define X(name) &ops_##name##_rewrite,
    OPS_REWRITES(X)
#undef X
};
#define COUNT (sizeof table / sizeof *table)

/* Asked where outputs are placed (table.c). */
const struct ops_rewrite ops_over_rewrite = {"over", OPS_PASS_OVER, .is_default = false};

tensor_id ops_rewrite(const struct ops_build *b)
{
    struct ops_match m = {.other = TENSOR_NONE};
    for (size_t i = 0; i < COUNT; i++) {
        const struct ops_rewrite *r = table[i];
        if (r->op && *r->op == *b->def->name && strcmp(r->op, b->def->name) == 0 &&
            ops_has_pass(b->s, r->pass) && r->match(b, &m))
            return r->replace(b, &m);
    }
    return TENSOR_NONE;
}

struct tensor_node ops_maker(const struct tensor_session *s, tensor_id x)
{
    struct tensor_node n = tensor_node_at(s, tensor_producer(s, x));
    while (n.def && strcmp(ops_name(n.def), "reshape") == 0)
        n = tensor_node_at(s, tensor_producer(s, n.inputs[0]));
    return n;
}

bool ops_is_unread(const struct tensor_session *s, tensor_id x)
{
    uint32_t node = tensor_producer(s, x), end = tensor_node_count(s), reads = 0, views = 0;
    tensor_id chain[4] = {x};
    for (struct tensor_node n = tensor_node_at(s, node);
         n.def && strcmp(ops_name(n.def), "reshape") == 0; n = tensor_node_at(s, node)) {
        if (++views == sizeof chain / sizeof *chain)
            return false;
        chain[views] = n.inputs[0];
        node = tensor_producer(s, n.inputs[0]);
    }
    for (uint32_t i = node + 1; i < end; i++) {
        struct tensor_node n = tensor_node_at(s, i);
        for (uint32_t k = 0; k < n.input_count; k++)
            for (uint32_t c = 0; c <= views; c++)
                reads += n.inputs[k].v == chain[c].v;
    }
    return reads == views; /* those of the views themselves */
}

/* ---- names ---------------------------------------------------------------------------------- */

unsigned ops_rewrite_defaults(void)
{
    unsigned passes = 0;
    for (size_t i = 0; i < COUNT; i++)
        passes |= table[i]->is_default ? table[i]->pass : 0;
    return passes;
}

const char *ops_rewrite_name(size_t i, bool *is_default)
{
    for (size_t k = 0, n = 0; k < COUNT; k++) {
        bool is_new = k == 0 || strcmp(table[k]->name, table[k - 1]->name) != 0;
        if (is_new && n++ == i) {
            *is_default = table[k]->is_default;
            return table[k]->name;
        }
    }
    return NULL;
}

static enum ebb_status unknown(const char *name, size_t length, struct ebb_error *err)
{
    struct ebb_str list = {0};
    const char *known;
    bool is_default;
    for (size_t i = 0; (known = ops_rewrite_name(i, &is_default)); i++)
        ebb_str_printf(&list, ", %s", known);
    enum ebb_status status = ebb_fail(
        err, EBB_EINPUT,
        "found \"%.*s\", allowed: none%s; or +name, -name to change what is on at the start",
        (int)length, name, ebb_str_c(&list));
    ebb_str_fini(&list);
    return status;
}

static enum ebb_status change(const char *name, size_t length, unsigned *passes,
                              struct ebb_error *err)
{
    bool is_signed = *name == '+' || *name == '-';
    const char *word = name + is_signed;
    size_t n = length - is_signed;
    if (!is_signed && n == 4 && memcmp(word, "none", n) == 0)
        return EBB_OK;
    for (size_t i = 0; i < COUNT; i++)
        if (strlen(table[i]->name) == n && memcmp(table[i]->name, word, n) == 0) {
            *passes = *name == '-' ? *passes & ~table[i]->pass : *passes | table[i]->pass;
            return EBB_OK;
        }
    return unknown(name, length, err);
}

enum ebb_status ops_rewrites_parse(const char *text, unsigned start, unsigned *passes,
                                   struct ebb_error *err)
{
    unsigned set = !text || *text == '+' || *text == '-' ? start : 0;
    while (text) {
        size_t skipped = strspn(text, " "), length = strcspn(text + skipped, ", ");
        EBB_TRY(change(text + skipped, length, &set, err));
        text = strchr(text, ',');
        text = text ? text + 1 : NULL;
    }
    *passes = set;
    return EBB_OK;
}
