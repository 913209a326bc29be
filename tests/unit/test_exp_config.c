/* The experiment file: types, limits, and every ruling of the specification about single files. */
#include "exp_config_support.h"

/* ---- types ---- */

TEST(integer__is_strict_but_takes_whole_doubles)
{
    struct reading r;
    reading_open(&r, "max_restarts: 3.0");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.config.max_restarts, 3);
    CHECK_STR(normal_json(&r, "max_restarts", NULL), "3");
    reading_close(&r);
    expect_refused("max_restarts", "max_restarts: 3.5");
    expect_refused("max_restarts", "max_restarts: \"3\"");
    expect_refused("max_restarts", "max_restarts: true");
    expect_refused("max_restarts", "max_restarts: 1e300");
    expect_refused("max_restarts", "max_restarts: 99999999999999999999");
    expect_accepted("max_restarts: 0x10");
}

TEST(scalar__types_do_not_mix)
{
    expect_accepted("resources: {weight: 2}");
    expect_refused("resources.weight", "resources: {weight: \"2\"}");
    expect_refused("description", "description: 7");
    expect_refused("searcher.smaller_is_better",
                   "searcher: {name: single, metric: m, max_steps: 1, smaller_is_better: 1}");
    expect_refused("data", "data: [1]");
    expect_refused("hyperparameters", "hyperparameters: 3");
    expect_refused("resources", "resources: []"); /* and nothing about what it would have held */
    expect_refused("searcher", "searcher: grid");
    expect_refused("optimizations", "optimizations: 1");
}

TEST(yaml__is_core_schema_1_2)
{
    struct reading r;
    reading_open(&r, "labels: [y, no, on, 'true']");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.config.labels.count, 4);
    CHECK_STR(r.config.labels.items[0], "y");
    reading_close(&r);
    expect_refused("optimizations.gradient_compression",
                   "optimizations: {gradient_compression: yes}");
}

TEST(yaml__duplicate_key_is_refused)
{
    struct reading r;
    reading_open(&r, "max_restarts: 1\nmax_restarts: 2");
    CHECK_EQ(r.status, EBB_EINPUT);
    CHECK_EQ(r.report.errors, 1);
    CHECK(strstr(r.err.message, "'max_restarts'") != NULL);
    reading_close(&r);
}

TEST(yaml__anchors_and_merges_are_resolved)
{
    struct reading r;
    reading_open(&r, "data: {base: &b {x: 1}, more: {<<: *b, y: 2}}");
    CHECK_OK(r.status, &r.err);
    CHECK_STR(normal_json(&r, "data", "more"), "{\"x\": 1, \"y\": 2}");
    reading_close(&r);
}

TEST(null__means_not_given)
{
    struct reading r;
    reading_open(&r, "max_restarts: null\nresources: ~\nmin_validation_period:\nlabels: null");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.config.max_restarts, 5);
    CHECK_EQ(r.config.resources.slots_per_trial, 1);
    CHECK_EQ(r.config.min_validation_period, 0);
    reading_close(&r);
    expect_refused("searcher.metric", "searcher: {name: single, metric: null, max_steps: 1}");
}

TEST(keys__unknown_ones_are_refused_at_every_level)
{
    expect_refused("max_restart", "max_restart: 3");
    expect_refused("resources.slots", "resources: {slots: 3}");
    expect_refused("hyperparameters.a.step", "hyperparameters: {global_batch_size: 1, a: {type: "
                                             "int, minval: 1, maxval: 2, step: 1}}");
    expect_refused("bind_mounts[1].ro", "bind_mounts: [{host_path: /a, container_path: a}, "
                                        "{host_path: /a, container_path: b, ro: true}]");
    expect_refused("environment.image.tpu", "environment: {image: {tpu: x}}");
    expect_accepted("data: {anything: {at: [all]}}");
    expect_accepted("hyperparameters: {global_batch_size: 1, a: {type: const, val: {x: {y: 1}}}, "
                    "b: {type: categorical, vals: [{z: 1}, [2], null]}}");
}

TEST(keys__of_another_alternative_are_unknown)
{
    struct reading r;
    reading_open(&r, "searcher: {name: single, metric: m, max_steps: 1, max_trials: 3}");
    const struct ebb_finding *f = reading_find(&r, EBB_FINDING_ERROR, "searcher.max_trials");
    CHECK(f && strstr(f->message, "belongs to random"));
    reading_close(&r);
    expect_refused("checkpoint_storage.bucket",
                   "checkpoint_storage: {type: shared_fs, host_path: /a, bucket: b}");
    expect_refused("hyperparameters.a.count",
                   "hyperparameters: {global_batch_size: 1, a: {type: const, val: 1, count: 2}}");
}

TEST(keys__a_wrong_tag_is_not_buried)
{
    expect_refused("checkpoint_storage.type", "checkpoint_storage: {type: azure, container: c}");
    expect_refused("searcher.name", "searcher: {name: sngle, metric: m, population: 3}");
    struct reading r;
    reading_open(&r, "searcher: {name: sngle, metric: m, max_stps: 3}");
    CHECK_EQ(r.report.errors, 2); /* a key that looks like a known one is a typing error anyway */
    CHECK(reading_find(&r, EBB_FINDING_ERROR, "searcher.max_stps"));
    reading_close(&r);
}

/* ---- reports ---- */

TEST(report__has_all_errors_in_file_order)
{
    struct reading r;
    struct ebb_str line;
    reading_open(&r, "searcher: {metric: '', name: random, max_steps: 0}\nmax_restarts: -1\n"
                     "bogus: 1");
    CHECK_EQ(r.status, EBB_EINPUT);
    CHECK_EQ(r.report.errors, 5);
    CHECK_STR(r.report.items[0].path, "searcher.max_trials");
    CHECK_STR(r.report.items[1].path, "searcher.metric");
    CHECK_STR(r.report.items[2].path, "searcher.max_steps");
    CHECK_STR(r.report.items[3].path, "max_restarts");
    CHECK_STR(r.report.items[4].path, "bogus");
    for (size_t i = 1; i < r.report.count; i++)
        CHECK(r.report.items[i - 1].line <= r.report.items[i].line);
    ebb_str_init(&line);
    ebb_finding_format(&r.report.items[3], &line);
    CHECK_STR(ebb_str_c(&line), "exp.yaml:7:15: max_restarts: found -1, allowed: an integer >= 0");
    ebb_str_fini(&line);
    CHECK(strstr(r.err.message, "invalid experiment configuration: 5 errors"));
    reading_close(&r);
}

TEST(report__counts_what_it_does_not_keep)
{
    struct reading r;
    struct ebb_str lines;
    ebb_str_init(&lines);
    for (int i = 0; i < 700; i++)
        ebb_str_printf(&lines, "bogus_%d: 1\n", i);
    reading_open(&r, ebb_str_c(&lines));
    CHECK_EQ(r.report.count, EBB_FINDINGS_MAX);
    CHECK_EQ(r.report.errors, 700);
    ebb_str_fini(&lines);
    reading_close(&r);
}

TEST(report__escapes_what_could_steer_a_terminal)
{
    struct reading r;
    reading_open(&r, "checkpoint_policy: \"a\\e[31mb\\nc\"\n\"k\\x07\": 1");
    CHECK_EQ(r.report.errors, 2);
    CHECK(strstr(r.report.items[0].message, "\"a\\x1b[31mb\\nc\""));
    CHECK_STR(r.report.items[1].path, "k\\x07");
    reading_close(&r);
}

TEST(report__names_the_nearest)
{
    struct reading r;
    reading_open(&r, "searcher: {name: adaptiv, metric: m}\noptimisations: {}");
    const struct ebb_finding *f = reading_find(&r, EBB_FINDING_ERROR, "searcher.name");
    CHECK(f && strstr(f->message, "nearest: adaptive"));
    f = reading_find(&r, EBB_FINDING_ERROR, "optimisations");
    CHECK(f && strstr(f->message, "nearest: optimizations"));
    reading_close(&r);
}

TEST(report__a_file_that_is_no_mapping)
{
    struct ebb_arena arena;
    struct exp_config config;
    struct ebb_report report;
    struct ebb_error err;
    struct exp_config_options options = {.file_name = "f", .default_seed = -1};
    const char *const files[] = {"", "[1, 2]", "just text", "# nothing\n", "3"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        ebb_arena_init(&arena);
        CHECK_EQ(
            exp_config_parse(&arena, files[i], strlen(files[i]), &options, &config, &report, &err),
            EBB_EINPUT);
        CHECK_EQ(report.errors, 1);
        ebb_arena_fini(&arena);
    }
}

/* ---- top level ---- */

TEST(policy__unknown_value_is_refused)
{
    expect_refused("checkpoint_policy", "checkpoint_policy: sometimes");
    expect_accepted("checkpoint_policy: none");
}

TEST(periods__are_positive_or_null)
{
    expect_refused("min_validation_period", "min_validation_period: 0");
    expect_refused("min_checkpoint_period", "min_checkpoint_period: -1");
    expect_refused("batches_per_step", "batches_per_step: 0");
    expect_refused("max_restarts", "max_restarts: -1");
    expect_accepted("min_validation_period: 1\nmin_checkpoint_period: null");
}

TEST(labels__are_a_set)
{
    struct reading r;
    reading_open(&r, "labels: {b: true, a: false}");
    CHECK_OK(r.status, &r.err);
    CHECK_STR(normal_json(&r, "labels", NULL), "[\"b\", \"a\"]");
    reading_close(&r);
    reading_open(&r, "labels: [a, b, a]");
    CHECK_STR(normal_json(&r, "labels", NULL), "[\"a\", \"b\"]");
    reading_close(&r);
    expect_refused("labels[1]", "labels: [a, 1]");
    expect_refused("labels.x", "labels: {x: 1}");
    expect_refused("labels", "labels: a");
}

TEST(description__empty_is_kept_absent_is_offered)
{
    struct reading r;
    struct exp_config_options options = {
        .file_name = "f", .default_seed = -1, .default_description = "made up"};
    reading_open_with(&r, "description: ''", options);
    CHECK_STR(r.config.description, "");
    reading_close(&r);
    reading_open_with(&r, "description: null", options);
    CHECK_STR(r.config.description, "made up");
    reading_close(&r);
    reading_open(&r, "description: null");
    CHECK(r.config.description == NULL);
    reading_close(&r);
}

TEST(description__generated_one_is_three_words_and_repeatable)
{
    struct ebb_arena arena;
    ebb_arena_init(&arena);
    const char *a = exp_config_describe(&arena, 1);
    CHECK(strncmp(a, "Experiment (", 12) == 0 && strchr(a, '-') != strrchr(a, '-'));
    CHECK_STR(a, exp_config_describe(&arena, 1));
    CHECK(strcmp(a, exp_config_describe(&arena, 2)) != 0);
    ebb_arena_fini(&arena);
}

TEST(seed__has_31_bits)
{
    struct reading r;
    struct exp_config_options options = {.file_name = "f", .default_seed = 0x1234567890};
    expect_refused("reproducibility.experiment_seed",
                   "reproducibility: {experiment_seed: 2147483648}");
    expect_refused("reproducibility.experiment_seed", "reproducibility: {experiment_seed: -1}");
    expect_accepted("reproducibility: {experiment_seed: 0}");
    reading_open_with(&r, "reproducibility: {}", options);
    CHECK_EQ(r.config.experiment_seed, 0x34567890);
    reading_close(&r);
    reading_open(&r, "reproducibility: {}");
    CHECK_EQ(r.config.experiment_seed, -1);
    reading_close(&r);
}

TEST(entrypoint__forms)
{
    static const struct {
        const char *line;
        enum exp_entry_kind kind;
    } good[] = {
        {"entrypoint: ebb:image_classification", EXP_ENTRY_BUILTIN},
        {"entrypoint: onnx:models/a.onnx", EXP_ENTRY_ONNX},
        {"entrypoint: libmodel.so:trial", EXP_ENTRY_LIBRARY},
        {"entrypoint: pkg.mod:Outer.Class", EXP_ENTRY_PYTHON},
        {"entrypoint: exec:./train.sh --fast", EXP_ENTRY_COMMAND},
        {"entrypoint: [python3, train.py]", EXP_ENTRY_COMMAND},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct reading r;
        reading_open(&r, good[i].line);
        CHECK_OK(r.status, &r.err);
        CHECK_EQ(r.config.entrypoint.kind, good[i].kind);
        reading_close(&r);
    }
    struct reading r;
    reading_open(&r, "entrypoint: a.b:c:d");
    CHECK_STR(r.config.entrypoint.module, "a.b");
    CHECK_STR(r.config.entrypoint.object, "c:d");
    reading_close(&r);
    reading_open(&r, "entrypoint: exec:x y");
    CHECK_EQ(r.config.entrypoint.command_count, 3);
    CHECK_STR(r.config.entrypoint.command[2], "x y");
    reading_close(&r);
    expect_refused("entrypoint", "entrypoint: model_def");
    expect_refused("entrypoint", "entrypoint: ':x'");
    expect_refused("entrypoint", "entrypoint: 'x:'");
    expect_refused("entrypoint", "entrypoint: ''");
    expect_refused("entrypoint", "entrypoint: null");
    expect_refused("entrypoint", "entrypoint: 3");
    expect_refused("entrypoint", "entrypoint: ebb:image_clasification");
    expect_refused("entrypoint", "entrypoint: []");
    expect_refused("entrypoint[1]", "entrypoint: [a, 1]");
}

/* ---- checkpoint_storage ---- */

TEST(storage__directory_lies_below_host_path)
{
    static const struct {
        const char *keys, *directory; /* NULL: refused */
    } cases[] = {
        {"host_path: /data", "/data"},
        {"host_path: /data/, storage_path: a//b/./c/..", "/data/a/b"},
        {"host_path: /data, storage_path: /data/ck", "/data/ck"},
        {"host_path: /data, storage_path: .", "/data"},
        {"host_path: /, storage_path: /x", "/x"},
        {"host_path: /data, storage_path: a/../..", NULL},
        {"host_path: /data, storage_path: /data2", NULL}, /* components, not characters */
        {"host_path: /data, storage_path: ../data2/x", NULL},
        {"host_path: /data, storage_path: /", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading r;
        char line[200];
        snprintf(line, sizeof line, "checkpoint_storage: {type: shared_fs, %s}", cases[i].keys);
        if (!cases[i].directory) {
            expect_refused("checkpoint_storage.storage_path", line);
            continue;
        }
        reading_open(&r, line);
        CHECK_OK(r.status, &r.err);
        CHECK_STR(r.config.checkpoint_storage.directory, cases[i].directory);
        reading_close(&r);
    }
}

TEST(storage__old_names_of_storage_path)
{
    struct reading r;
    reading_open(&r, "checkpoint_storage: {type: shared_fs, host_path: /d, checkpoint_path: c, "
                     "tensorboard_path: t}");
    CHECK_STR(r.config.checkpoint_storage.directory, "/d/t");
    reading_close(&r);
    reading_open(&r, "checkpoint_storage: {type: shared_fs, host_path: /d, checkpoint_path: c}");
    CHECK_STR(r.config.checkpoint_storage.directory, "/d/c");
    reading_close(&r);
    reading_open(&r, "checkpoint_storage: {type: shared_fs, host_path: /d, storage_path: s, "
                     "tensorboard_path: t}");
    CHECK_STR(r.config.checkpoint_storage.directory, "/d/s");
    reading_close(&r);
    expect_refused("checkpoint_storage.checkpoint_path",
                   "checkpoint_storage: {type: shared_fs, host_path: /d, checkpoint_path: ..}");
}

TEST(storage__container_path_and_propagation_are_free)
{
    struct reading r;
    reading_open(&r, "checkpoint_storage: {type: shared_fs, host_path: /d, container_path: /x, "
                     "propagation: rslave}");
    CHECK_OK(r.status, &r.err);
    CHECK_STR(r.config.checkpoint_storage.container_path, "/x");
    CHECK_STR(r.config.checkpoint_storage.propagation, "rslave");
    reading_close(&r);
    expect_refused("checkpoint_storage.container_path",
                   "checkpoint_storage: {type: shared_fs, host_path: /d, container_path: x}");
    expect_refused("checkpoint_storage.propagation",
                   "checkpoint_storage: {type: shared_fs, host_path: /d, propagation: both}");
    expect_refused("checkpoint_storage.host_path", "checkpoint_storage: {type: shared_fs}");
    expect_refused("checkpoint_storage.host_path",
                   "checkpoint_storage: {type: shared_fs, host_path: d}");
}

TEST(storage__s3_takes_both_keys_or_neither)
{
    expect_accepted("checkpoint_storage: {type: s3, bucket: b}");
    expect_accepted("checkpoint_storage: {type: s3, bucket: b, access_key: a, secret_key: s, "
                    "endpoint_url: 'http://minio:9000'}");
    expect_refused("checkpoint_storage.secret_key",
                   "checkpoint_storage: {type: s3, bucket: b, access_key: a}");
    expect_refused("checkpoint_storage.access_key",
                   "checkpoint_storage: {type: s3, bucket: b, secret_key: a}");
    expect_refused("checkpoint_storage.bucket", "checkpoint_storage: {type: s3}");
    expect_refused("checkpoint_storage.bucket", "checkpoint_storage: {type: gcs, bucket: ''}");
}

TEST(storage__that_would_become_another_address_is_refused)
{
    static const char *const odd[][2] = {
        {"bucket", "bucket: 'evil.org/#'"},
        {"bucket", "bucket: \"b\\r\\nX: y\""},
        {"bucket", "bucket: 'a..b'"},
        {"prefix", "bucket: b, prefix: 'a/../b'"},
        {"prefix", "bucket: b, prefix: '//'"},
        {"prefix", "bucket: b, prefix: \"a\\nb\""},
        {"endpoint_url", "bucket: b, endpoint_url: 'file:///x'"},
        {"endpoint_url", "bucket: b, endpoint_url: minio"},
        {"endpoint_url", "bucket: b, endpoint_url: 'http://'"},
        {"endpoint_url", "bucket: b, endpoint_url: 'http://a:b@h'"},
        {"endpoint_url", "bucket: b, endpoint_url: \"http://h\\r\\n\""},
        {"endpoint_url", "bucket: b, endpoint_url: 'http://h?x'"},
        {"access_key", "bucket: b, access_key: 'a b', secret_key: s"}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char key[64], text[160];
        snprintf(key, sizeof key, "checkpoint_storage.%s", odd[i][0]);
        snprintf(text, sizeof text, "checkpoint_storage: {type: s3, %s}", odd[i][1]);
        expect_refused(key, text);
    }
    expect_accepted("checkpoint_storage: {type: s3, bucket: my.bucket_1-x, prefix: '/ü x/..y/', "
                    "endpoint_url: 'https://h:9000/base/'}");
}

TEST(storage__hdfs_addresses)
{
    static const char *const good[] = {"http://n1:50070", "http://n1:50070;https://n2.x.y:1",
                                       "webhdfs://10.0.0.1:65535", "http://[::1]:9870"};
    static const char *const bad[] = {
        "n1:50070",        "http://n1",        "http://:1",   "http://n1:0",
        "http://n1:70000", "http://n1:50070;", "http://n1:x", "",
        "http://n1/p:1",   "http://a:b:80",    "1http://n1:2"};
    char line[200];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(line, sizeof line,
                 "checkpoint_storage: {type: hdfs, hdfs_path: /p, hdfs_url: \"%s\"}", good[i]);
        expect_accepted(line);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(line, sizeof line,
                 "checkpoint_storage: {type: hdfs, hdfs_path: /p, hdfs_url: \"%s\"}", bad[i]);
        expect_refused("checkpoint_storage.hdfs_url", line);
    }
    expect_refused("checkpoint_storage.hdfs_path",
                   "checkpoint_storage: {type: hdfs, hdfs_path: p, hdfs_url: \"http://a:1\"}");
}

TEST(storage__type_is_needed_only_for_keys_of_a_type)
{
    struct reading r;
    expect_refused("checkpoint_storage.type", "checkpoint_storage: {host_path: /x}");
    reading_open(&r, "checkpoint_storage: {save_trial_best: 3}");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.config.checkpoint_storage.kind, EXP_STORAGE_NONE);
    CHECK_EQ(r.config.checkpoint_storage.save_trial_best, 3);
    reading_close(&r);
    expect_refused("checkpoint_storage.save_trial_latest",
                   "checkpoint_storage: {save_trial_latest: -1}");
}

TEST(storage__tensorboard_has_no_retention)
{
    struct reading r;
    reading_open(&r, "tensorboard_storage: {type: shared_fs, host_path: /tb}");
    CHECK_OK(r.status, &r.err);
    CHECK(r.config.has_tensorboard_storage);
    CHECK_STR(r.config.tensorboard_storage.directory, "/tb");
    reading_close(&r);
    expect_refused("tensorboard_storage.save_trial_best",
                   "tensorboard_storage: {type: shared_fs, host_path: /tb, save_trial_best: 1}");
    expect_refused("tensorboard_storage.storage_path",
                   "tensorboard_storage: {type: shared_fs, host_path: /tb, storage_path: /x}");
}

/* ---- resources, mounts, environment, optimizations ---- */

TEST(resources__limits)
{
    expect_refused("resources.max_slots", "resources: {max_slots: 1, slots_per_trial: 2}");
    expect_refused("resources.max_slots", "resources: {max_slots: 0}");
    expect_accepted("resources: {max_slots: null, slots_per_trial: 8}");
    expect_accepted("resources: {max_slots: 8, slots_per_trial: 8}");
    expect_refused("resources.weight", "resources: {weight: 0}");
    expect_refused("resources.slots_per_trial", "resources: {slots_per_trial: 0}");
    expect_refused("resources.shm_size", "resources: {shm_size: -1}");
    struct reading r;
    reading_open(&r, "resources: {shm_size: 0, agent_label: gpu, native_parallel: true}");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.config.resources.shm_size, 0);
    CHECK_STR(r.config.resources.agent_label, "gpu");
    reading_close(&r);
    reading_open(&r, "");
    CHECK_EQ(r.config.resources.shm_size, -1);
    CHECK_STR(r.config.resources.agent_label, "");
    reading_close(&r);
}

TEST(mounts__need_a_target_that_is_not_the_working_directory)
{
    static const char *const bad[] = {".", "''", "./", ".//.", "null"};
    char line[100];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(line, sizeof line, "bind_mounts: [{host_path: /d, container_path: %s}]", bad[i]);
        expect_refused("bind_mounts[0].container_path", line);
    }
    expect_refused("bind_mounts[0].container_path", "bind_mounts: [{host_path: /d}]");
    expect_refused("bind_mounts[0].host_path", "bind_mounts: [{host_path: d, container_path: d}]");
    expect_refused("bind_mounts[1]", "bind_mounts: [{host_path: /d, container_path: d}, 3]");
    expect_refused("bind_mounts", "bind_mounts: {host_path: /d}");
    struct reading r;
    reading_open(&r, "bind_mounts: [{host_path: /d, container_path: d/e, read_only: true}]");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.config.bind_mount_count, 1);
    CHECK(r.config.bind_mounts[0].read_only);
    CHECK_STR(r.config.bind_mounts[0].propagation, "rprivate");
    reading_close(&r);
}

TEST(environment__image_counts_for_both_sides)
{
    struct reading r;
    reading_open(&r, "environment: {image: a}");
    CHECK_STR(normal_json(&r, "environment", "image"), "{\"cpu\": \"a\", \"gpu\": \"a\"}");
    reading_close(&r);
    reading_open(&r, "environment: {image: {gpu: b}}");
    CHECK_OK(r.status, &r.err);
    CHECK(r.config.environment.image_cpu == NULL);
    CHECK_STR(r.config.environment.image_gpu, "b");
    reading_close(&r);
    expect_refused("environment.image", "environment: {image: 3}");
}

TEST(environment__variables_have_names)
{
    struct reading r;
    reading_open(&r, "environment: {environment_variables: [A=1, _b=, A=2, 'C=x=y']}");
    CHECK_OK(r.status, &r.err);
    CHECK_EQ(r.config.environment.variables_cpu.count, 3);
    CHECK_STR(r.config.environment.variables_cpu.items[0], "A=2"); /* the later one counts */
    CHECK_STR(r.config.environment.variables_gpu.items[2], "C=x=y");
    reading_close(&r);
    expect_refused("environment.environment_variables[1]",
                   "environment: {environment_variables: [A=1, B]}");
    expect_refused("environment.environment_variables[0]",
                   "environment: {environment_variables: ['=1']}");
    expect_refused("environment.environment_variables[0]",
                   "environment: {environment_variables: ['1A=1']}");
    expect_refused("environment.environment_variables[0]",
                   "environment: {environment_variables: ['A B=1']}");
    expect_refused("environment.environment_variables[1]",
                   "environment: {environment_variables: [A=1, EBB_SOCKET=x]}");
    expect_refused("environment.environment_variables.gpu[0]",
                   "environment: {environment_variables: {gpu: [1]}}");
}

TEST(environment__registry_needs_user_and_password_and_is_never_shown)
{
    struct reading r;
    expect_refused("environment.registry_auth.password",
                   "environment: {registry_auth: {username: u}}");
    expect_refused("environment.registry_auth.username",
                   "environment: {registry_auth: {password: p}}");
    reading_open(&r, "environment: {registry_auth: {username: u, password: s3cr3t, "
                     "serveraddress: h}}\ncheckpoint_storage: {type: s3, bucket: b, access_key: a, "
                     "secret_key: hush}");
    CHECK_OK(r.status, &r.err);
    CHECK_STR(r.config.environment.registry_server, "h");
    r.config.normalized = exp_config_masked(&r.arena, r.config.normalized);
    CHECK_STR(normal_json(&r, "environment", "registry_auth"), "\"********\"");
    CHECK_STR(normal_json(&r, "checkpoint_storage", "secret_key"), "\"********\"");
    reading_close(&r);
    reading_open(&r, "environment: {registry_auth: {username: u, password: 12345}}");
    CHECK_EQ(r.report.errors, 1);
    CHECK(strstr(r.report.items[0].message, "12345") == NULL);
    reading_close(&r);
}

TEST(optimizations__precision_is_the_letter_o)
{
    struct reading r;
    reading_open(&r, "optimizations: {mixed_precision: '01'}");
    CHECK_EQ(r.report.errors, 1);
    CHECK(strstr(r.report.items[0].message, "letter O"));
    reading_close(&r);
    expect_refused("optimizations.aggregation_frequency",
                   "optimizations: {aggregation_frequency: 0}");
    expect_refused("optimizations.tensor_fusion_cycle_time",
                   "optimizations: {tensor_fusion_cycle_time: -1}");
}

TEST(old_keys__are_accepted_and_said_to_do_nothing)
{
    struct reading r;
    reading_open(&r, "security: {a: 1}\ninternal: null\nenvironment: {ports: {tb: 6006}}\n"
                     "optimizations: {grad_updates_size_file: f}\ndebug: true");
    CHECK_OK(r.status, &r.err);
    CHECK(r.config.debug);
    CHECK(reading_find(&r, EBB_FINDING_WARNING, "security"));
    CHECK(reading_find(&r, EBB_FINDING_WARNING, "environment.ports"));
    CHECK(reading_find(&r, EBB_FINDING_WARNING, "optimizations.grad_updates_size_file"));
    reading_close(&r);
    expect_refused("environment.ports.tb", "environment: {ports: {tb: x}}");
}

TEST_MAIN()
