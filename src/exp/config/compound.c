/* compound.c - values with a shape of their own: labels, entrypoint, images, variables, mounts. Each
 * is a kind of value in the sense of base/keys.h. */
#include <string.h>

#include "base/map.h"
#include "exp/config/forms.h"
#include "exp/config/reader.h"

/* ---- labels ---- */

/* Adds `text` to the set unless it is there. */
static void label_add(struct ebb_reading *reader, struct ebb_strmap *seen,
                      const struct ebb_doc_node *node, struct ebb_doc_node *out)
{
    if (reader->failed || ebb_strmap_get(seen, node->text, node->length, NULL))
        return;
    if (ebb_strmap_put(seen, node->text, node->length, 1, NULL) != EBB_OK)
        reader->failed = true;
    ebb_reading_append(reader, out, node);
}

/* The texts of a list of strings. */
static bool list_texts(struct ebb_reading *reader, const struct ebb_doc_node *list,
                       struct exp_strings *out)
{
    const char **items = ebb_reading_alloc(reader, list->count, sizeof *items);
    for (size_t i = 0; items && i < list->count; i++)
        items[i] = list->items[i]->text;
    out->items = items;
    out->count = items ? list->count : 0;
    return items != NULL;
}

static const struct ebb_doc_node *read_labels(const struct ebb_value *v)
{
    struct ebb_reading *reader = v->reading;
    const struct ebb_doc_node *node = v->node;
    static const struct ebb_key member = {.kind = EBB_KEY_BOOL};
    struct ebb_strmap seen;
    ebb_strmap_init(&seen);
    struct ebb_doc_node *out = ebb_reading_node(reader, EBB_DOC_LIST, node);
    bool is_good = true, is_map = node->kind == EBB_DOC_MAP;
    for (size_t i = 0; out && i < node->count && !reader->failed; i++) {
        const struct ebb_doc_node *label = is_map ? node->keys[i] : node->items[i];
        struct ebb_path at = ebb_path_item(v->path, node, i);
        if (is_map && node->items[i]->kind != EBB_DOC_BOOL) {
            ebb_key_refuse(reader, &member, &at, node->items[i]);
            is_good = false;
        } else if (!ebb_key_text(reader, &at, label, "a string")) {
            is_good = false;
        } else if (label->length == 0) {
            ebb_reading_refuse(reader, &at, label, "a string that is not empty");
            is_good = false;
        } else {
            label_add(reader, &seen, label, out);
        }
    }
    ebb_strmap_fini(&seen);
    if (!is_good || reader->failed ||
        !list_texts(reader, out, (struct exp_strings *)(void *)((char *)v->record + v->key->at)))
        return NULL;
    return out;
}

const struct ebb_key_type exp_type_labels = {
    .noun = "a list of strings, or a mapping of strings to true or false",
    .shapes = 1u << EBB_DOC_LIST | 1u << EBB_DOC_MAP,
    .empty = EBB_DOC_LIST,
    .read = read_labels,
    .reports = true,
    .merge = exp_merge_labels,
};

/* ---- entrypoint ---- */

/* A program and its arguments. */
static const char **read_argv(struct ebb_reading *reader, const struct ebb_path *path,
                              const struct ebb_doc_node *node)
{
    const char **argv = ebb_reading_alloc(reader, node->count, sizeof *argv);
    bool is_good = argv != NULL;
    for (size_t i = 0; argv && i < node->count; i++) {
        struct ebb_path at = ebb_path_item(path, node, i);
        argv[i] = ebb_key_text(reader, &at, node->items[i], "a string");
        is_good = is_good && argv[i];
    }
    return is_good ? argv : NULL;
}

static const struct ebb_doc_node *read_command(struct ebb_reading *reader,
                                               const struct ebb_path *path,
                                               const struct ebb_doc_node *node,
                                               struct exp_entrypoint *entry)
{
    if (node->count == 0) {
        ebb_reading_refuse(reader, path, node, "a program and its arguments");
        return NULL;
    }
    const char **argv = read_argv(reader, path, node);
    if (argv && argv[0][0] == '\0') {
        struct ebb_path at = ebb_path_item(path, node, 0);
        ebb_reading_refuse(reader, &at, node->items[0], "a program");
        return NULL;
    }
    if (!argv)
        return NULL;
    entry->kind = EXP_ENTRY_COMMAND;
    entry->command = argv;
    entry->command_count = node->count;
    return node;
}

/* searcher.command */
static const struct ebb_doc_node *read_program(const struct ebb_value *v)
{
    const struct ebb_doc_node *node = v->node;
    if (node->count == 0 ||
        (node->items[0]->kind == EBB_DOC_STRING && node->items[0]->length == 0)) {
        ebb_key_refuse(v->reading, v->key, v->path, node);
        return NULL;
    }
    const char **argv = read_argv(v->reading, v->path, node);
    if (!argv)
        return NULL;
    memcpy((char *)v->record + v->key->at, &argv, sizeof argv);
    memcpy((char *)v->record + v->key->count_at, &node->count, sizeof node->count);
    return node;
}

const struct ebb_key_type exp_type_command = {
    .noun = "a list of strings, the first one not empty",
    .shapes = 1u << EBB_DOC_LIST,
    .read = read_program,
    .reports = true,
};

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool check_task(struct ebb_reading *reader, const struct ebb_path *path,
                       const struct ebb_doc_node *node, const char *task)
{
    size_t n = strlen(task);
    if (ebb_words_find(EXP_TASKS, task, n, NULL))
        return true;
    struct ebb_str text = {0};
    ebb_str_add(&text, "found ");
    ebb_say_found(node, &text);
    ebb_str_add(&text, ", a built-in task that does not exist, allowed after ebb: ");
    ebb_say_words(EXP_TASKS, &text);
    ebb_say_nearest(EXP_TASKS, task, n, &text);
    ebb_reading_say(reader, EBB_FINDING_ERROR, path, node, &text);
    return false;
}

/* What the parts around the first ':' mean. False: an unknown built-in task, reported here. */
static bool entry_classify(struct ebb_reading *reader, const struct ebb_path *path,
                           const struct ebb_doc_node *node, struct exp_entrypoint *entry)
{
    if (strcmp(entry->module, "exec") == 0) {
        const char **argv = ebb_reading_alloc(reader, 3, sizeof *argv);
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

static const struct ebb_doc_node *read_entrypoint(const struct ebb_value *v)
{
    struct ebb_reading *reader = v->reading;
    const struct ebb_doc_node *node = v->node;
    struct exp_entrypoint *entry = (void *)((char *)v->record + v->key->at);
    if (node->kind == EBB_DOC_LIST)
        return read_command(reader, v->path, node, entry);
    const char *colon = memchr(node->text, ':', node->length);
    bool has_parts =
        colon && colon > node->text && colon[1] != '\0' && strlen(node->text) == node->length;
    if (!has_parts) {
        ebb_key_refuse(reader, v->key, v->path, node);
        return NULL;
    }
    entry->text = node->text;
    entry->module = ebb_arena_strndup(reader->arena, node->text, (size_t)(colon - node->text));
    entry->object = colon + 1;
    if (!entry->module) {
        reader->failed = true;
        return NULL;
    }
    return entry_classify(reader, v->path, node, entry) ? node : NULL;
}

const struct ebb_key_type exp_type_entrypoint = {
    .noun = "\"<module>:<object>\", or a list of strings (a command)",
    .shapes = 1u << EBB_DOC_STRING | 1u << EBB_DOC_LIST,
    .read = read_entrypoint,
    .reports = true,
};

/* ---- two sides: cpu and gpu ---- */

/* Keys of the mapping that are no side are reported. */
static bool check_sides(struct ebb_reading *reader, const struct ebb_path *path,
                        const struct ebb_doc_node *node)
{
    static const struct ebb_key rows[] = {
        {.path = "cpu", .kind = EBB_KEY_NODE, .at = EBB_KEY_NOWHERE},
        {.path = "gpu", .kind = EBB_KEY_NODE, .at = EBB_KEY_NOWHERE},
    };
    static const struct ebb_keys table = EBB_KEYS(rows);
    size_t errors = reader->report->errors;
    ebb_keys_check(reader, &(struct ebb_section){.table = &table}, path, node);
    return reader->report->errors == errors;
}

static const char *const sides[] = {"cpu", "gpu"};

static const struct ebb_doc_node *read_image(const struct ebb_value *v)
{
    struct ebb_reading *reader = v->reading;
    const struct ebb_doc_node *node = v->node;
    struct exp_environment *environment = v->record;
    const char *images[2] = {NULL, NULL};
    bool is_map = node->kind == EBB_DOC_MAP,
         is_good = !is_map || check_sides(reader, v->path, node);
    struct ebb_doc_node *out = ebb_reading_node(reader, EBB_DOC_MAP, node);
    for (size_t s = 0; s < 2 && out; s++) {
        struct ebb_path at = {.up = v->path, .key = sides[s]};
        const struct ebb_doc_node *value = is_map ? ebb_doc_given(node, sides[s]) : node;
        if (!value) {
            ebb_reading_set(reader, out, sides[s], ebb_reading_node(reader, EBB_DOC_NULL, node));
            continue;
        }
        const char *text = ebb_key_text(reader, is_map ? &at : v->path, value, "a string");
        is_good = is_good && text;
        images[s] = text && text[0] ? text : NULL; /* "" is the old spelling of no image */
        ebb_reading_set(reader, out, sides[s], value);
    }
    if (!is_good || reader->failed)
        return NULL;
    environment->has_image = true;
    environment->image_cpu = images[0];
    environment->image_gpu = images[1];
    return out;
}

const struct ebb_key_type exp_type_image = {
    .noun = "a string, or a mapping with cpu and/or gpu",
    .shapes = 1u << EBB_DOC_STRING | 1u << EBB_DOC_MAP,
    .read = read_image,
    .reports = true,
    .merge = exp_merge_sides,
};

/* The entries that count: of two with one name the later, at the place of the earlier. */
static void effective_variables(struct ebb_reading *reader, const struct ebb_doc_node *list,
                                struct exp_strings *out)
{
    struct ebb_strmap seen;
    ebb_strmap_init(&seen);
    const char **items = ebb_reading_alloc(reader, list->count, sizeof *items);
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

static bool check_variables(struct ebb_reading *reader, const struct ebb_path *path,
                            const struct ebb_doc_node *list)
{
    static const struct ebb_key form = {
        .path = "",
        .kind = EBB_KEY_TEXT,
        .check = exp_form_variable,
        .at = EBB_KEY_NOWHERE,
        .allowed =
            "NAME=VALUE, the name of letters, digits and _, not starting with a digit or EBB_"};
    if (list->kind != EBB_DOC_LIST) {
        ebb_reading_refuse(reader, path, list, "a list of NAME=VALUE");
        return false;
    }
    bool is_good = true;
    for (size_t i = 0; i < list->count && !reader->failed; i++) {
        struct ebb_path at = ebb_path_item(path, list, i);
        if (!ebb_key_read(reader, &form, NULL, &at, list->items[i], NULL))
            is_good = false;
    }
    return is_good;
}

static const struct ebb_doc_node *read_variables(const struct ebb_value *v)
{
    struct ebb_reading *reader = v->reading;
    const struct ebb_doc_node *node = v->node;
    struct exp_environment *environment = v->record;
    struct exp_strings *fields[2] = {&environment->variables_cpu, &environment->variables_gpu};
    bool is_map = node->kind == EBB_DOC_MAP;
    bool is_good =
        is_map ? check_sides(reader, v->path, node) : check_variables(reader, v->path, node);
    struct ebb_doc_node *out = ebb_reading_node(reader, EBB_DOC_MAP, node);
    for (size_t s = 0; s < 2 && out; s++) {
        struct ebb_path at = {.up = v->path, .key = sides[s]};
        const struct ebb_doc_node *list = is_map ? ebb_doc_given(node, sides[s]) : node;
        if (!list)
            list = ebb_reading_node(reader, EBB_DOC_LIST, node);
        if (is_map && list && !check_variables(reader, &at, list))
            is_good = false;
        if (is_good && list)
            effective_variables(reader, list, fields[s]);
        ebb_reading_set(reader, out, sides[s], list);
    }
    return is_good && !reader->failed ? out : NULL;
}

const struct ebb_key_type exp_type_variables = {
    .noun = "a list of NAME=VALUE, or a mapping with cpu and/or gpu",
    .shapes = 1u << EBB_DOC_LIST | 1u << EBB_DOC_MAP,
    .empty = EBB_DOC_LIST,
    .read = read_variables,
    .reports = true,
    .merge = exp_merge_sides,
};

/* ---- ports ---- */

static const struct ebb_doc_node *read_ports(const struct ebb_value *v)
{
    const struct ebb_doc_node *node = v->node;
    static const struct ebb_key port = {
        .path = "", .kind = EBB_KEY_INT, .bounds = ">= 0, <= 65535", .at = EBB_KEY_NOWHERE};
    bool is_good = true;
    for (size_t i = 0; i < node->count; i++) {
        struct ebb_path at = ebb_path_item(v->path, node, i);
        if (!ebb_key_read(v->reading, &port, NULL, &at, node->items[i], v->record))
            is_good = false;
    }
    return is_good ? node : NULL;
}

const struct ebb_key_type exp_type_ports = {
    .noun = "a mapping of names to port numbers",
    .shapes = 1u << EBB_DOC_MAP,
    .read = read_ports,
    .reports = true,
    .merge = exp_merge_free,
};

/* ---- bind_mounts ---- */

static const struct ebb_doc_node *read_mounts(const struct ebb_value *v)
{
    struct ebb_reading *reader = v->reading;
    const struct ebb_doc_node *node = v->node;
    static const struct ebb_section section = {.table = &exp_schema, .prefix = "bind_mounts[]"};
    struct exp_bind_mount *items = ebb_reading_alloc(reader, node->count, sizeof *items);
    struct ebb_doc_node *out = ebb_reading_node(reader, EBB_DOC_LIST, node);
    size_t errors = reader->report->errors;
    for (size_t i = 0; items && out && i < node->count; i++) {
        struct ebb_path at = ebb_path_item(v->path, node, i);
        const struct ebb_doc_node *item = node->items[i];
        if (item->kind != EBB_DOC_MAP)
            ebb_reading_refuse(reader, &at, item, "a mapping with host_path and container_path");
        else
            ebb_reading_append(reader, out,
                               ebb_keys_read(reader, &section, &at, item, item, &items[i]));
    }
    if (reader->failed || reader->report->errors > errors)
        return NULL;
    memcpy((char *)v->record + v->key->at, &items, sizeof items);
    memcpy((char *)v->record + v->key->count_at, &node->count, sizeof node->count);
    return out;
}

const struct ebb_key_type exp_type_mounts = {
    .noun = "a list of mappings",
    .shapes = 1u << EBB_DOC_LIST,
    .section = "bind_mounts[]",
    .empty = EBB_DOC_LIST,
    .read = read_mounts,
    .reports = true,
    .merge = exp_merge_free,
};
