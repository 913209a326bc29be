/* keys.c - a mapping against the rows of its section.
 *
 * Order of work: the tag (which alternative?), the keys (is each known?), then the rows in table
 * order (value, default or "missing"). When the tag itself is wrong, only what all alternatives
 * share is judged: guessing at the rest would bury the one error that matters. */
#include "base/keys.h"

#include <string.h>

#define LIST_MAX 12 /* beside a likely guess, a longer list of keys is noise */

/* ---- rows ---- */

const char *ebb_key_name(const struct ebb_key *key)
{
    const char *dot = strrchr(key->path, '.');
    return dot ? dot + 1 : key->path;
}

static bool is_below(const struct ebb_key *key, const char *prefix)
{
    if (!prefix || prefix[0] == '\0')
        return strchr(key->path, '.') == NULL;
    if (key->path[0] != prefix[0])
        return false; /* most rows, and every mapping asks all of them */
    size_t n = strlen(prefix);
    return strncmp(key->path, prefix, n) == 0 && key->path[n] == '.' &&
           strchr(key->path + n + 1, '.') == NULL;
}

bool ebb_section_has(const struct ebb_section *section, const struct ebb_key *key)
{
    const char *name = ebb_key_name(key);
    return is_below(key, section->prefix) && !(section->hides && (key->flags & EBB_KEY_HIDE)) &&
           (!section->only || ebb_words_find(section->only, name, strlen(name), NULL));
}

bool ebb_key_applies(const struct ebb_key *key, const char *tag)
{
    if (!key->when)
        return true;
    return tag && ebb_words_find(key->when, tag, strlen(tag), NULL);
}

static bool is_named(const struct ebb_key *key, const char *name, size_t length)
{
    const char *own = ebb_key_name(key);
    return strlen(own) == length && memcmp(own, name, length) == 0;
}

const struct ebb_key *ebb_section_find(const struct ebb_section *section, const char *tag,
                                       const char *name, size_t length, bool *foreign)
{
    const struct ebb_key *other = NULL;
    *foreign = false;
    for (size_t i = 0; i < section->table->count; i++) {
        const struct ebb_key *key = &section->table->rows[i];
        if (!is_named(key, name, length) || !ebb_section_has(section, key))
            continue;
        if (ebb_key_applies(key, tag))
            return key;
        other = key;
    }
    *foreign = other != NULL;
    return other;
}

const struct ebb_key *ebb_section_tag(const struct ebb_section *section)
{
    for (size_t i = 0; i < section->table->count; i++) {
        const struct ebb_key *key = &section->table->rows[i];
        if ((key->flags & EBB_KEY_TAG) && ebb_section_has(section, key))
            return key;
    }
    return NULL;
}

struct ebb_section ebb_key_section(const struct ebb_keys *table, const struct ebb_key *key)
{
    const char *own = key->kind == EBB_KEY_MAP ? key->path : ebb_key_type(key)->section;
    return (struct ebb_section){
        .table = table, .prefix = key->section ? key->section : own, .hides = key->hides};
}

/* The alternative that `node` selects. */
struct choice {
    const struct ebb_key *row; /* the TAG row; NULL: the section has no alternatives */
    const char *tag;           /* NULL: none, or not a known one */
    bool is_given;             /* a value is there, right or wrong */
};

static struct choice section_choice(struct ebb_reading *reading, const struct ebb_section *section,
                                    const struct ebb_doc_node *node)
{
    struct choice c = {.row = ebb_section_tag(section)};
    const struct ebb_doc_node *value = c.row ? ebb_doc_given(node, ebb_key_name(c.row)) : NULL;
    c.is_given = value != NULL;
    if (!value || value->kind != EBB_DOC_STRING ||
        !ebb_words_find(c.row->words, value->text, value->length, NULL))
        return c;
    c.tag = ebb_arena_strndup(reading->arena, value->text, value->length);
    if (!c.tag)
        reading->failed = true;
    return c;
}

/* ---- keys ---- */

/* A mapping that is read: the rows it may have, where it stands, what it fills. */
struct place {
    const struct ebb_section *section;
    struct choice choice;
    const struct ebb_path *path;
    const struct ebb_doc_node *node;  /* NULL: the mapping is not in the file */
    const struct ebb_doc_node *where; /* nearest thing that is */
    void *record;
};

/* What a message offers: keys of the alternative, old ones aside. Without one, every key of all. */
static void offer_keys(const struct place *in, struct ebb_str *words)
{
    bool is_any = in->choice.row && !in->choice.tag;
    for (size_t i = 0; i < in->section->table->count; i++) {
        const struct ebb_key *key = &in->section->table->rows[i];
        const char *name = ebb_key_name(key);
        bool is_offered = is_any
                              ? !ebb_words_find(ebb_str_c(words), name, strlen(name), NULL)
                              : ebb_key_applies(key, in->choice.tag) && !(key->flags & EBB_KEY_OLD);
        if (ebb_section_has(in->section, key) && is_offered)
            ebb_words_add(words, name);
    }
    if (in->section->also)
        ebb_words_add(words, in->section->also);
}

static void say_offer(const struct place *in, const struct ebb_str *words, bool is_short,
                      struct ebb_str *text)
{
    size_t count = ebb_words_count(ebb_str_c(words));
    const char *manual = in->section->table->manual;
    ebb_str_add(text, "allowed: ");
    if (is_short && manual && count > LIST_MAX)
        ebb_str_printf(text, "any of %zu keys, see %s", count, manual);
    else
        ebb_say_words(count ? ebb_str_c(words) : "none", text);
}

/* Under a tag that is itself wrong, only what looks like a typing error is worth a message. */
static void report_unknown(struct ebb_reading *reading, const struct place *in,
                           const struct ebb_doc_node *key)
{
    if (ebb_reading_is_full(reading))
        return;
    struct ebb_path at = ebb_path_key(in->path, key);
    struct ebb_str words = {0}, text = {0};
    size_t n = 0;
    offer_keys(in, &words);
    const char *nearest = ebb_words_nearest(ebb_str_c(&words), key->text, key->length, &n);
    ebb_str_add(&text, "unknown key");
    if (in->section->what)
        ebb_str_printf(&text, " for %s", in->section->what);
    if (nearest)
        ebb_str_printf(&text, ", nearest: %.*s; ", (int)n, nearest);
    else
        ebb_str_add(&text, ", ");
    say_offer(in, &words, nearest != NULL, &text);
    reading->failed = reading->failed || words.failed;
    if (nearest || !in->choice.row || in->choice.tag || !in->choice.is_given)
        ebb_reading_say(reading, EBB_FINDING_ERROR, &at, key, &text);
    ebb_str_fini(&text);
    ebb_str_fini(&words);
}

/* A key that other alternatives have. */
static void report_foreign(struct ebb_reading *reading, const struct place *in,
                           const struct ebb_doc_node *key)
{
    if (ebb_reading_is_full(reading))
        return;
    struct ebb_path at = ebb_path_key(in->path, key);
    struct ebb_str words = {0}, text = {0};
    const char *between = "";
    ebb_str_printf(&text, "unknown key for %s %s (it belongs to ",
                   in->path && !in->path->up ? in->path->key : ebb_key_name(in->choice.row),
                   in->choice.tag);
    for (size_t i = 0; i < in->section->table->count; i++) {
        const struct ebb_key *row = &in->section->table->rows[i];
        if (!is_named(row, key->text, key->length) || !ebb_section_has(in->section, row))
            continue;
        ebb_str_add(&text, between);
        ebb_say_words(row->when, &text);
        between = ", ";
    }
    ebb_str_add(&text, "), ");
    offer_keys(in, &words);
    say_offer(in, &words, false, &text);
    reading->failed = reading->failed || words.failed;
    ebb_reading_say(reading, EBB_FINDING_ERROR, &at, key, &text);
    ebb_str_fini(&words);
}

static void check_keys(struct ebb_reading *reading, const struct place *in)
{
    const struct ebb_section *section = in->section;
    for (size_t i = 0; i < in->node->count && !reading->failed; i++) {
        const struct ebb_doc_node *key = in->node->keys[i];
        bool foreign = false;
        if (ebb_words_find(section->also, key->text, key->length, NULL))
            continue;
        if (!ebb_section_find(section, in->choice.tag, key->text, key->length, &foreign)) {
            if (!section->is_open)
                report_unknown(reading, in, key);
        } else if (foreign && in->choice.tag) {
            report_foreign(reading, in, key);
        }
    }
}

/* The mappings in one value. */
static void check_below(struct ebb_reading *reading, const struct ebb_keys *table,
                        const struct ebb_key *row, const struct ebb_path *path,
                        const struct ebb_doc_node *value)
{
    struct ebb_section below = ebb_key_section(table, row);
    if (row->kind == EBB_KEY_MAP)
        ebb_keys_check(reading, &below, path, value);
    else if (below.prefix)
        for (size_t i = 0; i < value->count; i++) {
            struct ebb_path at = ebb_path_item(path, value, i);
            ebb_keys_check(reading, &below, &at, value->items[i]);
        }
}

void ebb_keys_check(struct ebb_reading *reading, const struct ebb_section *section,
                    const struct ebb_path *path, const struct ebb_doc_node *node)
{
    if (node->kind != EBB_DOC_MAP || reading->failed)
        return;
    struct place in = {.section = section,
                       .choice = section_choice(reading, section, node),
                       .path = path,
                       .node = node};
    check_keys(reading, &in);
    for (size_t i = 0; i < node->count; i++) {
        const struct ebb_doc_node *key = node->keys[i];
        bool foreign = false;
        const struct ebb_key *row =
            ebb_section_find(section, in.choice.tag, key->text, key->length, &foreign);
        struct ebb_path at = ebb_path_key(path, key);
        if (row)
            check_below(reading, section->table, row, &at, node->items[i]);
    }
}

/* ---- values ---- */

static void report_missing(struct ebb_reading *reading, const struct ebb_key *row,
                           const struct ebb_path *path, const struct ebb_doc_node *where)
{
    if (ebb_reading_is_full(reading))
        return;
    struct ebb_str text = {0};
    ebb_str_add(&text, "required but missing, allowed: ");
    ebb_say_allowed(row, &text);
    ebb_reading_say(reading, EBB_FINDING_ERROR, path, where, &text);
}

/* Does the mapping hold a key that only some alternatives have? Then one must be chosen. */
static bool needs_choice(const struct place *in)
{
    for (size_t i = 0; in->node && i < in->node->count; i++) {
        bool foreign = false;
        const struct ebb_doc_node *key = in->node->keys[i];
        ebb_section_find(in->section, NULL, key->text, key->length, &foreign);
        if (foreign && in->node->items[i]->kind != EBB_DOC_NULL)
            return true;
    }
    return false;
}

/* The field of a refused or missing row; of a mapping, every field below it as well. */
static void mark_bad(struct ebb_reading *reading, const struct ebb_keys *table,
                     const struct ebb_key *row, void *record)
{
    if (row->at == EBB_KEY_NOWHERE)
        return;
    char *field = (char *)record + row->at;
    struct ebb_section below = ebb_key_section(table, row);
    ebb_reading_mark_bad(reading, field);
    for (size_t i = 0; row->kind == EBB_KEY_MAP && i < table->count; i++)
        if (is_below(&table->rows[i], below.prefix))
            mark_bad(reading, table, &table->rows[i], field);
}

/* A row whose key is absent or null. The completed value, or NULL to leave the key out. */
static const struct ebb_doc_node *absent_row(struct ebb_reading *reading, const struct ebb_key *row,
                                             const struct place *in, const struct ebb_path *path,
                                             const struct ebb_doc_node *where)
{
    const struct ebb_keys *table = in->section->table;
    if ((row->flags & EBB_KEY_REQUIRED) || ((row->flags & EBB_KEY_TAG) && needs_choice(in))) {
        report_missing(reading, row, path, where);
        mark_bad(reading, table, row, in->record);
        return NULL;
    }
    if (row->kind == EBB_KEY_MAP) {
        struct ebb_section below = ebb_key_section(table, row);
        return row->flags & EBB_KEY_OPTIONAL ? NULL
                                             : ebb_keys_read(reading, &below, path, NULL, where,
                                                             (char *)in->record + row->at);
    }
    const struct ebb_doc_node *preset = ebb_key_preset(reading, row, in->record);
    if (row->flags & EBB_KEY_QUIET)
        return NULL;
    if (!preset && (row->flags & EBB_KEY_NULLABLE))
        return ebb_reading_node(reading, EBB_DOC_NULL, NULL);
    return preset;
}

const struct ebb_doc_node *ebb_key_read(struct ebb_reading *reading, const struct ebb_key *key,
                                        const struct ebb_keys *table, const struct ebb_path *path,
                                        const struct ebb_doc_node *node, void *record)
{
    const struct ebb_key_type *type = ebb_key_type(key);
    const struct ebb_doc_node *result = NULL;
    bool is_reported = false;
    if (reading->failed)
        return NULL;
    if (!type->shapes || (type->shapes >> node->kind & 1)) {
        struct ebb_section below = ebb_key_section(table, key);
        is_reported = type->reports;
        result = key->kind == EBB_KEY_MAP
                     ? ebb_keys_read(reading, &below, path, node, node, (char *)record + key->at)
                     : type->read(&(struct ebb_value){reading, key, path, node, record});
    }
    if (result || reading->failed)
        return result;
    if (!is_reported)
        ebb_key_refuse(reading, key, path, node);
    mark_bad(reading, table, key, record);
    return NULL;
}

static void read_row(struct ebb_reading *reading, const struct ebb_key *row, const struct place *in,
                     struct ebb_doc_node *out)
{
    const struct ebb_keys *table = in->section->table;
    const char *name = ebb_key_name(row);
    struct ebb_path at = {.up = in->path, .key = name};
    const struct ebb_doc_node *value = ebb_doc_get(in->node, name);
    const struct ebb_doc_node *result;
    if (value && (value->kind != EBB_DOC_NULL || row->kind == EBB_KEY_NODE)) {
        result = ebb_key_read(reading, row, table, &at, value, in->record);
        if ((row->flags & EBB_KEY_NO_EFFECT) && result) {
            struct ebb_str text = {0};
            ebb_str_add(&text, "accepted for old files, has no effect");
            ebb_reading_say(reading, EBB_FINDING_WARNING, &at, value, &text);
        }
        if (result && in->section->given)
            *in->section->given |= UINT64_C(1) << (row - table->rows);
    } else {
        const struct ebb_doc_node *where = value ? value : in->node ? in->node : in->where;
        result = absent_row(reading, row, in, &at, where);
    }
    ebb_reading_set(reading, out, name, result);
}

struct ebb_doc_node *ebb_keys_read(struct ebb_reading *reading, const struct ebb_section *section,
                                   const struct ebb_path *path, const struct ebb_doc_node *node,
                                   const struct ebb_doc_node *where, void *record)
{
    if (node && node->kind == EBB_DOC_NULL)
        node = NULL;
    if (node && node->kind != EBB_DOC_MAP) {
        ebb_reading_refuse(reading, path, node, "a mapping");
        return NULL;
    }
    struct ebb_doc_node *out = ebb_reading_node(reading, EBB_DOC_MAP, node);
    if (!out)
        return NULL;
    struct place in = {.section = section,
                       .choice = section_choice(reading, section, node),
                       .path = path,
                       .node = node,
                       .where = where,
                       .record = record};
    if (node)
        check_keys(reading, &in);
    for (size_t i = 0; i < section->table->count && !reading->failed; i++) {
        const struct ebb_key *row = &section->table->rows[i];
        if (ebb_section_has(section, row) && ebb_key_applies(row, in.choice.tag))
            read_row(reading, row, &in, out);
    }
    return reading->failed ? NULL : out;
}
