/* mip.c - building a program, writing it, and solving it in a child process. */
#include "planner/mip.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/heap.h"

void planner_mip_fini(struct planner_mip *mip)
{
    ebb_free(mip->col_lower);
    ebb_free(mip->col_upper);
    ebb_free(mip->objective);
    ebb_free(mip->is_integer);
    ebb_free(mip->row_lower);
    ebb_free(mip->row_upper);
    ebb_free(mip->row_start);
    ebb_free(mip->coefs);
    ebb_free(mip->cols);
    *mip = (struct planner_mip){0};
}

static bool has_room(struct planner_mip *mip, void *array, size_t *capacity, size_t count,
                     size_t bytes)
{
    mip->is_short |= ebb_grow(array, capacity, count + 1, bytes, NULL) != EBB_OK;
    return !mip->is_short;
}

int planner_mip_col(struct planner_mip *mip, double lower, double upper, double cost,
                    bool is_integer)
{
    size_t n = mip->col_count;
    if (!has_room(mip, &mip->col_lower, &mip->col_capacity[0], n, sizeof(double)) ||
        !has_room(mip, &mip->col_upper, &mip->col_capacity[1], n, sizeof(double)) ||
        !has_room(mip, &mip->objective, &mip->col_capacity[2], n, sizeof(double)) ||
        !has_room(mip, &mip->is_integer, &mip->col_capacity[3], n, sizeof(bool)))
        return 0;
    mip->col_lower[n] = lower;
    mip->col_upper[n] = upper;
    mip->objective[n] = cost;
    mip->is_integer[n] = is_integer;
    mip->col_count++;
    return (int)n;
}

void planner_mip_row(struct planner_mip *mip, double lower, double upper)
{
    size_t n = mip->row_count;
    if (!has_room(mip, &mip->row_lower, &mip->row_capacity[0], n, sizeof(double)) ||
        !has_room(mip, &mip->row_upper, &mip->row_capacity[1], n, sizeof(double)) ||
        !has_room(mip, &mip->row_start, &mip->row_capacity[2], n, sizeof(size_t)))
        return;
    mip->row_lower[n] = lower;
    mip->row_upper[n] = upper;
    mip->row_start[n] = mip->coef_count;
    mip->row_count++;
}

void planner_mip_term(struct planner_mip *mip, int col, double coef)
{
    size_t n = mip->coef_count;
    if (col < 0 || !has_room(mip, &mip->coefs, &mip->coef_capacity[0], n, sizeof(double)) ||
        !has_room(mip, &mip->cols, &mip->coef_capacity[1], n, sizeof(int)))
        return;
    mip->coefs[n] = coef;
    mip->cols[n] = col;
    mip->coef_count++;
}

void planner_mip_at_most(struct planner_mip *mip, int a, int b, int c)
{
    planner_mip_row(mip, -PLANNER_INF, 0);
    planner_mip_term(mip, a, 1);
    planner_mip_term(mip, b, -1);
    planner_mip_term(mip, c, -1);
}

void planner_mip_constant(struct planner_mip *mip, double constant)
{
    if (mip->is_short)
        return;
    mip->row_lower[mip->row_count - 1] -= constant;
    mip->row_upper[mip->row_count - 1] -= constant;
}

void planner_mip_upper(struct planner_mip *mip, double upper)
{
    if (!mip->is_short)
        mip->row_upper[mip->row_count - 1] = upper;
}

enum ebb_status planner_mip_status(const struct planner_mip *mip, struct ebb_error *err)
{
    return mip->is_short ? ebb_no_memory(err, mip->coef_count * sizeof *mip->coefs) : EBB_OK;
}

static void write_rows(const struct planner_mip *mip, FILE *f)
{
    for (size_t r = 0; r < mip->row_count; r++) {
        size_t end = r + 1 < mip->row_count ? mip->row_start[r + 1] : mip->coef_count;
        for (int side = 0; side < 2; side++) {
            double limit = side ? mip->row_upper[r] : mip->row_lower[r];
            bool is_equal = mip->row_lower[r] == mip->row_upper[r];
            if (limit <= -PLANNER_INF || limit >= PLANNER_INF || (side && is_equal) ||
                end == mip->row_start[r])
                continue;
            fprintf(f, " r%zu%s:", r, side ? "u" : "l");
            for (size_t k = mip->row_start[r]; k < end; k++)
                fprintf(f, " %+.17g x%d%s", mip->coefs[k], mip->cols[k], k % 8 == 7 ? "\n" : "");
            fprintf(f, " %s %.17g\n", is_equal ? "=" : side ? "<=" : ">=", limit);
        }
    }
}

enum ebb_status planner_mip_write_lp(const struct planner_mip *mip, const char *path,
                                     const char *comment, struct ebb_error *err)
{
    struct ebb_file_out out;
    EBB_TRY(ebb_file_out_open(&out, path, err));
    FILE *f = out.stream;
    fprintf(f, "\\ %s\n\\ constant of the objective: %.17g\nMinimize\n obj:", comment, mip->offset);
    for (size_t c = 0; c < mip->col_count; c++)
        if (mip->objective[c] != 0)
            fprintf(f, " %+.17g x%zu%s", mip->objective[c], c, c % 8 == 7 ? "\n" : "");
    fprintf(f, "\nSubject To\n");
    write_rows(mip, f);
    fprintf(f, "Bounds\n");
    for (size_t c = 0; c < mip->col_count; c++)
        fprintf(f, " %.17g <= x%zu <= %.17g\n", mip->col_lower[c], c, mip->col_upper[c]);
    fprintf(f, "Generals\n");
    for (size_t c = 0; c < mip->col_count; c++)
        if (mip->is_integer[c])
            fprintf(f, " x%zu%s", c, c % 16 == 15 ? "\n" : "");
    fprintf(f, "\nEnd\n");
    return ebb_file_out_commit(&out, err);
}

/* ---- the child ------------------------------------------------------------------------------ */

void planner_mip_result_fini(struct planner_mip_result *result)
{
    ebb_free(result->x);
    *result = (struct planner_mip_result){0};
}

/* Read until n bytes or the deadline; false when either the time or the child is over first. */
static bool read_all(int fd, void *data, size_t n, uint64_t deadline_ns)
{
    char *p = data;
    while (n > 0) {
        uint64_t now = ebb_clock_ns();
        if (now >= deadline_ns)
            return false;
        uint64_t wait_ms = (deadline_ns - now) / 1000000 + 1;
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        int ready = poll(&poll_fd, 1, wait_ms > 1000000 ? 1000000 : (int)wait_ms);
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready <= 0)
            continue;
        ssize_t got = read(fd, p, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

_Noreturn static void child(const struct planner_mip *mip,
                            const struct planner_mip_options *options,
                            struct planner_mip_result *result, int fd)
{
    int null = open("/dev/null", O_RDWR); /* the solver likes to talk */
    if (null >= 0) {
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
    }
    signal(SIGINT, SIG_IGN); /* the parent decides when to stop */
    planner_mip_solve_here(mip, options, result);
    double *x = result->x;
    result->x = NULL;
    bool ok = ebb_write_all(fd, result, sizeof *result) &&
              (!result->has_x || ebb_write_all(fd, x, mip->col_count * sizeof *x));
    _exit(ok ? 0 : 1);
}

/* A solver at work; when it is needed no more it is ended. */
struct worker {
    pid_t pid;
    int fd;
};

static enum ebb_status begin(const struct planner_mip *mip,
                             const struct planner_mip_options *options, double *x, struct worker *w,
                             struct ebb_error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return ebb_fail(err, EBB_EIO, "planner: no pipe for the solver: %s", strerror(errno));
    w->pid = fork();
    if (w->pid == 0) {
        struct planner_mip_result answer = {.x = x};
        close(fds[0]);
        child(mip, options, &answer, fds[1]);
    }
    close(fds[1]);
    w->fd = fds[0];
    if (w->pid > 0)
        return EBB_OK;
    close(fds[0]);
    return ebb_fail(err, EBB_EIO, "planner: no process for the solver: %s", strerror(errno));
}

static void end(const struct worker *w)
{
    close(w->fd);
    kill(w->pid, SIGKILL);
    while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

enum ebb_status planner_mip_solve(const struct planner_mip *mip,
                                  const struct planner_mip_options *options,
                                  struct planner_mip_result *result, struct ebb_error *err)
{
    struct planner_mip_result answer;
    struct worker w = {0};
    uint64_t start_ns = ebb_clock_ns();
    /* The solver keeps its own limit; a quarter as much again and a second later it is killed. */
    uint64_t deadline_ns = start_ns + (uint64_t)((options->seconds * 1.25 + 1) * 1e9);
    size_t bytes = mip->col_count * sizeof *result->x;
    planner_mip_result_fini(result);
    if (!planner_mip_has_solver()) {
        result->status = PLANNER_MIP_ABSENT;
        return EBB_OK;
    }
    EBB_TRY(ebb_new(&result->x, mip->col_count, sizeof *result->x, err));
    double *x = result->x;
    enum ebb_status status = begin(mip, options, x, &w, err);
    if (status != EBB_OK) {
        planner_mip_result_fini(result);
        return status;
    }
    bool ok = read_all(w.fd, &answer, sizeof answer, deadline_ns) &&
              (!answer.has_x || read_all(w.fd, x, bytes, deadline_ns));
    end(&w); /* it has said all it had to say */
    if (ok)
        *result = answer;
    result->x = x;
    result->seconds = (double)(ebb_clock_ns() - start_ns) * 1e-9;
    return EBB_OK;
}
