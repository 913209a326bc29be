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

/* ---- a model, built with one ------------------------------------------------------------------ */

enum ebb_status nn_built_open(struct nn_built *m, const struct nn_config *config, int64_t batch,
                              bool is_training, struct ebb_error *err)
{
    memset(m, 0, sizeof *m);
    m->batch = batch;
    ebb_arena_init(&m->journal.arena);
    EBB_TRY(tensor_session_create(&m->s, NULL, err));
    nn_builder_init(&m->b, m->s, &(struct nn_mode){.is_training = is_training});
    m->b.journal = &m->journal;
    m->port_count = nn_inputs(config, batch, m->ports);
    EBB_TRY(nn_leaves(&m->b, config, batch, m->inputs, err));
    EBB_TRY(nn_build(&m->b, config, m->inputs, m->outputs, &m->output_count, err));
    return m->journal.failed ? ebb_no_memory(err, 0) : EBB_OK;
}

void nn_built_close(struct nn_built *m)
{
    if (m->s) {
        nn_builder_fini(&m->b);
        tensor_session_destroy(m->s);
    }
    ebb_free(m->journal.notes);
    ebb_arena_fini(&m->journal.arena);
}
