/* adam_step.c - one step of Adam as a value: weights and moments in, new ones out, differentiable.
 * What changes from step to step is read from a tensor, as in update.c. */
#include "ops/internal.h"

enum { ROW_STEP, ROW_STEP_GRAD, ROW_COUNT };

static const struct ops_def rows[ROW_COUNT];

struct step_attr {
    struct ops_floats betas;
    float lr, eps;
};

struct step_grad_attr {
    struct step_attr step;
    uint32_t given; /* bit k: the gradient of result k is not zero */
    uint32_t unused;
};

/* p, m, v, g, (1/(1-b1^t), 1/(1-b2^t)) -> p', m', v' */
static enum ebb_status infer_step(struct ops_infer *i, struct ebb_error *err)
{
    const struct step_attr *a = i->attr;
    EBB_TRY(ops_want_f32(i, ~UINT64_C(0), err));
    if (a->betas.count != 2)
        return ops_wrong(i, err, "betas must be two numbers");
    if (tensor_count(i->in[4]) != 2)
        return ops_wrong(i, err, "two corrections are needed");
    for (int k = 0; k < 3; k++) {
        if (!tensor_same_shape(i->in[k], i->in[3]))
            return ops_wrong(i, err, "gradient, weights and moments must have the same shape");
        ops_out(i, TENSOR_F32, i->in[k]->rank, i->in[k]->dims);
    }
    i->flops = 15.0 * (double)tensor_count(i->in[0]);
    return EBB_OK;
}

static void describe(const struct ops_views *v, void *desc)
{
    const bool is_grad = v->def == &rows[ROW_STEP_GRAD];
    const struct step_grad_attr *g = v->attr; /* begins with those of the step */
    const struct step_attr *a = v->attr;
    struct kernel_adam_step_desc *d = desc;
    d->step = (struct kernel_adam_step){.lr = a->lr,
                                        .eps = a->eps,
                                        .beta1 = (float)a->betas.v[0],
                                        .rest1 = (float)(1 - a->betas.v[0]),
                                        .beta2 = (float)a->betas.v[1],
                                        .rest2 = (float)(1 - a->betas.v[1])};
    d->n = tensor_count(v->in[2]);
    d->given = is_grad ? g->given : 0;
}

/* m', v', g, corrections, then the gradients that are given -> dg, dm, dv */
static enum ebb_status infer_step_grad(struct ops_infer *i, struct ebb_error *err)
{
    (void)err;
    for (int k = 0; k < 3; k++)
        ops_out(i, TENSOR_F32, i->in[2]->rank, i->in[2]->dims);
    i->flops = 25.0 * (double)tensor_count(i->in[2]);
    return EBB_OK;
}

static void grad_step(struct ops_backward *b)
{
    struct step_grad_attr attr;
    tensor_id in[7] = {b->out[1], b->out[2], b->in[3], b->in[4]};
    size_t count = 4;
    memset(&attr, 0, sizeof attr); /* it is part of the signature */
    memcpy(&attr.step, b->attr, sizeof attr.step);
    for (int k = 0; k < 3; k++) {
        if (!b->gout[k].v)
            continue;
        attr.given |= 1u << k;
        in[count++] = b->gout[k];
    }
    if (attr.given == 0)
        return;
    tensor_id first = ops_emit(b->session, &rows[ROW_STEP_GRAD], &attr, count, in);
    b->gin[0] = b->gout[0];
    b->gin[3] = first;
    b->gin[1] = ops_output(first, 1);
    b->gin[2] = ops_output(first, 2);
}

void ops_adam_step(struct tensor_session *s, const double betas[2], float lr, float eps,
                   const tensor_id in[3], tensor_id g, tensor_id corrections, tensor_id out[3])
{
    struct step_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.betas.v[0] = betas[0];
    attr.betas.v[1] = betas[1];
    attr.betas.count = 2;
    attr.lr = lr;
    attr.eps = eps;
    tensor_id first =
        ops_emit(s, &rows[ROW_STEP], &attr, 5, (tensor_id[]){in[0], in[1], in[2], g, corrections});
    for (uint32_t k = 0; k < 3; k++)
        out[k] = ops_output(first, k);
}

static const struct ops_field fields[] = {OPS_REQUIRED(step_attr, betas, OPS_FLOATS),
                                          OPS_REQUIRED(step_attr, lr, OPS_FLOAT),
                                          OPS_REQUIRED(step_attr, eps, OPS_FLOAT),
                                          {0}};

static const struct ops_def rows[ROW_COUNT] = {
    [ROW_STEP] = {OPS_PRIMITIVE("adam_step", 5, 5, infer_step, ADAM_STEP, describe, grad_step),
                  .attr_bytes = sizeof(struct step_attr), .fields = fields,
                  .low_rule = OPS_LOW_WHOLE, .low_out = 7},
    [ROW_STEP_GRAD] = {OPS_PRIMITIVE("adam_step_grad", 5, 7, infer_step_grad, ADAM_STEP_GRAD,
                                     describe, NULL),
                       .attr_bytes = sizeof(struct step_grad_attr), .is_internal = true,
                       .low_rule = OPS_LOW_WHOLE, .low_out = 7},
};

const struct ops_family ops_adam_step_family = {rows, ROW_COUNT};
