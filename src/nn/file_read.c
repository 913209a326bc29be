/* file_read.c - the document of a model file: options, inputs, blocks, modules, lines, losses. */
#include <stdio.h>
#include <string.h>

#include "base/crypto.h"
#include "base/file.h"
#include "nn/file.h"

#define TASKS "image_classification segmentation language_model regression sequence"

struct reader {
    struct ebb_reading *reading;
    struct nn_file *file;
    const char *bytes;
    size_t length;
    const size_t *lines; /* where each begins */
    size_t line_count;
};

/* ---- texts in the document ------------------------------------------------------------------- */

static void find_lines(struct reader *r)
{
    size_t count = 1, at = 0;
    for (size_t i = 0; i < r->length; i++)
        count += r->bytes[i] == '\n';
    size_t *lines = ebb_reading_alloc(r->reading, count, sizeof *lines);
    for (size_t i = 0; lines && i < r->length; i++)
        if (r->bytes[i] == '\n')
            lines[++at] = i + 1;
    r->lines = lines;
    r->line_count = lines ? count : 0;
}

/* Behind the quote, where it has one. */
static struct nn_text text_of(const struct reader *r, const struct ebb_doc_node *node)
{
    struct nn_text t = {node->text, node->kind == EBB_DOC_STRING ? node->length : 0, node->line,
                        node->column};
    if (node->kind != EBB_DOC_STRING)
        t.length = node->text ? strlen(node->text) : 0;
    size_t at = node->line && node->line <= r->line_count
                    ? r->lines[node->line - 1] + node->column - 1
                    : r->length;
    if (at < r->length && (r->bytes[at] == '"' || r->bytes[at] == '\''))
        t.column++;
    return t;
}

static struct nn_expr *read_expr(const struct reader *r, const struct ebb_path *path,
                                 const struct ebb_doc_node *node, const char *allowed)
{
    if (node->kind == EBB_DOC_LIST || node->kind == EBB_DOC_MAP || node->kind == EBB_DOC_NULL) {
        ebb_reading_refuse(r->reading, path, node, "%s", allowed);
        return NULL;
    }
    struct nn_text text = text_of(r, node);
    if (node->kind == EBB_DOC_BOOL) {
        text.text = node->boolean ? "true" : "false";
        text.length = strlen(text.text);
    }
    return nn_file_expr(r->reading, path, &text);
}

/* A word of letters, digits, '_' that begins with a letter; `parts`: several with dots, digits
 * alone as well. */
static bool is_name(const char *s, size_t n, bool parts)
{
    bool is_first = true;
    for (size_t i = 0; i < n; i++) {
        bool is_digit = s[i] >= '0' && s[i] <= '9';
        bool is_letter =
            (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
        if (parts && s[i] == '.' && !is_first) {
            is_first = true;
            continue;
        }
        if (!is_letter && !(is_digit && (parts || !is_first)))
            return false;
        is_first = false;
    }
    return n > 0 && n < 200 && !is_first;
}

static const char *read_name(const struct reader *r, const struct ebb_path *path,
                             const struct ebb_doc_node *key, bool parts)
{
    if (is_name(key->text, key->length, parts))
        return key->text;
    ebb_reading_refuse(r->reading, path, key,
                       parts ? "a name of letters, digits and '_', parts of it with dots"
                             : "a name of letters, digits and '_'");
    return NULL;
}

/* ---- options --------------------------------------------------------------------------------- */

static bool is_reserved(const char *name)
{
    return ebb_words_find("batch index name rng file init_from frozen", name, strlen(name), NULL);
}

static bool is_list_of_ints(const struct ebb_doc_node *node)
{
    for (size_t i = 0; i < node->count; i++)
        if (node->kind != EBB_DOC_LIST || node->items[i]->kind != EBB_DOC_INT)
            return false;
    return node->kind == EBB_DOC_LIST && node->count > 0 && node->count <= NN_LIST;
}

/* The kind of an option is that of its value; the value is the default. */
static bool read_option(const struct reader *r, const struct ebb_path *path,
                        const struct ebb_doc_node *node, size_t *at, struct ebb_key *key,
                        unsigned char *bytes)
{
    size_t size = 8;
    key->help = "an option of this file";
    key->at = *at;
    if (node->kind == EBB_DOC_INT) {
        key->kind = EBB_KEY_INT;
        memcpy(bytes + *at, &node->integer, sizeof node->integer);
    } else if (node->kind == EBB_DOC_DOUBLE) {
        key->kind = EBB_KEY_DOUBLE;
        memcpy(bytes + *at, &node->number, sizeof node->number);
    } else if (node->kind == EBB_DOC_BOOL) {
        key->kind = EBB_KEY_BOOL;
        memcpy(bytes + *at, &node->boolean, sizeof node->boolean);
    } else if (is_list_of_ints(node)) {
        struct nn_ints list = {.count = (int64_t)node->count};
        for (size_t i = 0; i < node->count; i++)
            list.v[i] = node->items[i]->integer;
        key->kind = EBB_KEY_INTS;
        key->room = NN_LIST;
        key->count_at = *at + offsetof(struct nn_ints, count);
        size = sizeof list;
        if (*at + size <= NN_CONFIG_BYTES)
            memcpy(bytes + *at, &list, sizeof list);
    } else {
        ebb_reading_refuse(r->reading, path, node, "a number, true, false or a list of integers");
        return false;
    }
    *at += size;
    return true;
}

static void read_options(const struct reader *r, const struct ebb_doc_node *map)
{
    struct nn_file *f = r->file;
    struct ebb_path section = {.key = "options"};
    unsigned char *bytes = ebb_reading_alloc(r->reading, NN_CONFIG_BYTES, 1);
    size_t at = 0, count = map ? map->count : 0;
    struct ebb_key *rows = ebb_reading_alloc(r->reading, count, sizeof *rows);
    for (size_t i = 0; bytes && rows && i < count; i++) {
        struct ebb_path path = ebb_path_key(&section, map->keys[i]);
        const char *name = read_name(r, &path, map->keys[i], false);
        bool is_full = f->option_count == 64 || at + sizeof(struct nn_ints) > NN_CONFIG_BYTES;
        if (name && is_reserved(name))
            ebb_reading_error(r->reading, &path, map->keys[i],
                              "is a name with a meaning of its own: allowed is another");
        else if (name && is_full && (f->option_count == 64 || map->items[i]->kind == EBB_DOC_LIST))
            ebb_reading_error(r->reading, &path, map->keys[i],
                              "more options than there is room for");
        else if (name && read_option(r, &path, map->items[i], &at, &rows[f->option_count], bytes))
            rows[f->option_count++].path = name;
    }
    f->options = rows;
    f->model.options = rows;
    f->model.option_count = f->option_count;
    f->model.defaults = bytes;
    f->model.config_bytes = at;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

struct input_row {
    const struct ebb_doc_node *shape;
    unsigned dtype, fill;
    bool is_state, is_mask, is_target, batch;
};
#define ROW(...) EBB_KEY_ROW(struct input_row, __VA_ARGS__)
static const struct ebb_key input_rows[] = {
    ROW("shape", NODE, shape, "sizes of one sample, or of all with the name batch among them",
        .flags = EBB_KEY_REQUIRED, .allowed = "a list of sizes"),
    ROW("dtype", WORD, dtype, "of its numbers", .words = "float32 int64"),
    ROW("fill", WORD, fill, "who makes it", .words = "data zeros uniform normal waves"),
    ROW("state", BOOL, is_state, "begins with zeros; an output of its name is its next value",
        .flags = 0),
    ROW("mask", BOOL, is_mask, "1: a token, 0: padding", .flags = 0),
    ROW("target", BOOL, is_target, "read by loss and metrics alone", .flags = 0),
    ROW("batch", BOOL, batch, "false: the same for all samples", .flags = 0),
};
#undef ROW
static const struct ebb_keys input_keys = EBB_KEYS(input_rows);

static void read_shape(const struct reader *r, const struct ebb_path *path,
                       const struct ebb_doc_node *node, struct nn_file_input *in)
{
    if (node->kind != EBB_DOC_LIST || node->count >= TENSOR_RANK) {
        ebb_reading_refuse(r->reading, path, node, "a list of at most %d sizes", TENSOR_RANK - 1);
        return;
    }
    in->dims = ebb_reading_alloc(r->reading, node->count, sizeof *in->dims);
    for (size_t i = 0; in->dims && i < node->count; i++) {
        struct ebb_path at = ebb_path_item(path, node, i);
        struct nn_expr *x = read_expr(r, &at, node->items[i], "a size");
        if (!x)
            continue;
        in->dims[in->rank++] = x;
        in->has_batch |= x->kind == NN_EXPR_NAME && strcmp(x->text, "batch") == 0;
    }
}

static void read_input(const struct reader *r, const struct ebb_path *path,
                       const struct ebb_doc_node *node, struct nn_file_input *in)
{
    struct input_row row = {.batch = true};
    *in = (struct nn_file_input){0};
    struct ebb_path shape = {.up = path, .key = "shape"};
    if (node->kind == EBB_DOC_LIST) {
        read_shape(r, path, node, in);
        return;
    }
    if (node->kind != EBB_DOC_MAP) {
        ebb_reading_refuse(r->reading, path, node, "a list of sizes, or a mapping with shape");
        return;
    }
    struct ebb_section section = {.table = &input_keys, .what = "an input"};
    ebb_keys_read(r->reading, &section, path, node, node, &row);
    if (row.shape)
        read_shape(r, &shape, row.shape, in);
    in->dtype = row.dtype;
    in->fill = row.fill;
    in->is_state = row.is_state;
    in->is_mask = row.is_mask;
    in->is_target = row.is_target;
    in->has_batch |= !row.batch;
    if (row.dtype == 1 && (row.is_state || row.fill > NN_FILL_ZEROS))
        ebb_reading_wrong(r->reading, path, node, "dtype",
                          "found \"int64\", allowed with state and fill is float32");
    if (row.is_mask && row.dtype != 1)
        ebb_reading_wrong(r->reading, path, node, "mask", "allowed with dtype: int64");
}

static void read_inputs(const struct reader *r, const struct ebb_doc_node *map)
{
    struct nn_file *f = r->file;
    struct ebb_path section = {.key = "inputs"};
    f->top.inputs = ebb_reading_alloc(r->reading, NN_PORTS, sizeof *f->top.inputs);
    if (map && map->count == 0)
        ebb_reading_error(r->reading, &section, map, "at least one input is needed");
    for (size_t i = 0; map && f->top.inputs && i < map->count; i++) {
        struct ebb_path path = ebb_path_key(&section, map->keys[i]);
        const char *name = read_name(r, &path, map->keys[i], false);
        if (i == NN_PORTS) {
            ebb_reading_error(r->reading, &path, map->keys[i], "more than %d inputs", NN_PORTS);
            return;
        }
        struct nn_file_input *in = &f->inputs[f->input_count];
        read_input(r, &path, map->items[i], in);
        if (!name)
            continue;
        in->name = name;
        if (!in->is_target)
            f->top.inputs[f->top.input_count++] = name;
        f->input_count++;
    }
}

/* ---- modules --------------------------------------------------------------------------------- */

static void read_module(const struct reader *r, const struct ebb_path *path,
                        const struct ebb_doc_node *node, struct nn_module *m, int depth);

static void read_parts(const struct reader *r, const struct ebb_path *path,
                       const struct ebb_doc_node *node, struct nn_module **parts, size_t *count,
                       int depth)
{
    *parts = ebb_reading_alloc(r->reading, node->count, sizeof **parts);
    for (size_t i = 0; *parts && i < node->count; i++) {
        struct ebb_path at = ebb_path_item(path, node, i);
        struct nn_module *m = &(*parts)[*count];
        *m = (struct nn_module){0}; /* one without a name may have been read into it */
        m->name = node->kind == EBB_DOC_MAP ? read_name(r, &at, node->keys[i], true)
                                            : ebb_arena_printf(r->reading->arena, "%zu", i);
        m->line = node->kind == EBB_DOC_MAP ? node->keys[i]->line : node->items[i]->line;
        m->column = node->kind == EBB_DOC_MAP ? node->keys[i]->column : node->items[i]->column;
        read_module(r, &at, node->items[i], m, depth);
        *count += m->name != NULL;
    }
}

/* {when, use, else}, {repeat, use} */
struct choice_row {
    const struct ebb_doc_node *use, *when, *other, *repeat;
};
#define ROW(...) EBB_KEY_ROW(struct choice_row, __VA_ARGS__)
static const struct ebb_key choice_rows[] = {
    ROW("use", NODE, use, "the module", .flags = 0),
    ROW("when", NODE, when, "it is there if this is true", .flags = 0),
    ROW("else", NODE, other, "the module if it is not", .flags = 0),
    ROW("repeat", NODE, repeat, "so many of it", .flags = 0),
};
#undef ROW
static const struct ebb_keys choice_keys = EBB_KEYS(choice_rows);

static struct nn_expr *read_part(const struct reader *r, const struct ebb_path *path,
                                 const char *key, const struct ebb_doc_node *node)
{
    struct ebb_path at = {.up = path, .key = key};
    return node ? read_expr(r, &at, node, "an expression") : NULL;
}

static void read_choice(const struct reader *r, const struct ebb_path *path,
                        const struct ebb_doc_node *node, struct nn_module *m)
{
    struct choice_row row = {0};
    struct ebb_section section = {.table = &choice_keys};
    ebb_keys_read(r->reading, &section, path, node, node, &row);
    m->use = read_part(r, path, "use", row.use);
    m->when = read_part(r, path, "when", row.when);
    m->other = read_part(r, path, "else", row.other);
    m->repeat = read_part(r, path, "repeat", row.repeat);
    if (ebb_doc_get(node, "else") && !ebb_doc_get(node, "when"))
        ebb_reading_wrong(r->reading, path, node, "else", "needs 'when'");
    if (ebb_doc_get(node, "when") && ebb_doc_get(node, "repeat"))
        ebb_reading_wrong(r->reading, path, node, "repeat", "allowed without 'when'");
}

static void read_module(const struct reader *r, const struct ebb_path *path,
                        const struct ebb_doc_node *node, struct nn_module *m, int depth)
{
    if (depth > NN_DEPTH) {
        ebb_reading_error(r->reading, path, node, "modules are nested deeper than %d", NN_DEPTH);
    } else if (node->kind == EBB_DOC_MAP && ebb_doc_get(node, "use")) {
        read_choice(r, path, node, m);
    } else if (node->kind == EBB_DOC_MAP &&
               (ebb_doc_get(node, "when") || ebb_doc_get(node, "repeat"))) {
        read_choice(r, path, node, m);
        ebb_reading_wrong(r->reading, path, node, "use", "required but missing");
    } else if (node->kind == EBB_DOC_MAP || node->kind == EBB_DOC_LIST) {
        read_parts(r, path, node, &m->parts, &m->count, depth + 1);
    } else if (node->kind == EBB_DOC_STRING) {
        m->use = read_expr(r, path, node, "a module");
    } else {
        ebb_reading_refuse(r->reading, path, node,
                           "a module such as Conv2d(3, 16, 3), a mapping or a list of modules");
    }
}

/* ---- blocks and lines ------------------------------------------------------------------------ */

static void read_lines(const struct reader *r, const struct ebb_path *path,
                       const struct ebb_doc_node *node, struct nn_block *block)
{
    if (node->kind != EBB_DOC_LIST || node->count == 0) {
        ebb_reading_refuse(r->reading, path, node, "a list of lines that ends with 'return ...'");
        return;
    }
    block->lines = ebb_reading_alloc(r->reading, node->count, sizeof *block->lines);
    for (size_t i = 0; block->lines && i < node->count; i++) {
        struct ebb_path at = ebb_path_item(path, node, i);
        if (node->items[i]->kind != EBB_DOC_STRING) {
            ebb_reading_refuse(r->reading, &at, node->items[i],
                               "a line 'name = ...' or 'return ...' (with ': ' in it, in quotes)");
            block->is_partial = true;
            continue;
        }
        struct nn_text text = text_of(r, node->items[i]);
        struct nn_line *line = &block->lines[block->line_count];
        if (!nn_file_line(r->reading, &at, &text, line)) {
            block->is_partial = true;
            continue;
        }
        line->index = i;
        block->line_count++;
        if ((line->target_count == 0) != (i + 1 == node->count))
            ebb_reading_error(r->reading, &at, node->items[i],
                              line->target_count ? "the last line must be 'return ...'"
                                                 : "nothing may follow 'return'");
    }
}

struct block_row {
    const struct ebb_doc_node *modules, *forward, *inputs;
};
#define ROW(...) EBB_KEY_ROW(struct block_row, __VA_ARGS__)
static const struct ebb_key block_rows[] = {
    ROW("inputs", NODE, inputs, "names of what a call takes; default: [x]", .flags = 0),
    ROW("modules", NODE, modules, "what it consists of", .flags = 0),
    ROW("forward", NODE, forward, "what a call does", .flags = EBB_KEY_REQUIRED,
        .allowed = "a list of lines"),
};
static const struct ebb_keys block_keys = EBB_KEYS(block_rows);

static void read_block_inputs(const struct reader *r, const struct ebb_path *path,
                              const struct ebb_doc_node *node, struct nn_block *b)
{
    size_t count = node ? node->count : 1;
    b->inputs = ebb_reading_alloc(r->reading, count, sizeof *b->inputs);
    if (!b->inputs)
        return;
    if (!node) {
        b->inputs[b->input_count++] = "x";
        return;
    }
    for (size_t i = 0; node->kind == EBB_DOC_LIST && i < count; i++) {
        struct ebb_path at = ebb_path_item(path, node, i);
        if (node->items[i]->kind != EBB_DOC_STRING)
            ebb_reading_refuse(r->reading, &at, node->items[i], "a name");
        else if (read_name(r, &at, node->items[i], false))
            b->inputs[b->input_count++] = node->items[i]->text;
    }
    if (node->kind != EBB_DOC_LIST || count == 0 || count > NN_FILE_NAMES) {
        ebb_reading_refuse(r->reading, path, node, "a list of 1 to 64 names");
        b->input_count = 0;
    }
}

static void read_modules(const struct reader *r, const struct ebb_path *path,
                         const struct ebb_doc_node *node, struct nn_block *b)
{
    if (!node || node->kind == EBB_DOC_NULL)
        return;
    if (node->kind == EBB_DOC_MAP)
        read_parts(r, path, node, &b->modules, &b->module_count, 0);
    else
        ebb_reading_refuse(r->reading, path, node, "a mapping of names to modules");
}

static void read_block(const struct reader *r, const struct ebb_path *path,
                       const struct ebb_doc_node *key, const struct ebb_doc_node *node)
{
    struct nn_file *f = r->file;
    struct nn_block *b = &f->blocks[f->block_count];
    struct block_row row = {0};
    struct nn_text text = text_of(r, key);
    struct ebb_path modules = {.up = path, .key = "modules"},
                    forward = {.up = path, .key = "forward"},
                    inputs = {.up = path, .key = "inputs"};
    *b = (struct nn_block){0};
    bool is_good = nn_file_head(r->reading, path, &text, &b->head);
    b->line = text.line;
    b->column = text.column;
    if (node->kind != EBB_DOC_MAP) {
        ebb_reading_refuse(r->reading, path, node, "a mapping with modules and forward");
        return;
    }
    struct ebb_section section = {.table = &block_keys, .what = "a block"};
    ebb_keys_read(r->reading, &section, path, node, node, &row);
    read_block_inputs(r, &inputs, row.inputs, b);
    read_modules(r, &modules, row.modules, b);
    if (row.forward)
        read_lines(r, &forward, row.forward, b);
    if (!is_good)
        return;
    if (nn_file_block(f, b->head.name) || nn_class_find(b->head.name))
        ebb_reading_error(r->reading, path, key, "another module has the name '%s'", b->head.name);
    f->block_count++;
}

const struct nn_block *nn_file_block(const struct nn_file *file, const char *name)
{
    for (size_t i = 0; i < file->block_count; i++)
        if (strcmp(file->blocks[i].head.name, name) == 0)
            return &file->blocks[i];
    return NULL;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Names of what is returned: those of variables; else output, output1, ... */
static void name_outputs(const struct reader *r)
{
    struct nn_file *f = r->file;
    const struct nn_block *t = &f->top;
    if (!t->line_count || t->lines[t->line_count - 1].target_count)
        return;
    const struct nn_expr *x = t->lines[t->line_count - 1].value;
    size_t n = x->kind == NN_EXPR_LIST ? x->count : 1;
    for (size_t i = 0; i < n && i < NN_PORTS; i++) {
        const struct nn_expr *one = x->kind == NN_EXPR_LIST ? x->items[i] : x;
        f->outputs[i] = one->kind == NN_EXPR_NAME
                            ? one->text
                            : ebb_arena_printf(r->reading->arena, i ? "output%zu" : "output", i);
        f->output_count++;
    }
    /* a loss, metrics and their outputs share the ports */
    if (n > NN_PORTS / 2)
        nn_file_error(r->reading, &(struct ebb_path){.key = "forward"}, x,
                      "%zu results, allowed: at most %d", n, NN_PORTS / 2);
}

static const char loss_words[] = "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss bce_loss "
                                 "bce_with_logits_loss kl_div_loss";

/* The op of a loss; torch's functions have longer names for two. NULL: there is none. */
static const char *loss_op(const char *text, size_t n)
{
    static const char *const twins[][2] = {
        {"binary_cross_entropy", "bce_loss"},
        {"binary_cross_entropy_with_logits", "bce_with_logits_loss"}};
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        if (n == strlen(twins[i][0]) && memcmp(text, twins[i][0], n) == 0)
            return twins[i][1];
    return ebb_words_find(loss_words, text, n, NULL) ? text : NULL;
}

static void refuse_loss(const struct reader *r, const struct ebb_path *path,
                        const struct ebb_doc_node *node)
{
    struct ebb_str text = {0};
    ebb_str_add(&text, "found ");
    ebb_say_found(node, &text);
    ebb_str_add(&text, ", allowed: ");
    ebb_say_words(loss_words, &text);
    ebb_str_add(&text, ", or an expression");
    if (node->kind == EBB_DOC_STRING)
        ebb_say_nearest(loss_words, node->text, node->length, &text);
    ebb_reading_say(r->reading, EBB_FINDING_ERROR, path, node, &text);
}

static void read_losses(const struct reader *r, const struct ebb_path *path,
                        const struct ebb_doc_node *map)
{
    struct nn_file *f = r->file;
    for (size_t i = 0; i < map->count; i++) {
        struct ebb_path at = ebb_path_key(path, map->keys[i]);
        struct ebb_str outputs = {0}, text = {0};
        bool is_output = false;
        for (size_t k = 0; k < f->output_count; k++) {
            is_output |= strcmp(f->outputs[k], map->keys[i]->text) == 0;
            ebb_words_add(&outputs, f->outputs[k]);
        }
        if (!is_output) {
            ebb_str_add(&text, "no such output");
            ebb_say_nearest(ebb_str_c(&outputs), map->keys[i]->text, map->keys[i]->length, &text);
            ebb_str_add(&text, "; allowed: ");
            ebb_say_words(ebb_str_c(&outputs), &text);
            ebb_reading_say(r->reading, EBB_FINDING_ERROR, &at, map->keys[i], &text);
        }
        ebb_str_fini(&outputs);
        const struct ebb_doc_node *loss = map->items[i];
        const char *op = loss->kind == EBB_DOC_STRING ? loss_op(loss->text, loss->length) : NULL;
        if (!op)
            refuse_loss(r, &at, loss);
        else if (f->loss_count < NN_PORTS)
            f->losses[f->loss_count++] = (struct nn_file_loss){map->keys[i]->text, op};
    }
}

static void read_loss(const struct reader *r, const struct ebb_doc_node *node)
{
    struct ebb_path path = {.key = "loss"};
    struct nn_file *f = r->file;
    if (node->kind == EBB_DOC_MAP) {
        read_losses(r, &path, node);
    } else if (node->kind != EBB_DOC_STRING) {
        refuse_loss(r, &path, node);
    } else if (loss_op(node->text, node->length)) {
        f->losses[f->loss_count++] = (struct nn_file_loss){NULL, loss_op(node->text, node->length)};
    } else if (is_name(node->text, node->length, false)) {
        bool is_output = false;
        for (size_t k = 0; k < f->output_count; k++)
            is_output |= strcmp(f->outputs[k], node->text) == 0;
        if (is_output)
            f->loss = read_expr(r, &path, node, "an expression");
        else
            refuse_loss(r, &path, node);
    } else {
        f->loss = read_expr(r, &path, node, "an expression");
    }
}

static void read_metrics(const struct reader *r, const struct ebb_doc_node *map)
{
    struct nn_file *f = r->file;
    struct ebb_path section = {.key = "metrics"};
    for (size_t i = 0; map && i < map->count; i++) {
        struct ebb_path path = ebb_path_key(&section, map->keys[i]);
        const char *name = read_name(r, &path, map->keys[i], false);
        struct nn_expr *x = read_expr(r, &path, map->items[i], "an expression");
        if (f->metric_count + f->output_count + 1 >= NN_PORTS) {
            ebb_reading_error(r->reading, &path, map->keys[i],
                              "more results and metrics than %d together", NN_PORTS - 1);
            return;
        }
        if (!name || !x)
            continue;
        f->metric_names[f->metric_count] = name;
        f->metrics[f->metric_count++] = x;
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

struct file_row {
    const char *name, *summary;
    unsigned task;
    const struct ebb_doc_node *options, *inputs, *blocks, *modules, *forward, *loss, *metrics;
    bool makes_targets;
};
#undef ROW
#define ROW(...) EBB_KEY_ROW(struct file_row, __VA_ARGS__)
static const struct ebb_key file_rows[] = {
    ROW("name", TEXT, name, "of the model; default: that of the file", .flags = 0),
    ROW("summary", TEXT, summary, "one line about it", .flags = 0),
    ROW("task", WORD, task, "what it is for; default: the task of the experiment", .words = TASKS),
    ROW("options", FREE, options, "names with values that an experiment may change", .flags = 0),
    ROW("inputs", FREE, inputs, "names and shapes of what it takes", .flags = EBB_KEY_REQUIRED),
    ROW("blocks", FREE, blocks, "modules made of modules: Name(parameters)", .flags = 0),
    ROW("modules", NODE, modules, "what it consists of", .flags = 0),
    ROW("forward", NODE, forward, "what it computes", .flags = EBB_KEY_REQUIRED,
        .allowed = "a list of lines"),
    ROW("loss", NODE, loss, "a loss, one for each output, or an expression", .flags = 0),
    ROW("metrics", FREE, metrics, "expressions that validation reports", .flags = 0),
    ROW("makes_targets", BOOL, makes_targets, "targets are class 1 always: no data is needed",
        .flags = 0),
};
static const struct ebb_keys file_keys = EBB_KEYS(file_rows);

static void hash(struct reader *r, const struct ebb_doc_node *root)
{
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    struct ebb_sha256 h;
    ebb_jsonw_init(&w, &text, 0);
    ebb_doc_write_json(root, &w);
    ebb_sha256_init(&h);
    ebb_sha256_add(&h, ebb_str_c(&text), text.length);
    if (ebb_sha256_text(&h, r->file->sha256, NULL) != EBB_OK || text.failed)
        r->reading->failed = true;
    ebb_str_fini(&text);
}

static void read_all(struct reader *r, const struct ebb_doc_node *root)
{
    struct nn_file *f = r->file;
    struct file_row row = {.task = UINT32_MAX};
    struct ebb_path blocks = {.key = "blocks"};
    struct ebb_section section = {.table = &file_keys, .what = "a model file"};
    ebb_keys_read(r->reading, &section, NULL, root, root, &row);
    const char *base = ebb_file_name(f->path), *dot = strrchr(base, '.');
    f->name = row.name
                  ? row.name
                  : ebb_arena_strndup(r->reading->arena, base,
                                      dot && dot != base ? (size_t)(dot - base) : strlen(base));
    f->summary = row.summary ? row.summary : "a model file";
    f->model.name = f->name;
    f->model.summary = f->summary;
    f->model.task = row.task == UINT32_MAX ? NN_TASK_COUNT : (enum nn_task)row.task;
    f->makes_targets = row.makes_targets;
    read_options(r, row.options);
    read_inputs(r, row.inputs);
    size_t count = row.blocks ? row.blocks->count : 0;
    f->blocks = ebb_reading_alloc(r->reading, count, sizeof *f->blocks);
    for (size_t i = 0; f->blocks && i < count; i++) {
        struct ebb_path path = ebb_path_key(&blocks, row.blocks->keys[i]);
        read_block(r, &path, row.blocks->keys[i], row.blocks->items[i]);
    }
    read_modules(r, &(struct ebb_path){.key = "modules"}, row.modules, &f->top);
    if (row.forward)
        read_lines(r, &(struct ebb_path){.key = "forward"}, row.forward, &f->top);
    name_outputs(r);
    if (row.loss)
        read_loss(r, row.loss);
    read_metrics(r, row.metrics);
    hash(r, root);
}

const struct nn_file *nn_file_read(struct ebb_reading *reading, const char *path, const char *bytes,
                                   size_t length)
{
    struct reader r = {.reading = reading, .bytes = bytes, .length = length};
    const struct ebb_doc_node *root = NULL;
    struct ebb_error err = {0};
    r.file = ebb_reading_alloc(reading, 1, sizeof *r.file);
    if (!r.file)
        return NULL;
    r.file->path = path;
    if (ebb_doc_parse_yaml(reading->arena, path, bytes, length, &root, &err) != EBB_OK) {
        reading->files[EBB_LAYERS - 1] = NULL; /* the message names file and place itself */
        ebb_reading_error(reading, NULL, NULL, "%s", err.message);
        return NULL;
    }
    if (!root || root->kind != EBB_DOC_MAP) {
        ebb_reading_error(reading, NULL, root,
                          "a model file is a mapping: inputs, modules, "
                          "forward, loss");
        return NULL;
    }
    size_t errors = reading->report->errors;
    find_lines(&r);
    read_all(&r, root);
    if (!reading->failed)
        nn_file_check(reading, r.file);
    r.file->model.context = r.file;
    r.file->model.inputs = nn_file_inputs;
    r.file->model.build = nn_file_build;
    return reading->failed || reading->report->errors > errors ? NULL : r.file;
}
