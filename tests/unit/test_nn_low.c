/* Reduced precision in the whole zoo: losses near those of fp32, gradients in their direction, half
 * the bytes. */
#include "test.h"

#include "nn_kit.h"
#include "train/train.h"

/* Loss of one evaluation: batch norms over two values would amplify rounding in training. */
static double run_eval(const char *name, enum nn_precision precision)
{
    struct ebb_error err;
    struct nn_config c;
    struct kit k;
    CHECK_OK(kit_config(&c, name, kit_small_of(name), &err), &err);
    CHECK_OK(kit_build(&k, &c, 2, (struct nn_mode){.precision = precision}, &err), &err);
    CHECK_OK(kit_finish(&k, &err), &err);
    CHECK_OK(kit_start(&k, 1, &err), &err);
    CHECK_OK(ops_host_run(&k.host, &err), &err);
    double loss = (double)*(float *)kit_data(&k, k.loss);
    kit_close(&k);
    return loss;
}

TEST(low_precision__stays_near_full)
{
    for (size_t i = 0; i < nn_model_count(); i++) {
        const char *name = nn_model_at(i)->name;
        double full = run_eval(name, NN_FP32), bf16 = run_eval(name, NN_BF16),
               fp16 = run_eval(name, NN_FP16);
        if (!(fabs(full - bf16) <= 0.02 * fabs(full) + 0.02))
            fail_msg("%s: loss %g in fp32, %g in bf16", name, full, bf16);
        if (!(fabs(full - fp16) <= 0.004 * fabs(full) + 0.004))
            fail_msg("%s: loss %g in fp32, %g in fp16", name, full, fp16);
    }
}

/* The point of it: what is kept for the backward pass takes about half the bytes. */
TEST(low_precision__halves_the_activations)
{
    static const char *const names[] = {"gpt2_124M", "resnet50", "unet", "bert_large"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ebb_error err;
        struct nn_config c;
        struct nn_stats full, low;
        CHECK_OK(nn_config_init(&c, names[i], &err), &err);
        CHECK_OK(
            train_model_stats(&(struct train_model){.net = &c, .batch = 8, .precision = TRAIN_FP32},
                              &full, &err),
            &err);
        CHECK_OK(
            train_model_stats(&(struct train_model){.net = &c, .batch = 8, .precision = TRAIN_BF16},
                              &low, &err),
            &err);
        double share = (double)low.saved_bytes / (double)full.saved_bytes;
        if (!(share < 0.75))
            fail_msg("%s: bf16 keeps %g of fp32's bytes", names[i], share);
        printf("%s: bf16 keeps %.2f of fp32's bytes\n", names[i], share);
    }
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void run_gradients(struct kit *k, const char *name, const char *set, int64_t batch,
                          enum nn_precision precision)
{
    struct ebb_error err;
    struct nn_config c;
    CHECK_OK(kit_config(&c, name, set, &err), &err);
    CHECK_OK(kit_build(k, &c, batch, (struct nn_mode){.is_training = true, .precision = precision},
                       &err),
             &err);
    CHECK_OK(kit_backward(k, &err), &err);
    for (size_t i = 0; i < k->trained; i++)
        if (k->grads[i].v) {
            k->grads[i] = ops_contiguous(k->s, k->grads[i]);
            CHECK_EQ(tensor_view_of(k->s, k->grads[i])->dtype, TENSOR_F32);
            tensor_keep(k->s, k->grads[i]);
        }
    CHECK_OK(kit_finish(k, &err), &err);
    CHECK_OK(kit_start(k, 1, &err), &err);
    CHECK_OK(ops_host_run(&k->host, &err), &err);
}

/* Cosine of the angle between all gradients of two runs. Deep stacks of batch norms without
 * shortcuts are left out: a change of 1e-4 in their weights turns the gradient as far as rounding
 * does. */
static void compare_gradients(const char *name, struct kit *a, struct kit *b, double limit)
{
    double xy = 0, xx = 0, yy = 0;
    CHECK_EQ(a->trained, b->trained);
    for (size_t i = 0; i < a->trained; i++) {
        if (!a->grads[i].v)
            continue;
        const float *x = kit_data(a, a->grads[i]), *y = kit_data(b, b->grads[i]);
        int64_t n = tensor_count(tensor_view_of(a->s, a->grads[i]));
        for (int64_t e = 0; e < n; e++) {
            xy += (double)x[e] * (double)y[e];
            xx += (double)x[e] * (double)x[e];
            yy += (double)y[e] * (double)y[e];
        }
    }
    double cosine = xy / sqrt(xx * yy);
    if (!(cosine > limit && fabs(sqrt(yy / xx) - 1) < 0.2))
        fail_msg("%s: cosine %g, norm %g times that of fp32", name, cosine, sqrt(yy / xx));
}

TEST(gradients__point_where_those_of_fp32_point)
{
    static const struct {
        const char *name, *set;
    } rows[] = {
        {"cifar_resnet20", "blocks=1,1,1 planes=8 height=16 width=16"},
        {"densenet_bc_100_12", "blocks=2,2,2 growth=8 planes=8 height=16 width=16"},
        {"unet", "planes=8 depth=2 height=24 width=20"},
        {"vgg16", "planes=4 hidden=16 height=32 width=32 classes=10 dropout=0"},
        {"segnet", "planes=8 height=32 width=32 classes=5"},
        {"cosmoflow", "size=16 planes=4 layers=3 hidden=16,8 dropout=0"},
        {"gpt2_124M", KIT_LM},
        {"bert_base", KIT_LM " dropout=0"},
        {"GPT2_1B", KIT_LM},
        {"wlm_lstm", "vocabulary=50 length=6 embedding=8 hidden=12 dropout=0"},
        {"transformer_12_6", "length=6 target_length=4 width=16 hidden=16 heads=2 dropout=0 "
                             "encoder_layers=2 decoder_layers=2"},
        {"dtr_treelstm", "features=5 memory=6 depth=3"},
        {"testBERT", "length=4 width=16 layers=2 heads=2 classes=10"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kit full, low;
        run_gradients(&full, rows[i].name, rows[i].set, 8, NN_FP32);
        for (int p = NN_BF16; p <= NN_FP16; p++) {
            run_gradients(&low, rows[i].name, rows[i].set, 8, (enum nn_precision)p);
            compare_gradients(rows[i].name, &full, &low, p == NN_BF16 ? 0.95 : 0.99);
            kit_close(&low);
        }
        kit_close(&full);
    }
}

TEST_MAIN()
