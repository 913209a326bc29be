/* compound.c - values with a shape of their own: labels, entrypoint, images, variables, mounts. */
#include <string.h>

#include "base/map.h"
#include "exp/config/forms.h"
#include "exp/config/reader.h"

/* ---- labels ---- */

/* Adds `text` to the set unless it is there. */
static void label_add(struct exp_config_reader *reader, struct ebb_strmap *seen,
                      const struct ebb_doc_node *node, struct ebb_doc_node *out)
{
    if (reader->failed || ebb_strmap_get(seen, node->text, node->length, NULL))
        return;
    if (ebb_strmap_put(seen, node->text, node->length, 1, NULL) != EBB_OK)
        reader->failed = true;
    exp_append(reader, out, node);
}

/* The texts of a list of strings. */
static bool list_texts(struct exp_config_reader *reader, const struct ebb_doc_node *list,
                       struct exp_strings *out)
{
    const char **items = exp_alloc(reader, list->count, sizeof *items);
    for (size_t i = 0; items && i < list->count; i++)
        items[i] = list->items[i]->text;
    out->items = items;
    out->count = items ? list->count : 0;
    return items != NULL;
}

const struct ebb_doc_node *exp_read_labels(struct exp_config_reader *reader,
                                           const struct exp_path *path,
                                           const struct ebb_doc_node *node,
                                           struct exp_strings *labels)
{
    struct ebb_strmap seen;
    ebb_strmap_init(&seen);
    struct ebb_doc_node *out = exp_node(reader, EBB_DOC_LIST, node);
    bool is_good = true;
    for (size_t i = 0; out && i < node->count && !reader->failed; i++) {
        bool is_map = node->kind == EBB_DOC_MAP;
        const struct ebb_doc_node *label = is_map ? node->keys[i] : node->items[i];
        struct exp_path at = {.up = path, .index = i};
        if (is_map)
            at.key = label->text, at.length = label->length;
        if (is_map && node->items[i]->kind != EBB_DOC_BOOL) {
            static const struct exp_row member = {.type = EXP_T_BOOL};
            exp_value_refuse(reader, &member, &at, node->items[i]);
            is_good = false;
        } else if (!exp_value_text(reader, &at, label, "a string")) {
            is_good = false;
        } else {
            label_add(reader, &seen, label, out);
        }
    }
    ebb_strmap_fini(&seen);
    if (!is_good || reader->failed || !list_texts(reader, out, labels))
        return NULL;
    return out;
}

/* ---- entrypoint ---- */

static const struct ebb_doc_node *read_command(struct exp_config_reader *reader,
                                               const struct exp_path *path,
                                               const struct ebb_doc_node *node,
                                               struct exp_entrypoint *entry)
{
    if (node->count == 0) {
        exp_report_error(reader, path, node,
                         "found an empty list, allowed: a program and its arguments");
        return NULL;
    }
    const char **argv = exp_alloc(reader, node->count, sizeof *argv);
    bool is_good = argv != NULL;
    for (size_t i = 0; argv && i < node->count; i++) {
        struct exp_path at = {.up = path, .index = i};
        argv[i] = exp_value_text(reader, &at, node->items[i], "a string");
        if (argv[i] && i == 0 && argv[i][0] == '\0') {
            exp_report_error(reader, &at, node->items[i], "found \"\", allowed: a program");
            is_good = false;
        }
        is_good = is_good && argv[i];
    }
    if (!is_good)
        return NULL;
    entry->kind = EXP_ENTRY_COMMAND;
    entry->command = argv;
    entry->command_count = node->count;
    return node;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool check_task(struct exp_config_reader *reader, const struct exp_path *path,
                       const struct ebb_doc_node *node, const char *task)
{
    size_t n = strlen(task);
    if (exp_words_find(EXP_TASKS, task, n, NULL))
        return true;
    const char *nearest = exp_nearest_word(reader, EXP_TASKS, task, n);
    struct ebb_str found, allowed;
    ebb_str_init(&found);
    ebb_str_init(&allowed);
    exp_say_found(node, &found);
    exp_say_words(EXP_TASKS, &allowed);
    if (found.failed || allowed.failed)
        reader->failed = true;
    else
        exp_report_error(reader, path, node,
                         "found %s, a built-in task that does not exist, allowed after ebb: %s%s%s",
                         ebb_str_c(&found), ebb_str_c(&allowed), nearest ? "; nearest: " : "",
                         nearest ? nearest : "");
    ebb_str_fini(&found);
    ebb_str_fini(&allowed);
    return false;
}

/* What the parts around the first ':' mean. False: an unknown built-in task, reported here. */
static bool entry_classify(struct exp_config_reader *reader, const struct exp_path *path,
                           const struct ebb_doc_node *node, struct exp_entrypoint *entry)
{
    if (strcmp(entry->module, "exec") == 0) {
        const char **argv = exp_alloc(reader, 3, sizeof *argv);
        if (!argv)
            return false;
        argv[0] = "/bin/sh", argv[1] = "-c", argv[2] = entry->object;
        entry->command = argv;
        entry->command_count = 3;
        entry->kind = EXP_ENTRY_COMMAND;
        entry->module = entry->object = NULL;
    } else if (strcmp(entry->module, "onnx") == 0) {
        entry->kind = EXP_ENTRY_ONNX;
    } else if (ends_with(entry->module, ".so")) {
        entry->kind = EXP_ENTRY_LIBRARY;
    } else if (strcmp(entry->module, "ebb") != 0) {
        entry->kind = EXP_ENTRY_PYTHON;
    } else {
        entry->kind = EXP_ENTRY_BUILTIN;
        return check_task(reader, path, node, entry->object);
    }
    return true;
}

const struct ebb_doc_node *exp_read_entrypoint(struct exp_config_reader *reader,
                                               const struct exp_path *path,
                                               const struct ebb_doc_node *node,
                                               struct exp_entrypoint *entry)
{
    static const struct exp_row row = {.type = EXP_T_ENTRYPOINT};
    if (node->kind == EBB_DOC_LIST)
        return read_command(reader, path, node, entry);
    const char *colon = memchr(node->text, ':', node->length);
    bool has_parts =
        colon && colon > node->text && colon[1] != '\0' && strlen(node->text) == node->length;
    if (!has_parts) {
        exp_value_refuse(reader, &row, path, node);
        return NULL;
    }
    entry->text = node->text;
    entry->module = ebb_arena_strndup(reader->arena, node->text, (size_t)(colon - node->text));
    entry->object = colon + 1;
    if (!entry->module) {
        reader->failed = true;
        return NULL;
    }
    return entry_classify(reader, path, node, entry) ? node : NULL;
}

/* ---- two sides: cpu and gpu ---- */

/* Value of one side; other keys of the mapping are reported. */
static bool check_sides(struct exp_config_reader *reader, const struct exp_path *path,
                        const struct ebb_doc_node *node)
{
    bool is_good = true;
    for (size_t i = 0; i < node->count; i++) {
        const struct ebb_doc_node *key = node->keys[i];
        if (exp_words_find("cpu gpu", key->text, key->length, NULL))
            continue;
        struct exp_path at = {.up = path, .key = key->text, .length = key->length};
        const char *nearest = exp_nearest_word(reader, "cpu gpu", key->text, key->length);
        exp_report_error(reader, &at, key, "unknown key, %s%s%sallowed: cpu, gpu",
                         nearest ? "nearest: " : "", nearest ? nearest : "", nearest ? "; " : "");
        is_good = false;
    }
    return is_good;
}

static const char *const sides[] = {"cpu", "gpu"};

const struct ebb_doc_node *exp_read_image(struct exp_config_reader *reader,
                                          const struct exp_path *path,
                                          const struct ebb_doc_node *node,
                                          struct exp_environment *environment)
{
    const char *images[2] = {NULL, NULL};
    bool is_good = node->kind == EBB_DOC_STRING || check_sides(reader, path, node);
    struct ebb_doc_node *out = exp_node(reader, EBB_DOC_MAP, node);
    for (size_t s = 0; s < 2 && out; s++) {
        struct exp_path at = {.up = path, .key = sides[s], .length = 3};
        bool is_map = node->kind == EBB_DOC_MAP;
        const struct ebb_doc_node *value = is_map ? exp_given(node, sides[s]) : node;
        if (!value) {
            exp_set(reader, out, sides[s], exp_node(reader, EBB_DOC_NULL, node));
            continue;
        }
        const char *text = exp_value_text(reader, is_map ? &at : path, value, "a string");
        is_good = is_good && text;
        images[s] = text && text[0] ? text : NULL; /* "" is the old spelling of no image */
        exp_set(reader, out, sides[s], value);
    }
    if (!is_good || reader->failed)
        return NULL;
    environment->has_image = true;
    environment->image_cpu = images[0];
    environment->image_gpu = images[1];
    return out;
}

/* The entries that count: of two with one name the later, at the place of the earlier. */
static void effective_variables(struct exp_config_reader *reader, const struct ebb_doc_node *list,
                                struct exp_strings *out)
{
    struct ebb_strmap seen;
    ebb_strmap_init(&seen);
    const char **items = exp_alloc(reader, list->count, sizeof *items);
    size_t count = 0;
    for (size_t i = 0; items && i < list->count; i++) {
        const char *text = list->items[i]->text;
        size_t name = strcspn(text, "=");
        uint64_t place = count;
        if (!ebb_strmap_get(&seen, text, name, &place)) {
            if (ebb_strmap_put(&seen, text, name, count, NULL) != EBB_OK)
                reader->failed = true;
            count++;
        }
        items[place] = text;
    }
    ebb_strmap_fini(&seen);
    *out = (struct exp_strings){.items = items, .count = count};
}

static bool check_variables(struct exp_config_reader *reader, const struct exp_path *path,
                            const struct ebb_doc_node *list)
{
    static const struct exp_row form = {
        .type = EXP_T_STRING,
        .check = exp_form_variable,
        .allowed = "NAME=VALUE, the name of letters, digits and _, not starting with a digit"};
    static const struct exp_row lists = {.type = EXP_T_STRING, .allowed = "a list of NAME=VALUE"};
    if (list->kind != EBB_DOC_LIST) {
        exp_value_refuse(reader, &lists, path, list);
        return false;
    }
    bool is_good = true;
    for (size_t i = 0; i < list->count && !reader->failed; i++) {
        const struct ebb_doc_node *item = list->items[i];
        struct exp_path at = {.up = path, .index = i};
        if (item->kind != EBB_DOC_STRING || memchr(item->text, '\0', item->length) ||
            !exp_form_variable(item->text)) {
            exp_value_refuse(reader, &form, &at, item);
            is_good = false;
        }
    }
    return is_good;
}

const struct ebb_doc_node *exp_read_variables(struct exp_config_reader *reader,
                                              const struct exp_path *path,
                                              const struct ebb_doc_node *node,
                                              struct exp_environment *environment)
{
    struct exp_strings *fields[2] = {&environment->variables_cpu, &environment->variables_gpu};
    bool is_map = node->kind == EBB_DOC_MAP;
    bool is_good = is_map ? check_sides(reader, path, node) : check_variables(reader, path, node);
    struct ebb_doc_node *out = exp_node(reader, EBB_DOC_MAP, node);
    for (size_t s = 0; s < 2 && out; s++) {
        struct exp_path at = {.up = path, .key = sides[s], .length = 3};
        const struct ebb_doc_node *list = is_map ? exp_given(node, sides[s]) : node;
        if (!list)
            list = exp_node(reader, EBB_DOC_LIST, node);
        if (is_map && list && !check_variables(reader, &at, list))
            is_good = false;
        if (is_good && list)
            effective_variables(reader, list, fields[s]);
        exp_set(reader, out, sides[s], list);
    }
    return is_good && !reader->failed ? out : NULL;
}

/* ---- bind_mounts ---- */

const struct ebb_doc_node *exp_read_mounts(struct exp_config_reader *reader,
                                           const struct exp_path *path,
                                           const struct ebb_doc_node *node,
                                           const struct exp_bind_mount **mounts, size_t *count)
{
    static const struct exp_row element = {
        .type = EXP_T_MAP, .allowed = "a mapping with host_path and container_path"};
    struct exp_bind_mount *items = exp_alloc(reader, node->count, sizeof *items);
    struct ebb_doc_node *out = exp_node(reader, EBB_DOC_LIST, node);
    size_t errors = reader->report->errors;
    for (size_t i = 0; items && out && i < node->count; i++) {
        struct exp_path at = {.up = path, .index = i};
        const struct ebb_doc_node *item = node->items[i];
        if (item->kind != EBB_DOC_MAP)
            exp_value_refuse(reader, &element, &at, item);
        else
            exp_append(reader, out,
                       exp_section_read(reader, "bind_mounts[]", &at, item, item, &items[i]));
    }
    if (reader->failed || reader->report->errors > errors)
        return NULL;
    *mounts = items;
    *count = node->count;
    return out;
}
