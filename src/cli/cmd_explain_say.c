/* cmd_explain_say.c - what `ebb explain` found, as tables and as JSON. */
#include "cli/cmd_explain.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "cli/json.h"

/* ---- words ----------------------------------------------------------------------------------- */

static void print_kinds(const struct explain_view *v)
{
    static const char *const headers[] = {"at the peak", "bytes", "share"};
    struct cli_table *table = cli_table_create(headers, 3);
    char text[32];
    for (int k = 0; k < TRAIN_KINDS; k++) {
        cli_table_cell(table, "%s", train_kind_names[k]);
        cli_table_cell(table, "%s", ebb_format_bytes(v->e.kinds[k], text, sizeof text));
        cli_table_cell(table, "%.1f%%", 100.0 * (double)v->e.kinds[k] / (double)v->e.peak_bytes);
    }
    cli_table_out(table);
}

static void print_layers(const struct explain_view *v)
{
    static const char *const headers[] = {"layer",  "bytes",       "weights",   "optimizer",
                                          "inputs", "activations", "gradients", "workspace"};
    struct cli_table *table = cli_table_create(headers, 2 + TRAIN_KINDS);
    char text[32];
    size_t shown =
        (size_t)v->o->layers < v->e.layer_count ? (size_t)v->o->layers : v->e.layer_count;
    struct train_layer rest = {.name = "(the rest)"};
    for (size_t i = shown; i < v->e.layer_count; i++) {
        rest.bytes += v->e.layers[i].bytes;
        for (int k = 0; k < TRAIN_KINDS; k++)
            rest.kinds[k] += v->e.layers[i].kinds[k];
    }
    for (size_t i = 0; i < shown + (shown < v->e.layer_count); i++) {
        const struct train_layer *layer = i < shown ? &v->e.layers[i] : &rest;
        cli_table_cell(table, "%s", layer->name);
        cli_table_cell(table, "%s", ebb_format_bytes(layer->bytes, text, sizeof text));
        for (int k = 0; k < TRAIN_KINDS; k++)
            cli_table_cell(table, "%s",
                           layer->kinds[k] ? ebb_format_bytes(layer->kinds[k], text, sizeof text)
                                           : "-");
    }
    cli_table_out(table);
}

/* Lower tiers and what copies to them go by; 0: as the profile says. */
static void print_tier(const char *name, uint64_t bytes, double rate)
{
    char text[32];
    if (bytes && rate > 0)
        printf("%s: %s, copies at %g GB/s\n", name, ebb_format_bytes(bytes, text, sizeof text),
               rate);
    else if (bytes)
        printf("%s: %s, copies as the profile has them\n", name,
               ebb_format_bytes(bytes, text, sizeof text));
}

static void print_sweep(const struct explain_view *v)
{
    const char *headers[4 + EXPLAIN_POLICIES] = {"budget", "of all"};
    char text[32];
    size_t count = 2 + v->policy_count;
    for (size_t p = 0; p < v->policy_count; p++)
        headers[2 + p] = v->policies[p];
    if (explain_has_tiers(v)) { /* of the first column, which is the default */
        headers[count++] = "copied";
        headers[count++] = "stalls";
    }
    struct cli_table *table = cli_table_create(headers, count);
    for (size_t b = 0; b < v->budget_count; b++) {
        cli_table_cell(table, "%s", ebb_format_bytes(v->budgets[b], text, sizeof text));
        cli_table_cell(table, "%.0f%%",
                       100.0 * (double)v->budgets[b] / (double)v->st.unlimited_bytes);
        for (size_t p = 0; p < v->policy_count; p++) {
            bool is_known = v->is_done[p][b] && v->cells[p][b].is_ok;
            if (is_known)
                cli_table_cell(table, "%.3fx", v->cells[p][b].overhead);
            else
                cli_table_cell(table, "%s", v->is_done[p][b] ? "-" : "");
        }
        if (!explain_has_tiers(v))
            continue;
        const struct train_prediction *first = &v->cells[0][b];
        cli_table_cell(table, first->is_ok ? "%s" : "-",
                       ebb_format_bytes(first->swapped_bytes, text, sizeof text));
        cli_table_cell(table, first->is_ok ? "%s" : "-",
                       ebb_format_ns(first->stall_ns, text, sizeof text));
    }
    cli_table_out(table);
}

/* What would make the peak smaller, with the bytes it would save, largest
 * first. */
struct advice {
    uint64_t bytes;
    char text[160];
};

/* States of the optimizer per weight: a trace only shows how much larger they are. */
static size_t states_of(const struct explain_view *v)
{
    uint64_t weights = v->e.kinds[TRAIN_KIND_WEIGHTS];
    if (!v->is_trace)
        return optim_state_count(&v->file->config.optim);
    return weights ? (size_t)((v->e.kinds[TRAIN_KIND_STATES] + weights / 2) / weights) : 0;
}

static size_t advise(const struct explain_view *v, struct advice advice[4])
{
    const struct train_config *c = &v->file->config;
    size_t count = 0, states = states_of(v);
    char text[32];
    struct advice found[4] = {0};
    uint64_t half = v->e.batch_bytes / 2;
    uint64_t slack =
        v->st.unlimited_bytes > v->floor_bytes ? v->st.unlimited_bytes - v->floor_bytes : 0;
    if (slack) {
        found[count].bytes = slack;
        snprintf(found[count].text, sizeof found[count].text,
                 "a budget (--budget) can go down to %s without changing a result",
                 ebb_format_bytes(v->floor_bytes, text, sizeof text));
        count++;
    }
    if (v->is_trace && half) {
        found[count].bytes = half;
        snprintf(found[count++].text, sizeof found->text,
                 "half the batch, if it has several samples, and twice as many for an update");
    } else if (c->batch_size > 1 && half) {
        found[count].bytes = half;
        snprintf(found[count].text, sizeof found[count].text,
                 "global_batch_size %" PRId64 " with aggregation_frequency %" PRId64
                 " (the same update where a batch's samples do not meet)",
                 c->batch_size / 2, 2 * c->accumulate);
        count++;
    }
    if (states > 1) {
        found[count].bytes = v->e.kinds[TRAIN_KIND_STATES] / states * (states - 1);
        snprintf(found[count].text, sizeof found[count].text,
                 "an optimizer with one state per weight instead of %zu (SGD with "
                 "momentum)",
                 states);
        count++;
    }
    for (size_t i = 0; i < count; i++) { /* at most four: insertion */
        size_t k = i;
        struct advice one = found[i];
        for (; k > 0 && advice[k - 1].bytes < one.bytes; k--)
            advice[k] = advice[k - 1];
        advice[k] = one;
    }
    return count;
}

#define MOST_FITTED 64

/* Whether times are those of a profile or of a device of its own, and not of an unknown processor. */
static bool has_times(const struct explain_view *v)
{
    const char *device = v->file->config.device;
    return v->st.costs || (device && strcmp(device, "cpu") != 0);
}

/* Of which machine the times are, and how they become those of this one. */
static void print_guessed(const struct explain_view *v)
{
    if (v->file->config.is_builtin || v->is_trace) /* asked for; the trace's own */
        return;
    printf("\nTimes are those of an unknown processor");
    if (v->st.machine_costs)
        printf(": this one's profile knows %.0f %% of the step", 100 * v->st.machine_known);
    printf(".\n'ebb device measure %s", v->path);
    if (v->o->changes.threads)
        printf(" --threads %d", v->st.threads);
    printf("' measures this one in seconds; its times decide from then on.\n");
}

/* Which times are estimates, where a profile decides. */
static void print_fitted(const struct explain_view *v)
{
    struct train_fitted list[MOST_FITTED];
    uint64_t all, ns = 0;
    char text[32];
    if (!has_times(v)) {
        print_guessed(v);
        return;
    }
    size_t count = train_trial_fitted(v->trial, list, MOST_FITTED, &all);
    for (size_t i = 0; i < count; i++)
        ns += list[i].ns;
    printf("\nTimes are measured for %.0f %% of the step and fitted for the rest",
           all ? 100.0 - 100.0 * (double)ns / (double)all : 100.0);
    for (size_t i = 0; i < count; i++)
        printf("%s%s (%" PRIu32 ", %s)", i ? ", " : ": ", list[i].kind, list[i].count,
               ebb_format_ns(list[i].ns, text, sizeof text));
    printf(".\n");
    if (v->st.machine_costs)
        printf("They are this machine's: %s\n", v->st.machine_costs);
}

/* Weights and states; in a trace of another program they may stand anywhere. */
static uint64_t always_there(const struct explain_view *v)
{
    return v->is_trace ? v->e.kinds[TRAIN_KIND_WEIGHTS] + v->e.kinds[TRAIN_KIND_STATES]
                       : v->st.persistent_bytes;
}

static void print_times(const struct explain_view *v)
{
    printf("\nPredicted time over time without limit:\n");
    print_sweep(v);
    printf("\n'%s' is what 'ebb train' does without --policy: planner unified, the fastest of "
           "several\nplans. Where a policy finds no way ('-'), training does that, too.\n",
           EXPLAIN_NO_POLICY);
    if (v->policy_count == 1)
        printf("Policies are predicted for a step of so many ops when they are named: --policy "
               "dtr_eq,lru\n");
    print_fitted(v);
}

void cli_explain_text(const struct explain_view *v)
{
    char a[32], b[32], c[32];
    static const char *const phases[] = {"forward", "backward", "update"};
    struct advice advice[4] = {0};
    if (v->is_trace)
        printf("%s: trace %s, %zu ops in a step, %s of compute\n", v->path,
               train_trial_trace(v->trial)->name, v->e.moment_count,
               ebb_format_ns(v->st.predicted_ns, a, sizeof a));
    else
        printf("%s: %s, batch %" PRId64 ", %" PRId64 " parameters, %zu ops in a step\n", v->path,
               train_task_name(v->file->config.task), v->file->config.batch_size, v->st.parameters,
               v->e.moment_count);
    printf("without limit %s, floor %s; %s always there\n\n",
           ebb_format_bytes(v->st.unlimited_bytes, a, sizeof a),
           ebb_format_bytes(v->floor_bytes, b, sizeof b),
           ebb_format_bytes(always_there(v), c, sizeof c));
    const struct train_config *config = &v->file->config;
    if (explain_has_tiers(v)) {
        print_tier("host", config->host_bytes, config->link.host_rate);
        print_tier("file", config->file_bytes, config->link.file_rate);
        printf("The floor is with these tiers, weights and states below included.\n\n");
    }
    print_kinds(v);
    printf("\nThe peak is at op %u of the step, %s in the %s pass%s%s.\n\n", v->e.peak_op,
           v->e.peak_name, phases[v->e.peak_phase], *v->e.peak_layer ? ", " : "", v->e.peak_layer);
    print_layers(v);
    if (!v->o->is_quick)
        print_times(v);
    const struct train_managed *m = &v->managed;
    if (m->count)
        printf("\nIn %s, by %s: %zu evictions, %zu of %zu ops run again, %zu copies between tiers, "
               "%s at most.\n",
               ebb_format_bytes(v->budgets[0], a, sizeof a), m->how, m->evictions[m->count - 1],
               m->again, m->count - m->again, m->copies[m->count - 1],
               ebb_format_bytes(m->peak_bytes, b, sizeof b));
    size_t count = advise(v, advice);
    if (count)
        printf("\nWhat would help most:\n");
    for (size_t i = 0; i < count; i++)
        printf("  -%s  %s\n", ebb_format_bytes(advice[i].bytes, a, sizeof a), advice[i].text);
}

void cli_explain_json(const struct explain_view *v)
{
    struct cli_json json;
    struct advice advice[4] = {0};
    size_t advice_count = advise(v, advice);
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "file", v->path);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"ops", v->e.moment_count},
                   {"unlimited_bytes", v->st.unlimited_bytes},
                   {"floor_bytes", v->floor_bytes},
                   {"persistent_bytes", always_there(v)},
                   {"peak_bytes", v->e.peak_bytes}};
    if (v->is_trace)
        ebb_jsonw_key_string(w, "trace", train_trial_trace(v->trial)->name);
    else
        ebb_jsonw_key_uint(w, "parameters", (uint64_t)v->st.parameters);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ebb_jsonw_key_uint(w, numbers[i].key, numbers[i].value);
    if (explain_has_tiers(v)) {
        ebb_jsonw_key_uint(w, "host_bytes", v->file->config.host_bytes);
        ebb_jsonw_key_uint(w, "file_bytes", v->file->config.file_bytes);
    }
    ebb_jsonw_key_object(w, "peak");
    for (int k = 0; k < TRAIN_KINDS; k++)
        ebb_jsonw_key_uint(w, train_kind_names[k], v->e.kinds[k]);
    ebb_jsonw_object_end(w);
    ebb_jsonw_key_array(w, "layers");
    for (size_t i = 0; i < v->e.layer_count; i++) {
        ebb_jsonw_object(w);
        ebb_jsonw_key_string(w, "name", v->e.layers[i].name);
        for (int k = 0; k < TRAIN_KINDS; k++)
            ebb_jsonw_key_uint(w, train_kind_names[k], v->e.layers[i].kinds[k]);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    train_timeline_write(v->trial, &v->e, w);
    size_t left_out = 0;
    ebb_jsonw_key_array(w, "budgets");
    for (size_t p = 0; p < v->policy_count; p++)
        for (size_t b = 0; b < v->budget_count; b++) {
            left_out += !v->is_done[p][b];
            if (!v->is_done[p][b])
                continue;
            ebb_jsonw_object(w);
            ebb_jsonw_key_string(w, "policy", v->policies[p]);
            ebb_jsonw_key_uint(w, "budget_bytes", v->budgets[b]);
            ebb_jsonw_key_double(w, "overhead",
                                 v->cells[p][b].is_ok ? v->cells[p][b].overhead : NAN);
            ebb_jsonw_key_double(w, "predicted_ms",
                                 v->cells[p][b].is_ok ? (double)v->cells[p][b].ns * 1e-6 : NAN);
            if (explain_has_tiers(v)) {
                ebb_jsonw_key_uint(w, "swapped_bytes", v->cells[p][b].swapped_bytes);
                ebb_jsonw_key_double(w, "stall_ms", (double)v->cells[p][b].stall_ns / 1e6);
            }
            ebb_jsonw_object_end(w);
        }
    ebb_jsonw_array_end(w);
    if (v->o->seconds > 0)
        ebb_jsonw_key_uint(w, "left_out", left_out);
    if (!v->is_trace)
        ebb_jsonw_key_string(w, "costs", v->st.costs ? v->st.costs : "builtin");
    if (v->st.machine_costs)
        ebb_jsonw_key_double(w, "machine_known", v->st.machine_known);
    if (has_times(v)) {
        struct train_fitted list[MOST_FITTED];
        uint64_t all;
        size_t fitted = train_trial_fitted(v->trial, list, MOST_FITTED, &all);
        ebb_jsonw_key_array(w, "fitted");
        for (size_t i = 0; i < fitted; i++) {
            ebb_jsonw_object(w);
            ebb_jsonw_key_string(w, "kind", list[i].kind);
            ebb_jsonw_key_uint(w, "ops", list[i].count);
            ebb_jsonw_key_double(w, "ms", (double)list[i].ns * 1e-6);
            ebb_jsonw_object_end(w);
        }
        ebb_jsonw_array_end(w);
    }
    const struct train_managed *m = &v->managed;
    if (m->count) {
        ebb_jsonw_key_object(w, "managed");
        ebb_jsonw_key_uint(w, "budget_bytes", v->budgets[0]);
        ebb_jsonw_key_string(w, "how", m->how);
        ebb_jsonw_key_uint(w, "peak_bytes", m->peak_bytes);
        ebb_jsonw_key_uint(w, "runs", m->count);
        ebb_jsonw_key_uint(w, "again", m->again);
        ebb_jsonw_key_uint(w, "evictions", m->evictions[m->count - 1]);
        ebb_jsonw_key_uint(w, "copies", m->copies[m->count - 1]);
        train_managed_write(m, w);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_key_array(w, "advice");
    for (size_t i = 0; i < advice_count; i++) {
        ebb_jsonw_object(w);
        ebb_jsonw_key_uint(w, "bytes", advice[i].bytes);
        ebb_jsonw_key_string(w, "what", advice[i].text);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    cli_json_object_end(&json);
}
