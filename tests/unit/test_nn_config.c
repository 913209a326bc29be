/* Options of models: from files, from the command line, from data sets; names and aliases. */
#include "test.h"

#include <strings.h>

#include "nn_kit.h"
#include "train/train.h"

static enum ebb_status parse(const char *yaml, struct nn_config *c, struct ebb_error *err)
{
    struct ebb_arena arena;
    const struct ebb_doc_node *doc;
    ebb_arena_init(&arena);
    enum ebb_status status = ebb_doc_parse_yaml(&arena, "file", yaml, strlen(yaml), &doc, err);
    if (status == EBB_OK) {
        struct ebb_alone alone;
        (void)nn_config_read(ebb_alone_init(&alone), &(struct ebb_path){.key = "model"}, doc,
                             &(struct nn_env){.no_files = true}, c);
        status = ebb_alone_end(&alone, err);
    }
    ebb_arena_fini(&arena);
    return status;
}

TEST(a_section__sets_what_it_names)
{
    struct nn_config c;
    struct ebb_error err;
    CHECK_OK(parse("name: cifar_resnet20\nplanes: 8\nblocks: [1, 2]\nrng: torch\n", &c, &err),
             &err);
    CHECK_EQ(nn_config_int(&c, "planes", 0), 8);
    CHECK_EQ(nn_config_int(&c, "height", 0), 32);
    CHECK_EQ(nn_config_int(&c, "nothing", -1), -1);
    CHECK_EQ(c.generator, NN_TORCH);
    CHECK_OK(parse("name: cosmoflow\ndropout: 0\n", &c, &err), &err);
    /* the length of the data comes later: a default one must not be in the way */
    CHECK_OK(parse("name: gpt2_124M\npositions: 16\n", &c, &err), &err);
    CHECK_EQ(nn_config_int(&c, "length", 0), 16);
    nn_config_adapt(&c, "length", 8);
    CHECK_EQ(nn_config_int(&c, "length", 0), 8);
    CHECK_EQ(parse("name: gpt2_124M\npositions: 16\nlength: 17\n", &c, &err), EBB_EINPUT);
    CHECK_EQ(parse("name: gpt2_124M\nlength: 17\npositions: 16\n", &c, &err), EBB_EINPUT);
}

TEST(mistakes__name_key_found_allowed_nearest)
{
    static const struct {
        const char *yaml;
        const char *parts[4];
    } rows[] = {
        {"name: resnet5O\n", {"1:7", "model.name", "resnet5O", "resnet50"}},
        {"name: resnet50\nblokcs: [1]\n", {"2:1", "model.blokcs", "nearest: blocks", "planes"}},
        {"name: resnet50\nplanes: wide\n", {"2:9", "model.planes", "\"wide\"", ">= 1, <= 4096"}},
        {"name: resnet50\nplanes: 0\n", {"2:9", "model.planes", "found 0", ">= 1, <= 4096"}},
        {"name: resnet50\nblocks: [3, x]\n", {"2:13", "model.blocks[1]", "\"x\"", "an integer"}},
        {"name: resnet50\nstem: big\n", {"2:7", "model.stem", "\"big\"", "cifar, imagenet, epcc"}},
        {"name: unet\nbilinear: 1\n", {"2:11", "model.bilinear", "found 1", "true or false"}},
        {"name: gpt2_124M\nheads: 7\n", {"model.heads", "found 7", "width 768", "divisors"}},
        {"name: gpt2_124M\nlength: 2048\n", {"model.length", "2048", "1024", "positions"}},
        {"name: deepcam\nheight: 100\n", {"model.height", "100", "multiples", "16"}},
        {"name: resnet50\nrng: numpy\n", {"model.rng", "numpy", "ebb", "torch"}},
        {"planes: 3\n", {"1:1", "model.name", "required but missing", "model list"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct nn_config c;
        struct ebb_error err;
        CHECK_EQ(parse(rows[i].yaml, &c, &err), EBB_EINPUT);
        for (int k = 0; k < 4; k++)
            if (!strstr(err.message, rows[i].parts[k]))
                fail_msg("'%s' lacks '%s'", err.message, rows[i].parts[k]);
    }
}

TEST(every_mistake__is_reported)
{
    static const char yaml[] = "name: resnet50\nplanes: 0\nblokcs: 1\nstem: x\n";
    struct ebb_arena arena;
    struct ebb_error err;
    struct nn_config c;
    const struct ebb_doc_node *doc;
    struct ebb_reading reading;
    struct ebb_report report;
    ebb_arena_init(&arena);
    CHECK_OK(ebb_doc_parse_yaml(&arena, "file", yaml, sizeof yaml - 1, &doc, &err), &err);
    ebb_reading_init(&reading, &arena, NULL, &report);
    CHECK(!nn_config_read(&reading, &(struct ebb_path){.key = "model"}, doc,
                          &(struct nn_env){.no_files = true}, &c));
    CHECK_EQ(ebb_reading_end(&reading, &err), EBB_EINPUT);
    CHECK_EQ(report.errors, 3);
    ebb_arena_fini(&arena);
}

TEST(data_sets__fill_in_what_the_user_left_open)
{
    struct nn_config c;
    struct ebb_error err;
    struct nn_port ports[NN_PORTS];
    CHECK_OK(parse("name: cifar_resnet20\nheight: 64\n", &c, &err), &err);
    CHECK(nn_config_adapt(&c, "channels", 1));
    CHECK(nn_config_adapt(&c, "height", 28));
    CHECK(nn_config_adapt(&c, "width", 28));
    CHECK(!nn_config_adapt(&c, "vocabulary", 28));
    CHECK_EQ(nn_inputs(&c, 5, ports), 1);
    const int64_t want[4] = {5, 1, 64, 28};
    for (int d = 0; d < 4; d++)
        CHECK_EQ(ports[0].view.dims[d], want[d]);
}

TEST(names__are_unique_in_any_case)
{
    const char *names[512];
    size_t n = 0;
    for (size_t i = 0; i < nn_model_count(); i++) {
        const struct nn_model *m = nn_model_at(i);
        names[n++] = m->name;
        for (size_t k = 0; m->aliases && m->aliases[k]; k++)
            names[n++] = m->aliases[k];
        CHECK(m->config_bytes <= NN_CONFIG_BYTES && m->option_count <= 64);
        CHECK(m->summary && m->summary[0]);
        for (size_t k = 0; k < m->option_count; k++)
            CHECK(m->options[k].help && m->options[k].help[0]);
    }
    for (size_t i = 0; i < n; i++) {
        CHECK(nn_model_find(names[i]) != NULL);
        for (size_t k = 0; k < i; k++)
            if (strcasecmp(names[i], names[k]) == 0)
                fail_msg("%s and %s are two models", names[i], names[k]);
    }
}

TEST(pareto_names__are_aliases)
{
    static const char *const names[][2] = {
        {"resnet1202", "cifar_resnet1202"},
        {"tv_densenet121", "densenet121"},
        {"tv_resnet50", "resnet50"},
        {"densenet100", "densenet_bc_100_12"},
        {"inceptionv3", "inception_v3"},
        {"inceptionv4", "inception_v4"},
        {"lstm", "dtr_lstm"},
        {"treelstm", "dtr_treelstm"},
        {"lstm_encoder", "wlm_lstm"},
        {"gru_encoder", "wlm_gru"},
        {"transformer", "transformer_12_6"},
        {"transformer_encoder", "wlm_transformer"},
        {"unroll_gan", "unrolled_gan"},
        {"fcn_8_vgg", "fcn8_vgg"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(nn_model_find(names[i][0]) != NULL);
        CHECK_STR(nn_model_find(names[i][0])->name, names[i][1]);
    }
    CHECK(nn_model_find("no_such_model") == NULL);
}

/* Out of memory at any allocation is a status, and nothing leaks. */
TEST(out_of_memory__is_a_status)
{
    struct nn_config c;
    struct ebb_error err;
    CHECK_OK(kit_config(&c, "cifar_resnet20", "blocks=1,1,1 planes=4 height=8 width=8", &err),
             &err);
    uint64_t live = ebb_heap_live();
    bool has_failed = false;
    for (uint64_t n = 1; n < 4000; n += n < 200 ? 1 : 37) {
        struct nn_stats stats;
        ebb_heap_fail_at(n);
        enum ebb_status status = train_model_stats(
            &(struct train_model){.net = &c, .batch = 2, .precision = TRAIN_FP32}, &stats, &err);
        ebb_heap_fail_at(0);
        CHECK_EQ(ebb_heap_live(), live);
        has_failed = has_failed || status == EBB_ENOMEM;
        if (status == EBB_OK)
            break;
        CHECK_EQ(status, EBB_ENOMEM);
    }
    CHECK(has_failed);
}

TEST_MAIN()
