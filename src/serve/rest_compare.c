/* rest_compare.c - experiments or trials side by side: what differs in how they were made. */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "serve/rest.h"

#define SIDES_MAX 32
#define KEYS_MAX 4096

struct side {
    int64_t experiment, trial; /* trial 0: a whole experiment */
    const struct ebb_doc_node *config, *hparams;
    const char *state; /* of a trial; as its best, signed (NaN: none) */
    double best_signed;
};

struct comparison {
    struct serve_rest *r;
    struct side sides[SIDES_MAX];
    size_t side_count;
    struct ebb_strmap index; /* path: number */
    const char *paths[KEYS_MAX];
    const struct ebb_doc_node *(*values)[SIDES_MAX];
    size_t count;
};

/* Every leaf below a node, by its path. */
static enum ebb_status walk(struct comparison *c, size_t side, const char *prefix,
                            const struct ebb_doc_node *node)
{
    if (node == NULL)
        return EBB_OK;
    if (node->kind == EBB_DOC_MAP && node->count > 0) {
        for (size_t i = 0; i < node->count; i++) {
            const char *path = ebb_arena_printf(c->r->arena, "%s%s%s", prefix,
                                                prefix[0] != '\0' ? "." : "", node->keys[i]->text);
            if (path == NULL)
                return ebb_no_memory(c->r->err, node->keys[i]->length);
            EBB_TRY(walk(c, side, path, node->items[i]));
        }
        return EBB_OK;
    }
    uint64_t number = c->count;
    if (!ebb_strmap_get(&c->index, prefix, strlen(prefix), &number)) {
        if (c->count == KEYS_MAX)
            return EBB_OK;
        EBB_TRY(ebb_strmap_put(&c->index, prefix, strlen(prefix), number, c->r->err));
        c->paths[c->count++] = prefix;
    }
    c->values[number][side] = node;
    return EBB_OK;
}

static bool differs(const struct comparison *c, size_t key)
{
    for (size_t i = 1; i < c->side_count; i++) {
        const struct ebb_doc_node *a = c->values[key][0], *b = c->values[key][i];
        if ((a == NULL) != (b == NULL) || (a != NULL && !ebb_doc_equal(a, b)))
            return true;
    }
    return false;
}

static enum ebb_status read_config(struct serve_rest *r, struct side *s)
{
    struct exp_db_config row;
    const struct ebb_doc_node *root = NULL;
    EBB_TRY(serve_find(r, exp_db_config_read(r->db, EXP_DB_ID(s->experiment), &row, r->err),
                       "no experiment %lld", (long long)s->experiment));
    EBB_TRY(ebb_doc_parse_json(r->arena, "config", row.config, strlen(row.config), &root, r->err));
    s->config = exp_config_masked(r->arena, root);
    return EBB_OK;
}

static enum ebb_status read_trial(struct serve_rest *r, struct side *s)
{
    struct exp_db_trial_shown row;
    EBB_TRY(serve_find(r, exp_db_trial_show(r->db, EXP_DB_ID(s->trial), &row, r->err),
                       "no trial %lld", (long long)s->trial));
    s->experiment = row.experiment_id;
    s->best_signed = row.best_signed;
    s->state = ebb_arena_strndup(r->arena, row.state, strlen(row.state));
    if (s->state == NULL)
        return ebb_no_memory(r->err, strlen(row.state));
    return ebb_doc_parse_json(r->arena, "hparams", row.hparams, strlen(row.hparams), &s->hparams,
                              r->err);
}

static enum ebb_status add_sides(struct comparison *c, const char *ids, bool is_trial)
{
    struct serve_rest *r = c->r;
    for (const char *at = ids != NULL ? ids : ""; *at != '\0';) {
        size_t n = strcspn(at, ",");
        int64_t id = 0;
        char *text = ebb_arena_strndup(r->arena, at, n);
        if (text == NULL || !ebb_parse_i64(text, &id) || c->side_count == SIDES_MAX)
            return serve_refuse(r, 400,
                                "%s: found '%.80s', allowed: at most %d numbers, with commas",
                                is_trial ? "trials" : "ids", ids, SIDES_MAX);
        struct side *s = &c->sides[c->side_count++];
        *s = (struct side){.experiment = id, .trial = is_trial ? id : 0};
        if (is_trial)
            EBB_TRY(read_trial(r, s));
        EBB_TRY(read_config(r, s));
        at += n + (at[n] == ',');
    }
    return EBB_OK;
}

static enum ebb_status write_side(struct serve_rest *r, const struct side *s)
{
    struct exp_db_experiment row;
    EBB_TRY(serve_find(r, exp_db_experiment_read(r->db, EXP_DB_ID(s->experiment), &row, r->err),
                       "no experiment %lld", (long long)s->experiment));
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_int(&r->w, "experiment_id", s->experiment);
    serve_key_int(&r->w, "trial_id", s->trial != 0 ? s->trial : row.best_trial_id,
                  s->trial != 0 || row.best_trial_id != EXP_DB_NO_INT);
    ebb_jsonw_key_string(&r->w, "description", row.description);
    ebb_jsonw_key_string(&r->w, "state", s->trial != 0 ? s->state : row.state);
    ebb_jsonw_key_string(&r->w, "metric", row.metric);
    ebb_jsonw_key_bool(&r->w, "smaller_is_better", row.smaller_is_better);
    double best = s->trial != 0 ? s->best_signed : row.best_signed;
    ebb_jsonw_key(&r->w, "best_metric");
    if (isnan(best))
        ebb_jsonw_null(&r->w);
    else
        ebb_jsonw_metric(&r->w, exp_metric_unsigned(best, row.smaller_is_better));
    ebb_jsonw_object_end(&r->w);
    return EBB_OK;
}

static enum ebb_status compare(struct serve_rest *r)
{
    struct comparison *c = ebb_arena_calloc(r->arena, 1, sizeof *c);
    if (c == NULL || (c->values = ebb_arena_calloc(r->arena, KEYS_MAX, sizeof *c->values)) == NULL)
        return ebb_no_memory(r->err, sizeof *c);
    c->r = r;
    EBB_TRY(serve_flush(r));
    EBB_TRY(add_sides(c, serve_query_text(r, "ids"), false));
    EBB_TRY(add_sides(c, serve_query_text(r, "trials"), true));
    if (c->side_count == 0)
        return serve_refuse(r, 400, "ids: missing, allowed: experiments; or trials, with commas");
    ebb_strmap_init(&c->index);
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; status == EBB_OK && i < c->side_count; i++) {
        status = walk(c, i, "", c->sides[i].config);
        EBB_THEN(status, walk(c, i, "trial", c->sides[i].hparams));
    }
    ebb_strmap_fini(&c->index);
    EBB_TRY(status);
    ebb_jsonw_object(&r->w);
    ebb_jsonw_key_array(&r->w, "sides");
    for (size_t i = 0; i < c->side_count; i++)
        EBB_TRY(write_side(r, &c->sides[i]));
    ebb_jsonw_array_end(&r->w);
    ebb_jsonw_key_uint(&r->w, "keys", c->count);
    ebb_jsonw_key_array(&r->w, "differing");
    for (size_t k = 0; k < c->count; k++) {
        if (!differs(c, k))
            continue;
        ebb_jsonw_object(&r->w);
        ebb_jsonw_key_string(&r->w, "key", c->paths[k]);
        ebb_jsonw_key_array(&r->w, "values");
        for (size_t i = 0; i < c->side_count; i++)
            ebb_doc_write_json(c->values[k][i], &r->w);
        ebb_jsonw_array_end(&r->w);
        ebb_jsonw_object_end(&r->w);
    }
    serve_end_list(r);
    return EBB_OK;
}

static const struct serve_route routes[] = {
    {"GET", "/compare", compare, "experiments or trials side by side", SERVE_APART},
};
const struct serve_routes serve_routes_compare = SERVE_ROUTES(routes);
