/* cmd_bench_log.c - a benchmark's log in MLPerf's form: one line of JSON per event on stdout. */
#include "cli/cmd_bench.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/str.h"

static int64_t now_ms(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static const char *kind_of(const char *key)
{
    if (ends_with(key, "_start"))
        return "INTERVAL_START";
    return ends_with(key, "_stop") || ends_with(key, "_end") ? "INTERVAL_END" : "POINT_IN_TIME";
}

/* Numbers are floats there: 1.0, not 1. */
static void write_number(struct ebb_json_writer *w, double value)
{
    char text[48];
    ebb_format_double(value, text, sizeof text - 2);
    if (isfinite(value) && !strpbrk(text, ".eE"))
        strncat(text, ".0", 3);
    if (isfinite(value))
        ebb_jsonw_raw(w, text, strlen(text));
    else
        ebb_jsonw_metric(w, value);
}

struct event {
    const char *key, *text, *status; /* text NULL: the number, or null when it is NaN */
    double number;
    bool has_number;
    int64_t epoch;
};

static void print_event(const struct cli_bench_log *log, const struct event *e)
{
    struct ebb_str out = {0};
    struct ebb_json_writer w;
    bool is_eval = strncmp(e->key, "eval_st", 7) == 0 && strcmp(log->bench->name, "deepcam") == 0;
    ebb_jsonw_init(&w, &out, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "namespace", log->bench->space);
    ebb_jsonw_key_int(&w, "time_ms", now_ms());
    ebb_jsonw_key_string(&w, "event_type", kind_of(e->key));
    ebb_jsonw_key_string(&w, "key", e->key);
    ebb_jsonw_key(&w, "value");
    if (e->has_number)
        write_number(&w, e->number);
    else
        ebb_jsonw_string(&w, e->text);
    ebb_jsonw_key_object(&w, "metadata");
    ebb_jsonw_key_string(&w, "file", log->file);
    ebb_jsonw_key_int(&w, "lineno", 0);
    if (e->epoch)
        ebb_jsonw_key_int(&w, is_eval ? "epoch" : "epoch_num", e->epoch);
    if (e->status)
        ebb_jsonw_key_string(&w, "status", e->status);
    ebb_jsonw_object_end(&w);
    ebb_jsonw_object_end(&w);
    printf(":::MLLOG %s\n", ebb_str_c(&out));
    fflush(stdout); /* a log that stops halfway is whole up to there */
    ebb_str_fini(&out);
}

void cli_bench_mark(const struct cli_bench_log *log, const char *key, int64_t epoch,
                    const char *status)
{
    print_event(log, &(struct event){.key = key, .epoch = epoch, .status = status});
}

void cli_bench_number(const struct cli_bench_log *log, const char *key, double value, int64_t epoch)
{
    print_event(log,
                &(struct event){.key = key, .number = value, .has_number = true, .epoch = epoch});
}

static void tell_text(const struct cli_bench_log *log, const char *key, const char *text)
{
    print_event(log, &(struct event){.key = key, .text = text});
}

/* ---- parameters ------------------------------------------------------------------------------ */

static const struct { /* lines of what stands in the file */
    const char *key, *section, *name;
    const char *only; /* benchmarks that have it; NULL: all */
} parameters[] = {
    {"opt_base_learning_rate", "lr_schedule", "base_lr", NULL},
    {"opt_end_learning_rate", "lr_schedule", "end_lr", NULL},
    {"lars_opt_learning_rate_decay_poly_power", "lr_schedule", "poly_power", NULL},
    {"opt_learning_rate_decay_steps", "lr_schedule", "decay_steps", NULL},
    {"lars_opt_momentum", "opt", "momentum", NULL},
    {"opt_weight_decay", "opt", "weight_decay", NULL},
    {"opt_learning_rate_warmup_steps", "lr_schedule", "lr_warmup_steps", "deepcam gpt"},
    {"num_warmup_steps", "lr_schedule", "lr_warmup_steps", "bert"},
    {"opt_learning_rate_warmup_epochs", "lr_schedule", "n_warmup_epochs", NULL},
    {"opt_learning_rate_warmup_factor", "lr_schedule", "lr_warmup_factor", NULL},
    {"opt_learning_rate_decay_factor", "lr_schedule", "decay_rate", NULL},
    {"opt_learning_rate_training_steps", "lr_schedule", "total_steps", NULL},
    {"start_warmup_step", "lr_schedule", "start_warmup_step", NULL},
    {"scheduler_type", "lr_schedule", "type", NULL},
    {"scheduler_milestones", "lr_schedule", "milestones", NULL},
    {"scheduler_t_max", "lr_schedule", "t_max", NULL},
    {"scheduler_eta_min", "lr_schedule", "eta_min", NULL},
    {"dropout", "model", "dropout", NULL},
};

static void tell_node(const struct cli_bench_log *log, const char *key,
                      const struct ebb_doc_node *node)
{
    double number;
    if (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE)
        cli_bench_number(log, key, node->number, 0);
    else if (node->kind == EBB_DOC_STRING && ebb_parse_double(node->text, &number))
        cli_bench_number(log, key, number, 0);
    else if (node->kind == EBB_DOC_STRING)
        tell_text(log, key, node->text);
}

static void tell_optimizer(const struct cli_bench_log *log)
{
    const struct optim_config *o = &log->bench->config.optim;
    char name[32], key[64];
    size_t n = 0;
    for (; o->name[n] && n + 1 < sizeof name; n++)
        name[n] = (char)toupper((unsigned char)o->name[n]);
    name[n] = '\0';
    tell_text(log, "opt_name", name);
    if (strcmp(name, "LARS") == 0)
        cli_bench_number(log, "lars_epsilon", 1e-6, 0);
    if (strncmp(name, "ADAM", 4) != 0 && strcmp(name, "LAMB") != 0)
        return;
    for (size_t i = 0; name[i]; i++)
        name[i] = (char)tolower((unsigned char)name[i]);
    const struct {
        const char *end;
        double value;
    } rows[] = {{"epsilon", o->eps}, {"beta_1", o->beta1}, {"beta_2", o->beta2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(key, sizeof key, "opt_%s_%s", name, rows[i].end);
        cli_bench_number(log, key, rows[i].value, 0);
    }
}

/* The largest factor of CosmoFlow's steps. */
static void tell_decay(const struct cli_bench_log *log)
{
    const struct ebb_doc_node *map =
        ebb_doc_get(ebb_doc_get(log->bench->root, "lr_schedule"), "decay_schedule");
    double most = -INFINITY;
    for (size_t i = 0; map && map->kind == EBB_DOC_MAP && i < map->count; i++)
        most = fmax(most, map->items[i]->number);
    if (isfinite(most))
        cli_bench_number(log, "opt_learning_rate_decay_factor", most, 0);
}

void cli_bench_parameters(const struct cli_bench_log *log)
{
    const struct train_bench *b = log->bench;
    tell_optimizer(log);
    cli_bench_number(log, "global_batch_size", (double)b->batching.effective, 0);
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        const struct ebb_doc_node *node =
            ebb_doc_given(ebb_doc_get(b->root, parameters[i].section), parameters[i].name);
        const char *only = parameters[i].only;
        if (node && (!only || ebb_words_find(only, b->name, strlen(b->name), NULL)))
            tell_node(log, parameters[i].key, node);
    }
    tell_decay(log);
    cli_bench_number(log, "gradient_accumulation_frequency", (double)b->batching.accumulate, 0);
    cli_bench_number(log, "number_of_ranks", (double)b->batching.devices, 0);
    cli_bench_number(log, "number_of_nodes", 1, 0);
    bool is_gpu = b->config.device && strcmp(b->config.device, "cpu") != 0;
    cli_bench_number(log, "accelerators_per_node", is_gpu ? 1 : 0, 0);
}
