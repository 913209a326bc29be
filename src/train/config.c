/* config.c - the sections of training in an experiment file: checked, then as C values.
 *
 * data is read by its folder, model by nn, the arguments of opt and lr_schedule by optim; the rest is
 * rows here. Rules between sections (rates stand in opt, not in lr_schedule; one kind of clipping)
 * too. */
#include <math.h>
#include <string.h>

#include "base/keys.h"
#include "mem/mem.h"
#include "planner/planner.h"
#include "train/internal.h"

/* ---- keys ---- */

struct draft { /* what the sections say, one after the other */
    struct train_config config;
    struct nn_config net;
    struct train_loss loss;
    const char *optimizer;
    unsigned master_weights, decay;
    struct train_init init;
    int64_t threads;
    bool unbuilt; /* of keys that are valid and do nothing here: unbuilt.c or a note says so */
};

static const char *policy_name(size_t i)
{
    if (i == 0)
        return "none";
    if (i - 1 < mem_policy_total)
        return mem_policies[i - 1].name;
    i -= 1 + mem_policy_total;
    return i < planner_count ? planner_table[i].name : NULL;
}

static bool is_policy(const char *name)
{
    return strcmp(name, "none") == 0 || mem_policy_find(name) || planner_find(name);
}

#define ROW(...) EBB_KEY_ROW(struct train_group, __VA_ARGS__)
static const struct ebb_key group_rows[] = {
    ROW("match", TEXTS, match, "patterns of names", .flags = EBB_KEY_REQUIRED,
        .count_at = offsetof(struct train_group, match_count),
        .allowed = "a pattern of names of items, such as fc.*, or a list of them"),
    ROW("lr", DOUBLE, lr, "their rate", .flags = EBB_KEY_LOOSE, .bounds = ">= 0"),
    ROW("weight_decay", DOUBLE, weight_decay, "their decay", .flags = EBB_KEY_LOOSE,
        .bounds = ">= 0"),
};
#undef ROW

#define ROW(...) EBB_KEY_ROW(struct train_init, __VA_ARGS__)
static const struct ebb_key init_rows[] = {
    ROW("path", TEXT, path, "of the weights", .flags = EBB_KEY_REQUIRED),
    ROW("rename", TEXTS, changes.rename, "what their names are here: old.*=new.*",
        .count_at = offsetof(struct train_init, changes.rename_count)),
    ROW("transpose", TEXTS, changes.transpose, "matrices that lie the other way round",
        .count_at = offsetof(struct train_init, changes.transpose_count)),
    ROW("fresh", TEXTS, fresh, "items that keep their own initial values",
        .count_at = offsetof(struct train_init, fresh_count)),
};
#undef ROW
static const struct ebb_keys group_keys = EBB_KEYS(group_rows), init_keys = EBB_KEYS(init_rows);

#define ROW(...) EBB_KEY_ROW(struct draft, __VA_ARGS__)
/* A MAP is the record that the rows below it fill: here all of it, config being its first member. */
#define WISH(name, field, about)                                                                   \
    ROW(name, OWN, config.wishes.field, about, .type = &train_wish_type)
static const struct ebb_key memory_rows[] = {
    ROW("budget", BYTES, config.budget_bytes, "memory of the device; default: unlimited",
        .words = "unlimited", .bounds = "> 0",
        .allowed = "bytes with a unit (48MiB, 1.5GiB), or unlimited"),
    ROW("policy", TEXT, config.policy, "policy or planner that keeps the budget",
        .word = policy_name, .check = is_policy),
    ROW("host", BYTES, config.host_bytes, "room for swapped tensors in host memory",
        .allowed = "bytes with a unit (48MiB, 1.5GiB), or 0"),
    ROW("file", BYTES, config.file_bytes, "room for swapped tensors in a file",
        .allowed = "bytes with a unit (48MiB, 1.5GiB), or 0"),
    ROW("file_path", TEXT, config.file_path, "folder of that file", .flags = 0),
    /* members are fields of the draft itself */
    ROW("link_bandwidth", MAP, config, "copies between tiers go no faster, in GB/s", .flags = 0),
    ROW("link_bandwidth.host", DOUBLE, config.link.host_rate, "to and from host memory",
        .bounds = DEVICE_RATE_BOUNDS),
    ROW("link_bandwidth.file", DOUBLE, config.link.file_rate, "to and from the file",
        .bounds = DEVICE_RATE_BOUNDS),
    ROW("link_latency", MAP, config, "and take no less than that, in microseconds", .flags = 0),
    ROW("link_latency.host", DOUBLE, config.link.host_latency, "to and from host memory",
        .bounds = DEVICE_LATENCY_BOUNDS),
    ROW("link_latency.file", DOUBLE, config.link.file_latency, "to and from the file",
        .bounds = DEVICE_LATENCY_BOUNDS),
    WISH("use_ckp", use_ckp,
         "true: block inputs stay, the rest is recomputed; false: nothing is recomputed"),
    WISH("with_activation_offload", activation_offload,
         "true: those block inputs wait in a lower tier; false: activations are never copied"),
    WISH("with_async_mem_monitor", monitor,
         "a thread compares the memory of the process with what is accounted for"),
    ROW("reserve", BYTES, config.wishes.reserve_bytes,
        "what it may take besides before the monitor warns", .words = "auto", .bounds = "> 0",
        .allowed = "bytes with a unit (32MiB), or auto"),
    ROW("gradients", WORD, config.wishes.gradients,
        "fused: each is used up at once; separate: all are kept; overlay: in the place of weights",
        .words = "auto fused separate overlay"),
    ROW("mem_tracer", MAP, config, "parts of memory, by PatrickStar's names", .flags = 0),
    WISH("mem_tracer.use_async_mem_monitor", tracer_monitor, "as with_async_mem_monitor"),
    ROW("mem_tracer.overall_gpu_mem_ratio", DOUBLE, config.wishes.gpu_ratio,
        "budget as a part of the machine's memory", .bounds = "> 0, <= 1"),
    ROW("mem_tracer.overall_cpu_mem_ratio", DOUBLE, config.wishes.cpu_ratio,
        "host as a part of the machine's memory", .bounds = "> 0, <= 1"),
    ROW("mem_tracer.warmup_gpu_chunk_mem_ratio", DOUBLE, config.wishes.warmup_ratio,
        "most state in tier 0 during update 1, as a part of the budget", .bounds = ">= 0, <= 1"),
    ROW("mem_tracer.margin_use_ratio", DOUBLE, config.wishes.margin_ratio,
        "most optimizer state there, as a part of what the rest leaves", .bounds = ">= 0, <= 1"),
    ROW("with_static_partition", BOOL, config.wishes.is_static,
        "warmup_gpu_chunk_mem_ratio says for good how much state lives in tier 0", .flags = 0),
    ROW("mem_tracer.use_fake_dist", BOOL, unbuilt, "several ranks on one device", .flags = 0),
    ROW("release_after_init", BOOL, unbuilt, "ranks drop what others own", .flags = 0),
    WISH("use_cpu_embedding", cpu_embedding,
         "true: tables that are looked up live in host memory, the host looks them up and updates "
         "them"),
    WISH("use_hybrid_adam", hybrid_adam,
         "true: host and device share the updates; false: the host runs all, with state there"),
    WISH("with_tiling_linear", tiling,
         "true: weights of linear layers lie in blocks of rows, which come and go one by one"),
    ROW("with_mem_saving_comm", BOOL, unbuilt, "ranks exchange part by part", .flags = 0),
    ROW("with_mem_cache", BOOL, unbuilt, "always so", .flags = 0),
    ROW("with_async_move", BOOL, unbuilt, "always so", .flags = 0),
    ROW("precision", WORD, config.precision, "of compute", .words = "fp32 bf16 fp16"),
    ROW("master_weights", WORD, master_weights, "how bf16 training keeps its weights",
        .words = "fp32 split"),
    ROW("default_chunk_size", INT, config.chunk,
        "elements of optimizer state that come and go together; default: 1048576, on a GPU "
        "16777216, or a quarter",
        .bounds = "> 0, <= 1073741824"),
    ROW("device", TEXT, config.device, "where steps run", .words = "cpu cuda far nvidia-h200"),
    ROW("costs", TEXT, config.costs,
        "profile whose times and links decide; builtin: those of an unknown processor", .flags = 0),
    ROW("threads", INT, threads, "of kernels", .bounds = "> 0, <= 1024"),
    ROW("rewrites", TEXT, config.rewrites,
        "of the step that are on; +name and -name change the usual ones", .flags = 0),
};

static const struct ebb_key opt_rows[] = {
    ROW("name", TEXT, optimizer, "the optimizer", .flags = EBB_KEY_REQUIRED | EBB_KEY_ANY_CASE,
        .word = optim_name),
    ROW("decay", WORD, decay, "which parameters decay", .words = "all matrices"),
    ROW("ema", DOUBLE, config.ema, "moving average of the weights: share that an update keeps",
        .flags = EBB_KEY_LOOSE, .bounds = ">= 0, < 1"),
};

static const struct ebb_key schedule_rows[] = {
    ROW("name", TEXT, config.schedule_name, "the schedule; default: a constant rate",
        .flags = EBB_KEY_ANY_CASE, .word = optim_schedule_name),
    ROW("warmup", INT, config.warmup, "updates before it, whose rate grows from 0",
        .bounds = ">= 0"),
    ROW("interval", WORD, config.interval, "unit of its steps", .words = "update epoch"),
};

/* Hyperparameters that the loop itself reads. */
static const struct ebb_key hparam_rows[] = {
    ROW("global_batch_size", INT, config.batch_size, "samples of a batch",
        .flags = EBB_KEY_REQUIRED, .bounds = "> 0"),
    ROW("clip_grad_l2_norm", DOUBLE, config.clip_norm,
        "norm that all gradients together are cut to", .flags = EBB_KEY_LOOSE, .bounds = "> 0"),
    ROW("clip_grad_val", DOUBLE, config.clip_value, "value that each gradient is cut to",
        .flags = EBB_KEY_LOOSE, .bounds = "> 0"),
};

static const struct ebb_key optimization_rows[] = {
    ROW("aggregation_frequency", INT, config.accumulate, "batches of an update", .bounds = "> 0"),
    ROW("average_aggregated_gradients", BOOL, config.average, "divide their sum", .flags = 0),
};

static const struct ebb_keys memory_keys = EBB_KEYS(memory_rows), opt_keys = EBB_KEYS(opt_rows),
                             schedule_keys = EBB_KEYS(schedule_rows),
                             hparam_keys = EBB_KEYS(hparam_rows),
                             optimization_keys = EBB_KEYS(optimization_rows);

/* ---- sections ---- */

struct section { /* that is read */
    struct ebb_reading *reading;
    struct ebb_path path;
    const struct ebb_doc_node *map;
    const struct train_task *task;     /* NULL: unknown */
    const struct train_source *source; /* where paths begin; NULL: files cannot be read */
    struct draft *draft;
};

static void read_rows(const struct section *s, const struct ebb_keys *table, bool is_open)
{
    struct ebb_section rows = {.table = table, .is_open = is_open};
    ebb_keys_read(s->reading, &rows, &s->path, s->map, s->map, s->draft);
}

static void read_data(const struct section *s)
{
    if (s->map->count > 0)
        data_check(s->reading, &s->path, s->map,
                   &(struct data_env){.benchmark = s->source ? s->source->benchmark : NULL});
}

/* A path, or a mapping. */
static void read_init(const struct section *s)
{
    const struct ebb_doc_node *node = ebb_doc_given(s->map, "init_from");
    struct ebb_path path = {.up = &s->path, .key = "init_from"};
    struct train_init *init = &s->draft->init;
    if (!node)
        return;
    if (node->kind == EBB_DOC_MAP) {
        struct ebb_section section = {.table = &init_keys, .what = "init_from"};
        ebb_keys_read(s->reading, &section, &path, node, node, init);
    } else {
        init->path = ebb_key_text(s->reading, &path, node,
                                  "the path of weights, or a mapping with path, rename, transpose, "
                                  "fresh");
    }
    for (size_t i = 0; i < init->changes.rename_count; i++) {
        struct ebb_error err;
        if (tensor_rename_check(init->changes.rename[i], &err) != EBB_OK)
            ebb_reading_wrong(s->reading, &path, node, "rename", err.message);
    }
    s->draft->config.init = init->path ? init : NULL;
}

static void read_model(const struct section *s)
{
    read_init(s);
    const char *key = ebb_doc_get(s->map, "name") ? "name" : "file";
    struct ebb_path name = {.up = &s->path, .key = key};
    struct nn_config *net = &s->draft->net;
    enum nn_task kind = s->task ? train_task_kind(s->task) : NN_IMAGE_CLASSIFICATION;
    struct nn_env env = {.directory = s->source ? s->source->directory : NULL,
                         .no_files = !s->source,
                         .task = &kind};
    if (nn_config_read(s->reading, &s->path, s->map, &env, net) && s->task &&
        !train_task_takes(s->task, net->model->task))
        ebb_reading_error(s->reading, &name, ebb_doc_get(s->map, key),
                          "found \"%s\", a model for %s, allowed: models for %s", net->model->name,
                          nn_task_name(net->model->task), s->task->name);
}

static void read_groups(const struct section *s)
{
    const struct ebb_doc_node *list = ebb_doc_given(s->map, "groups");
    struct ebb_path path = {.up = &s->path, .key = "groups"};
    struct train_config *c = &s->draft->config;
    if (!list)
        return;
    if (list->kind != EBB_DOC_LIST || list->count > TRAIN_GROUPS) {
        ebb_reading_refuse(s->reading, &path, list, "a list of at most %d mappings", TRAIN_GROUPS);
        return;
    }
    for (size_t i = 0; i < list->count; i++) {
        struct ebb_path at = ebb_path_item(&path, list, i);
        struct ebb_section section = {.table = &group_keys, .what = "a group"};
        struct train_group *group = &c->groups[c->group_count++];
        *group = (struct train_group){.lr = NAN, .weight_decay = NAN};
        ebb_keys_read(s->reading, &section, &at, list->items[i], list->items[i], group);
        if (group->match_count && isnan(group->lr) && isnan(group->weight_decay))
            ebb_reading_error(s->reading, &at, list->items[i],
                              "a group that changes nothing, allowed: lr, weight_decay or both");
    }
}

static void read_opt(const struct section *s)
{
    struct draft *d = s->draft;
    read_rows(s, &opt_keys, true);
    if (d->optimizer)
        optim_read(s->reading, &s->path, d->optimizer, s->map, "name decay groups ema",
                   &d->config.optim);
    read_groups(s);
}

static void read_schedule(const struct section *s)
{
    struct optim_config *optim = &s->draft->config.optim;
    double momentum;
    bool has_name = ebb_doc_given(s->map, "name") != NULL;
    read_rows(s, &schedule_keys, has_name);
    if (!has_name && !ebb_doc_given(s->map, "warmup"))
        ebb_reading_wrong(s->reading, &s->path, s->map, "name",
                          "required but missing, allowed: the name of a schedule, or warmup alone");
    for (size_t i = 0; i < s->map->count; i++)
        if (strcmp(s->map->keys[i]->text, "base_lr") == 0) {
            struct ebb_path at = ebb_path_key(&s->path, s->map->keys[i]);
            ebb_reading_error(s->reading, &at, s->map->keys[i],
                              "belongs to benchmark files; here the rate is opt.lr");
        }
    const char *name = s->draft->config.schedule_name;
    struct optim_schedule *schedule =
        name ? optim_schedule_read(s->reading, &s->path, name, s->map, "name interval warmup",
                                   optim->lr > 0 ? optim->lr : 0.1)
             : NULL;
    if (!schedule)
        return;
    if (optim_schedule_momentum(schedule, 0, &momentum) && optim->name &&
        !optim_cycle_momentum(optim, momentum))
        ebb_reading_error(s->reading, &s->path, s->map,
                          "%s cycles the momentum and opt.name %s has none; allowed: "
                          "cycle_momentum: false",
                          name, optim->name);
    optim_schedule_destroy(schedule);
}

static void read_loss(const struct section *s)
{
    train_loss_read(s->reading, &s->path, s->map, &s->draft->loss);
    s->draft->config.loss = &s->draft->loss;
}

/* A link to where nothing is swapped says nothing, nor does the folder of a file that is not made. */
static void check_links(const struct section *s)
{
    static const char *const links[] = {"link_bandwidth", "link_latency"};
    const struct train_config *c = &s->draft->config;
    const struct {
        const char *name;
        const uint64_t *bytes;
        const char *why;
    } tiers[] = {
        {"host", &c->host_bytes, "does nothing without room there, allowed with host > 0"},
        {"file", &c->file_bytes, "does nothing without room there, allowed with file > 0"}};
    for (size_t i = 0; i < 2; i++) {
        struct ebb_path at = {.up = &s->path, .key = links[i]};
        const struct ebb_doc_node *link = ebb_doc_given(s->map, links[i]);
        for (size_t t = 0; t < 2; t++)
            if (ebb_doc_given(link, tiers[t].name) && *tiers[t].bytes == 0 &&
                ebb_reading_is_good(s->reading, tiers[t].bytes))
                ebb_reading_wrong(s->reading, &at, link, tiers[t].name, tiers[t].why);
    }
    const struct ebb_doc_node *latency = ebb_doc_given(s->map, "link_latency");
    if (ebb_doc_given(latency, "host") && c->link.host_latency == 0)
        s->draft->config.link.host_latency = TRAIN_NO_LATENCY;
    if (ebb_doc_given(latency, "file") && c->link.file_latency == 0)
        s->draft->config.link.file_latency = TRAIN_NO_LATENCY;
    if (ebb_doc_given(s->map, "file_path") && c->file_bytes == 0 &&
        ebb_reading_is_good(s->reading, &c->file_bytes))
        ebb_reading_wrong(s->reading, &s->path, s->map, "file_path", tiers[1].why);
}

static void read_memory(const struct section *s)
{
    struct draft *d = s->draft;
    read_rows(s, &memory_keys, false);
    check_links(s);
    const struct ebb_doc_node *tracer = ebb_doc_given(s->map, "mem_tracer");
    d->config.wishes.has_warmup = ebb_doc_given(tracer, "warmup_gpu_chunk_mem_ratio") != NULL;
    d->config.wishes.has_margin = ebb_doc_given(tracer, "margin_use_ratio") != NULL;
    d->config.is_split = d->master_weights == 1;
    train_wishes_check(s->reading, &s->path, s->map, &d->config);
    d->config.threads = (int)d->threads;
    if (d->config.is_split && d->config.precision != TRAIN_BF16)
        ebb_reading_wrong(
            s->reading, &s->path, s->map, "master_weights",
            "found \"split\", which halves weights into bf16 and the rest: allowed with "
            "precision: bf16");
    if (d->config.is_split && d->config.ema > 0)
        ebb_reading_wrong(s->reading, &s->path, s->map, "master_weights",
                          "found \"split\", allowed with opt.ema is fp32");
    struct ebb_error err;
    unsigned passes;
    if (ops_rewrites_parse(d->config.rewrites, 0, &passes, &err) != EBB_OK)
        ebb_reading_wrong(s->reading, &s->path, s->map, "rewrites", err.message);
}

/* opt comes before lr_schedule, which needs its rate */
static const struct {
    const char *name;
    void (*read)(const struct section *s);
    bool is_required;
} sections[] = {
    {"data", read_data, false}, {"model", read_model, true},
    {"opt", read_opt, true},    {"lr_schedule", read_schedule, false},
    {"loss", read_loss, false}, {"memory", read_memory, false},
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static void read_section(struct ebb_reading *reading, size_t i, const struct ebb_doc_node *value,
                         const struct train_task *task, const struct train_source *source,
                         struct draft *draft)
{
    struct section s = {.reading = reading,
                        .path = {.key = sections[i].name},
                        .map = value,
                        .task = task,
                        .source = source,
                        .draft = draft};
    if (!value || value->kind == EBB_DOC_NULL)
        return;
    if (value->kind == EBB_DOC_MAP)
        sections[i].read(&s);
    else
        ebb_reading_refuse(reading, &s.path, value, "a mapping");
}

/* ---- all together ---- */

/* The path of "onnx:<path>"; NULL: another entrypoint. */
static const char *onnx_of(const char *entrypoint)
{
    return entrypoint && strncmp(entrypoint, "onnx:", 5) == 0 ? entrypoint + 5 : NULL;
}

/* Of an ONNX file: what its graph suggests. NULL: none, err says why. */
static const struct train_task *task_of(struct ebb_arena *arena, const struct train_source *source,
                                        struct ebb_error *err)
{
    const char *entrypoint = source->entrypoint ? source->entrypoint : "";
    const char *path = onnx_of(entrypoint);
    const struct train_task *task = NULL;
    struct ebb_report report;
    struct nn_config net;
    if (strncmp(entrypoint, "ebb:", 4) == 0)
        task = train_task_find(entrypoint + 4);
    if (!task && !path)
        ebb_fail(err, EBB_EINPUT,
                 "%s: entrypoint '%s' is no built-in task (ebb:<task>) and no ONNX file "
                 "(onnx:<path>)",
                 source->file, entrypoint);
    if (path && source->directory && *path != '/')
        path = ebb_arena_printf(arena, "%s/%s", source->directory, path);
    if (path && nn_config_open(arena, path, &net, &report, err) == EBB_OK)
        task = train_task_find(nn_task_name(net.model->task));
    return task;
}

/* The section with the file that the entrypoint names. */
static const struct ebb_doc_node *with_file(struct ebb_reading *reading, const char *path,
                                            const struct ebb_doc_node *model)
{
    struct ebb_path at = {.key = "model"};
    struct ebb_doc_node *map = ebb_reading_node(reading, EBB_DOC_MAP, model);
    if (model && model->kind != EBB_DOC_MAP)
        return model;
    for (size_t i = 0; map && model && i < model->count; i++) {
        const char *key = model->keys[i]->text;
        if (strcmp(key, "name") == 0 || strcmp(key, "file") == 0)
            ebb_reading_wrong(reading, &at, model, key,
                              "found with an entrypoint onnx:<path>, which names the model");
        if (!ebb_doc_set(reading->arena, map, key, model->items[i]))
            map = NULL;
    }
    const struct ebb_doc_node *file = ebb_doc_new_string(reading->arena, path);
    if (!map || !file || !ebb_doc_set(reading->arena, map, "file", file)) {
        reading->failed = true;
        return model;
    }
    return map;
}

static const struct train_config defaults = {
    .budget_bytes = UINT64_MAX, .accumulate = 1, .average = true};

void train_check_memory_keys(struct ebb_reading *reading, const struct ebb_doc_node *value)
{
    struct ebb_path path = {.key = "memory"};
    ebb_keys_check(reading, &(struct ebb_section){.table = &memory_keys}, &path, value);
}

void train_check_section(struct ebb_reading *reading, const char *section,
                         const struct ebb_doc_node *value, const char *entrypoint,
                         const char *directory)
{
    struct draft draft = {.config = defaults};
    struct train_source source = {.directory = directory, .entrypoint = entrypoint, .file = ""};
    const char *onnx = onnx_of(entrypoint);
    const struct train_task *task =
        onnx && !directory ? NULL : task_of(reading->arena, &source, NULL);
    for (size_t i = 0; i < SECTIONS; i++)
        if (strcmp(sections[i].name, section) == 0)
            read_section(reading, i,
                         onnx && strcmp(section, "model") == 0 ? with_file(reading, onnx, value)
                                                               : value,
                         task, directory ? &source : NULL, &draft);
}

static void read_rest(struct ebb_reading *reading, const struct train_source *source,
                      struct draft *draft)
{
    struct section s = {.reading = reading,
                        .path = {.key = "hyperparameters"},
                        .map = source->hparams,
                        .draft = draft};
    read_rows(&s, &hparam_keys, true);
    if (ebb_doc_given(s.map, "clip_grad_l2_norm") && ebb_doc_given(s.map, "clip_grad_val"))
        ebb_reading_wrong(reading, &s.path, s.map, "clip_grad_val",
                          "found together with clip_grad_l2_norm, allowed: only one of them");
    s.path.key = "optimizations";
    s.map = ebb_doc_given(source->root, "optimizations");
    if (s.map)
        read_rows(&s, &optimization_keys, true);
}

static enum ebb_status read_all(struct ebb_reading *reading, const struct train_source *source,
                                struct draft *draft, struct ebb_error *err)
{
    const struct ebb_doc_node *values[SECTIONS];
    for (size_t i = 0; i < SECTIONS; i++) {
        struct ebb_path path = {.key = sections[i].name};
        const struct ebb_doc_node *raw = ebb_doc_given(source->root, sections[i].name);
        values[i] = train_expand(reading->arena, NULL, raw, source->hparams);
        if (raw && !values[i])
            reading->failed = true;
        const char *onnx = i == 1 ? onnx_of(source->entrypoint) : NULL;
        if (onnx)
            values[i] = with_file(reading, onnx, values[i]);
        if (!values[i] && !raw && sections[i].is_required)
            ebb_reading_error(reading, &path, source->root,
                              "is missing: training needs this section");
        read_section(reading, i, values[i], draft->config.task, source, draft);
    }
    read_rest(reading, source, draft);
    train_wishes_check_rest(reading, values[SECTIONS - 1], &draft->config);
    enum ebb_status status = ebb_reading_end(reading, err);
    draft->config.data = values[0] && values[0]->count > 0 ? values[0] : NULL;
    draft->config.schedule = values[3];
    return status;
}

enum ebb_status train_config_read(struct ebb_arena *arena, const struct train_source *source,
                                  struct train_config *config, struct ebb_report *report,
                                  struct ebb_error *err)
{
    struct ebb_report own;
    struct ebb_reading reading;
    struct draft *draft = ebb_arena_calloc(arena, 1, sizeof *draft);
    struct ebb_error why = {.status = EBB_EINPUT};
    if (report)
        *report = (struct ebb_report){0};
    const struct train_task *task = task_of(arena, source, &why);
    if (!draft)
        return ebb_no_memory(err, sizeof *draft);
    if (!task)
        return ebb_fail(err, why.status, "%s", why.message);
    draft->config = defaults;
    draft->config.file = source->file;
    draft->config.directory = source->directory;
    draft->config.benchmark = source->benchmark;
    draft->config.seed = source->seed;
    draft->config.task = task;
    draft->config.net = &draft->net;
    ebb_reading_init(&reading, arena, source->file, report ? report : &own);
    EBB_TRY(read_all(&reading, source, draft, err));
    draft->config.decays_matrices_only = draft->decay == 1;
    draft->config.is_builtin = draft->config.costs && strcmp(draft->config.costs, "builtin") == 0;
    if (draft->config.is_builtin)
        draft->config.costs = NULL;
    *config = draft->config;
    return EBB_OK;
}
