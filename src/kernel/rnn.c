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

void kernel_lstm_gates(const struct kernel_context *c, int64_t rows, int64_t h, const float *a,
                       const float *b, const float *c0, float *h1, float *c1, float *act)
{
    struct gates job = {.h = h, .a = a, .b = b, .state = c0, .h1 = h1, .c_out = c1, .act = act};
    kernel_parallel(c, rows, kernel_piece(h * 8), lstm_body, &job);
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

void kernel_lstm_gates_grad(const struct kernel_context *c, int64_t rows, int64_t h,
                            const float *act, const float *c0, const float *c1, const float *dh,
                            const float *dc1, float *dgates, float *dc0)
{
    struct gates job = {.h = h,
                        .act_in = act,
                        .state = c0,
                        .c1 = c1,
                        .dh = dh,
                        .dc1 = dc1,
                        .da = dgates,
                        .dstate = dc0};
    kernel_parallel(c, rows, kernel_piece(h * 8), lstm_grad_body, &job);
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

void kernel_gru_gates(const struct kernel_context *c, int64_t rows, int64_t h, const float *a,
                      const float *b, const float *h0, float *h1, float *act)
{
    struct gates job = {.h = h, .a = a, .b = b, .state = h0, .h1 = h1, .act = act};
    kernel_parallel(c, rows, kernel_piece(h * 6), gru_body, &job);
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

void kernel_gru_gates_grad(const struct kernel_context *c, int64_t rows, int64_t h,
                           const float *act, const float *b, const float *h0, const float *dh1,
                           float *da, float *db, float *dh0)
{
    struct gates job = {
        .h = h, .act_in = act, .b = b, .state = h0, .dh = dh1, .da = da, .db = db, .dstate = dh0};
    kernel_parallel(c, rows, kernel_piece(h * 6), gru_grad_body, &job);
}
