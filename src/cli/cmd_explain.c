/* cmd_explain.c - ebb explain: where every byte of a training step goes, the
 * smallest memory it can run in, and what smaller budgets cost. Needs neither
 * the memory nor the data: an experiment file is traced, a trace is read. */
#include "cli/cmd_explain.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "base/thread.h"
#include "cli/link.h"
#include "exec/exec.h"

#define SHOWN_LAYERS 12
#define MANY_OPS 10000 /* from here on policies are tried when they are named: each takes long */

/* ---- the sweep ------------------------------------------------------------------------------- */

static int choose_policies(struct explain_view *v)
{
    static const char *const usual[] = {"dtr_eq", "dtr", "lru", "largest"};
    const struct cli_list *asked = &v->o->policies;
    size_t few = v->e.moment_count < MANY_OPS ? sizeof usual / sizeof *usual : 0;
    size_t count = asked->count ? asked->count : few;
    v->policies[v->policy_count++] = EXPLAIN_NO_POLICY;
    for (size_t i = 0; i < count; i++) {
        const char *name = asked->count ? asked->items[i] : usual[i];
        const struct mem_policy *policy = mem_policy_find(name);
        if (!policy)
            return cli_usage_error("--policy %s: no online policy; 'ebb sim --help' lists them",
                                   name);
        if (v->policy_count == EXPLAIN_POLICIES)
            return cli_usage_error("--policy: more than %d", EXPLAIN_POLICIES - 1);
        v->policies[v->policy_count++] = policy->name;
    }
    return -1;
}

/* From everything down to the floor, unless the user names budgets. */
static int choose_budgets(struct explain_view *v)
{
    static const double parts[] = {1, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05, 0};
    struct ebb_error err = {0};
    for (size_t i = 0; i < v->o->budgets.count; i++) {
        if (v->budget_count == EXPLAIN_BUDGETS)
            return cli_usage_error("--budget: more than %d", EXPLAIN_BUDGETS);
        if (ebb_parse_bytes(v->o->budgets.items[i], &v->budgets[v->budget_count++], &err) != EBB_OK)
            return cli_report(&err);
    }
    if (v->budget_count)
        return -1;
    double room = (double)v->st.unlimited_bytes - (double)v->floor_bytes;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint64_t bytes = v->floor_bytes + (uint64_t)(parts[i] * (room > 0 ? room : 0));
        bytes = (bytes + 255) / 256 * 256;
        if (!v->budget_count || bytes < v->budgets[v->budget_count - 1])
            v->budgets[v->budget_count++] = bytes;
    }
    return -1;
}

/* Budgets in an order in which the first few tell most. */
static size_t budget_at(const struct explain_view *v, size_t k)
{
    static const size_t order[] = {0, 4, 8, 2, 6, 7, 5, 3, 1};
    return !v->o->budgets.count && v->budget_count == sizeof order / sizeof *order ? order[k] : k;
}

static bool is_late(const struct explain_view *v)
{
    return v->o->seconds > 0 && (double)(ebb_clock_ns() - v->start_ns) * 1e-9 >= v->o->seconds;
}

/* Keep what was found, unless nobody waits for it any more. */
static bool keep(struct explain_view *v, size_t p, size_t b, const struct train_prediction *cell)
{
    pthread_mutex_lock(&v->mutex);
    bool is_wanted = !v->is_over && !is_late(v);
    if (is_wanted) {
        v->cells[p][b] = *cell;
        v->is_done[p][b] = true;
    }
    pthread_mutex_unlock(&v->mutex);
    return is_wanted;
}

/* Every policy in a budget before the next budget; the default comes last, as it takes longest. */
static enum ebb_status sweep(struct explain_view *v, struct ebb_error *err)
{
    for (size_t k = 0; k < v->budget_count; k++)
        for (size_t i = 1; i <= v->policy_count; i++) {
            struct train_prediction cell;
            size_t b = budget_at(v, k), p = i % v->policy_count;
            EBB_TRY(train_trial_predict(v->trial, v->budgets[b], p ? v->policies[p] : NULL, &cell,
                                        err));
            if (!keep(v, p, b, &cell))
                return EBB_OK;
        }
    return EBB_OK;
}

static void *sweep_beside(void *argument)
{
    struct explain_view *v = argument;
    struct ebb_error err = {0};
    enum ebb_status status = sweep(v, &err);
    pthread_mutex_lock(&v->mutex);
    v->status = status;
    v->err = err;
    v->is_swept = true;
    pthread_mutex_unlock(&v->mutex);
    return NULL;
}

/* A prediction cannot be told to stop: it is made beside, and left there when the time is over. What
 * it looks at must stay then (is_left). */
static enum ebb_status sweep_in_time(struct explain_view *v, struct ebb_error *err)
{
    pthread_t thread;
    bool is_swept = false;
    if (v->o->seconds <= 0)
        return sweep(v, err);
    int reason = ebb_thread_start(&thread, sweep_beside, v);
    if (reason != 0)
        return ebb_fail(err, EBB_ENOMEM, "no thread for predictions: %s", strerror(reason));
    while (!is_swept && !is_late(v)) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        pthread_mutex_lock(&v->mutex);
        is_swept = v->is_swept;
        pthread_mutex_unlock(&v->mutex);
    }
    pthread_mutex_lock(&v->mutex);
    is_swept = v->is_swept;
    v->is_over = true;
    pthread_mutex_unlock(&v->mutex);
    v->is_left = !is_swept;
    if (!is_swept)
        return EBB_OK;
    pthread_join(thread, NULL);
    *err = v->err;
    return v->status;
}

/* ---- the step --------------------------------------------------------------------------------- */

/* In a budget; UINT64_MAX: without limit. */
static enum ebb_status open_trial(struct explain_view *v, uint64_t budget_bytes,
                                  struct ebb_error *no_data, struct train_trial **trial,
                                  struct ebb_error *err)
{
    struct train_config config = v->file->config;
    struct train_options dry = {.is_dry = true, .no_data = no_data, .knows_machine = true};
    struct trace *trace = NULL;
    config.budget_bytes = budget_bytes;
    config.policy = NULL;
    if (!v->is_trace)
        return train_trial_create(trial, &config, &dry, err);
    EBB_TRY(trace_load(v->path, TRACE_FORMAT_AUTO, &trace, err));
    if (trace->is_graph) {
        trace_destroy(trace);
        return ebb_fail(err, EBB_EINPUT,
                        "%s: a graph file knows neither weights nor how long outputs are held: "
                        "'ebb plan %s --ratio 0.5' tells what less memory costs",
                        v->path, v->path);
    }
    return train_trial_of_trace(trial, trace, &config, err);
}

/* The step inside the first budget asked for; below the floor there is none. */
static enum ebb_status manage(struct explain_view *v, struct ebb_error *err)
{
    struct train_trial *trial = NULL;
    struct ebb_error why = {0};
    if (!v->o->budgets.count)
        return EBB_OK;
    enum ebb_status status = open_trial(v, v->budgets[0], NULL, &trial, &why);
    if (status == EBB_EBUDGET)
        return EBB_OK;
    if (status != EBB_OK) {
        *err = why;
        return status;
    }
    status = train_trial_managed(trial, &v->file->arena, &v->managed, err);
    if (status == EBB_OK)
        v->managed.how = ebb_arena_printf(&v->file->arena, "%s", v->managed.how);
    train_trial_destroy(trial);
    return status;
}

/* A file that is read as a trace: by its content, as experiment files may have any name. */
static bool is_trace(const char *path)
{
    struct stat about;
    struct ebb_file_view view;
    if (cli_is_experiment(path) || stat(path, &about) != 0 || !S_ISREG(about.st_mode) ||
        ebb_file_view_open(&view, path, SIZE_MAX, NULL) != EBB_OK)
        return false;
    enum trace_format format = trace_format_of(view.data, view.length);
    bool is_graph = format == TRACE_FORMAT_GRAPH && memmem(view.data, view.length, "\"n_fwd\"", 7);
    ebb_file_view_close(&view);
    return format == TRACE_FORMAT_NATIVE || format == TRACE_FORMAT_TEXT ||
           format == TRACE_FORMAT_DTR || is_graph;
}

/* What the command line says of memory; a trace has its model and its times. Returns -1, or the
 * exit code. */
static int take_memory(const struct explain_view *v, struct train_config *config)
{
    const struct cli_train_changes *c = &v->o->changes;
    const struct {
        bool is_given;
        const char *name;
    } unused[] = {{c->sets.count > 0, "set"},
                  {c->device, "device"},
                  {c->costs, "costs"},
                  {c->threads > 0, "threads"}};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        if (unused[i].is_given)
            return cli_usage_error("--%s is for experiment files: the trace %s has its model, its "
                                   "workspaces and its times",
                                   unused[i].name, v->path);
    struct ebb_error err = {0};
    struct device_config links = {0};
    if ((c->host && ebb_parse_bytes(c->host, &config->host_bytes, &err) != EBB_OK) ||
        (c->file && ebb_parse_bytes(c->file, &config->file_bytes, &err) != EBB_OK))
        return cli_report(&err);
    if (c->links.count && !explain_has_tiers(v))
        return cli_usage_error("--link needs --host BYTES or --file BYTES");
    int code = cli_read_links(&c->links, &links);
    config->link.host_rate = links.out[DEVICE_HOST].bytes_per_ns;
    config->link.file_rate = links.out[DEVICE_FILE].bytes_per_ns;
    return code;
}

static int open_file(struct explain_view *v)
{
    v->is_trace = is_trace(v->path);
    if (!v->is_trace)
        return cli_train_open(v->file, v->path, &v->o->changes);
    *v->file = (struct cli_train_file){.config = {.file = v->path}};
    ebb_arena_init(&v->file->arena);
    return take_memory(v, &v->file->config);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int explain(struct explain_view *v)
{
    struct ebb_error err = {0}, no_data = {0};
    /* the budget is what we vary */
    enum ebb_status status = open_trial(v, UINT64_MAX, &no_data, &v->trial, &err);
    if (no_data.status != EBB_OK)
        fprintf(stderr, "ebb: note: %s; the model's own sizes are used\n", no_data.message);
    EBB_THEN(status, train_trial_explain(v->trial, &v->file->arena, &v->e, &err));
    EBB_THEN(status, train_trial_floor(v->trial, &v->floor_bytes, &err));
    if (status != EBB_OK)
        return cli_report(&err);
    train_trial_state(v->trial, &v->st);
    int code = choose_policies(v);
    if (code < 0)
        code = choose_budgets(v);
    if (code >= 0)
        return code;
    if (manage(v, &err) != EBB_OK || (!v->o->is_quick && sweep_in_time(v, &err) != EBB_OK))
        return cli_report(&err);
    if (v->o->is_json)
        cli_explain_json(v);
    else
        cli_explain_text(v);
    if ((v->o->output || (!v->o->is_json && !v->o->no_chart)) &&
        cli_explain_draw(v, &err) != EBB_OK)
        return cli_report(&err);
    return 0;
}

static int run(int argc, char **argv)
{
    uint64_t start_ns = ebb_clock_ns();
    struct explain_settings o = {.layers = SHOWN_LAYERS};
    o.changes.seed = -1;
    const struct cli_spec spec = {
        .usage = "ebb explain FILE [--budget B[,B...]] [--policy P[,P...]] [--quick] "
                 "[-o CHART] [--json]",
        .description =
            "Say where every byte of a training step goes: at the "
            "peak by kind (weights, optimizer\n"
            "state, inputs, activations, gradients, workspace) and by "
            "layer; the floor, which is\n"
            "the smallest budget 'ebb train' accepts; the time that "
            "smaller budgets are predicted\n"
            "to cost under several policies; and what would help "
            "most. The model is traced, not\n"
            "run: neither its memory nor its data need be there. With --budget "
            "the chart also shows\n"
            "the step inside the first of them: what lies in memory, what is "
            "evicted, what runs again,\n"
            "and with --host or --file what lies there and what was copied.\n"
            "Times are this machine's, where 'ebb device measure' has measured them.\n"
            "\n"
            "FILE is an experiment file, or a trace: what 'ebb model trace' or 'ebb trace' writes. "
            "Leaves of\n"
            "a trace that are kept at its end count as weights, or as optimizer state where only "
            "updates\n"
            "read them.\n"
            "\n"
            "Examples:\n"
            "  ebb explain exp.yaml\n"
            "  ebb explain exp.yaml --set "
            "hyperparameters.global_batch_size=64 -o memory.svg\n"
            "  ebb explain exp.yaml --budget 24MiB -o step.svg\n"
            "  ebb explain exp.yaml --budget 24MiB --host 1GiB --link host=2 -o step.svg\n"
            "  ebb model trace resnet50 --batch 8 -o step.trace && ebb explain step.trace\n",
        CLI_OPTION_ROWS(
            {"budget", 0, CLI_LIST, &o.budgets, "B[,B...]",
             "budgets to predict (default: nine from everything down to the floor)"},
            {"policy", 0, CLI_LIST, &o.policies, "P[,P...]",
             "policies to predict beside what training does without one\n(default: "
             "dtr_eq,dtr,lru,largest; none for 10,000 ops and more)"},
            {"quick", 0, CLI_FLAG, &o.is_quick, NULL,
             "bytes, floor, the step in a budget: no times"},
            {"seconds", 0, CLI_DOUBLE, &o.seconds, "S",
             "for all of it: budgets that there is no time for are left out"},
            {"layers", 0, CLI_INT, &o.layers, "N", "rows of the table of layers (default 12)"},
            {"set", 0, CLI_LIST, &o.changes.sets, "KEY=VALUE",
             "change a value of the file, as hyperparameters.global_batch_size=8; "
             "repeatable"},
            CLI_TRAIN_TIERS(&o.changes),
            {"device", 0, CLI_STRING, &o.changes.device, "NAME",
             "cpu, cuda or a kind that is not here: nvidia-h200"},
            {CLI_TRAIN_COSTS(&o.changes)},
            {"threads", 0, CLI_INT, &o.changes.threads, "N",
             "of kernels: workspaces depend on it (default: all cores)"},
            {"output", 'o', CLI_STRING, &o.output, "FILE", "write the chart as .svg, .png or .pdf"},
            {"no-chart", 0, CLI_FLAG, &o.no_chart, NULL, "tables only"},
            {"json", 0, CLI_FLAG, &o.is_json, NULL, "one JSON object"}),
        CLI_NEEDS({"no-chart", "!output json"}, {"layers", "!json"}, {"quick", "!policy"},
                  {"quick", "!seconds"}),
        CLI_LIMITS({"layers", 1, 1e9}, {"threads", 1, 4096}, {"seconds", 0, 1e9}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args = {0};
    struct cli_train_file file;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code < 0) {
        struct explain_view v = {.o = &o,
                                 .path = args.positional[0],
                                 .file = &file,
                                 .start_ns = start_ns,
                                 .mutex = PTHREAD_MUTEX_INITIALIZER};
        code = open_file(&v);
        code = code < 0 ? explain(&v) : code;
        if (v.is_left)
            _exit(cli_flush(code));
        train_trial_destroy(v.trial);
        cli_train_close(&file);
    }
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_explain = {
    .name = "explain",
    .summary = "where the memory of a training step goes, and what less of it costs",
    .run = run,
};
