/* Native files damaged on purpose, with checksums made right again: refused or legal, never a
 * crash, never much memory. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "test.h"
#include "trace_reseal.h"

#include "base/file.h"
#include "base/heap.h"
#include "base/rng.h"
#include "trace/trace.h"

static unsigned char *sample(uint64_t seed, size_t *length)
{
    struct ebb_error err;
    struct trace *t = NULL;
    struct trace_synth synth = {.ops = 30,
                                .seed = seed,
                                .has_views = true,
                                .has_mutation = true,
                                .has_multi_output = true,
                                .has_workspace = true,
                                .has_once = true};
    char path[] = "/tmp/ebb_test_trace_XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    CHECK_OK(trace_shape_make(&trace_shapes[trace_shape_count - 1], &synth, &t, &err), &err);
    CHECK_OK(trace_write_native(t, path, &err), &err);
    trace_destroy(t);
    struct ebb_file_view view;
    CHECK_OK(ebb_file_view_open(&view, path, 1 << 30, &err), &err);
    unsigned char *bytes = ebb_alloc(view.length);
    CHECK(bytes != NULL);
    memcpy(bytes, view.data, view.length);
    *length = view.length;
    ebb_file_view_close(&view);
    unlink(path);
    return bytes;
}

TEST(damage__is_refused_or_harmless)
{
    int refused = 0, taken = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        size_t length = 0;
        unsigned char *bytes = sample(seed, &length);
        unsigned char *damaged = ebb_alloc(length);
        CHECK(damaged != NULL);
        uint64_t rng = seed;
        for (int run = 0; run < 2000; run++) {
            static const unsigned char edges[] = {0, 1, 2, 0x7f, 0x80, 0xff};
            memcpy(damaged, bytes, length);
            for (uint64_t n = 1 + ebb_splitmix64(&rng) % 3; n > 0; n--) {
                size_t at = ebb_splitmix64(&rng) % length;
                damaged[at] = ebb_splitmix64(&rng) % 2 ? (unsigned char)ebb_splitmix64(&rng)
                                                       : edges[ebb_splitmix64(&rng) % 6];
            }
            trace_reseal(damaged, length);
            struct ebb_error err;
            struct trace *t = NULL;
            uint64_t before = ebb_heap_live();
            enum ebb_status status = trace_read_native("damaged", damaged, length, &t, &err);
            if (status == EBB_OK) {
                CHECK_OK(trace_check(t, &err), &err);
                taken++;
            } else {
                CHECK_EQ(status, EBB_ECORRUPT);
                CHECK(strncmp(err.message, "damaged: byte ", 14) == 0);
                refused++;
            }
            trace_destroy(t);
            CHECK_EQ(ebb_heap_live(), before);
        }
        ebb_free(damaged);
        ebb_free(bytes);
    }
    CHECK(refused > 10000 && taken > 100); /* labels, costs and phases are not in the signature */
}

TEST(counts__are_compared_with_the_file_before_anything_is_allocated)
{
    static const int counts[] = {NATIVE_AT_OPS, NATIVE_AT_TENSORS, NATIVE_AT_STORAGES,
                                 NATIVE_AT_COMMANDS, NATIVE_AT_KINDS};
    size_t length = 0;
    unsigned char *bytes = sample(1, &length);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct ebb_error err;
        struct trace *t = NULL;
        uint32_t kept = ebb_load_u32(bytes + counts[i]);
        ebb_store_u32(bytes + counts[i], UINT32_MAX - 1);
        trace_reseal(bytes, length);
        uint64_t calls = ebb_heap_calls();
        CHECK_EQ(trace_read_native("huge", bytes, length, &t, &err), EBB_ECORRUPT);
        CHECK(ebb_heap_calls() - calls <= 1); /* the empty trace */
        ebb_store_u32(bytes + counts[i], kept);
    }
    ebb_free(bytes);
}

TEST_MAIN()
