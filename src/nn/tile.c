/* tile.c - weights of linear layers in blocks of rows (memory.with_tiling_linear): each block is a
 * leaf of its own, so a layer needs no more of its weights at once than one of them. A row is the
 * weights of one output, so blocks make columns of the answer; the gradient of the layer's input is
 * the sum of what the blocks give. Which rows belong together is a matter of the shape alone. */
#include <string.h>

#include "nn/internal.h"

#define EVEN 16 /* rows of a block are a multiple of it, if they are so many */

int64_t nn_tile_rows(const struct nn_mode *mode, const struct tensor_view *weights)
{
    int64_t out = weights->dims[0], in = weights->dims[1];
    if (mode->tile <= 0 || weights->rank != 2 || in <= 0 || out * in <= mode->tile)
        return 0;
    int64_t most = mode->tile_most > 0 ? mode->tile_most : 1, least = (out + most - 1) / most;
    int64_t rows = mode->tile / in > least ? mode->tile / in : least;
    if (rows > EVEN)
        rows = (rows + EVEN - 1) / EVEN * EVEN;
    return rows < out ? rows : 0;
}

static tensor_id join(struct nn_builder *b, size_t count, const tensor_id *in, int dim)
{
    return nn_call(b, "cat", count, in, NULL, 1, &(struct ops_value){"dim", .integer = dim});
}

void nn_tile_item(struct nn_builder *b, struct nn_item *item, int64_t rows)
{
    int64_t out = item->view.dims[0];
    size_t count = (size_t)((out + rows - 1) / rows);
    item->blocks = ebb_arena_calloc(&b->arena, count, sizeof *item->blocks);
    item->block_low = ebb_arena_calloc(&b->arena, count, sizeof *item->block_low);
    if (!item->blocks || !item->block_low) {
        tensor_fail(b->session, EBB_ENOMEM, "out of memory");
        return;
    }
    item->block_count = count;
    item->block_rows = rows;
    for (size_t k = 0; k < count; k++) {
        int64_t left = out - (int64_t)k * rows;
        int64_t dims[2] = {left < rows ? left : rows, item->view.dims[1]};
        item->blocks[k] = tensor_leaf(b->session, TENSOR_F32, 2, dims, item->name);
    }
    item->leaf = item->blocks[0];
    item->id = join(b, count, item->blocks, 0); /* for who reads them whole */
}

static struct nn_item *find_tiled(struct nn_builder *b, tensor_id weights)
{
    for (size_t i = 0; i < b->item_count && b->mode.tile > 0; i++)
        if (b->items[i].block_count && b->items[i].id.v == weights.v)
            return &b->items[i];
    return NULL;
}

/* The columns of the answer that block k makes. */
static tensor_id block_answer(struct nn_builder *b, const struct ops_def *linear,
                              struct nn_item *item, size_t k, size_t in_count, const tensor_id *in,
                              const void *attr)
{
    int64_t begin = (int64_t)k * item->block_rows, end = begin + item->block_rows;
    int64_t out = item->view.dims[0];
    if (!item->block_low[k].v)
        item->block_low[k] = nn_low(b, item->blocks[k]);
    tensor_id parts[3] = {in[0], item->block_low[k]};
    if (in_count > 2)
        parts[2] = nn_slice(b, in[2], 0, begin, end < out ? end : out);
    return nn_apply(b, linear, in_count, parts, NULL, NULL, attr);
}

bool nn_tile_linear(struct nn_builder *b, const struct ops_def *def, size_t in_count,
                    const tensor_id *in, const void *attr, tensor_id *answer)
{
    if (b->mode.tile <= 0 || in_count < 2 || in_count > 3 || strcmp(ops_name(def), "linear") != 0)
        return false;
    struct nn_item *item = find_tiled(b, in[1]);
    tensor_id parts[TENSOR_PORTS];
    if (!item || item->block_count > TENSOR_PORTS)
        return false;
    for (size_t k = 0; k < item->block_count; k++)
        parts[k] = block_answer(b, def, item, k, in_count, in, attr);
    if (tensor_status(b->session, NULL) != EBB_OK)
        return false;
    int rank = tensor_view_of(b->session, parts[0])->rank;
    *answer = join(b, item->block_count, parts, rank - 1);
    return true;
}
