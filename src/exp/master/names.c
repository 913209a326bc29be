/* names.c - words for states and kinds, times and metrics as JSON. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/heap.h"
#include "exp/master/inner.h"

static const char *const states[] = {
    [EXP_PAUSED] = "PAUSED",
    [EXP_ACTIVE] = "ACTIVE",
    [EXP_STOPPING_CANCELED] = "STOPPING_CANCELED",
    [EXP_STOPPING_COMPLETED] = "STOPPING_COMPLETED",
    [EXP_STOPPING_ERROR] = "STOPPING_ERROR",
    [EXP_CANCELED] = "CANCELED",
    [EXP_COMPLETED] = "COMPLETED",
    [EXP_ERROR] = "ERROR",
    [EXP_DELETING] = "DELETING",
    [EXP_DELETE_FAILED] = "DELETE_FAILED",
};

const char *exp_state_name(enum exp_state state)
{
    return states[state];
}

bool exp_state_parse(const char *name, enum exp_state *state)
{
    int index = ebb_name_index(name, states, sizeof states / sizeof *states);
    if (index >= 0)
        *state = (enum exp_state)index;
    return index >= 0;
}

bool exp_state_is_stopping(enum exp_state state)
{
    return state >= EXP_STOPPING_CANCELED && state <= EXP_STOPPING_ERROR;
}

bool exp_state_is_ended(enum exp_state state)
{
    return state >= EXP_CANCELED;
}

const char *exp_trial_state_name(enum exp_trial_state state)
{
    static const char *const names[] = {"ACTIVE", "COMPLETED", "CANCELED", "ERROR"};
    return names[state];
}

static const char *const workloads[] = {
    [EXP_WORK_TRAIN] = "RUN_STEP",
    [EXP_WORK_VALIDATE] = "COMPUTE_VALIDATION_METRICS",
    [EXP_WORK_CHECKPOINT] = "CHECKPOINT_MODEL",
    [EXP_WORK_TERMINATE] = "TERMINATE",
};

const char *exp_workload_name(enum exp_workload_kind kind)
{
    return workloads[kind];
}

bool exp_workload_parse(const char *name, enum exp_workload_kind *kind)
{
    int index = ebb_name_index(name, workloads, sizeof workloads / sizeof *workloads);
    if (index >= 0)
        *kind = (enum exp_workload_kind)index;
    return index >= 0;
}

double exp_time_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void exp_time_write(struct ebb_json_writer *w, double seconds)
{
    char text[64];
    struct tm tm;
    if (!(seconds > 0) || seconds > 4e11) {
        ebb_jsonw_null(w);
        return;
    }
    int64_t ms = (int64_t)(seconds * 1000.0 + 0.5);
    time_t whole = (time_t)(ms / 1000);
    gmtime_r(&whole, &tm);
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, sizeof text - n, ".%03dZ", (int)(ms % 1000));
    ebb_jsonw_string(w, text);
}

double exp_metric_unsigned(double signed_metric, bool smaller_is_better)
{
    if (signed_metric == DBL_MAX)
        return (double)NAN;
    return smaller_is_better ? signed_metric : -signed_metric;
}

enum ebb_status exp_text_set(char **text, const char *value, struct ebb_error *err)
{
    char *copy = value != NULL ? ebb_strdup(value) : NULL;
    if (value != NULL && copy == NULL)
        return ebb_no_memory(err, strlen(value) + 1);
    ebb_free(*text);
    *text = copy;
    return EBB_OK;
}
