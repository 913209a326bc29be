/* machine.c - facts about this machine. Reads only; starts no program. */
#include "cli/machine.h"

#include <ctype.h>
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/str.h"
#include "base/thread.h"

/* Files under /proc say size 0 and cannot be mapped, so they are read. Cut at the buffer; "" when
 * absent. */
static bool slurp(const char *root, const char *path, char *buf, size_t size)
{
    char full[1024];
    buf[0] = '\0';
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof full)
        return false;
    FILE *f = fopen(full, "re");
    if (f == NULL)
        return false;
    size_t got = fread(buf, 1, size - 1, f);
    buf[got] = '\0';
    fclose(f);
    return got > 0;
}

/* The rest of the first line that starts with `key`, without blanks, colon, '=' and quotes around
 * it. */
static bool field(const char *text, const char *key, char *out, size_t size)
{
    size_t n = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        size_t length = end != NULL ? (size_t)(end - line) : strlen(line);
        if (length > n && memcmp(line, key, n) == 0 && strchr(" \t:=", line[n]) != NULL) {
            const char *from = line + n, *to = line + length;
            while (from < to && strchr(" \t:=\"", *from) != NULL)
                from++;
            while (to > from && strchr(" \t\r\"", to[-1]) != NULL)
                to--;
            snprintf(out, size, "%.*s", (int)(to - from), from);
            return true;
        }
        line = end != NULL ? end + 1 : NULL;
    }
    return false;
}

static void probe_system(struct cli_machine *m, const char *root)
{
    char text[4096];
    struct utsname name;
    if (slurp(root, "/etc/os-release", text, sizeof text))
        field(text, "PRETTY_NAME", m->system, sizeof m->system);
    if (slurp(root, "/proc/sys/kernel/osrelease", text, sizeof text))
        snprintf(m->kernel, sizeof m->kernel, "%.*s", (int)strcspn(text, "\n"), text);
    else if (root[0] == '\0' && uname(&name) == 0)
        snprintf(m->kernel, sizeof m->kernel, "%s", name.release);
}

/* True when `word` is one of the blank-separated words of `text`. */
static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        if ((at == text || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

static void probe_cpu(struct cli_machine *m, const char *root)
{
    static const char *const telling[] = {
        "avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "asimd", "sve", "bf16"};
    char text[16384], flags[4096];
    if (slurp(root, "/proc/cpuinfo", text, sizeof text)) {
        field(text, "model name", m->cpu, sizeof m->cpu);
        if (!field(text, "flags", flags, sizeof flags) &&
            !field(text, "Features", flags, sizeof flags))
            flags[0] = '\0';
        size_t at = 0;
        for (size_t i = 0; i < sizeof telling / sizeof telling[0]; i++)
            if (has_word(flags, telling[i]))
                at += (size_t)snprintf(m->cpu_features + at, sizeof m->cpu_features - at, "%s%s",
                                       at > 0 ? " " : "", telling[i]);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    m->cpus_online = online > 0 ? (int)online : 0;
    m->cpus_usable = ebb_cpu_count();
}

static uint64_t kib(const char *text, const char *key)
{
    char value[64];
    uint64_t n = 0;
    if (!field(text, key, value, sizeof value))
        return 0;
    value[strcspn(value, " ")] = '\0';
    return ebb_parse_u64(value, &n) && n <= UINT64_MAX / 1024 ? n * 1024 : 0;
}

static void probe_memory(struct cli_machine *m, const char *root)
{
    char text[8192];
    if (!slurp(root, "/proc/meminfo", text, sizeof text))
        return;
    m->memory_bytes = kib(text, "MemTotal");
    m->memory_available_bytes = kib(text, "MemAvailable");
}

/* ---- cgroups ------------------------------------------------------------------------------ */

/* A limit file holds a number or "max"; version 1 says "no limit" by a number near 2^63. */
static void take_memory_limit(struct cli_machine *m, const char *root, const char *path)
{
    char text[128];
    uint64_t n;
    if (!slurp(root, path, text, sizeof text))
        return;
    text[strcspn(text, "\n")] = '\0';
    if (!ebb_parse_u64(text, &n) || n == 0 || n >= UINT64_C(1) << 60)
        return;
    if (m->memory_limit_bytes == 0 || n < m->memory_limit_bytes)
        m->memory_limit_bytes = n;
}

static void take_cpu_quota(struct cli_machine *m, double quota, double period)
{
    if (quota > 0 && period > 0 && (m->cpu_quota <= 0 || quota / period < m->cpu_quota))
        m->cpu_quota = quota / period;
}

static void take_cpu_max(struct cli_machine *m, const char *root, const char *path)
{
    char text[128], *space;
    double quota, period;
    if (!slurp(root, path, text, sizeof text))
        return;
    text[strcspn(text, "\n")] = '\0';
    space = strchr(text, ' ');
    if (space == NULL)
        return;
    *space = '\0';
    if (ebb_parse_double(text, &quota) && ebb_parse_double(space + 1, &period)) /* not "max" */
        take_cpu_quota(m, quota, period);
}

static double number_in(const char *root, const char *path)
{
    char text[128];
    double value = 0;
    if (!slurp(root, path, text, sizeof text))
        return 0;
    text[strcspn(text, "\n")] = '\0';
    return ebb_parse_double(text, &value) ? value : 0;
}

/* A limit binds when it stands anywhere between our group and the root: walk up. `controller` is ""
 * for version 2. Inside a container the path may not exist below the mount; then only the root is
 * read. */
static void probe_group(struct cli_machine *m, const char *root, const char *controller,
                        char *group)
{
    char path[1024];
    for (;;) {
        const char *base = "/sys/fs/cgroup";
        if (controller[0] == '\0') {
            snprintf(path, sizeof path, "%s%s/memory.max", base, group);
            take_memory_limit(m, root, path);
            snprintf(path, sizeof path, "%s%s/cpu.max", base, group);
            take_cpu_max(m, root, path);
        } else if (strcmp(controller, "memory") == 0) {
            snprintf(path, sizeof path, "%s/memory%s/memory.limit_in_bytes", base, group);
            take_memory_limit(m, root, path);
        } else {
            snprintf(path, sizeof path, "%s/cpu%s/cpu.cfs_quota_us", base, group);
            double quota = number_in(root, path);
            snprintf(path, sizeof path, "%s/cpu%s/cpu.cfs_period_us", base, group);
            take_cpu_quota(m, quota, number_in(root, path));
        }
        char *slash = strrchr(group, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

static bool lists(const char *controllers, size_t length, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i + n <= length; i++)
        if (memcmp(controllers + i, name, n) == 0 && (i == 0 || controllers[i - 1] == ',') &&
            (i + n == length || controllers[i + n] == ','))
            return true;
    return false;
}

/* Lines of /proc/self/cgroup: "0::/user.slice" (version 2), "4:memory:/docker/ab12" (version 1). */
static void probe_cgroup(struct cli_machine *m, const char *root)
{
    char text[4096], group[768];
    slurp(root, "/proc/self/cgroup", text, sizeof text);
    for (char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *first = memchr(line, ':', length);
        const char *second =
            first != NULL ? memchr(first + 1, ':', length - (size_t)(first + 1 - line)) : NULL;
        if (second != NULL) {
            size_t names = (size_t)(second - first - 1);
            int n = (int)(line + length - (second + 1));
            static const char *const known[] = {"memory", "cpu"};
            if (names == 0 &&
                snprintf(group, sizeof group, "%.*s", n, second + 1) < (int)sizeof group)
                probe_group(m, root, "", group);
            for (size_t i = 0; i < 2; i++)
                if (lists(first + 1, names, known[i]) &&
                    snprintf(group, sizeof group, "%.*s", n, second + 1) < (int)sizeof group)
                    probe_group(m, root, known[i], group);
        }
        line += length + (line[length] == '\n');
    }
}

/* ---- GPU ---------------------------------------------------------------------------------- */

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ...": the first word like
 * 550.54. */
static void probe_driver(struct cli_machine *m, const char *root)
{
    char text[1024];
    if (!slurp(root, "/proc/driver/nvidia/version", text, sizeof text))
        return;
    text[strcspn(text, "\n")] = '\0';
    for (const char *c = text; *c != '\0'; c++) {
        size_t n = strspn(c, "0123456789.");
        bool starts = c == text || c[-1] == ' ';
        if (starts && n >= 4 && isdigit((unsigned char)*c) && memchr(c, '.', n) != NULL &&
            (c[n] == ' ' || c[n] == '\0')) {
            snprintf(m->gpu_driver, sizeof m->gpu_driver, "%.*s", (int)n, c);
            return;
        }
    }
    snprintf(m->gpu_driver, sizeof m->gpu_driver, "unknown version");
}

/* Names from the kernel module's files: known even where the user library is missing. */
static void probe_gpu_files(struct cli_machine *m, const char *root)
{
    char pattern[1024], text[4096];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/proc/driver/nvidia/gpus/*/information", root);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc && m->gpu_count < CLI_MACHINE_GPUS; i++) {
        struct cli_gpu *gpu = &m->gpus[m->gpu_count++];
        slurp("", found.gl_pathv[i], text, sizeof text);
        if (!field(text, "Model", gpu->name, sizeof gpu->name))
            snprintf(gpu->name, sizeof gpu->name, "NVIDIA GPU");
    }
    globfree(&found);
}

/* Symbols are fetched by memcpy: C has no cast from object to function pointer. */
static bool symbol(void *library, const char *name, void *function, size_t size)
{
    void *found = dlsym(library, name);
    if (found != NULL)
        memcpy(function, &found, size);
    return found != NULL;
}

/* The driver's own answer, with memory sizes. Its four functions have had these types since
 * CUDA 3.2. */
static void probe_gpu_driver(struct cli_machine *m)
{
    int (*init)(unsigned), (*count)(int *), (*name)(char *, int, int), (*memory)(size_t *, int);
    int devices = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    if (symbol(library, "cuInit", &init, sizeof init) &&
        symbol(library, "cuDeviceGetCount", &count, sizeof count) &&
        symbol(library, "cuDeviceGetName", &name, sizeof name) &&
        symbol(library, "cuDeviceTotalMem_v2", &memory, sizeof memory) && init(0) == 0 &&
        count(&devices) == 0) {
        m->gpu_count = 0;
        for (int i = 0; i < devices && i < CLI_MACHINE_GPUS; i++) {
            struct cli_gpu *gpu = &m->gpus[m->gpu_count++];
            size_t bytes = 0;
            if (name(gpu->name, (int)sizeof gpu->name, i) != 0)
                snprintf(gpu->name, sizeof gpu->name, "NVIDIA GPU");
            gpu->memory_bytes = memory(&bytes, i) == 0 ? bytes : 0;
        }
    }
    dlclose(library);
}

void cli_machine_probe(struct cli_machine *machine, const char *root)
{
    *machine = (struct cli_machine){0};
    probe_system(machine, root);
    probe_cpu(machine, root);
    probe_memory(machine, root);
    probe_cgroup(machine, root);
    probe_driver(machine, root);
    probe_gpu_files(machine, root);
    if (root[0] == '\0')
        probe_gpu_driver(machine);
}

bool cli_machine_which(const char *program, const char *path, char *buf, size_t size)
{
    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");
        struct stat st;
        int length = snprintf(buf, size, "%.*s/%s", (int)n, path, program);
        if (n > 0 && length > 0 && (size_t)length < size && access(buf, X_OK) == 0 &&
            stat(buf, &st) == 0 && S_ISREG(st.st_mode))
            return true;
        path += n + (path[n] == ':');
    }
    if (size > 0)
        buf[0] = '\0';
    return false;
}

uint64_t cli_machine_bytes(void)
{
    struct cli_machine machine;
    cli_machine_probe(&machine, "");
    uint64_t most = machine.memory_limit_bytes;
    return most && most < machine.memory_bytes ? most : machine.memory_bytes;
}
