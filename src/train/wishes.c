/* wishes.c - PatrickStar's options in the section `memory`: what each asks for, and which do not go
 * together. What is valid and not built stands in exp/config/unbuilt.c. */
#include <math.h>
#include <string.h>

#include "mem/mem.h"
#include "planner/planner.h"
#include "train/internal.h"

static const struct ebb_doc_node *read_wish(const struct ebb_value *v)
{
    enum train_wish wish = v->node->boolean ? TRAIN_ON : TRAIN_OFF;
    memcpy((char *)v->record + v->key->at, &wish, sizeof wish);
    return v->node;
}

const struct ebb_key_type train_wish_type = {
    .noun = "true or false", .shapes = 1u << EBB_DOC_BOOL, .read = read_wish};

struct checking {
    struct ebb_reading *reading;
    const struct ebb_path *path;
    const struct ebb_doc_node *map;
    const struct train_config *config;
};

static void wrong(const struct checking *c, const char *key, const char *message)
{
    ebb_reading_wrong(c->reading, c->path, c->map, key, message);
}

static void wrong_tracer(const struct checking *c, const char *key, const char *message)
{
    struct ebb_path at = {.up = c->path, .key = "mem_tracer"};
    ebb_reading_wrong(c->reading, &at, ebb_doc_given(c->map, "mem_tracer"), key, message);
}

/* Planners that play games know what is asked of them; a policy knows which ways are open. */
static bool takes_demands(const char *policy, bool is_plan)
{
    bool is_game = !policy || strcmp(policy, "unified") == 0 || strcmp(policy, "floor") == 0;
    return is_game || (!is_plan && mem_policy_find(policy));
}

static void check_activations(const struct checking *c)
{
    const struct train_config *config = c->config;
    const struct train_wishes *w = &config->wishes;
    if (w->activation_offload == TRAIN_ON && w->use_ckp != TRAIN_ON)
        wrong(c, "with_activation_offload",
              "found true, which is about the inputs of checkpointed blocks: \"only with "
              "checkpointing\", allowed with use_ckp: true");
    else if (w->activation_offload == TRAIN_ON && config->host_bytes == 0 &&
             config->file_bytes == 0 && w->cpu_ratio <= 0)
        wrong(c, "with_activation_offload",
              "found true, and there is nowhere to go, allowed with host or file > 0");
    if (w->use_ckp == TRAIN_ON && !takes_demands(config->policy, true))
        wrong(c, "use_ckp",
              "found true, which is a plan of its own, allowed without policy, or with policy: "
              "unified or floor");
    if (w->use_ckp == TRAIN_OFF && !takes_demands(config->policy, false))
        wrong(c, "use_ckp",
              "found false, which this planner knows nothing of, allowed without policy, or with "
              "one of `ebb sim`, unified or floor");
    if (w->activation_offload == TRAIN_OFF && !takes_demands(config->policy, false))
        wrong(c, "with_activation_offload",
              "found false, which this planner knows nothing of, allowed without policy, or with "
              "one of `ebb sim`, unified or floor");
}

static void check_ratios(const struct checking *c)
{
    const struct train_config *config = c->config;
    const struct train_wishes *w = &config->wishes;
    bool is_cpu = !train_is_gpu(config->device);
    if (w->gpu_ratio > 0 && ebb_doc_given(c->map, "budget"))
        wrong_tracer(c, "overall_gpu_mem_ratio", "found beside budget, allowed: only one of them");
    if (w->gpu_ratio > 0 && !is_cpu)
        wrong_tracer(c, "overall_gpu_mem_ratio",
                     "is a part of this machine's memory, allowed with device: cpu or far; on cuda "
                     "say budget");
    if (w->cpu_ratio > 0 && ebb_doc_given(c->map, "host"))
        wrong_tracer(c, "overall_cpu_mem_ratio", "found beside host, allowed: only one of them");
    if (is_cpu && w->gpu_ratio + w->cpu_ratio > 1)
        wrong_tracer(c, "overall_cpu_mem_ratio",
                     "both ratios are parts of this machine's memory, allowed: together <= 1");
}

/* Copies of the cpu and of far are held back to what is said; those of a GPU go as fast as they go. */
static void check_links(const struct checking *c)
{
    static const char *const links[] = {"link_bandwidth", "link_latency"};
    if (!c->config->device || strcmp(c->config->device, "cuda") != 0)
        return;
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (ebb_doc_given(c->map, links[i]))
            wrong(c, links[i],
                  "holds copies back, allowed with device: cpu or far; what the links of a GPU "
                  "carry stands in its profile (costs)");
}

static void check_host(const struct checking *c)
{
    const struct train_config *config = c->config;
    const struct train_wishes *w = &config->wishes;
    if (w->hybrid_adam == TRAIN_OPEN)
        return;
    if (config->host_bytes == 0 && w->cpu_ratio <= 0)
        wrong(c, "use_hybrid_adam",
              "is about updates of state in host memory, allowed with host > 0");
    if (train_is_gpu(config->device))
        wrong(c, "use_hybrid_adam",
              "gives updates to the host, whose bits are not those of device cuda, allowed with "
              "device: cpu or far");
    if (w->hybrid_adam == TRAIN_OFF && (config->policy || w->has_warmup || w->has_margin))
        wrong(c, "use_hybrid_adam",
              "found false, which says where all state lives, allowed without policy and "
              "mem_tracer ratios");
}

static void check_tables(const struct checking *c)
{
    const struct train_config *config = c->config;
    if (config->wishes.cpu_embedding != TRAIN_ON)
        return;
    if (config->host_bytes == 0 && config->wishes.cpu_ratio <= 0)
        wrong(c, "use_cpu_embedding",
              "found true, which puts tables into host memory, allowed with host > 0");
    if (train_is_gpu(config->device))
        wrong(c, "use_cpu_embedding",
              "found true, which gives updates to the host, whose bits are not those of device "
              "cuda, allowed with device: cpu or far");
}

/* A GPU copies from and to pinned memory. */
static void check_gpu(const struct checking *c)
{
    if (train_is_gpu(c->config->device) && c->config->file_bytes)
        wrong(c, "file", "a GPU has no file tier, allowed with device: cpu or far; give it host");
}

/* Parts of the budget that state may have. */
static void check_caps(const struct checking *c)
{
    const struct train_config *config = c->config;
    const struct train_wishes *w = &config->wishes;
    const struct {
        const char *key;
        bool is_given;
    } caps[] = {{"warmup_gpu_chunk_mem_ratio", w->has_warmup}, {"margin_use_ratio", w->has_margin}};
    bool has_tiers = config->host_bytes || config->file_bytes || w->cpu_ratio > 0;
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        if (!caps[i].is_given)
            continue;
        if (config->budget_bytes == UINT64_MAX && w->gpu_ratio <= 0)
            wrong_tracer(c, caps[i].key, "is a part of the budget, allowed with a budget");
        if (!has_tiers)
            wrong_tracer(c, caps[i].key,
                         "sends state to a lower tier, allowed with host or file > 0");
        if (config->policy)
            wrong_tracer(c, caps[i].key,
                         "says where state lives, which policies know nothing of, allowed without "
                         "policy");
    }
    if (w->is_static && !w->has_warmup)
        wrong(c, "with_static_partition",
              "found true, allowed with mem_tracer.warmup_gpu_chunk_mem_ratio, which says how much "
              "state lives in tier 0");
    if (w->is_static && w->has_margin)
        wrong_tracer(c, "margin_use_ratio",
                     "found beside with_static_partition, allowed: only one of them");
}

/* What is so anyway may be said. */
static void check_always(const struct checking *c)
{
    static const struct {
        const char *key, *why;
    } always[] = {{"with_mem_cache", "memory is taken once and given back at the end"},
                  {"with_async_move", "copies go beside the ops"}};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        const struct ebb_doc_node *node = ebb_doc_given(c->map, always[i].key);
        char path[64];
        if (!node || node->kind != EBB_DOC_BOOL)
            continue;
        snprintf(path, sizeof path, "memory.%s", always[i].key);
        if (node->boolean)
            ebb_reading_add(c->reading, EBB_FINDING_WARNING, node, path, "always so: %s",
                            always[i].why);
        else
            ebb_reading_add(c->reading, EBB_FINDING_ERROR, node, path,
                            "found false, allowed: true; it is always so: %s", always[i].why);
    }
}

static void check_overlay(const struct checking *c)
{
    if (c->config->wishes.gradients != TRAIN_GRADIENTS_OVERLAY)
        return;
    if (c->config->precision != TRAIN_BF16)
        wrong(c, "gradients",
              "found \"overlay\", which puts gradients over the bf16 copies of fp32 weights, "
              "allowed with precision: bf16");
    else if (c->config->is_split)
        wrong(c, "gradients",
              "found \"overlay\", and master_weights: split has no copies of weights: the half "
              "that is computed with is part of the weight, and \"the master is kept\"; allowed "
              "with master_weights: fp32");
}

void train_wishes_check(struct ebb_reading *reading, const struct ebb_path *path,
                        const struct ebb_doc_node *map, const struct train_config *config)
{
    struct checking c = {reading, path, map, config};
    check_activations(&c);
    check_ratios(&c);
    check_links(&c);
    check_host(&c);
    check_tables(&c);
    check_gpu(&c);
    check_caps(&c);
    check_always(&c);
    const struct train_wishes *w = &config->wishes;
    if (w->monitor != TRAIN_OPEN && w->tracer_monitor != TRAIN_OPEN &&
        w->monitor != w->tracer_monitor)
        wrong_tracer(
            &c, "use_async_mem_monitor",
            "found beside with_async_mem_monitor, which says the other: allowed: the same");
    if (w->reserve_bytes && w->monitor != TRAIN_ON && w->tracer_monitor != TRAIN_ON)
        wrong(&c, "reserve",
              "does nothing without the monitor, allowed with "
              "with_async_mem_monitor: true");
    if (config->wishes.gradients == TRAIN_GRADIENTS_FUSED && config->precision == TRAIN_FP16)
        wrong(&c, "gradients",
              "found \"fused\", and precision: fp16 scales losses: an update waits until all "
              "gradients are known to be finite; allowed: separate");
    check_overlay(&c);
    if (w->tiling == TRAIN_ON && config->is_split)
        wrong(&c, "with_tiling_linear",
              "found true, and master_weights: split keeps halves of whole weights; allowed with "
              "master_weights: fp32");
}

void train_wishes_check_rest(struct ebb_reading *reading, const struct ebb_doc_node *memory,
                             const struct train_config *config)
{
    struct ebb_path path = {.key = "memory"};
    bool takes_norms = config->optim.kind == OPS_LARS || config->optim.kind == OPS_LAMB;
    if (config->wishes.tiling == TRAIN_ON && takes_norms)
        ebb_reading_wrong(reading, &path, memory, "with_tiling_linear",
                          "found true, and opt.name: LARS and LAMB take norms of whole weights; "
                          "allowed with the other optimizers");
    if (config->wishes.gradients == TRAIN_GRADIENTS_OVERLAY && config->accumulate > 1)
        ebb_reading_wrong(
            reading, &path, memory, "gradients",
            "found \"overlay\", and optimizations.aggregation_frequency goes over the "
            "weights once more: \"after backward the half parameters are gone until "
            "the step\"; allowed: separate");
    if (config->wishes.gradients != TRAIN_GRADIENTS_FUSED)
        return;
    if (config->clip_norm > 0)
        ebb_reading_wrong(reading, &path, memory, "gradients",
                          "found \"fused\", and hyperparameters.clip_grad_l2_norm needs all "
                          "gradients before the first update; allowed: separate");
    if (config->accumulate > 1)
        ebb_reading_wrong(reading, &path, memory, "gradients",
                          "found \"fused\", and optimizations.aggregation_frequency adds up the "
                          "gradients of several batches; allowed: separate");
}
