/* The option parser: every kind, every error, help, and verbs. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/heap.h"
#include "cli/cli.h"

/* ---- what a parse printed ------------------------------------------------------------------ */

struct capture {
    FILE *file;
    int fd, saved;
};

static struct capture capture_begin(FILE *stream)
{
    struct capture c;
    fflush(stream);
    c.fd = fileno(stream);
    c.saved = dup(c.fd);
    c.file = tmpfile();
    assert_non_null(c.file);
    assert_true(dup2(fileno(c.file), c.fd) >= 0);
    return c;
}

static void capture_end(struct capture *c, FILE *stream, char *text, size_t size)
{
    fflush(stream);
    dup2(c->saved, c->fd);
    close(c->saved);
    rewind(c->file);
    text[fread(text, 1, size - 1, c->file)] = '\0';
    fclose(c->file);
}

/* ---- one command with an option of every kind ------------------------------------------------ */

struct values {
    bool verbose, json;
    const char *output;
    int64_t seed;
    double gap;
    uint64_t budget;
    struct cli_list policies;
};

static char printed[8192], complained[8192];

static int parse_by(const struct cli_spec *spec, struct cli_args *args, const char *const *words)
{
    char *argv[32] = {(char *)"try-it"};
    int argc = 1;
    for (; *words != NULL; words++)
        argv[argc++] = (char *)(uintptr_t)*words;
    struct capture out = capture_begin(stdout), err = capture_begin(stderr);
    int code = cli_parse(spec, argc, argv, args);
    capture_end(&err, stderr, complained, sizeof complained);
    capture_end(&out, stdout, printed, sizeof printed);
    return code;
}

static int parse(struct values *v, struct cli_args *args, const char *const *words)
{
    const struct cli_option options[] = {
        {"output", 'o', CLI_STRING, &v->output, "FILE", "where to write"},
        {"seed", 0, CLI_INT, &v->seed, "N", "first line\nsecond line"},
        {"gap", 0, CLI_DOUBLE, &v->gap, "G", "how far from the optimum"},
        {"budget", 'b', CLI_BYTES, &v->budget, "B", "bytes"},
        {"policy", 'p', CLI_LIST, &v->policies, "P[,P...]", "policies"},
        {"verbose", 'v', CLI_FLAG, &v->verbose, NULL, "say more"},
        {"json", 'j', CLI_FLAG, &v->json, NULL, "JSON"},
    };
    const struct cli_spec spec = {
        .usage = "ebb try-it LOG [LOG]",
        .description = "Tries.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .min_positional = 1,
        .max_positional = 2,
    };
    return parse_by(&spec, args, words);
}

#define PARSE(v, args, ...) parse(v, args, (const char *const[]){__VA_ARGS__, NULL})

TEST(parse__reads_every_kind)
{
    struct values v = {0};
    struct cli_args args;
    CHECK_EQ(PARSE(&v, &args, "a.log", "--output", "x", "--seed=-3", "--gap", "0.5", "--budget",
                   "48MiB", "--policy", "dtr,lru", "--verbose"),
             -1);
    CHECK_STR(v.output, "x");
    CHECK_EQ(v.seed, -3);
    CHECK(v.gap > 0.49 && v.gap < 0.51);
    CHECK_EQ(v.budget, 48u << 20);
    CHECK_EQ(v.policies.count, 2);
    CHECK_STR(v.policies.items[1], "lru");
    CHECK(v.verbose && !v.json);
    CHECK_EQ(args.positional_count, 1);
    CHECK_STR(args.positional[0], "a.log");
    cli_args_fini(&args);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(parse__reads_letters_joined_and_apart)
{
    struct values v = {0};
    struct cli_args args;
    CHECK_EQ(PARSE(&v, &args, "-vjoFILE", "-b", "1k", "-", "-p=odd"), 2); /* "1k" is no unit */
    CHECK_EQ(PARSE(&v, &args, "-vjoFILE", "-b", "1KiB", "-"), -1);
    CHECK(v.verbose && v.json);
    CHECK_STR(v.output, "FILE");
    CHECK_EQ(v.budget, 1024);
    CHECK_STR(args.positional[0], "-");
    cli_args_fini(&args);
}

TEST(parse__collects_lists_and_replaces_their_default)
{
    const char *initial[] = {"preset"};
    struct values v = {.policies = {initial, 1}};
    struct cli_args args;
    CHECK_EQ(PARSE(&v, &args, "l", "-p", "a", "--policy=b,c"), -1);
    CHECK_EQ(v.policies.count, 3);
    CHECK_STR(v.policies.items[0], "a");
    CHECK_STR(v.policies.items[2], "c");
    cli_args_fini(&args);
    v.policies = (struct cli_list){initial, 1};
    CHECK_EQ(PARSE(&v, &args, "l"), -1);
    CHECK_STR(v.policies.items[0], "preset");
    cli_args_fini(&args);
}

static int parse_where(struct cli_where *where, bool is_table, struct cli_args *args,
                       const char *const *words)
{
    const struct cli_spec spec = {.usage = "ebb look ID",
                                  .max_positional = 2,
                                  .where = where,
                                  .json_help = "says it as JSON",
                                  .is_table = is_table};
    return parse_by(&spec, args, words);
}

#define PARSE_WHERE(where, is_table, args, ...)                                                    \
    parse_where(where, is_table, args, (const char *const[]){__VA_ARGS__, NULL})

TEST(parse__has_the_rows_of_experiments)
{
    struct cli_where where = {0};
    struct cli_args args;
    CHECK_EQ(PARSE_WHERE(&where, true, &args, "--state", "S", "-m", "host:1", "-u", "ada", "--csv"),
             -1);
    CHECK_STR(where.state, "S");
    CHECK_STR(where.master, "host:1");
    CHECK_STR(where.user, "ada");
    CHECK(where.is_csv && !where.is_json);
    cli_args_fini(&args);
    CHECK_EQ(PARSE_WHERE(&where, true, &args, "--json"), 2); /* beside the CSV of before */
    CHECK(strstr(complained, "only one of --csv and --json") != NULL);
    CHECK_EQ(PARSE_WHERE(&where, false, &args, "--csv"), 2);
    CHECK(strstr(complained, "unknown option --csv") != NULL);
    CHECK_EQ(PARSE_WHERE(&where, false, &args, "--help"), 0);
    CHECK(strstr(printed, "says it as JSON") != NULL && strstr(printed, "--csv") == NULL);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(parse__takes_negative_numbers_as_positionals)
{
    struct cli_where where = {0};
    struct cli_args args;
    CHECK_EQ(PARSE_WHERE(&where, false, &args, "-3", "-.5"), -1);
    CHECK_STR(args.positional[0], "-3");
    CHECK_STR(args.positional[1], "-.5");
    cli_args_fini(&args);
    CHECK_EQ(PARSE_WHERE(&where, false, &args, "-x"), 2);
    CHECK_EQ(PARSE_WHERE(&where, false, &args, "-."), 2);
}

TEST(parse__takes_texts_whole)
{
    struct cli_list sets = {0};
    const struct cli_option options[] = {{"set", 0, CLI_TEXTS, &sets, "KEY=VALUE", "change"}};
    const struct cli_spec spec = {.usage = "ebb x", .options = options, .option_count = 1};
    char *argv[] = {(char *)"x", (char *)"--set", (char *)"a={b: 1, c: 2}", (char *)"--set=d,e",
                    NULL};
    struct cli_args args = {0};
    CHECK_EQ(cli_parse(&spec, 4, argv, &args), -1);
    CHECK_EQ(sets.count, 2);
    CHECK_STR(sets.items[0], "a={b: 1, c: 2}");
    CHECK_STR(sets.items[1], "d,e");
    cli_args_fini(&args);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(parse__takes_the_last_of_two_values)
{
    struct values v = {0};
    struct cli_args args;
    CHECK_EQ(PARSE(&v, &args, "l", "--seed", "1", "--seed", "2"), -1);
    CHECK_EQ(v.seed, 2);
    cli_args_fini(&args);
}

TEST(parse__ends_options_at_two_dashes)
{
    struct values v = {0};
    struct cli_args args;
    CHECK_EQ(PARSE(&v, &args, "--", "--seed", "--help"), -1);
    CHECK_EQ(args.positional_count, 2);
    CHECK_STR(args.positional[1], "--help");
    cli_args_fini(&args);
}

/* Each wrong line, and what the message must say. */
static const struct {
    const char *words[6];
    const char *says;
} wrong[] = {
    {{"l", "--polcy", "x"}, "unknown option --polcy; did you mean --policy?"},
    {{"l", "--hlep"}, "did you mean --help?"},
    {{"l", "--zzzzzzzz"}, "unknown option --zzzzzzzz\n"},
    {{"l", "-x"}, "unknown option -x"},
    {{"l", "-vx"}, "unknown option -x in '-vx'"},
    {{"l", "--seed"}, "option --seed needs a value: N"},
    {{"l", "--output", "--json"}, "write --output=--json"},
    {{"l", "-b"}, "option -b needs a value: B"},
    {{"l", "--seed", "1.5"}, "option --seed: found \"1.5\", allowed: an integer"},
    {{"l", "--seed="}, "found \"\", allowed: an integer"},
    {{"l", "--seed", "99999999999999999999"}, "allowed: an integer"},
    {{"l", "--gap", "much"}, "option --gap: found \"much\", allowed: a number"},
    {{"l", "--budget", "48MB2"}, "option --budget: "},
    {{"l", "--policy", "a,,b"}, "option --policy: empty item in the list 'a,,b'"},
    {{"l", "--policy="}, "empty item"},
    {{"l", "--json=yes"}, "option --json takes no value, found 'yes'"},
    {{"a", "b", "c"}, "unexpected argument 'c': at most 2 allowed"},
    {{"--json"}, "ebb try-it needs at least 1 argument, 0 given"},
};

TEST(parse__says_what_is_wrong_and_where_to_read)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct values v = {0};
        struct cli_args args;
        CHECK_EQ(parse(&v, &args, wrong[i].words), 2);
        if (strstr(complained, wrong[i].says) == NULL)
            fail_msg("expected '%s' in: %s", wrong[i].says, complained);
        assert_non_null(strstr(complained, "Try 'ebb try-it --help'."));
        CHECK_STR(printed, "");
        CHECK_EQ(ebb_heap_live(), 0);
    }
}

TEST(help__names_every_option_and_wins_over_errors)
{
    struct values v = {0};
    struct cli_args args;
    CHECK_EQ(PARSE(&v, &args, "--nonsense", "--help"), 0);
    CHECK_STR(complained, "");
    static const char *const parts[] = {"Usage: ebb try-it LOG [LOG]\n",
                                        "\nTries.\n",
                                        "  -o, --output FILE       where to write\n",
                                        "      --seed N",
                                        "first line\n                          second line\n",
                                        "--gap G",
                                        "-b, --budget B",
                                        "-p, --policy P[,P...]",
                                        "-v, --verbose",
                                        "-j, --json",
                                        "-h, --help"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(printed, parts[i]) == NULL)
            fail_msg("expected '%s' in: %s", parts[i], printed);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(parse__survives_every_failed_allocation)
{
    for (uint64_t n = 1;; n++) {
        struct values v = {0};
        struct cli_args args;
        ebb_heap_fail_at(n);
        int code = PARSE(&v, &args, "l", "m", "-p", "a,b", "-p", "c", "--output", "o");
        ebb_heap_fail_at(0);
        if (code == -1) {
            cli_args_fini(&args);
            CHECK(n > 4);
            break;
        }
        CHECK_EQ(code, 1);
        assert_non_null(strstr(complained, "ebb: error: "));
        CHECK_EQ(ebb_heap_live(), 0);
    }
}

/* ---- verbs ---------------------------------------------------------------------------------- */

static int seen_argc;
static char seen_last[64];

static int run_make(int argc, char **argv)
{
    seen_argc = argc;
    snprintf(seen_last, sizeof seen_last, "%s", argv[argc - 1]);
    return 7;
}

static int run_list(int argc, char **argv)
{
    (void)argv;
    seen_argc = argc;
    return 8;
}

static const struct cli_command verb_make = {
    .name = "trace make", .summary = "makes", .run = run_make};
static const struct cli_command verb_list = {.name = "list", .summary = "lists", .run = run_list};
static const struct cli_command verb_hidden = {
    .name = "secret", .summary = "hides", .is_hidden = true, .run = run_list};
static const struct cli_command *const verbs[] = {&verb_make, &verb_hidden, &verb_list};

static int dispatch(size_t count, const char *const *words)
{
    char *argv[16] = {(char *)"trace"};
    int argc = 1;
    for (; *words != NULL; words++)
        argv[argc++] = (char *)(uintptr_t)*words;
    struct capture out = capture_begin(stdout), err = capture_begin(stderr);
    int code = cli_dispatch("ebb trace", verbs, count, argc, argv);
    capture_end(&err, stderr, complained, sizeof complained);
    capture_end(&out, stdout, printed, sizeof printed);
    return code;
}

#define DISPATCH(count, ...) dispatch(count, (const char *const[]){__VA_ARGS__, NULL})

TEST(dispatch__runs_the_verb_with_the_rest)
{
    CHECK_EQ(DISPATCH(3, "make", "x", "y"), 7);
    CHECK_EQ(seen_argc, 3);
    CHECK_STR(seen_last, "y");
    CHECK_EQ(DISPATCH(3, "secret"), 8);
}

TEST(dispatch__lists_when_the_verb_is_missing)
{
    CHECK_EQ(DISPATCH(3, NULL), 8);
    CHECK_EQ(DISPATCH(2, NULL), 2); /* no "list" among these */
    assert_non_null(strstr(complained, "make"));
}

TEST(dispatch__explains_itself)
{
    CHECK_EQ(DISPATCH(3, "--help"), 0);
    assert_non_null(strstr(printed, "  make  makes\n"));
    assert_null(strstr(printed, "secret"));
    CHECK_EQ(DISPATCH(3, "help", "make"), 7);
    CHECK_STR(seen_last, "--help");
}

TEST(dispatch__names_the_nearest_verb)
{
    CHECK_EQ(DISPATCH(3, "mkae"), 2);
    assert_non_null(strstr(complained, "'ebb trace' has no verb 'mkae'; did you mean 'make'?"));
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(report__maps_status_to_exit_code)
{
    struct ebb_error err;
    struct capture c = capture_begin(stderr);
    ebb_fail(&err, EBB_EINPUT, "bad %d", 3);
    int input = cli_report(&err);
    ebb_fail(&err, EBB_EBUDGET, "x");
    int budget = cli_report(&err);
    int usage = cli_usage_error("odd %s", "thing");
    capture_end(&c, stderr, complained, sizeof complained);
    CHECK_EQ(input, 2);
    CHECK_EQ(budget, 1);
    CHECK_EQ(usage, 2);
    CHECK_STR(complained, "ebb: error: bad 3\nebb: error: x\nebb: error: odd thing\n");
}

TEST_MAIN()
