/* text.c - profile files: one thing per line (docs/formats/device.md).
 *
 * The reader refuses whatever it does not know, with file:line:column, and names every mistake of
 * the file, not only the first. */
#include "profile/inner.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/str.h"

#define MAGIC "ebb-device 1"
#define MAX_FILE_BYTES (UINT64_C(64) << 20)
enum { WORDS = 10, ROOM = 700 }; /* of mistakes: what an error can say, less its last lines */
#define LEAST_RATE 1e-4          /* 100 kB/s */
#define MOST_RATE 1e12
#define MOST_WORKSPACE (UINT64_C(1) << 40)

static const char *const link_names[] = {
#define X(name, text) #text,
    PROFILE_LINK_LIST(X)
#undef X
};

/* ---- writing ---------------------------------------------------------------------------------- */

static void add_number(struct ebb_str *out, double value)
{
    char text[32];
    ebb_str_printf(out, " %s", ebb_format_double(value, text, sizeof text));
}

enum ebb_status profile_spell(const struct profile *p, struct ebb_str *out, struct ebb_error *err)
{
    ebb_str_printf(out, MAGIC "\nkind %s\n", p->kind);
    for (size_t i = 0; i < p->fact_count; i++)
        ebb_str_printf(out, "fact %s %" PRIu64 "\n", p->facts[i].name, p->facts[i].value);
    for (size_t i = 0; i < PROFILE_LINKS; i++) {
        ebb_str_printf(out, "link %s %" PRIu64, link_names[i], p->links[i].latency_ns);
        add_number(out, p->links[i].bytes_per_ns);
        add_number(out, p->links[i].both_bytes_per_ns);
        ebb_str_addc(out, '\n');
    }
    for (size_t i = 0; i < p->fit_count; i++) {
        ebb_str_printf(out, "fit %s", p->fits[i].family);
        add_number(out, p->fits[i].fixed_ns);
        add_number(out, p->fits[i].flops_per_ns);
        add_number(out, p->fits[i].bytes_per_ns);
        ebb_str_addc(out, '\n');
    }
    for (size_t i = 0; i < p->row_count; i++) {
        const struct profile_row *row = &p->rows[i];
        ebb_str_printf(out, "row %s %s %" PRIu64, row->family, row->key, row->cost_ns);
        add_number(out, row->spread);
        ebb_str_printf(out, " %" PRIu64 " %s\n", row->workspace_bytes, row->algorithm);
    }
    ebb_str_add(out, "end\n");
    return ebb_str_status(out, err);
}

enum ebb_status profile_write(const struct profile *p, const char *path, struct ebb_error *err)
{
    struct ebb_str out;
    ebb_str_init(&out);
    enum ebb_status status = profile_spell(p, &out, err);
    EBB_THEN(status, ebb_file_write_atomic(path, ebb_str_c(&out), out.length, err));
    ebb_str_fini(&out);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------------- */

struct reader {
    const char *name;
    size_t line;
    char *text; /* the line, its blanks turned into ends of words */
    const char *words[WORDS];
    size_t count;
    struct ebb_str mistakes, thing;
    size_t mistake_count, untold;
    struct ebb_strmap seen; /* things to their lines */
    struct profile *p;
    bool is_ended, has_kind;
};

/* Word `at` of the line is wrong; at == count: something is missing at its end. `names` may be NULL:
 * what it may have been meant to be. */
static void complain_near(struct reader *r, size_t at, const char *what, const char *const *names,
                          size_t name_count)
{
    size_t column = at < r->count ? (size_t)(r->words[at] - r->text) + 1 : 1;
    const char *near = names ? ebb_nearest(r->words[at], names, name_count) : NULL;
    r->mistake_count++;
    if (r->mistakes.length > ROOM) {
        r->untold++;
        return;
    }
    ebb_str_printf(&r->mistakes, "%s%s:%zu:%zu: ", r->mistake_count > 1 ? "\n" : "", r->name,
                   r->line, column);
    if (at < r->count)
        ebb_str_printf(&r->mistakes, "found '%.60s', ", r->words[at]);
    ebb_str_printf(&r->mistakes, "allowed: %s%s%s", what, near ? ", nearest: " : "",
                   near ? near : "");
}

static void complain(struct reader *r, size_t at, const char *what)
{
    complain_near(r, at, what, NULL, 0);
}

static double number_at(struct reader *r, size_t at, double most, const char *what)
{
    double value = 0;
    if (ebb_parse_double(r->words[at], &value) && value >= 0 && value <= most)
        return value;
    complain(r, at, what);
    return 0;
}

/* Slower or faster ones are written in another unit. */
static double rate_at(struct reader *r, size_t at)
{
    static const char what[] = "0, or 0.0001 to 1e12 per nanosecond";
    double value = number_at(r, at, MOST_RATE, what);
    if (value > 0 && value < LEAST_RATE)
        complain(r, at, what);
    return value;
}

static uint64_t whole_at(struct reader *r, size_t at, uint64_t most, const char *what)
{
    uint64_t value = 0;
    if (ebb_parse_u64(r->words[at], &value) && value <= most)
        return value;
    complain(r, at, what);
    return 0;
}

static uint64_t ns_at(struct reader *r, size_t at)
{
    return whole_at(r, at, PROFILE_MOST_NS, "whole nanoseconds, 0 to 1000000000000");
}

static enum ebb_status read_kind(struct reader *r, struct ebb_error *err)
{
    r->has_kind = true;
    r->p->kind = profile_text(r->p, r->words[1], strlen(r->words[1]));
    return r->p->kind ? EBB_OK : ebb_no_memory(err, strlen(r->words[1]));
}

static enum ebb_status read_fact(struct reader *r, struct ebb_error *err)
{
    return profile_set_fact(r->p, r->words[1], whole_at(r, 2, UINT64_MAX, "a whole number >= 0"),
                            err);
}

static enum ebb_status read_link(struct reader *r, struct ebb_error *err)
{
    (void)err;
    for (size_t i = 0; i < PROFILE_LINKS; i++) {
        if (strcmp(r->words[1], link_names[i]) != 0)
            continue;
        r->p->links[i] = (struct profile_link){ns_at(r, 2), rate_at(r, 3), rate_at(r, 4)};
        return EBB_OK;
    }
    complain_near(r, 1, "move, host_out, host_in, file_out, file_in", link_names, PROFILE_LINKS);
    return EBB_OK;
}

static enum ebb_status read_fit(struct reader *r, struct ebb_error *err)
{
    double fixed_ns = number_at(r, 2, PROFILE_MOST_NS, "nanoseconds, 0 to 1e12");
    return profile_add_fit(
        r->p, &(struct profile_fit){r->words[1], fixed_ns, rate_at(r, 3), rate_at(r, 4)}, err);
}

static enum ebb_status read_row(struct reader *r, struct ebb_error *err)
{
    static const char workspace[] = "whole bytes, 0 to 1099511627776";
    return profile_add_row(
        r->p,
        &(struct profile_row){.family = r->words[1],
                              .key = r->words[2],
                              .cost_ns = ns_at(r, 3),
                              .spread = number_at(r, 4, 1e12, "0 to 1e12"),
                              .workspace_bytes = whole_at(r, 5, MOST_WORKSPACE, workspace),
                              .algorithm = r->words[6]},
        err);
}

static enum ebb_status read_end(struct reader *r, struct ebb_error *err)
{
    (void)err;
    r->is_ended = true;
    return EBB_OK;
}

static const struct {
    const char *word, *usage;
    size_t words, naming; /* all, and those that say which thing it is: it stands once */
    enum ebb_status (*read)(struct reader *r, struct ebb_error *err);
} lines[] = {
    {"kind", "kind NAME", 2, 1, read_kind},
    {"fact", "fact NAME WHOLE", 3, 2, read_fact},
    {"link", "link NAME LATENCY_NS BYTES_PER_NS BOTH_BYTES_PER_NS", 5, 2, read_link},
    {"fit", "fit FAMILY FIXED_NS FLOPS_PER_NS BYTES_PER_NS", 5, 2, read_fit},
    {"row", "row FAMILY KEY NS SPREAD WORKSPACE_BYTES ALGORITHM", 7, 3, read_row},
    {"end", "end", 1, 1, read_end},
};
enum { LINES = sizeof lines / sizeof lines[0] };

static enum ebb_status check_once(struct reader *r, size_t naming, struct ebb_error *err)
{
    char what[64];
    uint64_t line = 0;
    ebb_str_clear(&r->thing);
    for (size_t i = 0; i < naming; i++)
        ebb_str_printf(&r->thing, "%s ", r->words[i]);
    EBB_TRY(ebb_str_status(&r->thing, err));
    if (!ebb_strmap_get(&r->seen, r->thing.data, r->thing.length, &line))
        return ebb_strmap_put(&r->seen, r->thing.data, r->thing.length, r->line, err);
    snprintf(what, sizeof what, "once; line %" PRIu64 " has it", line);
    complain(r, naming - 1, what);
    return EBB_OK;
}

/* Splits the line in place; more words than any line has are one too many. */
static void split(struct reader *r)
{
    r->count = 0;
    for (char *at = r->text; *at && r->count < WORDS;) {
        at += strspn(at, " \t\r");
        if (!*at || *at == '#')
            break;
        r->words[r->count++] = at;
        at += strcspn(at, " \t\r");
        if (*at)
            *at++ = '\0';
    }
}

static enum ebb_status read_line(struct reader *r, struct ebb_error *err)
{
    split(r);
    if (r->count == 0)
        return EBB_OK;
    if (r->is_ended) {
        complain(r, 0, "nothing after 'end'");
        return EBB_OK;
    }
    const char *names[LINES];
    for (size_t i = 0; i < LINES; i++) {
        names[i] = lines[i].word;
        if (strcmp(r->words[0], lines[i].word) != 0)
            continue;
        if (r->count != lines[i].words) {
            complain(r, 0, lines[i].usage);
            return EBB_OK;
        }
        EBB_TRY(check_once(r, lines[i].naming, err));
        return lines[i].read(r, err);
    }
    complain_near(r, 0, "kind, fact, link, fit, row, end", names, LINES);
    return EBB_OK;
}

static enum ebb_status read_lines(struct reader *r, char *text, struct ebb_error *err)
{
    while (text) {
        char *next = strchr(text, '\n');
        if (next)
            *next++ = '\0';
        r->line++;
        r->text = text;
        if (r->line > 1) {
            EBB_TRY(read_line(r, err));
        } else if (strcspn(text, "\r") != strlen(MAGIC) || strncmp(text, MAGIC, strlen(MAGIC))) {
            return ebb_fail(err, EBB_EINPUT,
                            "%s:1:1: found '%.40s', allowed: '" MAGIC
                            "', with which device profiles begin",
                            r->name, text);
        }
        text = next;
    }
    r->count = 0;
    if (!r->is_ended)
        complain(r, 0, "'end' as the last line: the file is cut short");
    if (!r->has_kind)
        complain(r, 0, "a line 'kind NAME'");
    if (r->untold)
        ebb_str_printf(&r->mistakes, "\n%s: %zu mistakes more", r->name, r->untold);
    EBB_TRY(ebb_str_status(&r->mistakes, err));
    return r->mistake_count ? ebb_fail(err, EBB_EINPUT, "%s", r->mistakes.data) : EBB_OK;
}

enum ebb_status profile_read(const char *name, const char *bytes, size_t length,
                             struct profile **profile, struct ebb_error *err)
{
    struct reader r = {.name = name};
    char *copy;
    if (memchr(bytes, '\0', length))
        return ebb_fail(err, EBB_EINPUT, "%s: not a text file", name);
    EBB_TRY(ebb_new(&copy, length + 1, 1, err));
    memcpy(copy, bytes, length);
    ebb_str_init(&r.mistakes);
    ebb_str_init(&r.thing);
    ebb_strmap_init(&r.seen);
    enum ebb_status status = profile_create(&r.p, "", err);
    EBB_THEN(status, read_lines(&r, copy, err));
    if (status == EBB_OK) {
        status = profile_finish(r.p, err);
        if (status != EBB_OK)
            ebb_context(err, status, "%s", name);
    }
    ebb_strmap_fini(&r.seen);
    ebb_str_fini(&r.thing);
    ebb_str_fini(&r.mistakes);
    ebb_free(copy);
    if (status == EBB_OK)
        *profile = r.p;
    else
        profile_destroy(r.p);
    return status;
}

enum ebb_status profile_load(const char *path, struct profile **profile, struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, MAX_FILE_BYTES, err));
    enum ebb_status status = profile_read(path, view.data, view.length, profile, err);
    ebb_file_view_close(&view);
    return status;
}
