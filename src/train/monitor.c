/* monitor.c - see monitor.h. */
#include "train/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/thread.h"

#define PERIOD_NS 10000000

struct train_monitor {
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows up to `op` */
    struct train_sight sight;
    const struct trace *trace;
    uint64_t accounted_bytes;
    int64_t update;
    _Atomic uint32_t op;
    atomic_bool is_over;
    int file; /* /proc/self/statm */
    uint64_t page_bytes;
};

/* Resident pages that are no file's. */
static uint64_t observe(const struct train_monitor *m)
{
    char text[128];
    unsigned long long size, resident, shared;
    ssize_t n = pread(m->file, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    if (sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3 || resident < shared)
        return 0;
    return (uint64_t)(resident - shared) * m->page_bytes;
}

static void sample(struct train_monitor *m)
{
    pthread_mutex_lock(&m->lock);
    uint64_t observed = observe(m), accounted = m->accounted_bytes;
    struct train_sight *s = &m->sight;
    s->samples++;
    s->observed_bytes = observed > s->observed_bytes ? observed : s->observed_bytes;
    s->accounted_bytes = accounted > s->accounted_bytes ? accounted : s->accounted_bytes;
    if (accounted && observed > accounted && observed - accounted > s->beyond_bytes) {
        s->beyond_bytes = observed - accounted;
        s->update = m->update;
        s->trace = m->trace;
        s->op = atomic_load_explicit(&m->op, memory_order_relaxed);
    }
    pthread_mutex_unlock(&m->lock);
}

static void *run(void *argument)
{
    struct train_monitor *m = argument;
    while (!atomic_load(&m->is_over)) {
        sample(m);
        nanosleep(&(struct timespec){.tv_nsec = PERIOD_NS}, NULL);
    }
    return NULL;
}

enum ebb_status train_monitor_start(struct train_monitor **monitor, struct ebb_error *err)
{
    struct train_monitor *m;
    EBB_TRY(ebb_new(&m, 1, sizeof *m, err));
    m->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    m->file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (m->file < 0) {
        ebb_free(m);
        return ebb_fail(err, EBB_EUNSUPPORTED,
                        "memory.with_async_mem_monitor reads /proc/self/statm: %s",
                        strerror(errno));
    }
    pthread_mutex_init(&m->lock, NULL);
    int reason = ebb_thread_start(&m->thread, run, m);
    if (reason != 0) {
        close(m->file);
        pthread_mutex_destroy(&m->lock);
        ebb_free(m);
        return ebb_fail(err, EBB_ENOMEM, "the monitor's thread does not start: %s",
                        strerror(reason));
    }
    *monitor = m;
    return EBB_OK;
}

void train_monitor_stop(struct train_monitor *m)
{
    if (!m)
        return;
    atomic_store(&m->is_over, true);
    pthread_join(m->thread, NULL);
    pthread_mutex_destroy(&m->lock);
    close(m->file);
    ebb_free(m);
}

void train_monitor_tell(struct train_monitor *m, const struct trace *trace,
                        uint64_t accounted_bytes, int64_t update)
{
    pthread_mutex_lock(&m->lock);
    m->trace = trace;
    m->accounted_bytes = accounted_bytes;
    m->update = update;
    atomic_store_explicit(&m->op, TRACE_NONE, memory_order_relaxed); /* that of another program */
    pthread_mutex_unlock(&m->lock);
}

_Atomic uint32_t *train_monitor_op(struct train_monitor *m)
{
    return &m->op;
}

void train_monitor_look(struct train_monitor *m, struct train_sight *sight)
{
    pthread_mutex_lock(&m->lock);
    *sight = m->sight;
    pthread_mutex_unlock(&m->lock);
}
