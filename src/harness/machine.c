/* machine.c - what a measurement runs on: processor, GPU, threads, and the programs that compute. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/thread.h"
#include "harness/trial.h"
#include "kernel/kernel.h"

#define MAX_PROGRAM ((size_t)1 << 31)
#define NAME_ROOM 256

static enum ebb_status add_file(struct ebb_sha256 *h, const char *path, size_t most,
                                struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, most, err));
    ebb_sha256_add(h, view.data, view.length);
    ebb_file_view_close(&view);
    return EBB_OK;
}

enum ebb_status harness_hash_file(const char *path, size_t most, char text[EBB_SHA256_TEXT],
                                  struct ebb_error *err)
{
    struct ebb_sha256 h;
    ebb_sha256_init(&h);
    enum ebb_status status = add_file(&h, path, most, err);
    enum ebb_status hashed = ebb_sha256_text(&h, text, status == EBB_OK ? err : NULL);
    return status == EBB_OK ? hashed : status;
}

/* The rest of the first line that begins with `key`; the name stays as it is when there is none. */
static void read_name(const char *path, const char *key, char name[NAME_ROOM])
{
    char line[512];
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *at = line + strlen(key);
        at += strspn(at, " \t:");
        snprintf(name, NAME_ROOM, "%.*s", (int)strcspn(at, "\n"), at);
        break;
    }
    if (file)
        fclose(file);
}

/* The first one that the driver knows. */
static void read_gpu(char name[NAME_ROOM])
{
    static const char folder[] = "/proc/driver/nvidia/gpus";
    const struct dirent *entry;
    DIR *open = opendir(folder);
    while (open && !name[0] && (entry = readdir(open)) != NULL) {
        char path[sizeof folder + NAME_ROOM + 32];
        snprintf(path, sizeof path, "%s/%.255s/information", folder, entry->d_name);
        read_name(path, "Model:", name);
    }
    if (open)
        closedir(open);
}

/* The shared object that a plug-in was loaded from. */
static const char *file_of(const struct kernel_plugin *plugin)
{
    Dl_info info;
    return dladdr(plugin, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

/* Of everything that computes. A device whose plug-in is missing is refused before trials run. */
static enum ebb_status hash_programs(struct runner *r, struct ebb_error *err)
{
    const char *device = r->how->device;
    const struct kernel_plugin *plugin;
    struct ebb_sha256 h;
    char *text = ebb_arena_alloc(r->arena, EBB_SHA256_TEXT);
    if (!text)
        return ebb_no_memory(err, EBB_SHA256_TEXT);
    ebb_sha256_init(&h);
    enum ebb_status status = add_file(&h, "/proc/self/exe", MAX_PROGRAM, err);
    if (device && strcmp(device, "cuda") == 0) {
        EBB_THEN(status, kernel_plugin_load(device, &plugin, err));
        if (status == EBB_OK)
            status = add_file(&h, file_of(plugin), MAX_PROGRAM, err);
    }
    enum ebb_status hashed = ebb_sha256_text(&h, text, status == EBB_OK ? err : NULL);
    r->program_hash = text;
    return status == EBB_OK ? hashed : status;
}

enum ebb_status harness_machine(struct runner *r, struct ebb_doc_node **machine,
                                struct ebb_error *err)
{
    const struct harness_how *how = r->how;
    char processor[NAME_ROOM] = "unknown", gpu[NAME_ROOM] = "";
    EBB_TRY(hash_programs(r, err));
    read_name("/proc/cpuinfo", "model name", processor);
    if (how->device && strcmp(how->device, "cuda") == 0)
        read_gpu(gpu);
    const struct {
        const char *key, *text;
    } rows[] = {{"processor", processor},
                {"gpu", gpu},
                {"device", how->device ? how->device : "cpu"},
                {"ebb", EBB_VERSION}};
    struct ebb_doc_node *map = ebb_doc_new(r->arena, EBB_DOC_MAP);
    for (size_t i = 0; map && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].text[0])
            ebb_doc_set(r->arena, map, rows[i].key, ebb_doc_new_string(r->arena, rows[i].text));
    if (map)
        ebb_doc_set(r->arena, map, "threads",
                    ebb_doc_new_int(r->arena, how->threads > 0 ? how->threads : ebb_cpu_count()));
    *machine = map;
    return ebb_arena_status(r->arena, err);
}
