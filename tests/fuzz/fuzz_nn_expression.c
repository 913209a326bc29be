/* fuzz_nn_expression.c - an expression of any content in the places of a model file that take one: a
 * line of forward, a loss, a metric. It is refused with its place, or the model is built or fails with a
 * message; nothing stays allocated. The first byte chooses the place. */
#include "fuzz_nn.h"

#include "base/json.h"

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
    struct ebb_str text = {0};
    if (size == 0)
        return;
    write_file(&text, (unsigned char)bytes[0] % 3, bytes + 1, size - 1);
    read_model(ebb_str_c(&text), text.length);
    ebb_str_fini(&text);
}

FUZZ(parse)
