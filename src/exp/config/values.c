/* values.c - one value against its row: type, limits, the C field, the normalised form.
 *
 * Strict on purpose: "3" is no integer, 1 is no boolean, but 3.0 is 3 and an integer is a number.
 */
#include <math.h>
#include <string.h>

#include "exp/config/reader.h"

/* Whole doubles up to here are exact, so "3.0 is 3" has one meaning. */
#define WHOLE_MAX 9007199254740992.0

static void *field_of(const struct exp_row *row, void *record)
{
    return row->at == SIZE_MAX ? NULL : (char *)record + row->at;
}

static const char *nearest_name(struct exp_config_reader *reader, const struct exp_row *row,
                                const struct ebb_doc_node *node)
{
    if (!row->names || node->kind != EBB_DOC_STRING)
        return NULL;
    return exp_nearest_word(reader, row->names, node->text, node->length);
}

/* What was meant as text and read as a number or boolean needs quotes. */
static void say_quotes(const struct ebb_doc_node *node, const struct ebb_str *found,
                       struct ebb_str *allowed)
{
    if (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE || node->kind == EBB_DOC_BOOL)
        ebb_str_printf(allowed, " (quoted: \"%s\")", ebb_str_c(found));
}

void exp_value_refuse(struct exp_config_reader *reader, const struct exp_row *row,
                      const struct exp_path *path, const struct ebb_doc_node *node)
{
    if (exp_report_is_full(reader))
        return;
    struct ebb_str found, allowed;
    ebb_str_init(&found);
    ebb_str_init(&allowed);
    if (row->flags & EXP_SECRET)
        ebb_str_printf(&found, "%s (not shown)", ebb_doc_kind_text(node->kind));
    else
        exp_say_found(node, &found);
    exp_say_allowed(row, &allowed);
    if (row->type == EXP_T_STRING && !row->names && !row->check && !(row->flags & EXP_SECRET))
        say_quotes(node, &found, &allowed);
    const char *nearest = nearest_name(reader, row, node);
    if (found.failed || allowed.failed)
        reader->failed = true;
    else
        exp_report_error(reader, path, node, "found %s, allowed: %s%s%s", ebb_str_c(&found),
                         ebb_str_c(&allowed), nearest ? "; nearest: " : "", nearest ? nearest : "");
    ebb_str_fini(&found);
    ebb_str_fini(&allowed);
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

/* ---- scalars ---- */

static bool node_int(const struct ebb_doc_node *node, int64_t *value)
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

static const struct ebb_doc_node *int_node(struct exp_config_reader *reader, int64_t value,
                                           const struct ebb_doc_node *like)
{
    if (like && like->kind == EBB_DOC_INT)
        return like;
    struct ebb_doc_node *node = reader->failed ? NULL : ebb_doc_new_int(reader->arena, value);
    if (!node)
        reader->failed = true;
    else if (like)
        node->line = like->line, node->column = like->column;
    return node;
}

static const struct ebb_doc_node *read_int(struct exp_config_reader *reader,
                                           const struct exp_row *row,
                                           const struct ebb_doc_node *node, int64_t *field)
{
    int64_t value = 0;
    if (!node_int(node, &value) || !within(row->bounds, true, value, (double)value))
        return NULL;
    if (field)
        *field = value;
    return int_node(reader, value, node);
}

static const struct ebb_doc_node *read_double(const struct exp_row *row,
                                              const struct ebb_doc_node *node, double *field)
{
    if ((node->kind != EBB_DOC_INT && node->kind != EBB_DOC_DOUBLE) || !isfinite(node->number) ||
        !within(row->bounds, false, 0, node->number))
        return NULL;
    *field = node->number;
    return node;
}

static bool is_plain_text(const struct ebb_doc_node *node)
{
    return node->kind == EBB_DOC_STRING && memchr(node->text, '\0', node->length) == NULL;
}

const char *exp_value_text(struct exp_config_reader *reader, const struct exp_path *path,
                           const struct ebb_doc_node *node, const char *allowed)
{
    if (is_plain_text(node))
        return node->text;
    if (exp_report_is_full(reader))
        return NULL;
    struct ebb_str found, text;
    ebb_str_init(&found);
    ebb_str_init(&text);
    exp_say_found(node, &found);
    ebb_str_add(&text, allowed);
    say_quotes(node, &found, &text);
    if (found.failed || text.failed)
        reader->failed = true;
    else
        exp_report_error(reader, path, node, "found %s, allowed: %s", ebb_str_c(&found),
                         ebb_str_c(&text));
    ebb_str_fini(&found);
    ebb_str_fini(&text);
    return NULL;
}

static const struct ebb_doc_node *read_string(const struct exp_row *row,
                                              const struct ebb_doc_node *node, const char **field)
{
    if (!is_plain_text(node) || (row->check && !row->check(node->text)) ||
        (row->names && !exp_words_find(row->names, node->text, node->length, NULL)))
        return NULL;
    if (field)
        *field = node->text;
    return node;
}

static void store_enum(void *field, size_t index)
{
    unsigned value = (unsigned)index; /* every C enum here is an unsigned int */
    _Static_assert(sizeof(enum exp_mode) == sizeof(unsigned), "enums are unsigned int");
    memcpy(field, &value, sizeof value);
}

static const struct ebb_doc_node *read_enum(const struct exp_row *row,
                                            const struct ebb_doc_node *node, void *field)
{
    size_t index = 0;
    if (node->kind != EBB_DOC_STRING ||
        !exp_words_find(row->names, node->text, node->length, &index))
        return NULL;
    store_enum(field, index);
    return node;
}

/* ---- lists ---- */

static void store_list(const struct exp_row *row, void *record, const void *items, size_t count)
{
    memcpy((char *)record + row->at, &items, sizeof items);
    memcpy((char *)record + row->count_at, &count, sizeof count);
}

static const struct ebb_doc_node *read_int_list(struct exp_config_reader *reader,
                                                const struct exp_row *row,
                                                const struct exp_path *path,
                                                const struct ebb_doc_node *node, void *record)
{
    int64_t *values = exp_alloc(reader, node->count, sizeof *values);
    struct ebb_doc_node *out = exp_node(reader, EBB_DOC_LIST, node);
    bool is_good = values && out;
    for (size_t i = 0; values && out && i < node->count; i++) {
        const struct ebb_doc_node *item = read_int(reader, row, node->items[i], &values[i]);
        struct exp_path at = {.up = path, .index = i};
        if (!item) {
            static const struct exp_row element = {.type = EXP_T_INT};
            struct exp_row one = element;
            one.bounds = row->bounds;
            exp_value_refuse(reader, &one, &at, node->items[i]);
            is_good = false;
        }
        exp_append(reader, out, item);
    }
    if (!is_good) {
        exp_mark_bad(reader, (char *)record + row->at);
        return NULL;
    }
    store_list(row, record, values, node->count);
    return out;
}

static const struct ebb_doc_node *read_string_list(struct exp_config_reader *reader,
                                                   const struct exp_row *row,
                                                   const struct exp_path *path,
                                                   const struct ebb_doc_node *node, void *record)
{
    const char **values = exp_alloc(reader, node->count, sizeof *values);
    bool is_good = values != NULL;
    for (size_t i = 0; values && i < node->count; i++) {
        struct exp_path at = {.up = path, .index = i};
        values[i] = exp_value_text(reader, &at, node->items[i], "a string");
        is_good = is_good && values[i];
    }
    if (!is_good) {
        exp_mark_bad(reader, (char *)record + row->at);
        return NULL;
    }
    store_list(row, record, values, node->count);
    return node;
}

static const struct ebb_doc_node *read_ports(struct exp_config_reader *reader,
                                             const struct exp_path *path,
                                             const struct ebb_doc_node *node)
{
    static const struct exp_row port = {.type = EXP_T_INT, .bounds = ">= 0, <= 65535"};
    bool is_good = true;
    for (size_t i = 0; i < node->count; i++) {
        struct exp_path at = {
            .up = path, .key = node->keys[i]->text, .length = node->keys[i]->length};
        if (!read_int(reader, &port, node->items[i], NULL)) {
            exp_value_refuse(reader, &port, &at, node->items[i]);
            is_good = false;
        }
    }
    return is_good ? node : NULL;
}

/* ---- any row ---- */

/* The container a row's type asks for; scalars and mixed forms check themselves. */
static bool has_shape(const struct exp_row *row, const struct ebb_doc_node *node)
{
    switch (row->type) {
    case EXP_T_MAP:
    case EXP_T_FREE:
    case EXP_T_PORTS:
    case EXP_T_HPARAMS:
        return node->kind == EBB_DOC_MAP;
    case EXP_T_MOUNTS:
        return node->kind == EBB_DOC_LIST;
    case EXP_T_ANY_LIST:
    case EXP_T_INT_LIST:
        return node->kind == EBB_DOC_LIST && node->count > 0;
    case EXP_T_STRING_LIST:
        return node->kind == EBB_DOC_LIST && node->count > 0 &&
               !(node->items[0]->kind == EBB_DOC_STRING && node->items[0]->length == 0);
    case EXP_T_LABELS:
        return node->kind == EBB_DOC_LIST || node->kind == EBB_DOC_MAP;
    case EXP_T_VARIABLES:
        return node->kind == EBB_DOC_LIST || node->kind == EBB_DOC_MAP;
    case EXP_T_IMAGE:
        return node->kind == EBB_DOC_STRING || node->kind == EBB_DOC_MAP;
    case EXP_T_ENTRYPOINT:
        return node->kind == EBB_DOC_STRING || node->kind == EBB_DOC_LIST;
    default:
        return true;
    }
}

/* Scalars: a NULL answer means "refused, not yet reported". */
static const struct ebb_doc_node *read_scalar(struct exp_config_reader *reader,
                                              const struct exp_row *row,
                                              const struct ebb_doc_node *node, void *field)
{
    switch (row->type) {
    case EXP_T_INT:
        return read_int(reader, row, node, field);
    case EXP_T_DOUBLE:
        return read_double(row, node, field);
    case EXP_T_BOOL:
        if (node->kind != EBB_DOC_BOOL)
            return NULL;
        *(bool *)field = node->boolean;
        return node;
    case EXP_T_ENUM:
        return read_enum(row, node, field);
    default:
        return read_string(row, node, field);
    }
}

static bool is_scalar(enum exp_type type)
{
    return type <= EXP_T_ENUM;
}

/* Everything else: these report by themselves. */
static const struct ebb_doc_node *read_compound(struct exp_config_reader *reader,
                                                const struct exp_row *row,
                                                const struct exp_path *path,
                                                const struct ebb_doc_node *node, void *record)
{
    void *field = field_of(row, record);
    switch (row->type) {
    case EXP_T_MAP:
        return exp_section_read(reader, exp_row_section(row), path, node, node, field);
    case EXP_T_FREE:
    case EXP_T_ANY:
        if (field)
            memcpy(field, &node, sizeof node);
        return node;
    case EXP_T_ANY_LIST:
        store_list(row, record, node->items, node->count);
        return node;
    case EXP_T_INT_LIST:
        return read_int_list(reader, row, path, node, record);
    case EXP_T_STRING_LIST:
        return read_string_list(reader, row, path, node, record);
    case EXP_T_LABELS:
        return exp_read_labels(reader, path, node, field);
    case EXP_T_ENTRYPOINT:
        return exp_read_entrypoint(reader, path, node, field);
    case EXP_T_IMAGE:
        return exp_read_image(reader, path, node, record);
    case EXP_T_VARIABLES:
        return exp_read_variables(reader, path, node, record);
    case EXP_T_PORTS:
        return read_ports(reader, path, node);
    case EXP_T_HPARAMS:
        return exp_read_hparams(reader, path, node, field);
    case EXP_T_MOUNTS:
        return exp_read_mounts(reader, path, node, field,
                               (size_t *)(void *)((char *)record + row->count_at));
    default:
        return NULL;
    }
}

const struct ebb_doc_node *exp_value_read(struct exp_config_reader *reader,
                                          const struct exp_row *row, const struct exp_path *path,
                                          const struct ebb_doc_node *node, void *record)
{
    if (reader->failed)
        return NULL;
    void *field = field_of(row, record);
    const struct ebb_doc_node *result = NULL;
    bool is_reported = false;
    if (has_shape(row, node)) {
        is_reported = !is_scalar(row->type);
        result = is_reported ? read_compound(reader, row, path, node, record)
                             : read_scalar(reader, row, node, field);
    }
    if (result || reader->failed)
        return result;
    if (!is_reported)
        exp_value_refuse(reader, row, path, node);
    exp_section_mark_bad(reader, row, field);
    return NULL;
}

/* ---- defaults ---- */

static const struct ebb_doc_node *default_container(struct exp_config_reader *reader,
                                                    const struct exp_row *row, void *record)
{
    struct ebb_doc_node *node = NULL;
    switch (row->type) {
    case EXP_T_FREE:
        if (row->flags & EXP_OPTIONAL)
            return NULL;
        node = exp_node(reader, EBB_DOC_MAP, NULL);
        memcpy(field_of(row, record), &node, sizeof node);
        return node;
    case EXP_T_HPARAMS:
        return exp_node(reader, EBB_DOC_MAP, NULL);
    case EXP_T_LABELS:
    case EXP_T_MOUNTS:
        return exp_node(reader, EBB_DOC_LIST, NULL);
    case EXP_T_VARIABLES:
        node = exp_node(reader, EBB_DOC_MAP, NULL);
        exp_set(reader, node, "cpu", exp_node(reader, EBB_DOC_LIST, NULL));
        exp_set(reader, node, "gpu", exp_node(reader, EBB_DOC_LIST, NULL));
        return node;
    default:
        return NULL;
    }
}

const struct ebb_doc_node *exp_value_default(struct exp_config_reader *reader,
                                             const struct exp_row *row, void *record)
{
    if (!is_scalar(row->type))
        return default_container(reader, row, record);
    void *field = field_of(row, record);
    if (!row->preset) {
        if (row->type == EXP_T_INT)
            *(int64_t *)field = row->absent;
        else if (row->type == EXP_T_ENUM)
            store_enum(field, (size_t)row->absent);
        return NULL;
    }
    struct ebb_doc_node *node = NULL;
    int64_t integer = 0;
    double number = 0;
    if (row->type == EXP_T_INT && ebb_parse_i64(row->preset, &integer))
        node = ebb_doc_new_int(reader->arena, integer);
    else if (row->type == EXP_T_DOUBLE && ebb_parse_double(row->preset, &number))
        node = ebb_doc_new_double(reader->arena, number);
    else if (row->type == EXP_T_BOOL)
        node = ebb_doc_new_bool(reader->arena, strcmp(row->preset, "true") == 0);
    else
        node = ebb_doc_new_string(reader->arena, row->preset);
    if (!node || !read_scalar(reader, row, node, field))
        reader->failed = true; /* out of memory; a test reads every preset of the table */
    return node;
}
