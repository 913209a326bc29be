/* base64.h - RFC 4648, and tar.gz archives of a model definition. Private to exp/master. */
#ifndef EBB_EXP_MASTER_BASE64_H
#define EBB_EXP_MASTER_BASE64_H

#include "exp/store/store.h"

/* Decoded length is at most length / 4 * 3 + 3; blanks and newlines are skipped. false: not base64.
 */
bool exp_base64_decode(const char *text, size_t length, char *out, size_t *out_length);
/* Append a gzip-compressed tar (ustar) archive. EBB_EINPUT: a path that does not fit the format. */
enum ebb_status exp_archive_write(const struct exp_store_file *files, size_t count,
                                  struct ebb_str *out, struct ebb_error *err);

#endif
