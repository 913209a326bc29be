/* cmd_doctor.c - ebb doctor: what this machine has, what is missing and the command that installs
 * it, what this build cannot run yet. Looks only; changes nothing, starts nothing. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/heap.h"
#include "base/library.h"
#include "base/str.h"
#include "cli/machine.h"
#include "cli/json.h"
#include "cli/master.h"
#include "exp/exp.h"

/* Programs that ebb starts. */
static const struct tool {
    const char *name, *purpose, *package;
} tools[] = {
    {"rsvg-convert", "charts as PNG and PDF", "librsvg2-bin"},
    {"python3", "trials in Python", "python3"},
    {"git", "'ebb run --git': which commit an experiment was made from", "git"},
};
#define TOOL_COUNT (sizeof tools / sizeof tools[0])

/* Libraries chosen when ebb was built (no file), and those that are loaded when first needed. */
static const struct library {
    const char *name, *purpose, *package, *file;
    bool is_built_in;
} libraries[] = {
#ifdef EBB_HAVE_CBC
    {"cbc", "exact planner (ilp) and its bounds", "coinor-libcbc-dev", NULL, true},
#else
    {"cbc", "exact planner (ilp) and its bounds", "coinor-libcbc-dev", NULL, false},
#endif
    {"page", "'ebb serve' in a browser: fetched by npm when ebb is built", "nodejs npm", NULL,
     false},
    {"libssl", "'ebb serve' with TLS", "libssl3", "libssl.so.3", false},
    {"libcurl", "asking a master in another process; S3, GCS, HDFS", EBB_CURL_PACKAGE,
     EBB_CURL_FILE, false},
    {"libarchive", "model definitions as tar.gz", EBB_ARCHIVE_PACKAGE, EBB_ARCHIVE_FILE, false},
};
#define LIBRARY_COUNT (sizeof libraries / sizeof libraries[0])

struct finding {
    struct cli_machine machine;
    char tool_path[TOOL_COUNT][512]; /* "" = missing */
    bool has_library[LIBRARY_COUNT];
    char state[512];           /* state directory; "" = neither $EBB_STATE nor $HOME */
    uint64_t state_free_bytes; /* 0 = not known */
};

/* $EBB_STATE, else ${XDG_STATE_HOME:-~/.local/state}/ebb. Free space: of the nearest folder that
 * exists. */
static void find_state(struct finding *f)
{
    char *state = NULL;
    if (cli_state_dir(NULL, &state, NULL) == EBB_OK)
        snprintf(f->state, sizeof f->state, "%s", state);
    ebb_free(state);
    char folder[sizeof f->state];
    snprintf(folder, sizeof folder, "%s", f->state);
    while (folder[0] != '\0') {
        struct statvfs fs;
        if (statvfs(folder, &fs) == 0) {
            f->state_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
            return;
        }
        char *slash = strrchr(folder, '/');
        if (slash == NULL)
            return;
        slash[slash == folder && slash[1] != '\0'] = '\0';
    }
}

static void look(struct finding *f)
{
    memset(f, 0, sizeof *f);
    cli_machine_probe(&f->machine, "");
    for (size_t i = 0; i < TOOL_COUNT; i++)
        cli_machine_which(tools[i].name, getenv("PATH"), f->tool_path[i], sizeof f->tool_path[i]);
    for (size_t i = 0; i < LIBRARY_COUNT; i++)
        f->has_library[i] =
            libraries[i].file != NULL
                ? ebb_library_load(libraries[i].file, libraries[i].package, NULL, 0, NULL) == EBB_OK
                : libraries[i].is_built_in ||
                      (strcmp(libraries[i].name, "page") == 0 && serve_has_page());
    find_state(f);
}

/* ---- for people --------------------------------------------------------------------------- */

static const char *or_unknown(const char *text)
{
    return text[0] != '\0' ? text : "unknown";
}

static void print_machine(const struct cli_machine *m)
{
    char a[32], b[32];
    printf("Machine\n");
    printf("  system     %s, Linux %s\n", or_unknown(m->system), or_unknown(m->kernel));
    printf("  processor  %s%s%s%s\n", or_unknown(m->cpu), m->cpu_features[0] != '\0' ? " (" : "",
           m->cpu_features, m->cpu_features[0] != '\0' ? ")" : "");
    printf("  cores      %d usable of %d online", m->cpus_usable, m->cpus_online);
    if (m->cpu_quota > 0)
        printf(", cgroup limit %.3g", m->cpu_quota);
    printf("\n  memory     %s, %s available", ebb_format_bytes(m->memory_bytes, a, sizeof a),
           ebb_format_bytes(m->memory_available_bytes, b, sizeof b));
    if (m->memory_limit_bytes > 0)
        printf(", cgroup limit %s", ebb_format_bytes(m->memory_limit_bytes, a, sizeof a));
    putchar('\n');
    if (m->gpu_driver[0] == '\0' && m->gpu_count == 0)
        printf("  GPU        no NVIDIA driver\n");
    else if (m->gpu_count == 0)
        printf("  GPU        driver %s, no device\n", m->gpu_driver);
    for (size_t i = 0; i < m->gpu_count; i++) {
        printf("  GPU %-2zu     %s", i, m->gpus[i].name);
        if (m->gpus[i].memory_bytes > 0)
            printf(", %s", ebb_format_bytes(m->gpus[i].memory_bytes, a, sizeof a));
        printf(", driver %s\n", or_unknown(m->gpu_driver));
    }
}

static void print_state(const struct finding *f)
{
    char a[32];
    if (f->state[0] == '\0') {
        printf("  state      no folder: neither EBB_STATE nor HOME is set\n");
        return;
    }
    printf("  state      %s", f->state);
    if (f->state_free_bytes > 0)
        printf(", %s free", ebb_format_bytes(f->state_free_bytes, a, sizeof a));
    putchar('\n');
}

static void print_tools(const struct finding *f)
{
    size_t missing = 0;
    printf("\nTools and libraries\n");
    for (size_t i = 0; i < TOOL_COUNT; i++) {
        bool has = f->tool_path[i][0] != '\0';
        printf("  %-12s  %-8s  %s\n", tools[i].name, has ? "found" : "missing", tools[i].purpose);
        missing += !has;
    }
    for (size_t i = 0; i < LIBRARY_COUNT; i++) {
        printf("  %-12s  %-8s  %s\n", libraries[i].name,
               !f->has_library[i]          ? "missing"
               : libraries[i].file == NULL ? "built in"
                                           : "found",
               libraries[i].purpose);
        missing += !f->has_library[i];
    }
    if (missing == 0) {
        printf("  Nothing is missing.\n");
        return;
    }
    bool rebuild = false;
    printf("  To get what is missing:\n      apt-get install");
    for (size_t i = 0; i < TOOL_COUNT; i++)
        if (f->tool_path[i][0] == '\0')
            printf(" %s", tools[i].package);
    for (size_t i = 0; i < LIBRARY_COUNT; i++)
        if (!f->has_library[i]) {
            printf(" %s", libraries[i].package);
            rebuild = rebuild || libraries[i].file == NULL;
        }
    printf("%s\n", rebuild ? "   # then build ebb again" : "");
}

static void print_unbuilt(void)
{
    printf("\nValid in experiment files, but not yet runnable by this build\n");
    if (exp_unbuilt_count == 0)
        printf("  Nothing: all of it runs.\n");
    for (size_t i = 0; i < exp_unbuilt_count; i++) {
        const struct exp_unbuilt *u = &exp_unbuilt_table[i];
        printf("  %s%s%s: %s\n", u->path, u->value[0] != '\0' ? " " : "", u->value, u->reason);
    }
}

/* ---- for programs --------------------------------------------------------------------------- */

static void key_string(struct ebb_json_writer *w, const char *key, const char *text)
{
    ebb_jsonw_key_string(w, key, text[0] != '\0' ? text : NULL);
}

static void key_uint(struct ebb_json_writer *w, const char *key, uint64_t value)
{
    ebb_jsonw_key_uint_or_null(w, key, value, value > 0);
}

static void json_machine(struct ebb_json_writer *w, const struct cli_machine *m)
{
    ebb_jsonw_key_object(w, "machine");
    key_string(w, "system", m->system);
    key_string(w, "kernel", m->kernel);
    key_string(w, "cpu", m->cpu);
    key_string(w, "cpu_features", m->cpu_features);
    key_uint(w, "cpus_usable", (uint64_t)m->cpus_usable);
    key_uint(w, "cpus_online", (uint64_t)m->cpus_online);
    ebb_jsonw_key_double(w, "cpu_quota", m->cpu_quota > 0 ? m->cpu_quota : NAN);
    key_uint(w, "memory_bytes", m->memory_bytes);
    key_uint(w, "memory_available_bytes", m->memory_available_bytes);
    key_uint(w, "memory_limit_bytes", m->memory_limit_bytes);
    key_string(w, "gpu_driver", m->gpu_driver);
    ebb_jsonw_key_array(w, "gpus");
    for (size_t i = 0; i < m->gpu_count; i++) {
        ebb_jsonw_object(w);
        key_string(w, "name", m->gpus[i].name);
        key_uint(w, "memory_bytes", m->gpus[i].memory_bytes);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    ebb_jsonw_object_end(w);
}

static void json_part(struct ebb_json_writer *w, const char *name, const char *kind, bool is_found,
                      const char *path, const char *package)
{
    ebb_jsonw_object(w);
    key_string(w, "name", name);
    key_string(w, "kind", kind);
    ebb_jsonw_key_bool(w, "is_found", is_found);
    key_string(w, "path", path);
    key_string(w, "package", package);
    ebb_jsonw_object_end(w);
}

static int print_json(const struct finding *f)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    key_string(w, "version", EBB_VERSION);
    json_machine(w, &f->machine);
    key_string(w, "state", f->state);
    key_uint(w, "state_free_bytes", f->state_free_bytes);
    ebb_jsonw_key_array(w, "tools");
    for (size_t i = 0; i < TOOL_COUNT; i++)
        json_part(w, tools[i].name, "program", f->tool_path[i][0] != '\0', f->tool_path[i],
                  tools[i].package);
    for (size_t i = 0; i < LIBRARY_COUNT; i++)
        json_part(w, libraries[i].name, "library", f->has_library[i], "", libraries[i].package);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key_array(w, "not_runnable_yet");
    for (size_t i = 0; i < exp_unbuilt_count; i++) {
        ebb_jsonw_object(w);
        key_string(w, "path", exp_unbuilt_table[i].path);
        key_string(w, "value", exp_unbuilt_table[i].value);
        key_string(w, "reason", exp_unbuilt_table[i].reason);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    return cli_json_object_end(&json);
}

static int run(int argc, char **argv)
{
    bool as_json = false;
    const struct cli_spec spec = {
        .usage = "ebb doctor [--json]",
        .description = "Says what this machine has (processor, memory and its limits, GPU), which "
                       "optional tools are\n"
                       "missing together with the Debian command that installs them, and what this "
                       "build of ebb\n"
                       "cannot run yet. Changes nothing.",
        CLI_OPTION_ROWS({"json", 0, CLI_FLAG, &as_json, NULL, "one JSON object instead of text"}),
    };
    struct cli_args args;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    cli_args_fini(&args);

    struct finding f;
    look(&f);
    if (as_json)
        return print_json(&f);
    print_machine(&f.machine);
    print_state(&f);
    print_tools(&f);
    print_unbuilt();
    return 0;
}

const struct cli_command cli_cmd_doctor = {
    .name = "doctor",
    .summary = "what this machine has, what is missing and how to install it",
    .run = run,
};
