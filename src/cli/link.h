/* link.h - --link TIER=GB/s of commands that simulate. */
#ifndef EBB_CLI_LINK_H
#define EBB_CLI_LINK_H

#include "cli/cli.h"
#include "planner/planner.h"

/* Rates both ways. Returns -1 to go on, else the exit code. */
int cli_read_links(const struct cli_list *list, struct device_config *links);

#endif
