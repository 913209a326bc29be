/* verb.c - see verb.h. */
#include "cli/verb.h"

#include <stdarg.h>
#include <string.h>

#include "base/heap.h"
#include "base/json.h"
#include "cli/show.h"

/* ---- what a row says, with the words put in ---- */

enum place { PLAIN, SEGMENT, QUOTED };

static const char *expand(struct cli_call *c, const char *pattern, enum place place)
{
    const char *word = c->word_count > 0 ? c->words[0] : "";
    struct ebb_str out = {0};
    struct ebb_json_writer w;
    for (const char *at = pattern; *at != '\0'; at++) {
        if (*at == '#') {
            ebb_str_printf(&out, "%lld", (long long)c->id);
        } else if (*at != '*') {
            ebb_str_addc(&out, *at);
        } else if (place == SEGMENT) {
            serve_http_escape(&out, word);
        } else if (place == QUOTED) {
            ebb_jsonw_init(&w, &out, 0);
            ebb_jsonw_string(&w, word);
        } else {
            ebb_str_add(&out, word);
        }
    }
    const char *text = ebb_arena_strndup(&c->arena, ebb_str_c(&out), out.length);
    ebb_str_fini(&out);
    return text != NULL ? text : "";
}

enum ebb_status cli_leave(struct cli_call *c, int code)
{
    c->code = code;
    return EBB_OK;
}

void cli_say(const struct cli_call *c, const struct ebb_doc_node *json, const char *fmt, ...)
{
    va_list list;
    if (c->where.is_json && json != NULL)
        cli_print_json(json);
    else if (c->where.is_json)
        cli_print_body(cli_last_body(c->m));
    if (c->where.is_json)
        return;
    va_start(list, fmt);
    vprintf(fmt, list);
    va_end(list);
    putchar('\n');
}

void cli_verb_print(struct cli_call *c, const struct ebb_doc_node *root)
{
    const struct cli_verb *v = c->verb;
    if (c->where.is_json && v->json != NULL)
        puts(expand(c, v->json, PLAIN));
    else if (c->where.is_json)
        cli_print_body(cli_last_body(c->m));
    else if (v->print != NULL)
        v->print(c, root);
    else if (v->columns != NULL)
        cli_columns_show(v->columns, v->column_count, ebb_doc_get(root, v->list), c->where.is_csv);
    else if (v->said != NULL)
        puts(expand(c, v->said, PLAIN));
}

enum ebb_status cli_verb_ask(struct cli_call *c, struct ebb_error *err)
{
    const struct cli_verb *v = c->verb;
    const struct ebb_doc_node *root;
    EBB_TRY(cli_send(c->m, &root, err, v->method != NULL ? v->method : "GET",
                     v->body != NULL ? expand(c, v->body, QUOTED) : NULL, "%s",
                     expand(c, v->route, SEGMENT)));
    if (v->is_live && c->m->own != NULL)
        fprintf(stderr, "ebb: note: no master runs; this is what the state directory says\n");
    cli_verb_print(c, root);
    return EBB_OK;
}

/* ---- a run ---- */

static int with_master(struct cli_call *c)
{
    const struct cli_verb *v = c->verb;
    struct ebb_error err = {0};
    struct cli_master m;
    enum ebb_status status = EBB_OK;
    if (!v->opens_itself)
        status = cli_master_open(&m, &c->where, CLI_ASK, NULL, &err);
    if (status != EBB_OK)
        return cli_report(&err);
    c->m = v->opens_itself ? NULL : &m;
    status = (v->run != NULL ? v->run : cli_verb_ask)(c, &err);
    if (!v->opens_itself)
        cli_master_close(&m, EXP_CLOSE_LEAVE, 0);
    return status == EBB_OK ? c->code : cli_report(&err);
}

/* The rows of options, of limits, and the usage line as the parser has them; in the arena. */
static bool make_spec(struct cli_call *c, const struct cli_noun *noun, struct cli_spec *spec)
{
    const struct cli_verb *v = c->verb;
    struct cli_option *options = ebb_arena_calloc(&c->arena, v->option_count + 1, sizeof *options);
    struct cli_limit *limits = ebb_arena_calloc(&c->arena, v->option_count + 1, sizeof *limits);
    char *usage = ebb_arena_printf(&c->arena, "ebb %s %s%s%s [OPTION...]", noun->name, v->name,
                                   v->words != NULL ? " " : "", v->words != NULL ? v->words : "");
    if (options == NULL || limits == NULL || usage == NULL)
        return false;
    for (size_t i = 0; i < v->option_count; i++) {
        const struct cli_field *f = &v->options[i];
        options[i] = (struct cli_option){f->name,  f->letter, f->kind, (char *)c->options + f->at,
                                         f->value, f->help};
        if (f->low != f->high)
            limits[spec->limit_count++] = (struct cli_limit){f->name, f->low, f->high};
    }
    spec->usage = usage;
    spec->description = v->text;
    spec->options = options;
    spec->option_count = v->option_count;
    spec->limits = limits;
    spec->needs = v->needs;
    spec->need_count = v->need_count;
    spec->min_positional = v->min_words;
    spec->max_positional = v->max_words;
    spec->where = &c->where;
    spec->json_help = v->json_help;
    spec->is_table = v->has_csv;
    return true;
}

static int parse_and_run(struct cli_call *c, const struct cli_noun *noun, int argc, char **argv)
{
    const struct cli_verb *v = c->verb;
    struct cli_spec spec = {0};
    struct cli_args args = {0};
    struct ebb_error err;
    c->options = ebb_arena_calloc(&c->arena, 1, noun->options_size + 1);
    if (c->options == NULL || !make_spec(c, noun, &spec)) {
        (void)ebb_no_memory(&err, noun->options_size);
        return cli_report(&err);
    }
    if (noun->defaults != NULL)
        memcpy(c->options, noun->defaults, noun->options_size);
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    c->words = args.positional;
    c->word_count = args.positional_count;
    if (v->check != NULL)
        code = v->check(c);
    if (code < 0 && v->id != NULL)
        code = cli_parse_id(v->id, c->words[v->id_at], &c->id);
    if (code < 0)
        code = with_master(c);
    cli_args_fini(&args);
    return code;
}

static int run_verb(const struct cli_noun *noun, const struct cli_verb *v, int argc, char **argv)
{
    struct cli_call c = {.verb = v};
    if (v->main != NULL)
        return v->main(argc, argv);
    ebb_arena_init(&c.arena);
    int code = parse_and_run(&c, noun, argc, argv);
    ebb_arena_fini(&c.arena);
    return code;
}

#define MOST_VERBS 32

static int run_noun(const struct cli_noun *noun, int argc, char **argv)
{
    struct cli_command rows[2 * MOST_VERBS] = {0};
    const struct cli_command *all[2 * MOST_VERBS];
    const struct cli_verb *verbs[2 * MOST_VERBS];
    size_t count = 0;
    for (size_t pass = 0; pass < 2; pass++) /* short forms come last: they are never suggested */
        for (size_t i = 0; i < noun->verb_count && i < MOST_VERBS; i++) {
            const struct cli_verb *v = &noun->verbs[i];
            if (pass > 0 && v->alias == NULL)
                continue;
            rows[count] = (struct cli_command){.name = pass > 0 ? v->alias : v->name,
                                               .summary = v->summary,
                                               .is_hidden = pass > 0 || v->is_hidden};
            all[count] = &rows[count];
            verbs[count++] = v;
        }
    int code = 0;
    const struct cli_command *chosen = cli_choose(noun->name, all, count, &argc, &argv, &code);
    return chosen != NULL ? run_verb(noun, verbs[chosen - rows], argc, argv) : code;
}

int cli_command_run(const struct cli_command *command, int argc, char **argv)
{
    return command->noun != NULL ? run_noun(command->noun, argc, argv) : command->run(argc, argv);
}
