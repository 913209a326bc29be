/* doc_yaml.c - a document from YAML text, by the events of libfyaml.
 *
 * libfyaml's own document is never built: its loader is quadratic in the keys of a mapping and
 * expands aliases without bound (measured: 45 s for 20,000 keys, minutes for a bomb of nine lines).
 * The tree is made from the events, which are linear, and every guard is checked at the event that
 * breaks it:
 *
 * Y1 at most 256 KiB of text.            Y2 at most 1,000 keys per mapping, merged ones included.
 * Y3 at most 32 levels, aliases expanded. Y4 at most 20,000 nodes, keys and expanded aliases
 * included.
 *
 * An alias shares the node of its anchor, so counting costs nothing: each anchor remembers how many
 * nodes and levels it stands for. */
#include <libfyaml.h>
#include <math.h>
#include <string.h>

#include "base/decimal.h"
#include "base/doc_builder.h"
#include "base/heap.h"
#include "base/int128.h"
#include "base/map.h"
#include "base/utf8.h"
#include "base/yaml_scan.h"

enum {
    YAML_MAX_BYTES = 256 << 10,
    YAML_MAX_KEYS = 1000,
    YAML_MAX_DEPTH = 32,
    YAML_MAX_NODES = 20000
};

static const char yaml_too_deep[] = "nested deeper than 32 levels";
static const char yaml_too_many[] = "more than 20000 values after expanding aliases";

struct yaml_anchor {
    const struct ebb_doc_node *node; /* NULL while the node is still open */
    size_t nodes, levels;            /* what an alias of it stands for; a scalar has 0 levels */
};

struct yaml_frame { /* parallel to the builder's frames */
    size_t nodes;   /* of the subtree so far, itself included */
    size_t levels;  /* deepest member so far */
    size_t anchor;  /* index + 1, 0 = none */
};

struct yaml {
    const char *name;
    struct ebb_doc_builder builder;
    struct yaml_frame frames[YAML_MAX_DEPTH];
    size_t depth, nodes; /* open containers; nodes in all */
    struct ebb_strmap names;
    struct yaml_anchor *anchors;
    size_t anchor_count, anchor_capacity;
    struct fy_token_iter *pieces; /* both for the text of the scalar at hand */
    struct ebb_str scratch;
    uint32_t line, column; /* of the event at hand */
    unsigned documents;
};

static enum ebb_status yaml_fail(const struct yaml *y, struct ebb_error *err, const char *what)
{
    return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: %s", y->name, y->line, y->column, what);
}

static enum ebb_status yaml_limit(const struct yaml *y, struct ebb_error *err, const char *what)
{
    return ebb_fail(err, EBB_ELIMIT, "%s:%u:%u: %s", y->name, y->line, y->column, what);
}

/* Account for `nodes` more nodes, `levels` deep below the containers open now (Y3, Y4). */
static enum ebb_status yaml_count(struct yaml *y, size_t nodes, size_t levels,
                                  struct ebb_error *err)
{
    if (y->depth + levels > YAML_MAX_DEPTH)
        return yaml_limit(y, err, yaml_too_deep);
    if (nodes > YAML_MAX_NODES - y->nodes)
        return yaml_limit(y, err, yaml_too_many);
    y->nodes += nodes;
    if (y->depth > 0) {
        struct yaml_frame *f = &y->frames[y->depth - 1];
        f->nodes += nodes;
        if (levels > f->levels)
            f->levels = levels;
    }
    return EBB_OK;
}

/* Text of an anchor or tag; "" when it has none. */
static const char *yaml_text(struct fy_token *token, size_t *length)
{
    const char *text = NULL;
    *length = 0;
    if (token)
        text = fy_token_get_text(token, length);
    if (!text)
        *length = 0;
    return text ? text : "";
}

/* Content of a scalar into y->scratch. Piece by piece, because fy_token_get_text of 0.7.12 loses 4
 * KiB for every scalar of many pieces (escapes, lines). */
static enum ebb_status yaml_scalar_text(struct yaml *y, struct fy_token *token,
                                        struct ebb_error *err)
{
    const struct fy_iter_chunk *piece = NULL;
    int failure = 0;
    ebb_str_clear(&y->scratch);
    if (!token)
        return EBB_OK;
    fy_token_iter_start(token, y->pieces);
    while ((piece = fy_token_iter_chunk_next(y->pieces, piece, &failure)))
        ebb_str_addn(&y->scratch, piece->str, piece->len);
    fy_token_iter_finish(y->pieces);
    if (failure)
        return yaml_fail(y, err, "malformed text");
    return ebb_str_status(&y->scratch, err);
}

/* Register an anchor: index + 1 in *anchor, 0 when the event has none. */
static enum ebb_status yaml_anchor_open(struct yaml *y, struct fy_event *event, size_t *anchor,
                                        struct ebb_error *err)
{
    struct fy_token *token = fy_event_get_anchor_token(event);
    size_t length;
    *anchor = 0;
    if (!token)
        return EBB_OK;
    const char *name = yaml_text(token, &length);
    EBB_TRY(
        ebb_grow(&y->anchors, &y->anchor_capacity, y->anchor_count + 1, sizeof *y->anchors, err));
    EBB_TRY(ebb_strmap_put(&y->names, name, length, y->anchor_count, err));
    y->anchors[y->anchor_count++] = (struct yaml_anchor){0};
    *anchor = y->anchor_count;
    return EBB_OK;
}

static bool yaml_is_one_of(const char *text, size_t length, const char *const *words)
{
    for (; *words; words++) {
        if (strlen(*words) == length && memcmp(text, *words, length) == 0)
            return true;
    }
    return false;
}

/* [-+]?[0-9]+ | 0o[0-7]+ | 0x[0-9a-fA-F]+. Returns false when it is none of these; *fits says
 * whether the value is an int64. */
static bool yaml_integer(const char *text, size_t length, int64_t *value, bool *fits)
{
    const char *p = text, *end = text + length;
    unsigned base = 10;
    bool is_negative = false;
    if (length > 2 && p[0] == '0' && (p[1] == 'o' || p[1] == 'x')) {
        base = p[1] == 'o' ? 8 : 16;
        p += 2;
    } else if (length > 1 && (*p == '-' || *p == '+')) {
        is_negative = *p++ == '-';
    }
    if (p == end)
        return false;
    ebb_u128 magnitude = 0;
    *fits = true;
    for (; p < end; p++) {
        unsigned digit = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a') + 10
                         : *p >= 'A' && *p <= 'F' ? (unsigned)(*p - 'A') + 10
                                                  : 99;
        if (digit >= base)
            return false;
        magnitude = magnitude * base + digit;
        if (magnitude > (ebb_u128)INT64_MAX + is_negative) {
            *fits = false;
            magnitude = 0;
        }
    }
    if (*fits)
        *value = (int64_t)(is_negative ? -(ebb_i128)magnitude : (ebb_i128)magnitude);
    return true;
}

/* Value of hexadecimal or octal digits too large for int64. */
static double yaml_big_integer(const char *text, size_t length)
{
    double value = 0, base = text[1] == 'o' ? 8 : 16;
    for (size_t i = 2; i < length; i++) {
        char c = text[i];
        value = value * base + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

/* Core schema of YAML 1.2 for plain scalars. */
static enum ebb_status yaml_plain(struct yaml *y, struct ebb_doc_node *node, struct ebb_error *err)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    static const char *const infinite[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf",
                                           "+.INF", "-.inf", "-.Inf", "-.INF", ".nan",
                                           ".NaN",  ".NAN",  NULL};
    const char *text = node->text;
    size_t n = node->length;
    bool fits;
    if (yaml_is_one_of(text, n, nulls)) {
        node->kind = EBB_DOC_NULL;
    } else if (yaml_is_one_of(text, n, trues) || yaml_is_one_of(text, n, falses)) {
        node->kind = EBB_DOC_BOOL;
        node->boolean = (text[0] | 0x20) == 't';
    } else if (yaml_integer(text, n, &node->integer, &fits)) {
        node->kind = fits ? EBB_DOC_INT : EBB_DOC_DOUBLE;
        if (fits)
            node->number = (double)node->integer;
        else if (n > 2 && (text[1] == 'o' || text[1] == 'x'))
            node->number = yaml_big_integer(text, n);
        else
            (void)ebb_decimal_parse(text, n, &node->number);
    } else if (ebb_decimal_parse(text, n, &node->number)) {
        node->kind = EBB_DOC_DOUBLE;
    } else if (yaml_is_one_of(text, n, infinite)) {
        return yaml_fail(y, err, "infinite numbers and .nan are not allowed");
    }
    if (node->kind == EBB_DOC_DOUBLE && isinf(node->number))
        return yaml_fail(y, err, "number beyond the range of a double");
    return EBB_OK;
}

/* The core schema's tags, and "!" for "a string"; others name types that nothing here knows. */
static enum ebb_status yaml_tag(const struct yaml *y, struct fy_event *event, const char **kind,
                                struct ebb_error *err)
{
    static const char prefix[] = "tag:yaml.org,2002:";
    static const char *const known[] = {"str", "int", "float", "bool", "null", "map", "seq", NULL};
    struct fy_token *token = fy_event_get_tag_token(event);
    *kind = NULL;
    if (!token)
        return EBB_OK;
    size_t length;
    const char *tag = yaml_text(token, &length);
    if (length == 1 && *tag == '!') {
        *kind = "str";
        return EBB_OK;
    }
    size_t skip = sizeof prefix - 1;
    for (size_t i = 0; known[i] && length > skip && memcmp(tag, prefix, skip) == 0; i++) {
        if (strlen(known[i]) == length - skip && memcmp(tag + skip, known[i], length - skip) == 0) {
            *kind = known[i];
            return EBB_OK;
        }
    }
    return ebb_fail(err, EBB_EINPUT,
                    "%s:%u:%u: tag '%.*s' is not known here (allowed: !!str, !!int, !!float, "
                    "!!bool, !!null, !!map, !!seq)",
                    y->name, y->line, y->column, (int)(length < 64 ? length : 64), tag);
}

static enum ebb_status yaml_check_tag(const struct yaml *y, const char *tag,
                                      const struct ebb_doc_node *node, struct ebb_error *err)
{
    bool is_right = strcmp(tag, "int") == 0 ? node->kind == EBB_DOC_INT
                    : strcmp(tag, "float") == 0
                        ? node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE
                    : strcmp(tag, "bool") == 0 ? node->kind == EBB_DOC_BOOL
                    : strcmp(tag, "null") == 0 ? node->kind == EBB_DOC_NULL
                                               : false;
    if (is_right)
        return EBB_OK;
    return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: '%.64s' is no value for tag !!%s", y->name, y->line,
                    y->column, node->text, tag);
}

/* A key is text whatever it looks like: `1:` and `true:` are the keys "1" and "true". */
static enum ebb_status yaml_key(struct yaml *y, const struct ebb_doc_node *key, bool is_merge,
                                struct ebb_error *err)
{
    if (key->kind == EBB_DOC_LIST || key->kind == EBB_DOC_MAP)
        return yaml_fail(y, err, "a key must be a single word or text, not a list or mapping");
    if (key->kind != EBB_DOC_STRING) {
        struct ebb_doc_node *text = ebb_doc_new(y->builder.arena, EBB_DOC_STRING);
        if (!text)
            return ebb_no_memory(err, sizeof *text);
        *text = *key;
        text->kind = EBB_DOC_STRING;
        key = text;
    }
    return ebb_doc_builder_key(&y->builder, key, is_merge, err);
}

static enum ebb_status yaml_add(struct yaml *y, const struct ebb_doc_node *node, bool is_merge,
                                struct ebb_error *err)
{
    if (ebb_doc_builder_wants_key(&y->builder))
        return yaml_key(y, node, is_merge, err);
    return ebb_doc_builder_value(&y->builder, node, err);
}

static enum ebb_status yaml_scalar(struct yaml *y, struct fy_event *event, struct ebb_error *err)
{
    struct fy_token *token = event->scalar.value;
    const char *tag;
    size_t anchor;
    EBB_TRY(yaml_count(y, 1, 0, err));
    EBB_TRY(yaml_tag(y, event, &tag, err));
    EBB_TRY(yaml_scalar_text(y, token, err));
    size_t length = y->scratch.length;
    struct ebb_doc_node *node = ebb_doc_builder_scalar(&y->builder, EBB_DOC_STRING, y->line,
                                                       y->column, ebb_str_c(&y->scratch), length);
    if (!node)
        return ebb_no_memory(err, length);
    bool is_plain = !token || fy_token_scalar_style(token) == FYSS_PLAIN;
    bool is_text = tag && strcmp(tag, "str") == 0;
    if (!is_text && (is_plain || tag))
        EBB_TRY(yaml_plain(y, node, err));
    if (tag && !is_text)
        EBB_TRY(yaml_check_tag(y, tag, node, err));
    EBB_TRY(yaml_anchor_open(y, event, &anchor, err));
    if (anchor)
        y->anchors[anchor - 1] = (struct yaml_anchor){.node = node, .nodes = 1};
    bool is_merge = is_plain && !tag && length == 2 && memcmp(node->text, "<<", 2) == 0;
    return yaml_add(y, node, is_merge, err);
}

static enum ebb_status yaml_alias(struct yaml *y, struct fy_event *event, struct ebb_error *err)
{
    size_t length;
    uint64_t index;
    const char *name = yaml_text(event->alias.anchor, &length);
    if (!ebb_strmap_get(&y->names, name, length, &index))
        return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: alias '*%.*s' has no anchor before it", y->name,
                        y->line, y->column, (int)(length < 64 ? length : 64), name);
    struct yaml_anchor anchor = y->anchors[index];
    if (!anchor.node)
        return yaml_fail(y, err, "an alias inside the value that its anchor names");
    EBB_TRY(yaml_count(y, anchor.nodes, anchor.levels, err));
    return yaml_add(y, anchor.node, false, err);
}

static enum ebb_status yaml_open(struct yaml *y, struct fy_event *event, enum ebb_doc_kind kind,
                                 struct ebb_error *err)
{
    const char *tag;
    size_t anchor;
    if (ebb_doc_builder_wants_key(&y->builder))
        return yaml_fail(y, err, "a key must be a single word or text, not a list or mapping");
    EBB_TRY(yaml_count(y, 1, 1, err));
    EBB_TRY(yaml_tag(y, event, &tag, err));
    if (tag && strcmp(tag, kind == EBB_DOC_MAP ? "map" : "seq") != 0)
        return yaml_fail(y, err, "this tag does not go with a list or mapping");
    EBB_TRY(yaml_anchor_open(y, event, &anchor, err));
    y->frames[y->depth++] = (struct yaml_frame){.nodes = 1, .anchor = anchor};
    return ebb_doc_builder_open(&y->builder, kind, y->line, y->column, err);
}

static enum ebb_status yaml_close(struct yaml *y, struct ebb_error *err)
{
    struct yaml_frame f = y->frames[--y->depth];
    const struct ebb_doc_node *node;
    EBB_TRY(ebb_doc_builder_close(&y->builder, &node, err));
    if (f.anchor)
        y->anchors[f.anchor - 1] = (struct yaml_anchor){node, f.nodes, f.levels + 1};
    if (y->depth > 0) { /* the parent counted the opening only */
        struct yaml_frame *parent = &y->frames[y->depth - 1];
        parent->nodes += f.nodes - 1;
        if (f.levels + 1 > parent->levels)
            parent->levels = f.levels + 1;
    }
    return EBB_OK;
}

static bool yaml_is_quoted(struct fy_token *token)
{
    enum fy_scalar_style style = fy_token_scalar_style(token);
    return style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED;
}

static enum ebb_status yaml_event(struct yaml *y, struct fy_event *event, struct ebb_error *err)
{
    const struct fy_mark *mark = fy_event_start_mark(event);
    if (mark) {
        y->line = (uint32_t)mark->line + 1;
        y->column = (uint32_t)mark->column + 1;
    }
    switch (event->type) {
    case FYET_DOCUMENT_START:
        if (y->documents++ > 0)
            return yaml_fail(y, err, "a second document ('---'): one file holds one");
        return EBB_OK;
    case FYET_MAPPING_START:
        return yaml_open(y, event, EBB_DOC_MAP, err);
    case FYET_SEQUENCE_START:
        return yaml_open(y, event, EBB_DOC_LIST, err);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        return yaml_close(y, err);
    case FYET_SCALAR:
        if (mark && event->scalar.value && yaml_is_quoted(event->scalar.value) && mark->column > 0)
            y->column--; /* libfyaml points behind the quote */
        return yaml_scalar(y, event, err);
    case FYET_ALIAS:
        return yaml_alias(y, event, err);
    default:
        return EBB_OK;
    }
}

/* What libfyaml said first, or a general word. */
static enum ebb_status yaml_syntax_error(const struct yaml *y, struct fy_diag *diag,
                                         struct ebb_error *err)
{
    void *iterator = NULL;
    struct fy_diag_error *e = fy_diag_errors_iterate(diag, &iterator);
    if (!e || !e->msg)
        return yaml_fail(y, err, "malformed YAML");
    int line = e->line > 0 ? e->line : (int)y->line;
    int column = e->column > 0 ? e->column : 1;
    return ebb_fail(err, EBB_EINPUT, "%s:%d:%d: %s", y->name, line, column, e->msg);
}

static enum ebb_status yaml_pump(struct yaml *y, struct fy_parser *parser, struct fy_diag *diag,
                                 struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    struct fy_event *event;
    bool is_end = false;
    while (status == EBB_OK && !is_end && (event = fy_parser_parse(parser))) {
        is_end = event->type == FYET_STREAM_END;
        status = yaml_event(y, event, err);
        fy_parser_event_free(parser, event);
    }
    if (status == EBB_OK && (!is_end || fy_parser_get_stream_error(parser)))
        status = yaml_syntax_error(y, diag, err);
    return status;
}

/* Y1, and bytes that are no UTF-8 text: refused before libfyaml sees them. */
static enum ebb_status yaml_check_bytes(struct yaml *y, const char *bytes, size_t length,
                                        struct ebb_error *err)
{
    if (length > YAML_MAX_BYTES)
        return ebb_fail(err, EBB_ELIMIT,
                        "%s: %zu bytes, more than the 256 KiB a YAML file may have", y->name,
                        length);
    const char *end = bytes + length, *start = bytes;
    for (const char *p = bytes; p < end;) {
        size_t n = ebb_utf8_length(p, end);
        unsigned char c = (unsigned char)*p;
        bool is_control = (c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f;
        y->column = (uint32_t)(p - start) + 1;
        if (n == 0)
            return yaml_fail(y, err, "malformed UTF-8");
        if (is_control)
            return yaml_fail(y, err, "control character");
        p += n;
        if (c == '\n') {
            y->line++;
            start = p;
        }
    }
    y->line = y->column = 1;
    return EBB_OK;
}

/* Y3 and Y4 for flow collections, which libfyaml reads to the end before the first event. The scan
 * may err on plain scalars of several lines, hence twice the depth. */
static enum ebb_status yaml_check_flow(struct yaml *y, const char *bytes, size_t length,
                                       struct ebb_error *err)
{
    struct ebb_yaml_scan scan;
    ebb_yaml_scan(&scan, bytes, length, (size_t)2 * YAML_MAX_DEPTH, YAML_MAX_NODES);
    if (scan.depth <= (size_t)2 * YAML_MAX_DEPTH && scan.values <= YAML_MAX_NODES)
        return EBB_OK;
    y->line = scan.line;
    y->column = scan.column;
    return yaml_limit(y, err, scan.depth > YAML_MAX_DEPTH ? yaml_too_deep : yaml_too_many);
}

/* Length without the blanks of an unfinished last line. They mean nothing, but behind an empty
 * block scalar libfyaml 0.7.12 reads an uninitialised value for them. */
static size_t yaml_trim(const char *bytes, size_t length)
{
    size_t n = length;
    while (n > 0 && bytes[n - 1] == ' ')
        n--;
    return n == 0 || bytes[n - 1] == '\n' || bytes[n - 1] == '\r' ? n : length;
}

static enum ebb_status yaml_parse(struct yaml *y, const char *bytes, size_t length,
                                  struct ebb_error *err)
{
    struct fy_diag_cfg diag_cfg;
    EBB_TRY(yaml_check_bytes(y, bytes, length, err));
    EBB_TRY(yaml_check_flow(y, bytes, length, err));
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    if (!diag)
        return ebb_no_memory(err, 0);
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = {
        .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE,
        .diag = diag,
    };
    enum ebb_status status;
    struct fy_parser *parser = fy_parser_create(&cfg);
    y->pieces = fy_token_iter_create(NULL);
    if (!parser || !y->pieces || fy_parser_set_string(parser, bytes, yaml_trim(bytes, length)) != 0)
        status = ebb_no_memory(err, 0);
    else
        status = yaml_pump(y, parser, diag, err);
    fy_token_iter_destroy(y->pieces);
    fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    return status;
}

enum ebb_status ebb_doc_parse_yaml(struct ebb_arena *arena, const char *name, const char *bytes,
                                   size_t length, const struct ebb_doc_node **root,
                                   struct ebb_error *err)
{
    struct yaml y = {.name = name, .line = 1, .column = 1};
    ebb_doc_builder_init(&y.builder, arena, name, YAML_MAX_KEYS);
    enum ebb_status status = yaml_parse(&y, bytes, length, err);
    const struct ebb_doc_node *made = y.builder.root;
    if (status == EBB_OK && !made) { /* an empty file is null */
        made = ebb_doc_builder_scalar(&y.builder, EBB_DOC_NULL, 1, 1, "", 0);
        if (!made)
            status = ebb_no_memory(err, sizeof *made);
    }
    if (status == EBB_OK)
        *root = made;
    ebb_doc_builder_fini(&y.builder);
    ebb_strmap_fini(&y.names);
    ebb_str_fini(&y.scratch);
    ebb_free(y.anchors);
    return status;
}
