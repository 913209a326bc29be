/* config.c - reading from end to end: layers, sections, rules, report. See config.h. */
#include "exp/config/config.h"

#include <string.h>

#include "base/file.h"
#include "exp/config/forms.h"
#include "exp/config/reader.h"

/* ---- layers ---- */

/* What the caller offers below template and file. NULL when it offers nothing. */
static const struct ebb_doc_node *site_layer(struct exp_config_reader *reader)
{
    const struct exp_config_options *o = reader->options;
    if (!o->site_storage && !o->default_description && o->default_seed < 0)
        return NULL;
    struct ebb_doc_node *root = exp_node(reader, EBB_DOC_MAP, NULL);
    if (o->default_description && root)
        exp_set(reader, root, "description",
                ebb_doc_new_string(reader->arena, o->default_description));
    if (o->default_seed >= 0 && root) {
        struct ebb_doc_node *map = exp_node(reader, EBB_DOC_MAP, NULL);
        exp_set(reader, map, "experiment_seed",
                ebb_doc_new_int(reader->arena, o->default_seed & INT32_MAX));
        exp_set(reader, root, "reproducibility", map);
    }
    exp_set(reader, root, "checkpoint_storage", o->site_storage);
    exp_layer_mark(reader, root, EXP_LAYER_SITE);
    return reader->failed ? NULL : root;
}

static bool is_mapping(struct exp_config_reader *reader, const struct ebb_doc_node *node)
{
    if (node->kind == EBB_DOC_MAP)
        return true;
    struct ebb_str found;
    ebb_str_init(&found);
    if (node->kind == EBB_DOC_NULL)
        ebb_str_add(&found, "nothing");
    else
        exp_say_found(node, &found);
    if (found.failed)
        reader->failed = true;
    else
        exp_report_error(reader, NULL, node,
                         "found %s, allowed: a mapping with entrypoint, hyperparameters, searcher",
                         ebb_str_c(&found));
    ebb_str_fini(&found);
    return false;
}

/* All layers in one tree; NULL after an error. */
static const struct ebb_doc_node *merged_layers(struct exp_config_reader *reader,
                                                const struct ebb_doc_node *file)
{
    const struct ebb_doc_node *merged = site_layer(reader);
    const struct ebb_doc_node *template_root = reader->options->template_root;
    bool is_good = is_mapping(reader, file);
    if (merged)
        exp_section_check_keys(reader, merged);
    if (template_root && template_root->kind != EBB_DOC_NULL) {
        exp_layer_mark(reader, template_root, EXP_LAYER_TEMPLATE);
        is_good = is_mapping(reader, template_root) && is_good;
        if (is_good) {
            exp_section_check_keys(reader, template_root);
            merged = exp_layers_merge(reader, merged, template_root);
        }
    }
    if (!is_good || reader->failed)
        return NULL;
    return exp_layers_merge(reader, merged, file);
}

/* ---- reading ---- */

static void add_notes(struct exp_config_reader *reader, const struct ebb_doc_node *root,
                      const struct exp_config *config)
{
    for (size_t i = 0; i < exp_unbuilt_count; i++) {
        const struct exp_unbuilt *row = &exp_unbuilt_table[i];
        if (row->uses(config))
            exp_report_note(reader, row->path, exp_place(root, row->path),
                            "valid, but this build cannot run it yet: %s", row->reason);
    }
}

/* The summary that goes upward: number of errors and the first of them. */
static enum ebb_status refuse(const struct exp_report *report, struct ebb_error *err)
{
    struct ebb_str first;
    ebb_str_init(&first);
    for (size_t i = 0; i < report->count; i++) {
        if (report->items[i].kind == EXP_FINDING_ERROR) {
            exp_finding_format(&report->items[i], &first);
            break;
        }
    }
    ebb_fail(err, EBB_EINPUT, "invalid experiment configuration: %zu error%s; first: %s",
             report->errors, report->errors == 1 ? "" : "s", ebb_str_c(&first));
    ebb_str_fini(&first);
    return EBB_EINPUT;
}

/* Closing of every reading: order the report, answer with a status. */
static enum ebb_status finish(struct exp_config_reader *reader, struct ebb_error *err)
{
    exp_report_sort(reader->report);
    bool failed = reader->failed;
    exp_reader_fini(reader);
    if (failed)
        return ebb_no_memory(err, 0);
    return reader->report->errors > 0 ? refuse(reader->report, err) : EBB_OK;
}

enum ebb_status exp_config_read(struct ebb_arena *arena, const struct ebb_doc_node *root,
                                const struct exp_config_options *options, struct exp_config *config,
                                struct exp_report *report, struct ebb_error *err)
{
    struct exp_config_reader reader;
    struct exp_config draft = {0};
    exp_reader_init(&reader, arena, options, report);
    const struct ebb_doc_node *merged = merged_layers(&reader, root);
    if (merged) {
        draft.normalized = exp_section_read(&reader, "", NULL, merged, merged, &draft);
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
static enum ebb_status unreadable(struct ebb_arena *arena, struct exp_report *report,
                                  const struct ebb_error *problem, struct ebb_error *err)
{
    *report = (struct exp_report){0};
    struct exp_finding *item = ebb_arena_calloc(arena, 1, sizeof *item);
    char *message =
        item ? ebb_arena_strndup(arena, problem->message, strlen(problem->message)) : NULL;
    if (!message || problem->status == EBB_ENOMEM)
        return ebb_no_memory(err, 0);
    *item = (struct exp_finding){
        .kind = EXP_FINDING_ERROR, .layer = EXP_LAYER_FILE, .path = "", .message = message};
    *report = (struct exp_report){.items = item, .count = 1, .capacity = 1, .errors = 1};
    if (err)
        *err = *problem;
    return problem->status;
}

enum ebb_status exp_config_parse(struct ebb_arena *arena, const char *bytes, size_t length,
                                 const struct exp_config_options *options,
                                 struct exp_config *config, struct exp_report *report,
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
                                struct exp_report *report, struct ebb_error *err)
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

static enum ebb_status refuse_all(const struct exp_report *report, struct ebb_error *err)
{
    struct ebb_str text;
    ebb_str_init(&text);
    for (size_t i = 0; i < report->count; i++) {
        if (report->items[i].kind != EXP_FINDING_ERROR)
            continue;
        if (text.length > 0)
            ebb_str_addc(&text, '\n');
        exp_finding_format(&report->items[i], &text);
    }
    ebb_fail(err, EBB_EINPUT, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return EBB_EINPUT;
}

/* One top-level section of a vector. */
static void read_alone(struct exp_config_reader *reader, const char *key,
                       const struct ebb_doc_node *node, struct ebb_doc_node *root,
                       struct exp_config *draft)
{
    bool foreign = false;
    const struct exp_row *row = exp_schema_find("", NULL, key, strlen(key), &foreign);
    struct exp_path path = {.key = key, .length = strlen(key)};
    exp_set(reader, root, key, node);
    if (node)
        exp_value_read(reader, row, &path, node, draft);
    else
        exp_report_error(reader, &path, NULL, "required but missing");
}

enum ebb_status exp_search_parse(struct ebb_arena *arena, const struct ebb_doc_node *searcher_node,
                                 const struct ebb_doc_node *hparams_node,
                                 struct exp_searcher *searcher, struct exp_hparams *hparams,
                                 struct ebb_error *err)
{
    static const struct exp_config_options options = {.file_name = "search", .default_seed = -1};
    struct exp_config_reader reader;
    struct exp_report report;
    struct exp_config draft = {0};
    exp_reader_init(&reader, arena, &options, &report);
    struct ebb_doc_node *root = exp_node(&reader, EBB_DOC_MAP, NULL);
    if (searcher)
        read_alone(&reader, "searcher", searcher_node, root, &draft);
    if (hparams)
        read_alone(&reader, "hyperparameters", hparams_node, root, &draft);
    if (searcher && !reader.failed)
        exp_rules_searcher(&reader, root, &draft.searcher);
    if (searcher && hparams && !reader.failed) {
        exp_rules_grid(&reader, root, &draft.searcher, &draft.hyperparameters);
        if (draft.searcher.kind == EXP_SEARCHER_GRID && hparams_node && hparams_node->count == 0)
            exp_config_error(&reader, hparams_node, "hyperparameters",
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
        [EXP_SEARCHER_SINGLE] = "single",
        [EXP_SEARCHER_RANDOM] = "random",
        [EXP_SEARCHER_GRID] = "grid",
        [EXP_SEARCHER_ADAPTIVE] = "adaptive",
        [EXP_SEARCHER_ADAPTIVE_SIMPLE] = "adaptive_simple",
        [EXP_SEARCHER_PBT] = "pbt",
        [EXP_SEARCHER_ADAPTIVE_ASHA] = "adaptive_asha",
        [EXP_SEARCHER_ASYNC_HALVING] = "async_halving",
        [EXP_SEARCHER_TPE] = "tpe",
        [EXP_SEARCHER_CUSTOM] = "custom",
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
    const struct ebb_doc_node *mask = ebb_doc_new_string(arena, "********");
    const struct ebb_doc_node *out = mask ? normalized : NULL;
    for (size_t i = 0; out && i < exp_schema_count; i++)
        if (exp_schema[i].flags & EXP_SECRET)
            out = replaced(arena, out, exp_schema[i].path, mask);
    return out ? replaced(arena, out, "tensorboard_storage.secret_key", mask) : NULL;
}
