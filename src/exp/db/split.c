/* split.c - metrics of a step apart from those of its batches, which are most of the bytes and
 * seldom asked for. */
#include <string.h>

#include "base/str.h"
#include "exp/db/driver.h"

/* A node as text in the arena. */
static const char *to_text(struct ebb_arena *arena, const struct ebb_doc_node *node)
{
    struct ebb_str text = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &text, 0);
    ebb_doc_write_json(node, &w);
    const char *copy = text.failed ? NULL : ebb_arena_strndup(arena, ebb_str_c(&text), text.length);
    ebb_str_fini(&text);
    return copy;
}

enum ebb_status exp_db_split(struct ebb_arena *arena, const struct ebb_doc_node *metrics,
                             const char **step, const char **batches, struct ebb_error *err)
{
    const struct ebb_doc_node *list = ebb_doc_get(metrics, "batch_metrics");
    struct ebb_doc_node *rest = ebb_doc_new(arena, EBB_DOC_MAP);
    bool is_ok = rest != NULL;
    for (size_t i = 0; is_ok && metrics != NULL && i < metrics->count; i++)
        if (metrics->items[i] != list)
            is_ok = ebb_doc_set(arena, rest, metrics->keys[i]->text, metrics->items[i]);
    bool has_batches = list != NULL && list->kind == EBB_DOC_LIST && list->count > 0;
    *step = is_ok ? to_text(arena, rest) : NULL;
    *batches = has_batches ? to_text(arena, list) : NULL;
    if (*step == NULL || (has_batches && *batches == NULL))
        return ebb_no_memory(err, sizeof *rest);
    return EBB_OK;
}

static enum ebb_status split_row(struct exp_db *db, struct ebb_arena *arena,
                                 const struct exp_db_batches *row, struct ebb_error *err)
{
    const struct ebb_doc_node *root = NULL;
    struct exp_db_batches step = *row, batches = *row;
    EBB_TRY(ebb_doc_parse_json(arena, "metrics", row->metrics, strlen(row->metrics), &root, err));
    EBB_TRY(exp_db_split(arena, root, &step.metrics, &batches.metrics, err));
    if (batches.metrics != NULL)
        EBB_TRY(exp_db_batches_add(db, &batches, err));
    return exp_db_step_set(db, &step, err);
}

enum ebb_status exp_db_split_old(struct exp_db *db, struct ebb_error *err)
{
    struct exp_db_step_id last = {INT64_MIN + 1, 0};
    enum ebb_status status = EBB_OK;
    size_t count = 1;
    while (status == EBB_OK && count > 0) {
        struct ebb_arena arena = {0};
        struct exp_db_batches *rows = NULL;
        status = exp_db_all(exp_db_steps_after(db, &last, NULL, err), &arena, &rows, &count);
        for (size_t i = 0; status == EBB_OK && i < count; i++) {
            status = split_row(db, &arena, &rows[i], err);
            last = (struct exp_db_step_id){rows[i].trial_id, rows[i].step_id};
        }
        ebb_arena_fini(&arena);
    }
    return status;
}
