/* exp_config_support.h - experiment files for tests: a small valid one with parts exchanged. */
#ifndef EBB_TESTS_EXP_CONFIG_SUPPORT_H
#define EBB_TESTS_EXP_CONFIG_SUPPORT_H

#include <stdio.h>
#include <string.h>

#include "test.h"

#include "base/heap.h"
#include "exp/exp.h"

static const char *const support_base[] = {
    "entrypoint: model_def:MyTrial\n",
    "checkpoint_storage: {type: shared_fs, host_path: /mnt/ckpt}\n",
    "hyperparameters: {global_batch_size: 64}\n",
    "searcher: {name: single, metric: loss, max_steps: 10}\n",
    "description: d\n",
    "reproducibility: {experiment_seed: 7}\n",
};

/* One reading and everything that belongs to it. */
struct reading {
    struct ebb_arena arena;
    struct exp_config config;
    struct ebb_report report;
    struct ebb_error err;
    enum ebb_status status;
    struct ebb_str text; /* the file that was read */
};

/* Does `lines` have a line that starts with the key of `line`? */
static inline int support_replaces(const char *lines, const char *line)
{
    size_t n = strcspn(line, ":") + 1;
    for (const char *at = lines; at && *at; at = strchr(at, '\n'), at += at != NULL)
        if (strncmp(at, line, n) == 0)
            return 1;
    return 0;
}

static inline void reading_text(struct ebb_str *text, const char *lines)
{
    ebb_str_init(text);
    for (size_t i = 0; i < sizeof support_base / sizeof support_base[0]; i++)
        if (!support_replaces(lines, support_base[i]))
            ebb_str_add(text, support_base[i]);
    ebb_str_add(text, lines);
    ebb_str_addc(text, '\n');
}

static inline void reading_open_with(struct reading *r, const char *lines,
                                     struct exp_config_options options)
{
    memset(r, 0, sizeof *r);
    ebb_arena_init(&r->arena);
    reading_text(&r->text, lines);
    r->status = exp_config_parse(&r->arena, r->text.data, r->text.length, &options, &r->config,
                                 &r->report, &r->err);
}

/* The base with the top-level keys of `lines` in place of its own. */
static inline void reading_open(struct reading *r, const char *lines)
{
    struct exp_config_options options = {.file_name = "exp.yaml", .default_seed = -1};
    reading_open_with(r, lines, options);
}

static inline void reading_close(struct reading *r)
{
    ebb_str_fini(&r->text);
    ebb_arena_fini(&r->arena);
}

static inline const struct ebb_finding *reading_find(const struct reading *r,
                                                     enum ebb_finding_kind kind, const char *path)
{
    for (size_t i = 0; i < r->report.count; i++)
        if (r->report.items[i].kind == kind && strcmp(r->report.items[i].path, path) == 0)
            return &r->report.items[i];
    return NULL;
}

static inline void reading_print(const struct reading *r)
{
    for (size_t i = 0; i < r->report.count; i++) {
        struct ebb_str line;
        ebb_str_init(&line);
        ebb_finding_format(&r->report.items[i], &line);
        print_error("  %s\n", ebb_str_c(&line));
        ebb_str_fini(&line);
    }
}

/* Accepted, or refused with exactly one error, at `path`. */
static inline void expect_accepted(const char *lines)
{
    struct reading r;
    reading_open(&r, lines);
    if (r.status != EBB_OK) {
        reading_print(&r);
        fail_msg("refused: %s", lines);
    }
    reading_close(&r);
}

static inline void expect_refused(const char *path, const char *lines)
{
    struct reading r;
    reading_open(&r, lines);
    if (r.status != EBB_EINPUT || r.report.errors != 1 ||
        !reading_find(&r, EBB_FINDING_ERROR, path)) {
        reading_print(&r);
        fail_msg("not refused for %s alone: %s", path, lines);
    }
    reading_close(&r);
}

/* The value at a path of the normalised form, as JSON; "" when absent. Valid until the next call.
 */
static inline const char *normal_json(const struct reading *r, const char *section, const char *key)
{
    static char buffer[4096];
    const struct ebb_doc_node *node = ebb_doc_get(r->config.normalized, section);
    struct ebb_json_writer w;
    struct ebb_str out;
    ebb_str_init(&out);
    if (key)
        node = ebb_doc_get(node, key);
    ebb_jsonw_init(&w, &out, 0);
    if (node)
        ebb_doc_write_json(node, &w);
    snprintf(buffer, sizeof buffer, "%s", ebb_str_c(&out));
    ebb_str_fini(&out);
    return buffer;
}

#endif
