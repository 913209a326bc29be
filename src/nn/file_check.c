/* file_check.c - names of a model file: everything that is called or read must be there, with the
 * parameters it has. All mistakes at once; shapes are known only when the model is built. */
#include <stdio.h>
#include <string.h>

#include "nn/file.h"

struct scope {
    struct ebb_reading *reading;
    const struct nn_file *file;
    const struct nn_block *block; /* whose modules and parameters are seen */
    struct ebb_path path;
    struct ebb_strmap variables;
    bool is_forward; /* else: what modules are made of */
    bool is_repeat;  /* `index` is a name */
};

static void check(struct scope *s, const struct nn_expr *x);

/* ---- saying ----------------------------------------------------------------------------------- */

/* `names` is what could have been meant; freed. */
static void unknown(struct scope *s, const struct nn_expr *at, const char *what, const char *name,
                    struct ebb_str *names)
{
    struct ebb_str text = {0};
    ebb_say_nearest(ebb_str_c(names), name, strlen(name), &text);
    nn_file_error(s->reading, &s->path, at, "%s '%s'%s", what, name, ebb_str_c(&text));
    ebb_str_fini(&text);
    ebb_str_fini(names);
}

static void add_modules(struct ebb_str *names, const struct nn_module *m, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (m[i].name && !strchr(m[i].name, '.'))
            ebb_words_add(names, m[i].name);
}

static void add_values(const struct scope *s, struct ebb_str *names)
{
    for (size_t i = 0; i < s->block->head.count; i++)
        ebb_words_add(names, s->block->head.names[i]);
    for (size_t i = 0; i < s->file->option_count; i++)
        ebb_words_add(names, s->file->options[i].path);
    if (!s->is_forward)
        return;
    for (size_t i = 0; i < s->block->input_count; i++)
        ebb_words_add(names, s->block->inputs[i]);
    for (size_t i = 0; i < s->block->line_count; i++)
        for (size_t k = 0; k < s->block->lines[i].target_count; k++)
            ebb_words_add(names, s->block->lines[i].targets[k]);
    add_modules(names, s->block->modules, s->block->module_count);
}

/* ---- names ------------------------------------------------------------------------------------ */

static bool is_variable(const struct scope *s, const char *name)
{
    return ebb_strmap_get(&s->variables, name, strlen(name), NULL);
}

static bool is_value(const struct scope *s, const char *name)
{
    for (size_t i = 0; i < s->block->head.count; i++)
        if (strcmp(s->block->head.names[i], name) == 0)
            return true;
    for (size_t i = 0; i < s->file->option_count; i++)
        if (strcmp(s->file->options[i].path, name) == 0)
            return true;
    return (s->is_forward && strcmp(name, "batch") == 0) ||
           (s->is_repeat && strcmp(name, "index") == 0);
}

static const struct nn_module *find_module(const struct nn_module *m, size_t count,
                                           const char *path);

/* The declaration that `rest` of a path names below a module; parts of repeated ones have none. */
static const struct nn_module *find_below(const struct nn_module *m, const char *rest)
{
    return m->parts && !m->repeat ? find_module(m->parts, m->count, rest) : NULL;
}

static const struct nn_module *find_module(const struct nn_module *m, size_t count,
                                           const char *path)
{
    for (size_t i = 0; i < count; i++) {
        size_t n = m[i].name ? strlen(m[i].name) : 0;
        if (!n || strncmp(path, m[i].name, n) != 0 || (path[n] && path[n] != '.'))
            continue;
        const struct nn_module *below = path[n] ? find_below(&m[i], path + n + 1) : &m[i];
        if (below)
            return below;
    }
    return NULL;
}

static bool is_module_prefix(const struct nn_module *m, size_t count, const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < count; i++)
        if (m[i].name && (strcmp(m[i].name, path) == 0 ||
                          (strncmp(m[i].name, path, n) == 0 && m[i].name[n] == '.')))
            return true;
    return false;
}

/* Does a chain of members begin with a module? Then it is one, a part of one or an item. */
static bool is_module(const struct scope *s, const struct nn_expr *x)
{
    const struct nn_expr *first = x;
    while (first->kind == NN_EXPR_MEMBER || first->kind == NN_EXPR_INDEX)
        first = first->items[0];
    return s->is_forward && first->kind == NN_EXPR_NAME && !is_variable(s, first->text) &&
           is_module_prefix(s->block->modules, s->block->module_count, first->text);
}

bool nn_file_is_word(const char *name)
{
    return ebb_words_find("same valid none tanh nearest bilinear", name, strlen(name), NULL);
}

/* ---- calls ------------------------------------------------------------------------------------ */

static void check_items(struct scope *s, const struct nn_expr *x, size_t first)
{
    for (size_t i = first; i < x->count; i++)
        if (x->items[i])
            check(s, x->items[i]);
}

/* Arguments behind the first `skip` parameters, which others give. */
static void check_arguments(struct scope *s, const struct nn_expr *x, const char *what,
                            const char *parameters, size_t skip)
{
    size_t count = nn_signature_count(parameters), positions = skip;
    bool given[NN_FILE_NAMES + 2] = {false}, is_optional, is_rest = false;
    char name[NN_SIGNATURE_BYTES];
    for (size_t i = 0; i < skip && i < count; i++)
        given[i] = true;
    if (count)
        nn_signature_at(parameters, count - 1, name, &is_optional, &is_rest);
    for (size_t i = 1; i < x->count; i++) {
        int at = x->names[i] ? nn_signature_find(parameters, x->names[i]) : (int)positions++;
        if (x->names[i] && at < 0) {
            struct ebb_str names = {0};
            for (size_t k = 0; k < count; k++)
                ebb_words_add(&names, nn_signature_at(parameters, k, name, &is_optional, &is_rest));
            char text[96];
            snprintf(text, sizeof text, "%s has no argument", what);
            unknown(s, x->items[i], text, x->names[i], &names);
        } else if (!x->names[i] && (size_t)at >= count && !is_rest) {
            nn_file_error(s->reading, &s->path, x->items[i], "%s takes %zu values: %s", what,
                          count - skip, *parameters ? parameters : "none");
            return;
        } else if ((size_t)at >= NN_FILE_NAMES) {
            return; /* too many inputs: told where they are declared */
        } else if ((size_t)at < count && given[at] && x->names[i]) {
            nn_file_error(s->reading, &s->path, x->items[i], "%s is given '%s' twice", what,
                          x->names[i]);
        } else if ((size_t)at < count) {
            given[at] = true;
        }
    }
    for (size_t k = 0; k < count && k < NN_FILE_NAMES; k++) {
        nn_signature_at(parameters, k, name, &is_optional, &is_rest);
        if (!given[k] && !is_optional)
            nn_file_error(s->reading, &s->path, x, "%s needs '%s': %s(%s)", what, name, what,
                          parameters);
    }
}

static void check_op(struct scope *s, const struct nn_expr *x, const struct ops_def *def,
                     size_t skip)
{
    size_t most = ops_most_inputs(def) + ops_attribute_count(def);
    if (x->count - 1 + skip > most)
        nn_file_error(s->reading, &s->path, x, "%s takes at most %zu values", ops_name(def), most);
    for (size_t i = 1; i < x->count; i++) {
        bool is_known = !x->names[i];
        struct ebb_str names = {0};
        for (size_t k = 0; x->names[i] && k < ops_attribute_count(def); k++) {
            is_known |= strcmp(ops_attribute(def, k), x->names[i]) == 0;
            ebb_words_add(&names, ops_attribute(def, k));
        }
        char text[96];
        snprintf(text, sizeof text, "%s has no argument", ops_name(def));
        if (!is_known)
            unknown(s, x->items[i], text, x->names[i], &names);
        ebb_str_fini(&names);
    }
}

static bool call_function(struct scope *s, const struct nn_expr *x, const char *name, size_t skip)
{
    const struct nn_function *f = nn_function_find(name);
    const struct ops_def *def = f ? NULL : ops_find(name);
    if (f)
        check_arguments(s, x, name, f->signature.parameters, skip);
    else if (def && !ops_is_internal(def))
        check_op(s, x, def, skip);
    else
        return false;
    return true;
}

static void head_text(const struct nn_head *head, struct ebb_str *out)
{
    for (size_t i = 0; i < head->count; i++)
        ebb_str_printf(out, "%s%s%s", i ? ", " : "", head->names[i], head->defaults[i] ? "=" : "");
}

/* Conv2d(...) or a block. */
static void call_class(struct scope *s, const struct nn_expr *x, const char *name)
{
    const struct nn_class *class = nn_class_find(name);
    const struct nn_block *block = class ? NULL : nn_file_block(s->file, name);
    struct ebb_str text = {0};
    if (class) {
        check_arguments(s, x, name, class->signature.parameters, 0);
    } else if (block) {
        head_text(&block->head, &text);
        check_arguments(s, x, name, ebb_str_c(&text), 0);
    } else {
        struct ebb_str names = {0};
        for (size_t i = 0; nn_class_name(i); i++)
            ebb_words_add(&names, nn_class_name(i));
        for (size_t i = 0; i < s->file->block_count; i++)
            ebb_words_add(&names, s->file->blocks[i].head.name);
        unknown(s, x, "no module or block is called", name, &names);
    }
    ebb_str_fini(&text);
}

/* A call of what one declaration makes. */
static void call_module(struct scope *s, const struct nn_expr *x, const struct nn_module *m)
{
    const struct nn_expr *use = m->use;
    if (!use || use->kind != NN_EXPR_CALL || use->items[0]->kind != NN_EXPR_NAME)
        return;
    const char *name = use->items[0]->text;
    const struct nn_class *class = nn_class_find(name);
    const struct nn_block *block = class ? NULL : nn_file_block(s->file, name);
    struct ebb_str text = {0};
    for (size_t i = 0; block && i < block->input_count; i++)
        ebb_str_printf(&text, "%s%s", i ? ", " : "", block->inputs[i]);
    if (class && !class->calls)
        nn_file_error(s->reading, &s->path, x, "'%s' is a %s: it is read, not called", m->name,
                      name);
    else if (class || block)
        check_arguments(s, x, m->name, class ? class->calls : ebb_str_c(&text), 0);
    ebb_str_fini(&text);
}

/* A tensor of a module: at least its classes have such items. */
static bool is_item(const char *name)
{
    return ebb_words_find("weight bias running_mean running_var num_batches_tracked in_proj_weight "
                          "in_proj_bias",
                          name, strlen(name), NULL) ||
           strncmp(name, "weight_", 7) == 0 || strncmp(name, "bias_", 5) == 0;
}

static bool is_property(const char *name)
{
    return ebb_words_find("shape T ndim", name, strlen(name), NULL);
}

/* A chain that begins with a module: found in the declarations as far as they tell. */
static void check_module_path(struct scope *s, const struct nn_expr *x, const struct nn_expr *call)
{
    char path[512];
    if (!nn_expr_path(x, path, sizeof path))
        return; /* an index in between: known when the model is built */
    const struct nn_module *m = find_module(s->block->modules, s->block->module_count, path);
    if (m && call)
        call_module(s, call, m);
    if (m || x->kind != NN_EXPR_MEMBER)
        return;
    nn_expr_path(x->items[0], path, sizeof path);
    const struct nn_module *of = find_module(s->block->modules, s->block->module_count, path);
    bool is_open = of && (of->repeat || (of->use && !of->parts)); /* a block, or one of many */
    bool is_container = !of && is_module_prefix(s->block->modules, s->block->module_count, path);
    bool is_class = of && of->use && of->use->kind == NN_EXPR_CALL &&
                    of->use->items[0]->kind == NN_EXPR_NAME &&
                    nn_class_find(of->use->items[0]->text);
    if (is_class && !of->repeat && !is_item(x->text) && !is_property(x->text) &&
        !(call && (nn_function_find(x->text) || ops_find(x->text)))) {
        struct ebb_str names = {0};
        ebb_str_add(&names, "weight bias running_mean running_var");
        unknown(s, x, "the module has no", x->text, &names);
    } else if (!is_open && (is_container || (of && of->parts))) {
        struct ebb_str names = {0};
        if (of)
            add_modules(&names, of->parts, of->count);
        unknown(s, x, "there is no module", x->text, &names);
    }
}

static void check_call(struct scope *s, const struct nn_expr *x)
{
    const struct nn_expr *f = x->items[0];
    check_items(s, x, 1);
    if (f->kind == NN_EXPR_NAME && is_module(s, f)) {
        check_module_path(s, f, x);
    } else if (f->kind == NN_EXPR_NAME && is_variable(s, f->text)) {
        nn_file_error(s->reading, &s->path, f, "'%s' is a value, not a module or function",
                      f->text);
    } else if (f->kind == NN_EXPR_NAME && (s->is_forward || nn_function_find(f->text))) {
        if (call_function(s, x, f->text, 0))
            return;
        struct ebb_str names = {0};
        for (size_t i = 0; nn_function_name(i); i++)
            ebb_words_add(&names, nn_function_name(i));
        add_modules(&names, s->block->modules, s->block->module_count);
        if (nn_class_find(f->text) || nn_file_block(s->file, f->text)) {
            nn_file_error(s->reading, &s->path, f,
                          "modules are made under 'modules', where they get a name: 'm: %s(...)', "
                          "then m(x)",
                          f->text);
            ebb_str_fini(&names);
        } else {
            unknown(s, f, "no module or function is called", f->text, &names);
        }
    } else if (f->kind == NN_EXPR_NAME) {
        call_class(s, x, f->text);
    } else if (is_module(s, f)) {
        check_module_path(s, f, x);
    } else if (f->kind == NN_EXPR_MEMBER) {
        check(s, f->items[0]);
        if (!call_function(s, x, f->text, 1)) {
            struct ebb_str names = {0};
            for (size_t i = 0; nn_function_name(i); i++)
                ebb_words_add(&names, nn_function_name(i));
            unknown(s, f, "no function is called", f->text, &names);
        }
    } else if (f->kind == NN_EXPR_INDEX) {
        check(s, f);
    } else {
        nn_file_error(s->reading, &s->path, f, "only names are called");
    }
}

static void check(struct scope *s, const struct nn_expr *x)
{
    struct ebb_str names = {0};
    switch (x->kind) {
    case NN_EXPR_NAME:
        if (is_variable(s, x->text) || is_value(s, x->text) || is_module(s, x) ||
            (!s->is_forward && nn_file_is_word(x->text)))
            return;
        if (s->is_forward && (nn_function_find(x->text) || ops_find(x->text))) {
            nn_file_error(s->reading, &s->path, x, "'%s' is a function: call it", x->text);
            return;
        }
        if (s->is_forward && s->block->is_partial)
            return;
        add_values(s, &names);
        unknown(s, x, "there is no", x->text, &names);
        return;
    case NN_EXPR_CALL:
        check_call(s, x);
        return;
    case NN_EXPR_MEMBER:
        if (is_module(s, x)) {
            check_module_path(s, x, NULL);
            return;
        }
        check(s, x->items[0]);
        if (!is_property(x->text)) {
            ebb_str_add(&names, "shape T ndim");
            unknown(s, x, "a value has no", x->text, &names);
        }
        return;
    default:
        check_items(s, x, 0);
    }
}

/* ---- declarations ----------------------------------------------------------------------------- */

/* What stands in the place of a module: a call of a class or block. */
static void check_use(struct scope *s, const struct nn_expr *x)
{
    if (!x)
        return;
    if (x->kind == NN_EXPR_CALL && x->items[0]->kind == NN_EXPR_NAME &&
        strcmp(x->items[0]->text, "Sequential") == 0) {
        for (size_t i = 1; i < x->count; i++)
            check_use(s, x->items[i]);
        return;
    }
    if (x->kind != NN_EXPR_CALL || x->items[0]->kind != NN_EXPR_NAME) {
        nn_file_error(s->reading, &s->path, x,
                      "a module is a call, such as Conv2d(3, 16, 3) or ReLU()");
        return;
    }
    check_items(s, x, 1);
    call_class(s, x, x->items[0]->text);
}

static void check_modules(struct scope *s, const struct nn_module *m, size_t count)
{
    struct ebb_path up = s->path;
    for (size_t i = 0; i < count; i++) {
        s->path = (struct ebb_path){.up = &up, .key = m[i].name};
        s->is_repeat = m[i].repeat != NULL;
        if (m[i].when)
            check(s, m[i].when);
        if (m[i].repeat)
            check(s, m[i].repeat);
        check_use(s, m[i].use);
        check_use(s, m[i].other);
        s->is_repeat = false;
        if (m[i].parts)
            check_modules(s, m[i].parts, m[i].count);
        for (size_t k = 0; k < i; k++)
            if (strcmp(m[k].name, m[i].name) == 0)
                nn_file_error(s->reading, &s->path,
                              &(struct nn_expr){.line = m[i].line, .column = m[i].column},
                              "the name stands twice");
    }
    s->path = up;
}

static void add_variable(struct scope *s, const char *name)
{
    if (ebb_strmap_put(&s->variables, name, strlen(name), 1, NULL) != EBB_OK)
        s->reading->failed = true;
}

static void check_block(struct scope *s, const struct nn_block *block, const struct ebb_path *path)
{
    struct ebb_path modules = {.up = path, .key = "modules"},
                    forward = {.up = path, .key = "forward"};
    s->block = block;
    s->is_forward = false;
    s->path = path ? *path : (struct ebb_path){0};
    for (size_t i = 0; i < block->head.count; i++)
        if (block->head.defaults[i])
            check(s, block->head.defaults[i]);
    s->path = modules;
    check_modules(s, block->modules, block->module_count);
    s->is_forward = true;
    for (size_t i = 0; i < block->input_count; i++)
        add_variable(s, block->inputs[i]);
    for (size_t i = 0; i < block->line_count; i++) {
        s->path = (struct ebb_path){.up = &forward, .index = block->lines[i].index};
        check(s, block->lines[i].value);
        for (size_t k = 0; k < block->lines[i].target_count; k++)
            add_variable(s, block->lines[i].targets[k]);
    }
}

static void check_results(struct scope *s, const struct nn_file *file)
{
    s->block = &file->top;
    s->is_forward = true;
    for (size_t i = 0; i < file->output_count; i++)
        add_variable(s, file->outputs[i]);
    for (size_t i = 0; i < file->input_count; i++)
        add_variable(s, file->inputs[i].name);
    s->path = (struct ebb_path){.key = "loss"};
    if (file->loss)
        check(s, file->loss);
    struct ebb_path metrics = {.key = "metrics"};
    for (size_t i = 0; i < file->metric_count; i++) {
        s->path = (struct ebb_path){.up = &metrics, .key = file->metric_names[i]};
        check(s, file->metrics[i]);
    }
}

/* ---- blocks inside themselves ----------------------------------------------------------------- */

static bool reaches(const struct nn_file *file, const struct nn_module *m, size_t count,
                    const struct nn_block *goal, unsigned char *seen);

static bool use_reaches(const struct nn_file *file, const struct nn_expr *x,
                        const struct nn_block *goal, unsigned char *seen)
{
    if (!x || x->kind != NN_EXPR_CALL || x->items[0]->kind != NN_EXPR_NAME)
        return false;
    for (size_t i = 1; i < x->count; i++) /* of Sequential */
        if (use_reaches(file, x->items[i], goal, seen))
            return true;
    const struct nn_block *b = nn_file_block(file, x->items[0]->text);
    if (!b || b == goal)
        return b == goal && b;
    if (seen[b - file->blocks])
        return false;
    seen[b - file->blocks] = 1;
    return reaches(file, b->modules, b->module_count, goal, seen);
}

static bool reaches(const struct nn_file *file, const struct nn_module *m, size_t count,
                    const struct nn_block *goal, unsigned char *seen)
{
    for (size_t i = 0; i < count; i++)
        if (use_reaches(file, m[i].use, goal, seen) || use_reaches(file, m[i].other, goal, seen) ||
            reaches(file, m[i].parts, m[i].count, goal, seen))
            return true;
    return false;
}

static void check_cycle(struct scope *s, const struct nn_block *block, const struct ebb_path *path)
{
    unsigned char *seen = ebb_reading_alloc(s->reading, s->file->block_count, 1);
    struct nn_expr at = {.line = block->line, .column = block->column};
    if (seen && reaches(s->file, block->modules, block->module_count, block, seen))
        nn_file_error(s->reading, path, &at, "the block contains itself: it would have no end");
}

static void check_inputs(struct scope *s, const struct nn_file *file)
{
    struct ebb_path inputs = {.key = "inputs"};
    static const struct nn_block none = {0};
    s->block = &none;
    s->is_forward = true; /* `batch` is a name */
    for (size_t i = 0; i < file->input_count; i++) {
        s->path = (struct ebb_path){.up = &inputs, .key = file->inputs[i].name};
        for (size_t d = 0; d < file->inputs[i].rank; d++)
            check(s, file->inputs[i].dims[d]);
    }
}

void nn_file_check(struct ebb_reading *reading, const struct nn_file *file)
{
    struct scope s = {.reading = reading, .file = file};
    struct ebb_path blocks = {.key = "blocks"};
    ebb_strmap_init(&s.variables);
    check_inputs(&s, file);
    for (size_t i = 0; i < file->block_count; i++) {
        struct ebb_path path = {.up = &blocks, .key = file->blocks[i].head.name};
        check_block(&s, &file->blocks[i], &path);
        check_cycle(&s, &file->blocks[i], &path);
        ebb_strmap_fini(&s.variables);
        ebb_strmap_init(&s.variables);
    }
    check_block(&s, &file->top, NULL);
    check_results(&s, file);
    ebb_strmap_fini(&s.variables);
}
