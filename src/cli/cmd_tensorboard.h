/* cmd_tensorboard.h - what the files of `ebb tensorboard` share. Private to cli. */
#ifndef EBB_CLI_CMD_TENSORBOARD_H
#define EBB_CLI_CMD_TENSORBOARD_H

#include "cli/verb.h"

struct cli_tensorboard_options {
    struct cli_list trials;
    const char *host;
    int64_t port;
};
int cli_tensorboard_check(struct cli_call *c);
enum ebb_status cli_tensorboard_start(struct cli_call *c, struct ebb_error *err);

/* <state>/tensorboards/ID<suffix>; the folder for id 0. */
void cli_board_path(const struct cli_master *m, int64_t id, const char *suffix,
                    struct ebb_str *out);
/* When a process began, in ticks since boot; 0: there is none, or it is dead. Its number alone may
 * have been given to another one. */
int64_t cli_board_pid_start(int64_t pid);
/* Numbers of the records, ascending; owned by the caller. */
enum ebb_status cli_board_ids(const struct cli_master *m, int64_t **ids, size_t *count,
                              struct ebb_error *err);
/* A failure when the state directory is on another machine. */
enum ebb_status cli_board_is_here(const struct cli_master *m, struct ebb_error *err);

#endif
