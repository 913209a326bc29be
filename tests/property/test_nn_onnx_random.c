/* ONNX graphs around one node of any op, thousands of them: each is refused with a message, or computed or built;
 * what both the evaluator and the engine compute is the same. */
#include "test.h"

#include "unit/nn_kit.h"

#include "onnx/onnx.h"
#include "onnx_check.h"
#include "onnx_random.h"

TEST(any_node__is_refused_or_built)
{
    enum { FILES = 20000 };
    size_t met[ONNX_CHECK_WRONG + 1] = {0};
    for (uint64_t i = 0; i < FILES; i++) {
        struct choices c = {.seed = i * 1000003 + 1};
        struct ebb_str model = {0};
        onnx_random(&c, &model);
        uint64_t live = ebb_heap_live();
        enum onnx_check result = onnx_check(model.data, model.length);
        if (result == ONNX_CHECK_WRONG || ebb_heap_live() != live)
            fail_msg("seed %d: no message, a value that is not whole, or memory that stays",
                     (int)i);
        met[result]++;
        ebb_str_fini(&model);
    }
    print_message("%zu refused, %zu computed, %zu built\n", met[ONNX_CHECK_REFUSED],
                  met[ONNX_CHECK_COMPUTED], met[ONNX_CHECK_BUILT]);
    CHECK(met[ONNX_CHECK_BUILT] > FILES / 50);
    CHECK(met[ONNX_CHECK_COMPUTED] > FILES / 500);
}

/* ---- two ways --------------------------------------------------------------------------------- */

/* What the engine was given, as values of the host. */
static void take_inputs(struct ebb_arena *arena, struct kit *k, const struct onnx_graph *g,
                        struct onnx_value *values)
{
    for (size_t i = 0; i < g->input_count; i++) {
        const struct tensor_view *v = &k->ports[i].view;
        const void *from = kit_data(k, k->inputs[i]);
        bool is_float = v->dtype != TENSOR_I64;
        struct onnx_value *x = &values[g->inputs[i].value];
        *x = (struct onnx_value){
            .type = is_float ? ONNX_FLOAT : ONNX_INT64, .rank = v->rank, .count = tensor_count(v)};
        memcpy(x->dims, v->dims, (size_t)v->rank * sizeof *v->dims);
        void *to = ebb_arena_calloc(arena, (size_t)x->count, 8);
        for (int64_t n = 0; n < x->count && from; n++)
            if (is_float)
                ((double *)to)[n] = (double)((const float *)from)[n];
            else
                ((int64_t *)to)[n] = ((const int64_t *)from)[n];
        x->number = is_float ? to : NULL;
        x->integer = is_float ? NULL : to;
    }
}

/* Numbers that fractions of 32 bits have no trouble with. */
static bool is_tame(const struct onnx_value *v, double *most)
{
    *most = 0;
    for (int64_t i = 0; v->number && i < v->count; i++) {
        if (!isfinite(v->number[i]) || fabs(v->number[i]) > 1e5)
            return false;
        *most = fmax(*most, fabs(v->number[i]));
    }
    return v->number != NULL;
}

/* 0: not both ways; 1: the same; 2: not. */
static int compare(struct kit *k, const struct onnx_model *m, struct ebb_arena *arena)
{
    struct ebb_error err = {0};
    double most;
    struct onnx_value *values = ebb_arena_calloc(arena, m->graph.value_count + 1, sizeof *values);
    struct onnx_eval e = {.arena = arena, .opset = m->opset, .room = 1 << 22, .steps = 1 << 24};
    const struct onnx_value *y = &values[m->graph.outputs[0].value];
    tensor_id out = ops_settle(k->s, k->outputs[0].id);
    tensor_keep(k->s, out);
    if (kit_finish(k, &err) != EBB_OK || kit_start(k, 7, &err) != EBB_OK ||
        ops_host_run(&k->host, &err) != EBB_OK)
        return 0;
    take_inputs(arena, k, &m->graph, values);
    if (onnx_eval_graph(&e, &m->graph, values, &err) != EBB_OK)
        return 0;
    for (size_t i = 0; i < m->graph.value_count; i++)
        if (values[i].number && !is_tame(&values[i], &most))
            return 0;
    if (!is_tame(y, &most))
        return 0;
    const struct tensor_view *v = tensor_view_of(k->s, out);
    const float *have = kit_data(k, out);
    bool is_same = v->rank == y->rank && v->dtype == TENSOR_F32 && have;
    for (int d = 0; is_same && d < v->rank; d++)
        is_same = v->dims[d] == y->dims[d];
    for (int64_t i = 0; is_same && i < y->count; i++)
        is_same = fabs((double)have[i] - y->number[i]) <= 1e-4 * most + 1e-5;
    return is_same ? 1 : 2;
}

static int both_ways(const struct ebb_str *bytes)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    struct nn_config config;
    struct ebb_report report;
    struct kit k;
    const struct onnx_model *m;
    int result = 0;
    ebb_arena_init(&arena);
    if (onnx_read(&arena, "r.onnx", bytes->data, bytes->length, &m, &err) == EBB_OK &&
        nn_config_from_text(&arena, "r.onnx", bytes->data, bytes->length, &config, &report, &err) ==
            EBB_OK &&
        nn_config_set(&config, "loss", "none", &err) == EBB_OK &&
        nn_config_check(&config, &err) == EBB_OK) {
        if (kit_build(&k, &config, nn_config_batch(&config, 2), (struct nn_mode){0}, &err) ==
            EBB_OK)
            result = compare(&k, m, &arena);
        kit_close(&k);
    }
    ebb_arena_fini(&arena);
    return result;
}

TEST(what_is_computed_both_ways__is_the_same)
{
    enum { FILES = 20000 };
    size_t same = 0;
    for (uint64_t i = 0; i < FILES; i++) {
        struct choices c = {.seed = i * 7368787 + 5};
        struct ebb_str model = {0};
        onnx_random(&c, &model);
        int result = both_ways(&model);
        if (result == 2)
            fail_msg("seed %d: the engine computes other numbers than the evaluator", (int)i);
        same += result == 1;
        ebb_str_fini(&model);
    }
    print_message("%zu computed both ways\n", same);
    CHECK(same > FILES / 100);
}

TEST_MAIN()
