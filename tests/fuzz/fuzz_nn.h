/* fuzz_nn.h - any text as a model file: it is refused with mistakes, or the model is built or fails with
 * a message; nothing stays allocated. */
#ifndef EBB_TESTS_FUZZ_NN_H
#define EBB_TESTS_FUZZ_NN_H

#include "fuzz.h"

#include "nn/nn.h"

static void build(const struct nn_config *config)
{
    struct ebb_error err;
    struct tensor_session *s;
    struct nn_builder b;
    struct nn_output outputs[NN_PORTS];
    tensor_id inputs[NN_PORTS];
    size_t count = 0;
    require(tensor_session_create(&s, NULL, &err) == EBB_OK);
    nn_builder_init(&b, s, &(struct nn_mode){.is_training = true});
    if (nn_leaves(&b, config, 2, inputs, &err) == EBB_OK &&
        nn_build(&b, config, inputs, outputs, &count, &err) == EBB_OK)
        require(count >= 1 && count <= NN_PORTS);
    nn_builder_fini(&b);
    tensor_session_destroy(s);
}

static void read_model(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err;
    struct nn_config config;
    struct ebb_report report;
    ebb_arena_init(&arena);
    enum ebb_status status =
        nn_config_from_text(&arena, "fuzz", bytes, size, &config, &report, &err);
    require((status == EBB_OK) == (report.errors == 0));
    if (status == EBB_OK && nn_config_check(&config, &err) == EBB_OK)
        build(&config);
    ebb_arena_fini(&arena);
}

#endif
