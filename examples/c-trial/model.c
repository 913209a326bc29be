/* model.c - a complete trial in C: a small network learns sin(3x), trained by SGD with momentum.
 *
 * Everything ebb needs is the constant `trial` at the end. Saving and loading are left to ebb: it
 * writes the arrays that model and optimizer name. */
#include <ebb.h>

#include <math.h>
#include <stdlib.h>

#define HIDDEN_MAX 256
#define BATCH_MAX 1024
#define TRAIN_BATCHES 64

struct ebb_batch {
    int64_t count;
    float x[BATCH_MAX], y[BATCH_MAX];
};

struct network { /* y = v . tanh(w x + b) + c */
    int64_t hidden;
    float w[HIDDEN_MAX], b[HIDDEN_MAX], v[HIDDEN_MAX], c;
};

struct trial {
    struct network net, grad, velocity;
    double rate, momentum, decay;
    int64_t batch_size;
    uint64_t seed;
    ebb_tensor weights[4], moments[4];
    ebb_model model;
    ebb_optim optim;
    ebb_lr lr;
    double rate_now;
    ebb_loader train, valid;
    struct ebb_batch batch;
};

/* Counter-based random numbers: batch i of epoch e is the same whenever it is asked for, so that a
 * resumed trial sees the same data. */
static double uniform(uint64_t seed, uint64_t counter)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + (counter + 1) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static int trial_open(ebb_ctx *ctx, void **self)
{
    struct trial *t = calloc(1, sizeof *t);
    if (t == NULL)
        return ebb_ctx_fail(ctx, EBB_ERRORED, "out of memory");
    *self = t;
    t->seed = (uint64_t)ebb_ctx_get(ctx, EBB_GET_TRIAL_SEED);
    t->batch_size = ebb_ctx_get(ctx, EBB_GET_SLOT_BATCH_SIZE);
    if (ebb_ctx_int(ctx, "hidden", &t->net.hidden) != 0 ||
        ebb_ctx_double(ctx, "learning_rate", &t->rate) != 0 ||
        ebb_ctx_double(ctx, "momentum", &t->momentum) != 0)
        return -1; /* the reason is recorded */
    if (t->net.hidden < 1 || t->net.hidden > HIDDEN_MAX || t->batch_size > BATCH_MAX)
        return ebb_ctx_fail(ctx, EBB_INVALID_HPARAMS,
                            "hidden must be 1 to %d, the batch at most %d", HIDDEN_MAX, BATCH_MAX);
    ebb_ctx_log(ctx, "hidden %d, learning rate %g, momentum %g", (int)t->net.hidden, t->rate,
                t->momentum);
    return 0;
}

static void name_arrays(ebb_tensor *out, struct network *n)
{
    out[0] =
        (ebb_tensor){.name = "w", .dtype = EBB_F32, .rank = 1, .shape = {n->hidden}, .data = n->w};
    out[1] =
        (ebb_tensor){.name = "b", .dtype = EBB_F32, .rank = 1, .shape = {n->hidden}, .data = n->b};
    out[2] =
        (ebb_tensor){.name = "v", .dtype = EBB_F32, .rank = 1, .shape = {n->hidden}, .data = n->v};
    out[3] = (ebb_tensor){.name = "c", .dtype = EBB_F32, .rank = 0, .data = &n->c};
}

static int trial_model(void *self, ebb_ctx *ctx, ebb_model **model)
{
    struct trial *t = self;
    (void)ctx;
    for (int64_t i = 0; i < t->net.hidden; i++) {
        t->net.w[i] = (float)(6.0 * uniform(t->seed, (uint64_t)(3 * i)) - 3.0);
        t->net.b[i] = (float)(2.0 * uniform(t->seed, (uint64_t)(3 * i + 1)) - 1.0);
        t->net.v[i] = (float)((2.0 * uniform(t->seed, (uint64_t)(3 * i + 2)) - 1.0) /
                              sqrt((double)t->net.hidden));
    }
    name_arrays(t->weights, &t->net);
    t->model = (ebb_model){.tensors = t->weights, .tensor_count = 4};
    *model = &t->model;
    return 0;
}

static int trial_optimizer(void *self, ebb_ctx *ctx, ebb_model *model, ebb_optim **optim)
{
    struct trial *t = self;
    (void)ctx, (void)model;
    t->velocity.hidden = t->net.hidden;
    name_arrays(t->moments, &t->velocity);
    t->optim = (ebb_optim){.tensors = t->moments, .tensor_count = 4};
    *optim = &t->optim;
    return 0;
}

static void set_rate(ebb_lr *lr, int64_t batch)
{
    struct trial *t = lr->user;
    t->rate_now = t->rate / (1.0 + 1e-4 * (double)batch);
}

static int trial_lr(void *self, ebb_ctx *ctx, ebb_optim *optim, ebb_lr **lr)
{
    struct trial *t = self;
    (void)ctx, (void)optim;
    t->lr = (ebb_lr){.when = EBB_LR_EACH_BATCH, .set = set_rate, .user = t};
    *lr = &t->lr;
    return 0;
}

/* ---- data ---- */

static void fill(struct trial *t, uint64_t stream, uint64_t first)
{
    t->batch.count = t->batch_size;
    for (int64_t i = 0; i < t->batch_size; i++) {
        double x = 2.0 * uniform(stream, first + (uint64_t)i) - 1.0;
        t->batch.x[i] = (float)x;
        t->batch.y[i] = (float)sin(3.0 * x);
    }
}

static int read_train(ebb_loader *loader, int64_t epoch, int64_t index, ebb_batch **batch,
                      int64_t *records)
{
    struct trial *t = loader->user;
    fill(t, t->seed + 1, (uint64_t)(epoch * TRAIN_BATCHES + index) * (uint64_t)t->batch_size);
    *batch = &t->batch;
    *records = t->batch_size;
    return 0;
}

static int read_valid(ebb_loader *loader, int64_t epoch, int64_t index, ebb_batch **batch,
                      int64_t *records)
{
    struct trial *t = loader->user;
    (void)epoch;
    fill(t, 12345, (uint64_t)(index * t->batch_size)); /* the same for every trial */
    *batch = &t->batch;
    *records = t->batch_size;
    return 0;
}

static int trial_train_data(void *self, ebb_ctx *ctx, ebb_loader **loader)
{
    struct trial *t = self;
    (void)ctx;
    t->train = (ebb_loader){.batch_count = TRAIN_BATCHES, .read = read_train, .user = t};
    *loader = &t->train;
    return 0;
}

static int trial_valid_data(void *self, ebb_ctx *ctx, ebb_loader **loader)
{
    struct trial *t = self;
    (void)ctx;
    t->valid = (ebb_loader){.batch_count = 4, .read = read_valid, .user = t};
    *loader = &t->valid;
    return 0;
}

/* ---- arithmetic ---- */

/* Mean squared error; with `grad`, its gradient as well. */
static double pass(const struct network *n, const ebb_batch *batch, struct network *grad)
{
    double loss = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        float h[HIDDEN_MAX], y = n->c;
        for (int64_t k = 0; k < n->hidden; k++) {
            h[k] = tanhf(n->w[k] * batch->x[i] + n->b[k]);
            y += n->v[k] * h[k];
        }
        float e = y - batch->y[i];
        loss += (double)e * (double)e;
        float de = 2.0f * e / (float)batch->count;
        for (int64_t k = 0; grad != NULL && k < n->hidden; k++) {
            float dh = de * n->v[k] * (1.0f - h[k] * h[k]);
            grad->v[k] += de * h[k];
            grad->w[k] += dh * batch->x[i];
            grad->b[k] += dh;
        }
        if (grad != NULL)
            grad->c += de;
    }
    return loss / (double)batch->count;
}

static void update(float *weights, float *velocity, const float *grad, int64_t count, double rate,
                   double momentum)
{
    for (int64_t i = 0; i < count; i++) {
        velocity[i] = (float)(momentum * (double)velocity[i]) + grad[i];
        weights[i] -= (float)(rate * (double)velocity[i]);
    }
}

static int trial_train(void *self, ebb_ctx *ctx, ebb_batch *batch, int64_t epoch, int64_t index,
                       ebb_metrics *metrics)
{
    struct trial *t = self;
    (void)ctx, (void)epoch, (void)index;
    t->grad = (struct network){.hidden = t->net.hidden};
    double loss = pass(&t->net, batch, &t->grad);
    update(t->net.w, t->velocity.w, t->grad.w, t->net.hidden, t->rate_now, t->momentum);
    update(t->net.b, t->velocity.b, t->grad.b, t->net.hidden, t->rate_now, t->momentum);
    update(t->net.v, t->velocity.v, t->grad.v, t->net.hidden, t->rate_now, t->momentum);
    update(&t->net.c, &t->velocity.c, &t->grad.c, 1, t->rate_now, t->momentum);
    return ebb_metric(metrics, "loss", loss);
}

static int trial_eval(void *self, ebb_ctx *ctx, ebb_batch *batch, ebb_metrics *metrics)
{
    struct trial *t = self;
    (void)ctx;
    return ebb_metric(metrics, "validation_loss", pass(&t->net, batch, NULL));
}

static void trial_close(void *self)
{
    free(self);
}

const ebb_trial_ops trial = {
    .abi = EBB_TRIAL_ABI,
    .open = trial_open,
    .build_model = trial_model,
    .build_optimizer = trial_optimizer,
    .build_lr = trial_lr,
    .train_data = trial_train_data,
    .valid_data = trial_valid_data,
    .train_batch = trial_train,
    .eval_batch = trial_eval,
    .close = trial_close,
};
