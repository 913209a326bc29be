/* metrics.c - names with numbers, and how they look on the wire. */
#include "worker/worker.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "worker/internal.h"

void worker_metrics_init(struct worker_metrics *metrics)
{
    *metrics = (struct worker_metrics){0};
}

void worker_metrics_clear(struct worker_metrics *metrics)
{
    for (size_t i = 0; i < metrics->count; i++)
        ebb_free(metrics->items[i].name);
    metrics->count = 0;
}

void worker_metrics_fini(struct worker_metrics *metrics)
{
    worker_metrics_clear(metrics);
    ebb_free(metrics->items);
    *metrics = (struct worker_metrics){0};
}

struct worker_metric *worker_metrics_find(const struct worker_metrics *metrics, const char *name)
{
    for (size_t i = 0; i < metrics->count; i++)
        if (strcmp(metrics->items[i].name, name) == 0)
            return &metrics->items[i];
    return NULL;
}

enum ebb_status worker_metrics_set(struct worker_metrics *metrics, const char *name, double value,
                                   struct ebb_error *err)
{
    if (name == NULL || name[0] == '\0')
        return ebb_fail(err, EBB_EINPUT, "metric: the name is empty");
    struct worker_metric *found = worker_metrics_find(metrics, name);
    if (found != NULL) {
        found->value = value;
        return EBB_OK;
    }
    EBB_TRY(ebb_grow(&metrics->items, &metrics->capacity, metrics->count + 1,
                     sizeof *metrics->items, err));
    char *copy = ebb_strdup(name);
    if (copy == NULL)
        return ebb_no_memory(err, strlen(name) + 1);
    metrics->items[metrics->count++] = (struct worker_metric){.name = copy, .value = value};
    return EBB_OK;
}

void worker_metrics_write(const struct worker_metrics *metrics, struct ebb_json_writer *w)
{
    ebb_jsonw_object(w);
    for (size_t i = 0; i < metrics->count; i++) {
        ebb_jsonw_key(w, metrics->items[i].name);
        ebb_jsonw_metric(w, metrics->items[i].value);
    }
    ebb_jsonw_object_end(w);
}
