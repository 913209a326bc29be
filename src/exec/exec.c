/* exec.c - the face of exec: programs, and running one under either rule set. */
#include "exec/ebb.h"

#include <string.h>

#include "base/hash.h"
#include "base/heap.h"

const char *exec_result_text(enum exec_result result)
{
    static const char *const texts[] = {"ok", "oom", "thrashed", "refused"};
    return texts[result];
}

enum ebb_status exec_program_create(struct exec_program **program, const struct trace *trace,
                                    enum exec_rules rules, struct ebb_error *err)
{
    struct exec_program *p = ebb_calloc(1, sizeof *p);
    if (!p)
        return ebb_no_memory(err, sizeof *p);
    p->trace = trace;
    p->rules = rules;
    enum ebb_status status = rules == EXEC_SIMRD ? exec_simrd_compile(&p->simrd, trace, err)
                                                 : exec_ebb_compile(&p->ebb, trace, err);
    if (status != EBB_OK) {
        exec_program_destroy(p);
        return status;
    }
    *program = p;
    return EBB_OK;
}

void exec_program_destroy(struct exec_program *program)
{
    if (!program)
        return;
    exec_simrd_destroy(program->simrd);
    exec_ebb_destroy(program->ebb);
    ebb_free(program);
}

void exec_log_fini(struct exec_log *log)
{
    ebb_free(log->events);
    *log = (struct exec_log){0};
}

uint64_t exec_limit_ns(const struct exec_options *options, uint64_t base_ns)
{
    if (options->limit_ns)
        return options->limit_ns;
    if (options->limit <= 0)
        return UINT64_MAX;
    double limit = (options->limit - 1) * (double)base_ns;
    return limit < 0 ? 0 : limit >= 0x1p63 ? UINT64_MAX : (uint64_t)limit;
}

enum ebb_status exec_run(const struct exec_program *program, const struct exec_options *options,
                         struct exec_report *report, struct ebb_error *err)
{
    memset(report, 0, sizeof *report);
    report->budget_bytes = options->budget_bytes;
    report->evict_hash = EBB_FNV1A_INIT;
    if (program->rules == EXEC_SIMRD) {
        if (options->plan || options->ways > MEM_DROP || options->sampling || options->ignore_small)
            return ebb_fail(err, EBB_EINPUT,
                            "rules simrd know no plans, swapping, sampling or small-tensor rule; "
                            "use rules ebb");
        return exec_simrd_run(program->simrd, options, report, err);
    }
    if (options->dealloc == EXEC_BANISH)
        return ebb_fail(err, EBB_EINPUT,
                        "banishing belongs to the published V1 runtime: use rules simrd");
    return exec_ebb_run(program->ebb, options, report, err);
}

enum ebb_status exec_image_create(struct exec_image **image, const struct exec_program *program,
                                  const struct plan *plan, const struct exec_options *options,
                                  struct ebb_error *err)
{
    if (program->rules != EXEC_EBB)
        return ebb_fail(err, EBB_EINPUT, "rules simrd know no plans: use rules ebb");
    return exec_image_bind(image, program->ebb, plan, options, err);
}

enum ebb_status exec_keep_all(const struct exec_program *program, uint64_t budget,
                              const struct plan **plan, struct ebb_error *err)
{
    if (program->rules != EXEC_EBB)
        return ebb_fail(err, EBB_EINPUT, "rules simrd know no plans: use rules ebb");
    return exec_easy_plan(program->ebb, budget, plan, err);
}
