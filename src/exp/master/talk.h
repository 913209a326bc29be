/* talk.h - lines of the trial protocol, read. Takes any bytes. Private to exp/master (and its
 * fuzzer).
 */
#ifndef EBB_EXP_MASTER_TALK_H
#define EBB_EXP_MASTER_TALK_H

#include "base/arena.h"
#include "base/doc.h"
#include "exp/search/search.h"
#include "exp/sequence/sequence.h"

#define EXP_TALK_LINE_MAX ((size_t)16 << 20)

enum exp_talk_kind { EXP_TALK_HELLO, EXP_TALK_DONE, EXP_TALK_FAILED, EXP_TALK_HEARTBEAT };

struct exp_talk_message {
    enum exp_talk_kind kind;
    int64_t protocol, trial_id;         /* HELLO; trial_id -1 = not said */
    const char *allocation;             /* HELLO */
    int64_t seq;                        /* DONE */
    struct exp_workload work;           /* DONE; FAILED: step -1 = not said */
    double start, end;                  /* DONE; 0 = not said */
    const struct ebb_doc_node *metrics; /* DONE: a mapping, or NULL */
    const char *reason;                 /* FAILED */
    enum exp_exit_reason exit_reason;   /* FAILED */
};

/* EBB_EINPUT: what is wrong with the line. Texts and nodes live in the arena. */
enum ebb_status exp_talk_read(struct ebb_arena *arena, const char *line, size_t length,
                              struct exp_talk_message *message, struct ebb_error *err);

/* Average of every scalar metric over the batches, nulls skipped; non-scalars are null. */
enum ebb_status exp_talk_average(struct ebb_arena *arena, const struct ebb_doc_node *batches,
                                 const struct ebb_doc_node **average, struct ebb_error *err);

#endif
