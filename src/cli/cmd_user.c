/* cmd_user.c - ebb user: names that experiments belong to. */
#include "cli/cli.h"

#include <string.h>

#include "base/json.h"
#include "cli/master.h"
#include "cli/show.h"
#include "exp/exp.h"

struct user_options {
    struct cli_where where;
    const char *verb, *name;
};

static void print_list(const struct ebb_doc_node *root, bool is_csv)
{
    static const char *const headers[] = {"User", "Active", "Created", "Experiments"};
    const struct ebb_doc_node *list = ebb_doc_get(root, "users");
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof headers[0]);
    char buf[CLI_CELL];
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        const struct ebb_doc_node *u = list->items[i];
        cli_table_cell(table, "%s", ebb_doc_string(u, "name", ""));
        cli_table_cell(table, "%s", ebb_doc_bool(u, "active", false) ? "true" : "false");
        cli_table_cell(table, "%s", cli_show_time(u, "created_time", buf));
        cli_table_cell(table, "%s", cli_show_number(u, "num_experiments", buf));
    }
    cli_table_show(table, is_csv);
}

static int show(struct cli_master *m, void *context)
{
    const struct user_options *o = context;
    bool is_list = strcmp(o->verb, "list") == 0;
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    enum ebb_status status = cli_ask(m, &answer, &err, "GET", NULL, is_list ? "/users" : "/me");
    if (status == EBB_OK && o->where.is_json)
        cli_print_body(&answer.response.body);
    else if (status == EBB_OK && is_list)
        print_list(answer.root, o->where.is_csv);
    else if (status == EBB_OK)
        printf("%s\n", ebb_doc_string(answer.root, "name", ""));
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static enum ebb_status ask_change(struct cli_master *m, const struct user_options *o,
                                  struct cli_answer *answer, struct ebb_error *err)
{
    struct ebb_str text;
    enum ebb_status status;
    ebb_str_init(&text);
    if (strcmp(o->verb, "create") == 0) {
        struct ebb_json_writer w;
        ebb_jsonw_init(&w, &text, 0);
        ebb_jsonw_object(&w);
        ebb_jsonw_key(&w, "name");
        ebb_jsonw_string(&w, o->name);
        ebb_jsonw_object_end(&w);
        status = cli_ask(m, answer, err, "POST", ebb_str_c(&text), "/users");
    } else {
        bool is_active = strcmp(o->verb, "activate") == 0;
        serve_http_escape(&text, o->name);
        status = cli_ask(m, answer, err, "PATCH",
                         is_active ? "{\"active\": true}" : "{\"active\": false}", "/users/%s",
                         ebb_str_c(&text));
    }
    ebb_str_fini(&text);
    return status;
}

static int change(struct cli_master *m, void *context)
{
    const struct user_options *o = context;
    const char *past = strcmp(o->verb, "create") == 0     ? "Created"
                       : strcmp(o->verb, "activate") == 0 ? "Activated"
                                                          : "Deactivated";
    struct ebb_error err = {0};
    struct cli_answer answer = {0};
    if (strcmp(o->verb, "create") == 0)
        m->user = NULL; /* EBB_USER may already be the name that is to be made */
    enum ebb_status status = ask_change(m, o, &answer, &err);
    if (status == EBB_OK && o->where.is_json)
        cli_print_body(&answer.response.body);
    else if (status == EBB_OK)
        printf("%s user %s\n", past, o->name);
    cli_answer_fini(&answer);
    return status == EBB_OK ? 0 : cli_report(&err);
}

static const struct user_verb {
    const char *verb, *usage, *description;
    size_t positionals;
    int (*what)(struct cli_master *m, void *context);
} kinds[] = {
    {"list", "ebb user list [OPTION...]",
     "Names that experiments can belong to. -u NAME, or $EBB_USER, says in whose name a command\n"
     "acts: experiments it makes are NAME's, and 'ebb experiment list' shows NAME's. Without it,\n"
     "the account that runs the master.\n"
     "\n"
     "A name is no lock: whoever may use the state directory may use every name in it.",
     0, show},
    {"create", "ebb user create NAME [OPTION...]",
     "Add a name that experiments can belong to. Others are refused, so that a typing error\n"
     "does not become an owner.\n"
     "\n"
     "Example:\n"
     "  ebb user create ada && ebb -u ada run exp.yaml",
     1, change},
    {"activate", "ebb user activate NAME [OPTION...]", "Let a name be used again.", 1, change},
    {"deactivate", "ebb user deactivate NAME [OPTION...]",
     "Let a name be used no more. Its experiments stay, and go on.", 1, change},
    {"whoami", "ebb user whoami [OPTION...]", "Print the name commands act in.", 0, show},
};

static int run_verb(int argc, char **argv)
{
    const struct user_verb *kind = &kinds[0];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].verb, argv[0]) == 0)
            kind = &kinds[i];
    struct user_options o = {.verb = kind->verb};
    const struct cli_spec spec = {
        .usage = kind->usage,
        .description = kind->description,
        .min_positional = kind->positionals,
        .max_positional = kind->positionals,
        .where = &o.where,
        .is_table = strcmp(kind->verb, "list") == 0,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    o.name = args.positional_count > 0 ? args.positional[0] : NULL;
    code = cli_with_master(&o.where, kind->what, &o);
    cli_args_fini(&args);
    return code;
}

/* Determined's verbs that need passwords: said, not silently absent. */
static int run_password(int argc, char **argv)
{
    (void)argc;
    fprintf(stderr,
            "ebb: error: 'ebb user %s': there are no passwords here. The state directory is one\n"
            "account's own; -u NAME or EBB_USER=NAME says in whose name a command acts.\n",
            argv[0]);
    return 1;
}

/* clang-format off */
static const struct cli_command cmd_list = {"user list", "names and whose experiments", false, run_verb};
static const struct cli_command cmd_create = {"user create", "add a name", false, run_verb};
static const struct cli_command cmd_activate = {"user activate", "let a name be used", false, run_verb};
static const struct cli_command cmd_deactivate = {"user deactivate", "let it be used no more", false, run_verb};
static const struct cli_command cmd_whoami = {"user whoami", "the name commands act in", false, run_verb};
static const struct cli_command cmd_login = {"user login", "", true, run_password};
static const struct cli_command cmd_logout = {"user logout", "", true, run_password};
static const struct cli_command cmd_password = {"user change-password", "", true, run_password};
/* clang-format on */

static const struct cli_command *const verbs[] = {&cmd_list,       &cmd_create,  &cmd_activate,
                                                  &cmd_deactivate, &cmd_whoami,  &cmd_login,
                                                  &cmd_logout,     &cmd_password};

static int run(int argc, char **argv)
{
    return cli_dispatch("user", verbs, sizeof verbs / sizeof verbs[0], argc, argv);
}

extern const struct cli_command cli_cmd_user;
const struct cli_command cli_cmd_user = {
    .name = "user",
    .summary = "names that experiments belong to",
    .run = run,
};
