#include "test.h"

#include <stdio.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/rng.h"

TEST(map__agrees_with_a_table)
{
    enum { KEYS = 500 };
    uint64_t table[KEYS], seed = 3;
    bool has[KEYS] = {false};
    struct ebb_map map;
    ebb_map_init(&map);
    CHECK(!ebb_map_get(&map, 1, NULL) && !ebb_map_remove(&map, 1));
    for (int step = 0; step < 50000; step++) {
        uint64_t r = ebb_splitmix64(&seed);
        size_t i = r % KEYS;
        uint64_t key = i * UINT64_C(0x100000000); /* low bits all equal */
        if (r >> 40 & 1) {
            CHECK_EQ(ebb_map_put(&map, key, r, NULL), EBB_OK);
            table[i] = r;
            has[i] = true;
        } else {
            CHECK_EQ(ebb_map_remove(&map, key), has[i]);
            has[i] = false;
        }
        size_t probe = (r >> 20) % KEYS;
        uint64_t value = 0;
        CHECK_EQ(ebb_map_get(&map, probe * UINT64_C(0x100000000), &value), has[probe]);
        if (has[probe])
            CHECK_EQ(value, table[probe]);
    }
    size_t count = 0;
    for (size_t i = 0; i < KEYS; i++)
        count += has[i];
    CHECK_EQ(map.count, count);
    ebb_map_fini(&map);
}

TEST(map__survives_running_out)
{
    uint64_t live = ebb_heap_live(), value;
    struct ebb_map map;
    ebb_map_init(&map);
    for (uint64_t key = 0; key < 100; key++) {
        for (uint64_t nth = 1; nth <= 3; nth++) {
            ebb_heap_fail_at(nth);
            enum ebb_status status = ebb_map_put(&map, key, key + 1, NULL);
            ebb_heap_fail_at(0);
            CHECK(status == EBB_OK || status == EBB_ENOMEM);
        }
        CHECK_EQ(ebb_map_put(&map, key, key + 1, NULL), EBB_OK);
    }
    CHECK_EQ(map.count, 100);
    CHECK(ebb_map_get(&map, 99, &value) && value == 100);
    ebb_map_fini(&map);
    CHECK_EQ(ebb_heap_live(), live);
}

TEST(strmap__copies_keys_and_overwrites)
{
    uint64_t live = ebb_heap_live(), value;
    struct ebb_strmap map;
    char key[32];
    ebb_strmap_init(&map);
    CHECK(!ebb_strmap_get(&map, "x", 1, NULL));
    for (uint64_t i = 0; i < 2000; i++) {
        int n = snprintf(key, sizeof key, "x%d", (int)i);
        CHECK_EQ(ebb_strmap_put(&map, key, (size_t)n, i, NULL), EBB_OK);
    }
    CHECK_EQ(ebb_strmap_put(&map, "", 0, 77, NULL), EBB_OK);
    CHECK_EQ(ebb_strmap_put(&map, "a\0b", 3, 78, NULL), EBB_OK);
    CHECK_EQ(ebb_strmap_put(&map, "x5", 2, 500, NULL), EBB_OK);
    CHECK_EQ(map.count, 2002);
    CHECK(ebb_strmap_get(&map, "x5", 2, &value) && value == 500);
    CHECK(ebb_strmap_get(&map, "x1999", 5, &value) && value == 1999);
    CHECK(ebb_strmap_get(&map, "", 0, &value) && value == 77);
    CHECK(ebb_strmap_get(&map, "a\0b", 3, &value) && value == 78);
    CHECK(!ebb_strmap_get(&map, "a", 1, &value) && !ebb_strmap_get(&map, "x2000", 5, &value));
    ebb_strmap_fini(&map);
    CHECK_EQ(ebb_heap_live(), live);
}

TEST(strmap__survives_running_out)
{
    uint64_t live = ebb_heap_live();
    struct ebb_strmap map;
    ebb_strmap_init(&map);
    size_t failures = 0;
    for (uint64_t i = 0; i < 64; i++) {
        char key[512]; /* long: the keys soon need another block */
        int n = snprintf(key, sizeof key, "%500d", (int)i);
        ebb_heap_fail_at(1);
        enum ebb_status status = ebb_strmap_put(&map, key, (size_t)n, i, NULL);
        ebb_heap_fail_at(0);
        CHECK(status == EBB_OK || status == EBB_ENOMEM);
        CHECK_EQ(ebb_strmap_get(&map, key, (size_t)n, NULL), status == EBB_OK);
        failures += status != EBB_OK;
        CHECK_EQ(ebb_strmap_put(&map, key, (size_t)n, i, NULL), EBB_OK);
    }
    CHECK_EQ(map.count, 64);
    CHECK(failures >= 4); /* the first table, blocks of keys */
    ebb_strmap_fini(&map);
    CHECK_EQ(ebb_heap_live(), live);
}

TEST_MAIN()
