/* cmd_user.c - ebb user: names that experiments belong to. */
#include "cli/verb.h"

static enum ebb_status create(struct cli_call *c, struct ebb_error *err)
{
    c->m->user = NULL; /* EBB_USER may already be the name that is to be made */
    return cli_verb_ask(c, err);
}

static void print_name(const struct cli_call *c, const struct ebb_doc_node *root)
{
    (void)c;
    printf("%s\n", ebb_doc_string(root, "name", ""));
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

static const struct cli_column columns[] = {
    {"User", "name", CLI_AS_TEXT, NULL},
    {"Active", "active", CLI_AS_BOOL, NULL},
    {"Created", "created_time", CLI_AS_TIME, NULL},
    {"Experiments", "num_experiments", CLI_AS_NUMBER, NULL},
};

static const struct cli_verb verbs[] = {
    {.name = "list",
     .summary = "names and whose experiments",
     .text = "Names that experiments can belong to. -u NAME, or $EBB_USER, says in whose name a "
             "command\n"
             "acts: experiments it makes are NAME's, and 'ebb experiment list' shows NAME's. "
             "Without it,\n"
             "the account that runs the master.\n"
             "\n"
             "A name is no lock: whoever may use the state directory may use every name in it.",
     .has_csv = true,
     .route = "/users",
     .list = "users",
     CLI_COLUMNS(columns)},
    {.name = "create",
     .summary = "add a name",
     CLI_WORDS("NAME", 1, 1),
     .text =
         "Add a name that experiments can belong to. Others are refused, so that a typing error\n"
         "does not become an owner.\n"
         "\n"
         "Example:\n"
         "  ebb user create ada && ebb -u ada run exp.yaml",
     .method = "POST",
     .route = "/users",
     .body = "{\"name\": *}",
     .said = "Created user *",
     .run = create},
    {.name = "activate",
     .summary = "let a name be used",
     CLI_WORDS("NAME", 1, 1),
     .text = "Let a name be used again.",
     .method = "PATCH",
     .route = "/users/*",
     .body = "{\"active\": true}",
     .said = "Activated user *"},
    {.name = "deactivate",
     .summary = "let it be used no more",
     CLI_WORDS("NAME", 1, 1),
     .text = "Let a name be used no more. Its experiments stay, and go on.",
     .method = "PATCH",
     .route = "/users/*",
     .body = "{\"active\": false}",
     .said = "Deactivated user *"},
    {.name = "whoami",
     .summary = "the name commands act in",
     .text = "Print the name commands act in.",
     .route = "/me",
     .print = print_name},
    {.name = "login", .summary = "", .is_hidden = true, .main = run_password},
    {.name = "logout", .summary = "", .is_hidden = true, .main = run_password},
    {.name = "change-password", .summary = "", .is_hidden = true, .main = run_password},
};

static const struct cli_noun noun = {
    .name = "user", .verbs = verbs, .verb_count = sizeof verbs / sizeof verbs[0]};

const struct cli_command cli_cmd_user = {
    .name = "user", .summary = "names that experiments belong to", .noun = &noun};
