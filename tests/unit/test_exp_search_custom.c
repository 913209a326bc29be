/* Search by an external program: the line protocol as a state machine. */
#include "exp_kit.h"

#define A "00000000-0000-4000-8000-00000000000a"
#define B "00000000-0000-4000-8000-00000000000b"

static void open_custom(struct kit *k, const char *more)
{
    char searcher[256];
    snprintf(searcher, sizeof searcher, "{name: custom, metric: m, command: [prog]%s}", more);
    kit_open(k, searcher, "{x: 1}");
    CHECK_STR(kit_start(k), "");
}

static const char *answer(struct kit *k, const char *line)
{
    CHECK_OK(exp_custom_answer(k->search, line, strlen(line), &k->ops, &k->err), &k->err);
    return kit_text(k);
}

static void check_events(struct kit *k, int64_t after, const char *expected)
{
    struct ebb_str lines;
    ebb_str_init(&lines);
    CHECK_OK(exp_custom_events(k->search, after, &lines, &k->err), &k->err);
    CHECK_STR(ebb_str_c(&lines), expected);
    ebb_str_fini(&lines);
}

TEST(custom__runs_a_whole_search)
{
    static struct kit k;
    open_custom(&k, "");
    check_events(&k, 0, "{\"id\":1,\"event\":{\"type\":\"initial\"}}\n");
    CHECK_STR(answer(&k, "{\"type\":\"OPERATIONS\",\"last_event\":1,\"operations\":["
                         "{\"type\":\"create\",\"request_id\":\"" A "\",\"hparams\":{\"lr\":0.1},"
                         "\"trial_seed\":5},"
                         "{\"type\":\"train_until\",\"request_id\":\"" A "\",\"step\":4}]}"),
              "C0 T0:1-4 V0:4");
    check_events(&k, 0, "");
    CHECK_STR(kit_created(&k, 0), "");
    CHECK_STR(kit_trained(&k, 0, 1), "");
    CHECK_STR(kit_trained(&k, 0, 4), ""); /* progress is told once until it is answered */
    CHECK_STR(kit_validated(&k, 0, 4, 0.25), "");
    check_events(&k, 2,
                 "{\"id\":3,\"event\":{\"type\":\"trial_progress\",\"request_id\":\"" A
                 "\",\"step\":1}}\n"
                 "{\"id\":4,\"event\":{\"type\": \"validation_completed\", \"request_id\": \"" A
                 "\", \"step\": 4, \"metric\": 0.25}}\n");
    CHECK_EQ(exp_custom_last_event(k.search), 4);
    CHECK_STR(answer(&k, "{\"type\":\"OPERATIONS\",\"last_event\":4,\"operations\":["
                         "{\"type\":\"set_progress\",\"progress\":0.5},"
                         "{\"type\":\"close\",\"request_id\":\"" A "\"}]}"),
              "X0");
    CHECK(exp_search_progress(k.search) == 0.5);
    CHECK_STR(kit_closed(&k, 0), ""); /* only the program ends the search */
    CHECK_STR(answer(&k, "{\"type\":\"OPERATIONS\",\"last_event\":5,"
                         "\"operations\":[{\"type\":\"shutdown\"}]}"),
              "END");
    kit_close(&k);
}

TEST(custom__the_sample_is_what_the_program_said)
{
    static struct kit k;
    const struct ebb_doc_node *hparams;
    const char *line =
        "{\"type\":\"OPERATIONS\",\"last_event\":0,\"operations\":[{\"type\":"
        "\"create\",\"request_id\":\"" A "\",\"hparams\":{\"b\":[1,{\"c\":null}]}}]}";
    open_custom(&k, "");
    CHECK_OK(exp_custom_answer(k.search, line, strlen(line), &k.ops, &k.err), &k.err);
    CHECK_OK(exp_ops_hparams(&k.ops, &k.ops.items[0], &k.space, &k.arena, &hparams, &k.err),
             &k.err);
    CHECK_EQ(ebb_doc_get(hparams, "b")->count, 2);
    kit_close(&k);
}

TEST(custom__events_wait_until_they_are_answered)
{
    static struct kit k;
    open_custom(&k, "");
    answer(&k, "{\"type\":\"OPERATIONS\",\"last_event\":0,\"operations\":[{\"type\":\"create\","
               "\"request_id\":\"" A "\",\"hparams\":{}}]}");
    kit_exited(&k, 0, EXP_EXIT_INVALID_HP);
    check_events(&k, 0,
                 "{\"id\":1,\"event\":{\"type\":\"initial\"}}\n"
                 "{\"id\":2,\"event\":{\"type\": \"trial_exited_early\", \"request_id\": \"" A
                 "\", \"reason\": \"INVALID_HP\"}}\n");
    answer(&k, "{\"type\":\"OPERATIONS\",\"last_event\":1,\"operations\":[]}");
    check_events(&k, 0,
                 "{\"id\":2,\"event\":{\"type\": \"trial_exited_early\", \"request_id\": \"" A
                 "\", \"reason\": \"INVALID_HP\"}}\n");
    kit_close(&k);
}

TEST(custom__larger_is_better_reports_the_metric_as_it_was)
{
    static struct kit k;
    open_custom(&k, ", smaller_is_better: false");
    answer(&k, "{\"type\":\"OPERATIONS\",\"last_event\":1,\"operations\":[{\"type\":\"create\","
               "\"request_id\":\"" A "\",\"hparams\":{}},{\"type\":\"train_until\",\"request_id\":"
               "\"" A "\",\"step\":1}]}");
    kit_validated(&k, 0, 1, 0.75);
    check_events(&k, 0,
                 "{\"id\":2,\"event\":{\"type\": \"validation_completed\", \"request_id\": \"" A
                 "\", \"step\": 1, \"metric\": 0.75}}\n");
    kit_close(&k);
}

TEST(custom__a_bad_answer_changes_nothing)
{
    static struct kit k;
#define GOOD_A "{\"type\":\"create\",\"request_id\":\"" A "\",\"hparams\":{}}"
#define SAY(ops) "{\"type\":\"OPERATIONS\",\"last_event\":1,\"operations\":[" GOOD_A "," ops "]}"
    static const struct {
        const char *line, *says;
    } bad[] = {
        {"", "search program"},
        {"{}", "type is not OPERATIONS"},
        {"{\"type\":\"OPERATIONS\",\"last_event\":2,\"operations\":[]}", "last_event: 2"},
        {"{\"type\":\"OPERATIONS\",\"last_event\":1}", "operations: missing"},
        {SAY("{}"), "operations[1]: type ''"},
        {SAY("{\"type\":\"create\",\"request_id\":\"" B "\"}"), "operations[1]: hparams"},
        {SAY(GOOD_A), "operations[1]: request_id: trial " A " exists already"},
        {SAY("{\"type\":\"close\",\"request_id\":\"" B "\"}"), "there is no trial " B},
        {SAY("{\"type\":\"train_until\",\"request_id\":\"" A "\",\"step\":0}"), "step: 0"},
        {SAY("{\"type\":\"train_until\",\"request_id\":\"" A "\",\"step\":3},"
             "{\"type\":\"train_until\",\"request_id\":\"" A "\",\"step\":3}"),
         "already has step 3"},
        {SAY("{\"type\":\"close\",\"request_id\":\"" A "\"},"
             "{\"type\":\"train_until\",\"request_id\":\"" A "\",\"step\":3}"),
         "is closed"},
        {SAY("{\"type\":\"set_progress\",\"progress\":1.5}"), "progress: not in 0..1"},
    };
    open_custom(&k, "");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(exp_custom_answer(k.search, bad[i].line, strlen(bad[i].line), &k.ops, &k.err),
                 EBB_EINPUT);
        if (strstr(k.err.message, bad[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", k.err.message, bad[i].says);
        CHECK_EQ(k.ops.count, 0);
        CHECK_EQ(exp_search_trial_count(k.search), 0);
    }
    check_events(&k, 0, "{\"id\":1,\"event\":{\"type\":\"initial\"}}\n");
    kit_close(&k);
}

TEST(custom__limit_holds_further_work_with_the_creation)
{
    static struct kit k;
    open_custom(&k, ", max_concurrent_trials: 1");
    CHECK_STR(answer(&k, "{\"type\":\"OPERATIONS\",\"last_event\":1,\"operations\":["
                         "{\"type\":\"create\",\"request_id\":\"" A "\",\"hparams\":{}},"
                         "{\"type\":\"train_until\",\"request_id\":\"" A "\",\"step\":2},"
                         "{\"type\":\"create\",\"request_id\":\"" B "\",\"hparams\":{\"n\":1}},"
                         "{\"type\":\"train_until\",\"request_id\":\"" B "\",\"step\":2}]}"),
              "C0 T0:1-2 V0:2");
    CHECK_STR(answer(&k, "{\"type\":\"OPERATIONS\",\"last_event\":1,\"operations\":["
                         "{\"type\":\"train_until\",\"request_id\":\"" B "\",\"step\":5},"
                         "{\"type\":\"close\",\"request_id\":\"" B "\"}]}"),
              "");
    CHECK_STR(kit_trained(&k, 0, 2), "");
    CHECK_STR(kit_validated(&k, 0, 2, 1), "C1 T1:1-2 V1:2 T1:3-5 V1:5 X1");
    kit_close(&k);
}

TEST(custom__other_searches_have_no_program)
{
    static struct kit k;
    struct ebb_str lines;
    kit_open(&k, "{name: single, metric: m, max_steps: 1}", "{x: 1}");
    ebb_str_init(&lines);
    CHECK_EQ(exp_custom_events(k.search, 0, &lines, &k.err), EBB_EINPUT);
    CHECK_EQ(exp_custom_answer(k.search, "{}", 2, &k.ops, &k.err), EBB_EINPUT);
    ebb_str_fini(&lines);
    kit_close(&k);
}

TEST(custom__every_allocation_may_fail)
{
    static struct kit k;
    static const char line[] =
        "{\"type\":\"OPERATIONS\",\"last_event\":1,\"operations\":["
        "{\"type\":\"create\",\"request_id\":\"" A "\",\"hparams\":{\"a\":[1]}},"
        "{\"type\":\"train_until\",\"request_id\":\"" A "\",\"step\":2},"
        "{\"type\":\"create\",\"request_id\":\"" B "\",\"hparams\":{}}]}";
    kit_parse(&k, "{name: custom, metric: m, command: [prog], max_concurrent_trials: 1}", "{x: 1}");
    uint64_t live = ebb_heap_live();
    enum ebb_status status = EBB_ENOMEM;
    for (uint64_t n = 1; status != EBB_OK; n++) {
        struct exp_search *search = NULL;
        struct exp_ops ops;
        struct ebb_str lines;
        struct exp_event event = {.kind = EXP_EVENT_TRAINED, .step = 1};
        CHECK(exp_request_parse(A, 36, &event.request));
        exp_ops_init(&ops);
        ebb_str_init(&lines);
        ebb_heap_fail_at(n);
        status = exp_search_create(&k.searcher, &k.space, k.failure, 1, &search, &k.err);
        if (status == EBB_OK)
            status = exp_search_start(search, &ops, &k.err);
        if (status == EBB_OK)
            status = exp_custom_answer(search, line, sizeof line - 1, &ops, &k.err);
        if (status != EBB_OK)
            CHECK_EQ(ops.count, 0);
        if (status == EBB_OK)
            status = exp_search_event(search, &event, &ops, &k.err);
        if (status == EBB_OK)
            status = exp_custom_events(search, 0, &lines, &k.err);
        ebb_heap_fail_at(0);
        CHECK(status == EBB_OK || status == EBB_ENOMEM);
        exp_search_destroy(search);
        exp_ops_fini(&ops);
        ebb_str_fini(&lines);
        CHECK_EQ(ebb_heap_live(), live);
    }
    kit_close(&k);
}

TEST_MAIN()
