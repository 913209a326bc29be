/* unbuilt.c - what a file may say and this build cannot run yet. One row each; when a part is
 * built, its row goes. Nothing is parsed and ignored: submission refuses what a row names. */
#include "exp/config/config.h"

#include <string.h>

static bool uses_s3(const struct exp_config *c)
{
    return c->checkpoint_storage.kind == EXP_STORAGE_S3;
}

static bool uses_gcs(const struct exp_config *c)
{
    return c->checkpoint_storage.kind == EXP_STORAGE_GCS;
}

static bool uses_hdfs(const struct exp_config *c)
{
    return c->checkpoint_storage.kind == EXP_STORAGE_HDFS;
}

static bool uses_tensorboard(const struct exp_config *c)
{
    return c->has_tensorboard_storage && c->tensorboard_storage.kind != EXP_STORAGE_SHARED_FS;
}

static bool uses_slots(const struct exp_config *c)
{
    return c->resources.slots_per_trial > 1;
}

/* Exchange options act between slots; on one slot they have no effect by definition. */
static bool uses_compression(const struct exp_config *c)
{
    return uses_slots(c) && c->optimizations.gradient_compression;
}

static bool uses_fusion(const struct exp_config *c)
{
    return uses_slots(c) && c->optimizations.auto_tune_tensor_fusion;
}

static bool uses_threshold(const struct exp_config *c)
{
    return uses_slots(c) && c->optimizations.tensor_fusion_threshold != 64;
}

static bool uses_cycle_time(const struct exp_config *c)
{
    return uses_slots(c) && c->optimizations.tensor_fusion_cycle_time != 5;
}

static bool uses_container_path(const struct exp_config *c)
{
    const struct exp_storage *s = &c->checkpoint_storage;
    return s->kind == EXP_STORAGE_SHARED_FS && s->container_path != NULL &&
           strcmp(s->container_path, "/determined_shared_fs") != 0;
}

static bool uses_propagation(const struct exp_config *c)
{
    const struct exp_storage *s = &c->checkpoint_storage;
    return s->kind == EXP_STORAGE_SHARED_FS && s->propagation != NULL &&
           strcmp(s->propagation, "rprivate") != 0;
}

static bool uses_mixed_precision(const struct exp_config *c)
{
    return c->optimizations.mixed_precision != EXP_PRECISION_O0;
}

static bool uses_agent_label(const struct exp_config *c)
{
    return c->resources.agent_label[0] != '\0';
}

static bool uses_image(const struct exp_config *c)
{
    return c->environment.image_cpu || c->environment.image_gpu;
}

static bool uses_force_pull(const struct exp_config *c)
{
    return c->environment.force_pull_image;
}

static bool uses_registry(const struct exp_config *c)
{
    return c->environment.has_registry_auth;
}

static bool uses_onnx(const struct exp_config *c)
{
    return c->entrypoint.kind == EXP_ENTRY_ONNX;
}

static bool uses_custom(const struct exp_config *c)
{
    return c->searcher.kind == EXP_SEARCHER_CUSTOM;
}

const struct exp_unbuilt exp_unbuilt_table[] = {
    {"entrypoint", "onnx:<path>", "ONNX models are not read", uses_onnx},
    {"checkpoint_storage.type", "s3", "checkpoints are kept on shared_fs only", uses_s3},
    {"checkpoint_storage.type", "gcs", "checkpoints are kept on shared_fs only", uses_gcs},
    {"checkpoint_storage.type", "hdfs", "checkpoints are kept on shared_fs only", uses_hdfs},
    {"checkpoint_storage.container_path", "not /determined_shared_fs",
     "trials run without a container and see the storage where it is", uses_container_path},
    {"checkpoint_storage.propagation", "not rprivate", "the storage is not mounted for trials",
     uses_propagation},
    {"tensorboard_storage.type", "s3, gcs, hdfs", "event files are kept on shared_fs only",
     uses_tensorboard},
    {"searcher.name", "custom", "external search programs are not started", uses_custom},
    {"resources.slots_per_trial", "> 1", "a trial trains on one slot", uses_slots},
    {"resources.agent_label", "", "there is one agent, this machine, without label",
     uses_agent_label},
    {"environment.image", "", "trials run without a container", uses_image},
    {"environment.force_pull_image", "true", "trials run without a container", uses_force_pull},
    {"environment.registry_auth", "", "trials run without a container", uses_registry},
    {"optimizations.gradient_compression", "true with several slots", "a trial trains on one slot",
     uses_compression},
    {"optimizations.tensor_fusion_threshold", "not 64 with several slots",
     "a trial trains on one slot", uses_threshold},
    {"optimizations.tensor_fusion_cycle_time", "not 5 with several slots",
     "a trial trains on one slot", uses_cycle_time},
    {"optimizations.auto_tune_tensor_fusion", "true with several slots",
     "a trial trains on one slot", uses_fusion},
    {"optimizations.mixed_precision", "O1, O2, O3",
     "lower precision is asked for by memory.precision: bf16, fp16", uses_mixed_precision},
};

const size_t exp_unbuilt_count = sizeof exp_unbuilt_table / sizeof exp_unbuilt_table[0];

size_t exp_config_unbuilt(const struct exp_config *config, size_t *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < exp_unbuilt_count; i++)
        if (exp_unbuilt_table[i].uses(config))
            rows[count++] = i;
    return count;
}
