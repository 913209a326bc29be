/* res_check.c - see res_check.h. */
#include "cli/res_check.h"

#include <stdio.h>

#include "cli/cli.h"
#include "cli/json.h"

static enum ebb_status run(const struct train_config *config, const struct train_options *options,
                           struct cli_res *res, struct train_state *state, struct ebb_error *err)
{
    struct train_trial *trial = NULL;
    struct train_batch batch;
    double sum = 0;
    enum ebb_status status = train_trial_create(&trial, config, options, err);
    for (int64_t done = 0, count = 0; status == EBB_OK && done < CLI_RES_UPDATES;) {
        status = train_trial_batch(trial, &batch, err);
        sum += batch.loss;
        count++;
        if (status != EBB_OK || !batch.is_update)
            continue;
        res->losses[done++] = sum / (double)count;
        sum = 0;
        count = 0;
    }
    EBB_THEN(status, train_trial_hash(trial, res->hash, err));
    if (status == EBB_OK)
        train_trial_state(trial, state);
    train_trial_destroy(trial);
    return status;
}

static void tell(const struct cli_res *both, const struct train_state *states, int where)
{
    if (where == 0)
        printf("res_check: %d updates, the same losses and weights without a limit (peak %llu "
               "bytes) and as asked (peak %llu bytes)\n",
               CLI_RES_UPDATES, (unsigned long long)states[0].peak_bytes,
               (unsigned long long)states[1].peak_bytes);
    else if (where <= CLI_RES_UPDATES)
        printf("res_check: DIFFERENT: the loss of update %d is %.17g without a limit, %.17g as "
               "asked\n",
               where, both[0].losses[where - 1], both[1].losses[where - 1]);
    else
        printf(
            "res_check: DIFFERENT: the same losses, but weights sha256 %s without a limit, %s as "
            "asked\n",
            both[0].hash, both[1].hash);
}

int cli_res_check(const struct train_config *config, const struct train_options *options,
                  bool is_json)
{
    struct train_config unlimited = *config;
    struct cli_res both[2] = {0};
    struct train_state states[2];
    struct ebb_error err = {0};
    unlimited.budget_bytes = UINT64_MAX;
    unlimited.host_bytes = unlimited.file_bytes = 0;
    unlimited.link = (struct train_link){0};
    unlimited.policy = NULL;
    /* two wishes are about numbers, too: sums in the weights' type, products block by block */
    bool is_overlay = config->wishes.gradients == TRAIN_GRADIENTS_OVERLAY;
    unlimited.wishes = (struct train_wishes){
        .gradients = is_overlay ? TRAIN_GRADIENTS_OVERLAY : TRAIN_GRADIENTS_OPEN,
        .tiling = config->wishes.tiling,
    };
    const struct train_config *configs[] = {&unlimited, config};
    for (int i = 0; i < 2; i++)
        if (run(configs[i], options, &both[i], &states[i], &err) != EBB_OK)
            return cli_report(&err);
    int where = cli_res_differ(&both[0], &both[1]);
    if (!is_json) {
        tell(both, states, where);
        return where != 0;
    }
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "status", where ? "different" : "ok");
    ebb_jsonw_key_int(w, "updates", CLI_RES_UPDATES);
    ebb_jsonw_key_uint(w, "unlimited_peak_bytes", states[0].peak_bytes);
    ebb_jsonw_key_uint(w, "peak_bytes", states[1].peak_bytes);
    ebb_jsonw_key_string(w, "unlimited_sha256", both[0].hash);
    ebb_jsonw_key_string(w, "weights_sha256", both[1].hash);
    cli_json_object_end(&json);
    return where != 0;
}
