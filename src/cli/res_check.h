/* res_check.h - five updates without limits and five as asked: the same losses, the same weights? */
#ifndef EBB_CLI_RES_CHECK_H
#define EBB_CLI_RES_CHECK_H

#include <string.h>

#include "train/train.h"

enum { CLI_RES_UPDATES = 5 };

struct cli_res { /* what a run came to */
    double losses[CLI_RES_UPDATES];
    char hash[65];
};

/* The first update whose losses differ in any bit, counted from 1; CLI_RES_UPDATES + 1: only the
 * weights do; 0: nothing does. */
static inline int cli_res_differ(const struct cli_res *free, const struct cli_res *asked)
{
    for (int i = 0; i < CLI_RES_UPDATES; i++)
        if (memcmp(&free->losses[i], &asked->losses[i], sizeof free->losses[i]) != 0)
            return i + 1;
    return strcmp(free->hash, asked->hash) != 0 ? CLI_RES_UPDATES + 1 : 0;
}

/* Prints what was found. Returns the exit code: 1 when something differs, or a run fails. */
int cli_res_check(const struct train_config *config, const struct train_options *options,
                  bool is_json);

#endif
