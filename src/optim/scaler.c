/* scaler.c - loss scaling: two published rules as one small state machine. */
#include <string.h>

#include "optim/optim.h"

void optim_scaler_grad(struct optim_scaler *scaler)
{
    memset(scaler, 0, sizeof *scaler);
    scaler->scale = 65536.0;
    scaler->growth = 2.0;
    scaler->backoff = 0.5;
    scaler->interval = 2000;
}

void optim_scaler_dynamic(struct optim_scaler *scaler)
{
    memset(scaler, 0, sizeof *scaler);
    scaler->is_dynamic = true;
    scaler->scale = 4294967296.0;
    scaler->growth = 2.0;
    scaler->backoff = 0.5;
    scaler->min_scale = 1.0;
    scaler->interval = 1000;
    scaler->last_overflow = -1;
    scaler->delayed_shift = scaler->hysteresis = 1;
}

static void update_grad(struct optim_scaler *s, bool found_inf)
{
    if (found_inf) {
        s->scale *= s->backoff;
        s->streak = 0;
    } else if (++s->streak == s->interval) {
        s->scale *= s->growth;
        s->streak = 0;
    }
}

static void update_dynamic(struct optim_scaler *s, bool found_inf)
{
    if (found_inf) {
        if (s->delayed_shift == 1 || s->hysteresis == 1) {
            double smaller = s->scale / s->growth;
            s->scale = smaller > s->min_scale ? smaller : s->min_scale;
        } else {
            s->hysteresis--;
        }
        s->last_overflow = s->iteration;
    } else {
        if (s->consecutive_hysteresis)
            s->hysteresis = s->delayed_shift;
        if ((s->iteration - s->last_overflow) % s->interval == 0) {
            if (!s->consecutive_hysteresis)
                s->hysteresis = s->delayed_shift;
            s->scale *= s->growth;
        }
    }
    s->iteration++;
}

bool optim_scaler_update(struct optim_scaler *scaler, bool found_inf)
{
    if (scaler->is_dynamic)
        update_dynamic(scaler, found_inf);
    else
        update_grad(scaler, found_inf);
    return found_inf;
}
