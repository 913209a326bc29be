/* wire.c - protobuf's wire format: fields of a message, one after the other. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "onnx/internal.h"

enum ebb_status onnx_wire_wrong(const struct onnx_wire *w, size_t at, struct ebb_error *err,
                                const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ebb_fail(err, EBB_EINPUT, "%s: byte %zu: %s", w->path, at, text);
}

enum ebb_status onnx_wire_varint(struct onnx_wire *w, uint64_t *value, struct ebb_error *err)
{
    size_t start = w->at;
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (w->at == w->end)
            return onnx_wire_wrong(w, start, err, "the message ends inside a number");
        uint8_t byte = w->base[w->at++];
        if (shift < 63 || (shift == 63 && byte <= 1))
            v |= (uint64_t)(byte & 0x7f) << shift;
        else
            return onnx_wire_wrong(w, start, err, "a number has more than 64 bits");
        if (!(byte & 0x80)) {
            *value = v;
            return EBB_OK;
        }
    }
    return onnx_wire_wrong(w, start, err, "a number has more than 64 bits");
}

static enum ebb_status take_fixed(struct onnx_wire *w, size_t bytes, uint64_t *value,
                                  struct ebb_error *err)
{
    if (w->end - w->at < bytes)
        return onnx_wire_wrong(w, w->at, err, "the message ends inside a number");
    *value = 0;
    memcpy(value, w->base + w->at, bytes);
    w->at += bytes;
    return EBB_OK;
}

enum ebb_status onnx_wire_next(struct onnx_wire *w, struct onnx_field *field, bool *more,
                               struct ebb_error *err)
{
    uint64_t key, length;
    *more = w->at < w->end;
    if (!*more)
        return EBB_OK;
    *field = (struct onnx_field){.at = w->at, .bytes.path = w->path};
    EBB_TRY(onnx_wire_varint(w, &key, err));
    if (key >> 3 == 0 || key >> 3 >= 1u << 29)
        return onnx_wire_wrong(w, field->at, err, "no field has number %" PRIu64, key >> 3);
    field->number = (uint32_t)(key >> 3);
    field->kind = (int)(key & 7);
    switch (field->kind) {
    case ONNX_VARINT:
        return onnx_wire_varint(w, &field->value, err);
    case ONNX_FIXED64:
        return take_fixed(w, 8, &field->value, err);
    case ONNX_FIXED32:
        return take_fixed(w, 4, &field->value, err);
    case ONNX_BYTES:
        EBB_TRY(onnx_wire_varint(w, &length, err));
        if (length > w->end - w->at)
            return onnx_wire_wrong(w, field->at, err,
                                   "field %u has %" PRIu64 " bytes, but only %zu are left",
                                   field->number, length, w->end - w->at);
        field->bytes = (struct onnx_wire){w->base, w->at, w->at + (size_t)length, w->path};
        w->at += (size_t)length;
        return EBB_OK;
    default:
        return onnx_wire_wrong(w, field->at, err, "no field is of kind %d: this is no ONNX file",
                               field->kind);
    }
}
