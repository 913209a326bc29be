/* Plans with state below tier 0, some of its updates on the host: judged by the oracle, which finds
 * from bytes alone who has to wait for whom. Steps of training that are drawn, budgets from little to
 * all, homes for a part of the state, updates for a part of it on the host, copies where they were
 * and moved; the same steps with a table that the host looks up; then the same plans with one step
 * changed: refused, or right. Seeds are fixed. */
#include "test.h"
#include "exec_oracle.h"

#include "base/heap.h"
#include "base/rng.h"
#include "exec/exec.h"
#include "plan/plan.h"
#include "planner/planner.h"
#include "trace/trace.h"

#define LAYERS 5
#define MUTANTS 24

static size_t plan_count, below_count, mutant_count, accepted_count;

struct drawing {
    uint64_t random;
    struct trace_builder *builder;
    const char *label;             /* of the next op; NULL: none */
    const struct trace_kind *kind; /* of the next op; NULL: a name */
};

static const struct trace_kind lookup_kind = {
    .name = "lookup", .purity = TRACE_PURE, .can_skip_outputs = true, .picks_rows = true};

static uint32_t draw(struct drawing *d, uint32_t below)
{
    return (uint32_t)(ebb_splitmix64(&d->random) % below);
}

static uint64_t some_bytes(struct drawing *d)
{
    return 100 + draw(d, 3000);
}

/* An op that writes `written` of its inputs in place, or makes something of so many bytes. */
static uint32_t add(struct drawing *d, enum trace_phase phase, bool is_leaf, const uint32_t *in,
                    uint32_t count, const uint32_t *written, uint32_t writes, uint64_t bytes)
{
    struct ebb_error err;
    struct trace_output outputs[4];
    uint32_t first, outs = 0;
    for (uint32_t i = 0; i < writes; i++)
        outputs[outs++] = (struct trace_output){.alias = TRACE_MUTATE, .alias_input = written[i]};
    if (!writes)
        outputs[outs++] = (struct trace_output){.bytes = bytes};
    struct trace_op_desc desc = {.kind = d->kind,
                                 .kind_name = is_leaf ? "leaf" : "op",
                                 .label = d->label,
                                 .partner = TRACE_NONE,
                                 .is_leaf = is_leaf,
                                 .phase = phase,
                                 .cost_ns = is_leaf ? 0 : 50 + draw(d, 500),
                                 .workspace_bytes = !is_leaf && draw(d, 4) == 0 ? some_bytes(d) : 0,
                                 .inputs = in,
                                 .input_count = count,
                                 .outputs = outputs,
                                 .output_count = outs};
    CHECK_OK(trace_builder_op(d->builder, &desc, &first, &err), &err);
    d->label = NULL;
    d->kind = NULL;
    return first;
}

static void command(struct drawing *d, enum trace_command_kind kind, uint32_t tensor)
{
    struct ebb_error err;
    CHECK_OK(trace_builder_command(d->builder, kind, tensor, &err), &err);
}

/* A table with a moment, and tokens that are looked up in it: sometimes twice. */
struct table {
    uint32_t weight, moment, tokens, scalars, x[2];
    uint64_t bytes;
};

static void add_table(struct drawing *d, struct table *t)
{
    t->bytes = 1100 + draw(d, 5000);
    d->label = "words";
    t->weight = add(d, TRACE_FORWARD, true, NULL, 0, NULL, 0, t->bytes);
    d->label = "words.moment";
    t->moment = add(d, TRACE_FORWARD, true, NULL, 0, NULL, 0, t->bytes / (1 + draw(d, 2)));
}

static uint32_t look_up(struct drawing *d, struct table *t)
{
    t->tokens = add(d, TRACE_FORWARD, true, NULL, 0, NULL, 0, 40 + draw(d, 400));
    uint64_t bytes = some_bytes(d);
    for (int k = 0; k < 2; k++) {
        d->kind = &lookup_kind;
        t->x[k] =
            add(d, TRACE_FORWARD, false, (uint32_t[]){t->weight, t->tokens}, 2, NULL, 0, bytes);
    }
    return add(d, TRACE_FORWARD, false, t->x, 2, NULL, 0, bytes);
}

/* Its gradient, sometimes scaled by its own norm; the update in one or two parts. */
static void update_table(struct drawing *d, struct table *t, uint32_t g)
{
    uint32_t dw = add(d, TRACE_BACKWARD, false, (uint32_t[]){g, t->tokens}, 2, NULL, 0, t->bytes);
    if (draw(d, 2)) {
        uint32_t norm = add(d, TRACE_UPDATE, false, &dw, 1, NULL, 0, 4);
        uint32_t scale = add(d, TRACE_UPDATE, false, (uint32_t[]){norm, t->scalars}, 2, NULL, 0, 4);
        dw = add(d, TRACE_UPDATE, false, (uint32_t[]){dw, scale}, 2, NULL, 0, t->bytes);
    }
    for (int r = 1 + (int)draw(d, 2); r > 0; r--) {
        uint32_t out =
            add(d, TRACE_UPDATE, false, (uint32_t[]){t->scalars, dw, t->weight, t->moment}, 4,
                (uint32_t[]){2, 3}, 2, 0);
        t->weight = out;
        t->moment = out + 1;
    }
    command(d, TRACE_PIN, t->weight);
    command(d, TRACE_PIN, t->moment);
}

/* Forward through layers, back, updates: some weights with one moment, some with two ranges of one,
 * some with an average that reads the new weight. */
static struct trace *make_trace(uint64_t seed, bool has_table)
{
    struct ebb_error err;
    struct drawing d = {.random = seed};
    struct trace *trace;
    struct table table;
    uint32_t w[LAYERS], m[LAYERS], a[LAYERS], y[LAYERS + 1], g = 0;
    uint64_t bytes[LAYERS];
    CHECK_OK(trace_builder_create(&d.builder, &err), &err);
    if (has_table)
        add_table(&d, &table);
    for (int i = 0; i < LAYERS; i++) {
        bytes[i] = some_bytes(&d);
        w[i] = add(&d, TRACE_FORWARD, true, NULL, 0, NULL, 0, bytes[i]);
        m[i] = add(&d, TRACE_FORWARD, true, NULL, 0, NULL, 0, bytes[i]);
        a[i] = add(&d, TRACE_FORWARD, true, NULL, 0, NULL, 0, bytes[i]);
    }
    uint32_t scalars = add(&d, TRACE_FORWARD, true, NULL, 0, NULL, 0, 44);
    table.scalars = scalars;
    y[0] = has_table ? look_up(&d, &table)
                     : add(&d, TRACE_FORWARD, true, NULL, 0, NULL, 0, some_bytes(&d));
    for (int i = 0; i < LAYERS; i++)
        y[i + 1] =
            add(&d, TRACE_FORWARD, false, (uint32_t[]){y[i], w[i]}, 2, NULL, 0, some_bytes(&d));
    g = y[LAYERS];
    for (int i = LAYERS - 1; i >= 0; i--) {
        uint32_t dw = add(&d, TRACE_BACKWARD, false, (uint32_t[]){g, y[i]}, 2, NULL, 0, bytes[i]);
        g = add(&d, TRACE_BACKWARD, false, (uint32_t[]){g, w[i], y[i + 1]}, 3, NULL, 0,
                some_bytes(&d));
        int ranges = 1 + (int)draw(&d, 2);
        for (int r = 0; r < ranges; r++) {
            uint32_t out = add(&d, TRACE_UPDATE, false, (uint32_t[]){scalars, dw, w[i], m[i]}, 4,
                               (uint32_t[]){2, 3}, 2, 0);
            w[i] = out;
            m[i] = out + 1;
        }
        if (draw(&d, 3) == 0)
            a[i] = add(&d, TRACE_UPDATE, false, (uint32_t[]){w[i], a[i]}, 2, (uint32_t[]){1}, 1, 0);
    }
    if (has_table)
        update_table(&d, &table, g);
    for (int i = 0; i < LAYERS; i++) {
        command(&d, TRACE_PIN, w[i]);
        command(&d, TRACE_PIN, m[i]);
        command(&d, TRACE_PIN, a[i]);
    }
    CHECK_OK(trace_builder_finish(d.builder, "state", &trace, &err), &err);
    trace_builder_destroy(d.builder);
    return trace;
}

static void judge(const struct exec_program *program, const struct trace *t,
                  const struct planner_tiers *tiers, const struct plan *plan, bool is_mutant)
{
    struct ebb_error err;
    struct exec_log log = {0};
    struct exec_report report;
    char why[ORACLE_WHY];
    struct exec_options o = {.budget_bytes = tiers->bytes[0],
                             .tier_bytes = {0, tiers->bytes[1], tiers->bytes[2]},
                             .links = tiers->links,
                             .plan = plan,
                             .log = &log};
    enum ebb_status status = exec_run(program, &o, &report, &err);
    struct oracle_case judged = {.trace = t,
                                 .options = &o,
                                 .report = &report,
                                 .is_planned = true,
                                 .is_strange = true,
                                 .homes = &plan->homes};
    if (status != EBB_OK && !is_mutant && status != EBB_EBUDGET)
        fail_msg("%s", err.message);
    if (status == EBB_OK && !oracle_judge(&judged, why))
        fail_msg("%s, budget %llu: %s", is_mutant ? "a changed plan" : "a plan",
                 (unsigned long long)o.budget_bytes, why);
    plan_count += status == EBB_OK && !is_mutant;
    below_count += status == EBB_OK && !is_mutant && report.host_ops > 0;
    mutant_count += is_mutant;
    accepted_count += is_mutant && status == EBB_OK;
    exec_log_fini(&log);
}

/* One step left out, or put elsewhere. */
static void judge_mutants(const struct exec_program *program, const struct trace *t,
                          const struct planner_tiers *tiers, const struct plan *plan,
                          struct drawing *d)
{
    struct ebb_error err;
    for (int k = 0; k < MUTANTS; k++) {
        struct plan mutant = {0};
        CHECK_OK(plan_copy(&mutant, plan, &err), &err);
        size_t n = mutant.step_count, at = draw(d, (uint32_t)n);
        size_t to = at + 1 + draw(d, 9);
        struct plan_step moved = mutant.steps[at];
        to = to < n ? to : n - 1;
        if (k % 3 == 0) { /* earlier */
            size_t other = at;
            at = to;
            to = other;
            moved = mutant.steps[at];
            memmove(&mutant.steps[to + 1], &mutant.steps[to], (at - to) * sizeof moved);
            mutant.steps[to] = moved;
        } else {
            memmove(&mutant.steps[at], &mutant.steps[at + 1], (to - at) * sizeof moved);
            mutant.steps[to] = moved;
            mutant.step_count -= k % 3 == 2 && to == n - 1; /* or not at all */
        }
        judge(program, t, tiers, &mutant, true);
        plan_fini(&mutant);
    }
}

/* Some of what the host has written comes up at once, and leaves. */
static void fetch_some(const struct trace *t, const struct plan *from, struct plan *to,
                       struct drawing *d)
{
    struct ebb_error err;
    CHECK_OK(plan_homes_copy(&to->homes, &from->homes, &err), &err);
    to->signature = from->signature;
    for (size_t i = 0; i < from->step_count; i++) {
        const struct plan_step *s = &from->steps[i];
        CHECK_OK(plan_add(to, s->act, s->index, s->offset, s->tier, &err), &err);
        uint32_t storage =
            s->act == PLAN_RUN ? t->tensors[t->ops[s->index].output_first].storage : 0;
        if (s->act != PLAN_RUN || !s->tier || draw(d, 2))
            continue;
        bool is_placed = false; /* an older version, still */
        for (size_t k = 0; k < to->step_count; k++)
            if (to->steps[k].index == storage && !to->steps[k].tier)
                is_placed =
                    to->steps[k].act == PLAN_PLACE || (is_placed && to->steps[k].act != PLAN_DROP);
        if (is_placed)
            continue;
        CHECK_OK(plan_add(to, PLAN_PLACE, storage, PLAN_NOWHERE, 0, &err), &err);
        CHECK_OK(plan_add(to, PLAN_FETCH, storage, 0, DEVICE_HOST, &err), &err);
        CHECK_OK(plan_add(to, PLAN_DROP, storage, 0, 0, &err), &err);
    }
}

static void judge_all(const struct exec_program *program, const struct trace *t,
                      const struct planner_tiers *tiers, const struct plan *game, struct drawing *d)
{
    struct ebb_error err;
    struct plan below = {0}, fetched = {0}, moved = {0};
    size_t count;
    bool is_found;
    CHECK_OK(planner_below(t, game, (1 + draw(d, 4)) / 4.0, &below, &count, &err), &err);
    if (count)
        fetch_some(t, &below, &fetched, d);
    const struct plan *from = !count ? game : draw(d, 2) ? &fetched : &below;
    CHECK_OK(planner_early(t, from, tiers, draw(d, 2), &moved, &is_found, &err), &err);
    judge(program, t, tiers, game, false);
    if (is_found) {
        judge(program, t, tiers, &moved, false);
        judge_mutants(program, t, tiers, &moved, d);
    }
    plan_fini(&below);
    plan_fini(&fetched);
    plan_fini(&moved);
}

static struct planner_tiers draw_tiers(struct drawing *d, uint64_t peak, bool has_file)
{
    static const double rates[] = {0.2, 1, 8, 0};
    struct planner_tiers tiers = {
        .bytes = {peak * (2 + draw(d, 8)) / 10 / 256 * 256, 2 * peak, has_file ? peak : 0}};
    tiers.links.host_slowness = draw(d, 3);
    for (int i = DEVICE_HOST; i < DEVICE_TIERS; i++) {
        tiers.links.out[i] = tiers.links.in[i] =
            (struct device_link){.latency_ns = draw(d, 40), .bytes_per_ns = rates[draw(d, 4)]};
    }
    return tiers;
}

static void sweep(uint64_t seed)
{
    struct ebb_error err;
    struct trace *t = make_trace(seed, false);
    struct drawing d = {.random = seed * 77};
    struct exec_program *program = NULL;
    struct exec_report full;
    CHECK_OK(exec_program_create(&program, t, EXEC_EBB, &err), &err);
    struct exec_options o = {.budget_bytes = UINT64_C(1) << 40};
    CHECK_OK(exec_run(program, &o, &full, &err), &err);
    for (int k = 0; k < 12; k++) {
        struct plan_homes homes = {0};
        struct plan game = {0};
        struct planner_tiers tiers = draw_tiers(&d, full.peak_bytes, k % 3 == 0);
        bool is_found = false;
        CHECK_OK(planner_homes(t, &tiers, (2 + draw(&d, 3)) / 4.0,
                               PLANNER_SMALL_TOO | (k % 2 ? PLANNER_SPREAD : 0), &homes, &err),
                 &err);
        tiers.homes = &homes;
        CHECK_OK(
            planner_floor_at(t, &tiers, tiers.bytes[0], tiers.bytes[0], &game, &is_found, &err),
            &err);
        if (is_found)
            judge_all(program, t, &tiers, &game, &d);
        plan_fini(&game);
        plan_homes_fini(&homes);
    }
    exec_program_destroy(program);
    trace_destroy(t);
}

TEST(state_below__obeys_the_oracle)
{
    uint64_t blocks = ebb_heap_live();
    for (uint64_t seed = 1; seed <= (test_is_long() ? 600 : 60); seed++)
        sweep(seed);
    CHECK_EQ(ebb_heap_live(), blocks);
    print_message("%zu plans, %zu with the host at work; %zu changed, %zu of them accepted\n",
                  plan_count, below_count, mutant_count, accepted_count);
    CHECK(plan_count > 400 && below_count > 150 && accepted_count > 500);
}

/* Of a plan for the light trace one for the trace, which never has the table in tier 0. */
static void judge_said(const struct exec_program *program, const struct trace *t,
                       const struct planner_tables *tables, const struct planner_tiers *tiers,
                       const struct plan *light, struct drawing *d)
{
    struct ebb_error err;
    struct plan said = {0};
    struct plan_report report;
    struct planner_tiers more = *tiers;
    more.bytes[DEVICE_HOST] += planner_tables_bytes(tables);
    CHECK_OK(planner_tables_plan(tables, light, more.bytes, &said, &err), &err);
    const struct plan_limits limits = {{more.bytes[0], more.bytes[1], more.bytes[2]}};
    CHECK_OK(plan_check(t, &said, &limits, &report, &err), &err);
    for (size_t i = 0; i < said.step_count; i++)
        CHECK(said.steps[i].act != PLAN_PLACE || said.steps[i].index > 1);
    judge(program, t, &more, &said, false);
    judge_mutants(program, t, &more, &said, d);
    plan_fini(&said);
}

static void sweep_table(uint64_t seed)
{
    struct ebb_error err;
    struct trace *t = make_trace(seed, true);
    struct drawing d = {.random = seed * 77};
    struct exec_program *program = NULL, *light = NULL;
    struct exec_report full;
    struct planner_tables *tables = NULL;
    bool *is_table = ebb_calloc(t->storage_count, 1);
    CHECK_OK(planner_tables_find(t, is_table, &err), &err);
    CHECK(is_table[0] && is_table[1] && !is_table[2]);
    CHECK_OK(planner_tables_create(&tables, t, is_table, &err), &err);
    const struct trace *thin = planner_tables_light(tables);
    CHECK_OK(exec_program_create(&program, t, EXEC_EBB, &err), &err);
    CHECK_OK(exec_program_create(&light, thin, EXEC_EBB, &err), &err);
    struct exec_options o = {.budget_bytes = UINT64_C(1) << 40};
    CHECK_OK(exec_run(light, &o, &full, &err), &err);
    for (int k = 0; k < 8; k++) {
        struct plan_homes homes = {0};
        struct plan game = {0}, moved = {0};
        struct planner_tiers tiers = draw_tiers(&d, full.peak_bytes, k % 3 == 0);
        bool is_found = false, is_moved = false;
        CHECK_OK(planner_homes(thin, &tiers, draw(&d, 3) / 2.0, PLANNER_SMALL_TOO, &homes, &err),
                 &err);
        tiers.homes = homes.count ? &homes : NULL;
        CHECK_OK(
            planner_floor_at(thin, &tiers, tiers.bytes[0], tiers.bytes[0], &game, &is_found, &err),
            &err);
        if (is_found)
            CHECK_OK(planner_early(thin, &game, &tiers, draw(&d, 2), &moved, &is_moved, &err),
                     &err);
        if (is_found)
            judge_said(program, t, tables, &tiers, is_moved ? &moved : &game, &d);
        plan_fini(&game);
        plan_fini(&moved);
        plan_homes_fini(&homes);
    }
    planner_tables_destroy(tables);
    ebb_free(is_table);
    exec_program_destroy(light);
    exec_program_destroy(program);
    trace_destroy(t);
}

TEST(tables_below__obey_the_oracle)
{
    uint64_t blocks = ebb_heap_live();
    plan_count = below_count = mutant_count = accepted_count = 0;
    for (uint64_t seed = 1; seed <= (test_is_long() ? 600 : 60); seed++)
        sweep_table(seed);
    CHECK_EQ(ebb_heap_live(), blocks);
    print_message("%zu plans, %zu with the host at work; %zu changed, %zu of them accepted\n",
                  plan_count, below_count, mutant_count, accepted_count);
    CHECK(plan_count > 200 && below_count == plan_count && accepted_count > 500);
}

TEST_MAIN()
