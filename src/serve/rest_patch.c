/* rest_patch.c - PATCH /experiments/ID: everything is checked before anything is changed. */
#include <string.h>

#include "serve/experiment.h"

struct patch {
    struct exp_db_experiment_told told; /* as it is, then as it is to be */
    const struct ebb_doc_node *labels;  /* names to true or null; NULL = as they are */
    enum exp_state state;
    bool has_state, has_archived, has_weight, has_max_slots, has_save;
};

/* ---- reading: NULL, or what is wrong ---- */

static const char *read_resources(const struct ebb_doc_node *node, struct patch *p)
{
    const struct ebb_doc_node *slots = ebb_doc_get(node, "max_slots");
    const struct ebb_doc_node *weight = ebb_doc_get(node, "weight");
    if (node->kind != EBB_DOC_MAP)
        return "not a mapping";
    if (node->count > (size_t)((slots != NULL) + (weight != NULL)))
        return "only max_slots and weight can be changed";
    if (slots != NULL) {
        p->has_max_slots = true;
        p->told.max_slots = slots->kind == EBB_DOC_INT ? slots->integer : EXP_DB_NO_INT;
        if (slots->kind != EBB_DOC_NULL && (slots->kind != EBB_DOC_INT || slots->integer < 1))
            return "max_slots is a number > 0, or null for no limit; to hold all trials back, "
                   "pause "
                   "the experiment";
    }
    if (weight != NULL) {
        p->has_weight = true;
        p->told.weight = weight->number;
        if ((weight->kind != EBB_DOC_INT && weight->kind != EBB_DOC_DOUBLE) ||
            !(p->told.weight > 0) || p->told.weight > 1e12)
            return "weight is a number > 0, <= 1000000000000";
    }
    return NULL;
}

static const char *read_storage(const struct ebb_doc_node *node, struct patch *p)
{
    const struct {
        const char *name;
        int64_t *count;
    } counts[] = {{"save_experiment_best", &p->told.save_experiment_best},
                  {"save_trial_best", &p->told.save_trial_best},
                  {"save_trial_latest", &p->told.save_trial_latest}};
    if (node->kind != EBB_DOC_MAP)
        return "not a mapping";
    for (size_t i = 0; i < node->count; i++) {
        int64_t *count = NULL;
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            if (strcmp(node->keys[i]->text, counts[k].name) == 0)
                count = counts[k].count;
        if (count == NULL)
            return "only the save_* counts can be changed";
        if (node->items[i]->kind != EBB_DOC_INT || node->items[i]->integer < 0)
            return "save_* counts are numbers >= 0";
        *count = node->items[i]->integer;
        p->has_save = true;
    }
    return NULL;
}

static const char *read_text(const struct ebb_doc_node *node, const char **text)
{
    *text = node->text;
    return node->kind == EBB_DOC_STRING ? NULL : "not a text";
}

static const char *read_labels(const struct ebb_doc_node *node, struct patch *p)
{
    p->labels = node;
    if (node->kind != EBB_DOC_MAP)
        return "a mapping of name to true or null";
    for (size_t i = 0; i < node->count; i++) {
        const struct ebb_doc_node *value = node->items[i];
        if (node->keys[i]->text[0] == '\0')
            return "a label is not empty";
        if (value->kind != EBB_DOC_NULL && (value->kind != EBB_DOC_BOOL || !value->boolean))
            return "a mapping of name to true or null";
    }
    return NULL;
}

static const char *read_state(const struct ebb_doc_node *node, struct patch *p)
{
    p->has_state = true;
    return node->kind != EBB_DOC_STRING || !exp_state_parse(node->text, &p->state) ||
                   p->state > EXP_STOPPING_CANCELED
               ? "only ACTIVE, PAUSED and STOPPING_CANCELED can be set"
               : NULL;
}

static const char *read_one(const char *key, const struct ebb_doc_node *node, struct patch *p)
{
    if (strcmp(key, "state") == 0)
        return read_state(node, p);
    if (strcmp(key, "description") == 0)
        return read_text(node, &p->told.description);
    if (strcmp(key, "notes") == 0)
        return read_text(node, &p->told.notes);
    if (strcmp(key, "labels") == 0)
        return read_labels(node, p);
    if (strcmp(key, "resources") == 0)
        return read_resources(node, p);
    if (strcmp(key, "checkpoint_storage") == 0)
        return read_storage(node, p);
    if (strcmp(key, "archived") == 0) {
        p->has_archived = true;
        p->told.archived = node->boolean;
        return node->kind == EBB_DOC_BOOL ? NULL : "true or false";
    }
    return "cannot be changed";
}

/* ---- changing ---- */

/* The old ones without those that are named, then those that are to be there. */
static enum ebb_status change_labels(struct serve_rest *r, struct patch *p)
{
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    const struct ebb_doc_node *old = NULL;
    EBB_TRY(ebb_doc_parse_json(r->arena, "labels", p->told.labels, strlen(p->told.labels), &old,
                               r->err));
    ebb_jsonw_init(&w, &text, 0);
    ebb_jsonw_array(&w);
    for (size_t i = 0; i < old->count; i++)
        if (ebb_doc_get(p->labels, old->items[i]->text) == NULL)
            ebb_jsonw_string(&w, old->items[i]->text);
    for (size_t i = 0; i < p->labels->count; i++)
        if (p->labels->items[i]->kind == EBB_DOC_BOOL)
            ebb_jsonw_string(&w, p->labels->keys[i]->text);
    ebb_jsonw_array_end(&w);
    p->told.labels = ebb_arena_strndup(r->arena, ebb_str_c(&text), text.length);
    bool has_failed = text.failed || p->told.labels == NULL;
    ebb_str_fini(&text);
    return has_failed ? ebb_no_memory(r->err, 64) : EBB_OK;
}

static enum ebb_status change(struct serve_rest *r, struct patch *p, enum exp_state state)
{
    int64_t max_slots = p->told.max_slots != EXP_DB_NO_INT ? p->told.max_slots : -1;
    if (p->labels != NULL)
        EBB_TRY(change_labels(r, p));
    EBB_TRY(exp_db_experiment_tell(r->db, &p->told, r->err));
    if (p->has_weight || p->has_max_slots)
        exp_master_set_share(r->m, r->id, p->has_weight ? &p->told.weight : NULL,
                             p->has_max_slots ? &max_slots : NULL);
    if (p->has_save && exp_state_is_ended(state) && state < EXP_DELETING)
        EBB_TRY(exp_master_collect(r->m, r->id, r->err));
    return exp_master_settle(r->m, r->id, true, r->err);
}

enum ebb_status serve_patch_experiment(struct serve_rest *r)
{
    struct patch p = {0};
    enum exp_state state;
    EBB_TRY(serve_read_state(r, &state));
    EBB_TRY(exp_db_only(exp_db_experiment_told(r->db, EXP_DB_ID(r->id), &p.told, r->err), r->arena,
                        NULL));
    for (size_t i = 0; r->body != NULL && i < r->body->count; i++) {
        const char *key = r->body->keys[i]->text;
        const char *bad = read_one(key, r->body->items[i], &p);
        if (bad != NULL)
            return serve_refuse(r, 400, "%s: %s", key, bad);
    }
    if (p.has_archived)
        EBB_TRY(serve_need_ended(r, state, "only ended ones are archived"));
    if (p.has_state)
        EBB_TRY(serve_change_state(r, state, p.state));
    EBB_TRY(change(r, &p, state));
    return serve_answer_experiment(r);
}
