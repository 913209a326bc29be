/* submit.c - POST /experiments: a file is checked as a whole; nothing is created unless all of it
 * can be run (ruling 24). Also the simulation of a search. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/heap.h"
#include "base/rng.h"
#include "serve/rest.h"

#define MODEL_BYTES_MAX ((size_t)95 << 20)

struct submission {
    struct exp_config config;
    struct ebb_report report;
    struct exp_store_file *files;
    size_t file_count;
    const char *warm_start; /* uuid, or NULL */
    int64_t parent_id;
};

/* ---- reading the file ---- */

enum ebb_status serve_rest_site_storage(struct serve_rest *r, const struct ebb_doc_node **node)
{
    struct exp_master *m = r->m;
    const struct ebb_doc_node *root = NULL;
    if (m->site_defaults != NULL) {
        EBB_TRY(ebb_doc_parse_yaml(r->arena, "site defaults", m->site_defaults,
                                   strlen(m->site_defaults), &root, r->err));
        *node = ebb_doc_get(root, "checkpoint_storage");
        if (*node != NULL)
            return EBB_OK;
    }
    struct ebb_doc_node *made = ebb_doc_new(r->arena, EBB_DOC_MAP);
    char *path = ebb_arena_printf(r->arena, "%s/checkpoints", m->state_dir);
    if (made == NULL || path == NULL ||
        !ebb_doc_set(r->arena, made, "type", ebb_doc_new_string(r->arena, "shared_fs")) ||
        !ebb_doc_set(r->arena, made, "host_path", ebb_doc_new_string(r->arena, path)))
        return ebb_no_memory(r->err, sizeof *made);
    *node = made;
    return EBB_OK;
}

static enum ebb_status read_template(struct serve_rest *r, const char *name,
                                     const struct ebb_doc_node **root, bool *is_bad)
{
    struct exp_db_rows rows;
    bool has_row = false;
    struct ebb_error why;
    EBB_TRY(exp_db_query(r->m->db, "SELECT config FROM templates WHERE name = $1",
                         EXP_DB_ARGS(exp_db_t(name)), &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, &has_row, r->err);
    if (status == EBB_OK && !has_row) {
        *is_bad = true;
        status = serve_rest_refuse(r, 400, "there is no template \"%s\"", name);
    } else if (status == EBB_OK) {
        struct exp_db_value text = exp_db_column(&rows, 0);
        status = ebb_doc_parse_yaml(r->arena, name, text.data, text.length, root, &why);
        if (status == EBB_ENOMEM) {
            *r->err = why;
        } else if (status != EBB_OK) {
            *is_bad = true;
            status = serve_rest_refuse(r, 400, "template %s: %s", name, why.message);
        }
    }
    exp_db_done(&rows);
    return status;
}

static enum ebb_status refuse_report(struct serve_rest *r, const struct ebb_report *report,
                                     const char *message)
{
    EBB_TRY(serve_rest_refuse(r, 400, "%s", message));
    struct ebb_str *body = &r->response->body;
    if (body->length > 2) /* into the error object */
        body->length -= 2;
    struct ebb_json_writer w = {.out = body, .depth = 2, .need_comma = true};
    ebb_jsonw_key(&w, "findings");
    ebb_jsonw_array(&w);
    for (size_t i = 0; i < report->count; i++)
        ebb_finding_write(&report->items[i], &w);
    ebb_jsonw_array_end(&w);
    ebb_str_add(body, "}}");
    return EBB_OK;
}

/* What is valid but cannot be run by this build. */
static enum ebb_status check_unbuilt(struct serve_rest *r, const struct exp_config *c, bool *is_bad)
{
    size_t rows[64], count = exp_unbuilt_count <= 64 ? exp_config_unbuilt(c, rows) : 0;
    struct ebb_str text;
    if (count == 0)
        return EBB_OK;
    ebb_str_init(&text);
    for (size_t i = 0; i < count; i++) {
        const struct exp_unbuilt *u = &exp_unbuilt_table[rows[i]];
        ebb_str_printf(&text, "%s%s: valid, but this build cannot run it yet (%s)",
                       i > 0 ? "\n" : "", u->path, u->reason);
    }
    *is_bad = true;
    enum ebb_status status = serve_rest_refuse(r, 400, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status check_mounts(struct serve_rest *r, const struct exp_config *c, bool *is_bad)
{
    for (size_t i = 0; i < c->bind_mount_count && !*is_bad; i++) {
        const struct exp_bind_mount *b = &c->bind_mounts[i];
        bool has_host = access(b->host_path, F_OK) == 0;
        bool has_place = b->container_path[0] != '/' || access(b->container_path, F_OK) == 0;
        *is_bad = !has_host || !has_place;
        if (*is_bad)
            return serve_rest_refuse(r, 400, "bind_mounts[%zu].%s: %s is not there", i,
                                     has_host ? "container_path" : "host_path",
                                     has_host ? b->container_path : b->host_path);
    }
    bool is_needed = c->bind_mount_count > 0 || c->resources.shm_size >= 0;
    if (*is_bad || !is_needed || exp_proc_can_mount())
        return EBB_OK;
    *is_bad = true;
    return serve_rest_refuse(r, 400,
                             "%s: this machine gives no private mount namespace (unprivileged user "
                             "namespaces are off)",
                             c->bind_mount_count > 0 ? "bind_mounts" : "resources.shm_size");
}

/* A search that cannot be made, or makes nothing, is an error of the file. */
static enum ebb_status check_search(struct serve_rest *r, const struct exp_config *c, bool *is_bad)
{
    struct exp_search *search = NULL;
    struct exp_ops ops;
    struct ebb_error why;
    exp_ops_init(&ops);
    enum ebb_status status = exp_search_create(&c->searcher, &c->hyperparameters, c->trial_failure,
                                               (uint32_t)c->experiment_seed, &search, &why);
    if (status == EBB_OK)
        status = exp_search_start(search, &ops, &why);
    exp_search_destroy(search);
    exp_ops_fini(&ops);
    if (status == EBB_OK)
        return EBB_OK;
    if (status == EBB_ENOMEM) {
        *r->err = why;
        return status;
    }
    *is_bad = true;
    return serve_rest_refuse(r, 400, "searcher: %s", why.message);
}

static enum ebb_status find_warm_start(struct serve_rest *r, struct submission *s, bool *is_bad)
{
    const struct exp_searcher *c = &s->config.searcher;
    struct exp_db_rows rows;
    bool has_row = false;
    enum ebb_status status;
    if (c->source_trial_id == 0 && c->source_checkpoint_uuid == NULL)
        return EBB_OK;
    if (c->source_trial_id != 0)
        status = exp_db_query(r->m->db,
                              "SELECT uuid FROM checkpoints WHERE trial_id = $1 AND"
                              " state = 'COMPLETED' AND uuid NOT IN (SELECT uuid FROM removals)"
                              " ORDER BY step_id DESC LIMIT 1",
                              EXP_DB_ARGS(exp_db_i(c->source_trial_id)), &rows, r->err);
    else
        status = exp_db_query(r->m->db,
                              "SELECT uuid FROM checkpoints WHERE uuid = $1 AND"
                              " state = 'COMPLETED' AND uuid NOT IN (SELECT uuid FROM removals)",
                              EXP_DB_ARGS(exp_db_t(c->source_checkpoint_uuid)), &rows, r->err);
    EBB_TRY(status);
    status = exp_db_next(&rows, &has_row, r->err);
    if (status == EBB_OK && has_row)
        s->warm_start = ebb_arena_strndup(r->arena, exp_db_text(&rows, 0), 36);
    exp_db_done(&rows);
    if (status != EBB_OK || has_row)
        return status;
    *is_bad = true;
    if (c->source_trial_id != 0)
        return serve_rest_refuse(r, 400,
                                 "searcher.source_trial_id: no checkpoint found for source trial "
                                 "%lld",
                                 (long long)c->source_trial_id);
    return serve_rest_refuse(r, 400, "searcher.source_checkpoint_uuid: there is no checkpoint %s",
                             c->source_checkpoint_uuid);
}

static enum ebb_status check_store(struct serve_rest *r, const struct exp_config *c, bool *is_bad)
{
    struct exp_store *store = NULL;
    struct ebb_error why;
    enum ebb_status status = exp_store_open(&c->checkpoint_storage, &store, &why);
    if (status == EBB_OK)
        status = exp_store_prepare(store, &why);
    exp_store_close(store);
    if (status == EBB_OK)
        return EBB_OK;
    if (status == EBB_ENOMEM) {
        *r->err = why;
        return status;
    }
    *is_bad = true;
    return serve_rest_refuse(r, 400, "checkpoint_storage: %s", why.message);
}

/* The configuration of a request, checked. *is_bad: refused already. */
static enum ebb_status read_config(struct serve_rest *r, struct submission *s, bool *is_bad)
{
    const struct ebb_doc_node *node = ebb_doc_get(r->body, "experiment_config");
    const char *name = ebb_doc_string(r->body, "file_name", "experiment");
    const char *template_name = ebb_doc_string(r->body, "template", NULL);
    struct ebb_error why;
    if (node == NULL || node->kind != EBB_DOC_STRING) {
        *is_bad = true;
        return serve_rest_refuse(r, 400, "experiment_config: missing, or not a text");
    }
    uint64_t seed = r->m->now_ns ^ (uint64_t)(r->m->time * 1e6);
    struct exp_config_options options = {
        .file_name = name,
        .template_name = template_name,
        .default_seed = (int64_t)r->m->time & 0x7fffffff,
        .default_description = exp_config_describe(r->arena, ebb_splitmix64(&seed)),
        .check_section = r->m->options.check_section,
        .check_context = r->m->options.check_context,
    };
    EBB_TRY(serve_rest_site_storage(r, &options.site_storage));
    if (template_name != NULL)
        EBB_TRY(read_template(r, template_name, &options.template_root, is_bad));
    if (*is_bad)
        return EBB_OK;
    enum ebb_status status = exp_config_parse(r->arena, node->text, node->length, &options,
                                              &s->config, &s->report, &why);
    if (status == EBB_ENOMEM) {
        *r->err = why;
        return status;
    }
    if (status != EBB_OK) {
        *is_bad = true;
        return refuse_report(r, &s->report, why.message);
    }
    return EBB_OK;
}

static enum ebb_status check_all(struct serve_rest *r, struct submission *s, bool *is_bad)
{
    EBB_TRY(read_config(r, s, is_bad));
    if (!*is_bad)
        EBB_TRY(check_unbuilt(r, &s->config, is_bad));
    if (!*is_bad)
        EBB_TRY(check_mounts(r, &s->config, is_bad));
    if (!*is_bad)
        EBB_TRY(check_search(r, &s->config, is_bad));
    if (!*is_bad)
        EBB_TRY(find_warm_start(r, s, is_bad));
    return EBB_OK;
}

/* ---- the model definition ---- */

static enum ebb_status read_file(struct serve_rest *r, const struct ebb_doc_node *node,
                                 struct exp_store_file *f, bool *is_bad)
{
    const char *path = ebb_doc_string(node, "path", ""),
               *type = ebb_doc_string(node, "type", "file");
    const struct ebb_doc_node *content = ebb_doc_get(node, "content");
    size_t length = strlen(path);
    char *clean = ebb_arena_strndup(r->arena, path, length);
    if (clean == NULL)
        return ebb_no_memory(r->err, length);
    while (length > 1 && clean[length - 1] == '/')
        clean[--length] = '\0';
    if (!exp_store_is_safe_path(clean)) {
        *is_bad = true;
        return serve_rest_refuse(r, 400, "model_definition: the path \"%s\" is not allowed", path);
    }
    *f = (struct exp_store_file){.path = clean,
                                 .is_directory = strcmp(type, "dir") == 0 ||
                                                 strcmp(type, "d") == 0 || strcmp(type, "5") == 0,
                                 .mode = (uint32_t)ebb_doc_int(node, "mode", 0644) & 0777,
                                 .mtime = ebb_doc_int(node, "mtime", 0)};
    if (f->is_directory || content == NULL || content->kind != EBB_DOC_STRING)
        return EBB_OK;
    char *data = ebb_arena_alloc(r->arena, content->length / 4 * 3 + 4);
    if (data == NULL)
        return ebb_no_memory(r->err, content->length);
    f->data = data;
    if (!ebb_base64_decode(content->text, content->length, data, &f->length)) {
        *is_bad = true;
        return serve_rest_refuse(r, 400, "model_definition: %s: the content is not base64", path);
    }
    return EBB_OK;
}

static enum ebb_status read_model(struct serve_rest *r, struct submission *s, bool *is_bad)
{
    const struct ebb_doc_node *list = ebb_doc_get(r->body, "model_definition");
    size_t total = 0;
    s->parent_id = ebb_doc_int(r->body, "parent_id", 0);
    if (list == NULL || list->kind != EBB_DOC_LIST)
        return EBB_OK;
    s->files = ebb_arena_calloc(r->arena, list->count + 1, sizeof *s->files);
    if (s->files == NULL)
        return ebb_no_memory(r->err, list->count * sizeof *s->files);
    for (size_t i = 0; i < list->count && !*is_bad; i++) {
        EBB_TRY(read_file(r, list->items[i], &s->files[s->file_count], is_bad));
        total += s->files[s->file_count++].length;
    }
    if (*is_bad || total <= MODEL_BYTES_MAX)
        return EBB_OK;
    *is_bad = true;
    return serve_rest_refuse(r, 413, "model_definition: larger than 95 MiB");
}

static enum ebb_status store_model(struct serve_rest *r, const struct submission *s, int64_t id)
{
    struct exp_db *db = r->m->db;
    if (s->file_count == 0 && s->parent_id > 0)
        return exp_db_run(db,
                          "INSERT INTO model_files (experiment_id, path, type, mode, mtime, size,"
                          " content) SELECT $1, path, type, mode, mtime, size, content FROM"
                          " model_files WHERE experiment_id = $2",
                          EXP_DB_ARGS(exp_db_i(id), exp_db_i(s->parent_id)), r->err);
    for (size_t i = 0; i < s->file_count; i++) {
        const struct exp_store_file *f = &s->files[i];
        EBB_TRY(exp_db_run(db, "DELETE FROM model_files WHERE experiment_id = $1 AND path = $2",
                           EXP_DB_ARGS(exp_db_i(id), exp_db_t(f->path)), r->err));
        EBB_TRY(exp_db_run(db,
                           "INSERT INTO model_files (experiment_id, path, type, mode, mtime, size,"
                           " content) VALUES ($1, $2, $3, $4, $5, $6, $7)",
                           EXP_DB_ARGS(exp_db_i(id), exp_db_t(f->path),
                                       exp_db_t(f->is_directory ? "dir" : "file"),
                                       exp_db_i(f->mode), exp_db_i(f->mtime),
                                       exp_db_i((int64_t)f->length), exp_db_b(f->data, f->length)),
                           r->err));
    }
    return EBB_OK;
}

/* ---- rows ---- */

static enum ebb_status json_of(struct serve_rest *r, const struct ebb_doc_node *node,
                               struct ebb_str *text)
{
    struct ebb_json_writer w;
    ebb_str_init(text);
    ebb_jsonw_init(&w, text, 0);
    ebb_doc_write_json(node, &w);
    return ebb_str_status(text, r->err);
}

/* Directory of the event files of an experiment; NULL: the storage has no directories. */
static const char *board_of(struct serve_rest *r, const struct exp_config *c, int64_t id)
{
    const struct exp_storage *s =
        c->has_tensorboard_storage ? &c->tensorboard_storage : &c->checkpoint_storage;
    if (s->kind != EXP_STORAGE_SHARED_FS)
        return NULL;
    return ebb_arena_printf(r->arena, "%s/%s/tensorboard/experiment/%lld", s->directory,
                            r->m->cluster_id, (long long)id);
}

static enum ebb_status store_config(struct serve_rest *r, const struct submission *s, int64_t id)
{
    struct ebb_str text;
    EBB_TRY(json_of(r, s->config.normalized, &text));
    enum ebb_status status = exp_db_run(
        r->m->db,
        "INSERT INTO experiment_configs (experiment_id, config, warm_start, git_remote,"
        " git_commit, git_committer, git_commit_date, board) VALUES ($1, $2, $3, $4, $5, $6,"
        " $7, $8)",
        EXP_DB_ARGS(exp_db_i(id), exp_db_tn(text.data, text.length), exp_db_t(s->warm_start),
                    exp_db_t(ebb_doc_string(r->body, "git_remote", NULL)),
                    exp_db_t(ebb_doc_string(r->body, "git_commit", NULL)),
                    exp_db_t(ebb_doc_string(r->body, "git_committer", NULL)),
                    exp_db_t(ebb_doc_string(r->body, "git_commit_date", NULL)),
                    exp_db_t(board_of(r, &s->config, id))),
        r->err);
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status store_experiment(struct serve_rest *r, const struct submission *s,
                                        int64_t id)
{
    const struct exp_config *c = &s->config;
    struct ebb_str labels;
    struct ebb_json_writer w;
    ebb_str_init(&labels);
    ebb_jsonw_init(&w, &labels, 0);
    ebb_jsonw_array(&w);
    for (size_t i = 0; i < c->labels.count; i++)
        ebb_jsonw_string(&w, c->labels.items[i]);
    ebb_jsonw_array_end(&w);
    const struct exp_storage *store = &c->checkpoint_storage;
    enum ebb_status status = ebb_str_status(&labels, r->err);
    if (status == EBB_OK)
        status = exp_db_run(
            r->m->db,
            "INSERT INTO experiments (id, state, description, labels, owner, progress, start_time,"
            " archived, parent_id, searcher, metric, smaller_is_better, num_trials, num_ended,"
            " weight, max_slots, save_experiment_best, save_trial_best, save_trial_latest)"
            " VALUES ($1, 'PAUSED', $2, $3, $4, 0.0, $5, $6, $7, $8, $9, $10, 0, 0, $11, $12, $13,"
            " $14, $15)",
            EXP_DB_ARGS(exp_db_i(id), exp_db_t(c->description != NULL ? c->description : ""),
                        exp_db_tn(labels.data, labels.length), exp_db_t(serve_rest_user(r)),
                        exp_db_d(r->m->time), exp_db_i(ebb_doc_bool(r->body, "archived", false)),
                        s->parent_id > 0 ? exp_db_i(s->parent_id) : exp_db_n(),
                        exp_db_t(exp_searcher_name(c->searcher.kind)), exp_db_t(c->searcher.metric),
                        exp_db_i(c->searcher.smaller_is_better), exp_db_d(c->resources.weight),
                        c->resources.max_slots > 0 ? exp_db_i(c->resources.max_slots) : exp_db_n(),
                        exp_db_i(store->save_experiment_best), exp_db_i(store->save_trial_best),
                        exp_db_i(store->save_trial_latest)),
            r->err);
    ebb_str_fini(&labels);
    return status;
}

static enum ebb_status create(struct serve_rest *r, const struct submission *s)
{
    struct exp_experiment *e = NULL;
    int64_t id = r->m->last_experiment + 1;
    EBB_TRY(store_experiment(r, s, id));
    EBB_TRY(store_config(r, s, id));
    EBB_TRY(store_model(r, s, id));
    r->m->last_experiment = id;
    EBB_TRY(exp_experiment_load(r->m, id, true, &e, r->err));
    if (ebb_doc_bool(r->body, "activate", false))
        EBB_TRY(exp_experiment_set_state(r->m, e, EXP_ACTIVE, r->err));
    exp_notice_experiment(r->m, e);
    r->response->status = 201;
    snprintf(r->response->location, sizeof r->response->location, "/experiments/%lld",
             (long long)id);
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "id");
    ebb_jsonw_int(&r->w, id);
    ebb_jsonw_key(&r->w, "warnings");
    ebb_jsonw_array(&r->w);
    for (size_t i = 0; i < s->report.count; i++)
        if (s->report.items[i].kind == EBB_FINDING_WARNING)
            ebb_finding_write(&s->report.items[i], &r->w);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

enum ebb_status serve_rest_submit(struct serve_rest *r)
{
    struct submission s = {0};
    bool is_bad = false;
    EBB_TRY(serve_submit_check_body(r, &is_bad));
    if (!is_bad)
        EBB_TRY(check_all(r, &s, &is_bad));
    if (!is_bad)
        EBB_TRY(read_model(r, &s, &is_bad));
    if (!is_bad)
        EBB_TRY(serve_submit_check_paths(r, s.files, s.file_count, &is_bad));
    if (is_bad)
        return EBB_OK;
    if (ebb_doc_bool(r->body, "validate_only", false)) {
        r->response->status = 204;
        return EBB_OK;
    }
    if (s.parent_id > 0) {
        int64_t count = 0;
        EBB_TRY(exp_db_number(r->m->db, "SELECT COUNT(*) FROM experiments WHERE id = $1",
                              EXP_DB_ARGS(exp_db_i(s.parent_id)), 0, &count, r->err));
        if (count == 0)
            return serve_rest_refuse(r, 400, "parent_id: there is no experiment %lld",
                                     (long long)s.parent_id);
    }
    EBB_TRY(check_store(r, &s.config, &is_bad));
    return is_bad ? EBB_OK : create(r, &s);
}

/* ---- simulation ---- */

static double random_metric(void *context, int64_t t, int64_t s)
{
    uint64_t state = *(const uint64_t *)context ^ (uint64_t)t << 32 ^ (uint64_t)s;
    return (double)(ebb_splitmix64(&state) >> 11) * 0x1p-53;
}

/* "3S 1V" as "SSSV". */
static void spell_out(struct ebb_str *out, const char *workloads)
{
    ebb_str_clear(out);
    for (const char *at = workloads; *at != '\0';) {
        int64_t n = 0;
        for (; *at >= '0' && *at <= '9'; at++)
            n = n * 10 + (*at - '0');
        for (; n > 0 && *at != '\0' && !out->failed; n--)
            ebb_str_addc(out, *at);
        at += *at != '\0';
        at += *at == ' ';
    }
}

static void write_counts(struct serve_rest *r, const struct exp_sim *sim)
{
    struct ebb_str key;
    ebb_str_init(&key);
    ebb_jsonw_object(&r->w);
    for (size_t i = 0; i < sim->trial_count; i++) {
        size_t count = 0;
        bool is_first = true;
        for (size_t k = 0; k < sim->trial_count; k++) {
            bool is_same = strcmp(sim->trials[k].workloads, sim->trials[i].workloads) == 0;
            count += is_same;
            is_first &= !is_same || k >= i;
        }
        if (!is_first)
            continue;
        spell_out(&key, sim->trials[i].workloads);
        ebb_jsonw_key(&r->w, ebb_str_c(&key));
        ebb_jsonw_uint(&r->w, count);
    }
    ebb_jsonw_object_end(&r->w);
    r->response->body.failed |= key.failed;
    ebb_str_fini(&key);
}

enum ebb_status serve_rest_preview_search(struct serve_rest *r)
{
    struct submission s = {0};
    bool is_bad = false;
    struct exp_search *search = NULL;
    struct exp_sim sim;
    struct ebb_error why;
    EBB_TRY(read_config(r, &s, &is_bad));
    if (is_bad)
        return EBB_OK;
    uint64_t seed = (uint64_t)ebb_doc_int(r->body, "seed", s.config.experiment_seed);
    struct exp_sim_options options = {
        .metric = random_metric, .context = &seed, .max_workloads = 5000000};
    enum ebb_status status =
        exp_search_create(&s.config.searcher, &s.config.hyperparameters, s.config.trial_failure,
                          (uint32_t)seed, &search, &why);
    if (status == EBB_OK)
        status = exp_sim_run(search, &s.config.hyperparameters, &options, r->arena, &sim, &why);
    exp_search_destroy(search);
    if (status == EBB_ENOMEM) {
        *r->err = why;
        return status;
    }
    if (status != EBB_OK)
        return serve_rest_refuse(r, 400, "searcher: %s", why.message);
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "seed");
    ebb_jsonw_int(&r->w, (int64_t)seed);
    ebb_jsonw_key(&r->w, "trials");
    ebb_jsonw_uint(&r->w, sim.trial_count);
    ebb_jsonw_key(&r->w, "steps");
    ebb_jsonw_int(&r->w, sim.total_steps);
    ebb_jsonw_key(&r->w, "results");
    write_counts(r, &sim);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}
