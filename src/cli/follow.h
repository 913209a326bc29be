/* follow.h - watching an experiment: a table that is redrawn on a terminal, one line per change in
 * a pipe, or the events themselves as JSON lines. Private to cli. */
#ifndef EBB_CLI_FOLLOW_H
#define EBB_CLI_FOLLOW_H

#include "cli/master.h"

enum cli_follow_how {
    CLI_FOLLOW_TABLE, /* on a terminal */
    CLI_FOLLOW_LINES,
    CLI_FOLLOW_JSON,
    CLI_FOLLOW_STAGES, /* test mode: scheduling, training, validation, checkpointing */
};

#define CLI_FOLLOW_SAID 32

struct cli_follow {
    struct cli_master *master; /* borrowed */
    int64_t id;
    enum cli_follow_how how;
    int64_t after; /* last event seen */
    uint64_t start_ns, drawn_ns, line_ns;
    double start_progress; /* when watching began: the rate counts from there */
    double progress;       /* as last drawn */
    bool is_dirty, is_over;
    bool was_over;      /* before watching began */
    bool is_stalled;    /* the master cannot write now (503): it goes on when it can */
    uint64_t warned_ns; /* of that */
    uint64_t looked_ns; /* at what is being uploaded */
    size_t waiting;     /* checkpoints on their way to the store, when last told */
    bool is_refused;    /* the store was out of reach, then */
    bool is_json;       /* stages: one JSON object each */
    char metric[128], state[32];
    size_t drawn_lines; /* on the terminal, to be drawn over */
    int stage;          /* test mode: stages passed */
    int64_t trial_id;   /* the first trial seen */
    struct {
        uint64_t hash;
        int64_t trial;
    } said[CLI_FOLLOW_SAID]; /* the last failures that were told in full */
    size_t said_count;
    int64_t ended[CLI_FOLLOW_SAID]; /* the last trials whose end was told */
    size_t ended_count;
};

/* Remember where the events are now. Call it before the experiment is made. */
enum ebb_status cli_follow_init(struct cli_follow *f, struct cli_master *m, enum cli_follow_how how,
                                struct ebb_error *err);
/* Watch until the experiment has ended or Ctrl-C; an own master makes its turns here.
 * EBB_ECANCELED: interrupted. */
enum ebb_status cli_follow_run(struct cli_follow *f, int64_t id, struct ebb_error *err);

bool cli_state_is_over(const char *state);

/* follow_draw.c */
enum ebb_status cli_follow_draw(struct cli_follow *f, struct ebb_error *err);

#endif
