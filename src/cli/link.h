/* link.h - --link TIER=GB/s. */
#ifndef EBB_CLI_LINK_H
#define EBB_CLI_LINK_H

#include "cli/cli.h"
#include "planner/planner.h"

/* The item whose tier another one before it names; NULL: none. */
const char *cli_link_twice(const struct cli_list *list);
#define CLI_LINK_TWICE "--link %s: this tier stands there twice: which is meant?"
/* Rates both ways. Returns -1 to go on, else the exit code. */
int cli_read_links(const struct cli_list *list, struct device_config *links);

#endif
