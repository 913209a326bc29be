/* master.h - how commands reach the master. Private to cli.
 *
 * Order: --master, EBB_MASTER, DET_MASTER (TCP, a master that listens there); else the socket of the
 * master that holds the state directory; else this process takes the lock and answers itself. The
 * same requests (docs/rest.md) work in all three. */
#ifndef EBB_CLI_MASTER_H
#define EBB_CLI_MASTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/status.h"
#include "base/str.h"
#include "cli/cli.h"
#include "exp/exp.h"
#include "serve/serve.h"

struct cli_board;

enum cli_role {
    CLI_ASK, /* ask and leave: without a master, read the state directory; start nothing */
    CLI_RUN, /* become the master when there is none */
};

struct cli_master {
    char *state_dir;
    enum cli_role role;
    bool is_opening;
    struct serve_client_address address; /* of a master elsewhere */
    char *url, *python_path;
    const char *user;                /* in whose name; NULL = the account. Borrowed */
    struct exp_master *own;          /* NULL = elsewhere */
    struct cli_board *board;         /* of an own master; owned */
    struct cli_held *held;           /* answers of cli_get and cli_send; owned */
    char *token;                     /* for a master on TCP; owned */
    struct serve_listen site_listen; /* of an own master: what master.yaml says */
    struct ebb_arena site_arena;     /* its texts */
};

/* `options` (may be NULL) holds what only an own master needs: slots, callbacks. */
enum ebb_status cli_master_open(struct cli_master *m, const struct cli_where *where,
                                enum cli_role role, const struct exp_master_options *options,
                                struct ebb_error *err);
void cli_master_close(struct cli_master *m, enum exp_master_close how, int grace_ms);

/* An own master listens on TCP where `how`, or else master.yaml, says so; nothing said: it does
 * not. What `how` leaves out is taken from master.yaml. */
enum ebb_status cli_master_listen(struct cli_master *m, const struct serve_listen *how,
                                  struct ebb_error *err);

struct cli_answer {
    struct ebb_arena arena;
    struct serve_http_response response;
    const struct ebb_doc_node *root; /* NULL: the body is empty or no JSON */
};

void cli_answer_fini(struct cli_answer *answer);

/* One request; the answer must be released also after a failure. An HTTP error is EBB_OK here. */
enum ebb_status cli_ask_raw(struct cli_master *m, const char *method, const char *target,
                            const char *body, struct cli_answer *answer, struct ebb_error *err);
/* The same for a range of bytes of a file ("bytes=0-9"). */
enum ebb_status cli_ask_range(struct cli_master *m, const char *method, const char *target,
                              const char *body, const char *range, struct cli_answer *answer,
                              struct ebb_error *err);
/* The same; an HTTP error becomes a failure with its message. The target is made as by printf. */
enum ebb_status cli_ask(struct cli_master *m, struct cli_answer *answer, struct ebb_error *err,
                        const char *method, const char *body, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
/* The same for commands that ask a few questions: answers live until the master is closed. *root
 * NULL: the body is empty or no JSON. */
enum ebb_status cli_get(struct cli_master *m, const struct ebb_doc_node **root,
                        struct ebb_error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
enum ebb_status cli_send(struct cli_master *m, const struct ebb_doc_node **root,
                         struct ebb_error *err, const char *method, const char *body,
                         const char *fmt, ...) __attribute__((format(printf, 6, 7)));
const struct ebb_str *cli_last_body(const struct cli_master *m); /* of those two */
/* What an answer's error says, as a failure. */
enum ebb_status cli_answer_error(const struct cli_answer *answer, struct ebb_error *err);

/* Wait for what was asked for: until is_done is content with the answer to GET target, at most
 * `seconds`; an own master makes its turns meanwhile. is_done NULL: only a few turns of an own one.
 * False: it did not come to that, or nobody knows. */
bool cli_master_settle(struct cli_master *m, double seconds,
                       bool (*is_done)(const struct cli_answer *answer), const char *target);
bool cli_is_ended(const struct cli_answer *answer); /* an experiment that has ended, or is gone */
/* "checkpoints" that are to go: none is left, or those left say why they could not be removed. */
bool cli_is_collected(const struct cli_answer *answer);

/* The path of the state directory: owned by the caller. */
enum ebb_status cli_state_dir(const char *option, char **path, struct ebb_error *err);

/* "3": a positive integer. -1, or 2 after a message. */
int cli_parse_id(const char *what, const char *text, int64_t *id);
struct cli_ids {
    int64_t *items; /* owned: ebb_free */
    size_t count, capacity;
};
/* "3,5,7" onto a list: -1, or the exit code after a message. */
int cli_parse_ids(const char *what, const char *text, struct cli_ids *ids);

#endif
