/* ignore.h - files that stay out of a model definition, in gitignore syntax. Private to cli.
 *
 * Patterns as git has them: '#' comments, '!' takes back, a trailing '/' means directories only, a
 * '/' elsewhere ties the pattern to the root, '*' '?' '[...]' stay within a name, '**' crosses
 * directories. The last pattern that matches decides. */
#ifndef EBB_CLI_IGNORE_H
#define EBB_CLI_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct cli_ignore {
    char *text; /* owned: patterns point into it */
    struct cli_ignore_rule {
        const char *pattern;
        bool is_negated, is_directory, is_rooted;
    } * rules;
    size_t count, capacity;
};

/* Rules from text; always begins with what no definition wants (.git, __pycache__, *.pyc). */
enum ebb_status cli_ignore_parse(struct cli_ignore *ignore, const char *text, size_t length,
                                 struct ebb_error *err);
void cli_ignore_fini(struct cli_ignore *ignore);
/* `path` is relative to the root, without a leading '/'. A file below an ignored directory is not
 * asked about: the walk does not enter it. */
bool cli_ignore_has(const struct cli_ignore *ignore, const char *path, bool is_directory);

#endif
