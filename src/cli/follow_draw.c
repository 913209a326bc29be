/* follow_draw.c - the live table. Drawn as one piece of text over the one before. */
#include "cli/follow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/heap.h"
#include "cli/cli.h"
#include "cli/show.h"

#define HEAD_LINES 6 /* everything but the rows of the table, and a free last line */
#define BAR 24

struct screen {
    size_t columns, rows;
};

static struct screen screen_size(void)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 && size.ws_row >= 8)
        return (struct screen){size.ws_col, size.ws_row};
    return (struct screen){80, 24};
}

/* ---- head ---- */

/* Whole seconds: tenths would flicker. */
static const char *seconds_text(uint64_t ns, char *buf, size_t size)
{
    uint64_t s = (ns + 500000000u) / 1000000000u;
    if (s < 120)
        snprintf(buf, size, "%llu s", (unsigned long long)s);
    else
        ebb_format_ns(s * 1000000000u, buf, size);
    return buf;
}

static void add_times(struct cli_follow *f, double progress, struct ebb_str *out)
{
    char buf[32];
    uint64_t elapsed = ebb_clock_ns() - f->start_ns;
    double done = progress - f->start_progress;
    ebb_str_printf(out, "   %s", seconds_text(elapsed, buf, sizeof buf));
    if (progress < 1 && done > 0.005) {
        double left = (double)elapsed * (1 - progress) / done;
        ebb_str_printf(out, ", about %s left", seconds_text((uint64_t)left, buf, sizeof buf));
    }
}

static void add_head(struct cli_follow *f, const struct ebb_doc_node *e,
                     const struct ebb_doc_node *trials, size_t busy, size_t slots,
                     struct ebb_str *out)
{
    char buf[CLI_CELL];
    const char *state = ebb_doc_string(e, "state", "");
    double progress = ebb_doc_double(e, "progress", f->progress); /* none of one that has ended */
    progress = strcmp(state, "COMPLETED") == 0 ? 1 : progress;
    f->progress = progress;
    ebb_str_printf(out, "experiment %lld  ", (long long)f->id);
    for (const char *c = ebb_doc_string(e, "description", ""); *c != '\0'; c++) /* one line */
        ebb_str_addc(out, ((unsigned char)*c < 0x20u || *c == 0x7f) ? ' ' : *c);
    ebb_str_printf(out, "  %s  (%s, %s %s)\n", state, ebb_doc_string(e, "searcher", ""),
                   ebb_doc_bool(e, "smaller_is_better", true) ? "smallest" : "largest", f->metric);
    ebb_str_addc(out, '[');
    for (int i = 0; i < BAR; i++)
        ebb_str_addc(out, i < (int)(progress * BAR + 0.5) ? '#' : '-');
    ebb_str_printf(out, "] %5.1f %%   %zu of %zu slots busy   %lld of %lld trials ended",
                   progress * 100, busy, slots, (long long)ebb_doc_int(e, "num_ended", 0),
                   trials != NULL ? (long long)trials->count
                                  : (long long)ebb_doc_int(e, "num_trials", 0));
    add_times(f, progress, out);
    ebb_str_addc(out, '\n');
    if (ebb_doc_int(e, "best_trial_id", 0) > 0)
        ebb_str_printf(out, "best so far: %s %s, trial %lld, step %lld\n", f->metric,
                       cli_show_number(ebb_doc_get(e, "best_metric"), buf),
                       (long long)ebb_doc_int(e, "best_trial_id", 0),
                       (long long)ebb_doc_int(e, "best_step_id", 0));
    else
        ebb_str_add(out, "best so far: -\n");
}

/* ---- trials ---- */

struct row {
    const struct ebb_doc_node *trial;
    int rank; /* running first, then waiting, then ended, then pending */
    double metric;
};

static int rank_of(const struct ebb_doc_node *t)
{
    const char *state = ebb_doc_string(t, "state", "");
    const struct ebb_doc_node *slots = ebb_doc_get(t, "slots");
    bool has_slots = slots != NULL &&
                     (slots->kind == EBB_DOC_INT ? slots->integer > 0
                                                 : slots->kind == EBB_DOC_LIST && slots->count > 0);
    if (strcmp(state, "ACTIVE") == 0)
        return has_slots ? 0 : 1;
    return strcmp(state, "PENDING") == 0 ? 3 : 2;
}

static int compare_rows(const void *pa, const void *pb)
{
    const struct row *a = pa, *b = pb;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->metric != b->metric && a->rank == 2)
        return isnan(b->metric) || a->metric < b->metric ? -1 : 1;
    int64_t ia = ebb_doc_int(a->trial, "id", INT64_MAX),
            ib = ebb_doc_int(b->trial, "id", INT64_MAX);
    return ia < ib ? -1 : ia > ib;
}

static const char *slots_text(const struct ebb_doc_node *t, char buf[CLI_CELL])
{
    const struct ebb_doc_node *slots = ebb_doc_get(t, "slots");
    struct ebb_str text = {0};
    if (slots == NULL || slots->kind != EBB_DOC_LIST)
        return cli_show_number(ebb_doc_get(t, "slots"), buf);
    for (size_t i = 0; i < slots->count; i++) {
        ebb_str_add(&text, i > 0 ? "," : "");
        cli_show_value(&text, slots->items[i]);
    }
    snprintf(buf, CLI_CELL, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
    return buf;
}

/* True when the trials do not all have the same value: constants say nothing in a table. */
static bool varies(const struct ebb_doc_node *list, const char *name)
{
    const struct ebb_doc_node *first = ebb_doc_get(ebb_doc_get(list->items[0], "hparams"), name);
    for (size_t i = 1; i < list->count; i++) {
        const struct ebb_doc_node *v = ebb_doc_get(ebb_doc_get(list->items[i], "hparams"), name);
        if (v == NULL || first == NULL || !ebb_doc_equal(first, v))
            return true;
    }
    return list->count == 1;
}

static void add_hparams(struct ebb_str *text, const struct ebb_doc_node *list,
                        const struct ebb_doc_node *t)
{
    const struct ebb_doc_node *hparams = ebb_doc_get(t, "hparams");
    for (size_t i = 0; hparams != NULL && hparams->kind == EBB_DOC_MAP && i < hparams->count; i++) {
        if (!varies(list, hparams->keys[i]->text))
            continue;
        ebb_str_printf(text, "%s%s ", text->length > 0 ? ", " : "", hparams->keys[i]->text);
        cli_show_value(text, hparams->items[i]);
    }
}

static void add_row(struct cli_table *table, const struct ebb_doc_node *list,
                    const struct ebb_doc_node *t)
{
    char buf[CLI_CELL];
    struct ebb_str text = {0};
    const char *message = ebb_doc_string(t, "message", "");
    const char *waiting = ebb_doc_string(t, "waiting", "");
    cli_table_cell(table, "%s", cli_show_number(ebb_doc_get(t, "id"), buf));
    cli_table_cell(table, "%s", ebb_doc_string(t, "state", ""));
    int64_t target = ebb_doc_int(t, "target_steps", 0);
    if (target > 0)
        cli_table_cell(table, "%lld/%lld", (long long)ebb_doc_int(t, "steps", 0),
                       (long long)target);
    else
        cli_table_cell(table, "%s", cli_show_number(ebb_doc_get(t, "steps"), buf));
    cli_table_cell(table, "%s", cli_show_number(ebb_doc_get(t, "loss"), buf));
    cli_table_cell(table, "%s", cli_show_number(ebb_doc_get(t, "latest_validation"), buf));
    cli_table_cell(table, "%s", cli_show_number(ebb_doc_get(t, "best_validation"), buf));
    cli_table_cell(table, "%s", slots_text(t, buf));
    add_hparams(&text, list, t);
    if (message[0] != '\0')
        ebb_str_printf(&text, "  (%s)", message);
    else if (waiting[0] != '\0' && strcmp(ebb_doc_string(t, "state", ""), "PENDING") != 0)
        ebb_str_printf(&text, "  (waits: %s)", waiting);
    cli_table_cell(table, "%s", ebb_str_c(&text));
    ebb_str_fini(&text);
}

/* The rows that fit; the rest is counted. */
static void print_trials(const struct ebb_doc_node *list, bool is_smaller, size_t room, FILE *out)
{
    static const char *const headers[] = {"trial",  "state", "steps", "loss",
                                          "latest", "best",  "slots", "hyperparameters"};
    size_t count = list != NULL && list->kind == EBB_DOC_LIST ? list->count : 0;
    struct row *rows = ebb_calloc(count + 1, sizeof *rows);
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof headers[0]);
    size_t shown = count <= room ? count : room;
    if (rows != NULL) {
        for (size_t i = 0; i < count; i++) {
            double metric = cli_metric(ebb_doc_get(list->items[i], "best_validation"));
            rows[i] = (struct row){.trial = list->items[i],
                                   .rank = rank_of(list->items[i]),
                                   .metric = is_smaller ? metric : -metric};
        }
        qsort(rows, count, sizeof *rows, compare_rows);
        for (size_t i = 0; i < shown; i++)
            add_row(table, list, rows[i].trial);
    }
    cli_table_print(table, out);
    if (shown < count)
        fprintf(out, "... and %zu more\n", count - shown);
    cli_table_destroy(table);
    ebb_free(rows);
}

/* ---- the whole ---- */

static void count_slots(const struct ebb_doc_node *agents, size_t *busy, size_t *total)
{
    *busy = *total = 0;
    for (size_t i = 0; agents != NULL && agents->kind == EBB_DOC_LIST && i < agents->count; i++) {
        const struct ebb_doc_node *slots = ebb_doc_get(agents->items[i], "slots");
        for (size_t k = 0; slots != NULL && slots->kind == EBB_DOC_LIST && k < slots->count; k++) {
            *total += 1;
            *busy += ebb_doc_int(slots->items[k], "trial_id", 0) > 0;
        }
    }
}

/* Go back over what was drawn, write the new lines cut to the width, erase what is left. */
static void put_on_screen(struct cli_follow *f, const char *text, size_t columns)
{
    struct ebb_str out = {0};
    size_t lines = 0;
    if (f->drawn_lines > 0)
        ebb_str_printf(&out, "\x1b[%zuA\r", f->drawn_lines);
    while (*text != '\0') {
        size_t whole = strcspn(text, "\n");
        ebb_str_addn(&out, text, cli_fit(text, columns - 1));
        ebb_str_add(&out, "\x1b[K\n");
        text += whole + (text[whole] == '\n');
        lines++;
    }
    ebb_str_add(&out, "\x1b[J");
    fputs(ebb_str_c(&out), stdout);
    fflush(stdout);
    f->drawn_lines = lines;
    ebb_str_fini(&out);
}

enum ebb_status cli_follow_draw(struct cli_follow *f, struct ebb_error *err)
{
    struct cli_answer experiment = {0}, trials = {0}, agents = {0};
    struct screen screen = screen_size();
    struct ebb_str text = {0};
    char *table = NULL;
    size_t table_length = 0, busy, slots;
    enum ebb_status status =
        cli_ask(f->master, &experiment, err, "GET", NULL, "/experiments/%lld", (long long)f->id);
    EBB_THEN(status, cli_ask(f->master, &trials, err, "GET", NULL, "/experiments/%lld/trials",
                             (long long)f->id));
    EBB_THEN(status, cli_ask(f->master, &agents, err, "GET", NULL, "/agents"));
    FILE *memory = status == EBB_OK ? open_memstream(&table, &table_length) : NULL;
    if (memory != NULL) {
        count_slots(ebb_doc_get(agents.root, "agents"), &busy, &slots);
        add_head(f, experiment.root, ebb_doc_get(trials.root, "trials"), busy, slots, &text);
        size_t room = screen.rows > HEAD_LINES + 2 ? screen.rows - HEAD_LINES - 2 : 1;
        print_trials(ebb_doc_get(trials.root, "trials"),
                     ebb_doc_bool(experiment.root, "smaller_is_better", true), room, memory);
        fclose(memory);
        ebb_str_add(&text, table);
        free(table); /* allowed: open_memstream's own memory */
        put_on_screen(f, ebb_str_c(&text), screen.columns);
    }
    cli_answer_fini(&experiment); /* zeroed ones are fine */
    cli_answer_fini(&trials);
    cli_answer_fini(&agents);
    ebb_str_fini(&text);
    return status;
}
