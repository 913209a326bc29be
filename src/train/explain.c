/* explain.c - where every byte of a training step is, op by op.
 *
 * A plain walk over the trace with everything kept until its last use: what the step needs without
 * a budget. Sizes are rounded to the unit of the slab, as in a run. */
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "plan/plan.h"
#include "train/trial.h"

const char *const train_kind_names[TRAIN_KINDS] = {"weights",     "optimizer", "inputs",
                                                   "activations", "gradients", "workspace"};

struct walk {
    const struct trace *t;
    const struct trace *near; /* the same; tables in host memory have no bytes */
    uint8_t *kind;            /* per storage */
    uint8_t *is_in;           /* per storage */
    uint64_t now[TRAIN_KINDS];
};

static uint64_t size_of(const struct walk *w, uint32_t storage)
{
    return plan_round(w->near->storages[storage].bytes);
}

/* By the trace alone: leaves that are kept are weights, or states if only updates read them. */
static enum ebb_status classify_kept(struct walk *w, struct ebb_error *err)
{
    const struct trace *t = w->t;
    bool *is_read;
    EBB_TRY(ebb_new(&is_read, t->storage_count, sizeof *is_read, err));
    trace_mark_read(t, is_read);
    for (uint32_t c = t->command_count; c-- > 0 && t->commands[c].kind != TRACE_RUN;) {
        uint32_t s = t->tensors[t->commands[c].index].storage;
        if (t->commands[c].kind == TRACE_PIN && w->kind[s] == TRAIN_KIND_INPUTS)
            w->kind[s] = is_read[s] ? TRAIN_KIND_WEIGHTS : TRAIN_KIND_STATES;
    }
    ebb_free(is_read);
    return EBB_OK;
}

static enum ebb_status classify(const struct train_trial *trial, struct walk *w,
                                struct ebb_error *err)
{
    const struct trace *t = w->t;
    for (uint32_t i = 0; i < t->storage_count; i++) {
        const struct trace_op *op = &t->ops[t->tensors[t->storages[i].root].op];
        w->kind[i] = op->is_leaf                  ? TRAIN_KIND_INPUTS
                     : op->phase == TRACE_FORWARD ? TRAIN_KIND_ACTIVATIONS
                                                  : TRAIN_KIND_GRADIENTS;
    }
    for (size_t i = 0; i < trial->main.slot_count; i++) {
        const struct train_slot *slot = &trial->main.slots[i];
        uint8_t kind = slot->kind == TRAIN_ITEM ? TRAIN_KIND_WEIGHTS : TRAIN_KIND_STATES;
        if (slot->tensor != TRACE_NONE)
            w->kind[t->tensors[slot->tensor].storage] = kind;
        for (size_t k = 1; k < slot->piece_count; k++)
            w->kind[t->tensors[slot->tensors[k]].storage] = kind;
    }
    return trial->main.slot_count == 0 ? classify_kept(w, err) : EBB_OK;
}

static void enter(struct walk *w, uint32_t storage)
{
    if (w->is_in[storage])
        return;
    w->is_in[storage] = 1;
    w->now[w->kind[storage]] += size_of(w, storage);
}

static void leave(struct walk *w, uint32_t storage)
{
    if (!w->is_in[storage])
        return;
    w->is_in[storage] = 0;
    w->now[w->kind[storage]] -= size_of(w, storage);
}

static uint64_t total(const uint64_t kinds[TRAIN_KINDS])
{
    uint64_t sum = 0;
    for (int k = 0; k < TRAIN_KINDS; k++)
        sum += kinds[k];
    return sum;
}

/* A version that was overwritten is released by its old handle; the bytes go with the newest. */
static bool is_newest(const struct trace *t, uint32_t tensor)
{
    const struct trace_tensor *x = &t->tensors[tensor];
    return x->version + 1 == t->storages[x->storage].version_count;
}

/* Runs the commands up to and including op `until`; remembers moments when asked to. */
static void run(struct walk *w, uint32_t until, struct train_moment *moments)
{
    const struct trace *t = w->t;
    memset(w->now, 0, sizeof w->now);
    memset(w->is_in, 0, t->storage_count);
    for (uint32_t s = 0; s < t->storage_count; s++) /* what survives the step is always there */
        if (w->kind[s] == TRAIN_KIND_WEIGHTS || w->kind[s] == TRAIN_KIND_STATES)
            enter(w, s);
    for (uint32_t c = 0; c < t->command_count; c++) {
        uint32_t i = t->commands[c].index;
        if (t->commands[c].kind == TRACE_RELEASE && is_newest(t, i) &&
            w->kind[t->tensors[i].storage] >= TRAIN_KIND_INPUTS)
            leave(w, t->tensors[i].storage);
        if (t->commands[c].kind != TRACE_RUN)
            continue;
        const struct trace_op *op = &t->ops[i];
        for (uint32_t k = 0; k < op->output_count; k++)
            enter(w, trace_output_of(t, op, k)->storage);
        w->now[TRAIN_KIND_WORKSPACE] = plan_round(op->workspace_bytes);
        if (moments)
            memcpy(moments[i].kinds, w->now, sizeof w->now);
        if (i == until)
            return;
        w->now[TRAIN_KIND_WORKSPACE] = 0;
    }
}

/* ---- layers --------------------------------------------------------------------------------- */

/* "layer1.0.conv1.weight" -> "layer1.0": two parts of a name tell a person where it is. */
static void layer_name(const char *label, char *name, size_t size)
{
    size_t n = 0, dots = 0;
    for (; label[n] && n + 1 < size; n++) {
        if (label[n] == '.' && ++dots == 2)
            break;
        name[n] = label[n];
    }
    name[n] = '\0';
    static const char *const tails[] = {".weight", ".bias", ".running_mean", ".running_var",
                                        ".num_batches_tracked"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t k = strlen(tails[i]);
        if (n > k && strcmp(name + n - k, tails[i]) == 0)
            name[n - k] = '\0';
    }
}

static struct train_layer *layer_of(struct train_explained *e, struct ebb_arena *arena,
                                    struct ebb_strmap *index, const char *label)
{
    char name[96];
    uint64_t at;
    layer_name(*label ? label : "(other)", name, sizeof name);
    if (ebb_strmap_get(index, name, strlen(name), &at))
        return &e->layers[at];
    if (ebb_strmap_put(index, name, strlen(name), e->layer_count, NULL) != EBB_OK)
        return NULL;
    struct train_layer *layer = &e->layers[e->layer_count++];
    layer->name = ebb_arena_printf(arena, "%s", name);
    return layer->name ? layer : NULL;
}

/* The forward op behind an op of the backward pass names the layer. */
static const char *label_of(const struct trace *t, const struct trace_op *op)
{
    const char *label = trace_label(t, op);
    if (*label || op->partner == TRACE_NONE)
        return label;
    return trace_label(t, &t->ops[op->partner]);
}

static enum ebb_status add_layers(struct walk *w, struct train_explained *e,
                                  struct ebb_arena *arena, struct ebb_error *err)
{
    const struct trace *t = w->t;
    struct ebb_strmap index = {0};
    bool is_good = true;
    for (uint32_t s = 0; s < t->storage_count && is_good; s++) {
        if (!w->is_in[s])
            continue;
        struct train_layer *layer =
            layer_of(e, arena, &index, label_of(t, &t->ops[t->tensors[t->storages[s].root].op]));
        is_good = layer != NULL;
        if (!layer)
            break;
        layer->kinds[w->kind[s]] += size_of(w, s);
        layer->bytes += size_of(w, s);
    }
    struct train_layer *at =
        is_good ? layer_of(e, arena, &index, label_of(t, &t->ops[e->peak_op])) : NULL;
    if (at) {
        at->kinds[TRAIN_KIND_WORKSPACE] += w->now[TRAIN_KIND_WORKSPACE];
        at->bytes += w->now[TRAIN_KIND_WORKSPACE];
    }
    ebb_strmap_fini(&index);
    return at ? EBB_OK : ebb_no_memory(err, sizeof *at);
}

static int by_bytes(const void *a, const void *b)
{
    const struct train_layer *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* ---- all ------------------------------------------------------------------------------------ */

static enum ebb_status explain(const struct train_trial *trial, struct walk *w,
                               struct ebb_arena *arena, struct train_explained *e,
                               struct ebb_error *err)
{
    const struct trace *t = w->t;
    e->moments = ebb_arena_calloc(arena, (size_t)t->op_count + 1, sizeof *e->moments);
    e->layers = ebb_arena_calloc(arena, (size_t)t->storage_count + 2, sizeof *e->layers);
    EBB_TRY(ebb_arena_status(arena, err));
    e->moment_count = t->op_count;
    EBB_TRY(classify(trial, w, err));
    run(w, TRACE_NONE, e->moments);
    for (uint32_t i = 0; i < t->op_count; i++)
        if (total(e->moments[i].kinds) > e->peak_bytes) {
            e->peak_bytes = total(e->moments[i].kinds);
            e->peak_op = i;
        }
    const struct trace_op *peak = &t->ops[e->peak_op];
    memcpy(e->kinds, e->moments[e->peak_op].kinds, sizeof e->kinds);
    e->peak_phase = (enum trace_phase)peak->phase;
    e->peak_name = ebb_arena_printf(arena, "%s", peak->kind->name);
    e->peak_layer = ebb_arena_printf(arena, "%s", label_of(t, peak));
    EBB_TRY(ebb_arena_status(arena, err));
    run(w, e->peak_op, NULL);
    EBB_TRY(add_layers(w, e, arena, err));
    qsort(e->layers, e->layer_count, sizeof *e->layers, by_bytes);
    for (int k = TRAIN_KIND_INPUTS; k < TRAIN_KINDS; k++)
        e->batch_bytes += e->kinds[k];
    return EBB_OK;
}

enum ebb_status train_trial_explain(const struct train_trial *trial, struct ebb_arena *arena,
                                    struct train_explained *explained, struct ebb_error *err)
{
    const struct trace *t = train_trial_trace(trial);
    struct train_explained out = {0};
    struct walk w = {.t = t, .near = train_program_near(trial->main.program)};
    enum ebb_status status = ebb_new(&w.kind, t->storage_count, 1, err);
    EBB_THEN(status, ebb_new(&w.is_in, t->storage_count, 1, err));
    EBB_THEN(status, explain(trial, &w, arena, &out, err));
    ebb_free(w.kind);
    ebb_free(w.is_in);
    if (status == EBB_OK)
        *explained = out;
    return status;
}

/* ---- as the budget makes it ----------------------------------------------------------------- */

struct stage { /* of the walk over a plan */
    struct walk *w;
    struct train_managed *m;
    uint32_t *places; /* per storage: how often it is placed from here on */
    uint64_t away, sent[DEVICE_TIERS], fetched[DEVICE_TIERS];
    size_t evictions, copies;
    struct plan_walk walk; /* what lies below */
};

_Static_assert((int)TRAIN_TIERS == (int)DEVICE_TIERS, "tiers");

static void note_run(struct stage *s, uint32_t op, bool is_again)
{
    struct train_run *run = &s->m->runs[s->m->count];
    *run = (struct train_run){.away_bytes = s->away, .op = op, .is_again = is_again};
    memcpy(run->kinds, s->w->now, sizeof run->kinds);
    memcpy(run->below_bytes, s->walk.tier_bytes, sizeof run->below_bytes);
    memcpy(run->sent_bytes, s->sent, sizeof run->sent_bytes);
    memcpy(run->fetched_bytes, s->fetched, sizeof run->fetched_bytes);
    run->below_bytes[DEVICE_T0] = 0;
    s->m->evictions[s->m->count] = s->evictions;
    s->m->copies[s->m->count++] = s->copies;
    s->m->again += is_again;
    if (total(run->kinds) > s->m->peak_bytes)
        s->m->peak_bytes = total(run->kinds);
}

static void apply_step(struct stage *s, const struct plan_step *step, uint32_t *run_counts)
{
    const struct trace *t = s->w->t;
    uint32_t i = step->index;
    switch ((enum plan_act)step->act) {
    case PLAN_PLACE:
        s->places[i]--;
        if (s->w->is_in[i] == 2)
            s->away -= size_of(s->w, i);
        s->w->is_in[i] = 0;
        enter(s->w, i);
        break;
    case PLAN_DROP:
        leave(s->w, i);
        if (s->places[i] > 0) {
            s->evictions++;
            s->away += size_of(s->w, i);
            s->w->is_in[i] = 2; /* away */
        }
        break;
    case PLAN_SEND:
        s->sent[step->tier] += t->storages[i].bytes;
        s->copies++;
        break;
    case PLAN_FETCH:
        s->fetched[step->tier] += t->storages[i].bytes;
        s->copies++;
        break;
    case PLAN_RUN:
        run_counts[i]++;
        if (t->ops[i].is_leaf || step->tier) /* the host's ops take nothing of the device */
            break;
        s->w->now[TRAIN_KIND_WORKSPACE] = plan_round(t->ops[i].workspace_bytes);
        note_run(s, i, run_counts[i] > 1);
        s->w->now[TRAIN_KIND_WORKSPACE] = 0;
        break;
    case PLAN_FORGET:
    case PLAN_ROOM:
    case PLAN_MOVE:
        break;
    }
}

static enum ebb_status manage(const struct train_trial *trial, struct walk *w,
                              struct ebb_arena *arena, struct train_managed *m,
                              struct ebb_error *err)
{
    const struct plan *plan = train_program_plan(trial->main.program);
    struct stage s = {.w = w, .m = m};
    size_t runs = 0;
    uint32_t *counts = ebb_arena_calloc(arena, (size_t)w->t->op_count + 1, sizeof *counts);
    s.places = ebb_arena_calloc(arena, (size_t)w->t->storage_count + 1, sizeof *s.places);
    EBB_TRY(ebb_arena_status(arena, err));
    for (size_t i = 0; i < plan->step_count; i++) {
        runs += plan->steps[i].act == PLAN_RUN;
        if (plan->steps[i].act == PLAN_PLACE)
            s.places[plan->steps[i].index]++;
    }
    m->runs = ebb_arena_calloc(arena, runs + 1, sizeof *m->runs);
    m->evictions = ebb_arena_calloc(arena, runs + 1, sizeof *m->evictions);
    m->copies = ebb_arena_calloc(arena, runs + 1, sizeof *m->copies);
    m->how = train_program_info(trial->main.program)->how;
    EBB_TRY(ebb_arena_status(arena, err));
    EBB_TRY(classify(trial, w, err));
    EBB_TRY(plan_walk_init(&s.walk, w->t, plan, err));
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < plan->step_count && status == EBB_OK; i++) {
        status = plan_walk_step(&s.walk, i, err);
        apply_step(&s, &plan->steps[i], counts);
    }
    plan_walk_fini(&s.walk);
    return status;
}

enum ebb_status train_trial_managed(const struct train_trial *trial, struct ebb_arena *arena,
                                    struct train_managed *managed, struct ebb_error *err)
{
    const struct trace *t = train_trial_trace(trial);
    struct train_managed out = {0};
    struct walk w = {.t = t, .near = train_program_near(trial->main.program)};
    enum ebb_status status = ebb_new(&w.kind, t->storage_count, 1, err);
    EBB_THEN(status, ebb_new(&w.is_in, t->storage_count, 1, err));
    EBB_THEN(status, manage(trial, &w, arena, &out, err));
    ebb_free(w.kind);
    ebb_free(w.is_in);
    if (status == EBB_OK)
        *managed = out;
    return status;
}

enum ebb_status train_trial_predict(struct train_trial *trial, uint64_t budget_bytes,
                                    const char *policy, struct train_prediction *prediction,
                                    struct ebb_error *err)
{
    struct train_program_info info = {0};
    struct ebb_error why = {0};
    enum ebb_status status =
        train_engine_predict(trial->engine, trial->main.program, budget_bytes, policy, &info, &why);
    *prediction = (struct train_prediction){0};
    if (status == EBB_EBUDGET)
        return EBB_OK;
    if (status != EBB_OK)
        return ebb_fail(err, status, "%s", why.message);
    const struct exec_report *r = &info.report;
    *prediction =
        (struct train_prediction){.is_ok = true,
                                  .overhead = info.overhead,
                                  .ns = r->device_ns > r->clock_ns ? r->device_ns : r->clock_ns,
                                  .peak_bytes = info.peak_bytes,
                                  .stall_ns = info.report.stall_ns,
                                  .swapped_bytes = info.report.swapped_bytes};
    return EBB_OK;
}

/* What a row of a managed step's timeline holds. */
static void write_run(const struct train_managed *m, size_t i, struct ebb_json_writer *w)
{
    const struct train_run *run = &m->runs[i];
    ebb_jsonw_array(w);
    ebb_jsonw_uint(w, i);
    for (int k = 0; k < TRAIN_KINDS; k++)
        ebb_jsonw_uint(w, run->kinds[k]);
    for (int tier = DEVICE_HOST; tier < DEVICE_TIERS; tier++) {
        ebb_jsonw_uint(w, run->below_bytes[tier]);
        ebb_jsonw_uint(w, run->sent_bytes[tier]);
        ebb_jsonw_uint(w, run->fetched_bytes[tier]);
    }
    ebb_jsonw_array_end(w);
}

void train_managed_write(const struct train_managed *m, struct ebb_json_writer *w)
{
    enum { GROUPS = 240 };
    static const char *const below[] = {"host", "to_host", "from_host",
                                        "file", "to_file", "from_file"};
    size_t group = m->count / GROUPS + 1;
    ebb_jsonw_key_array(w, "columns");
    ebb_jsonw_string(w, "run");
    for (int k = 0; k < TRAIN_KINDS; k++)
        ebb_jsonw_string(w, train_kind_names[k]);
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        ebb_jsonw_string(w, below[i]);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key_array(w, "timeline");
    for (size_t first = 0; first < m->count; first += group) {
        size_t best = first;
        for (size_t i = first; i < first + group && i < m->count; i++)
            if (total(m->runs[i].kinds) > total(m->runs[best].kinds))
                best = i;
        write_run(m, best, w);
    }
    ebb_jsonw_array_end(w);
}

void train_timeline_write(const struct train_trial *trial, const struct train_explained *e,
                          struct ebb_json_writer *w)
{
    enum { GROUPS = 240 };
    const struct trace *t = train_trial_trace(trial);
    size_t count = 0, at = 0, best = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < e->moment_count; i++)
        count += !t->ops[i].is_leaf;
    size_t group = count / GROUPS + 1;
    ebb_jsonw_key_array(w, "timeline");
    for (size_t i = 0; i < e->moment_count; i++) {
        if (t->ops[i].is_leaf)
            continue;
        uint64_t sum = 0;
        for (int k = 0; k < TRAIN_KINDS; k++)
            sum += e->moments[i].kinds[k];
        if (at % group == 0 || sum > most) {
            most = sum;
            best = i;
        }
        if (++at % group != 0 && at != count)
            continue;
        ebb_jsonw_array(w);
        ebb_jsonw_uint(w, at - 1);
        for (int k = 0; k < TRAIN_KINDS; k++)
            ebb_jsonw_uint(w, e->moments[best].kinds[k]);
        ebb_jsonw_array_end(w);
    }
    ebb_jsonw_array_end(w);
}
