/* labels.c - pictures that a table names, a row each: their files, and their classes or numbers. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "data/csv.h"
#include "data/labels.h"

struct reading {
    const struct data_set *set;
    struct data_labels *to;
    const struct data_values *values;
    size_t file;                   /* column of the names */
    size_t targets[DATA_MAX_LIST]; /* columns, in the order of the section */
    size_t count;
    struct ebb_names words; /* of the one target of each row */
    bool has_words;         /* one is no number */
};

void data_labels_fini(struct data_labels *l)
{
    ebb_str_fini(&l->text);
    ebb_free(l->offsets);
    ebb_free(l->classes);
    ebb_free(l->values);
}

enum ebb_status data_labels_add(struct data_labels *l, const char *folder, const char *name,
                                uint32_t class, struct ebb_error *err)
{
    size_t need = l->count + 1;
    EBB_TRY(ebb_grow(&l->offsets, &l->capacity, need, sizeof *l->offsets, err));
    EBB_TRY(ebb_grow(&l->classes, &l->class_capacity, need, sizeof *l->classes, err));
    l->offsets[l->count] = l->text.length;
    l->classes[l->count] = class;
    ebb_str_printf(&l->text, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    ebb_str_addc(&l->text, '\0');
    EBB_TRY(ebb_str_status(&l->text, err));
    l->count++;
    return EBB_OK;
}

uint64_t data_labels_bytes(const struct data_labels *l)
{
    return l->text.capacity + l->capacity * (sizeof *l->offsets + sizeof *l->classes) +
           l->value_capacity * sizeof *l->values;
}

static enum ebb_status find_column(const struct data_csv *csv, const char *key, const char *name,
                                   size_t *column, struct ebb_error *err)
{
    for (size_t i = 0; i < csv->column_count; i++)
        if (strcmp(csv->names[i], name) == 0) {
            *column = i;
            return EBB_OK;
        }
    return data_csv_unknown(csv, key, name, err);
}

static enum ebb_status take_target(struct reading *r, struct data_csv *csv, size_t column, size_t k,
                                   struct ebb_error *err)
{
    double value = (double)NAN;
    bool is_number = ebb_parse_double(csv->field, &value);
    struct data_labels *l = r->to;
    if (csv->field_length == 0 || (!is_number && r->count > 1)) {
        char text[160];
        snprintf(text, sizeof text, "found '%.80s', allowed: %s", csv->field,
                 r->count > 1 ? "a number" : "a class or a number");
        return data_csv_wrong(csv, column, text, err);
    }
    r->has_words |= !is_number || !data_is_class(value);
    EBB_TRY(
        ebb_grow(&l->values, &l->value_capacity, (l->rows + 1) * r->count, sizeof *l->values, err));
    l->values[l->rows * r->count + k] = (float)value;
    return r->count == 1 ? ebb_names_add(&r->words, csv->field, err) : EBB_OK;
}

static enum ebb_status take(void *context, struct data_csv *csv, size_t column,
                            struct ebb_error *err)
{
    struct reading *r = context;
    if (column == r->file && csv->field_length == 0)
        return data_csv_wrong(csv, column, "found nothing, allowed: the name of a picture", err);
    if (column == r->file)
        EBB_TRY(data_labels_add(r->to, NULL, csv->field, 0, err));
    for (size_t k = 0; k < r->count; k++)
        if (r->targets[k] == column)
            EBB_TRY(take_target(r, csv, column, k, err));
    return EBB_OK;
}

/* Words, or whole numbers as they are; of validation the classes are those of training. */
static enum ebb_status find_classes(struct reading *r, const char *path, struct ebb_names *names,
                                    bool is_training, int64_t *classes, struct ebb_error *err)
{
    struct data_labels *l = r->to;
    if (is_training && r->has_words)
        EBB_TRY(data_words_sort(&r->words, names, err));
    for (size_t i = 0; i < l->rows; i++) {
        int64_t class = names->count ? data_words_find(names, r->words.items[i])
                        : data_is_class((double)l->values[i]) ? (int64_t)l->values[i]
                                                              : -1;
        struct ebb_error why = {0};
        if (class < 0) {
            ebb_fail(&why, EBB_EINPUT,
                     "%s: row %zu of values: '%.80s' is no class of the training table", path,
                     i + 1, r->words.items[i]);
            if (!data_leave_out(r->set, EBB_EINPUT, &why)) {
                if (err)
                    *err = why;
                return EBB_EINPUT;
            }
            class = 0; /* told: it counts as bad there */
        }
        l->classes[i] = (uint32_t) class;
        *classes = class >= *classes ? class + 1 : *classes;
    }
    return EBB_OK;
}

static enum ebb_status read_rows(struct reading *r, struct data_csv *csv, struct ebb_error *err)
{
    const struct data_values *v = r->values;
    EBB_TRY(find_column(csv, "inputs", v->inputs.count ? v->inputs.v[0] : "file", &r->file, err));
    r->count = v->target.count ? v->target.count : 1;
    for (size_t k = 0; k < r->count; k++)
        EBB_TRY(find_column(csv, "target", v->target.count ? v->target.v[k] : "label",
                            &r->targets[k], err));
    for (; data_csv_row(csv); r->to->rows++) {
        struct ebb_error why = {0};
        size_t words = r->words.count, count = r->to->count;
        enum ebb_status status = data_csv_fields(csv, take, r, &why);
        if (status == EBB_OK)
            continue;
        if (!data_leave_out(r->set, status, &why)) {
            if (err)
                *err = why;
            return status;
        }
        while (r->words.count > words) /* of the row that is left out */
            ebb_free(r->words.items[--r->words.count]);
        r->to->count = count;
        r->to->rows--;
        data_csv_skip(csv);
    }
    return r->to->rows ? EBB_OK : ebb_fail(err, EBB_EINPUT, "%s: no row of values", csv->file.path);
}

enum ebb_status data_labels_read(struct data_set *set, struct data_labels *l, const char *name,
                                 const struct data_values *v, bool is_training,
                                 struct ebb_error *err)
{
    struct reading r = {.set = set, .to = l, .values = v};
    struct ebb_names *names = &set->class_names;
    int64_t *classes = &set->info.classes;
    struct data_csv *csv;
    EBB_TRY(ebb_new(&csv, 1, sizeof *csv, err));
    enum ebb_status status = data_csv_open(csv, set->directory, name, v, err);
    EBB_THEN(status, read_rows(&r, csv, err));
    bool wants_numbers = v->target_kind == DATA_TARGET_NUMBERS || r.count > 1;
    if (status == EBB_OK && wants_numbers)
        for (size_t i = 0; i < l->rows * r.count && status == EBB_OK; i++)
            if (!isfinite(l->values[i]))
                status = ebb_fail(err, EBB_EINPUT,
                                  "%s: row %zu of values: target_kind: numbers, and it has none",
                                  csv->file.path, i / r.count + 1);
    if (status == EBB_OK && !wants_numbers)
        status = find_classes(&r, csv->file.path, names, is_training, classes, err);
    l->targets = wants_numbers ? r.count : 0;
    ebb_names_fini(&r.words);
    data_csv_close(csv);
    ebb_free(csv);
    return status;
}
