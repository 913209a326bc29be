/* library_context.c - what a shared-object trial may ask and say: the functions behind ebb.h. */
#include "worker/library.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

static struct worker_library_context *of(ebb_ctx *ctx)
{
    return (struct worker_library_context *)(void *)ctx;
}

static int api_fail(ebb_ctx *ctx, ebb_failure kind, const char *reason)
{
    struct worker_library_context *c = of(ctx);
    c->has_failure = true;
    c->failure = kind == EBB_INVALID_HPARAMS || kind == EBB_USER_CANCELED ? kind : EBB_ERRORED;
    snprintf(c->reason, sizeof c->reason, "%s", reason);
    return -1;
}

/* ---- hyperparameters ---- */

/* The value of that name, of one of the kinds (bits of enum ebb_doc_kind); NULL: the failure is
 * told. */
static const struct ebb_doc_node *find(ebb_ctx *ctx, const char *name, unsigned kinds,
                                       const char *wanted)
{
    const struct ebb_doc_node *hparams = of(ctx)->job->hparams;
    const struct ebb_doc_node *node = ebb_doc_get(hparams, name);
    char text[512];
    if (node != NULL && (kinds >> node->kind & 1) != 0)
        return node;
    if (node != NULL) {
        snprintf(text, sizeof text, "hyperparameter '%s' is %s, not %s", name,
                 ebb_doc_kind_text(node->kind), wanted);
        api_fail(ctx, EBB_ERRORED, text);
        return NULL;
    }
    size_t at =
        (size_t)snprintf(text, sizeof text, "section 'hyperparameters' has no '%s'; it has", name);
    for (size_t i = 0; i < hparams->count && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s %s", i > 0 ? "," : "",
                               hparams->keys[i]->text);
    api_fail(ctx, EBB_ERRORED, text);
    return NULL;
}

static int api_int(ebb_ctx *ctx, const char *name, int64_t *value)
{
    const struct ebb_doc_node *node = find(ctx, name, 1u << EBB_DOC_INT, "an integer");
    if (node != NULL)
        *value = node->integer;
    return node != NULL ? 0 : -1;
}

static int api_double(ebb_ctx *ctx, const char *name, double *value)
{
    const struct ebb_doc_node *node =
        find(ctx, name, 1u << EBB_DOC_INT | 1u << EBB_DOC_DOUBLE, "a number");
    if (node != NULL)
        *value = node->number;
    return node != NULL ? 0 : -1;
}

static int api_bool(ebb_ctx *ctx, const char *name, int *value)
{
    const struct ebb_doc_node *node = find(ctx, name, 1u << EBB_DOC_BOOL, "true or false");
    if (node != NULL)
        *value = node->boolean ? 1 : 0;
    return node != NULL ? 0 : -1;
}

static int api_string(ebb_ctx *ctx, const char *name, const char **value)
{
    const struct ebb_doc_node *node = find(ctx, name, 1u << EBB_DOC_STRING, "a string");
    if (node != NULL)
        *value = node->text;
    return node != NULL ? 0 : -1;
}

static const char *api_json(ebb_ctx *ctx, ebb_json_of what, const char *name)
{
    struct worker_library_context *c = of(ctx);
    const struct ebb_doc_node *node = NULL;
    switch (what) {
    case EBB_JSON_HPARAM_NAMED:
        node = ebb_doc_get(c->job->hparams, name);
        break;
    case EBB_JSON_HPARAMS:
        node = c->job->hparams;
        break;
    case EBB_JSON_DATA:
        node = ebb_doc_get(c->job->config, "data");
        break;
    case EBB_JSON_CONFIG:
        node = c->job->config;
        break;
    }
    if (node == NULL)
        return NULL;
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &text, 0);
    ebb_doc_write_json(node, &w);
    const char *kept =
        text.failed ? NULL : ebb_arena_strndup(&c->texts, ebb_str_c(&text), text.length);
    ebb_str_fini(&text);
    return kept;
}

/* ---- the rest ---- */

static int64_t api_get(ebb_ctx *ctx, ebb_get what)
{
    const struct worker_library_context *c = of(ctx);
    const struct worker_job *job = c->job;
    switch (what) {
    case EBB_GET_EXPERIMENT_ID:
        return job->experiment_id;
    case EBB_GET_TRIAL_ID:
        return job->trial_id;
    case EBB_GET_TRIAL_SEED:
        return job->seed;
    case EBB_GET_GLOBAL_BATCH_SIZE:
        return job->global_batch_size / job->size * job->size;
    case EBB_GET_SLOT_BATCH_SIZE:
        return job->global_batch_size / job->size;
    case EBB_GET_RANK:
        return job->rank;
    case EBB_GET_LOCAL_RANK:
        return job->local_rank;
    case EBB_GET_SIZE:
        return job->size;
    case EBB_GET_AGENTS:
        return 1;
    case EBB_GET_SHOULD_STOP:
        return c->run != NULL && worker_should_stop(c->run);
    case EBB_GET_IS_WARM_START:
        return c->is_warm_start;
    }
    return -1;
}

/* stdout and stderr of a trial are its log. */
static void api_log(ebb_ctx *ctx, const char *text)
{
    (void)ctx;
    fprintf(stderr, "%s\n", text);
}

static int api_metric(ebb_metrics *metrics, const char *name, double value)
{
    struct worker_library_metrics *m = (struct worker_library_metrics *)(void *)metrics;
    return worker_metrics_set(&m->values, name, value, NULL) == EBB_OK ? 0 : -1;
}

static const ebb_api api = {
    .abi = EBB_TRIAL_ABI,
    .hparam_int = api_int,
    .hparam_double = api_double,
    .hparam_bool = api_bool,
    .hparam_string = api_string,
    .json = api_json,
    .get = api_get,
    .log = api_log,
    .fail = api_fail,
    .metric = api_metric,
};

void worker_library_context_init(struct worker_library_context *context,
                                 const struct worker_job *job)
{
    *context = (struct worker_library_context){.ctx.api = &api, .job = job};
    ebb_arena_init(&context->texts);
}

void worker_library_context_fini(struct worker_library_context *context)
{
    ebb_arena_fini(&context->texts);
}

void worker_library_metrics_init(struct worker_library_metrics *metrics)
{
    metrics->metrics.api = &api;
    worker_metrics_init(&metrics->values);
}

void worker_library_metrics_fini(struct worker_library_metrics *metrics)
{
    worker_metrics_fini(&metrics->values);
}
