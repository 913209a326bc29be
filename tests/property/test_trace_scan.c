/* Two paths, one result: the fast line scanner against the JSON reader, and whole logs spelled both
 * ways. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "test.h"
#include "trace_equal.h"

#include "base/file.h"
#include "base/heap.h"
#include "base/rng.h"
#include "base/str.h"
#include "trace/dtr.h"

static const char *const lines[] = {
    "{\"ANNOTATION\":\"START\",\"INSTRUCTION\":\"ANNOTATE\"}",
    "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"x7690\"}",
    "{\"INSTRUCTION\":\"MEMORY\",\"MEMORY\":\"1728\",\"NAME\":\"x7690\"}",
    "{\"DST\":\"x7691\",\"INSTRUCTION\":\"COPY\",\"SRC\":\"x7690\"}",
    "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"x7690\"}",
    "{\"ARGS\":[\"x1\",\"x2\",\"x3\"],\"INSTRUCTION\":\"CALL\",\"NAME\":\"conv\",\"RESULT\":"
    "[\"x4\",\"x5\"],\"TIME\":\"274581\"}",
    "{\"ARGS\":[],\"INSTRUCTION\":\"CALL\",\"NAME\":\"zeros\",\"RESULT\":[\"x4\"],\"TIME\":\"1\"}",
    "{\"ALIAS\":\"-1\",\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"x4\"}",
    "{\"ARGS\":[\"x1\",\"x2\"],\"INSTRUCTION\":\"MUTATE\",\"MUTATE\":[0,1],\"NAME\":\"add_\","
    "\"TIME\":\"27\"}",
};

static bool same_text(const struct trace_dtr_text *a, const struct trace_dtr_text *b)
{
    return a->length == b->length && a->column == b->column &&
           memcmp(a->text, b->text, a->length) == 0;
}

static bool same_list(const struct trace_dtr_list *a, const struct trace_dtr_list *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!same_text(&a->items[i], &b->items[i]))
            return false;
    return true;
}

static bool same_record(const struct trace_dtr_record *a, const struct trace_dtr_record *b)
{
    const unsigned are_lists = 1u << DTR_ARGS | 1u << DTR_RESULT | 1u << DTR_MUTATE;
    if (a->has != b->has)
        return false;
    for (unsigned key = 0; key < DTR_KEYS; key++)
        if ((a->has & ~are_lists) >> key & 1 && !same_text(&a->scalar[key], &b->scalar[key]))
            return false;
    return same_list(&a->args, &b->args) && same_list(&a->result, &b->result) &&
           same_list(&a->mutate, &b->mutate);
}

TEST(fast_path__agrees_with_json_on_damaged_lines)
{
    static const char alphabet[] = "\"\\{}[]:, x0123456789-AETNMS\t\x01\x80\xc3";
    struct trace_dtr_record fast = {.has = 0}, slow = {.has = 0};
    uint64_t rng = 5;
    int taken = 0;
    for (int run = 0; run < 200000; run++) {
        char line[300];
        const char *from = lines[ebb_splitmix64(&rng) % (sizeof lines / sizeof *lines)];
        size_t length = strlen(from);
        memcpy(line, from, length);
        for (uint64_t n = ebb_splitmix64(&rng) % 4; n > 0 && length > 1; n--) {
            size_t at = ebb_splitmix64(&rng) % length;
            switch (ebb_splitmix64(&rng) % 3) {
            case 0:
                line[at] = alphabet[ebb_splitmix64(&rng) % (sizeof alphabet - 1)];
                break;
            case 1:
                memmove(line + at, line + at + 1, --length - at);
                break;
            default:
                memmove(line + at + 1, line + at, length++ - at);
                line[at] = alphabet[ebb_splitmix64(&rng) % (sizeof alphabet - 1)];
            }
        }
        if (!trace_dtr_scan_fast(&fast, line, length))
            continue;
        struct ebb_error err;
        taken++;
        if (trace_dtr_scan_json(&slow, "line", 1, line, length, &err) != EBB_OK)
            fail_msg("only the fast path takes %.*s: %s", (int)length, line, err.message);
        if (!same_record(&fast, &slow))
            fail_msg("two records from %.*s", (int)length, line);
    }
    CHECK(taken > 50000);
    trace_dtr_record_fini(&fast);
    trace_dtr_record_fini(&slow);
}

TEST(logger_lines__take_the_fast_path)
{
    struct trace_dtr_record record = {.has = 0};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK(trace_dtr_scan_fast(&record, lines[i], strlen(lines[i])));
    static const char twice[] = "{\"NAME\":\"x1\",\"NAME\":\"x2\"}";
    CHECK(!trace_dtr_scan_fast(&record, twice, sizeof twice - 1));
    trace_dtr_record_fini(&record);
}

/* A blank behind every colon outside of text: no line stays on the fast path, none changes its
 * meaning. */
static void spell_slowly(const char *log, size_t length, struct ebb_str *out)
{
    bool in_text = false;
    for (size_t i = 0; i < length; i++) {
        if (log[i] == '"' && (i == 0 || log[i - 1] != '\\'))
            in_text = !in_text;
        ebb_str_addc(out, log[i]);
        if (log[i] == ':' && !in_text)
            ebb_str_addc(out, ' ');
    }
}

TEST(logs__mean_the_same_however_they_are_spelled)
{
    for (uint32_t seed = 0; seed < 60; seed++) {
        struct ebb_error err;
        char path[] = "/tmp/ebb_test_trace_XXXXXX", why[200];
        int fd = mkstemp(path);
        CHECK(fd >= 0);
        close(fd);
        struct trace *t = NULL, *fast = NULL, *slow = NULL;
        struct trace_synth synth = {
            .ops = 100, .seed = seed, .has_views = true, .has_mutation = true};
        CHECK_OK(trace_shape_make(&trace_shapes[trace_shape_count - 1], &synth, &t, &err), &err);
        CHECK_OK(trace_write_dtr(t, path, NULL, 0, &err), &err);
        struct ebb_file_view view;
        struct ebb_str text;
        CHECK_OK(ebb_file_view_open(&view, path, 1 << 30, &err), &err);
        ebb_str_init(&text);
        spell_slowly(view.data, view.length, &text);
        CHECK_OK(trace_read_dtr("fast", view.data, view.length, &fast, &err), &err);
        CHECK_OK(trace_read_dtr("slow", ebb_str_c(&text), text.length, &slow, &err), &err);
        if (!trace_equal_program(fast, slow, why))
            fail_msg("seed %u: %s", seed, why);
        ebb_str_fini(&text);
        ebb_file_view_close(&view);
        trace_destroy(t);
        trace_destroy(fast);
        trace_destroy(slow);
        unlink(path);
    }
}

TEST_MAIN()
