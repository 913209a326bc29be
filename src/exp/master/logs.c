/* logs.c - what trials print: tailed from trials/<id>/log into rows, a limited number of bytes.
 *
 * A trial writes to its file directly, so it never waits for the master and survives it. Beyond the
 * limit nothing more is stored until its process ends; then the last part is, where the reason of a
 * failure stands. What is between is given back to the file system: a trial that floods its output
 * fills neither disk nor database. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "exp/master/inner.h"

#define TURN_BYTES ((size_t)256 << 10) /* of one trial in one turn */
#define LINE_BYTES ((size_t)32 << 10)  /* longer lines are cut into pieces */
#define KEEP_BYTES ((int64_t)1 << 20)  /* of a flooded file: stay on disk, stored at the end */

static enum ebb_status insert(struct exp_master *m, struct exp_trial *r, const char *level,
                              const char *text, size_t length, struct ebb_error *err)
{
    EBB_TRY(exp_db_log_add(m->db,
                           &(struct exp_db_log){.trial_id = r->id,
                                                .id = r->log_next,
                                                .time = m->time,
                                                .level = level,
                                                .message = {text, length}},
                           err));
    r->log_next++;
    return EBB_OK;
}

enum ebb_status exp_log_add(struct exp_master *m, struct exp_trial *r, const char *level,
                            const char *text, struct ebb_error *err)
{
    if (r->id == 0)
        return EBB_OK;
    exp_notice_log(m, r);
    return insert(m, r, level, text, strlen(text), err);
}

/* Whole lines of the buffer; returns how many bytes they were. */
static enum ebb_status take_lines(struct exp_master *m, struct exp_trial *r, const char *buffer,
                                  size_t length, bool is_last, size_t *used, struct ebb_error *err)
{
    size_t at = 0;
    while (at < length) {
        const char *eol = memchr(buffer + at, '\n', length - at);
        size_t n = eol != NULL ? (size_t)(eol - buffer) - at : length - at;
        if (eol == NULL && n <= LINE_BYTES && !is_last)
            break;
        size_t piece = n < LINE_BYTES ? n : LINE_BYTES;
        while (piece < n && piece > LINE_BYTES - 3 &&
               ((unsigned char)buffer[at + piece] & 0xc0) == 0x80)
            piece--; /* a character is not cut */
        EBB_TRY(insert(m, r, "INFO", buffer + at, piece, err));
        at += piece + (eol != NULL && piece == n ? 1 : 0);
    }
    *used = at;
    return EBB_OK;
}

static enum ebb_status read_some(struct exp_master *m, struct exp_trial *r, int fd, int64_t size,
                                 bool is_last, struct ebb_error *err)
{
    char *buffer = ebb_arena_alloc(&m->turn_arena, TURN_BYTES);
    if (buffer == NULL)
        return ebb_no_memory(err, TURN_BYTES);
    do {
        size_t used = 0;
        ssize_t n = pread(fd, buffer, TURN_BYTES, r->log_offset);
        if (n <= 0)
            break;
        bool is_rest = is_last && r->log_offset + n >= size;
        EBB_TRY(take_lines(m, r, buffer, (size_t)n, is_rest, &used, err));
        if (used == 0)
            break;
        r->log_offset += (int64_t)used;
        r->log_bytes += (int64_t)used;
        exp_dirty_trial(m, r);
        exp_notice_log(m, r);
    } while (is_last && r->log_offset < size && r->log_bytes <= m->options.log_bytes_max);
    return EBB_OK;
}

/* ---- over the limit ---- */

/* Where the last part of the output begins, at the beginning of a line. */
static int64_t last_part(const struct exp_trial *r, int fd, int64_t size)
{
    char before[LINE_BYTES];
    int64_t from = size - KEEP_BYTES;
    if (from <= r->log_offset)
        return r->log_offset;
    ssize_t n = pread(fd, before, sizeof before, from - 1);
    const char *eol = n > 0 ? memchr(before, '\n', (size_t)n) : NULL;
    return eol != NULL ? from + (eol - before) : from;
}

/* Nothing more is stored for now; the disk gets back what nobody will read. */
static enum ebb_status skip(struct exp_master *m, struct exp_trial *r, int fd, int64_t size,
                            struct ebb_error *err)
{
    if (r->log_bytes != INT64_MAX) {
        char text[128];
        r->log_bytes = INT64_MAX; /* said once */
        snprintf(text, sizeof text,
                 "ebb: of output beyond %lld bytes the last MiB is kept, when the process ends",
                 (long long)m->options.log_bytes_max);
        EBB_TRY(exp_log_add(m, r, "WARNING", text, err));
        exp_dirty_trial(m, r);
    }
    int64_t until = size - KEEP_BYTES - (int64_t)LINE_BYTES;
    if (until > r->log_offset)
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, r->log_offset,
                        until - r->log_offset);
    return EBB_OK;
}

/* The process has ended: its last words. */
static enum ebb_status store_last(struct exp_master *m, struct exp_trial *r, int fd, int64_t size,
                                  struct ebb_error *err)
{
    int64_t from = last_part(r, fd, size);
    char text[96];
    if (from > r->log_offset) {
        snprintf(text, sizeof text, "ebb: %lld bytes of output are left out here",
                 (long long)(from - r->log_offset));
        EBB_TRY(exp_log_add(m, r, "WARNING", text, err));
    }
    r->log_offset = from;
    r->log_bytes = INT64_MIN / 2; /* all of the last part */
    EBB_TRY(read_some(m, r, fd, size, true, err));
    r->log_bytes = INT64_MAX;
    r->log_offset = size;
    exp_dirty_trial(m, r);
    return EBB_OK;
}

enum ebb_status exp_log_tail(struct exp_master *m, struct exp_trial *r, bool is_last,
                             struct ebb_error *err)
{
    char path[4096];
    struct stat st;
    if (r->id == 0)
        return EBB_OK;
    snprintf(path, sizeof path, "%s/trials/%lld/log", m->state_dir, (long long)r->id);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) != 0) {
        if (fd >= 0)
            close(fd);
        return EBB_OK; /* nothing printed yet */
    }
    enum ebb_status status = EBB_OK;
    if (st.st_size > r->log_offset && r->log_bytes <= m->options.log_bytes_max)
        status = read_some(m, r, fd, st.st_size, is_last, err);
    if (status == EBB_OK && r->log_bytes > m->options.log_bytes_max)
        status = skip(m, r, fd, st.st_size, err);
    if (status == EBB_OK && is_last && r->log_bytes > m->options.log_bytes_max &&
        st.st_size > r->log_offset)
        status = store_last(m, r, fd, st.st_size, err);
    close(fd);
    return status;
}
