/* notice.c - what changed, for followers: a ring of JSON objects with growing numbers.
 *
 * Numbers start at the time in microseconds, so that a cursor from before a restart is simply old.
 * Notices are not stored: a follower that fell behind is told so and reads the objects again. */
#include <string.h>

#include "base/heap.h"
#include "exp/master/inner.h"

static void begin(struct exp_master *m, struct ebb_str *text, struct ebb_json_writer *w,
                  const char *type, int64_t experiment, int64_t trial)
{
    struct exp_notice *n = &m->notices[(uint64_t)m->notice_next % EXP_NOTICES];
    ebb_free(n->json);
    *n = (struct exp_notice){.experiment_id = experiment, .trial_id = trial, .type = type};
    ebb_str_init(text);
    ebb_jsonw_init(w, text, 0);
    ebb_jsonw_object(w);
    ebb_jsonw_key_int(w, "seq", m->notice_next);
    ebb_jsonw_key_string(w, "type", type);
    ebb_jsonw_key_int(w, "experiment_id", experiment);
    ebb_jsonw_key(w, "trial_id");
    if (trial > 0)
        ebb_jsonw_int(w, trial);
    else
        ebb_jsonw_null(w);
    ebb_jsonw_key(w, "time");
    exp_time_write(w, m->time);
}

/* Lost when memory is out: a notice is a courtesy. */
static void end(struct exp_master *m, struct ebb_str *text, struct ebb_json_writer *w)
{
    struct exp_notice *n = &m->notices[(uint64_t)m->notice_next % EXP_NOTICES];
    ebb_jsonw_object_end(w);
    n->json = ebb_str_take(text);
    n->seq = m->notice_next++;
    if (m->notice_count < EXP_NOTICES)
        m->notice_count++;
    m->has_news = true;
}

void exp_notice_experiment(struct exp_master *m, const struct exp_experiment *e)
{
    struct ebb_str text;
    struct ebb_json_writer w;
    begin(m, &text, &w, "experiment", e->id, 0);
    ebb_jsonw_key_string(&w, "state", exp_state_name(e->state));
    ebb_jsonw_key(&w, "progress");
    if (e->search != NULL && !exp_state_is_ended(e->state))
        ebb_jsonw_double(&w, exp_search_progress(e->search));
    else
        ebb_jsonw_null(&w);
    ebb_jsonw_key_string(&w, "error", e->error);
    end(m, &text, &w);
}

void exp_notice_trial(struct exp_master *m, const struct exp_trial *r)
{
    struct ebb_str text;
    struct ebb_json_writer w;
    begin(m, &text, &w, "trial", r->experiment->id, r->id);
    ebb_jsonw_key_string(&w, "state", exp_trial_state_name(r->state));
    ebb_jsonw_key_bool(&w, "is_running", r->alloc != NULL);
    ebb_jsonw_key_int(&w, "restarts", r->sequence.restarts);
    ebb_jsonw_key_string(&w, "message", r->message);
    end(m, &text, &w);
}

void exp_notice_work(struct exp_master *m, const struct exp_trial *r, const char *type,
                     int64_t step, const char *uuid, const double *metric, bool is_best)
{
    struct ebb_str text;
    struct ebb_json_writer w;
    begin(m, &text, &w, type, r->experiment->id, r->id);
    ebb_jsonw_key_int(&w, "step_id", step);
    if (uuid != NULL)
        ebb_jsonw_key_string(&w, "uuid", uuid);
    if (metric != NULL) {
        ebb_jsonw_key(&w, strcmp(type, "step") == 0 ? "loss" : "metric");
        ebb_jsonw_metric(&w, *metric);
        ebb_jsonw_key_bool(&w, "is_best", is_best);
    }
    end(m, &text, &w);
}

void exp_notice_metrics(struct exp_master *m, const struct exp_trial *r, int64_t step, double time,
                        bool is_validation, const struct ebb_doc_node *metrics)
{
    const struct exp_experiment *e = r->experiment;
    if (m->options.on_metrics == NULL || e->board == NULL || metrics == NULL)
        return;
    struct exp_measured *one = ebb_arena_calloc(&m->turn_arena, 1, sizeof *one);
    char *path = ebb_arena_printf(&m->turn_arena, "%s/trial/%lld", e->board, (long long)r->id);
    if (one == NULL || path == NULL)
        return; /* not worth failing for */
    one->metrics = (struct exp_master_metrics){.directory = path,
                                               .experiment_id = e->id,
                                               .trial_id = r->id,
                                               .step_id = step,
                                               .batches = step * e->config.batches_per_step,
                                               .is_validation = is_validation,
                                               .time = time,
                                               .metrics = metrics};
    if (m->measured_last != NULL)
        m->measured_last->next = one;
    else
        m->measured_first = one;
    m->measured_last = one;
    exp_board_touch(m, e);
}

void exp_notice_log(struct exp_master *m, const struct exp_trial *r)
{
    struct ebb_str text;
    struct ebb_json_writer w;
    begin(m, &text, &w, "log", r->experiment->id, r->id);
    end(m, &text, &w);
}

void exp_notices_free(struct exp_master *m)
{
    for (size_t i = 0; i < EXP_NOTICES; i++) {
        ebb_free(m->notices[i].json);
        m->notices[i].json = NULL;
    }
    m->notice_count = 0;
}

/* Is the word one of those in "a,b,c"? NULL and "": all are. */
static bool is_listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    }
    return list == NULL || list[0] == '\0';
}

static bool is_wanted(const struct exp_notice *n, const struct exp_notice_filter *f)
{
    return n->json != NULL && (f->experiment_id == 0 || n->experiment_id == f->experiment_id) &&
           (f->trial_id == 0 || n->trial_id == f->trial_id) && is_listed(f->types, n->type);
}

int64_t exp_notices_write(const struct exp_master *m, int64_t after,
                          const struct exp_notice_filter *filter, struct ebb_json_writer *w,
                          size_t *count, bool *is_cut)
{
    int64_t oldest = m->notice_next - (int64_t)m->notice_count;
    *is_cut = after >= 0 && (after + 1 < oldest || after >= m->notice_next);
    *count = 0;
    int64_t seq = after < 0 || after >= m->notice_next ? m->notice_next
                  : after + 1 > oldest                 ? after + 1
                                                       : oldest;
    for (; seq < m->notice_next; seq++) {
        const struct exp_notice *n = &m->notices[(uint64_t)seq % EXP_NOTICES];
        if (!is_wanted(n, filter))
            continue;
        ebb_jsonw_raw(w, n->json, strlen(n->json));
        ++*count;
    }
    return m->notice_next - 1;
}
