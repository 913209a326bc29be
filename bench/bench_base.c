/* bench_base.c - the readers of base on text made here: JSON events, JSON documents, YAML
 * documents, and how fast bombs are refused. CPU time, best of several runs. */
#include <stdio.h>

#include "base/clock.h"
#include "base/doc.h"
#include "base/json.h"

enum { ROUNDS = 9 };

/* One object per line, as DTR logs have them. */
static void make_log(struct ebb_str *out, int lines)
{
    for (int i = 0; i < lines; i++) {
        ebb_str_printf(out, "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"x%d\"}\n", i);
        ebb_str_printf(out, "{\"INSTRUCTION\":\"MEMORY\",\"MEMORY\":\"%d\",\"NAME\":\"x%d\"}\n",
                       i * 64, i);
    }
}

static void make_config(struct ebb_str *out)
{
    for (int i = 0; i < 500; i++)
        ebb_str_printf(out, "key_%d: {type: log, base: 10, minval: -%d, maxval: \"text\"}\n", i, i);
}

static uint64_t run_events(const struct ebb_str *text)
{
    struct ebb_json r;
    struct ebb_json_event e;
    struct ebb_error err;
    uint64_t start = ebb_clock_cpu_ns();
    ebb_json_init(&r, "log", text->data, text->length, EBB_JSON_MANY);
    while (ebb_json_next(&r, &e, &err) == EBB_OK && e.kind != EBB_JSON_END)
        ;
    ebb_json_fini(&r);
    return ebb_clock_cpu_ns() - start;
}

static uint64_t run_yaml(const struct ebb_str *text)
{
    struct ebb_arena arena;
    struct ebb_error err;
    const struct ebb_doc_node *root;
    uint64_t start = ebb_clock_cpu_ns();
    ebb_arena_init(&arena);
    (void)ebb_doc_parse_yaml(&arena, "text", text->data, text->length, &root, &err);
    ebb_arena_fini(&arena);
    return ebb_clock_cpu_ns() - start;
}

static void report(const char *what, const struct ebb_str *text,
                   uint64_t (*run)(const struct ebb_str *))
{
    uint64_t best = UINT64_MAX;
    char time[40], size[40];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t ns = run(text);
        best = ns < best ? ns : best;
    }
    printf("%-28s %10s %10s %8.0f MB/s\n", what, ebb_format_bytes(text->length, size, sizeof size),
           ebb_format_ns(best, time, sizeof time), (double)text->length / (double)best * 1e3);
}

int main(void)
{
    struct ebb_str text;
    ebb_str_init(&text);
    make_log(&text, 50000);
    report("json events, log lines", &text, run_events);
    ebb_str_clear(&text);
    make_config(&text);
    report("yaml document", &text, run_yaml);
    ebb_str_clear(&text);
    for (int i = 0; i < 20000; i++)
        ebb_str_printf(&text, "k%d: v\n", i);
    report("yaml refused: 20,000 keys", &text, run_yaml);
    ebb_str_clear(&text);
    for (int i = 0; i < 200000; i++)
        ebb_str_addc(&text, '[');
    report("yaml refused: 200,000 deep", &text, run_yaml);
    ebb_str_fini(&text);
    return 0;
}
