/* storage.c - trying the place where checkpoints go. The configuration is read as a submission
 * would read it, so that what is tried is what would be used. */
#include "cli/cmd_experiment.h"

#include <string.h>

#include "cli/show.h"
#include "cli/train_file.h"
#include "exp/exp.h"

const char cli_bare_file[] = "entrypoint: [none]\n"
                             "hyperparameters: {global_batch_size: 1}\n"
                             "searcher: {name: single, metric: none, max_steps: 1}\n";

static enum ebb_status check_known(struct cli_master *m, int64_t experiment, struct ebb_str *where,
                                   struct ebb_error *err)
{
    struct cli_answer answer = {0};
    enum ebb_status status = experiment > 0
                                 ? cli_ask(m, &answer, err, "POST", NULL,
                                           "/experiments/%lld/storage/check", (long long)experiment)
                                 : cli_ask(m, &answer, err, "POST", NULL, "/master/storage/check");
    if (status == EBB_OK)
        cli_show_json(where, ebb_doc_get(answer.root, "storage"));
    cli_answer_fini(&answer);
    return status;
}

/* A file is tried from here; what the master knows, by the master, which has the keys: also a file
 * that names no storage, for which the site's is taken. */
static enum ebb_status check_file(struct cli_master *m, const char *file,
                                  const struct ebb_doc_node *site, struct ebb_arena *arena,
                                  struct ebb_report *report, struct ebb_str *where,
                                  struct ebb_error *err)
{
    struct exp_config_options options = {.file_name = "default",
                                         .default_seed = -1,
                                         .site_storage = site,
                                         .check_section = cli_check_training};
    struct exp_config config;
    struct exp_store_watch watch = {.tries = 2};
    struct exp_store_net *net = NULL;
    struct exp_store *store = NULL;
    EBB_TRY(exp_config_load(arena, file, &options, &config, report, err));
    const char *secret = config.checkpoint_storage.secret_key;
    if (secret != NULL && strcmp(secret, EXP_CONFIG_MASK) == 0)
        return check_known(m, 0, where, err);
    struct ebb_str scratch = {0};
    ebb_str_printf(&scratch, "%s/tmp", m->state_dir);
    enum ebb_status status = exp_store_net_create(&net, err);
    EBB_THEN(status, exp_store_open(&config.checkpoint_storage, 0, net, &store, err));
    EBB_THEN(status, exp_store_prepare(store, err));
    EBB_THEN(status, exp_store_check(store, ebb_str_c(&scratch), &watch, err));
    if (status == EBB_OK)
        exp_store_location(store, where);
    exp_store_close(store);
    exp_store_net_destroy(net);
    ebb_str_fini(&scratch);
    return status;
}

int cli_storage_check(struct cli_master *m, int64_t experiment, const char *file,
                      struct ebb_str *where)
{
    struct ebb_error err = {0};
    struct ebb_arena arena = {0};
    struct ebb_report report = {0};
    struct cli_answer answer = {0};
    enum ebb_status status = EBB_OK;
    if (file == NULL) {
        status = check_known(m, experiment, where, &err);
    } else {
        status = cli_ask(m, &answer, &err, "GET", NULL, "/master/config");
        EBB_THEN(status, check_file(m, file, ebb_doc_get(answer.root, "checkpoint_storage"), &arena,
                                    &report, where, &err));
    }
    int code = -1;
    if (status != EBB_OK && report.errors > 0) {
        cli_print_report(&report, file, stderr);
        code = 2;
    } else if (status != EBB_OK) {
        code = cli_report(&err);
    }
    ebb_arena_fini(&arena);
    cli_answer_fini(&answer);
    return code;
}
