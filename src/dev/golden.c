/* golden.c - run a folder of reference vectors through the engine: `ebb dev golden DIR`.
 *
 * Prints one line per failed case (every case with --verbose) and last "N passed, N failed, N
 * skipped". A case or op that is not known fails; nothing passed is a failure. --dump FILE writes
 * what was computed as safetensors. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/str.h"
#include "dev/golden.h"

#define JSON_BYTES ((size_t)256 << 20)

const struct dev_limit dev_op_limit = {.rtol = 2e-5, .atol_max = 2e-6};

/* ---- files ---------------------------------------------------------------------------------- */

static char *path_of(struct dev_golden *g, const char *name)
{
    return ebb_arena_printf(&g->arena, "%s/%s", g->dir, name);
}

bool dev_has(const struct dev_golden *g, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", g->dir, name);
    return access(path, R_OK) == 0;
}

/* Python writes infinities as words that are no JSON: a number of the same length that a float
 * rounds to the same. */
static void spell_infinities(char *text, size_t length)
{
    static const char word[] = "Infinity", number[] = "1e308   ";
    bool is_string = false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"')
            is_string = !is_string;
        else if (is_string && text[i] == '\\')
            i++;
        else if (!is_string && text[i] == 'I' && length - i >= sizeof word - 1 &&
                 memcmp(text + i, word, sizeof word - 1) == 0)
            memcpy(text + i, number, sizeof number - 1);
    }
}

const struct ebb_doc_node *dev_json(struct dev_golden *g, const char *name, struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    struct ebb_file_view view;
    char *path = path_of(g, name);
    if (!path) {
        ebb_no_memory(err, strlen(name));
        return NULL;
    }
    if (ebb_file_view_open(&view, path, JSON_BYTES, err) != EBB_OK)
        return NULL;
    char *text = ebb_arena_strndup(&g->arena, view.data, view.length);
    if (!text)
        ebb_no_memory(err, view.length);
    else
        spell_infinities(text, view.length);
    if (text && ebb_doc_parse_json(&g->arena, path, text, view.length, &root, err) != EBB_OK)
        root = NULL;
    ebb_file_view_close(&view);
    return root;
}

enum ebb_status dev_tensors_open(struct dev_golden *g, const char *name, struct dev_tensors *t,
                                 struct ebb_error *err)
{
    char *path = path_of(g, name);
    if (!path)
        return ebb_no_memory(err, strlen(name));
    memset(t, 0, sizeof *t);
    EBB_TRY(ebb_file_view_open(&t->view, path, SIZE_MAX, err));
    enum ebb_status status = tensor_file_read(&t->file, path, t->view.data, t->view.length, err);
    if (status != EBB_OK)
        ebb_file_view_close(&t->view);
    t->is_open = status == EBB_OK;
    return status;
}

void dev_tensors_close(struct dev_tensors *t)
{
    if (!t->is_open)
        return;
    tensor_file_fini(&t->file);
    ebb_file_view_close(&t->view);
    t->is_open = false;
}

const struct tensor_entry *dev_find(const struct dev_tensors *t, const char *fmt, ...)
{
    char name[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    return tensor_file_find(&t->file, name);
}

const char *dev_text(const struct ebb_doc_node *node)
{
    return node && node->kind == EBB_DOC_STRING ? node->text : "";
}

const struct ebb_doc_node *dev_numbers(const struct ebb_doc_node *map, const char *key)
{
    const struct ebb_doc_node *list = ebb_doc_get(map, key);
    if (!list || list->kind != EBB_DOC_LIST || list->count == 0)
        return NULL;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->kind != EBB_DOC_INT && list->items[i]->kind != EBB_DOC_DOUBLE)
            return NULL;
    return list;
}

static double element(enum tensor_dtype dtype, const void *data, int64_t i)
{
    const unsigned char *p = (const unsigned char *)data + (size_t)i * tensor_dtype_bytes(dtype);
    union {
        float f;
        double d;
        int64_t l;
        int32_t w;
        int16_t h;
        uint8_t b;
    } u;
    memcpy(&u, p, tensor_dtype_bytes(dtype));
    switch (dtype) {
    case TENSOR_F32:
        return (double)u.f;
    case TENSOR_F64:
        return u.d;
    case TENSOR_I64:
        return (double)u.l;
    case TENSOR_I32:
        return (double)u.w;
    case TENSOR_I16:
        return (double)u.h;
    default:
        return (double)u.b;
    }
}

double dev_value(const struct tensor_entry *e, int64_t i)
{
    return element(e->view.dtype, e->data, i);
}

/* ---- cases ---------------------------------------------------------------------------------- */

void dev_begin(struct dev_golden *g, const char *group, const char *name)
{
    g->group = group;
    g->name = name;
    g->is_failed = false;
}

static void say_failed(struct dev_golden *g, const char *fmt, va_list args)
{
    if (g->is_failed)
        return;
    g->is_failed = true;
    fprintf(g->out, "FAIL %s/%s: ", g->group, g->name);
    vfprintf(g->out, fmt, args);
    fputc('\n', g->out);
}

void dev_fail(struct dev_golden *g, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say_failed(g, fmt, args);
    va_end(args);
}

void dev_refuse(struct dev_golden *g, const char *fmt, ...)
{
    va_list args;
    g->counts.is_broken = true;
    va_start(args, fmt);
    say_failed(g, fmt, args);
    va_end(args);
}

void dev_end(struct dev_golden *g)
{
    if (g->is_failed)
        g->counts.failed++;
    else
        g->counts.passed++;
    if (!g->is_failed && g->is_verbose)
        fprintf(g->out, "ok   %s/%s\n", g->group, g->name);
}

void dev_keep(struct dev_golden *g, const char *part, const struct tensor_view *view,
              const void *data)
{
    size_t bytes = (size_t)tensor_count(view) * tensor_dtype_bytes(view->dtype);
    struct ebb_error err;
    if (!g->is_dumping)
        return;
    char *name = ebb_arena_printf(&g->arena, "%s/%s/%s", g->group, g->name, part);
    void *copy = ebb_arena_alloc(&g->arena, bytes + 1);
    if (!name || !copy ||
        ebb_grow(&g->dump, &g->dump_capacity, g->dump_count + 1, sizeof *g->dump, &err) != EBB_OK) {
        dev_fail(g, "out of memory");
        return;
    }
    if (data)
        memcpy(copy, data, bytes);
    else
        memset(copy, 0, bytes);
    struct tensor_view plain;
    tensor_view_init(&plain, view->dtype, view->rank, view->dims);
    g->dump[g->dump_count++] = (struct tensor_to_write){.name = name, .view = plain, .data = copy};
}

void dev_compare(struct dev_golden *g, const char *part, const struct tensor_view *view,
                 const void *data, const struct tensor_entry *want, struct dev_limit limit)
{
    char a[128], b[128];
    double largest = 0;
    dev_keep(g, part, view, data);
    if (!tensor_same_shape(view, &want->view)) {
        dev_fail(g, "%s: shape %s, expected %s", part, tensor_shape_text(view, a, sizeof a),
                 tensor_shape_text(&want->view, b, sizeof b));
        return;
    }
    int64_t n = tensor_count(view);
    for (int64_t i = 0; i < n; i++)
        if (isfinite(dev_value(want, i)))
            largest = fmax(largest, fabs(dev_value(want, i)));
    for (int64_t i = 0; i < n; i++) {
        double x = data ? element(view->dtype, data, i) : 0, ref = dev_value(want, i);
        double room =
            limit.is_exact ? 0 : limit.atol + limit.atol_max * largest + limit.rtol * fabs(ref);
        bool ok = isnan(ref) ? isnan(x) : x == ref || fabs(x - ref) <= room;
        if (!ok) {
            dev_fail(g, "%s: element %" PRId64 " is %.9g, expected %.9g, off by %.3g of %.3g", part,
                     i, x, ref, fabs(x - ref), room);
            return;
        }
    }
}

void dev_compare_number(struct dev_golden *g, const char *part, double got, double want,
                        double rtol, double atol)
{
    struct tensor_view view;
    tensor_view_init(&view, TENSOR_F64, 0, NULL);
    dev_keep(g, part, &view, &got);
    if (!(fabs(got - want) <= atol + rtol * fabs(want)))
        dev_fail(g, "%s is %.17g, expected %.17g, off by %.3g", part, got, want, fabs(got - want));
}

/* ---- tensors -------------------------------------------------------------------------------- */

const void *dev_read(const struct tensor_session *s, const struct ops_host *host, tensor_id id,
                     struct tensor_view *view)
{
    *view = *tensor_view_of(s, id);
    uint32_t t = tensor_trace_id(s, id);
    if (t == TRACE_NONE)
        return NULL;
    const unsigned char *base = ops_host_tensor(host, t);
    return base + (size_t)view->offset * tensor_dtype_bytes(view->dtype);
}

tensor_id dev_leaf(struct tensor_session *s, const struct tensor_entry *e, const char *name)
{
    return tensor_leaf(s, e->view.dtype, e->view.rank, e->view.dims, name);
}

void dev_fill(const struct tensor_session *s, const struct ops_host *host, tensor_id leaf,
              const void *data, size_t bytes)
{
    uint32_t t = tensor_trace_id(s, leaf);
    if (t != TRACE_NONE) /* else nothing depends on it */
        memcpy(ops_host_tensor(host, t), data, bytes);
}

/* ---- the folder ------------------------------------------------------------------------------- */

/* A file with cases that no group above runs is a failure, never ignored. */
static enum ebb_status refuse_others(struct dev_golden *g, struct ebb_error *err)
{
    static const char *const known[] = {"ops.json", "optim.json", "lr.json", "amp.json",
                                        "rng.json", "e2e",        "formats", "config_cases.json"};
    struct dirent *e;
    DIR *dir = opendir(g->dir);
    if (!dir)
        return ebb_fail(err, EBB_EIO, "%s: cannot be read", g->dir);
    while ((e = readdir(dir)) != NULL) {
        size_t n = strlen(e->d_name);
        bool is_known = e->d_name[0] == '.' || e->d_name[0] == '_';
        bool has_cases = e->d_type == DT_DIR || (n > 5 && strcmp(e->d_name + n - 5, ".json") == 0);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            is_known |= strcmp(e->d_name, known[i]) == 0;
        if (is_known || !has_cases)
            continue;
        dev_begin(g, "other", ebb_arena_strndup(&g->arena, e->d_name, n));
        dev_refuse(g, "this build cannot run these cases yet");
        dev_end(g);
    }
    closedir(dir);
    return EBB_OK;
}

/* A file that cannot be read fails as one case; the other groups are run. */
static void run_groups(struct dev_golden *g)
{
    static const struct {
        const char *name;
        enum ebb_status (*run)(struct dev_golden *g, struct ebb_error *err);
    } groups[] = {
        {"ops", dev_golden_ops},       {"optim", dev_golden_optim},     {"lr", dev_golden_lr},
        {"amp", dev_golden_amp},       {"rng", dev_golden_rng},         {"e2e", dev_golden_e2e},
        {"config", dev_golden_config}, {"formats", dev_golden_formats}, {"other", refuse_others}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct ebb_error err = {.status = EBB_OK};
        if (groups[i].run(g, &err) == EBB_OK)
            continue;
        dev_begin(g, groups[i].name, "files");
        dev_refuse(g, "%s", err.message);
        dev_end(g);
    }
    if (g->counts.passed + g->counts.failed > 0)
        return;
    dev_begin(g, "other", "files");
    dev_refuse(g, "%s: has no cases", g->dir);
    dev_end(g);
}

enum ebb_status dev_golden(const struct dev_request *request, struct dev_counts *counts,
                           struct ebb_error *err)
{
    struct dev_golden g = {.dir = request->dir,
                           .out = request->out,
                           .is_verbose = request->is_verbose,
                           .is_dumping = request->dump};
    ebb_arena_init(&g.arena);
    enum ebb_status status = ops_backend_create(&g.backend, (int)request->threads, err);
    if (status == EBB_OK && request->is_library)
        ops_backend_set_passes(g.backend, OPS_PASS_LAYOUT | OPS_PASS_NORM | OPS_PASS_WINOGRAD);
    if (status == EBB_OK)
        run_groups(&g);
    if (status == EBB_OK && request->dump)
        status = tensor_file_write(request->dump, g.dump, g.dump_count, err);
    *counts = g.counts;
    ops_backend_destroy(g.backend);
    ebb_free(g.dump);
    ebb_arena_fini(&g.arena);
    return status;
}
