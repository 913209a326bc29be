/* rules.c - rules between fields of one section or of several. Each looks only at fields that are
 * good by themselves, so one mistake is reported once. */
#include <string.h>

#include "exp/config/forms.h"
#include "exp/config/reader.h"

const struct ebb_doc_node *exp_place(const struct ebb_doc_node *root, const char *path)
{
    const struct ebb_doc_node *node = root;
    while (*path) {
        size_t n = strcspn(path, ".");
        const struct ebb_doc_node *next = NULL;
        for (size_t i = 0; node->kind == EBB_DOC_MAP && i < node->count && !next; i++)
            if (node->keys[i]->length == n && memcmp(node->keys[i]->text, path, n) == 0)
                next = node->items[i];
        if (!next)
            return node;
        node = next;
        path += n;
        path += *path == '.';
    }
    return node;
}

/* ---- storage ---- */

/* The key that names the directory below host_path, or NULL. */
static const char *directory_key(const struct exp_storage *s, const char **value)
{
    *value = s->storage_path;
    if (*value)
        return "storage_path";
    *value = s->tensorboard_path;
    if (*value)
        return "tensorboard_path";
    *value = s->checkpoint_path;
    return *value ? "checkpoint_path" : NULL;
}

static void check_directory(struct ebb_reading *reader, const struct ebb_path *section,
                            const struct ebb_doc_node *node, struct exp_storage *s)
{
    const char *relative = NULL;
    const char *key = directory_key(s, &relative);
    char *host = exp_path_normalize(reader->arena, s->host_path);
    char *directory = key ? exp_path_join(reader->arena, s->host_path, relative) : host;
    if (!host || !directory) {
        reader->failed = true;
        return;
    }
    s->directory = directory;
    if (!key || exp_path_inside(host, directory))
        return;
    struct ebb_path at = {.up = section, .key = key};
    struct ebb_str text = {0};
    ebb_str_add(&text, "found the directory \"");
    ebb_say_quoted(directory, strlen(directory), &text);
    ebb_str_add(&text, "\", allowed: host_path \"");
    ebb_say_quoted(host, strlen(host), &text);
    ebb_str_add(&text, "\" or below it");
    ebb_reading_say(reader, EBB_FINDING_ERROR, &at, exp_place(node, key), &text);
    ebb_reading_also(reader, "checkpoint_storage.host_path");
}

static void check_storage(struct ebb_reading *reader, const char *section,
                          const struct ebb_doc_node *root, struct exp_storage *s)
{
    const struct ebb_doc_node *node = ebb_doc_get(root, section);
    struct ebb_path path = {.key = section};
    if (!node || !ebb_reading_is_good(reader, s))
        return;
    bool has_paths = ebb_reading_is_good(reader, &s->host_path) &&
                     ebb_reading_is_good(reader, &s->storage_path) &&
                     ebb_reading_is_good(reader, &s->tensorboard_path) &&
                     ebb_reading_is_good(reader, &s->checkpoint_path);
    if (s->kind == EXP_STORAGE_SHARED_FS && has_paths)
        check_directory(reader, &path, node, s);
    bool has_keys =
        ebb_reading_is_good(reader, &s->access_key) && ebb_reading_is_good(reader, &s->secret_key);
    if (s->kind == EXP_STORAGE_S3 && has_keys && !s->access_key != !s->secret_key) {
        const char *missing = s->access_key ? "secret_key" : "access_key";
        const char *given = s->access_key ? "access_key" : "secret_key";
        struct ebb_path at = {.up = &path, .key = missing};
        ebb_reading_error(reader, &at, exp_place(node, given),
                          "missing beside %s, allowed: both keys or neither", given);
        ebb_reading_also(reader, s->access_key ? "checkpoint_storage.access_key"
                                               : "checkpoint_storage.secret_key");
    }
}

/* ---- the rest ---- */

static void check_slots(struct ebb_reading *reader, const struct ebb_doc_node *root,
                        const struct exp_resources *r)
{
    if (!ebb_reading_is_good(reader, &r->max_slots) ||
        !ebb_reading_is_good(reader, &r->slots_per_trial) || r->max_slots == 0 ||
        r->max_slots >= r->slots_per_trial)
        return;
    ebb_reading_add(reader, EBB_FINDING_ERROR, exp_place(root, "resources.max_slots"),
                    "resources.max_slots",
                    "found %lld, allowed: at least slots_per_trial, which is %lld",
                    (long long)r->max_slots, (long long)r->slots_per_trial);
    ebb_reading_also(reader, "resources.slots_per_trial");
}

static void fold_registry(struct ebb_reading *reader, const struct ebb_doc_node *root,
                          struct exp_environment *e)
{
    static const char other[] = "environment.registry_auth.serveraddress";
    e->has_registry_auth = e->registry_username != NULL;
    if (!e->registry_serveraddress)
        return;
    if (e->registry_server && strcmp(e->registry_server, e->registry_serveraddress) != 0) {
        ebb_reading_add(reader, EBB_FINDING_ERROR, exp_place(root, other), other,
                        "found beside a different server, allowed: one of the two spellings");
        ebb_reading_also(reader, "environment.registry_auth.server");
    }
    e->registry_server = e->registry_serveraddress;
}

/* What asks for a container is kept with the experiment, and trials run without one: said once. */
static void note_container(struct ebb_reading *reader, const struct ebb_doc_node *root,
                           const struct exp_environment *e)
{
    const char *path = e->image_cpu || e->image_gpu ? "environment.image"
                       : e->force_pull_image        ? "environment.force_pull_image"
                       : e->has_registry_auth       ? "environment.registry_auth"
                                                    : NULL;
    if (path)
        ebb_reading_add(reader, EBB_FINDING_WARNING, exp_place(root, path), path,
                        "recorded; trials run on this machine without a container");
}

/* Gradients are added up by what ebb trains itself. */
static void note_aggregation(struct ebb_reading *reader, const struct ebb_doc_node *root,
                             const struct exp_config *config)
{
    static const char path[] = "optimizations.aggregation_frequency";
    enum exp_entry_kind kind = config->entrypoint.kind;
    int64_t count = config->optimizations.aggregation_frequency;
    if (ebb_reading_is_good(reader, &config->entrypoint) && kind != EXP_ENTRY_BUILTIN &&
        kind != EXP_ENTRY_ONNX && count > 1)
        ebb_reading_add(reader, EBB_FINDING_WARNING, exp_place(root, path), path,
                        "%lld has no effect on this entrypoint: the trial sees it in its "
                        "configuration and adds up gradients itself",
                        (long long)count);
}

void exp_rules_config(struct ebb_reading *reader, const struct ebb_doc_node *root,
                      struct exp_config *config)
{
    config->has_tensorboard_storage = ebb_doc_given(root, "tensorboard_storage") != NULL;
    check_storage(reader, "checkpoint_storage", root, &config->checkpoint_storage);
    if (config->has_tensorboard_storage)
        check_storage(reader, "tensorboard_storage", root, &config->tensorboard_storage);
    exp_rules_searcher(reader, root, &config->searcher);
    if (ebb_reading_is_good(reader, &config->min_validation_period))
        exp_rules_patience(reader, root, &config->searcher, config->min_validation_period);
    if (ebb_reading_is_good(reader, &config->hyperparameters))
        exp_rules_grid(reader, root, &config->searcher, &config->hyperparameters);
    check_slots(reader, root, &config->resources);
    exp_rules_batch_size(reader, root, config);
    fold_registry(reader, root, &config->environment);
    note_container(reader, root, &config->environment);
    note_aggregation(reader, root, config);
    if (exp_hparams_find(&config->hyperparameters, "batch_size"))
        ebb_reading_add(reader, EBB_FINDING_WARNING, exp_place(root, "hyperparameters.batch_size"),
                        "hyperparameters.batch_size",
                        "the batch of a trial is global_batch_size; this one is only passed on");
}
