/* site.h - <state>/master.yaml: what every master of a state directory is started with. Private to
 * cli. docs/cli/master.md has the keys. */
#ifndef EBB_CLI_SITE_H
#define EBB_CLI_SITE_H

#include "base/str.h"
#include "exp/exp.h"
#include "serve/serve.h"

/* Fill `options` from the file, if there is one; slots that are set already stay. `text` (made by
 * the caller) must live until the master is open: options point into it. What it says of listening
 * goes to `listen`, its texts in the arena. Errors name file, line, column, key and what is
 * allowed. */
enum ebb_status cli_site_read(const char *state_dir, struct exp_master_options *options,
                              struct ebb_arena *arena, struct serve_listen *listen,
                              struct ebb_str *text, struct ebb_error *err);

#endif
