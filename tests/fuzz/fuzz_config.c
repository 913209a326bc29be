/* fuzz_config.c - the experiment file on any bytes. A line "@@" separates a template from the file.
 *
 * Checked beyond not crashing: a refused file has a finding, findings are in order and are one
 * printable line each; an accepted file's normalised form reads back to itself; nothing stays
 * allocated. Seeds: tests/fuzz/corpus/config and tests/golden/config/broken. */

#include "fuzz.h"

#include "exp/exp.h"

static void check_findings(const struct ebb_report *report)
{
    struct ebb_str line;
    ebb_str_init(&line);
    require(report->count <= EBB_FINDINGS_MAX);
    require(report->count <= report->errors + report->warnings + report->notes);
    for (size_t i = 0; i < report->count; i++) {
        const struct ebb_finding *f = &report->items[i], *before = i > 0 ? f - 1 : f;
        require(before->layer <= f->layer);
        if (before->layer == f->layer)
            require(before->line < f->line ||
                    (before->line == f->line && before->column <= f->column));
        if (!f->file)
            continue; /* the YAML parser's own words */
        ebb_str_clear(&line);
        ebb_finding_format(f, &line);
        for (size_t k = 0; k < line.length; k++)
            require((unsigned char)line.data[k] >= 0x20 && line.data[k] != 0x7f);
    }
    ebb_str_fini(&line);
}

static void check_fixed_point(struct ebb_arena *arena, const struct exp_config *config)
{
    struct exp_config again;
    struct ebb_report report;
    struct ebb_error err;
    struct exp_config_options options = {.file_name = "again", .default_seed = -1};
    require(exp_config_read(arena, config->normalized, &options, &again, &report, &err) == EBB_OK);
    require(ebb_doc_equal(config->normalized, again.normalized));
    require(exp_config_masked(arena, config->normalized) != NULL);
    require(exp_hparams_find(&config->hyperparameters, "global_batch_size") != NULL);
}

static void read_config(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err = {0};
    struct exp_config config;
    struct ebb_report report;
    struct exp_config_options options = {
        .file_name = "file", .template_name = "template", .default_seed = -1};
    ebb_arena_init(&arena);
    const char *mark = size > 4 ? memmem(bytes, size, "\n@@\n", 4) : NULL;
    if (mark) {
        size_t n = (size_t)(mark - bytes);
        if (ebb_doc_parse_yaml(&arena, "template", bytes, n, &options.template_root, &err) !=
            EBB_OK)
            options.template_root = NULL;
        bytes += n + 4;
        size -= n + 4;
    }
    enum ebb_status status =
        exp_config_parse(&arena, bytes, size, &options, &config, &report, &err);
    require((status == EBB_OK) == (report.errors == 0));
    check_findings(&report);
    if (status == EBB_OK)
        check_fixed_point(&arena, &config);
    ebb_arena_fini(&arena);
}

FUZZ(read_config)
