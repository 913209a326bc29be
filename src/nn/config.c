/* config.c - options of a model, from a file or a command line. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "nn/internal.h"

#define MAX_NAMES 256

static const char *const generator_names[] = {"ebb", "torch", NULL};

enum ebb_status nn_config_init(struct nn_config *config, const char *name, struct ebb_error *err)
{
    const char *names[MAX_NAMES];
    size_t n = 0;
    const struct nn_model *model = nn_model_find(name);
    if (!model && strncmp(name, "linear", 6) == 0 && name[6]) { /* linear<k> */
        EBB_TRY(nn_config_init(config, "linear", err));
        if (nn_config_set(config, "layers", name + 6, NULL) == EBB_OK)
            return EBB_OK;
    }
    if (!model) {
        for (; n < nn_model_count() && n < MAX_NAMES; n++)
            names[n] = nn_model_at(n)->name;
        const char *near = ebb_nearest(name, names, n);
        return ebb_fail(err, EBB_EINPUT,
                        "model.name: unknown model '%s'%s%s%s; `ebb model list` shows all %zu",
                        name, near ? "; nearest is '" : "", near ? near : "", near ? "'" : "", n);
    }
    memset(config, 0, sizeof *config);
    config->model = model;
    memcpy(config->bytes, model->defaults, model->config_bytes);
    return EBB_OK;
}

static const struct nn_option *find_option(const struct nn_model *model, const char *key)
{
    for (size_t i = 0; i < model->option_count; i++)
        if (strcmp(model->options[i].name, key) == 0)
            return &model->options[i];
    return NULL;
}

/* ---- one value ------------------------------------------------------------------------------ */

/* "[1, 1024]" or "a number" */
static const char *allowed_text(const struct nn_option *o, char *buf, size_t size)
{
    static const char *const nouns[] = {"an integer", "a number", "true or false", "one of",
                                        "a list of integers"};
    size_t at = (size_t)snprintf(buf, size, "%s", nouns[o->kind]);
    for (size_t i = 0; o->kind == NN_NAME && o->names[i] && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%s", i ? ", " : " ", o->names[i]);
    if ((o->low != 0 || o->high != 0) && at < size)
        snprintf(buf + at, size - at, " from %.10g to %.10g", o->low, o->high);
    return buf;
}

static bool in_range(const struct nn_option *o, double v)
{
    return (o->low == 0 && o->high == 0) || (v >= o->low && v <= o->high);
}

static enum ebb_status wrong(const struct nn_option *o, const char *found, struct ebb_error *err)
{
    char allowed[512];
    return ebb_fail(err, EBB_EINPUT, "model.%s: found %s, allowed is %s", o->name, found,
                    allowed_text(o, allowed, sizeof allowed));
}

/* A default length ends with the positions, whose number was given; the data may shorten it. */
static void put(struct nn_config *config, const struct nn_option *o, const void *value,
                size_t bytes)
{
    memcpy(config->bytes + o->offset, value, bytes);
    config->given |= UINT64_C(1) << (o - config->model->options);
    int64_t positions = strcmp(o->name, "positions") == 0 ? nn_config_int(config, o->name, 0) : 0;
    if (positions > 0 && nn_config_int(config, "length", 0) > positions)
        nn_config_adapt(config, "length", positions);
}

static enum ebb_status set_name(struct nn_config *config, const struct nn_option *o,
                                const char *text, struct ebb_error *err)
{
    char found[160];
    for (int i = 0; o->names[i]; i++)
        if (strcasecmp(o->names[i], text) == 0) {
            put(config, o, &i, sizeof i);
            return EBB_OK;
        }
    snprintf(found, sizeof found, "'%.100s'", text);
    return wrong(o, found, err);
}

static const char *node_text(const struct ebb_doc_node *n, char *buf, size_t size)
{
    if (n->kind == EBB_DOC_INT || n->kind == EBB_DOC_DOUBLE)
        snprintf(buf, size, "%.10g", n->number);
    else if (n->kind == EBB_DOC_STRING)
        snprintf(buf, size, "'%.100s'", n->text);
    else
        snprintf(buf, size, "%s", ebb_doc_kind_text(n->kind));
    return buf;
}

static enum ebb_status set_list(struct nn_config *config, const struct nn_option *o,
                                const struct ebb_doc_node *n, struct ebb_error *err)
{
    char found[160];
    struct nn_ints list = {.count = 0};
    if (n->kind != EBB_DOC_LIST || n->count > NN_LIST || !n->count)
        return wrong(o, node_text(n, found, sizeof found), err);
    for (size_t i = 0; i < n->count; i++) {
        const struct ebb_doc_node *e = n->items[i];
        if (e->kind != EBB_DOC_INT || !in_range(o, e->number))
            return wrong(o, node_text(e, found, sizeof found), err);
        list.v[list.count++] = e->integer;
    }
    put(config, o, &list, sizeof list);
    return EBB_OK;
}

static enum ebb_status set_node(struct nn_config *config, const struct nn_option *o,
                                const struct ebb_doc_node *n, struct ebb_error *err)
{
    char found[160];
    switch (o->kind) {
    case NN_INT:
        if (n->kind != EBB_DOC_INT || !in_range(o, n->number))
            break;
        put(config, o, &n->integer, sizeof n->integer);
        return EBB_OK;
    case NN_FLOAT:
        if ((n->kind != EBB_DOC_INT && n->kind != EBB_DOC_DOUBLE) || !in_range(o, n->number))
            break;
        put(config, o, &n->number, sizeof n->number);
        return EBB_OK;
    case NN_BOOL:
        if (n->kind != EBB_DOC_BOOL)
            break;
        put(config, o, &n->boolean, sizeof n->boolean);
        return EBB_OK;
    case NN_NAME:
        if (n->kind != EBB_DOC_STRING)
            break;
        return set_name(config, o, n->text, err);
    case NN_INTS:
        return set_list(config, o, n, err);
    }
    return wrong(o, node_text(n, found, sizeof found), err);
}

/* ---- a whole section ------------------------------------------------------------------------ */

static enum ebb_status unknown_key(const struct nn_config *config, const char *key,
                                   struct ebb_error *err)
{
    const char *names[MAX_NAMES] = {"name", "rng"};
    size_t n = 2;
    char list[768] = "name, rng";
    for (size_t i = 0; i < config->model->option_count && n < MAX_NAMES; i++) {
        size_t at = strlen(list);
        names[n++] = config->model->options[i].name;
        snprintf(list + at, sizeof list - at, ", %s", config->model->options[i].name);
    }
    const char *near = ebb_nearest(key, names, n);
    return ebb_fail(err, EBB_EINPUT, "model.%s: unknown key of model %s%s%s%s; allowed are %s", key,
                    config->model->name, near ? ", nearest is '" : "", near ? near : "",
                    near ? "'" : "", list);
}

static enum ebb_status set_generator(struct nn_config *config, const char *text,
                                     struct ebb_error *err)
{
    for (int i = 0; generator_names[i]; i++)
        if (text && strcasecmp(generator_names[i], text) == 0) {
            config->generator = (enum nn_generator)i;
            return EBB_OK;
        }
    return ebb_fail(err, EBB_EINPUT, "model.rng: found '%s', allowed is one of ebb, torch",
                    text ? text : "no text");
}

static enum ebb_status set_member(struct nn_config *config, const char *key,
                                  const struct ebb_doc_node *value, struct ebb_error *err)
{
    if (strcmp(key, "name") == 0)
        return EBB_OK;
    if (strcmp(key, "rng") == 0)
        return set_generator(config, value->kind == EBB_DOC_STRING ? value->text : NULL, err);
    const struct nn_option *o = find_option(config->model, key);
    return o ? set_node(config, o, value, err) : unknown_key(config, key, err);
}

struct problems {
    nn_report report;
    void *context;
    struct ebb_error *err;
    enum ebb_status status;
};

static void add_problem(struct problems *p, const struct ebb_doc_node *where, const char *key,
                        const struct ebb_error *one)
{
    if (p->report)
        p->report(p->context, where, key, one->message);
    if (p->status != EBB_OK)
        return;
    p->status = one->status;
    if (where && where->line)
        ebb_fail(p->err, one->status, "%u:%u: %s", where->line, where->column, one->message);
    else
        ebb_fail(p->err, one->status, "%s", one->message);
}

enum ebb_status nn_config_parse(const struct ebb_doc_node *map, nn_report report, void *context,
                                struct nn_config *config, struct ebb_error *err)
{
    struct problems p = {.report = report, .context = context, .err = err};
    struct ebb_error one = {.status = EBB_OK};
    struct nn_config c;
    const struct ebb_doc_node *name = ebb_doc_get(map, "name");
    if (!map || map->kind != EBB_DOC_MAP || !name || name->kind != EBB_DOC_STRING) {
        ebb_fail(&one, EBB_EINPUT, "model: must be a mapping with a key `name`, which is text");
        add_problem(&p, name ? name : map, "name", &one);
        return p.status;
    }
    if (nn_config_init(&c, name->text, &one) != EBB_OK) {
        add_problem(&p, name, "name", &one);
        return p.status;
    }
    for (size_t i = 0; i < map->count; i++)
        if (set_member(&c, map->keys[i]->text, map->items[i], &one) != EBB_OK)
            add_problem(&p, map->items[i], map->keys[i]->text, &one);
    if (p.status == EBB_OK && nn_config_check(&c, &one) != EBB_OK)
        add_problem(&p, map, "", &one);
    if (p.status == EBB_OK)
        *config = c;
    return p.status;
}

enum ebb_status nn_config_check(const struct nn_config *config, struct ebb_error *err)
{
    return config->model->check ? config->model->check(config, err) : EBB_OK;
}

enum ebb_status nn_config_set(struct nn_config *config, const char *key, const char *value,
                              struct ebb_error *err)
{
    const struct ebb_doc_node *node;
    struct ebb_arena arena;
    char text[1024];
    if (strcmp(key, "rng") == 0)
        return set_generator(config, value, err);
    const struct nn_option *o = find_option(config->model, key);
    if (!o)
        return unknown_key(config, key, err);
    if (o->kind == NN_NAME)
        return set_name(config, o, value, err);
    int n = snprintf(text, sizeof text, o->kind == NN_INTS && *value != '[' ? "[%s]" : "%s", value);
    if (n < 0 || (size_t)n >= sizeof text)
        return wrong(o, "a longer text", err);
    ebb_arena_init(&arena);
    enum ebb_status status = ebb_doc_parse_yaml(&arena, key, text, (size_t)n, &node, err);
    if (status == EBB_OK)
        status = set_node(config, o, node, err);
    ebb_arena_fini(&arena);
    return status;
}

bool nn_config_adapt(struct nn_config *config, const char *key, int64_t value)
{
    const struct nn_option *o = find_option(config->model, key);
    if (!o || o->kind != NN_INT)
        return false;
    if (!(config->given >> (o - config->model->options) & 1))
        memcpy(config->bytes + o->offset, &value, sizeof value);
    return true;
}

int64_t nn_config_int(const struct nn_config *config, const char *key, int64_t fallback)
{
    const struct nn_option *o = find_option(config->model, key);
    if (!o || o->kind != NN_INT)
        return fallback;
    int64_t value;
    memcpy(&value, config->bytes + o->offset, sizeof value);
    return value;
}
