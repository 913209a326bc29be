/* fuzz_nn_expression.c - an expression of any content in the places of a model file that take one: a
 * line of forward, a loss, a metric. It is refused with its place, or the model is built or fails with a
 * message; nothing stays allocated. The first byte chooses the place. */
#include "fuzz.h"

#include "base/json.h"
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

/* A mapping of JSON is one of YAML: quotes and control characters stay inside their text. */
static void write_file(struct ebb_str *text, unsigned place, const char *bytes, size_t size)
{
    static const char lines[] = "\"forward\": [\"a = fc(x)\", ";
    static const char *const before[] = {
        "", "\"return a\"], \"loss\": ",
        "\"return a\"], \"loss\": \"cross_entropy\", \"metrics\": {\"m\": "};
    static const char *const after[] = {", \"return a\"], \"loss\": \"cross_entropy\"}", "}", "}}"};
    struct ebb_json_writer w;
    ebb_str_add(text, "{\"options\": {\"n\": 3}, \"inputs\": {\"x\": [4], \"y\": {\"shape\": [], "
                      "\"dtype\": \"int64\", \"target\": true}}, \"modules\": {\"fc\": \"Linear(4, "
                      "n)\", \"p\": \"Parameter([3])\"}, ");
    ebb_str_add(text, lines);
    ebb_str_add(text, before[place]);
    ebb_jsonw_init(&w, text, 0);
    ebb_jsonw_stringn(&w, bytes, size);
    ebb_str_add(text, after[place]);
}

static void parse(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err;
    struct nn_config config;
    struct ebb_report report;
    struct ebb_str text = {0};
    if (size == 0)
        return;
    write_file(&text, (unsigned char)bytes[0] % 3, bytes + 1, size - 1);
    ebb_arena_init(&arena);
    enum ebb_status status =
        nn_config_from_text(&arena, "fuzz", ebb_str_c(&text), text.length, &config, &report, &err);
    require((status == EBB_OK) == (report.errors == 0));
    if (status == EBB_OK && nn_config_check(&config, &err) == EBB_OK)
        build(&config);
    ebb_arena_fini(&arena);
    ebb_str_fini(&text);
}

FUZZ(parse)
