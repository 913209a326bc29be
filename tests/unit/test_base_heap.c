#include "test.h"

#include "base/arena.h"
#include "base/heap.h"
#include "base/sorted.h"
#include "base/thread.h"

TEST(heap__counts_live_blocks)
{
    uint64_t live = ebb_heap_live(), calls = ebb_heap_calls();
    void *a = ebb_alloc(0), *b = ebb_calloc(3, 7), *c = ebb_strdup("text");
    void *d = ebb_alloc_aligned(256, 100);
    CHECK(a && b && c && d && a != b);
    CHECK_EQ((uintptr_t)d % 256, 0);
    CHECK_EQ(ebb_heap_live(), live + 4);
    CHECK_EQ(ebb_heap_calls(), calls + 4);
    a = ebb_realloc(a, 10, 10); /* the same block grows */
    CHECK_EQ(ebb_heap_live(), live + 4);
    ebb_free(a);
    ebb_free(b);
    ebb_free(c);
    ebb_free(d);
    ebb_free(NULL);
    CHECK_EQ(ebb_heap_live(), live);
}

TEST(heap__fails_exactly_the_nth_call)
{
    ebb_heap_fail_at(2);
    void *a = ebb_alloc(1), *b = ebb_alloc(1), *c = ebb_alloc(1);
    CHECK(a && !b && c);
    ebb_heap_fail_at(1);
    CHECK(!ebb_realloc(a, 2, 2)); /* a stays valid */
    ebb_heap_fail_at(1);
    CHECK(!ebb_strdup("x"));
    ebb_heap_fail_at(1);
    ebb_heap_fail_at(0); /* off again */
    void *d = ebb_calloc(1, 1);
    CHECK(d != NULL);
    ebb_free(a);
    ebb_free(c);
    ebb_free(d);
}

TEST(heap__refuses_sizes_that_overflow)
{
    uint64_t live = ebb_heap_live();
    CHECK(!ebb_calloc(SIZE_MAX / 2, 3));
    CHECK(!ebb_realloc(NULL, SIZE_MAX / 2, 3));
    size_t out = 7;
    CHECK(!ebb_mul_size(SIZE_MAX, 2, &out));
    CHECK(ebb_mul_size(6, 7, &out));
    CHECK_EQ(out, 42);
    CHECK_EQ(ebb_heap_live(), live);
}

TEST(strndup__stops_at_terminator_or_limit)
{
    char *a = ebb_strndup("abcdef", 3), *b = ebb_strndup("ab", 30);
    CHECK_STR(a, "abc");
    CHECK_STR(b, "ab");
    ebb_free(a);
    ebb_free(b);
}

TEST(grow__doubles_and_keeps_content)
{
    struct ebb_error err;
    int *v = NULL;
    size_t capacity = 0;
    uint64_t calls = ebb_heap_calls();
    for (size_t i = 0; i < 1000; i++) {
        CHECK_OK(ebb_grow(&v, &capacity, i + 1, sizeof *v, &err), &err);
        v[i] = (int)i;
    }
    CHECK(ebb_heap_calls() - calls <= 8);
    CHECK_EQ(v[999], 999);
    CHECK_EQ(v[0], 0);
    int *before = v;
    CHECK_EQ(ebb_grow(&v, &capacity, SIZE_MAX / 2, sizeof *v, &err), EBB_ENOMEM);
    CHECK(v == before);
    ebb_heap_fail_at(1);
    CHECK_EQ(ebb_grow(&v, &capacity, capacity + 1, sizeof *v, NULL), EBB_ENOMEM);
    ebb_free(v);
}

static void churn(void *context, size_t i)
{
    (void)context;
    for (size_t k = 0; k < 200; k++)
        ebb_free(ebb_alloc(i + k));
}

TEST(heap__counts_from_many_threads)
{
    uint64_t live = ebb_heap_live(), calls = ebb_heap_calls();
    CHECK_EQ(ebb_parallel(4, 50, churn, NULL, NULL), EBB_OK);
    CHECK_EQ(ebb_heap_live(), live);
    CHECK_EQ(ebb_heap_calls(), calls + 50 * 200);
}

TEST(arena__aligns_and_never_overlaps)
{
    uint64_t live = ebb_heap_live();
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    unsigned char *blocks[200];
    for (size_t i = 0; i < 200; i++) {
        blocks[i] = ebb_arena_alloc(&arena, i * 37 % 6000);
        CHECK(blocks[i] != NULL);
        CHECK_EQ((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], (int)i, i * 37 % 6000);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t k = 0; k < i * 37 % 6000; k++)
            CHECK_EQ(blocks[i][k], i);
    }
    ebb_arena_fini(&arena);
    CHECK_EQ(ebb_heap_live(), live);
}

TEST(arena__zero_bytes_have_an_address)
{
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    void *a = ebb_arena_alloc(&arena, 0), *b = ebb_arena_alloc(&arena, 0);
    CHECK(a && b && a != b);
    CHECK(!ebb_arena_alloc(&arena, SIZE_MAX));
    CHECK(!ebb_arena_alloc(&arena, SIZE_MAX - 20));
    CHECK(!ebb_arena_calloc(&arena, SIZE_MAX / 2, 3));
    ebb_arena_fini(&arena);
    ebb_arena_fini(&arena); /* twice is fine */
}

TEST(arena__reset_reuses_one_block)
{
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    ebb_arena_reset(&arena);
    for (int i = 0; i < 1000; i++)
        CHECK(ebb_arena_alloc(&arena, 1000) != NULL);
    ebb_arena_reset(&arena);
    uint64_t calls = ebb_heap_calls();
    CHECK(ebb_arena_alloc(&arena, 1000) != NULL);
    CHECK_EQ(ebb_heap_calls(), calls);
    ebb_arena_fini(&arena);
}

TEST(arena__large_request_keeps_the_free_part)
{
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    char *a = ebb_arena_alloc(&arena, 16);
    CHECK(ebb_arena_alloc(&arena, 1 << 22) != NULL);
    char *b = ebb_arena_alloc(&arena, 16);
    CHECK(b == a + 16);
    ebb_arena_fini(&arena);
}

TEST(arena__texts)
{
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    CHECK_STR(ebb_arena_strndup(&arena, "abcdef", 4), "abcd");
    CHECK_EQ(memcmp(ebb_arena_strndup(&arena, "a\0b", 3), "a\0b", 4), 0); /* NUL inside is kept */
    CHECK_STR(ebb_arena_printf(&arena, "%d-%s", 7, "x"), "7-x");
    int *zeros = ebb_arena_calloc(&arena, 100, sizeof *zeros);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(zeros[i], 0);
    ebb_arena_fini(&arena);
    ebb_arena_init(&arena);
    ebb_heap_fail_at(1);
    CHECK(!ebb_arena_printf(&arena, "x"));
    ebb_heap_fail_at(1);
    CHECK(!ebb_arena_calloc(&arena, 1, 1));
    ebb_arena_fini(&arena);
}

TEST(swap__exchanges_all_bytes)
{
    static unsigned char a[1000], b[1000];
    static const size_t sizes[] = {0, 1, 8, 255, 256, 257, 1000};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        memset(a, 1, sizeof a);
        memset(b, 2, sizeof b);
        ebb_swap(a, b, sizes[k]);
        for (size_t i = 0; i < sizeof a; i++)
            CHECK(a[i] == (i < sizes[k] ? 2 : 1) && b[i] == (i < sizes[k] ? 1 : 2));
    }
}

TEST(sorted__finds_the_first_that_is_not_below)
{
    static const uint32_t list[] = {2, 4, 4, 9};
    static const struct {
        uint64_t key;
        char rest[3];
    } rows[] = {{2, ""}, {4, ""}, {4, ""}, {9, ""}};
    static const size_t at[] = {0, 0, 0, 1, 1, 3, 3, 3, 3, 3, 4};
    for (uint32_t v = 0; v <= 10; v++) {
        CHECK_EQ(ebb_first_u32(list, 4, v), at[v]);
        CHECK_EQ(ebb_first_u64(rows, sizeof *rows, 4, v), at[v]);
    }
    CHECK_EQ(ebb_first_u32(NULL, 0, 7), 0);
}

TEST_MAIN()
