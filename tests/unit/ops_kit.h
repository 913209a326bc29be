/* ops_kit.h - an op of the table called by its name, attributes as JSON (NULL: none). */
#ifndef EBB_TESTS_OPS_KIT_H
#define EBB_TESTS_OPS_KIT_H

#include "test.h"

#include "base/doc.h"
#include "ops/ops.h"

static tensor_id ops_kit_call(struct tensor_session *s, const char *name, const char *json,
                              const tensor_id *in, size_t count)
{
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    struct ebb_arena arena;
    const struct ebb_doc_node *map = NULL;
    struct ebb_error err = {0};
    tensor_id out[TENSOR_PORTS] = {TENSOR_NONE};
    size_t out_count;
    ebb_arena_init(&arena);
    if (json)
        CHECK_OK(ebb_doc_parse_json(&arena, name, json, strlen(json), &map, &err), &err);
    CHECK_OK(ops_parse(ops_find(name), map, attr, &err), &err);
    ops_call(s, ops_find(name), in, count, attr, out, &out_count);
    CHECK_OK(tensor_status(s, &err), &err);
    ebb_arena_fini(&arena);
    return out[0];
}

#endif
