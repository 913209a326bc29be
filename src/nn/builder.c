/* builder.c - items by name, scopes, ops by name. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "nn/internal.h"

void nn_builder_init(struct nn_builder *b, struct tensor_session *session,
                     const struct nn_mode *mode)
{
    memset(b, 0, sizeof *b);
    b->session = session;
    if (mode)
        b->mode = *mode;
}

void nn_builder_fini(struct nn_builder *b)
{
    ebb_arena_fini(&b->arena);
    ebb_strmap_fini(&b->index);
    ebb_free(b->items);
    ebb_free(b->low);
    ebb_free(b->layers);
    memset(b, 0, sizeof *b);
}

static void fail(struct nn_builder *b, const struct ebb_error *err)
{
    tensor_fail(b->session, err->status, "%s", err->message);
}

/* ---- scopes --------------------------------------------------------------------------------- */

static void label_scope(struct nn_builder *b)
{
    size_t n = b->prefix_length;
    if (n)
        b->prefix[n - 1] = 0; /* without the dot */
    tensor_label(b->session, n > 1 ? b->prefix : NULL);
    if (n)
        b->prefix[n - 1] = '.';
}

void nn_enter(struct nn_builder *b, const char *name)
{
    size_t room = sizeof b->prefix - b->prefix_length, n = strlen(name);
    if (n + 2 > room) {
        tensor_fail(b->session, EBB_ELIMIT, "a layer's name is longer than %zu bytes",
                    sizeof b->prefix);
        n = 0;
    }
    if (b->depth == NN_DEPTH) {
        tensor_fail(b->session, EBB_ELIMIT, "layers are nested deeper than %d", NN_DEPTH);
        return;
    }
    b->marks[b->depth++] = b->prefix_length;
    memcpy(b->prefix + b->prefix_length, name, n);
    b->prefix_length += n;
    b->prefix[b->prefix_length++] = '.';
    b->prefix[b->prefix_length] = 0;
    label_scope(b);
}

void nn_push(struct nn_builder *b, const char *fmt, ...)
{
    char name[sizeof b->prefix]; /* what does not fit here does not fit the prefix */
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    nn_enter(b, name);
}

void nn_pop(struct nn_builder *b)
{
    if (b->depth)
        b->prefix_length = b->marks[--b->depth];
    b->prefix[b->prefix_length] = 0;
    label_scope(b);
}

size_t nn_full_name(const struct nn_builder *b, const char *name, char *buf, size_t size)
{
    size_t n = strnlen(name, size - 1 - b->prefix_length);
    memcpy(buf, b->prefix, b->prefix_length);
    memcpy(buf + b->prefix_length, name, n);
    buf[b->prefix_length + n] = 0;
    return b->prefix_length + n;
}

/* ---- items ---------------------------------------------------------------------------------- */

size_t nn_item_count(const struct nn_builder *b)
{
    return b->item_count;
}

const struct nn_item *nn_item_at(const struct nn_builder *b, size_t i)
{
    return i < b->item_count ? &b->items[i] : NULL;
}

const struct nn_item *nn_item_find(const struct nn_builder *b, const char *name)
{
    uint64_t at;
    return ebb_strmap_get(&b->index, name, strlen(name), &at) ? &b->items[at] : NULL;
}

static struct nn_item *find_here(struct nn_builder *b, const char *name)
{
    char full[512];
    uint64_t at;
    size_t n = nn_full_name(b, name, full, sizeof full);
    return ebb_strmap_get(&b->index, full, n, &at) ? &b->items[at] : NULL;
}

static struct nn_item *add_item(struct nn_builder *b, const char *name, enum tensor_dtype dtype,
                                int rank, const int64_t *dims)
{
    struct ebb_error err;
    char full[512];
    size_t n = nn_full_name(b, name, full, sizeof full);
    if (ebb_grow(&b->items, &b->item_capacity, b->item_count + 1, sizeof *b->items, &err) !=
            EBB_OK ||
        ebb_grow(&b->low, &b->low_capacity, b->item_count + 1, sizeof *b->low, &err) != EBB_OK ||
        ebb_strmap_put(&b->index, full, n, b->item_count, &err) != EBB_OK) {
        fail(b, &err);
        return NULL;
    }
    struct nn_item *item = &b->items[b->item_count];
    memset(item, 0, sizeof *item);
    item->name = ebb_arena_strndup(&b->arena, full, n);
    if (!item->name) {
        tensor_fail(b->session, EBB_ENOMEM, "out of memory");
        return NULL;
    }
    tensor_view_init(&item->view, dtype, rank, dims);
    b->low[b->item_count++] = TENSOR_NONE;
    return item;
}

static void add_leaf(struct nn_builder *b, struct nn_item *item)
{
    const struct tensor_view *v = &item->view;
    item->leaf = item->id =
        tensor_leaf(b->session, (enum tensor_dtype)v->dtype, v->rank, v->dims, item->name);
}

/* The weights themselves are made for those who read them in full alone. */
static void add_halves(struct nn_builder *b, struct nn_item *item)
{
    const struct tensor_view *v = &item->view;
    item->leaf = tensor_leaf(b->session, TENSOR_BF16, v->rank, v->dims, item->name);
    item->rest = tensor_leaf(b->session, TENSOR_I16, v->rank, v->dims, item->name);
    item->id = ops_master_join(b->session, item->leaf, item->rest);
    b->low[item - b->items] = ops_master_high(b->session, item->leaf, item->id);
}

/* The item of this name if it fits, made where it is new; NULL after a failure. */
static struct nn_item *get_item(struct nn_builder *b, const char *name, enum tensor_dtype dtype,
                                int rank, const int64_t *dims, bool *is_new)
{
    *is_new = false;
    if (tensor_status(b->session, NULL) != EBB_OK)
        return NULL;
    struct nn_item *item = find_here(b, name);
    if (!item) {
        *is_new = true;
        return add_item(b, name, dtype, rank, dims);
    }
    struct tensor_view want;
    char have_text[128], want_text[128];
    tensor_view_init(&want, dtype, rank, dims);
    if (tensor_same_shape(&want, &item->view) && want.dtype == item->view.dtype)
        return item;
    tensor_fail(b->session, EBB_EINPUT, "%s: asked for as %s, but it is %s", item->name,
                tensor_shape_text(&want, want_text, sizeof want_text),
                tensor_shape_text(&item->view, have_text, sizeof have_text));
    return NULL;
}

static bool fits_any(const char *const *patterns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (tensor_pattern_fits(patterns[i], name))
            return true;
    return false;
}

static bool is_frozen(const struct nn_builder *b, const char *name)
{
    const struct nn_config *c = b->config;
    return c && (fits_any(c->frozen, c->frozen_count, name) ||
                 (c->trainable_count && !fits_any(c->trainable, c->trainable_count, name)));
}

static bool ends_with_weight(const char *name)
{
    const char *dot = strrchr(name, '.');
    return strcmp(dot ? dot + 1 : name, "weight") == 0;
}

static tensor_id item_id(struct nn_builder *b, const char *name, enum nn_role role,
                         enum tensor_dtype dtype, int rank, const int64_t *dims,
                         struct nn_init init)
{
    bool is_new;
    struct nn_item *item = get_item(b, name, dtype, rank, dims, &is_new);
    if (!item)
        return TENSOR_NONE;
    if (is_new) {
        item->role = role;
        item->is_frozen = is_frozen(b, item->name);
        item->is_trained = role != NN_BUFFER && !item->is_frozen;
        item->has_decay = role == NN_WEIGHT || role == NN_EMBEDDING;
        item->init = init;
        bool is_layer = role == NN_WEIGHT && ends_with_weight(name); /* gates have other names */
        int64_t rows = is_layer ? nn_tile_rows(&b->mode, &item->view) : 0;
        if (b->mode.is_split && role == NN_WEIGHT && item->is_trained)
            add_halves(b, item);
        else if (rows > 0)
            nn_tile_item(b, item, rows);
        else
            add_leaf(b, item);
    }
    return item->id;
}

tensor_id nn_parameter(struct nn_builder *b, const char *name, enum nn_role role, int rank,
                       const int64_t *dims, struct nn_init init)
{
    return item_id(b, name, role, TENSOR_F32, rank, dims, init);
}

tensor_id nn_buffer(struct nn_builder *b, const char *name, enum tensor_dtype dtype, int rank,
                    const int64_t *dims, float value)
{
    return item_id(b, name, NN_BUFFER, dtype, rank, dims, nn_init_constant(value));
}

tensor_id nn_given_buffer(struct nn_builder *b, const char *name, enum tensor_dtype dtype, int rank,
                          const int64_t *dims, struct nn_init init)
{
    return item_id(b, name, NN_BUFFER, dtype, rank, dims, init);
}

bool nn_is_frozen(struct nn_builder *b, const char *name)
{
    const struct nn_item *item = find_here(b, name);
    return item && item->is_frozen;
}

void nn_replace(struct nn_builder *b, const char *name, tensor_id id)
{
    struct nn_item *item = find_here(b, name);
    if (item && item->block_count)
        tensor_fail(b->session, EBB_EUNSUPPORTED,
                    "the model updates '%s' itself: memory.with_tiling_linear must be false",
                    item->name);
    if (item && id.v) {
        item->id = id;
        b->low[item - b->items] = TENSOR_NONE;
    }
}

void nn_own(struct nn_builder *b, size_t first)
{
    for (size_t i = first; i < b->item_count; i++)
        b->items[i].is_trained = false;
}

size_t nn_layer_count(const struct nn_builder *b)
{
    return b->layer_count;
}

const struct nn_layer *nn_layer_at(const struct nn_builder *b, size_t i)
{
    return i < b->layer_count ? &b->layers[i] : NULL;
}

/* ---- ops by name ---------------------------------------------------------------------------- */

static enum tensor_dtype low_dtype(const struct nn_builder *b)
{
    return b->mode.precision == NN_BF16   ? TENSOR_BF16
           : b->mode.precision == NN_FP16 ? TENSOR_F16
                                          : TENSOR_F32;
}

static bool is_float(const struct nn_builder *b, tensor_id x)
{
    uint8_t d = tensor_view_of(b->session, x)->dtype;
    return d == TENSOR_F32 || d == TENSOR_BF16 || d == TENSOR_F16;
}

/* Casts of parameters are made once per trace. */
tensor_id nn_low(struct nn_builder *b, tensor_id x)
{
    enum tensor_dtype to = low_dtype(b);
    if (!x.v || to == TENSOR_F32 || !is_float(b, x) || tensor_view_of(b->session, x)->dtype == to)
        return x;
    for (size_t i = b->item_count; i-- > 0;)
        if (b->items[i].id.v == x.v) {
            if (!b->low[i].v)
                b->low[i] = ops_cast(b->session, x, to);
            return b->low[i];
        }
    return ops_cast(b->session, x, to);
}

tensor_id nn_item_low(const struct nn_builder *b, size_t i, size_t k)
{
    const struct nn_item *item = &b->items[i];
    tensor_id low = item->block_count ? item->block_low[k] : b->low[i];
    bool is_itself = low.v == (item->block_count ? item->blocks[k] : item->leaf).v;
    return is_itself ? TENSOR_NONE : low;
}

tensor_id nn_full(struct nn_builder *b, tensor_id x)
{
    return x.v && is_float(b, x) ? ops_cast(b->session, x, TENSOR_F32) : x;
}

/* What happens to the inputs of an op in low precision. Products take and give it; norms keep their
 * weights; ops of several inputs agree on one type; the rest takes what comes and gives the same,
 * but sums, softmax and losses, which give F32 by themselves. */
enum low_rule {
    RULE_AS_IS,
    RULE_UNIFY,   /* one low input makes all low */
    RULE_FULL,    /* in F32 */
    RULE_FIRST,   /* input 0 low, weights as they are */
    RULE_PRODUCT, /* inputs 0 and 1 low, the bias as it is */
    RULE_ATTENTION,
};

static enum low_rule low_rule(const char *op, size_t in_count)
{
    static const struct {
        const char *prefix;
        enum low_rule rule;
    } rows[] = {
        {"linear", RULE_PRODUCT},   {"matmul", RULE_PRODUCT},
        {"conv", RULE_PRODUCT},     {"attention", RULE_ATTENTION},
        {"batch_norm", RULE_FIRST}, {"layer_norm", RULE_FIRST},
        {"group_norm", RULE_FIRST}, {"cross_entropy", RULE_AS_IS},
        {"nll_loss", RULE_AS_IS},   {"embedding", RULE_FULL},
        {"lstm", RULE_FULL},        {"gru", RULE_FULL},
        {"exp", RULE_FULL},         {"log", RULE_FULL},
        {"pow_scalar", RULE_FULL},  {"mse_loss", RULE_FULL},
        {"l1_loss", RULE_FULL},     {"smooth_l1_loss", RULE_FULL},
        {"bce", RULE_FULL},         {"kl_div_loss", RULE_FULL},
    };
    if (strncmp(op, "expand", 6) == 0 || strncmp(op, "log_softmax", 11) == 0 ||
        strncmp(op, "logsumexp", 9) == 0)
        return RULE_AS_IS;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(op, rows[i].prefix, strlen(rows[i].prefix)) == 0)
            return rows[i].rule;
    return in_count > 1 ? RULE_UNIFY : RULE_AS_IS;
}

static bool is_low(const struct nn_builder *b, tensor_id x)
{
    uint8_t d = tensor_view_of(b->session, x)->dtype;
    return d == TENSOR_BF16 || d == TENSOR_F16;
}

static void cast_inputs(struct nn_builder *b, const char *op, size_t count, const tensor_id *in,
                        tensor_id *to)
{
    enum low_rule rule = b->mode.precision == NN_FP32 ? RULE_AS_IS : low_rule(op, count);
    size_t low = rule == RULE_FIRST ? 1 : rule == RULE_PRODUCT ? 2 : rule == RULE_ATTENTION ? 3 : 0;
    for (size_t i = 0; rule == RULE_UNIFY && i < count; i++)
        low = is_low(b, in[i]) ? count : low;
    for (size_t i = 0; i < count; i++)
        to[i] = rule == RULE_FULL ? nn_full(b, in[i]) : i < low ? nn_low(b, in[i]) : in[i];
}

tensor_id nn_apply(struct nn_builder *b, const struct ops_def *def, size_t in_count,
                   const tensor_id *in, tensor_id *out, size_t *out_count, const void *attr)
{
    tensor_id outputs[TENSOR_PORTS], inputs[TENSOR_PORTS], answer;
    size_t count = 0;
    if (nn_tile_linear(b, def, in_count, in, attr, &answer)) {
        if (out)
            *out = answer;
        if (out_count)
            *out_count = 1;
        return answer;
    }
    cast_inputs(b, ops_name(def), in_count, in, inputs);
    ops_call(b->session, def, inputs, in_count, attr, outputs, &count);
    if (tensor_status(b->session, NULL) != EBB_OK || !count)
        return TENSOR_NONE;
    nn_journal_op(b, def, in_count, in, count, outputs, attr);
    if (out)
        memcpy(out, outputs, count * sizeof *out);
    if (out_count)
        *out_count = count;
    return outputs[0];
}

static const struct ops_def *find_op(struct nn_builder *b, const char *op, size_t in_count)
{
    if (tensor_status(b->session, NULL) != EBB_OK)
        return NULL;
    const struct ops_def **recent = &b->recent[((unsigned)op[0] * 5 + (unsigned)op[1]) % NN_RECENT];
    if (!*recent || strcmp(ops_name(*recent), op) != 0)
        *recent = ops_find(op);
    const struct ops_def *def = *recent;
    if (!def || in_count > TENSOR_PORTS) {
        tensor_fail(b->session, EBB_EUNSUPPORTED, "%s: no such op, or %zu inputs", op, in_count);
        return NULL;
    }
    return def;
}

tensor_id nn_call(struct nn_builder *b, const char *op, size_t in_count, const tensor_id *in,
                  tensor_id *out, size_t count, const struct ops_value *values)
{
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    struct ebb_error err;
    const struct ops_def *def = find_op(b, op, in_count);
    if (!def)
        return TENSOR_NONE;
    if (ops_assign(def, values, count, attr, &err) != EBB_OK) {
        fail(b, &err);
        return TENSOR_NONE;
    }
    return nn_apply(b, def, in_count, in, out, NULL, attr);
}

tensor_id nn_op(struct nn_builder *b, const char *op, size_t in_count, const tensor_id *in,
                tensor_id *out, const char *fmt, ...)
{
    _Alignas(16) unsigned char attr[OPS_ATTR_BYTES];
    char text[1024];
    struct ebb_error err;
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *map;
    if (!fmt)
        return nn_call(b, op, in_count, in, out, 0, NULL);
    const struct ops_def *def = find_op(b, op, in_count);
    if (!def)
        return TENSOR_NONE;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    enum ebb_status status = ebb_doc_parse_json(&arena, op, text, strlen(text), &map, &err);
    EBB_THEN(status, ops_parse(def, map, attr, &err));
    ebb_arena_fini(&arena);
    if (status != EBB_OK) {
        fail(b, &err);
        return TENSOR_NONE;
    }
    return nn_apply(b, def, in_count, in, out, NULL, attr);
}

int64_t nn_dim(const struct nn_builder *b, tensor_id x, int d)
{
    const struct tensor_view *v = tensor_view_of(b->session, x);
    return d >= 0 && d < v->rank ? v->dims[d] : 0; /* after a failure there is no rank */
}
