/* hdf5_write.c - small HDF5 files: contiguous datasets in the root or one group below it.
 *
 * Superblock 0, symbol tables, version 1 headers: what every reader knows. Metadata are laid out
 * first, at fixed sizes, so that every address is known before a byte is written; data follow. */
#include "data/hdf5.h"

#include <string.h>

#include "base/file.h"
#include "base/heap.h"

enum {
    SUPER = 96,
    LEAF = 4, /* half the symbols of a node */
    INTERNAL = 16,
    NODE = 8 + 2 * LEAF * 40,
    TREE = 24 + 2 * INTERNAL * 8 + (2 * INTERNAL + 1) * 8,
    HEAP = 32,
    HEAP_DATA = 512,
    GROUP = 16 + 8 + 16, /* header with a symbol table message */
    GROUP_ALL = GROUP + TREE + HEAP + HEAP_DATA + NODE,
    MESSAGES = 8 + 8 + 8 * DATA_MAX_RANK + 8 + 24 + 8 + 24,
    DATASET = 16 + MESSAGES,
    MAX_ITEMS = 2 * LEAF,
};

struct writing {
    uint8_t *bytes; /* metadata */
    size_t length;
};

static void put(struct writing *w, size_t at, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w->bytes[at + i] = (uint8_t)(value >> (8 * i));
}

static void put_text(struct writing *w, size_t at, const char *text)
{
    memcpy(w->bytes + at, text, strlen(text));
}

struct entry {
    const char *name;
    size_t name_length;
    uint64_t header;
};

static int entry_order(const struct entry *a, const struct entry *b)
{
    size_t n = a->name_length < b->name_length ? a->name_length : b->name_length;
    int order = memcmp(a->name, b->name, n);
    return order ? order : a->name_length < b->name_length ? -1 : a->name_length > b->name_length;
}

/* A group's header, tree, heap and node at `at`; entries are sorted by name. */
static void put_group(struct writing *w, size_t at, struct entry *entries, size_t count)
{
    size_t tree = at + GROUP, heap = tree + TREE, names = heap + HEAP, node = names + HEAP_DATA;
    for (size_t i = 1; i < count; i++) {
        for (size_t k = i; k > 0 && entry_order(&entries[k], &entries[k - 1]) < 0; k--) {
            struct entry t = entries[k];
            entries[k] = entries[k - 1];
            entries[k - 1] = t;
        }
    }
    put(w, at, 1, 1);              /* header version */
    put(w, at + 2, 1, 2);          /* one message */
    put(w, at + 4, 1, 4);          /* one link to it */
    put(w, at + 8, GROUP - 16, 4); /* bytes of messages */
    put(w, at + 16, 0x11, 2);      /* symbol table */
    put(w, at + 18, 16, 2);
    put(w, at + 24, tree, 8);
    put(w, at + 32, heap, 8);
    put_text(w, tree, "TREE");
    put(w, tree + 6, 1, 2); /* one child */
    put(w, tree + 8, UINT64_MAX, 8);
    put(w, tree + 16, UINT64_MAX, 8);
    put(w, tree + 32, node, 8); /* after key 0, which is the empty name */
    put_text(w, heap, "HEAP");
    put(w, heap + 8, HEAP_DATA, 8);
    put(w, heap + 16, 1, 8); /* no free part */
    put(w, heap + 24, names, 8);
    put_text(w, node, "SNOD");
    put(w, node + 4, 1, 1);
    put(w, node + 6, count, 2);
    size_t offset = 8;
    for (size_t i = 0; i < count; i++) {
        memcpy(w->bytes + names + offset, entries[i].name, entries[i].name_length);
        put(w, node + 8 + 40 * i, offset, 8);
        put(w, node + 16 + 40 * i, entries[i].header, 8);
        put(w, tree + 40, offset, 8); /* the last name is the upper key */
        offset += (entries[i].name_length + 8) & ~(size_t)7;
    }
}

/* Datatype message; returns its bytes. */
static size_t put_type(struct writing *w, size_t at, enum data_dtype dtype)
{
    size_t bytes = data_dtype_bytes(dtype);
    put(w, at + 4, bytes, 4);
    put(w, at + 10, 8 * bytes, 2); /* precision */
    if (dtype != DATA_F32 && dtype != DATA_F64) {
        put(w, at, 0x10, 1);
        put(w, at + 1, dtype == DATA_U8 ? 0 : 8, 1);
        return 16;
    }
    bool is_double = dtype == DATA_F64;
    put(w, at, 0x11, 1);
    put(w, at + 1, 0x20, 1); /* the leading one is implied */
    put(w, at + 2, 8 * bytes - 1, 1);
    put(w, at + 12, is_double ? 52 : 23, 1);
    put(w, at + 13, is_double ? 11 : 8, 1);
    put(w, at + 15, is_double ? 52 : 23, 1);
    put(w, at + 16, is_double ? 1023 : 127, 4);
    return 24;
}

static size_t put_message(struct writing *w, size_t at, unsigned type, size_t bytes)
{
    put(w, at, type, 2);
    put(w, at + 2, bytes, 2);
    return at + 8 + bytes;
}

static void put_dataset(struct writing *w, size_t at, const struct data_h5_item *item,
                        uint64_t address, uint64_t bytes)
{
    size_t next = at + 16, space = 8 + 8 * (size_t)item->rank;
    put(w, next + 8, 1, 1);
    put(w, next + 9, (uint64_t)item->rank, 1);
    for (int i = 0; i < item->rank; i++)
        put(w, next + 16 + 8 * (size_t)i, (uint64_t)item->dims[i], 8);
    next = put_message(w, next, 1, space);
    size_t type = put_type(w, next + 8, item->dtype);
    next = put_message(w, next, 3, type);
    put(w, next + 8, 3, 1); /* layout version 3, contiguous */
    put(w, next + 9, 1, 1);
    put(w, next + 10, address, 8);
    put(w, next + 18, bytes, 8);
    next = put_message(w, next, 8, 24);
    put(w, at, 1, 1);
    put(w, at + 2, 3, 2);
    put(w, at + 4, 1, 4);
    put(w, at + 8, next - at - 16, 4);
}

static uint64_t item_bytes(const struct data_h5_item *item)
{
    uint64_t n = data_dtype_bytes(item->dtype);
    for (int i = 0; i < item->rank; i++)
        n *= (uint64_t)item->dims[i];
    return n;
}

/* Where everything goes; entries of the root (0) and of the group (1). */
static void lay_out(struct writing *w, const struct data_h5_item *items, size_t count, uint64_t end)
{
    struct entry entries[2][MAX_ITEMS + 1];
    size_t counts[2] = {0, 0};
    uint64_t address = w->length;
    for (size_t i = 0; i < count; i++) {
        const char *slash = strchr(items[i].path, '/');
        const char *name = slash ? slash + 1 : items[i].path;
        uint64_t header = SUPER + 2 * GROUP_ALL + i * DATASET;
        entries[slash != NULL][counts[slash != NULL]++] =
            (struct entry){name, strlen(name), header};
        put_dataset(w, header, &items[i], address, item_bytes(&items[i]));
        address += (item_bytes(&items[i]) + 7) & ~UINT64_C(7);
        if (slash && counts[1] == 1)
            entries[0][counts[0]++] =
                (struct entry){items[i].path, (size_t)(slash - items[i].path), SUPER + GROUP_ALL};
    }
    put_group(w, SUPER, entries[0], counts[0]);
    if (counts[1])
        put_group(w, SUPER + GROUP_ALL, entries[1], counts[1]);
    memcpy(w->bytes, "\x89HDF\r\n\x1a\n", 8);
    put(w, 13, 8, 1);
    put(w, 14, 8, 1);
    put(w, 16, LEAF, 2);
    put(w, 18, INTERNAL, 2);
    put(w, 32, UINT64_MAX, 8); /* no free space information */
    put(w, 40, end, 8);
    put(w, 48, UINT64_MAX, 8); /* no driver */
    put(w, 64, SUPER, 8);      /* the root's header */
}

enum ebb_status data_h5_write(const char *path, const struct data_h5_item *items, size_t count,
                              struct ebb_error *err)
{
    static const uint8_t zero[8] = {0};
    struct ebb_file_out out;
    struct writing w = {.length = SUPER + 2 * GROUP_ALL + count * DATASET};
    if (count == 0 || count >= MAX_ITEMS)
        return ebb_fail(err, EBB_EINTERNAL, "%s: %zu datasets; 1 to %d can be written", path, count,
                        MAX_ITEMS - 1);
    EBB_TRY(ebb_new(&w.bytes, w.length, 1, err));
    uint64_t end = w.length;
    for (size_t i = 0; i < count; i++)
        end += (item_bytes(&items[i]) + 7) & ~UINT64_C(7);
    lay_out(&w, items, count, end);
    enum ebb_status status = ebb_file_out_open(&out, path, err);
    if (status == EBB_OK) {
        fwrite(w.bytes, 1, w.length, out.stream);
        for (size_t i = 0; i < count; i++) {
            uint64_t bytes = item_bytes(&items[i]);
            fwrite(items[i].data, 1, bytes, out.stream);
            fwrite(zero, 1, (8 - bytes % 8) % 8, out.stream);
        }
        status = ebb_file_out_commit(&out, err); /* tells of failed writes */
        if (status != EBB_OK)
            ebb_file_out_abort(&out);
    }
    ebb_free(w.bytes);
    return status;
}
