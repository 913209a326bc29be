/* cli.h - the command line: one file per command, one table.
 *
 * To add a command: write src/cli/cmd_<name>.c with a `const struct cli_command cli_cmd_<name>`,
 * add one line to the table in main.c (tests/cli checks that every row has --help that names each
 * of its options, and that docs/cli/<name>.md repeats it). Verbs that ask a master are rows of their
 * noun's table (verb.h). Only this folder may print and exit.
 *
 * Exit codes: 0 success, 1 failure or negative result, 2 usage or invalid input file.
 *
 * Options are rows, parsed by cli_parse: "--name VALUE", "--name=VALUE", flags, repeatable
 * positionals. An unknown option is an error that names the nearest one. --help and --json exist
 * for every command. Commands about experiments share their last rows: see struct cli_where. */
#ifndef EBB_CLI_CLI_H
#define EBB_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/keys.h"
#include "base/status.h"

/* Values are read by the reader of key tables (base/keys.h); lists are the parser's own. */
enum cli_option_kind {
    CLI_FLAG = EBB_KEY_BOOL,     /* bool *                                   */
    CLI_STRING = EBB_KEY_TEXT,   /* const char **                            */
    CLI_INT = EBB_KEY_INT,       /* int64_t *                                */
    CLI_DOUBLE = EBB_KEY_DOUBLE, /* double *                                 */
    CLI_BYTES = EBB_KEY_BYTES,   /* uint64_t *: "48MiB"                      */
    CLI_LIST = EBB_KEY_TEXTS,    /* struct cli_list *: comma separated, repeatable */
    CLI_TEXTS = EBB_KEY_NODES,   /* struct cli_list *: repeatable, each value taken whole */
};

struct cli_list {
    const char **items; /* owned by the parser's arena (struct cli_args) */
    size_t count;
};

struct cli_option {
    const char *name; /* "policy" for --policy */
    char letter;      /* 'o' for -o, 0 for none */
    enum cli_option_kind kind;
    void *target;
    const char *value; /* name of the value in help: "P[,P...]"; NULL for flags */
    const char *help;  /* one or more lines */
};

struct cli_noun;

struct cli_command {
    const char *name;    /* "sim", or two words: "trace make" */
    const char *summary; /* one line for `ebb --help` */
    bool is_hidden;
    /* argv[0] is the command name; returns the exit code. Text meant for programs goes to stdout.
     */
    int (*run)(int argc, char **argv);
    const struct cli_noun *noun; /* in place of run: verbs that ask a master (verb.h) */
};
int cli_command_run(const struct cli_command *command, int argc, char **argv);

struct cli_args {
    const char **positional; /* owned */
    size_t positional_count;
    void **owned;
    size_t owned_count, owned_capacity;
};

/* Options that every command about experiments has; cli_parse adds their rows. */
struct cli_where {
    const char *state;  /* --state: NULL = $EBB_STATE, else ~/.local/state/ebb */
    const char *master; /* --master: NULL = $EBB_MASTER or $DET_MASTER */
    const char *user;   /* --user: NULL = $EBB_USER or $DET_USER, else the account */
    bool is_json;
    bool is_csv; /* commands that print tables; never together with is_json */
};

/* What a number may be; both ends are allowed. The parser refuses the rest. */
struct cli_limit {
    const char *name; /* of the option */
    double low, high;
};
#define CLI_LIMITS(...)                                                                            \
    .limits = (const struct cli_limit[]){__VA_ARGS__},                                             \
    .limit_count = sizeof((const struct cli_limit[]){__VA_ARGS__}) / sizeof(struct cli_limit)

/* An option that does nothing alone, or nothing beside another: the parser refuses it. */
struct cli_need {
    const char *name;
    const char *others; /* "checkpoint"; "host file": one of them; "!resume": not beside it */
};
#define CLI_NEEDS(...)                                                                             \
    .needs = (const struct cli_need[]){__VA_ARGS__},                                               \
    .need_count = sizeof((const struct cli_need[]){__VA_ARGS__}) / sizeof(struct cli_need)

/* Members of a cli_spec: options, an array or its rows in place; how many arguments besides. */
#define CLI_OPTIONS(rows) .options = (rows), .option_count = sizeof(rows) / sizeof *(rows)
#define CLI_OPTION_ROWS(...) CLI_OPTIONS(((const struct cli_option[]){__VA_ARGS__}))
#define CLI_POSITIONAL(least, most) .min_positional = (least), .max_positional = (most)

struct cli_spec {
    const char
        *usage; /* "ebb sim LOG... --policy P[,P...] (--ratio R[,R...] | --budget B[,B...])" */
    const char *description; /* paragraphs that teach; examples last */
    const struct cli_option *options;
    size_t option_count;
    const struct cli_limit *limits; /* of options of kind CLI_INT and CLI_DOUBLE */
    size_t limit_count;
    const struct cli_need *needs;
    size_t need_count;
    size_t min_positional, max_positional;
    struct cli_where *where; /* commands about experiments: filled by the rows of cli_where; NULL =
                                the command has none of them */
    const char *json_help;   /* with where: what --json prints; NULL = the answer */
    bool is_table;           /* with where: it has --csv too */
};

/* Parse argv[1..]. Returns -1 to go on, else the exit code to return at once (0 after --help, 2
 * after an error). */
int cli_parse(const struct cli_spec *spec, int argc, char **argv, struct cli_args *args);
void cli_args_fini(struct cli_args *args);

/* Commands with verbs ("trace make|show|..."): dispatch argv[1] over a table; prints help or the
 * nearest verb. */
int cli_dispatch(const char *prefix, const struct cli_command *const *verbs, size_t count, int argc,
                 char **argv);
/* The verb that the words name, which are moved to its own; NULL: help or a mistake was printed,
 * and *code is the exit code. */
const struct cli_command *cli_choose(const char *prefix, const struct cli_command *const *verbs,
                                     size_t count, int *argc, char ***argv, int *code);

/* Print "ebb: error: message" to stderr; the exit code for a status (EBB_EINPUT, EBB_ECORRUPT... ->
 * 2, else 1). */
int cli_report(const struct ebb_error *err);
/* What was printed leaves; `code`, or 1 where it cannot. */
int cli_flush(int code);
int cli_usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* returns 2 */

/* Set by Ctrl-C or SIGTERM once cli_catch_interrupts was called; long work polls it and ends
 * cleanly. */
void cli_catch_interrupts(void);
/* The same for work that ends in order after the first and in haste after the second: only the
 * third ends the program at once. A pipe that nobody reads counts as the first. */
void cli_catch_two_interrupts(void);
bool cli_is_hurried(void *context); /* there were as many as the int says; exp_master_options */
bool cli_interrupted(void);

/* Aligned text table on a stream: cells are copied; numbers right-aligned when every cell of a
 * column is one. */
struct cli_table;
/* Columns of the character at *text on a terminal, and past it: 2 of East Asian ones, 0 of marks. */
size_t cli_char_columns(const char **text);

struct cli_table *cli_table_create(const char *const *headers, size_t columns);
void cli_table_cell(struct cli_table *table, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* fills row by row */
void cli_table_print(struct cli_table *table, FILE *stream);
void cli_table_ruled(struct cli_table *table, FILE *stream); /* as psql: bars and a line */
void cli_table_csv(struct cli_table *table, FILE *stream);   /* RFC 4180, with the headers */
void cli_table_out(struct cli_table *take_table);            /* printed to stdout; gone then */
/* What commands about experiments print: ruled or CSV, to stdout; the table is gone then. */
void cli_table_show(struct cli_table *take_table, bool is_csv);
void cli_table_destroy(struct cli_table *table);

#endif
