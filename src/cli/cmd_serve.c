/* cmd_serve.c - ebb serve: a master without an experiment of its own, for browsers and programs. */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

#include "cli/json.h"
#include "cli/master.h"

#define LISTEN "127.0.0.1:8080"
#define TURN_MS 1000 /* a signal between two looks is seen after at most so long */

struct serve_options {
    struct cli_where where;
    struct serve_listen listen;
    struct cli_list hosts;
    int64_t slots;
};

static void say(const struct cli_master *m, const struct serve_options *o)
{
    const char *url = serve_url(m->own);
    if (o->where.is_json) {
        struct cli_json json;
        struct ebb_json_writer *w = cli_json_object(&json);
        ebb_jsonw_key_string(w, "url", url);
        ebb_jsonw_key_int(w, "pid", getpid());
        ebb_jsonw_key_string(w, "state_dir", m->state_dir);
        ebb_jsonw_key_bool(w, "has_page", serve_has_page());
        cli_json_object_end(&json);
    } else {
        printf("Listening on %s for %s\n", url, m->state_dir);
        printf("  ebb ui                a link that logs a browser in\n"
               "  ebb user token NAME   a token for programs, and for ebb -m %s\n"
               "  ebb run FILE          an experiment, run here\n"
               "Ctrl-C: trials save a checkpoint, and it ends.\n",
               url);
    }
    fflush(stdout);
}

static int serve(const struct serve_options *o)
{
    struct cli_master m;
    struct ebb_error err = {0};
    int patience = 2; /* interrupts until trials are killed instead of waited for */
    struct exp_master_options options = {
        .slots = o->slots, .is_hurried = cli_is_hurried, .is_hurried_context = &patience};
    struct serve_listen listen = o->listen;
    cli_catch_two_interrupts();
    if (cli_master_open(&m, &o->where, CLI_RUN, &options, &err) != EBB_OK)
        return cli_report(&err);
    if (m.own == NULL) {
        fprintf(stderr,
                "ebb: error: a master runs already: 'ebb master config' shows it, 'ebb ui' its "
                "page. End that one, or give another --state\n");
        cli_master_close(&m, EXP_CLOSE_LEAVE, 0);
        return 1;
    }
    if (listen.listen == NULL && m.site_listen.listen == NULL)
        listen.listen = LISTEN;
    if (cli_master_listen(&m, &listen, &err) != EBB_OK) {
        cli_master_close(&m, EXP_CLOSE_LEAVE, 0);
        return cli_report(&err);
    }
    say(&m, o);
    while (!cli_interrupted())
        exp_master_turn(m.own, TURN_MS);
    cli_master_close(&m, EXP_CLOSE_PREEMPT, -1);
    return 0;
}

static int run(int argc, char **argv)
{
    struct serve_options o = {0};
    const struct cli_spec spec = {
        .usage = "ebb serve [OPTION...]",
        .description =
            "Be the master of the state directory until Ctrl-C: run what is submitted, answer\n"
            "REST (docs/rest.md) and show the page (docs/web.md) on a TCP port.\n"
            "\n"
            "Nobody is answered without a token, on this machine either. 'ebb ui' prints a link\n"
            "that logs a browser in; 'ebb user token NAME' makes a token for programs. A token\n"
            "that may write runs commands as this account: treat it as you treat your password.\n"
            "\n"
            "An address that other machines reach needs --tls-cert and --tls-key, or a proxy that\n"
            "speaks TLS (--behind-proxy, --host NAME of the proxy). The same can stand in\n"
            "<state>/master.yaml: listen, tls_cert, tls_key, base_path, behind_proxy, hosts.\n"
            "\n"
            "Examples:\n"
            "  ebb serve & ebb ui\n"
            "  ebb serve --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem\n"
            "  ebb serve --base-path /ebb/ --behind-proxy --host lab.example",
        CLI_OPTION_ROWS(
            {"listen", 0, CLI_STRING, &o.listen.listen, "ADDRESS:PORT",
             "where; else listen of master.yaml, else " LISTEN},
            {"tls-cert", 0, CLI_STRING, &o.listen.tls_cert, "FILE", "speak TLS: certificates, PEM"},
            {"tls-key", 0, CLI_STRING, &o.listen.tls_key, "FILE", "its key, PEM"},
            {"base-path", 0, CLI_STRING, &o.listen.base_path, "PATH",
             "what stands before every path: /ebb/"},
            {"behind-proxy", 0, CLI_FLAG, &o.listen.is_behind_proxy, NULL,
             "a proxy in front of it speaks TLS"},
            {"host", 0, CLI_LIST, &o.hosts, "NAME[,NAME...]",
             "further names that it is asked by, as a proxy's"},
            {"slots", 0, CLI_INT, &o.slots, "N",
             "trials that may run at the same time; else by CPUs"}),
        CLI_LIMITS({"slots", 1, 4096}),
        .where = &o.where,
        .json_help = "print one JSON object when it listens",
    };
    struct cli_args args = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    o.listen.hosts = o.hosts.items;
    o.listen.host_count = o.hosts.count;
    if (code < 0 && o.where.master != NULL)
        code = cli_usage_error("--master: 'ebb serve' is the master; give --state DIR");
    if (code < 0)
        code = serve(&o);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_serve = {
    .name = "serve",
    .summary = "be a master that shows its page in a browser and answers REST",
    .run = run,
};
