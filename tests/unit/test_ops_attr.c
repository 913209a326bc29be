/* Attributes as values are those of the same attributes as text. */
#include "test.h"

#include <string.h>

#include "base/doc.h"
#include "ops/ops.h"

static const int64_t numbers[] = {2, 0, 1, 3};

static const struct row {
    const char *op, *text;
    struct ops_value values[3];
} rows[] = {
    {"relu", NULL, {{0}}},
    {"conv2d",
     "{\"stride\":[2,0],\"groups\":4}",
     {{"stride", .ints = numbers, .count = 2}, {"groups", .integer = 4}}},
    {"max_pool2d",
     "{\"kernel\":3,\"stride\":2,\"ceil_mode\":true}",
     {{"kernel", .integer = 3}, {"stride", .integer = 2}, {"ceil_mode", .integer = 7}}},
    {"gelu", "{\"approximate\":\"tanh\"}", {{"approximate", .text = "tanh"}}},
    {"leaky_relu", "{\"negative_slope\":0.3}", {{"negative_slope", .number = 0.3}}},
    {"layer_norm",
     "{\"shape\":[2],\"eps\":1e-6}",
     {{"shape", .ints = numbers, .count = 1}, {"eps", .number = 1e-6}}},
    {"permute", "{\"dims\":[2,0,1,3]}", {{"dims", .ints = numbers, .count = 4}}},
    {"slice", "{\"ranges\":[[2,0,1,3]]}", {{"ranges", .ints = numbers, .count = 4}}},
    {"split",
     "{\"sizes\":[2,0,1],\"dim\":1}",
     {{"sizes", .ints = numbers, .count = 3}, {"dim", .integer = 1}}},
    {"split", "{\"sizes\":5,\"dim\":1}", {{"sizes", .integer = 5}, {"dim", .integer = 1}}},
    {"upsample_bilinear2d",
     "{\"scale\":2,\"align_corners\":true}",
     {{"scale", .number = 2}, {"align_corners", .integer = 1}}},
};

static size_t value_count(const struct row *row)
{
    size_t n = 0;
    while (n < sizeof row->values / sizeof *row->values && row->values[n].name)
        n++;
    return n;
}

TEST(values__give_the_attributes_of_the_text)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        _Alignas(16) unsigned char a[OPS_ATTR_BYTES], b[OPS_ATTR_BYTES];
        struct ebb_error err = {0};
        struct ebb_arena arena;
        const struct ebb_doc_node *map = NULL;
        const struct ops_def *def = ops_find(rows[i].op);
        ebb_arena_init(&arena);
        memset(a, 0x5a, sizeof a);
        memset(b, 0x5a, sizeof b);
        if (rows[i].text)
            CHECK_OK(
                ebb_doc_parse_json(&arena, "text", rows[i].text, strlen(rows[i].text), &map, &err),
                &err);
        CHECK_OK(ops_parse(def, map, a, &err), &err);
        CHECK_OK(ops_assign(def, rows[i].values, value_count(&rows[i]), b, &err), &err);
        CHECK(memcmp(a, b, sizeof a) == 0);
        ebb_arena_fini(&arena);
    }
}

static void refuse(const char *op, size_t count, const struct ops_value *values, const char *what)
{
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    struct ebb_error err = {0};
    CHECK_EQ(ops_assign(ops_find(op), values, count, attr, &err), EBB_EINPUT);
    CHECK(strstr(err.message, op) && strstr(err.message, what));
}

TEST(values__that_do_not_fit_are_refused)
{
    static const int64_t many[TENSOR_RANK + 1] = {0};
    refuse("conv2d", 1, &(struct ops_value){"strides", .integer = 1}, "strides");
    refuse("relu", 1, &(struct ops_value){"dim", .integer = 1}, "dim");
    refuse("permute", 0, NULL, "dims");
    refuse("permute", 1, &(struct ops_value){"dims", .ints = many, .count = TENSOR_RANK + 1},
           "dims");
    refuse("slice", 1, &(struct ops_value){"ranges", .ints = many, .count = 3}, "ranges");
    refuse("slice", 1, &(struct ops_value){"ranges", .integer = 3}, "ranges");
    refuse("gelu", 1, &(struct ops_value){"approximate", .text = "sinh"}, "approximate");
    refuse("gelu", 1, &(struct ops_value){"approximate", .integer = 1}, "approximate");
}

TEST_MAIN()
