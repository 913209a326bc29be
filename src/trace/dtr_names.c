/* dtr_names.c - names of a DTR log, found without hashing where the logger's counter allows it.
 *
 * Four bytes per name in the dense table instead of about forty in a hash map; a table entry exists
 * only while the table stays at least an eighth full, so a log with wild numbers costs no more than
 * the maps do. */
#include "base/heap.h"
#include "trace/dtr.h"
#include "trace/trace.h"

#define SLACK 4096 /* entries a table may have beyond eight per name */

void trace_dtr_names_fini(struct trace_dtr_names *names)
{
    ebb_free(names->dense);
    ebb_map_fini(&names->sparse);
    ebb_strmap_fini(&names->others);
}

/* x<counter> without leading zeros, at most 18 digits: then the number stands for the name. */
static bool counter_of(const struct trace_dtr_text *t, uint64_t *number)
{
    if (t->length < 2 || t->length > 19 || t->text[0] != 'x')
        return false;
    if (t->text[1] == '0' && t->length > 2)
        return false;
    uint64_t n = 0;
    for (uint32_t i = 1; i < t->length; i++) {
        unsigned digit = (unsigned)(unsigned char)t->text[i] - '0';
        if (digit > 9)
            return false;
        n = n * 10 + digit;
    }
    *number = n;
    return true;
}

uint32_t trace_dtr_names_find(const struct trace_dtr_names *names, const struct trace_dtr_text *t)
{
    uint64_t number = 0, value = 0;
    if (!counter_of(t, &number))
        return ebb_strmap_get(&names->others, t->text, t->length, &value) ? (uint32_t)value
                                                                          : TRACE_NONE;
    uint64_t at = number - names->base; /* wraps for numbers below base: then far out of range */
    if (at < names->dense_count && names->dense[at] != TRACE_NONE)
        return names->dense[at];
    if (names->sparse.count > 0 && ebb_map_get(&names->sparse, number, &value))
        return (uint32_t)value;
    return TRACE_NONE;
}

enum ebb_status trace_dtr_names_add(struct trace_dtr_names *names, const struct trace_dtr_text *t,
                                    struct ebb_error *err)
{
    uint64_t number = 0;
    if (names->count >= TRACE_NONE - 1)
        return ebb_fail(err, EBB_ELIMIT, "log: more than 2^32 - 2 names");
    if (!counter_of(t, &number)) {
        EBB_TRY(ebb_strmap_put(&names->others, t->text, t->length, names->count, err));
        names->count++;
        return EBB_OK;
    }
    if (names->dense_count == 0)
        names->base = number;
    uint64_t at = number - names->base;
    if (at < 8 * (uint64_t)names->count + SLACK) {
        size_t need = (size_t)at + 1;
        if (need > names->dense_count) {
            EBB_TRY(
                ebb_grow(&names->dense, &names->dense_capacity, need, sizeof *names->dense, err));
            for (size_t i = names->dense_count; i < need; i++)
                names->dense[i] = TRACE_NONE;
            names->dense_count = need;
        }
        names->dense[at] = (uint32_t)names->count;
    } else {
        EBB_TRY(ebb_map_put(&names->sparse, number, names->count, err));
    }
    names->count++;
    return EBB_OK;
}
