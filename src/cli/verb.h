/* verb.h - verbs that ask a master are rows. Private to cli.
 *
 * A row says what words and options a verb takes, which route answers it, and how the answer is
 * shown; one engine parses, asks and prints. A verb that needs more has a function in its row.
 * To add a verb: one row in the table of its noun (cmd_<noun>.c), one section in docs/cli.
 *
 * In route, body, said and json a '#' stands for the id, a '*' for the first word: escaped in a
 * route, quoted in a body. */
#ifndef EBB_CLI_VERB_H
#define EBB_CLI_VERB_H

#include <stddef.h>

#include "base/arena.h"
#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/master.h"

struct cli_verb;

struct cli_call { /* one run of a verb */
    const struct cli_verb *verb;
    struct cli_master *m; /* open; NULL in `check`, and when the verb opens its own */
    struct cli_where where;
    const char *const *words; /* positionals */
    size_t word_count;
    int64_t id;             /* the word that is a number */
    void *options;          /* the noun's struct, filled by the rows below */
    struct ebb_arena arena; /* lives as long as the call */
    int code;               /* the exit code of a run without failure: 0 */
};

struct cli_field { /* an option that fills a member of the noun's struct */
    const char *name;
    char letter;
    enum cli_option_kind kind;
    size_t at;         /* offsetof */
    const char *value; /* its name in help; NULL for flags */
    const char *help;
    double low, high; /* of a number; both 0 = any */
};

struct cli_verb {
    const char *name, *summary;
    const char *alias; /* a short form that is not listed, or NULL */
    bool is_hidden;
    const char *words; /* as the usage line has them: "ID", "NAME FILE"; NULL = none */
    size_t min_words, max_words;
    const char *id; /* what the number among the words counts: "trial"; NULL = there is none */
    size_t id_at;   /* which word it is */
    const char *text;
    const struct cli_field *options;
    size_t option_count;
    const struct cli_need *needs;
    size_t need_count;
    const char *json_help;
    bool has_csv;
    bool is_live; /* what only a running master knows: a note says when there is none */

    const char *method; /* NULL = GET */
    const char *route, *body;
    const char *list; /* of the answer: the rows of the table */
    const struct cli_column *columns;
    size_t column_count;
    void (*print)(const struct cli_call *call, const struct ebb_doc_node *root);
    const char *said; /* a line, when nothing else is printed */
    const char *json; /* printed for --json in place of the answer */

    int (*check)(struct cli_call *call); /* before a master is opened: -1, or the exit code */
    enum ebb_status (*run)(struct cli_call *call, struct ebb_error *err); /* in place of asking */
    bool opens_itself;                                                    /* run without a master */
    int (*main)(int argc, char **argv); /* a command like others */
};

#define CLI_WORDS(line, least, most) .words = (line), .min_words = (least), .max_words = (most)
#define CLI_ID(noun) CLI_WORDS("ID", 1, 1), .id = (noun)
#define CLI_COLUMNS(rows) .columns = (rows), .column_count = sizeof(rows) / sizeof(rows)[0]

struct cli_noun {
    const char *name;
    const struct cli_verb *verbs;
    size_t verb_count;
    size_t options_size;  /* of the struct its options fill; 0 = none */
    const void *defaults; /* of that struct; NULL = all zero */
};

#define CLI_NOUN(noun, rows, options)                                                              \
    {                                                                                              \
        .name = (noun), .verbs = (rows), .verb_count = sizeof(rows) / sizeof(rows)[0],             \
        .options_size = sizeof(options), .defaults = &(options)                                    \
    }

/* Ask the row's route and print the answer as the row says: what a verb without `run` does. */
enum ebb_status cli_verb_ask(struct cli_call *call, struct ebb_error *err);
/* The last answer, as the row says. */
void cli_verb_print(struct cli_call *call, const struct ebb_doc_node *root);
/* For a run that ends here with an exit code, and no failure: EBB_OK. */
enum ebb_status cli_leave(struct cli_call *call, int code);
/* With --json the node, or the body of the last answer when it is NULL; else a line as by printf.
 */
void cli_say(const struct cli_call *call, const struct ebb_doc_node *json, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
