/* cmd_template.c - ebb template: named pieces of configuration that experiments start from. */
#include "cli/cli.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/cmd_experiment.h"
#include "cli/master.h"
#include "cli/show.h"
#include "exp/exp.h"

struct template_options {
    struct cli_where where;
    const char *name, *file;
};

static int list(struct cli_master *m, void *context)
{
    static const char *const headers[] = {"Name", "Keys"};
    const struct template_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    enum ebb_status status = cli_ask(m, &answer, &err, "GET", NULL, "/templates");
    if (status == EBB_OK && o->where.is_json) {
        cli_print_body(&answer.response.body);
    } else if (status == EBB_OK) {
        const struct ebb_doc_node *templates = ebb_doc_get(answer.root, "templates");
        struct cli_table *table = cli_table_create(headers, 2);
        for (size_t i = 0; templates != NULL && i < templates->count; i++) {
            const struct ebb_doc_node *config = ebb_doc_get(templates->items[i], "config");
            const struct ebb_doc_node *root = config;
            struct ebb_arena arena;
            struct ebb_str keys;
            ebb_arena_init(&arena);
            ebb_str_init(&keys);
            if (config != NULL && config->kind == EBB_DOC_STRING &&
                ebb_doc_parse_yaml(&arena, "template", config->text, config->length, &root, NULL) !=
                    EBB_OK)
                root = NULL;
            for (size_t k = 0; root != NULL && root->kind == EBB_DOC_MAP && k < root->count; k++)
                ebb_str_printf(&keys, "%s%s", k > 0 ? ", " : "", root->keys[k]->text);
            cli_table_cell(table, "%s", ebb_doc_string(templates->items[i], "name", ""));
            cli_table_cell(table, "%s", ebb_str_c(&keys));
            ebb_str_fini(&keys);
            ebb_arena_fini(&arena);
        }
        cli_table_show(table, o->where.is_csv);
    }
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static enum ebb_status ask_one(struct cli_master *m, const struct template_options *o,
                               const char *method, const char *body, struct cli_answer *answer,
                               struct ebb_error *err)
{
    struct ebb_str target;
    ebb_str_init(&target);
    ebb_str_add(&target, "/templates/");
    serve_http_escape(&target, o->name);
    enum ebb_status status = cli_ask(m, answer, err, method, body, "%s", ebb_str_c(&target));
    ebb_str_fini(&target);
    return status;
}

static int describe(struct cli_master *m, void *context)
{
    const struct template_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    enum ebb_status status = ask_one(m, o, "GET", NULL, &answer, &err);
    const struct ebb_doc_node *config = ebb_doc_get(answer.root, "config");
    if (status == EBB_OK && o->where.is_json) {
        cli_print_body(&answer.response.body);
    } else if (status == EBB_OK && config != NULL) {
        struct ebb_str text;
        ebb_str_init(&text);
        if (config->kind == EBB_DOC_STRING)
            ebb_str_add(&text, config->text);
        else
            cli_show_yaml(&text, config, 0);
        fputs(ebb_str_c(&text), stdout);
        if (text.length > 0 && text.data[text.length - 1] != '\n')
            putchar('\n');
        ebb_str_fini(&text);
    }
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int set(struct cli_master *m, void *context)
{
    const struct template_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    struct ebb_file_view view;
    struct ebb_str body;
    struct ebb_json_writer w;
    if (ebb_file_view_open(&view, o->file, EXP_CONFIG_BYTES_MAX, &err) != EBB_OK)
        return cli_report(&err);
    ebb_str_init(&body);
    ebb_jsonw_init(&w, &body, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "config");
    ebb_jsonw_stringn(&w, view.data, view.length);
    ebb_jsonw_object_end(&w);
    ebb_file_view_close(&view);
    enum ebb_status status = ask_one(m, o, "PUT", ebb_str_c(&body), &answer, &err);
    if (status == EBB_OK && o->where.is_json)
        cli_print_body(&answer.response.body);
    else if (status == EBB_OK)
        printf("Set template %s\n", o->name);
    ebb_str_fini(&body);
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static int remove_one(struct cli_master *m, void *context)
{
    const struct template_options *o = context;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    enum ebb_status status = ask_one(m, o, "DELETE", NULL, &answer, &err);
    if (status == EBB_OK && o->where.is_json)
        printf("{}\n");
    else if (status == EBB_OK)
        printf("Removed template %s\n", o->name);
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static const struct verb {
    const char *name, *usage, *description;
    size_t positionals;
    int (*what)(struct cli_master *m, void *context);
} kinds[] = {
    {"list", "ebb template list [OPTION...]",
     "List templates: pieces of configuration kept by name. 'ebb run FILE --template NAME' puts\n"
     "one under the file: the file's own keys win, lists are joined.",
     0, list},
    {"describe", "ebb template describe NAME [OPTION...]", "Print a template as YAML.", 1,
     describe},
    {"set", "ebb template set NAME FILE [OPTION...]",
     "Keep a YAML file as a template, or replace the one of that name. It need not be complete.\n"
     "Experiments made earlier do not change.\n"
     "\n"
     "Example:\n"
     "  ebb template set big-store store.yaml",
     2, set},
    {"remove", "ebb template remove NAME [OPTION...]",
     "Remove a template. Experiments made with it do not change.", 1, remove_one},
};

static int run_verb(int argc, char **argv)
{
    struct template_options o = {0};
    const struct verb *kind = &kinds[0];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, argv[0]) == 0)
            kind = &kinds[i];
    const struct cli_spec spec = {
        .usage = kind->usage,
        .description = kind->description,
        .min_positional = kind->positionals,
        .max_positional = kind->positionals,
        .where = &o.where,
        .is_table = kind->positionals == 0,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        cli_args_fini(&args);
        return code;
    }
    o.name = args.positional_count > 0 ? args.positional[0] : NULL;
    o.file = args.positional_count > 1 ? args.positional[1] : NULL;
    code = o.name != NULL && o.name[0] == '\0'
               ? cli_usage_error("the name of a template is not empty")
               : cli_with_master(&o.where, kind->what, &o);
    cli_args_fini(&args);
    return code;
}

static const struct cli_command cmd_list = {
    .name = "template list", .summary = "names and keys", .run = run_verb};
static const struct cli_command cmd_describe = {
    .name = "template describe", .summary = "print one", .run = run_verb};
static const struct cli_command cmd_set = {
    .name = "template set", .summary = "keep a file by name", .run = run_verb};
static const struct cli_command cmd_remove = {
    .name = "template remove", .summary = "remove one", .run = run_verb};

static const struct cli_command *const verbs[] = {&cmd_list, &cmd_describe, &cmd_set, &cmd_remove};

static int run(int argc, char **argv)
{
    return cli_dispatch("template", verbs, sizeof verbs / sizeof verbs[0], argc, argv);
}

const struct cli_command cli_cmd_template = {
    .name = "template",
    .summary = "named pieces of configuration",
    .run = run,
};
