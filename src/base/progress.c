/* progress.c - the progress line on stderr.
 *
 * Counting is one atomic addition; only the thread that finds a tenth of a second gone takes the
 * lock and draws. The clock here decides when to draw, never what is computed. */
#include "base/progress.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/str.h"

enum { PROGRESS_BAR = 20, PROGRESS_LINE = 512 };
static const uint64_t progress_interval_ns = 100000000;

struct ebb_progress {
    atomic_uint_fast64_t done;
    atomic_uint_fast64_t next_draw_ns; /* since start */
    uint64_t total, start_ns;
    pthread_mutex_t lock; /* guards note and the terminal */
    char what[64], note[160];
};

struct ebb_progress *ebb_progress_create(const char *what, uint64_t total)
{
    if (!isatty(STDERR_FILENO))
        return NULL;
    struct ebb_progress *p = ebb_calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->total = total;
    p->start_ns = ebb_clock_ns();
    atomic_init(&p->next_draw_ns, progress_interval_ns);
    pthread_mutex_init(&p->lock, NULL);
    snprintf(p->what, sizeof p->what, "%s", what);
    return p;
}

static size_t progress_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        return size.ws_col - 1u;
    return 79;
}

static void progress_draw(struct ebb_progress *p, uint64_t elapsed_ns)
{
    char line[PROGRESS_LINE], bar[PROGRESS_BAR + 1], left[40];
    uint64_t done = atomic_load_explicit(&p->done, memory_order_relaxed);
    double rate = (double)done / ((double)elapsed_ns / 1e9);
    int n;
    if (p->total > 0) {
        if (done > p->total)
            done = p->total;
        double fraction = (double)done / (double)p->total;
        size_t full = (size_t)(fraction * PROGRESS_BAR);
        memset(bar, '.', PROGRESS_BAR);
        memset(bar, '#', full);
        bar[PROGRESS_BAR] = '\0';
        if (done > 0)
            ebb_format_ns((uint64_t)((double)elapsed_ns * (1.0 - fraction) / fraction), left,
                          sizeof left);
        else
            snprintf(left, sizeof left, "?");
        n = snprintf(line, sizeof line,
                     "%s [%s] %3.0f%%  %" PRIu64 "/%" PRIu64 "  %.3g/s  %s left  %s", p->what, bar,
                     fraction * 100, done, p->total, rate, left, p->note);
        if (n > (int)progress_width()) /* what is said is worth more than the bar */
            n = snprintf(line, sizeof line, "%s %.0f%% %" PRIu64 "/%" PRIu64 "  %s left  %s",
                         p->what, fraction * 100, done, p->total, left, p->note);
    } else {
        n = snprintf(line, sizeof line, "%s  %" PRIu64 "  %.3g/s  %s  %s", p->what, done, rate,
                     ebb_format_ns(elapsed_ns, left, sizeof left), p->note);
    }
    size_t width = progress_width(), length = n < 0 ? 0 : (size_t)n;
    if (length >= sizeof line)
        length = sizeof line - 1;
    if (length > width)
        length = width;
    fprintf(stderr, "\r%.*s\033[K", (int)length, line);
    fflush(stderr);
}

/* Draw if it is time; of several threads that ask at once only one does. */
static void progress_tick(struct ebb_progress *p)
{
    uint64_t elapsed = ebb_clock_ns() - p->start_ns;
    uint_fast64_t due = atomic_load_explicit(&p->next_draw_ns, memory_order_relaxed);
    if (elapsed < due || !atomic_compare_exchange_strong_explicit(
                             &p->next_draw_ns, &due, elapsed + progress_interval_ns,
                             memory_order_relaxed, memory_order_relaxed))
        return;
    pthread_mutex_lock(&p->lock);
    progress_draw(p, elapsed);
    pthread_mutex_unlock(&p->lock);
}

void ebb_progress_add(struct ebb_progress *p, uint64_t done)
{
    if (!p)
        return;
    atomic_fetch_add_explicit(&p->done, done, memory_order_relaxed);
    progress_tick(p);
}

void ebb_progress_note(struct ebb_progress *p, const char *fmt, ...)
{
    if (!p)
        return;
    va_list args;
    va_start(args, fmt);
    pthread_mutex_lock(&p->lock);
    vsnprintf(p->note, sizeof p->note, fmt, args);
    pthread_mutex_unlock(&p->lock);
    va_end(args);
    progress_tick(p);
}

void ebb_progress_destroy(struct ebb_progress *p)
{
    if (!p)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    pthread_mutex_destroy(&p->lock);
    ebb_free(p);
}
