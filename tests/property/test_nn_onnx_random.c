/* ONNX graphs around one node of any op, thousands of them: each is refused with a message, or computed or built;
 * most ops are met both ways, so that the files are no noise. */
#include "test.h"

#include "base/heap.h"
#include "nn/nn.h"
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

TEST_MAIN()
