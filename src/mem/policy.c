/* policy.c - the table of online policies. Registering one is a row; commands, help and sweeps read
 * this table. */
#include "mem/mem.h"

#include <string.h>
#include <strings.h>

const struct mem_policy mem_policies[] = {
    {"dtr",
     {"DTR", "AbESizeStale", "ab_e_size_stale"},
     MEM_REGION,
     true,
     true,
     "own cost + exact evicted neighbourhood, per byte and staleness (h_DTR)"},
    {"dtr_eq",
     {"DTREqClass", "AbEqSizeStale", "ab_eq_size_stale"},
     MEM_EQ,
     true,
     true,
     "as dtr with union-find classes for the neighbourhood (h_DTR^eq)"},
    {"dtr_local",
     {"DTRLocal", "AbLocalSizeStale", "ab_local_size_stale"},
     MEM_LOCAL,
     true,
     true,
     "own cost only, per byte and staleness (h_DTR^local)"},
    {"msps",
     {"MSPS"},
     MEM_ANCESTORS,
     true,
     false,
     "own cost + evicted ancestors, per byte (memory saving per second)"},
    {"lru", {"LRU"}, MEM_ONE, false, true, "least recently used first"},
    {"largest", {"LargestStorage", "AbSize", "ab_size"}, MEM_ONE, true, false, "largest first"},
    {"random",
     {"RandomStorage", "Random", "AbRandom"},
     MEM_RANDOM,
     false,
     false,
     "uniform choice (seeded)"},
    {"ab_e_size", {"AbESize"}, MEM_REGION, true, false, "ablation: dtr without staleness"},
    {"ab_e_stale", {"AbEStale"}, MEM_REGION, false, true, "ablation: dtr without size"},
    {"ab_e", {"AbE"}, MEM_REGION, false, false, "ablation: exact neighbourhood alone"},
    {"ab_eq_size", {"AbEqSize"}, MEM_EQ, true, false, "ablation: dtr_eq without staleness"},
    {"ab_eq_stale", {"AbEqStale"}, MEM_EQ, false, true, "ablation: dtr_eq without size"},
    {"ab_eq", {"AbEq"}, MEM_EQ, false, false, "ablation: classes alone"},
    {"ab_local_size",
     {"AbLocalSize"},
     MEM_LOCAL,
     true,
     false,
     "ablation: dtr_local without staleness"},
    {"ab_local_stale",
     {"AbLocalStale"},
     MEM_LOCAL,
     false,
     true,
     "ablation: dtr_local without size"},
    {"ab_local", {"AbLocal"}, MEM_LOCAL, false, false, "ablation: own cost alone"},
    {"ab_size_stale",
     {"AbSizeStale"},
     MEM_ONE,
     true,
     true,
     "ablation: size and staleness, no cost"},
    {"ab_stale", {"AbStale"}, MEM_ONE, false, true, "ablation: staleness alone"},
    {"dtr_unopt",
     {"DTRUnopt"},
     MEM_UNION,
     true,
     true,
     "dtr as first published: neighbourhood as one set, staleness of its freshest member"},
};

const size_t mem_policy_count = sizeof mem_policies / sizeof mem_policies[0];

const struct mem_policy *mem_policy_find(const char *name)
{
    for (size_t i = 0; i < mem_policy_count; i++) {
        const struct mem_policy *p = &mem_policies[i];
        if (strcmp(p->name, name) == 0)
            return p;
        for (size_t k = 0; k < sizeof p->aliases / sizeof p->aliases[0]; k++) {
            if (p->aliases[k] && strcmp(p->aliases[k], name) == 0)
                return p;
        }
    }
    return NULL;
}
