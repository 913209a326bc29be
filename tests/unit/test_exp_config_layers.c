/* The experiment file: site defaults, template and file over each other. */
#include "exp_config_support.h"

/* A file over a template and site storage, each given as YAML (NULL: none). */
static void layered_open(struct reading *r, const char *site, const char *template_text,
                         const char *file)
{
    struct exp_config_options options = {.file_name = "exp.yaml",
                                         .template_name = "tpl.yaml",
                                         .site_name = "site.yaml",
                                         .default_seed = -1};
    memset(r, 0, sizeof *r);
    ebb_arena_init(&r->arena);
    ebb_str_init(&r->text);
    if (site)
        CHECK_OK(ebb_doc_parse_yaml(&r->arena, "site.yaml", site, strlen(site),
                                    &options.site_storage, &r->err),
                 &r->err);
    if (template_text)
        CHECK_OK(ebb_doc_parse_yaml(&r->arena, "tpl.yaml", template_text, strlen(template_text),
                                    &options.template_root, &r->err),
                 &r->err);
    r->status =
        exp_config_parse(&r->arena, file, strlen(file), &options, &r->config, &r->report, &r->err);
}

#define REST                                                                                       \
    "entrypoint: a:b\n"                                                                            \
    "reproducibility: {experiment_seed: 1}\n"
#define FILE_HEAD                                                                                  \
    REST "hyperparameters: {global_batch_size: 8}\n"                                               \
         "searcher: {name: single, metric: m, max_steps: 1}\n"

/* The normalised value after merging a template with a file. */
static void expect_merged(const char *template_text, const char *file, const char *section,
                          const char *key, const char *json)
{
    struct reading r;
    layered_open(&r, NULL, template_text, file);
    if (r.status != EBB_OK)
        reading_print(&r);
    CHECK_OK(r.status, &r.err);
    CHECK_STR(normal_json(&r, section, key), json);
    reading_close(&r);
}

TEST(merge__scalars_the_later_wins)
{
    expect_merged("max_restarts: 1\n", FILE_HEAD, "max_restarts", NULL, "1");
    expect_merged("max_restarts: 1\n", FILE_HEAD "max_restarts: 2\n", "max_restarts", NULL, "2");
    expect_merged("resources: {weight: 2, max_slots: 4}\n", FILE_HEAD "resources: {weight: 3}\n",
                  "resources", "max_slots", "4");
}

TEST(merge__every_list_is_joined_template_first)
{
    struct reading r;
    layered_open(&r, NULL,
                 "bind_mounts: [{host_path: /a, container_path: a}]\n"
                 "environment: {environment_variables: [A=1, B=1]}\n"
                 "data: {files: [x], deep: {l: [1]}}\n",
                 FILE_HEAD "bind_mounts: [{host_path: /b, container_path: b}]\n"
                           "environment: {environment_variables: [A=2]}\n"
                           "data: {files: [y], deep: {l: [2]}}\n");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.config.bind_mount_count, 2);
    CHECK_STR(r.config.bind_mounts[0].host_path, "/a");
    CHECK_STR(normal_json(&r, "environment", "environment_variables"),
              "{\"cpu\": [\"A=1\", \"B=1\", \"A=2\"], \"gpu\": [\"A=1\", \"B=1\", \"A=2\"]}");
    CHECK_STR(r.config.environment.variables_cpu.items[0], "A=2");
    CHECK_EQ(r.config.environment.variables_cpu.count, 2);
    CHECK_STR(normal_json(&r, "data", NULL),
              "{\"files\": [\"x\", \"y\"], \"deep\": {\"l\": [1, 2]}}");
    reading_close(&r);
}

TEST(merge__labels_are_united_whatever_their_form)
{
    expect_merged("labels: [a, b]\n", FILE_HEAD "labels: {b: true, c: true}\n", "labels", NULL,
                  "[\"a\", \"b\", \"c\"]");
}

TEST(merge__sides_of_images_and_variables)
{
    expect_merged("environment: {image: a}\n", FILE_HEAD "environment: {image: {cpu: b}}\n",
                  "environment", "image", "{\"cpu\": \"b\", \"gpu\": \"a\"}");
    expect_merged("environment: {image: {cpu: b}}\n", FILE_HEAD "environment: {image: a}\n",
                  "environment", "image", "{\"cpu\": \"a\", \"gpu\": \"a\"}");
    expect_merged("environment: {environment_variables: {gpu: [A=1]}}\n",
                  FILE_HEAD "environment: {environment_variables: [B=2]}\n", "environment",
                  "environment_variables", "{\"cpu\": [\"B=2\"], \"gpu\": [\"A=1\", \"B=2\"]}");
}

TEST(merge__same_tag_field_by_field)
{
    struct reading r;
    layered_open(&r, NULL,
                 "searcher: {name: random, metric: m, max_steps: 3, max_trials: 5}\n"
                 "hyperparameters: {lr: {type: log, base: 10, minval: -4, maxval: -1}}\n",
                 REST "searcher: {max_trials: 7}\n"
                      "hyperparameters: {global_batch_size: 8, lr: {maxval: 0}}\n");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.config.searcher.max_trials, 7);
    CHECK_EQ(r.config.searcher.max_steps, 3);
    const struct exp_hparam *lr = exp_hparams_find(&r.config.hyperparameters, "lr");
    CHECK(lr->min == -4 && lr->max == 0);
    reading_close(&r);
}

TEST(merge__another_tag_drops_the_fields_of_the_old_one)
{
    struct reading r;
    layered_open(&r, "type: gcs\nbucket: site\nsave_experiment_best: 2\n",
                 "searcher: {name: random, metric: m, max_steps: 3, max_trials: 5, "
                 "smaller_is_better: false, source_trial_id: 9}\n"
                 "hyperparameters: {lr: {type: log, base: 10, minval: -4, maxval: -1, count: 3}}\n",
                 REST "checkpoint_storage: {type: shared_fs, host_path: /x}\n"
                      "searcher: {name: grid, max_steps: 1}\n"
                      "hyperparameters: {global_batch_size: 8, lr: {type: const, val: 1}}\n");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.config.checkpoint_storage.kind, EXP_STORAGE_SHARED_FS);
    CHECK(r.config.checkpoint_storage.bucket == NULL);
    CHECK_EQ(r.config.checkpoint_storage.save_experiment_best, 2);
    CHECK_EQ(r.config.searcher.kind, EXP_SEARCHER_GRID);
    CHECK(!r.config.searcher.smaller_is_better);
    CHECK_EQ(r.config.searcher.source_trial_id, 9);
    CHECK_EQ(r.config.searcher.max_steps, 1);
    CHECK_EQ(exp_hparams_find(&r.config.hyperparameters, "lr")->kind, EXP_HPARAM_CONST);
    reading_close(&r);
    /* max_steps exists in both, but belongs to the old alternative: it must be given again. */
    layered_open(&r, NULL, "searcher: {name: random, metric: m, max_steps: 3, max_trials: 5}\n",
                 REST "hyperparameters: {global_batch_size: 8}\nsearcher: {name: grid}\n");
    CHECK(reading_find(&r, EBB_FINDING_ERROR, "searcher.max_steps"));
    reading_close(&r);
}

TEST(merge__a_tag_may_come_later_than_its_fields)
{
    expect_merged("searcher: {max_steps: 4, metric: m}\n",
                  REST "hyperparameters: {global_batch_size: 8}\nsearcher: {name: single}\n",
                  "searcher", "max_steps", "4");
}

TEST(merge__vals_and_val_are_replaced)
{
    expect_merged(
        "hyperparameters: {a: {type: categorical, vals: [1, 2]}, b: [1]}\n",
        REST "searcher: {name: single, metric: m, max_steps: 1}\n"
             "hyperparameters: {global_batch_size: 8, a: {vals: [3]}, b: [2]}\n",
        "hyperparameters", NULL,
        "{\"a\": {\"type\": \"categorical\", \"vals\": [3]}, \"b\": {\"type\": \"const\", "
        "\"val\": [2]}, \"global_batch_size\": {\"type\": \"const\", \"val\": 8}}");
}

TEST(merge__null_lets_the_template_through_unless_null_is_a_value)
{
    expect_merged("max_restarts: 1\n", FILE_HEAD "max_restarts: null\n", "max_restarts", NULL, "1");
    expect_merged("resources: {weight: 2}\n", FILE_HEAD "resources: null\n", "resources", "weight",
                  "2");
    expect_merged("resources: {max_slots: 4}\n", FILE_HEAD "resources: {max_slots: null}\n",
                  "resources", "max_slots", "null");
    expect_merged("min_validation_period: 4\n", FILE_HEAD "min_validation_period: null\n",
                  "min_validation_period", NULL, "null");
    expect_merged("data: {a: 1}\n", FILE_HEAD "data: {a: null}\n", "data", NULL, "{\"a\": null}");
}

TEST(merge__a_command_is_replaced)
{
    expect_merged("entrypoint: [a, b]\n",
                  "entrypoint: [c]\nhyperparameters: {global_batch_size: 8}\n"
                  "searcher: {name: single, metric: m, max_steps: 1}\n",
                  "entrypoint", NULL, "[\"c\"]");
}

TEST(site__default_storage_completes_the_file)
{
    struct reading r;
    layered_open(&r, "type: shared_fs\nhost_path: /site\n", NULL,
                 FILE_HEAD "checkpoint_storage: {save_trial_best: 4, storage_path: mine}\n");
    CHECK_OK(r.status, &r.err);
    CHECK_STR(r.config.checkpoint_storage.directory, "/site/mine");
    CHECK_EQ(r.config.checkpoint_storage.save_trial_best, 4);
    reading_close(&r);
}

TEST(template__errors_name_the_template)
{
    struct reading r;
    struct ebb_str line;
    layered_open(&r, NULL, "description: t\nmax_restart: 1\nmax_restarts: x\n", FILE_HEAD);
    CHECK_EQ(r.report.errors, 2);
    ebb_str_init(&line);
    ebb_finding_format(&r.report.items[0], &line);
    CHECK(strncmp(ebb_str_c(&line), "tpl.yaml:2:1: max_restart: unknown key", 38) == 0);
    CHECK_STR(r.report.items[1].file, "tpl.yaml");
    CHECK_EQ(r.report.items[1].line, 3);
    ebb_str_fini(&line);
    reading_close(&r);
}

TEST(template__keys_are_checked_even_where_the_file_replaces_them)
{
    struct reading r;
    layered_open(&r, NULL, "searcher: {name: random, bogus_key: 1, max_trials: 3}\n", FILE_HEAD);
    CHECK_EQ(r.report.errors, 1);
    CHECK_STR(r.report.items[0].path, "searcher.bogus_key");
    CHECK_STR(r.report.items[0].file, "tpl.yaml");
    reading_close(&r);
    layered_open(&r, NULL, "template: other\n", FILE_HEAD); /* no template names another */
    CHECK_EQ(r.report.errors, 1);
    CHECK_STR(r.report.items[0].path, "template");
    reading_close(&r);
    layered_open(&r, NULL, "[1]", FILE_HEAD);
    CHECK_EQ(r.report.errors, 1);
    reading_close(&r);
    layered_open(&r, NULL, "", FILE_HEAD); /* an empty one is fine */
    CHECK_OK(r.status, &r.err);
    reading_close(&r);
}

TEST(template__overridden_values_are_not_errors)
{
    expect_merged("max_restarts: -1\n", FILE_HEAD "max_restarts: 2\n", "max_restarts", NULL, "2");
}

/* ---- ebb's own sections ---- */

#define OWN_HEAD                                                                                   \
    "reproducibility: {experiment_seed: 1}\n"                                                      \
    "hyperparameters: {global_batch_size: 8, lr: 0.1}\n"                                           \
    "searcher: {name: single, metric: m, max_steps: 1}\n"

TEST(own__sections_need_an_own_entrypoint)
{
    static const char *const sections[] = {"model", "opt", "lr_schedule", "loss", "memory"};
    char line[200];
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        snprintf(line, sizeof line, "%s: {name: x}", sections[i]);
        expect_refused(sections[i], line);
        snprintf(line, sizeof line, "entrypoint: onnx:m.onnx\n%s: {name: x}", sections[i]);
        expect_accepted(line);
        snprintf(line, sizeof line, "entrypoint: ebb:gan\n%s: 3", sections[i]);
        expect_refused(sections[i], line);
    }
}

TEST(own__references_name_hyperparameters)
{
    struct reading r;
    layered_open(&r, NULL, NULL,
                 OWN_HEAD "entrypoint: ebb:gan\nopt: {lr: '${lr}', t: 'a${lr}b$${x} $ { ${lr}'}\n");
    CHECK_OK(r.status, &r.err);
    reading_close(&r);
    layered_open(&r, NULL, NULL,
                 OWN_HEAD "entrypoint: ebb:gan\nopt: {lr: '${lrr}', more: [1, 'x${lr']}\n"
                          "data: {d: '${nothing_like_it}'}\n");
    CHECK_EQ(r.report.errors, 3);
    CHECK_STR(r.report.items[0].path, "opt.lr");
    CHECK(strstr(r.report.items[0].message, "nearest: lr"));
    CHECK_STR(r.report.items[1].path, "opt.more[1]");
    CHECK_STR(r.report.items[2].path, "data.d");
    reading_close(&r);
    layered_open(&r, NULL, NULL, OWN_HEAD "entrypoint: a:b\ndata: {d: '${free}'}\n");
    CHECK_OK(r.status, &r.err); /* not ours to read */
    reading_close(&r);
}

TEST(own__precision_is_asked_for_once)
{
    struct reading r;
    layered_open(&r, NULL, NULL,
                 OWN_HEAD "entrypoint: ebb:gan\nmemory: {precision: bf16}\n"
                          "optimizations: {mixed_precision: O1}\n");
    CHECK_EQ(r.report.errors, 1);
    CHECK_STR(r.report.items[0].path, "memory.precision");
    CHECK_STR(r.report.items[0].also, "optimizations.mixed_precision");
    reading_close(&r);
    layered_open(&r, NULL, NULL, /* as the stored form has it */
                 OWN_HEAD "entrypoint: ebb:gan\nmemory: {precision: bf16}\n"
                          "optimizations: {mixed_precision: O0}\n");
    CHECK_EQ(r.report.errors, 0);
    reading_close(&r);
}

static void count_section(void *context, struct ebb_reading *reader, const char *section,
                          const struct ebb_doc_node *value, const struct exp_config *config)
{
    char *seen = context;
    strcat(seen, section);
    strcat(seen, " ");
    CHECK(config->hyperparameters.count == 2);
    if (ebb_doc_get(value, "bad"))
        ebb_reading_add(reader, EBB_FINDING_ERROR, ebb_doc_get(value, "bad"), "memory.bad",
                        "found %s", "bad");
}

TEST(own__keys_are_checked_by_the_callers_function)
{
    struct reading r;
    char seen[100] = "";
    struct exp_config_options options = {.file_name = "f",
                                         .default_seed = -1,
                                         .check_section = count_section,
                                         .check_context = seen};
    reading_open_with(&r,
                      OWN_HEAD "entrypoint: ebb:gan\nmemory: {x: 1,\n  bad: 2}\nmodel: {}\n"
                               "data: {}\nmax_restarts: -1",
                      options);
    CHECK_STR(seen, "data searcher model memory ");
    CHECK_EQ(r.report.errors, 2);
    CHECK_STR(r.report.items[0].path, "memory.bad"); /* sorted among the others */
    CHECK_STR(r.report.items[1].path, "max_restarts");
    reading_close(&r);
}

/* ---- what is recorded and does nothing ---- */

TEST(container__is_recorded_with_one_warning)
{
    struct reading r;
    size_t rows[64];
    layered_open(&r, NULL, NULL,
                 FILE_HEAD "environment: {image: a/b, force_pull_image: true, registry_auth: "
                           "{username: u, password: p}}\n");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(exp_config_unbuilt(&r.config, rows), 0);
    CHECK_EQ(r.report.count, 1);
    CHECK_STR(r.report.items[0].path, "environment.image");
    CHECK_EQ(r.report.items[0].kind, EBB_FINDING_WARNING);
    CHECK_STR(r.config.environment.image_cpu, "a/b");
    reading_close(&r);
}

TEST(aggregation__of_a_trial_that_ebb_does_not_train_is_told)
{
    struct reading r;
    layered_open(&r, NULL, NULL, FILE_HEAD "optimizations: {aggregation_frequency: 4}\n");
    CHECK_OK(r.status, &r.err);
    CHECK(reading_find(&r, EBB_FINDING_WARNING, "optimizations.aggregation_frequency") != NULL);
    reading_close(&r);
    reading_open(&r, "entrypoint: ebb:gan\nhyperparameters: {global_batch_size: 1}\n"
                     "searcher: {name: single, metric: m, max_steps: 1}\n"
                     "optimizations: {aggregation_frequency: 4}\n");
    CHECK_OK(r.status, &r.err);
    CHECK(reading_find(&r, EBB_FINDING_WARNING, "optimizations.aggregation_frequency") == NULL);
    reading_close(&r);
}

/* ---- not yet runnable ---- */

TEST(unbuilt__notes_and_rows)
{
    struct reading r;
    size_t rows[64];
    CHECK(exp_unbuilt_count <= 64);
    layered_open(&r, NULL, NULL, FILE_HEAD);
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.report.notes, 0);
    CHECK_EQ(exp_config_unbuilt(&r.config, rows), 0);
    reading_close(&r);
    layered_open(&r, NULL, NULL, FILE_HEAD "resources: {slots_per_trial: 2, agent_label: a}\n");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.report.notes, 2);
    const struct ebb_finding *f = reading_find(&r, EBB_FINDING_NOTE, "resources.slots_per_trial");
    CHECK(f && f->line == 5 && strstr(f->message, "valid, but this build cannot run it yet"));
    CHECK_EQ(exp_config_unbuilt(&r.config, rows), 2);
    CHECK_STR(exp_unbuilt_table[rows[0]].path, "resources.slots_per_trial");
    reading_close(&r);
    reading_open(&r, "entrypoint: ebb:gan\nhyperparameters: {global_batch_size: 1}\n"
                     "searcher: {name: single, metric: m, max_steps: 1}\n"
                     "memory: {policy: capuchin}\n");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(exp_config_unbuilt(&r.config, rows), 0);
    reading_close(&r);
}

TEST_MAIN()
