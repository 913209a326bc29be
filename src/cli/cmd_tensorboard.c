/* cmd_tensorboard.c - ebb tensorboard: a TensorBoard server over the event files of experiments.
 *
 * The server is the Python program; ebb only writes the files (board.h), starts it in a session of
 * its own and remembers it in <state>/tensorboards/ID.json, with the log beside it. */
#include "cli/cmd_tensorboard.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/json.h"
#include "cli/show.h"

#define END_MS 5000

struct board_options {
    struct cli_where where;
    int64_t id;
};

/* ---- what is remembered ---- */

struct server {
    int64_t id, pid, pid_start, port;
    const struct ebb_doc_node *root; /* the record */
};

void cli_board_path(const struct cli_master *m, int64_t id, const char *suffix, struct ebb_str *out)
{
    ebb_str_clear(out);
    ebb_str_printf(out, "%s/tensorboards", m->state_dir);
    if (id > 0)
        ebb_str_printf(out, "/%lld%s", (long long)id, suffix);
}

int64_t cli_board_pid_start(int64_t pid)
{
    char path[64], text[1024], state = 'Z';
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* the name may hold anything */
    if (at == NULL || at[1] == '\0')
        return 0;
    state = at[2];
    at += 2;
    for (int field = 3; field < 22 && at != NULL; field++) { /* proc(5): starttime is the 22nd */
        at = strchr(at, ' ');
        at += at != NULL;
    }
    return at == NULL || state == 'Z' || state == 'X' ? 0 : strtoll(at, NULL, 10);
}

static bool is_running(const struct server *s)
{
    return s->pid > 1 && cli_board_pid_start(s->pid) == s->pid_start && s->pid_start > 0;
}

static enum ebb_status read_record(struct ebb_arena *arena, const char *path, struct server *s,
                                   struct ebb_error *err)
{
    EBB_TRY(ebb_doc_load(arena, path, &s->root, err));
    s->id = ebb_doc_int(s->root, "id", 0);
    s->pid = ebb_doc_int(s->root, "pid", 0);
    s->pid_start = ebb_doc_int(s->root, "pid_start", 0);
    s->port = ebb_doc_int(s->root, "port", 0);
    return EBB_OK;
}

enum ebb_status cli_board_ids(const struct cli_master *m, int64_t **ids, size_t *count,
                              struct ebb_error *err)
{
    struct ebb_str path;
    size_t capacity = 0;
    enum ebb_status status = EBB_OK;
    ebb_str_init(&path);
    cli_board_path(m, 0, "", &path);
    DIR *dir = opendir(ebb_str_c(&path));
    for (struct dirent *entry; dir != NULL && status == EBB_OK && (entry = readdir(dir)) != NULL;) {
        char number[24] = "";
        size_t n = strlen(entry->d_name);
        int64_t id;
        if (n < 6 || n > 20 || strcmp(entry->d_name + n - 5, ".json") != 0)
            continue;
        memcpy(number, entry->d_name, n - 5);
        if (!ebb_parse_i64(number, &id) || id <= 0)
            continue;
        status = ebb_grow(ids, &capacity, *count + 1, sizeof **ids, err);
        size_t at = *count;
        for (; status == EBB_OK && at > 0 && (*ids)[at - 1] > id; at--)
            (*ids)[at] = (*ids)[at - 1];
        if (status == EBB_OK) {
            (*ids)[at] = id;
            ++*count;
        }
    }
    if (dir != NULL)
        closedir(dir);
    ebb_str_fini(&path);
    return status;
}

bool cli_board_is_here(const struct cli_master *m)
{
    if (m->state_dir == NULL)
        fprintf(stderr,
                "ebb: error: 'ebb tensorboard' works on the machine of the state directory, "
                "not with --master\n");
    return m->state_dir != NULL;
}

/* ---- list ---- */

static void join(struct ebb_str *out, const struct ebb_doc_node *list)
{
    for (size_t i = 0; list != NULL && list->kind == EBB_DOC_LIST && i < list->count; i++) {
        ebb_str_add(out, i > 0 ? ", " : "");
        cli_show_value(out, list->items[i]);
    }
}

static void add_row(struct cli_table *table, const struct server *s)
{
    struct ebb_str text;
    char buf[CLI_CELL];
    ebb_str_init(&text);
    cli_table_cell(table, "%lld", (long long)s->id);
    cli_table_cell(table, "%s", is_running(s) ? "RUNNING" : "ENDED");
    join(&text, ebb_doc_get(s->root, "experiments"));
    cli_table_cell(table, "%s", ebb_str_c(&text));
    ebb_str_clear(&text);
    join(&text, ebb_doc_get(s->root, "trials"));
    cli_table_cell(table, "%s", ebb_str_c(&text));
    cli_table_cell(table, "%s", ebb_doc_string(s->root, "url", ""));
    cli_table_cell(table, "%s", cli_show_time(s->root, "start_time", buf));
    ebb_str_fini(&text);
}

static int list(struct cli_master *m, void *context)
{
    static const char *const headers[] = {"ID",     "State", "Experiments",
                                          "Trials", "URL",   "Start Time"};
    const struct board_options *o = context;
    struct ebb_error err = {0};
    struct ebb_arena arena;
    struct ebb_str path, out;
    int64_t *ids = NULL;
    size_t count = 0;
    if (!cli_board_is_here(m))
        return 1;
    ebb_arena_init(&arena);
    ebb_str_init(&path);
    ebb_str_init(&out);
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof headers[0]);
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &out, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "tensorboards");
    ebb_jsonw_array(&w);
    enum ebb_status status = cli_board_ids(m, &ids, &count, &err);
    for (size_t i = 0; status == EBB_OK && i < count; i++) {
        struct server s = {0};
        cli_board_path(m, ids[i], ".json", &path);
        status = read_record(&arena, ebb_str_c(&path), &s, &err);
        if (status != EBB_OK)
            break;
        add_row(table, &s);
        ebb_jsonw_object(&w);
        ebb_jsonw_key(&w, "running");
        ebb_jsonw_bool(&w, is_running(&s));
        ebb_jsonw_key(&w, "tensorboard");
        ebb_doc_write_json(s.root, &w);
        ebb_jsonw_object_end(&w);
    }
    ebb_jsonw_array_end(&w);
    ebb_jsonw_object_end(&w);
    if (status == EBB_OK && o->where.is_json)
        puts(ebb_str_c(&out));
    if (status == EBB_OK && !o->where.is_json)
        cli_table_show(table, o->where.is_csv);
    else
        cli_table_destroy(table);
    ebb_str_fini(&out);
    ebb_str_fini(&path);
    ebb_free(ids);
    ebb_arena_fini(&arena);
    return status == EBB_OK ? 0 : cli_report(&err);
}

/* ---- kill ---- */

static void end_process(const struct server *s)
{
    if (!is_running(s))
        return;
    (void)kill((pid_t)-s->pid, SIGTERM); /* it leads its own session */
    for (int i = 0; i < END_MS / 50 && is_running(s); i++)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    if (is_running(s))
        (void)kill((pid_t)-s->pid, SIGKILL);
}

static int kill_one(struct cli_master *m, void *context)
{
    const struct board_options *o = context;
    struct ebb_error err = {0};
    struct ebb_arena arena;
    struct ebb_str path;
    struct server s = {0};
    if (!cli_board_is_here(m))
        return 1;
    ebb_arena_init(&arena);
    ebb_str_init(&path);
    cli_board_path(m, o->id, ".json", &path);
    enum ebb_status status = EBB_OK;
    if (access(ebb_str_c(&path), F_OK) != 0)
        status =
            ebb_fail(&err, EBB_EINFEASIBLE,
                     "no tensorboard %lld; 'ebb tensorboard list' shows them", (long long)o->id);
    if (status == EBB_OK)
        status = read_record(&arena, ebb_str_c(&path), &s, &err);
    if (status == EBB_OK) {
        end_process(&s);
        unlink(ebb_str_c(&path));
        cli_board_path(m, o->id, ".log", &path);
        unlink(ebb_str_c(&path));
        if (o->where.is_json)
            printf("{\"killed\": %lld}\n", (long long)o->id);
        else
            printf("Killed tensorboard %lld\n", (long long)o->id);
    }
    ebb_str_fini(&path);
    ebb_arena_fini(&arena);
    return status == EBB_OK ? 0 : cli_report(&err);
}

/* ---- verbs ---- */

static int run_list(int argc, char **argv)
{
    struct board_options o = {0};
    const struct cli_spec spec = {
        .usage = "ebb tensorboard list [OPTION...]",
        .description = "TensorBoard servers that were started, and whether they still run.",
        .where = &o.where,
        .is_table = true,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    cli_args_fini(&args);
    return cli_with_master(&o.where, list, &o);
}

static int run_kill(int argc, char **argv)
{
    struct board_options o = {0};
    const struct cli_spec spec = {
        .usage = "ebb tensorboard kill ID [OPTION...]",
        .description = "End a TensorBoard server and forget it. Event files stay.",
        .min_positional = 1,
        .max_positional = 1,
        .where = &o.where,
    };
    return cli_with_id(&spec, argc, argv, "tensorboard", &o.id, &o.where, kill_one, &o);
}

static const struct cli_command cmd_start = {.name = "tensorboard start",
                                             .summary = "show experiments or trials",
                                             .run = cli_tensorboard_start};
static const struct cli_command cmd_list = {
    .name = "tensorboard list", .summary = "servers that were started", .run = run_list};
static const struct cli_command cmd_kill = {
    .name = "tensorboard kill", .summary = "end one", .run = run_kill};

static const struct cli_command *const verbs[] = {&cmd_start, &cmd_list, &cmd_kill};

static int run(int argc, char **argv)
{
    return cli_dispatch("tensorboard", verbs, sizeof verbs / sizeof verbs[0], argc, argv);
}

extern const struct cli_command cli_cmd_tensorboard;
const struct cli_command cli_cmd_tensorboard = {
    .name = "tensorboard",
    .summary = "TensorBoard servers over experiments",
    .run = run,
};
