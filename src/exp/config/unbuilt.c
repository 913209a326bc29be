/* unbuilt.c - what a file may say and this build cannot run yet. One row each; when a part is
 * built, its row goes. Nothing is parsed and ignored: submission refuses what a row names. */
#include <stdio.h>
#include <string.h>

#include "exp/config/config.h"

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

static bool uses_agent_label(const struct exp_config *c)
{
    return c->resources.agent_label[0] != '\0';
}

#define ONE_RANK "needs more than one rank"
#define ONE_SLOT "a trial trains on one slot"
const struct exp_unbuilt exp_unbuilt_table[] = {
    {"checkpoint_storage.container_path", "not /determined_shared_fs",
     "trials run without a container and see the storage where it is", uses_container_path},
    {"checkpoint_storage.propagation", "not rprivate", "the storage is not mounted for trials",
     uses_propagation},
    {"searcher.name", "custom", "external search programs are not started", NULL},
    {"resources.slots_per_trial", "> 1", ONE_SLOT, uses_slots},
    {"resources.agent_label", "", "there is one agent, this machine, without label",
     uses_agent_label},
    {"optimizations.gradient_compression", "true with several slots", ONE_SLOT, uses_compression},
    {"optimizations.tensor_fusion_threshold", "not 64 with several slots", ONE_SLOT,
     uses_threshold},
    {"optimizations.tensor_fusion_cycle_time", "not 5 with several slots", ONE_SLOT,
     uses_cycle_time},
    {"optimizations.auto_tune_tensor_fusion", "true with several slots", ONE_SLOT, uses_fusion},
    {"optimizations.mixed_precision", "O1, O2, O3",
     "lower precision is asked for by memory.precision: bf16, fp16", NULL},
    {"memory.release_after_init", "true", ONE_RANK, NULL},
    {"memory.with_mem_saving_comm", "true", ONE_RANK, NULL},
    {"memory.mem_tracer.use_fake_dist", "true", ONE_RANK, NULL},
};

const size_t exp_unbuilt_count = sizeof exp_unbuilt_table / sizeof exp_unbuilt_table[0];

/* Is the value at a path of the completed file one of "a, b"? */
static bool has_value(const struct ebb_doc_node *node, const char *path, const char *values)
{
    while (node && *path) {
        char key[64];
        size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        node = ebb_doc_get(node, key);
        path += n + (path[n] == '.');
    }
    const char *text = !node                          ? NULL
                       : node->kind == EBB_DOC_STRING ? node->text
                       : node->kind == EBB_DOC_BOOL   ? (node->boolean ? "true" : "false")
                                                      : NULL;
    for (const char *at = values; text && *at; at += strspn(at, ", ")) {
        size_t n = strcspn(at, ", ");
        if (strlen(text) == n && memcmp(at, text, n) == 0)
            return true;
        at += n;
    }
    return false;
}

bool exp_unbuilt_uses(const struct exp_unbuilt *row, const struct exp_config *config)
{
    return row->uses ? row->uses(config) : has_value(config->normalized, row->path, row->value);
}

size_t exp_config_unbuilt(const struct exp_config *config, size_t *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < exp_unbuilt_count; i++)
        if (exp_unbuilt_uses(&exp_unbuilt_table[i], config))
            rows[count++] = i;
    return count;
}
