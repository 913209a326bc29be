/* vectors.c - the case runner: files and comparison. What a case computes is in vectors_search.c,
 * vectors_work.c and vectors_config.c. */
#include "dev/vectors.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

#define TOLERANCE 1e-12

/* ---- building and reading ---- */

struct ebb_doc_node *dev_map(struct ebb_arena *a)
{
    return ebb_doc_new(a, EBB_DOC_MAP);
}

struct ebb_doc_node *dev_items(struct ebb_arena *a)
{
    return ebb_doc_new(a, EBB_DOC_LIST);
}

void dev_set_int(struct ebb_arena *a, struct ebb_doc_node *map, const char *key, int64_t value)
{
    ebb_doc_set(a, map, key, ebb_doc_new_int(a, value));
}

void dev_set_bool(struct ebb_arena *a, struct ebb_doc_node *map, const char *key, bool value)
{
    ebb_doc_set(a, map, key, ebb_doc_new_bool(a, value));
}

void dev_set_text(struct ebb_arena *a, struct ebb_doc_node *map, const char *key, const char *value)
{
    ebb_doc_set(a, map, key, ebb_doc_new_string(a, value));
}

void dev_add_int(struct ebb_arena *a, struct ebb_doc_node *list, int64_t value)
{
    ebb_doc_append(a, list, ebb_doc_new_int(a, value));
}

void dev_add_double(struct ebb_arena *a, struct ebb_doc_node *list, double value)
{
    ebb_doc_append(a, list, ebb_doc_new_double(a, value));
}

enum ebb_status dev_member(const struct ebb_doc_node *map, const char *key, enum ebb_doc_kind kind,
                           const struct ebb_doc_node **node, struct ebb_error *err)
{
    const struct ebb_doc_node *found = ebb_doc_get(map, key);
    if (found == NULL || found->kind != kind)
        return ebb_fail(err, EBB_EINPUT, "%s: expected %s, found %s", key, ebb_doc_kind_text(kind),
                        found == NULL ? "nothing" : ebb_doc_kind_text(found->kind));
    *node = found;
    return EBB_OK;
}

enum ebb_status dev_array(struct ebb_arena *a, size_t count, size_t bytes, void *array,
                          struct ebb_error *err)
{
    void *memory = ebb_arena_calloc(a, count + 1, bytes);
    memcpy(array, &memory, sizeof memory); /* the address of a pointer to any object type */
    return ebb_arena_status(a, err);
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
    ebb_str_add(&c->reason, what);
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
        struct ebb_str name = {0};
        if (value == NULL) {
            ebb_str_printf(&c->reason, "%s.%s: expected, but not computed", ebb_str_c(&c->path),
                           key);
            return false;
        }
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

/* ---- files ---- */

struct kind {
    const char *file;
    dev_case_fn *run;
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
static const struct ebb_doc_node *trim(struct ebb_arena *a, const struct kind *kind,
                                       const struct ebb_doc_node *expected,
                                       const struct ebb_doc_node *computed)
{
    if (kind->optional == NULL || computed->kind != EBB_DOC_MAP ||
        ebb_doc_get(expected, kind->optional) != NULL)
        return computed;
    struct ebb_doc_node *map = dev_map(a);
    for (size_t i = 0; i < computed->count; i++)
        if (strcmp(computed->keys[i]->text, kind->optional) != 0)
            ebb_doc_set(a, map, computed->keys[i]->text, computed->items[i]);
    return map;
}

/* Where what was computed is not as expected, in the arena; NULL: nowhere. */
static const char *compare(struct ebb_arena *arena, bool is_tolerant,
                           const struct ebb_doc_node *expected, const struct ebb_doc_node *computed)
{
    struct comparison c = {.is_tolerant = is_tolerant};
    ebb_str_add(&c.path, "expected");
    const char *reason =
        agree(&c, expected, computed) ? NULL : ebb_arena_printf(arena, "%s", ebb_str_c(&c.reason));
    ebb_str_fini(&c.path);
    ebb_str_fini(&c.reason);
    return reason;
}

static struct dev_verdict judge_case(const struct kind *kind, struct ebb_arena *arena,
                                     const struct ebb_doc_node *input)
{
    struct ebb_doc_node *computed = NULL;
    struct ebb_error err;
    const struct ebb_doc_node *expected = ebb_doc_get(input, "expected"), *trimmed;
    if (kind->run(arena, input, &computed, &err) != EBB_OK)
        return (struct dev_verdict){.reason = ebb_arena_printf(arena, "%s", err.message)};
    if (expected == NULL)
        return (struct dev_verdict){computed, "the case has no `expected`"};
    trimmed = arena->short_of ? NULL : trim(arena, kind, expected, computed);
    if (arena->short_of)
        return (struct dev_verdict){.reason = "out of memory"};
    return (struct dev_verdict){computed, compare(arena, kind->is_tolerant, expected, trimmed)};
}

static void dump(struct dev_judge *j, const char *file, size_t index, const char *name,
                 const struct dev_verdict *verdict)
{
    struct ebb_json_writer w;
    if (!j->request->dump)
        return;
    ebb_jsonw_init(&w, &j->dump, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "file", file);
    ebb_jsonw_key_uint(&w, "index", index);
    ebb_jsonw_key_string(&w, "name", name);
    ebb_jsonw_key_bool(&w, "passed", verdict->reason == NULL);
    ebb_doc_write_key(verdict->computed, &w, "computed");
    ebb_jsonw_object_end(&w);
    ebb_str_addc(&j->dump, '\n');
}

/* One case; `name` may be NULL: then its place names it. */
static void note(struct dev_judge *j, const char *file, size_t index, const char *name,
                 const struct dev_verdict *verdict)
{
    if (name != NULL)
        dev_begin(j, "%s: %s", file, name);
    else
        dev_begin(j, "%s: case %zu", file, index);
    if (verdict->reason)
        dev_fail(j, "%s", verdict->reason);
    dump(j, file, index, name, verdict);
    dev_end(j);
}

static const struct kind *find_kind(const char *file)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].file, file) == 0)
            return &kinds[i];
    return NULL;
}

void dev_vectors_file(struct dev_judge *j, const char *path)
{
    struct ebb_arena file_arena = {0};
    struct ebb_error err;
    const struct ebb_doc_node *root = NULL;
    const char *file = ebb_file_name(path);
    const struct kind *kind = find_kind(file);
    bool is_config = strcmp(file, "config_validation.json") == 0;
    const char *reason = ebb_doc_load(&file_arena, path, &root, &err) != EBB_OK ? err.message
                         : root->kind != EBB_DOC_LIST ? "not a list of cases"
                         : kind == NULL && !is_config ? "unknown kind of file"
                                                      : NULL;
    if (reason)
        note(j, file, 0, "file", &(struct dev_verdict){.reason = reason});
    for (size_t i = 0; !reason && i < root->count; i++) {
        struct ebb_arena arena = {0};
        struct dev_verdict verdict = is_config ? dev_judge_config(&arena, root->items[i])
                                               : judge_case(kind, &arena, root->items[i]);
        note(j, file, i, ebb_doc_string(root->items[i], "name", NULL), &verdict);
        ebb_arena_fini(&arena);
    }
    ebb_arena_fini(&file_arena);
}

enum ebb_status dev_vectors(const struct dev_request *request, struct dev_counts *counts,
                            struct ebb_error *err)
{
    struct dev_judge j;
    char **names = NULL;
    size_t count = 0;
    dev_judge_init(&j, request, "");
    enum ebb_status status = dev_list(&j.arena, request->dir, &names, &count, err);
    for (size_t i = 0; status == EBB_OK && i < count; i++)
        dev_vectors_file(&j, dev_path(&j, names[i]));
    return dev_judge_fini(&j, status, counts, err);
}
