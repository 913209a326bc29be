/* output.c - see output.h. */
#include "harness/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"

/* ---- times ----------------------------------------------------------------------------------- */

void harness_clock_start(struct harness_clock *clock)
{
    clock->start = time(NULL);
    clock->start_ns = ebb_clock_ns();
}

static const char *date_text(struct ebb_arena *arena, time_t at, const char *format)
{
    char text[64] = "";
    struct tm local = {0};
    localtime_r(&at, &local);
    strftime(text, sizeof text, format, &local);
    return ebb_arena_strndup(arena, text, strlen(text));
}

enum ebb_status harness_clock_stop(struct ebb_arena *arena, const struct harness_clock *clock,
                                   struct harness_results *results, struct ebb_error *err)
{
    uint64_t us = (ebb_clock_ns() - clock->start_ns) / 1000, s = us / 1000000;
    results->timestamp = date_text(arena, clock->start, "%m-%d-%Y-%H%M");
    results->start_time = date_text(arena, clock->start, "%a %b %e %H:%M:%S %Y");
    results->end_time = date_text(arena, time(NULL), "%a %b %e %H:%M:%S %Y");
    results->time_delta =
        ebb_arena_printf(arena, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64 ".%06" PRIu64, s / 3600,
                         s / 60 % 60, s % 60, us % 1000000);
    return ebb_arena_status(arena, err);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* "dtr-fixed-64-4000000000" */
static void add_name(const struct harness_setting *s, struct ebb_str *name)
{
    char budget[32], ratio[32];
    snprintf(budget, sizeof budget, "%.0f", s->memory_budget);
    ebb_format_double(s->ratio, ratio, sizeof ratio);
    if (strcmp(s->type, "baseline") == 0)
        ebb_str_printf(name, "baseline-%.0f", s->batch_size);
    else if (strcmp(s->kind, "ratio") == 0)
        ebb_str_printf(name, "%s-ratio-%s", s->type, ratio);
    else
        ebb_str_printf(name, "%s-%s-%.0f-%s", s->type,
                       strcmp(s->kind, "param_sweep") == 0 ? "sweep" : s->kind,
                       isnan(s->batch_size) ? 0 : s->batch_size, budget);
}

/* The published name tells neither the batch size of a ratio nor the switches of a policy. */
static size_t count_namesakes(const struct harness_results *r, const struct ebb_str *name)
{
    const struct harness_setting *last = &r->settings[r->count - 1];
    size_t count = 0;
    for (const struct harness_setting *s = r->settings; s < last; s++) {
        struct ebb_str other = {0};
        if (s->command_id != last->command_id || strcmp(s->model, last->model) != 0)
            continue;
        add_name(s, &other);
        count += strcmp(ebb_str_c(&other), ebb_str_c(name)) == 0;
        ebb_str_fini(&other);
    }
    return count;
}

enum ebb_status harness_write_rows(const char *folder, const struct harness_results *results,
                                   const struct harness_rows *rows, struct ebb_error *err)
{
    const struct harness_setting *setting = &results->settings[results->count - 1];
    struct ebb_str path = {0}, name = {0}, text = {0};
    add_name(setting, &name);
    size_t before = count_namesakes(results, &name);
    ebb_str_printf(&path, "%s/cmd-%" PRId64 "-%s-%s", folder, setting->command_id, ebb_str_c(&name),
                   setting->model);
    if (before)
        ebb_str_printf(&path, "-%zu", before + 1);
    ebb_str_add(&path, ".csv");
    path.failed |= name.failed;
    ebb_str_fini(&name);
    harness_rows_write(rows, setting->params, &text);
    enum ebb_status status = ebb_str_status(&path, err);
    EBB_THEN(status, ebb_str_status(&text, err));
    EBB_THEN(status, ebb_file_write_atomic(ebb_str_c(&path), ebb_str_c(&text), text.length, err));
    ebb_str_fini(&path);
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status write_file(const char *folder, const char *name, struct ebb_str *take_text,
                                  struct ebb_error *err)
{
    struct ebb_str path = {0};
    ebb_str_printf(&path, "%s/%s", folder, name);
    ebb_str_addc(take_text, '\n');
    enum ebb_status status = ebb_str_status(&path, err);
    EBB_THEN(status, ebb_str_status(take_text, err));
    EBB_THEN(status,
             ebb_file_write_atomic(ebb_str_c(&path), ebb_str_c(take_text), take_text->length, err));
    ebb_str_fini(&path);
    ebb_str_fini(take_text);
    return status;
}

static void add_number(struct ebb_str *text, const char *name, double value, const char *unit)
{
    if (!isnan(value))
        ebb_str_printf(text, ", %s %.4g%s", name, value, unit);
}

/* Errors first, then medians over inputs. */
static void summarize(const struct harness_results *r, struct ebb_str *text)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct harness_setting *s = &r->settings[i];
        if (!s->error)
            continue;
        ebb_str_printf(text, "%s ", s->model);
        add_name(s, text);
        ebb_str_printf(text, ": error: %s\n", s->error);
    }
    for (size_t i = 0; i < r->count; i++) {
        const struct harness_setting *s = &r->settings[i];
        if (s->error)
            continue;
        ebb_str_printf(text, "%s ", s->model);
        add_name(s, text);
        ebb_str_printf(text, ": wall %.4g ms", harness_setting_point(s, HARNESS_TIME).value);
        add_number(text, "device", harness_setting_point(s, HARNESS_GPU_TIME).value, " ms");
        add_number(text, "slowdown", harness_setting_point(s, HARNESS_SLOWDOWN).value, "");
        add_number(text, "input", harness_setting_point(s, HARNESS_INPUT_MEM).value, " MB");
        add_number(text, "model", harness_setting_point(s, HARNESS_MODEL_MEM).value, " MB");
        add_number(text, "peak", harness_setting_point(s, HARNESS_TOTAL_MEM).value, " MB");
        ebb_str_addc(text, '\n');
    }
}

static enum ebb_status write_summary(const char *folder, const struct harness_results *r,
                                     struct ebb_error *err)
{
    struct ebb_str out = {0}, value = {0};
    struct ebb_json_writer w;
    summarize(r, &value);
    ebb_jsonw_init(&w, &out, 1);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "title", "Pareto curves");
    ebb_jsonw_key_string(&w, "value", ebb_str_c(&value));
    ebb_jsonw_object_end(&w);
    out.failed |= value.failed;
    ebb_str_fini(&value);
    return write_file(folder, "summary.json", &out, err);
}

/* Model to a list of settings that failed and why. */
static enum ebb_status write_errors(const char *folder, const struct harness_results *r,
                                    struct ebb_error *err)
{
    struct ebb_str out = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &out, 1);
    ebb_jsonw_object(&w);
    for (size_t at = 0, end; at < r->count; at = end) {
        bool has_any = false;
        end = harness_model_end(r, at);
        for (size_t i = at; i < end; i++) {
            const struct harness_setting *s = &r->settings[i];
            if (!s->error)
                continue;
            if (!has_any)
                ebb_jsonw_key_array(&w, s->model);
            has_any = true;
            ebb_jsonw_object(&w);
            ebb_jsonw_key_int(&w, "command_id", s->command_id);
            ebb_doc_write_key(s->params, &w, "specific_params");
            ebb_jsonw_key_int(&w, "input", s->error_input);
            ebb_jsonw_key_string(&w, "message", s->error);
            ebb_jsonw_object_end(&w);
        }
        if (has_any)
            ebb_jsonw_array_end(&w);
    }
    ebb_jsonw_object_end(&w);
    return write_file(folder, "errors.json", &out, err);
}

enum ebb_status harness_write_status(const char *folder, const struct harness_results *r,
                                     const char *failure, struct ebb_error *err)
{
    struct ebb_str out = {0};
    struct ebb_json_writer w;
    char message[64];
    size_t errors = 0;
    for (size_t i = 0; i < r->count; i++)
        errors += r->settings[i].error != NULL;
    snprintf(message, sizeof message, "%zu of %zu settings failed", errors, r->count);
    ebb_jsonw_init(&w, &out, 1);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_bool(&w, "success", failure == NULL);
    ebb_jsonw_key_string(&w, "message", failure ? failure : errors ? message : "success");
    ebb_jsonw_object_end(&w);
    return write_file(folder, "status.json", &out, err);
}

enum ebb_status harness_write_all(const char *folder, const struct harness_results *results,
                                  struct ebb_error *err)
{
    struct ebb_str path = {0};
    ebb_str_printf(&path, "%s/data.json", folder);
    enum ebb_status status = ebb_str_status(&path, err);
    EBB_THEN(status, harness_results_write(results, ebb_str_c(&path), err));
    ebb_str_fini(&path);
    EBB_THEN(status, write_summary(folder, results, err));
    EBB_THEN(status, write_errors(folder, results, err));
    return status == EBB_OK ? harness_write_status(folder, results, NULL, err) : status;
}
