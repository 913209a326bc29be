/* cmd_device.c - ebb device: what a device costs, measured once and kept as a profile. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/thread.h"
#include "cli/json.h"
#include "cli/train_file.h"
#include "profile/profile.h"

#define DEFAULT_UPDATES 6 /* the first warms up */
#define MOST_FACTOR 1.5   /* beyond it an update is made of something else than its ops */

struct measuring {
    struct cli_train_changes changes;
    const char *output;
    struct ebb_str own; /* where this machine's profile is, when that is the output */
    int64_t updates;
    bool is_json;
    const char *device; /* of all files: its links are measured, it gives the profile its name */
    int threads;        /* of all files, where the profile is this machine's; 0: not known yet */
    struct train_times *times;
};

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Some updates; the median of those that count. */
static enum ebb_status run_updates(const struct measuring *m, struct train_trial *trial,
                                   uint64_t *median_ns, struct ebb_error *err)
{
    struct train_batch batch;
    uint64_t ns[64], sum = 0;
    size_t count = 0;
    for (int64_t done = 0; done < m->updates;) {
        EBB_TRY(train_trial_batch(trial, &batch, err));
        sum += batch.ns - batch.wait_ns; /* data are not the device's */
        if (!batch.is_update)
            continue;
        if (done++ > 0 && count < sizeof ns / sizeof *ns)
            ns[count++] = sum;
        sum = 0;
    }
    qsort(ns, count, sizeof *ns, compare_ns);
    *median_ns = count ? ns[count / 2] : 0;
    return EBB_OK;
}

/* Which algorithms are fastest, before anything is timed with them: the profile so far decides then. */
static enum ebb_status choose(struct measuring *m, struct train_config *config,
                              const struct train_options *options, struct ebb_error *err)
{
    struct train_trial *trial = NULL;
    struct profile *profile = NULL;
    if (strcmp(m->device, "cpu") == 0)
        return EBB_OK;
    enum ebb_status status = train_trial_create(&trial, config, options, err);
    EBB_THEN(status, train_trial_algorithms(trial, true, m->times, err));
    train_trial_destroy(trial);
    if (status != EBB_OK || !train_times_chosen(m->times))
        return status;
    status = train_times_profile(m->times, config->device, config->file_path, &profile, err);
    EBB_THEN(status, profile_write(profile, m->output, err));
    profile_destroy(profile);
    config->costs = m->output;
    return status;
}

/* Updates as they are, and op by op: ns[0], ns[1]; what the ops take together: ns[2]. A GPU that has
 * pauses runs faster than one that has none (power): what its ops take is set to what they take in an
 * update. */
static enum ebb_status take_times(const struct measuring *m, const struct train_config *config,
                                  const struct train_options *options, uint64_t ns[3],
                                  struct ebb_error *err)
{
    size_t first = train_times_count(m->times);
    for (int is_timed = 0; is_timed < 2; is_timed++) {
        struct train_trial *trial = NULL;
        struct train_options o = *options;
        o.times = is_timed ? m->times : NULL;
        enum ebb_status status = train_trial_create(&trial, config, &o, err);
        EBB_THEN(status, run_updates(m, trial, &ns[is_timed], err));
        train_trial_destroy(trial);
        EBB_TRY(status);
    }
    ns[2] = train_times_total(m->times, first) / (uint64_t)m->updates;
    double factor = ns[2] ? (double)ns[0] / (double)ns[2] : 0;
    if (train_is_gpu(m->device) && factor > 0.8 && factor < MOST_FACTOR)
        train_times_scale(m->times, first, factor);
    return EBB_OK;
}

static void tell_times(const char *path, const uint64_t ns[3])
{
    char update[32], single[32], ops[32];
    printf("%s: an update takes %s, op by op %s; the ops together %s, %.0f %% of the update\n",
           path, ebb_format_ns(ns[0], update, sizeof update),
           ebb_format_ns(ns[1], single, sizeof single), ebb_format_ns(ns[2], ops, sizeof ops),
           ns[0] ? 100.0 * (double)ns[2] / (double)ns[0] : 0.0);
}

static int measure_file(struct measuring *m, const char *path)
{
    struct cli_train_file file;
    struct ebb_error err = {0};
    struct train_options options = {.workers = -1};
    uint64_t ns[3] = {0};
    int code = cli_train_open(&file, path, &m->changes);
    if (code >= 0) {
        cli_train_close(&file);
        return code;
    }
    file.config.budget_bytes = UINT64_MAX;
    options.makes_data = !file.config.data;
    enum ebb_status status = choose(m, &file.config, &options, &err);
    EBB_THEN(status, take_times(m, &file.config, &options, ns, &err));
    if (status == EBB_OK && !m->is_json)
        tell_times(path, ns);
    cli_train_close(&file);
    return status == EBB_OK ? -1 : cli_report(&err);
}

/* A machine's profile is of one number of threads. */
static int find_threads(struct measuring *m, const char *path, int threads)
{
    threads = threads > 0 ? threads : ebb_cpu_count();
    if (!m->output && m->threads && m->threads != threads)
        return cli_usage_error("%s: memory.threads is %d, that of the files before it %d; this "
                               "machine has a profile for each: say --threads, or measure them one "
                               "by one",
                               path, threads, m->threads);
    m->threads = threads;
    return -1;
}

/* The device that a file names; another one than the files before: exit code 2, and both are told. */
static int find_device(struct measuring *m, const char *path, const char *device)
{
    static const char *const known[] = {"cpu", "cuda", "far"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(device ? device : "cpu", known[i]) == 0)
            device = known[i];
    if (m->device && strcmp(m->device, device) != 0)
        return cli_usage_error(
            "%s: memory.device is %s, that of the files before it %s; a profile is of "
            "one device: say --device, or measure them one by one",
            path, device, m->device);
    m->device = device;
    return -1;
}

/* Without -o: the profile of this machine, which decides from then on. A GPU's chooses algorithms, and
 * with them the last bits: that is never done unasked. */
static int find_output(struct measuring *m)
{
    struct ebb_error err = {0};
    if (m->output)
        return cli_train_target(m->output, &err) == EBB_OK ? -1 : cli_report(&err);
    if (m->device && strcmp(m->device, "cpu") != 0)
        return cli_usage_error("ebb device measure: -o PROFILE is missing: without it a profile of "
                               "the processor is kept, not one of device %s",
                               m->device);
    enum ebb_status status = train_machine_path(m->threads, &m->own, &err);
    if (status == EBB_OK) {
        m->output = ebb_str_c(&m->own);
        char *end = strrchr(m->own.data, '/');
        *end = '\0';
        status = ebb_file_mkdirs(m->output, &err);
        *end = '/';
    }
    EBB_THEN(status, cli_train_target(m->output, &err));
    return status == EBB_OK ? -1 : cli_report(&err);
}

/* Everything that can be known to be wrong, before minutes are measured. */
static int check_all(struct measuring *m, const struct cli_args *args)
{
    int code = -1;
    for (size_t i = 0; i < args->positional_count; i++) {
        struct cli_train_file file;
        int found = cli_train_open(&file, args->positional[i], &m->changes);
        found = found < 0 ? find_device(m, args->positional[i], file.config.device) : found;
        found = found < 0 ? find_threads(m, args->positional[i], file.config.threads) : found;
        code = found > code ? found : code;
        cli_train_close(&file);
    }
    int found = find_output(m);
    return found > code ? found : code;
}

static const char *const link_names[PROFILE_LINKS] = {
#define X(name, text) [PROFILE_##name] = #text,
    PROFILE_LINK_LIST(X)
#undef X
};

static void print_links(const struct measuring *m, const struct profile *profile)
{
    for (int k = 0; k < PROFILE_LINKS; k++) {
        struct profile_link l = profile_link(profile, (enum profile_link_name)k);
        printf("  %-9s %6.2f GB/s, both ways %6.2f, latency %" PRIu64 " us\n", link_names[k],
               l.bytes_per_ns, l.both_bytes_per_ns, l.latency_ns / 1000);
    }
    if (m->own.length)
        printf(
            "written: %s; 'ebb explain' and 'ebb train' go by it from now on, where it knows the "
            "step\n(--costs builtin: not)\n",
            m->output);
    else
        printf("written: %s; 'ebb train FILE --costs %s' decides by it\n", m->output, m->output);
}

static void print_json(const struct profile *profile, const char *path)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "profile", path);
    ebb_jsonw_key_string(w, "kind", profile_kind(profile));
    for (int k = 0; k < PROFILE_LINKS; k++) {
        struct profile_link l = profile_link(profile, (enum profile_link_name)k);
        ebb_jsonw_key_object(w, link_names[k]);
        ebb_jsonw_key_uint(w, "latency_ns", l.latency_ns);
        ebb_jsonw_key_double(w, "bytes_per_ns", l.bytes_per_ns);
        ebb_jsonw_key_double(w, "both_bytes_per_ns", l.both_bytes_per_ns);
        ebb_jsonw_object_end(w);
    }
    cli_json_object_end(&json);
}

/* What was measured before with other files stays; a file that cannot be read is written anew. */
static enum ebb_status keep_older(struct profile *profile, const char *path, struct ebb_error *err)
{
    struct profile *older = NULL;
    struct ebb_error why = {0};
    if (access(path, F_OK) != 0)
        return EBB_OK;
    if (profile_load(path, &older, &why) != EBB_OK) {
        fprintf(stderr, "ebb: note: what was measured before is lost: %s\n", why.message);
        return EBB_OK;
    }
    enum ebb_status status = profile_add_rows(profile, older, err);
    profile_destroy(older);
    return status;
}

static int write_profile(const struct measuring *m)
{
    struct profile *profile = NULL;
    struct ebb_error err = {0};
    enum ebb_status status =
        train_times_profile(m->times, m->device, m->changes.file_path, &profile, &err);
    if (m->own.length)
        EBB_THEN(status, keep_older(profile, m->output, &err));
    EBB_THEN(status, profile_write(profile, m->output, &err));
    if (status != EBB_OK) {
        profile_destroy(profile);
        return cli_report(&err);
    }
    if (m->is_json)
        print_json(profile, m->output);
    else
        print_links(m, profile);
    profile_destroy(profile);
    return 0;
}

static int run_measure(int argc, char **argv)
{
    struct measuring m = {.updates = DEFAULT_UPDATES};
    m.changes.seed = -1;
    const struct cli_spec spec = {
        .usage = "ebb device measure FILE... [-o PROFILE]",
        .description =
            "Train each experiment file for a few updates on random data, without a limit, and "
            "write\n"
            "what every op took, by its kind, shapes and types, and how fast copies to host "
            "memory\n"
            "and file are. Plans made with such a profile predict times of this machine; without\n"
            "one, the constants of an unknown processor hold. Budgets are kept either way, "
            "results\n"
            "have the same bits, and what is accepted or refused does not depend on it. Of a GPU "
            "it\n"
            "also keeps which algorithm of its library each matrix product should take: those "
            "change\n"
            "the last bits, and checkpoints name them.\n"
            "\n"
            "Without -o the profile is this machine's own: it is kept in the cache folder, for "
            "its\n"
            "number of threads; files measured later are added to it. 'ebb explain', 'ebb train' "
            "and\n"
            "trials go by it where it knows nine tenths of a step's time.\n"
            "\n"
            "Examples:\n"
            "  ebb device measure examples/resnet20.yaml && ebb explain examples/resnet20.yaml\n"
            "  ebb device measure examples/resnet20.yaml -o this.device\n"
            "  ebb train examples/resnet20.yaml --budget 25MiB --costs this.device\n",
        CLI_OPTION_ROWS(
            {"output", 'o', CLI_STRING, &m.output, "FILE",
             "the profile to write (required for a GPU; default: this machine's own)"},
            {CLI_TRAIN_SETS(&m.changes)},
            {"device", 0, CLI_STRING, &m.changes.device, "NAME",
             "which device (default: the files', all of them one)"},
            {"threads", 0, CLI_INT, &m.changes.threads, "N", "of kernels (default: all cores)"},
            {"file-path", 0, CLI_STRING, &m.changes.file_path, "DIR", "folder of the file tier"},
            {"json", 0, CLI_FLAG, &m.is_json, NULL, "one JSON object with the links"},
            {"updates", 0, CLI_INT, &m.updates, "N",
             "of each file; the first does not count (default 6)"}),
        CLI_LIMITS({"threads", 0, 4096}, {"updates", 2, 1000}),
        CLI_POSITIONAL(1, 64),
    };
    struct cli_args args = {0};
    struct ebb_error err = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code < 0)
        code = check_all(&m, &args);
    if (code < 0 && train_times_create(&m.times, &err) != EBB_OK)
        code = cli_report(&err);
    for (size_t i = 0; code < 0 && i < args.positional_count; i++)
        code = measure_file(&m, args.positional[i]);
    if (code < 0)
        code = write_profile(&m);
    train_times_destroy(m.times);
    ebb_str_fini(&m.own);
    cli_args_fini(&args);
    return code;
}

static const struct cli_command cmd_measure = {
    .name = "measure", .summary = "times of ops and links as a profile", .run = run_measure};

static int run_device(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&cmd_measure};
    return cli_dispatch("ebb device", verbs, sizeof verbs / sizeof *verbs, argc, argv);
}

const struct cli_command cli_cmd_device = {
    .name = "device", .summary = "what this machine's devices cost: measure", .run = run_device};
