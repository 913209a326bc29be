/* onnx_check.h - bytes as an ONNX file, computed and built: whatever they are, it ends, with a message where it
 * fails, and every value that is made is whole. */
#ifndef EBB_TESTS_ONNX_CHECK_H
#define EBB_TESTS_ONNX_CHECK_H

#include "nn/nn.h"
#include "onnx/onnx.h"

enum onnx_check { ONNX_CHECK_REFUSED, ONNX_CHECK_COMPUTED, ONNX_CHECK_BUILT, ONNX_CHECK_WRONG };

/* V1 of onnx.h, and sizes that are those of the elements. */
static inline bool onnx_value_is_whole(const struct onnx_value *v)
{
    int64_t count = 1;
    for (int d = 0; d < v->rank; d++)
        count *= v->dims[d];
    int arrays = (v->number != NULL) + (v->integer != NULL) + (v->texts != NULL);
    if (!v->type)
        return !arrays;
    return arrays == 1 && count == v->count && (v->type == ONNX_STRING) == (v->texts != NULL) &&
           onnx_type_is_float(v->type) == (v->number != NULL);
}

/* As the port says where that is small, else two integers. */
static inline struct onnx_value onnx_check_input(struct ebb_arena *arena, const struct onnx_port *p)
{
    struct onnx_value v = {.type = ONNX_FLOAT, .rank = p->rank, .count = 1};
    for (int d = 0; d < p->rank; d++) {
        v.dims[d] = p->dims[d].value;
        v.count = v.dims[d] > 0 && v.dims[d] < 64 && v.count < 4096 ? v.count * v.dims[d] : 4096;
    }
    if (p->rank < 0 || v.count >= 4096 || !onnx_type_is_float(p->type))
        v = (struct onnx_value){.type = ONNX_INT64, .rank = 1, .dims = {2}, .count = 2};
    void *elements = ebb_arena_calloc(arena, (size_t)v.count, 8);
    v.number = v.type == ONNX_FLOAT ? elements : NULL;
    v.integer = v.type == ONNX_FLOAT ? NULL : elements;
    for (int64_t i = 0; elements && i < v.count; i++)
        if (v.number)
            v.number[i] = (double)(i % 5) / 4;
        else
            v.integer[i] = i;
    return elements ? v : (struct onnx_value){0};
}

static inline enum onnx_check onnx_check_compute(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    const struct onnx_model *m;
    ebb_arena_init(&arena);
    enum onnx_check result = ONNX_CHECK_REFUSED;
    enum ebb_status status = onnx_read(&arena, "fuzz.onnx", bytes, size, &m, &err);
    if (status == EBB_OK) {
        struct onnx_eval e = {
            .arena = &arena, .opset = m->opset, .room = 1 << 20, .steps = 1 << 20};
        struct onnx_value *values =
            ebb_arena_calloc(&arena, m->graph.value_count + 1, sizeof *values);
        for (size_t i = 0; values && i < m->graph.input_count; i++)
            values[m->graph.inputs[i].value] = onnx_check_input(&arena, &m->graph.inputs[i]);
        if (values && status == EBB_OK)
            status = onnx_eval_graph(&e, &m->graph, values, &err);
        result = status == EBB_OK ? ONNX_CHECK_COMPUTED : ONNX_CHECK_REFUSED;
        for (size_t i = 0; values && i < m->graph.value_count; i++)
            if (!onnx_value_is_whole(&values[i]))
                result = ONNX_CHECK_WRONG;
    }
    if (status != EBB_OK && !err.message[0])
        result = ONNX_CHECK_WRONG;
    ebb_arena_fini(&arena);
    return result;
}

static inline enum onnx_check onnx_check_build(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    struct nn_config config;
    struct ebb_report report;
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_output outputs[NN_PORTS];
    tensor_id inputs[NN_PORTS];
    size_t count = 0;
    ebb_arena_init(&arena);
    enum ebb_status status =
        nn_config_from_text(&arena, "fuzz.onnx", bytes, size, &config, &report, &err);
    EBB_THEN(status, nn_config_check(&config, &err));
    EBB_THEN(status, tensor_session_create(&s, NULL, &err));
    if (status == EBB_OK) {
        nn_builder_init(&b, s, &(struct nn_mode){.is_training = true});
        status = nn_leaves(&b, &config, 2, inputs, &err);
        EBB_THEN(status, nn_build(&b, &config, inputs, outputs, &count, &err));
        nn_builder_fini(&b);
        tensor_session_destroy(s);
    }
    ebb_arena_fini(&arena);
    if (status == EBB_OK)
        return count >= 1 && count <= NN_PORTS ? ONNX_CHECK_BUILT : ONNX_CHECK_WRONG;
    return err.message[0] ? ONNX_CHECK_REFUSED : ONNX_CHECK_WRONG;
}

static inline enum onnx_check onnx_check(const char *bytes, size_t size)
{
    enum onnx_check computed = onnx_check_compute(bytes, size),
                    built = onnx_check_build(bytes, size);
    return computed > built ? computed : built;
}

#endif
