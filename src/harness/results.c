/* results.c - settings and what is asked of them. */
#include "harness/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "nn/nn.h"

/* ---- building -------------------------------------------------------------------------------- */

static double number_of(const struct ebb_doc_node *params, const char *key)
{
    const struct ebb_doc_node *node = ebb_doc_get(params, key);
    bool is_number = node && (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE);
    return is_number ? node->number : NAN;
}

/* Arrays in an arena grow by being copied: results are few. */
static bool grow(struct ebb_arena *arena, struct harness_results *results)
{
    size_t capacity = results->capacity ? 2 * results->capacity : 16;
    struct harness_setting *more = ebb_arena_calloc(arena, capacity, sizeof *more);
    if (!more)
        return false;
    if (results->count)
        memcpy(more, results->settings, results->count * sizeof *more);
    results->settings = more;
    results->capacity = capacity;
    return true;
}

struct harness_setting *harness_results_add(struct ebb_arena *arena,
                                            struct harness_results *results, const char *model,
                                            const struct ebb_doc_node *params)
{
    if (results->count == results->capacity && !grow(arena, results))
        return NULL;
    struct harness_setting *s = &results->settings[results->count++];
    *s = (struct harness_setting){.model = model,
                                  .num_retries = -1,
                                  .params = params,
                                  .type = ebb_doc_string(params, "type", ""),
                                  .kind = ebb_doc_string(params, "kind", ""),
                                  .batch_size = number_of(params, "batch_size"),
                                  .memory_budget = number_of(params, "memory_budget"),
                                  .ratio = number_of(params, "ratio")};
    return s;
}

/* ---- questions ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

enum { INPUTS_MAX = 256 }; /* of which a median is taken */

struct harness_point harness_setting_point(const struct harness_setting *setting,
                                           enum harness_measure measure)
{
    double values[INPUTS_MAX], lows[INPUTS_MAX], highs[INPUTS_MAX];
    size_t n = 0;
    for (size_t i = 0; !setting->error && i < setting->input_count && n < INPUTS_MAX; i++) {
        const struct harness_figure *f = &setting->inputs[i].figures[measure];
        if (!harness_is_measured(f))
            continue;
        bool has_interval = !isnan(f->median_conf[0]);
        values[n] = f->median;
        lows[n] = has_interval ? f->median_conf[0] : f->median;
        highs[n++] = has_interval ? f->median_conf[1] : f->median;
    }
    return (struct harness_point){median(values, n), median(lows, n), median(highs, n)};
}

bool harness_is_baseline(const struct harness_setting *setting)
{
    return strcmp(setting->type, "baseline") == 0;
}

bool harness_same_model(const char *a, const char *b)
{
    const struct nn_model *m = strcmp(a, b) == 0 ? NULL : nn_model_find(a);
    return strcmp(a, b) == 0 || (m && m == nn_model_find(b));
}

const struct harness_setting *harness_baseline(const struct harness_results *results,
                                               const struct harness_setting *setting)
{
    for (size_t i = 0; i < results->count; i++) {
        const struct harness_setting *s = &results->settings[i];
        if (harness_is_baseline(s) && !s->error && strcmp(s->model, setting->model) == 0 &&
            s->batch_size == setting->batch_size)
            return s;
    }
    return NULL;
}

struct harness_point harness_slowdown(const struct harness_results *results,
                                      const struct harness_setting *setting)
{
    struct harness_point own = harness_setting_point(setting, HARNESS_SLOWDOWN);
    if (!isnan(own.value))
        return own;
    const struct harness_setting *base = harness_baseline(results, setting);
    if (!base)
        return (struct harness_point){NAN, NAN, NAN};
    struct harness_point t = harness_setting_point(setting, HARNESS_GPU_TIME);
    double one = harness_setting_point(base, HARNESS_GPU_TIME).value;
    return (struct harness_point){t.value / one, t.low / one, t.high / one};
}

double harness_setting_ratio(const struct harness_results *results,
                             const struct harness_setting *setting)
{
    if (!isnan(setting->ratio))
        return setting->ratio;
    const struct harness_setting *base = harness_baseline(results, setting);
    if (!base || !(setting->memory_budget > 0))
        return base == setting && base ? 1 : NAN;
    return setting->memory_budget / (harness_setting_point(base, HARNESS_TOTAL_MEM).value * 1e6);
}

const char *harness_fallback(const struct harness_setting *setting)
{
    for (size_t i = 0; !setting->error && i < setting->input_count; i++)
        if (strstr(setting->inputs[i].decided_by, HARNESS_INSTEAD))
            return setting->inputs[i].decided_by;
    return NULL;
}

size_t harness_model_end(const struct harness_results *results, size_t from)
{
    size_t end = from;
    while (end < results->count &&
           strcmp(results->settings[end].model, results->settings[from].model) == 0)
        end++;
    return end;
}
