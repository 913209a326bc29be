/* Every model of the zoo: its parameters, its lists, and one small step of training. */
#include "test.h"

#include <inttypes.h>

#include "nn_kit.h"
#include "train/train.h"

/* ---- parameters at the default size ---------------------------------------------------------- */

static const struct {
    const char *name, *set;
    uint64_t parameters;
} counts[] = {
    {"cifar_resnet20", "", 269722},
    {"cifar_resnet32", "", 464154},
    {"cifar_resnet44", "", 658586},
    {"cifar_resnet56", "", 853018},
    {"cifar_resnet110", "", 1727962},
    {"cifar_resnet1202", "", 19421274},
    {"resnet18", "", 11689512},
    {"resnet34", "", 21797672},
    {"resnet50", "", 25557032},
    {"resnet101", "", 44549160},
    {"resnet152", "", 60192808},
    {"resnet50_epcc", "", 25549352},
    {"densenet_bc_100_12", "", 769162},
    {"densenet121", "", 7978856},
    {"densenet161", "", 28681000},
    {"densenet169", "", 14149480},
    {"densenet201", "", 20013928},
    {"unet", "", 17267393},
    {"unet_transposed", "", 31043521},
    {"inception_v3", "", 27161264},
    {"inception_v4", "", 42681353},
    {"mobilenet_v1", "", 4231976},
    {"mobilenet_v2", "", 3504872},
    {"vgg16", "", 138357544},
    {"vgg16_bn", "", 138365992},
    {"vgg19", "", 143667240},
    {"alexnet", "", 61100840},
    {"squeezenet1_1", "", 1235496},
    {"shufflenet_v2_x1_0", "", 2278604},
    {"mnasnet1_0", "", 4383312},
    {"googlenet", "", 13004888},
    {"vgg_unet", "", 19410259},
    {"unet_vanilla", "", 5068819},
    {"segnet", "", 4294675},
    {"vgg_segnet", "", 18636115},
    {"fcn8", "", 69910105},
    {"fcn8_vgg", "", 134456985},
    {"deepcam", "", 56454720},
    {"cosmoflow", "", 8907556},
    {"wlm_lstm", "", 13987678},
    {"wlm_gru", "", 13826878},
    {"wlm_transformer", "", 13828478},
    {"transformer_12_6", "", 63054848},
    {"dtr_lstm", "", 15048400},
    {"dtr_treelstm", "", 481200},
    {"dtr_treelstm", "features=300 memory=1024 depth=6", 5427200},
    {"unrolled_gan", "", 395266 + 264705},
    {"unrolled_gan_large", "", 12591106 + 4204545},
    {"gpt2_124M", "", 124439808},
    {"gpt2_124M", "length=256", 124439808},
    {"gpt2_350M", "", 354823168},
    {"bert_base", "", 110106428},
    {"bert_large", "", 336226108},
};

static const struct {
    const char *name;
    uint64_t gpt, bert;
} sizes[] = {
    {"Bert", 81520896, 66956546},
    {"Bertlarge", 354300928, 335143938},
    {"GPT2small", 757353984, 729404930},
    {"GPT2_1B", 1112197120, 1075980290},
    {"megatron_1.3B", 1313630208, 1277413378},
    {"GPT2_2B", 2119362560, 2083145730},
    {"megatron_3.9B", 2019525120, 1975564802},
    {"GPT2_4B", 4196941056, 4156786946},
    {"GPT3_6B", 6161713152, 6110533634},
    {"GPT3_8B", 8314149888, 8262970370},
    {"GPT3_10B", 10279055360, 10215010306},
    {"GPT3_11B", 11285954560, 11221909506},
    {"GPT3_12B", 12292853760, 12228808706},
    {"GPT3_13B", 13299752960, 13235707906},
    {"GPT3_15B", 15917690880, 15853645826},
    {"GPT3_18B", 18334248960, 18270203906},
    {"GPT_NV_18B", 18437683200, 18354198530},
    {"GPT_NV_39B", 39079944192, 38985408514},
    {"GPT_NV_76B", 76030617600, 75933419522},
    {"GPT_DS_20B", 20555448320, 20460912642},
    {"GPT_DS_40B", 40690769920, 40596234242},
    {"GPT_DS_50B", 50355724288, 50261188610},
    {"GPT_DS_60B", 60826091520, 60731555842},
    {"GPT_DS_68B", 67748797440, 67651881986},
    {"GPT_175B", 174591700992, 174500229122},
    {"GPT_220B", 218082078720, 217990606850},
    {"GPT_250B", 248887762944, 248796291074},
    {"GPT_310B", 413184376832, 413129523202},
    {"GPT_454B", 454059110400, 454074429442},
};

static uint64_t parameters_of(const char *name, const char *set)
{
    struct ebb_error err;
    struct nn_config c;
    struct nn_stats stats;
    CHECK_OK(kit_config(&c, name, set, &err), &err);
    CHECK_OK(
        train_model_stats(&(struct train_model){.net = &c, .batch = 2, .precision = TRAIN_FP32},
                          &stats, &err),
        &err);
    return stats.parameters;
}

TEST(parameters__are_those_of_the_table)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint64_t n = parameters_of(counts[i].name, counts[i].set);
        if (n != counts[i].parameters && ++wrong)
            printf("%s: %" PRIu64 ", table %" PRIu64 "\n", counts[i].name, n, counts[i].parameters);
    }
    CHECK_EQ(wrong, 0);
}

TEST(transformer_sizes__count_as_gpt_and_as_bert)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t g = parameters_of(sizes[i].name, "type=gpt");
        uint64_t b = parameters_of(sizes[i].name, "type=bert");
        if ((g != sizes[i].gpt || b != sizes[i].bert) && ++wrong)
            printf("%s: %" PRIu64 " and %" PRIu64 "\n", sizes[i].name, g, b);
    }
    CHECK_EQ(wrong, 0);
}

TEST(every_model__is_counted)
{
    static const char *const uncounted[] = {
        "gpt2_774M", "gpt2_1558M", "gpt3_epcc_13B", "gpt3_epcc_175B", "linear", "test", "testBERT"};
    for (size_t i = 0; i < nn_model_count(); i++) {
        const char *name = nn_model_at(i)->name;
        bool is_known = false;
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
            is_known = is_known || strcmp(counts[k].name, name) == 0;
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            is_known = is_known || strcmp(sizes[k].name, name) == 0;
        for (size_t k = 0; k < sizeof uncounted / sizeof *uncounted; k++)
            is_known = is_known || strcmp(uncounted[k], name) == 0;
        if (!is_known)
            fail_msg("%s is in no table", name);
    }
    CHECK_EQ(parameters_of("gpt2_774M", ""), 774030080); /* 12 L C^2 + 13 L C + (V+T) C + 2C */
    CHECK_EQ(parameters_of("gpt2_1558M", ""), 1557611200);
}

/* GFLOP of the forward pass, as tabled, but for what is dead: unused levels of encoders are not
 * computed, nor the forget gates of a tree's leaves (0.705 with them), nor the linear layers of
 * side heads (6.027). */
TEST(forward_work__is_that_of_the_table)
{
    static const struct {
        const char *name, *set;
        int64_t batch;
        double gflop;
    } rows[] = {
        {"cifar_resnet20", "", 1, 0.081},
        {"cifar_resnet1202", "", 1, 5.658},
        {"resnet18", "", 1, 3.628},
        {"resnet50", "", 1, 8.178},
        {"resnet50_epcc", "", 1, 31.930},
        {"densenet121", "", 1, 5.668},
        {"densenet_bc_100_12", "", 2, 1.152},
        {"unet", "", 1, 308.6},
        {"unet_transposed", "", 1, 371.8},
        {"inception_v3", "", 2, 22.88},
        {"inception_v4", "", 1, 24.51},
        {"mobilenet_v1", "", 1, 1.137},
        {"mobilenet_v2", "", 1, 0.602},
        {"vgg16", "", 1, 30.94},
        {"squeezenet1_1", "", 1, 0.698},
        {"googlenet", "", 2, 6.002},
        {"fcn8_vgg", "", 1, 214.6},
        {"deepcam", "", 1, 655.3},
        {"cosmoflow", "", 1, 68.9},
        {"wlm_lstm", "", 1, 0.511},
        {"wlm_gru", "", 1, 0.499},
        {"wlm_transformer", "", 1, 0.501},
        {"transformer_12_6", "", 1, 49.3},
        {"dtr_lstm", "", 1, 7.70},
        {"dtr_treelstm", "", 1, 0.674},
        {"gpt2_124M", "", 1, 291.6},
        {"gpt2_124M", "length=256", 1, 65.7},
        {"gpt2_350M", "", 1, 827.0},
        {"bert_base", "", 1, 28.5},
        {"bert_large", "", 1, 368.1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ebb_error err;
        struct nn_config c;
        struct nn_stats s;
        CHECK_OK(kit_config(&c, rows[i].name, rows[i].set, &err), &err);
        CHECK_OK(
            train_model_stats(
                &(struct train_model){.net = &c, .batch = rows[i].batch, .precision = TRAIN_FP32},
                &s, &err),
            &err);
        if (fabs(s.forward_flops / 1e9 - rows[i].gflop) > 0.002 * rows[i].gflop + 0.0006)
            fail_msg("%s: %g GFLOP, table %g", rows[i].name, s.forward_flops / 1e9, rows[i].gflop);
        CHECK(s.backward_flops > 1.4 * s.forward_flops &&
              s.backward_flops < 2.05 * s.forward_flops);
    }
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void check_same_items(const char *name)
{
    struct ebb_error err;
    struct nn_config c;
    struct kit a, b;
    CHECK(kit_small_of(name) != NULL);
    CHECK_OK(kit_config(&c, name, kit_small_of(name), &err), &err);
    CHECK_OK(kit_build(&a, &c, 2, (struct nn_mode){.is_training = true}, &err), &err);
    CHECK_OK(kit_build(&b, &c, 3, (struct nn_mode){.is_training = false}, &err), &err);
    CHECK_EQ(nn_item_count(&a.b), nn_item_count(&b.b));
    for (size_t i = 0; i < nn_item_count(&a.b); i++) {
        const struct nn_item *x = nn_item_at(&a.b, i), *y = nn_item_at(&b.b, i);
        CHECK_STR(x->name, y->name);
        CHECK(tensor_same_shape(&x->view, &y->view));
        CHECK_EQ(x->role, y->role);
        CHECK(y->leaf.v == y->id.v); /* evaluation writes nothing */
    }
    kit_close(&a);
    kit_close(&b);
}

TEST(items__do_not_depend_on_mode_and_batch)
{
    for (size_t i = 0; i < nn_model_count(); i++)
        check_same_items(nn_model_at(i)->name);
}

/* ---- one step -------------------------------------------------------------------------------- */

/* Weights that no loss reaches: levels that a decoder does not use, heads without a loss. */
static bool may_lack_gradient(const char *name)
{
    return strstr(name, "encoder.block5") || strncmp(name, "AuxLogits", 9) == 0 ||
           strncmp(name, "aux", 3) == 0;
}

static double run_step(const char *name, const char *set, struct nn_mode mode)
{
    struct ebb_error err;
    struct nn_config c;
    struct kit k;
    CHECK_OK(kit_config(&c, name, set, &err), &err);
    CHECK_OK(kit_build(&k, &c, 2, mode, &err), &err);
    CHECK_OK(kit_backward(&k, &err), &err);
    size_t t = 0;
    for (size_t i = 0; i < nn_item_count(&k.b); i++) {
        const struct nn_item *item = nn_item_at(&k.b, i);
        if (item->is_trained && !k.grads[t++].v && !may_lack_gradient(item->name))
            fail_msg("%s: %s has no gradient", name, item->name);
    }
    kit_update(&k);
    CHECK_OK(kit_finish(&k, &err), &err);
    CHECK_OK(kit_start(&k, 1, &err), &err);
    if (ops_host_run(&k.host, &err) != EBB_OK)
        fail_msg("%s: %s", name, err.message);
    double loss = (double)*(float *)kit_data(&k, k.loss);
    if (!isfinite(loss))
        fail_msg("%s: loss %g", name, loss);
    for (size_t i = 0; i < k.trained; i++) {
        const struct tensor_view *v = tensor_view_of(k.s, k.weights[i]);
        const float *w = kit_data(&k, k.weights[i]);
        for (int64_t e = 0; w && e < tensor_count(v); e++)
            if (!isfinite(w[e]))
                fail_msg("%s: a weight is %g after the update", name, (double)w[e]);
    }
    for (size_t i = 0; i < nn_item_count(&k.b); i++) {
        const struct nn_item *item = nn_item_at(&k.b, i);
        const int64_t *n = item->view.dtype == TENSOR_I64 ? kit_data(&k, item->id) : NULL;
        if (n && !strstr(item->name, "encoder.block5"))
            CHECK_EQ(*n, 1); /* batches tracked */
    }
    kit_close(&k);
    return loss;
}

TEST(every_model__trains_one_step)
{
    for (size_t i = 0; i < nn_model_count(); i++) {
        const char *name = nn_model_at(i)->name;
        run_step(name, kit_small_of(name), (struct nn_mode){.is_training = true});
    }
}

TEST(options__make_other_variants_that_train)
{
    struct nn_mode train = {.is_training = true};
    run_step("segnet", KIT_SEGMENT " unpool=true", train);
    run_step("mobilenet_v1", KIT_MOBILE " keras=true", train);
    run_step("GPT2small", KIT_LM " type=bert", train);
    run_step("gpt2_124M", KIT_LM " dropout=0.1", train);
    run_step("cosmoflow", "size=8 planes=2 layers=2 hidden=8,4 dropout=0", train);
    run_step("linear3", "planes=4 height=8 width=8 classes=10", train);
}

/* A classifier that knows nothing has a loss near ln(classes). */
TEST(first_losses__are_near_the_logarithm_of_the_classes)
{
    struct nn_mode train = {.is_training = true};
    double gpt = run_step("gpt2_124M", KIT_LM, train);
    CHECK(fabs(gpt - log(61.0)) < 0.2);
    double bert = run_step("bert_base", KIT_LM " dropout=0", train);
    CHECK(fabs(bert - log(61.0) - log(2.0)) < 0.3);
}

TEST(every_model__trains_one_step_in_low_precision)
{
    for (size_t i = 0; i < nn_model_count(); i++) {
        const char *name = nn_model_at(i)->name;
        for (int p = NN_BF16; p <= NN_FP16; p++)
            run_step(name, kit_small_of(name),
                     (struct nn_mode){.is_training = true, .precision = (enum nn_precision)p});
    }
}

/* Two builds with one builder share the weights; their dropout masks differ. */
TEST(building_twice__shares_weights_not_masks)
{
    struct ebb_error err;
    struct nn_config c;
    struct kit k;
    struct nn_output again[NN_PORTS];
    size_t n;
    CHECK_OK(kit_config(&c, "gpt2_124M", KIT_LM " dropout=0.5", &err), &err);
    CHECK_OK(kit_build(&k, &c, 2, (struct nn_mode){.is_training = true}, &err), &err);
    size_t items = nn_item_count(&k.b);
    CHECK_OK(nn_build(&k.b, &c, k.inputs, again, &n, &err), &err);
    CHECK_EQ(nn_item_count(&k.b), items);
    tensor_id other = nn_loss(&k.b, again, n, k.targets);
    tensor_keep(k.s, other);
    CHECK_OK(kit_finish(&k, &err), &err);
    CHECK_OK(kit_start(&k, 1, &err), &err);
    CHECK_OK(ops_host_run(&k.host, &err), &err);
    CHECK(*(float *)kit_data(&k, k.loss) != *(float *)kit_data(&k, other));
    kit_close(&k);
}

TEST_MAIN()
