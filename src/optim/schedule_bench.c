/* schedule_bench.c - the schedules of the HPC benchmarks, of BERT and of GPT trainers. */
#include "optim/schedule.h"

#include <inttypes.h>

#include "base/str.h"

void optim_cosmo_prepare(struct optim_schedule *s, const struct optim_place *place)
{
    const struct ebb_doc_node *map = s->a.decay_schedule;
    struct ebb_path path = {.up = place->path, .key = "decay_schedule"};
    s->base = s->a.base_lr;
    if (map && (map->kind != EBB_DOC_MAP || map->count > MAX_POINTS)) {
        ebb_reading_refuse(place->reading, &path, map, "a mapping of at most %d epochs to factors",
                           MAX_POINTS);
        return;
    }
    for (size_t i = 0; map && i < map->count; i++) {
        struct ebb_path at = ebb_path_item(&path, map, i);
        const struct ebb_doc_node *factor = map->items[i];
        if (!ebb_parse_double(map->keys[i]->text, &s->points[i]) ||
            (factor->kind != EBB_DOC_INT && factor->kind != EBB_DOC_DOUBLE))
            ebb_reading_refuse(place->reading, &at, factor, "an epoch with the number after it");
        s->values[i] = factor->number;
        s->point_count++;
    }
}

double optim_cosmo_rate(const struct optim_schedule *s, double t)
{
    double ratio = (double)s->a.global_batch_size / (double)s->a.base_batch_size;
    double peak = s->base * (s->a.scaling == OPTIM_SCALING_LINEAR ? ratio
                             : s->a.scaling == OPTIM_SCALING_SQRT ? sqrt(ratio)
                                                                  : 1);
    double warm = (double)s->a.n_warmup_epochs, best = -1, factor = 1;
    if (t < warm)
        return s->base + t * (peak - s->base) / warm;
    for (size_t i = 0; i < s->point_count; i++)
        if (s->points[i] < t && s->points[i] > best) {
            best = s->points[i];
            factor = s->values[i];
        }
    return peak * factor;
}

static double deepcam_warm(const struct optim_schedule *s, double t)
{
    double w = (double)s->a.lr_warmup_steps, f = s->a.lr_warmup_factor;
    return s->a.base_lr * (f == 1 ? t / w : (f - 1) * t / w + 1);
}

/* The ramp never reaches its end: its last value carries on. */
static double deepcam_plateau(const struct optim_schedule *s)
{
    double w = (double)s->a.lr_warmup_steps;
    return w > 0 ? deepcam_warm(s, w - 1) : s->a.base_lr;
}

double optim_deepcam_cosine_rate(const struct optim_schedule *s, double t)
{
    double w = (double)s->a.lr_warmup_steps;
    if (t < w)
        return deepcam_warm(s, t);
    return optim_cosine(s->a.eta_min, deepcam_plateau(s), (t - w) / (double)s->a.t_max);
}

double optim_deepcam_multistep_rate(const struct optim_schedule *s, double t)
{
    double w = (double)s->a.lr_warmup_steps;
    if (t < w)
        return deepcam_warm(s, t);
    return deepcam_plateau(s) * (t >= (double)s->a.milestone + w + 1 ? s->a.decay_rate : 1);
}

double optim_bert_rate(const struct optim_schedule *s, double t0)
{
    double t = t0 + 1, start = (double)s->a.start_warmup_steps, off = start == 0 ? 1 : 0;
    double m = t - off - start, w = (double)s->a.warmup_steps;
    if (m < w)
        return s->a.base_lr * fmax(m, 0) / (w + 1e-6);
    double p = fmin((t - off) / (double)s->a.total_steps, 1);
    return (s->a.base_lr - s->a.end_lr) * pow(1 - p, s->a.degree) + s->a.end_lr;
}

static double gpt_part(const struct optim_schedule *s, double t)
{
    double w = (double)s->a.warmup;
    return fmin((t - w) / ((double)s->a.total - w), 1);
}

double optim_gpt_cosine_rate(const struct optim_schedule *s, double t)
{
    double low = s->a.lr * s->a.final_frac;
    if (t < (double)s->a.warmup)
        return s->a.lr * (t + 1) / (double)s->a.warmup;
    return optim_cosine(low, s->a.lr, gpt_part(s, t));
}

double optim_gpt_linear_rate(const struct optim_schedule *s, double t)
{
    double low = s->a.lr * s->a.final_frac;
    if (t < (double)s->a.warmup)
        return s->a.lr * (t + 1) / (double)s->a.warmup;
    return s->a.lr - gpt_part(s, t) * (s->a.lr - low);
}

double optim_gpt_wsd_rate(const struct optim_schedule *s, double t)
{
    double low = s->a.lr * s->a.final_frac, total = (double)s->a.total, begin = 0.8 * total;
    if (t < (double)s->a.warmup)
        return s->a.lr * (t + 1) / (double)s->a.warmup;
    if (t < begin)
        return s->a.lr;
    return low + (1 - sqrt(fmin((t - begin) / (total - begin), 1))) * (s->a.lr - low);
}

void optim_gpt_prepare(struct optim_schedule *s, const struct optim_place *place)
{
    if (s->a.total <= s->a.warmup)
        ebb_reading_error(place->reading, place->path, place->map,
                          "%s: total %" PRId64 " must be above warmup %" PRId64, s->row->name,
                          s->a.total, s->a.warmup);
}
