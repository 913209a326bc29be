/* vectors.c - the case runner: files, comparison, report. What a case computes is in
 * vectors_search.c and vectors_work.c. */
#include "dev/vectors.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "dev/dev.h"
#include "dev/vectors_cases.h"

#define TOLERANCE 1e-12

/* ---- building and reading ---- */

static struct ebb_doc_node *made(struct dev_case_builder *b, struct ebb_doc_node *node)
{
    b->failed |= node == NULL;
    return node;
}

struct ebb_doc_node *dev_case_map(struct dev_case_builder *b)
{
    return made(b, ebb_doc_new(b->arena, EBB_DOC_MAP));
}

struct ebb_doc_node *dev_case_list(struct dev_case_builder *b)
{
    return made(b, ebb_doc_new(b->arena, EBB_DOC_LIST));
}

void dev_case_set(struct dev_case_builder *b, struct ebb_doc_node *map, const char *key,
                  const struct ebb_doc_node *value)
{
    if (b->failed || map == NULL || value == NULL || !ebb_doc_set(b->arena, map, key, value))
        b->failed = true;
}

void dev_case_set_int(struct dev_case_builder *b, struct ebb_doc_node *map, const char *key,
                      int64_t value)
{
    dev_case_set(b, map, key, ebb_doc_new_int(b->arena, value));
}

void dev_case_set_bool(struct dev_case_builder *b, struct ebb_doc_node *map, const char *key,
                       bool value)
{
    dev_case_set(b, map, key, ebb_doc_new_bool(b->arena, value));
}

void dev_case_set_text(struct dev_case_builder *b, struct ebb_doc_node *map, const char *key,
                       const char *value)
{
    dev_case_set(b, map, key, ebb_doc_new_string(b->arena, value));
}

void dev_case_set_double(struct dev_case_builder *b, struct ebb_doc_node *map, const char *key,
                         double value)
{
    dev_case_set(b, map, key, ebb_doc_new_double(b->arena, value));
}

void dev_case_add(struct dev_case_builder *b, struct ebb_doc_node *list,
                  const struct ebb_doc_node *value)
{
    if (b->failed || list == NULL || value == NULL || !ebb_doc_append(b->arena, list, value))
        b->failed = true;
}

enum ebb_status dev_case_member(const struct ebb_doc_node *map, const char *key,
                                enum ebb_doc_kind kind, const struct ebb_doc_node **node,
                                struct ebb_error *err)
{
    const struct ebb_doc_node *found = ebb_doc_get(map, key);
    if (found == NULL || found->kind != kind)
        return ebb_fail(err, EBB_EINPUT, "%s: expected %s, found %s", key, ebb_doc_kind_text(kind),
                        found == NULL ? "nothing" : ebb_doc_kind_text(found->kind));
    *node = found;
    return EBB_OK;
}

/* ---- comparison ---- */

struct comparison {
    struct ebb_str path, reason;
    bool is_tolerant; /* inside hyperparameter values */
};

static bool is_number(const struct ebb_doc_node *node)
{
    return node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE;
}

static bool numbers_agree(const struct ebb_doc_node *a, const struct ebb_doc_node *b,
                          bool is_tolerant)
{
    if (a->kind == EBB_DOC_INT && b->kind == EBB_DOC_INT)
        return a->integer == b->integer;
    if (a->number == b->number)
        return true;
    return is_tolerant &&
           fabs(a->number - b->number) <= TOLERANCE * fmax(fabs(a->number), fabs(b->number));
}

static void say(struct comparison *c, const char *what, const struct ebb_doc_node *node)
{
    struct ebb_json_writer w;
    ebb_str_printf(&c->reason, "%s", what);
    ebb_jsonw_init(&w, &c->reason, 0);
    ebb_doc_write_json(node, &w);
}

static bool differ(struct comparison *c, const struct ebb_doc_node *expected,
                   const struct ebb_doc_node *computed)
{
    ebb_str_printf(&c->reason, "%s: ", ebb_str_c(&c->path));
    say(c, "expected ", expected);
    say(c, ", computed ", computed);
    return false;
}

static bool agree(struct comparison *c, const struct ebb_doc_node *expected,
                  const struct ebb_doc_node *computed);

/* Compare one member with its name on the path. */
static bool agree_at(struct comparison *c, const char *name, const struct ebb_doc_node *expected,
                     const struct ebb_doc_node *computed)
{
    size_t length = c->path.length;
    bool was_tolerant = c->is_tolerant;
    ebb_str_add(&c->path, name);
    c->is_tolerant |= strcmp(name, ".hparams") == 0;
    bool result = agree(c, expected, computed);
    c->is_tolerant = was_tolerant;
    if (c->path.length > length) {
        c->path.length = length;
        c->path.data[length] = '\0';
    }
    return result;
}

static bool lists_agree(struct comparison *c, const struct ebb_doc_node *expected,
                        const struct ebb_doc_node *computed)
{
    char name[32];
    if (expected->count != computed->count) {
        ebb_str_printf(&c->reason, "%s: expected %zu items, computed %zu", ebb_str_c(&c->path),
                       expected->count, computed->count);
        return false;
    }
    for (size_t i = 0; i < expected->count; i++) {
        snprintf(name, sizeof name, "[%zu]", i);
        if (!agree_at(c, name, expected->items[i], computed->items[i]))
            return false;
    }
    return true;
}

static bool maps_agree(struct comparison *c, const struct ebb_doc_node *expected,
                       const struct ebb_doc_node *computed)
{
    for (size_t i = 0; i < expected->count; i++) {
        const char *key = expected->keys[i]->text;
        const struct ebb_doc_node *value = ebb_doc_get(computed, key);
        struct ebb_str name;
        if (value == NULL) {
            ebb_str_printf(&c->reason, "%s.%s: expected, but not computed", ebb_str_c(&c->path),
                           key);
            return false;
        }
        ebb_str_init(&name);
        ebb_str_printf(&name, ".%s", key);
        bool result = agree_at(c, ebb_str_c(&name), expected->items[i], value);
        ebb_str_fini(&name);
        if (!result)
            return false;
    }
    for (size_t i = 0; i < computed->count; i++)
        if (ebb_doc_get(expected, computed->keys[i]->text) == NULL) {
            ebb_str_printf(&c->reason, "%s.%s: computed, but not expected", ebb_str_c(&c->path),
                           computed->keys[i]->text);
            return false;
        }
    return true;
}

static bool agree(struct comparison *c, const struct ebb_doc_node *expected,
                  const struct ebb_doc_node *computed)
{
    if (is_number(expected) && is_number(computed))
        return numbers_agree(expected, computed, c->is_tolerant) || differ(c, expected, computed);
    if (expected->kind != computed->kind)
        return differ(c, expected, computed);
    if (expected->kind == EBB_DOC_LIST)
        return lists_agree(c, expected, computed);
    if (expected->kind == EBB_DOC_MAP)
        return maps_agree(c, expected, computed);
    return ebb_doc_equal(expected, computed) || differ(c, expected, computed);
}

/* ---- report ---- */

void dev_vectors_init(struct dev_vectors_report *report)
{
    *report = (struct dev_vectors_report){.file = ""};
    ebb_str_init(&report->log);
    ebb_str_init(&report->dump);
}

void dev_vectors_fini(struct dev_vectors_report *report)
{
    ebb_str_fini(&report->log);
    ebb_str_fini(&report->dump);
}

static void dump(struct dev_vectors_report *report, size_t index, const char *name, bool passed,
                 const struct ebb_doc_node *computed)
{
    struct ebb_json_writer w;
    if (!report->wants_dump)
        return;
    ebb_jsonw_init(&w, &report->dump, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "file");
    ebb_jsonw_string(&w, report->file);
    ebb_jsonw_key(&w, "index");
    ebb_jsonw_uint(&w, index);
    ebb_jsonw_key(&w, "name");
    ebb_jsonw_string(&w, name);
    ebb_jsonw_key(&w, "passed");
    ebb_jsonw_bool(&w, passed);
    ebb_jsonw_key(&w, "computed");
    if (computed != NULL)
        ebb_doc_write_json(computed, &w);
    else
        ebb_jsonw_null(&w);
    ebb_jsonw_object_end(&w);
    ebb_str_addc(&report->dump, '\n');
}

void dev_vectors_pass(struct dev_vectors_report *report, size_t index, const char *name,
                      const struct ebb_doc_node *computed)
{
    report->passed++;
    dump(report, index, name, true, computed);
}

void dev_vectors_fail(struct dev_vectors_report *report, size_t index, const char *name,
                      const struct ebb_doc_node *computed, const char *fmt, ...)
{
    va_list args;
    report->failed++;
    if (name != NULL)
        ebb_str_printf(&report->log, "%s: %s: ", report->file, name);
    else
        ebb_str_printf(&report->log, "%s: case %zu: ", report->file, index);
    va_start(args, fmt);
    ebb_str_vprintf(&report->log, fmt, args);
    va_end(args);
    ebb_str_addc(&report->log, '\n');
    dump(report, index, name, false, computed);
}

/* ---- files ---- */

struct kind {
    const char *file;
    dev_case_run run;
    bool is_tolerant;     /* `expected` is hyperparameter values */
    const char *optional; /* a member of `expected` that small cases only have; NULL = none */
};

static const struct kind kinds[] = {
    {"rng_mt19937.json", dev_case_rng, false, NULL},
    {"sampling.json", dev_case_sampling, true, NULL},
    {"grid_values.json", dev_case_grid_values, true, NULL},
    {"grid_product.json", dev_case_grid_product, true, NULL},
    {"pbt_explore.json", dev_case_explore, true, NULL},
    {"searcher_single.json", dev_case_search, false, "trials"},
    {"searcher_random.json", dev_case_search, false, "trials"},
    {"searcher_grid.json", dev_case_search, false, "trials"},
    {"searcher_adaptive.json", dev_case_search, false, "trials"},
    {"searcher_adaptive_simple.json", dev_case_search, false, "trials"},
    {"searcher_pbt.json", dev_case_search, false, "trials"},
    {"beyond_adaptive_asha.json", dev_case_asha, false, "trials"},
    {"trial_sequencer.json", dev_case_sequencer, false, NULL},
    {"scheduler.json", dev_case_scheduler, false, NULL},
    {"checkpoint_gc.json", dev_case_retention, false, NULL},
};

/* `computed` without what the case does not ask for. */
static const struct ebb_doc_node *trim(struct dev_case_builder *b, const struct kind *kind,
                                       const struct ebb_doc_node *expected,
                                       const struct ebb_doc_node *computed)
{
    if (kind->optional == NULL || computed->kind != EBB_DOC_MAP ||
        ebb_doc_get(expected, kind->optional) != NULL)
        return computed;
    struct ebb_doc_node *map = dev_case_map(b);
    for (size_t i = 0; i < computed->count; i++)
        if (strcmp(computed->keys[i]->text, kind->optional) != 0)
            dev_case_set(b, map, computed->keys[i]->text, computed->items[i]);
    return b->failed ? NULL : map;
}

static void run_case(const struct kind *kind, const struct ebb_doc_node *input, size_t index,
                     struct dev_vectors_report *report)
{
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    struct dev_case_builder b = {.arena = &arena};
    struct ebb_doc_node *computed = NULL;
    struct ebb_error err;
    const char *name = ebb_doc_string(input, "name", NULL);
    const struct ebb_doc_node *expected = ebb_doc_get(input, "expected"), *trimmed = NULL;
    enum ebb_status status = kind->run(&b, input, &computed, &err);
    if (status == EBB_OK && !b.failed && expected != NULL)
        trimmed = trim(&b, kind, expected, computed);
    if (status != EBB_OK) {
        dev_vectors_fail(report, index, name, NULL, "%s", err.message);
    } else if (expected == NULL) {
        dev_vectors_fail(report, index, name, computed, "the case has no `expected`");
    } else if (b.failed || trimmed == NULL) {
        dev_vectors_fail(report, index, name, NULL, "out of memory");
    } else {
        struct comparison c = {.is_tolerant = kind->is_tolerant};
        ebb_str_init(&c.path);
        ebb_str_init(&c.reason);
        ebb_str_add(&c.path, "expected");
        if (agree(&c, expected, trimmed))
            dev_vectors_pass(report, index, name, computed);
        else
            dev_vectors_fail(report, index, name, computed, "%s", ebb_str_c(&c.reason));
        ebb_str_fini(&c.path);
        ebb_str_fini(&c.reason);
    }
    ebb_arena_fini(&arena);
}

static const struct kind *find_kind(const char *file)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].file, file) == 0)
            return &kinds[i];
    return NULL;
}

enum ebb_status dev_vectors_run_file(const char *path, struct dev_vectors_report *report,
                                     struct ebb_error *err)
{
    struct ebb_arena arena;
    const struct ebb_doc_node *root;
    const char *slash = strrchr(path, '/');
    report->file = slash != NULL ? slash + 1 : path;
    ebb_arena_init(&arena);
    enum ebb_status status = ebb_doc_load(&arena, path, &root, err);
    if (status == EBB_OK) {
        const struct kind *kind = find_kind(report->file);
        if (root->kind != EBB_DOC_LIST)
            dev_vectors_fail(report, 0, "file", NULL, "not a list of cases");
        else if (strcmp(report->file, "config_validation.json") == 0)
            dev_vectors_config(root, report);
        else if (kind == NULL)
            dev_vectors_fail(report, 0, "file", NULL, "unknown kind of file");
        else
            for (size_t i = 0; i < root->count; i++)
                run_case(kind, root->items[i], i, report);
    }
    ebb_arena_fini(&arena);
    return status;
}

/* Names of the *.json files of a folder. */
struct names {
    char **items; /* owned */
    size_t count, capacity;
};

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        ebb_free(names->items[i]);
    ebb_free(names->items);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum ebb_status add_name(struct names *names, const char *name, struct ebb_error *err)
{
    size_t length = strlen(name);
    if (length <= 5 || strcmp(name + length - 5, ".json") != 0)
        return EBB_OK;
    EBB_TRY(ebb_grow(&names->items, &names->capacity, names->count + 1, sizeof *names->items, err));
    names->items[names->count] = ebb_strdup(name);
    if (names->items[names->count] == NULL)
        return ebb_no_memory(err, length);
    names->count++;
    return EBB_OK;
}

static enum ebb_status list_folder(const char *folder, struct names *names, struct ebb_error *err)
{
    DIR *dir = opendir(folder);
    enum ebb_status status = EBB_OK;
    if (dir == NULL)
        return ebb_fail(err, EBB_EIO, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; status == EBB_OK && (entry = readdir(dir)) != NULL;)
        status = add_name(names, entry->d_name, err);
    closedir(dir);
    if (names->count > 0)
        qsort(names->items, names->count, sizeof *names->items, by_name);
    return status;
}

enum ebb_status dev_vectors_run_folder(const char *folder, struct dev_vectors_report *report,
                                       struct ebb_error *err)
{
    struct names names = {0};
    enum ebb_status status = list_folder(folder, &names, err);
    for (size_t i = 0; status == EBB_OK && i < names.count; i++) {
        struct ebb_error file_err;
        struct ebb_str path;
        ebb_str_init(&path);
        ebb_str_printf(&path, "%s/%s", folder, names.items[i]);
        status = ebb_str_status(&path, err);
        if (status == EBB_OK && dev_vectors_run_file(ebb_str_c(&path), report, &file_err) != EBB_OK)
            dev_vectors_fail(report, 0, "file", NULL, "%s", file_err.message);
        report->file = ""; /* the path goes away */
        ebb_str_fini(&path);
    }
    names_fini(&names);
    return status;
}

enum ebb_status dev_vectors(const struct dev_request *request, struct dev_counts *counts,
                            struct ebb_error *err)
{
    struct dev_vectors_report report;
    dev_vectors_init(&report);
    report.wants_dump = request->dump != NULL;
    enum ebb_status status = dev_vectors_run_folder(request->dir, &report, err);
    if (status == EBB_OK)
        status = ebb_str_status(&report.log, err);
    if (status == EBB_OK && request->dump != NULL)
        status = ebb_str_status(&report.dump, err);
    if (status == EBB_OK && request->dump != NULL)
        status =
            ebb_file_write_atomic(request->dump, ebb_str_c(&report.dump), report.dump.length, err);
    if (status == EBB_OK)
        fputs(ebb_str_c(&report.log), request->out);
    *counts = (struct dev_counts){
        .passed = report.passed, .failed = report.failed, .skipped = report.skipped};
    dev_vectors_fini(&report);
    return status;
}
