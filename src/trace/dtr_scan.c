/* dtr_scan.c - one line of a DTR log into a record of its known keys.
 *
 * The fast path takes exactly the lines the logger writes; it decides nothing about errors:
 * whatever it does not take, wrong or merely unusual, goes to the JSON reader. So messages and
 * results do not depend on the path. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/json.h"
#include "trace/dtr.h"

static const struct {
    const char *name;
    unsigned length;
} keys[DTR_KEYS] = {
    [DTR_ALIAS] = {"ALIAS", 5},
    [DTR_ANNOTATION] = {"ANNOTATION", 10},
    [DTR_ARGS] = {"ARGS", 4},
    [DTR_DST] = {"DST", 3},
    [DTR_INSTRUCTION] = {"INSTRUCTION", 11},
    [DTR_MEMORY] = {"MEMORY", 6},
    [DTR_MUTATE] = {"MUTATE", 6},
    [DTR_NAME] = {"NAME", 4},
    [DTR_RESULT] = {"RESULT", 6},
    [DTR_SRC] = {"SRC", 3},
    [DTR_TIME] = {"TIME", 4},
};

static int key_of(const char *text, size_t length)
{
    for (int i = 0; i < DTR_KEYS; i++)
        if (keys[i].length == length && memcmp(keys[i].name, text, length) == 0)
            return i;
    return -1;
}

static struct trace_dtr_list *list_of(struct trace_dtr_record *record, int key)
{
    switch (key) {
    case DTR_ARGS:
        return &record->args;
    case DTR_RESULT:
        return &record->result;
    case DTR_MUTATE:
        return &record->mutate;
    default:
        return NULL;
    }
}

static enum ebb_status list_add(struct trace_dtr_list *list, struct trace_dtr_text item,
                                struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&list->items, &list->capacity, list->count + 1, sizeof *list->items, err));
    list->items[list->count++] = item;
    return EBB_OK;
}

static void record_clear(struct trace_dtr_record *record)
{
    record->has = 0;
    record->args.count = record->result.count = record->mutate.count = 0;
}

void trace_dtr_record_fini(struct trace_dtr_record *record)
{
    ebb_free(record->args.items);
    ebb_free(record->result.items);
    ebb_free(record->mutate.items);
    ebb_free(record->scratch);
    *record = (struct trace_dtr_record){.has = 0};
}

/* ---- fast path ------------------------------------------------------------------------------- */

struct cursor {
    const char *begin, *at, *end;
};

/* "plain text": bytes 0x20..0x7e without quote and backslash, which mean themselves. */
static bool fast_text(struct cursor *c, struct trace_dtr_text *out)
{
    if (c->at == c->end || *c->at != '"')
        return false;
    const char *start = c->at + 1, *p = start;
    while (p < c->end && *p != '"') {
        unsigned char byte = (unsigned char)*p++;
        if (byte < 0x20 || byte > 0x7e || byte == '\\')
            return false;
    }
    if (p == c->end)
        return false;
    *out = (struct trace_dtr_text){
        .text = start, .length = (uint32_t)(p - start), .column = (uint32_t)(c->at - c->begin) + 1};
    c->at = p + 1;
    return true;
}

static bool fast_index(struct cursor *c, struct trace_dtr_text *out)
{
    const char *p = c->at;
    while (p < c->end && *p >= '0' && *p <= '9')
        p++;
    if (p == c->at || p - c->at > 9 || (*c->at == '0' && p - c->at > 1))
        return false;
    *out = (struct trace_dtr_text){
        .text = c->at, .length = (uint32_t)(p - c->at), .column = (uint32_t)(c->at - c->begin) + 1};
    c->at = p;
    return true;
}

static bool fast_list(struct cursor *c, struct trace_dtr_list *list, bool of_numbers)
{
    if (c->at == c->end || *c->at++ != '[')
        return false;
    if (c->at < c->end && *c->at == ']') {
        c->at++;
        return true;
    }
    for (;;) {
        struct trace_dtr_text item;
        if (!(of_numbers ? fast_index(c, &item) : fast_text(c, &item)))
            return false;
        if (list_add(list, item, NULL) != EBB_OK)
            return false; /* the slow path reports it */
        if (c->at == c->end)
            return false;
        char mark = *c->at++;
        if (mark == ']')
            return true;
        if (mark != ',')
            return false;
    }
}

bool trace_dtr_scan_fast(struct trace_dtr_record *record, const char *bytes, size_t length)
{
    struct cursor c = {bytes, bytes, bytes + length};
    record_clear(record);
    if (length < 2 || length > UINT32_MAX - 2 || *c.at++ != '{')
        return false;
    for (;;) {
        struct trace_dtr_text text;
        if (!fast_text(&c, &text))
            return false;
        int key = key_of(text.text, text.length);
        if (key < 0 || (record->has & 1u << key) || c.at == c.end || *c.at++ != ':')
            return false;
        struct trace_dtr_list *list = list_of(record, key);
        if (list != NULL ? !fast_list(&c, list, key == DTR_MUTATE)
                         : !fast_text(&c, &record->scalar[key]))
            return false;
        record->has |= 1u << key;
        if (c.at == c.end)
            return false;
        char mark = *c.at++;
        if (mark == '}')
            return c.at == c.end;
        if (mark != ',')
            return false;
    }
}

/* ---- slow path ------------------------------------------------------------------------------- */

struct slow {
    struct ebb_json json;
    struct trace_dtr_record *record;
    size_t scratch_used;
    struct ebb_error *err;
};

static struct trace_dtr_text keep(struct slow *s, const char *text, size_t length, uint32_t column)
{
    /* Room for the whole line was made before; decoded text is never longer than its spelling. */
    char *copy = s->record->scratch + s->scratch_used;
    memcpy(copy, text, length);
    s->scratch_used += length;
    return (struct trace_dtr_text){.text = copy, .length = (uint32_t)length, .column = column};
}

static enum ebb_status wrong_type(struct slow *s, const struct ebb_json_event *event, int key,
                                  const char *wanted)
{
    return ebb_fail(s->err, EBB_EINPUT, "%s:%u:%u: %s must be %s", s->json.name, event->line,
                    event->column, keys[key].name, wanted);
}

static enum ebb_status slow_list(struct slow *s, int key)
{
    struct trace_dtr_list *list = list_of(s->record, key);
    struct ebb_json_event event;
    for (;;) {
        EBB_TRY(ebb_json_next(&s->json, &event, s->err));
        if (event.kind == EBB_JSON_ARRAY_END)
            return EBB_OK;
        struct trace_dtr_text item;
        if (key == DTR_MUTATE) {
            char digits[24];
            if (event.kind != EBB_JSON_INT)
                return wrong_type(s, &event, key, "a list of indices into ARGS");
            int n = snprintf(digits, sizeof digits, "%lld", (long long)event.integer);
            item = keep(s, digits, (size_t)n, event.column);
        } else {
            if (event.kind != EBB_JSON_STRING)
                return wrong_type(s, &event, key, "a list of names");
            item = keep(s, event.text, event.length, event.column);
        }
        EBB_TRY(list_add(list, item, s->err));
    }
}

static enum ebb_status slow_value(struct slow *s, int key)
{
    struct ebb_json_event event;
    EBB_TRY(ebb_json_next(&s->json, &event, s->err));
    if (list_of(s->record, key) != NULL) {
        if (event.kind != EBB_JSON_ARRAY)
            return wrong_type(s, &event, key, "a list");
        return slow_list(s, key);
    }
    bool is_number = key == DTR_TIME || key == DTR_MEMORY || key == DTR_ALIAS;
    if (event.kind == EBB_JSON_STRING) {
        s->record->scalar[key] = keep(s, event.text, event.length, event.column);
        return EBB_OK;
    }
    if (is_number && event.kind == EBB_JSON_INT) {
        char digits[24];
        int n = snprintf(digits, sizeof digits, "%lld", (long long)event.integer);
        s->record->scalar[key] = keep(s, digits, (size_t)n, event.column);
        return EBB_OK;
    }
    return wrong_type(s, &event, key, is_number ? "a whole number, as text" : "text");
}

static enum ebb_status slow_member(struct slow *s, const struct ebb_json_event *name)
{
    int key = key_of(name->text, name->length);
    if (key < 0) { /* keys the logger does not write are not ours to judge */
        struct ebb_json_event event;
        EBB_TRY(ebb_json_next(&s->json, &event, s->err));
        return ebb_json_skip(&s->json, &event, s->err);
    }
    if (s->record->has & 1u << key)
        return ebb_fail(s->err, EBB_EINPUT, "%s:%u:%u: %s is given twice", s->json.name, name->line,
                        name->column, keys[key].name);
    EBB_TRY(slow_value(s, key));
    s->record->has |= 1u << key;
    return EBB_OK;
}

static enum ebb_status slow_line(struct slow *s)
{
    struct ebb_json_event event;
    EBB_TRY(ebb_json_next(&s->json, &event, s->err));
    if (event.kind != EBB_JSON_OBJECT)
        return ebb_fail(s->err, EBB_EINPUT, "%s:%u:%u: a line must be one JSON object",
                        s->json.name, event.line, event.column);
    for (;;) {
        EBB_TRY(ebb_json_next(&s->json, &event, s->err));
        if (event.kind == EBB_JSON_OBJECT_END)
            break;
        EBB_TRY(slow_member(s, &event));
    }
    return ebb_json_next(&s->json, &event, s->err); /* nothing may follow */
}

enum ebb_status trace_dtr_scan_json(struct trace_dtr_record *record, const char *name,
                                    uint32_t line, const char *bytes, size_t length,
                                    struct ebb_error *err)
{
    if (length > UINT32_MAX - 2)
        return ebb_fail(err, EBB_ELIMIT, "%s:%u: line of more than 4 GiB", name, line);
    record_clear(record);
    EBB_TRY(ebb_grow(&record->scratch, &record->scratch_capacity, length + 1, 1, err));
    struct slow s = {.record = record, .err = err};
    ebb_json_init(&s.json, name, bytes, length, EBB_JSON_ONE);
    s.json.line = line;
    enum ebb_status status = slow_line(&s);
    ebb_json_fini(&s.json);
    return status;
}

enum ebb_status trace_dtr_scan(struct trace_dtr_record *record, const char *name, uint32_t line,
                               const char *bytes, size_t length, struct ebb_error *err)
{
    if (trace_dtr_scan_fast(record, bytes, length))
        return EBB_OK;
    return trace_dtr_scan_json(record, name, line, bytes, length, err);
}
