/* submit.c - POST /experiments: a file is checked as a whole; nothing is created unless all of it
 * can be run (exp/config/unbuilt.c). Also the simulation of a search. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/heap.h"
#include "base/map.h"
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

enum ebb_status serve_site_storage(struct serve_rest *r, const struct ebb_doc_node **node)
{
    const struct exp_master_info *m = &r->info;
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
                                     const struct ebb_doc_node **root)
{
    struct exp_db_template row;
    struct ebb_error why;
    bool is_there;
    EBB_TRY(exp_db_only(exp_db_template_read(r->db, EXP_DB_NAME(name), &row, r->err), r->arena,
                        &is_there));
    if (!is_there)
        return serve_refuse(r, 400, "there is no template \"%s\"", name);
    enum ebb_status status =
        ebb_doc_parse_yaml(r->arena, name, row.config, strlen(row.config), root, &why);
    const char *where = ebb_arena_printf(r->arena, "template %s: ", name);
    return serve_blame(r, status, &why, 400, where != NULL ? where : "");
}

static enum ebb_status refuse_report(struct serve_rest *r, const struct ebb_report *report,
                                     const char *message)
{
    (void)serve_refuse(r, 400, "%s", message);
    struct ebb_str *body = &r->response->body;
    if (body->length > 2) /* into the error object */
        body->length -= 2;
    struct ebb_json_writer w = {.out = body, .depth = 2, .need_comma = true};
    ebb_jsonw_key_array(&w, "findings");
    for (size_t i = 0; i < report->count; i++)
        ebb_finding_write(&report->items[i], &w);
    ebb_jsonw_array_end(&w);
    ebb_str_add(body, "}}");
    return SERVE_REFUSED;
}

/* What is valid but cannot be run by this build. */
static enum ebb_status check_unbuilt(struct serve_rest *r, const struct exp_config *c)
{
    size_t rows[64], count = exp_unbuilt_count <= 64 ? exp_config_unbuilt(c, rows) : 0;
    struct ebb_str text = {0};
    if (count == 0)
        return EBB_OK;
    for (size_t i = 0; i < count; i++) {
        const struct exp_unbuilt *u = &exp_unbuilt_table[rows[i]];
        ebb_str_printf(&text, "%s%s: valid, but this build cannot run it yet (%s)",
                       i > 0 ? "\n" : "", u->path, u->reason);
    }
    enum ebb_status status = serve_refuse(r, 400, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status check_mounts(struct serve_rest *r, const struct exp_config *c)
{
    for (size_t i = 0; i < c->bind_mount_count; i++) {
        const struct exp_bind_mount *b = &c->bind_mounts[i];
        bool has_host = access(b->host_path, F_OK) == 0;
        bool has_place = b->container_path[0] != '/' || access(b->container_path, F_OK) == 0;
        if (!has_host || !has_place)
            return serve_refuse(r, 400, "bind_mounts[%zu].%s: %s is not there%s", i,
                                has_host ? "container_path" : "host_path",
                                has_host ? b->container_path : b->host_path,
                                has_host ? ": make it, or give a path below the working directory"
                                         : "");
    }
    bool is_needed = c->bind_mount_count > 0 || c->resources.shm_size >= 0;
    if (!is_needed || exp_proc_can_mount())
        return EBB_OK;
    return serve_refuse(r, 400,
                        "%s: this machine gives no private mount namespace (unprivileged user "
                        "namespaces are off)",
                        c->bind_mount_count > 0 ? "bind_mounts" : "resources.shm_size");
}

/* Which GPUs a trial sees is its slot's business. */
static enum ebb_status check_variables(struct serve_rest *r, const struct exp_config *c)
{
    static const char name[] = "CUDA_VISIBLE_DEVICES=";
    const struct exp_strings *own = &c->environment.variables_gpu;
    for (size_t i = 0; r->info.options->gpu_ids != NULL && i < own->count; i++)
        if (strncmp(own->items[i], name, sizeof name - 1) == 0)
            return serve_refuse(
                r, 400,
                "environment.environment_variables: found %s, allowed: no "
                "CUDA_VISIBLE_DEVICES where slots are GPUs: a trial sees that of its "
                "slot ('gpus' of master.yaml says which there are; a mapping with "
                "cpu: [...] is for CPU slots only)",
                own->items[i]);
    return EBB_OK;
}

/* A search that cannot be made, or makes nothing, is an error of the file. */
static enum ebb_status check_search(struct serve_rest *r, const struct exp_config *c)
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
    return serve_blame(r, status, &why, 400, "searcher: ");
}

static enum ebb_status find_warm_start(struct serve_rest *r, struct submission *s)
{
    const struct exp_searcher *c = &s->config.searcher;
    const char *uuid = c->source_checkpoint_uuid;
    struct exp_db_name row;
    bool is_there;
    if (c->source_trial_id == 0 && uuid == NULL)
        return EBB_OK;
    EBB_TRY(exp_db_only(
        c->source_trial_id != 0
            ? exp_db_checkpoint_newest(r->db, EXP_DB_ID(c->source_trial_id), &row, r->err)
            : exp_db_checkpoint_whole(r->db, EXP_DB_NAME(uuid), &row, r->err),
        r->arena, &is_there));
    if (is_there)
        s->warm_start = row.name;
    else if (c->source_trial_id != 0)
        return serve_refuse(r, 400,
                            "searcher.source_trial_id: no checkpoint found for source trial %lld",
                            (long long)c->source_trial_id);
    else
        return serve_refuse(r, 400, "searcher.source_checkpoint_uuid: there is no checkpoint %s",
                            uuid);
    return EBB_OK;
}

static enum ebb_status check_store(struct serve_rest *r, const struct exp_storage *storage,
                                   const char *section)
{
    struct ebb_error why;
    enum ebb_status status = exp_master_check(r->m, storage, &r->response->is_later, &why);
    if (r->response->is_later)
        return SERVE_REFUSED; /* for now: handled again when the store has answered */
    return serve_blame(r, status, &why, 400, section);
}

static enum ebb_status check_stores(struct serve_rest *r, const struct exp_config *c)
{
    EBB_TRY(check_store(r, &c->checkpoint_storage, "checkpoint_storage: "));
    bool is_other =
        c->has_tensorboard_storage && c->tensorboard_storage.kind != EXP_STORAGE_SHARED_FS;
    return is_other ? check_store(r, &c->tensorboard_storage, "tensorboard_storage: ") : EBB_OK;
}

/* The configuration of a request, checked. */
static enum ebb_status read_config(struct serve_rest *r, struct submission *s)
{
    const struct ebb_doc_node *node = ebb_doc_get(r->body, "experiment_config");
    const char *template_name = ebb_doc_string(r->body, "template", NULL);
    struct ebb_error why;
    if (node == NULL || node->kind != EBB_DOC_STRING)
        return serve_refuse(r, 400, "experiment_config: missing, or not a text");
    const struct ebb_doc_node *layer = NULL;
    if (template_name != NULL)
        EBB_TRY(read_template(r, template_name, &layer));
    EBB_TRY(serve_submit_reveal(r, ebb_doc_int(r->body, "parent_id", 0), layer, &node));
    /* Two of one turn differ by their number; what is only simulated has none. */
    int64_t number = r->m != NULL ? exp_master_next_id(r->m) : 0;
    uint64_t seed = r->info.now_ns ^ (uint64_t)(r->info.time * 1e6) ^ (uint64_t)number << 40;
    int64_t default_seed = (int64_t)(ebb_splitmix64(&seed) & 0x7fffffff);
    struct exp_config_options options = {
        .file_name = ebb_doc_string(r->body, "file_name", "experiment"),
        .template_name = template_name,
        .template_root = layer,
        .default_seed = default_seed,
        .default_description = exp_config_describe(r->arena, ebb_splitmix64(&seed)),
        .check_section = r->info.options->check_section,
        .check_context = r->info.options->check_context,
    };
    EBB_TRY(serve_site_storage(r, &options.site_storage));
    enum ebb_status status = exp_config_parse(r->arena, node->text, node->length, &options,
                                              &s->config, &s->report, &why);
    EBB_TRY(serve_blame(r, status == EBB_ENOMEM ? status : EBB_OK, &why, 400, ""));
    return status == EBB_OK ? EBB_OK : refuse_report(r, &s->report, why.message);
}

static enum ebb_status check_all(struct serve_rest *r, struct submission *s)
{
    EBB_TRY(read_config(r, s));
    EBB_TRY(check_unbuilt(r, &s->config));
    EBB_TRY(check_variables(r, &s->config));
    EBB_TRY(check_mounts(r, &s->config));
    EBB_TRY(check_search(r, &s->config));
    return find_warm_start(r, s);
}

/* ---- the model definition ---- */

static enum ebb_status read_file(struct serve_rest *r, const struct ebb_doc_node *node,
                                 struct exp_store_file *f)
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
    if (!exp_store_is_safe_path(clean))
        return serve_refuse(r, 400, "model_definition: the path \"%s\" is not allowed", path);
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
    if (!ebb_base64_decode(content->text, content->length, data, &f->length))
        return serve_refuse(r, 400, "model_definition: %s: the content is not base64", path);
    return EBB_OK;
}

static enum ebb_status read_model(struct serve_rest *r, struct submission *s)
{
    const struct ebb_doc_node *list = ebb_doc_get(r->body, "model_definition");
    size_t total = 0;
    s->parent_id = ebb_doc_int(r->body, "parent_id", 0);
    if (list == NULL || list->kind != EBB_DOC_LIST)
        return EBB_OK;
    s->files = ebb_arena_calloc(r->arena, list->count + 1, sizeof *s->files);
    EBB_TRY(ebb_arena_status(r->arena, r->err));
    for (size_t i = 0; i < list->count; i++) {
        EBB_TRY(read_file(r, list->items[i], &s->files[s->file_count]));
        total += s->files[s->file_count++].length;
    }
    return total <= MODEL_BYTES_MAX ? EBB_OK
                                    : serve_refuse(r, 413, "model_definition: larger than 95 MiB");
}

static enum ebb_status store_model(struct serve_rest *r, const struct submission *s, int64_t id)
{
    if (s->file_count == 0 && s->parent_id > 0)
        return exp_db_files_copy(r->db, &(struct exp_db_pair){.a = id, .b = s->parent_id}, r->err);
    for (size_t i = 0; i < s->file_count; i++) {
        const struct exp_store_file *f = &s->files[i];
        struct exp_db_file row = {.experiment_id = id,
                                  .path = f->path,
                                  .type = f->is_directory ? "dir" : "file",
                                  .mode = f->mode,
                                  .mtime = f->mtime,
                                  .size = (int64_t)f->length,
                                  .content = {f->data, f->length}};
        EBB_TRY(exp_db_file_add(r->db, &row, r->err));
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

/* Directory of the event files of an experiment; those of one with a remote store are written here
 * and sent there (exp/master/boards.c). */
static const char *board_of(struct serve_rest *r, const struct exp_config *c, int64_t id)
{
    const struct exp_storage *s =
        c->has_tensorboard_storage ? &c->tensorboard_storage : &c->checkpoint_storage;
    bool is_here = s->kind == EXP_STORAGE_SHARED_FS;
    return ebb_arena_printf(r->arena, "%s%s/%s/tensorboard/experiment/%lld",
                            is_here ? s->directory : r->info.state_dir,
                            is_here ? "" : "/checkpoints", r->info.cluster_id, (long long)id);
}

static enum ebb_status store_config(struct serve_rest *r, const struct submission *s, int64_t id)
{
    struct ebb_str text;
    EBB_TRY(json_of(r, s->config.normalized, &text));
    struct exp_db_config row = {.experiment_id = id,
                                .config = ebb_str_c(&text),
                                .warm_start = s->warm_start,
                                .git_remote = ebb_doc_string(r->body, "git_remote", NULL),
                                .git_commit = ebb_doc_string(r->body, "git_commit", NULL),
                                .git_committer = ebb_doc_string(r->body, "git_committer", NULL),
                                .git_commit_date = ebb_doc_string(r->body, "git_commit_date", NULL),
                                .board = board_of(r, &s->config, id)};
    enum ebb_status status = exp_db_config_add(r->db, &row, r->err);
    ebb_str_fini(&text);
    return status;
}

static void write_labels(struct ebb_str *out, const struct exp_config *c)
{
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_array(&w);
    for (size_t i = 0; i < c->labels.count; i++)
        ebb_jsonw_string(&w, c->labels.items[i]);
    ebb_jsonw_array_end(&w);
}

static enum ebb_status store_experiment(struct serve_rest *r, const struct submission *s,
                                        int64_t id)
{
    const struct exp_config *c = &s->config;
    const struct exp_storage *store = &c->checkpoint_storage;
    struct ebb_str labels = {0};
    write_labels(&labels, c);
    struct exp_db_experiment_made row = {
        .id = id,
        .state = exp_state_name(EXP_PAUSED),
        .description = c->description != NULL ? c->description : "",
        .labels = ebb_str_c(&labels),
        .owner = serve_user(r),
        .start_time = r->info.time,
        .archived = ebb_doc_bool(r->body, "archived", false),
        .parent_id = s->parent_id > 0 ? s->parent_id : EXP_DB_NO_INT,
        .searcher = exp_searcher_name(c->searcher.kind),
        .metric = c->searcher.metric,
        .smaller_is_better = c->searcher.smaller_is_better,
        .weight = c->resources.weight,
        .max_slots = c->resources.max_slots > 0 ? c->resources.max_slots : EXP_DB_NO_INT,
        .save_experiment_best = store->save_experiment_best,
        .save_trial_best = store->save_trial_best,
        .save_trial_latest = store->save_trial_latest};
    enum ebb_status status = ebb_str_status(&labels, r->err);
    if (status == EBB_OK)
        status = exp_db_experiment_add(r->db, &row, r->err);
    ebb_str_fini(&labels);
    return status;
}

static enum ebb_status create(struct serve_rest *r, const struct submission *s)
{
    int64_t id = exp_master_next_id(r->m);
    EBB_TRY(store_experiment(r, s, id));
    EBB_TRY(store_config(r, s, id));
    EBB_TRY(store_model(r, s, id));
    EBB_TRY(exp_master_begin(r->m, id, ebb_doc_bool(r->body, "activate", false), r->err));
    r->response->status = 201;
    snprintf(r->response->location, sizeof r->response->location, "/experiments/%lld",
             (long long)id);
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_int(&r->w, "id", id);
    ebb_jsonw_key_array(&r->w, "warnings");
    for (size_t i = 0; i < s->report.count; i++)
        if (s->report.items[i].kind == EBB_FINDING_WARNING)
            ebb_finding_write(&s->report.items[i], &r->w);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static enum ebb_status submit(struct serve_rest *r)
{
    struct submission s = {0};
    struct exp_db_id parent;
    bool is_there = true;
    EBB_TRY(serve_submit_check_body(r));
    EBB_TRY(check_all(r, &s));
    EBB_TRY(read_model(r, &s));
    EBB_TRY(serve_submit_check_paths(r, s.files, s.file_count));
    if (ebb_doc_bool(r->body, "validate_only", false)) {
        r->response->status = 204;
        return EBB_OK;
    }
    if (s.parent_id > 0)
        EBB_TRY(exp_db_only(exp_db_experiment_has(r->db, EXP_DB_ID(s.parent_id), &parent, r->err),
                            NULL, &is_there));
    if (!is_there)
        return serve_refuse(r, 400, "parent_id: there is no experiment %lld",
                            (long long)s.parent_id);
    EBB_TRY(check_stores(r, &s.config));
    return create(r, &s);
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

/* How often each workload was, in the order of their first trials. */
static enum ebb_status write_counts(struct serve_rest *r, const struct exp_sim *sim)
{
    struct ebb_str key = {0};
    struct ebb_strmap index;
    size_t *counts = ebb_arena_calloc(r->arena, sim->trial_count + 1, sizeof *counts), kinds = 0;
    const char **names = ebb_arena_calloc(r->arena, sim->trial_count + 1, sizeof *names);
    enum ebb_status status = ebb_arena_status(r->arena, r->err);
    ebb_strmap_init(&index);
    for (size_t i = 0; status == EBB_OK && i < sim->trial_count; i++) {
        const char *name = sim->trials[i].workloads;
        uint64_t at = kinds;
        if (!ebb_strmap_get(&index, name, strlen(name), &at)) {
            names[kinds++] = name;
            status = ebb_strmap_put(&index, name, strlen(name), at, r->err);
        }
        counts[at]++;
    }
    ebb_strmap_fini(&index);
    ebb_jsonw_object(&r->w);
    for (size_t i = 0; status == EBB_OK && i < kinds; i++) {
        spell_out(&key, names[i]);
        ebb_jsonw_key_uint(&r->w, ebb_str_c(&key), counts[i]);
    }
    ebb_jsonw_object_end(&r->w);
    EBB_THEN(status, ebb_str_status(&key, r->err));
    ebb_str_fini(&key);
    return status;
}

static enum ebb_status preview_search(struct serve_rest *r)
{
    struct submission s = {0};
    struct exp_search *search = NULL;
    struct exp_sim sim;
    struct ebb_error why;
    EBB_TRY(read_config(r, &s));
    uint64_t seed = (uint64_t)ebb_doc_int(r->body, "seed", s.config.experiment_seed);
    struct exp_sim_options options = {
        .metric = random_metric, .context = &seed, .max_workloads = 5000000};
    enum ebb_status status =
        exp_search_create(&s.config.searcher, &s.config.hyperparameters, s.config.trial_failure,
                          (uint32_t)seed, &search, &why);
    if (status == EBB_OK)
        status = exp_sim_run(search, &s.config.hyperparameters, &options, r->arena, &sim, &why);
    exp_search_destroy(search);
    EBB_TRY(serve_blame(r, status, &why, 400, "searcher: "));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_int(&r->w, "seed", (int64_t)seed);
    ebb_jsonw_key_uint(&r->w, "trials", sim.trial_count);
    ebb_jsonw_key_int(&r->w, "steps", sim.total_steps);
    ebb_jsonw_key(&r->w, "results");
    EBB_TRY(write_counts(r, &sim));
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"POST", "/experiments", submit, "create an experiment", 0},
    {"POST", "/preview-hp-search", preview_search, "simulate a search", SERVE_READS | SERVE_SLOW},
    {"POST", "/searcher/preview", preview_search, "simulate a search", SERVE_READS | SERVE_SLOW},
};
const struct serve_routes serve_routes_submit = SERVE_ROUTES(routes);
