/* train_file.c - experiment files for commands that train, explain or trace in this process. */
#include "cli/train_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/str.h"
#include "cli/link.h"
#include "cli/show.h"
#include "profile/profile.h"

/* ---- checking sections ----------------------------------------------------------------------- */

/* Those without a mistake: of the others there is no value to try. */
static bool keep_good(struct ebb_reading *reading, const struct exp_hparams *space,
                      struct exp_hparams *good)
{
    struct exp_hparam *items = ebb_reading_alloc(reading, space->count, sizeof *items);
    *good = (struct exp_hparams){.items = items};
    for (size_t i = 0; items && i < space->count; i++)
        if (exp_hparam_is_good(reading, &space->items[i]))
            items[good->count++] = space->items[i];
    return items != NULL;
}

/* One end of every range. */
static const struct ebb_doc_node *corner(struct ebb_arena *arena, const struct exp_hparams *space,
                                         bool is_high)
{
    struct exp_value *sample = ebb_arena_calloc(arena, space->count + 1, sizeof *sample);
    if (!sample)
        return NULL;
    for (size_t i = 0; i < space->count; i++) {
        const struct exp_hparam *h = &space->items[i];
        struct exp_value *v = &sample[i];
        switch (h->kind) {
        case EXP_HPARAM_CONST:
            v->kind = EXP_VALUE_NODE;
            v->node = h->value;
            break;
        case EXP_HPARAM_CATEGORICAL:
            v->kind = EXP_VALUE_NODE;
            v->node = h->values[is_high ? h->value_count - 1 : 0];
            break;
        case EXP_HPARAM_INT:
            v->kind = EXP_VALUE_INT;
            v->integer = is_high ? h->int_max : h->int_min;
            break;
        case EXP_HPARAM_DOUBLE:
        case EXP_HPARAM_LOG:
            v->kind = EXP_VALUE_DOUBLE;
            v->number = is_high ? h->max : h->min;
            if (h->kind == EXP_HPARAM_LOG)
                v->number = pow(h->base, v->number);
            break;
        }
    }
    return exp_sample_doc(arena, space, sample);
}

/* Trained by this program: a built-in task, or an ONNX file. */
static bool is_own(const struct exp_config *config)
{
    return config->entrypoint.kind == EXP_ENTRY_BUILTIN ||
           config->entrypoint.kind == EXP_ENTRY_ONNX;
}

/* A metric that is never reported would fail every trial at its first validation. */
static void check_metric(struct ebb_reading *reading, const struct ebb_path *up,
                         const struct ebb_doc_node *map, const struct exp_config *config)
{
    const struct ebb_doc_node *metric = ebb_doc_get(map, "metric");
    bool is_zoo = config->entrypoint.kind == EXP_ENTRY_BUILTIN &&
                  ebb_doc_given(config->model, "file") == NULL;
    const char *words = is_zoo ? train_task_metrics(config->entrypoint.object,
                                                    ebb_doc_string(config->model, "name", NULL))
                               : NULL;
    if (words == NULL || metric == NULL || metric->kind != EBB_DOC_STRING ||
        ebb_words_find(words, metric->text, metric->length, NULL))
        return;
    struct ebb_path path = {.up = up, .key = "metric"};
    struct ebb_str text = {0};
    ebb_str_add(&text, "found ");
    ebb_say_found(metric, &text);
    ebb_str_printf(&text, ", which %s does not report, allowed: ", config->entrypoint.text);
    ebb_say_words(words, &text);
    ebb_say_nearest(words, metric->text, metric->length, &text);
    ebb_reading_say(reading, EBB_FINDING_ERROR, &path, metric, &text);
}

static void check_metrics(struct ebb_reading *reading, const struct ebb_doc_node *searcher,
                          const struct exp_config *config)
{
    struct ebb_path top = {.key = "searcher"}, stop = {.up = &top, .key = "early_stopping"};
    check_metric(reading, &top, searcher, config);
    check_metric(reading, &stop, ebb_doc_get(searcher, "early_stopping"), config);
}

void cli_check_training(void *context, struct ebb_reading *reading, const char *section,
                        const struct ebb_doc_node *value, const struct exp_config *config)
{
    size_t errors = reading->report->errors;
    struct exp_hparams space;
    if (strcmp(section, "searcher") == 0)
        return; /* training alone needs no metric: cli_check_submission */
    const char *entrypoint = is_own(config) ? config->entrypoint.text : "";
    if (!keep_good(reading, &config->hyperparameters, &space))
        return;
    for (int high = 0; high < 2 && reading->report->errors == errors; high++) {
        const struct ebb_doc_node *sample = corner(reading->arena, &space, high);
        const struct ebb_doc_node *expanded =
            sample ? train_expand(reading->arena, reading, value, sample) : NULL;
        if (expanded)
            train_check_section(reading, section, expanded, entrypoint, context);
        else
            reading->failed = true;
    }
}

void cli_check_submission(void *context, struct ebb_reading *reading, const char *section,
                          const struct ebb_doc_node *value, const struct exp_config *config)
{
    if (!config) /* of a template: a part */
        train_check_memory_keys(reading, value);
    else if (strcmp(section, "searcher") == 0)
        check_metrics(reading, value, config);
    else
        cli_check_training(context, reading, section, value, config);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* --set KEY=VALUE over a file's mapping. The parser of options cuts at commas; a part without '='
 * belongs to the one before. */
static enum ebb_status apply_sets(struct ebb_arena *arena, struct ebb_doc_node *root,
                                  const struct cli_list *sets, struct ebb_error *err)
{
    for (size_t i = 0; i < sets->count;) {
        struct ebb_str text = {0};
        ebb_str_add(&text, sets->items[i++]);
        while (i < sets->count && !strchr(sets->items[i], '='))
            ebb_str_printf(&text, ",%s", sets->items[i++]);
        enum ebb_status status = ebb_str_status(&text, err);
        EBB_THEN(status, train_set(arena, root, ebb_str_c(&text), err));
        ebb_str_fini(&text);
        EBB_TRY(status);
    }
    return EBB_OK;
}

static bool is_blank(const char *value)
{
    return value[strspn(value, " \t\n")] == 0;
}

enum ebb_status cli_put_text(struct ebb_arena *arena, struct ebb_doc_node *root, const char *key,
                             const char *value, struct ebb_error *err)
{
    char *text = value ? ebb_arena_printf(arena, "%s=%s", key, value) : NULL;
    if (!value)
        return EBB_OK;
    if (is_blank(value)) /* as of a variable that is not set: not "no limit" */
        return ebb_fail(err, EBB_EINPUT, "%s: the value given on the command line is empty", key);
    return text ? train_set(arena, root, text, err) : ebb_no_memory(err, strlen(value));
}

enum ebb_status cli_put_int(struct ebb_arena *arena, struct ebb_doc_node *root, const char *key,
                            int64_t value, struct ebb_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return cli_put_text(arena, root, key, text, err);
}

static enum ebb_status put_links(struct ebb_arena *arena, struct ebb_doc_node *root,
                                 const struct cli_list *links, struct ebb_error *err)
{
    const char *twice = cli_link_twice(links);
    if (twice)
        return ebb_fail(err, EBB_EINPUT, CLI_LINK_TWICE, twice);
    for (size_t i = 0; i < links->count; i++) {
        const char *equals = strchr(links->items[i], '=');
        if (!equals || is_blank(equals + 1))
            return ebb_fail(err, EBB_EINPUT, "--link %s: must be TIER=GB/s, as in host=2",
                            links->items[i]);
        char *text = ebb_arena_printf(arena, "memory.link_bandwidth.%s", links->items[i]);
        EBB_TRY(text ? train_set(arena, root, text, err) : ebb_no_memory(err, 64));
    }
    return EBB_OK;
}

enum ebb_status cli_train_change(struct ebb_arena *arena, struct ebb_doc_node *root,
                                 const struct cli_train_changes *c, struct ebb_error *err)
{
    const struct {
        const char *key, *value;
    } rows[] = {{"memory.budget", c->budget},
                {"memory.host", c->host},
                {"memory.file", c->file},
                {"memory.policy", c->policy},
                {"memory.rewrites", c->rewrites},
                {"memory.device", c->device},
                {"memory.costs", c->costs},
                {"memory.gradients", c->gradients},
                {"memory.default_chunk_size", c->chunk},
#define ROW(name, help) {"memory." #name, c->name ? "true" : NULL},
                CLI_TRAIN_SWITCHES(ROW)
#undef ROW
#define ROW(name, help) {"memory.mem_tracer." #name, c->name},
                    CLI_TRAIN_RATIOS(ROW)
#undef ROW
    };
    EBB_TRY(apply_sets(arena, root, &c->sets, err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        EBB_TRY(cli_put_text(arena, root, rows[i].key, rows[i].value, err));
    EBB_TRY(put_links(arena, root, &c->links, err));
    return c->threads > 0 ? cli_put_int(arena, root, "memory.threads", c->threads, err) : EBB_OK;
}

int cli_train_folder(struct train_config *config, const struct cli_train_changes *c, bool is_used)
{
    if (!c->file_path)
        return -1;
    if (is_blank(c->file_path))
        return cli_usage_error("--file-path: the value given on the command line is empty");
    config->file_path = c->file_path;
    return config->file_bytes > 0 || is_used
               ? -1
               : cli_usage_error("--file-path needs --file BYTES, or memory.file in %s: without it "
                                 "no file is made",
                                 config->file);
}

static int64_t times(int64_t a, int64_t b) /* both positive; ends at the largest number */
{
    return a > 0 && b > INT64_MAX / a ? INT64_MAX : a * b;
}

static int64_t searcher_updates(const struct exp_config *exp)
{
    const struct exp_searcher *s = &exp->searcher;
    int64_t steps = s->max_steps            ? s->max_steps
                    : s->target_trial_steps ? s->target_trial_steps
                    : s->max_length         ? s->max_length
                                            : times(s->num_rounds, s->steps_per_round);
    return times(steps, exp->batches_per_step) / exp->optimizations.aggregation_frequency;
}

/* Warnings are told. What this build cannot do is refused where training would have to do it. */
static int tell_findings(const struct ebb_report *report)
{
    struct ebb_str text = {0};
    bool is_refused = false;
    for (size_t i = 0; i < report->count; i++) {
        const struct ebb_finding *finding = &report->items[i];
        bool is_ours = strncmp(finding->path, "optimizations", strlen("optimizations")) == 0 ||
                       strncmp(finding->path, "memory", strlen("memory")) == 0;
        if (finding->kind == EBB_FINDING_ERROR || (finding->kind == EBB_FINDING_NOTE && !is_ours))
            continue;
        is_refused |= finding->kind == EBB_FINDING_NOTE;
        ebb_finding_format(finding, &text);
        ebb_str_addc(&text, '\n');
    }
    fputs(ebb_str_c(&text), stderr);
    ebb_str_fini(&text);
    return is_refused ? 1 : -1;
}

static enum ebb_status sample(struct cli_train_file *f, uint64_t seed, struct ebb_error *err)
{
    const struct exp_hparams *space = &f->exp.hyperparameters;
    struct exp_value *values = ebb_arena_calloc(&f->arena, space->count + 1, sizeof *values);
    struct ebb_mt19937 rng;
    if (!values)
        return ebb_no_memory(err, space->count * sizeof *values);
    ebb_mt_seed(&rng, (uint32_t)seed);
    exp_sample(space, &rng, values);
    f->hparams = exp_sample_doc(&f->arena, space, values);
    return f->hparams ? EBB_OK : ebb_no_memory(err, sizeof *values);
}

char *cli_folder_of(struct ebb_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? ebb_arena_strndup(arena, path, slash == path ? 1 : (size_t)(slash - path))
                 : ebb_arena_strndup(arena, ".", 1);
}

static int finish(struct cli_train_file *f, const char *path, const struct cli_train_changes *c,
                  struct ebb_error *err)
{
    uint64_t seed = c->seed >= 0                  ? (uint64_t)c->seed
                    : f->exp.experiment_seed >= 0 ? (uint64_t)f->exp.experiment_seed
                                                  : 0;
    struct ebb_report report;
    if (!is_own(&f->exp))
        return cli_usage_error("%s: the entrypoint is no built-in task (ebb:<task>) and no ONNX "
                               "file (onnx:<path>); 'ebb run' starts other programs",
                               path);
    if (sample(f, seed, err) != EBB_OK)
        return cli_report(err);
    struct train_source source = {.file = path,
                                  .directory = cli_folder_of(&f->arena, path),
                                  .entrypoint = f->exp.entrypoint.text,
                                  .root = f->exp.normalized,
                                  .hparams = f->hparams,
                                  .seed = seed};
    if (train_config_read(&f->arena, &source, &f->config, &report, err) != EBB_OK) {
        cli_print_report(&report, NULL, stderr);
        return report.errors > 0 && err->status == EBB_EINPUT ? 2 : cli_report(err);
    }
    if (report.notes > 0)
        cli_print_report(&report, NULL, stderr);
    f->updates = searcher_updates(&f->exp);
    return -1;
}

int cli_load_mapping(struct ebb_arena *arena, const char *path, const char *what,
                     struct ebb_doc_node **root)
{
    struct ebb_error err = {0};
    const struct ebb_doc_node *read;
    if (ebb_doc_load(arena, path, &read, &err) != EBB_OK) {
        cli_report(&err);
        return err.status == EBB_EIO ? 1 : 2;
    }
    if (!read || read->kind != EBB_DOC_MAP)
        return cli_usage_error("%s: %s is a mapping", path, what);
    *root = ebb_doc_new(arena, EBB_DOC_MAP);
    if (!*root) {
        ebb_no_memory(&err, sizeof **root);
        return cli_report(&err);
    }
    **root = *read;
    (*root)->owner = NULL;
    return -1;
}

/* Mistakes of a profile are told before anything is recorded; so are costs of another device, since
 * nothing else shows that plans go by them. */
static int check_costs(const struct train_config *config)
{
    struct profile *profile = NULL;
    struct ebb_error err = {0};
    bool is_gpu = train_is_gpu(config->device);
    if (!config->costs)
        return -1;
    if (profile_load(config->costs, &profile, &err) != EBB_OK)
        return cli_report(&err);
    const char *kind = profile_kind(profile);
    bool is_of_gpu = strncmp(kind, "nvidia", 6) == 0 || strncmp(kind, "cuda", 4) == 0;
    if (is_gpu ? strcmp(kind, "cpu") == 0 : is_of_gpu)
        fprintf(stderr,
                "ebb: warning: %s was measured on %s, not on %s: plans and predicted times go by "
                "the other device\n",
                config->costs, kind, config->device ? config->device : "cpu");
    profile_destroy(profile);
    return -1;
}

int cli_train_open(struct cli_train_file *f, const char *path, const struct cli_train_changes *c)
{
    struct ebb_error err = {0};
    struct ebb_report report = {0};
    struct ebb_doc_node *root = NULL;
    struct exp_config_options options = {
        .file_name = path, .default_seed = 0, .check_section = cli_check_training};
    memset(f, 0, sizeof *f);
    ebb_arena_init(&f->arena);
    options.check_context = cli_folder_of(&f->arena, path);
    int code = cli_load_mapping(&f->arena, path, "an experiment file", &root);
    if (code >= 0)
        return code;
    if (cli_train_change(&f->arena, root, c, &err) != EBB_OK)
        return cli_report(&err);
    enum ebb_status status = exp_config_read(&f->arena, root, &options, &f->exp, &report, &err);
    if (status != EBB_OK && report.errors == 0)
        return cli_report(&err);
    if (status != EBB_OK) {
        cli_print_report(&report, path, stderr);
        return 2;
    }
    code = tell_findings(&report);
    code = code < 0 ? finish(f, path, c, &err) : code;
    return code < 0 ? check_costs(&f->config) : code;
}

void cli_train_close(struct cli_train_file *f)
{
    ebb_arena_fini(&f->arena);
}

bool cli_is_experiment(const char *path)
{
    size_t n = strlen(path);
    return (n > 5 && strcmp(path + n - 5, ".yaml") == 0) ||
           (n > 4 && strcmp(path + n - 4, ".yml") == 0);
}

enum ebb_status cli_load_trace(const char *path, struct trace **trace, struct ebb_error *err)
{
    return cli_load_trace_with(path, &(struct cli_train_changes){.seed = -1}, trace, err);
}

enum ebb_status cli_load_trace_with(const char *path, const struct cli_train_changes *changes,
                                    struct trace **trace, struct ebb_error *err)
{
    struct cli_train_file file;
    enum ebb_status status = EBB_EINPUT;
    if (!cli_is_experiment(path) && (changes->device || changes->costs))
        return ebb_fail(err, EBB_EINPUT,
                        "--device and --costs are for experiment files (.yaml): %s has its times",
                        path);
    if (!cli_is_experiment(path))
        return trace_load(path, TRACE_FORMAT_AUTO, trace, err);
    int code = cli_train_open(&file, path, changes);
    if (code < 0)
        status = train_trace_from_config(&file.config, trace, err);
    else
        ebb_fail(err, EBB_EINPUT, "%s: cannot be trained", path);
    cli_train_close(&file);
    return status;
}

/* What is written at the end should not fail there. Regular files are made beside their name,
 * others written as they are. */
enum ebb_status cli_train_target(const char *path, struct ebb_error *err)
{
    struct ebb_str place = {0};
    struct stat about;
    const char *slash = strrchr(path, '/');
    bool is_there = stat(path, &about) == 0;
    if (is_there && !S_ISREG(about.st_mode))
        ebb_str_add(&place, path);
    else
        ebb_str_printf(&place, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    int reason = access(ebb_str_c(&place), W_OK) != 0 ? errno : 0;
    if (is_there && S_ISDIR(about.st_mode))
        reason = EISDIR;
    ebb_str_fini(&place);
    return reason ? ebb_fail(err, EBB_EIO, "cannot write %s: %s", path, strerror(reason)) : EBB_OK;
}
