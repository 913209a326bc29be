/* npy.c - headers of NumPy's arrays. */
#include "base/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/codec.h"

/* Text after "'key':" in the header's dictionary, or "". */
static const char *dict_value(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    at = at ? at + strlen(key) : "";
    if (at[0] != '\'' && at[0] != '"')
        return "";
    at += 1 + strspn(at + 1, " ");
    return *at == ':' ? at + 1 + strspn(at + 1, " ") : "";
}

static bool parse_type(const char *text, struct ebb_npy *a)
{
    if ((text[0] != '\'' && text[0] != '"') || !text[1] || !strchr("<>|=", text[1]) || !text[2] ||
        text[3] < '1' || text[3] > '8' || text[4] != text[0])
        return false;
    a->is_big_endian = text[1] == '>';
    a->kind = text[2];
    a->item_bytes = (unsigned)(text[3] - '0');
    bool is_power = (a->item_bytes & (a->item_bytes - 1)) == 0;
    return is_power && (a->kind == 'i' || a->kind == 'u' || (a->kind == 'f' && a->item_bytes > 1) ||
                        (a->kind == 'b' && a->item_bytes == 1));
}

static bool parse_shape(const char *text, struct ebb_npy *a)
{
    if (*text++ != '(')
        return false;
    for (a->rank = 0;;) {
        text += strspn(text, " ,");
        if (*text == ')')
            return true;
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 15 || a->rank == EBB_NPY_RANK)
            return false;
        int64_t n = 0;
        for (size_t i = 0; i < digits; i++)
            n = n * 10 + (text[i] - '0');
        a->dims[a->rank++] = n;
        text += digits;
        if (*text != ',' && *text != ')' && *text != ' ')
            return false;
    }
}

/* An empty array must not hide sizes that nobody could walk. */
static bool count_bytes(struct ebb_npy *a)
{
    uint64_t bytes = a->item_bytes;
    bool is_empty = false;
    for (int i = 0; i < a->rank; i++) {
        is_empty = is_empty || a->dims[i] == 0;
        if (__builtin_mul_overflow(bytes, a->dims[i] ? (uint64_t)a->dims[i] : 1, &bytes) ||
            bytes >= UINT64_C(1) << 60)
            return false;
    }
    a->data_bytes = is_empty ? 0 : bytes;
    return true;
}

enum ebb_status ebb_npy_read(const void *bytes, size_t n, struct ebb_npy *array,
                             struct ebb_error *err)
{
    const uint8_t *p = bytes;
    char text[EBB_NPY_MOST - 12 + 1];
    if (n < 12 || memcmp(p, "\x93NUMPY", 6) != 0 || p[6] < 1 || p[6] > 3)
        return ebb_fail(err, EBB_ECORRUPT, "no NPY array: no signature");
    size_t width = p[6] == 1 ? 2 : 4, start = 8 + width;
    uint64_t length = ebb_load_bytes(p + 8, width);
    if (length >= sizeof text || length > n - start)
        return ebb_fail(err, EBB_ECORRUPT, "NPY: a header of %" PRIu64 " bytes", length);
    memcpy(text, p + start, (size_t)length);
    text[length] = '\0';
    struct ebb_npy a = {.head_bytes = start + (size_t)length};
    const char *order = dict_value(text, "fortran_order");
    a.is_fortran = strncmp(order, "True", 4) == 0;
    if (!parse_type(dict_value(text, "descr"), &a))
        return ebb_fail(err, EBB_ECORRUPT, "NPY: a type that is not read here: %.60s", text);
    if (!a.is_fortran && strncmp(order, "False", 5) != 0)
        return ebb_fail(err, EBB_ECORRUPT, "NPY: fortran_order is neither True nor False");
    if (!parse_shape(dict_value(text, "shape"), &a) || !count_bytes(&a))
        return ebb_fail(err, EBB_ECORRUPT, "NPY: a shape that is not read here");
    *array = a;
    return EBB_OK;
}

void ebb_npy_write(const struct ebb_npy *array, struct ebb_str *out)
{
    struct ebb_str text = {0};
    ebb_str_printf(&text, "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (",
                   array->item_bytes == 1 ? '|' : '<', array->kind, array->item_bytes);
    for (int d = 0; d < array->rank; d++)
        ebb_str_printf(&text, "%" PRId64 ",%s", array->dims[d], d + 1 < array->rank ? " " : "");
    ebb_str_add(&text, "), }");
    while ((10 + text.length + 1) % 64)
        ebb_str_addc(&text, ' ');
    ebb_str_addc(&text, '\n');
    ebb_str_addn(out, "\x93NUMPY\1\0", 8);
    ebb_str_addc(out, (char)(text.length & 255));
    ebb_str_addc(out, (char)(text.length >> 8));
    ebb_str_addn(out, ebb_str_c(&text), text.length);
    out->failed |= text.failed;
    ebb_str_fini(&text);
}
