/* results_file.c - results as JSON, in the published schema. */
#include "harness/results.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/file.h"

#define MAX_BYTES ((size_t)64 << 20)
enum { MOST_SETTINGS = 20000 }; /* whoever asks for baselines and neighbours goes through all */
#define NOT_MEASURED (-1e-6)    /* S1 */
#define GRADIENTS "gradients_sha256"
#define DECIDED "decided_by"

static const char *const texts[] = {"timestamp", "start_time", "end_time", "time_delta"};
enum { TEXTS = 4 };

static const char **text_place(struct harness_results *r, int which)
{
    const char **const places[TEXTS] = {&r->timestamp, &r->start_time, &r->end_time,
                                        &r->time_delta};
    return places[which];
}

/* ---- reading --------------------------------------------------------------------------------- */

static enum ebb_status refuse(const struct harness_results *r, const struct ebb_doc_node *node,
                              const char *what, struct ebb_error *err)
{
    return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: found %s where results have %s", r->file,
                    node->line, node->column, ebb_doc_kind_text(node->kind), what);
}

static double number_or_nan(const struct ebb_doc_node *node)
{
    bool is_number = node && (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE);
    return is_number ? node->number : NAN;
}

static void read_pair(const struct ebb_doc_node *map, const char *key, double pair[2])
{
    const struct ebb_doc_node *list = ebb_doc_get(map, key);
    bool is_pair = list && list->kind == EBB_DOC_LIST && list->count == 2;
    for (size_t i = 0; i < 2; i++)
        pair[i] = is_pair ? number_or_nan(list->items[i]) : NAN;
}

static struct harness_figure read_figure(const struct ebb_doc_node *map)
{
    struct harness_figure f = {NAN, NAN, NAN, {NAN, NAN}, {NAN, NAN}};
    double mean = number_or_nan(ebb_doc_get(map, "mean"));
    if (isnan(mean) || mean == NOT_MEASURED)
        return f;
    f.mean = mean;
    f.median = number_or_nan(ebb_doc_get(map, "median"));
    f.std = number_or_nan(ebb_doc_get(map, "std"));
    read_pair(map, "mean_conf", f.mean_conf);
    read_pair(map, "median_conf", f.median_conf);
    return f;
}

static void read_input(const struct ebb_doc_node *map, struct harness_input *input)
{
    *input = (struct harness_input){.rep_count = (size_t)ebb_doc_int(map, "n_reps", 0),
                                    .seed = (uint64_t)ebb_doc_int(map, "seed", 0)};
    for (int m = 0; m < HARNESS_MEASURES; m++)
        input->figures[m] = read_figure(ebb_doc_get(map, harness_measure_info[m].name));
    snprintf(input->gradients, sizeof input->gradients, "%s", ebb_doc_string(map, GRADIENTS, ""));
    snprintf(input->decided_by, sizeof input->decided_by, "%s", ebb_doc_string(map, DECIDED, ""));
}

static enum ebb_status read_summary(struct ebb_arena *arena, const struct harness_results *r,
                                    const struct ebb_doc_node *map, struct harness_setting *s,
                                    struct ebb_error *err)
{
    const struct ebb_doc_node *summary = ebb_doc_get(map, "summary");
    if (!summary)
        return refuse(r, map, "a setting with a summary", err);
    if (summary->kind == EBB_DOC_STRING) {
        s->error = ebb_doc_string(map, "error", summary->text);
        return EBB_OK;
    }
    if (summary->kind != EBB_DOC_LIST)
        return refuse(r, summary, "\"error\" or a list with one summary per input", err);
    s->inputs = ebb_arena_calloc(arena, summary->count + 1, sizeof *s->inputs);
    if (!s->inputs)
        return ebb_no_memory(err, summary->count * sizeof *s->inputs);
    for (size_t i = 0; i < summary->count; i++) {
        if (summary->items[i]->kind != EBB_DOC_MAP)
            return refuse(r, summary->items[i], "the summary of one input", err);
        read_input(summary->items[i], &s->inputs[i]);
    }
    s->input_count = summary->count;
    return EBB_OK;
}

static enum ebb_status read_model(struct ebb_arena *arena, struct harness_results *r,
                                  const char *model, const struct ebb_doc_node *list,
                                  struct ebb_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct ebb_doc_node *map = list->items[i];
        const struct ebb_doc_node *params = ebb_doc_get(map, "specific_params");
        if (!params || params->kind != EBB_DOC_MAP)
            return refuse(r, params ? params : map, "a setting with its specific_params", err);
        if (r->count == MOST_SETTINGS)
            return ebb_fail(err, EBB_EINPUT, "%s:%u:%u: more than %d settings", r->file, map->line,
                            map->column, MOST_SETTINGS);
        struct harness_setting *s = harness_results_add(arena, r, model, params);
        if (!s)
            return ebb_no_memory(err, sizeof *s);
        s->command_id = ebb_doc_int(map, "command_id", 0);
        s->num_retries = ebb_doc_int(map, "num_retries", -1);
        EBB_TRY(read_summary(arena, r, map, s, err));
    }
    return EBB_OK;
}

static enum ebb_status read_root(struct ebb_arena *arena, const struct ebb_doc_node *root,
                                 struct harness_results *r, struct ebb_error *err)
{
    if (root->kind != EBB_DOC_MAP)
        return refuse(r, root, "a mapping of models", err);
    for (int i = 0; i < TEXTS; i++)
        *text_place(r, i) = ebb_doc_string(root, texts[i], NULL);
    r->machine = ebb_doc_get(root, "machine");
    for (size_t i = 0; i < root->count; i++)
        if (root->items[i]->kind == EBB_DOC_LIST)
            EBB_TRY(read_model(arena, r, root->keys[i]->text, root->items[i], err));
    return r->count ? EBB_OK
                    : ebb_fail(err, EBB_EINPUT, "%s: no settings: not the results of a measurement",
                               r->file);
}

enum ebb_status harness_results_parse(struct ebb_arena *arena, const char *name, const char *bytes,
                                      size_t length, struct harness_results *results,
                                      struct ebb_error *err)
{
    const struct ebb_doc_node *root;
    struct harness_results r = {.file = ebb_arena_strndup(arena, name, strlen(name))};
    if (!r.file)
        return ebb_no_memory(err, strlen(name));
    EBB_TRY(ebb_doc_parse_json(arena, name, bytes, length, &root, err));
    EBB_TRY(read_root(arena, root, &r, err));
    *results = r;
    return EBB_OK;
}

enum ebb_status harness_results_read(struct ebb_arena *arena, const char *path,
                                     struct harness_results *results, struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, MAX_BYTES, err));
    enum ebb_status status =
        harness_results_parse(arena, path, view.data, view.length, results, err);
    ebb_file_view_close(&view);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_pair(struct ebb_json_writer *w, const char *key, const double pair[2])
{
    if (isnan(pair[0]))
        return;
    ebb_jsonw_key_array(w, key);
    ebb_jsonw_double(w, pair[0]);
    ebb_jsonw_double(w, pair[1]);
    ebb_jsonw_array_end(w);
}

/* Published measures are always there. */
static void write_figure(struct ebb_json_writer *w, int m, const struct harness_figure *f)
{
    static const struct harness_figure none = {
        NOT_MEASURED, NOT_MEASURED, 0, {NAN, NAN}, {NAN, NAN}};
    bool is_measured = harness_is_measured(f);
    if (!is_measured && m > HARNESS_MEMORY_BUDGET)
        return;
    f = is_measured ? f : &none;
    ebb_jsonw_key_object(w, harness_measure_info[m].name);
    ebb_jsonw_key_double(w, "mean", f->mean);
    ebb_jsonw_key_double(w, "median", f->median);
    ebb_jsonw_key_double(w, "std", f->std);
    write_pair(w, "mean_conf", f->mean_conf);
    write_pair(w, "median_conf", f->median_conf);
    ebb_jsonw_object_end(w);
}

static void write_setting(struct ebb_json_writer *w, const struct harness_setting *s)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key_int(w, "command_id", s->command_id);
    ebb_jsonw_key_uint_or_null(w, "num_retries", (uint64_t)s->num_retries, s->num_retries >= 0);
    ebb_doc_write_key(s->params, w, "specific_params");
    if (s->error) {
        ebb_jsonw_key_string(w, "summary", "error");
        ebb_jsonw_key_string(w, "error", s->error);
        ebb_jsonw_object_end(w);
        return;
    }
    ebb_jsonw_key_array(w, "summary");
    for (size_t i = 0; i < s->input_count; i++) {
        const struct harness_input *input = &s->inputs[i];
        ebb_jsonw_object(w);
        for (int m = 0; m < HARNESS_MEASURES; m++)
            write_figure(w, m, &input->figures[m]);
        ebb_jsonw_key_uint(w, "n_reps", input->rep_count);
        ebb_jsonw_key_uint(w, "seed", input->seed);
        if (input->gradients[0])
            ebb_jsonw_key_string(w, GRADIENTS, input->gradients);
        if (input->decided_by[0])
            ebb_jsonw_key_string(w, DECIDED, input->decided_by);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    ebb_jsonw_object_end(w);
}

void harness_results_format(const struct harness_results *results, struct ebb_str *out)
{
    struct harness_results r = *results;
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, out, 1);
    ebb_jsonw_object(&w);
    for (int i = 0; i < TEXTS; i++)
        if (*text_place(&r, i))
            ebb_jsonw_key_string(&w, texts[i], *text_place(&r, i));
    if (r.machine)
        ebb_doc_write_key(r.machine, &w, "machine");
    for (size_t at = 0, end; at < r.count; at = end) {
        end = harness_model_end(&r, at);
        ebb_jsonw_key_array(&w, r.settings[at].model);
        for (size_t i = at; i < end; i++)
            write_setting(&w, &r.settings[i]);
        ebb_jsonw_array_end(&w);
    }
    ebb_jsonw_object_end(&w);
    ebb_str_addc(out, '\n');
}

enum ebb_status harness_results_write(const struct harness_results *results, const char *path,
                                      struct ebb_error *err)
{
    struct ebb_str out;
    ebb_str_init(&out);
    harness_results_format(results, &out);
    enum ebb_status status = ebb_str_status(&out, err);
    EBB_THEN(status, ebb_file_write_atomic(path, ebb_str_c(&out), out.length, err));
    ebb_str_fini(&out);
    return status;
}
