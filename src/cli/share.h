/* share.h - files that come with the program: installed beside it, or in its source tree. Private
 * to cli. */
#ifndef EBB_CLI_SHARE_H
#define EBB_CLI_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* The path of a file: `installed` below share/ebb, `source` below the root of the source tree.
 * False: it is in neither. */
bool cli_share_find(const char *installed, const char *source, char *path, size_t room);

#endif
