/* site.c - <state>/master.yaml: what every master of a state directory is started with. */
#include "cli/site.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/keys.h"
#include "cli/gpus.h"
#include "cli/train_file.h"

#define SITE_BYTES_MAX ((size_t)1 << 20)

struct site { /* what the file says; zero: nothing */
    int64_t slots, threads_per_slot;
    uint64_t slot_memory, staging, cache;
    bool pin_cpus;
    const char *const *gpus;
    size_t gpu_count;
    unsigned type, fit; /* of scheduler */
    const struct ebb_doc_node *checkpoint_storage;
    const char *listen, *tls_cert, *tls_key, *base_path;
    bool behind_proxy;
    const char *const *hosts;
    size_t host_count;
};

#define AT(field) .at = offsetof(struct site, field)
static const struct ebb_key rows[] = {
    {.path = "slots",
     .kind = EBB_KEY_INT,
     .bounds = "> 0, <= 4096",
     AT(slots),
     .help = "trials at a time"},
    {.path = "threads_per_slot",
     .kind = EBB_KEY_INT,
     .bounds = "> 0, <= 4096",
     AT(threads_per_slot),
     .help = "threads of a trial"},
    {.path = "pin_cpus", .kind = EBB_KEY_BOOL, AT(pin_cpus), .help = "a slot keeps its processors"},
    {.path = "gpus",
     .kind = EBB_KEY_TEXTS,
     .allowed = "none, or a list of what CUDA_VISIBLE_DEVICES would name, as ['0', '2']",
     AT(gpus),
     .count_at = offsetof(struct site, gpu_count),
     .help = "those of the slots; else all there are"},
    {.path = "slot_memory",
     .kind = EBB_KEY_BYTES,
     .bounds = ">= 1048576",
     .allowed = "bytes with a unit, as 4GiB",
     AT(slot_memory),
     .help = "memory of a trial"},
    {.path = "scheduler",
     .kind = EBB_KEY_MAP,
     .allowed = "a mapping with type and fit",
     .at = 0,
     .help = "who runs where"},
    {.path = "scheduler.type",
     .kind = EBB_KEY_WORD,
     .words = "fair_share priority",
     AT(type),
     .help = "who comes first"},
    {.path = "scheduler.fit",
     .kind = EBB_KEY_WORD,
     .words = "best worst",
     AT(fit),
     .help = "which slots are taken"},
    {.path = "checkpoint_storage",
     .kind = EBB_KEY_NODE,
     AT(checkpoint_storage),
     .help = "of files without one"},
    {.path = "staging",
     .kind = EBB_KEY_BYTES,
     AT(staging),
     .help = "of checkpoints that wait to be uploaded: trials wait above it"},
    {.path = "cache",
     .kind = EBB_KEY_BYTES,
     AT(cache),
     .help = "of checkpoints fetched from stores"},
    {.path = "listen", .kind = EBB_KEY_TEXT, AT(listen), .help = "ADDRESS:PORT of the page"},
    {.path = "tls_cert", .kind = EBB_KEY_TEXT, AT(tls_cert), .help = "certificates, PEM"},
    {.path = "tls_key", .kind = EBB_KEY_TEXT, AT(tls_key), .help = "its key, PEM"},
    {.path = "base_path", .kind = EBB_KEY_TEXT, AT(base_path), .help = "before every path"},
    {.path = "behind_proxy", .kind = EBB_KEY_BOOL, AT(behind_proxy), .help = "a proxy speaks TLS"},
    {.path = "hosts",
     .kind = EBB_KEY_TEXTS,
     AT(hosts),
     .count_at = offsetof(struct site, host_count),
     .help = "names that the page is asked by"},
};
static const struct ebb_keys keys = EBB_KEYS(rows);

/* As a file without storage of its own would get it. */
static enum ebb_status check_storage(const char *path, const struct ebb_doc_node *node,
                                     struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    struct exp_config config;
    struct ebb_report report = {0};
    struct exp_config_options options = {.file_name = path,
                                         .default_seed = -1,
                                         .site_storage = node,
                                         .check_section = cli_check_training};
    enum ebb_status status = exp_config_parse(&arena, cli_bare_file, strlen(cli_bare_file),
                                              &options, &config, &report, err);
    if (status == EBB_EINPUT && report.count > 0)
        (void)ebb_fail(err, EBB_EINPUT, "%s: %s: %s", path, report.items[0].path,
                       report.items[0].message);
    struct exp_store *store = NULL;
    if (status == EBB_OK &&
        exp_store_open(&config.checkpoint_storage, 0, NULL, &store, err) != EBB_OK)
        status = ebb_context(err, EBB_EUNSUPPORTED, "%s", path);
    exp_store_close(store);
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status read_site(struct ebb_arena *arena, const char *path,
                                 const struct ebb_doc_node *root, struct exp_master_options *o,
                                 struct serve_listen *listen, bool *has_gpus, struct ebb_error *err)
{
    struct ebb_reading reading;
    struct ebb_report report;
    struct site s = {.pin_cpus = o->pin_cpus,
                     .type = o->sched_kind == EXP_SCHED_PRIORITY,
                     .fit = o->sched_fit == EXP_FIT_WORST};
    ebb_reading_init(&reading, arena, path, &report);
    ebb_keys_read(&reading, &(struct ebb_section){.table = &keys}, NULL, root, root, &s);
    EBB_TRY(ebb_reading_end(&reading, err));
    if (s.checkpoint_storage)
        EBB_TRY(check_storage(path, s.checkpoint_storage, err));
    if (s.slots > 0 && o->slots <= 0) /* else the command line said how many */
        o->slots = s.slots;
    if (s.threads_per_slot > 0)
        o->threads_per_slot = (int)s.threads_per_slot;
    if (s.slot_memory > 0)
        o->slot_memory_bytes = s.slot_memory;
    o->staging_bytes = s.staging;
    o->cache_bytes = s.cache;
    o->pin_cpus = s.pin_cpus;
    *has_gpus = s.gpu_count > 0;
    bool is_none = s.gpu_count == 1 && strcmp(s.gpus[0], "none") == 0;
    if (!o->is_reading_only && !is_none)
        EBB_TRY(cli_gpus_give(arena, s.gpus, s.gpu_count, o, err));
    o->sched_kind = s.type ? EXP_SCHED_PRIORITY : EXP_SCHED_FAIR_SHARE;
    o->sched_fit = s.fit ? EXP_FIT_WORST : EXP_FIT_BEST;
    *listen = (struct serve_listen){.listen = s.listen,
                                    .tls_cert = s.tls_cert,
                                    .tls_key = s.tls_key,
                                    .base_path = s.base_path,
                                    .is_behind_proxy = s.behind_proxy,
                                    .hosts = s.hosts,
                                    .host_count = s.host_count};
    return EBB_OK;
}

static enum ebb_status give_all_gpus(struct ebb_arena *arena, struct exp_master_options *o,
                                     struct ebb_error *err)
{
    const char *const *ids = NULL;
    size_t count = 0;
    EBB_TRY(cli_gpus_find(arena, &ids, &count, err));
    return cli_gpus_give(arena, ids, count, o, err);
}

enum ebb_status cli_site_read(const char *state_dir, struct exp_master_options *options,
                              struct ebb_arena *arena, struct serve_listen *listen,
                              struct ebb_str *text, struct ebb_error *err)
{
    struct ebb_str path = {0};
    struct ebb_file_view view;
    const struct ebb_doc_node *root = NULL;
    bool has_gpus = false;
    ebb_str_printf(&path, "%s/master.yaml", state_dir);
    enum ebb_status status = ebb_str_status(&path, err);
    if (status != EBB_OK || access(ebb_str_c(&path), F_OK) != 0)
        goto out;
    status = ebb_file_view_open(&view, ebb_str_c(&path), SITE_BYTES_MAX, err);
    if (status != EBB_OK)
        goto out;
    ebb_str_addn(text, view.data, view.length);
    ebb_file_view_close(&view);
    status = ebb_str_status(text, err);
    EBB_THEN(status, ebb_doc_parse_yaml(arena, ebb_str_c(&path), ebb_str_c(text), text->length,
                                        &root, err));
    if (status != EBB_OK || root->kind == EBB_DOC_NULL) /* an empty file says nothing */
        goto out;
    status = read_site(arena, ebb_str_c(&path), root, options, listen, &has_gpus, err);
    if (status == EBB_OK)
        options->site_defaults = ebb_str_c(text);
out:
    if (status == EBB_OK && !has_gpus && !options->is_reading_only)
        status = give_all_gpus(arena, options, err);
    ebb_str_fini(&path);
    return status;
}
