/* rules_own.c - ebb's own sections: where they may stand, what ${name} may name, who checks their
 * keys. */
#include <string.h>

#include "exp/config/reader.h"

static const char *const own_sections[] = {"model", "opt", "lr_schedule", "loss", "memory"};
#define OWN_COUNT (sizeof own_sections / sizeof own_sections[0])

static void report_reference(struct ebb_reading *reader, const struct ebb_path *path,
                             const struct ebb_doc_node *node, const struct exp_hparams *hparams,
                             const char *name, size_t n)
{
    if (ebb_reading_is_full(reader))
        return;
    struct ebb_str text = {0}, names = {0};
    for (size_t i = 0; i < hparams->count && i < 64; i++)
        ebb_words_add(&names, hparams->items[i].name);
    ebb_str_add(&text, "found ${");
    ebb_say_quoted(name, n, &text);
    ebb_str_add(&text, "}, allowed: the name of a hyperparameter ($${ for a plain ${)");
    ebb_say_nearest(ebb_str_c(&names), name, n, &text);
    ebb_str_fini(&names);
    ebb_reading_say(reader, EBB_FINDING_ERROR, path, node, &text);
}

/* Every ${name} of a text must name a hyperparameter. */
static void check_text(struct ebb_reading *reader, const struct ebb_path *path,
                       const struct ebb_doc_node *node, const struct exp_hparams *hparams)
{
    const char *at = node->text, *end = node->text + node->length;
    struct ebb_piece piece;
    while (ebb_piece_next(&at, end, &piece)) {
        if (piece.kind == EBB_PIECE_UNCLOSED) {
            ebb_reading_error(reader, path, node,
                              "found ${ without }, allowed: ${name}, or $${ for a plain ${");
            return;
        }
        if (piece.kind != EBB_PIECE_NAME)
            continue;
        char *name = ebb_arena_strndup(reader->arena, piece.text, piece.length);
        if (!name) {
            reader->failed = true;
            return;
        }
        if (strlen(name) != piece.length || !exp_hparams_find(hparams, name))
            report_reference(reader, path, node, hparams, piece.text, piece.length);
    }
}

static void check_references(struct ebb_reading *reader, const struct ebb_path *path,
                             const struct ebb_doc_node *node, const struct exp_hparams *hparams)
{
    if (reader->failed)
        return;
    if (node->kind == EBB_DOC_STRING)
        check_text(reader, path, node, hparams);
    for (size_t i = 0; i < node->count; i++) {
        struct ebb_path at = ebb_path_item(path, node, i);
        check_references(reader, &at, node->items[i], hparams);
    }
}

static void check_section(struct ebb_reading *reader, const char *section,
                          const struct ebb_doc_node *value, const struct exp_config *config)
{
    const struct exp_config_options *options = reader->context;
    struct ebb_path path = {.key = section};
    if (!value || value->kind != EBB_DOC_MAP)
        return;
    if (ebb_reading_is_good(reader, &config->hyperparameters))
        check_references(reader, &path, value, &config->hyperparameters);
    if (options->check_section && !reader->failed)
        options->check_section(options->check_context, reader, section, value, config);
}

/* Half precision is asked for in one place. */
static void check_precision(struct ebb_reading *reader, const struct ebb_doc_node *root,
                            const struct exp_config *config)
{
    const struct ebb_doc_node *precision = ebb_doc_given(config->memory, "precision");
    const struct ebb_doc_node *mixed =
        ebb_doc_given(ebb_doc_get(root, "optimizations"), "mixed_precision");
    /* O0 asks for nothing, and stands in every stored form */
    if (!precision || !mixed || (mixed->text && strcmp(mixed->text, "O0") == 0))
        return;
    ebb_reading_add(reader, EBB_FINDING_ERROR, precision, "memory.precision",
                    "found together with optimizations.mixed_precision, allowed: only one of them");
    ebb_reading_also(reader, "optimizations.mixed_precision");
}

/* Is the searcher's metric one that the task reports? */
static void check_metric(struct ebb_reading *reader, const struct ebb_doc_node *root,
                         const struct exp_config *config)
{
    const struct exp_config_options *options = reader->context;
    const struct ebb_doc_node *searcher = ebb_doc_given(root, "searcher");
    if (options->check_section && searcher && !reader->failed &&
        ebb_reading_is_good(reader, &config->searcher.metric))
        options->check_section(options->check_context, reader, "searcher", searcher, config);
}

void exp_rules_own(struct ebb_reading *reader, const struct ebb_doc_node *root,
                   const struct exp_config *config)
{
    if (!ebb_reading_is_good(reader, &config->entrypoint))
        return;
    enum exp_entry_kind kind = config->entrypoint.kind;
    bool is_own = kind == EXP_ENTRY_BUILTIN || kind == EXP_ENTRY_ONNX;
    if (is_own) {
        check_section(reader, "data", ebb_doc_given(root, "data"), config);
        check_metric(reader, root, config);
        check_precision(reader, root, config);
    }
    for (size_t i = 0; i < OWN_COUNT; i++) {
        const struct ebb_doc_node *value = ebb_doc_given(root, own_sections[i]);
        if (is_own)
            check_section(reader, own_sections[i], value, config);
        else if (value)
            ebb_reading_add(
                reader, EBB_FINDING_ERROR, value, own_sections[i],
                "found with an entrypoint of another kind, allowed: only with ebb:<task> "
                "or onnx:<path>");
    }
}
