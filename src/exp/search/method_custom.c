/* method_custom.c - the search is an external program that reads events and answers with
 * operations, one JSON object a line (specification 19.2). Here is only the protocol, as a state
 * machine; nobody starts a program yet (exp/config/unbuilt.c says so to users).
 *
 * Out: {"id":N,"event":{"type":"initial"|"trial_created"|"trial_progress"|..., ...}}
 * In:  {"type":"OPERATIONS","last_event":N,"operations":[
 *          {"type":"create","request_id":uuid,"hparams":{...},"trial_seed":n?},
 *          {"type":"train_until","request_id":uuid,"step":n}, {"type":"close","request_id":uuid},
 *          {"type":"set_progress","progress":p}, {"type":"shutdown","failure":b?}]}
 *
 * An event waits until an answer's last_event reaches it, through restarts of either side; an
 * answer is taken whole or not at all. Progress of a trial is told again only once the last word of
 * it was answered, so that at most one such event waits for each trial. */
#include "exp/search/method.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"

#define OPERATIONS_MAX 4096 /* in one answer: each is checked against those before it */

struct waiting {
    int64_t id;
    uint32_t trial; /* of a trial_progress event, else EXP_NO_TRIAL */
    char *text;     /* owned: the event object */
};

struct custom {
    struct waiting *events;
    size_t count, capacity;
    int64_t last_id;
    double progress;
    bool *has_progress; /* by trial: a trial_progress event waits */
    size_t progress_capacity;
};

static struct custom *state_of(const struct exp_search *s)
{
    return s->state;
}

static void custom_fini(struct exp_search *s)
{
    struct custom *c = state_of(s);
    for (size_t i = 0; i < c->count; i++)
        ebb_free(c->events[i].text);
    ebb_free(c->events);
    ebb_free(c->has_progress);
}

/* ---- events out ---- */

static enum ebb_status add_text(struct custom *c, int64_t id, uint32_t trial,
                                struct ebb_str *take_text, struct ebb_error *err)
{
    enum ebb_status status = ebb_str_status(take_text, err);
    EBB_THEN(status, ebb_grow(&c->events, &c->capacity, c->count + 1, sizeof *c->events, err));
    if (status == EBB_OK) {
        char *text = ebb_str_take(take_text);
        c->events[c->count++] = (struct waiting){.id = id, .trial = trial, .text = text};
        c->last_id = id;
    }
    ebb_str_fini(take_text);
    return status;
}

static enum ebb_status add_event(struct exp_search *s, const struct exp_event *event,
                                 struct ebb_error *err)
{
    struct custom *c = state_of(s);
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &text, 0);
    exp_event_write(event, &w);
    return add_text(c, c->last_id + 1, EXP_NO_TRIAL, &text, err);
}

static enum ebb_status custom_start(struct exp_search *s, struct ebb_error *err)
{
    struct custom *c = state_of(s);
    struct ebb_str text = {0};
    ebb_str_add(&text, "{\"type\":\"initial\"}");
    return add_text(c, c->last_id + 1, EXP_NO_TRIAL, &text, err);
}

static enum ebb_status custom_created(struct exp_search *s, uint32_t trial, int64_t trial_id,
                                      struct ebb_error *err)
{
    struct exp_event event = {
        .kind = EXP_EVENT_CREATED, .request = s->trials[trial].id, .trial_id = trial_id};
    return add_event(s, &event, err);
}

/* Room for the marks of every trial. */
static enum ebb_status grow_marks(struct exp_search *s, struct ebb_error *err)
{
    struct custom *c = state_of(s);
    size_t known = c->progress_capacity;
    if (s->trial_count == 0)
        return EBB_OK;
    EBB_TRY(ebb_grow(&c->has_progress, &c->progress_capacity, s->trial_count,
                     sizeof *c->has_progress, err));
    if (c->progress_capacity > known)
        memset(c->has_progress + known, 0, c->progress_capacity - known);
    return EBB_OK;
}

static enum ebb_status custom_trained(struct exp_search *s, uint32_t trial, int64_t step,
                                      struct ebb_error *err)
{
    struct custom *c = state_of(s);
    char id[EXP_REQUEST_TEXT];
    struct ebb_str text = {0};
    EBB_TRY(grow_marks(s, err));
    if (c->has_progress[trial])
        return EBB_OK;
    ebb_str_printf(&text, "{\"type\":\"trial_progress\",\"request_id\":\"%s\",\"step\":%lld}",
                   exp_request_format(s->trials[trial].id, id), (long long)step);
    EBB_TRY(add_text(c, c->last_id + 1, trial, &text, err));
    c->has_progress[trial] = true;
    return EBB_OK;
}

static enum ebb_status custom_validated(struct exp_search *s, uint32_t trial, int64_t step,
                                        double metric, struct ebb_error *err)
{
    struct exp_event event = {.kind = EXP_EVENT_VALIDATED,
                              .request = s->trials[trial].id,
                              .step = step,
                              .metric = s->config->smaller_is_better ? metric : -metric};
    return add_event(s, &event, err);
}

static enum ebb_status custom_closed(struct exp_search *s, uint32_t trial, struct ebb_error *err)
{
    struct exp_event event = {.kind = EXP_EVENT_CLOSED, .request = s->trials[trial].id};
    return add_event(s, &event, err);
}

static enum ebb_status custom_exited(struct exp_search *s, uint32_t trial,
                                     enum exp_exit_reason reason, bool has_work,
                                     struct ebb_error *err)
{
    struct exp_event event = {
        .kind = EXP_EVENT_EXITED, .request = s->trials[trial].id, .reason = reason};
    (void)has_work;
    return add_event(s, &event, err);
}

static double custom_progress(const struct exp_search *s)
{
    return state_of(s)->progress;
}

static enum ebb_status check_kind(const struct exp_search *s, struct ebb_error *err)
{
    if (s->method != &exp_method_custom)
        return ebb_fail(err, EBB_EINPUT, "searcher '%s' is no external program",
                        exp_searcher_name(s->config->kind));
    return EBB_OK;
}

enum ebb_status exp_custom_events(const struct exp_search *s, int64_t after, struct ebb_str *lines,
                                  struct ebb_error *err)
{
    EBB_TRY(check_kind(s, err));
    const struct custom *c = state_of(s);
    for (size_t i = 0; i < c->count; i++)
        if (c->events[i].id > after)
            ebb_str_printf(lines, "{\"id\":%lld,\"event\":%s}\n", (long long)c->events[i].id,
                           c->events[i].text);
    return ebb_str_status(lines, err);
}

int64_t exp_custom_last_event(const struct exp_search *s)
{
    return s->method == &exp_method_custom ? state_of(s)->last_id : 0;
}

/* ---- operations in ---- */

static enum ebb_status read_list(const struct ebb_doc_node *map, const char *key,
                                 const struct ebb_doc_node **list, struct ebb_error *err)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, key);
    if (node == NULL || node->kind != EBB_DOC_LIST)
        return ebb_fail(err, EBB_EINPUT, "%s: %s, expected a list", key,
                        node == NULL ? "missing" : ebb_doc_kind_text(node->kind));
    *list = node;
    return EBB_OK;
}

static enum ebb_status read_member(const struct ebb_doc_node *map, const char *key, int64_t low,
                                   int64_t high, int64_t *value, struct ebb_error *err)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, key);
    if (node == NULL || node->kind != EBB_DOC_INT)
        return ebb_fail(err, EBB_EINPUT, "%s: %s, expected an integer", key,
                        node == NULL ? "missing" : ebb_doc_kind_text(node->kind));
    if (node->integer < low || node->integer > high)
        return ebb_fail(err, EBB_EINPUT, "%s: %lld is not in %lld..%lld", key,
                        (long long)node->integer, (long long)low, (long long)high);
    *value = node->integer;
    return EBB_OK;
}

static enum ebb_status read_request(const struct ebb_doc_node *node, const char *what,
                                    struct exp_request_id *id, struct ebb_error *err)
{
    if (node == NULL || node->kind != EBB_DOC_STRING ||
        !exp_request_parse(node->text, node->length, id))
        return ebb_fail(err, EBB_EINPUT, "%s: no request id", what);
    return EBB_OK;
}

enum answer_kind { ANSWER_CREATE, ANSWER_TRAIN, ANSWER_CLOSE, ANSWER_PROGRESS, ANSWER_SHUTDOWN };

static const char *const answer_names[] = {"create", "train_until", "close", "set_progress",
                                           "shutdown"};

struct answer {
    enum answer_kind kind;
    struct exp_request_id id;
    int64_t step, seed; /* seed -1: draw one */
    const struct ebb_doc_node *hparams;
    double progress;
    bool is_failure;
};

static enum ebb_status read_answer(const struct ebb_doc_node *node, struct answer *answer,
                                   struct ebb_error *err)
{
    const char *type = ebb_doc_string(node, "type", "");
    size_t kind = 0, kinds = sizeof answer_names / sizeof *answer_names;
    while (kind < kinds && strcmp(type, answer_names[kind]) != 0)
        kind++;
    if (kind == kinds)
        return ebb_fail(err, EBB_EINPUT,
                        "type '%s', allowed: create, train_until, close, "
                        "set_progress, shutdown",
                        type);
    *answer = (struct answer){.kind = (enum answer_kind)kind, .seed = -1};
    if (answer->kind <= ANSWER_CLOSE)
        EBB_TRY(read_request(ebb_doc_get(node, "request_id"), "request_id", &answer->id, err));
    if (answer->kind == ANSWER_TRAIN)
        EBB_TRY(read_member(node, "step", 1, INT64_MAX / 2, &answer->step, err));
    if (answer->kind == ANSWER_CREATE) {
        answer->hparams = ebb_doc_get(node, "hparams");
        if (answer->hparams == NULL || answer->hparams->kind != EBB_DOC_MAP)
            return ebb_fail(err, EBB_EINPUT, "hparams: expected a mapping");
        if (ebb_doc_get(node, "trial_seed") != NULL)
            EBB_TRY(read_member(node, "trial_seed", 0, INT32_MAX, &answer->seed, err));
    }
    if (answer->kind == ANSWER_PROGRESS) {
        answer->progress = ebb_doc_double(node, "progress", -1);
        if (!(answer->progress >= 0 && answer->progress <= 1))
            return ebb_fail(err, EBB_EINPUT, "progress: not in 0..1");
    }
    answer->is_failure = ebb_doc_bool(node, "failure", false);
    return EBB_OK;
}

/* What an answer may refer to: trials before it, and those that earlier operations of it create. */
struct view {
    const struct exp_search *s;
    const struct answer *answers;
    size_t count; /* operations before this one */
};

static bool is_known(const struct view *view, struct exp_request_id id, int64_t *requested,
                     bool *is_closed)
{
    uint32_t trial;
    bool known = exp_search_find(view->s, id, &trial);
    *requested = known ? view->s->trials[trial].requested : 0;
    *is_closed =
        known && (view->s->trials[trial].is_close_asked || view->s->trials[trial].is_closed);
    for (size_t i = 0; i < view->count; i++) {
        const struct answer *a = &view->answers[i];
        if (a->kind > ANSWER_CLOSE || memcmp(&a->id, &id, sizeof id) != 0)
            continue;
        known |= a->kind == ANSWER_CREATE;
        *is_closed |= a->kind == ANSWER_CLOSE;
        if (a->kind == ANSWER_TRAIN)
            *requested = a->step;
    }
    return known;
}

static enum ebb_status check_answer(const struct view *view, const struct answer *answer,
                                    struct ebb_error *err)
{
    char text[EXP_REQUEST_TEXT];
    int64_t requested;
    bool is_closed;
    if (answer->kind > ANSWER_CLOSE)
        return EBB_OK;
    bool known = is_known(view, answer->id, &requested, &is_closed);
    exp_request_format(answer->id, text);
    if (answer->kind == ANSWER_CREATE)
        return known ? ebb_fail(err, EBB_EINPUT, "request_id: trial %s exists already", text)
                     : EBB_OK;
    if (!known)
        return ebb_fail(err, EBB_EINPUT, "request_id: there is no trial %s", text);
    if (answer->kind == ANSWER_TRAIN && (is_closed || answer->step <= requested))
        return ebb_fail(err, EBB_EINPUT,
                        is_closed ? "trial %s is closed" : "step: trial %s already has step %lld",
                        text, (long long)requested);
    return EBB_OK;
}

static enum ebb_status apply_create(struct exp_search *s, const struct answer *answer,
                                    struct ebb_error *err)
{
    struct exp_new_trial new_trial = {.parent = EXP_NO_TRIAL};
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    uint32_t trial;
    ebb_jsonw_init(&w, &text, 0);
    ebb_doc_write_json(answer->hparams, &w);
    enum ebb_status status = ebb_str_status(&text, err);
    if (status == EBB_OK) {
        new_trial.identity.id = answer->id;
        new_trial.identity.seed = answer->seed >= 0
                                      ? (uint32_t)answer->seed
                                      : (uint32_t)ebb_mt_int64(&s->rng, 0, INT64_C(1) << 31);
        new_trial.hparams_json = ebb_str_c(&text);
        status = exp_search_ask_create(s, &new_trial, &trial, err);
    }
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status apply(struct exp_search *s, const struct answer *answer,
                             struct ebb_error *err)
{
    uint32_t trial = 0;
    if (answer->kind == ANSWER_TRAIN || answer->kind == ANSWER_CLOSE)
        exp_search_find(s, answer->id, &trial);
    switch (answer->kind) {
    case ANSWER_CREATE:
        return apply_create(s, answer, err);
    case ANSWER_TRAIN: /* a trial that exited meanwhile: the program will read of it */
        return s->trials[trial].is_closed ? EBB_OK
                                          : exp_search_ask_train(s, trial, answer->step, err);
    case ANSWER_CLOSE:
        return exp_search_ask_close(s, trial, err);
    case ANSWER_PROGRESS:
        state_of(s)->progress = answer->progress;
        return EBB_OK;
    case ANSWER_SHUTDOWN:
        return s->is_shut_down ? EBB_OK : exp_search_ask_shutdown(s, answer->is_failure, err);
    }
    return EBB_OK;
}

/* Events up to `last` have been handled. */
static void forget_events(struct custom *c, int64_t last)
{
    size_t done = 0;
    while (done < c->count && c->events[done].id <= last) {
        if (c->events[done].trial != EXP_NO_TRIAL)
            c->has_progress[c->events[done].trial] = false;
        ebb_free(c->events[done++].text);
    }
    c->count -= done;
    if (done > 0 && c->count > 0)
        memmove(c->events, c->events + done, c->count * sizeof *c->events);
}

static enum ebb_status read_message(const struct exp_search *s, const struct ebb_doc_node *root,
                                    struct ebb_arena *arena, struct answer **answers, size_t *count,
                                    int64_t *last, struct ebb_error *err)
{
    const struct ebb_doc_node *list = NULL;
    if (strcmp(ebb_doc_string(root, "type", ""), "OPERATIONS") != 0)
        return ebb_fail(err, EBB_EINPUT, "type is not OPERATIONS");
    EBB_TRY(read_member(root, "last_event", 0, state_of(s)->last_id, last, err));
    EBB_TRY(read_list(root, "operations", &list, err));
    if (list->count > OPERATIONS_MAX)
        return ebb_fail(err, EBB_EINPUT, "operations: %zu in one answer, at most %d", list->count,
                        OPERATIONS_MAX);
    *answers = ebb_arena_calloc(arena, list->count + 1, sizeof **answers);
    if (*answers == NULL)
        return ebb_no_memory(err, list->count * sizeof **answers);
    for (size_t i = 0; i < list->count; i++) {
        struct view view = {.s = s, .answers = *answers, .count = i};
        enum ebb_status status = read_answer(list->items[i], &(*answers)[i], err);
        EBB_THEN(status, check_answer(&view, &(*answers)[i], err));
        if (status != EBB_OK)
            return ebb_context(err, status, "operations[%zu]", i);
    }
    *count = list->count;
    return EBB_OK;
}

enum ebb_status exp_custom_answer(struct exp_search *s, const char *line, size_t length,
                                  struct exp_ops *ops, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *root;
    struct answer *answers = NULL;
    size_t count = 0, op_count = ops->count, creates = ops->create_count;
    int64_t last = 0;
    EBB_TRY(check_kind(s, err));
    if (s->is_broken || !s->is_started)
        return ebb_fail(err, EBB_EINTERNAL, "search: not ready for an answer");
    enum ebb_status status = ebb_doc_parse_json(&arena, "search program", line, length, &root, err);
    if (status == EBB_OK) {
        status = read_message(s, root, &arena, &answers, &count, &last, err);
        if (status != EBB_OK)
            ebb_context(err, status, "search program");
    }
    if (status == EBB_OK && !s->is_shut_down) {
        s->out = ops;
        for (size_t i = 0; status == EBB_OK && i < count; i++)
            status = apply(s, &answers[i], err);
        EBB_THEN(status, exp_search_settle(s, err));
        if (status == EBB_OK)
            forget_events(state_of(s), last);
        if (status != EBB_OK) { /* memory only: everything else was checked before */
            s->is_broken = true;
            ops->count = op_count;
            ops->create_count = creates;
        }
        s->out = NULL;
    }
    ebb_arena_fini(&arena);
    return status;
}

const struct exp_search_method exp_method_custom = {
    .ends_itself = true,
    .state_bytes = sizeof(struct custom),
    .fini = custom_fini,
    .start = custom_start,
    .created = custom_created,
    .trained = custom_trained,
    .validated = custom_validated,
    .closed = custom_closed,
    .exited = custom_exited,
    .progress = custom_progress,
};
