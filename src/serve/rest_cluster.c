/* rest_cluster.c - templates, tasks, slots, events. */
#include <string.h>

#include "serve/rest.h"

/* ---- templates ---- */

static void write_template(struct ebb_json_writer *w, const struct exp_db_rows *rows)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "name", exp_db_text(rows, 0));
    ebb_jsonw_key_string(w, "config", exp_db_text(rows, 1));
    ebb_jsonw_object_end(w);
}

enum ebb_status serve_rest_list_templates(struct serve_rest *r)
{
    struct exp_db_rows rows;
    EBB_TRY(exp_db_query(r->m->db, "SELECT name, config FROM templates ORDER BY name",
                         EXP_DB_NO_ARGS, &rows, r->err));
    return serve_rest_write_rows(r, "templates", &rows, write_template);
}

enum ebb_status serve_rest_get_template(struct serve_rest *r)
{
    struct exp_db_rows rows;
    bool has_row = false;
    EBB_TRY(exp_db_query(r->m->db, "SELECT name, config FROM templates WHERE name = $1",
                         EXP_DB_ARGS(exp_db_t(r->name)), &rows, r->err));
    enum ebb_status status = exp_db_next(&rows, &has_row, r->err);
    if (status == EBB_OK && has_row)
        write_template(&r->w, &rows);
    exp_db_done(&rows);
    if (status == EBB_OK && !has_row)
        return serve_rest_refuse(r, 404, "no template %s", r->name);
    return status;
}

enum ebb_status serve_rest_put_template(struct serve_rest *r)
{
    const struct ebb_doc_node *text = ebb_doc_get(r->body, "config"), *root = NULL;
    struct ebb_error why;
    if (text == NULL || text->kind != EBB_DOC_STRING)
        return serve_rest_refuse(r, 400, "config: missing, or not a text");
    enum ebb_status status =
        ebb_doc_parse_yaml(r->arena, r->name, text->text, text->length, &root, &why);
    if (status == EBB_ENOMEM) {
        *r->err = why;
        return status;
    }
    if (status != EBB_OK || root->kind != EBB_DOC_MAP)
        return serve_rest_refuse(r, 400, "%s",
                                 status != EBB_OK ? why.message : "a template is a mapping");
    EBB_TRY(exp_db_run(r->m->db, "DELETE FROM templates WHERE name = $1",
                       EXP_DB_ARGS(exp_db_t(r->name)), r->err));
    EBB_TRY(exp_db_run(r->m->db, "INSERT INTO templates (name, config) VALUES ($1, $2)",
                       EXP_DB_ARGS(exp_db_t(r->name), exp_db_tn(text->text, text->length)),
                       r->err));
    return serve_rest_get_template(r);
}

enum ebb_status serve_rest_delete_template(struct serve_rest *r)
{
    EBB_TRY(serve_rest_get_template(r));
    if (r->response->status == 404)
        return EBB_OK;
    ebb_str_clear(&r->response->body);
    r->response->status = 204;
    return exp_db_run(r->m->db, "DELETE FROM templates WHERE name = $1",
                      EXP_DB_ARGS(exp_db_t(r->name)), r->err);
}

/* ---- tasks and slots ---- */

static const char *state_of(const struct exp_trial *run)
{
    const struct exp_sequence *q = &run->sequence;
    if (run->alloc == NULL)
        return exp_task_state_text(EXP_TASK_PENDING);
    bool is_ending = q->is_stop_asked || run->alloc->phase >= EXP_ALLOC_KILLED ||
                     (q->is_busy && q->work.kind == EXP_WORK_TERMINATE);
    return exp_task_state_text(is_ending ? EXP_TASK_TERMINATING : EXP_TASK_RUNNING);
}

static void write_task(struct ebb_json_writer *w, const struct exp_trial *run)
{
    char request[EXP_REQUEST_TEXT];
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "id", exp_request_format(run->request, request));
    ebb_jsonw_key_int(w, "experiment_id", run->experiment->id);
    ebb_jsonw_key(w, "trial_id");
    if (run->id > 0)
        ebb_jsonw_int(w, run->id);
    else
        ebb_jsonw_null(w);
    ebb_jsonw_key_string(w, "state", state_of(run));
    ebb_jsonw_key(w, "slots");
    ebb_jsonw_array(w);
    if (run->alloc != NULL)
        ebb_jsonw_int(w, run->alloc->slot);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key_string(w, "waiting", run->alloc == NULL ? exp_sched_wait_text(run->wait) : NULL);
    ebb_jsonw_object_end(w);
}

enum ebb_status serve_rest_tasks(struct serve_rest *r)
{
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "tasks");
    ebb_jsonw_array(&r->w);
    for (const struct exp_trial *run = r->m->tasks_first; run != NULL; run = run->after)
        write_task(&r->w, run);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

enum ebb_status serve_rest_task(struct serve_rest *r)
{
    char request[EXP_REQUEST_TEXT];
    for (const struct exp_trial *run = r->m->tasks_first; run != NULL; run = run->after)
        if (strcmp(exp_request_format(run->request, request), r->name) == 0) {
            write_task(&r->w, run);
            return EBB_OK;
        }
    return serve_rest_refuse(r, 404, "no task %s", r->name);
}

static void write_agent(struct serve_rest *r)
{
    const struct exp_master *m = r->m;
    bool is_enabled = false;
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "id", "local");
    ebb_jsonw_key_string(&r->w, "label", "");
    ebb_jsonw_key(&r->w, "slots");
    ebb_jsonw_array(&r->w);
    for (int64_t i = 0; i < m->options.slots; i++) {
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key_int(&r->w, "id", i);
        ebb_jsonw_key_string(&r->w, "device", m->options.gpu_ids != NULL ? "gpu" : "cpu");
        ebb_jsonw_key(&r->w, "enabled");
        ebb_jsonw_bool(&r->w, !m->slot_disabled[i]);
        is_enabled |= !m->slot_disabled[i];
        ebb_jsonw_key(&r->w, "trial_id");
        if (m->slots[i] != 0)
            ebb_jsonw_int(&r->w, m->slots[i]);
        else
            ebb_jsonw_null(&r->w);
        ebb_jsonw_object_end(&r->w);
    }
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key(&r->w, "enabled");
    ebb_jsonw_bool(&r->w, is_enabled);
    ebb_jsonw_object_end(&r->w);
}

enum ebb_status serve_rest_agents(struct serve_rest *r)
{
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "agents");
    ebb_jsonw_array(&r->w);
    write_agent(r);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static enum ebb_status no_agent(struct serve_rest *r)
{
    return serve_rest_refuse(r, 404, "no agent %s; there is one: local", r->name);
}

enum ebb_status serve_rest_agent(struct serve_rest *r)
{
    if (strcmp(r->name, "local") != 0)
        return no_agent(r);
    write_agent(r);
    return EBB_OK;
}

/* All slots of the machine, as serve_rest_slot does it with one. */
enum ebb_status serve_rest_patch_agent(struct serve_rest *r)
{
    const struct ebb_doc_node *enabled = ebb_doc_get(r->body, "enabled");
    if (strcmp(r->name, "local") != 0)
        return no_agent(r);
    if (enabled == NULL || enabled->kind != EBB_DOC_BOOL)
        return serve_rest_refuse(r, 400, "enabled: true or false");
    for (int64_t i = 0; i < r->m->options.slots; i++)
        r->m->slot_disabled[i] = !enabled->boolean;
    r->m->is_schedule_due = true;
    return serve_rest_agents(r);
}

/* A trial in a disabled slot ends in order; the slot is given nothing more. */
enum ebb_status serve_rest_slot(struct serve_rest *r)
{
    const struct ebb_doc_node *enabled = ebb_doc_get(r->body, "enabled");
    if (r->id >= r->m->options.slots)
        return serve_rest_refuse(r, 404, "no slot %lld: there are 0 to %lld", (long long)r->id,
                                 (long long)r->m->options.slots - 1);
    if (enabled == NULL || enabled->kind != EBB_DOC_BOOL)
        return serve_rest_refuse(r, 400, "enabled: true or false");
    r->m->slot_disabled[r->id] = !enabled->boolean;
    r->m->is_schedule_due = true;
    return serve_rest_agents(r);
}

/* ---- events ---- */

enum ebb_status serve_rest_events(struct serve_rest *r)
{
    size_t count;
    bool is_cut;
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key(&r->w, "events");
    ebb_jsonw_array(&r->w);
    int64_t next =
        exp_notices_write(r->m, serve_rest_int(r, "after", 0, -1),
                          serve_rest_int(r, "experiment_id", 0, 0), &r->w, &count, &is_cut);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_int(&r->w, "next", next);
    ebb_jsonw_key(&r->w, "is_cut");
    ebb_jsonw_bool(&r->w, is_cut);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}
