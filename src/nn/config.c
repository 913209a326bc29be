/* config.c - options of a model, from a file or a command line: rows of base/keys.h. */
#include <stdio.h>
#include <string.h>

#include "nn/file.h"

/* ---- the name of a model ---- */

static const char *model_name(size_t i)
{
    return i < nn_model_count() ? nn_model_at(i)->name : NULL;
}

/* linear<k>: the k of linear, else NULL. */
static const char *linear_layers(const char *name)
{
    return strncmp(name, "linear", 6) == 0 && name[6] ? name + 6 : NULL;
}

static bool is_model(const char *name)
{
    struct nn_config config;
    const char *layers = linear_layers(name);
    return nn_model_find(name) || (layers && nn_config_init(&config, "linear", NULL) == EBB_OK &&
                                   nn_config_set(&config, "layers", layers, NULL) == EBB_OK);
}

struct head { /* keys that every model has */
    const char *name, *file;
    enum nn_generator generator;
    const char *const *frozen, *const *trainable;
    size_t frozen_count, trainable_count;
};

static const struct ebb_key head_rows[] = {
    {.path = "name",
     .kind = EBB_KEY_TEXT,
     .word = model_name,
     .check = is_model,
     .allowed = "the name of a model (ebb model list)",
     .at = offsetof(struct head, name),
     .help = "the model"},
    {.path = "rng",
     .kind = EBB_KEY_WORD,
     .flags = EBB_KEY_ANY_CASE,
     .words = "ebb torch",
     .at = offsetof(struct head, generator),
     .help = "whose random numbers make the weights"},
    {.path = "file",
     .kind = EBB_KEY_TEXT,
     .allowed = "the path of a model file or of an ONNX file",
     .at = offsetof(struct head, file),
     .help = "a model file instead of a name"},
    {.path = "frozen",
     .kind = EBB_KEY_TEXTS,
     .allowed = "a pattern of names of items, such as layer1.*, or a list of them",
     .at = offsetof(struct head, frozen),
     .count_at = offsetof(struct head, frozen_count),
     .help = "items that keep their values"},
    {.path = "trainable",
     .kind = EBB_KEY_TEXTS,
     .allowed = "a pattern of names of items, such as fc.*, or a list of them",
     .at = offsetof(struct head, trainable),
     .count_at = offsetof(struct head, trainable_count),
     .help = "the only items that change: all others keep their values"},
};
static const struct ebb_keys head_keys = EBB_KEYS(head_rows);

enum ebb_status nn_config_init(struct nn_config *config, const char *name, struct ebb_error *err)
{
    const struct nn_model *model = nn_model_find(name);
    struct ebb_str why = {0};
    struct head head;
    if (!model && linear_layers(name)) {
        EBB_TRY(nn_config_init(config, "linear", err));
        if (nn_config_set(config, "layers", linear_layers(name), NULL) == EBB_OK)
            return EBB_OK;
    }
    if (!model) {
        ebb_key_read_text(&head_rows[0], name, &head, &why);
        ebb_fail(err, EBB_EINPUT, "model.name: %s", ebb_str_c(&why));
        ebb_str_fini(&why);
        return EBB_EINPUT;
    }
    memset(config, 0, sizeof *config);
    config->model = model;
    memcpy(config->bytes, model->defaults, model->config_bytes);
    return EBB_OK;
}

/* ---- options ---- */

static const struct ebb_key *find_option(const struct nn_model *model, const char *key)
{
    for (size_t i = 0; i < model->option_count; i++)
        if (strcmp(model->options[i].path, key) == 0)
            return &model->options[i];
    return NULL;
}

static bool is_given(const struct nn_config *config, const char *key)
{
    const struct ebb_key *o = find_option(config->model, key);
    return o && (config->given >> (o - config->model->options) & 1);
}

/* A default length ends with the positions, whose number was given; the data may shorten it. */
static void settle_length(struct nn_config *config)
{
    int64_t positions = nn_config_int(config, "positions", 0);
    if (is_given(config, "positions") && nn_config_int(config, "length", 0) > positions)
        nn_config_adapt(config, "length", positions);
}

/* Everything but name and file, which chose the model. */
static void read_options(struct ebb_reading *reading, const struct ebb_path *path,
                         const struct ebb_doc_node *map, struct nn_config *config)
{
    const struct nn_model *model = config->model;
    struct head head = {.generator = config->generator};
    struct ebb_keys keys = {model->options, model->option_count, NULL};
    char what[96];
    snprintf(what, sizeof what, "model %s", model->name);
    struct ebb_section section = {.table = &keys,
                                  .also = "name file rng frozen trainable init_from",
                                  .what = what,
                                  .given = &config->given};
    struct ebb_section generator = {
        .table = &head_keys, .only = "rng frozen trainable", .is_open = true};
    ebb_keys_read(reading, &generator, path, map, map, &head);
    ebb_keys_read(reading, &section, path, map, map, config->bytes);
    config->generator = head.generator;
    if (head.frozen_count) {
        config->frozen = head.frozen;
        config->frozen_count = head.frozen_count;
    }
    if (head.trainable_count) {
        config->trainable = head.trainable;
        config->trainable_count = head.trainable_count;
    }
    settle_length(config);
}

/* By name or by file; false: neither, with what is wrong reported. */
static bool choose(struct ebb_reading *reading, const struct ebb_path *path,
                   const struct ebb_doc_node *map, const struct nn_env *env, struct nn_config *c)
{
    struct ebb_error err = {0};
    struct head head = {0};
    struct ebb_section section = {.table = &head_keys, .only = "name file", .is_open = true};
    size_t errors = reading->report->errors;
    ebb_keys_read(reading, &section, path, map, map, &head);
    if (reading->report->errors > errors)
        return false;
    if (head.name && head.file) {
        ebb_reading_wrong(reading, path, map, "file",
                          "found together with name, allowed: only one of them");
        return false;
    }
    if (head.file)
        return nn_file_open(reading, path, ebb_doc_get(map, "file"), env, c);
    if (!head.name) {
        struct ebb_path name = {.up = path, .key = "name"};
        ebb_reading_error(reading, &name, map,
                          "required but missing, allowed: the name of a model (ebb model list), or "
                          "file: the path of a model file");
        return false;
    }
    return nn_config_init(c, head.name, &err) == EBB_OK;
}

bool nn_config_read(struct ebb_reading *reading, const struct ebb_path *path,
                    const struct ebb_doc_node *map, const struct nn_env *env,
                    struct nn_config *config)
{
    size_t errors = reading->report->errors;
    struct ebb_error err = {0};
    struct nn_config c;
    if (!choose(reading, path, map, env, &c))
        return false;
    read_options(reading, path, map, &c);
    if (reading->failed || reading->report->errors > errors)
        return false;
    bool is_open = c.model->context && nn_file_waits(&c); /* sizes that the data will tell */
    if (!is_open && nn_config_check(&c, &err) != EBB_OK) {
        ebb_reading_error(reading, path, map, "%s", err.message);
        return false;
    }
    if (c.model->context && !nn_file_try(reading, path, map, &c))
        return false;
    *config = c;
    return true;
}

enum ebb_status nn_config_check(const struct nn_config *config, struct ebb_error *err)
{
    return config->model->check ? config->model->check(config, err) : EBB_OK;
}

/* ---- one value ---- */

/* {key: value}; the value of a list may do without brackets. NULL after an error. */
static const struct ebb_doc_node *one_member(struct ebb_arena *arena, const struct ebb_key *option,
                                             const char *key, const char *value,
                                             struct ebb_error *err)
{
    const struct ebb_doc_node *node = NULL;
    struct ebb_doc_node *map = ebb_doc_new(arena, EBB_DOC_MAP);
    bool is_list = option && option->kind == EBB_KEY_INTS && *value != '[';
    char *text = ebb_arena_printf(arena, is_list ? "[%s]" : "%s", value);
    if (!map || !text) {
        ebb_no_memory(err, strlen(value));
        return NULL;
    }
    if (!option || option->kind == EBB_KEY_WORD)
        node = ebb_doc_new_string(arena, text);
    else if (ebb_doc_parse_yaml(arena, key, text, strlen(text), &node, err) != EBB_OK)
        return NULL;
    if (!node || !ebb_doc_set(arena, map, key, node)) {
        ebb_no_memory(err, strlen(value));
        return NULL;
    }
    return map;
}

enum ebb_status nn_config_set(struct nn_config *config, const char *key, const char *value,
                              struct ebb_error *err)
{
    struct ebb_error why = {0};
    struct ebb_alone alone;
    if (strcmp(key, "frozen") == 0 || strcmp(key, "trainable") == 0) /* texts that must live on */
        return ebb_fail(err, EBB_EINPUT, "model.%s: allowed only in an experiment file", key);
    struct ebb_reading *reading = ebb_alone_init(&alone);
    const struct ebb_doc_node *map =
        one_member(&alone.arena, find_option(config->model, key), key, value, &why);
    if (map)
        read_options(reading, &(struct ebb_path){.key = "model"}, map, config);
    const struct ebb_finding *first = ebb_report_first(&alone.report); /* it has no line to tell */
    if (first)
        ebb_fail(&why, EBB_EINPUT, "%s: %s", first->path, first->message);
    else if (reading->failed)
        ebb_no_memory(&why, 0);
    ebb_alone_end(&alone, NULL);
    if (why.status != EBB_OK && err)
        *err = why;
    return why.status;
}

bool nn_config_adapt(struct nn_config *config, const char *key, int64_t value)
{
    const struct ebb_key *o = find_option(config->model, key);
    if (!o || o->kind != EBB_KEY_INT)
        return false;
    if (!is_given(config, key))
        memcpy(config->bytes + o->at, &value, sizeof value);
    return true;
}

int64_t nn_config_int(const struct nn_config *config, const char *key, int64_t fallback)
{
    const struct ebb_key *o = find_option(config->model, key);
    if (!o || o->kind != EBB_KEY_INT)
        return fallback;
    int64_t value;
    memcpy(&value, config->bytes + o->at, sizeof value);
    return value;
}
