/* file_bind.c - arguments of calls: bound to the parameters of a signature, read as C values. */
#include <stdio.h>
#include <string.h>

#include "nn/file.h"

/* ---- signatures ------------------------------------------------------------------------------- */

size_t nn_signature_count(const char *parameters)
{
    size_t n = *parameters != 0;
    for (const char *p = parameters; *p; p++)
        n += *p == ',';
    return n;
}

/* Where parameter i begins, behind its star, and the length of its name. */
static const char *parameter(const char *parameters, size_t i, size_t *n)
{
    const char *p = parameters;
    for (; i > 0 && *p; p++)
        i -= *p == ',';
    p += strspn(p, " ");
    p += *p == '*';
    *n = strcspn(p, ",= ");
    return p;
}

const char *nn_signature_at(const char *parameters, size_t i, char buf[NN_SIGNATURE_BYTES],
                            bool *is_optional, bool *is_rest)
{
    size_t n;
    const char *p = parameter(parameters, i, &n);
    *is_rest = p > parameters && p[-1] == '*';
    *is_optional = p[n] == '=' || *is_rest;
    n = n < NN_SIGNATURE_BYTES - 1 ? n : NN_SIGNATURE_BYTES - 1;
    memcpy(buf, p, n);
    buf[n] = '\0';
    return buf;
}

int nn_signature_find(const char *parameters, const char *name)
{
    size_t n, length = strlen(name);
    for (size_t i = 0; i < nn_signature_count(parameters); i++) {
        const char *p = parameter(parameters, i, &n);
        if (n == length && memcmp(p, name, n) == 0)
            return (int)i;
    }
    return -1;
}

/* "momentum=0.1": None would be another value; "stride=" has none. */
static bool has_default(const char *parameters, size_t i)
{
    const char *p = parameters;
    for (; i > 0 && *p; p++)
        i -= *p == ',';
    p += strcspn(p, ",=");
    return *p == '=' && p[1] && p[1] != ',';
}

const struct nn_value *nn_bind(struct nn_eval *e, const char *what, const char *parameters,
                               const struct nn_value *args, const char *const *names, size_t count)
{
    size_t n = nn_signature_count(parameters), at = 0;
    struct nn_value *to = nn_eval_take(e, n, sizeof *to);
    bool given[NN_FILE_NAMES + 2] = {false}, is_optional, is_rest;
    char name[NN_SIGNATURE_BYTES];
    for (size_t i = 0; to && i < count; i++) {
        int k = names && names[i] ? nn_signature_find(parameters, names[i]) : -1;
        if (names && names[i] && k < 0) {
            nn_eval_fail(e, "%s has no argument '%s'", what, names[i]);
            return NULL;
        }
        if (k < 0 && at >= n) {
            nn_eval_fail(e, "%s takes %zu values: %s", what, n, parameters);
            return NULL;
        }
        if (k < 0)
            nn_signature_at(parameters, at, name, &is_optional, &is_rest);
        else
            is_rest = false;
        if (is_rest) { /* everything that has no name, from here on */
            size_t more = 0;
            for (size_t j = i; j < count && !(names && names[j]); j++)
                more++;
            to[at] = (struct nn_value){
                .kind = NN_VALUE_LIST, .items = nn_eval_take(e, more, sizeof *args), .count = more};
            if (!to[at].items)
                return NULL;
            memcpy(to[at].items, args + i, more * sizeof *args);
            given[at++] = true;
            i += more - 1;
            continue;
        }
        size_t place = k < 0 ? at++ : (size_t)k;
        if (place >= NN_FILE_NAMES) {
            nn_eval_fail(e, "%s takes more than %d values", what, NN_FILE_NAMES);
            return NULL;
        }
        if (args[i].kind == NN_VALUE_NONE && has_default(parameters, place)) {
            nn_signature_at(parameters, place, name, &is_optional, &is_rest);
            nn_eval_fail(e, "%s: %s=None is not done here", what, name);
            return NULL;
        }
        to[place] = args[i];
        given[place] = true;
    }
    for (size_t i = 0; to && i < n; i++) {
        nn_signature_at(parameters, i, name, &is_optional, &is_rest);
        if (!given[i] && !is_optional) {
            nn_eval_fail(e, "%s needs '%s'", what, name);
            return NULL;
        }
    }
    return to;
}

/* ---- arguments as C values -------------------------------------------------------------------- */

bool nn_given(const struct nn_call *c, size_t i)
{
    return i < c->count && c->args[i].kind != NN_VALUE_NONE;
}

static const char *argument(const struct nn_call *c, size_t i, char buf[NN_SIGNATURE_BYTES])
{
    bool is_optional, is_rest;
    const struct nn_function *f = nn_function_find(c->name);
    const struct nn_class *k = nn_class_find(c->name);
    const char *parameters = f ? f->signature.parameters : k ? k->signature.parameters : "";
    return i < nn_signature_count(parameters)
               ? nn_signature_at(parameters, i, buf, &is_optional, &is_rest)
               : "a value";
}

static void wrong(const struct nn_call *c, size_t i, const char *allowed)
{
    char buf[NN_SIGNATURE_BYTES];
    nn_eval_fail(c->e, "%s: '%s' is %s, allowed: %s", c->name, argument(c, i, buf),
                 i < c->count ? nn_value_noun(&c->args[i]) : "missing", allowed);
}

int64_t nn_int(const struct nn_call *c, size_t i, int64_t fallback)
{
    if (!nn_given(c, i))
        return fallback;
    const struct nn_value *v = &c->args[i];
    if (v->kind == NN_VALUE_INT && v->integer > -NN_FILE_SIZE && v->integer < NN_FILE_SIZE)
        return v->integer;
    wrong(c, i, "a whole number");
    return fallback;
}

double nn_number(const struct nn_call *c, size_t i, double fallback)
{
    if (!nn_given(c, i))
        return fallback;
    if (c->args[i].kind == NN_VALUE_INT || c->args[i].kind == NN_VALUE_FLOAT)
        return c->args[i].number;
    wrong(c, i, "a number");
    return fallback;
}

bool nn_truth(const struct nn_call *c, size_t i, bool fallback)
{
    if (!nn_given(c, i))
        return fallback;
    if (c->args[i].kind == NN_VALUE_BOOL)
        return c->args[i].integer != 0;
    wrong(c, i, "True or False");
    return fallback;
}

const char *nn_word(const struct nn_call *c, size_t i, const char *fallback)
{
    if (!nn_given(c, i))
        return fallback;
    if (c->args[i].kind == NN_VALUE_TEXT)
        return c->args[i].text;
    wrong(c, i, "a text in quotes");
    return fallback;
}

tensor_id nn_tensor(const struct nn_call *c, size_t i)
{
    if (i < c->count && c->args[i].kind == NN_VALUE_TENSOR)
        return c->args[i].tensor;
    if (nn_eval_ok(c->e))
        wrong(c, i, "a tensor");
    return TENSOR_NONE;
}

size_t nn_ints_of(const struct nn_call *c, const struct nn_value *v, int64_t *to, size_t room)
{
    size_t n = v->kind == NN_VALUE_LIST ? v->count : 1;
    const struct nn_value *items = v->kind == NN_VALUE_LIST ? v->items : v;
    if (v->kind == NN_VALUE_LIST && n == 1 && items[0].kind == NN_VALUE_LIST) { /* f(*[[a, b]]) */
        n = items[0].count;
        items = items[0].items;
    }
    for (size_t i = 0; i < n; i++)
        if (n > room || items[i].kind != NN_VALUE_INT || items[i].integer < -NN_FILE_SIZE ||
            items[i].integer > NN_FILE_SIZE) {
            nn_eval_fail(c->e, "%s: found %s among its numbers, allowed: at most %zu whole numbers",
                         c->name, n > room ? "too many" : nn_value_noun(&items[i]), room);
            return 0;
        } else {
            to[i] = items[i].integer;
        }
    return n;
}
