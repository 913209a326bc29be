/* rnn.c - the gates of one time step, fused: everything after the two matrix products. */
#include "kernel/internal.h"

struct gates {
    int64_t h;
    const float *a, *b, *state, *act_in, *c1, *dh, *dc1;
    float *h1, *c_out, *act, *da, *db, *dstate;
};

KERNEL_CLONES static void lstm_body(void *argument, int64_t first, int64_t last)
{
    const struct gates *j = argument;
    const int64_t h = j->h;
    for (int64_t r = first; r < last; r++)
        for (int64_t k = 0; k < h; k++) {
            const int64_t g = r * 4 * h + k;
            float i = kernel_sigmoidf(j->a[g] + j->b[g]);
            float f = kernel_sigmoidf(j->a[g + h] + j->b[g + h]);
            float u = kernel_tanhf(j->a[g + 2 * h] + j->b[g + 2 * h]);
            float o = kernel_sigmoidf(j->a[g + 3 * h] + j->b[g + 3 * h]);
            float c = f * j->state[r * h + k] + i * u;
            if (j->c_out)
                j->c_out[r * h + k] = c;
            if (j->h1)
                j->h1[r * h + k] = o * kernel_tanhf(c);
            if (j->act) {
                j->act[g] = i;
                j->act[g + h] = f;
                j->act[g + 2 * h] = u;
                j->act[g + 3 * h] = o;
            }
        }
}

KERNEL_CPU(lstm)
{
    const struct kernel_gates_desc *d = desc;
    struct gates job = {.h = d->h,
                        .a = args->in[0],
                        .b = args->in[1],
                        .state = args->in[2],
                        .h1 = args->out[0],
                        .c_out = args->out[1],
                        .act = args->out[2]};
    return kernel_parallel(c, d->rows, d->h * 8, lstm_body, &job);
}

KERNEL_CLONES static void lstm_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct gates *j = argument;
    const int64_t h = j->h;
    for (int64_t r = first; r < last; r++)
        for (int64_t k = 0; k < h; k++) {
            const int64_t g = r * 4 * h + k, at = r * h + k;
            float i = j->act_in[g], f = j->act_in[g + h], u = j->act_in[g + 2 * h];
            float o = j->act_in[g + 3 * h], t = kernel_tanhf(j->c1[at]);
            float dh = j->dh ? j->dh[at] : 0.0f;
            float dc = (j->dc1 ? j->dc1[at] : 0.0f) + dh * o * (1.0f - t * t);
            if (j->da) {
                j->da[g] = dc * u * i * (1.0f - i);
                j->da[g + h] = dc * j->state[at] * f * (1.0f - f);
                j->da[g + 2 * h] = dc * i * (1.0f - u * u);
                j->da[g + 3 * h] = dh * t * o * (1.0f - o);
            }
            if (j->dstate)
                j->dstate[at] = dc * f;
        }
}

KERNEL_CPU(lstm_grad)
{
    const struct kernel_gates_desc *d = desc;
    struct gates job = {.h = d->h,
                        .act_in = args->in[0],
                        .state = args->in[1],
                        .c1 = args->in[2],
                        .dh = args->in[3],
                        .dc1 = args->in[4],
                        .da = args->out[0],
                        .dstate = args->out[1]};
    return kernel_parallel(c, d->rows, d->h * 8, lstm_grad_body, &job);
}

KERNEL_CLONES static void gru_body(void *argument, int64_t first, int64_t last)
{
    const struct gates *j = argument;
    const int64_t h = j->h;
    for (int64_t row = first; row < last; row++)
        for (int64_t k = 0; k < h; k++) {
            const int64_t g = row * 3 * h + k;
            float r = kernel_sigmoidf(j->a[g] + j->b[g]);
            float z = kernel_sigmoidf(j->a[g + h] + j->b[g + h]);
            float n = kernel_tanhf(j->a[g + 2 * h] + r * j->b[g + 2 * h]);
            if (j->h1)
                j->h1[row * h + k] = (1.0f - z) * n + z * j->state[row * h + k];
            if (j->act) {
                j->act[g] = r;
                j->act[g + h] = z;
                j->act[g + 2 * h] = n;
            }
        }
}

KERNEL_CPU(gru)
{
    const struct kernel_gates_desc *d = desc;
    struct gates job = {.h = d->h,
                        .a = args->in[0],
                        .b = args->in[1],
                        .state = args->in[2],
                        .h1 = args->out[0],
                        .act = args->out[1]};
    return kernel_parallel(c, d->rows, d->h * 6, gru_body, &job);
}

KERNEL_CLONES static void gru_grad_body(void *argument, int64_t first, int64_t last)
{
    const struct gates *j = argument;
    const int64_t h = j->h;
    for (int64_t row = first; row < last; row++)
        for (int64_t k = 0; k < h; k++) {
            const int64_t g = row * 3 * h + k, at = row * h + k;
            float r = j->act_in[g], z = j->act_in[g + h], n = j->act_in[g + 2 * h];
            float dh = j->dh[at];
            float dn = dh * (1.0f - z) * (1.0f - n * n);
            float dz = dh * (j->state[at] - n) * z * (1.0f - z);
            float dr = dn * j->b[g + 2 * h] * r * (1.0f - r);
            if (j->da) {
                j->da[g] = dr;
                j->da[g + h] = dz;
                j->da[g + 2 * h] = dn;
            }
            if (j->db) {
                j->db[g] = dr;
                j->db[g + h] = dz;
                j->db[g + 2 * h] = dn * r;
            }
            if (j->dstate)
                j->dstate[at] = dh * z;
        }
}

KERNEL_CPU(gru_grad)
{
    const struct kernel_gates_desc *d = desc;
    struct gates job = {.h = d->h,
                        .act_in = args->in[0],
                        .b = args->in[1],
                        .state = args->in[2],
                        .dh = args->in[3],
                        .da = args->out[0],
                        .db = args->out[1],
                        .dstate = args->out[2]};
    return kernel_parallel(c, d->rows, d->h * 6, gru_grad_body, &job);
}
