/* cmd_template.c - ebb template: named pieces of configuration that experiments start from. */
#include "cli/verb.h"

#include "base/file.h"
#include "base/json.h"
#include "cli/show.h"

/* The keys of a template, which is YAML text. */
static void show_keys(struct ebb_str *out, const struct ebb_doc_node *config, bool is_csv)
{
    const struct ebb_doc_node *root = config;
    struct ebb_arena arena = {0};
    (void)is_csv;
    if (config != NULL && config->kind == EBB_DOC_STRING &&
        ebb_doc_parse_yaml(&arena, "template", config->text, config->length, &root, NULL) != EBB_OK)
        root = NULL;
    for (size_t k = 0; root != NULL && root->kind == EBB_DOC_MAP && k < root->count; k++)
        ebb_str_printf(out, "%s%s", k > 0 ? ", " : "", root->keys[k]->text);
    ebb_arena_fini(&arena);
}

static void print_one(const struct cli_call *c, const struct ebb_doc_node *root)
{
    const struct ebb_doc_node *config = ebb_doc_get(root, "config");
    (void)c;
    if (config == NULL || config->kind != EBB_DOC_STRING) {
        cli_print_yaml(config);
        return;
    }
    fputs(config->text, stdout);
    if (config->length > 0 && config->text[config->length - 1] != '\n')
        putchar('\n');
}

static enum ebb_status set(struct cli_call *c, struct ebb_error *err)
{
    struct ebb_file_view view;
    struct ebb_str body = {0}, target = {0};
    struct ebb_json_writer w;
    const struct ebb_doc_node *root;
    EBB_TRY(ebb_file_view_open(&view, c->words[1], EXP_CONFIG_BYTES_MAX, err));
    ebb_jsonw_init(&w, &body, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key(&w, "config");
    ebb_jsonw_stringn(&w, view.data, view.length);
    ebb_jsonw_object_end(&w);
    ebb_file_view_close(&view);
    serve_http_escape(&target, c->words[0]);
    enum ebb_status status =
        cli_send(c->m, &root, err, "PUT", ebb_str_c(&body), "/templates/%s", ebb_str_c(&target));
    if (status == EBB_OK)
        cli_say(c, NULL, "Set template %s", c->words[0]);
    ebb_str_fini(&body);
    ebb_str_fini(&target);
    return status;
}

static int check_name(struct cli_call *c)
{
    return c->words[0][0] == '\0' ? cli_usage_error("the name of a template is not empty") : -1;
}

static const struct cli_column columns[] = {
    {"Name", "name", CLI_AS_TEXT, NULL},
    {"Keys", "config", CLI_AS_TEXT, show_keys},
};

static const struct cli_verb verbs[] = {
    {.name = "list",
     .summary = "names and keys",
     .text = "List templates: pieces of configuration kept by name. 'ebb run FILE --template NAME' "
             "puts\n"
             "one under the file: the file's own keys win, lists are joined.",
     .has_csv = true,
     .route = "/templates",
     .list = "templates",
     CLI_COLUMNS(columns)},
    {.name = "describe",
     .summary = "print one",
     CLI_WORDS("NAME", 1, 1),
     .text = "Print a template as YAML.",
     .check = check_name,
     .route = "/templates/*",
     .print = print_one},
    {.name = "set",
     .summary = "keep a file by name",
     CLI_WORDS("NAME FILE", 2, 2),
     .text = "Keep a YAML file as a template, or replace the one of that name. It need not be "
             "complete.\n"
             "Experiments made earlier do not change.\n"
             "\n"
             "Example:\n"
             "  ebb template set big-store store.yaml",
     .check = check_name,
     .run = set},
    {.name = "remove",
     .summary = "remove one",
     CLI_WORDS("NAME", 1, 1),
     .text = "Remove a template. Experiments made with it do not change.",
     .check = check_name,
     .method = "DELETE",
     .route = "/templates/*",
     .said = "Removed template *",
     .json = "{}"},
};

static const struct cli_noun noun = {
    .name = "template", .verbs = verbs, .verb_count = sizeof verbs / sizeof verbs[0]};

const struct cli_command cli_cmd_template = {
    .name = "template", .summary = "named pieces of configuration", .noun = &noun};
