/* fuzz_onnx.c - an ONNX file of any content: it is refused, or its graph is computed and built as a
 * model or fails with a message, in bounded memory; nothing stays allocated. */
#include "fuzz.h"

#include "nn/nn.h"
#include "onnx/onnx.h"

static void compute(struct ebb_arena *arena, const struct onnx_model *m)
{
    struct onnx_eval e = {.arena = arena, .opset = m->opset, .room = 1 << 20};
    struct onnx_value *values = ebb_arena_calloc(arena, m->graph.value_count + 1, sizeof *values);
    struct ebb_error err = {0};
    require(values != NULL);
    for (size_t i = 0; i < m->graph.input_count; i++) {
        struct onnx_value *v = &values[m->graph.inputs[i].value];
        int64_t two[1] = {2};
        if (onnx_value_ints(&e, 1, two, 1, v, &err) != EBB_OK)
            return;
    }
    if (onnx_eval_graph(&e, &m->graph, values, &err) != EBB_OK)
        require(err.message[0] != 0);
}

static void build(const char *bytes, size_t size)
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
    if (nn_config_from_text(&arena, "fuzz.onnx", bytes, size, &config, &report, &err) == EBB_OK &&
        nn_config_check(&config, &err) == EBB_OK) {
        require(tensor_session_create(&s, NULL, &err) == EBB_OK);
        nn_builder_init(&b, s, &(struct nn_mode){.is_training = true});
        if (nn_leaves(&b, &config, 2, inputs, &err) == EBB_OK &&
            nn_build(&b, &config, inputs, outputs, &count, &err) == EBB_OK)
            require(count >= 1 && count <= NN_PORTS);
        nn_builder_fini(&b);
        tensor_session_destroy(s);
    }
    ebb_arena_fini(&arena);
}

static void parse(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    const struct onnx_model *m;
    ebb_arena_init(&arena);
    if (onnx_read(&arena, "fuzz.onnx", bytes, size, &m, &err) == EBB_OK)
        compute(&arena, m);
    else
        require(err.message[0] != 0);
    ebb_arena_fini(&arena);
    build(bytes, size);
}

FUZZ(parse)
