/* Memory that runs out at any moment of the master's work: a turn fails, memory is read again, and
 * the experiment completes all the same. EBB_TORTURE_STEP sets how densely the moments lie. */
#include "test.h"

#include "serve/serve.h"
#include "master_fixture.h"

static char yaml[4096];

/* Submit until it is taken: an answer of 503 means that nothing was done. */
static void submit(struct fixture *f, const char *body)
{
    struct serve_http_request request = {
        .method = "POST", .target = "/experiments", .body = body, .body_length = strlen(body)};
    for (int i = 0; i < 100; i++) {
        struct serve_http_response response;
        serve_http_response_init(&response);
        serve_request(f->m, &request, &response);
        int status = response.status;
        if (status != 201 && status != 503)
            fail_msg("%d %s", status, ebb_str_c(&response.body));
        serve_http_response_fini(&response);
        if (status == 201)
            break;
        fixture_turn_for(f, 100);
    }
}

/* The n-th allocation from here on fails. True when there were as many. */
static bool run_with(uint64_t n)
{
    struct fixture f;
    struct ebb_error err;
    fixture_begin(&f, 2);
    struct ebb_log log = {.stream = stderr, .level = EBB_LOG_DEBUG, .name = "master"};
    if (getenv("EBB_TORTURE_LOG") != NULL)
        f.options.log = &log;
    char *body = fixture_body(fixture_yaml(yaml, sizeof yaml, "",
                                           "name: random, max_steps: 2, max_trials: 2",
                                           "max_restarts: 1000\n"),
                              true);
    uint64_t before = ebb_heap_live(), calls = ebb_heap_calls();
    ebb_heap_fail_at(n);
    while (serve_open(&f.options, &f.m, &err) != EBB_OK)
        CHECK_EQ(err.status, EBB_ENOMEM);
    submit(&f, body);
    fixture_run(&f, 60);
    bool is_reached = ebb_heap_calls() - calls > n;
    ebb_heap_fail_at(0);
    CHECK_STR(fixture_state(&f, 1), "COMPLETED");
    const struct ebb_doc_node *list =
        ebb_doc_get(fixture_get(&f, "/experiments/1/trials"), "trials");
    CHECK_EQ(list->count, 2);
    for (size_t i = 0; i < list->count; i++)
        CHECK_EQ(ebb_doc_int(list->items[i], "steps", 0), 2);
    fixture_end(&f);
    CHECK_EQ(ebb_heap_live(), before);
    ebb_free(body);
    return is_reached;
}

TEST(memory__may_run_out_at_any_moment)
{
    const char *text = getenv("EBB_TORTURE_STEP"), *first = getenv("EBB_TORTURE_FIRST");
    uint64_t step = text != NULL ? strtoull(text, NULL, 10) : 61;
    uint64_t n = first != NULL ? strtoull(first, NULL, 10) : 5;
    size_t moments = 0;
    while (run_with(n)) {
        n += step;
        moments++;
    }
    print_message("%zu moments, the last at allocation %llu\n", moments, (unsigned long long)n);
    CHECK(moments >= 2);
}

TEST_MAIN()
