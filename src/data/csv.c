/* csv.c - tables: columns of numbers as inputs, one or more as targets.
 *
 * The files are read once, checked whole and kept as numbers in memory; a value that is none is an
 * error with file, line and column. */
#include "data/csv.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/str.h"

struct csv_state {
    struct data_values values; /* how files are read: columns, separator; texts are in the arena */
    struct ebb_arena arena;
    size_t inputs, targets;
    struct ebb_names columns;     /* names of the inputs, as the training file has them */
    float *x[DATA_SPLITS];        /* rows x inputs */
    float *y[DATA_SPLITS];        /* rows x targets, when they are numbers */
    int64_t *labels[DATA_SPLITS]; /* when they are classes */
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
    ebb_names_fini(&state->columns);
    ebb_arena_fini(&state->arena);
}

/* ---- columns ---------------------------------------------------------------------------------- */

struct column {
    int input;  /* place among the inputs, -1: none */
    int target; /* the same among the targets */
};

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

/* What one file says, before it is known whether targets are classes. */
struct table {
    const struct data_set *set;
    struct csv_state *state;
    struct column *columns;
    bool is_asked; /* rows to be answered: without targets */
    float *x;
    double *y;              /* rows x targets; a word: NaN */
    struct ebb_names words; /* of the one target of each row, when any is a word */
    bool has_words;
    uint64_t rows;
    size_t x_capacity, y_capacity;
};

static void table_fini(struct table *t)
{
    ebb_free(t->columns);
    ebb_free(t->x);
    ebb_free(t->y);
    ebb_names_fini(&t->words);
}

/* Every pattern fits a column. */
static enum ebb_status check_patterns(const struct data_csv *csv, const struct data_texts *patterns,
                                      const char *key, struct ebb_error *err)
{
    for (size_t k = 0; k < patterns->count; k++) {
        bool is_used = false;
        for (size_t i = 0; i < csv->column_count && !is_used; i++)
            is_used = fits(patterns->v[k], csv->names[i]);
        if (!is_used)
            return data_csv_unknown(csv, key, patterns->v[k], err);
    }
    return EBB_OK;
}

static int place_of(const struct ebb_names *columns, const char *name)
{
    for (size_t i = 0; i < columns->count; i++)
        if (strcmp(columns->items[i], name) == 0)
            return (int)i;
    return -1;
}

/* Inputs of the training file in its order; those of others by their names. */
static enum ebb_status choose_inputs(const struct data_csv *csv, const struct data_values *v,
                                     struct table *t, struct ebb_error *err)
{
    struct csv_state *state = t->state;
    bool is_first = state->inputs == 0;
    size_t inputs = 0;
    EBB_TRY(check_patterns(csv, &v->inputs, "inputs", err));
    for (size_t i = 0; i < csv->column_count; i++) {
        struct column *c = &t->columns[i];
        for (size_t k = 0; c->target >= 0 && k < v->inputs.count; k++)
            if (strcmp(v->inputs.v[k], csv->names[i]) == 0)
                return ebb_fail(err, EBB_EINPUT,
                                "data.inputs: column '%s' is the target: it would tell the answer",
                                csv->names[i]);
        if (c->target >= 0 || (v->inputs.count && find(&v->inputs, csv->names[i]) < 0))
            continue;
        if (is_first)
            EBB_TRY(ebb_names_add(&state->columns, csv->names[i], err));
        c->input = is_first ? (int)inputs : place_of(&state->columns, csv->names[i]);
        if (c->input < 0 && !t->is_asked)
            return data_csv_wrong(csv, i, "the training file has no such column", err);
        inputs += c->input >= 0;
    }
    if (is_first)
        state->inputs = inputs;
    for (size_t k = 0; k < state->columns.count; k++) {
        size_t found = 0;
        for (size_t i = 0; i < csv->column_count; i++)
            found += t->columns[i].input == (int)k;
        if (found != 1)
            return ebb_fail(err, EBB_EINPUT,
                            "%s: column '%s' of the training file is there %zu times",
                            csv->file.path, state->columns.items[k], found);
    }
    return EBB_OK;
}

/* Targets by their own order. */
static enum ebb_status choose(const struct data_csv *csv, const struct data_values *v,
                              struct table *t, struct ebb_error *err)
{
    struct csv_state *state = t->state;
    size_t targets = 0;
    EBB_TRY(ebb_new(&t->columns, csv->column_count + 1, sizeof *t->columns, err));
    for (size_t i = 0; i < csv->column_count; i++) {
        t->columns[i] = (struct column){.input = -1, .target = find(&v->target, csv->names[i])};
        targets += t->columns[i].target >= 0;
    }
    if (!t->is_asked)
        EBB_TRY(check_patterns(csv, &v->target, "target", err));
    EBB_TRY(choose_inputs(csv, v, t, err));
    if (state->inputs == 0 || (!t->is_asked && targets != v->target.count))
        return ebb_fail(err, EBB_EINPUT,
                        "%s: %zu columns of inputs, %zu of targets; allowed: at least one input, "
                        "and each target once",
                        csv->file.path, state->inputs, targets);
    if (!t->is_asked)
        state->targets = targets;
    return EBB_OK;
}

/* ---- values ----------------------------------------------------------------------------------- */

/* Blanks around a number are no part of it. */
static bool number_of(const struct data_csv *csv, double *value)
{
    char text[64];
    const char *from = csv->field + strspn(csv->field, " \t");
    size_t n = strlen(from);
    while (n > 0 && (from[n - 1] == ' ' || from[n - 1] == '\t'))
        n--;
    if (from[n] == '\0' || n >= sizeof text)
        return ebb_parse_double(from, value);
    memcpy(text, from, n);
    text[n] = '\0';
    return ebb_parse_double(text, value);
}

static enum ebb_status take_value(void *context, struct data_csv *csv, size_t column,
                                  struct ebb_error *err)
{
    struct table *t = context;
    const struct csv_state *state = t->state;
    const struct column *c = &t->columns[column];
    double value;
    bool is_number = number_of(csv, &value), is_one = c->input < 0 && state->targets == 1;
    if (c->input < 0 && (c->target < 0 || t->is_asked))
        return EBB_OK;
    bool is_wrong = !is_number && (!is_one || csv->field_length == 0);
    if (is_wrong || (is_number && !is_one && fabs(value) > (double)FLT_MAX)) {
        char text[160];
        snprintf(text, sizeof text, "found '%.80s', allowed: %s", csv->field,
                 is_number ? "a number of 32 bits, at most 3.4e38"
                 : is_one  ? "a class or a number"
                           : "a number");
        return data_csv_wrong(csv, column, text, err);
    }
    if (c->input >= 0)
        t->x[t->rows * state->inputs + (size_t)c->input] = (float)value;
    else
        t->y[t->rows * state->targets + (size_t)c->target] = is_number ? value : (double)NAN;
    if (c->target < 0 || state->targets > 1)
        return EBB_OK;
    t->has_words |= !is_number;
    return ebb_names_add(&t->words, csv->field, err);
}

static enum ebb_status read_rows(struct data_csv *csv, const struct data_values *v, struct table *t,
                                 struct ebb_error *err)
{
    EBB_TRY(choose(csv, v, t, err));
    for (; data_csv_row(csv); t->rows++) {
        size_t n = (size_t)t->rows + 1;
        EBB_TRY(ebb_grow(&t->x, &t->x_capacity, n * t->state->inputs, sizeof *t->x, err));
        EBB_TRY(ebb_grow(&t->y, &t->y_capacity, n * t->state->targets, sizeof *t->y, err));
        struct ebb_error why = {0};
        size_t words = t->words.count;
        enum ebb_status status = data_csv_fields(csv, take_value, t, &why);
        if (status == EBB_OK)
            continue;
        if (!data_leave_out(t->set, status, &why)) {
            if (err)
                *err = why;
            return status;
        }
        while (t->words.count > words) /* of the row that is left out */
            ebb_free(t->words.items[--t->words.count]);
        data_csv_skip(csv);
        t->rows--;
    }
    return t->rows ? EBB_OK : ebb_fail(err, EBB_EINPUT, "%s: no row of values", csv->file.path);
}

static enum ebb_status read_table(const char *folder, const char *name, const struct data_values *v,
                                  struct table *t, struct ebb_error *err)
{
    struct data_csv *csv;
    EBB_TRY(ebb_new(&csv, 1, sizeof *csv, err));
    enum ebb_status status = data_csv_open(csv, folder, name, v, err);
    EBB_THEN(status, read_rows(csv, v, t, err));
    data_csv_close(csv);
    ebb_free(csv);
    return status;
}

/* ---- classes ---------------------------------------------------------------------------------- */

static bool are_classes(const struct table *t, const struct data_values *v)
{
    if (t->state->targets != 1 || v->target_kind == DATA_TARGET_NUMBERS)
        return false;
    if (t->has_words || v->target_kind == DATA_TARGET_CLASSES)
        return true;
    for (uint64_t i = 0; i < t->rows; i++)
        if (!data_is_class(t->y[i]))
            return false;
    return true;
}

static enum ebb_status find_class(const struct data_set *set, const struct table *t, uint64_t i,
                                  const char *path, int64_t *label, struct ebb_error *err)
{
    const char *word = t->words.items[i];
    *label = set->class_names.count   ? data_words_find(&set->class_names, word)
             : data_is_class(t->y[i]) ? (int64_t)t->y[i]
                                      : -1;
    return *label >= 0
               ? EBB_OK
               : ebb_fail(err, EBB_EINPUT, "%s: row %" PRIu64 " of values: '%.80s' is no class%s",
                          path, i + 1, word, set->class_names.count ? " of the training file" : "");
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

static void normalise(const struct csv_state *state, struct table *t)
{
    for (size_t i = 0; state->shift && i < (size_t)t->rows * state->inputs; i++) {
        size_t c = i % state->inputs;
        t->x[i] = (float)(((double)t->x[i] - state->shift[c]) * state->scale[c]);
    }
}

/* ---- the set ---------------------------------------------------------------------------------- */

/* What a table says becomes the split's; the table keeps nothing of it. */
static enum ebb_status take_table(struct data_set *set, int split, struct table *t,
                                  const char *path, struct ebb_error *err)
{
    struct csv_state *state = set->state;
    size_t n = (size_t)t->rows;
    normalise(state, t);
    if (state->has_classes) {
        EBB_TRY(ebb_new(&state->labels[split], n, sizeof *state->labels[split], err));
        for (size_t i = 0; i < n; i++) {
            struct ebb_error why = {0};
            enum ebb_status status = find_class(set, t, i, path, &state->labels[split][i], &why);
            if (status != EBB_OK && data_leave_out(set, status, &why)) {
                state->labels[split][i] = 0; /* told: it counts as bad there */
            } else if (status != EBB_OK) {
                if (err)
                    *err = why;
                return status;
            }
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
    struct table t = {.set = set, .state = state};
    enum ebb_status status = read_table(set->folder, name, v, &t, err);
    if (status == EBB_OK && split == DATA_TRAIN) {
        state->has_classes = are_classes(&t, v);
        if (t.has_words)
            status = state->has_classes ? data_words_sort(&t.words, &set->class_names, err)
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

/* The section may go: what says how other files are read stays. */
static enum ebb_status keep_texts(struct csv_state *state, const struct data_texts *from,
                                  struct data_texts *to, struct ebb_error *err)
{
    for (to->count = 0; to->count < from->count; to->count++) {
        const char *text = from->v[to->count];
        to->v[to->count] = ebb_arena_strndup(&state->arena, text, strlen(text));
        if (!to->v[to->count])
            return ebb_no_memory(err, strlen(text));
    }
    return EBB_OK;
}

static enum ebb_status csv_open(struct data_set *set, const struct data_values *v,
                                struct ebb_error *err)
{
    struct csv_state *state = set->state;
    state->values.separator = v->separator;
    EBB_TRY(keep_texts(state, &v->inputs, &state->values.inputs, err));
    EBB_TRY(keep_texts(state, &v->target, &state->values.target, err));
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
    if ((int64_t)set->class_names.count > set->info.classes)
        set->info.classes = (int64_t)set->class_names.count;
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

enum ebb_status data_rows(const struct data_set *set, const char *path, float **rows,
                          uint64_t *count, struct ebb_error *err)
{
    if (set->row != &data_row_csv)
        return ebb_fail(err, EBB_EINPUT, "%s: data %s have no rows of a table: give arrays (.npz)",
                        path, set->info.name);
    struct csv_state *state = set->state, seen = *state; /* the set stays as it is (D4) */
    struct table t = {.set = set, .state = &seen, .is_asked = true};
    enum ebb_status status = read_table(NULL, path, &state->values, &t, err);
    if (status == EBB_OK) {
        normalise(state, &t);
        *rows = t.x;
        *count = t.rows;
        t.x = NULL;
    }
    table_fini(&t);
    return status;
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
