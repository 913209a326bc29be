/* csv.c - tables: columns of numbers as inputs, one or more as targets.
 *
 * The files are read once, checked whole and kept as numbers in memory; a value that is none is an
 * error with file, line and column. Rows are RFC 4180's: fields in quotes may hold separators, line
 * ends and doubled quotes. */
#include "data/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"

enum { MOST_COLUMNS = 65536, FIELD_BYTES = 4096 };

struct column {
    char *name; /* owned */
    int input;  /* place among the inputs, -1: none */
    int target; /* the same among the targets */
};

struct csv_state {
    size_t inputs, targets;
    float *x[DATA_SPLITS];        /* rows x inputs */
    float *y[DATA_SPLITS];        /* rows x targets, when they are numbers */
    int64_t *labels[DATA_SPLITS]; /* when they are classes */
    struct ebb_names words;       /* classes that are words, sorted */
    double *shift, *scale;        /* per input: (x - shift) * scale */
    bool has_classes;
};

static void csv_close(struct data_set *set)
{
    struct csv_state *state = set->state;
    for (int s = 0; s < DATA_SPLITS; s++) {
        ebb_free(state->x[s]);
        ebb_free(state->y[s]);
        ebb_free(state->labels[s]);
    }
    ebb_free(state->shift);
    ebb_free(state->scale);
    ebb_names_fini(&state->words);
}

/* ---- rows and fields -------------------------------------------------------------------------- */

struct reader {
    struct data_file file;
    char *bytes; /* owned: the whole file */
    size_t length, at;
    uint64_t line;
    char separator;
    struct column *columns;
    size_t column_count, column_capacity;
    char field[FIELD_BYTES];
    size_t field_length;
    bool is_last; /* the field ended its row */
};

static enum ebb_status wrong(const struct reader *r, size_t column, const char *what,
                             struct ebb_error *err)
{
    const char *name = column < r->column_count ? r->columns[column].name : "";
    return ebb_fail(err, EBB_EINPUT, "%s:%" PRIu64 ": column %zu%s%s%s: %s", r->file.path, r->line,
                    column + 1, *name ? " (" : "", name, *name ? ")" : "", what);
}

static bool at_line_end(const struct reader *r)
{
    return r->at >= r->length || r->bytes[r->at] == '\n' ||
           (r->bytes[r->at] == '\r' && (r->at + 1 >= r->length || r->bytes[r->at + 1] == '\n'));
}

static void end_row(struct reader *r)
{
    r->at += r->at < r->length && r->bytes[r->at] == '\r';
    r->at += r->at < r->length;
    r->line++;
    r->is_last = true;
}

/* The next field; is_last tells whether it ended its row. */
static enum ebb_status next_field(struct reader *r, size_t column, struct ebb_error *err)
{
    bool is_quoted = r->at < r->length && r->bytes[r->at] == '"';
    r->field_length = 0;
    r->is_last = false;
    r->at += is_quoted;
    uint64_t begin = r->line;
    for (;; r->at++) {
        if (is_quoted && r->at >= r->length) {
            r->line = begin;
            return wrong(r, column, "a quoted field has no end", err);
        }
        if (is_quoted && r->bytes[r->at] == '"') {
            if (r->at + 1 < r->length && r->bytes[r->at + 1] == '"') {
                r->at++;
            } else {
                r->at++;
                is_quoted = false;
                if (!at_line_end(r) && r->bytes[r->at] != r->separator)
                    return wrong(r, column, "text follows a quoted field", err);
            }
        }
        if (!is_quoted && (at_line_end(r) || r->bytes[r->at] == r->separator))
            break;
        if (r->field_length + 1 >= FIELD_BYTES)
            return wrong(r, column, "a field is longer than 4095 bytes", err);
        r->line += is_quoted && r->bytes[r->at] == '\n';
        r->field[r->field_length++] = r->bytes[r->at];
    }
    while (r->field_length && r->field[r->field_length - 1] == ' ')
        r->field_length--;
    r->field[r->field_length] = '\0';
    if (at_line_end(r))
        end_row(r);
    else
        r->at++;
    return EBB_OK;
}

static void reader_fini(struct reader *r)
{
    for (size_t i = 0; i < r->column_count; i++)
        ebb_free(r->columns[i].name);
    ebb_free(r->columns);
    ebb_free(r->bytes);
    data_file_close(&r->file);
}

/* ---- columns ---------------------------------------------------------------------------------- */

/* "pixel*": a beginning; else the whole name. */
static bool fits(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);
    return n && pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0
                                      : strcmp(pattern, name) == 0;
}

static int find(const struct data_texts *patterns, const char *name)
{
    for (size_t i = 0; i < patterns->count; i++)
        if (fits(patterns->v[i], name))
            return (int)i;
    return -1;
}

static enum ebb_status unknown(const struct reader *r, const char *key, const char *pattern,
                               struct ebb_error *err)
{
    struct ebb_str names = {0}, near = {0};
    for (size_t i = 0; i < r->column_count; i++)
        if (!strchr(r->columns[i].name, ' '))
            ebb_words_add(&names, r->columns[i].name);
    ebb_say_nearest(ebb_str_c(&names), pattern, strlen(pattern), &near);
    enum ebb_status status = ebb_fail(err, EBB_EINPUT, "data.%s: %s has no column '%s'%s", key,
                                      r->file.path, pattern, ebb_str_c(&near));
    ebb_str_fini(&names);
    ebb_str_fini(&near);
    return status;
}

static enum ebb_status read_header(struct reader *r, struct ebb_error *err)
{
    while (!r->is_last || r->column_count == 0) {
        if (r->at >= r->length)
            return ebb_fail(err, EBB_EINPUT, "%s: no row with the names of the columns",
                            r->file.path);
        EBB_TRY(next_field(r, r->column_count, err));
        if (r->column_count == MOST_COLUMNS)
            return wrong(r, r->column_count, "more than 65536 columns", err);
        EBB_TRY(ebb_grow(&r->columns, &r->column_capacity, r->column_count + 1, sizeof *r->columns,
                         err));
        struct column *c = &r->columns[r->column_count];
        *c = (struct column){.input = -1, .target = -1};
        EBB_TRY(ebb_copy_text(&c->name, r->field, err));
        r->column_count++;
    }
    return EBB_OK;
}

/* Targets by their own order; inputs in that of the file. */
static enum ebb_status choose(struct reader *r, const struct data_values *v,
                              struct csv_state *state, struct ebb_error *err)
{
    size_t inputs = 0, targets = 0;
    for (size_t i = 0; i < r->column_count; i++) {
        struct column *c = &r->columns[i];
        c->target = find(&v->target, c->name);
        targets += c->target >= 0;
        if (c->target < 0 && (v->inputs.count == 0 || find(&v->inputs, c->name) >= 0))
            c->input = (int)inputs++;
    }
    for (size_t k = 0; k < v->inputs.count + v->target.count; k++) {
        bool is_target = k >= v->inputs.count, is_used = false;
        const char *pattern = is_target ? v->target.v[k - v->inputs.count] : v->inputs.v[k];
        for (size_t i = 0; i < r->column_count && !is_used; i++)
            is_used = fits(pattern, r->columns[i].name);
        if (!is_used)
            return unknown(r, is_target ? "target" : "inputs", pattern, err);
    }
    if (inputs == 0 || targets != v->target.count)
        return ebb_fail(err, EBB_EINPUT,
                        "%s: %zu columns of inputs, %zu of targets; allowed: at least one input, "
                        "and each target once",
                        r->file.path, inputs, targets);
    if (state->inputs && (state->inputs != inputs || state->targets != targets))
        return ebb_fail(err, EBB_EINPUT, "%s: %zu columns of inputs, the training file has %zu",
                        r->file.path, inputs, state->inputs);
    state->inputs = inputs;
    state->targets = targets;
    return EBB_OK;
}

/* ---- values ----------------------------------------------------------------------------------- */

/* What one file says, before it is known whether targets are classes. */
struct table {
    float *x;
    double *y;              /* rows x targets; a word: NaN */
    struct ebb_names words; /* of the one target of each row, when any is a word */
    bool has_words;
    uint64_t rows;
    size_t x_capacity, y_capacity;
};

static void table_fini(struct table *t)
{
    ebb_free(t->x);
    ebb_free(t->y);
    ebb_names_fini(&t->words);
}

static enum ebb_status take_value(struct reader *r, size_t column, struct csv_state *state,
                                  struct table *t, struct ebb_error *err)
{
    const struct column *c = &r->columns[column];
    double value;
    bool is_number = ebb_parse_double(r->field, &value);
    if (c->input < 0 && c->target < 0)
        return EBB_OK;
    if (!is_number && (c->input >= 0 || state->targets > 1 || r->field_length == 0)) {
        char text[160];
        snprintf(text, sizeof text, "found '%.80s', allowed: a number", r->field);
        return wrong(r, column, text, err);
    }
    if (c->input >= 0)
        t->x[t->rows * state->inputs + (size_t)c->input] = (float)value;
    else
        t->y[t->rows * state->targets + (size_t)c->target] = is_number ? value : (double)NAN;
    if (c->target < 0 || state->targets > 1)
        return EBB_OK;
    t->has_words |= !is_number;
    return ebb_names_add(&t->words, r->field, err);
}

static enum ebb_status read_row(struct reader *r, struct csv_state *state, struct table *t,
                                struct ebb_error *err)
{
    uint64_t line = r->line;
    size_t n = (size_t)t->rows + 1;
    EBB_TRY(ebb_grow(&t->x, &t->x_capacity, n * state->inputs, sizeof *t->x, err));
    EBB_TRY(ebb_grow(&t->y, &t->y_capacity, n * state->targets, sizeof *t->y, err));
    r->is_last = false;
    for (size_t i = 0; i < r->column_count; i++) {
        EBB_TRY(next_field(r, i, err));
        if (r->is_last != (i + 1 == r->column_count)) {
            r->line = line;
            return wrong(r, i,
                         r->is_last ? "the row ends here: it has less fields than the first"
                                    : "the row goes on: it has more fields than the first",
                         err);
        }
        uint64_t after = r->line;
        r->line = line; /* of the message */
        EBB_TRY(take_value(r, i, state, t, err));
        r->line = after;
    }
    t->rows++;
    return EBB_OK;
}

static enum ebb_status read_bytes(struct reader *r, const struct data_values *v,
                                  struct csv_state *state, struct table *t, struct ebb_error *err)
{
    static const char separators[] = {',', ';', '\t'};
    r->separator = separators[v->separator];
    r->line = 1;
    r->length = (size_t)r->file.length;
    EBB_TRY(ebb_new(&r->bytes, r->length + 1, 1, err));
    EBB_TRY(data_file_read(&r->file, 0, r->bytes, r->length, err));
    if (r->length >= 3 && memcmp(r->bytes, "\xef\xbb\xbf", 3) == 0)
        r->at = 3;
    EBB_TRY(read_header(r, err));
    EBB_TRY(choose(r, v, state, err));
    while (r->at < r->length) {
        if (at_line_end(r)) { /* an empty line */
            end_row(r);
            continue;
        }
        EBB_TRY(read_row(r, state, t, err));
    }
    return t->rows ? EBB_OK : ebb_fail(err, EBB_EINPUT, "%s: no row of values", r->file.path);
}

static enum ebb_status read_table(const char *folder, const char *name, const struct data_values *v,
                                  struct csv_state *state, struct table *t, struct ebb_error *err)
{
    struct reader *r;
    EBB_TRY(ebb_new(&r, 1, sizeof *r, err));
    enum ebb_status status = data_file_open_in(&r->file, folder, name, err);
    EBB_THEN(status, read_bytes(r, v, state, t, err));
    reader_fini(r);
    ebb_free(r);
    return status;
}

/* ---- classes ---------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The words of the training file, each once, sorted: their places are the classes. */
static enum ebb_status collect_words(struct csv_state *state, const struct table *t,
                                     struct ebb_error *err)
{
    char **sorted;
    EBB_TRY(ebb_new(&sorted, t->words.count + 1, sizeof *sorted, err));
    memcpy(sorted, t->words.items, t->words.count * sizeof *sorted);
    qsort(sorted, t->words.count, sizeof *sorted, by_text);
    enum ebb_status status = EBB_OK;
    for (size_t i = 0; i < t->words.count && status == EBB_OK; i++)
        if (i == 0 || strcmp(sorted[i], sorted[i - 1]) != 0)
            status = ebb_names_add(&state->words, sorted[i], err);
    ebb_free(sorted);
    return status;
}

static bool are_classes(const struct csv_state *state, const struct table *t,
                        const struct data_values *v)
{
    if (state->targets != 1 || v->target_kind == DATA_TARGET_NUMBERS)
        return false;
    if (t->has_words || v->target_kind == DATA_TARGET_CLASSES)
        return true;
    for (uint64_t i = 0; i < t->rows; i++)
        if (!(t->y[i] >= 0 && t->y[i] < 1e6 && floor(t->y[i]) >= t->y[i]))
            return false;
    return true;
}

static enum ebb_status find_class(const struct csv_state *state, const struct table *t, uint64_t i,
                                  const char *path, int64_t *label, struct ebb_error *err)
{
    const char *word = t->words.items[i];
    if (state->words.count) {
        char *const *at = bsearch(&word, state->words.items, state->words.count,
                                  sizeof *state->words.items, by_text);
        *label = at ? at - state->words.items : -1;
    } else {
        *label = t->y[i] >= 0 && t->y[i] < 1e6 && floor(t->y[i]) >= t->y[i] ? (int64_t)t->y[i] : -1;
    }
    return *label >= 0
               ? EBB_OK
               : ebb_fail(err, EBB_EINPUT, "%s: row %" PRIu64 " of values: '%.80s' is no class%s",
                          path, i + 1, word, state->words.count ? " of the training file" : "");
}

/* ---- normalising ------------------------------------------------------------------------------ */

/* By the training file: mean and deviation, or least and most, of every column. */
static enum ebb_status find_norm(struct csv_state *state, const struct table *t, const char *how,
                                 struct ebb_error *err)
{
    bool is_standard = strcmp(how, "standard") == 0;
    EBB_TRY(ebb_new(&state->shift, state->inputs, sizeof *state->shift, err));
    EBB_TRY(ebb_new(&state->scale, state->inputs, sizeof *state->scale, err));
    for (size_t c = 0; c < state->inputs; c++) {
        double sum = 0, squares = 0, least = INFINITY, most = -INFINITY, n = (double)t->rows;
        for (uint64_t i = 0; i < t->rows; i++) {
            double x = (double)t->x[i * state->inputs + c];
            sum += x;
            least = fmin(least, x);
            most = fmax(most, x);
        }
        for (uint64_t i = 0; i < t->rows; i++) {
            double d = (double)t->x[i * state->inputs + c] - sum / n;
            squares += d * d;
        }
        double width = is_standard ? sqrt(squares / n) : most - least;
        state->shift[c] = is_standard ? sum / n : least;
        state->scale[c] = width > 0 ? 1 / width : 1; /* a column that is always the same */
    }
    return EBB_OK;
}

/* ---- the set ---------------------------------------------------------------------------------- */

/* What a table says becomes the split's; the table keeps nothing of it. */
static enum ebb_status take_table(struct data_set *set, int split, struct table *t,
                                  const char *path, struct ebb_error *err)
{
    struct csv_state *state = set->state;
    size_t n = (size_t)t->rows;
    for (size_t i = 0; state->shift && i < n * state->inputs; i++) {
        size_t c = i % state->inputs;
        t->x[i] = (float)(((double)t->x[i] - state->shift[c]) * state->scale[c]);
    }
    if (state->has_classes) {
        EBB_TRY(ebb_new(&state->labels[split], n, sizeof *state->labels[split], err));
        for (size_t i = 0; i < n; i++) {
            EBB_TRY(find_class(state, t, i, path, &state->labels[split][i], err));
            if (state->labels[split][i] >= set->info.classes)
                set->info.classes = state->labels[split][i] + 1;
        }
    } else {
        EBB_TRY(ebb_new(&state->y[split], n * state->targets, sizeof *state->y[split], err));
        for (size_t i = 0; i < n * state->targets; i++)
            state->y[split][i] = (float)t->y[i];
    }
    state->x[split] = t->x;
    t->x = NULL;
    set->info.full_count[split] = t->rows;
    set->info.resident_bytes += n * (state->inputs * sizeof(float) + 8 * state->targets);
    return EBB_OK;
}

static enum ebb_status read_split(struct data_set *set, const struct data_values *v, int split,
                                  struct ebb_error *err)
{
    struct csv_state *state = set->state;
    const char *name = split == DATA_TRAIN ? v->train_files.v[0] : v->val_files.v[0];
    struct table t = {0};
    enum ebb_status status = read_table(set->folder, name, v, state, &t, err);
    if (status == EBB_OK && split == DATA_TRAIN) {
        state->has_classes = are_classes(state, &t, v);
        if (t.has_words)
            status = state->has_classes ? collect_words(state, &t, err)
                                        : ebb_fail(err, EBB_EINPUT,
                                                   "data.target: %s has words there; allowed with "
                                                   "target_kind: numbers are numbers",
                                                   name);
        if (strcmp(v->normalize, "none") != 0)
            EBB_THEN(status, find_norm(state, &t, v->normalize, err));
    }
    EBB_THEN(status, take_table(set, split, &t, name, err));
    table_fini(&t);
    return status;
}

static enum ebb_status csv_open(struct data_set *set, const struct data_values *v,
                                struct ebb_error *err)
{
    struct csv_state *state = set->state;
    EBB_TRY(read_split(set, v, DATA_TRAIN, err));
    if (v->val_files.count)
        EBB_TRY(read_split(set, v, DATA_VALIDATION, err));
    data_add_field(&set->info, "x", DATA_F32, 1, (int64_t[]){(int64_t)state->inputs});
    if (!state->has_classes) {
        set->info.kind = DATA_NUMBERS;
        data_add_field(&set->info, "y", DATA_F32, 1, (int64_t[]){(int64_t)state->targets});
        return EBB_OK;
    }
    set->info.kind = DATA_CLASSES;
    if ((int64_t)state->words.count > set->info.classes)
        set->info.classes = (int64_t)state->words.count;
    data_add_field(&set->info, "y", DATA_I64, 0, NULL);
    return data_set_classes(&set->info, v->classes, err);
}

static enum ebb_status csv_read(const struct data_request *q, struct ebb_error *err)
{
    const struct csv_state *state = q->set->state;
    (void)err;
    if (q->fields[0])
        memcpy(q->fields[0], state->x[q->split] + q->index * state->inputs,
               state->inputs * sizeof(float));
    if (q->fields[1] && state->has_classes)
        memcpy(q->fields[1], &state->labels[q->split][q->index], sizeof(int64_t));
    else if (q->fields[1])
        memcpy(q->fields[1], state->y[q->split] + q->index * state->targets,
               state->targets * sizeof(float));
    return EBB_OK;
}

static void csv_defaults(struct data_values *v)
{
    v->normalize = "none";
}

static const char *csv_check(const struct data_values *v, const char **key)
{
    *key = "train_files";
    if (v->train_files.count != 1 || v->val_files.count > 1)
        return "one file holds the rows of a split";
    return NULL;
}

const struct data_row data_row_csv = {
    DATA_ROW("csv", "tables: columns of numbers, and what is to be told from them", DATA_CLASSES,
             struct csv_state, csv_open, csv_read, csv_close),
    .keys = "data_dir train_files val_files inputs target target_kind separator normalize classes",
    .required = "train_files target", .defaults = csv_defaults, .check = csv_check};
