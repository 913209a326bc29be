/* bench_rate.c - the section lr_schedule of benchmark files as that of an experiment file.
 *
 * Without `name` or `type`, or with a type of the benchmark, the keys are the benchmark's own; with
 * any other name the section is passed on: every schedule is allowed in every benchmark. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "train/bench.h"

#define ROW(...) EBB_KEY_ROW(struct train_bench_rate, __VA_ARGS__)
#define LOOSE .flags = EBB_KEY_LOOSE
static const struct ebb_key rows[] = {
    ROW("base_lr", DOUBLE, base_lr, "the rate that all others are parts of",
        .flags = EBB_KEY_LOOSE | EBB_KEY_REQUIRED, .bounds = ">= 0"),
    ROW("end_lr", DOUBLE, end_lr, "where it ends (resnet50: only told)", LOOSE, .bounds = ">= 0"),
    ROW("decay_steps", INT, decay_steps, "resnet50: only told", .bounds = ">= 0"),
    ROW("poly_power", DOUBLE, poly_power, "resnet50: power of the decay", LOOSE, .bounds = ">= 0"),
    ROW("lr_warmup_steps", INT, lr_warmup_steps, "updates of the warm-up",
        .bounds = ">= 0, <= 1000000000000"),
    ROW("lr_warmup_factor", DOUBLE, lr_warmup_factor, "deepcam: of the warm-up", LOOSE),
    ROW("milestones", INT, milestones, "deepcam: update of the step down",
        .bounds = ">= 0, <= 1000000000000"),
    ROW("decay_rate", DOUBLE, decay_rate, "deepcam: factor of the step down", LOOSE),
    ROW("t_max", INT, t_max, "deepcam: updates of half a wave", .bounds = "> 0, <= 1000000000000"),
    ROW("eta_min", DOUBLE, eta_min, "deepcam: the least rate", LOOSE),
    ROW("scaling", WORD, scaling, "cosmoflow: with the batch", .words = "none linear sqrt"),
    ROW("base_batch_size", INT, base_batch_size, "cosmoflow: that base_lr is meant for",
        .bounds = "> 0, <= 1000000000"),
    ROW("n_warmup_epochs", INT, n_warmup_epochs, "cosmoflow: epochs of the warm-up",
        .bounds = ">= 0, <= 1000000000"),
    ROW("decay_schedule", NODE, decay_schedule, "cosmoflow: epoch to factor", .flags = 0),
    ROW("total_steps", INT, total_steps, "updates until the end",
        .bounds = "> 0, <= 1000000000000"),
    ROW("start_warmup_step", INT, start_warmup_step, "bert: first update of the warm-up",
        .bounds = ">= 0, <= 1000000000000"),
    ROW("degree", DOUBLE, degree, "bert: power of the decay", LOOSE, .bounds = ">= 0"),
    ROW("final_frac", DOUBLE, final_frac, "gpt: part of the rate at the end", LOOSE,
        .bounds = ">= 0, <= 1"),
};
static const struct ebb_keys keys = EBB_KEYS(rows);

/* ---- each benchmark's own ------------------------------------------------------------------- */

static void set_name(struct train_bench_read *x, struct ebb_doc_node *out, const char *name)
{
    ebb_reading_set(&x->reading, out, "name", ebb_doc_new_string(x->reading.arena, name));
}

static void set_int(struct train_bench_read *x, struct ebb_doc_node *out, const char *key,
                    int64_t value)
{
    ebb_reading_set(&x->reading, out, key, ebb_doc_new_int(x->reading.arena, value));
}

static void set_double(struct train_bench_read *x, struct ebb_doc_node *out, const char *key,
                       double value)
{
    ebb_reading_set(&x->reading, out, key, ebb_doc_new_double(x->reading.arena, value));
}

/* An error when a key that this schedule cannot do without is absent. */
static void need(struct train_bench_read *x, const char *key, const char *allowed)
{
    const struct ebb_doc_node *map = ebb_doc_get(x->root, "lr_schedule");
    char text[128];
    snprintf(text, sizeof text, "required but missing, allowed: %s", allowed);
    if (!ebb_doc_given(map, key))
        ebb_reading_wrong(&x->reading, &(struct ebb_path){.key = "lr_schedule"}, map, key, text);
}

void train_bench_resnet(struct train_bench_read *x, const char *type, struct ebb_doc_node *out)
{
    const struct train_bench_values *v = &x->values;
    (void)type;
    set_name(x, out, "PolynomialLR");
    set_int(x, out, "total_iters", v->epochs ? v->epochs : v->steps);
    set_double(x, out, "power", v->schedule.poly_power);
}

void train_bench_deepcam(struct train_bench_read *x, const char *type, struct ebb_doc_node *out)
{
    const struct train_bench_rate *r = &x->values.schedule;
    bool is_warm = r->lr_warmup_steps > 0, is_cosine = strcmp(type, "multistep") != 0;
    need(x, is_cosine ? "t_max" : "milestones", "an integer > 0");
    if (is_cosine) {
        set_name(x, out, is_warm ? "DeepCAMCosine" : "CosineAnnealingLR");
        set_int(x, out, is_warm ? "t_max" : "T_max", r->t_max);
        set_double(x, out, "eta_min", r->eta_min);
    } else if (is_warm) {
        set_name(x, out, "DeepCAMMultiStep");
        set_int(x, out, "milestones", r->milestones);
        set_double(x, out, "decay_rate", r->decay_rate);
    } else {
        struct ebb_doc_node *list = ebb_reading_node(&x->reading, EBB_DOC_LIST, out);
        ebb_reading_append(&x->reading, list, ebb_doc_new_int(x->reading.arena, r->milestones));
        set_name(x, out, "MultiStepLR");
        ebb_reading_set(&x->reading, out, "milestones", list);
        set_double(x, out, "gamma", r->decay_rate);
    }
    if (is_warm) {
        set_int(x, out, "lr_warmup_steps", r->lr_warmup_steps);
        set_double(x, out, "lr_warmup_factor", r->lr_warmup_factor);
    }
}

void train_bench_cosmoflow(struct train_bench_read *x, const char *type, struct ebb_doc_node *out)
{
    static const char *const scalings[] = {"none", "linear", "sqrt"};
    const struct train_bench_rate *r = &x->values.schedule;
    (void)type;
    if (r->scaling)
        need(x, "base_batch_size", "an integer > 0");
    set_name(x, out, "CosmoFlow");
    ebb_reading_set(&x->reading, out, "scaling",
                    ebb_doc_new_string(x->reading.arena, scalings[r->scaling]));
    set_int(x, out, "global_batch_size", (int64_t)x->bench->batching.global);
    set_int(x, out, "base_batch_size", r->base_batch_size);
    set_int(x, out, "n_warmup_epochs", r->n_warmup_epochs);
    ebb_reading_set(&x->reading, out, "decay_schedule", r->decay_schedule);
}

void train_bench_bert(struct train_bench_read *x, const char *type, struct ebb_doc_node *out)
{
    const struct train_bench_rate *r = &x->values.schedule;
    (void)type;
    need(x, "total_steps", "an integer > 0");
    set_name(x, out, "LinearWarmupPolyDecay");
    set_int(x, out, "total_steps", r->total_steps);
    set_int(x, out, "warmup_steps", r->lr_warmup_steps);
    set_int(x, out, "start_warmup_steps", r->start_warmup_step);
    set_double(x, out, "end_lr", r->end_lr);
    set_double(x, out, "degree", r->degree);
}

void train_bench_gpt(struct train_bench_read *x, const char *type, struct ebb_doc_node *out)
{
    const struct train_bench_rate *r = &x->values.schedule;
    if (!*type)
        return; /* a constant rate */
    need(x, "total_steps", "an integer > 0");
    set_name(x, out,
             strcmp(type, "linear") == 0 ? "GPTLinear"
             : strcmp(type, "wsd") == 0  ? "GPTWSD"
                                         : "GPTCosine");
    set_int(x, out, "total", r->total_steps);
    set_int(x, out, "warmup", r->lr_warmup_steps);
    set_double(x, out, "final_frac", r->final_frac);
}

/* ---- the section ---------------------------------------------------------------------------- */

static bool is_schedule(const char *name)
{
    for (size_t i = 0; optim_schedule_name(i); i++)
        if (strcasecmp(optim_schedule_name(i), name) == 0)
            return true;
    return false;
}

static void refuse_type(struct train_bench_read *x, const struct ebb_path *path, const char *key,
                        const struct ebb_doc_node *type)
{
    struct ebb_path at = {.up = path, .key = key};
    struct ebb_str words = {0}, allowed = {0};
    ebb_words_add(&words, x->row->types ? x->row->types : "");
    for (size_t i = 0; optim_schedule_name(i); i++)
        ebb_words_add(&words, optim_schedule_name(i));
    ebb_say_words(ebb_str_c(&words), &allowed);
    ebb_say_nearest(ebb_str_c(&words), type->text, type->length, &allowed);
    ebb_reading_error(&x->reading, &at, type, "found \"%s\", allowed: %s", type->text,
                      ebb_str_c(&allowed));
    ebb_str_fini(&words);
    ebb_str_fini(&allowed);
}

/* Of the benchmark's own keys. */
static const struct ebb_doc_node *own(struct train_bench_read *x, const struct ebb_path *path,
                                      const struct ebb_doc_node *map, const char *type)
{
    size_t errors = x->reading.report->errors;
    struct ebb_section section = {.table = &keys,
                                  .only = x->row->schedule_keys,
                                  .also = "type name interval",
                                  .what = x->row->name};
    ebb_keys_read(&x->reading, &section, path, map, map ? map : x->root, &x->values.schedule);
    if (x->reading.report->errors != errors)
        return NULL;
    struct ebb_doc_node *out = ebb_reading_node(&x->reading, EBB_DOC_MAP, map);
    x->row->schedule(x, type, out);
    return out;
}

const struct ebb_doc_node *train_bench_schedule(struct train_bench_read *x)
{
    const struct ebb_doc_node *map = ebb_doc_given(x->root, "lr_schedule");
    struct ebb_path path = {.key = "lr_schedule"};
    const char *key = ebb_doc_given(map, "type") ? "type" : "name";
    const struct ebb_doc_node *type = ebb_doc_given(map, key), *out;
    x->values.schedule = (struct train_bench_rate){.base_lr = NAN,
                                                   .poly_power = 1,
                                                   .lr_warmup_factor = 1,
                                                   .decay_rate = 0.1,
                                                   .degree = 1,
                                                   .final_frac = 0.1,
                                                   .base_batch_size = 1};
    if (map && map->kind != EBB_DOC_MAP) {
        ebb_reading_refuse(&x->reading, &path, map, "a mapping");
        return NULL;
    }
    bool is_own = !type || (type->kind == EBB_DOC_STRING &&
                            ebb_words_find(x->row->types, type->text, type->length, NULL));
    if (is_own) {
        out = own(x, &path, map, type ? type->text : "");
    } else if (type->kind != EBB_DOC_STRING || !is_schedule(type->text)) {
        if (type->kind == EBB_DOC_STRING)
            refuse_type(x, &path, key, type);
        else
            ebb_reading_refuse(&x->reading, &path, type, "the name of a schedule");
        return NULL;
    } else {
        struct ebb_section rate = {.table = &keys, .only = "base_lr", .is_open = true};
        ebb_keys_read(&x->reading, &rate, &path, map, map, &x->values.schedule);
        struct ebb_doc_node *copy = train_bench_copy(x, map, "type name base_lr");
        ebb_reading_set(&x->reading, copy, "name", type);
        out = copy;
    }
    if (!out || !ebb_doc_given(out, "name"))
        return NULL;
    if (!ebb_doc_given(out, "interval") && x->row->is_per_epoch)
        ebb_reading_set(&x->reading, (struct ebb_doc_node *)out, "interval",
                        ebb_doc_new_string(x->reading.arena, "epoch"));
    return out;
}
