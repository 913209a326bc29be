/* fuzz_yaml.c - the YAML reader on any bytes: guards hold, an accepted tree survives being written
 * as JSON and read back, nothing stays allocated. */

#include "fuzz.h"

#include "base/doc.h"

/* Nodes below and including this one; checks depth and keys per mapping on the way. */
static size_t walk(const struct ebb_doc_node *node, int depth)
{
    size_t nodes = 1;
    require(node->line >= 1 && node->column >= 1);
    if (node->kind == EBB_DOC_LIST || node->kind == EBB_DOC_MAP)
        require(depth < 32);
    if (node->kind == EBB_DOC_MAP)
        require(node->count <= 1000);
    for (size_t i = 0; i < node->count; i++)
        nodes += walk(node->items[i], depth + 1);
    return nodes;
}

static void build(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err;
    const struct ebb_doc_node *root = NULL, *again = NULL;
    ebb_arena_init(&arena);
    if (ebb_doc_parse_yaml(&arena, "fuzz", bytes, size, &root, &err) == EBB_OK) {
        struct ebb_str out;
        struct ebb_json_writer w;
        require(walk(root, 0) <= 20000);
        ebb_str_init(&out);
        ebb_jsonw_init(&w, &out, 0);
        ebb_doc_write_json(root, &w);
        require(ebb_doc_parse_json(&arena, "again", out.data, out.length, &again, &err) == EBB_OK);
        require(ebb_doc_equal(root, again));
        ebb_str_fini(&out);
    }
    ebb_arena_fini(&arena);
}

FUZZ(build)
