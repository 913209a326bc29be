/* fuzz_json.c - the JSON reader and the tree built from it, on any bytes.
 *
 * Beyond "does not crash": positions lie inside the text, a tree that was accepted is written and
 * read back equal, and nothing stays allocated. */

#include "fuzz.h"

#include "base/doc.h"
#include "base/json.h"

static void pull(const char *bytes, size_t size, unsigned flags)
{
    struct ebb_json r;
    struct ebb_json_event e;
    struct ebb_error err;
    ebb_json_init(&r, "fuzz", bytes, size, flags);
    while (ebb_json_next(&r, &e, &err) == EBB_OK && e.kind != EBB_JSON_END) {
        require(e.line >= 1 && e.line <= size + 1 && e.column >= 1 && e.column <= size + 1);
        if (e.kind == EBB_JSON_ARRAY && e.column % 2 == 0 && ebb_json_skip(&r, &e, &err) != EBB_OK)
            break;
    }
    ebb_json_fini(&r);
}

static void build(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err;
    const struct ebb_doc_node *root = NULL, *again = NULL;
    ebb_arena_init(&arena);
    if (ebb_doc_parse_json(&arena, "fuzz", bytes, size, &root, &err) == EBB_OK) {
        struct ebb_str out;
        struct ebb_json_writer w;
        ebb_str_init(&out);
        ebb_jsonw_init(&w, &out, (int)(size % 3));
        ebb_doc_write_json(root, &w);
        require(ebb_doc_parse_json(&arena, "again", out.data, out.length, &again, &err) == EBB_OK);
        require(ebb_doc_equal(root, again));
        ebb_str_fini(&out);
    }
    ebb_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t live = ebb_heap_live();
    pull((const char *)data, size, EBB_JSON_ONE);
    pull((const char *)data, size, EBB_JSON_MANY);
    build((const char *)data, size);
    require(ebb_heap_live() == live);
    return 0;
}
