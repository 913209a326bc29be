#include "test.h"

#include <stdio.h>

#include "base/doc.h"
#include "base/rng.h"

static const struct ebb_doc_node *load(struct ebb_arena *arena, const char *path)
{
    struct ebb_error err;
    const struct ebb_doc_node *root = NULL;
    CHECK_OK(ebb_doc_load(arena, path, &root, &err), &err);
    return root;
}

static void check_bytes(uint32_t seed, const struct ebb_doc_node *expected)
{
    struct ebb_mt19937 rng;
    unsigned char bytes[16];
    char hex[33];
    ebb_mt_seed(&rng, seed);
    ebb_mt_bytes(&rng, bytes, sizeof bytes);
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    CHECK_STR(hex, ebb_doc_string(expected, "first_16_bytes", ""));
}

TEST(mt__reproduces_the_search_vectors)
{
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    const struct ebb_doc_node *cases =
        load(&arena, EBB_SOURCE_DIR "/tests/golden/base/rng_mt19937.json");
    CHECK_EQ(cases->count, 3);
    for (size_t c = 0; c < cases->count; c++) {
        const struct ebb_doc_node *expected = ebb_doc_get(cases->items[c], "expected");
        uint32_t seed = (uint32_t)ebb_doc_int(cases->items[c], "seed", -1);
        size_t n = (size_t)ebb_doc_int(cases->items[c], "n", 0);
        struct ebb_mt19937 bits, unit, bounded, draws;
        ebb_mt_seed(&bits, seed);
        ebb_mt_seed(&unit, seed);
        ebb_mt_seed(&bounded, seed);
        ebb_mt_seed(&draws, seed);
        CHECK_EQ(n, 12);
        for (size_t i = 0; i < n; i++) {
            CHECK_EQ(ebb_mt_u32(&bits), ebb_doc_get(expected, "bits32")->items[i]->integer);
            CHECK(ebb_mt_double(&unit) == ebb_doc_get(expected, "unit_interval")->items[i]->number);
            CHECK_EQ(ebb_mt_int64(&bounded, -10, 10),
                     ebb_doc_get(expected, "int64_minus10_to_10_exclusive")->items[i]->integer);
            CHECK_EQ(ebb_mt_int64(&draws, 0, INT64_C(1) << 31),
                     ebb_doc_get(expected, "trial_seed_draws")->items[i]->integer);
        }
        check_bytes(seed, expected);
    }
    ebb_arena_fini(&arena);
}

/* Values of numpy 1.24.2, np.random.RandomState(7).randint(low, high). */
TEST(mt__bounded_integers_are_numpys)
{
    static const int64_t wide[] = {-3204046499487750972, 551904368352831990,  3475536756154880211,
                                   -489481035468163481,  4205664258540301497, -3901562524074702313};
    static const int64_t forty[] = {752595690692, 108744157686, 291964244179,
                                    309610205529, 936371205000, 719526270950};
    static const int64_t most[] = {-7815732517915138876, 5163590386780219894, -1136149262272507693,
                                   4122204982959224423};
    struct ebb_mt19937 rng;
    ebb_mt_seed(&rng, 7);
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ(ebb_mt_int64(&rng, -(INT64_C(1) << 62), INT64_C(1) << 62), wide[i]);
    ebb_mt_seed(&rng, 7);
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ(ebb_mt_int64(&rng, 0, (INT64_C(1) << 40) + 12345), forty[i]);
    ebb_mt_seed(&rng, 7);
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(ebb_mt_int64(&rng, INT64_MIN, INT64_MAX), most[i]);
    static const int64_t words[] = {327741615, 976413892, 3349725721, 1369975286};
    ebb_mt_seed(&rng, 7);
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(ebb_mt_int64(&rng, 0, INT64_C(1) << 32), words[i]);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(ebb_mt_int64(&rng, 5, 6), 5); /* one choice draws nothing */
    CHECK_EQ(ebb_mt_int64(&rng, 0, INT64_C(1) << 32), 1882953283);
    static const int64_t small[] = {874, 664, 249, 643, 952, 968, 256, 789};
    ebb_mt_seed(&rng, 3);
    for (size_t i = 0; i < 8; i++)
        CHECK_EQ(ebb_mt_int64(&rng, 0, 1000), small[i]);
}

TEST(mt__runs_on_after_many_refills)
{
    struct ebb_mt19937 rng;
    double value = 0;
    ebb_mt_seed(&rng, UINT32_MAX);
    for (int i = 0; i < 10000; i++)
        value = ebb_mt_double(&rng);
    CHECK(value == 0.4906684539227597); /* numpy, as above */
    unsigned char b[7];
    ebb_mt_seed(&rng, 7);
    ebb_mt_bytes(&rng, b, 7);
    CHECK_EQ(memcmp(b, "\xaf\xf0\x88\x13\xc4\xe4\x32", 7), 0);
    ebb_mt_bytes(&rng, b, 5); /* a new call starts a new word */
    CHECK_EQ(memcmp(b, "\x19\xc2\xa8\xc7\xf6", 5), 0);
}

static void read_words(const struct ebb_doc_node *map, const char *key, uint32_t *out)
{
    const struct ebb_doc_node *list = ebb_doc_get(map, key);
    for (size_t i = 0; i < list->count; i++)
        out[i] = (uint32_t)list->items[i]->integer;
}

TEST(philox__known_answers)
{
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    const struct ebb_doc_node *root = load(&arena, EBB_SOURCE_DIR "/tests/golden/base/rng.json");
    const struct ebb_doc_node *cases = ebb_doc_get(root, "philox4x32_10");
    CHECK_EQ(cases->count, 5);
    for (size_t i = 0; i < cases->count; i++) {
        uint32_t key[2], counter[4], want[4], got[4];
        read_words(cases->items[i], "key", key);
        read_words(cases->items[i], "counter", counter);
        read_words(cases->items[i], "out", want);
        ebb_philox(key, counter, got);
        CHECK_EQ(memcmp(got, want, sizeof got), 0);
    }
    const struct ebb_doc_node *torch = ebb_doc_get(root, "torch_mt19937");
    for (size_t i = 0; i < torch->count; i++) {
        const struct ebb_doc_node *words = ebb_doc_get(torch->items[i], "random_u32");
        uint32_t seed = 0;
        sscanf(torch->keys[i]->text, "%u", &seed);
        struct ebb_mt19937 rng;
        ebb_mt_seed(&rng, seed);
        for (size_t k = 0; k < words->count; k++)
            CHECK_EQ(ebb_mt_u32(&rng), words->items[k]->integer);
    }
    ebb_arena_fini(&arena);
}

/* First outputs for seed 1234567, as published with the algorithm. */
TEST(splitmix64__known_answers)
{
    uint64_t state = 1234567;
    CHECK_EQ(ebb_splitmix64(&state), UINT64_C(6457827717110365317));
    CHECK_EQ(ebb_splitmix64(&state), UINT64_C(3203168211198807973));
    CHECK_EQ(ebb_splitmix64(&state), UINT64_C(9817491932198370423));
}

TEST_MAIN()
