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
     "own cost + exact evicted neighbourhood, per byte and staleness (h_DTR)",
     MEM_BLIND},
    {"dtr_eq",
     {"DTREqClass", "AbEqSizeStale", "ab_eq_size_stale"},
     MEM_EQ,
     true,
     true,
     "as dtr with union-find classes for the neighbourhood (h_DTR^eq)",
     MEM_BLIND},
    {"dtr_local",
     {"DTRLocal", "AbLocalSizeStale", "ab_local_size_stale"},
     MEM_LOCAL,
     true,
     true,
     "own cost only, per byte and staleness (h_DTR^local)",
     MEM_BLIND},
    {"msps",
     {"MSPS"},
     MEM_ANCESTORS,
     true,
     false,
     "own cost + evicted ancestors, per byte (memory saving per second)",
     MEM_BLIND},
    {"lru", {"LRU"}, MEM_ONE, false, true, "least recently used first", MEM_BLIND},
    {"largest",
     {"LargestStorage", "AbSize", "ab_size"},
     MEM_ONE,
     true,
     false,
     "largest first",
     MEM_BLIND},
    {"random",
     {"RandomStorage", "Random", "AbRandom"},
     MEM_RANDOM,
     false,
     false,
     "uniform choice (seeded)",
     MEM_BLIND},
    {"ab_e_size",
     {"AbESize"},
     MEM_REGION,
     true,
     false,
     "ablation: dtr without staleness",
     MEM_BLIND},
    {"ab_e_stale", {"AbEStale"}, MEM_REGION, false, true, "ablation: dtr without size", MEM_BLIND},
    {"ab_e", {"AbE"}, MEM_REGION, false, false, "ablation: exact neighbourhood alone", MEM_BLIND},
    {"ab_eq_size",
     {"AbEqSize"},
     MEM_EQ,
     true,
     false,
     "ablation: dtr_eq without staleness",
     MEM_BLIND},
    {"ab_eq_stale", {"AbEqStale"}, MEM_EQ, false, true, "ablation: dtr_eq without size", MEM_BLIND},
    {"ab_eq", {"AbEq"}, MEM_EQ, false, false, "ablation: classes alone", MEM_BLIND},
    {"ab_local_size",
     {"AbLocalSize"},
     MEM_LOCAL,
     true,
     false,
     "ablation: dtr_local without staleness",
     MEM_BLIND},
    {"ab_local_stale",
     {"AbLocalStale"},
     MEM_LOCAL,
     false,
     true,
     "ablation: dtr_local without size",
     MEM_BLIND},
    {"ab_local", {"AbLocal"}, MEM_LOCAL, false, false, "ablation: own cost alone", MEM_BLIND},
    {"ab_size_stale",
     {"AbSizeStale"},
     MEM_ONE,
     true,
     true,
     "ablation: size and staleness, no cost",
     MEM_BLIND},
    {"ab_stale", {"AbStale"}, MEM_ONE, false, true, "ablation: staleness alone", MEM_BLIND},
    {"dtr_unopt",
     {"DTRUnopt"},
     MEM_UNION,
     true,
     true,
     "dtr as first published: neighbourhood as one set, staleness of its freshest member",
     MEM_BLIND},
    {"belady",
     {"Belady"},
     MEM_ONE,
     false,
     false,
     "with lower tiers: what is read last leaves, by a copy; nothing is made again if it can be "
     "helped",
     MEM_FARTHEST},
    {"capuchin",
     {"Capuchin"},
     MEM_ANCESTORS,
     true,
     false,
     "with lower tiers: copied if that ends before its next use, else made again (memory saving "
     "per "
     "second)",
     MEM_FREE},
    {"unified",
     {"Unified"},
     MEM_EQ,
     true,
     false,
     "made again or copied, whichever costs less time that no op hides, per byte and time to its "
     "next use; copies begin early; other ways of deciding where a dry run is faster",
     MEM_HIDDEN},
};

#define SEEING 3
const size_t mem_policy_total = sizeof mem_policies / sizeof mem_policies[0];
const size_t mem_policy_count = sizeof mem_policies / sizeof mem_policies[0] - SEEING;

const struct mem_policy *mem_policy_find(const char *name)
{
    for (size_t i = 0; i < mem_policy_total; i++) {
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
