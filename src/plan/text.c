/* text.c - plan files: one step per line (docs/formats/plan.md).
 *
 * The reader refuses whatever it does not know, with file:line. It proves nothing about the plan
 * beyond its syntax: that is plan_check's business, which needs the trace. */
#include "plan/plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"

#define MAGIC "ebb-plan 1" /* without homes, sends without addresses, everything on the device */
#define MAGIC_2 "ebb-plan 2"
#define MAX_FILE_BYTES (UINT64_C(1) << 31)

static const struct {
    const char *name;
    bool has_tier, has_offset;
} acts[] = {
    [PLAN_PLACE] = {"place", false, true}, [PLAN_RUN] = {"run", false, true},
    [PLAN_DROP] = {"drop", false, false},  [PLAN_SEND] = {"send", true, true},
    [PLAN_FETCH] = {"fetch", true, false}, [PLAN_FORGET] = {"forget", true, false},
    [PLAN_MOVE] = {"move", false, true},   [PLAN_ROOM] = {"room", true, true},
};
#define ACT_COUNT (sizeof acts / sizeof acts[0])

/* ---- writing -------------------------------------------------------------------------------- */

static void write_step(struct ebb_str *out, const struct plan_step *step)
{
    ebb_str_printf(out, "%s %" PRIu32, acts[step->act].name, step->index);
    if (acts[step->act].has_tier)
        ebb_str_printf(out, " %u", (unsigned)step->tier);
    else if (step->tier)
        ebb_str_printf(out, " on %u", (unsigned)step->tier);
    if (acts[step->act].has_offset && step->offset != PLAN_NOWHERE)
        ebb_str_printf(out, " @%" PRIu64, step->offset);
    ebb_str_addc(out, '\n');
}

/* What the first version can say is said in it. */
static bool is_first_version(const struct plan *plan)
{
    bool is_first = plan->homes.count == 0;
    for (size_t i = 0; i < plan->step_count && is_first; i++) {
        const struct plan_step *s = &plan->steps[i];
        is_first = s->act == PLAN_SEND  ? s->offset == PLAN_NOWHERE
                   : s->act == PLAN_RUN ? !s->tier
                                        : s->act != PLAN_ROOM;
    }
    return is_first;
}

enum ebb_status plan_write(const struct plan *plan, const char *path, struct ebb_error *err)
{
    for (const char *c = plan->planner; *c; c++)
        if (*c <= ' ' || *c == 0x7f)
            return ebb_fail(err, EBB_EINPUT, "plan: planner name '%s' has a blank", plan->planner);
    struct ebb_str out;
    ebb_str_init(&out);
    bool is_old = is_first_version(plan);
    ebb_str_printf(&out, "%s\nsignature %016" PRIx64 "%016" PRIx64 "\nplanner %s\n",
                   is_old ? MAGIC : MAGIC_2, plan->signature.high, plan->signature.low,
                   plan->planner[0] ? plan->planner : "-");
    ebb_str_printf(&out, "budget %" PRIu64 "\nbytes %s\n", plan->budget_bytes,
                   plan->exact_bytes ? "exact" : "rounded");
    if (!is_old)
        ebb_str_printf(&out, "homes %zu\n", plan->homes.count);
    for (size_t i = 0; i < plan->homes.count; i++)
        ebb_str_printf(&out, "home %" PRIu32 " %u @%" PRIu64 "\n", plan->homes.list[i].storage,
                       (unsigned)plan->homes.list[i].tier, plan->homes.list[i].offset);
    ebb_str_printf(&out, "steps %zu\n", plan->step_count);
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < plan->step_count && status == EBB_OK; i++) {
        if (plan->steps[i].act >= ACT_COUNT)
            status = ebb_fail(err, EBB_EINPUT, "plan: step %zu: unknown act %u", i,
                              (unsigned)plan->steps[i].act);
        else
            write_step(&out, &plan->steps[i]);
    }
    ebb_str_add(&out, "end\n");
    EBB_THEN(status, ebb_str_status(&out, err));
    EBB_THEN(status, ebb_file_write_atomic(path, ebb_str_c(&out), out.length, err));
    ebb_str_fini(&out);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

struct reader {
    const char *name, *at, *end;
    size_t line;
    const char *text; /* current line, without its newline */
    size_t length, used;
    bool is_old; /* the first version */
};

static enum ebb_status refuse(const struct reader *r, struct ebb_error *err, const char *what)
{
    return ebb_fail(err, EBB_EINPUT, "%s:%zu: %s", r->name, r->line, what);
}

static enum ebb_status next_line(struct reader *r, struct ebb_error *err)
{
    r->line++;
    const char *newline = r->at == r->end ? NULL : memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (!newline)
        return refuse(r, err,
                      "the file ends early (every line ends with a newline, the last is 'end')");
    r->text = r->at;
    r->length = (size_t)(newline - r->at);
    r->used = 0;
    r->at = newline + 1;
    return EBB_OK;
}

/* The next word of the line; length 0 at its end. Words are separated by exactly one blank. */
static size_t next_word(struct reader *r, const char **word)
{
    if (r->used > 0) {
        if (r->used == r->length || r->text[r->used] != ' ')
            return 0;
        r->used++;
    }
    *word = r->text + r->used;
    size_t n = 0;
    while (r->used + n < r->length && (*word)[n] > ' ' && (*word)[n] != 0x7f)
        n++;
    r->used += n;
    return n;
}

static bool at_line_end(const struct reader *r)
{
    return r->used == r->length && (r->used == 0 || r->text[r->used - 1] != ' ');
}

static bool is_word(const char *word, size_t n, const char *expected)
{
    return n == strlen(expected) && memcmp(word, expected, n) == 0;
}

static bool parse_number(const char *word, size_t n, uint64_t *value)
{
    char digits[24];
    if (n == 0 || n >= sizeof digits || (n > 1 && word[0] == '0'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (word[i] < '0' || word[i] > '9')
            return false;
    memcpy(digits, word, n);
    digits[n] = '\0';
    return ebb_parse_u64(digits, value);
}

/* "key value" alone on a line. */
static enum ebb_status read_field(struct reader *r, const char *key, const char **value,
                                  size_t *length, struct ebb_error *err)
{
    const char *word = NULL;
    EBB_TRY(next_line(r, err));
    size_t n = next_word(r, &word);
    *length = is_word(word, n, key) ? next_word(r, value) : 0;
    if (*length == 0 || !at_line_end(r))
        return ebb_fail(err, EBB_EINPUT, "%s:%zu: expected '%s VALUE'", r->name, r->line, key);
    return EBB_OK;
}

static enum ebb_status read_number(struct reader *r, const char *key, uint64_t *value,
                                   struct ebb_error *err)
{
    const char *word;
    size_t n;
    EBB_TRY(read_field(r, key, &word, &n, err));
    if (!parse_number(word, n, value))
        return ebb_fail(err, EBB_EINPUT, "%s:%zu: '%s' needs a number below 2^64", r->name, r->line,
                        key);
    return EBB_OK;
}

static bool parse_hash(const char *word, size_t n, struct ebb_hash128 *hash)
{
    uint64_t parts[2] = {0, 0};
    if (n != 32)
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *hex = "0123456789abcdef";
        const char *digit = memchr(hex, word[i], 16);
        if (!digit)
            return false;
        parts[i / 16] = parts[i / 16] << 4 | (uint64_t)(digit - hex);
    }
    *hash = (struct ebb_hash128){.high = parts[0], .low = parts[1]};
    return true;
}

static enum ebb_status read_tier(struct reader *r, uint64_t *tier, struct ebb_error *err)
{
    const char *word = NULL;
    size_t n = next_word(r, &word);
    if (!parse_number(word, n, tier) || *tier < 1 || *tier >= PLAN_TIERS)
        return refuse(r, err, "expected a tier: 1 or 2");
    return EBB_OK;
}

/* "STORAGE TIER @OFFSET" */
static enum ebb_status read_home(struct reader *r, struct plan *plan, struct ebb_error *err)
{
    const char *word = NULL;
    uint64_t storage, tier, offset;
    EBB_TRY(next_line(r, err));
    size_t n = next_word(r, &word);
    if (!is_word(word, n, "home"))
        return refuse(r, err, "expected 'home STORAGE TIER @OFFSET'");
    n = next_word(r, &word);
    if (!parse_number(word, n, &storage) || storage >= UINT32_MAX)
        return refuse(r, err, "expected the number of a storage");
    EBB_TRY(read_tier(r, &tier, err));
    n = next_word(r, &word);
    if (n == 0 || word[0] != '@' || !parse_number(word + 1, n - 1, &offset) || !at_line_end(r))
        return refuse(r, err, "expected '@OFFSET' and the end of the line");
    plan->homes.list[plan->homes.count++] =
        (struct plan_home){.storage = (uint32_t)storage, .tier = (uint8_t)tier, .offset = offset};
    return EBB_OK;
}

static enum ebb_status read_homes(struct reader *r, struct plan *plan, struct ebb_error *err)
{
    uint64_t count;
    EBB_TRY(read_number(r, "homes", &count, err));
    if (count > (uint64_t)(r->end - r->at) / sizeof "home 0 1 @0")
        return refuse(r, err, "more homes than the file has lines");
    if (count)
        EBB_TRY(ebb_new(&plan->homes.list, count, sizeof *plan->homes.list, err));
    for (uint64_t i = 0; i < count; i++)
        EBB_TRY(read_home(r, plan, err));
    return EBB_OK;
}

static enum ebb_status read_head(struct reader *r, struct plan *plan, uint64_t *steps,
                                 struct ebb_error *err)
{
    const char *word;
    size_t n;
    EBB_TRY(next_line(r, err));
    r->is_old = is_word(r->text, r->length, MAGIC);
    if (!r->is_old && !is_word(r->text, r->length, MAGIC_2))
        return refuse(r, err,
                      "not a plan file: the first line must be '" MAGIC "' or '" MAGIC_2 "'");
    EBB_TRY(read_field(r, "signature", &word, &n, err));
    if (!parse_hash(word, n, &plan->signature))
        return refuse(r, err, "the signature must be 32 hexadecimal digits");
    EBB_TRY(read_field(r, "planner", &word, &n, err));
    if (n >= sizeof plan->planner)
        return refuse(r, err, "the planner's name is too long (31 characters at most)");
    if (!is_word(word, n, "-"))
        memcpy(plan->planner, word, n);
    EBB_TRY(read_number(r, "budget", &plan->budget_bytes, err));
    EBB_TRY(read_field(r, "bytes", &word, &n, err));
    plan->exact_bytes = is_word(word, n, "exact");
    if (!plan->exact_bytes && !is_word(word, n, "rounded"))
        return refuse(r, err, "bytes are 'exact' or 'rounded'");
    if (!r->is_old)
        EBB_TRY(read_homes(r, plan, err));
    return read_number(r, "steps", steps, err);
}

static enum ebb_status read_step(struct reader *r, struct plan *plan, struct ebb_error *err)
{
    const char *word = NULL;
    uint64_t index, tier = 0, offset = 0;
    EBB_TRY(next_line(r, err));
    size_t n = next_word(r, &word);
    size_t act = 0;
    while (act < ACT_COUNT && !is_word(word, n, acts[act].name))
        act++;
    if (act == ACT_COUNT || (act == PLAN_ROOM && r->is_old))
        return refuse(r, err, "expected place, run, drop, send, fetch, forget, move or room");
    n = next_word(r, &word);
    if (!parse_number(word, n, &index) || index >= UINT32_MAX)
        return refuse(r, err, "expected the number of an op or storage");
    if (acts[act].has_tier)
        EBB_TRY(read_tier(r, &tier, err));
    bool is_old_send = r->is_old && act == PLAN_SEND;
    if (acts[act].has_offset)
        offset = PLAN_NOWHERE;
    if (acts[act].has_offset && !is_old_send) {
        n = next_word(r, &word);
        if (act == PLAN_RUN && !r->is_old && is_word(word, n, "on")) {
            EBB_TRY(read_tier(r, &tier, err));
            n = next_word(r, &word);
        }
        if (n > 0 &&
            (word[0] != '@' || !parse_number(word + 1, n - 1, &offset) || offset == PLAN_NOWHERE))
            return refuse(r, err, "expected '@OFFSET' or the end of the line");
    }
    if (!at_line_end(r))
        return refuse(r, err, "the line goes on after its last word");
    return plan_add(plan, (enum plan_act)act, (uint32_t)index, offset, (uint8_t)tier, err);
}

enum ebb_status plan_read(const char *name, const char *bytes, size_t length, struct plan *plan,
                          struct ebb_error *err)
{
    struct reader r = {.name = name, .at = bytes, .end = bytes + length};
    struct plan read = {0};
    uint64_t steps = 0;
    enum ebb_status status = read_head(&r, &read, &steps, err);
    for (uint64_t i = 0; i < steps && status == EBB_OK; i++)
        status = read_step(&r, &read, err);
    EBB_THEN(status, next_line(&r, err));
    if (status == EBB_OK && !is_word(r.text, r.length, "end"))
        status = refuse(&r, err, "expected 'end' after the last step");
    if (status == EBB_OK && r.at != r.end)
        status = refuse(&r, err, "text after 'end'");
    if (status != EBB_OK) {
        plan_fini(&read);
        return status;
    }
    *plan = read;
    return EBB_OK;
}

enum ebb_status plan_load(const char *path, struct plan *plan, struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, MAX_FILE_BYTES, err));
    enum ebb_status status = plan_read(path, view.data, view.length, plan, err);
    ebb_file_view_close(&view);
    return status;
}
