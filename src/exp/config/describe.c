/* describe.c - three words for an experiment that has no description. */
#include "base/report.h"
#include "base/rng.h"
#include "exp/config/config.h"

static const char adjectives[] =
    "amber ancient autumn bold brave bright brisk broad calm clear clever cool copper crisp "
    "curious deep distant dusty eager early even fair fast fine firm free fresh gentle "
    "golden grand green happy hidden honest humble icy keen kind large late light little "
    "lively loud lucky mellow misty modest noble patient plain polite proud quick quiet "
    "rapid royal silent silver small steady swift tidy young";

static const char nouns[] =
    "arch bay beacon birch bridge brook canyon cedar cliff cloud comet coral crane creek "
    "delta dune eagle ebb falcon fern field finch fjord forest fox garden glacier grove gull "
    "harbor hawk heron hill island lagoon lake lark maple marsh meadow mesa moon oak ocean "
    "orchid otter owl peak pine plain pond reef ridge river robin sea shore sparrow spring "
    "stone stream tide valley willow";

const char *exp_config_describe(struct ebb_arena *arena, uint64_t seed)
{
    uint64_t bits = ebb_splitmix64(&seed); /* 64 words each: six bits choose one */
    size_t n[3];
    const char *first = ebb_words_at(adjectives, bits & 63, &n[0]);
    const char *second = ebb_words_at(adjectives, bits >> 6 & 63, &n[1]);
    const char *noun = ebb_words_at(nouns, bits >> 12 & 63, &n[2]);
    return ebb_arena_printf(arena, "Experiment (%.*s-%.*s-%.*s)", (int)n[0], first, (int)n[1],
                            second, (int)n[2], noun);
}
