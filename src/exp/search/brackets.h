/* brackets.h - the state that synchronous and asynchronous halving have in common: which trial is
 * in which rung of which bracket, and the results of each rung. Private to exp/search. */
#ifndef EBB_EXP_SEARCH_BRACKETS_H
#define EBB_EXP_SEARCH_BRACKETS_H

#include "exp/search/method.h"

struct exp_rung {
    struct exp_ranks ranks; /* results */
    size_t outstanding;     /* trials on their way to this rung's result */
    bool is_closed_out;     /* asynchronous: every entry is promoted or closed */
};

struct exp_bracket {
    struct exp_rung *rungs;
    int64_t created;    /* trials that count in the bracket's size */
    int64_t closed;     /* of those: told to close, or gone */
    uint64_t workloads; /* completed */
};

struct exp_member {
    uint16_t bracket, rung;
};

struct exp_brackets {
    struct exp_shape shape;
    struct exp_bracket *items;
    struct exp_member *members; /* by trial */
    size_t member_capacity;
};

/* The method's state is exactly a struct exp_brackets. */
static inline struct exp_brackets *exp_brackets_of(const struct exp_search *s)
{
    return s->state;
}

enum ebb_status exp_brackets_init(struct exp_search *s, struct ebb_error *err);
void exp_brackets_fini(struct exp_search *s);
enum ebb_status exp_brackets_start(struct exp_search *s, struct ebb_error *err);
/* A new sample in the bottom rung. */
enum ebb_status exp_brackets_add(struct exp_search *s, size_t bracket, struct ebb_error *err);
/* Still in rung r: neither promoted nor told to close. An exited trial counts, it may move up. */
bool exp_brackets_is_waiting(const struct exp_search *s, uint32_t trial, size_t r);
/* Close the trial unless it is gone, and count it. */
enum ebb_status exp_brackets_close(struct exp_search *s, uint32_t trial, struct ebb_error *err);
enum ebb_status exp_brackets_validated(struct exp_search *s, uint32_t trial, int64_t step,
                                       double metric, struct ebb_error *err);
/* A trial is gone: with INVALID_HP its results leave every rung and a new sample takes its place;
 * else the work it owed is reported with the worst result. */
enum ebb_status exp_brackets_exited(struct exp_search *s, uint32_t trial,
                                    enum exp_exit_reason reason, bool has_work,
                                    struct ebb_error *err);
void exp_brackets_worked(struct exp_search *s, uint32_t trial, int64_t workloads);
size_t exp_brackets_bracket(const struct exp_search *s, uint32_t trial);

/* What the tables of both methods have in common. */
#define EXP_BRACKETS_METHOD                                                                        \
    .state_bytes = sizeof(struct exp_brackets), .init = exp_brackets_init,                         \
    .fini = exp_brackets_fini, .start = exp_brackets_start, .validated = exp_brackets_validated,   \
    .exited = exp_brackets_exited, .worked = exp_brackets_worked, .bracket = exp_brackets_bracket

#endif
