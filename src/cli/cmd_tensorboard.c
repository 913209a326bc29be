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
#include "cli/show.h"

#define END_MS 5000
#define LIST_MAX 10000

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
    struct ebb_str path = {0};
    size_t capacity = 0;
    enum ebb_status status = EBB_OK;
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

enum ebb_status cli_board_is_here(const struct cli_master *m, struct ebb_error *err)
{
    if (m->state_dir != NULL)
        return EBB_OK;
    return ebb_fail(err, EBB_EINFEASIBLE,
                    "'ebb tensorboard' works on the machine of the state directory, not with "
                    "--master");
}

/* ---- list ---- */

static void show_state(struct ebb_str *out, const struct ebb_doc_node *running, bool is_csv)
{
    (void)is_csv;
    ebb_str_add(out, running->boolean ? "RUNNING" : "ENDED");
}

static const struct cli_column columns[] = {
    {"ID", "tensorboard.id", CLI_AS_NUMBER, NULL},
    {"State", "running", CLI_AS_TEXT, show_state},
    {"Experiments", "tensorboard.experiments", CLI_AS_LIST, NULL},
    {"Trials", "tensorboard.trials", CLI_AS_LIST, NULL},
    {"URL", "tensorboard.url", CLI_AS_TEXT, NULL},
    {"Start Time", "tensorboard.start_time", CLI_AS_TIME, NULL},
};

/* [{running, tensorboard: the record}] */
static enum ebb_status read_all(struct cli_call *c, const int64_t *ids, size_t count,
                                struct ebb_doc_node *all, struct ebb_error *err)
{
    struct ebb_str path = {0};
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; status == EBB_OK && i < count; i++) {
        struct server s = {0};
        struct ebb_doc_node *one = ebb_doc_new(&c->arena, EBB_DOC_MAP);
        cli_board_path(c->m, ids[i], ".json", &path);
        status = read_record(&c->arena, ebb_str_c(&path), &s, err);
        if (status == EBB_OK &&
            (one == NULL ||
             !ebb_doc_set(&c->arena, one, "running", ebb_doc_new_bool(&c->arena, is_running(&s))) ||
             !ebb_doc_set(&c->arena, one, "tensorboard", s.root) ||
             !ebb_doc_append(&c->arena, all, one)))
            status = ebb_no_memory(err, sizeof *one);
    }
    ebb_str_fini(&path);
    return status;
}

static enum ebb_status list(struct cli_call *c, struct ebb_error *err)
{
    int64_t *ids = NULL;
    size_t count = 0;
    struct ebb_doc_node *all = ebb_doc_new(&c->arena, EBB_DOC_LIST);
    if (all == NULL)
        return ebb_no_memory(err, sizeof *all);
    EBB_TRY(cli_board_is_here(c->m, err));
    enum ebb_status status = cli_board_ids(c->m, &ids, &count, err);
    EBB_THEN(status, read_all(c, ids, count, all, err));
    ebb_free(ids);
    if (status == EBB_OK && c->where.is_json)
        cli_print_list("tensorboards", all);
    else if (status == EBB_OK)
        cli_columns_show(columns, sizeof columns / sizeof columns[0], all, c->where.is_csv);
    return status;
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

static enum ebb_status kill_one(struct cli_call *c, struct ebb_error *err)
{
    struct ebb_str path = {0};
    struct server s = {0};
    EBB_TRY(cli_board_is_here(c->m, err));
    cli_board_path(c->m, c->id, ".json", &path);
    enum ebb_status status = EBB_OK;
    if (access(ebb_str_c(&path), F_OK) != 0)
        status =
            ebb_fail(err, EBB_EINFEASIBLE, "no tensorboard %lld; 'ebb tensorboard list' shows them",
                     (long long)c->id);
    EBB_THEN(status, read_record(&c->arena, ebb_str_c(&path), &s, err));
    if (status == EBB_OK) {
        end_process(&s);
        unlink(ebb_str_c(&path));
        cli_board_path(c->m, c->id, ".log", &path);
        unlink(ebb_str_c(&path));
        cli_verb_print(c, NULL);
    }
    ebb_str_fini(&path);
    return status;
}

/* ---- the rows ---- */

static const struct cli_tensorboard_options defaults = {.host = "127.0.0.1"};

#define AT(member) offsetof(struct cli_tensorboard_options, member)

static const struct cli_field start_options[] = {
    {"trials", 0, CLI_LIST, AT(trials), "T[,T...]", "trials, instead of or beside experiments", 0,
     0},
    {"port", 0, CLI_INT, AT(port), "N", "else the first free one from 6006 on", 1, 65535},
    {"host", 0, CLI_STRING, AT(host), "ADDRESS", "where it listens; default 127.0.0.1", 0, 0},
};

static const struct cli_verb verbs[] = {
    {.name = "start",
     .summary = "show experiments or trials",
     CLI_WORDS("[EXPERIMENT...]", 0, LIST_MAX),
     .text =
         "Start a TensorBoard server over experiments or trials, and leave it running. Needs\n"
         "the Python program tensorboard (pip install tensorboard). ebb writes the event files\n"
         "while trials run, with or without it; 'ebb experiment charts' needs no server.\n"
         "\n"
         "Examples:\n"
         "  ebb tensorboard start 3 4\n"
         "  ebb tensorboard start --trials 12,15 --port 7000",
     CLI_OPTIONS(start_options),
     .json_help = "print the record as JSON",
     .check = cli_tensorboard_check,
     .run = cli_tensorboard_start},
    {.name = "list",
     .summary = "servers that were started",
     .text = "TensorBoard servers that were started, and whether they still run.",
     .has_csv = true,
     .run = list},
    {.name = "kill",
     .summary = "end one",
     CLI_ID("tensorboard"),
     .text = "End a TensorBoard server and forget it. Event files stay.",
     .said = "Killed tensorboard #",
     .json = "{\"killed\": #}",
     .run = kill_one},
};

static const struct cli_noun noun = CLI_NOUN("tensorboard", verbs, defaults);

extern const struct cli_command cli_cmd_tensorboard;
const struct cli_command cli_cmd_tensorboard = {
    .name = "tensorboard", .summary = "TensorBoard servers over experiments", .noun = &noun};
