/* config.c - reading from end to end: layers, sections, rules, report. See config.h. */
#include "exp/config/config.h"

#include <string.h>

#include "base/file.h"
#include "exp/config/forms.h"
#include "exp/config/reader.h"

static const struct ebb_section whole = {.table = &exp_schema};

/* What stands for "not given", where that is not zero. */
static const struct exp_config nothing = {
    .checkpoint_storage = {.kind = EXP_STORAGE_NONE},
    .tensorboard_storage = {.kind = EXP_STORAGE_NONE},
    .resources = {.shm_size = -1},
    .experiment_seed = -1,
};

static void begin(struct ebb_reading *reader, struct ebb_arena *arena,
                  const struct exp_config_options *options, struct ebb_report *report)
{
    ebb_reading_init(reader, arena, options->file_name, report);
    reader->files[EXP_LAYER_SITE] = options->site_name ? options->site_name : "site defaults";
    reader->files[EXP_LAYER_TEMPLATE] =
        options->template_name ? options->template_name : "template";
    reader->context = options;
}

/* ---- layers ---- */

/* What the caller offers below template and file. NULL when it offers nothing. */
static const struct ebb_doc_node *site_layer(struct ebb_reading *reader)
{
    const struct exp_config_options *o = reader->context;
    if (!o->site_storage && !o->default_description && o->default_seed < 0)
        return NULL;
    struct ebb_doc_node *root = ebb_reading_node(reader, EBB_DOC_MAP, NULL);
    if (o->default_description && root)
        ebb_reading_set(reader, root, "description",
                        ebb_doc_new_string(reader->arena, o->default_description));
    if (o->default_seed >= 0 && root) {
        struct ebb_doc_node *map = ebb_reading_node(reader, EBB_DOC_MAP, NULL);
        ebb_reading_set(reader, map, "experiment_seed",
                        ebb_doc_new_int(reader->arena, o->default_seed & INT32_MAX));
        ebb_reading_set(reader, root, "reproducibility", map);
    }
    ebb_reading_set(reader, root, "checkpoint_storage", o->site_storage);
    ebb_reading_layer(reader, root, EXP_LAYER_SITE);
    return reader->failed ? NULL : root;
}

static bool is_mapping(struct ebb_reading *reader, const struct ebb_doc_node *node)
{
    static const char allowed[] = "a mapping with entrypoint, hyperparameters, searcher";
    if (node->kind == EBB_DOC_MAP)
        return true;
    if (node->kind == EBB_DOC_NULL)
        ebb_reading_error(reader, NULL, node, "found nothing, allowed: %s", allowed);
    else
        ebb_reading_refuse(reader, NULL, node, "%s", allowed);
    return false;
}

/* All layers in one tree; NULL after an error. */
static const struct ebb_doc_node *merged_layers(struct ebb_reading *reader,
                                                const struct ebb_doc_node *file)
{
    const struct ebb_doc_node *merged = site_layer(reader);
    const struct exp_config_options *options = reader->context;
    const struct ebb_doc_node *template_root = options->template_root;
    bool is_good = is_mapping(reader, file);
    if (merged)
        ebb_keys_check(reader, &whole, NULL, merged);
    if (template_root && template_root->kind != EBB_DOC_NULL) {
        ebb_reading_layer(reader, template_root, EXP_LAYER_TEMPLATE);
        is_good = is_mapping(reader, template_root) && is_good;
        if (is_good) {
            ebb_keys_check(reader, &whole, NULL, template_root);
            merged = exp_layers_merge(reader, merged, template_root);
        }
    }
    if (!is_good || reader->failed)
        return NULL;
    return exp_layers_merge(reader, merged, file);
}

/* ---- reading ---- */

static void add_notes(struct ebb_reading *reader, const struct ebb_doc_node *root,
                      const struct exp_config *config)
{
    for (size_t i = 0; i < exp_unbuilt_count; i++) {
        const struct exp_unbuilt *row = &exp_unbuilt_table[i];
        if (exp_unbuilt_uses(row, config))
            ebb_reading_add(reader, EBB_FINDING_NOTE, exp_place(root, row->path), row->path,
                            "valid, but this build cannot run it yet: %s", row->reason);
    }
}

/* Closing of every reading: what goes upward is the number of errors and the first of them. */
static enum ebb_status finish(struct ebb_reading *reader, struct ebb_error *err)
{
    const struct ebb_report *report = reader->report;
    enum ebb_status status = ebb_reading_end(reader, err);
    if (status != EBB_EINPUT)
        return status;
    struct ebb_str first = {0};
    if (ebb_report_first(report))
        ebb_finding_format(ebb_report_first(report), &first);
    ebb_fail(err, EBB_EINPUT, "invalid experiment configuration: %zu error%s; first: %s",
             report->errors, report->errors == 1 ? "" : "s", ebb_str_c(&first));
    ebb_str_fini(&first);
    return EBB_EINPUT;
}

enum ebb_status exp_config_read(struct ebb_arena *arena, const struct ebb_doc_node *root,
                                const struct exp_config_options *options, struct exp_config *config,
                                struct ebb_report *report, struct ebb_error *err)
{
    struct ebb_reading reader;
    struct exp_config draft = nothing;
    begin(&reader, arena, options, report);
    const struct ebb_doc_node *merged = merged_layers(&reader, root);
    if (merged) {
        draft.normalized = ebb_keys_read(&reader, &whole, NULL, merged, merged, &draft);
        if (!reader.failed)
            exp_rules_config(&reader, merged, &draft);
        if (!reader.failed)
            exp_rules_own(&reader, merged, &draft);
        if (report->errors == 0 && !reader.failed)
            add_notes(&reader, merged, &draft);
    }
    enum ebb_status status = finish(&reader, err);
    if (status == EBB_OK)
        *config = draft;
    return status;
}

/* A text that could not be parsed: the parser's message is the only finding. */
static enum ebb_status unreadable(struct ebb_arena *arena, struct ebb_report *report,
                                  const struct ebb_error *problem, struct ebb_error *err)
{
    *report = (struct ebb_report){0};
    struct ebb_finding *item = ebb_arena_calloc(arena, 1, sizeof *item);
    char *message =
        item ? ebb_arena_strndup(arena, problem->message, strlen(problem->message)) : NULL;
    if (!message || problem->status == EBB_ENOMEM)
        return ebb_no_memory(err, 0);
    *item = (struct ebb_finding){
        .kind = EBB_FINDING_ERROR, .layer = EXP_LAYER_FILE, .path = "", .message = message};
    *report = (struct ebb_report){.items = item, .count = 1, .capacity = 1, .errors = 1};
    if (err)
        *err = *problem;
    return problem->status;
}

enum ebb_status exp_config_parse(struct ebb_arena *arena, const char *bytes, size_t length,
                                 const struct exp_config_options *options,
                                 struct exp_config *config, struct ebb_report *report,
                                 struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    struct ebb_error problem = {0};
    if (ebb_doc_parse_yaml(arena, options->file_name, bytes, length, &root, &problem) != EBB_OK)
        return unreadable(arena, report, &problem, err);
    return exp_config_read(arena, root, options, config, report, err);
}

enum ebb_status exp_config_load(struct ebb_arena *arena, const char *path,
                                const struct exp_config_options *options, struct exp_config *config,
                                struct ebb_report *report, struct ebb_error *err)
{
    struct exp_config_options named = *options;
    named.file_name = path;
    const struct ebb_doc_node *root = NULL;
    struct ebb_error problem = {0};
    struct ebb_file_view view;
    if (ebb_file_view_open(&view, path, EXP_CONFIG_BYTES_MAX, &problem) != EBB_OK)
        return unreadable(arena, report, &problem, err);
    size_t n = strlen(path);
    bool is_json = n >= 5 && strcmp(path + n - 5, ".json") == 0;
    enum ebb_status status =
        is_json ? ebb_doc_parse_json(arena, path, view.data, view.length, &root, &problem)
                : ebb_doc_parse_yaml(arena, path, view.data, view.length, &root, &problem);
    ebb_file_view_close(&view);
    if (status != EBB_OK)
        return unreadable(arena, report, &problem, err);
    return exp_config_read(arena, root, &named, config, report, err);
}

/* ---- the two sections of the search vectors ---- */

static enum ebb_status refuse_all(const struct ebb_report *report, struct ebb_error *err)
{
    struct ebb_str text = {0};
    for (size_t i = 0; i < report->count; i++) {
        if (report->items[i].kind != EBB_FINDING_ERROR)
            continue;
        if (text.length > 0)
            ebb_str_addc(&text, '\n');
        ebb_finding_format(&report->items[i], &text);
    }
    ebb_fail(err, EBB_EINPUT, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return EBB_EINPUT;
}

/* One top-level section of a vector. */
static void read_alone(struct ebb_reading *reader, const char *key, const struct ebb_doc_node *node,
                       struct ebb_doc_node *root, struct exp_config *draft)
{
    bool foreign = false;
    const struct ebb_key *row = ebb_section_find(&whole, NULL, key, strlen(key), &foreign);
    struct ebb_path path = {.key = key};
    ebb_reading_set(reader, root, key, node);
    if (node)
        ebb_key_read(reader, row, &exp_schema, &path, node, draft);
    else
        ebb_reading_error(reader, &path, NULL, "required but missing");
}

enum ebb_status exp_search_parse(struct ebb_arena *arena, const char *file_name,
                                 const struct ebb_doc_node *searcher_node,
                                 const struct ebb_doc_node *hparams_node,
                                 struct exp_searcher *searcher, struct exp_hparams *hparams,
                                 struct ebb_error *err)
{
    const struct exp_config_options options = {.file_name = file_name, .default_seed = -1};
    struct ebb_reading reader;
    struct ebb_report report;
    struct exp_config draft = nothing;
    begin(&reader, arena, &options, &report);
    struct ebb_doc_node *root = ebb_reading_node(&reader, EBB_DOC_MAP, NULL);
    if (searcher)
        read_alone(&reader, "searcher", searcher_node, root, &draft);
    if (hparams)
        read_alone(&reader, "hyperparameters", hparams_node, root, &draft);
    if (searcher && !reader.failed)
        exp_rules_searcher(&reader, root, &draft.searcher);
    if (searcher && hparams && !reader.failed) {
        exp_rules_grid(&reader, root, &draft.searcher, &draft.hyperparameters);
        if (draft.searcher.kind == EXP_SEARCHER_GRID && hparams_node && hparams_node->count == 0)
            ebb_reading_add(&reader, EBB_FINDING_ERROR, hparams_node, "hyperparameters",
                            "found none, allowed with searcher grid: at least one");
    }
    enum ebb_status status = finish(&reader, err);
    if (status == EBB_EINPUT)
        return refuse_all(&report, err);
    if (status != EBB_OK)
        return status;
    if (searcher)
        *searcher = draft.searcher;
    if (hparams)
        *hparams = draft.hyperparameters;
    return EBB_OK;
}

const char *exp_searcher_name(enum exp_searcher_kind kind)
{
    static const char *const names[] = {
#define X(KIND, name, method) #name,
        EXP_SEARCHERS(X)
#undef X
    };
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

/* ---- showing ---- */

/* A copy of `node` in which the value at `path`, if there, is replaced. NULL: out of memory. */
static const struct ebb_doc_node *replaced(struct ebb_arena *arena, const struct ebb_doc_node *node,
                                           const char *path, const struct ebb_doc_node *value)
{
    size_t n = strcspn(path, ".");
    if (node->kind != EBB_DOC_MAP)
        return node;
    struct ebb_doc_node *copy = ebb_doc_new(arena, EBB_DOC_MAP);
    bool is_good = copy != NULL;
    for (size_t i = 0; is_good && i < node->count; i++) {
        const struct ebb_doc_node *key = node->keys[i], *item = node->items[i];
        if (key->length == n && memcmp(key->text, path, n) == 0 && item->kind != EBB_DOC_NULL)
            item = path[n] ? replaced(arena, item, path + n + 1, value) : value;
        is_good = item && ebb_doc_set(arena, copy, key->text, item);
    }
    return is_good ? copy : NULL;
}

const struct ebb_doc_node *exp_config_masked(struct ebb_arena *arena,
                                             const struct ebb_doc_node *normalized)
{
    const struct ebb_doc_node *mask = ebb_doc_new_string(arena, EXP_CONFIG_MASK);
    const struct ebb_doc_node *out = mask ? normalized : NULL;
    for (size_t i = 0; out && i < exp_schema.count; i++)
        if (exp_schema.rows[i].flags & EBB_KEY_SECRET)
            out = replaced(arena, out, exp_schema.rows[i].path, mask);
    return out ? replaced(arena, out, "tensorboard_storage.secret_key", mask) : NULL;
}
