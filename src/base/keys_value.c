/* keys_value.c - one value against its row: kind, limits, the C field, the normalised form. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/keys.h"

/* Whole doubles up to here are exact, so "3.0 is 3" has one meaning. */
#define WHOLE_MAX 9007199254740992.0

static void *field_of(const struct ebb_key *key, void *record)
{
    return key->at == EBB_KEY_NOWHERE ? NULL : (char *)record + key->at;
}

/* ---- words ---- */

static const char *word_at(const struct ebb_key *key, size_t index, size_t *length)
{
    if (!key->word)
        return ebb_words_at(key->words, index, length);
    const char *word = key->word(index);
    *length = word ? strlen(word) : 0;
    return word;
}

static bool find_word(const struct ebb_key *key, const struct ebb_doc_node *node, size_t *index)
{
    const char *word;
    size_t n = 0;
    for (size_t i = 0; (word = word_at(key, i, &n)) != NULL; i++) {
        bool is_same = n == node->length &&
                       (key->flags & EBB_KEY_ANY_CASE ? strncasecmp(word, node->text, n) == 0
                                                      : memcmp(word, node->text, n) == 0);
        if (is_same) {
            *index = i;
            return true;
        }
    }
    return false;
}

static void all_words(const struct ebb_key *key, struct ebb_str *words)
{
    const char *word;
    size_t n = 0;
    for (size_t i = 0; (word = word_at(key, i, &n)) != NULL; i++) {
        ebb_words_add(words, "");
        ebb_str_addn(words, word, n);
    }
}

void ebb_say_allowed(const struct ebb_key *key, struct ebb_str *out)
{
    struct ebb_str words = {0};
    all_words(key, &words);
    if (key->allowed) {
        ebb_str_add(out, key->allowed);
    } else if (words.length > 0 && key->kind != EBB_KEY_BYTES) {
        ebb_say_words(ebb_str_c(&words), out);
    } else {
        if (key->room)
            ebb_str_printf(out, "a list of %d to %zu %s", !(key->flags & EBB_KEY_EMPTY), key->room,
                           key->kind == EBB_KEY_INTS      ? "integers"
                           : key->kind == EBB_KEY_DOUBLES ? "numbers"
                           : key->kind == EBB_KEY_TEXTS   ? "strings"
                                                          : "values");
        else
            ebb_str_add(out, ebb_key_type(key)->noun);
        if (key->bounds)
            ebb_str_printf(out, " %s", key->bounds);
        if (words.length > 0)
            ebb_str_printf(out, ", or %s", ebb_str_c(&words));
    }
    if (key->flags & EBB_KEY_NULLABLE)
        ebb_str_add(out, " or null");
    ebb_str_fini(&words);
}

/* What was meant as text and read as a number or boolean needs quotes. */
static void say_quotes(const struct ebb_doc_node *node, struct ebb_str *out)
{
    if (node->kind != EBB_DOC_INT && node->kind != EBB_DOC_DOUBLE && node->kind != EBB_DOC_BOOL)
        return;
    ebb_str_add(out, " (quoted: \"");
    ebb_say_found(node, out);
    ebb_str_add(out, "\")");
}

/* An address with a name and a password, or with a token. */
static bool is_signed_address(const struct ebb_doc_node *node)
{
    const char *at = node->kind == EBB_DOC_STRING ? strstr(node->text, "://") : NULL;
    return at != NULL && strpbrk(at, "@?") != NULL;
}

static void say_refusal(const struct ebb_key *key, const struct ebb_doc_node *node,
                        struct ebb_str *out)
{
    bool is_secret = (key->flags & EBB_KEY_SECRET) != 0 || is_signed_address(node);
    bool has_words = key->words || key->word;
    ebb_str_add(out, "found ");
    if (is_secret)
        ebb_str_printf(out, "%s (not shown)", ebb_doc_kind_text(node->kind));
    else
        ebb_say_found(node, out);
    ebb_str_add(out, ", allowed: ");
    ebb_say_allowed(key, out);
    if (key->kind == EBB_KEY_TEXT && !has_words && !key->check && !is_secret)
        say_quotes(node, out);
    if (has_words && node->kind == EBB_DOC_STRING) {
        struct ebb_str words = {0};
        all_words(key, &words);
        ebb_say_nearest(ebb_str_c(&words), node->text, node->length, out);
        ebb_str_fini(&words);
    }
}

void ebb_key_refuse(struct ebb_reading *reading, const struct ebb_key *key,
                    const struct ebb_path *path, const struct ebb_doc_node *node)
{
    if (ebb_reading_is_full(reading))
        return;
    struct ebb_str text = {0};
    say_refusal(key, node, &text);
    ebb_reading_say(reading, EBB_FINDING_ERROR, path, node, &text);
}

/* ---- limits: "> 0, <= 0.5" ---- */

/* sign of (value - limit), both forms exact */
static int compare_number(bool is_int, int64_t integer, double number, const char *limit)
{
    int64_t whole = 0;
    double real = 0;
    if (is_int && ebb_parse_i64(limit, &whole))
        return (integer > whole) - (integer < whole);
    ebb_parse_double(limit, &real);
    return (number > real) - (number < real);
}

static bool within(const char *bounds, bool is_int, int64_t integer, double number)
{
    while (bounds && *bounds) {
        char op[3] = {0}, limit[24] = {0};
        size_t n = strspn(bounds, "<>=");
        memcpy(op, bounds, n < 2 ? n : 2);
        bounds += n;
        bounds += strspn(bounds, " ");
        n = strcspn(bounds, ",");
        memcpy(limit, bounds, n < sizeof limit - 1 ? n : sizeof limit - 1);
        bounds += n;
        bounds += strspn(bounds, ", ");
        int c = compare_number(is_int, integer, number, limit);
        bool is_equal_fine = op[1] == '=';
        if (c == 0 ? !is_equal_fine : (op[0] == '>') != (c > 0))
            return false;
    }
    return true;
}

/* ---- scalars: NULL means "refused, not yet reported" ---- */

bool ebb_key_whole(const struct ebb_doc_node *node, int64_t *value)
{
    if (node->kind == EBB_DOC_INT) {
        *value = node->integer;
        return true;
    }
    if (node->kind != EBB_DOC_DOUBLE || node->number != floor(node->number) ||
        fabs(node->number) > WHOLE_MAX)
        return false;
    *value = (int64_t)node->number;
    return true;
}

static const struct ebb_doc_node *read_int(const struct ebb_value *v)
{
    const struct ebb_doc_node *node = v->node;
    int64_t value = 0, *field = field_of(v->key, v->record);
    if (!ebb_key_whole(node, &value) || !within(v->key->bounds, true, value, (double)value))
        return NULL;
    if (field)
        *field = value;
    if (node->kind == EBB_DOC_INT)
        return node;
    struct ebb_doc_node *whole = ebb_reading_node(v->reading, EBB_DOC_INT, node);
    if (whole) {
        whole->integer = value;
        whole->number = (double)value;
    }
    return whole;
}

static bool is_plain_text(const struct ebb_doc_node *node)
{
    return node->kind == EBB_DOC_STRING && memchr(node->text, '\0', node->length) == NULL;
}

static bool is_number(const struct ebb_key *key, const struct ebb_doc_node *node, double *value)
{
    *value = node->number;
    if (node->kind == EBB_DOC_STRING)
        return (key->flags & EBB_KEY_LOOSE) && is_plain_text(node) &&
               ebb_parse_double(node->text, value) && within(key->bounds, false, 0, *value);
    return (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE) && isfinite(*value) &&
           within(key->bounds, false, 0, *value);
}

static const struct ebb_doc_node *read_double(const struct ebb_value *v)
{
    double value;
    if (!is_number(v->key, v->node, &value))
        return NULL;
    *(double *)field_of(v->key, v->record) = value;
    return v->node;
}

static const struct ebb_doc_node *read_pair(const struct ebb_value *v)
{
    const struct ebb_doc_node *node = v->node;
    double pair[2];
    if (node->count != 2 || !is_number(v->key, node->items[0], &pair[0]) ||
        !is_number(v->key, node->items[1], &pair[1]))
        return NULL;
    memcpy(field_of(v->key, v->record), pair, sizeof pair);
    return node;
}

static const struct ebb_doc_node *read_bool(const struct ebb_value *v)
{
    bool *field = field_of(v->key, v->record);
    if (field)
        *field = v->node->boolean;
    return v->node;
}

const char *ebb_key_text(struct ebb_reading *reading, const struct ebb_path *path,
                         const struct ebb_doc_node *node, const char *allowed)
{
    if (is_plain_text(node))
        return node->text;
    struct ebb_str text = {0};
    ebb_str_add(&text, allowed);
    say_quotes(node, &text);
    if (text.failed)
        reading->failed = true;
    ebb_reading_refuse(reading, path, node, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return NULL;
}

static const struct ebb_doc_node *read_text(const struct ebb_value *v)
{
    const struct ebb_doc_node *node = v->node;
    const char **field = field_of(v->key, v->record);
    size_t index;
    if (!is_plain_text(node) ||
        (v->key->check ? !v->key->check(node->text)
                       : (v->key->words || v->key->word) && !find_word(v->key, node, &index)))
        return NULL;
    if (field)
        *field = node->text;
    return node;
}

static void store_word(const struct ebb_key *key, void *record, size_t index)
{
    unsigned value = (unsigned)index; /* every C enum here is an unsigned int */
    _Static_assert(sizeof(enum ebb_key_kind) == sizeof value, "enums are unsigned int");
    memcpy(field_of(key, record), &value, sizeof value);
}

static const struct ebb_doc_node *read_word(const struct ebb_value *v)
{
    size_t index = 0;
    if (!find_word(v->key, v->node, &index))
        return NULL;
    store_word(v->key, v->record, index);
    return v->node;
}

static const struct ebb_doc_node *read_bytes(const struct ebb_value *v)
{
    const struct ebb_doc_node *node = v->node;
    uint64_t bytes = UINT64_MAX;
    int64_t whole = 0;
    size_t index;
    if (node->kind == EBB_DOC_STRING) {
        bool is_word = find_word(v->key, node, &index);
        if (!is_word &&
            (!is_plain_text(node) || ebb_parse_bytes(node->text, &bytes, NULL) != EBB_OK))
            return NULL;
        whole = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
    } else if (ebb_key_whole(node, &whole) && whole >= 0) {
        bytes = (uint64_t)whole;
    } else {
        return NULL;
    }
    if (bytes != UINT64_MAX && !within(v->key->bounds, true, whole, (double)whole))
        return NULL;
    memcpy(field_of(v->key, v->record), &bytes, sizeof bytes);
    return node;
}

/* ---- lists ---- */

static void store_list(const struct ebb_key *key, void *record, const void *items, size_t count,
                       size_t size)
{
    if (key->at == EBB_KEY_NOWHERE)
        return;
    if (key->room)
        memcpy(field_of(key, record), items, count * size);
    else
        memcpy(field_of(key, record), &items, sizeof items);
    memcpy((char *)record + key->count_at, &count, sizeof count);
}

static bool has_room(const struct ebb_key *key, size_t count)
{
    return (count > 0 || (key->flags & EBB_KEY_EMPTY)) && (!key->room || count <= key->room);
}

static bool is_not_empty(const char *text)
{
    return text[0] != '\0';
}

static const struct ebb_doc_node *read_list(const struct ebb_value *v)
{
    struct ebb_reading *reading = v->reading;
    const struct ebb_doc_node *node = v->node;
    static const size_t sizes[] = {[EBB_KEY_INTS] = sizeof(int64_t),
                                   [EBB_KEY_DOUBLES] = sizeof(double),
                                   [EBB_KEY_TEXTS] = sizeof(const char *)};
    struct ebb_key element = {.kind = v->key->kind == EBB_KEY_INTS      ? EBB_KEY_INT
                                      : v->key->kind == EBB_KEY_DOUBLES ? EBB_KEY_DOUBLE
                                                                        : EBB_KEY_TEXT,
                              .path = "",
                              .bounds = v->key->bounds,
                              .flags = v->key->flags & EBB_KEY_LOOSE};
    const struct ebb_doc_node *const *items = node->kind == EBB_DOC_LIST ? node->items : &node;
    size_t count = node->kind == EBB_DOC_LIST ? node->count : 1, size = sizes[v->key->kind];
    if (element.kind == EBB_KEY_TEXT) {
        element.check = v->key->check ? v->key->check : is_not_empty;
        element.allowed = "a string that is not empty";
    }
    if (!has_room(v->key, count) ||
        (v->key->kind == EBB_KEY_INTS && !v->key->room && node->kind != EBB_DOC_LIST)) {
        ebb_key_refuse(reading, v->key, v->path, node);
        return NULL;
    }
    char *values = ebb_reading_alloc(reading, count, size);
    struct ebb_doc_node *out = ebb_reading_node(reading, EBB_DOC_LIST, node);
    bool is_good = values && out;
    for (size_t i = 0; values && out && i < count; i++) {
        struct ebb_path at = {.up = v->path, .index = i};
        const struct ebb_doc_node *item =
            ebb_key_read(reading, &element, NULL, node->kind == EBB_DOC_LIST ? &at : v->path,
                         items[i], values + i * size);
        is_good = is_good && item;
        ebb_reading_append(reading, out, item);
    }
    if (!is_good)
        return NULL;
    store_list(v->key, v->record, values, count, size);
    return out;
}

static const struct ebb_doc_node *read_nodes(const struct ebb_value *v)
{
    const struct ebb_doc_node *node = v->node;
    if (!has_room(v->key, node->count))
        return NULL;
    store_list(v->key, v->record, node->items, node->count, sizeof *node->items);
    return node;
}

static const struct ebb_doc_node *read_node(const struct ebb_value *v)
{
    if (field_of(v->key, v->record))
        memcpy(field_of(v->key, v->record), &v->node, sizeof v->node);
    return v->node;
}

/* ---- the kinds ---- */

#define IS(kind) (1u << EBB_DOC_##kind)

const struct ebb_key_type *ebb_key_type(const struct ebb_key *key)
{
    static const struct ebb_key_type kinds[] = {
        [EBB_KEY_TEXT] = {.noun = "a string", .read = read_text},
        [EBB_KEY_INT] = {.noun = "an integer", .read = read_int},
        [EBB_KEY_DOUBLE] = {.noun = "a number", .read = read_double},
        [EBB_KEY_BOOL] = {.noun = "true or false", .shapes = IS(BOOL), .read = read_bool},
        [EBB_KEY_WORD] = {.noun = "", .shapes = IS(STRING), .read = read_word},
        [EBB_KEY_BYTES] = {.noun = "bytes with a unit (48MiB, 1.5GiB)", .read = read_bytes},
        [EBB_KEY_PAIR] = {.noun = "a list of two numbers", .shapes = IS(LIST), .read = read_pair},
        [EBB_KEY_INTS] = {.noun = "a list of at least one integer",
                          .shapes = IS(LIST) | IS(INT),
                          .read = read_list,
                          .reports = true},
        [EBB_KEY_DOUBLES] = {.noun = "a list of at least one number",
                             .shapes = IS(LIST) | IS(INT) | IS(DOUBLE),
                             .read = read_list,
                             .reports = true},
        [EBB_KEY_TEXTS] = {.noun = "a list of at least one string",
                           .shapes = IS(LIST) | IS(STRING),
                           .read = read_list,
                           .reports = true},
        [EBB_KEY_NODES] = {.noun = "a list of at least one value",
                           .shapes = IS(LIST),
                           .read = read_nodes},
        [EBB_KEY_NODE] = {.noun = "any value", .read = read_node},
        [EBB_KEY_FREE] = {.noun = "a mapping", .shapes = IS(MAP), .read = read_node},
        [EBB_KEY_MAP] = {.noun = "a mapping", .shapes = IS(MAP), .reports = true},
    };
    return key->kind == EBB_KEY_OWN ? key->type : &kinds[key->kind];
}

/* ---- texts of a command line ---- */

bool ebb_key_read_text(const struct ebb_key *key, const char *text, void *record,
                       struct ebb_str *why)
{
    struct ebb_doc_node node = {.kind = EBB_DOC_STRING, .text = text, .length = strlen(text)};
    bool is_true = strcmp(text, "true") == 0;
    if (key->kind == EBB_KEY_INT && ebb_parse_i64(text, &node.integer)) {
        node.kind = EBB_DOC_INT;
        node.number = (double)node.integer;
    } else if (key->kind == EBB_KEY_DOUBLE && ebb_parse_double(text, &node.number)) {
        node.kind = EBB_DOC_DOUBLE;
    } else if (key->kind == EBB_KEY_BOOL && (is_true || strcmp(text, "false") == 0)) {
        node.kind = EBB_DOC_BOOL;
        node.boolean = is_true;
    }
    const struct ebb_key_type *type = ebb_key_type(key);
    bool has_shape = !type->shapes || (type->shapes >> node.kind & 1);
    if (has_shape &&
        type->read(&(struct ebb_value){
            .key = key, .node = &node, .record = record})) /* of scalars: needs no arena */
        return true;
    say_refusal(key, &node, why);
    return false;
}

void ebb_say_value(const struct ebb_key *key, const void *record, struct ebb_str *out)
{
    const char *field = (const char *)record + key->at, *word;
    char text[32];
    int64_t integer;
    double number;
    unsigned index;
    size_t count, n = 0;
    bool flag;
    switch (key->kind) {
    case EBB_KEY_INT:
        memcpy(&integer, field, sizeof integer);
        ebb_str_printf(out, "%" PRId64, integer);
        break;
    case EBB_KEY_DOUBLE:
        memcpy(&number, field, sizeof number);
        ebb_str_add(out, ebb_format_double(number, text, sizeof text));
        break;
    case EBB_KEY_BOOL:
        memcpy(&flag, field, sizeof flag);
        ebb_str_add(out, flag ? "true" : "false");
        break;
    case EBB_KEY_WORD:
        memcpy(&index, field, sizeof index);
        word = word_at(key, index, &n);
        ebb_str_addn(out, word, n);
        break;
    case EBB_KEY_INTS:
        memcpy(&count, (const char *)record + key->count_at, sizeof count);
        for (size_t i = 0; i < count; i++) {
            memcpy(&integer, field + i * sizeof integer, sizeof integer);
            ebb_str_printf(out, "%s%" PRId64, i ? "," : "", integer);
        }
        break;
    default:
        break;
    }
}

/* ---- defaults ---- */

/* The completed form of a value that is a container when absent. */
static const struct ebb_doc_node *empty_value(struct ebb_reading *reading,
                                              const struct ebb_key *key, void *record)
{
    const struct ebb_key_type *type = ebb_key_type(key);
    const struct ebb_doc_node *node = NULL;
    if (key->kind == EBB_KEY_FREE && !(key->flags & EBB_KEY_OPTIONAL)) {
        node = ebb_reading_node(reading, EBB_DOC_MAP, NULL);
        memcpy(field_of(key, record), &node, sizeof node);
    } else if (type->empty != EBB_DOC_NULL) {
        node = ebb_reading_node(reading, type->empty, NULL);
        node = node ? type->read(&(struct ebb_value){reading, key, NULL, node, record}) : NULL;
    }
    return node;
}

const struct ebb_doc_node *ebb_key_preset(struct ebb_reading *reading, const struct ebb_key *key,
                                          void *record)
{
    struct ebb_doc_node *node = NULL;
    int64_t integer = 0;
    double number = 0;
    if (!key->preset)
        return empty_value(reading, key, record);
    if (key->kind == EBB_KEY_INT && ebb_parse_i64(key->preset, &integer))
        node = ebb_doc_new_int(reading->arena, integer);
    else if (key->kind == EBB_KEY_DOUBLE && ebb_parse_double(key->preset, &number))
        node = ebb_doc_new_double(reading->arena, number);
    else if (key->kind == EBB_KEY_BOOL)
        node = ebb_doc_new_bool(reading->arena, strcmp(key->preset, "true") == 0);
    else
        node = ebb_doc_new_string(reading->arena, key->preset);
    if (!node || !ebb_key_type(key)->read(&(struct ebb_value){reading, key, NULL, node, record}))
        reading->failed = true; /* out of memory; a test reads every preset of the table */
    return node;
}
