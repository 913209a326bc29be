/* command.c - samples from a program of the user's: asked by split and index, it answers with arrays.
 *
 * The program is started in the folder of the file that names it, reads a request a line and answers
 * each at once (docs/data.md, "A command"):
 *
 *     describe        one line of JSON: numbers of samples, fields, classes or vocabulary
 *     read train 17   "ok" and the bytes of the fields, one after the other; or "error ..."
 *
 * Order, shuffling, subsets and resuming are the loader's: a program that answers the same question
 * with the same bytes makes a set like any other (rule D1). As many programs run as there are workers;
 * each belongs to one reader at a time. Only a section names a command: no file that is read as data,
 * model or weights can. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/doc.h"
#include "base/heap.h"
#include "base/process.h"
#include "base/report.h"
#include "data/internal.h"

enum { MOST_PROGRAMS = 16 };
#define DESCRIBED_MOST (1 << 20) /* bytes of the answer to "describe" */

struct program {
    pthread_mutex_t lock;
    struct ebb_child child;
    bool is_started;
};

struct command_state {
    char *argv[DATA_MAX_LIST + 1]; /* owned; ends with NULL */
    char *folder;                  /* owned; NULL: this one */
    uint64_t timeout_ns;
    enum data_dtype sent[DATA_MAX_FIELDS]; /* dtypes as they come */
    struct ebb_arena arena;                /* names of fields */
    struct program programs[MOST_PROGRAMS];
    size_t count, made; /* programs at most; locks that exist */
};

/* ---- talking ---------------------------------------------------------------------------------- */

static void end_program(struct program *p)
{
    if (p->is_started)
        (void)ebb_child_end(&p->child, 0, NULL);
    p->is_started = false;
}

static enum ebb_status start_program(const struct command_state *s, struct program *p,
                                     struct ebb_error *err)
{
    struct ebb_process process = {
        .argv = (const char *const *)s->argv, .folder = s->folder, .talks = true};
    if (p->is_started)
        return EBB_OK;
    EBB_TRY(ebb_child_start(&p->child, &process, err));
    p->is_started = true;
    return EBB_OK;
}

/* A question, and the line that answers it, borrowed until the next one. */
static enum ebb_status ask(const struct command_state *s, struct program *p, const char *question,
                           const char **line, struct ebb_error *err)
{
    struct ebb_error why = {0};
    EBB_TRY(start_program(s, p, err));
    enum ebb_status status = ebb_child_say(&p->child, question, strlen(question), &why);
    EBB_THEN(status, ebb_child_line(&p->child, s->timeout_ns, line, &why));
    if (status == EBB_OK && *line)
        return EBB_OK;
    if (status == EBB_OK || status == EBB_EIO) { /* it is gone: its end says more */
        struct ebb_error end = {0};
        p->is_started = false;
        if (ebb_child_end(&p->child, s->timeout_ns, &end) != EBB_OK)
            why = end;
        else
            (void)ebb_fail(&why, EBB_EIO, "%s has ended", s->argv[0]);
    } else {
        end_program(p);
    }
    return ebb_fail(err, EBB_EIO, "data.command: asked '%.*s': %s", (int)strcspn(question, "\n"),
                    question, why.message);
}

/* ---- what it says of itself ------------------------------------------------------------------- */

static bool find_dtype(const char *text, enum data_dtype *dtype)
{
    for (int d = DATA_F32; d <= DATA_I64; d++)
        if (text && strcmp(data_dtype_text((enum data_dtype)d), text) == 0) {
            *dtype = (enum data_dtype)d;
            return true;
        }
    return false;
}

/* Numbers become f32, whole ones i64, bytes stay. */
static enum data_dtype kept_dtype(enum data_dtype sent)
{
    return sent == DATA_F64 ? DATA_F32 : sent == DATA_I16 || sent == DATA_I32 ? DATA_I64 : sent;
}

/* A key that nobody knows is a mistake: what it says would have no effect. */
static enum ebb_status check_keys(const struct ebb_doc_node *map, const char *known,
                                  struct ebb_error *err)
{
    for (size_t i = 0; map && map->kind == EBB_DOC_MAP && i < map->count; i++) {
        const char *key = map->keys[i]->text;
        struct ebb_str near = {0};
        if (ebb_words_find(known, key, strlen(key), NULL))
            continue;
        ebb_say_nearest(known, key, strlen(key), &near);
        enum ebb_status status =
            ebb_fail(err, EBB_EINPUT,
                     "data.command: the answer to 'describe': unknown key '%.100s'%s; allowed: %s",
                     key, ebb_str_c(&near), known);
        ebb_str_fini(&near);
        return status;
    }
    return EBB_OK;
}

static enum ebb_status read_field(struct data_set *set, const struct ebb_doc_node *node, size_t f,
                                  struct ebb_error *err)
{
    struct command_state *s = set->state;
    const struct ebb_doc_node *shape = ebb_doc_get(node, "shape");
    const char *name = ebb_doc_string(node, "name", NULL),
               *dtype = ebb_doc_string(node, "dtype", NULL);
    int64_t dims[DATA_MAX_RANK] = {0};
    EBB_TRY(check_keys(node, "name dtype shape", err));
    if (!name || !*name || !find_dtype(dtype, &s->sent[f]))
        return ebb_fail(
            err, EBB_EINPUT,
            "data.command: fields[%zu]: name '%s', dtype '%s'; allowed: a name, and one "
            "of f32 f64 u8 i16 i32 i64",
            f, name ? name : "", dtype ? dtype : "");
    if (!shape || shape->kind != EBB_DOC_LIST || shape->count > DATA_MAX_RANK)
        return ebb_fail(err, EBB_EINPUT,
                        "data.command: fields[%zu].shape: allowed: a list of at most %d sizes", f,
                        DATA_MAX_RANK);
    for (size_t i = 0; i < shape->count; i++) {
        const struct ebb_doc_node *size = shape->items[i];
        if (size->kind != EBB_DOC_INT || size->integer < 1 || size->integer > INT32_MAX)
            return ebb_fail(err, EBB_EINPUT,
                            "data.command: fields[%zu].shape[%zu]: allowed: 1 to %d", f, i,
                            INT32_MAX);
        dims[i] = size->integer;
    }
    for (size_t i = 0; i < f; i++)
        if (strcmp(set->info.fields[i].name, name) == 0)
            return ebb_fail(err, EBB_EINPUT, "data.command: fields[%zu]: '%s' is fields[%zu]", f,
                            name, i);
    char *copy = ebb_arena_strndup(&s->arena, name, strlen(name));
    if (!copy)
        return ebb_no_memory(err, strlen(name));
    data_add_field(&set->info, copy, kept_dtype(s->sent[f]), (int)shape->count, dims);
    return EBB_OK;
}

/* What the set is for follows from its fields, as for arrays in files. */
static enum ebb_status find_kind(struct data_set *set, const struct ebb_doc_node *root,
                                 struct ebb_error *err)
{
    struct data_info *info = &set->info;
    const struct data_field *x = &info->fields[0], *y = &info->fields[1];
    info->classes = ebb_doc_int(root, "classes", 0);
    info->vocabulary = ebb_doc_int(root, "vocabulary", 0);
    data_set_image(info);
    if (info->classes < 0 || info->classes > 1 << 24 || info->vocabulary < 0 ||
        info->vocabulary > 1 << 24)
        return ebb_fail(err, EBB_EINPUT,
                        "data.command: classes %" PRId64 ", vocabulary %" PRId64
                        "; allowed: 1 to 16777216",
                        info->classes, info->vocabulary);
    if (info->field_count != 2)
        return EBB_OK;
    if (y->dtype == DATA_F32)
        info->kind = DATA_NUMBERS;
    else if (x->dtype == DATA_I64 && x->rank == 1 && info->vocabulary) {
        info->kind = DATA_LANGUAGE;
        info->sequence = x->dims[0];
    } else if (y->dtype == DATA_I64)
        info->kind = y->rank == 0 ? DATA_CLASSES : DATA_MASKS;
    if (info->kind == DATA_CLASSES && !info->classes)
        return ebb_fail(err, EBB_EINPUT,
                        "data.command: '%s' is a class, and the answer to 'describe' has no "
                        "'classes': how many are there?",
                        y->name);
    return EBB_OK;
}

enum ebb_status data_command_describe(struct data_set *set, const char *text, size_t length,
                                      struct ebb_error *err)
{
    struct command_state *s = set->state;
    const struct ebb_doc_node *root = NULL;
    if (length > DESCRIBED_MOST)
        return ebb_fail(err, EBB_EINPUT, "data.command: the answer to 'describe' has %zu bytes",
                        length);
    EBB_TRY(ebb_doc_parse_json(&s->arena, "data.command: describe", text, length, &root, err));
    const struct ebb_doc_node *fields = ebb_doc_get(root, "fields");
    int64_t train = ebb_doc_int(root, "train", -1), validation = ebb_doc_int(root, "validation", 0);
    if (train < 1 || validation < 0 || !fields || fields->kind != EBB_DOC_LIST ||
        fields->count < 1 || fields->count > DATA_MAX_FIELDS)
        return ebb_fail(err, EBB_EINPUT,
                        "data.command: answered 'describe' with %.*s; allowed: {\"train\": number "
                        "of samples, \"validation\": number, \"fields\": [1 to %d mappings with "
                        "name, dtype, shape]}",
                        (int)(length < 120 ? length : 120), text, DATA_MAX_FIELDS);
    EBB_TRY(check_keys(root, "train validation classes vocabulary fields", err));
    set->info.full_count[DATA_TRAIN] = (uint64_t)train;
    set->info.full_count[DATA_VALIDATION] = (uint64_t)validation;
    for (size_t f = 0; f < fields->count; f++)
        EBB_TRY(read_field(set, fields->items[f], f, err));
    return find_kind(set, root, err);
}

/* ---- the set ---------------------------------------------------------------------------------- */

static void command_close(struct data_set *set)
{
    struct command_state *s = set->state;
    for (size_t i = 0; i < s->made; i++) {
        end_program(&s->programs[i]);
        pthread_mutex_destroy(&s->programs[i].lock);
    }
    for (size_t i = 0; i < DATA_MAX_LIST; i++)
        ebb_free(s->argv[i]);
    ebb_free(s->folder);
    ebb_arena_fini(&s->arena);
}

static enum ebb_status command_open(struct data_set *set, const struct data_values *v,
                                    struct ebb_error *err)
{
    struct command_state *s = set->state;
    const char *line = NULL;
    if (v->command.count == 1 && strchr(v->command.v[0], ' '))
        return ebb_fail(err, EBB_EINPUT,
                        "data.command: found '%s', one word with blanks; allowed: a list of the "
                        "program and its arguments, as [python3, samples.py]",
                        v->command.v[0]);
    for (size_t i = 0; i < v->command.count; i++)
        EBB_TRY(ebb_copy_text(&s->argv[i], v->command.v[i], err));
    if (*set->folder)
        EBB_TRY(ebb_copy_text(&s->folder, set->folder, err));
    s->timeout_ns = (uint64_t)(v->timeout * 1e9);
    s->count = v->workers < 1 ? 1 : v->workers > MOST_PROGRAMS ? MOST_PROGRAMS : (size_t)v->workers;
    for (; s->made < s->count; s->made++)
        pthread_mutex_init(&s->programs[s->made].lock, NULL); /* glibc: cannot fail */
    EBB_TRY(ask(s, &s->programs[0], "describe\n", &line, err));
    EBB_TRY(data_command_describe(set, line, strlen(line), err));
    size_t largest = 0;
    for (size_t f = 0; f < set->info.field_count; f++) {
        const struct data_field *x = &set->info.fields[f];
        size_t bytes = x->bytes / data_dtype_bytes(x->dtype) * data_dtype_bytes(s->sent[f]);
        largest = s->sent[f] != x->dtype && bytes > largest ? bytes : largest;
    }
    set->info.scratch_bytes = largest; /* a field before it is converted */
    return data_set_classes(&set->info, v->classes, err);
}

static void convert(enum data_dtype from, const void *in, void *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (from == DATA_F64)
            ((float *)out)[i] = (float)((const double *)in)[i];
        else if (from == DATA_I16)
            ((int64_t *)out)[i] = ((const int16_t *)in)[i];
        else
            ((int64_t *)out)[i] = ((const int32_t *)in)[i];
}

/* The bytes of one field; those that nobody wants are read all the same. */
static enum ebb_status take_field(const struct data_request *q, struct program *p, size_t f,
                                  struct ebb_error *err)
{
    const struct command_state *s = q->set->state;
    const struct data_field *field = &q->set->info.fields[f];
    size_t count = field->bytes / data_dtype_bytes(field->dtype);
    if (s->sent[f] == field->dtype)
        return ebb_child_bytes(&p->child, s->timeout_ns, q->fields[f], field->bytes, err);
    void *raw;
    q->scratch->used = 0;
    EBB_TRY(data_scratch_take(q->scratch, count * data_dtype_bytes(s->sent[f]), &raw, err));
    EBB_TRY(
        ebb_child_bytes(&p->child, s->timeout_ns, raw, count * data_dtype_bytes(s->sent[f]), err));
    if (q->fields[f])
        convert(s->sent[f], raw, q->fields[f], count);
    return EBB_OK;
}

static enum ebb_status check_label(const struct data_request *q, struct ebb_error *err)
{
    const struct data_info *info = &q->set->info;
    const int64_t *tokens = info->kind == DATA_LANGUAGE ? q->fields[0] : NULL;
    for (int64_t i = 0; tokens && i < info->sequence; i++)
        if (tokens[i] < 0 || tokens[i] >= info->vocabulary)
            return ebb_fail(err, EBB_ECORRUPT,
                            "data.command: %s sample %" PRIu64 ": token %" PRId64
                            ", the vocabulary has %" PRId64,
                            q->split == DATA_TRAIN ? "train" : "validation", q->index, tokens[i],
                            info->vocabulary);
    if (info->kind == DATA_MASKS)
        return data_check_mask(q, "data.command", err);
    if (info->kind != DATA_CLASSES || !q->fields[1])
        return EBB_OK;
    int64_t label = *(const int64_t *)q->fields[1];
    return label >= 0 && label < info->classes
               ? EBB_OK
               : ebb_fail(err, EBB_ECORRUPT,
                          "data.command: %s sample %" PRIu64 ": label %" PRId64
                          ", there are %" PRId64 " classes",
                          q->split == DATA_TRAIN ? "train" : "validation", q->index, label,
                          info->classes);
}

static enum ebb_status read_from(const struct data_request *q, struct program *p,
                                 struct ebb_error *err)
{
    const struct command_state *s = q->set->state;
    char question[64];
    const char *line = NULL;
    snprintf(question, sizeof question, "read %s %" PRIu64 "\n",
             q->split == DATA_TRAIN ? "train" : "validation", q->index);
    EBB_TRY(ask(s, p, question, &line, err));
    if (strncmp(line, "error ", 6) == 0)
        return ebb_fail(err, EBB_ECORRUPT, "data.command: %.*s: %.200s",
                        (int)strcspn(question, "\n"), question, line + 6);
    if (strcmp(line, "ok") != 0) {
        enum ebb_status status =
            ebb_fail(err, EBB_ECORRUPT,
                     "data.command: asked '%.*s', answered '%.80s'; allowed: ok, and the bytes of "
                     "the fields, or error and why",
                     (int)strcspn(question, "\n"), question, line);
        end_program(p); /* nobody knows what comes next */
        return status;
    }
    for (size_t f = 0; f < q->set->info.field_count; f++) {
        if (f == q->set->info.mixup_field && f)
            break; /* those after it are the loader's own */
        struct ebb_error why = {0};
        if (take_field(q, p, f, &why) != EBB_OK) {
            end_program(p);
            return ebb_fail(err, EBB_EIO, "data.command: %.*s: field '%s': %s",
                            (int)strcspn(question, "\n"), question, q->set->info.fields[f].name,
                            why.message);
        }
    }
    return check_label(q, err);
}

/* A program that nobody talks with; when all are busy, the one whose turn it is. */
static enum ebb_status command_read(const struct data_request *q, struct ebb_error *err)
{
    struct command_state *s = q->set->state;
    size_t at = s->count;
    for (size_t i = 0; i < s->count && at == s->count; i++)
        if (pthread_mutex_trylock(&s->programs[i].lock) == 0)
            at = i;
    if (at == s->count) {
        at = (size_t)(q->index % s->count);
        pthread_mutex_lock(&s->programs[at].lock);
    }
    enum ebb_status status = read_from(q, &s->programs[at], err);
    pthread_mutex_unlock(&s->programs[at].lock);
    return status;
}

static void command_defaults(struct data_values *v)
{
    v->timeout = 60;
}

const struct data_row data_row_command = {
    DATA_ROW("command", "a program of yours that is asked for each sample", DATA_ARRAYS,
             struct command_state, command_open, command_read, command_close),
    .keys = "data_dir command timeout classes",
    .required = "command",
    .defaults = command_defaults,
};
