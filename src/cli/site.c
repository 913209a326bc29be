/* site.c - <state>/master.yaml: what every master of a state directory is started with. */
#include "cli/site.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/train_file.h"

#define SITE_BYTES_MAX ((size_t)1 << 20)
#define SLOTS_MAX 4096

struct site {
    const char *path;
    struct exp_master_options *options;
    bool keeps_slots; /* the command line said how many */
};

static enum ebb_status wrong(const struct site *s, const struct ebb_doc_node *node, const char *key,
                             const char *allowed, struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: %s: allowed: %s", s->path, (unsigned)node->line,
                    (unsigned)node->column, key, allowed);
}

/* One of some words; *at is its index. */
static enum ebb_status read_word(const struct site *s, const struct ebb_doc_node *node,
                                 const char *key, const char *const words[2], int *at,
                                 struct ebb_error *err)
{
    for (*at = 0; *at < 2; ++*at)
        if (node->kind == EBB_DOC_STRING && strcmp(node->text, words[*at]) == 0)
            return EBB_OK;
    char allowed[64];
    snprintf(allowed, sizeof allowed, "%s, %s", words[0], words[1]);
    return wrong(s, node, key, allowed, err);
}

static enum ebb_status unknown(const struct site *s, const struct ebb_doc_node *key,
                               const char *const *names, size_t count, struct ebb_error *err)
{
    const char *near = ebb_nearest(key->text, names, count);
    return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: %s: unknown key%s%s", s->path, (unsigned)key->line,
                    (unsigned)key->column, key->text, near != NULL ? ", nearest: " : "",
                    near != NULL ? near : "");
}

static enum ebb_status read_scheduler(const struct site *s, const struct ebb_doc_node *map,
                                      struct ebb_error *err)
{
    static const char *const names[] = {"type", "fit"};
    static const char *const types[2] = {"fair_share", "priority"};
    static const char *const fits[2] = {"best", "worst"};
    if (map->kind != EBB_DOC_MAP)
        return wrong(s, map, "scheduler", "a mapping with type and fit", err);
    for (size_t i = 0; i < map->count; i++) {
        const char *key = map->keys[i]->text;
        int at = 0;
        if (strcmp(key, "type") == 0) {
            EBB_TRY(read_word(s, map->items[i], "scheduler.type", types, &at, err));
            s->options->sched_kind = at == 1 ? EXP_SCHED_PRIORITY : EXP_SCHED_FAIR_SHARE;
        } else if (strcmp(key, "fit") == 0) {
            EBB_TRY(read_word(s, map->items[i], "scheduler.fit", fits, &at, err));
            s->options->sched_fit = at == 1 ? EXP_FIT_WORST : EXP_FIT_BEST;
        } else {
            return unknown(s, map->keys[i], names, sizeof names / sizeof names[0], err);
        }
    }
    return EBB_OK;
}

/* As a file without storage of its own would get it. */
static enum ebb_status check_storage(const struct site *s, const struct ebb_doc_node *node,
                                     struct ebb_error *err)
{
    static const char bare[] = "entrypoint: [none]\n"
                               "hyperparameters: {global_batch_size: 1}\n"
                               "searcher: {name: single, metric: none, max_steps: 1}\n";
    struct ebb_arena arena;
    struct exp_config config;
    struct ebb_report report = {0};
    struct exp_config_options options = {.file_name = s->path,
                                         .default_seed = -1,
                                         .site_storage = node,
                                         .check_section = cli_check_training};
    ebb_arena_init(&arena);
    enum ebb_status status =
        exp_config_parse(&arena, bare, sizeof bare - 1, &options, &config, &report, err);
    if (status == EBB_EINPUT && report.count > 0)
        (void)ebb_fail(err, EBB_EINPUT, "%s: %s: %s", s->path, report.items[0].path,
                       report.items[0].message);
    if (status == EBB_OK && config.checkpoint_storage.kind != EXP_STORAGE_SHARED_FS)
        status = ebb_fail(err, EBB_EUNSUPPORTED,
                          "%s: checkpoint_storage.type: valid, but this build cannot run it yet "
                          "(checkpoints are kept on shared_fs only)",
                          s->path);
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status read_number(const struct site *s, const struct ebb_doc_node *node,
                                   const char *key, int64_t *value, struct ebb_error *err)
{
    *value = node->integer;
    if (node->kind == EBB_DOC_INT && node->integer >= 1 && node->integer <= SLOTS_MAX)
        return EBB_OK;
    return wrong(s, node, key, "a whole number, 1 to 4096", err);
}

static enum ebb_status read_key(const struct site *s, const struct ebb_doc_node *key,
                                const struct ebb_doc_node *node, struct ebb_error *err)
{
    static const char *const names[] = {"slots",       "threads_per_slot", "pin_cpus",
                                        "slot_memory", "scheduler",        "checkpoint_storage"};
    struct exp_master_options *o = s->options;
    int64_t number = 0;
    if (strcmp(key->text, "slots") == 0) {
        EBB_TRY(read_number(s, node, key->text, &number, err));
        o->slots = s->keeps_slots ? o->slots : number;
    } else if (strcmp(key->text, "threads_per_slot") == 0) {
        EBB_TRY(read_number(s, node, key->text, &number, err));
        o->threads_per_slot = (int)number;
    } else if (strcmp(key->text, "pin_cpus") == 0) {
        if (node->kind != EBB_DOC_BOOL)
            return wrong(s, node, key->text, "true, false", err);
        o->pin_cpus = node->boolean;
    } else if (strcmp(key->text, "slot_memory") == 0) {
        if (node->kind != EBB_DOC_STRING ||
            ebb_parse_bytes(node->text, &o->slot_memory_bytes, NULL) != EBB_OK)
            return wrong(s, node, key->text, "bytes with a unit, as 4GiB", err);
    } else if (strcmp(key->text, "scheduler") == 0) {
        return read_scheduler(s, node, err);
    } else if (strcmp(key->text, "checkpoint_storage") == 0) {
        return check_storage(s, node, err);
    } else {
        return unknown(s, key, names, sizeof names / sizeof names[0], err);
    }
    return EBB_OK;
}

enum ebb_status cli_site_read(const char *state_dir, struct exp_master_options *options,
                              struct ebb_str *text, struct ebb_error *err)
{
    struct ebb_str path;
    struct ebb_arena arena;
    struct ebb_file_view view;
    const struct ebb_doc_node *root = NULL;
    ebb_str_init(&path);
    ebb_arena_init(&arena);
    ebb_str_printf(&path, "%s/master.yaml", state_dir);
    struct site s = {
        .path = ebb_str_c(&path), .options = options, .keeps_slots = options->slots > 0};
    enum ebb_status status = ebb_str_status(&path, err);
    if (status != EBB_OK || access(s.path, F_OK) != 0)
        goto out;
    status = ebb_file_view_open(&view, s.path, SITE_BYTES_MAX, err);
    if (status != EBB_OK)
        goto out;
    ebb_str_addn(text, view.data, view.length);
    ebb_file_view_close(&view);
    status = ebb_str_status(text, err);
    if (status == EBB_OK)
        status = ebb_doc_parse_yaml(&arena, s.path, ebb_str_c(text), text->length, &root, err);
    if (status != EBB_OK || root->kind == EBB_DOC_NULL) /* an empty file says nothing */
        goto out;
    if (root->kind != EBB_DOC_MAP)
        status = wrong(&s, root, "the file", "a mapping", err);
    for (size_t i = 0; status == EBB_OK && i < root->count; i++)
        status = read_key(&s, root->keys[i], root->items[i], err);
    if (status == EBB_OK)
        options->site_defaults = ebb_str_c(text);
out:
    ebb_arena_fini(&arena);
    ebb_str_fini(&path);
    return status;
}
