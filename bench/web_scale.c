/* web_scale.c - a state as large as pages have to bear, and how long their questions take.
 *
 *     web_scale DIRECTORY [EXPERIMENTS [TRIALS [STEPS [BATCHES]]]]   (. 100000 10000 100 100)
 *
 * DIRECTORY is made when it is not there (and then stays: 'ebb serve --state DIRECTORY' shows it).
 * Experiment 1 has the trials; every step has its validation, and its batches. The bars: lists,
 * filters and sorts within 50 ms, curves of all trials within 300 ms and 1 MB with 10 points each,
 * importance within 1 s: of the processor's time; where nothing else runs, of all of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/rng.h"
#include "base/str.h"
#include "exp/exp.h"
#include "serve/serve.h"

#define OWNERS 20
#define TIMES 21
#define PACKED 1000000 /* bytes of an answer at most */
#define POINTS 10      /* of a curve at least */

static int fail(const char *what, const struct ebb_error *err)
{
    fprintf(stderr, "web_scale: %s: %s\n", what, err->message);
    return 1;
}

static double uniform(uint64_t *rng)
{
    return (double)(ebb_splitmix64(rng) >> 11) * 0x1p-53;
}

/* ---- rows ---- */

static enum ebb_status add_experiment(struct exp_db *db, int64_t id, int64_t trials, uint64_t *rng,
                                      struct ebb_error *err)
{
    static const char *const states[] = {"COMPLETED", "COMPLETED", "COMPLETED", "CANCELED",
                                         "ERROR"};
    char description[80], owner[16], labels[40];
    snprintf(description, sizeof description, "sweep %05d of network %d",
             (int)(ebb_splitmix64(rng) % 100000), (int)(id % 97));
    snprintf(owner, sizeof owner, "user%d", (int)(ebb_splitmix64(rng) % OWNERS));
    snprintf(labels, sizeof labels, "[\"label%d\"]", (int)(ebb_splitmix64(rng) % 50));
    struct exp_db_experiment_made made = {.id = id,
                                          .state = states[ebb_splitmix64(rng) % 5],
                                          .description = id == 1 ? "the large one" : description,
                                          .labels = labels,
                                          .owner = owner,
                                          .progress = id % 10 == 0 ? uniform(rng) : (double)NAN,
                                          .start_time = 1.7e9 + (double)id * 60,
                                          .archived = id % 4 == 0,
                                          .parent_id = EXP_DB_NO_INT,
                                          .searcher = "random",
                                          .metric = "validation_loss",
                                          .smaller_is_better = true,
                                          .num_trials = trials,
                                          .num_ended = trials,
                                          .weight = 1,
                                          .max_slots = EXP_DB_NO_INT,
                                          .save_trial_best = 1,
                                          .save_trial_latest = 1};
    struct exp_db_config config = {
        .experiment_id = id,
        .config = "{\"batches_per_step\": 100, \"searcher\": {\"name\": \"random\", \"metric\": "
                  "\"validation_loss\"}, \"hyperparameters\": {\"global_batch_size\": 32}}"};
    EBB_TRY(exp_db_experiment_add(db, &made, err));
    return exp_db_config_add(db, &config, err);
}

static enum ebb_status add_step(struct exp_db *db, int64_t trial, int64_t step, double loss,
                                int batches, uint64_t *rng, struct ebb_str *text,
                                struct ebb_error *err)
{
    char metrics[200], found[120];
    double time = 1.7e9 + (double)(trial * 100 + step);
    snprintf(metrics, sizeof metrics,
             "{\"num_inputs\": 3200, \"avg_metrics\": {\"loss\": %.6g, \"learning_rate\": 0.1}}",
             loss * 1.1);
    snprintf(found, sizeof found,
             "{\"num_inputs\": 1000, \"validation_metrics\": {\"validation_loss\": %.6g, "
             "\"validation_accuracy\": %.4g}}",
             loss, 1 / (1 + loss));
    EBB_TRY(exp_db_step_add(db,
                            &(struct exp_db_step){.trial_id = trial,
                                                  .id = step,
                                                  .state = "COMPLETED",
                                                  .start_time = time - 1,
                                                  .end_time = time,
                                                  .metrics = metrics},
                            err));
    ebb_str_clear(text);
    for (int i = 0; i < batches; i++)
        ebb_str_printf(text, "%s{\"loss\": %.5g}", i == 0 ? "[" : ", ",
                       loss * (1 + 0.2 * uniform(rng)));
    ebb_str_add(text, "]");
    if (batches > 0)
        EBB_TRY(
            exp_db_batches_add(db, &(struct exp_db_batches){trial, step, ebb_str_c(text)}, err));
    return exp_db_validation_keep(db,
                                  &(struct exp_db_validation){.trial_id = trial,
                                                              .step_id = step,
                                                              .state = "COMPLETED",
                                                              .start_time = time,
                                                              .end_time = time + 0.1,
                                                              .metrics = found,
                                                              .signed_metric = loss},
                                  1, err);
}

static enum ebb_status add_trial(struct exp_db *db, int64_t id, int steps, int batches,
                                 uint64_t *rng, struct ebb_str *text, struct ebb_error *err)
{
    static const char *const kinds[] = {"adam", "sgd", "rmsprop"};
    char hparams[300], request[48];
    double rate = pow(10, -4 + 3 * uniform(rng)), momentum = uniform(rng), best = INFINITY,
           loss = 0;
    int kind = (int)(ebb_splitmix64(rng) % 3);
    snprintf(hparams, sizeof hparams,
             "{\"global_batch_size\": 32, \"learning_rate\": %.6g, \"momentum\": %.5g, "
             "\"hidden\": %d, \"layers\": %d, \"dropout\": %.4g, \"optimizer\": \"%s\"}",
             rate, momentum, 16 + (int)(ebb_splitmix64(rng) % 512),
             1 + (int)(ebb_splitmix64(rng) % 8), uniform(rng) * 0.5, kinds[kind]);
    snprintf(request, sizeof request, "00000000-0000-4000-8000-%012lld", (long long)id);
    EBB_TRY(exp_db_trial_add(db,
                             &(struct exp_db_trial_made){.id = id,
                                                         .experiment_id = 1,
                                                         .request_id = request,
                                                         .state = "COMPLETED",
                                                         .start_time = 1.7e9 + (double)id,
                                                         .hparams = hparams,
                                                         .seed = id,
                                                         .sequence = "{}"},
                             err));
    double level = pow(log10(rate) + 2.5, 2) + 0.3 * momentum + 0.2 * kind;
    for (int step = 1; step <= steps; step++) {
        loss = 0.1 + level + 3 * exp(-0.05 * step) + 0.05 * uniform(rng);
        best = loss < best ? loss : best;
        EBB_TRY(add_step(db, id, step, loss, batches, rng, text, err));
    }
    return exp_db_trial_write(db,
                              &(struct exp_db_trial_state){.id = id,
                                                           .state = "COMPLETED",
                                                           .end_time = 1.7e9 + (double)id + 100,
                                                           .steps = steps,
                                                           .best_signed = best,
                                                           .best_step_id = steps,
                                                           .latest_signed = loss,
                                                           .sequence = "{}"},
                              err);
}

static int make(const char *dir, int64_t experiments, int64_t trials, int steps, int batches)
{
    char path[600];
    struct exp_db *db = NULL;
    struct ebb_error err;
    struct ebb_str text = {0};
    uint64_t rng = 1, start = ebb_clock_ns();
    mkdir(dir, 0700);
    snprintf(path, sizeof path, "%s/ebb.db", dir);
    if (exp_db_open(&(struct exp_db_options){.path = path}, &db, &err) != EBB_OK)
        return fail("open", &err);
    enum ebb_status status = EBB_OK;
    for (int64_t i = 1; status == EBB_OK && i <= experiments; i++)
        status = add_experiment(db, i, i == 1 ? trials : 0, &rng, &err);
    for (int64_t i = 1; status == EBB_OK && i <= trials; i++) {
        status = add_trial(db, i, steps, batches, &rng, &text, &err);
        if (status == EBB_OK && i % 100 == 0)
            status = exp_db_commit(db, &err);
    }
    if (status == EBB_OK)
        status = exp_db_commit(db, &err);
    exp_db_close(db);
    ebb_str_fini(&text);
    if (status != EBB_OK)
        return fail("write", &err);
    printf("made     %lld experiments, %lld trials of %d steps of %d batches in %.0f s\n",
           (long long)experiments, (long long)trials, steps, batches,
           (double)(ebb_clock_ns() - start) * 1e-9);
    return 0;
}

/* ---- questions ---- */

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The fewest points that a curve of an answer has. */
static size_t fewest_points(const char *body)
{
    static const char list[] = "\"values\": [";
    size_t fewest = POINTS;
    for (const char *at = body; (at = strstr(at, list)) != NULL;) {
        size_t points = 1;
        for (at += sizeof list - 1; *at != ']' && *at != '\0'; at++)
            points += *at == ',';
        fewest = points < fewest ? points : fewest;
    }
    return fewest;
}

static bool ask(struct exp_master *m, const char *target, double bar_ms)
{
    double ms[TIMES],
        cpu[TIMES]; /* where others run too, only the processor's time says something */
    size_t fewest = POINTS;
    size_t bytes = 0, packed = 0;
    for (int i = 0; i < TIMES; i++) {
        struct serve_http_response response;
        struct serve_http_request request = {.method = "GET", .target = target};
        serve_http_response_init(&response);
        uint64_t start = ebb_clock_ns(), begin = ebb_clock_cpu_ns();
        serve_request(m, &request, &response);
        ms[i] = (double)(ebb_clock_ns() - start) * 1e-6;
        cpu[i] = (double)(ebb_clock_cpu_ns() - begin) * 1e-6;
        bytes = response.body.length;
        if (response.status != 200)
            printf("%s\n", ebb_str_c(&response.body));
        if (i == 0) {
            if (strstr(target, "/curves?") != NULL)
                fewest = fewest_points(ebb_str_c(&response.body));
            serve_http_pack(&response);
            packed = response.body.length;
        }
        serve_http_response_fini(&response);
    }
    qsort(ms, TIMES, sizeof *ms, by_time);
    qsort(cpu, TIMES, sizeof *cpu, by_time);
    double p95 = cpu[TIMES * 95 / 100];
    bool is_good = p95 <= bar_ms && packed <= PACKED && fewest >= POINTS;
    printf("%-4s %6.1f ms of processor, %6.1f ms in all (p95 each), %8zu bytes, %7zu packed  %s\n",
           is_good ? "ok" : "BAD", p95, ms[TIMES * 95 / 100], bytes, packed, target);
    return is_good;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *dir = argc > 1 ? argv[1] : "web-scale";
    int64_t numbers[4] = {100000, 10000, 100, 100};
    char path[600];
    struct stat st;
    struct exp_master *m = NULL;
    struct ebb_error err;
    for (int i = 0; i < 4 && i + 2 < argc; i++)
        if (!ebb_parse_i64(argv[i + 2], &numbers[i]))
            return 2;
    snprintf(path, sizeof path, "%s/ebb.db", dir);
    if (stat(path, &st) != 0 && make(dir, numbers[0], numbers[1], (int)numbers[2], (int)numbers[3]))
        return 1;
    struct exp_master_options options = {.state_dir = dir, .is_reading_only = true};
    if (serve_open(&options, &m, &err) != EBB_OK)
        return fail("open", &err);
    static const struct {
        const char *target;
        double bar_ms;
    } rows[] = {
        {"/experiments?limit=50", 50},
        {"/experiments?limit=50&archived=all&offset=90000", 50},
        {"/experiments?limit=50&sort=-progress", 50},
        {"/experiments?limit=50&sort=description", 50},
        {"/experiments?limit=50&sort=-end_time", 50},
        {"/experiments?limit=50&sort=state", 50},
        {"/experiments?limit=50&sort=owner", 50},
        {"/experiments?limit=50&user=user3", 50},
        {"/experiments?limit=50&state=ERROR,CANCELED", 50},
        {"/experiments?limit=50&label=label7", 50},
        {"/experiments?limit=50&label=label7&label=label8", 50},
        {"/experiments?limit=50&user=user3&user=user4&sort=-progress", 50},
        {"/experiments?limit=50&description=network%2041", 50},
        {"/experiments/1/trials?limit=50", 50},
        {"/experiments/1/trials?limit=50&sort=-hparams.learning_rate", 50},
        {"/experiments/1/trials?limit=50&sort=hparams.optimizer", 50},
        {"/experiments/1/trials?limit=50&sort=best_validation", 50},
        {"/experiments/1/trials?limit=50&state=ERROR", 50},
        {"/experiments/1/points", 300},
        {"/experiments/1/points?step=50", 300},
        {"/experiments/1/importance", 1000},
        {"/experiments/1/metric-names", 50},
        {"/experiments/1/validation-history", 50},
        {"/experiments/1/curves?max_trials=20&points=400", 50},
        {"/experiments/1/curves?max_trials=10000&points=12&times=0", 300},
        {"/trials/77/workloads", 50},
        {"/trials/77/workloads?limit=100", 50},
        {"/trials/77/workloads?limit=100&has=checkpoint", 50},
        {"/trials/77/summary", 50},
        {"/curves?trials=77&metric=loss&kind=training", 50},
    };
    int slow = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        slow += !ask(m, rows[i].target, rows[i].bar_ms);
    exp_master_close(m, EXP_CLOSE_LEAVE, 0);
    printf("%d of %zu miss their bars\n", slow, sizeof rows / sizeof *rows);
    return slow > 0;
}
