/* weights.c - weights by path: one file or several, renamed, turned, compared with what a model
 * wants. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/doc.h"
#include "base/file.h"
#include "base/heap.h"
#include "tensor/internal.h"

struct tensor_part {
    struct ebb_file_view view;
    struct tensor_file file;
    char *path; /* owned */
};

/* ---- numbers ---------------------------------------------------------------------------------- */

/* sign, exponent and fraction of so many bits; no infinities in E4M3. */
static double small_float(unsigned v, int bits, int fraction, bool has_inf)
{
    int exponent_bits = bits - 1 - fraction, bias = (1 << (exponent_bits - 1)) - 1;
    unsigned sign = v >> (bits - 1), mantissa = v & ((1u << fraction) - 1);
    unsigned exponent = v >> fraction & ((1u << exponent_bits) - 1),
             most = (1u << exponent_bits) - 1;
    double x;
    if (exponent == most && (has_inf || mantissa == (1u << fraction) - 1))
        x = has_inf && mantissa == 0 ? (double)INFINITY : (double)NAN;
    else if (exponent == 0)
        x = ldexp((double)mantissa, 1 - bias - fraction);
    else
        x = ldexp((double)(mantissa | 1u << fraction), (int)exponent - bias - fraction);
    return sign ? -x : x;
}

/* Element i as a double; exact but for integers above 2^53. */
static double number_at(const unsigned char *p, enum tensor_dtype dtype, size_t i)
{
    uint64_t u = 0;
    float f;
    double d;
    size_t width = tensor_dtype_bytes(dtype);
    memcpy(&u, p + i * width, width);
    switch (dtype) {
    case TENSOR_F32:
        memcpy(&f, &u, sizeof f);
        return (double)f;
    case TENSOR_F64:
        memcpy(&d, &u, sizeof d);
        return d;
    case TENSOR_BF16:
        u <<= 16;
        memcpy(&f, &u, sizeof f);
        return (double)f;
    case TENSOR_F16:
        return small_float((unsigned)u, 16, 10, true);
    case TENSOR_F8_E4M3:
        return small_float((unsigned)u, 8, 3, false);
    case TENSOR_F8_E5M2:
        return small_float((unsigned)u, 8, 2, true);
    case TENSOR_I64:
        return (double)(int64_t)u;
    case TENSOR_I32:
        return (double)(int32_t)u;
    case TENSOR_I16:
        return (double)(int16_t)u;
    case TENSOR_I8:
        return (double)(int8_t)u;
    default:
        return (double)u;
    }
}

static int64_t integer_at(const unsigned char *p, enum tensor_dtype dtype, size_t i)
{
    uint64_t u = 0;
    size_t width = tensor_dtype_bytes(dtype);
    memcpy(&u, p + i * width, width);
    return dtype == TENSOR_I32   ? (int32_t)u
           : dtype == TENSOR_I16 ? (int16_t)u
           : dtype == TENSOR_I8  ? (int8_t)u
                                 : (int64_t)u;
}

static bool is_fraction(enum tensor_dtype dtype)
{
    return dtype == TENSOR_F32 || dtype == TENSOR_F64 || dtype == TENSOR_F16 ||
           dtype == TENSOR_BF16 || dtype == TENSOR_F8_E4M3 || dtype == TENSOR_F8_E5M2;
}

static bool can_be(enum tensor_dtype from, enum tensor_dtype to)
{
    return from == to || to == TENSOR_F32 || (to == TENSOR_I64 && !is_fraction(from));
}

bool tensor_entry_rows(const struct tensor_entry *entry, int64_t first, int64_t count,
                       enum tensor_dtype dtype, void *dst)
{
    enum tensor_dtype from = (enum tensor_dtype)entry->view.dtype;
    size_t all = entry->view.rank ? (size_t)entry->view.dims[0] : 1;
    size_t each = all ? (size_t)tensor_count(&entry->view) / all : 0;
    if (!can_be(from, dtype) ||
        (from == dtype && entry->is_swapped && dtype != TENSOR_F32 && dtype != TENSOR_I64))
        return false;
    if (from == dtype && !entry->is_swapped) {
        size_t width = tensor_dtype_bytes(dtype) * each;
        memcpy(dst, (const char *)entry->data + (size_t)first * width, (size_t)count * width);
        return true;
    }
    for (size_t r = 0; r < (size_t)count; r++)
        for (size_t c = 0; c < each; c++) {
            size_t row = (size_t)first + r, to = r * each + c;
            size_t at = entry->is_swapped ? c * all + row : row * each + c;
            if (dtype == TENSOR_F32)
                ((float *)dst)[to] = (float)number_at(entry->data, from, at);
            else
                ((int64_t *)dst)[to] = integer_at(entry->data, from, at);
        }
    return true;
}

bool tensor_entry_copy(const struct tensor_entry *entry, enum tensor_dtype dtype, void *dst)
{
    return tensor_entry_rows(entry, 0, entry->view.rank ? entry->view.dims[0] : 1, dtype, dst);
}

/* ---- patterns --------------------------------------------------------------------------------- */

enum { STARS = 8 };

struct capture {
    const char *text;
    size_t length;
};

/* Each star takes the shortest text that lets what follows it fit; only the last one ever takes
 * more, so the time is at most pattern times name. False: it does not fit. */
static bool match(const char *p, const char *end, const char *name, struct capture *stars)
{
    const char *after = NULL; /* behind the last star */
    int count = 0;
    while (*name || p < end) {
        if (p < end && *p == '*') {
            if (count == STARS)
                return false;
            stars[count++] = (struct capture){name, 0};
            after = ++p;
        } else if (p < end && *name && *p == *name) {
            p++;
            name++;
        } else if (after && *name) {
            struct capture *last = &stars[count - 1];
            last->length++;
            p = after;
            name = last->text + last->length;
        } else {
            return false;
        }
    }
    return true;
}

bool tensor_pattern_fits(const char *pattern, const char *name)
{
    struct capture stars[STARS];
    return match(pattern, pattern + strlen(pattern), name, stars);
}

static size_t star_count(const char *p, const char *end)
{
    size_t n = 0;
    for (; p < end; p++)
        n += *p == '*';
    return n;
}

enum ebb_status tensor_rename_check(const char *rule, struct ebb_error *err)
{
    const char *equals = strchr(rule, '='), *end = rule + strlen(rule);
    if (!equals || equals == rule || equals + 1 == end)
        return ebb_fail(err, EBB_EINPUT, "rename %s: must be OLD=NEW, as in 'module.*=*'", rule);
    size_t left = star_count(rule, equals), right = star_count(equals + 1, end);
    if (left != right || left > STARS)
        return ebb_fail(err, EBB_EINPUT,
                        "rename %s: %zu stars on the left, %zu on the right; allowed: as many, at "
                        "most %d",
                        rule, left, right, STARS);
    return EBB_OK;
}

/* The new name by the first rule that fits, or the old one; NULL: out of memory. */
static const char *new_name(struct ebb_arena *arena, const struct tensor_changes *c,
                            const char *name)
{
    struct capture stars[STARS];
    for (size_t i = 0; c && i < c->rename_count; i++) {
        const char *equals = strchr(c->rename[i], '=');
        if (!match(c->rename[i], equals, name, stars))
            continue;
        struct ebb_str out = {0};
        size_t k = 0;
        for (const char *p = equals + 1; *p; p++)
            if (*p == '*')
                ebb_str_addn(&out, stars[k].text, stars[k].length), k++;
            else
                ebb_str_addc(&out, *p);
        char *copy = out.failed ? NULL : ebb_arena_strndup(arena, ebb_str_c(&out), out.length);
        ebb_str_fini(&out);
        return copy;
    }
    return ebb_arena_strndup(arena, name, strlen(name));
}

/* ---- files ------------------------------------------------------------------------------------ */

static enum ebb_status open_part(struct tensor_weights *w, const char *path, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&w->parts, &w->part_capacity, w->part_count + 1, sizeof *w->parts, err));
    struct tensor_part *p = &w->parts[w->part_count];
    memset(p, 0, sizeof *p);
    EBB_TRY(ebb_copy_text(&p->path, path, err));
    enum ebb_status status = ebb_file_view_open(&p->view, path, SIZE_MAX, err);
    if (status == EBB_OK) {
        status = tensor_file_read(&p->file, p->path, p->view.data, p->view.length, err);
        if (status != EBB_OK)
            ebb_file_view_close(&p->view);
    }
    if (status != EBB_OK) {
        ebb_free(p->path);
        return status;
    }
    w->part_count++;
    return EBB_OK;
}

/* A file beside the index: a plain name. */
static enum ebb_status open_shard(struct tensor_weights *w, const char *index, const char *name,
                                  struct ebb_error *err)
{
    struct ebb_str path = {0};
    size_t folder = (size_t)(ebb_file_name(index) - index), n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, ".json") == 0)
        return ebb_fail(err, EBB_EINPUT, "%s: '%.100s' is an index again, no file of weights",
                        index, name);
    if (strchr(name, '/') || !*name || strcmp(name, "..") == 0 || strcmp(name, "-") == 0)
        return ebb_fail(err, EBB_EINPUT, "%s: '%.100s' is no name of a file beside it", index,
                        name);
    ebb_str_printf(&path, "%.*s%s", (int)folder, index, name);
    enum ebb_status status = ebb_str_status(&path, err);
    bool is_open = false;
    for (size_t i = 0; status == EBB_OK && i < w->part_count; i++)
        is_open |= strcmp(w->parts[i].path, ebb_str_c(&path)) == 0;
    if (status == EBB_OK && !is_open)
        status = open_part(w, ebb_str_c(&path), err);
    ebb_str_fini(&path);
    return status;
}

static enum ebb_status open_index(struct tensor_weights *w, const char *path, struct ebb_error *err)
{
    struct ebb_arena arena;
    const struct ebb_doc_node *root, *map;
    ebb_arena_init(&arena);
    enum ebb_status status = ebb_doc_load(&arena, path, &root, err);
    EBB_THEN(status, ebb_copy_text(&w->index, path, err));
    map = status == EBB_OK ? ebb_doc_get(root, "weight_map") : NULL;
    if (status == EBB_OK && (!map || map->kind != EBB_DOC_MAP))
        status = ebb_fail(err, EBB_EINPUT, "%s: an index of weights has a weight_map", path);
    for (size_t i = 0; status == EBB_OK && i < map->count; i++)
        status = map->items[i]->kind == EBB_DOC_STRING
                     ? open_shard(w, path, map->items[i]->text, err)
                     : ebb_fail(err, EBB_EINPUT, "%s: weight_map names no file for '%.100s'", path,
                                map->keys[i]->text);
    for (size_t i = 0; status == EBB_OK && i < map->count; i++) {
        bool is_there = false;
        for (size_t p = 0; p < w->part_count && !is_there; p++)
            is_there = tensor_file_find(&w->parts[p].file, map->keys[i]->text) != NULL;
        if (!is_there)
            status = ebb_fail(err, EBB_EINPUT, "%s: %s has no '%.100s'", path, map->items[i]->text,
                              map->keys[i]->text);
    }
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status open_folder(struct tensor_weights *w, const char *folder,
                                   struct ebb_error *err)
{
    static const char *const names[] = {"state/weights.safetensors", "model.safetensors",
                                        "model.safetensors.index.json", "pytorch_model.bin",
                                        "pytorch_model.bin.index.json"};
    struct ebb_str path = {0};
    struct stat st;
    enum ebb_status status = EBB_EINPUT;
    for (size_t i = 0; i < sizeof names / sizeof *names && status == EBB_EINPUT; i++) {
        ebb_str_clear(&path);
        ebb_str_printf(&path, "%s/%s", folder, names[i]);
        if (path.failed || stat(ebb_str_c(&path), &st) != 0)
            continue;
        size_t n = strlen(names[i]);
        status = strcmp(names[i] + n - 5, ".json") == 0 ? open_index(w, ebb_str_c(&path), err)
                                                        : open_part(w, ebb_str_c(&path), err);
        ebb_str_fini(&path);
        return status;
    }
    ebb_str_fini(&path);
    return ebb_fail(err, EBB_EINPUT,
                    "%s: a folder without model.safetensors, pytorch_model.bin, their indices, or "
                    "state/weights.safetensors",
                    folder);
}

/* ---- all together ----------------------------------------------------------------------------- */

static enum ebb_status add(struct tensor_weights *w, size_t *capacity, const struct tensor_entry *e,
                           const struct tensor_changes *c, struct ebb_error *err)
{
    const char *name = new_name(&w->all.arena, c, e->name);
    if (!name)
        return ebb_no_memory(err, strlen(e->name));
    if (ebb_strmap_get(&w->all.index, name, strlen(name), NULL))
        return ebb_fail(err, EBB_EINPUT, "two tensors of the weights are called '%.200s'%s", name,
                        strcmp(name, e->name) == 0 ? "" : " after renaming");
    struct tensor_entry *to = tensor_file_add(&w->all, capacity, name, strlen(name), err);
    if (!to)
        return EBB_ENOMEM;
    name = to->name;
    *to = *e;
    to->name = name;
    w->all.count++;
    for (size_t i = 0; c && i < c->transpose_count; i++) {
        if (!tensor_pattern_fits(c->transpose[i], name) || e->view.rank != 2)
            continue;
        int64_t dims[2] = {e->view.dims[1], e->view.dims[0]};
        tensor_view_init(&to->view, (enum tensor_dtype)e->view.dtype, 2, dims);
        to->is_swapped = !e->is_swapped;
        break;
    }
    return EBB_OK;
}

static bool is_used(const struct tensor_weights *w, const char *pattern)
{
    for (size_t i = 0; i < w->all.count; i++)
        if (tensor_pattern_fits(pattern, w->all.entries[i].name))
            return true;
    return false;
}

/* Whether a rule fits a name as the files have it. */
static bool is_renamed(const struct tensor_weights *w, const char *rule)
{
    struct capture stars[STARS];
    for (size_t p = 0; p < w->part_count; p++)
        for (size_t i = 0; i < w->parts[p].file.count; i++)
            if (match(rule, strchr(rule, '='), w->parts[p].file.entries[i].name, stars))
                return true;
    return false;
}

static enum ebb_status open_all(struct tensor_weights *w, const char *path,
                                const struct tensor_changes *c, struct ebb_error *err)
{
    struct stat st;
    size_t capacity = 0, n = strlen(path);
    for (size_t i = 0; c && i < c->rename_count; i++)
        EBB_TRY(tensor_rename_check(c->rename[i], err));
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        EBB_TRY(open_folder(w, path, err));
    else if (n > 5 && strcmp(path + n - 5, ".json") == 0)
        EBB_TRY(open_index(w, path, err));
    else
        EBB_TRY(open_part(w, path, err));
    for (size_t p = 0; p < w->part_count; p++)
        for (size_t i = 0; i < w->parts[p].file.count; i++)
            EBB_TRY(add(w, &capacity, &w->parts[p].file.entries[i], c, err));
    for (size_t i = 0; c && i < c->rename_count; i++)
        if (!is_renamed(w, c->rename[i]))
            return ebb_fail(err, EBB_EINPUT, "rename %s: no tensor of %s has such a name",
                            c->rename[i], path);
    for (size_t i = 0; c && i < c->transpose_count; i++)
        if (!is_used(w, c->transpose[i]))
            return ebb_fail(err, EBB_EINPUT, "transpose %s: no tensor of %s has such a name",
                            c->transpose[i], path);
    return EBB_OK;
}

enum ebb_status tensor_weights_open(struct tensor_weights *weights, const char *path,
                                    const struct tensor_changes *changes, struct ebb_error *err)
{
    struct tensor_weights w = {0};
    ebb_arena_init(&w.all.arena);
    ebb_strmap_init(&w.all.index);
    enum ebb_status status = open_all(&w, path, changes, err);
    if (status == EBB_OK)
        *weights = w;
    else
        tensor_weights_close(&w);
    return status;
}

const char *tensor_weights_file(const struct tensor_weights *w, size_t i)
{
    return i < w->part_count ? w->parts[i].path : i == w->part_count ? w->index : NULL;
}

void tensor_weights_close(struct tensor_weights *w)
{
    for (size_t i = 0; i < w->part_count; i++) {
        tensor_file_fini(&w->parts[i].file);
        ebb_file_view_close(&w->parts[i].view);
        ebb_free(w->parts[i].path);
    }
    ebb_free(w->parts);
    ebb_free(w->index);
    tensor_file_fini(&w->all);
    *w = (struct tensor_weights){0};
}

/* ---- what a model wants ----------------------------------------------------------------------- */

static bool fits_any(const char *const *patterns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (tensor_pattern_fits(patterns[i], name))
            return true;
    return false;
}

static void say_nearest(const struct tensor_weights *w, const char *name, struct ebb_str *list)
{
    const char *end = strrchr(name, '.');
    for (size_t i = 0; i < w->all.count; i++) { /* the same module below another name */
        const char *other = w->all.entries[i].name;
        size_t n = strlen(name), m = strlen(other);
        const char *longer = n > m ? name : other, *shorter = n > m ? other : name;
        size_t l = n > m ? n : m, k = n > m ? m : n;
        if (end && k > 0 && l > k + 1 && longer[l - k - 1] == '.' &&
            strcmp(longer + l - k, shorter) == 0) {
            ebb_str_printf(list, " (there is '%s': --rename)", other);
            return;
        }
    }
}

/* Every pattern fits an item of the model, or a tensor of the file that the model has not. */
static enum ebb_status check_fresh(const struct tensor_weights *w,
                                   const struct tensor_wanted *wanted, size_t count,
                                   const char *const *fresh, size_t fresh_count,
                                   struct ebb_error *err)
{
    for (size_t k = 0; k < fresh_count; k++) {
        bool fits = is_used(w, fresh[k]);
        for (size_t i = 0; i < count && !fits; i++)
            fits = tensor_pattern_fits(fresh[k], wanted[i].name);
        if (!fits)
            return ebb_fail(err, EBB_EINPUT, "fresh %s: no item of the model has such a name",
                            fresh[k]);
    }
    return EBB_OK;
}

enum ebb_status tensor_weights_check(const struct tensor_weights *w, const char *path,
                                     const struct tensor_wanted *wanted, size_t count,
                                     const char *const *fresh, size_t fresh_count,
                                     struct ebb_str *list, struct ebb_error *err)
{
    struct ebb_str own = {0}, *out = list ? list : &own;
    struct ebb_strmap names;
    size_t missing = 0, other = 0, unexpected = 0;
    char have[96], want[96];
    EBB_TRY(check_fresh(w, wanted, count, fresh, fresh_count, err));
    ebb_strmap_init(&names);
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < count && status == EBB_OK; i++) {
        const struct tensor_view *v = wanted[i].view;
        const struct tensor_entry *e = tensor_file_find(&w->all, wanted[i].name);
        status = ebb_strmap_put(&names, wanted[i].name, strlen(wanted[i].name), i, err);
        if (fits_any(fresh, fresh_count, wanted[i].name))
            continue;
        if (!e && v->dtype != TENSOR_I64) {
            ebb_str_printf(out, "missing: %s %s", wanted[i].name,
                           tensor_shape_text(v, want, sizeof want));
            say_nearest(w, wanted[i].name, out);
            ebb_str_addc(out, '\n');
            missing++;
        } else if (e && (!tensor_same_shape(&e->view, v) ||
                         !can_be((enum tensor_dtype)e->view.dtype, (enum tensor_dtype)v->dtype))) {
            bool is_turned = e->view.rank == 2 && v->rank == 2 && e->view.dims[0] == v->dims[1] &&
                             e->view.dims[1] == v->dims[0];
            ebb_str_printf(out, "other: %s is %s %s, the model has %s %s%s\n", wanted[i].name,
                           tensor_dtype_name((enum tensor_dtype)e->view.dtype),
                           tensor_shape_text(&e->view, have, sizeof have),
                           tensor_dtype_name((enum tensor_dtype)v->dtype),
                           tensor_shape_text(v, want, sizeof want),
                           is_turned ? " (turned: --transpose)" : "");
            other++;
        }
    }
    for (size_t i = 0; i < w->all.count && status == EBB_OK; i++) {
        const char *name = w->all.entries[i].name;
        if (ebb_strmap_get(&names, name, strlen(name), NULL) || fits_any(fresh, fresh_count, name))
            continue;
        ebb_str_printf(out, "unexpected: %s %s\n", name,
                       tensor_shape_text(&w->all.entries[i].view, have, sizeof have));
        unexpected++;
    }
    if (status == EBB_OK && missing + other + unexpected > 0) {
        size_t shown = list ? 0 : strlen(ebb_str_c(out));
        status = ebb_fail(err, EBB_EINPUT,
                          "%s does not fit the model: %zu missing, %zu unexpected, %zu of another "
                          "shape%s%.*s",
                          path, missing, unexpected, other, shown ? ":\n" : "",
                          (int)(shown < 700 ? shown : 700), ebb_str_c(out));
    }
    if (out->data)
        ebb_hide_controls(out->data); /* names are bytes of a file */
    ebb_strmap_fini(&names);
    ebb_str_fini(&own);
    return status;
}
