/* args.c - options are rows: parse them, print them.
 *
 * Accepted: --name VALUE, --name=VALUE, -o VALUE, -oVALUE, bundled one-letter flags, "--" before
 * positionals that start with '-'; a lone "-" and negative numbers are positionals. A later value
 * replaces an earlier one, except lists, which collect. --help anywhere wins over errors elsewhere,
 * so that a lost user always gets the page. Every message names the option, what was found and what
 * is allowed, and ends with where to read more. */
#include "cli/cli.h"

#include <stdarg.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"

#define HELP_COLUMN 26 /* where option texts start */

struct parse {
    const struct cli_spec *spec;
    struct cli_args *args;
    bool *is_seen; /* per option: lists replace their default at first use */
    size_t positional_capacity;
};

enum { GO_ON = -1 };

/* ---- messages ---------------------------------------------------------------------------- */

/* "ebb sim LOG... --policy P" -> "ebb sim": the lower-case words up to the first argument. */
static void command_words(const struct cli_spec *spec, char *buf, size_t size)
{
    size_t end = 0, at = 0;
    const char *u = spec->usage;
    while (u[at] != '\0') {
        size_t stop = at;
        bool is_word = u[at] >= 'a' && u[at] <= 'z';
        for (; u[stop] != '\0' && u[stop] != ' ' && u[stop] != '\n'; stop++)
            is_word = is_word && ((u[stop] >= 'a' && u[stop] <= 'z') || u[stop] == '-' ||
                                  (u[stop] >= '0' && u[stop] <= '9'));
        if (!is_word)
            break;
        end = stop;
        at = u[stop] == ' ' ? stop + 1 : stop;
        if (u[at] == '\n')
            break;
    }
    if (end >= size)
        end = size - 1;
    memcpy(buf, u, end);
    buf[end] = '\0';
}

static int usage_fail(const struct parse *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static int usage_fail(const struct parse *p, const char *fmt, ...)
{
    char words[64];
    va_list list;
    command_words(p->spec, words, sizeof words);
    va_start(list, fmt);
    fputs("ebb: error: ", stderr);
    vfprintf(stderr, fmt, list);
    va_end(list);
    fprintf(stderr, "\nTry '%s --help'.\n", words);
    return 2;
}

static int out_of_memory(void)
{
    struct ebb_error err;
    ebb_no_memory(&err, 0);
    return cli_report(&err);
}

/* ---- help -------------------------------------------------------------------------------- */

/* Lines after the first are indented to `column`, where the caller has brought the cursor. */
static void print_lines(const char *text, int column)
{
    for (const char *line = text; line != NULL;) {
        const char *end = strchr(line, '\n');
        int length = end != NULL ? (int)(end - line) : (int)strlen(line);
        printf("%*s%.*s\n", line == text ? 0 : column, "", length, line);
        line = end != NULL && end[1] != '\0' ? end + 1 : NULL;
    }
}

static void print_option(char letter, const char *name, const char *value, const char *help)
{
    int at = letter != 0 ? printf("  -%c, --%s", letter, name) : printf("      --%s", name);
    if (value != NULL)
        at += printf(" %s", value);
    if (at > HELP_COLUMN - 2) { /* no room beside it: the text starts on the next line */
        putchar('\n');
        at = 0;
    }
    printf("%*s", HELP_COLUMN - at, "");
    print_lines(help, HELP_COLUMN);
}

static void print_help(const struct cli_spec *spec)
{
    bool has_help = false;
    printf("Usage: ");
    print_lines(spec->usage, 7);
    if (spec->description != NULL && spec->description[0] != '\0') {
        size_t n = strlen(spec->description);
        printf("\n%s%s", spec->description, spec->description[n - 1] == '\n' ? "" : "\n");
    }
    printf("\nOptions:\n");
    for (size_t i = 0; i < spec->option_count; i++) {
        const struct cli_option *o = &spec->options[i];
        const char *value = o->kind == CLI_FLAG ? NULL : o->value != NULL ? o->value : "VALUE";
        has_help = has_help || strcmp(o->name, "help") == 0;
        print_option(o->letter, o->name, value, o->help != NULL ? o->help : "");
    }
    if (!has_help)
        print_option('h', "help", NULL, "show this help and leave");
}

/* ---- values ------------------------------------------------------------------------------ */

/* Hand p to the args, which free it; p is freed when that fails. */
static bool own(struct cli_args *args, void *p)
{
    if (p == NULL)
        return false;
    if (ebb_grow(&args->owned, &args->owned_capacity, args->owned_count + 1, sizeof *args->owned,
                 NULL) != EBB_OK) {
        ebb_free(p);
        return false;
    }
    args->owned[args->owned_count++] = p;
    return true;
}

static int list_add(struct parse *p, const struct cli_option *o, const char *shown,
                    const char *value)
{
    struct cli_list *list = o->target;
    size_t index = (size_t)(o - p->spec->options);
    size_t old = p->is_seen[index] ? list->count : 0, more = 1;
    bool is_split = o->kind == CLI_LIST;
    for (const char *c = value; is_split && *c != '\0'; c++)
        more += *c == ',';

    char *copy = ebb_strdup(value);
    if (!own(p->args, copy))
        return out_of_memory();
    const char **items = ebb_calloc(old + more, sizeof *items);
    if (!own(p->args, items))
        return out_of_memory();
    for (size_t i = 0; i < old; i++)
        items[i] = list->items[i];
    size_t count = old;
    for (char *item = copy; item != NULL;) {
        char *comma = is_split ? strchr(item, ',') : NULL;
        if (comma != NULL)
            *comma = '\0';
        if (*item == '\0')
            return usage_fail(p, "option %s: empty item in the list '%s'", shown, value);
        items[count++] = item;
        item = comma != NULL ? comma + 1 : NULL;
    }
    list->items = items;
    list->count = count;
    return GO_ON;
}

/* The limits of a number as the bounds of a row; NULL: none. */
static const char *option_bounds(const struct cli_spec *spec, const struct cli_option *o, char *buf,
                                 size_t size)
{
    for (size_t i = 0; i < spec->limit_count; i++) {
        const struct cli_limit *l = &spec->limits[i];
        if (strcmp(l->name, o->name) == 0) {
            snprintf(buf, size, ">= %.15g, <= %.15g", l->low, l->high);
            return buf;
        }
    }
    return NULL;
}

static int option_set(struct parse *p, const struct cli_option *o, const char *shown,
                      const char *value)
{
    char bounds[64];
    struct ebb_key key = {.path = o->name,
                          .kind = (enum ebb_key_kind)o->kind,
                          .bounds = option_bounds(p->spec, o, bounds, sizeof bounds)};
    struct ebb_str why = {0};
    int code = GO_ON;
    if (o->kind == CLI_LIST || o->kind == CLI_TEXTS)
        code = list_add(p, o, shown, value);
    else if (!ebb_key_read_text(&key, o->kind == CLI_FLAG ? "true" : value, o->target, &why))
        code = usage_fail(p, "option %s: %s", shown, ebb_str_c(&why));
    ebb_str_fini(&why);
    p->is_seen[o - p->spec->options] = true;
    return code;
}

/* ---- words of the command line ------------------------------------------------------------- */

static int unknown_long(struct parse *p, const char *name, size_t length)
{
    const struct cli_spec *spec = p->spec;
    const char *near = NULL;
    char *text = ebb_strndup(name, length);
    const char **names = ebb_calloc(spec->option_count + 1, sizeof *names);
    if (text != NULL && names != NULL) {
        for (size_t i = 0; i < spec->option_count; i++)
            names[i] = spec->options[i].name;
        names[spec->option_count] = "help";
        near = ebb_nearest(text, names, spec->option_count + 1);
    }
    int code = near != NULL ? usage_fail(p, "unknown option --%.*s; did you mean --%s?",
                                         (int)length, name, near)
                            : usage_fail(p, "unknown option --%.*s", (int)length, name);
    ebb_free(names);
    ebb_free(text);
    return code;
}

/* The value that follows an option as a word of its own. A word that starts with "--" is more
 * likely a forgotten value than a value; --name=--text says it plainly. */
static int next_value(const struct parse *p, const struct cli_option *o, const char *shown,
                      char **argv, int argc, int *at, const char **value)
{
    const char *what = o->value != NULL ? o->value : "VALUE";
    if (*at + 1 >= argc)
        return usage_fail(p, "option %s needs a value: %s", shown, what);
    const char *next = argv[*at + 1];
    if (next[0] == '-' && next[1] == '-')
        return usage_fail(p, "option %s needs a value: %s; found %s (to pass that, write %s=%s)",
                          shown, what, next, shown, next);
    *value = next;
    ++*at;
    return GO_ON;
}

static int parse_long(struct parse *p, char **argv, int argc, int *at)
{
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    for (size_t i = 0; i < p->spec->option_count; i++) {
        const struct cli_option *o = &p->spec->options[i];
        if (strncmp(o->name, name, length) != 0 || o->name[length] != '\0')
            continue;
        char shown[64];
        snprintf(shown, sizeof shown, "--%s", o->name);
        const char *value = equals != NULL ? equals + 1 : NULL;
        if (o->kind == CLI_FLAG && value != NULL)
            return usage_fail(p, "option %s takes no value, found '%s'", shown, value);
        if (o->kind != CLI_FLAG && value == NULL) {
            int code = next_value(p, o, shown, argv, argc, at, &value);
            if (code != GO_ON)
                return code;
        }
        return option_set(p, o, shown, value);
    }
    return unknown_long(p, name, length);
}

static int parse_letters(struct parse *p, char **argv, int argc, int *at)
{
    for (const char *c = argv[*at] + 1; *c != '\0'; c++) {
        const struct cli_option *o = NULL;
        for (size_t i = 0; i < p->spec->option_count && o == NULL; i++)
            if (p->spec->options[i].letter == *c)
                o = &p->spec->options[i];
        if (o == NULL && argv[*at][2] == '\0')
            return usage_fail(p, "unknown option -%c", *c);
        if (o == NULL)
            return usage_fail(p,
                              "unknown option -%c in '%s' (a positional that starts with '-' goes "
                              "after '--')",
                              *c, argv[*at]);
        char shown[] = {'-', *c, '\0'};
        if (o->kind == CLI_FLAG) {
            option_set(p, o, shown, NULL);
            continue;
        }
        const char *value = c + 1;
        int code = GO_ON;
        if (*value == '\0')
            code = next_value(p, o, shown, argv, argc, at, &value);
        return code != GO_ON ? code : option_set(p, o, shown, value);
    }
    return GO_ON;
}

/* "-3", "-.5": no option has a digit for its letter, so it is a value. */
static bool is_negative(const char *word)
{
    const char *c = word + 1 + (word[1] == '.');
    return *c >= '0' && *c <= '9';
}

static int parse_words(struct parse *p, int argc, char **argv)
{
    bool options_end = false;
    for (int at = 1; at < argc; at++) {
        const char *word = argv[at];
        int code = GO_ON;
        if (!options_end && strcmp(word, "--") == 0) {
            options_end = true;
        } else if (!options_end && word[0] == '-' && word[1] == '-') {
            code = parse_long(p, argv, argc, &at);
        } else if (!options_end && word[0] == '-' && word[1] != '\0' && !is_negative(word)) {
            code = parse_letters(p, argv, argc, &at);
        } else if (p->args->positional_count >= p->spec->max_positional) {
            code = p->spec->max_positional == 0
                       ? usage_fail(p, "unexpected argument '%s'", word)
                       : usage_fail(p, "unexpected argument '%s': at most %zu allowed", word,
                                    p->spec->max_positional);
        } else if (ebb_grow(&p->args->positional, &p->positional_capacity,
                            p->args->positional_count + 1, sizeof *p->args->positional,
                            NULL) != EBB_OK) {
            code = out_of_memory();
        } else {
            p->args->positional[p->args->positional_count++] = word;
        }
        if (code != GO_ON)
            return code;
    }
    if (p->args->positional_count < p->spec->min_positional) {
        char words[64];
        command_words(p->spec, words, sizeof words);
        return usage_fail(p, "%s needs %s%zu argument%s, %zu given", words,
                          p->spec->max_positional > p->spec->min_positional ? "at least " : "",
                          p->spec->min_positional, p->spec->min_positional == 1 ? "" : "s",
                          p->args->positional_count);
    }
    return GO_ON;
}

/* Index of the option that the word names; the words of a spec are right. */
static size_t option_index(const struct cli_spec *spec, const char *word, size_t length)
{
    size_t i = 0;
    while (strncmp(spec->options[i].name, word, length) != 0 || spec->options[i].name[length])
        i++;
    return i;
}

static int check_needs(const struct parse *p)
{
    const struct cli_spec *spec = p->spec;
    for (size_t i = 0; i < spec->need_count; i++) {
        const struct cli_need *need = &spec->needs[i];
        bool is_never = need->others[0] == '!', has_one = false;
        struct ebb_str names = {0};
        size_t n = 0;
        const char *word;
        for (size_t k = 0; (word = ebb_words_at(need->others + is_never, k, &n)) != NULL; k++) {
            size_t at = option_index(spec, word, n);
            const char *value = spec->options[at].value;
            has_one = has_one || p->is_seen[at];
            ebb_str_printf(&names, "%s--%.*s%s%s", k > 0 ? " or " : "", (int)n, word,
                           value && !is_never ? " " : "", value && !is_never ? value : "");
        }
        int code = GO_ON;
        if (p->is_seen[option_index(spec, need->name, strlen(need->name))] && has_one == is_never)
            code = usage_fail(p,
                              is_never ? "--%s does nothing beside %s: leave one of them away"
                                       : "--%s needs %s: alone it does nothing",
                              need->name, ebb_str_c(&names));
        ebb_str_fini(&names);
        if (code != GO_ON)
            return code;
    }
    return GO_ON;
}

/* ---- rows that commands about experiments share --------------------------------------------- */

#define WHERE_ROWS 5

static void where_rows(const struct cli_spec *spec, struct cli_option *rows, size_t *count)
{
    struct cli_where *w = spec->where;
    const struct cli_option all[WHERE_ROWS] = {
        {"csv", 0, CLI_FLAG, &w->is_csv, NULL, "comma-separated values"},
        {"state", 0, CLI_STRING, &w->state, "DIR",
         "state directory; else $EBB_STATE, else ~/.local/state/ebb"},
        {"master", 'm', CLI_STRING, &w->master, "ADDRESS",
         "HOST[:PORT] of a master that listens on TCP; else $EBB_MASTER"},
        {"user", 'u', CLI_STRING, &w->user, "NAME",
         "in whose name (ebb user list); else $EBB_USER, else the account"},
        {"json", 0, CLI_FLAG, &w->is_json, NULL,
         spec->json_help != NULL ? spec->json_help : "print the answer as JSON"},
    };
    for (size_t i = spec->is_table ? 0 : 1; i < WHERE_ROWS; i++)
        rows[(*count)++] = all[i];
}

static bool asks_help(const struct cli_spec *spec, int argc, char **argv)
{
    bool has_h = false;
    for (size_t i = 0; i < spec->option_count; i++)
        has_h = has_h || spec->options[i].letter == 'h';
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || (!has_h && strcmp(argv[i], "-h") == 0))
            return true;
    return false;
}

static int parse_all(const struct cli_spec *spec, int argc, char **argv, struct cli_args *args)
{
    if (asks_help(spec, argc, argv)) {
        print_help(spec);
        return 0;
    }
    struct parse p = {.spec = spec, .args = args};
    p.is_seen = ebb_calloc(spec->option_count + 1, sizeof *p.is_seen);
    int code = p.is_seen != NULL ? parse_words(&p, argc, argv) : out_of_memory();
    if (code == GO_ON)
        code = check_needs(&p);
    ebb_free(p.is_seen);
    if (code == GO_ON && spec->where != NULL && spec->where->is_csv && spec->where->is_json)
        code = usage_fail(&p, "only one of --csv and --json");
    return code;
}

int cli_parse(const struct cli_spec *spec, int argc, char **argv, struct cli_args *args)
{
    *args = (struct cli_args){0};
    struct cli_spec whole = *spec;
    struct cli_option *rows = NULL;
    int code;
    if (spec->where != NULL) {
        rows = ebb_calloc(spec->option_count + WHERE_ROWS, sizeof *rows);
        if (rows == NULL)
            return out_of_memory();
        for (size_t i = 0; i < spec->option_count; i++)
            rows[i] = spec->options[i];
        whole.options = rows;
        where_rows(spec, rows, &whole.option_count);
    }
    code = parse_all(&whole, argc, argv, args);
    ebb_free(rows);
    if (code != GO_ON)
        cli_args_fini(args);
    return code;
}

void cli_args_fini(struct cli_args *args)
{
    for (size_t i = 0; i < args->owned_count; i++)
        ebb_free(args->owned[i]);
    ebb_free(args->owned);
    ebb_free(args->positional);
    *args = (struct cli_args){0};
}
