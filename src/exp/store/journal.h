/* journal.h - how far an upload has come: a file of lines beside the staged copy, so that a next
 * master goes on where this one was killed. Private to exp/store.
 *
 *  J1  A line is written after the store has confirmed what it says, never before. So a lost or torn
 *      line costs a repetition, and no line needs to be synced.
 *  J2  A journal is of one checkpoint in one store; one of another store is thrown away.
 *
 * Several threads may use one journal. */
#ifndef EBB_EXP_STORE_JOURNAL_H
#define EBB_EXP_STORE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct exp_journal;

#define EXP_ETAG 136 /* longest that is kept, with its end */
#define EXP_UPLOAD_ID 1024

/* `whose` names store and checkpoint. Unreadable lines at the end are dropped. */
enum ebb_status exp_journal_open(struct exp_journal **journal, const char *path, const char *whose,
                                 struct ebb_error *err);
void exp_journal_close(struct exp_journal *journal); /* the file stays; NULL is fine */

/* There was one before: the upload has been tried. */
bool exp_journal_is_old(const struct exp_journal *journal);
bool exp_journal_is_done(struct exp_journal *journal, const char *path);
enum ebb_status exp_journal_done(struct exp_journal *journal, const char *path,
                                 struct ebb_error *err);
/* An upload in parts of a file: its id as the store gave it, "" = none has begun. */
bool exp_journal_upload(struct exp_journal *journal, const char *path, char id[EXP_UPLOAD_ID]);
/* Also ends what was known of an earlier upload of that file; id "": there is none any more. */
enum ebb_status exp_journal_begin(struct exp_journal *journal, const char *path, const char *id,
                                  struct ebb_error *err);
bool exp_journal_part(struct exp_journal *journal, const char *path, size_t part,
                      char etag[EXP_ETAG]);
enum ebb_status exp_journal_part_done(struct exp_journal *journal, const char *path, size_t part,
                                      const char *etag, struct ebb_error *err);

#endif
