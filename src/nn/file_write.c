/* file_write.c - a model of the table as text of a model file.
 *
 * While it is built, the builder keeps a journal of calls (journal.c). Calls whose weights were made
 * for them become modules (file_write_modules.c), everything else is a line with a function. The
 * model is built at two batches: numbers that differ are multiples of the name `batch`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "nn/file_write.h"

/* ---- a model, built --------------------------------------------------------------------------- */

/* ---- writing ---------------------------------------------------------------------------------- */

/* A number that may depend on the batch. */
static void say_size(struct nn_writer *w, int64_t small, int64_t large)
{
    int64_t step = (large - small) / (w->large->batch - w->small->batch);
    int64_t rest = small - step * w->small->batch;
    if (large == small) {
        ebb_str_printf(w->out, "%" PRId64, small);
        return;
    }
    ebb_str_add(w->out, "batch");
    if (step != 1)
        ebb_str_printf(w->out, " * %" PRId64, step);
    if (rest)
        ebb_str_printf(w->out, " %c %" PRId64, rest < 0 ? '-' : '+', rest < 0 ? -rest : rest);
}

void nn_write_float(struct ebb_str *out, float v)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        double back;
        if (ebb_parse_double(text, &back) && memcmp(&(float){(float)back}, &v, sizeof v) == 0)
            break;
    }
    ebb_str_add(out, text);
}

const struct nn_item *nn_write_item(const struct nn_writer *w, tensor_id x)
{
    uint64_t at;
    return ebb_map_get(&w->items, x.v, &at) ? nn_item_at(&w->small->b, at - 1) : NULL;
}

static void say_value(struct nn_writer *w, tensor_id x)
{
    uint64_t at;
    const struct nn_item *item = nn_write_item(w, x);
    if (ebb_map_get(&w->inputs, x.v, &at))
        ebb_str_add(w->out, w->small->ports[at].name);
    else if (ebb_map_get(&w->values, x.v, &at))
        ebb_str_printf(w->out, "t%" PRIu64, at);
    else if (item)
        ebb_str_add(w->out, item->name);
    else
        w->problem = "a value that no call made";
}

static void remember(struct nn_writer *w, struct ebb_map *map, tensor_id x, uint64_t value)
{
    if (ebb_map_put(map, x.v, value, NULL) != EBB_OK)
        w->out->failed = true;
}
/* ---- lines ------------------------------------------------------------------------------------ */

/* A value of an attribute; `large` is the same at the other batch. */
static void say_attribute(struct nn_writer *w, const struct ebb_doc_node *small,
                          const struct ebb_doc_node *large)
{
    char text[32];
    if (small->kind == EBB_DOC_LIST) {
        ebb_str_addc(w->out, '[');
        for (size_t i = 0; i < small->count && large->count == small->count; i++) {
            ebb_str_add(w->out, i ? ", " : "");
            say_attribute(w, small->items[i], large->items[i]);
        }
        ebb_str_addc(w->out, ']');
    } else if (small->kind == EBB_DOC_INT && large->kind == EBB_DOC_INT) {
        say_size(w, small->integer, large->integer);
    } else if (small->kind == EBB_DOC_DOUBLE) {
        ebb_str_add(w->out, ebb_format_double(small->number, text, sizeof text));
    } else if (small->kind == EBB_DOC_BOOL) {
        ebb_str_add(w->out, small->boolean ? "True" : "False");
    } else {
        ebb_str_printf(w->out, "'%s'", small->text);
    }
}

static void say_inputs(struct nn_writer *w, const struct nn_note *n)
{
    for (size_t i = 0; i < n->in_count; i++) {
        ebb_str_add(w->out, i ? ", " : "");
        say_value(w, n->in[i]);
    }
}

/* x[0:2, ::2] */
static void say_slice(struct nn_writer *w, const struct nn_note *n,
                      const struct ebb_doc_node *ranges)
{
    const struct tensor_view *v = tensor_view_of(w->small->s, n->in[0]);
    int last = -1;
    say_value(w, n->in[0]);
    ebb_str_addc(w->out, '[');
    for (size_t i = 0; i < ranges->count; i++)
        last = ranges->items[i]->items[0]->integer > last ? (int)ranges->items[i]->items[0]->integer
                                                          : last;
    for (int d = 0; d <= last; d++) {
        const struct ebb_doc_node *r = NULL;
        for (size_t i = 0; i < ranges->count; i++)
            if (ranges->items[i]->items[0]->integer == d)
                r = ranges->items[i];
        ebb_str_add(w->out, d ? ", " : "");
        if (r && r->items[1]->integer)
            ebb_str_printf(w->out, "%" PRId64, r->items[1]->integer);
        ebb_str_addc(w->out, ':');
        if (r && r->items[2]->integer != v->dims[d])
            ebb_str_printf(w->out, "%" PRId64, r->items[2]->integer);
        if (r && r->items[3]->integer != 1)
            ebb_str_printf(w->out, ":%" PRId64, r->items[3]->integer);
    }
    ebb_str_addc(w->out, ']');
}

/* Functions whose arguments are not named as the op's attributes are. */
static const char *argument_name(const char *op, const char *attribute)
{
    if (strcmp(attribute, "kernel") == 0 && strstr(op, "_pool"))
        return "kernel_size";
    if (strcmp(attribute, "dims") == 0 && strcmp(op, "permute") != 0)
        return "dim";
    return strcmp(attribute, "shape") == 0 && strcmp(op, "expand") == 0 ? "sizes" : attribute;
}

static void say_op(struct nn_writer *w, const struct nn_note *n, const struct nn_note *large)
{
    const struct ebb_doc_node *map = nn_write_attributes(w, n),
                              *other = nn_write_attributes(w, large);
    bool is_list = strcmp(n->what, "cat") == 0 || strcmp(n->what, "stack") == 0;
    bool is_open = strcmp(n->what, "permute") == 0 || strcmp(n->what, "expand") == 0;
    static const char *const signs[][2] = {
        {"add", " + "}, {"sub", " - "}, {"mul", " * "}, {"div", " / "}};
    if (strcmp(n->what, "slice") == 0) {
        say_slice(w, n, ebb_doc_get(map, "ranges"));
        return;
    }
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strcmp(n->what, signs[i][0]) == 0) {
            say_value(w, n->in[0]);
            ebb_str_add(w->out, signs[i][1]);
            say_value(w, n->in[1]);
            return;
        }
    ebb_str_printf(w->out, "%s(%s", n->what, is_list ? "[" : "");
    say_inputs(w, n);
    ebb_str_add(w->out, is_list ? "]" : "");
    for (size_t i = 0; map && other && i < map->count && map->count == other->count; i++) {
        if (n->in_count || i)
            ebb_str_add(w->out, ", ");
        if (!is_open)
            ebb_str_printf(w->out, "%s=", argument_name(n->what, map->keys[i]->text));
        say_attribute(w, map->items[i], other->items[i]);
    }
    if (strncmp(n->what, "max_pool", 8) == 0 && n->out_count > 1)
        ebb_str_add(w->out, ", return_indices=True");
    ebb_str_addc(w->out, ')');
}

/* What is no op of the table. */
static void say_note(struct nn_writer *w, const struct nn_note *n, const struct nn_note *large)
{
    const struct tensor_view *small_view = tensor_view_of(w->small->s, n->out[0]);
    const struct tensor_view *large_view = tensor_view_of(w->large->s, large->out[0]);
    char text[32];
    if (strcmp(n->what, "mul_scalar") == 0) {
        say_value(w, n->in[0]);
        ebb_str_add(w->out, " * ");
        ebb_str_add(w->out, ebb_format_double(n->first, text, sizeof text));
        return;
    }
    ebb_str_printf(w->out, "%s(", n->what);
    size_t count = n->in_count;
    say_inputs(w, &(struct nn_note){.in = n->in, .in_count = count});
    if (strcmp(n->what, "reshape") == 0)
        for (int d = 0; d < small_view->rank; d++) {
            ebb_str_add(w->out, ", ");
            say_size(w, small_view->dims[d], large_view->dims[d]);
        }
    else if (strcmp(n->what, "dropout") == 0)
        ebb_str_printf(w->out, ", %s", ebb_format_double(n->first, text, sizeof text));
    else if (*n->what == 's') { /* attention */
        if (n->first > 0)
            ebb_str_printf(w->out, ", dropout_p=%s",
                           ebb_format_double(n->first, text, sizeof text));
        if (n->second > 0)
            ebb_str_add(w->out, ", is_causal=True");
    } else if (strcmp(n->what, "contiguous") != 0)
        w->problem = "a batch norm whose statistics are not its own";
    ebb_str_addc(w->out, ')');
}

/* The second result of a pooling is told only where somebody reads it. */
static size_t results(const struct nn_writer *w, const struct nn_note *n, size_t at)
{
    const struct nn_journal *j = &w->small->journal;
    if (n->out_count < 2 || strncmp(n->what, "max_pool", 8) != 0)
        return n->def && strcmp(n->what, "split") != 0 && !strstr(n->what, "lstm") &&
                       !strstr(n->what, "gru")
                   ? 1
                   : n->out_count;
    for (size_t i = at + 1; i < j->count; i++)
        for (size_t k = 0; k < j->notes[i].in_count; k++)
            if (j->notes[i].in[k].v == n->out[1].v)
                return 2;
    return 1;
}

static void write_line(struct nn_writer *w, size_t i)
{
    struct nn_note n = w->small->journal.notes[i];
    const struct nn_note *large = &w->large->journal.notes[i];
    const struct nn_item *weight = n.in_count > 1 ? nn_write_item(w, n.in[1]) : NULL;
    size_t first = weight ? (size_t)(weight - nn_item_at(&w->small->b, 0)) : 0;
    n.out_count = results(w, &n, i);
    ebb_str_add(w->out, "  - ");
    for (size_t k = 0; k < n.out_count; k++) {
        remember(w, &w->values, n.out[k], w->next);
        ebb_str_printf(w->out, "%st%" PRIu64, k ? ", " : "", w->next++);
    }
    ebb_str_add(w->out, " = ");
    size_t items;
    if (weight && w->modules[first] && nn_write_module(w, &n, &items)) {
        const char *dot = strrchr(weight->name, '.');
        ebb_str_printf(w->out, "%.*s(", (int)(dot - weight->name), weight->name);
        say_value(w, n.in[0]);
        ebb_str_addc(w->out, ')');
    } else if (n.def) {
        say_op(w, &n, large);
    } else {
        say_note(w, &n, large);
    }
    ebb_str_addc(w->out, '\n');
}

/* ---- inputs and outputs ----------------------------------------------------------------------- */

/* What fills a generated input: found by comparing what it is filled with. */
static const char *fill_of(struct nn_writer *w, size_t i)
{
    static const char *const words[] = {"data", "zeros", "uniform", "normal", "waves"};
    const struct nn_port *port = &w->small->ports[i];
    size_t bytes = (size_t)tensor_count(&port->view) * sizeof(float);
    float *have = ebb_alloc(bytes), *made = ebb_alloc(bytes);
    const char *word = NULL;
    if (have && made && port->view.dtype == TENSOR_F32) {
        nn_generate(w->config, port, 7, 3, have);
        for (unsigned k = NN_FILL_ZEROS; k <= NN_FILL_WAVES && !word; k++) {
            nn_file_fill((enum nn_fill)k, port, (uint32_t)i, 7, 3, made);
            word = memcmp(have, made, bytes) == 0 ? words[k] : NULL;
        }
    }
    ebb_free(have);
    ebb_free(made);
    if (!word)
        w->problem = "an input that is made in a way of its own";
    return word ? word : "zeros";
}

static void write_input(struct nn_writer *w, size_t i)
{
    const struct nn_port *small = &w->small->ports[i], *large = &w->large->ports[i];
    bool is_first = small->view.rank && small->view.dims[0] != large->view.dims[0], any = false;
    for (int d = 1; d < small->view.rank; d++)
        is_first &= small->view.dims[d] == large->view.dims[d];
    for (int d = 0; d < small->view.rank; d++)
        any |= small->view.dims[d] != large->view.dims[d];
    ebb_str_printf(w->out, "  %s: {shape: [", small->name);
    for (int d = is_first; d < small->view.rank; d++) {
        ebb_str_add(w->out, d > is_first ? ", " : "");
        say_size(w, small->view.dims[d], large->view.dims[d]);
    }
    ebb_str_addc(w->out, ']');
    if (!any)
        ebb_str_add(w->out, ", batch: false");
    if (small->view.dtype == TENSOR_I64)
        ebb_str_add(w->out, ", dtype: int64");
    if (small->kind == NN_MASK)
        ebb_str_add(w->out, ", mask: true");
    if (small->kind == NN_STATE)
        ebb_str_add(w->out, ", state: true");
    else if (small->is_generated)
        ebb_str_printf(w->out, ", fill: %s", fill_of(w, i));
    ebb_str_add(w->out, "}\n");
}

/* Results get their names back; the value of an own loss keeps its number. */
static void write_outputs(struct nn_writer *w)
{
    const struct nn_built *m = w->small;
    uint64_t at;
    bool makes = false, is_own = false, has_loss = false;
    for (size_t i = 0; i < m->output_count; i++)
        if (m->outputs[i].kind != NN_LOSS) {
            ebb_str_printf(w->out, "  - %s = ", m->outputs[i].name);
            say_value(w, m->outputs[i].id);
            ebb_str_addc(w->out, '\n');
        }
    ebb_str_add(w->out, "  - return ");
    for (size_t i = 0; i < m->output_count; i++) {
        const struct nn_output *o = &m->outputs[i];
        ebb_str_add(w->out, i ? ", " : "");
        if (o->kind != NN_LOSS)
            ebb_str_add(w->out, o->name);
        else if (ebb_map_get(&w->values, o->id.v, &at))
            ebb_str_printf(w->out, "t%" PRIu64, at);
        makes |= o->loss && o->target.is_generated;
        is_own |= o->kind == NN_LOSS;
        has_loss |= o->loss != NULL;
        if (o->kind == NN_METRIC || (o->kind == NN_LOSS && i))
            w->problem = "a model with metrics of its own";
    }
    if (makes)
        ebb_str_add(w->out, "\n\nmakes_targets: true");
    ebb_str_add(w->out, "\n\nloss:");
    if (is_own && ebb_map_get(&w->values, m->outputs[0].id.v, &at))
        ebb_str_printf(w->out, " t%" PRIu64 "\n", at);
    else if (has_loss)
        ebb_str_addc(w->out, '\n');
    for (size_t i = 0; i < m->output_count; i++)
        if (m->outputs[i].loss)
            ebb_str_printf(w->out, "  %s: %s\n", m->outputs[i].name, m->outputs[i].loss);
}

static void write_all(struct nn_writer *w)
{
    const struct nn_model *model = w->config->model;
    int64_t vocabulary = nn_config_int(w->config, "vocabulary", 0);
    ebb_str_printf(w->out, "name: %s\nsummary: \"%s\"\ntask: %s\n", model->name, model->summary,
                   nn_task_name(model->task));
    if (vocabulary > 0) /* of tokens that are made up */
        ebb_str_printf(w->out, "options: {vocabulary: %" PRId64 "}\n", vocabulary);
    ebb_str_add(w->out, "\ninputs:\n");
    for (size_t i = 0; i < w->small->port_count; i++) {
        remember(w, &w->inputs, w->small->inputs[i], i);
        write_input(w, i);
    }
    for (size_t i = 0; i < nn_item_count(&w->small->b); i++) {
        remember(w, &w->items, nn_item_at(&w->small->b, i)->leaf, i + 1);
        remember(w, &w->items, nn_item_at(&w->small->b, i)->id, i + 1);
    }
    nn_write_modules(w);
    ebb_str_add(w->out, "\nforward:\n");
    for (size_t i = 0; i < w->small->journal.count; i++)
        write_line(w, i);
    write_outputs(w);
}

static enum ebb_status write_built(struct nn_writer *w, struct ebb_error *err)
{
    size_t items = nn_item_count(&w->small->b);
    w->modules = ebb_arena_calloc(w->arena, items + 1, sizeof *w->modules);
    w->is_inside = ebb_arena_calloc(w->arena, items + 1, sizeof *w->is_inside);
    EBB_TRY(ebb_arena_status(w->arena, err));
    for (size_t i = 0; i < items; i++)
        if (nn_item_at(&w->small->b, i)->init.kind == NN_GIVEN)
            return ebb_fail(err, EBB_EUNSUPPORTED,
                            "model %s has its initial values in an ONNX file: a model file cannot "
                            "say them",
                            w->config->model->name);
    if (w->small->journal.count != w->large->journal.count)
        return ebb_fail(err, EBB_EUNSUPPORTED, "model %s does other things at another batch",
                        w->config->model->name);
    write_all(w);
    EBB_TRY(ebb_str_status(w->out, err));
    if (w->problem)
        return ebb_fail(err, EBB_EUNSUPPORTED, "model %s has %s: a model file cannot say it",
                        w->config->model->name, w->problem);
    return EBB_OK;
}

enum ebb_status nn_config_write(const struct nn_config *config, struct ebb_str *out,
                                struct ebb_error *err)
{
    struct nn_built small, large;
    struct ebb_arena arena;
    struct nn_writer w = {
        .config = config, .small = &small, .large = &large, .out = out, .arena = &arena};
    if (config->model->task == NN_GAN)
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "model %s trains a part of itself: a model file cannot say that",
                        config->model->name);
    memset(&large, 0, sizeof large);
    ebb_arena_init(&arena);
    enum ebb_status status = nn_built_open(&small, config, 2, true, err);
    EBB_THEN(status, nn_built_open(&large, config, 3, true, err));
    EBB_THEN(status, write_built(&w, err));
    ebb_map_fini(&w.items);
    ebb_map_fini(&w.values);
    ebb_map_fini(&w.inputs);
    nn_built_close(&small);
    nn_built_close(&large);
    ebb_arena_fini(&arena);
    return status;
}
