/* cmd_tensorboard_start.c - ebb tensorboard start: the Python program, over folders of event files.
 */
#include "cli/cmd_tensorboard.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/process.h"

#define FIRST_PORT 6006
#define PORTS 100
#define START_MS 15000 /* it is a Python program: seconds until it answers */

struct start {
    struct cli_ids experiments, trials;
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
    const struct ebb_doc_node *root;
    struct ebb_str path = {0};
    EBB_TRY(cli_get(m, &root, err, "/experiments/%lld", (long long)experiment));
    const char *folder = ebb_doc_string(root, "tensorboard_path", "");
    if (folder[0] == '\0')
        return ebb_fail(err, EBB_EINFEASIBLE, "experiment %lld has no event files",
                        (long long)experiment);
    ebb_str_add(&path, folder);
    if (trial > 0)
        ebb_str_printf(&path, "/trial/%lld", (long long)trial);
    enum ebb_status status = ebb_file_mkdirs(ebb_str_c(&path), err);
    if (status == EBB_OK)
        add_folder(s, trial > 0 ? "trial" : "experiment", trial > 0 ? trial : experiment,
                   ebb_str_c(&path));
    ebb_str_fini(&path);
    return status;
}

static enum ebb_status add_trial(struct cli_master *m, struct start *s, int64_t trial,
                                 struct ebb_error *err)
{
    const struct ebb_doc_node *root;
    EBB_TRY(cli_get(m, &root, err, "/trials/%lld", (long long)trial));
    return add_experiment(m, s, ebb_doc_int(root, "experiment_id", 0), trial, err);
}

static enum ebb_status gather(struct cli_master *m, struct start *s, struct ebb_error *err)
{
    for (size_t i = 0; i < s->experiments.count; i++)
        EBB_TRY(add_experiment(m, s, s->experiments.items[i], 0, err));
    for (size_t i = 0; i < s->trials.count; i++)
        EBB_TRY(add_trial(m, s, s->trials.items[i], err));
    EBB_TRY(ebb_str_status(&s->first, err));
    return ebb_str_status(&s->folders, err);
}

static bool is_free(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return is;
}

/* The one that is asked for, or the first that nobody has now; 0 = none. */
static int find_port(int64_t asked)
{
    if (asked > 0)
        return is_free((int)asked) ? (int)asked : 0;
    for (int port = FIRST_PORT; port < FIRST_PORT + PORTS; port++)
        if (is_free(port))
            return port;
    return 0;
}

static enum ebb_status spawn(const struct start *s, const struct cli_tensorboard_options *o,
                             const char *log, pid_t *pid, struct ebb_error *err)
{
    char port[16];
    snprintf(port, sizeof port, "%d", s->port);
    const char *const argv[] = {"tensorboard",
                                s->folder_count == 1 ? "--logdir" : "--logdir_spec",
                                ebb_str_c(s->folder_count == 1 ? &s->first : &s->folders),
                                "--host",
                                o->host,
                                "--port",
                                port,
                                NULL};
    return ebb_process_leave(argv, log, pid, err);
}

static void write_ids(struct ebb_json_writer *w, const char *key, const struct cli_ids *ids)
{
    ebb_jsonw_key_array(w, key);
    for (size_t i = 0; i < ids->count; i++)
        ebb_jsonw_int(w, ids->items[i]);
    ebb_jsonw_array_end(w);
}

static void write_record(struct ebb_str *out, const struct start *s,
                         const struct cli_tensorboard_options *o, int64_t id, pid_t pid,
                         const char *url)
{
    struct ebb_json_writer w;
    char now[32];
    time_t t = time(NULL);
    struct tm utc = {0};
    gmtime_r(&t, &utc);
    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%S.000Z", &utc);
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_int(&w, "id", id);
    ebb_jsonw_key_string(&w, "url", url);
    write_ids(&w, "experiments", &s->experiments);
    write_ids(&w, "trials", &s->trials);
    ebb_jsonw_key_string(&w, "logdir", ebb_str_c(s->folder_count == 1 ? &s->first : &s->folders));
    ebb_jsonw_key_string(&w, "start_time", now);
    ebb_jsonw_key_int(&w, "pid", pid);
    ebb_jsonw_key_int(&w, "pid_start", cli_board_pid_start(pid));
    ebb_jsonw_key_string(&w, "host", o->host);
    ebb_jsonw_key_int(&w, "port", s->port);
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

static bool answers(const char *host, int port)
{
    char service[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    bool is_up = false;
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(strcmp(host, "0.0.0.0") == 0 ? "127.0.0.1" : host, service, &hints, &found) !=
        0)
        return false;
    for (const struct addrinfo *a = found; a != NULL && !is_up; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        is_up = fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(found);
    return is_up;
}

/* Until it answers. Did it end? Then its last words are the message. */
static enum ebb_status wait_for(pid_t pid, const char *host, int port, const char *log,
                                struct ebb_error *err)
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
        if (answers(host, port))
            return EBB_OK;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    fprintf(stderr, "ebb: note: tensorboard does not answer yet; its log is %s\n", log);
    return EBB_OK;
}

static enum ebb_status launch(struct cli_call *c, struct start *s, struct ebb_error *err)
{
    const struct cli_tensorboard_options *o = c->options;
    struct cli_master *m = c->m;
    struct ebb_str log = {0}, record = {0}, text = {0};
    int64_t *ids = NULL, id = 1;
    size_t count = 0;
    pid_t pid = 0;
    char url[160];
    enum ebb_status status = cli_board_ids(m, &ids, &count, err);
    if (status == EBB_OK && count > 0)
        id = ids[count - 1] + 1;
    ebb_free(ids);
    cli_board_path(m, 0, "", &record);
    EBB_THEN(status, ebb_file_mkdirs(ebb_str_c(&record), err));
    cli_board_path(m, id, ".log", &log);
    cli_board_path(m, id, ".json", &record);
    if (status == EBB_OK) {
        status = spawn(s, o, ebb_str_c(&log), &pid, err);
        if (status == EBB_EUNSUPPORTED)
            status = not_there(s, s->experiments.count > 0 ? s->experiments.items[0] : 0, err);
    }
    EBB_THEN(status, wait_for(pid, o->host, s->port, ebb_str_c(&log), err));
    snprintf(url, sizeof url, "http://%s:%d/", o->host, s->port);
    if (status == EBB_OK) {
        write_record(&text, s, o, id, pid, url);
        status = ebb_file_write_atomic(ebb_str_c(&record), ebb_str_c(&text), text.length, err);
    } else {
        unlink(ebb_str_c(&log));
    }
    if (status == EBB_OK && c->where.is_json)
        puts(ebb_str_c(&text));
    else if (status == EBB_OK)
        printf("Started tensorboard %lld: %s\n", (long long)id, url);
    ebb_str_fini(&text);
    ebb_str_fini(&record);
    ebb_str_fini(&log);
    return status;
}

int cli_tensorboard_check(struct cli_call *c)
{
    const struct cli_tensorboard_options *o = c->options;
    return c->word_count == 0 && o->trials.count == 0
               ? cli_usage_error("give experiments, or --trials")
               : -1;
}

/* The numbers among the words and options: -1, or 2 after a message. */
static int read_ids(const struct cli_call *c, struct start *s)
{
    const struct cli_tensorboard_options *o = c->options;
    int code = -1;
    for (size_t i = 0; code < 0 && i < c->word_count; i++)
        code = cli_parse_ids("experiment", c->words[i], &s->experiments);
    for (size_t i = 0; code < 0 && i < o->trials.count; i++)
        code = cli_parse_ids("trial", o->trials.items[i], &s->trials);
    return code;
}

enum ebb_status cli_tensorboard_start(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_tensorboard_options *o = c->options;
    struct start s = {.port = find_port(o->port)};
    EBB_TRY(cli_board_is_here(c->m, err));
    ebb_str_init(&s.folders);
    ebb_str_init(&s.first);
    int code = read_ids(c, &s);
    enum ebb_status status = EBB_OK;
    c->code = code < 0 ? 0 : code;
    if (code < 0 && s.port == 0)
        status = ebb_fail(err, EBB_EIO, "the port is in use; give another one with --port");
    if (code < 0 && status == EBB_OK)
        status = gather(c->m, &s, err);
    if (code < 0 && status == EBB_OK)
        status = launch(c, &s, err);
    ebb_str_fini(&s.folders);
    ebb_str_fini(&s.first);
    ebb_free(s.experiments.items);
    ebb_free(s.trials.items);
    return status;
}
