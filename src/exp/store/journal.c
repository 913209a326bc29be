/* journal.c - see journal.h. Lines are JSON objects: {"ebb_journal":1,"whose":"..."}, then
 * {"file":P,"upload":ID}, {"file":P,"part":N,"etag":E}, {"file":P,"done":true}. */
#include "exp/store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/doc.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/map.h"

#define FILE_MAX ((size_t)64 << 20)
#define PARTS_MAX 10000

struct entry {
    char *upload;
    char (*etags)[EXP_ETAG]; /* by part; "" = not there yet */
    size_t etag_count, etag_capacity;
    bool is_done;
};

struct exp_journal {
    pthread_mutex_t lock;
    int fd;
    bool is_old;             /* it was there when it was opened */
    struct ebb_strmap index; /* path -> entry */
    struct entry *entries;
    size_t count, capacity;
};

/* ---- entries ---- */

static struct entry *find(struct exp_journal *j, const char *path)
{
    uint64_t at = 0;
    return ebb_strmap_get(&j->index, path, strlen(path), &at) ? &j->entries[at] : NULL;
}

static enum ebb_status find_or_add(struct exp_journal *j, const char *path, struct entry **out,
                                   struct ebb_error *err)
{
    *out = find(j, path);
    if (*out != NULL)
        return EBB_OK;
    EBB_TRY(ebb_grow(&j->entries, &j->capacity, j->count + 1, sizeof *j->entries, err));
    EBB_TRY(ebb_strmap_put(&j->index, path, strlen(path), j->count, err));
    *out = &j->entries[j->count++];
    **out = (struct entry){0};
    return EBB_OK;
}

static enum ebb_status set_upload(struct entry *e, const char *id, struct ebb_error *err)
{
    char *copy = ebb_strdup(id);
    if (copy == NULL)
        return ebb_no_memory(err, strlen(id));
    ebb_free(e->upload);
    e->upload = copy;
    e->etag_count = 0;
    e->is_done = false;
    return EBB_OK;
}

static enum ebb_status set_part(struct entry *e, size_t part, const char *etag,
                                struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&e->etags, &e->etag_capacity, part + 1, sizeof *e->etags, err));
    for (; e->etag_count <= part; e->etag_count++)
        e->etags[e->etag_count][0] = '\0';
    snprintf(e->etags[part], EXP_ETAG, "%s", etag);
    return EBB_OK;
}

/* ---- reading ---- */

/* One line; EBB_EINPUT: it is none of a journal. */
static enum ebb_status read_line(struct exp_journal *j, struct ebb_arena *arena, const char *line,
                                 size_t length, struct ebb_error *err)
{
    const struct ebb_doc_node *node = NULL;
    struct entry *e = NULL;
    EBB_TRY(ebb_doc_parse_json(arena, "journal", line, length, &node, err));
    const char *path = ebb_doc_string(node, "file", NULL);
    const char *upload = ebb_doc_string(node, "upload", NULL);
    const char *etag = ebb_doc_string(node, "etag", NULL);
    int64_t part = ebb_doc_int(node, "part", -1);
    if (path == NULL || (etag != NULL && (part < 0 || part >= PARTS_MAX)))
        return ebb_fail(err, EBB_EINPUT, "no line of a journal");
    EBB_TRY(find_or_add(j, path, &e, err));
    if (upload != NULL)
        return set_upload(e, upload, err);
    if (etag != NULL)
        return set_part(e, (size_t)part, etag, err);
    e->is_done = ebb_doc_bool(node, "done", false);
    return EBB_OK;
}

/* What is whole of it; *good = bytes that are. */
static enum ebb_status read_lines(struct exp_journal *j, const char *text, size_t length,
                                  const char *head, size_t *good, struct ebb_error *err)
{
    struct ebb_arena arena;
    enum ebb_status status = EBB_OK;
    *good = 0;
    ebb_arena_init(&arena);
    for (size_t at = 0; status == EBB_OK && at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        if (end == NULL)
            break;
        size_t n = (size_t)(end - text) - at;
        if (at == 0 ? n != strlen(head) || memcmp(text, head, n) != 0
                    : (status = read_line(j, &arena, text + at, n, err)) == EBB_EINPUT) {
            status = EBB_OK;
            break;
        }
        at += n + 1;
        *good = at;
        ebb_arena_reset(&arena);
    }
    ebb_arena_fini(&arena);
    return status;
}

static enum ebb_status load(struct exp_journal *j, const char *path, const char *head,
                            struct ebb_error *err)
{
    struct ebb_file_view view;
    size_t good = 0;
    j->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (j->fd < 0)
        return ebb_fail(err, EBB_EIO, "cannot open %s: %s", path, strerror(errno));
    EBB_TRY(ebb_file_view_open(&view, path, FILE_MAX, err));
    j->is_old = view.length > 0;
    enum ebb_status status = read_lines(j, view.data, view.length, head, &good, err);
    ebb_file_view_close(&view);
    if (status == EBB_OK && ftruncate(j->fd, (off_t)good) != 0)
        status = ebb_fail(err, EBB_EIO, "cannot write %s: %s", path, strerror(errno));
    if (status == EBB_OK && good == 0 &&
        (!ebb_write_all(j->fd, head, strlen(head)) || !ebb_write_all(j->fd, "\n", 1)))
        status = ebb_fail(err, EBB_EIO, "cannot write %s: %s", path, strerror(errno));
    return status;
}

enum ebb_status exp_journal_open(struct exp_journal **journal, const char *path, const char *whose,
                                 struct ebb_error *err)
{
    struct ebb_str head = {0};
    struct ebb_json_writer w;
    struct exp_journal *j = ebb_calloc(1, sizeof *j);
    if (j == NULL)
        return ebb_no_memory(err, sizeof *j);
    pthread_mutex_init(&j->lock, NULL);
    ebb_strmap_init(&j->index);
    j->fd = -1;
    ebb_jsonw_init(&w, &head, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_int(&w, "ebb_journal", 1);
    ebb_jsonw_key_string(&w, "whose", whose);
    ebb_jsonw_object_end(&w);
    enum ebb_status status = ebb_str_status(&head, err);
    EBB_THEN(status, load(j, path, ebb_str_c(&head), err));
    ebb_str_fini(&head);
    if (status != EBB_OK) {
        exp_journal_close(j);
        return status;
    }
    *journal = j;
    return EBB_OK;
}

void exp_journal_close(struct exp_journal *j)
{
    if (j == NULL)
        return;
    for (size_t i = 0; i < j->count; i++) {
        ebb_free(j->entries[i].upload);
        ebb_free(j->entries[i].etags);
    }
    ebb_free(j->entries);
    ebb_strmap_fini(&j->index);
    if (j->fd >= 0)
        close(j->fd);
    pthread_mutex_destroy(&j->lock);
    ebb_free(j);
}

/* ---- asking ---- */

bool exp_journal_is_old(const struct exp_journal *j)
{
    return j->is_old;
}

bool exp_journal_is_done(struct exp_journal *j, const char *path)
{
    pthread_mutex_lock(&j->lock);
    const struct entry *e = find(j, path);
    bool is_done = e != NULL && e->is_done;
    pthread_mutex_unlock(&j->lock);
    return is_done;
}

bool exp_journal_upload(struct exp_journal *j, const char *path, char id[EXP_UPLOAD_ID])
{
    pthread_mutex_lock(&j->lock);
    const struct entry *e = find(j, path);
    snprintf(id, EXP_UPLOAD_ID, "%s", e != NULL && e->upload != NULL ? e->upload : "");
    pthread_mutex_unlock(&j->lock);
    return id[0] != '\0';
}

bool exp_journal_part(struct exp_journal *j, const char *path, size_t part, char etag[EXP_ETAG])
{
    pthread_mutex_lock(&j->lock);
    const struct entry *e = find(j, path);
    snprintf(etag, EXP_ETAG, "%s", e != NULL && part < e->etag_count ? e->etags[part] : "");
    pthread_mutex_unlock(&j->lock);
    return etag[0] != '\0';
}

/* ---- writing ---- */

static void open_line(struct ebb_str *line, struct ebb_json_writer *w, const char *path)
{
    ebb_str_init(line);
    ebb_jsonw_init(w, line, 0);
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "file", path);
}

static enum ebb_status write_line(struct exp_journal *j, struct ebb_str *line,
                                  struct ebb_json_writer *w, struct ebb_error *err)
{
    ebb_jsonw_object_end(w);
    ebb_str_addc(line, '\n');
    enum ebb_status status = ebb_str_status(line, err);
    if (status == EBB_OK && !ebb_write_all(j->fd, line->data, line->length))
        status = ebb_fail(err, EBB_EIO, "cannot write the journal: %s", strerror(errno));
    ebb_str_fini(line);
    return status;
}

enum ebb_status exp_journal_done(struct exp_journal *j, const char *path, struct ebb_error *err)
{
    struct ebb_str line;
    struct ebb_json_writer w;
    struct entry *e = NULL;
    open_line(&line, &w, path);
    ebb_jsonw_key_bool(&w, "done", true);
    pthread_mutex_lock(&j->lock);
    enum ebb_status status = write_line(j, &line, &w, err);
    EBB_THEN(status, find_or_add(j, path, &e, err));
    if (status == EBB_OK)
        e->is_done = true;
    pthread_mutex_unlock(&j->lock);
    return status;
}

enum ebb_status exp_journal_begin(struct exp_journal *j, const char *path, const char *id,
                                  struct ebb_error *err)
{
    struct ebb_str line;
    struct ebb_json_writer w;
    struct entry *e = NULL;
    if (strlen(id) >= EXP_UPLOAD_ID)
        return ebb_fail(err, EBB_EIO, "the store names an upload by %zu bytes", strlen(id));
    open_line(&line, &w, path);
    ebb_jsonw_key_string(&w, "upload", id);
    pthread_mutex_lock(&j->lock);
    enum ebb_status status = write_line(j, &line, &w, err);
    EBB_THEN(status, find_or_add(j, path, &e, err));
    EBB_THEN(status, set_upload(e, id, err));
    pthread_mutex_unlock(&j->lock);
    return status;
}

enum ebb_status exp_journal_part_done(struct exp_journal *j, const char *path, size_t part,
                                      const char *etag, struct ebb_error *err)
{
    struct ebb_str line;
    struct ebb_json_writer w;
    struct entry *e = NULL;
    open_line(&line, &w, path);
    ebb_jsonw_key_int(&w, "part", (int64_t)part);
    ebb_jsonw_key_string(&w, "etag", etag);
    pthread_mutex_lock(&j->lock);
    enum ebb_status status = write_line(j, &line, &w, err);
    EBB_THEN(status, find_or_add(j, path, &e, err));
    EBB_THEN(status, set_part(e, part, etag, err));
    pthread_mutex_unlock(&j->lock);
    return status;
}
