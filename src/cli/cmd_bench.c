/* cmd_bench.c - ebb bench: a benchmark of EPCC's suite, trained here until its target or its limit.
 *
 * The loop is the suite's (docs/bench.md): epochs, a validation after every eval_every of them,
 * MLPerf's lines and the plain lines that performance checks look for, on stdout. */
#include "cli/cmd_bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "cli/json.h"
#include "cli/machine.h"
#include "cli/power.h"
#include "cli/share.h"
#include "cli/show.h"
#include "cli/train_file.h"

struct settings {
    struct cli_train_changes changes;
    const char *device, *config, *data_dir;
    int64_t global_batch, local_batch, train_subset, val_subset, devices, workers;
    bool is_dry, is_json;
};

struct session {
    const struct settings *o;
    struct ebb_arena arena;
    char path[4096];
    struct train_bench bench;
    struct cli_bench_log log;
    struct train_trial *trial;
    struct cli_power power;
    double first_loss; /* before training; NaN: not measured */
    double loss;       /* of the last epoch */
    int64_t epoch, samples;
    uint64_t train_ns; /* of all epochs, without validations */
    double value;      /* of the target's metric, last measured */
    bool is_reached;
    uint64_t start_ns, total_ns;
    const char *status;
};

/* ---- the file --------------------------------------------------------------------------------- */

/* A name of the suite is its file in examples/bench, which is installed with the program. */
static int find_file(struct session *s, const char *word, const char **name)
{
    const char *names[8];
    char installed[128], source[128];
    size_t count = 0;
    *name = NULL;
    for (; train_bench_name(count); count++) {
        names[count] = train_bench_name(count);
        if (strcmp(names[count], word) == 0)
            *name = names[count];
    }
    if (s->o->config || !*name) {
        snprintf(s->path, sizeof s->path, "%s", s->o->config ? s->o->config : word);
        names[count++] = "check";
        const char *near = ebb_nearest(word, names, count);
        if (!*name && !strpbrk(word, "./") && near)
            return cli_usage_error("no benchmark or verb '%s'; did you mean '%s'?", word, near);
        return -1;
    }
    snprintf(installed, sizeof installed, "bench/%s.yaml", word);
    snprintf(source, sizeof source, "examples/bench/%s.yaml", word);
    if (cli_share_find(installed, source, s->path, sizeof s->path))
        return -1;
    return cli_usage_error("%s is neither installed (share/ebb) nor in a source tree: give the "
                           "benchmark as a file, -c FILE",
                           installed);
}

static enum ebb_status change(struct session *s, struct ebb_doc_node *root, struct ebb_error *err)
{
    const struct settings *o = s->o;
    bool is_cosmo = ebb_doc_get(ebb_doc_get(root, "data"), "n_train") != NULL; /* its own words */
    const struct {
        const char *key;
        int64_t value;
    } rows[] = {{"data.global_batch_size", o->global_batch},
                {"data.local_batch_size", o->local_batch},
                {is_cosmo ? "data.n_train" : "data.train_subset", o->train_subset},
                {is_cosmo ? "data.n_eval" : "data.val_subset", o->val_subset}};
    EBB_TRY(cli_train_change(&s->arena, root, &o->changes, err));
    EBB_TRY(cli_put_text(&s->arena, root, "device", o->device, err));
    EBB_TRY(cli_put_text(&s->arena, root, "data.data_dir", o->data_dir, err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value >= 0)
            EBB_TRY(cli_put_int(&s->arena, root, rows[i].key, rows[i].value, err));
    return EBB_OK;
}

/* Ranks that a launcher started; 1: none, or one. */
static uint64_t launched_ranks(const char **variable)
{
    static const char *const names[] = {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "SLURM_NTASKS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        uint64_t n;
        *variable = names[i];
        if (text && ebb_parse_u64(text, &n) && n > 1)
            return n;
    }
    return 1;
}

static int read_file(struct session *s, const char *word)
{
    struct ebb_doc_node *root;
    struct ebb_error err = {0};
    struct ebb_report report = {0};
    const char *name, *variable;
    int code = find_file(s, word, &name);
    if (code < 0)
        code = cli_load_mapping(&s->arena, s->path, "a benchmark file", &root);
    if (code >= 0)
        return code;
    if (change(s, root, &err) != EBB_OK)
        return cli_report(&err);
    uint64_t ranks = launched_ranks(&variable);
    struct train_bench_source source = {.file = s->path,
                                        .directory = cli_folder_of(&s->arena, s->path),
                                        .name = name,
                                        .root = root,
                                        .devices = s->o->devices ? (uint64_t)s->o->devices
                                                   : ranks > 1   ? ranks
                                                                 : 0,
                                        .seed = s->o->changes.seed};
    enum ebb_status status = train_bench_read(&s->arena, &source, &s->bench, &report, &err);
    if (status != EBB_OK && report.errors == 0)
        return cli_report(&err);
    cli_print_report(&report, status != EBB_OK ? s->path : NULL, stderr);
    if (status != EBB_OK)
        return 2;
    code = cli_train_folder(&s->bench.config, &s->o->changes, false);
    if (code >= 0)
        return code;
    s->log = (struct cli_bench_log){&s->bench, ebb_file_name(s->path)};
    if (s->bench.batching.devices == 1 || s->o->is_dry)
        return -1;
    if (ranks > 1 && !s->o->devices)
        return cli_usage_error("$%s is %" PRIu64 ": valid, but this build trains on one device; "
                               "'--devices 1' runs this process alone",
                               variable, ranks);
    return cli_usage_error("%" PRIu64 " devices: valid, but this build trains on one; --dry-run "
                           "shows what they would do",
                           s->bench.batching.devices);
}

/* ---- --dry-run -------------------------------------------------------------------------------- */

static void dry_json(const struct session *s)
{
    const struct data_batching *p = &s->bench.batching;
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "benchmark", s->bench.name);
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {{"samples", p->samples},
                {"global_batch_size", p->global},
                {"effective_batch_size", p->effective},
                {"devices", p->devices},
                {"gradient_accumulation", p->accumulate},
                {"local_batch_size", p->local},
                {"samples_per_device", p->per_device},
                {"iterations_per_epoch", p->iterations},
                {"updates_per_epoch", p->updates},
                {"leftover", p->leftover},
                {"n_epochs", (uint64_t)s->bench.epochs},
                {"max_steps", (uint64_t)s->bench.steps},
                {"eval_every", (uint64_t)s->bench.eval_every}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ebb_jsonw_key_uint(w, rows[i].key, rows[i].value);
    ebb_jsonw_key_double(w, "target", s->bench.target);
    cli_json_object_end(&json);
}

static void dry_text(const struct session *s)
{
    const struct train_bench *b = &s->bench;
    const struct data_batching *p = &b->batching;
    printf("%s: %s\n", b->name, s->path);
    printf("  samples               %" PRIu64 "\n", p->samples);
    printf("  global batch size     %" PRIu64 "%s\n", p->effective,
           p->global != p->global_batch ? " (devices x local_batch_size)" : "");
    printf("  devices               %" PRIu64 "\n", p->devices);
    printf("  accumulation          %" PRIu64 "%s\n", p->accumulate,
           b->accumulation == TRAIN_BY_BUDGET ? " (the fewest that fit the budget)" : "");
    printf("  iterations per epoch  %" PRIu64 " of %" PRIu64 " samples per device\n", p->iterations,
           p->local);
    printf("  update                every %" PRIu64 " iterations (%" PRIu64 " samples), %" PRIu64
           " per epoch\n",
           p->accumulate, p->effective, p->updates);
    if (p->leftover)
        printf("  leftover              %" PRIu64 " iterations at the end of an epoch are %s\n",
               p->leftover, b->config.drops_leftover ? "dropped" : "carried over");
    if (b->steps)
        printf("  ends                  after %" PRId64 " updates\n", b->steps);
    else
        printf("  ends                  after %" PRId64 " epochs, validated every %" PRId64 "\n",
               b->epochs, b->eval_every);
    if (isfinite(b->target))
        printf("  target                %s%s %s %g\n", b->goal->is_log ? "ln " : "",
               b->goal->metric, b->goal->is_low ? "<=" : ">=", b->target);
}

static enum ebb_status count_samples(struct session *s, uint64_t *samples, struct ebb_error *err)
{
    const struct train_config *c = &s->bench.config;
    struct data_env env = {.benchmark = c->benchmark, .directory = c->directory, .seed = c->seed};
    struct data_set *set;
    if (!c->data)
        return ebb_fail(err, EBB_EINPUT, "%s: the section 'data' is missing", s->path);
    EBB_TRY(data_open(c->data, &env, &set, err));
    *samples = data_describe(set)->count[DATA_TRAIN];
    data_close(set);
    return EBB_OK;
}

static int dry_run(struct session *s)
{
    struct ebb_error err = {0};
    uint64_t samples;
    enum ebb_status status = count_samples(s, &samples, &err);
    EBB_THEN(status, train_bench_fit(&s->bench, &err));
    EBB_THEN(status, train_bench_count(&s->bench, samples, &err));
    if (status != EBB_OK)
        return cli_report(&err);
    if (s->o->is_json)
        dry_json(s);
    else
        dry_text(s);
    return 0;
}

/* ---- the run ------------------------------------------------------------------------------------ */

static void tell_batch(const struct session *s, int64_t at, uint64_t ns, uint64_t wait_ns)
{
    int64_t every = s->bench.tell_every;
    if (every && at % every == 0)
        printf("Epoch: %" PRId64 " Batch: %" PRId64 "/%" PRIu64 " Train Time: %.6f IO Time: %.6f\n",
               s->epoch, at, s->bench.batching.iterations, (double)ns * 1e-9,
               (double)wait_ns * 1e-9);
}

struct epoch { /* what one took */
    double loss, rate;
    int64_t batches, samples, dropped;
    uint64_t ns, wait_ns;
    struct cli_power_mean power;
};

static bool is_at_limit(const struct session *s)
{
    return s->bench.steps && train_trial_updates(s->trial) >= s->bench.steps;
}

static enum ebb_status run_epoch(struct session *s, struct epoch *e, struct ebb_error *err)
{
    uint64_t start = ebb_clock_ns();
    struct train_batch b = {0};
    double sum = 0;
    *e = (struct epoch){0};
    cli_power_begin(&s->power);
    while (!b.is_epoch_end && !is_at_limit(s) && !cli_interrupted()) {
        EBB_TRY(train_trial_batch(s->trial, &b, err));
        cli_power_look(&s->power);
        sum += b.loss;
        e->batches++;
        e->samples += b.records;
        e->wait_ns += b.wait_ns;
        e->dropped = b.dropped;
        e->rate = b.rate;
        tell_batch(s, e->batches, ebb_clock_ns() - start, e->wait_ns);
        int64_t updates = train_trial_updates(s->trial);
        if (s->bench.log_every && b.is_update && updates % s->bench.log_every == 0)
            printf("Step: %" PRId64 " Train Loss: %.9g\n", updates, b.loss);
    }
    e->ns = ebb_clock_ns() - start;
    e->loss = e->batches ? sum / (double)e->batches : NAN;
    e->power = cli_power_mean(&s->power);
    return EBB_OK;
}

/* Lines for performance checks: exact prefixes, the value to the end of the line. */
static void tell_epoch(struct session *s, const struct epoch *e)
{
    double seconds = (double)e->ns * 1e-9;
    struct train_state st;
    train_trial_state(s->trial, &st);
    if (s->epoch == 1 && isfinite(s->first_loss))
        printf("Change In Train Loss at Epoch: %.9g\n", s->first_loss - e->loss);
    printf("Train Loss at Epoch %" PRId64 ": %.9g\n", s->epoch, e->loss);
    printf("Processing Speed: %.6f\n", (double)e->samples / seconds);
    printf("Time For Epoch: %.6f\n", seconds);
    printf("Communication Time: %.6f\n", 0.0); /* one device */
    printf("Total IO Time: %.6f\n", (double)e->wait_ns * 1e-9);
    if (isfinite(e->power.cpu_watts))
        printf("Avg CPU Power Draw: %.5f\n", e->power.cpu_watts);
    if (isfinite(e->power.gpu_watts)) {
        printf("Avg GPU Power Draw: %.5f\n", e->power.gpu_watts);
        printf("Avg GPU Utilization: %.2f\n", e->power.gpu_percent);
    }
    printf("Peak Memory: %" PRIu64 "\n", st.peak_bytes);
    if (st.budget_bytes != UINT64_MAX)
        printf("Memory Budget: %" PRIu64 "\n", st.budget_bytes);
    printf("Rematerialized Ops: %" PRIu64 "\n", st.remat_ops);
    printf("Rematerialization Overhead: %.6f\n", st.overhead > 1 ? 1 - 1 / st.overhead : 0.0);
    if (e->dropped && s->epoch == 1)
        printf("Leftover micro-batches dropped at the end of every epoch: %" PRId64 "\n",
               e->dropped);
    fflush(stdout);
}

static enum ebb_status evaluate(struct session *s, struct ebb_error *err)
{
    const struct train_bench *b = &s->bench;
    struct train_metrics m;
    cli_bench_mark(&s->log, "eval_start", s->epoch, NULL);
    EBB_TRY(train_trial_validate(s->trial, NULL, NULL, &m, err));
    for (size_t i = 0; i < m.count; i++) {
        if (strcmp(m.items[i].name, "validation_loss") == 0)
            cli_bench_number(&s->log, "eval_loss", m.items[i].value, s->epoch);
        if (strcmp(m.items[i].name, b->goal->metric) != 0)
            continue;
        s->value = b->goal->is_log ? log(m.items[i].value) : m.items[i].value;
        bool is_mae = strcmp(b->goal->metric, "validation_mae") == 0;
        cli_bench_number(&s->log, is_mae ? "eval_mae" : "eval_accuracy", s->value, s->epoch);
    }
    cli_bench_mark(&s->log, "eval_stop", s->epoch, NULL);
    s->is_reached = b->goal->is_low ? s->value <= b->target : s->value >= b->target;
    if (s->is_reached)
        cli_bench_number(&s->log, b->goal->reached, s->value, s->epoch);
    return EBB_OK;
}

static enum ebb_status loop(struct session *s, struct ebb_error *err)
{
    const struct train_bench *b = &s->bench;
    bool is_last = false;
    while (!is_last && !s->is_reached && !cli_interrupted()) {
        struct epoch e;
        s->epoch++;
        cli_bench_mark(&s->log, "epoch_start", s->epoch, NULL);
        EBB_TRY(run_epoch(s, &e, err));
        s->loss = e.loss;
        s->samples += e.samples;
        s->train_ns += e.ns;
        is_last = is_at_limit(s) || (b->epochs && s->epoch >= b->epochs);
        cli_bench_number(&s->log, "learning_rate", e.rate, s->epoch);
        cli_bench_number(&s->log, "train_loss", e.loss, s->epoch);
        tell_epoch(s, &e);
        bool is_time = is_last || s->epoch % b->eval_every == 0;
        if (is_time && train_trial_has_validation(s->trial) && !cli_interrupted())
            EBB_TRY(evaluate(s, err));
        cli_bench_mark(&s->log, "epoch_stop", s->epoch, NULL);
    }
    return EBB_OK;
}

/* Lines of the GPU's power are of a run on one; without NVML they are absent, and it is said. */
static void open_power(struct session *s)
{
    const char *device = s->bench.config.device;
    bool is_gpu = device && strcmp(device, "cuda") == 0;
    struct ebb_error why = {0};
    if (cli_power_open(&s->power, is_gpu, &why) != EBB_OK)
        fprintf(stderr, "ebb: note: no lines 'Avg GPU Power Draw', 'Avg GPU Utilization': %s\n",
                why.message);
}

static enum ebb_status prepare(struct session *s, struct ebb_error *err)
{
    struct train_state st;
    struct train_options options = {
        .workers = (int)s->o->workers, .knows_machine = true, .machine_bytes = cli_machine_bytes()};
    uint64_t samples;
    EBB_TRY(count_samples(s, &samples, err));
    EBB_TRY(train_bench_fit(&s->bench, err));
    EBB_TRY(train_bench_count(&s->bench, samples, err));
    if (!s->bench.batching.is_exact)
        fprintf(stderr, "ebb: warning: updates are of %" PRIu64 " samples, not %" PRIu64 "\n",
                s->bench.batching.effective, s->bench.batching.global);
    EBB_TRY(train_trial_create(&s->trial, &s->bench.config, &options, err));
    open_power(s);
    train_trial_state(s->trial, &st);
    if (s->bench.epochs)
        EBB_TRY(train_trial_lasts(s->trial, s->bench.epochs * (int64_t)(s->bench.batching.updates),
                                  err));
    s->first_loss = NAN;
    if (train_trial_has_validation(s->trial))
        EBB_TRY(train_trial_ones(s->trial, &s->first_loss, err));
    return EBB_OK;
}

static void print_result(const struct session *s)
{
    const struct train_bench *b = &s->bench;
    struct train_state st;
    struct cli_json json;
    train_trial_state(s->trial, &st);
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "benchmark", b->name);
    ebb_jsonw_key_string(w, "status", s->status);
    ebb_jsonw_key_int(w, "epochs", s->epoch);
    ebb_jsonw_key_int(w, "updates", st.updates);
    ebb_jsonw_key_double(w, "loss", s->loss);
    ebb_jsonw_key_string(w, "metric", b->goal->metric);
    ebb_jsonw_key_double(w, "value", s->value);
    ebb_jsonw_key_double(w, "target", b->target);
    ebb_jsonw_key_double(w, "time_to_target_s", s->is_reached ? (double)s->total_ns * 1e-9 : NAN);
    ebb_jsonw_key_double(w, "run_s", (double)s->total_ns * 1e-9);
    ebb_jsonw_key_double(w, "samples_per_second",
                         s->train_ns ? (double)s->samples / ((double)s->train_ns * 1e-9) : NAN);
    ebb_jsonw_key_uint_or_null(w, "budget_bytes", st.budget_bytes, st.budget_bytes < UINT64_MAX);
    ebb_jsonw_key_uint(w, "peak_bytes", st.peak_bytes);
    ebb_jsonw_key_uint(w, "remat_ops", st.remat_ops);
    ebb_jsonw_key_int(w, "threads", st.threads);
    cli_json_object_end(&json);
}

static int train(struct session *s)
{
    struct ebb_error err = {0};
    cli_bench_mark(&s->log, "init_start", 0, NULL);
    cli_bench_mark(&s->log, s->bench.space, 0, NULL);
    cli_bench_number(&s->log, "seed", (double)s->bench.config.seed, 0);
    enum ebb_status status = prepare(s, &err);
    if (status != EBB_OK)
        return cli_report(&err);
    cli_bench_parameters(&s->log);
    cli_bench_mark(&s->log, "init_stop", 0, NULL);
    cli_catch_interrupts();
    cli_bench_mark(&s->log, "run_start", 0, NULL);
    s->start_ns = ebb_clock_ns();
    s->value = NAN;
    status = loop(s, &err);
    s->total_ns = ebb_clock_ns() - s->start_ns;
    s->status = status != EBB_OK         ? "aborted"
                : s->is_reached          ? "success"
                : cli_interrupted()      ? "interrupted"
                : isnan(s->bench.target) ? "success"
                                         : "target not met";
    cli_bench_mark(&s->log, "run_stop", 0, s->status);
    if (status != EBB_OK)
        return cli_report(&err);
    if (s->is_reached)
        printf("Time To Target: %.6f\n", (double)s->total_ns * 1e-9);
    if (s->o->is_json)
        print_result(s);
    return strcmp(s->status, "success") == 0 ? 0 : 1;
}

/* ---- the command ---------------------------------------------------------------------------------- */

/* The suite's short names of two options have three letters. */
static char **long_names(int argc, char **argv)
{
    char **copy = ebb_calloc((size_t)argc + 1, sizeof *copy);
    for (int i = 0; copy && i < argc; i++)
        copy[i] = strcmp(argv[i], "-gbs") == 0         ? (char *)"--global_batchsize"
                  : strcmp(argv[i], "-lbs") == 0       ? (char *)"--local_batchsize"
                  : strcmp(argv[i], "--data_dir") == 0 ? (char *)"--data-dir"
                                                       : argv[i];
    return copy;
}

static int run_bench(int argc, char **argv)
{
    struct settings o = {.global_batch = -1,
                         .local_batch = -1,
                         .train_subset = -1,
                         .val_subset = -1,
                         .changes.seed = -1,
                         .workers = -1};
    const struct cli_spec spec = {
        .usage = "ebb bench NAME|FILE [--budget BYTES] [--set KEY=VALUE] [option...]",
        .description =
            "Train a benchmark of EPCC's suite (resnet50, deepcam, cosmoflow, bert, gpt) until "
            "its\n"
            "target is met or its epochs are over. NAME is a file that comes with ebb and trains "
            "on\n"
            "generated data; FILE is a config.yaml of the suite, with -c also as 'NAME -c FILE'.\n"
            "MLPerf's log lines and the lines that performance checks look for go to stdout;\n"
            "'ebb bench check' compares them with references. A budget is kept as by 'ebb train',\n"
            "and changes no result.\n\n"
            "Batches are divided as docs/bench.md tells; --dry-run shows it without training.\n\n"
            "Verbs:\n"
            "  check  compare the log of a run with performance references\n\n"
            "Exit code 0: the target was met, or there is none; 1: it was not, or the run failed;\n"
            "2: invalid file or option.\n\n"
            "Examples:\n"
            "  ebb bench resnet50 --dry-run --devices 4 -gbs 8 --t_subset_size 512\n"
            "  ebb bench cosmoflow --budget 2GiB > cosmoflow.log\n"
            "  ebb bench bert --set model.layers=2 --set model.width=128 --set model.heads=2\n"
            "  ebb bench check cosmoflow.log --references refs.yaml --system laptop\n",
        CLI_OPTION_ROWS(
            {"config", 'c', CLI_STRING, &o.config, "FILE",
             "the benchmark's file, instead of the one that comes with ebb (without NAME:\n"
             "config.yaml, if it is there)"},
            {"device", 'd', CLI_STRING, &o.device, "NAME",
             "cpu, cuda or gpu (default: as the file says)"},
            CLI_TRAIN_MEMORY(&o.changes),
            {"data-dir", 0, CLI_STRING, &o.data_dir, "DIR",
             "data.data_dir: a folder, or synthetic[:SEED]"},
            {"global_batchsize", 0, CLI_INT, &o.global_batch, "N",
             "data.global_batch_size (also -gbs)"},
            {"local_batchsize", 0, CLI_INT, &o.local_batch, "N",
             "data.local_batch_size (also -lbs); 0: by the global one"},
            {"t_subset_size", 0, CLI_INT, &o.train_subset, "N",
             "data.train_subset: training samples used; 0: all"},
            {"v_subset_size", 0, CLI_INT, &o.val_subset, "N",
             "data.val_subset: validation samples used; 0: all"},
            {"set", 0, CLI_LIST, &o.changes.sets, "KEY=VALUE",
             "change a value of the file, as training.target_iou=0.5; model.KEY is an\noption of "
             "the zoo's model ('ebb model show'); repeatable"},
            {"seed", 0, CLI_INT, &o.changes.seed, "N", "instead of the benchmark's"},
            {"devices", 0, CLI_INT, &o.devices, "N",
             "that share an update; this build trains on one, --dry-run shows any"},
            {"threads", 0, CLI_INT, &o.changes.threads, "N", "of kernels (default: all cores)"},
            {"workers", 0, CLI_INT, &o.workers, "N", "threads that load data (default 1; 0: none)"},
            {"dry-run", 0, CLI_FLAG, &o.is_dry, NULL, "say how batches are divided, and end"},
            {"json", 0, CLI_FLAG, &o.is_json, NULL, "one JSON object as the last line"}),
        CLI_LIMITS({"global_batchsize", 1, 1e9}, {"local_batchsize", 0, 1e9},
                   {"t_subset_size", 0, 1e12}, {"v_subset_size", 0, 1e12}, {"seed", 0, 9e18},
                   {"devices", 1, 65536}, {"threads", 1, 4096}, {"workers", 0, 256}),
        CLI_POSITIONAL(0, 1),
    };
    struct cli_args args = {0};
    char **words = long_names(argc, argv);
    int code = words ? cli_parse(&spec, argc, words, &args) : 1;
    if (code < 0 && args.positional_count == 0 && !o.config && access("config.yaml", R_OK) == 0)
        o.config = "config.yaml"; /* where the suite looks */
    if (code < 0 && args.positional_count == 0 && !o.config)
        code = cli_usage_error("which benchmark? NAME or FILE is missing; see 'ebb bench --help'");
    struct session *s = code < 0 ? ebb_calloc(1, sizeof *s) : NULL;
    if (s) {
        s->o = &o;
        ebb_arena_init(&s->arena);
        code = read_file(s, args.positional_count ? args.positional[0] : o.config);
        if (code < 0)
            code = o.is_dry ? dry_run(s) : train(s);
        train_trial_destroy(s->trial);
        ebb_arena_fini(&s->arena);
    }
    ebb_free(s);
    ebb_free(words);
    cli_args_fini(&args);
    return code < 0 ? 1 : code;
}

static int run(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return cli_bench_check(argc - 1, argv + 1);
    return run_bench(argc, argv);
}

const struct cli_command cli_cmd_bench = {
    .name = "bench",
    .summary = "train a benchmark of EPCC's suite to its target; check its log",
    .run = run,
};
