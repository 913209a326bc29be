/* cmd_experiment_change.c - ebb experiment activate ... delete, label, set, wait: changing what is
 * there. */
#include "cli/cmd_experiment.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/heap.h"
#include "base/json.h"
#include "cli/follow.h"
#include "cli/show.h"

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

static const struct change {
    const char *verb, *past, *usage, *description;
} changes[] = {
    {"activate", "Activated", "ebb experiment activate ID [OPTION...]",
     "Let a paused experiment use slots again. It runs as long as a master runs: 'ebb run\n"
     "--resume ID' starts one."},
    {"pause", "Paused", "ebb experiment pause ID [OPTION...]",
     "Take the slots away: each trial finishes its step, saves a checkpoint and ends;\n"
     "'ebb experiment activate ID' goes on from there."},
    {"cancel", "Canceled", "ebb experiment cancel ID [OPTION...]",
     "End an experiment in order: each trial finishes its step and saves a checkpoint. It\n"
     "cannot be activated again."},
    {"kill", "Killed", "ebb experiment kill ID [OPTION...]",
     "End an experiment at once: processes are killed, nothing more is saved."},
    {"archive", "Archived", "ebb experiment archive ID [OPTION...]",
     "Hide an ended experiment from lists; 'list --all' shows it."},
    {"unarchive", "Unarchived", "ebb experiment unarchive ID [OPTION...]",
     "Show an archived experiment in lists again."},
    {"gc", "Collected checkpoints of", "ebb experiment gc ID [OPTION...]",
     "Remove the checkpoints of an ended experiment that its save_* counts do not keep; for\n"
     "what an earlier collection could not remove."},
};

struct change_options {
    struct cli_where where;
    bool is_tried; /* gc --validate */
    const struct change *change;
    int64_t id;
};

/* What of an experiment is still to be collected. */
static void gc_target(int64_t id, int64_t best, int64_t trial_best, int64_t latest, char *target,
                      size_t size)
{
    snprintf(target, size,
             "/experiments/%lld/preview_gc?save_experiment_best=%lld&save_trial_best=%lld&"
             "save_trial_latest=%lld",
             (long long)id, (long long)best, (long long)trial_best, (long long)latest);
}

/* Wait for a collection, and say what could not be removed: the exit code. */
static int settle_gc(struct cli_master *m, const char *target)
{
    struct ebb_error err = {0};
    struct cli_answer answer;
    bool is_settled = cli_master_settle(m, 60, cli_is_collected, target);
    size_t left = 0;
    const char *why = NULL;
    enum ebb_status status = cli_ask_raw(m, "GET", target, NULL, &answer, &err);
    const struct ebb_doc_node *list =
        status == EBB_OK ? ebb_doc_get(answer.root, "checkpoints") : NULL;
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const char *note = ebb_doc_string(list->items[i], "note", "");
        left++;
        why = why == NULL && note[0] != '\0' ? note : why;
    }
    if (status == EBB_OK && why != NULL)
        status = ebb_fail(&err, EBB_EIO, "%zu checkpoint%s could not be removed: %s", left,
                          left == 1 ? "" : "s", why);
    cli_answer_fini(&answer);
    if (status == EBB_OK && !is_settled)
        fprintf(stderr, "ebb: note: %zu checkpoint%s still to be removed\n", left,
                left == 1 ? " is" : "s are");
    return status == EBB_OK ? 0 : cli_report(&err);
}

/* Without a master this process does what was asked for before it leaves. */
static int settle_change(struct cli_master *m, const struct change_options *o,
                         const struct ebb_doc_node *experiment)
{
    char target[256];
    const char *verb = o->change->verb;
    if (strcmp(verb, "gc") == 0) {
        gc_target(o->id, ebb_doc_int(experiment, "save_experiment_best", 0),
                  ebb_doc_int(experiment, "save_trial_best", 1),
                  ebb_doc_int(experiment, "save_trial_latest", 1), target, sizeof target);
        return settle_gc(m, target);
    }
    snprintf(target, sizeof target, "/experiments/%lld", (long long)o->id);
    bool is_end = strcmp(verb, "cancel") == 0 || strcmp(verb, "kill") == 0;
    if (m->own != NULL)
        (void)cli_master_settle(m, 10, is_end ? cli_is_ended : NULL, target);
    return 0;
}

static int try_storage(struct cli_master *m, int64_t id)
{
    struct ebb_str place;
    ebb_str_init(&place);
    int code = cli_storage_check(m, id, NULL, &place);
    ebb_str_fini(&place);
    return code;
}

static int do_change(struct cli_master *m, void *context)
{
    const struct change_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    int code = o->is_tried ? try_storage(m, o->id) : -1;
    if (code >= 0)
        return code;
    enum ebb_status status = cli_ask(m, &answer, &err, "POST", NULL, "/experiments/%lld/%s",
                                     (long long)o->id, o->change->verb);
    code = status == EBB_OK ? settle_change(m, o, answer.root) : cli_report(&err);
    if (code == 0 && o->where.is_json)
        cli_print_body(&answer.response.body);
    else if (code == 0)
        printf("%s experiment %lld\n", o->change->past, (long long)o->id);
    if (code == 0 && m->own != NULL && strcmp(o->change->verb, "activate") == 0)
        fprintf(stderr, "ebb: note: no master runs; 'ebb run --resume %lld' starts one\n",
                (long long)o->id);
    cli_answer_fini(&answer);
    return code;
}

int cli_experiment_change(int argc, char **argv)
{
    struct change_options o = {0};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        if (strcmp(changes[i].verb, argv[0]) == 0)
            o.change = &changes[i];
    if (o.change == NULL)
        return cli_usage_error("'ebb experiment' has no verb '%s'", argv[0]);
    const struct cli_option options[] = {
        {"validate", 0, CLI_FLAG, &o.is_tried, NULL,
         "try the storage first; change nothing if it fails"},
    };
    const struct cli_spec spec = {
        .usage = o.change->usage,
        .description = o.change->description,
        .options = options,
        .option_count = strcmp(o.change->verb, "gc") == 0 ? 1 : 0,
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .json_help = "print the experiment as JSON",
    };
    return cli_with_id(&spec, argc, argv, "experiment", &o.id, &o.where, do_change, &o);
}

/* ---- wait ---- */

struct wait_options {
    struct cli_where where;
    int64_t id;
    double interval;
};

static int wait_for_end(const struct wait_options *o)
{
    char state[32] = "";
    bool has_said = false;
    struct ebb_str last;
    struct ebb_error err = {0};
    ebb_str_init(&last);
    while (!cli_interrupted()) { /* opened each time, so that a master may start in between */
        struct cli_master m;
        struct cli_answer answer = {0};
        enum ebb_status status = cli_master_open(&m, &o->where, CLI_ASK, NULL, &err);
        if (status == EBB_OK) {
            status = cli_ask(&m, &answer, &err, "GET", NULL, "/experiments/%lld", (long long)o->id);
            snprintf(state, sizeof state, "%s", ebb_doc_string(answer.root, "state", ""));
            ebb_str_clear(&last);
            ebb_str_add(&last, ebb_str_c(&answer.response.body));
            cli_answer_fini(&answer);
            if (status == EBB_OK && m.own != NULL && !has_said && !cli_state_is_over(state))
                fprintf(stderr, "ebb: note: no master runs; 'ebb run --resume %lld' starts one\n",
                        (long long)o->id);
            has_said = true;
            cli_master_close(&m, EXP_CLOSE_LEAVE, 0);
        }
        if (status != EBB_OK) {
            ebb_str_fini(&last);
            return cli_report(&err);
        }
        if (cli_state_is_over(state))
            break;
        struct timespec nap = {.tv_sec = (time_t)o->interval,
                               .tv_nsec =
                                   (long)((o->interval - (double)(time_t)o->interval) * 1e9)};
        nanosleep(&nap, NULL);
    }
    if (cli_interrupted())
        fprintf(stderr, "Interrupted; experiment %lld is %s\n", (long long)o->id, state);
    else if (o->where.is_json)
        cli_print_body(&last);
    else
        printf("Experiment %lld terminated with state %s\n", (long long)o->id, state);
    ebb_str_fini(&last);
    return strcmp(state, "COMPLETED") == 0 ? 0 : 1;
}

int cli_experiment_wait(int argc, char **argv)
{
    struct wait_options o = {.interval = 5};
    const struct cli_option options[] = {
        {"polling-interval", 0, CLI_DOUBLE, &o.interval, "S", "seconds between looks; default 5"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment wait ID [OPTION...]",
        .description = "Wait until an experiment has ended. Exit code 0 if it completed, else 1.\n"
                       "\n"
                       "Example:\n"
                       "  ebb experiment wait 3 && ebb experiment list-checkpoints 3 --best 1",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        CLI_LIMITS({"polling-interval", 0.001, 1e6}),
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
        .json_help = "print the experiment as JSON at the end",
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    code = cli_parse_id("experiment", args.positional[0], &o.id);
    if (code < 0) {
        cli_catch_interrupts();
        code = wait_for_end(&o);
    }
    cli_args_fini(&args);
    return code;
}

/* ---- delete ---- */

struct delete_options {
    struct cli_where where;
    int64_t id;
    bool is_sure;
};

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

static int delete_one(struct cli_master *m, void *context)
{
    const struct delete_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer e = {0}, answer = {0};
    enum ebb_status status =
        cli_ask(m, &e, &err, "GET", NULL, "/experiments/%lld", (long long)o->id);
    if (status == EBB_OK && !o->is_sure &&
        !cli_confirm("Delete experiment %lld (%s) with all its trials, logs and checkpoints?",
                     (long long)o->id, ebb_doc_string(e.root, "description", ""))) {
        fprintf(stderr, "Nothing was deleted; --yes answers the question beforehand.\n");
        cli_answer_fini(&e);
        return 1;
    }
    if (status == EBB_OK)
        status = cli_ask(m, &answer, &err, "DELETE", NULL, "/experiments/%lld", (long long)o->id);
    cli_answer_fini(&e);
    cli_answer_fini(&answer);
    if (status == EBB_OK)
        status = settle_delete(m, o->id, &err);
    if (status == EBB_OK && o->where.is_json)
        printf("{\"deleted\": %lld}\n", (long long)o->id);
    else if (status == EBB_OK)
        printf("Deleted experiment %lld\n", (long long)o->id);
    return status == EBB_OK ? 0 : cli_report(&err);
}

int cli_experiment_delete(int argc, char **argv)
{
    struct delete_options o = {0};
    const struct cli_option options[] = {
        {"yes", 'y', CLI_FLAG, &o.is_sure, NULL, "do not ask"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment delete ID [OPTION...]",
        .description =
            "Delete an ended experiment with its trials, logs, metrics and checkpoints.\n"
            "Files go first; when one cannot be removed the experiment stays listed as\n"
            "DELETE_FAILED and delete can be repeated. There is no way back.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
    };
    return cli_with_id(&spec, argc, argv, "experiment", &o.id, &o.where, delete_one, &o);
}

/* ---- label and set: PATCH ---- */

struct patch_options {
    struct cli_where where;
    int64_t id;
    const char *what, *value; /* positionals */
    int64_t best, trial_best, latest;
    bool is_sure;
};

static int patch(struct cli_master *m, const struct patch_options *o, const char *body,
                 const char *said)
{
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    enum ebb_status status =
        cli_ask(m, &answer, &err, "PATCH", body, "/experiments/%lld", (long long)o->id);
    int code = status == EBB_OK ? 0 : cli_report(&err);
    if (code == 0 && strcmp(o->what, "gc-policy") == 0 && cli_is_ended(&answer)) {
        char target[256];
        gc_target(o->id, o->best, o->trial_best, o->latest, target, sizeof target);
        code = settle_gc(m, target);
    } else if (code == 0) {
        (void)cli_master_settle(m, 0, NULL, NULL);
    }
    if (code == 0 && o->where.is_json)
        cli_print_body(&answer.response.body);
    else if (code == 0)
        printf("%s experiment %lld\n", said, (long long)o->id);
    cli_answer_fini(&answer);
    return code;
}

static int label(struct cli_master *m, void *context)
{
    const struct patch_options *o = context;
    bool is_add = strcmp(o->what, "add") == 0;
    struct ebb_str body;
    struct ebb_json_writer w;
    ebb_str_init(&body);
    ebb_jsonw_init(&w, &body, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "labels");
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, o->value);
    if (is_add)
        ebb_jsonw_bool(&w, true);
    else
        ebb_jsonw_null(&w);
    ebb_jsonw_object_end(&w);
    ebb_jsonw_object_end(&w);
    int code =
        patch(m, o, ebb_str_c(&body), is_add ? "Added the label to" : "Removed the label from");
    ebb_str_fini(&body);
    return code;
}

int cli_experiment_label(int argc, char **argv)
{
    struct patch_options o = {0};
    const struct cli_spec spec = {
        .usage = "ebb experiment label (add | remove) ID LABEL [OPTION...]",
        .description = "Add a label to an experiment, or remove one; in every state.",
        .min_positional = 3,
        .max_positional = 3,
        .where = &o.where,
        .json_help = "print the experiment as JSON",
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    o.what = args.positional[0];
    o.value = args.positional[2];
    if (strcmp(o.what, "add") != 0 && strcmp(o.what, "remove") != 0)
        code = cli_usage_error("label: '%s' is neither add nor remove", o.what);
    else
        code = cli_parse_id("experiment", args.positional[1], &o.id);
    if (code < 0)
        code = cli_with_master(&o.where, label, &o);
    cli_args_fini(&args);
    return code;
}

/* What a new gc policy would remove; true to go on. */
static bool preview_gc(struct cli_master *m, const struct patch_options *o, struct ebb_error *err)
{
    struct cli_answer answer = {0}, experiment = {0};
    size_t with = 0, without = 0;
    bool is_going = o->is_sure;
    if (cli_ask(m, &answer, err, "GET", NULL,
                "/experiments/%lld/preview_gc?save_experiment_best=%lld&save_trial_best=%lld&"
                "save_trial_latest=%lld",
                (long long)o->id, (long long)o->best, (long long)o->trial_best,
                (long long)o->latest) != EBB_OK ||
        cli_ask(m, &experiment, err, "GET", NULL, "/experiments/%lld", (long long)o->id) !=
            EBB_OK) {
        cli_answer_fini(&answer);
        cli_answer_fini(&experiment);
        return false;
    }
    const struct ebb_doc_node *list = ebb_doc_get(answer.root, "checkpoints");
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *metric = ebb_doc_get(list->items[i], "metric");
        bool has_metric = metric != NULL && metric->kind != EBB_DOC_NULL;
        with += has_metric;
        without += !has_metric;
    }
    if (!o->is_sure && with + without > 0) {
        cli_checkpoints_print(list, ebb_doc_string(experiment.root, "metric", ""), false);
        fflush(stdout);
        is_going = cli_confirm("%zu checkpoints with and %zu without a validation will be removed. "
                               "Go on?",
                               with, without);
    } else if (!o->is_sure) {
        is_going = true; /* nothing would go */
    }
    cli_answer_fini(&answer);
    cli_answer_fini(&experiment);
    if (!is_going)
        ebb_fail(err, EBB_ECANCELED, "nothing was changed; --yes answers the question beforehand");
    return is_going;
}

/* The body of one setting; false: the value is wrong (said). */
static bool write_setting(const struct patch_options *o, struct ebb_json_writer *w)
{
    double weight;
    int64_t slots;
    ebb_jsonw_object(w);
    if (strcmp(o->what, "description") == 0) {
        ebb_jsonw_key(w, "description");
        ebb_jsonw_string(w, o->value);
    } else if (strcmp(o->what, "gc-policy") == 0) {
        ebb_jsonw_key(w, "checkpoint_storage");
        ebb_jsonw_object(w);
        ebb_jsonw_key(w, "save_experiment_best");
        ebb_jsonw_int(w, o->best);
        ebb_jsonw_key(w, "save_trial_best");
        ebb_jsonw_int(w, o->trial_best);
        ebb_jsonw_key(w, "save_trial_latest");
        ebb_jsonw_int(w, o->latest);
        ebb_jsonw_object_end(w);
    } else {
        bool is_weight = strcmp(o->what, "weight") == 0;
        bool is_none = !is_weight && strcmp(o->value, "none") == 0;
        if (is_weight ? !ebb_parse_double(o->value, &weight)
                      : !is_none && !ebb_parse_i64(o->value, &slots)) {
            cli_usage_error("set %s: '%s' is no number%s", o->what, o->value,
                            is_weight ? "" : "; 'none' = unlimited");
            return false;
        }
        ebb_jsonw_key(w, "resources");
        ebb_jsonw_object(w);
        ebb_jsonw_key(w, is_weight ? "weight" : "max_slots");
        if (is_none)
            ebb_jsonw_null(w);
        else if (is_weight)
            ebb_jsonw_double(w, weight);
        else
            ebb_jsonw_int(w, slots);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_object_end(w);
    return true;
}

static int set(struct cli_master *m, void *context)
{
    const struct patch_options *o = context;
    struct ebb_error err = {0};
    struct ebb_str body;
    struct ebb_json_writer w;
    char said[64];
    int code = 2;
    if (strcmp(o->what, "gc-policy") == 0 && !preview_gc(m, o, &err))
        return cli_report(&err);
    ebb_str_init(&body);
    ebb_jsonw_init(&w, &body, 0);
    snprintf(said, sizeof said, "Set %s of", o->what);
    if (write_setting(o, &w))
        code = patch(m, o, ebb_str_c(&body), said);
    ebb_str_fini(&body);
    return code;
}

int cli_experiment_set(int argc, char **argv)
{
    static const char *const names[] = {"description", "max-slots", "weight", "gc-policy"};
    struct patch_options o = {.best = -1, .trial_best = -1, .latest = -1};
    const struct cli_option options[] = {
        {"save-experiment-best", 0, CLI_INT, &o.best, "N",
         "gc-policy: keep the N best checkpoints of the experiment"},
        {"save-trial-best", 0, CLI_INT, &o.trial_best, "N",
         "gc-policy: keep the N best of each trial"},
        {"save-trial-latest", 0, CLI_INT, &o.latest, "N",
         "gc-policy: keep the N newest of each trial"},
        {"yes", 'y', CLI_FLAG, &o.is_sure, NULL, "gc-policy: do not ask"},
    };
    const struct cli_spec spec = {
        .usage = "ebb experiment set (description | max-slots | weight | gc-policy) ID [VALUE] "
                 "[OPTION...]",
        .description =
            "Change an experiment, in every state:\n"
            "  description TEXT\n"
            "  max-slots N|none   slots it may use at once; takes effect at once\n"
            "  weight W           its share of the slots beside other experiments\n"
            "  gc-policy          which checkpoints are kept; all three --save options are "
            "needed;\n"
            "                     shows what would go and asks\n"
            "\n"
            "Examples:\n"
            "  ebb experiment set max-slots 3 none\n"
            "  ebb experiment set gc-policy 3 --save-experiment-best 1 --save-trial-best 0 "
            "--save-trial-latest 0",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 2,
        .max_positional = 3,
        .where = &o.where,
        .json_help = "print the experiment as JSON",
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    o.what = args.positional[0];
    o.value = args.positional_count > 2 ? args.positional[2] : NULL;
    bool is_known = false, is_gc = strcmp(o.what, "gc-policy") == 0;
    for (size_t i = 0; i < 4; i++)
        is_known = is_known || strcmp(o.what, names[i]) == 0;
    if (!is_known)
        code = cli_usage_error("set: '%s' cannot be set; description, max-slots, weight and "
                               "gc-policy can",
                               o.what);
    else if (is_gc ? o.value != NULL || o.best < 0 || o.trial_best < 0 || o.latest < 0
                   : o.value == NULL)
        code = cli_usage_error(is_gc ? "set gc-policy: --save-experiment-best, --save-trial-best "
                                       "and --save-trial-latest are needed, each at least 0"
                                     : "set %s: the value is missing",
                               o.what);
    else
        code = cli_parse_id("experiment", args.positional[1], &o.id);
    if (code < 0)
        code = cli_with_master(&o.where, set, &o);
    cli_args_fini(&args);
    return code;
}
