/* fuzz_searcher_state.c - the loader of saved searches on any bytes. The first byte chooses the
 * method.
 *
 * Checked beyond not crashing: a refused state has a message and nothing stays allocated; an
 * accepted one can be saved and loaded again to the same text, and takes a few hundred events that
 * fit its trials without undefined behaviour, whatever the text claimed. Seeds:
 * tests/fuzz/corpus/searcher_state. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "exp/exp.h"
#include "exp/search/method.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static const struct exp_searcher configs[] = {
    {.kind = EXP_SEARCHER_RANDOM, .max_steps = 3, .max_trials = 3, .max_concurrent_trials = 1},
    {.kind = EXP_SEARCHER_ADAPTIVE_SIMPLE,
     .max_steps = 8,
     .max_trials = 6,
     .divisor = 2,
     .max_rungs = 3},
    {.kind = EXP_SEARCHER_PBT,
     .population_size = 4,
     .num_rounds = 3,
     .steps_per_round = 2,
     .truncate_fraction = 0.5,
     .perturb_factor = 0.2,
     .resample_probability = 0.2},
    {.kind = EXP_SEARCHER_ADAPTIVE_ASHA,
     .max_length = 9,
     .max_trials = 8,
     .divisor = 3,
     .max_rungs = 3},
    {.kind = EXP_SEARCHER_ASYNC_HALVING,
     .max_length = 4,
     .max_trials = 6,
     .divisor = 2,
     .num_rungs = 3,
     .stop_once = true},
    {.kind = EXP_SEARCHER_TPE,
     .max_steps = 1,
     .max_trials = 9,
     .startup_trials = 2,
     .candidates = 3,
     .gamma = 0.25},
    {.kind = EXP_SEARCHER_CUSTOM, .max_concurrent_trials = 2},
};

static void save(const struct exp_search *search, struct ebb_str *text)
{
    struct ebb_json_writer w;
    ebb_str_clear(text);
    ebb_jsonw_init(&w, text, 0);
    exp_search_save(search, &w);
}

static void check_again(const struct exp_searcher *config, const struct exp_hparams *space,
                        const struct exp_search *search)
{
    struct ebb_str first, second;
    struct ebb_error err;
    struct exp_search *again;
    ebb_str_init(&first);
    ebb_str_init(&second);
    save(search, &first);
    require(exp_search_load(config, space, EXP_FAILURE_CONTINUE, ebb_str_c(&first), first.length,
                            &again, &err) == EBB_OK);
    save(again, &second);
    require(strcmp(ebb_str_c(&first), ebb_str_c(&second)) == 0);
    exp_search_destroy(again);
    ebb_str_fini(&first);
    ebb_str_fini(&second);
}

/* Events that fit what the trials are said to owe. */
static void drive(struct exp_search *search, struct exp_ops *ops, uint64_t seed)
{
    struct ebb_error err;
    for (int i = 0; i < 300 && search->trial_count > 0 && search->trial_count < 2000; i++) {
        uint64_t dice = ebb_splitmix64(&seed);
        const struct exp_trial *t = &search->trials[dice % search->trial_count];
        struct exp_event event = {.request = t->id, .step = t->trained + 1};
        if (t->wanted != EXP_NO_TRIAL && dice >> 60 < 12) {
            const struct exp_wanted *w = &search->wanted[t->wanted];
            event.kind = w->is_checkpoint ? EXP_EVENT_CHECKPOINTED : EXP_EVENT_VALIDATED;
            event.step = w->step;
            event.metric = (double)(dice >> 50 & 7);
        } else {
            event.kind = (enum exp_event_kind)(dice >> 32 & 7);
            event.reason = (enum exp_exit_reason)(dice >> 40 & 3);
        }
        enum ebb_status status = exp_search_event(search, &event, ops, &err);
        require(status == EBB_OK || status == EBB_EINPUT || status == EBB_EINTERNAL);
        exp_ops_clear(ops);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ebb_doc_node a = {.kind = EBB_DOC_BOOL}, b = {.kind = EBB_DOC_NULL};
    static const struct ebb_doc_node *const values[] = {&a, &b};
    static const struct exp_hparam params[] = {
        {.name = "c", .kind = EXP_HPARAM_CATEGORICAL, .values = values, .value_count = 2},
        {.name = "d", .kind = EXP_HPARAM_DOUBLE, .min = -1, .max = 1},
        {.name = "i", .kind = EXP_HPARAM_INT, .int_min = 0, .int_max = 9},
        {.name = "l", .kind = EXP_HPARAM_LOG, .base = 10, .min = -4, .max = 0},
    };
    static const struct exp_hparams space = {params, 4};
    struct ebb_error err = {0};
    struct exp_search *search = NULL;
    struct exp_ops ops;
    uint64_t live = ebb_heap_live();
    if (size == 0)
        return 0;
    struct exp_searcher config = configs[data[0] % (sizeof configs / sizeof *configs)];
    config.metric = "m";
    config.smaller_is_better = data[0] < 128;
    if (exp_search_load(&config, &space, EXP_FAILURE_CONTINUE, (const char *)data + 1, size - 1,
                        &search, &err) != EBB_OK) {
        require(err.status == EBB_EINPUT && err.message[0] != '\0');
        require(ebb_heap_live() == live);
        return 0;
    }
    check_again(&config, &space, search);
    exp_ops_init(&ops);
    struct exp_search *start_me = search->is_started ? NULL : search;
    if (start_me != NULL)
        require(exp_search_start(start_me, &ops, &err) == EBB_OK);
    drive(search, &ops, size);
    if (!search->is_broken)
        check_again(&config, &space, search);
    exp_ops_fini(&ops);
    exp_search_destroy(search);
    require(ebb_heap_live() == live);
    return 0;
}
