/* git.c - where a model definition comes from: asked of the git program. */
#include "cli/submit.h"

#include <string.h>
#include <sys/stat.h>

#include "base/heap.h"
#include "base/process.h"

/* First line of what `git -C dir WORDS` prints; EBB_EINPUT when it fails. */
static enum ebb_status ask_git(const char *dir, const char *const *words, size_t count, char **line,
                               struct ebb_error *err)
{
    const char *argv[12] = {"git", "-C", dir};
    struct ebb_str text = {0};
    for (size_t i = 0; i < count && i < 8; i++)
        argv[3 + i] = words[i];
    enum ebb_status status = ebb_process_run(&(struct ebb_process){.argv = argv}, &text, err);
    if (status == EBB_EUNSUPPORTED)
        ebb_fail(err, status, "git is not installed here; install it or leave out --git");
    else if (status == EBB_EIO)
        status = ebb_fail(err, EBB_EINPUT, "git %s fails in %s", words[0], dir);
    if (status == EBB_OK) {
        *line = ebb_strndup(ebb_str_c(&text), strcspn(ebb_str_c(&text), "\n"));
        status = *line != NULL ? EBB_OK : ebb_no_memory(err, text.length);
    }
    ebb_str_fini(&text);
    return status;
}

void cli_git_fini(struct cli_git *git)
{
    ebb_free(git->remote);
    ebb_free(git->commit);
    ebb_free(git->committer);
    ebb_free(git->date);
    *git = (struct cli_git){0};
}

#define WORDS(...)                                                                                 \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

static enum ebb_status read_all(const char *dir, struct cli_git *git, struct ebb_error *err)
{
    char *changes = NULL, *upstream = NULL;
    enum ebb_status status = ask_git(dir, WORDS("status", "--porcelain"), &changes, err);
    if (status != EBB_OK)
        return ebb_context(err, status, "--git: %s is in no git work tree", dir);
    bool is_clean = changes[0] == '\0';
    ebb_free(changes);
    if (!is_clean)
        return ebb_fail(err, EBB_EINPUT,
                        "--git: the work tree of %s has changes; commit them first", dir);
    status = ask_git(dir, WORDS("rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{u}"),
                     &upstream, err);
    if (status != EBB_OK)
        return ebb_fail(err, EBB_EINPUT,
                        "--git: the branch has no upstream; push it first: git push -u");
    upstream[strcspn(upstream, "/")] = '\0';
    status = ask_git(dir, WORDS("remote", "get-url", upstream), &git->remote, err);
    ebb_free(upstream);
    EBB_TRY(status);
    EBB_TRY(ask_git(dir, WORDS("rev-parse", "HEAD"), &git->commit, err));
    EBB_TRY(ask_git(dir, WORDS("log", "-1", "--format=%cn <%ce>"), &git->committer, err));
    return ask_git(dir, WORDS("log", "-1", "--format=%cI"), &git->date, err);
}

enum ebb_status cli_git_read(const char *path, struct cli_git *git, struct ebb_error *err)
{
    struct stat st;
    *git = (struct cli_git){0};
    char *dir = ebb_strdup(path);
    if (dir == NULL)
        return ebb_no_memory(err, strlen(path));
    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode)) {
        char *slash = strrchr(dir, '/');
        if (slash == NULL)
            dir[0] = '.';
        dir[slash == NULL || slash == dir ? 1 : slash - dir] = '\0';
    }
    enum ebb_status status = read_all(dir, git, err);
    ebb_free(dir);
    if (status != EBB_OK)
        cli_git_fini(git);
    return status;
}
