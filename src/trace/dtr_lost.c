/* dtr_lost.c - what a trace says and a DTR log cannot, in sentences for people. */
#include <stdarg.h>
#include <string.h>

#include "trace/dtr_write.h"

struct loss {
    uint32_t workspace, attributes, labels, partners, once, in_place, skips;
    uint32_t leaf_names, leaf_outputs, leaf_pins, phases, pins;
};

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text->at, text->left, fmt, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n < text->left ? (size_t)n : text->left - 1;
    text->at += used;
    text->left -= used;
}

static void count_leaf(struct loss *l, const struct trace *t, uint32_t at,
                       const struct trace_op *op)
{
    l->leaf_names += strcmp(op->kind->name, "constant") != 0;
    l->leaf_outputs += op->output_count > 1;
    uint32_t behind = at + 1, pinned = 0;
    for (uint32_t i = 0; i < op->output_count; i++)
        if (behind < t->command_count && t->commands[behind].kind == TRACE_PIN &&
            t->commands[behind].index == op->output_first + i) {
            behind++;
            pinned++;
        }
    l->leaf_pins += pinned < op->output_count;
    l->pins -= pinned; /* these pins are said */
}

static void count_op(struct loss *l, const struct trace *t, const struct trace_op *op)
{
    l->workspace += op->workspace_bytes > 0;
    l->attributes += op->attr_bytes > 0;
    l->labels += op->label != 0;
    l->partners += op->partner != TRACE_NONE;
    l->once += op->kind->purity == TRACE_ONCE;
    l->skips += op->kind->can_skip_outputs;
    for (uint32_t i = 0; i < op->output_count; i++)
        if (trace_output_of(t, op, i)->alias == TRACE_MUTATE) {
            l->in_place++;
            break;
        }
}

static struct loss count(const struct trace_dtr_writer *w)
{
    const struct trace *t = w->t;
    struct loss l = {.pins = 0};
    bool is_backward = false;
    for (uint32_t at = 0; at < t->command_count; at++) {
        const struct trace_command *cmd = &t->commands[at];
        l.pins += cmd->kind == TRACE_PIN && at < w->pin_first;
        if (cmd->kind != TRACE_RUN)
            continue;
        const struct trace_op *op = &t->ops[cmd->index];
        /* as the reader will label it */
        is_backward |= at >= w->mark;
        l.phases += op->phase != (is_backward ? TRACE_BACKWARD : TRACE_FORWARD);
        count_op(&l, t, op);
        if (op->is_leaf)
            count_leaf(&l, t, at, op);
    }
    return l;
}

void trace_dtr_lost(const struct trace_dtr_writer *w, bool are_pins_kept, char *lost, size_t size)
{
    if (size == 0)
        return;
    lost[0] = '\0';
    struct text text = {lost, size};
    struct loss l = count(w);
    const struct {
        uint32_t count;
        const char *sentence;
    } rows[] = {
        {l.in_place, "ops write in place; in the log they make a copy"},
        {l.once, "ops must run only once; the log lets them run again"},
        {l.workspace, "ops use workspace, which the log does not count"},
        {l.skips, "ops can skip outputs; the log does not know"},
        {l.leaf_names, "leaves have a kind; in the log all are called constant"},
        {l.leaf_outputs,
         "leaves have several outputs; in the log each output is a constant of its own"},
        {l.leaf_pins, "leaves are not pinned; in the log all constants are"},
        {l.pins, "pins stand before the end and are dropped"},
        {l.attributes, "ops have attributes, which are dropped"},
        {l.labels, "ops have labels, which are dropped"},
        {l.partners, "ops know the forward op they belong to; the log does not"},
        {l.phases, "ops change their phase: the log knows only forward, then backward"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].count > 0)
            say(&text, "%u %s.\n", rows[i].count, rows[i].sentence);
    if (w->mark != w->t->backward_command)
        say(&text, "The backward pass begins at another command.\n");
    if (!are_pins_kept)
        say(&text, "The log keeps every tensor that still has a handle, once per handle name; the "
                   "trace keeps others, or in another order.\n");
    if (w->t->is_graph)
        say(&text, "The trace is a graph with %llu bytes outside the budget; the log is not.\n",
            (unsigned long long)w->t->graph_fixed_bytes);
}
