/* tries.c - policy `unified` is several: which of them a run follows, the null device says.
 *
 * What a decision costs is seen only when those that follow it are taken, too; the trace is known, so they
 * can be, in next to no time, by a clock instead of kernels. So a link that is too slow to be of use costs nothing, and
 * where copies alone or making again alone is best, or the only way, it is what is done. */
#include "exec/internal.h"

#define COPIES (MEM_HOST | MEM_FILE)

static const struct {
    const char *policy;
    bool takes_first;
    unsigned ways[3]; /* 0: no more */
} tries[] = {{"unified", false, {MEM_DROP | COPIES, MEM_DROP, COPIES}},
             {"unified", true, {MEM_DROP | COPIES, MEM_DROP, COPIES}},
             {"dtr_eq", false, {MEM_DROP, MEM_DROP | COPIES}},
             {"belady", false, {COPIES}}};

/* As long as it takes on the device; UINT64_MAX: it does not get there. */
static enum ebb_status time_try(const struct exec_program *p, struct exec_options o, uint64_t *ns,
                                struct ebb_error *err)
{
    struct exec_report report = {0};
    struct ebb_error why = {0};
    o.device = NULL;
    o.io = NULL;
    o.log = NULL;
    EBB_TRY(exec_own_device(&o, err));
    enum ebb_status status = exec_run_policy(p, &o, &report, &why);
    device_null.destroy(o.device);
    *ns = status != EBB_OK                     ? UINT64_MAX
          : report.device_ns > report.clock_ns ? report.device_ns
                                               : report.clock_ns;
    if (status == EBB_OK || (*report.why && (status == EBB_EBUDGET || status == EBB_ELIMIT)))
        return EBB_OK;
    *err = why;
    return status;
}

/* Where only some ways are open, ways of deciding are the same. */
static bool is_known(size_t policy, int way, unsigned open)
{
    for (int k = 0; k < way; k++)
        if ((tries[policy].ways[k] & open) == (tries[policy].ways[way] & open))
            return true;
    return (tries[policy].ways[way] & open) == 0;
}

enum ebb_status exec_try_policies(const struct exec_program *p, struct exec_options *options,
                                  struct ebb_error *err)
{
    struct exec_options best = *options;
    unsigned open = options->ways ? options->ways : MEM_DROP;
    uint64_t best_ns = UINT64_MAX, ns;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
        for (int k = 0; k < (int)(sizeof tries->ways / sizeof *tries->ways); k++) {
            struct exec_options o = *options;
            o.policy = mem_policy_find(tries[i].policy);
            o.takes_first = tries[i].takes_first;
            o.ways = tries[i].ways[k] & open;
            if (is_known(i, k, open))
                continue;
            EBB_TRY(time_try(p, o, &ns, err));
            if (ns < best_ns) {
                best_ns = ns;
                best = o;
            }
        }
    *options = best;
    return EBB_OK;
}
