/* The table of policies: every name leads to one row. */
#include <ctype.h>
#include "test.h"

#include "mem/mem.h"

static size_t names_of(const struct mem_policy *p, const char *names[4])
{
    size_t count = 0;
    names[count++] = p->name;
    for (size_t k = 0; k < sizeof p->aliases / sizeof *p->aliases; k++)
        if (p->aliases[k])
            names[count++] = p->aliases[k];
    return count;
}

TEST(names_and_aliases__are_unique)
{
    for (size_t i = 0; i < mem_policy_total; i++) {
        const char *mine[4], *theirs[4];
        size_t count = names_of(&mem_policies[i], mine);
        for (size_t a = 0; a < count; a++) {
            CHECK(mem_policy_find(mine[a]) == &mem_policies[i]);
            for (size_t j = 0; j <= i; j++) {
                size_t others = names_of(&mem_policies[j], theirs);
                for (size_t b = 0; b < (j == i ? a : others); b++)
                    CHECK(strcmp(mine[a], theirs[b]) != 0);
            }
        }
    }
}

TEST(names__are_lower_case_words_with_help)
{
    for (size_t i = 0; i < mem_policy_total; i++) {
        for (const char *c = mem_policies[i].name; *c; c++)
            CHECK(islower((unsigned char)*c) || *c == '_');
        CHECK(mem_policies[i].help && mem_policies[i].help[0]);
    }
}

TEST(published_spellings__lead_to_their_row)
{
    static const char *const pairs[][2] = {{"DTR", "dtr"},
                                           {"DTREqClass", "dtr_eq"},
                                           {"DTRLocal", "dtr_local"},
                                           {"MSPS", "msps"},
                                           {"LRU", "lru"},
                                           {"LargestStorage", "largest"},
                                           {"RandomStorage", "random"},
                                           {"Random", "random"},
                                           {"AbESizeStale", "dtr"},
                                           {"AbE", "ab_e"},
                                           {"AbEqSize", "ab_eq_size"},
                                           {"AbLocalStale", "ab_local_stale"},
                                           {"AbSize", "largest"},
                                           {"AbStale", "ab_stale"},
                                           {"AbRandom", "random"},
                                           {"DTRUnopt", "dtr_unopt"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const struct mem_policy *p = mem_policy_find(pairs[i][0]);
        CHECK(p != NULL);
        CHECK_STR(p->name, pairs[i][1]);
    }
    CHECK(mem_policy_find("none") == NULL && mem_policy_find("") == NULL);
    CHECK(mem_policy_find("Dtr") == NULL);
}

/* The ablation family: four cost terms x size x staleness, each exactly once. */
TEST(ablation__is_complete)
{
    static const enum mem_numerator terms[] = {MEM_REGION, MEM_EQ, MEM_LOCAL, MEM_ONE};
    for (int bits = 0; bits < 16; bits++) {
        size_t found = 0;
        for (size_t i = 0; i < mem_policy_count; i++) {
            const struct mem_policy *p = &mem_policies[i];
            found += p->numerator == terms[bits >> 2] && p->by_size == (bits & 1) &&
                     p->by_stale == (bits >> 1 & 1);
        }
        if (bits == 12) /* neither cost, size nor staleness: a random choice */
            CHECK_EQ(mem_policy_find("random")->numerator, MEM_RANDOM);
        else if (bits == 14) /* lru differs from ab_stale in the published ties only */
            CHECK_EQ(found, 2);
        else
            CHECK_EQ(found, 1);
    }
}

/* Blind ones first: sweeps without tiers end before those that see. */
TEST(rows__that_see_follow_the_blind)
{
    for (size_t i = 0; i < mem_policy_total; i++)
        CHECK_EQ(mem_policies[i].sight != MEM_BLIND, i >= mem_policy_count);
    CHECK(mem_policy_needs_tier(mem_policy_find("belady")));
    CHECK(!mem_policy_needs_tier(mem_policy_find("unified")));
}

TEST_MAIN()
