/* cmd_tensorboard.c - ebb tensorboard: a TensorBoard server over the event files of experiments.
 *
 * The server is the Python program; ebb only writes the files (board.h), starts it in a session of
 * its own and remembers it in <state>/tensorboards/ID.json, with the log beside it. */
#include "cli/cli.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "cli/master.h"
#include "cli/show.h"

#define FIRST_PORT 6006
#define PORTS 100
#define START_MS 500 /* a server that cannot start says so within this time */
#define END_MS 5000
#define LIST_MAX 10000

extern char **environ;

struct board_options {
    struct cli_where where;
    const char *const *experiments; /* positionals: "3" or "3,5" */
    size_t experiment_count;
    struct cli_list trials;
    const char *host;
    int64_t port, id;
};

/* ---- what is remembered ---- */

struct server {
    int64_t id, pid, pid_start, port;
    const struct ebb_doc_node *root; /* the record */
};

static void record_path(const struct cli_master *m, int64_t id, const char *suffix,
                        struct ebb_str *out)
{
    ebb_str_clear(out);
    ebb_str_printf(out, "%s/tensorboards", m->state_dir);
    if (id > 0)
        ebb_str_printf(out, "/%lld%s", (long long)id, suffix);
}

/* When a process began, in ticks since boot; 0: there is none, or it is dead. Its number alone may
 * have been given to another one. */
static int64_t start_of(int64_t pid)
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
    return s->pid > 1 && start_of(s->pid) == s->pid_start && s->pid_start > 0;
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

/* Numbers of the records, ascending; owned by the caller. */
static enum ebb_status list_ids(const struct cli_master *m, int64_t **ids, size_t *count,
                                struct ebb_error *err)
{
    struct ebb_str path;
    size_t capacity = 0;
    enum ebb_status status = EBB_OK;
    ebb_str_init(&path);
    record_path(m, 0, "", &path);
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

static bool has_state(const struct cli_master *m)
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
    if (!has_state(m))
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
    enum ebb_status status = list_ids(m, &ids, &count, &err);
    for (size_t i = 0; status == EBB_OK && i < count; i++) {
        struct server s = {0};
        record_path(m, ids[i], ".json", &path);
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
    if (!has_state(m))
        return 1;
    ebb_arena_init(&arena);
    ebb_str_init(&path);
    record_path(m, o->id, ".json", &path);
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
        record_path(m, o->id, ".log", &path);
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

/* ---- start ---- */

struct start {
    int64_t *experiments, *trials;
    size_t experiment_count, experiment_capacity, trial_count, trial_capacity;
    struct ebb_str folders; /* "experiment-3:/path,trial-7:/path" */
    struct ebb_str first;   /* the only one, when there is one */
    size_t folder_count;
    int port;
};

static void add_folder(struct start *s, const char *name, int64_t id, const char *path)
{
    ebb_str_printf(&s->folders, "%s%s-%lld:%s", s->folder_count > 0 ? "," : "", name, (long long)id,
                   path);
    if (s->folder_count++ == 0)
        ebb_str_add(&s->first, path);
}

/* One experiment (or a trial of it): its folder, made when no metric has come yet. */
static enum ebb_status add_experiment(struct cli_master *m, struct start *s, int64_t experiment,
                                      int64_t trial, struct ebb_error *err)
{
    struct cli_answer answer = {0};
    struct ebb_str path;
    ebb_str_init(&path);
    enum ebb_status status =
        cli_ask(m, &answer, err, "GET", NULL, "/experiments/%lld", (long long)experiment);
    const char *folder = ebb_doc_string(answer.root, "tensorboard_path", "");
    if (status == EBB_OK && folder[0] == '\0')
        status = ebb_fail(err, EBB_EINFEASIBLE, "experiment %lld has no event files",
                          (long long)experiment);
    ebb_str_add(&path, folder);
    if (trial > 0)
        ebb_str_printf(&path, "/trial/%lld", (long long)trial);
    if (status == EBB_OK)
        status = ebb_file_mkdirs(ebb_str_c(&path), err);
    if (status == EBB_OK)
        add_folder(s, trial > 0 ? "trial" : "experiment", trial > 0 ? trial : experiment,
                   ebb_str_c(&path));
    ebb_str_fini(&path);
    cli_answer_fini(&answer);
    return status;
}

static enum ebb_status add_trial(struct cli_master *m, struct start *s, int64_t trial,
                                 struct ebb_error *err)
{
    struct cli_answer answer = {0};
    enum ebb_status status =
        cli_ask(m, &answer, err, "GET", NULL, "/trials/%lld", (long long)trial);
    int64_t experiment = ebb_doc_int(answer.root, "experiment_id", 0);
    cli_answer_fini(&answer);
    return status == EBB_OK ? add_experiment(m, s, experiment, trial, err) : status;
}

static enum ebb_status gather(struct cli_master *m, struct start *s, struct ebb_error *err)
{
    for (size_t i = 0; i < s->experiment_count; i++)
        EBB_TRY(add_experiment(m, s, s->experiments[i], 0, err));
    for (size_t i = 0; i < s->trial_count; i++)
        EBB_TRY(add_trial(m, s, s->trials[i], err));
    EBB_TRY(ebb_str_status(&s->first, err));
    return ebb_str_status(&s->folders, err);
}

/* A port that nobody has now; 0 = none of them. */
static int free_port(void)
{
    for (int port = FIRST_PORT; port < FIRST_PORT + PORTS; port++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
        if (fd < 0)
            return 0;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
        if (is_free)
            return port;
    }
    return 0;
}

static int spawn(const struct start *s, const struct board_options *o, const char *log, pid_t *pid)
{
    char port[16];
    snprintf(port, sizeof port, "%d", s->port);
    const char *const words[] = {"tensorboard",
                                 s->folder_count == 1 ? "--logdir" : "--logdir_spec",
                                 ebb_str_c(s->folder_count == 1 ? &s->first : &s->folders),
                                 "--host",
                                 o->host,
                                 "--port",
                                 port,
                                 NULL};
    char *argv[sizeof words / sizeof words[0]];
    memcpy(argv, words, sizeof words);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    int code = posix_spawnp(pid, "tensorboard", &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return code;
}

static void write_ids(struct ebb_json_writer *w, const char *key, const int64_t *ids, size_t count)
{
    ebb_jsonw_key(w, key);
    ebb_jsonw_array(w);
    for (size_t i = 0; i < count; i++)
        ebb_jsonw_int(w, ids[i]);
    ebb_jsonw_array_end(w);
}

static void write_record(struct ebb_str *out, const struct start *s, const struct board_options *o,
                         int64_t id, pid_t pid, const char *url)
{
    struct ebb_json_writer w;
    char now[32];
    time_t t = time(NULL);
    struct tm utc = {0};
    gmtime_r(&t, &utc);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%S.000Z", &utc);
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "id");
    ebb_jsonw_int(&w, id);
    ebb_jsonw_key(&w, "url");
    ebb_jsonw_string(&w, url);
    write_ids(&w, "experiments", s->experiments, s->experiment_count);
    write_ids(&w, "trials", s->trials, s->trial_count);
    ebb_jsonw_key(&w, "logdir");
    ebb_jsonw_string(&w, ebb_str_c(s->folder_count == 1 ? &s->first : &s->folders));
    ebb_jsonw_key(&w, "start_time");
    ebb_jsonw_string(&w, now);
    ebb_jsonw_key(&w, "pid");
    ebb_jsonw_int(&w, pid);
    ebb_jsonw_key(&w, "pid_start");
    ebb_jsonw_int(&w, start_of(pid));
    ebb_jsonw_key(&w, "host");
    ebb_jsonw_string(&w, o->host);
    ebb_jsonw_key(&w, "port");
    ebb_jsonw_int(&w, s->port);
    ebb_jsonw_object_end(&w);
}

static enum ebb_status not_there(const struct start *s, int64_t experiment, struct ebb_error *err)
{
    char charts[64] = "";
    if (experiment > 0)
        snprintf(charts, sizeof charts, "; 'ebb experiment charts %lld' needs none",
                 (long long)experiment);
    return ebb_fail(err, EBB_EUNSUPPORTED,
                    "there is no program 'tensorboard' on PATH: pip install tensorboard. The event "
                    "files are there: tensorboard %s %s%s",
                    s->folder_count == 1 ? "--logdir" : "--logdir_spec",
                    ebb_str_c(s->folder_count == 1 ? &s->first : &s->folders), charts);
}

/* Did it end at once? Then its last words are the message. */
static enum ebb_status look_at_start(pid_t pid, const char *log, struct ebb_error *err)
{
    int state = 0;
    for (int i = 0; i < START_MS / 50; i++) {
        if (waitpid(pid, &state, WNOHANG) == pid) {
            struct ebb_file_view view;
            char last[512] = "";
            if (ebb_file_view_open(&view, log, 1 << 20, NULL) == EBB_OK) {
                size_t n = view.length < sizeof last - 1 ? view.length : sizeof last - 1;
                memcpy(last, view.data + view.length - n, n);
                while (n > 0 && last[n - 1] == '\n')
                    last[--n] = '\0';
                ebb_file_view_close(&view);
            }
            return ebb_fail(err, EBB_EINFEASIBLE, "tensorboard ended at once (status %d): %s",
                            WIFEXITED(state) ? WEXITSTATUS(state) : -1, last);
        }
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return EBB_OK;
}

static enum ebb_status launch(struct cli_master *m, const struct board_options *o, struct start *s,
                              struct ebb_error *err)
{
    struct ebb_str log, record, text;
    int64_t *ids = NULL, id = 1;
    size_t count = 0;
    pid_t pid = 0;
    char url[160];
    ebb_str_init(&log);
    ebb_str_init(&record);
    ebb_str_init(&text);
    enum ebb_status status = list_ids(m, &ids, &count, err);
    if (status == EBB_OK && count > 0)
        id = ids[count - 1] + 1;
    ebb_free(ids);
    record_path(m, 0, "", &record);
    if (status == EBB_OK)
        status = ebb_file_mkdirs(ebb_str_c(&record), err);
    record_path(m, id, ".log", &log);
    record_path(m, id, ".json", &record);
    if (status == EBB_OK) {
        int code = spawn(s, o, ebb_str_c(&log), &pid);
        if (code == ENOENT)
            status = not_there(s, s->experiment_count > 0 ? s->experiments[0] : 0, err);
        else if (code != 0)
            status = ebb_fail(err, EBB_EIO, "cannot start tensorboard: %s", strerror(code));
    }
    if (status == EBB_OK)
        status = look_at_start(pid, ebb_str_c(&log), err);
    snprintf(url, sizeof url, "http://%s:%d/", o->host, s->port);
    if (status == EBB_OK) {
        write_record(&text, s, o, id, pid, url);
        status = ebb_file_write_atomic(ebb_str_c(&record), ebb_str_c(&text), text.length, err);
    } else {
        unlink(ebb_str_c(&log));
    }
    if (status == EBB_OK && o->where.is_json)
        puts(ebb_str_c(&text));
    else if (status == EBB_OK)
        printf("Started tensorboard %lld: %s\n", (long long)id, url);
    ebb_str_fini(&text);
    ebb_str_fini(&record);
    ebb_str_fini(&log);
    return status;
}

/* "3,5" onto a list of numbers: -1, or 2 after a message. */
static int add_ids(const char *what, const char *text, int64_t **ids, size_t *count,
                   size_t *capacity)
{
    for (const char *at = text; at != NULL;) {
        char number[24] = "";
        size_t n = strcspn(at, ",");
        struct ebb_error err;
        memcpy(number, at, n < sizeof number ? n : sizeof number - 1);
        if (ebb_grow(ids, capacity, *count + 1, sizeof **ids, &err) != EBB_OK)
            return cli_report(&err);
        int code = cli_parse_id(what, number, &(*ids)[*count]);
        if (code >= 0)
            return code;
        ++*count;
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    return -1;
}

static int start(struct cli_master *m, void *context)
{
    const struct board_options *o = context;
    struct start s = {.port = (int)o->port};
    struct ebb_error err = {0};
    int code = has_state(m) ? -1 : 1;
    ebb_str_init(&s.folders);
    ebb_str_init(&s.first);
    for (size_t i = 0; code < 0 && i < o->experiment_count; i++)
        code = add_ids("experiment", o->experiments[i], &s.experiments, &s.experiment_count,
                       &s.experiment_capacity);
    for (size_t i = 0; code < 0 && i < o->trials.count; i++)
        code = add_ids("trial", o->trials.items[i], &s.trials, &s.trial_count, &s.trial_capacity);
    if (code < 0 && s.port == 0)
        s.port = free_port();
    if (code < 0 && s.port == 0)
        code = cli_report(&(struct ebb_error){.status = EBB_EIO,
                                              .message = "no free port; give one with --port"});
    if (code < 0 && (gather(m, &s, &err) != EBB_OK || launch(m, o, &s, &err) != EBB_OK))
        code = cli_report(&err);
    ebb_str_fini(&s.folders);
    ebb_str_fini(&s.first);
    ebb_free(s.experiments);
    ebb_free(s.trials);
    return code < 0 ? 0 : code;
}

/* ---- verbs ---- */

static int run_start(int argc, char **argv)
{
    struct board_options o = {.host = "127.0.0.1"};
    const struct cli_option options[] = {
        {"trials", 0, CLI_LIST, &o.trials, "T[,T...]", "trials, instead of or beside experiments"},
        {"port", 0, CLI_INT, &o.port, "N", "else the first free one from 6006 on"},
        {"host", 0, CLI_STRING, &o.host, "ADDRESS", "where it listens; default 127.0.0.1"},
    };
    const struct cli_spec spec = {
        .usage = "ebb tensorboard start [EXPERIMENT...] [OPTION...]",
        .description =
            "Start a TensorBoard server over experiments or trials, and leave it running. Needs\n"
            "the Python program tensorboard (pip install tensorboard). ebb writes the event files\n"
            "while trials run, with or without it; 'ebb experiment charts' needs no server.\n"
            "\n"
            "Examples:\n"
            "  ebb tensorboard start 3 4\n"
            "  ebb tensorboard start --trials 12,15 --port 7000",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .max_positional = LIST_MAX,
        .where = &o.where,
        .json_help = "print the record as JSON",
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    o.experiments = args.positional;
    o.experiment_count = args.positional_count;
    if (o.experiment_count == 0 && o.trials.count == 0)
        code = cli_usage_error("give experiments, or --trials");
    else if (o.port < 0 || o.port > 65535)
        code = cli_usage_error("--port must be 1 to 65535");
    else
        code = cli_with_master(&o.where, start, &o);
    cli_args_fini(&args);
    return code;
}

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

static const struct cli_command cmd_start = {
    .name = "tensorboard start", .summary = "show experiments or trials", .run = run_start};
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
