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
#include "base/names.h"
#include "base/str.h"
#include "dev/far.h"
#include "dev/golden.h"

#define JSON_BYTES ((size_t)256 << 20)

const struct dev_limit dev_op_limit = {.rtol = 2e-5, .atol_max = 2e-6};

/* ---- files ---------------------------------------------------------------------------------- */

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

const struct ebb_doc_node *dev_json(struct dev_judge *j, const char *name, struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    struct ebb_file_view view;
    const char *path = dev_path(j, name);
    if (ebb_file_view_open(&view, path, JSON_BYTES, err) != EBB_OK)
        return NULL;
    char *text = ebb_arena_strndup(&j->arena, view.data, view.length);
    enum ebb_status status = ebb_arena_status(&j->arena, err);
    if (status == EBB_OK)
        spell_infinities(text, view.length);
    if (status == EBB_OK &&
        ebb_doc_parse_json(&j->arena, path, text, view.length, &root, err) != EBB_OK)
        root = NULL;
    ebb_file_view_close(&view);
    return root;
}

enum ebb_status dev_tensors_open(struct dev_judge *j, const char *name, struct dev_tensors *t,
                                 struct ebb_error *err)
{
    const char *path = dev_path(j, name);
    *t = (struct dev_tensors){0};
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

/* ---- comparing ------------------------------------------------------------------------------ */

void dev_keep(struct dev_judge *j, const char *part, const struct tensor_view *view,
              const void *data)
{
    size_t bytes = (size_t)tensor_count(view) * tensor_dtype_bytes(view->dtype);
    struct ebb_error err;
    if (!j->request->dump)
        return;
    char *name = ebb_arena_printf(&j->arena, "%s/%s", j->name, part);
    void *copy = ebb_arena_alloc(&j->arena, bytes + 1);
    if (!name || !copy ||
        ebb_grow(&j->tensors, &j->tensor_capacity, j->tensor_count + 1, sizeof *j->tensors, &err) !=
            EBB_OK) {
        dev_fail(j, "out of memory");
        return;
    }
    if (data)
        memcpy(copy, data, bytes);
    else
        memset(copy, 0, bytes);
    struct tensor_view plain;
    tensor_view_init(&plain, view->dtype, view->rank, view->dims);
    j->tensors[j->tensor_count++] =
        (struct tensor_to_write){.name = name, .view = plain, .data = copy};
}

void dev_compare(struct dev_judge *j, const char *part, const struct tensor_view *view,
                 const void *data, const struct tensor_entry *want, struct dev_limit limit)
{
    char a[128], b[128];
    double largest = 0;
    dev_keep(j, part, view, data);
    if (!tensor_same_shape(view, &want->view)) {
        dev_fail(j, "%s: shape %s, expected %s", part, tensor_shape_text(view, a, sizeof a),
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
            dev_fail(j, "%s: element %" PRId64 " is %.9g, expected %.9g, off by %.3g of %.3g", part,
                     i, x, ref, fabs(x - ref), room);
            return;
        }
    }
}

void dev_compare_number(struct dev_judge *j, const char *part, double got, double want, double rtol,
                        double atol)
{
    struct tensor_view view;
    tensor_view_init(&view, TENSOR_F64, 0, NULL);
    dev_keep(j, part, &view, &got);
    if (!(fabs(got - want) <= atol + rtol * fabs(want)))
        dev_fail(j, "%s is %.17g, expected %.17g, off by %.3g", part, got, want, fabs(got - want));
}

/* ---- small runs ----------------------------------------------------------------------------- */

bool dev_run_begin(struct dev_run *run, struct dev_judge *j)
{
    struct ebb_error err;
    *run = (struct dev_run){.j = j};
    if (tensor_session_create(&run->s, j->backend, &err) != EBB_OK)
        dev_refuse(j, "%s", err.message);
    return run->s != NULL;
}

bool dev_run_finish(struct dev_run *run)
{
    struct ebb_error err = {.status = EBB_OK};
    if (tensor_finish(run->s, run->j->name, &run->trace, &err) != EBB_OK ||
        ops_host_create(&run->host, run->trace, run->j->backend, &err) != EBB_OK)
        dev_refuse(run->j, "%s", err.message);
    return err.status == EBB_OK;
}

bool dev_run_go(struct dev_run *run)
{
    struct ebb_error err = {.status = EBB_OK};
    struct dev_far *far = run->j->far;
    if ((far ? dev_far_run(far, &run->host, &err) : ops_host_run(&run->host, &err)) != EBB_OK)
        dev_refuse(run->j, "%s", err.message);
    return err.status == EBB_OK;
}

void dev_run_end(struct dev_run *run)
{
    if (run->host.pointers)
        ops_host_destroy(&run->host);
    trace_destroy(run->trace);
    tensor_session_destroy(run->s);
}

tensor_id dev_leaf(struct dev_run *run, const struct tensor_entry *e, const char *name)
{
    return tensor_leaf(run->s, e->view.dtype, e->view.rank, e->view.dims, name);
}

void *dev_bytes(const struct dev_run *run, tensor_id id)
{
    return ops_host_tensor(&run->host, tensor_trace_id(run->s, id));
}

void dev_fill(struct dev_run *run, tensor_id leaf, const void *data, size_t bytes)
{
    if (tensor_trace_id(run->s, leaf) != TRACE_NONE) /* else nothing depends on it */
        memcpy(dev_bytes(run, leaf), data, bytes);
}

const void *dev_read(const struct dev_run *run, tensor_id id, struct tensor_view *view)
{
    *view = *tensor_view_of(run->s, id);
    if (tensor_trace_id(run->s, id) == TRACE_NONE)
        return NULL;
    return (const unsigned char *)dev_bytes(run, id) +
           (size_t)view->offset * tensor_dtype_bytes(view->dtype);
}

void dev_compare_record(const struct dev_run *run, const struct ebb_doc_node *doc, tensor_id id,
                        const char *key, int64_t step, double tolerance)
{
    const struct ebb_doc_node *list = ebb_doc_get(ebb_doc_get(doc, "record"), key), *want = NULL;
    struct tensor_view view;
    char part[64];
    snprintf(part, sizeof part, "%s[%lld]", key, (long long)step);
    if (list && list->kind == EBB_DOC_LIST && (size_t)step < list->count)
        want = list->items[step];
    const float *got = dev_read(run, id, &view);
    if (!got || !want || (want->kind != EBB_DOC_INT && want->kind != EBB_DOC_DOUBLE))
        dev_refuse(run->j, "%s: no reference", part);
    else
        dev_compare_number(run->j, part, (double)*got, want->number, tolerance, 0);
}

/* ---- the folder ----------------------------------------------------------------------------- */

static const struct {
    const char *name, *file, *tensors; /* file: JSON, or a folder; tensors may be NULL */
    dev_group_fn *run;
    dev_case_one_fn *each; /* or: every item of the list `cases` */
} groups[] = {
    {"ops", "ops.json", "ops.safetensors", NULL, dev_golden_ops},
    {"optim", "optim.json", "optim.safetensors", NULL, dev_golden_optim},
    {"lr", "lr.json", NULL, NULL, dev_golden_lr},
    {"amp", "amp.json", "amp.safetensors", dev_golden_amp, NULL},
    {"rng", "rng.json", NULL, dev_golden_rng, NULL},
    {"e2e", "e2e", NULL, dev_golden_e2e, NULL},
    {"config", "config_cases.json", NULL, dev_golden_config, NULL},
    {"formats", "formats", "formats/expected.safetensors", dev_golden_formats, NULL},
};
#define GROUP_COUNT (sizeof groups / sizeof *groups)

void dev_each(struct dev_judge *j, const struct ebb_doc_node *root, const char *key,
              dev_case_one_fn *run, const struct dev_tensors *tensors)
{
    const struct ebb_doc_node *cases = ebb_doc_get(root, key);
    for (size_t i = 0; cases && i < cases->count; i++)
        run(j, cases->items[i], tensors);
}

void dev_broken(struct dev_judge *j, const char *group, const char *why)
{
    dev_begin(j, "%s/files", group);
    dev_refuse(j, "%s", why);
    dev_end(j);
}

/* A file that is missing is no group; one that cannot be read fails as one case. */
static void run_group(struct dev_judge *j, size_t k)
{
    struct dev_tensors tensors = {.is_open = false};
    const struct ebb_doc_node *root = NULL;
    struct ebb_error err = {.status = EBB_OK};
    if (access(dev_path(j, groups[k].file), R_OK) != 0)
        return;
    if (ebb_name_ends(groups[k].file, ".json"))
        root = dev_json(j, groups[k].file, &err);
    if (err.status == EBB_OK && groups[k].tensors)
        (void)dev_tensors_open(j, groups[k].tensors, &tensors, &err);
    if (err.status == EBB_OK && groups[k].each)
        dev_each(j, root, "cases", groups[k].each, &tensors);
    else if (err.status == EBB_OK)
        groups[k].run(j, root, &tensors);
    else
        dev_broken(j, groups[k].name, err.message);
    dev_tensors_close(&tensors);
}

static bool is_known(const char *name)
{
    for (size_t k = 0; k < GROUP_COUNT; k++)
        if (strcmp(name, groups[k].file) == 0)
            return true;
    return name[0] == '.' || name[0] == '_';
}

/* A file with cases that no group above runs is a failure, never ignored. */
static void refuse_others(struct dev_judge *j)
{
    DIR *dir = opendir(j->request->dir);
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        if (!(e->d_type == DT_DIR || ebb_name_ends(e->d_name, ".json")) || is_known(e->d_name))
            continue;
        dev_begin(j, "other/%s", e->d_name);
        dev_refuse(j, "this build cannot run these cases yet");
        dev_end(j);
    }
    if (dir)
        closedir(dir);
    else
        dev_broken(j, "other", ebb_arena_printf(&j->arena, "%s: cannot be read", j->request->dir));
}

static void run_groups(struct dev_judge *j)
{
    for (size_t k = 0; k < GROUP_COUNT; k++)
        run_group(j, k);
    refuse_others(j);
    if (j->counts.passed + j->counts.failed == 0)
        dev_broken(j, "other", ebb_arena_printf(&j->arena, "%s: has no cases", j->request->dir));
}

enum ebb_status dev_golden(const struct dev_request *request, struct dev_counts *counts,
                           struct ebb_error *err)
{
    struct dev_judge j;
    dev_judge_init(&j, request, "FAIL ");
    bool is_far = request->device && strcmp(request->device, "cpu") != 0;
    enum ebb_status status =
        is_far ? dev_far_create(&j.far, request->device, (int)request->threads, &j.backend, err)
               : ops_backend_create(&j.backend, NULL, NULL, NULL, (int)request->threads, err);
    if (status == EBB_OK && request->is_library)
        ops_backend_set_passes(j.backend, OPS_PASS_LAYOUT | OPS_PASS_NORM | OPS_PASS_WINOGRAD);
    if (status == EBB_OK)
        run_groups(&j);
    if (status == EBB_OK && request->dump)
        status = tensor_file_write(request->dump, j.tensors, j.tensor_count, err);
    ops_backend_destroy(j.backend);
    dev_far_destroy(j.far);
    ebb_free(j.tensors);
    return dev_judge_fini(&j, status, counts, err);
}
