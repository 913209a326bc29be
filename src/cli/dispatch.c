/* dispatch.c - commands with verbs, and how a failure is told. */
#include "cli/cli.h"

#include <stdarg.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"

/* "trace make" and "ebb trace make" under the prefix "trace": the verb is "make". */
static const char *verb_of(const char *prefix, const struct cli_command *command)
{
    size_t n = strlen(prefix);
    const char *name = command->name;
    if (strncmp(name, "ebb ", 4) == 0)
        name += 4;
    return strncmp(name, prefix, n) == 0 && name[n] == ' ' ? name + n + 1 : name;
}

static void print_verbs(FILE *out, const char *prefix, const struct cli_command *const *verbs,
                        size_t count)
{
    int width = 4;
    for (size_t i = 0; i < count; i++) {
        int n = (int)strlen(verb_of(prefix, verbs[i]));
        width = n > width && !verbs[i]->is_hidden ? n : width;
    }
    fprintf(out, "Usage: ebb %s VERB [ARGUMENT...]\n\nVerbs:\n", prefix);
    for (size_t i = 0; i < count; i++)
        if (!verbs[i]->is_hidden)
            fprintf(out, "  %-*s  %s\n", width, verb_of(prefix, verbs[i]), verbs[i]->summary);
    fprintf(out, "\n'ebb %s VERB --help' explains one of them.\n", prefix);
}

static const struct cli_command *find_verb(const char *prefix,
                                           const struct cli_command *const *verbs, size_t count,
                                           const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(verb_of(prefix, verbs[i]), word) == 0)
            return verbs[i];
    return NULL;
}

static int unknown_verb(const char *prefix, const struct cli_command *const *verbs, size_t count,
                        const char *word)
{
    const char *near = NULL;
    const char **names = ebb_calloc(count, sizeof *names);
    size_t shown = 0;
    for (size_t i = 0; names != NULL && i < count; i++)
        if (!verbs[i]->is_hidden)
            names[shown++] = verb_of(prefix, verbs[i]);
    if (names != NULL)
        near = ebb_nearest(word, names, shown);
    if (near != NULL)
        cli_usage_error("'ebb %s' has no verb '%s'; did you mean '%s'?", prefix, word, near);
    else
        cli_usage_error("'ebb %s' has no verb '%s'", prefix, word);
    fprintf(stderr, "Try 'ebb %s --help'.\n", prefix);
    ebb_free(names);
    return 2;
}

const struct cli_command *cli_choose(const char *prefix, const struct cli_command *const *verbs,
                                     size_t count, int *argc, char ***argv, int *code)
{
    static char help[] = "--help";
    char **words = *argv;
    if (strncmp(prefix, "ebb ", 4) == 0)
        prefix += 4;
    const char *word = *argc >= 2 ? words[1] : "";
    bool is_help =
        strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    if (*argc < 2 || (word[0] == '-' && !is_help)) { /* experiments: a missing verb means list */
        const struct cli_command *list = find_verb(prefix, verbs, count, "list");
        if (list != NULL)
            return list;
    }
    *code = *argc < 2 ? 2 : 0;
    if (*argc < 2 || (is_help && *argc == 2)) {
        print_verbs(*argc < 2 ? stderr : stdout, prefix, verbs, count);
        return NULL;
    }
    if (is_help) { /* 'help VERB' is 'VERB --help' */
        words[1] = words[2];
        words[2] = help;
        *argc = 3;
    }
    const struct cli_command *verb = find_verb(prefix, verbs, count, words[1]);
    if (verb == NULL)
        *code = unknown_verb(prefix, verbs, count, words[1]);
    --*argc;
    ++*argv;
    return verb;
}

int cli_dispatch(const char *prefix, const struct cli_command *const *verbs, size_t count, int argc,
                 char **argv)
{
    int code = 0;
    const struct cli_command *verb = cli_choose(prefix, verbs, count, &argc, &argv, &code);
    return verb != NULL ? verb->run(argc, argv) : code;
}

int cli_report(const struct ebb_error *err)
{
    fprintf(stderr, "ebb: error: %s\n",
            err->message[0] != '\0' ? err->message : ebb_status_text(err->status));
    return err->status == EBB_EINPUT || err->status == EBB_ECORRUPT ? 2 : 1;
}

int cli_usage_error(const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    fputs("ebb: error: ", stderr);
    vfprintf(stderr, fmt, list);
    va_end(list);
    fputc('\n', stderr);
    return 2;
}
