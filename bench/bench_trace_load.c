/* bench_trace_load.c - how fast and in how much memory traces are read and written.
 *
 *     bench_trace_load [OPS [FOLDER]]        default 1000000 ops, /tmp; the files are removed
 *
 * Makes a random trace, writes it as native file and as DTR log, and loads both, each in a process
 * of its own, so that memory is that of this one load: peak resident memory, and the part of it
 * that is not the mapped file. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "trace/trace.h"

static uint64_t status_kib(const char *field)
{
    char line[200];
    unsigned long long value = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            sscanf(line + strlen(field), ": %llu", &value);
    if (f != NULL)
        fclose(f);
    return value;
}

static int load(const char *path, const char *what)
{
    struct ebb_error err;
    struct trace *t = NULL;
    struct stat st;
    uint64_t best = UINT64_MAX, peak = 0, mapped = 0;
    if (stat(path, &st) != 0)
        return 1;
    for (int i = 0; i < 3; i++) {
        uint64_t begin = ebb_clock_ns();
        if (trace_load(path, TRACE_FORMAT_AUTO, &t, &err) != EBB_OK) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        uint64_t ns = ebb_clock_ns() - begin;
        best = ns < best ? ns : best;
        if (i == 0)
            peak = status_kib("VmHWM") * 1024;
        if (i < 2)
            trace_destroy(t);
    }
    mapped = (uint64_t)st.st_size;
    double mib = (double)st.st_size / 1e6;
    printf("%-7s %8.1f MB %7.3f s %8.1f MB/s %9.2f Mop/s  peak %6.1f MB, without the file %6.1f MB "
           "= %5.1f B/op"
           "  trace %5.1f B/op\n",
           what, mib, (double)best / 1e9, mib / ((double)best / 1e9),
           (double)t->op_count / 1e6 / ((double)best / 1e9), (double)peak / 1e6,
           (double)(peak - mapped) / 1e6, (double)(peak - mapped) / t->op_count,
           (double)t->arena.total_bytes / t->op_count);
    trace_destroy(t);
    return 0;
}

static int load_apart(const char *path, const char *what)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int code = load(path, what);
        fflush(stdout);
        _exit(code);
    }
    int status = 1;
    return child < 0 || waitpid(child, &status, 0) < 0 || status != 0;
}

static int write_files(uint32_t ops, const char *native, const char *log)
{
    struct ebb_error err;
    struct trace *t = NULL;
    struct trace_synth synth = {
        .ops = ops, .seed = 1, .spread = 1, .has_views = true, .has_multi_output = true};
    uint64_t begin = ebb_clock_ns();
    const struct trace_shape *shape = NULL;
    for (size_t i = 0; i < trace_shape_count; i++)
        if (strcmp(trace_shapes[i].name, "random") == 0)
            shape = &trace_shapes[i];
    if (shape->make(&synth, &t, &err) != EBB_OK)
        goto out;
    uint64_t made = ebb_clock_ns();
    if (trace_write_native(t, native, &err) != EBB_OK)
        goto out;
    uint64_t written = ebb_clock_ns();
    if (trace_write_dtr(t, log, NULL, 0, &err) != EBB_OK)
        goto out;
    printf("%u ops, %u commands: made in %.2f s, native written in %.2f s, log in %.2f s\n",
           t->op_count, t->command_count, (double)(made - begin) / 1e9,
           (double)(written - made) / 1e9, (double)(ebb_clock_ns() - written) / 1e9);
    trace_destroy(t);
    return 0;
out:
    fprintf(stderr, "%s\n", err.message);
    trace_destroy(t);
    return 1;
}

int main(int argc, char **argv)
{
    uint64_t ops = 1000000;
    char native[300], log[300];
    if (argc > 1 && (!ebb_parse_u64(argv[1], &ops) || ops == 0 || ops > 10000000)) {
        fprintf(stderr, "usage: bench_trace_load [OPS [FOLDER]]\n");
        return 2;
    }
    snprintf(native, sizeof native, "%s/ebb_bench_%d.trace", argc > 2 ? argv[2] : "/tmp", getpid());
    snprintf(log, sizeof log, "%s/ebb_bench_%d.log", argc > 2 ? argv[2] : "/tmp", getpid());
    fflush(stdout);
    pid_t child = fork(); /* making the trace must not count as memory of loading it */
    if (child == 0) {
        int code = write_files((uint32_t)ops, native, log);
        fflush(stdout);
        _exit(code);
    }
    int status = 1;
    int failed = child < 0 || waitpid(child, &status, 0) < 0 || status != 0;
    if (!failed)
        failed = load_apart(native, "native") || load_apart(log, "dtr");
    unlink(native);
    unlink(log);
    return failed;
}
