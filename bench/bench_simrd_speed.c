/* bench_simrd_speed.c - rules simrd against the published simulator's recorded CPU seconds,
 * measured from outside.
 *
 *     build/bench/bench_simrd_speed [FOLDER [EBB]]      defaults: ../shared/data/simrd, build/ebb;
 * skipped when absent
 *
 * For every recorded run that ended ok on CPython and took at least 10 ms, `ebb sim` is run as a
 * process twice, with
 * --repeat 1 and --repeat K; the slope of its CPU time over K is the time of one run. Ratios are
 * geometric means per log. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/doc.h"

static const char *const heuristics[][2] = {{"DTREqClass", "300"}, {"DTR", "500"}};

/* CPU seconds of `ebb sim LOG --policy P --budget B --rules simrd --repeat K`, or a negative
 * number. */
static double cpu_of(const char *ebb, const char *log, const char *policy, const char *budget,
                     int repeat)
{
    char times[16];
    snprintf(times, sizeof times, "%d", repeat);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout))
            _exit(127);
        execl(ebb, ebb, "sim", log, "--policy", policy, "--budget", budget, "--rules", "simrd",
              "--repeat", times, "--jobs", "1", "--json", (char *)NULL);
        _exit(127);
    }
    int state;
    struct rusage usage;
    if (child < 0 || wait4(child, &state, 0, &usage) < 0 || !WIFEXITED(state) || WEXITSTATUS(state))
        return -1;
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static double speedup(const char *ebb, const char *log, const char *policy, const char *budget,
                      double recorded)
{
    int repeat = (int)(0.15 / (recorded / 600)) + 50; /* about 0.15 s */
    double best = 0;
    for (int round = 0; round < 2; round++) {
        double one = cpu_of(ebb, log, policy, budget, 1),
               many = cpu_of(ebb, log, policy, budget, repeat + 1);
        if (one < 0 || many < 0)
            return NAN;
        double ratio = recorded / ((many - one) / repeat);
        best = ratio > best ? ratio : best;
    }
    return best;
}

static int bench_model(const char *ebb, const char *folder, const char *name,
                       const struct ebb_doc_node *model)
{
    const struct ebb_doc_node *runs = ebb_doc_get(model, "runs");
    char log[4096];
    snprintf(log, sizeof log, "%s/%s", folder, ebb_doc_string(model, "log", "?"));
    for (size_t h = 0; h < sizeof heuristics / sizeof *heuristics; h++) {
        double sum = 0;
        int count = 0;
        printf("%-18s %-11s", name, heuristics[h][0]);
        for (size_t i = 0; runs && i < runs->count; i++) {
            const struct ebb_doc_node *run = runs->items[i];
            double recorded = ebb_doc_double(run, "cpu_s", 0);
            char budget[32];
            if (strcmp(ebb_doc_string(run, "heuristic", ""), heuristics[h][0]) != 0 ||
                strcmp(ebb_doc_string(run, "kind", ""), "pareto") != 0 ||
                strcmp(ebb_doc_string(run, "result", ""), "ok") != 0 ||
                strcmp(ebb_doc_string(run, "interp", ""), "cpython") != 0 || recorded < 0.01)
                continue;
            snprintf(budget, sizeof budget, "%lld", (long long)ebb_doc_int(run, "budget", 0));
            double ratio = speedup(ebb, log, heuristics[h][0], budget, recorded);
            if (isnan(ratio))
                return 1;
            printf(" %.0f", ratio);
            fflush(stdout);
            sum += log10(ratio);
            count++;
        }
        if (count)
            printf("  -> %.0fx (bar %s, goal 1000)", pow(10, sum / count), heuristics[h][1]);
        printf("\n");
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "../shared/data/simrd";
    const char *ebb = argc > 2 ? argv[2] : "build/ebb";
    char path[4096];
    struct ebb_arena arena;
    const struct ebb_doc_node *root;
    struct ebb_error err;
    snprintf(path, sizeof path, "%s/golden.json", folder);
    if (access(path, R_OK) != 0 || access(ebb, X_OK) != 0) {
        printf("bench_simrd_speed: skipped, needs %s and %s\n", path, ebb);
        return 0;
    }
    ebb_arena_init(&arena);
    if (ebb_doc_load(&arena, path, &root, &err) != EBB_OK) {
        fprintf(stderr, "bench_simrd_speed: %s\n", err.message);
        return 1;
    }
    const struct ebb_doc_node *models = ebb_doc_get(root, "models");
    int code = 0;
    for (size_t i = 0; models && i < models->count && code == 0; i++)
        code = bench_model(ebb, folder, models->keys[i]->text, models->items[i]);
    ebb_arena_fini(&arena);
    return code;
}
