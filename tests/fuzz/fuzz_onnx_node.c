/* fuzz_onnx_node.c - an ONNX graph around one node of any op (tests/onnx_random.h): it is refused, or computed and
 * built as a model, or fails with a message; values are whole; nothing stays allocated. */
#include "fuzz.h"

#include "onnx_check.h"
#include "onnx_random.h"

static void parse(const char *bytes, size_t size)
{
    struct choices c = {.data = (const uint8_t *)(size ? bytes : ""), .size = size};
    struct ebb_str model = {0};
    onnx_random(&c, &model);
    require(!model.failed);
    require(onnx_check(model.data, model.length) != ONNX_CHECK_WRONG);
    ebb_str_fini(&model);
}

FUZZ(parse)
