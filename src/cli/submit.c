/* submit.c - see submit.h. */
#include "cli/submit.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "cli/show.h"
#include "cli/train_file.h"
#include "base/names.h"
#include "nn/nn.h"

/* ---- the file, with what the command line changes ---- */

/* Copy of a mapping that may be changed; NULL for anything else. */
static struct ebb_doc_node *copy_map(struct ebb_arena *arena, const struct ebb_doc_node *node)
{
    struct ebb_doc_node *copy = ebb_doc_new(arena, EBB_DOC_MAP);
    for (size_t i = 0; copy != NULL && node != NULL && node->kind == EBB_DOC_MAP && i < node->count;
         i++)
        if (!ebb_doc_set(arena, copy, node->keys[i]->text, node->items[i]))
            return NULL;
    return copy;
}

/* "searcher.max_steps=3": the value is YAML. Mappings on the way are copied or made. */
static enum ebb_status set_path(struct ebb_arena *arena, struct ebb_doc_node *root,
                                const char *text, struct ebb_error *err)
{
    const char *equals = strchr(text, '=');
    const struct ebb_doc_node *value = NULL;
    if (equals == NULL || equals == text)
        return ebb_fail(err, EBB_EINPUT, "--config %s: expected KEY=VALUE", text);
    EBB_TRY(ebb_doc_parse_yaml(arena, "--config", equals + 1, strlen(equals + 1), &value, err));
    for (const char *at = text;;) {
        size_t n = strcspn(at, ".=");
        char *key = ebb_arena_strndup(arena, at, n);
        if (key == NULL)
            return ebb_no_memory(err, n);
        if (n == 0)
            return ebb_fail(err, EBB_EINPUT, "--config %s: a key is empty", text);
        if (at + n == equals)
            return ebb_doc_set(arena, root, key, value) ? EBB_OK : ebb_no_memory(err, n);
        struct ebb_doc_node *inner = copy_map(arena, ebb_doc_get(root, key));
        if (inner == NULL || !ebb_doc_set(arena, root, key, inner))
            return ebb_no_memory(err, n);
        root = inner;
        at += n + 1;
    }
}

/* Test mode: one short trial that goes through every kind of workload, and leaves nothing. */
static enum ebb_status make_test(struct ebb_arena *arena, struct ebb_doc_node *root,
                                 struct ebb_error *err)
{
    static const char *const kept[] = {"metric", "smaller_is_better", "source_trial_id",
                                       "source_checkpoint_uuid"};
    static const char *const counts[] = {"save_experiment_best", "save_trial_best",
                                         "save_trial_latest"};
    struct ebb_doc_node *searcher = ebb_doc_new(arena, EBB_DOC_MAP);
    const struct ebb_doc_node *old = ebb_doc_get(root, "searcher");
    bool ok = searcher != NULL &&
              ebb_doc_set(arena, searcher, "name", ebb_doc_new_string(arena, "single")) &&
              ebb_doc_set(arena, searcher, "max_steps", ebb_doc_new_int(arena, 1));
    for (size_t i = 0; ok && i < sizeof kept / sizeof kept[0]; i++) {
        const struct ebb_doc_node *value = ebb_doc_get(old, kept[i]);
        ok = value == NULL || ebb_doc_set(arena, searcher, kept[i], value);
    }
    struct ebb_doc_node *storage = copy_map(arena, ebb_doc_get(root, "checkpoint_storage"));
    for (size_t i = 0; ok && i < sizeof counts / sizeof counts[0]; i++)
        ok = storage != NULL && ebb_doc_set(arena, storage, counts[i], ebb_doc_new_int(arena, 0));
    const char *name = ebb_arena_printf(arena, "[test-mode] %s",
                                        ebb_doc_string(root, "description", "experiment"));
    ok = ok && name != NULL && ebb_doc_set(arena, root, "searcher", searcher) &&
         ebb_doc_set(arena, root, "checkpoint_storage", storage) &&
         ebb_doc_set(arena, root, "batches_per_step", ebb_doc_new_int(arena, 1)) &&
         ebb_doc_set(arena, root, "min_validation_period", ebb_doc_new_int(arena, 1)) &&
         ebb_doc_set(arena, root, "max_restarts", ebb_doc_new_int(arena, 0)) &&
         ebb_doc_set(arena, root, "description", ebb_doc_new_string(arena, name));
    return ok ? EBB_OK : ebb_no_memory(err, 0);
}

/* What findings call the file. With --config their places are those of the changed text, so its
 * name says that. */
static const char *name_of(const struct cli_submission *s, struct ebb_arena *arena)
{
    const char *name =
        s->changes.count > 0 ? ebb_arena_printf(arena, "%s (with --config)", s->file) : NULL;
    return name != NULL ? name : s->file;
}

/* The text to submit: the file as it is, so that errors keep their places, unless something is
 * changed; *config is what it says. */
static enum ebb_status make_text(const struct cli_submission *s, bool is_test,
                                 struct ebb_arena *arena, struct ebb_str *text,
                                 const struct ebb_doc_node **config, struct ebb_error *err)
{
    struct ebb_file_view view;
    const struct ebb_doc_node *root = NULL;
    EBB_TRY(ebb_file_view_open(&view, s->file, EXP_CONFIG_BYTES_MAX, err));
    ebb_str_addn(text, view.data, view.length);
    ebb_file_view_close(&view);
    EBB_TRY(ebb_str_status(text, err));
    EBB_TRY(ebb_doc_parse_yaml(arena, s->file, ebb_str_c(text), text->length, &root, err));
    *config = root;
    if (s->changes.count == 0 && !is_test)
        return EBB_OK;
    if (root->kind != EBB_DOC_MAP)
        return EBB_OK; /* the check says so */
    struct ebb_doc_node *changed = copy_map(arena, root);
    if (changed == NULL)
        return ebb_no_memory(err, 0);
    for (size_t i = 0; i < s->changes.count; i++)
        EBB_TRY(set_path(arena, changed, s->changes.items[i], err));
    if (is_test)
        EBB_TRY(make_test(arena, changed, err));
    *config = changed;
    struct ebb_json_writer w;
    ebb_str_clear(text);
    ebb_jsonw_init(&w, text, 2);
    ebb_doc_write_json(changed, &w);
    return ebb_str_status(text, err);
}

/* ---- checking here ---- */

/* Where relative paths begin for the trial: its working folder is the unpacked definition. */
static char *definition_folder(const struct cli_submission *s, struct ebb_arena *arena)
{
    struct stat st;
    if (s->model_def != NULL && stat(s->model_def, &st) == 0 && S_ISDIR(st.st_mode))
        return ebb_arena_strndup(arena, s->model_def, strlen(s->model_def));
    return cli_folder_of(arena, s->model_def != NULL ? s->model_def : s->file);
}

int cli_submit_check(const struct cli_submission *s)
{
    struct ebb_arena arena = {0};
    struct ebb_str text = {0};
    struct ebb_error err = {0};
    struct exp_config config;
    struct ebb_report report = {0};
    const struct ebb_doc_node *root = NULL;
    struct exp_config_options options = {.default_seed = -1, .check_section = cli_check_submission};
    int code = -1;
    options.file_name = name_of(s, &arena);
    options.check_context = definition_folder(s, &arena);
    if (make_text(s, false, &arena, &text, &root, &err) != EBB_OK) {
        code = cli_report(&err);
        code = err.status == EBB_ELIMIT ? 2 : code;
    } else if (s->template_name == NULL && /* a template may hold what is missing here */
               exp_config_parse(&arena, ebb_str_c(&text), text.length, &options, &config, &report,
                                &err) != EBB_OK) {
        if (report.errors > 0) {
            cli_print_report(&report, options.file_name, stderr);
            fprintf(stderr, "'ebb experiment schema' prints the reference of all keys; nothing "
                            "was started.\n");
            code = 2;
        } else {
            code = cli_report(&err);
        }
    }
    ebb_str_fini(&text);
    ebb_arena_fini(&arena);
    return code;
}

/* ---- posting ---- */

/* Built-in models need no files but a model file; everything else is found beside the experiment
 * file. */
static const char *definition_path(const struct cli_submission *s, const char *entrypoint,
                                   struct ebb_arena *arena)
{
    if (s->model_def != NULL)
        return s->model_def;
    if (entrypoint != NULL && strncmp(entrypoint, "ebb:", 4) == 0)
        return "";
    return cli_folder_of(arena, s->file);
}

/* Weights to begin with: a file beside the experiment is stored with it, one with an absolute path
 * stays where it is. */
static const char *init_file(const struct ebb_doc_node *model)
{
    const struct ebb_doc_node *node = ebb_doc_get(model, "init_from");
    const char *path = node != NULL && node->kind == EBB_DOC_STRING
                           ? node->text
                           : ebb_doc_string(node, "path", NULL);
    return path != NULL && path[0] != '/' ? path : NULL;
}

/* Files that an ONNX file names, which lie below its folder. */
static enum ebb_status write_beside(const char *folder, const char *file, struct ebb_arena *arena,
                                    struct ebb_names *done, struct ebb_json_writer *w,
                                    struct ebb_error *err)
{
    struct ebb_report report;
    struct nn_config net;
    const char *slash = strrchr(file, '/');
    const char *path = ebb_arena_printf(arena, "%s/%s", folder, file);
    if (path == NULL)
        return ebb_no_memory(err, strlen(file));
    if (!ebb_name_ends(file, ".onnx"))
        return EBB_OK;
    EBB_TRY(nn_config_open(arena, path, &net, &report, err));
    for (size_t i = 0; i < net.model->beside_count; i++) {
        path = ebb_arena_printf(arena, "%.*s%s", slash != NULL ? (int)(slash - file) + 1 : 0, file,
                                net.model->beside[i]);
        if (path == NULL)
            return ebb_no_memory(err, strlen(file));
        EBB_TRY(cli_pack_file(folder, path, done, w, err));
    }
    return EBB_OK;
}

/* Path below the folder of the experiment, of one that begins with that folder. */
static const char *below(const char *folder, const char *path)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

/* All files that `init_from` reads: shards and their index, or those of a checkpoint. */
static enum ebb_status write_weights(const char *folder, const char *file, struct ebb_arena *arena,
                                     struct ebb_names *done, struct ebb_json_writer *w,
                                     struct ebb_error *err)
{
    static const char *const parts[] = {"manifest.json", "state/weights.safetensors",
                                        "state/optimizer.safetensors", "state/train.json"};
    struct tensor_weights weights;
    struct ebb_str dir = {0};
    const char *path = ebb_arena_printf(arena, "%s/%s", folder, file);
    if (path == NULL)
        return ebb_no_memory(err, strlen(file));
    enum ebb_status status = train_store_find(path, &dir, err);
    for (size_t i = 0; dir.length > 0 && i < sizeof parts / sizeof *parts && status == EBB_OK;
         i++) {
        const char *part = ebb_arena_printf(arena, "%s/%s", ebb_str_c(&dir), parts[i]);
        status = part != NULL ? cli_pack_file(folder, below(folder, part), done, w, err)
                              : ebb_no_memory(err, dir.length);
    }
    bool is_ours = dir.length > 0;
    ebb_str_fini(&dir);
    if (is_ours || status != EBB_OK)
        return status;
    EBB_TRY(tensor_weights_open(&weights, path, NULL, err));
    for (size_t i = 0; status == EBB_OK && tensor_weights_file(&weights, i) != NULL; i++)
        status =
            cli_pack_file(folder, below(folder, tensor_weights_file(&weights, i)), done, w, err);
    tensor_weights_close(&weights);
    return status;
}

/* A file beside the experiment is not among those that trials have. */
static enum ebb_status check_data(const char *folder, const struct ebb_doc_node *config,
                                  struct ebb_arena *arena, struct ebb_error *err)
{
    static const char *const keys[] = {"data_dir",     "train_files", "val_files",  "train_images",
                                       "train_labels", "val_images",  "val_labels", "merges"};
    const struct ebb_doc_node *data = ebb_doc_get(config, "data");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct ebb_doc_node *node = ebb_doc_get(data, keys[i]);
        const struct ebb_doc_node *first =
            node != NULL && node->kind == EBB_DOC_LIST && node->count > 0 ? node->items[0] : node;
        if (first == NULL || first->kind != EBB_DOC_STRING || first->text[0] == '/' ||
            strncmp(first->text, "synthetic", 9) == 0)
            continue;
        const char *path = ebb_arena_printf(arena, "%s/%s", folder, first->text);
        if (path != NULL && access(path, F_OK) == 0)
            return ebb_fail(err, EBB_EINPUT,
                            "data.%s: '%s' is beside the experiment file, where trials do not run: "
                            "give its absolute path, or the folder to be stored with the "
                            "experiment (MODEL_DEF)",
                            keys[i], first->text);
    }
    return EBB_OK;
}

/* The model definition: a folder, or the files that a built-in task names. */
static enum ebb_status write_definition(const struct cli_submission *s,
                                        const struct ebb_doc_node *config, const char *definition,
                                        struct ebb_arena *arena, struct ebb_json_writer *w,
                                        struct ebb_error *err)
{
    const struct ebb_doc_node *model = ebb_doc_get(config, "model");
    const char *file = ebb_doc_string(model, "file", NULL), *weights = init_file(model);
    const char *folder = cli_folder_of(arena, s->file);
    if (definition[0] != '\0')
        return cli_pack(definition, w, err);
    EBB_TRY(check_data(folder, config, arena, err));
    struct ebb_names done = {0}; /* folders and files stand once */
    enum ebb_status status = EBB_OK;
    if (file != NULL) {
        status = cli_pack_file(folder, file, &done, w, err);
        EBB_THEN(status, write_beside(folder, file, arena, &done, w, err));
    }
    if (weights != NULL)
        EBB_THEN(status, write_weights(folder, weights, arena, &done, w, err));
    ebb_names_fini(&done);
    return status;
}

/* check_only: what a test is derived from is checked too, without creating anything. */
static enum ebb_status write_body(const struct cli_submission *s, bool check_only,
                                  struct ebb_str *body, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    const struct ebb_doc_node *config = NULL;
    const char *definition;
    struct cli_git git = {0};
    enum ebb_status status = make_text(s, s->is_test && !check_only, &arena, &text, &config, err);
    if (status != EBB_OK)
        goto out;
    definition = definition_path(s, ebb_doc_string(config, "entrypoint", NULL), &arena);
    if (definition == NULL) {
        status = ebb_no_memory(err, strlen(s->file));
        goto out;
    }
    ebb_jsonw_init(&w, body, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "experiment_config", ebb_str_c(&text));
    ebb_jsonw_key_string(&w, "file_name", name_of(s, &arena));
    if (s->template_name != NULL)
        ebb_jsonw_key_string(&w, "template", s->template_name);
    ebb_jsonw_key_bool(&w, "validate_only", check_only);
    ebb_jsonw_key_bool(&w, "activate", !s->is_paused);
    ebb_jsonw_key_bool(&w, "archived", s->is_test);
    if (s->is_git && !check_only) {
        status = cli_git_read(definition[0] != '\0' ? definition : s->file, &git, err);
        if (status != EBB_OK)
            goto out;
        ebb_jsonw_key_string(&w, "git_remote", git.remote);
        ebb_jsonw_key_string(&w, "git_commit", git.commit);
        ebb_jsonw_key_string(&w, "git_committer", git.committer);
        ebb_jsonw_key_string(&w, "git_commit_date", git.date);
    }
    ebb_jsonw_key_array(&w, "model_definition");
    if (!check_only)
        status = write_definition(s, config, definition, &arena, &w, err);
    ebb_jsonw_array_end(&w);
    ebb_jsonw_object_end(&w);
    EBB_THEN(status, ebb_str_status(body, err));
out:
    cli_git_fini(&git);
    ebb_str_fini(&text);
    ebb_arena_fini(&arena);
    return status;
}

/* Lines "file:line:column: path: message" for the findings of a refusal or of a success. */
static void print_findings(const struct ebb_doc_node *list)
{
    for (size_t i = 0; list != NULL && list->kind == EBB_DOC_LIST && i < list->count; i++) {
        const struct ebb_doc_node *f = list->items[i];
        if (f->kind == EBB_DOC_STRING) {
            fprintf(stderr, "%s\n", f->text);
            continue;
        }
        const char *kind = ebb_doc_string(f, "kind", "error");
        int64_t line = ebb_doc_int(f, "line", 0);
        if (line > 0)
            fprintf(stderr, "%s:%lld:%lld: ", ebb_doc_string(f, "file", ""), (long long)line,
                    (long long)ebb_doc_int(f, "column", 0));
        if (strcmp(kind, "error") != 0)
            fprintf(stderr, "%s: ", kind);
        const char *path = ebb_doc_string(f, "path", "");
        fprintf(stderr, "%s%s%s\n", path, path[0] != '\0' ? ": " : "",
                ebb_doc_string(f, "message", ""));
    }
}

static int post(struct cli_master *m, const struct cli_submission *s, bool check_only, int64_t *id)
{
    struct ebb_str body = {0};
    struct ebb_error err = {0};
    struct cli_answer answer;
    int code = -1;
    if (write_body(s, check_only, &body, &err) != EBB_OK) {
        ebb_str_fini(&body);
        return cli_report(&err);
    }
    enum ebb_status status =
        cli_ask_raw(m, "POST", "/experiments", ebb_str_c(&body), &answer, &err);
    if (status == EBB_OK && answer.response.status >= 400) {
        print_findings(ebb_doc_get(ebb_doc_get(answer.root, "error"), "findings"));
        cli_answer_error(&answer, &err);
        code = cli_report(&err);
    } else if (status != EBB_OK) {
        code = cli_report(&err);
    } else if (!check_only) {
        print_findings(ebb_doc_get(answer.root, "warnings"));
        *id = ebb_doc_int(answer.root, "id", 0);
    }
    cli_answer_fini(&answer);
    ebb_str_fini(&body);
    return code;
}

int cli_submit(struct cli_master *m, const struct cli_submission *s, int64_t *id)
{
    int code = s->is_test ? post(m, s, true, NULL) : -1;
    return code < 0 ? post(m, s, false, id) : code;
}
