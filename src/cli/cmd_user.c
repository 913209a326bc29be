/* cmd_user.c - ebb user: names that experiments belong to. */
#include "cli/verb.h"

#include <string.h>

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

/* ---- tokens ---- */

struct options {
    bool is_read_only;
    double days;
};

static const struct options defaults = {0};

static const struct cli_field token_options[] = {
    {"read-only", 0, CLI_FLAG, offsetof(struct options, is_read_only), NULL,
     "it may look, and change nothing", 0, 0},
    {"days", 0, CLI_DOUBLE, offsetof(struct options, days), "N", "it ends after N days; else never",
     0, 36500},
};

static const struct cli_column token_columns[] = {
    {"ID", "id", CLI_AS_NUMBER, NULL},
    {"User", "user", CLI_AS_TEXT, NULL},
    {"Kind", "kind", CLI_AS_TEXT, NULL},
    {"Read-only", "read_only", CLI_AS_YES_NO, NULL},
    {"Created", "created_time", CLI_AS_TIME, NULL},
    {"Ends", "end_time", CLI_AS_TIME, NULL},
};

static enum ebb_status make_token(struct cli_call *c, struct ebb_error *err)
{
    const struct options *o = c->options;
    const struct ebb_doc_node *root;
    struct ebb_str body = {0};
    struct ebb_json_writer w;
    ebb_jsonw_init(&w, &body, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "user", c->words[0]);
    ebb_jsonw_key_bool(&w, "read_only", o->is_read_only);
    if (o->days > 0)
        ebb_jsonw_key_double(&w, "days", o->days);
    ebb_jsonw_object_end(&w);
    enum ebb_status status = cli_send(c->m, &root, err, "POST", ebb_str_c(&body), "/tokens");
    ebb_str_fini(&body);
    EBB_TRY(status);
    cli_say(c, NULL, "%s", ebb_doc_string(root, "token", ""));
    if (!c->where.is_json)
        fprintf(stderr,
                "Shown this once. EBB_TOKEN=... ebb -m http://HOST:PORT e list; revoke it: ebb "
                "user token revoke %lld\n",
                (long long)ebb_doc_int(root, "id", 0));
    return EBB_OK;
}

static enum ebb_status list_tokens(struct cli_call *c, struct ebb_error *err)
{
    const struct ebb_doc_node *root;
    const size_t count = sizeof token_columns / sizeof token_columns[0];
    EBB_TRY(cli_get(c->m, &root, err, "/tokens"));
    if (c->where.is_json) {
        printf("%s\n", ebb_str_c(cli_last_body(c->m)));
        return EBB_OK;
    }
    const struct ebb_doc_node *list = ebb_doc_get(root, "tokens");
    struct cli_table *table = cli_columns_table(token_columns, count);
    for (size_t i = 0; list != NULL && i < list->count; i++)
        cli_columns_add(table, token_columns, count, list->items[i], c->where.is_csv);
    cli_table_show(table, c->where.is_csv);
    return EBB_OK;
}

static enum ebb_status token(struct cli_call *c, struct ebb_error *err)
{
    const struct ebb_doc_node *root;
    const struct options *o = c->options;
    int64_t id;
    bool is_list = c->word_count == 1 && strcmp(c->words[0], "list") == 0;
    bool is_revoke = strcmp(c->words[0], "revoke") == 0;
    if ((is_list || is_revoke) && (o->is_read_only || o->days > 0))
        return ebb_fail(err, EBB_EINPUT,
                        "token %s: --read-only and --days belong to a token that is made",
                        c->words[0]);
    if (is_list)
        return list_tokens(c, err);
    if (!is_revoke)
        return c->word_count == 1 ? make_token(c, err)
                                  : ebb_fail(err, EBB_EINPUT,
                                             "'%s': give NAME, or list, or revoke ID", c->words[0]);
    if (c->word_count != 2 || !ebb_parse_i64(c->words[1], &id))
        return ebb_fail(err, EBB_EINPUT,
                        "revoke: which? 'ebb user token list' shows their numbers");
    EBB_TRY(cli_send(c->m, &root, err, "DELETE", NULL, "/tokens/%lld", (long long)id));
    cli_say(c, NULL, "Revoked token %lld of %s", (long long)id, ebb_doc_string(root, "user", ""));
    return EBB_OK;
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
    {.name = "token",
     .summary = "make, list and revoke tokens for the network",
     CLI_WORDS("NAME|list|revoke [ID]", 1, 2),
     .text =
         "Make a token with which NAME asks a master that listens on TCP ('ebb serve'): it is\n"
         "printed once, and only its hash is kept. 'list' shows tokens and the logins of\n"
         "browsers, 'revoke ID' ends one and the logins made with it.\n"
         "\n"
         "A token that may write runs commands as the account of the master, whatever NAME is:\n"
         "treat it as a password. Programs give it as 'Authorization: Bearer TOKEN'; ebb -m\n"
         "takes it from $EBB_TOKEN, or from ~/.config/ebb/token (mode 0600).\n"
         "\n"
         "Examples:\n"
         "  ebb user token ada --read-only --days 30\n"
         "  ebb user token list && ebb user token revoke 3",
     .has_csv = true,
     .options = token_options,
     .option_count = sizeof token_options / sizeof token_options[0],
     .run = token},
    {.name = "login", .summary = "", .is_hidden = true, .main = run_password},
    {.name = "logout", .summary = "", .is_hidden = true, .main = run_password},
    {.name = "change-password", .summary = "", .is_hidden = true, .main = run_password},
};

static const struct cli_noun noun = CLI_NOUN("user", verbs, defaults);

const struct cli_command cli_cmd_user = {
    .name = "user", .summary = "names that experiments belong to", .noun = &noun};
