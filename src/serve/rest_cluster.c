/* rest_cluster.c - tasks, slots, events: what only a running master knows. */
#include <string.h>

#include "serve/rest.h"

/* ---- tasks ---- */

static void write_task(struct ebb_json_writer *w, const struct exp_master_trial *t)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "id", t->request);
    ebb_jsonw_key_int(w, "experiment_id", t->experiment_id);
    serve_key_int(w, "trial_id", t->id, t->id > 0);
    ebb_jsonw_key_string(w, "state", t->state);
    ebb_jsonw_key_array(w, "slots");
    if (t->has_process)
        ebb_jsonw_int(w, t->slot);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key_string(w, "waiting", t->waiting);
    ebb_jsonw_object_end(w);
}

/* limit: so many of those that wait; who has slots is always told. */
static enum ebb_status tasks(struct serve_rest *r)
{
    struct exp_master_trial t;
    int64_t limit = serve_query_int(r, "limit", INT64_MAX, 0), total = 0, waiting = 0;
    serve_begin_list(r, "tasks");
    for (const void *at = NULL; exp_master_task(r->m, &at, &t); total++)
        if (t.has_process || waiting++ < limit)
            write_task(&r->w, &t);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_int(&r->w, "total", total);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static enum ebb_status task(struct serve_rest *r)
{
    struct exp_master_trial t;
    for (const void *at = NULL; exp_master_task(r->m, &at, &t);)
        if (strcmp(t.request, r->name) == 0) {
            write_task(&r->w, &t);
            return EBB_OK;
        }
    return serve_refuse(r, 404, "no task %s", r->name);
}

/* ---- slots ---- */

static void write_agent(struct serve_rest *r)
{
    const struct exp_master_options *o = r->info.options;
    bool is_any = false;
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_string(&r->w, "id", "local");
    ebb_jsonw_key_string(&r->w, "label", "");
    ebb_jsonw_key_array(&r->w, "slots");
    for (int64_t i = 0; i < o->slots; i++) {
        int64_t trial;
        bool is_enabled = exp_master_slot(r->m, i, &trial);
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key_int(&r->w, "id", i);
        ebb_jsonw_key_string(&r->w, "device", o->gpu_ids != NULL ? "gpu" : "cpu");
        ebb_jsonw_key_bool(&r->w, "enabled", is_enabled);
        serve_key_int(&r->w, "trial_id", trial, trial != 0);
        ebb_jsonw_object_end(&r->w);
        is_any |= is_enabled;
    }
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_bool(&r->w, "enabled", is_any);
    ebb_jsonw_object_end(&r->w);
}

static enum ebb_status agents(struct serve_rest *r)
{
    serve_begin_list(r, "agents");
    write_agent(r);
    serve_end_list(r);
    return EBB_OK;
}

static enum ebb_status need_agent(struct serve_rest *r)
{
    return strcmp(r->name, "local") == 0
               ? EBB_OK
               : serve_refuse(r, 404, "no agent %s; there is one: local", r->name);
}

static enum ebb_status agent(struct serve_rest *r)
{
    EBB_TRY(need_agent(r));
    write_agent(r);
    return EBB_OK;
}

/* Slots `first` to `last`. A trial in a disabled one ends in order; it is given nothing more. */
static enum ebb_status set_slots(struct serve_rest *r, int64_t first, int64_t last)
{
    const struct ebb_doc_node *enabled = ebb_doc_get(r->body, "enabled");
    if (enabled == NULL || enabled->kind != EBB_DOC_BOOL)
        return serve_refuse(r, 400, "enabled: true or false");
    for (int64_t i = first; i <= last; i++)
        exp_master_set_slot(r->m, i, enabled->boolean);
    return agents(r);
}

static enum ebb_status patch_agent(struct serve_rest *r)
{
    EBB_TRY(need_agent(r));
    return set_slots(r, 0, r->info.options->slots - 1);
}

static enum ebb_status patch_slot(struct serve_rest *r)
{
    int64_t last = r->info.options->slots - 1;
    if (r->id > last)
        return serve_refuse(r, 404, "no slot %lld: there are 0 to %lld", (long long)r->id,
                            (long long)last);
    return set_slots(r, r->id, r->id);
}

/* ---- events ---- */

static enum ebb_status events(struct serve_rest *r)
{
    size_t count;
    bool is_cut;
    struct exp_notice_filter filter = {.experiment_id = serve_query_int(r, "experiment_id", 0, 0),
                                       .trial_id = serve_query_int(r, "trial_id", 0, 0),
                                       .types = serve_query_text(r, "types")};
    int64_t after = serve_query_int(r, "after", 0, -1);
    serve_begin_list(r, "events");
    int64_t next = exp_notices_write(r->m, after, &filter, &r->w, &count, &is_cut);
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_int(&r->w, "next", next);
    ebb_jsonw_key_bool(&r->w, "is_cut", is_cut);
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/tasks", tasks, "trials that have or want slots", 0},
    {"GET", "/tasks/*", task, "one of them", 0},
    {"GET", "/agents", agents, "this machine and its slots", 0},
    {"GET", "/agents/*", agent, "one machine", 0},
    {"PATCH", "/agents/*", patch_agent, "enable or disable all its slots", 0},
    {"PATCH", "/agents/local/slots/#", patch_slot, "enable or disable a slot", 0},
    {"GET", "/events", events, "what changed", 0},
};
const struct serve_routes serve_routes_cluster = SERVE_ROUTES(routes);
