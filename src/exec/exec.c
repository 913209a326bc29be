/* exec.c - the face of exec: programs, and running one under either rule set. */
#include "exec/internal.h"

#include <string.h>

#include "base/hash.h"
#include "base/heap.h"

const char *exec_result_text(enum exec_result result)
{
    static const char *const texts[] = {"ok", "oom", "thrashed", "refused"};
    return texts[result];
}

/* ---- programs -------------------------------------------------------------------------------- */

static enum ebb_status compile_ebb(struct exec_program *p, struct ebb_error *err)
{
    const struct trace *t = p->trace;
    EBB_TRY(plan_recipes_create(&p->recipes, t, NULL, PLAN_ONLINE, err));
    EBB_TRY(mem_graph_init(&p->graph, t, false, err));
    EBB_TRY(exec_easy_create(&p->easy, err));
    for (uint32_t o = 0; o < t->op_count; o++) {
        uint32_t ports = t->ops[o].input_count + t->ops[o].output_count;
        p->ports = ports > p->ports ? ports : p->ports;
    }
    p->keep_peak = exec_keep_peak(p->recipes);
    return EBB_OK;
}

enum ebb_status exec_program_create(struct exec_program **program, const struct trace *trace,
                                    enum exec_rules rules, struct ebb_error *err)
{
    struct exec_program *p;
    EBB_TRY(ebb_new(&p, 1, sizeof *p, err));
    p->trace = trace;
    p->rules = rules;
    enum ebb_status status =
        rules == EXEC_SIMRD ? simrd_compile(&p->simrd, trace, err) : compile_ebb(p, err);
    return EBB_HAND_OUT(status, program, p, exec_program_destroy);
}

void exec_program_destroy(struct exec_program *program)
{
    if (!program)
        return;
    simrd_destroy(program->simrd);
    plan_recipes_destroy(program->recipes);
    mem_graph_fini(&program->graph);
    exec_easy_destroy(program->easy);
    ebb_free(program);
}

enum ebb_status exec_needs_ebb(const struct exec_program *program, struct ebb_error *err)
{
    return program->rules == EXEC_EBB
               ? EBB_OK
               : ebb_fail(err, EBB_EINPUT, "rules simrd know no plans: use rules ebb");
}

/* ---- the log --------------------------------------------------------------------------------- */

void exec_log_fini(struct exec_log *log)
{
    ebb_free(log->events);
    *log = (struct exec_log){0};
}

/* An event of the log from what memory tells: FREE is the DROP of what is dead. */
static enum ebb_status log_note(void *context, const struct mem_note *note, struct ebb_error *err)
{
    static const uint8_t kinds[][2] = {[PLAN_PLACE] = {EXEC_EV_PLACE, EXEC_EV_PLACE},
                                       [PLAN_RUN] = {EXEC_EV_RUN, EXEC_EV_RERUN},
                                       [PLAN_DROP] = {EXEC_EV_FREE, EXEC_EV_DROP},
                                       [PLAN_SEND] = {EXEC_EV_SEND, EXEC_EV_SEND},
                                       [PLAN_FETCH] = {EXEC_EV_FETCH, EXEC_EV_FETCH},
                                       [PLAN_FORGET] = {EXEC_EV_FORGET, EXEC_EV_FORGET},
                                       [PLAN_MOVE] = {EXEC_EV_MOVE, EXEC_EV_MOVE}};
    struct exec_event event = {kinds[note->act][note->is_again], note->tier, note->index,
                               note->offset, note->clock_ns};
    return exec_log_add(context, event, err);
}

struct mem_listener exec_log_listener(struct exec_log *log)
{
    return (struct mem_listener){.context = log, .tell = log ? log_note : NULL};
}

enum ebb_status exec_log_add(struct exec_log *log, struct exec_event event, struct ebb_error *err)
{
    if (!log)
        return EBB_OK;
    EBB_TRY(ebb_grow(&log->events, &log->capacity, log->count + 1, sizeof *log->events, err));
    log->events[log->count++] = event;
    return EBB_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

uint64_t exec_limit_ns(const struct exec_options *options, uint64_t base_ns)
{
    if (options->limit_ns)
        return options->limit_ns;
    if (options->limit <= 0)
        return UINT64_MAX;
    double limit = (options->limit - 1) * (double)base_ns;
    return limit < 0 ? 0 : limit >= 0x1p63 ? UINT64_MAX : (uint64_t)limit;
}

/* What a run counted becomes its report. */
void exec_report_tally(struct exec_report *r, const struct mem_tally *t)
{
    r->clock_ns = t->clock_ns;
    r->remat_ns = t->remat_ns;
    r->peak_bytes = t->peak_bytes;
    r->sum_bytes = t->sum_bytes;
    r->evictions_pressure = t->evictions_pressure;
    r->evictions_release = t->evictions_release;
    r->remat_ops = t->remat_ops;
    r->remat_collateral = t->remat_collateral;
    r->swapped_bytes = t->swapped_bytes;
    r->moved_bytes = t->moved_bytes;
    r->ops_done = t->ops_done;
    r->eval_count = t->eval_count;
    r->banished = t->banished;
    r->evict_hash = t->evict_hash;
    r->search_ns = t->search_ns;
    r->cost_ns = t->cost_ns;
    r->move_ns = t->move_ns;
    memcpy(r->why, t->why, sizeof r->why);
}

static enum ebb_status run_simrd(const struct simrd_program *program, const struct exec_options *o,
                                 struct exec_report *report, struct ebb_error *err)
{
    bool sees = o->policy && o->policy->sight != MEM_BLIND;
    if (o->plan || o->ways > MEM_DROP || o->sampling || o->ignore_small || sees)
        return ebb_fail(err, EBB_EINPUT,
                        "rules simrd know no plans, swapping, sampling, small-tensor rule or "
                        "policy that looks ahead; use rules ebb");
    struct mem_tally tally = {.evict_hash = EBB_FNV1A_INIT};
    struct simrd_options options = {.policy = o->policy,
                                    .budget_bytes = o->budget_bytes,
                                    .limit_ns = exec_limit_ns(o, simrd_base_ns(program)),
                                    .seed = o->seed,
                                    .is_eager = o->dealloc == EXEC_EAGER,
                                    .banishes = o->dealloc == EXEC_BANISH,
                                    .reference_scan = o->reference_scan,
                                    .listener = exec_log_listener(o->log)};
    enum ebb_status status = simrd_run(program, &options, &tally, err);
    exec_report_tally(report, &tally);
    report->base_ns = simrd_base_ns(program);
    return status;
}

static enum ebb_status run_plan(const struct exec_program *p, const struct plan *plan,
                                const struct exec_options *o, struct exec_report *report,
                                struct ebb_error *err)
{
    struct exec_image *image = NULL;
    EBB_TRY(exec_image_create(&image, p, plan, o, err));
    enum ebb_status status = exec_image_run(image, o->io, o->log, report, err);
    exec_image_destroy(image);
    return status;
}

enum ebb_status exec_own_device(struct exec_options *o, struct ebb_error *err)
{
    EBB_TRY(device_null.create(&o->device, &o->links, err));
    enum ebb_status status = EBB_OK;
    for (int k = 0; k < DEVICE_TIERS && status == EBB_OK; k++) {
        uint64_t bytes = k ? o->tier_bytes[k] : o->budget_bytes;
        if (bytes)
            status = device_null.reserve(o->device, (enum device_tier)k, bytes, err);
    }
    if (status != EBB_OK)
        device_null.destroy(o->device);
    return status;
}

static enum ebb_status run_ebb(const struct exec_program *p, const struct exec_options *options,
                               struct exec_report *report, struct ebb_error *err)
{
    struct exec_options o = *options;
    const struct plan *plan = o.plan;
    if (o.dealloc == EXEC_BANISH)
        return ebb_fail(err, EBB_EINPUT,
                        "banishing belongs to the published V1 runtime: use rules simrd");
    if (!plan && o.budget_bytes >= p->keep_peak && o.dealloc == EXEC_EAGER)
        EBB_TRY(exec_keep_all(p, o.budget_bytes, &plan, err));
    if (!plan && o.policy && o.policy->sight == MEM_HIDDEN)
        EBB_TRY(exec_try_policies(p, &o, err));
    if (!options->device)
        EBB_TRY(exec_own_device(&o, err));
    enum ebb_status status =
        plan ? run_plan(p, plan, &o, report, err) : exec_run_policy(p, &o, report, err);
    if (!options->device)
        device_null.destroy(o.device);
    return status;
}

enum ebb_status exec_run(const struct exec_program *program, const struct exec_options *options,
                         struct exec_report *report, struct ebb_error *err)
{
    memset(report, 0, sizeof *report);
    report->budget_bytes = options->budget_bytes;
    report->evict_hash = EBB_FNV1A_INIT;
    enum ebb_status status = program->rules == EXEC_SIMRD
                                 ? run_simrd(program->simrd, options, report, err)
                                 : run_ebb(program, options, report, err);
    if (*report->why && (status == EBB_EBUDGET || status == EBB_ELIMIT)) {
        /* out of room or of patience: a result, told in the report */
        report->result = status == EBB_EBUDGET ? EXEC_OOM : EXEC_THRASHED;
        return EBB_OK;
    }
    return status;
}
