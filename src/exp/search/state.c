/* state.c - a search as JSON text, and back.
 *
 * {"version":1, "searcher":name, "parameters":n, "rng":{"position":n,"words":hex},
 *  "workloads":n, "invalid_row":n, "started":b, "shut_down":b,
 *  "trials":[[id, requested, trained, checkpoint, "flags", [step, "V" | "C", ...]], ...],
 *  "held":[[trial, kind, ...], ...], "method":{...}}
 *
 * Only what cannot be derived is saved; counters are counted again while loading, so that a text
 * that was tampered with can be refused or gives a search that is consistent in itself. */
#include "exp/search/method.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"

/* ---- values ---- */

void exp_save_double(struct ebb_json_writer *w, double value)
{
    if (isinf(value))
        ebb_jsonw_string(w, value > 0 ? "Infinity" : "-Infinity");
    else if (value == 0 && signbit(value))
        ebb_jsonw_string(w, "-0");
    else
        ebb_jsonw_double(w, value);
}

bool exp_load_double(const struct ebb_doc_node *node, double *value)
{
    if (node == NULL)
        return false;
    if (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE) {
        *value = node->number;
        return true;
    }
    if (node->kind != EBB_DOC_STRING)
        return false;
    if (strcmp(node->text, "Infinity") == 0)
        *value = (double)INFINITY;
    else if (strcmp(node->text, "-Infinity") == 0)
        *value = -(double)INFINITY;
    else if (strcmp(node->text, "-0") == 0)
        *value = -0.0;
    else
        return false;
    return true;
}

/* A categorical value is saved as its index, a constant as 0: the space has the values. */
static size_t categorical_index(const struct exp_hparam *param, const struct ebb_doc_node *node)
{
    for (size_t i = 0; i < param->value_count; i++)
        if (param->values[i] == node)
            return i;
    return 0;
}

void exp_save_sample(const struct exp_search *s, const struct exp_value *sample,
                     struct ebb_json_writer *w)
{
    ebb_jsonw_array(w);
    for (size_t i = 0; i < s->space->count; i++) {
        if (sample[i].kind == EXP_VALUE_INT)
            ebb_jsonw_int(w, sample[i].integer);
        else if (sample[i].kind == EXP_VALUE_DOUBLE)
            exp_save_double(w, sample[i].number);
        else
            ebb_jsonw_uint(w, categorical_index(&s->space->items[i], sample[i].node));
    }
    ebb_jsonw_array_end(w);
}

static enum ebb_status load_value(const struct exp_hparam *param, const struct ebb_doc_node *node,
                                  struct exp_value *value, struct ebb_error *err)
{
    int64_t integer = 0;
    switch (param->kind) {
    case EXP_HPARAM_CONST:
        *value = (struct exp_value){.kind = EXP_VALUE_NODE, .node = param->value};
        return EBB_OK;
    case EXP_HPARAM_CATEGORICAL:
        EBB_TRY(exp_load_int(node, param->name, 0, (int64_t)param->value_count - 1, &integer, err));
        *value = (struct exp_value){.kind = EXP_VALUE_NODE, .node = param->values[integer]};
        return EBB_OK;
    case EXP_HPARAM_INT:
        EBB_TRY(exp_load_int(node, param->name, param->int_min, param->int_max, &integer, err));
        *value = (struct exp_value){.kind = EXP_VALUE_INT, .integer = integer};
        return EBB_OK;
    case EXP_HPARAM_DOUBLE:
    case EXP_HPARAM_LOG:
        break;
    }
    double number;
    bool is_log = param->kind == EXP_HPARAM_LOG;
    if (!exp_load_double(node, &number))
        return ebb_fail(err, EBB_EINPUT, "%s: no number", param->name);
    if (!isfinite(number) || (is_log ? number < 0 : number < param->min || number > param->max))
        return ebb_fail(err, EBB_EINPUT, "%s: %g is not in its range", param->name, number);
    *value = (struct exp_value){.kind = EXP_VALUE_DOUBLE, .number = number};
    return EBB_OK;
}

enum ebb_status exp_load_sample(const struct exp_search *s, const struct ebb_doc_node *node,
                                struct exp_value *sample, struct ebb_error *err)
{
    if (node == NULL || node->kind != EBB_DOC_LIST || node->count != s->space->count)
        return ebb_fail(err, EBB_EINPUT, "sample: not a list of %zu values", s->space->count);
    for (size_t i = 0; i < node->count; i++)
        EBB_TRY(load_value(&s->space->items[i], node->items[i], &sample[i], err));
    return EBB_OK;
}

void exp_save_ranks(const struct exp_ranks *ranks, struct ebb_json_writer *w)
{
    struct exp_rank_walk walk = exp_ranks_from(ranks, 0);
    struct exp_rank entry;
    ebb_jsonw_array(w);
    while (exp_ranks_next(&walk, &entry)) {
        exp_save_double(w, entry.metric);
        ebb_jsonw_uint(w, entry.trial);
    }
    ebb_jsonw_array_end(w);
}

enum ebb_status exp_load_ranks(const struct exp_search *s, const struct ebb_doc_node *node,
                               struct exp_ranks *ranks, struct ebb_error *err)
{
    if (node->kind != EBB_DOC_LIST || node->count % 2 != 0)
        return ebb_fail(err, EBB_EINPUT, "results: not a list of metrics and trials");
    for (size_t i = 0; i < node->count; i += 2) {
        struct exp_rank entry;
        size_t index;
        EBB_TRY(exp_load_trial(s, node->items[i + 1], "results: trial", &entry.trial, err));
        if (!exp_load_double(node->items[i], &entry.metric))
            return ebb_fail(err, EBB_EINPUT, "results: metric of trial %u is no number",
                            entry.trial);
        EBB_TRY(exp_ranks_insert(ranks, entry, EXP_AFTER_EQUALS, &index, err));
        if (index + 1 != ranks->count)
            return ebb_fail(err, EBB_EINPUT, "results: not in ascending order at trial %u",
                            entry.trial);
    }
    return EBB_OK;
}

/* ---- checked access ---- */

enum ebb_status exp_load_list(const struct ebb_doc_node *map, const char *key,
                              const struct ebb_doc_node **list, struct ebb_error *err)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, key);
    if (node == NULL || node->kind != EBB_DOC_LIST)
        return ebb_fail(err, EBB_EINPUT, "%s: %s, expected a list", key,
                        node == NULL ? "missing" : ebb_doc_kind_text(node->kind));
    *list = node;
    return EBB_OK;
}

enum ebb_status exp_load_int(const struct ebb_doc_node *node, const char *what, int64_t low,
                             int64_t high, int64_t *value, struct ebb_error *err)
{
    if (node == NULL || node->kind != EBB_DOC_INT)
        return ebb_fail(err, EBB_EINPUT, "%s: %s, expected an integer", what,
                        node == NULL ? "missing" : ebb_doc_kind_text(node->kind));
    if (node->integer < low || node->integer > high)
        return ebb_fail(err, EBB_EINPUT, "%s: %lld is not in %lld..%lld", what,
                        (long long)node->integer, (long long)low, (long long)high);
    *value = node->integer;
    return EBB_OK;
}

enum ebb_status exp_load_member(const struct ebb_doc_node *map, const char *key, int64_t low,
                                int64_t high, int64_t *value, struct ebb_error *err)
{
    return exp_load_int(ebb_doc_get(map, key), key, low, high, value, err);
}

enum ebb_status exp_load_trial(const struct exp_search *s, const struct ebb_doc_node *node,
                               const char *what, uint32_t *trial, struct ebb_error *err)
{
    int64_t index = 0;
    EBB_TRY(exp_load_int(node, what, 0, (int64_t)s->trial_count - 1, &index, err));
    *trial = (uint32_t)index;
    return EBB_OK;
}

enum ebb_status exp_load_request(const struct ebb_doc_node *node, const char *what,
                                 struct exp_request_id *id, struct ebb_error *err)
{
    if (node == NULL || node->kind != EBB_DOC_STRING ||
        !exp_request_parse(node->text, node->length, id))
        return ebb_fail(err, EBB_EINPUT, "%s: no request id", what);
    return EBB_OK;
}

static enum ebb_status load_bool(const struct ebb_doc_node *map, const char *key, bool *value,
                                 struct ebb_error *err)
{
    const struct ebb_doc_node *node = ebb_doc_get(map, key);
    if (node == NULL || node->kind != EBB_DOC_BOOL)
        return ebb_fail(err, EBB_EINPUT, "%s: expected true or false", key);
    *value = node->boolean;
    return EBB_OK;
}

/* ---- generator ---- */

static void save_rng(const struct ebb_mt19937 *rng, struct ebb_json_writer *w)
{
    static const char digits[] = "0123456789abcdef";
    char words[624 * 8];
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = digits[rng->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    ebb_jsonw_key(w, "rng");
    ebb_jsonw_object(w);
    ebb_jsonw_key(w, "position");
    ebb_jsonw_uint(w, rng->position);
    ebb_jsonw_key(w, "words");
    ebb_jsonw_stringn(w, words, sizeof words);
    ebb_jsonw_object_end(w);
}

static enum ebb_status load_rng(const struct ebb_doc_node *node, struct ebb_mt19937 *rng,
                                struct ebb_error *err)
{
    const struct ebb_doc_node *words = ebb_doc_get(node, "words");
    int64_t position = 0;
    EBB_TRY(exp_load_member(node, "position", 0, 624, &position, err));
    if (words == NULL || words->kind != EBB_DOC_STRING || words->length != (size_t)624 * 8)
        return ebb_fail(err, EBB_EINPUT, "rng: words: not 624 hexadecimal words");
    for (size_t i = 0; i < 624; i++) {
        uint32_t word = 0;
        for (size_t k = 0; k < 8; k++) {
            char c = words->text[8 * i + k];
            if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
                return ebb_fail(err, EBB_EINPUT, "rng: words: character %zu is no digit",
                                8 * i + k);
            word = word << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        rng->state[i] = word;
    }
    rng->position = (uint32_t)position;
    return EBB_OK;
}

/* ---- trials ---- */

static void save_trial(const struct exp_search *s, const struct exp_trial *t,
                       struct ebb_json_writer *w)
{
    char text[EXP_REQUEST_TEXT], flags[8];
    size_t n = 0;
    if (t->is_created)
        flags[n++] = 'c';
    if (t->is_close_asked)
        flags[n++] = 'a';
    if (t->is_closed)
        flags[n++] = !t->is_exited ? 'd' : t->is_replaced ? 'r' : t->is_completed ? 'u' : 'x';
    ebb_jsonw_array(w);
    ebb_jsonw_string(w, exp_request_format(t->id, text));
    ebb_jsonw_int(w, t->requested);
    ebb_jsonw_int(w, t->trained);
    ebb_jsonw_int(w, t->checkpoint);
    ebb_jsonw_stringn(w, flags, n);
    if (t->wanted != EXP_NO_TRIAL) {
        ebb_jsonw_array(w);
        for (uint32_t i = t->wanted; i != EXP_NO_TRIAL; i = s->wanted[i].next) {
            ebb_jsonw_int(w, s->wanted[i].step);
            ebb_jsonw_string(w, s->wanted[i].is_checkpoint ? "C" : "V");
        }
        ebb_jsonw_array_end(w);
    }
    ebb_jsonw_array_end(w);
}

/* The list of what a trial still owes, in the saved order. */
static enum ebb_status load_wanted(struct exp_search *s, struct exp_trial *t,
                                   const struct ebb_doc_node *list, struct ebb_error *err)
{
    if (list->kind != EBB_DOC_LIST || list->count % 2 != 0)
        return ebb_fail(err, EBB_EINPUT, "not a list of steps and kinds");
    for (size_t i = list->count; i > 0; i -= 2) {
        const struct ebb_doc_node *kind = list->items[i - 1];
        int64_t step;
        EBB_TRY(exp_load_int(list->items[i - 2], "step", 1, t->requested, &step, err));
        bool is_checkpoint = kind->kind == EBB_DOC_STRING && strcmp(kind->text, "C") == 0;
        if (!is_checkpoint && (kind->kind != EBB_DOC_STRING || strcmp(kind->text, "V") != 0))
            return ebb_fail(err, EBB_EINPUT, "kind is neither V nor C");
        EBB_TRY(
            ebb_grow(&s->wanted, &s->wanted_capacity, s->wanted_count + 1, sizeof *s->wanted, err));
        s->wanted[s->wanted_count] =
            (struct exp_wanted){.step = step, .next = t->wanted, .is_checkpoint = is_checkpoint};
        t->wanted = (uint32_t)s->wanted_count++;
    }
    return EBB_OK;
}

static enum ebb_status load_flags(struct exp_search *s, struct exp_trial *t,
                                  const struct ebb_doc_node *flags, struct ebb_error *err)
{
    if (flags->kind != EBB_DOC_STRING)
        return ebb_fail(err, EBB_EINPUT, "flags: no text");
    for (size_t i = 0; i < flags->length; i++) {
        char c = flags->text[i];
        t->is_created |= c == 'c';
        t->is_close_asked |= c == 'a';
        t->is_closed |= c != 'c' && c != 'a';
        t->is_exited |= c == 'x' || c == 'u' || c == 'r';
        t->is_replaced |= c == 'r';
        t->is_completed |= c == 'd' || c == 'u';
        if (c == '\0' || strchr("cadxur", c) == NULL)
            return ebb_fail(err, EBB_EINPUT, "flags: unknown letter");
    }
    s->closed_count += t->is_closed;
    s->completed_count += t->is_completed;
    return EBB_OK;
}

static enum ebb_status load_trial(struct exp_search *s, const struct ebb_doc_node *node,
                                  struct ebb_error *err)
{
    struct exp_trial *t = &s->trials[s->trial_count];
    uint32_t known;
    *t = (struct exp_trial){.wanted = EXP_NO_TRIAL};
    if (node->kind != EBB_DOC_LIST || node->count < 5 || node->count > 6)
        return ebb_fail(err, EBB_EINPUT, "not a list of five or six values");
    EBB_TRY(exp_load_request(node->items[0], "id", &t->id, err));
    if (exp_search_find(s, t->id, &known))
        return ebb_fail(err, EBB_EINPUT, "id: as trial %u", known);
    EBB_TRY(exp_load_int(node->items[1], "requested", 0, INT64_MAX / 2, &t->requested, err));
    EBB_TRY(exp_load_int(node->items[2], "trained", 0, t->requested, &t->trained, err));
    EBB_TRY(exp_load_int(node->items[3], "checkpoint", 0, INT64_MAX / 2, &t->checkpoint, err));
    EBB_TRY(load_flags(s, t, node->items[4], err));
    if (node->count == 6)
        EBB_TRY(load_wanted(s, t, node->items[5], err));
    EBB_TRY(ebb_strmap_put(&s->ids, (const char *)t->id.bytes, sizeof t->id.bytes, s->trial_count,
                           err));
    s->trial_count++;
    return EBB_OK;
}

static enum ebb_status load_trials(struct exp_search *s, const struct ebb_doc_node *root,
                                   struct ebb_error *err)
{
    const struct ebb_doc_node *list = NULL;
    EBB_TRY(exp_load_list(root, "trials", &list, err));
    EBB_TRY(ebb_grow(&s->trials, &s->trial_capacity, list->count + 1, sizeof *s->trials, err));
    for (size_t i = 0; i < list->count; i++) {
        enum ebb_status status = load_trial(s, list->items[i], err);
        if (status != EBB_OK)
            return ebb_context(err, status, "trials[%zu]", i);
    }
    return EBB_OK;
}

/* ---- held operations: [trial, "create", seed, sample | text, parent?, step?] or [trial, kind,
 * step] ---- */

static void save_held_create(const struct exp_search *s, const struct exp_create *create,
                             struct ebb_json_writer *w)
{
    uint32_t parent;
    ebb_jsonw_uint(w, create->trial_seed);
    if (create->hparams_json != NULL)
        ebb_jsonw_string(w, create->hparams_json);
    else
        exp_save_sample(s, s->held.values + create->values, w);
    if (create->has_source && exp_search_find(s, create->source, &parent)) {
        ebb_jsonw_uint(w, parent);
        ebb_jsonw_int(w, create->source_step);
    }
}

static void save_held(const struct exp_search *s, struct ebb_json_writer *w)
{
    static const char kinds[] = {'n', 't', 'v', 'k', 'x'};
    ebb_jsonw_key(w, "held");
    ebb_jsonw_array(w);
    for (size_t i = s->held_at; i < s->held.count; i++) {
        const struct exp_op *op = &s->held.items[i];
        if (op->trial == EXP_NO_TRIAL)
            continue;
        ebb_jsonw_array(w);
        ebb_jsonw_uint(w, op->trial);
        ebb_jsonw_stringn(w, &kinds[op->kind], 1);
        if (op->kind == EXP_OP_CREATE)
            save_held_create(s, &s->held.creates[op->create], w);
        if (op->kind == EXP_OP_TRAIN)
            ebb_jsonw_int(w, op->first_step);
        if (op->kind != EXP_OP_CREATE && op->kind != EXP_OP_CLOSE)
            ebb_jsonw_int(w, op->last_step);
        ebb_jsonw_array_end(w);
    }
    ebb_jsonw_array_end(w);
}

static enum ebb_status load_held_create(struct exp_search *s, const struct ebb_doc_node *node,
                                        struct exp_op *op, struct ebb_error *err)
{
    struct exp_ops *held = &s->held;
    struct exp_create create = {.values = held->value_count};
    int64_t seed = 0;
    if (node->count != 4 && node->count != 6)
        return ebb_fail(err, EBB_EINPUT, "a creation of %zu values", node->count);
    EBB_TRY(exp_load_int(node->items[2], "seed", 0, INT32_MAX, &seed, err));
    create.trial_seed = (uint32_t)seed;
    if (node->items[3]->kind == EBB_DOC_STRING) {
        const struct ebb_doc_node *text = node->items[3];
        create.hparams_json = ebb_arena_strndup(&held->arena, text->text, text->length);
        if (create.hparams_json == NULL)
            return ebb_no_memory(err, text->length);
    } else {
        EBB_TRY(ebb_grow(&held->values, &held->value_capacity, held->value_count + s->space->count,
                         sizeof *held->values, err));
        EBB_TRY(exp_load_sample(s, node->items[3], held->values + held->value_count, err));
        held->value_count += s->space->count;
    }
    if (node->count == 6) {
        uint32_t parent = 0;
        EBB_TRY(exp_load_trial(s, node->items[4], "parent", &parent, err));
        EBB_TRY(exp_load_int(node->items[5], "step", 0, INT64_MAX / 2, &create.source_step, err));
        create.has_source = true;
        create.source = s->trials[parent].id;
    }
    EBB_TRY(ebb_grow(&held->creates, &held->create_capacity, held->create_count + 1,
                     sizeof *held->creates, err));
    op->create = held->create_count;
    held->creates[held->create_count++] = create;
    return EBB_OK;
}

static enum ebb_status load_held_op(struct exp_search *s, const struct ebb_doc_node *node,
                                    struct ebb_error *err)
{
    static const char kinds[] = "ntvkx";
    struct exp_op op = {0};
    if (node->kind != EBB_DOC_LIST || node->count < 2 || node->items[1]->kind != EBB_DOC_STRING ||
        node->items[1]->length != 1)
        return ebb_fail(err, EBB_EINPUT, "not an operation");
    EBB_TRY(exp_load_trial(s, node->items[0], "trial", &op.trial, err));
    const char *kind = memchr(kinds, node->items[1]->text[0], sizeof kinds - 1);
    if (kind == NULL)
        return ebb_fail(err, EBB_EINPUT, "unknown kind of operation");
    op.kind = (enum exp_op_kind)(kind - kinds);
    op.request = s->trials[op.trial].id;
    if ((op.kind == EXP_OP_CREATE) != (s->trials[op.trial].held_ops == 0))
        return ebb_fail(err, EBB_EINPUT, "trial %u: not one creation before everything else",
                        op.trial);
    size_t steps = op.kind == EXP_OP_TRAIN ? 2 : op.kind == EXP_OP_CLOSE ? 0 : 1;
    if (op.kind == EXP_OP_CREATE) {
        EBB_TRY(load_held_create(s, node, &op, err));
    } else {
        if (node->count != 2 + steps)
            return ebb_fail(err, EBB_EINPUT, "an operation of %zu values", node->count);
        if (steps > 0)
            EBB_TRY(
                exp_load_int(node->items[1 + steps], "step", 1, INT64_MAX / 2, &op.last_step, err));
        if (steps == 2)
            EBB_TRY(
                exp_load_int(node->items[2], "first step", 1, op.last_step, &op.first_step, err));
    }
    EBB_TRY(
        ebb_grow(&s->held.items, &s->held.capacity, s->held.count + 1, sizeof *s->held.items, err));
    s->held.items[s->held.count++] = op;
    s->trials[op.trial].held_ops++;
    return EBB_OK;
}

static enum ebb_status load_held(struct exp_search *s, const struct ebb_doc_node *root,
                                 struct ebb_error *err)
{
    const struct ebb_doc_node *list = NULL;
    EBB_TRY(exp_load_list(root, "held", &list, err));
    for (size_t i = 0; i < list->count; i++) {
        enum ebb_status status = load_held_op(s, list->items[i], err);
        if (status != EBB_OK)
            return ebb_context(err, status, "held[%zu]", i);
    }
    return EBB_OK;
}

/* ---- the whole ---- */

void exp_search_save(const struct exp_search *s, struct ebb_json_writer *w)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key_int(w, "version", EXP_SEARCH_STATE_VERSION);
    ebb_jsonw_key_string(w, "searcher", s->method->name);
    ebb_jsonw_key(w, "parameters");
    ebb_jsonw_uint(w, s->space->count);
    save_rng(&s->rng, w);
    ebb_jsonw_key(w, "workloads");
    ebb_jsonw_uint(w, s->workloads);
    ebb_jsonw_key_int(w, "invalid_row", s->invalid_row);
    ebb_jsonw_key_bool(w, "started", s->is_started);
    ebb_jsonw_key_bool(w, "shut_down", s->is_shut_down);
    ebb_jsonw_key(w, "trials");
    ebb_jsonw_array(w);
    for (size_t i = 0; i < s->trial_count; i++)
        save_trial(s, &s->trials[i], w);
    ebb_jsonw_array_end(w);
    save_held(s, w);
    ebb_jsonw_key(w, "method");
    ebb_jsonw_object(w);
    if (s->method->save != NULL)
        s->method->save(s, w);
    ebb_jsonw_object_end(w);
    ebb_jsonw_object_end(w);
}

static enum ebb_status load_head(struct exp_search *s, const struct ebb_doc_node *root,
                                 struct ebb_error *err)
{
    int64_t version = 0, parameters = 0, workloads = 0;
    const char *name = ebb_doc_string(root, "searcher", "");
    if (root->kind != EBB_DOC_MAP)
        return ebb_fail(err, EBB_EINPUT, "%s, expected a mapping", ebb_doc_kind_text(root->kind));
    EBB_TRY(exp_load_member(root, "version", 1, INT64_MAX, &version, err));
    if (version != EXP_SEARCH_STATE_VERSION)
        return ebb_fail(err, EBB_EINPUT, "version %lld, this program reads version %d",
                        (long long)version, EXP_SEARCH_STATE_VERSION);
    if (strcmp(name, s->method->name) != 0)
        return ebb_fail(err, EBB_EINPUT, "saved by searcher '%s', but the configuration says '%s'",
                        name, s->method->name);
    EBB_TRY(exp_load_member(root, "parameters", 0, INT64_MAX, &parameters, err));
    if ((uint64_t)parameters != s->space->count)
        return ebb_fail(err, EBB_EINPUT,
                        "saved with %lld hyperparameters, but the configuration has %zu",
                        (long long)parameters, s->space->count);
    EBB_TRY(load_rng(ebb_doc_get(root, "rng"), &s->rng, err));
    EBB_TRY(exp_load_member(root, "workloads", 0, INT64_MAX / 2, &workloads, err));
    EBB_TRY(exp_load_member(root, "invalid_row", 0, INT64_MAX / 2, &s->invalid_row, err));
    EBB_TRY(load_bool(root, "started", &s->is_started, err));
    EBB_TRY(load_bool(root, "shut_down", &s->is_shut_down, err));
    s->workloads = (uint64_t)workloads;
    return EBB_OK;
}

static enum ebb_status load_all(struct exp_search *s, const struct ebb_doc_node *root,
                                struct ebb_arena *arena, struct ebb_error *err)
{
    EBB_TRY(load_head(s, root, err));
    EBB_TRY(load_trials(s, root, err));
    EBB_TRY(load_held(s, root, err));
    if (!s->is_started && s->trial_count > 0)
        return ebb_fail(err, EBB_EINPUT, "started: false, but there are %zu trials",
                        s->trial_count);
    for (size_t i = 0; i < s->trial_count; i++) {
        const struct exp_trial *t = &s->trials[i];
        s->busy_count += t->held_ops == 0 && !t->is_closed &&
                         (t->requested > t->trained || t->wanted != EXP_NO_TRIAL);
    }
    const struct ebb_doc_node *method = ebb_doc_get(root, "method");
    if (method == NULL || method->kind != EBB_DOC_MAP)
        return ebb_fail(err, EBB_EINPUT, "method: expected a mapping");
    if (s->method->load == NULL || !s->is_started)
        return EBB_OK;
    struct exp_state_reader reader = {.search = s, .arena = arena};
    enum ebb_status status = s->method->load(&reader, method, err);
    return status == EBB_OK ? EBB_OK : ebb_context(err, status, "method");
}

enum ebb_status exp_search_load(const struct exp_searcher *config, const struct exp_hparams *space,
                                enum exp_trial_failure failure, const char *text, size_t length,
                                struct exp_search **search, struct ebb_error *err)
{
    struct ebb_arena arena;
    const struct ebb_doc_node *root;
    struct exp_search *s = NULL;
    ebb_arena_init(&arena);
    enum ebb_status status = ebb_doc_parse_json(&arena, "search state", text, length, &root, err);
    if (status == EBB_OK)
        status = exp_search_create(config, space, failure, 0, &s, err);
    if (status == EBB_OK) {
        status = load_all(s, root, &arena, err);
        if (status != EBB_OK)
            status = ebb_context(err, status, "search state");
    }
    if (status == EBB_OK)
        *search = s;
    else
        exp_search_destroy(s);
    ebb_arena_fini(&arena);
    return status;
}
