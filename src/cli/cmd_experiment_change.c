/* cmd_experiment_change.c - ebb experiment activate ... delete, label, set, wait: changing what is
 * there. */
#include "cli/cmd_experiment.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "cli/follow.h"
#include "cli/json.h"
#include "cli/show.h"

enum ebb_status cli_delete_nothing(struct cli_call *c)
{
    fprintf(stderr, "Nothing was deleted; --yes answers the question beforehand.\n");
    return cli_leave(c, 1);
}

bool cli_confirm(const char *fmt, ...)
{
    char answer[16] = "";
    va_list list;
    va_start(list, fmt);
    vfprintf(stderr, fmt, list);
    va_end(list);
    fputs(" [y/N] ", stderr);
    if (fgets(answer, sizeof answer, stdin) == NULL)
        return false;
    answer[strcspn(answer, "\r\n")] = '\0';
    return strcmp(answer, "y") == 0 || strcmp(answer, "yes") == 0;
}

/* ---- one state to another ---- */

/* What of an experiment is still to be collected. */
static void gc_target(int64_t id, int64_t best, int64_t trial_best, int64_t latest, char *target,
                      size_t size)
{
    snprintf(target, size,
             "/experiments/%lld/preview_gc?save_experiment_best=%lld&save_trial_best=%lld&"
             "save_trial_latest=%lld",
             (long long)id, (long long)best, (long long)trial_best, (long long)latest);
}

/* Wait for a collection, and say what could not be removed. */
static enum ebb_status settle_gc(struct cli_master *m, const char *target, struct ebb_error *err)
{
    struct cli_answer answer;
    bool is_settled = cli_master_settle(m, 60, cli_is_collected, target);
    size_t left = 0;
    const char *why = NULL;
    enum ebb_status status = cli_ask_raw(m, "GET", target, NULL, &answer, err);
    const struct ebb_doc_node *list =
        status == EBB_OK ? ebb_doc_get(answer.root, "checkpoints") : NULL;
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const char *note = ebb_doc_string(list->items[i], "note", "");
        left++;
        why = why == NULL && note[0] != '\0' ? note : why;
    }
    if (status == EBB_OK && why != NULL)
        status = ebb_fail(err, EBB_EIO, "%zu checkpoint%s could not be removed: %s", left,
                          left == 1 ? "" : "s", why);
    cli_answer_fini(&answer);
    if (status == EBB_OK && !is_settled)
        fprintf(stderr, "ebb: note: %zu checkpoint%s still to be removed\n", left,
                left == 1 ? " is" : "s are");
    return status;
}

/* Without a master this process does what was asked for before it leaves. */
static enum ebb_status settle_change(struct cli_call *c, const struct ebb_doc_node *experiment,
                                     struct ebb_error *err)
{
    char target[256];
    const char *verb = c->verb->name;
    if (strcmp(verb, "gc") == 0) {
        gc_target(c->id, ebb_doc_int(experiment, "save_experiment_best", 0),
                  ebb_doc_int(experiment, "save_trial_best", 1),
                  ebb_doc_int(experiment, "save_trial_latest", 1), target, sizeof target);
        return settle_gc(c->m, target, err);
    }
    snprintf(target, sizeof target, "/experiments/%lld", (long long)c->id);
    bool is_end = strcmp(verb, "cancel") == 0 || strcmp(verb, "kill") == 0;
    if (c->m->own != NULL)
        (void)cli_master_settle(c->m, 10, is_end ? cli_is_ended : NULL, target);
    return EBB_OK;
}

static int try_storage(struct cli_master *m, int64_t id)
{
    struct ebb_str place = {0};
    int code = cli_storage_check(m, id, NULL, &place);
    ebb_str_fini(&place);
    return code;
}

static void note_no_master(const struct cli_master *m, int64_t id)
{
    if (m->own != NULL)
        fprintf(stderr, "ebb: note: no master runs; 'ebb run --resume %lld' starts one\n",
                (long long)id);
}

enum ebb_status cli_experiment_change(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    const struct ebb_doc_node *root;
    int code = o->is_tried ? try_storage(c->m, c->id) : -1;
    if (code >= 0)
        return cli_leave(c, code);
    EBB_TRY(cli_send(c->m, &root, err, "POST", NULL, "/experiments/%lld/%s", (long long)c->id,
                     c->verb->name));
    EBB_TRY(settle_change(c, root, err));
    cli_verb_print(c, root);
    if (strcmp(c->verb->name, "activate") == 0)
        note_no_master(c->m, c->id);
    return EBB_OK;
}

/* ---- wait ---- */

static void nap(double seconds)
{
    time_t whole = (time_t)seconds;
    nanosleep(
        &(struct timespec){.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)},
        NULL);
}

/* One look, over a master opened for it, so that one may start in between. */
static enum ebb_status look(struct cli_call *c, bool is_first, char state[32], struct ebb_str *body,
                            struct ebb_error *err)
{
    struct cli_master m;
    const struct ebb_doc_node *root = NULL;
    EBB_TRY(cli_master_open(&m, &c->where, CLI_ASK, NULL, err));
    enum ebb_status status = cli_get(&m, &root, err, "/experiments/%lld", (long long)c->id);
    snprintf(state, 32, "%s", ebb_doc_string(root, "state", ""));
    ebb_str_clear(body);
    ebb_str_add(body, ebb_str_c(cli_last_body(&m)));
    if (status == EBB_OK && is_first && !cli_state_is_over(state))
        note_no_master(&m, c->id);
    cli_master_close(&m, EXP_CLOSE_LEAVE, 0);
    return status;
}

enum ebb_status cli_experiment_wait(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    char state[32] = "";
    struct ebb_str last = {0};
    enum ebb_status status = EBB_OK;
    cli_catch_interrupts();
    for (bool is_first = true; status == EBB_OK && !cli_interrupted(); is_first = false) {
        status = look(c, is_first, state, &last, err);
        if (status != EBB_OK || cli_state_is_over(state))
            break;
        nap(o->interval);
    }
    if (status == EBB_OK && cli_interrupted())
        fprintf(stderr, "Interrupted; experiment %lld is %s\n", (long long)c->id, state);
    else if (status == EBB_OK && c->where.is_json)
        cli_print_body(&last);
    else if (status == EBB_OK)
        printf("Experiment %lld terminated with state %s\n", (long long)c->id, state);
    ebb_str_fini(&last);
    c->code = strcmp(state, "COMPLETED") == 0 ? 0 : 1;
    return status;
}

/* ---- delete ---- */

static bool is_deleted(const struct cli_answer *answer)
{
    return answer->response.status == 404 ||
           strcmp(ebb_doc_string(answer->root, "state", ""), "DELETE_FAILED") == 0;
}

/* Wait until it is gone; a failure says why it is not. */
static enum ebb_status settle_delete(struct cli_master *m, int64_t id, struct ebb_error *err)
{
    struct cli_answer answer;
    char target[64];
    snprintf(target, sizeof target, "/experiments/%lld", (long long)id);
    (void)cli_master_settle(m, 600, is_deleted, target);
    enum ebb_status status = cli_ask_raw(m, "GET", target, NULL, &answer, err);
    if (status == EBB_OK && answer.response.status != 404)
        status =
            ebb_fail(err, EBB_EIO, "experiment %lld is %s: %s", (long long)id,
                     ebb_doc_string(answer.root, "state", "unknown"),
                     ebb_doc_string(answer.root, "error", "a master goes on with deleting it"));
    cli_answer_fini(&answer);
    return status;
}

enum ebb_status cli_experiment_delete(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    const struct ebb_doc_node *root;
    EBB_TRY(cli_get(c->m, &root, err, "/experiments/%lld", (long long)c->id));
    if (!o->is_sure &&
        !cli_confirm("Delete experiment %lld (%s) with all its trials, logs and checkpoints?",
                     (long long)c->id, ebb_doc_string(root, "description", "")))
        return cli_delete_nothing(c);
    EBB_TRY(cli_send(c->m, &root, err, "DELETE", NULL, "/experiments/%lld", (long long)c->id));
    EBB_TRY(settle_delete(c->m, c->id, err));
    cli_verb_print(c, root);
    return EBB_OK;
}

/* ---- label and set: PATCH ---- */

static enum ebb_status patch(struct cli_call *c, const char *body, const char *said,
                             struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    const struct ebb_doc_node *root;
    EBB_TRY(cli_send(c->m, &root, err, "PATCH", body, "/experiments/%lld", (long long)c->id));
    if (strcmp(c->words[0], "gc-policy") == 0 &&
        cli_state_is_over(ebb_doc_string(root, "state", ""))) {
        char target[256];
        gc_target(c->id, o->keep_best, o->keep_trial_best, o->keep_latest, target, sizeof target);
        EBB_TRY(settle_gc(c->m, target, err));
    } else {
        (void)cli_master_settle(c->m, 0, NULL, NULL);
    }
    cli_say(c, NULL, "%s experiment %lld", said, (long long)c->id);
    return EBB_OK;
}

int cli_experiment_check_label(struct cli_call *c)
{
    return strcmp(c->words[0], "add") != 0 && strcmp(c->words[0], "remove") != 0
               ? cli_usage_error("label: '%s' is neither add nor remove", c->words[0])
               : -1;
}

enum ebb_status cli_experiment_label(struct cli_call *c, struct ebb_error *err)
{
    bool is_add = strcmp(c->words[0], "add") == 0;
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_object(w, "labels");
    ebb_jsonw_key(w, c->words[2]);
    if (is_add)
        ebb_jsonw_bool(w, true);
    else
        ebb_jsonw_null(w);
    ebb_jsonw_object_end(w);
    ebb_jsonw_object_end(w);
    enum ebb_status status = patch(c, ebb_str_c(&json.text),
                                   is_add ? "Added the label to" : "Removed the label from", err);
    ebb_str_fini(&json.text);
    return status;
}

/* What a new gc policy would remove; EBB_ECANCELED: it is not wanted. */
static enum ebb_status preview_gc(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_experiment_options *o = c->options;
    const struct ebb_doc_node *root, *experiment;
    char target[256];
    size_t with = 0, without = 0;
    gc_target(c->id, o->keep_best, o->keep_trial_best, o->keep_latest, target, sizeof target);
    EBB_TRY(cli_get(c->m, &root, err, "%s", target));
    EBB_TRY(cli_get(c->m, &experiment, err, "/experiments/%lld", (long long)c->id));
    const struct ebb_doc_node *list = ebb_doc_get(root, "checkpoints");
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *metric = ebb_doc_get(list->items[i], "metric");
        bool has_metric = metric != NULL && metric->kind != EBB_DOC_NULL;
        with += has_metric;
        without += !has_metric;
    }
    if (o->is_sure || with + without == 0)
        return EBB_OK;
    cli_checkpoints_print(list, ebb_doc_string(experiment, "metric", ""), false);
    fflush(stdout);
    if (cli_confirm("%zu checkpoints with and %zu without a validation will be removed. Go on?",
                    with, without))
        return EBB_OK;
    return ebb_fail(err, EBB_ECANCELED,
                    "nothing was changed; --yes answers the question beforehand");
}

static void write_policy(const struct cli_experiment_options *o, struct ebb_json_writer *w)
{
    ebb_jsonw_key_object(w, "checkpoint_storage");
    ebb_jsonw_key_int(w, "save_experiment_best", o->keep_best);
    ebb_jsonw_key_int(w, "save_trial_best", o->keep_trial_best);
    ebb_jsonw_key_int(w, "save_trial_latest", o->keep_latest);
    ebb_jsonw_object_end(w);
}

/* "weight W" or "max-slots N|none"; false: the value is wrong (said). */
static bool write_resource(const char *what, const char *value, struct ebb_json_writer *w)
{
    double weight = 0;
    int64_t slots = 0;
    bool is_weight = strcmp(what, "weight") == 0;
    bool is_none = !is_weight && strcmp(value, "none") == 0;
    if (is_weight ? !ebb_parse_double(value, &weight) : !is_none && !ebb_parse_i64(value, &slots)) {
        cli_usage_error("set %s: '%s' is no number%s", what, value,
                        is_weight ? "" : "; 'none' = unlimited");
        return false;
    }
    ebb_jsonw_key_object(w, "resources");
    ebb_jsonw_key(w, is_weight ? "weight" : "max_slots");
    if (is_none)
        ebb_jsonw_null(w);
    else if (is_weight)
        ebb_jsonw_double(w, weight);
    else
        ebb_jsonw_int(w, slots);
    ebb_jsonw_object_end(w);
    return true;
}

int cli_experiment_check_set(struct cli_call *c)
{
    static const char *const names[] = {"description", "max-slots", "weight", "gc-policy"};
    const struct cli_experiment_options *o = c->options;
    const char *what = c->words[0];
    bool is_known = false, is_gc = strcmp(what, "gc-policy") == 0, has_value = c->word_count > 2;
    for (size_t i = 0; i < 4; i++)
        is_known = is_known || strcmp(what, names[i]) == 0;
    if (!is_known)
        return cli_usage_error("set: '%s' cannot be set; description, max-slots, weight and "
                               "gc-policy can",
                               what);
    if (is_gc && (has_value || o->keep_best < 0 || o->keep_trial_best < 0 || o->keep_latest < 0))
        return cli_usage_error("set gc-policy: --save-experiment-best, --save-trial-best and "
                               "--save-trial-latest are needed, each at least 0");
    if (!is_gc &&
        (o->keep_best >= 0 || o->keep_trial_best >= 0 || o->keep_latest >= 0 || o->is_sure))
        return cli_usage_error("set %s: the options --save-... and --yes belong to gc-policy",
                               what);
    return is_gc || has_value ? -1 : cli_usage_error("set %s: the value is missing", what);
}

enum ebb_status cli_experiment_set(struct cli_call *c, struct ebb_error *err)
{
    const char *what = c->words[0], *value = c->word_count > 2 ? c->words[2] : "";
    bool is_gc = strcmp(what, "gc-policy") == 0, is_good = true;
    struct ebb_str body = {0};
    struct ebb_json_writer w;
    char said[64];
    if (is_gc)
        EBB_TRY(preview_gc(c, err));
    ebb_jsonw_init(&w, &body, 0);
    ebb_jsonw_object(&w);
    if (is_gc)
        write_policy(c->options, &w);
    else if (strcmp(what, "description") == 0)
        ebb_jsonw_key_string(&w, "description", value);
    else
        is_good = write_resource(what, value, &w);
    ebb_jsonw_object_end(&w);
    snprintf(said, sizeof said, "Set %s of", what);
    enum ebb_status status = is_good ? patch(c, ebb_str_c(&body), said, err) : EBB_OK;
    c->code = is_good ? 0 : 2;
    ebb_str_fini(&body);
    return status;
}
