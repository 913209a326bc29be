/* journal.c - the calls that built a model, kept while it is written as a file (file_write.h). */
#include <string.h>

#include "base/heap.h"
#include "nn/file_write.h"

static const void *copy(struct nn_journal *j, const void *p, size_t bytes)
{
    void *to = ebb_arena_alloc(&j->arena, bytes ? bytes : 1);
    if (to && bytes)
        memcpy(to, p, bytes);
    j->failed |= !to;
    return to;
}

static void add(struct nn_journal *j, struct nn_note n)
{
    if (j->depth || (n.out_count && n.in_count && n.out[0].v == n.in[0].v))
        return; /* nothing happened */
    n.in = copy(j, n.in, n.in_count * sizeof *n.in);
    n.out = copy(j, n.out, n.out_count * sizeof *n.out);
    if (n.def)
        n.attr = copy(j, n.attr, ops_attr_bytes(n.def));
    j->failed |= ebb_grow(&j->notes, &j->capacity, j->count + 1, sizeof *j->notes, NULL) != EBB_OK;
    if (!j->failed)
        j->notes[j->count++] = n;
}

void nn_journal_op(struct nn_builder *b, const struct ops_def *def, size_t in_count,
                   const tensor_id *in, size_t out_count, const tensor_id *out, const void *attr)
{
    if (b->journal)
        add(b->journal, (struct nn_note){.what = ops_name(def),
                                         .def = def,
                                         .attr = attr,
                                         .in = in,
                                         .in_count = in_count,
                                         .out = out,
                                         .out_count = out_count});
}

void nn_journal_note(struct nn_builder *b, const char *what, size_t in_count, const tensor_id *in,
                     tensor_id out, double first, double second)
{
    if (b->journal)
        add(b->journal, (struct nn_note){.what = what,
                                         .in = in,
                                         .in_count = in_count,
                                         .out = &out,
                                         .out_count = 1,
                                         .first = first,
                                         .second = second});
}

void nn_journal_begin(struct nn_builder *b)
{
    if (b->journal)
        b->journal->depth++;
}

void nn_journal_end(struct nn_builder *b)
{
    if (b->journal)
        b->journal->depth--;
}
