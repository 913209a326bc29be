/* board.c - see board.h. */
#include "cli/board.h"

#include <stdio.h>

#include "cli/show.h"

#define FILE_BYTES                                                                                 \
    ((int64_t)64 << 20) /* sent whole again when it grows: it must not grow for ever */

static void close_file(struct cli_board_file *file)
{
    struct ebb_error err;
    (void)train_events_close(file->events, &err); /* everything was flushed when it was written */
    *file = (struct cli_board_file){0};
}

/* The trial's file; the one that was not used for longest makes room. */
static enum ebb_status find(struct cli_board *board, const struct exp_master_metrics *m,
                            struct cli_board_file **found, struct ebb_error *err)
{
    struct cli_board_file *file = &board->files[0];
    for (size_t i = 0; i < CLI_BOARD_OPEN; i++) {
        if (board->files[i].trial_id == m->trial_id) {
            file = &board->files[i];
            break;
        }
        if (board->files[i].used < file->used)
            file = &board->files[i];
    }
    if (file->trial_id != m->trial_id) {
        close_file(file);
        EBB_TRY(train_events_open(&file->events, m->directory, err));
        file->trial_id = m->trial_id;
    }
    file->used = ++board->clock;
    *found = file;
    return EBB_OK;
}

static enum ebb_status write_all(struct cli_board *board, const struct exp_master_metrics *m,
                                 struct ebb_error *err)
{
    struct cli_board_file *file = NULL;
    EBB_TRY(find(board, m, &file, err));
    for (size_t i = 0; i < m->metrics->count; i++) {
        const struct ebb_doc_node *value = m->metrics->items[i];
        char tag[256];
        if (value->kind != EBB_DOC_INT && value->kind != EBB_DOC_DOUBLE)
            continue;
        snprintf(tag, sizeof tag, "%s/%s", m->is_validation ? "validation" : "training",
                 m->metrics->keys[i]->text);
        EBB_TRY(train_events_scalar_at(file->events, tag, m->batches, value->number, m->time, err));
    }
    EBB_TRY(train_events_flush(file->events, err));
    if (train_events_bytes(file->events) >= FILE_BYTES)
        close_file(file); /* the next metrics begin another one */
    return EBB_OK;
}

void cli_board_add(void *context, const struct exp_master_metrics *metrics)
{
    struct cli_board *board = context;
    struct ebb_error err = {0};
    if (board->is_off || metrics->metrics->kind != EBB_DOC_MAP ||
        write_all(board, metrics, &err) == EBB_OK)
        return;
    board->is_off = true;
    fprintf(stderr, "ebb: warning: no more TensorBoard files: %s\n", err.message);
}

void cli_board_fini(struct cli_board *board)
{
    for (size_t i = 0; i < CLI_BOARD_OPEN; i++)
        close_file(&board->files[i]);
}
