/* cmd_explain.c - ebb explain: where every byte of a training step goes, the
 * smallest memory it can run in, and what smaller budgets cost. Needs neither
 * the memory nor the data. */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "cli/train_file.h"
#include "cli/json.h"
#include "exec/exec.h"
#include "plot/plot.h"

enum { MOST_BUDGETS = 12, MOST_POLICIES = 9, SHOWN_LAYERS = 12 };
#define MANY_OPS 10000 /* from here on policies are tried when they are named: each takes long */
#define NO_POLICY "default"

struct settings {
    struct cli_train_changes changes;
    struct cli_list policies, budgets;
    const char *output;
    int64_t layers;
    bool is_json, no_chart;
};

struct view {
    const struct settings *o;
    const char *path;
    struct cli_train_file *file;
    struct train_trial *trial;
    struct train_explained e;
    struct train_state st;
    uint64_t floor_bytes;
    uint64_t budgets[MOST_BUDGETS];
    size_t budget_count;
    const char *policies[MOST_POLICIES]; /* the first is what training does without one */
    size_t policy_count;
    struct train_prediction cells[MOST_POLICIES][MOST_BUDGETS];
    struct train_managed managed; /* in the first budget asked for; count 0: none was */
};

/* ---- the sweep ------------------------------------------------------------------------------- */

static int choose_policies(struct view *v)
{
    static const char *const usual[] = {"dtr_eq", "dtr", "lru", "largest"};
    const struct cli_list *asked = &v->o->policies;
    size_t few = v->e.moment_count < MANY_OPS ? sizeof usual / sizeof *usual : 0;
    size_t count = asked->count ? asked->count : few;
    v->policies[v->policy_count++] = NO_POLICY;
    for (size_t i = 0; i < count; i++) {
        const char *name = asked->count ? asked->items[i] : usual[i];
        const struct mem_policy *policy = mem_policy_find(name);
        if (!policy)
            return cli_usage_error("--policy %s: no online policy; 'ebb sim --help' lists them",
                                   name);
        if (v->policy_count == MOST_POLICIES)
            return cli_usage_error("--policy: more than %d", MOST_POLICIES - 1);
        v->policies[v->policy_count++] = policy->name;
    }
    return -1;
}

/* From everything down to the floor, unless the user names budgets. */
static int choose_budgets(struct view *v)
{
    static const double parts[] = {1, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05, 0};
    struct ebb_error err = {0};
    for (size_t i = 0; i < v->o->budgets.count; i++) {
        if (v->budget_count == MOST_BUDGETS)
            return cli_usage_error("--budget: more than %d", MOST_BUDGETS);
        if (ebb_parse_bytes(v->o->budgets.items[i], &v->budgets[v->budget_count++], &err) != EBB_OK)
            return cli_report(&err);
    }
    if (v->budget_count)
        return -1;
    double room = (double)v->st.unlimited_bytes - (double)v->floor_bytes;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint64_t bytes = v->floor_bytes + (uint64_t)(parts[i] * (room > 0 ? room : 0));
        bytes = (bytes + 255) / 256 * 256;
        if (!v->budget_count || bytes < v->budgets[v->budget_count - 1])
            v->budgets[v->budget_count++] = bytes;
    }
    return -1;
}

static enum ebb_status sweep(struct view *v, struct ebb_error *err)
{
    for (size_t p = 0; p < v->policy_count; p++)
        for (size_t b = 0; b < v->budget_count; b++)
            EBB_TRY(train_trial_predict(v->trial, v->budgets[b], p ? v->policies[p] : NULL,
                                        &v->cells[p][b], err));
    return EBB_OK;
}

/* ---- words ----------------------------------------------------------------------------------- */

static void print_kinds(const struct view *v)
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

static void print_layers(const struct view *v)
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

static bool has_tiers(const struct view *v)
{
    return v->file->config.host_bytes || v->file->config.file_bytes;
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

static void print_sweep(const struct view *v)
{
    const char *headers[4 + MOST_POLICIES] = {"budget", "of all"};
    char text[32];
    size_t count = 2 + v->policy_count;
    for (size_t p = 0; p < v->policy_count; p++)
        headers[2 + p] = v->policies[p];
    if (has_tiers(v)) { /* of the first column, which is the default */
        headers[count++] = "copied";
        headers[count++] = "stalls";
    }
    struct cli_table *table = cli_table_create(headers, count);
    for (size_t b = 0; b < v->budget_count; b++) {
        cli_table_cell(table, "%s", ebb_format_bytes(v->budgets[b], text, sizeof text));
        cli_table_cell(table, "%.0f%%",
                       100.0 * (double)v->budgets[b] / (double)v->st.unlimited_bytes);
        for (size_t p = 0; p < v->policy_count; p++)
            cli_table_cell(table, v->cells[p][b].is_ok ? "%.3fx" : "-", v->cells[p][b].overhead);
        if (!has_tiers(v))
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

static size_t advise(const struct view *v, struct advice advice[4])
{
    const struct train_config *c = &v->file->config;
    size_t count = 0, states = optim_state_count(&c->optim);
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
    if (c->batch_size > 1 && half) {
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

/* Which times are estimates, where a profile decides. */
static void print_fitted(const struct view *v)
{
    struct train_fitted list[MOST_FITTED];
    uint64_t all, ns = 0;
    char text[32];
    if (!v->file->config.costs && !v->file->config.device)
        return;
    size_t count = train_trial_fitted(v->trial, list, MOST_FITTED, &all);
    for (size_t i = 0; i < count; i++)
        ns += list[i].ns;
    printf("\nTimes are measured for %.0f %% of the step and fitted for the rest",
           all ? 100.0 - 100.0 * (double)ns / (double)all : 100.0);
    for (size_t i = 0; i < count; i++)
        printf("%s%s (%" PRIu32 ", %s)", i ? ", " : ": ", list[i].kind, list[i].count,
               ebb_format_ns(list[i].ns, text, sizeof text));
    printf(".\n");
}

static void print_text(const struct view *v)
{
    char a[32], b[32], c[32];
    static const char *const phases[] = {"forward", "backward", "update"};
    struct advice advice[4] = {0};
    printf("%s: %s, batch %" PRId64 ", %" PRId64 " parameters, %zu ops in a step\n", v->path,
           train_task_name(v->file->config.task), v->file->config.batch_size, v->st.parameters,
           v->e.moment_count);
    printf("without limit %s, floor %s; %s always there\n\n",
           ebb_format_bytes(v->st.unlimited_bytes, a, sizeof a),
           ebb_format_bytes(v->floor_bytes, b, sizeof b),
           ebb_format_bytes(v->st.persistent_bytes, c, sizeof c));
    const struct train_config *config = &v->file->config;
    if (has_tiers(v)) {
        print_tier("host", config->host_bytes, config->link.host_rate);
        print_tier("file", config->file_bytes, config->link.file_rate);
        printf("The floor is with these tiers, weights and states below included.\n\n");
    }
    print_kinds(v);
    printf("\nThe peak is at op %u of the step, %s in the %s pass%s%s.\n\n", v->e.peak_op,
           v->e.peak_name, phases[v->e.peak_phase], *v->e.peak_layer ? ", " : "", v->e.peak_layer);
    print_layers(v);
    printf("\nPredicted time over time without limit:\n");
    print_sweep(v);
    printf("\n'%s' is what 'ebb train' does without --policy: planner unified, the fastest of "
           "several\nplans. Where a policy finds no way ('-'), training does that, too.\n",
           NO_POLICY);
    if (v->policy_count == 1)
        printf("Policies are predicted for a step of so many ops when they are named: --policy "
               "dtr_eq,lru\n");
    print_fitted(v);
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

static void print_json(const struct view *v)
{
    struct cli_json json;
    struct advice advice[4] = {0};
    size_t advice_count = advise(v, advice);
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "file", v->path);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"parameters", (uint64_t)v->st.parameters},   {"ops", v->e.moment_count},
                   {"unlimited_bytes", v->st.unlimited_bytes},   {"floor_bytes", v->floor_bytes},
                   {"persistent_bytes", v->st.persistent_bytes}, {"peak_bytes", v->e.peak_bytes}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ebb_jsonw_key_uint(w, numbers[i].key, numbers[i].value);
    if (has_tiers(v)) {
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
    ebb_jsonw_key_array(w, "budgets");
    for (size_t p = 0; p < v->policy_count; p++)
        for (size_t b = 0; b < v->budget_count; b++) {
            ebb_jsonw_object(w);
            ebb_jsonw_key_string(w, "policy", v->policies[p]);
            ebb_jsonw_key_uint(w, "budget_bytes", v->budgets[b]);
            ebb_jsonw_key_double(w, "overhead",
                                 v->cells[p][b].is_ok ? v->cells[p][b].overhead : NAN);
            ebb_jsonw_key_double(w, "predicted_ms",
                                 v->cells[p][b].is_ok ? (double)v->cells[p][b].ns * 1e-6 : NAN);
            if (has_tiers(v)) {
                ebb_jsonw_key_uint(w, "swapped_bytes", v->cells[p][b].swapped_bytes);
                ebb_jsonw_key_double(w, "stall_ms", (double)v->cells[p][b].stall_ns / 1e6);
            }
            ebb_jsonw_object_end(w);
        }
    ebb_jsonw_array_end(w);
    if (v->file->config.costs || v->file->config.device) {
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

/* ---- pictures -------------------------------------------------------------------------------- */

enum { POINTS = 400 };

/* Bytes by kind over the step (largest of each group of ops); time over budget; where a budget was
 * asked for, between them the step as it runs inside it. */
struct picture {
    double x[POINTS], y[TRAIN_KINDS][POINTS];
    double run[POINTS], held[TRAIN_KINDS][POINTS], with_away[POINTS];
    double events[3][POINTS];
    struct plot_series managed[TRAIN_KINDS + 1], counts[3];
    struct plot_mark budget_mark[1];
    double budget[MOST_BUDGETS], over[MOST_POLICIES][MOST_BUDGETS];
    struct plot_series kinds[TRAIN_KINDS], lines[MOST_POLICIES];
    struct plot_mark marks[2], floor_mark[1];
    double below[2][POINTS], carried[4][POINTS];
    struct plot_series tiers[2], links[4];
    struct plot_panel panels[6];
    char title[200], managed_title[160];
    double peak; /* x of the peak */
};

static uint64_t moment_bytes(const struct view *v, size_t op)
{
    uint64_t sum = 0;
    for (int k = 0; k < TRAIN_KINDS; k++)
        sum += v->e.moments[op].kinds[k];
    return sum;
}

/* Leaves take no time: they are left out. x counts the ops that compute. */
static void draw_step(const struct view *v, struct picture *pic, double unit)
{
    const struct trace *t = train_trial_trace(v->trial);
    size_t count = 0, n = 0, at = 0;
    for (size_t i = 0; i < v->e.moment_count; i++)
        count += !t->ops[i].is_leaf;
    size_t group = count / POINTS + 1;
    uint64_t most = 0;
    for (size_t i = 0; i < v->e.moment_count; i++) {
        if (t->ops[i].is_leaf)
            continue;
        if (i == v->e.peak_op)
            pic->peak = (double)at;
        if (at % group == 0) {
            pic->x[n++] = (double)at;
            most = 0;
        }
        at++;
        if (moment_bytes(v, i) < most)
            continue;
        most = moment_bytes(v, i);
        for (int k = 0; k < TRAIN_KINDS; k++)
            pic->y[k][n - 1] = (double)v->e.moments[i].kinds[k] / unit;
    }
    for (int k = 0; k < TRAIN_KINDS; k++)
        pic->kinds[k] = (struct plot_series){.name = train_kind_names[k],
                                             .style = PLOT_AREA,
                                             .x = pic->x,
                                             .y = pic->y[k],
                                             .count = n};
}

static uint64_t run_bytes(const struct train_run *run)
{
    uint64_t sum = 0;
    for (int k = 0; k < TRAIN_KINDS; k++)
        sum += run->kinds[k];
    return sum;
}

/* The same of a step inside a budget; what was evicted and is wanted again lies above. */
static size_t draw_managed(const struct view *v, struct picture *pic, double unit)
{
    const struct train_managed *m = &v->managed;
    size_t group = m->count / POINTS + 1, n = 0, again = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct train_run *run = &m->runs[i];
        again += run->is_again;
        if (i % group == 0) {
            pic->run[n++] = (double)i;
            most = 0;
        }
        pic->events[0][n - 1] = (double)m->evictions[i];
        pic->events[1][n - 1] = (double)again;
        pic->events[2][n - 1] = (double)m->copies[i];
        if (run_bytes(run) < most)
            continue;
        most = run_bytes(run);
        pic->with_away[n - 1] = (double)(most + run->away_bytes) / unit;
        for (int k = 0; k < TRAIN_KINDS; k++)
            pic->held[k][n - 1] = (double)run->kinds[k] / unit;
    }
    for (int k = 0; k < TRAIN_KINDS; k++)
        pic->managed[k] = (struct plot_series){.name = train_kind_names[k],
                                               .style = PLOT_AREA,
                                               .x = pic->run,
                                               .y = pic->held[k],
                                               .count = n};
    pic->managed[TRAIN_KINDS] = (struct plot_series){.name = "with what is evicted",
                                                     .style = PLOT_LINE,
                                                     .x = pic->run,
                                                     .y = pic->with_away,
                                                     .count = n,
                                                     .color = "#444444",
                                                     .is_dashed = true};
    return n;
}

static size_t draw_events(const struct view *v, struct picture *pic, size_t n)
{
    static const char *const names[] = {"evictions", "ops run again", "copies between tiers"};
    static const char *const colors[] = {"#d55e00", "#0072b2", "#009e73"};
    size_t used = 0;
    for (size_t k = 0; k < 3; k++)
        if (k < 2 || v->managed.copies[v->managed.count - 1] > 0)
            pic->counts[used++] = (struct plot_series){.name = names[k],
                                                       .style = PLOT_LINE,
                                                       .x = pic->run,
                                                       .y = pic->events[k],
                                                       .count = n,
                                                       .color = colors[k]};
    return used;
}

/* Bytes below, of the tiers that there are, and what their links have carried. */
static void add_tiers(const struct view *v, struct picture *pic, bool is_large, double unit)
{
    static const char *const names[] = {"host", "file"};
    static const char *const ways[][2] = {{"to host", "from host"}, {"to file", "from file"}};
    static const char *const colors[] = {"#0072b2", "#56b4e9", "#d55e00", "#e69f00"};
    const struct train_config *c = &v->file->config;
    const struct train_managed *m = &v->managed;
    size_t group = m->count / POINTS + 1, n = 0, tiers = 0, links = 0;
    for (size_t i = 0; i < m->count; i++) {
        n += i % group == 0;
        for (int k = 0; k < 2; k++) {
            double below = (double)m->runs[i].below_bytes[DEVICE_HOST + k] / unit;
            if (i % group == 0 || below > pic->below[k][n - 1])
                pic->below[k][n - 1] = below;
            pic->carried[2 * k][n - 1] = (double)m->runs[i].sent_bytes[DEVICE_HOST + k] / unit;
            pic->carried[2 * k + 1][n - 1] =
                (double)m->runs[i].fetched_bytes[DEVICE_HOST + k] / unit;
        }
    }
    for (int k = 0; k < 2; k++) {
        if ((k ? c->file_bytes : c->host_bytes) == 0)
            continue;
        pic->tiers[tiers++] = (struct plot_series){.name = names[k],
                                                   .style = PLOT_AREA,
                                                   .x = pic->run,
                                                   .y = pic->below[k],
                                                   .count = n,
                                                   .color = colors[2 * k]};
        for (int way = 0; way < 2; way++)
            pic->links[links++] = (struct plot_series){.name = ways[k][way],
                                                       .style = PLOT_LINE,
                                                       .x = pic->run,
                                                       .y = pic->carried[2 * k + way],
                                                       .count = n,
                                                       .color = colors[2 * k + way]};
    }
    pic->panels[4] = (struct plot_panel){.title = "Bytes in lower tiers",
                                         .x_label = "op in the order they run, again included",
                                         .y_label = is_large ? "GiB" : "MiB",
                                         .series = pic->tiers,
                                         .series_count = tiers,
                                         .is_stacked = true};
    pic->panels[5] = (struct plot_panel){.title = "Copied over the links so far",
                                         .x_label = "op in the order they run, again included",
                                         .y_label = is_large ? "GiB" : "MiB",
                                         .series = pic->links,
                                         .series_count = links};
}

static void add_managed(const struct view *v, struct picture *pic, bool is_large, double unit)
{
    size_t n = draw_managed(v, pic, unit), used = draw_events(v, pic, n);
    char budget[32];
    ebb_format_bytes(v->budgets[0], budget, sizeof budget);
    snprintf(pic->managed_title, sizeof pic->managed_title, "The step in %s, by %s", budget,
             v->managed.how);
    pic->budget_mark[0] = (struct plot_mark){.at = (double)v->budgets[0] / unit,
                                             .is_dashed = true,
                                             .label = "budget",
                                             .color = "#d62728"};
    pic->panels[2] = (struct plot_panel){.title = pic->managed_title,
                                         .x_label = "op in the order they run, again included",
                                         .y_label = is_large ? "GiB" : "MiB",
                                         .series = pic->managed,
                                         .series_count = TRAIN_KINDS + 1,
                                         .marks = pic->budget_mark,
                                         .mark_count = 1,
                                         .is_stacked = true};
    pic->panels[3] = (struct plot_panel){.title = "Evictions and reruns so far",
                                         .x_label = "op in the order they run, again included",
                                         .y_label = "count",
                                         .series = pic->counts,
                                         .series_count = used};
}

static void draw_sweep(const struct view *v, struct picture *pic, double unit)
{
    for (size_t b = 0; b < v->budget_count; b++)
        pic->budget[b] = (double)v->budgets[b] / unit;
    for (size_t p = 0; p < v->policy_count; p++) {
        for (size_t b = 0; b < v->budget_count; b++)
            pic->over[p][b] = v->cells[p][b].is_ok ? v->cells[p][b].overhead : NAN;
        pic->lines[p] = (struct plot_series){.name = v->policies[p],
                                             .style = PLOT_LINE_POINTS,
                                             .x = pic->budget,
                                             .y = pic->over[p],
                                             .count = v->budget_count,
                                             .color = p == 0 ? "#222222" : NULL};
    }
}

static enum ebb_status draw(const struct view *v, struct ebb_error *err)
{
    struct picture *pic = ebb_calloc(1, sizeof *pic);
    struct ebb_str text = {0};
    if (!pic)
        return ebb_no_memory(err, sizeof *pic);
    bool is_large = v->e.peak_bytes >= (UINT64_C(10) << 30);
    double unit = is_large ? 1024.0 * 1024 * 1024 : 1024.0 * 1024;
    draw_step(v, pic, unit);
    draw_sweep(v, pic, unit);
    pic->marks[0] = (struct plot_mark){
        .at = (double)v->floor_bytes / unit, .is_dashed = true, .label = "floor"};
    pic->marks[1] = (struct plot_mark){
        .at = pic->peak, .is_vertical = true, .is_dashed = true, .label = "peak"};
    pic->floor_mark[0] = pic->marks[0];
    pic->floor_mark[0].is_vertical = true;
    pic->panels[0] = (struct plot_panel){.title = "Bytes over one training step",
                                         .x_label = "op of the step (without leaves)",
                                         .y_label = is_large ? "GiB" : "MiB",
                                         .series = pic->kinds,
                                         .series_count = TRAIN_KINDS,
                                         .marks = pic->marks,
                                         .mark_count = 2,
                                         .is_stacked = true};
    pic->panels[1] = (struct plot_panel){.title = "Time when the budget is smaller",
                                         .x_label = is_large ? "budget, GiB" : "budget, MiB",
                                         .y_label = "time over time without limit",
                                         .series = pic->lines,
                                         .series_count = v->policy_count,
                                         .marks = pic->floor_mark,
                                         .mark_count = 1};
    snprintf(pic->title, sizeof pic->title, "%s, batch %" PRId64, ebb_file_name(v->path),
             v->file->config.batch_size);
    struct plot_chart chart = {
        .title = pic->title, .panels = pic->panels, .panel_count = 2, .columns = 2};
    if (v->managed.count) {
        add_managed(v, pic, is_large, unit);
        chart.panel_count = 4;
    }
    if (v->managed.count && has_tiers(v)) {
        add_tiers(v, pic, is_large, unit);
        chart.panel_count = 6;
    }
    enum ebb_status status = EBB_OK;
    if (v->o->output) {
        status = plot_write(&chart, v->o->output, err);
    } else {
        chart.panels = v->managed.count ? pic->panels + 2 : pic->panels;
        chart.panel_count = 1;
        status = plot_terminal(&chart, 100, 24, &text, err);
        if (status == EBB_OK)
            printf("\n%s", ebb_str_c(&text));
    }
    ebb_str_fini(&text);
    ebb_free(pic);
    return status;
}

/* The step inside the first budget asked for; below the floor there is none. */
static enum ebb_status manage(struct view *v, struct ebb_error *err)
{
    struct train_config config = v->file->config;
    struct train_options dry = {.is_dry = true};
    struct train_trial *trial = NULL;
    struct ebb_error why = {0};
    if (!v->o->budgets.count)
        return EBB_OK;
    config.budget_bytes = v->budgets[0];
    config.policy = NULL;
    enum ebb_status status = train_trial_create(&trial, &config, &dry, &why);
    if (status == EBB_EBUDGET)
        return EBB_OK;
    if (status != EBB_OK) {
        *err = why;
        return status;
    }
    status = train_trial_managed(trial, &v->file->arena, &v->managed, err);
    if (status == EBB_OK)
        v->managed.how = ebb_arena_printf(&v->file->arena, "%s", v->managed.how);
    train_trial_destroy(trial);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int explain(struct view *v)
{
    struct ebb_error err = {0}, no_data = {0};
    struct train_config config = v->file->config;
    struct train_options dry = {.is_dry = true, .no_data = &no_data};
    config.budget_bytes = UINT64_MAX; /* the budget is what we vary */
    config.policy = NULL;
    enum ebb_status status = train_trial_create(&v->trial, &config, &dry, &err);
    if (no_data.status != EBB_OK)
        fprintf(stderr, "ebb: note: %s; the model's own sizes are used\n", no_data.message);
    EBB_THEN(status, train_trial_explain(v->trial, &v->file->arena, &v->e, &err));
    EBB_THEN(status, train_trial_floor(v->trial, &v->floor_bytes, &err));
    if (status != EBB_OK)
        return cli_report(&err);
    train_trial_state(v->trial, &v->st);
    int code = choose_policies(v);
    if (code < 0)
        code = choose_budgets(v);
    if (code >= 0)
        return code;
    if (sweep(v, &err) != EBB_OK || manage(v, &err) != EBB_OK)
        return cli_report(&err);
    if (v->o->is_json)
        print_json(v);
    else
        print_text(v);
    if ((v->o->output || (!v->o->is_json && !v->o->no_chart)) && draw(v, &err) != EBB_OK)
        return cli_report(&err);
    return 0;
}

static int run(int argc, char **argv)
{
    struct settings o = {.layers = SHOWN_LAYERS};
    o.changes.seed = -1;
    const struct cli_spec spec = {
        .usage = "ebb explain FILE [--budget B[,B...]] [--policy P[,P...]] "
                 "[-o CHART] [--json]",
        .description =
            "Say where every byte of a training step goes: at the "
            "peak by kind (weights, optimizer\n"
            "state, inputs, activations, gradients, workspace) and by "
            "layer; the floor, which is\n"
            "the smallest budget 'ebb train' accepts; the time that "
            "smaller budgets are predicted\n"
            "to cost under several policies; and what would help "
            "most. The model is traced, not\n"
            "run: neither its memory nor its data need be there. With --budget "
            "the chart also shows\n"
            "the step inside the first of them: what lies in memory, what is "
            "evicted, what runs again,\n"
            "and with --host or --file what lies there and what was copied.\n"
            "\n"
            "Examples:\n"
            "  ebb explain exp.yaml\n"
            "  ebb explain exp.yaml --set "
            "hyperparameters.global_batch_size=64 -o memory.svg\n"
            "  ebb explain exp.yaml --budget 24MiB -o step.svg\n"
            "  ebb explain exp.yaml --budget 24MiB --host 1GiB --link host=2 -o step.svg\n",
        CLI_OPTION_ROWS(
            {"budget", 0, CLI_LIST, &o.budgets, "B[,B...]",
             "budgets to predict (default: nine from everything down to the floor)"},
            {"policy", 0, CLI_LIST, &o.policies, "P[,P...]",
             "policies to predict beside what training does without one\n(default: "
             "dtr_eq,dtr,lru,largest; none for 10,000 ops and more)"},
            {"layers", 0, CLI_INT, &o.layers, "N", "rows of the table of layers (default 12)"},
            {"set", 0, CLI_LIST, &o.changes.sets, "KEY=VALUE",
             "change a value of the file, as hyperparameters.global_batch_size=8; "
             "repeatable"},
            CLI_TRAIN_TIERS(&o.changes),
            {"device", 0, CLI_STRING, &o.changes.device, "NAME",
             "cpu, cuda or a kind that is not here: nvidia-h200"},
            {CLI_TRAIN_COSTS(&o.changes)},
            {"threads", 0, CLI_INT, &o.changes.threads, "N",
             "of kernels: workspaces depend on it (default: all cores)"},
            {"output", 'o', CLI_STRING, &o.output, "FILE", "write the chart as .svg, .png or .pdf"},
            {"no-chart", 0, CLI_FLAG, &o.no_chart, NULL, "tables only"},
            {"json", 0, CLI_FLAG, &o.is_json, NULL, "one JSON object"}),
        CLI_NEEDS({"no-chart", "!output json"}, {"layers", "!json"}),
        CLI_LIMITS({"layers", 1, 1e9}, {"threads", 1, 4096}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args = {0};
    struct cli_train_file file;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code < 0) {
        struct view *v = ebb_calloc(1, sizeof *v);
        code = cli_train_open(&file, args.positional[0], &o.changes);
        if (code < 0 && v) {
            v->o = &o;
            v->path = args.positional[0];
            v->file = &file;
            code = explain(v);
            train_trial_destroy(v->trial);
        }
        cli_train_close(&file);
        ebb_free(v);
    }
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_explain = {
    .name = "explain",
    .summary = "where the memory of a training step goes, and what less of it costs",
    .run = run,
};
