/* config.c - the sections of training in an experiment file: checked, then as C values.
 *
 * data is checked by its folder, model by nn, opt and lr_schedule by optim; loss and memory here.
 * Rules between sections (rates stand in opt, not in lr_schedule; one kind of clipping) too. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "mem/mem.h"
#include "nn/nn.h"
#include "planner/planner.h"
#include "train/internal.h"

static const char *const precisions[] = {"fp32", "bf16", "fp16", NULL};
static const char *const masters[] = {"fp32", "split", NULL};
static const char *const decays[] = {"all", "matrices", NULL};
static const char *const intervals[] = {"update", "epoch", NULL};
static const char *const later_policies[] = {"belady", "capuchin", "unified", NULL};

static const struct train_key memory_keys[] = {
    {"budget", TRAIN_V_BYTES, 0, 1, NULL, "memory of the device; default: unlimited"},
    {"policy", TRAIN_V_TEXT, 0, 0, NULL, "policy or planner that keeps the budget"},
    {"host", TRAIN_V_BYTES, 0, 0, NULL, "room for swapped tensors in host memory"},
    {"file", TRAIN_V_BYTES, 0, 0, NULL, "room for swapped tensors in a file"},
    {"file_path", TRAIN_V_TEXT, 0, 0, NULL, "folder of that file"},
    {"precision", TRAIN_V_TEXT, 0, 0, precisions, "of compute"},
    {"master_weights", TRAIN_V_TEXT, 0, 0, masters, "how bf16 training keeps its weights"},
    {"threads", TRAIN_V_INT, 1, 1024, NULL, "of kernels"},
    {0},
};

static const struct train_key opt_keys[] = {
    {"decay", TRAIN_V_TEXT, 0, 0, decays, "which parameters decay"},
    {0},
};

static const struct train_key schedule_keys[] = {
    {"interval", TRAIN_V_TEXT, 0, 0, intervals, "unit of its steps"},
    {0},
};

/* ---- sections ------------------------------------------------------------------------------- */

static size_t policy_names(const char **names, size_t most)
{
    size_t count = 0;
    names[count++] = "none";
    for (size_t i = 0; i < mem_policy_count && count < most; i++)
        names[count++] = mem_policies[i].name;
    for (size_t i = 0; i < planner_count && count < most; i++)
        names[count++] = planner_table[i].name;
    return count;
}

static void check_memory(struct train_checker *c, const struct ebb_doc_node *map)
{
    train_check_keys(c, map, memory_keys, NULL);
    const struct ebb_doc_node *master = ebb_doc_get(map, "master_weights");
    if (strcmp(ebb_doc_string(map, "master_weights", "fp32"), "split") == 0 &&
        strcmp(ebb_doc_string(map, "precision", "fp32"), "bf16") != 0)
        train_complain(c, master, "master_weights",
                       "found 'split', which halves weights into bf16 and the rest: allowed with "
                       "precision: bf16");
    const struct ebb_doc_node *policy = ebb_doc_get(map, "policy");
    if (!policy || policy->kind != EBB_DOC_STRING || strcmp(policy->text, "none") == 0 ||
        mem_policy_find(policy->text) || planner_find(policy->text))
        return;
    for (size_t i = 0; later_policies[i]; i++)
        if (strcmp(later_policies[i], policy->text) == 0)
            return; /* known by design; refused when it is to run, not in the file */
    const char *names[96];
    size_t count = policy_names(names, 96);
    const char *near = ebb_nearest(policy->text, names, count);
    struct ebb_str list;
    ebb_str_init(&list);
    for (size_t i = 0; i < count; i++)
        ebb_str_printf(&list, "%s%s", i ? ", " : "", names[i]);
    train_complain(c, policy, "policy", "found '%.40s', allowed: %s%s%s", policy->text,
                   ebb_str_c(&list), near ? "; nearest: " : "", near ? near : "");
    ebb_str_fini(&list);
}

struct named { /* arguments of an optimizer or schedule */
    const char *name;
    double base;                /* schedule */
    struct optim_config *optim; /* to fill; for a schedule: whose momentum it may cycle */
};

static enum ebb_status read_opt(void *self, const struct ebb_doc_node *map, struct ebb_error *err)
{
    struct named *n = self;
    return optim_parse(n->name, map, n->optim, err);
}

static enum ebb_status read_schedule(void *self, const struct ebb_doc_node *map,
                                     struct ebb_error *err)
{
    struct named *n = self;
    struct optim_schedule *schedule;
    double momentum;
    EBB_TRY(optim_schedule_create(&schedule, n->name, map, n->base, err));
    bool is_cycled = optim_schedule_momentum(schedule, 0, &momentum);
    optim_schedule_destroy(schedule);
    if (is_cycled && n->optim->name && !optim_cycle_momentum(n->optim, momentum))
        return ebb_fail(err, EBB_EINPUT,
                        "%s cycles the momentum and opt.name %s has none; allowed: cycle_momentum: "
                        "false",
                        n->name, n->optim->name);
    return EBB_OK;
}

/* The value of `name`, which must be there and be one of the names. */
static const char *section_name(struct train_checker *c, const struct ebb_doc_node *map,
                                const char *const *names, size_t count)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, "name");
    struct ebb_str list;
    if (!node || node->kind != EBB_DOC_STRING) {
        train_complain(c, node ? node : map, "name", "%s, allowed: the name of one of the table",
                       node ? "is no string" : "is missing");
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(names[i], node->text) == 0)
            return names[i];
    ebb_str_init(&list);
    for (size_t i = 0; i < count; i++)
        ebb_str_printf(&list, "%s%s", i ? ", " : "", names[i]);
    const char *near = ebb_nearest(node->text, names, count);
    train_complain(c, node, "name", "found '%.40s', allowed: %s%s%s", node->text, ebb_str_c(&list),
                   near ? "; nearest: " : "", near ? near : "");
    ebb_str_fini(&list);
    return NULL;
}

/* A key of our own among arguments that another folder reads. */
static void check_one(struct train_checker *c, const struct ebb_doc_node *map, const char *name,
                      const struct train_key *keys)
{
    struct ebb_doc_node *alone = ebb_doc_new(c->arena, EBB_DOC_MAP);
    const struct ebb_doc_node *value = ebb_doc_get(map, name);
    if (alone && value && ebb_doc_set(c->arena, alone, name, value))
        train_check_keys(c, alone, keys, NULL);
}

static void check_opt(struct train_checker *c, const struct ebb_doc_node *map,
                      struct optim_config *optim)
{
    const char *const *names;
    size_t count = optim_names(&names);
    const char *name = section_name(c, map, names, count);
    static const char *const own[] = {"name", "decay", NULL};
    check_one(c, map, "decay", opt_keys);
    struct named n = {.name = name, .optim = optim};
    const struct ebb_doc_node *args = name ? train_without(c->arena, map, own) : NULL;
    if (args)
        train_check_all(c, args, read_opt, &n);
}

static void check_schedule(struct train_checker *c, const struct ebb_doc_node *map, double base,
                           struct optim_config *optim)
{
    const char *const *names;
    size_t count = optim_schedule_names(&names);
    static const char *const own[] = {"name", "interval", "base_lr", NULL};
    const struct ebb_doc_node *rate = ebb_doc_get(map, "base_lr");
    const char *name = section_name(c, map, names, count);
    struct named n = {.name = name, .base = base, .optim = optim};
    check_one(c, map, "interval", schedule_keys);
    if (rate)
        train_complain(c, rate, "base_lr", "belongs to benchmark files; here the rate is opt.lr");
    const struct ebb_doc_node *args = name ? train_without(c->arena, map, own) : NULL;
    if (args)
        train_check_all(c, args, read_schedule, &n);
}

struct relay { /* nn reports keys, we report paths */
    struct train_checker *checker;
};

static void relay_model(void *context, const struct ebb_doc_node *where, const char *key,
                        const char *message)
{
    struct relay *relay = context;
    char place[128]; /* nn says it as well */
    int n = snprintf(place, sizeof place, "model.%s: ", key);
    if (n > 0 && (size_t)n < sizeof place && strncmp(message, place, (size_t)n) == 0)
        message += n;
    train_complain(relay->checker, where, key, "%s", message);
}

static void check_model(struct train_checker *c, const struct ebb_doc_node *map,
                        const struct train_task *task, struct nn_config *config)
{
    struct relay relay = {c};
    struct ebb_error err = {0};
    size_t before = c->errors;
    if (nn_config_parse(map, relay_model, &relay, config, &err) != EBB_OK) {
        if (c->errors == before)
            train_complain(c, map, "", "%s", err.message);
        return;
    }
    if (task && !train_task_takes(task, config->model->task))
        train_complain(c, ebb_doc_get(map, "name"), "name",
                       "found '%s', a model for %s, allowed: models for %s", config->model->name,
                       nn_task_name(config->model->task), task->name);
}

static void relay_data(void *context, const struct ebb_doc_node *node, const char *path,
                       const char *message)
{
    struct relay *relay = context;
    relay->checker->errors++;
    if (relay->checker->report)
        relay->checker->report(relay->checker->context, node, path, message);
}

static void check_data(struct train_checker *c, const struct ebb_doc_node *map)
{
    struct relay relay = {c};
    struct data_env env = {0};
    struct ebb_error err = {0};
    size_t before = c->errors;
    if (map->count == 0)
        return;
    if (data_check(map, &env, relay_data, &relay, &err) != EBB_OK && c->errors == before)
        train_complain(c, map, "", "%s", err.message);
}

/* ---- all together --------------------------------------------------------------------------- */

static const struct train_task *task_of(const char *entrypoint)
{
    return entrypoint && strncmp(entrypoint, "ebb:", 4) == 0 ? train_task_find(entrypoint + 4)
                                                             : NULL;
}

struct parsed { /* what the checks find out on the way */
    struct optim_config optim;
    struct nn_config net;
};

static size_t check_section(struct ebb_arena *arena, const char *section,
                            const struct ebb_doc_node *value, const char *entrypoint, double base,
                            struct parsed *parsed, train_report_fn report, void *context)
{
    struct train_checker c = {
        .arena = arena, .report = report, .context = context, .section = section};
    if (!value || value->kind == EBB_DOC_NULL)
        return 0;
    if (value->kind != EBB_DOC_MAP)
        train_complain(&c, value, "", "found %s, allowed: a mapping",
                       ebb_doc_kind_text(value->kind));
    else if (strcmp(section, "data") == 0)
        check_data(&c, value);
    else if (strcmp(section, "model") == 0)
        check_model(&c, value, task_of(entrypoint), &parsed->net);
    else if (strcmp(section, "opt") == 0)
        check_opt(&c, value, &parsed->optim);
    else if (strcmp(section, "lr_schedule") == 0)
        check_schedule(&c, value, base, &parsed->optim);
    else if (strcmp(section, "loss") == 0)
        train_check_loss(&c, value);
    else if (strcmp(section, "memory") == 0)
        check_memory(&c, value);
    return c.errors;
}

size_t train_check_section(struct ebb_arena *arena, const char *section,
                           const struct ebb_doc_node *value, const char *entrypoint,
                           train_report_fn report, void *context)
{
    struct parsed parsed = {0};
    return check_section(arena, section, value, entrypoint, 0.1, &parsed, report, context);
}

struct first { /* keeps the first mistake for err, passes all on */
    train_report_fn report;
    void *context;
    const char *file;
    size_t count;
    char text[512];
};

static void note_first(void *context, const struct ebb_doc_node *node, const char *path,
                       const char *message)
{
    struct first *f = context;
    if (f->count++ == 0)
        snprintf(f->text, sizeof f->text, "%s:%u:%u: %s: %s", f->file, node ? node->line : 0,
                 node ? node->column : 0, path, message);
    if (f->report)
        f->report(f->context, node, path, message);
}

static uint64_t bytes_of(const struct ebb_doc_node *map, const char *key, uint64_t fallback)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, key);
    uint64_t bytes = fallback;
    if (node && node->kind == EBB_DOC_INT)
        return (uint64_t)node->integer;
    if (node && node->kind == EBB_DOC_STRING && strcmp(node->text, "unlimited") != 0)
        (void)ebb_parse_bytes(node->text, &bytes, NULL); /* checked before */
    return bytes;
}

static void fill_memory(struct train_config *config, const struct ebb_doc_node *map)
{
    const char *precision = ebb_doc_string(map, "precision", "fp32");
    config->budget_bytes = bytes_of(map, "budget", UINT64_MAX);
    config->host_bytes = bytes_of(map, "host", 0);
    config->file_bytes = bytes_of(map, "file", 0);
    config->policy = ebb_doc_string(map, "policy", NULL);
    config->file_path = ebb_doc_string(map, "file_path", NULL);
    config->threads = (int)ebb_doc_int(map, "threads", 0);
    config->precision = strcmp(precision, "bf16") == 0   ? TRAIN_BF16
                        : strcmp(precision, "fp16") == 0 ? TRAIN_FP16
                                                         : TRAIN_FP32;
    config->is_split = strcmp(ebb_doc_string(map, "master_weights", "fp32"), "split") == 0;
}

/* Hyperparameters that the loop itself reads. */
static void fill_hparams(struct train_config *config, const struct train_source *source,
                         struct first *first)
{
    const struct ebb_doc_node *batch = ebb_doc_get(source->hparams, "global_batch_size");
    const struct ebb_doc_node *norm = ebb_doc_get(source->hparams, "clip_grad_l2_norm");
    const struct ebb_doc_node *value = ebb_doc_get(source->hparams, "clip_grad_val");
    struct train_checker c = {.report = note_first, .context = first, .section = "hyperparameters"};
    if (!batch || batch->kind != EBB_DOC_INT || batch->integer < 1)
        train_complain(&c, batch, "global_batch_size", "is missing or no positive integer");
    else
        config->batch_size = batch->integer;
    if (norm && (!train_number(norm, &config->clip_norm) || !(config->clip_norm > 0)))
        train_complain(&c, norm, "clip_grad_l2_norm", "allowed: a number > 0");
    if (value && (!train_number(value, &config->clip_value) || !(config->clip_value > 0)))
        train_complain(&c, value, "clip_grad_val", "allowed: a number > 0");
    if (norm && value)
        train_complain(&c, value, "clip_grad_val",
                       "found together with clip_grad_l2_norm, allowed: only one of them");
}

static void fill_optimizations(struct train_config *config, const struct ebb_doc_node *root)
{
    const struct ebb_doc_node *map = ebb_doc_get(root, "optimizations");
    config->accumulate = ebb_doc_int(map, "aggregation_frequency", 1);
    config->average = ebb_doc_bool(map, "average_aggregated_gradients", true);
    if (config->accumulate < 1)
        config->accumulate = 1;
}

static void require(struct train_source const *source, struct first *first, const char *section,
                    const struct ebb_doc_node *node)
{
    struct train_checker c = {.report = note_first, .context = first, .section = section};
    if (!node || node->kind == EBB_DOC_NULL)
        train_complain(&c, source->root, "", "is missing: training needs this section");
}

enum ebb_status train_config_read(struct ebb_arena *arena, const struct train_source *source,
                                  struct train_config *config, train_report_fn report,
                                  void *context, struct ebb_error *err)
{
    static const char *const sections[] = {"data", "model", "opt", "lr_schedule", "loss", "memory"};
    enum { SECTIONS = sizeof sections / sizeof *sections };
    const struct ebb_doc_node *values[SECTIONS];
    struct parsed *parsed = ebb_arena_calloc(arena, 1, sizeof *parsed);
    struct first first = {.report = report, .context = context, .file = source->file};
    struct train_config out = {.file = source->file, .directory = source->directory};
    if (!parsed)
        return ebb_no_memory(err, sizeof *parsed);
    out.task = task_of(source->entrypoint);
    if (!out.task)
        return ebb_fail(err, EBB_EINPUT, "%s: entrypoint '%s' is no built-in task (ebb:<task>)",
                        source->file, source->entrypoint ? source->entrypoint : "");
    for (size_t i = 0; i < SECTIONS; i++) {
        const struct ebb_doc_node *raw = ebb_doc_get(source->root, sections[i]);
        values[i] = train_expand(arena, raw, source->hparams);
        if (raw && !values[i])
            return ebb_no_memory(err, sizeof *raw);
    }
    require(source, &first, "model", values[1]);
    require(source, &first, "opt", values[2]);
    for (size_t i = 0; i < SECTIONS; i++) /* opt comes before lr_schedule, which needs its rate */
        check_section(arena, sections[i], values[i], source->entrypoint,
                      parsed->optim.lr > 0 ? parsed->optim.lr : 0.1, parsed, note_first, &first);
    fill_hparams(&out, source, &first);
    fill_optimizations(&out, source->root);
    if (first.count > 1)
        return ebb_fail(err, EBB_EINPUT, "%s (and %zu more)", first.text, first.count - 1);
    if (first.count)
        return ebb_fail(err, EBB_EINPUT, "%s", first.text);
    fill_memory(&out, values[5]);
    out.data = values[0] && values[0]->kind == EBB_DOC_MAP && values[0]->count ? values[0] : NULL;
    out.net = &parsed->net;
    out.optim = parsed->optim;
    out.decays_matrices_only = strcmp(ebb_doc_string(values[2], "decay", "all"), "matrices") == 0;
    out.schedule_name = ebb_doc_string(values[3], "name", NULL);
    out.interval = strcmp(ebb_doc_string(values[3], "interval", "update"), "epoch") == 0
                       ? TRAIN_PER_EPOCH
                       : TRAIN_PER_UPDATE;
    if (out.schedule_name) {
        static const char *const own[] = {"name", "interval", NULL};
        if (!(out.schedule = train_without(arena, values[3], own)))
            return ebb_no_memory(err, sizeof *out.schedule);
    }
    out.loss = values[4] && values[4]->kind == EBB_DOC_MAP ? values[4] : NULL;
    out.seed = source->seed;
    *config = out;
    return EBB_OK;
}
