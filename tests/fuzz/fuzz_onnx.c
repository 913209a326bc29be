/* fuzz_onnx.c - an ONNX file of any content: it is refused, or its graph is computed and built as a
 * model or fails with a message, in bounded memory; nothing stays allocated. */
#include "fuzz.h"

#include "onnx_check.h"

static void parse(const char *bytes, size_t size)
{
    require(onnx_check(bytes, size) != ONNX_CHECK_WRONG);
}

FUZZ(parse)
