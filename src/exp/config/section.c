/* section.c - a mapping against the rows of its section.
 *
 * Order of work: the tag (which alternative?), the keys (is each known?), then the rows in table
 * order (value, default or "missing"). When the tag itself is wrong, only what all alternatives
 * share is judged: guessing at the rest would bury the one error that matters. */
#include <string.h>

#include "exp/config/reader.h"

#define LIST_MAX 12 /* beside a likely guess, a longer list of keys is noise */

/* The alternative that `node` selects. */
struct choice {
    const struct exp_row *row; /* the TAG row; NULL: the section has no alternatives */
    const char *tag;           /* NULL: none, or not a known one */
    bool is_given;             /* a value is there, right or wrong */
};

static struct choice section_choice(struct exp_config_reader *reader, const char *section,
                                    const struct ebb_doc_node *node)
{
    struct choice c = {.row = exp_schema_tag(section)};
    const struct ebb_doc_node *value = c.row ? exp_given(node, exp_row_key(c.row)) : NULL;
    c.is_given = value != NULL;
    if (!value || value->kind != EBB_DOC_STRING ||
        !exp_words_find(c.row->names, value->text, value->length, NULL))
        return c;
    c.tag = ebb_arena_strndup(reader->arena, value->text, value->length);
    if (!c.tag)
        reader->failed = true;
    return c;
}

static bool is_hidden(const struct exp_row *row, const char *section_path)
{
    bool is_tensorboard = strcmp(section_path, "tensorboard_storage") == 0;
    return is_tensorboard && (row->flags & EXP_RETENTION);
}

/* ---- keys ---- */

/* Blank-separated keys of a section: what a message offers. Old keys are not offered. */
static void say_keys(const char *section, const char *tag, const char *section_path,
                     struct ebb_str *out)
{
    for (size_t i = 0; i < exp_schema_count; i++) {
        const struct exp_row *row = &exp_schema[i];
        if (!exp_row_in(row, section) || !exp_row_applies(row, tag) || (row->flags & EXP_OLD) ||
            is_hidden(row, section_path))
            continue;
        if (out->length > 0)
            ebb_str_addc(out, ' ');
        ebb_str_add(out, exp_row_key(row));
    }
}

/* Keys of every alternative, for the nearest name when no alternative is chosen. */
static void say_all_keys(const char *section, struct ebb_str *out)
{
    for (size_t i = 0; i < exp_schema_count; i++) {
        const struct exp_row *row = &exp_schema[i];
        const char *key = exp_row_key(row);
        if (!exp_row_in(row, section) || exp_words_find(ebb_str_c(out), key, strlen(key), NULL))
            continue;
        if (out->length > 0)
            ebb_str_addc(out, ' ');
        ebb_str_add(out, key);
    }
}

/* Under a tag that is itself wrong, only what looks like a typing error is worth a message. */
static void report_unknown(struct exp_config_reader *reader, const char *section,
                           const struct choice *choice, const struct exp_path *path,
                           const struct ebb_doc_node *key, const char *section_path)
{
    if (exp_report_is_full(reader))
        return;
    struct ebb_str keys, allowed;
    ebb_str_init(&keys);
    ebb_str_init(&allowed);
    if (choice->row && !choice->tag)
        say_all_keys(section, &keys);
    else
        say_keys(section, choice->tag, section_path, &keys);
    size_t count = exp_words_count(ebb_str_c(&keys));
    const char *nearest = exp_nearest_word(reader, ebb_str_c(&keys), key->text, key->length);
    if (nearest && count > LIST_MAX)
        ebb_str_printf(&allowed, "any of %zu keys, see ebb experiment schema", count);
    else
        exp_say_words(ebb_str_c(&keys), &allowed);
    struct exp_path at = {.up = path, .key = key->text, .length = key->length};
    if (keys.failed || allowed.failed)
        reader->failed = true;
    else if (nearest)
        exp_report_error(reader, &at, key, "unknown key, nearest: %s; allowed: %s", nearest,
                         ebb_str_c(&allowed));
    else if (choice->tag || !choice->is_given)
        exp_report_error(reader, &at, key, "unknown key, allowed: %s", ebb_str_c(&allowed));
    ebb_str_fini(&keys);
    ebb_str_fini(&allowed);
}

/* A key that other alternatives have. */
static void report_foreign(struct exp_config_reader *reader, const char *section,
                           const struct choice *choice, const struct exp_path *path,
                           const struct ebb_doc_node *key, const char *section_path)
{
    if (exp_report_is_full(reader))
        return;
    struct ebb_str owners, keys, allowed;
    ebb_str_init(&owners);
    ebb_str_init(&keys);
    ebb_str_init(&allowed);
    for (size_t i = 0; i < exp_schema_count; i++) {
        const struct exp_row *row = &exp_schema[i];
        const char *name = exp_row_key(row);
        if (!exp_row_in(row, section) || strlen(name) != key->length ||
            memcmp(name, key->text, key->length) != 0)
            continue;
        if (owners.length > 0)
            ebb_str_add(&owners, ", ");
        exp_say_words(row->when, &owners);
    }
    say_keys(section, choice->tag, section_path, &keys);
    exp_say_words(ebb_str_c(&keys), &allowed);
    struct exp_path at = {.up = path, .key = key->text, .length = key->length};
    if (owners.failed || keys.failed || allowed.failed)
        reader->failed = true;
    else
        exp_report_error(reader, &at, key, "unknown key for %s %s (it belongs to %s), allowed: %s",
                         section_path[0] ? section_path : exp_row_key(choice->row), choice->tag,
                         ebb_str_c(&owners), ebb_str_c(&allowed));
    ebb_str_fini(&owners);
    ebb_str_fini(&keys);
    ebb_str_fini(&allowed);
}

static void check_keys(struct exp_config_reader *reader, const char *section,
                       const struct choice *choice, const struct exp_path *path,
                       const struct ebb_doc_node *node)
{
    const char *section_path = path && !path->up && path->key ? path->key : "";
    for (size_t i = 0; i < node->count && !reader->failed; i++) {
        const struct ebb_doc_node *key = node->keys[i];
        bool foreign = false;
        const struct exp_row *row =
            exp_schema_find(section, choice->tag, key->text, key->length, &foreign);
        if (!row || is_hidden(row, section_path)) {
            report_unknown(reader, section, choice, path, key, section_path);
        } else if (foreign && choice->tag) {
            report_foreign(reader, section, choice, path, key, section_path);
        }
    }
}

static void check_layer_section(struct exp_config_reader *reader, const char *section,
                                const struct exp_path *path, const struct ebb_doc_node *node);

/* The sections below one row of a layer. */
static void check_layer_row(struct exp_config_reader *reader, const struct exp_row *row,
                            const struct exp_path *path, const struct ebb_doc_node *value)
{
    const char *section = exp_row_section(row);
    if (row->type == EXP_T_MAP)
        check_layer_section(reader, section, path, value);
    if (row->type != EXP_T_HPARAMS && row->type != EXP_T_MOUNTS)
        return;
    for (size_t i = 0; i < value->count; i++) {
        struct exp_path at = {.up = path, .index = i};
        if (value->kind == EBB_DOC_MAP) {
            at.key = value->keys[i]->text;
            at.length = value->keys[i]->length;
        }
        check_layer_section(reader, section, &at, value->items[i]);
    }
}

static void check_layer_section(struct exp_config_reader *reader, const char *section,
                                const struct exp_path *path, const struct ebb_doc_node *node)
{
    if (node->kind != EBB_DOC_MAP || reader->failed)
        return;
    struct choice choice = section_choice(reader, section, node);
    check_keys(reader, section, &choice, path, node);
    for (size_t i = 0; i < node->count; i++) {
        const struct ebb_doc_node *key = node->keys[i];
        bool foreign = false;
        const struct exp_row *row =
            exp_schema_find(section, choice.tag, key->text, key->length, &foreign);
        struct exp_path at = {.up = path, .key = key->text, .length = key->length};
        if (row)
            check_layer_row(reader, row, &at, node->items[i]);
    }
}

void exp_section_check_keys(struct exp_config_reader *reader, const struct ebb_doc_node *root)
{
    check_layer_section(reader, "", NULL, root);
}

/* ---- rows ---- */

static void report_missing(struct exp_config_reader *reader, const struct exp_row *row,
                           const struct exp_path *path, const struct ebb_doc_node *where)
{
    if (exp_report_is_full(reader))
        return;
    struct ebb_str allowed;
    ebb_str_init(&allowed);
    exp_say_allowed(row, &allowed);
    if (allowed.failed)
        reader->failed = true;
    else
        exp_report_error(reader, path, where, "required but missing, allowed: %s",
                         ebb_str_c(&allowed));
    ebb_str_fini(&allowed);
}

/* Does the section hold a key that only some alternatives have? Then one must be chosen. */
static bool needs_choice(const char *section, const struct ebb_doc_node *node)
{
    for (size_t i = 0; node && i < node->count; i++) {
        bool foreign = false;
        const struct ebb_doc_node *key = node->keys[i];
        exp_schema_find(section, NULL, key->text, key->length, &foreign);
        if (foreign && node->items[i]->kind != EBB_DOC_NULL)
            return true;
    }
    return false;
}

void exp_section_mark_bad(struct exp_config_reader *reader, const struct exp_row *row, void *field)
{
    if (!field)
        return;
    exp_mark_bad(reader, field);
    for (size_t i = 0; row->type == EXP_T_MAP && i < exp_schema_count; i++) {
        const struct exp_row *below = &exp_schema[i];
        if (exp_row_in(below, exp_row_section(row)) && below->at != SIZE_MAX)
            exp_section_mark_bad(reader, below, (char *)field + below->at);
    }
}

/* A section being read. */
struct place {
    const char *section;
    const struct exp_path *path;
    const struct ebb_doc_node *node;  /* NULL: the section is not in the file */
    const struct ebb_doc_node *where; /* nearest thing that is */
    void *record;
};

/* A row whose key is absent or null. The normalised value, or NULL to leave the key out. */
static const struct ebb_doc_node *absent_row(struct exp_config_reader *reader,
                                             const struct exp_row *row, const struct place *in,
                                             const struct exp_path *path,
                                             const struct ebb_doc_node *where)
{
    void *field = row->at == SIZE_MAX ? NULL : (char *)in->record + row->at;
    if ((row->flags & EXP_REQUIRED) ||
        ((row->flags & EXP_TAG) && needs_choice(in->section, in->node))) {
        report_missing(reader, row, path, where);
        exp_section_mark_bad(reader, row, field);
        return NULL;
    }
    if (row->type == EXP_T_MAP) {
        if (row->flags & EXP_OPTIONAL)
            return NULL;
        return exp_section_read(reader, exp_row_section(row), path, NULL, where, field);
    }
    const struct ebb_doc_node *preset = exp_value_default(reader, row, in->record);
    if (row->flags & EXP_QUIET)
        return NULL;
    if (!preset && (row->flags & EXP_NULLABLE))
        return exp_node(reader, EBB_DOC_NULL, NULL);
    return preset;
}

static void read_row(struct exp_config_reader *reader, const struct exp_row *row,
                     const struct place *in, struct ebb_doc_node *out)
{
    const char *key = exp_row_key(row);
    struct exp_path at = {.up = in->path, .key = key, .length = strlen(key)};
    const struct ebb_doc_node *value = ebb_doc_get(in->node, key);
    const struct ebb_doc_node *result;
    if (value && (value->kind != EBB_DOC_NULL || row->type == EXP_T_ANY)) {
        result = exp_value_read(reader, row, &at, value, in->record);
        if ((row->flags & EXP_NO_EFFECT) && result)
            exp_report_warning(reader, &at, value, "accepted for old files, has no effect");
    } else {
        const struct ebb_doc_node *where = value ? value : in->node ? in->node : in->where;
        result = absent_row(reader, row, in, &at, where);
    }
    exp_set(reader, out, key, result);
}

struct ebb_doc_node *exp_section_read(struct exp_config_reader *reader, const char *section,
                                      const struct exp_path *path, const struct ebb_doc_node *node,
                                      const struct ebb_doc_node *where, void *record)
{
    struct ebb_doc_node *out = exp_node(reader, EBB_DOC_MAP, node);
    if (!out)
        return NULL;
    struct choice choice = section_choice(reader, section, node);
    if (node)
        check_keys(reader, section, &choice, path, node);
    struct place in = {
        .section = section, .path = path, .node = node, .where = where, .record = record};
    const char *section_path = path && !path->up && path->key ? path->key : "";
    for (size_t i = 0; i < exp_schema_count && !reader->failed; i++) {
        const struct exp_row *row = &exp_schema[i];
        if (exp_row_in(row, section) && exp_row_applies(row, choice.tag) &&
            !is_hidden(row, section_path))
            read_row(reader, row, &in, out);
    }
    return reader->failed ? NULL : out;
}
