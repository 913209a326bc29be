/* cmd_ui.c - ebb ui: a link that logs a browser in, once and soon. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "cli/master.h"

#define OPEN_NS 5000000000ull

/* On a desktop somebody sits in front of a browser. */
static bool open_browser(const char *url)
{
    const char *const argv[] = {"xdg-open", url, NULL};
    struct ebb_process process = {.argv = argv, .timeout_ns = OPEN_NS};
    struct ebb_str out = {0};
    struct ebb_error err;
    if (!isatty(STDOUT_FILENO) || (getenv("DISPLAY") == NULL && getenv("WAYLAND_DISPLAY") == NULL))
        return false;
    bool is_open = ebb_process_run(&process, &out, &err) == EBB_OK;
    ebb_str_fini(&out);
    return is_open;
}

static int show(const struct cli_where *where, bool is_quiet)
{
    struct cli_master m;
    struct ebb_error err = {0};
    const struct ebb_doc_node *root = NULL;
    if (cli_master_open(&m, where, CLI_ASK, NULL, &err) != EBB_OK)
        return cli_report(&err);
    if (m.own != NULL) {
        fprintf(stderr,
                "ebb: error: no master runs for %s. Start one that shows its page: ebb "
                "serve\n",
                m.state_dir);
        cli_master_close(&m, EXP_CLOSE_LEAVE, 0);
        return 1;
    }
    int code = 0;
    if (cli_send(&m, &root, &err, "POST", NULL, "/login-links") != EBB_OK) {
        code = cli_report(&err);
    } else if (where->is_json) {
        printf("%s\n", ebb_str_c(cli_last_body(&m)));
    } else {
        const char *url = ebb_doc_string(root, "url", "");
        printf("%s\n", url);
        fflush(stdout);
        if (!ebb_doc_bool(root, "has_page", true))
            fprintf(stderr, "ebb: note: this program was built without its page ('ebb doctor')\n");
        else if (!is_quiet && !open_browser(url))
            fprintf(stderr, "Open it in a browser within a minute: it logs in once.\n");
    }
    cli_master_close(&m, EXP_CLOSE_LEAVE, 0);
    return code;
}

static int run(int argc, char **argv)
{
    struct cli_where where = {0};
    bool is_quiet = false;
    const struct cli_option options[] = {
        {"no-open", 0, CLI_FLAG, &is_quiet, NULL, "print the link only; open no browser"}};
    const struct cli_spec spec = {
        .usage = "ebb ui [OPTION...]",
        .description =
            "Print a link to the page of the running master; on a desktop, open it in a browser.\n"
            "The link logs in once, within 60 seconds, in the name of the account (or -u NAME).\n"
            "The master must listen: 'ebb serve', or 'ebb run FILE --listen 127.0.0.1:8080'. From\n"
            "another machine: ssh -L 8080:127.0.0.1:8080 HOST, then open the link there.\n"
            "\n"
            "Example:\n"
            "  ebb serve & ebb ui",
        CLI_OPTIONS(options),
        .where = &where,
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code < 0)
        code = show(&where, is_quiet);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_ui = {
    .name = "ui",
    .summary = "a link that logs a browser in to the page of the running master",
    .run = run,
};
