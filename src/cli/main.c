/* main.c - the table of commands, and what `ebb` says before one is chosen.
 *
 * To add a command: cmd_<name>.c with cli_cmd_<name>, one row below (cli.h tells the rest). */
#include "cli/cli.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/str.h"

/* In the order of the help page: what a newcomer needs first. */
#define COMMAND_LIST(X)                                                                            \
    X(run)                                                                                         \
    X(serve)                                                                                       \
    X(ui)                                                                                          \
    X(train)                                                                                       \
    X(bench)                                                                                       \
    X(plot)                                                                                        \
    X(report)                                                                                      \
    X(eval)                                                                                        \
    X(predict)                                                                                     \
    X(generate)                                                                                    \
    X(explain)                                                                                     \
    X(model)                                                                                       \
    X(data)                                                                                        \
    X(trace)                                                                                       \
    X(sim)                                                                                         \
    X(plan)                                                                                        \
    X(pareto)                                                                                      \
    X(experiment)                                                                                  \
    X(trial)                                                                                       \
    X(checkpoint)                                                                                  \
    X(template)                                                                                    \
    X(tensorboard)                                                                                 \
    X(task)                                                                                        \
    X(slot)                                                                                        \
    X(agent)                                                                                       \
    X(master)                                                                                      \
    X(user)                                                                                        \
    X(preview_search)                                                                              \
    X(device)                                                                                      \
    X(doctor)                                                                                      \
    X(dev)                                                                                         \
    X(measure)                                                                                     \
    X(worker)

#define X(name) extern const struct cli_command cli_cmd_##name;
COMMAND_LIST(X)
#undef X

static const struct cli_command *const commands[] = {
#define X(name) &cli_cmd_##name,
    COMMAND_LIST(X)
#undef X
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

/* Determined's short nouns. A row here counts only while its command is in the table. Any other
 * beginning of a name will do as long as it is the beginning of no other. */
static const struct {
    const char *alias, *name;
} aliases[] = {
    {"a", "agent"},        {"c", "checkpoint"}, {"e", "experiment"},
    {"exp", "experiment"}, {"m", "master"},     {"s", "slot"},
    {"t", "trial"},        {"tpl", "template"}, {"u", "user"},
};

static const char about[] = "ebb trains neural networks in the memory you have: give it a budget "
                            "in bytes and it keeps that\n"
                            "number, evicting and recomputing tensors at the least time it can "
                            "find, with bit-identical results.\n"
                            "Around that it simulates and plans memory for recorded traces, and "
                            "runs experiments: hyperparameter\n"
                            "search, scheduling, checkpoints, charts.\n";

static const struct cli_command *find_command(const char *word)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(aliases[i].alias, word) == 0)
            word = aliases[i].name;
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, word) == 0)
            return commands[i];
    const struct cli_command *found = NULL;
    for (size_t i = 0; word[0] != '\0' && i < COMMAND_COUNT; i++)
        if (!commands[i]->is_hidden && strncmp(commands[i]->name, word, strlen(word)) == 0) {
            if (found != NULL)
                return NULL;
            found = commands[i];
        }
    return found;
}

static void print_commands(FILE *out, bool with_hidden)
{
    int width = 4;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        int n = (int)strlen(commands[i]->name);
        width = n > width && (with_hidden || !commands[i]->is_hidden) ? n : width;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (with_hidden || !commands[i]->is_hidden)
            fprintf(out, "  %-*s  %s\n", width, commands[i]->name, commands[i]->summary);
}

/* A first step is shown only when this build has its command, so that no newcomer is sent into an
 * error. */
static const struct {
    const char *command, *line, *what;
} first_steps[] = {
    {"doctor", "ebb doctor", "what this machine has, and what is missing"},
    {"trace", "ebb trace make transformer -o gpt.trace", "make a trace to play with"},
    {"trace", "ebb trace stat gpt.trace", "see where its memory goes"},
    {"sim", "ebb sim gpt.trace --policy dtr --ratio 0.5",
     "run it in half the memory, without the hardware"},
    {"plan", "ebb plan gpt.trace --planner best --ratio 0.5", "find the cheapest plan that fits"},
    {"experiment", "ebb experiment validate FILE", "check an experiment file"},
    {"run", "ebb run FILE --test-mode", "does an experiment run at all?"},
    {"run", "ebb run FILE", "search hyperparameters: live table, charts"},
    {"serve", "ebb serve", "the same in a browser: 'ebb ui' opens it"},
};

static void print_help(FILE *out, bool with_hidden)
{
    fprintf(out, "Usage: ebb COMMAND [ARGUMENT...]\n\n%s\nCommands:\n", about);
    print_commands(out, with_hidden);
    fprintf(out, "\nFirst steps:\n");
    for (size_t i = 0; i < sizeof first_steps / sizeof first_steps[0]; i++)
        if (find_command(first_steps[i].command) != NULL)
            fprintf(out, "  %-46s  %s\n", first_steps[i].line, first_steps[i].what);
    fprintf(
        out,
        "\n'ebb COMMAND --help' explains one command; 'ebb help --all' also lists those for "
        "developers.\n"
        "Names of commands may be cut short ('ebb e' is 'ebb experiment list'). -m, --master and "
        "-u,\n"
        "--user of commands about experiments may stand before the command, too. -v: the version.\n"
        "Every command takes --json. Exit codes: 0 success, 1 failure or negative result, 2 usage\n"
        "or invalid input file.\n");
}

static int unknown_command(const char *word)
{
    const char *names[COMMAND_COUNT + 1];
    size_t count = 0;
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (!commands[i]->is_hidden)
            names[count++] = commands[i]->name;
    size_t begins = 0;
    for (size_t i = 0; word[0] != '\0' && i < count; i++)
        begins += strncmp(names[i], word, strlen(word)) == 0;
    if (begins > 1) {
        fprintf(stderr, "ebb: error: '%s' is the beginning of", word);
        for (size_t i = 0; i < count; i++)
            if (strncmp(names[i], word, strlen(word)) == 0)
                fprintf(stderr, " %s", names[i]);
        fputs("\nTry 'ebb --help'.\n", stderr);
        return 2;
    }
    names[count++] = "help";
    const char *near = ebb_nearest(word, names, count);
    const char *what = word[0] == '-' ? "option" : "command";
    if (near != NULL && word[0] != '-')
        cli_usage_error("unknown %s '%s'; did you mean '%s'?", what, word, near);
    else
        cli_usage_error("unknown %s '%s'", what, word);
    fputs("Try 'ebb --help'.\n", stderr);
    return 2;
}

/* ebb help [--all] [COMMAND [VERB]] */
static int run_help(int argc, char **argv)
{
    bool with_hidden = argc >= 2 && strcmp(argv[1], "--all") == 0;
    if (argc == 1 || with_hidden || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout, with_hidden);
        return 0;
    }
    const struct cli_command *command = find_command(argv[1]);
    if (command == NULL)
        return unknown_command(argv[1]);
    char dash_help[] = "--help";
    char *help_argv[] = {argv[1], argc >= 3 ? argv[2] : dash_help, dash_help, NULL};
    return cli_command_run(command, argc >= 3 ? 3 : 2, help_argv);
}

/* -m and -u before the command, as in 'ebb -m HOST e list', become options of the command, which
 * says so when it has none. *moved has room for all words. Returns -1, or the exit code. */
static int move_options(int argc, char **argv, char **moved, int *count, char texts[2][1024])
{
    static const char *const names[2] = {"--master", "--user"};
    static const char letters[2] = {'m', 'u'};
    int at = 1, found = 0;
    while (at < argc && argv[at][0] == '-') {
        int which = -1;
        const char *value = NULL;
        for (int i = 0; i < 2 && which < 0; i++) {
            size_t n = strlen(names[i]);
            bool is_long = strncmp(argv[at], names[i], n) == 0;
            if (argv[at][1] == letters[i] ||
                (is_long && (argv[at][n] == '\0' || argv[at][n] == '=')))
                which = i;
            if (which >= 0 && is_long)
                value = argv[at][n] == '=' ? argv[at] + n + 1 : NULL;
            else if (which >= 0 && argv[at][2] != '\0')
                value = argv[at] + 2;
        }
        if (which < 0)
            break;
        if (value == NULL && at + 1 >= argc)
            return cli_usage_error("option %s needs a value", argv[at]);
        if (value == NULL)
            value = argv[++at];
        if (found >= 2 || strlen(value) > 1000)
            return cli_usage_error("%s: given more than once, or too long", names[which]);
        snprintf(texts[found++], 1024, "%s=%s", names[which], value);
        at++;
    }
    *count = 0;
    moved[(*count)++] = argv[0];
    bool is_put = at >= argc; /* nothing to give them to: the help page follows */
    for (; at < argc; at++) {
        for (int i = 0; !is_put && strcmp(argv[at], "--") == 0 && i < found; i++)
            moved[(*count)++] = texts[i];
        is_put = is_put || strcmp(argv[at], "--") == 0;
        moved[(*count)++] = argv[at];
    }
    for (int i = 0; !is_put && i < found; i++)
        moved[(*count)++] = texts[i];
    moved[*count] = NULL;
    return -1;
}

/* Threads of a kernel wait for each other by spinning, as OpenMP is set by default for about a
 * millisecond: where other programs run too, every wait then costs a slice of their time. Some
 * microseconds are enough. The library reads this before main begins, so the program starts itself
 * again, unless the command is one of those that ask a master; whoever has set something of the
 * kind keeps it. */
static void spin_briefly(const struct cli_command *command, char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") ||
        setenv("GOMP_SPINCOUNT", "1000", 1) != 0 || command->noun != NULL)
        return;
    execv("/proc/self/exe", argv); /* should it fail: slower, not wrong */
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr, false);
        return 2;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "-v") == 0) {
        puts("ebb " EBB_VERSION);
        return 0;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return run_help(1, argv + 1);
    if (strcmp(word, "help") == 0)
        return run_help(argc - 1, argv + 1);
    const struct cli_command *command = find_command(word);
    if (command == NULL)
        return unknown_command(word);
    spin_briefly(command, argv);
    return cli_command_run(command, argc - 1, argv + 1);
}

/* A full disk must not look like success. */
int cli_flush(int code)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0) {
        fprintf(stderr, "ebb: error: cannot write to standard output: %s\n", strerror(errno));
        code = 1;
    }
    return code;
}

int main(int argc, char **argv)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20); /* what one step's trace took, the next one takes */
    char texts[2][1024], **moved = ebb_calloc((size_t)argc + 3, sizeof *moved);
    int count = 0, code = 1;
    if (moved == NULL)
        fputs("ebb: error: out of memory\n", stderr);
    else if ((code = move_options(argc, argv, moved, &count, texts)) < 0)
        code = run(count, moved);
    ebb_free(moved);
    return cli_flush(code);
}
