/* doc_json.c - a document from JSON text. */
#include "base/doc_builder.h"

#include "base/json.h"

/* Scalars keep their spelling as text (numbers) or content (strings). */
static enum ebb_status json_add_scalar(struct ebb_doc_builder *b, const struct ebb_json_event *e,
                                       struct ebb_error *err)
{
    enum ebb_doc_kind kind = e->kind == EBB_JSON_STRING   ? EBB_DOC_STRING
                             : e->kind == EBB_JSON_INT    ? EBB_DOC_INT
                             : e->kind == EBB_JSON_NUMBER ? EBB_DOC_DOUBLE
                             : e->kind == EBB_JSON_BOOL   ? EBB_DOC_BOOL
                                                          : EBB_DOC_NULL;
    bool has_text = kind == EBB_DOC_STRING || kind == EBB_DOC_INT || kind == EBB_DOC_DOUBLE;
    struct ebb_doc_node *node = ebb_doc_builder_scalar(
        b, kind, e->line, e->column, has_text ? e->text : "", has_text ? e->length : 0);
    if (!node)
        return ebb_no_memory(err, sizeof *node);
    if (kind == EBB_DOC_BOOL)
        node->boolean = e->boolean;
    if (kind == EBB_DOC_INT)
        node->integer = e->integer;
    if (kind == EBB_DOC_INT || kind == EBB_DOC_DOUBLE)
        node->number = e->number;
    return ebb_doc_builder_value(b, node, err);
}

static enum ebb_status json_add(struct ebb_doc_builder *b, const struct ebb_json_event *e,
                                struct ebb_error *err)
{
    switch (e->kind) {
    case EBB_JSON_OBJECT:
        return ebb_doc_builder_open(b, EBB_DOC_MAP, e->line, e->column, err);
    case EBB_JSON_ARRAY:
        return ebb_doc_builder_open(b, EBB_DOC_LIST, e->line, e->column, err);
    case EBB_JSON_OBJECT_END:
    case EBB_JSON_ARRAY_END:
        return ebb_doc_builder_close(b, NULL, err);
    case EBB_JSON_KEY: {
        struct ebb_doc_node *key =
            ebb_doc_builder_scalar(b, EBB_DOC_STRING, e->line, e->column, e->text, e->length);
        if (!key)
            return ebb_no_memory(err, sizeof *key);
        return ebb_doc_builder_key(b, key, false, err);
    }
    default:
        return json_add_scalar(b, e, err);
    }
}

enum ebb_status ebb_doc_parse_json(struct ebb_arena *arena, const char *name, const char *bytes,
                                   size_t length, const struct ebb_doc_node **root,
                                   struct ebb_error *err)
{
    struct ebb_json reader;
    struct ebb_json_event e;
    struct ebb_doc_builder b;
    enum ebb_status status;
    ebb_json_init(&reader, name, bytes, length, EBB_JSON_ONE);
    ebb_doc_builder_init(&b, arena, name, SIZE_MAX);
    while ((status = ebb_json_next(&reader, &e, err)) == EBB_OK && e.kind != EBB_JSON_END) {
        status = json_add(&b, &e, err);
        if (status != EBB_OK)
            break;
    }
    if (status == EBB_OK)
        *root = b.root;
    ebb_doc_builder_fini(&b);
    ebb_json_fini(&reader);
    return status;
}
