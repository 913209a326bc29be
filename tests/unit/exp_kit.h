/* exp_kit.h - drive a search in a test and read its operations as one line of text.
 *
 *     kit_open(&k, "{name: random, ...}", "{x: 1}");
 *     CHECK_STR(kit_start(&k), "C0 T0:1-3 V0:3 X0");
 *     CHECK_STR(kit_validated(&k, 0, 3, 0.5), "");
 *
 * C create (C1<0@4: from trial 0 at step 4), T train, V validate, K checkpoint, X close, END, FAIL.
 */
#ifndef EBB_TESTS_EXP_KIT_H
#define EBB_TESTS_EXP_KIT_H

#include <stdio.h>

#include "test.h"

#include "base/heap.h"
#include "exp/exp.h"
#include "exp/search/method.h"

struct kit {
    struct ebb_arena arena;
    struct exp_searcher searcher;
    struct exp_hparams space;
    enum exp_trial_failure failure;
    struct exp_search *search;
    struct exp_ops ops;
    struct ebb_str text;
    struct exp_request_id ids[4096];
    struct ebb_error err;
};

static inline void kit_parse(struct kit *k, const char *searcher, const char *space)
{
    const struct ebb_doc_node *a, *b;
    ebb_arena_init(&k->arena);
    CHECK_OK(ebb_doc_parse_yaml(&k->arena, "searcher", searcher, strlen(searcher), &a, &k->err),
             &k->err);
    CHECK_OK(ebb_doc_parse_yaml(&k->arena, "space", space, strlen(space), &b, &k->err), &k->err);
    CHECK_OK(exp_search_parse(&k->arena, "search", a, b, &k->searcher, &k->space, &k->err),
             &k->err);
    exp_ops_init(&k->ops);
    ebb_str_init(&k->text);
    k->search = NULL;
    k->failure = EXP_FAILURE_CONTINUE;
}

static inline void kit_open(struct kit *k, const char *searcher, const char *space)
{
    kit_parse(k, searcher, space);
    CHECK_OK(exp_search_create(&k->searcher, &k->space, k->failure, 7, &k->search, &k->err),
             &k->err);
}

static inline void kit_close(struct kit *k)
{
    exp_search_destroy(k->search);
    exp_ops_fini(&k->ops);
    ebb_str_fini(&k->text);
    ebb_arena_fini(&k->arena);
}

static inline void kit_op_text(struct kit *k, const struct exp_op *op)
{
    uint32_t parent = 0;
    if (k->text.length > 0)
        ebb_str_addc(&k->text, ' ');
    switch (op->kind) {
    case EXP_OP_CREATE:
        ebb_str_printf(&k->text, "C%u", op->trial);
        k->ids[op->trial % 4096] = op->request;
        if (k->ops.creates[op->create].has_source) {
            CHECK(exp_search_find(k->search, k->ops.creates[op->create].source, &parent));
            ebb_str_printf(&k->text, "<%u@%lld", parent,
                           (long long)k->ops.creates[op->create].source_step);
        }
        break;
    case EXP_OP_TRAIN:
        ebb_str_printf(&k->text, "T%u:%lld-%lld", op->trial, (long long)op->first_step,
                       (long long)op->last_step);
        break;
    case EXP_OP_VALIDATE:
    case EXP_OP_CHECKPOINT:
        ebb_str_printf(&k->text, "%c%u:%lld", op->kind == EXP_OP_VALIDATE ? 'V' : 'K', op->trial,
                       (long long)op->last_step);
        break;
    case EXP_OP_CLOSE:
        ebb_str_printf(&k->text, "X%u", op->trial);
        break;
    case EXP_OP_SHUTDOWN:
        ebb_str_add(&k->text, op->is_failure ? "FAIL" : "END");
        break;
    }
}

static inline const char *kit_text(struct kit *k)
{
    ebb_str_clear(&k->text);
    for (size_t i = 0; i < k->ops.count; i++)
        kit_op_text(k, &k->ops.items[i]);
    exp_ops_clear(&k->ops);
    return ebb_str_c(&k->text);
}

static inline const char *kit_start(struct kit *k)
{
    CHECK_OK(exp_search_start(k->search, &k->ops, &k->err), &k->err);
    return kit_text(k);
}

static inline const char *kit_event(struct kit *k, struct exp_event event, uint32_t trial)
{
    event.request = k->ids[trial];
    CHECK_OK(exp_search_event(k->search, &event, &k->ops, &k->err), &k->err);
    return kit_text(k);
}

static inline const char *kit_created(struct kit *k, uint32_t trial)
{
    return kit_event(k, (struct exp_event){.kind = EXP_EVENT_CREATED, .trial_id = trial + 1},
                     trial);
}

static inline const char *kit_trained(struct kit *k, uint32_t trial, int64_t step)
{
    return kit_event(k, (struct exp_event){.kind = EXP_EVENT_TRAINED, .step = step}, trial);
}

static inline const char *kit_validated(struct kit *k, uint32_t trial, int64_t step, double metric)
{
    return kit_event(
        k, (struct exp_event){.kind = EXP_EVENT_VALIDATED, .step = step, .metric = metric}, trial);
}

/* Train up to a step and validate there. */
static inline const char *kit_result(struct kit *k, uint32_t trial, int64_t step, double metric)
{
    CHECK_STR(kit_trained(k, trial, step), "");
    return kit_validated(k, trial, step, metric);
}

static inline const char *kit_checkpointed(struct kit *k, uint32_t trial, int64_t step)
{
    return kit_event(k, (struct exp_event){.kind = EXP_EVENT_CHECKPOINTED, .step = step}, trial);
}

static inline const char *kit_closed(struct kit *k, uint32_t trial)
{
    return kit_event(k, (struct exp_event){.kind = EXP_EVENT_CLOSED}, trial);
}

static inline const char *kit_exited(struct kit *k, uint32_t trial, enum exp_exit_reason reason)
{
    return kit_event(k, (struct exp_event){.kind = EXP_EVENT_EXITED, .reason = reason}, trial);
}

#endif
