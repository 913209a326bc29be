/* storage.c - trying the place where checkpoints go. The configuration is read as a submission
 * would read it, so that what is tried is what would be used. */
#include "cli/cmd_experiment.h"

#include "cli/show.h"
#include "cli/train_file.h"
#include "exp/exp.h"

const char cli_bare_file[] = "entrypoint: [none]\n"
                             "hyperparameters: {global_batch_size: 1}\n"
                             "searcher: {name: single, metric: none, max_steps: 1}\n";

/* The configuration points into `answer`. */
static enum ebb_status read_storage(struct cli_master *m, int64_t experiment, const char *file,
                                    struct cli_answer *answer, struct exp_config *config,
                                    struct ebb_report *report, struct ebb_error *err)
{
    struct ebb_str text = {0};
    struct exp_config_options options = {
        .file_name = "default", .default_seed = -1, .check_section = cli_check_training};
    enum ebb_status status = EBB_OK;
    if (experiment > 0) {
        status = cli_ask(m, answer, err, "GET", NULL, "/experiments/%lld", (long long)experiment);
        cli_show_json(&text, ebb_doc_get(answer->root, "config"));
        options.file_name = "configuration";
    } else {
        status = cli_ask(m, answer, err, "GET", NULL, "/master/config");
        options.site_storage = ebb_doc_get(answer->root, "checkpoint_storage");
        ebb_str_add(&text, cli_bare_file);
    }
    EBB_THEN(status, ebb_str_status(&text, err));
    EBB_THEN(status, file != NULL
                         ? exp_config_load(&answer->arena, file, &options, config, report, err)
                         : exp_config_parse(&answer->arena, ebb_str_c(&text), text.length, &options,
                                            config, report, err));
    ebb_str_fini(&text);
    return status;
}

int cli_storage_check(struct cli_master *m, int64_t experiment, const char *file,
                      struct ebb_str *where)
{
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    struct exp_config config;
    struct ebb_report report = {0};
    struct exp_store *store = NULL;
    int code = -1;
    enum ebb_status status = read_storage(m, experiment, file, &answer, &config, &report, &err);
    if (status != EBB_OK && status != EBB_EIO && report.errors > 0) {
        cli_print_report(&report, file != NULL ? file : "configuration", stderr);
        code = 2;
    }
    EBB_THEN(status, exp_store_open(&config.checkpoint_storage, &store, &err));
    EBB_THEN(status, exp_store_prepare(store, &err));
    EBB_THEN(status, exp_store_check(store, &err));
    if (status == EBB_OK)
        exp_store_location(store, where);
    else if (code < 0)
        code = cli_report(&err);
    exp_store_close(store);
    cli_answer_fini(&answer);
    return code;
}
