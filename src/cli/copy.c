/* copy.c - bringing a checkpoint to where the user wants it: a copy of its directory on the master's
 * machine, or file by file from a master on another one. */
#include "cli/cmd_experiment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/names.h"
#include "base/str.h"
#include "exp/exp.h"
#include "serve/serve.h"

#define DEPTH_MAX 32
#define PIECE_BYTES ((int64_t)16 << 20)

static enum ebb_status copy_file(const char *from, const char *to, struct ebb_error *err)
{
    char buffer[1 << 16];
    enum ebb_status status = EBB_OK;
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out < 0)
        status = ebb_fail(err, EBB_EIO, "cannot copy %s to %s: %s", from, to, strerror(errno));
    while (status == EBB_OK) {
        ssize_t n = read(in, buffer, sizeof buffer);
        if (n == 0)
            break;
        if (n < 0 || write(out, buffer, (size_t)n) != n)
            status = ebb_fail(err, EBB_EIO, "cannot copy %s to %s: %s", from, to, strerror(errno));
    }
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0 && status == EBB_OK)
        status = ebb_fail(err, EBB_EIO, "cannot write %s: %s", to, strerror(errno));
    return status;
}

static enum ebb_status copy_tree(const char *from, const char *to, int depth, struct ebb_error *err)
{
    struct ebb_names names = {0};
    if (depth > DEPTH_MAX)
        return ebb_fail(err, EBB_ELIMIT, "%s: more than %d nested directories", from, DEPTH_MAX);
    DIR *folder = opendir(from);
    if (!folder)
        return ebb_fail(err, EBB_EIO,
                        "cannot read %s: %s (checkpoint_storage.host_path of the experiment must "
                        "be reachable from here)",
                        from, strerror(errno));
    enum ebb_status status = ebb_names_read(&names, folder, NULL, NULL, err);
    EBB_THEN(status, ebb_file_mkdirs(to, err));
    for (size_t i = 0; status == EBB_OK && i < names.count; i++) {
        struct ebb_str a = {0}, b = {0};
        struct stat st = {0};
        ebb_str_printf(&a, "%s/%s", from, names.items[i]);
        ebb_str_printf(&b, "%s/%s", to, names.items[i]);
        if (lstat(ebb_str_c(&a), &st) == 0 && S_ISDIR(st.st_mode))
            status = copy_tree(ebb_str_c(&a), ebb_str_c(&b), depth + 1, err);
        else
            status = copy_file(ebb_str_c(&a), ebb_str_c(&b), err);
        ebb_str_fini(&a);
        ebb_str_fini(&b);
    }
    ebb_names_fini(&names);
    return status;
}

/* A file in pieces: whatever its size, little memory. */
static enum ebb_status get_file(struct cli_master *m, const char *uuid, const char *path,
                                int64_t bytes, const char *to, struct ebb_error *err)
{
    struct ebb_str target = {0};
    enum ebb_status status = EBB_OK;
    ebb_str_printf(&target, "/checkpoints/%s/files/", uuid);
    serve_http_escape(&target, path);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out < 0)
        status = ebb_fail(err, EBB_EIO, "cannot write %s: %s", to, strerror(errno));
    for (int64_t at = 0; status == EBB_OK && at < bytes;) {
        struct cli_answer answer = {0};
        char range[64];
        snprintf(range, sizeof range, "bytes=%lld-%lld", (long long)at,
                 (long long)(at + PIECE_BYTES - 1));
        status = cli_ask_range(m, "GET", ebb_str_c(&target), NULL, range, &answer, err);
        const struct ebb_str *piece = &answer.response.body;
        if (status == EBB_OK && answer.response.status != 206)
            status = cli_answer_error(&answer, err);
        else if (status == EBB_OK &&
                 (piece->length == 0 || !ebb_write_all(out, ebb_str_c(piece), piece->length)))
            status = ebb_fail(err, EBB_EIO, "cannot write %s: %s", to, strerror(errno));
        at += (int64_t)piece->length;
        cli_answer_fini(&answer);
    }
    if (out >= 0 && close(out) != 0 && status == EBB_OK)
        status = ebb_fail(err, EBB_EIO, "cannot write %s: %s", to, strerror(errno));
    ebb_str_fini(&target);
    return status;
}

/* From a master on another machine: what its record lists. */
static enum ebb_status get_tree(struct cli_master *m, const struct ebb_doc_node *checkpoint,
                                const char *target, struct ebb_error *err)
{
    const struct ebb_doc_node *list = ebb_doc_get(checkpoint, "resources");
    const char *uuid = ebb_doc_string(checkpoint, "uuid", "");
    enum ebb_status status = ebb_file_mkdirs(target, err);
    for (size_t i = 0; status == EBB_OK && list != NULL && i < list->count; i++) {
        const char *path = list->keys[i]->text;
        size_t n = strlen(path), cut = n > 0 && path[n - 1] == '/' ? n - 1 : n;
        struct ebb_str to = {0}, plain = {0};
        ebb_str_printf(&plain, "%.*s", (int)cut, path);
        ebb_str_printf(&to, "%s/%s", target, ebb_str_c(&plain));
        status = ebb_str_status(&to, err);
        if (status == EBB_OK && !exp_store_is_safe_path(ebb_str_c(&plain)))
            status = ebb_fail(err, EBB_ECORRUPT, "the checkpoint names a file \"%s\"", path);
        else if (status == EBB_OK && cut < n)
            status = ebb_file_mkdirs(ebb_str_c(&to), err);
        else if (status == EBB_OK)
            status = get_file(m, uuid, path, list->items[i]->integer, ebb_str_c(&to), err);
        ebb_str_fini(&to);
        ebb_str_fini(&plain);
    }
    return status;
}

enum ebb_status cli_checkpoint_copy(struct cli_master *m, const struct ebb_doc_node *checkpoint,
                                    const char *target, struct ebb_error *err)
{
    const struct ebb_doc_node *answer = NULL;
    const char *uuid = ebb_doc_string(checkpoint, "uuid", "");
    const char *state = ebb_doc_string(checkpoint, "state", "");
    if (strcmp(state, "COMPLETED") != 0)
        return ebb_fail(err, EBB_EINFEASIBLE, "checkpoint %s is %s: there is nothing to copy", uuid,
                        state);
    if (m->own == NULL && m->address.url != NULL) {
        EBB_TRY(get_tree(m, checkpoint, target, err));
    } else {
        EBB_TRY(cli_send(m, &answer, err, "POST", NULL, "/checkpoints/%s/fetch", uuid));
        EBB_TRY(copy_tree(ebb_doc_string(answer, "path", ""), target, 0, err));
    }
    return exp_store_verify_copy(target, uuid, err);
}
