/* pickle.c - state_dicts as torch.save pickles them. A pickle is a program for a stack machine that
 * makes objects; here it makes plain values: names, numbers, dictionaries and descriptions of
 * tensors. Nothing is imported or called: what it would call is remembered by name, and only the
 * names that state_dicts need mean something. Everything else becomes "something", which holds no
 * tensor. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/heap.h"
#include "tensor/internal.h"

#define MAX_NEST 8         /* dictionaries inside each other that are looked into */
#define MAX_VALUES 4000000 /* of one pickle */

enum kind { P_SOMETHING, P_MARK, P_INT, P_TEXT, P_TUPLE, P_DICT, P_GLOBAL, P_STORAGE, P_TENSOR };

struct value {
    enum kind kind;
    int64_t integer;
    const char *text; /* TEXT, GLOBAL ("module name"), STORAGE: its key */
    size_t length;
    struct value **items; /* TUPLE, and DICT as key, value, ... */
    size_t count, capacity;
    enum tensor_dtype dtype;     /* STORAGE */
    const struct layout *layout; /* TENSOR */
};

struct layout { /* of a tensor in its storage */
    const struct value *storage;
    enum tensor_dtype dtype;
    int64_t offset, dims[TENSOR_RANK], strides[TENSOR_RANK];
    int rank;
};

struct machine {
    struct tensor_file *file;
    const struct tensor_zip *zip;
    const char *folder;
    size_t folder_length;
    const unsigned char *begin, *at, *end;
    struct value **stack, **memo;
    size_t depth, stack_capacity, memo_count, memo_capacity, next_memo;
    struct ebb_arena arena; /* values */
    size_t values, visits;
    size_t capacity; /* of entries */
    struct ebb_error *err;
    bool failed;
};

static void fail(struct machine *m, enum ebb_status status, const char *what)
{
    if (m->failed)
        return;
    m->failed = true;
    if (status == EBB_ENOMEM)
        ebb_no_memory(m->err, 0);
    else
        ebb_fail(m->err, status, "%s: pickle, byte %td: %s", m->zip->name, m->at - m->begin, what);
}

/* ---- the stack -------------------------------------------------------------------------------- */

static struct value *make(struct machine *m, enum kind kind)
{
    if (++m->values > MAX_VALUES) {
        fail(m, EBB_EINPUT, "more than 4000000 values");
        return NULL;
    }
    struct value *v = ebb_arena_calloc(&m->arena, 1, sizeof *v);
    if (!v)
        fail(m, EBB_ENOMEM, "");
    else
        v->kind = kind;
    return v;
}

static void push(struct machine *m, struct value *v)
{
    if (!v || m->failed)
        return;
    if (ebb_grow(&m->stack, &m->stack_capacity, m->depth + 1, sizeof *m->stack, NULL) != EBB_OK)
        fail(m, EBB_ENOMEM, "");
    else
        m->stack[m->depth++] = v;
}

static struct value *pop(struct machine *m)
{
    if (m->depth == 0 || m->stack[m->depth - 1]->kind == P_MARK) {
        fail(m, EBB_EINPUT, "a value is missing on the stack");
        return NULL;
    }
    return m->stack[--m->depth];
}

static struct value *top(struct machine *m)
{
    if (m->depth == 0) {
        fail(m, EBB_EINPUT, "the stack is empty");
        return NULL;
    }
    return m->stack[m->depth - 1];
}

/* Values above the last mark; the mark goes. */
static struct value **pop_mark(struct machine *m, size_t *count)
{
    size_t i = m->depth;
    while (i > 0 && m->stack[i - 1]->kind != P_MARK)
        i--;
    if (i == 0) {
        fail(m, EBB_EINPUT, "a mark is missing");
        *count = 0;
        return NULL;
    }
    *count = m->depth - i;
    m->depth = i - 1;
    return m->stack + i;
}

static void append(struct machine *m, struct value *to, struct value *const *items, size_t count)
{
    if (!to || m->failed || (to->kind != P_DICT && to->kind != P_TUPLE))
        return; /* something */
    if (to->count + count > to->capacity) {
        size_t capacity = to->count + count < 8 ? 8 : 2 * (to->count + count);
        struct value **more = ebb_arena_calloc(&m->arena, capacity, sizeof *more);
        if (!more) {
            fail(m, EBB_ENOMEM, "");
            return;
        }
        if (to->count)
            memcpy(more, to->items, to->count * sizeof *more);
        to->items = more;
        to->capacity = capacity;
    }
    if (count)
        memcpy(to->items + to->count, items, count * sizeof *items);
    to->count += count;
}

static void remember(struct machine *m, size_t at)
{
    struct value *v = top(m);
    if (!v || at > (size_t)(m->end - m->begin)) {
        fail(m, EBB_EINPUT, "a number of the memo is too large");
        return;
    }
    if (ebb_grow(&m->memo, &m->memo_capacity, at + 1, sizeof *m->memo, NULL) != EBB_OK) {
        fail(m, EBB_ENOMEM, "");
        return;
    }
    for (; m->memo_count <= at; m->memo_count++)
        m->memo[m->memo_count] = NULL;
    m->memo[at] = v;
    m->next_memo = at + 1;
}

static void recall(struct machine *m, size_t at)
{
    if (at >= m->memo_count || !m->memo[at])
        fail(m, EBB_EINPUT, "the memo has no such value");
    else
        push(m, m->memo[at]);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static const unsigned char *take(struct machine *m, uint64_t n)
{
    if (m->failed || n > (uint64_t)(m->end - m->at)) {
        fail(m, EBB_EINPUT, "it ends in the middle");
        return NULL;
    }
    m->at += n;
    return m->at - n;
}

static uint64_t take_int(struct machine *m, size_t n)
{
    const unsigned char *p = take(m, n);
    return p ? ebb_load_bytes(p, n) : 0;
}

static void push_text(struct machine *m, uint64_t length)
{
    const unsigned char *p = take(m, length);
    struct value *v = p ? make(m, P_TEXT) : NULL;
    if (!v)
        return;
    v->text = (const char *)p;
    v->length = (size_t)length;
    push(m, v);
}

static void push_int(struct machine *m, int64_t i)
{
    struct value *v = make(m, P_INT);
    if (v)
        v->integer = i;
    push(m, v);
}

/* Signed, little-endian, of any length; more than 8 bytes are something. */
static void push_long(struct machine *m, uint64_t n)
{
    const unsigned char *p = take(m, n);
    if (!p)
        return;
    if (n > 8) {
        push(m, make(m, P_SOMETHING));
        return;
    }
    uint64_t v = n ? ebb_load_bytes(p, (size_t)n) : 0;
    if (n > 0 && n < 8 && p[n - 1] & 0x80)
        v |= UINT64_MAX << (8 * n);
    push_int(m, (int64_t)v);
}

static const char *take_line(struct machine *m, size_t *n)
{
    const unsigned char *nl = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!nl) {
        fail(m, EBB_EINPUT, "a line has no end");
        *n = 0;
        return NULL;
    }
    *n = (size_t)(nl - m->at);
    const char *line = (const char *)m->at;
    m->at = nl + 1;
    return line;
}

static void push_global(struct machine *m, const char *module, size_t a, const char *name, size_t b)
{
    struct value *v = make(m, P_GLOBAL);
    if (!v || !module || !name)
        return;
    v->text = ebb_arena_printf(&m->arena, "%.*s %.*s", (int)(a < 200 ? a : 200), module,
                               (int)(b < 200 ? b : 200), name);
    if (!v->text)
        fail(m, EBB_ENOMEM, "");
    push(m, v);
}

/* ---- what state_dicts are made of ------------------------------------------------------------- */

static bool is_text(const struct value *v, const char *text)
{
    return v && v->kind == P_TEXT && v->length == strlen(text) &&
           memcmp(v->text, text, v->length) == 0;
}

static bool storage_dtype(const char *name, enum tensor_dtype *dtype)
{
    static const struct {
        const char *name;
        enum tensor_dtype dtype;
    } rows[] = {
        {"torch FloatStorage", TENSOR_F32},
        {"torch DoubleStorage", TENSOR_F64},
        {"torch HalfStorage", TENSOR_F16},
        {"torch BFloat16Storage", TENSOR_BF16},
        {"torch LongStorage", TENSOR_I64},
        {"torch IntStorage", TENSOR_I32},
        {"torch ShortStorage", TENSOR_I16},
        {"torch CharStorage", TENSOR_I8},
        {"torch ByteStorage", TENSOR_U8},
        {"torch BoolStorage", TENSOR_BOOL},
        {"torch.storage UntypedStorage", TENSOR_U8},
    };
    for (size_t i = 0; name && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) {
            *dtype = rows[i].dtype;
            return true;
        }
    return false;
}

/* ("storage", class, key, place, elements) */
static void persistent(struct machine *m, size_t n)
{
    const struct value *t = pop(m);
    (void)n;
    struct value *v = make(m, P_STORAGE);
    if (!t || !v)
        return;
    if (t->kind != P_TUPLE || t->count < 5 || !is_text(t->items[0], "storage") ||
        t->items[1]->kind != P_GLOBAL || t->items[2]->kind != P_TEXT ||
        t->items[4]->kind != P_INT) {
        fail(m, EBB_EINPUT, "a storage is described in an unknown way");
        return;
    }
    if (!storage_dtype(t->items[1]->text, &v->dtype)) {
        char text[300];
        snprintf(text, sizeof text, "tensors of %.200s are not read here", t->items[1]->text);
        fail(m, EBB_EINPUT, text);
        return;
    }
    v->text = t->items[2]->text;
    v->length = t->items[2]->length;
    push(m, v);
}

static bool take_sizes(const struct value *v, int64_t *to, int *rank)
{
    if (v->kind != P_TUPLE || v->count > TENSOR_RANK)
        return false;
    for (size_t i = 0; i < v->count; i++) {
        if (v->items[i]->kind != P_INT || v->items[i]->integer < 0)
            return false;
        to[i] = v->items[i]->integer;
    }
    *rank = (int)v->count;
    return true;
}

/* _rebuild_tensor_v2(storage, offset, size, stride, ...) */
static struct value *rebuild(struct machine *m, const struct value *args)
{
    struct value *v = make(m, P_TENSOR);
    struct layout *l = ebb_arena_calloc(&m->arena, 1, sizeof *l);
    int strides = 0;
    if (!v || !l) {
        fail(m, EBB_ENOMEM, "");
        return NULL;
    }
    if (args->kind != P_TUPLE || args->count < 4 || args->items[0]->kind != P_STORAGE ||
        args->items[1]->kind != P_INT || args->items[1]->integer < 0 ||
        !take_sizes(args->items[2], l->dims, &l->rank) ||
        !take_sizes(args->items[3], l->strides, &strides) || strides != l->rank) {
        fail(m, EBB_EINPUT, "a tensor is described in an unknown way");
        return NULL;
    }
    l->storage = args->items[0];
    l->dtype = l->storage->dtype;
    l->offset = args->items[1]->integer;
    v->layout = l;
    return v;
}

/* What a call would give. */
static void reduce(struct machine *m, size_t n)
{
    const struct value *args = pop(m), *f = pop(m);
    (void)n;
    if (!args || !f)
        return;
    const char *name = f->kind == P_GLOBAL ? f->text : "";
    if (strcmp(name, "torch._utils _rebuild_tensor_v2") == 0 ||
        strcmp(name, "torch._utils _rebuild_tensor") == 0)
        push(m, rebuild(m, args));
    else if (strcmp(name, "torch._utils _rebuild_parameter") == 0 && args->kind == P_TUPLE &&
             args->count > 0)
        push(m, args->items[0]);
    else if (strcmp(name, "collections OrderedDict") == 0)
        push(m, make(m, P_DICT));
    else if (strcmp(name, "torch Size") == 0 && args->kind == P_TUPLE && args->count == 1)
        push(m, args->items[0]);
    else
        push(m, make(m, P_SOMETHING));
}

static void tuple(struct machine *m, size_t count)
{
    struct value *items[3], *v = make(m, P_TUPLE);
    for (size_t i = count; i-- > 0;)
        items[i] = pop(m);
    if (m->failed)
        return;
    append(m, v, items, count);
    push(m, v);
}

static void from_mark(struct machine *m, bool is_tuple)
{
    size_t count;
    struct value **items = pop_mark(m, &count);
    struct value *to = is_tuple ? make(m, P_TUPLE) : m->failed ? NULL : top(m);
    if (items || count == 0)
        append(m, to, items, count);
    if (is_tuple)
        push(m, to);
}

static void set_item(struct machine *m, size_t n)
{
    struct value *pair[2];
    (void)n;
    pair[1] = pop(m);
    pair[0] = pop(m);
    if (!m->failed)
        append(m, top(m), pair, 2);
}

static void drop(struct machine *m, size_t n)
{
    (void)n;
    if (m->depth)
        m->depth--;
}

/* ---- the program ------------------------------------------------------------------------------ */

/* What opcodes do; `n`: bytes of the number or text behind them, or what the row says. */

static void skip(struct machine *m, size_t n)
{
    take(m, n);
}

static void push_new(struct machine *m, size_t kind)
{
    push(m, make(m, (enum kind)kind));
}

static void push_something(struct machine *m, size_t n) /* that is no part of a tensor */
{
    if (n)
        take(m, n);
    push(m, make(m, P_SOMETHING));
}

static void pop_mark_to(struct machine *m, size_t is_tuple)
{
    from_mark(m, is_tuple != 0);
}

static void append_one(struct machine *m, size_t n)
{
    struct value *v = pop(m);
    (void)n;
    if (v)
        append(m, top(m), &v, 1);
}

static void read_text(struct machine *m, size_t n)
{
    push_text(m, take_int(m, n));
}

static void read_number(struct machine *m, size_t n)
{
    uint64_t value = take_int(m, n);
    push_int(m, n == 4 ? (int32_t)value : (int64_t)value);
}

static void read_long(struct machine *m, size_t n)
{
    push_long(m, take_int(m, n));
}

static void put(struct machine *m, size_t n) /* 0: the next free place */
{
    remember(m, n ? (size_t)take_int(m, n) : m->next_memo);
}

static void get(struct machine *m, size_t n)
{
    recall(m, (size_t)take_int(m, n));
}

static void read_global(struct machine *m, size_t n)
{
    size_t a, b;
    const char *module = take_line(m, &a), *name = m->failed ? NULL : take_line(m, &b);
    (void)n;
    if (name)
        push_global(m, module, a, name, b);
}

static void stack_global(struct machine *m, size_t n)
{
    const struct value *name = pop(m), *module = pop(m);
    (void)n;
    if (name && module && name->kind == P_TEXT && module->kind == P_TEXT)
        push_global(m, module->text, module->length, name->text, name->length);
    else
        fail(m, EBB_EINPUT, "a global without a name");
}

static void new_object(struct machine *m, size_t n)
{
    (void)n;
    pop(m);
    pop(m);
    push(m, make(m, P_SOMETHING));
}

/* Attributes of an object; those of an OrderedDict are no weights. */
static void build(struct machine *m, size_t n)
{
    (void)n;
    pop(m);
}

/* Opcodes by their names in Python's pickletools. STOP has no row. */
static const struct opcode {
    unsigned char code;
    void (*act)(struct machine *m, size_t n);
    size_t n;
} opcodes[] = {
    {0x80, skip, 1},           /* PROTO */
    {0x95, skip, 8},           /* FRAME */
    {'(', push_new, P_MARK},   /* MARK */
    {'0', drop, 0},            /* POP */
    {'}', push_new, P_DICT},   /* EMPTY_DICT */
    {']', push_new, P_TUPLE},  /* EMPTY_LIST */
    {')', push_new, P_TUPLE},  /* EMPTY_TUPLE */
    {0x8f, push_new, P_TUPLE}, /* EMPTY_SET */
    {0x85, tuple, 1},          /* TUPLE1 */
    {0x86, tuple, 2},          /* TUPLE2 */
    {0x87, tuple, 3},          /* TUPLE3 */
    {'t', pop_mark_to, 1},     /* TUPLE */
    {'l', pop_mark_to, 1},     /* LIST */
    {'u', pop_mark_to, 0},     /* SETITEMS */
    {'e', pop_mark_to, 0},     /* APPENDS */
    {0x90, pop_mark_to, 0},    /* ADDITEMS */
    {'s', set_item, 0},        /* SETITEM */
    {'a', append_one, 0},      /* APPEND */
    {'X', read_text, 4},       /* BINUNICODE */
    {'T', read_text, 4},       /* BINSTRING */
    {'B', read_text, 4},       /* BINBYTES */
    {0x8c, read_text, 1},      /* SHORT_BINUNICODE */
    {'U', read_text, 1},       /* SHORT_BINSTRING */
    {'C', read_text, 1},       /* SHORT_BINBYTES */
    {0x8d, read_text, 8},      /* BINUNICODE8 */
    {0x8e, read_text, 8},      /* BINBYTES8 */
    {'J', read_number, 4},     /* BININT, signed */
    {'K', read_number, 1},     /* BININT1 */
    {'M', read_number, 2},     /* BININT2 */
    {0x8a, read_long, 1},      /* LONG1 */
    {0x8b, read_long, 4},      /* LONG4 */
    {'G', push_something, 8},  /* BINFLOAT */
    {'N', push_something, 0},  /* NONE */
    {0x88, push_something, 0}, /* NEWTRUE */
    {0x89, push_something, 0}, /* NEWFALSE */
    {'q', put, 1},             /* BINPUT */
    {'r', put, 4},             /* LONG_BINPUT */
    {0x94, put, 0},            /* MEMOIZE */
    {'h', get, 1},             /* BINGET */
    {'j', get, 4},             /* LONG_BINGET */
    {'c', read_global, 0},     /* GLOBAL */
    {0x93, stack_global, 0},   /* STACK_GLOBAL */
    {'Q', persistent, 0},      /* BINPERSID */
    {'R', reduce, 0},          /* REDUCE */
    {0x81, new_object, 0},     /* NEWOBJ */
    {'b', build, 0},           /* BUILD */
};

static bool step(struct machine *m)
{
    const unsigned char *code = take(m, 1);
    if (!code || *code == '.') /* STOP */
        return false;
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++)
        if (opcodes[i].code == *code) {
            opcodes[i].act(m, opcodes[i].n);
            return !m->failed;
        }
    char text[96];
    snprintf(text, sizeof text, "opcode 0x%02x does not belong to a state_dict", *code);
    m->at--;
    fail(m, EBB_EUNSUPPORTED, text);
    return false;
}

/* ---- tensors ---------------------------------------------------------------------------------- */

/* The last element must lie in the storage. */
static bool lies_inside(const struct layout *t, uint64_t bytes, bool *is_empty, bool *is_plain)
{
    size_t width = tensor_dtype_bytes(t->dtype);
    int64_t last = t->offset, expect = 1;
    *is_empty = false;
    *is_plain = true;
    for (int d = t->rank - 1; d >= 0; d--) {
        int64_t more;
        *is_empty |= t->dims[d] == 0;
        *is_plain &= t->dims[d] == 1 || t->strides[d] == expect;
        if (__builtin_mul_overflow(t->dims[d] ? t->dims[d] - 1 : 0, t->strides[d], &more) ||
            __builtin_add_overflow(last, more, &last) ||
            __builtin_mul_overflow(expect, t->dims[d] ? t->dims[d] : 1, &expect))
            return false;
    }
    return *is_empty || (uint64_t)last < bytes / width;
}

#define MOST_REPEATED ((size_t)64 << 20) /* bytes of a tensor that is larger than its storage */

/* Row-major copy of a tensor with other strides. */
static const void *gather(struct machine *m, const struct layout *t, const unsigned char *data,
                          uint64_t bytes)
{
    size_t width = tensor_dtype_bytes(t->dtype), count = 1, room = (size_t)bytes / width;
    for (int d = 0; d < t->rank; d++)
        count *= (size_t)t->dims[d]; /* lies_inside: no overflow */
    if (count > room && count > MOST_REPEATED / width) {
        fail(m, EBB_EINPUT,
             "a tensor repeats its storage over more than 64 MiB: save a copy "
             "(contiguous())");
        return NULL;
    }
    unsigned char *to = ebb_arena_alloc(&m->file->arena, count * width + 1);
    int64_t index[TENSOR_RANK] = {0};
    if (!to) {
        fail(m, EBB_ENOMEM, "");
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t at = t->offset;
        for (int d = 0; d < t->rank; d++)
            at += index[d] * t->strides[d];
        memcpy(to + i * width, data + (size_t)at * width, width);
        for (int d = t->rank - 1; d >= 0 && ++index[d] == t->dims[d]; d--)
            index[d] = 0;
    }
    return to;
}

static void add_tensor(struct machine *m, const struct value *name, const struct layout *t)
{
    char path[600];
    bool is_empty, is_plain;
    int n = snprintf(path, sizeof path, "%.*sdata/%.*s", (int)m->folder_length, m->folder,
                     (int)(t->storage->length < 200 ? t->storage->length : 200), t->storage->text);
    struct tensor_member *member =
        n > 0 && n < (int)sizeof path ? tensor_zip_find(m->zip, path, (size_t)n) : NULL;
    if (!member || member->zip.is_packed ||
        !lies_inside(t, member->zip.bytes, &is_empty, &is_plain)) {
        fail(m, EBB_EINPUT, member ? "a tensor leaves its storage" : "a storage is missing");
        return;
    }
    /* torch writes a checksum unless it is told not to: then it is 0 */
    if (!member->is_proved && member->zip.sum != 0 && !tensor_zip_prove(member, member->data)) {
        fail(m, EBB_EINPUT, "a storage was changed: its CRC-32 is another");
        return;
    }
    member->is_proved = true;
    if (memchr(name->text, '\0', name->length) ||
        ebb_strmap_get(&m->file->index, name->text, name->length, NULL)) {
        fail(m, EBB_EINPUT, "a name occurs twice, or holds a zero byte");
        return;
    }
    size_t width = tensor_dtype_bytes(t->dtype);
    const void *data = is_empty   ? (const void *)member->data
                       : is_plain ? member->data + (size_t)t->offset * width
                                  : gather(m, t, member->data, member->zip.bytes);
    struct tensor_entry *entry =
        data ? tensor_file_add(m->file, &m->capacity, name->text, name->length, m->err) : NULL;
    if (!entry) {
        m->failed = true;
        return;
    }
    tensor_view_init(&entry->view, t->dtype, t->rank, t->dims);
    entry->data = data;
    entry->bytes = is_empty ? 0 : (size_t)tensor_count(&entry->view) * width;
    m->file->count++;
}

static size_t count_tensors(const struct value *v)
{
    size_t n = 0;
    for (size_t i = 0; v->kind == P_DICT && i + 1 < v->count; i += 2)
        n += v->items[i]->kind == P_TEXT && v->items[i + 1]->kind == P_TENSOR;
    return n;
}

/* The state_dict in a checkpoint: under one of the usual names, else the only one with tensors. */
static const struct value *find_dict(struct machine *m, const struct value *v, int depth,
                                     bool *is_unclear)
{
    static const char *const names[] = {"state_dict", "model_state_dict", "model", "module", "net"};
    const struct value *found = NULL;
    if (v->kind != P_DICT || depth > MAX_NEST || ++m->visits > 10000)
        return NULL;
    if (count_tensors(v))
        return v;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (size_t i = 0; i + 1 < v->count; i += 2) {
            const struct value *inner = is_text(v->items[i], names[k])
                                            ? find_dict(m, v->items[i + 1], depth + 1, is_unclear)
                                            : NULL;
            if (inner)
                return inner;
        }
    for (size_t i = 0; i + 1 < v->count; i += 2) {
        const struct value *inner = find_dict(m, v->items[i + 1], depth + 1, is_unclear);
        *is_unclear |= inner && found;
        found = inner ? inner : found;
    }
    return found;
}

static void add_tensors(struct machine *m)
{
    bool is_unclear = false;
    const struct value *v = m->depth ? m->stack[m->depth - 1] : NULL;
    const struct value *dict = v ? find_dict(m, v, 0, &is_unclear) : NULL;
    if (!dict || is_unclear) {
        fail(m, EBB_EINPUT,
             is_unclear
                 ? "several dictionaries of tensors: save one (torch.save(model.state_dict(), "
                   "...))"
                 : "no dictionary of tensors: save the state_dict "
                   "(torch.save(model.state_dict(), ...))");
        return;
    }
    for (size_t i = 0; i + 1 < dict->count && !m->failed; i += 2)
        if (dict->items[i]->kind == P_TEXT && dict->items[i + 1]->kind == P_TENSOR)
            add_tensor(m, dict->items[i], dict->items[i + 1]->layout);
}

enum ebb_status tensor_pickle_read(struct tensor_file *file, const struct tensor_zip *zip,
                                   const char *folder, size_t folder_length,
                                   const struct tensor_member *text, struct ebb_error *err)
{
    struct machine m = {.file = file,
                        .zip = zip,
                        .folder = folder,
                        .folder_length = folder_length,
                        .begin = text->data,
                        .at = text->data,
                        .end = text->data + text->zip.packed,
                        .err = err};
    if (text->zip.is_packed)
        return ebb_fail(err, EBB_EINPUT, "%s: its pickle is compressed, torch.save stores it",
                        zip->name);
    if (folder_length > 300)
        return ebb_fail(err, EBB_EINPUT, "%s: the folder in the zip has too long a name",
                        zip->name);
    ebb_arena_init(&m.arena);
    while (step(&m))
        ;
    if (!m.failed)
        add_tensors(&m);
    ebb_free(m.stack);
    ebb_free(m.memo);
    ebb_arena_fini(&m.arena);
    return m.failed ? err->status : EBB_OK;
}
