/* address.h - the path of the master's socket, however long it is. Private to exp/master. */
#ifndef EBB_EXP_MASTER_ADDRESS_H
#define EBB_EXP_MASTER_ADDRESS_H

#include <sys/socket.h>
#include <sys/un.h>

#include "base/status.h"

/* A path that does not fit goes through an open descriptor of the directory: close *directory (if
 * >= 0) after use. */
enum ebb_status exp_address_fill(struct sockaddr_un *address, const char *state_dir, int *directory,
                                 struct ebb_error *err);

#endif
