/* hdf5.c - the structure of HDF5 files: superblock, groups, object headers, messages.
 *
 * Every loop is bounded by something read from the file that has itself been bounded: continuation
 * blocks and header bytes by constants, trees by their level, which must fall. */
#include "data/hdf5.h"

#include <string.h>

#include "base/codec.h"

enum { MAX_BLOCKS = 64, MAX_MESSAGES = 4096, BODY_BYTES = 2048, MAX_LEVEL = 16, NAME_BYTES = 256 };

static const uint64_t undefined = UINT64_MAX;

/* n bytes at an address of the file's own address space. */
enum ebb_status data_h5_fetch(const struct data_h5 *h, uint64_t address, void *out, size_t n,
                              struct ebb_error *err)
{
    if (address == undefined || address > UINT64_MAX - h->base)
        return data_corrupt(err, h->file, 0, "HDF5: an address leads nowhere");
    return data_file_read(h->file, h->base + address, out, n, err);
}

static enum ebb_status refuse(struct ebb_error *err, const struct data_h5 *h, const char *what,
                              unsigned value)
{
    return ebb_fail(err, EBB_EINPUT,
                    "%s: HDF5 %s %u is not read here; h5repack or h5py's default writes what is",
                    h->file->path, what, value);
}

/* ---- superblock ---- */

enum ebb_status data_h5_open(struct data_h5 *h, const struct data_file *file, struct ebb_error *err)
{
    static const uint8_t magic[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    uint8_t head[96] = {0};
    *h = (struct data_h5){.file = file};
    uint64_t at = 0; /* at 0, 512, 1024, 2048, ... */
    while (at + 16 <= file->length) {
        EBB_TRY(data_file_read(file, at, head, 16, err));
        if (memcmp(head, magic, 8) == 0)
            break;
        at = at ? at * 2 : 512;
    }
    if (at + 16 > file->length)
        return data_corrupt(err, file, 0, "not an HDF5 file: no signature");
    uint64_t left = file->length - at;
    EBB_TRY(data_file_read(file, at, head, left < sizeof head ? (size_t)left : sizeof head, err));
    unsigned version = head[8];
    const uint8_t *sizes = version < 2 ? head + 13 : head + 9;
    if (version > 3)
        return refuse(err, h, "superblock version", version);
    if (sizes[0] != 8 || sizes[1] != 8)
        return refuse(err, h, "size of addresses", sizes[0]);
    if (version < 2) {
        size_t start = version == 0 ? 24 : 28; /* four addresses, then the root's entry */
        h->base = ebb_load_bytes(head + start, 8);
        h->root = ebb_load_bytes(head + start + 32 + 8, 8);
    } else {
        h->base = ebb_load_bytes(head + 12, 8);
        h->root = ebb_load_bytes(head + 36, 8);
    }
    if (h->base != at && h->base != 0)
        return data_corrupt(err, file, at, "HDF5: base address %llu", (unsigned long long)h->base);
    h->base = at; /* a user block before the file moves everything */
    return EBB_OK;
}

/* ---- object headers ---- */

struct message {
    unsigned type;
    uint64_t place; /* of the body in the file */
    size_t bytes;   /* of the body */
    uint8_t body[BODY_BYTES];
    size_t held; /* bytes of body that are here */
};

struct walk {
    const struct data_h5 *h;
    unsigned version, flags;
    struct {
        uint64_t at, end;
    } blocks[MAX_BLOCKS];
    size_t block_count, block;
    size_t messages;
};

static enum ebb_status walk_add(struct walk *w, uint64_t at, uint64_t bytes, struct ebb_error *err)
{
    if (w->block_count == MAX_BLOCKS)
        return data_corrupt(err, w->h->file, at, "HDF5: an object header in more than %d parts",
                            MAX_BLOCKS);
    if (at > w->h->file->length || bytes > w->h->file->length - at)
        return data_corrupt(err, w->h->file, at,
                            "HDF5: a header part of %llu bytes leaves the file",
                            (unsigned long long)bytes);
    w->blocks[w->block_count].at = at;
    w->blocks[w->block_count].end = at + bytes;
    w->block_count++;
    return EBB_OK;
}

static enum ebb_status walk_init(struct walk *w, const struct data_h5 *h, uint64_t address,
                                 struct ebb_error *err)
{
    uint8_t head[40];
    memset(w, 0, sizeof *w);
    w->h = h;
    EBB_TRY(data_h5_fetch(h, address, head, 16, err));
    if (memcmp(head, "OHDR", 4) != 0) {
        if (head[0] != 1)
            return data_corrupt(err, h->file, h->base + address, "HDF5: no object header");
        w->version = 1;
        return walk_add(w, h->base + address + 16, ebb_load_bytes(head + 8, 4), err);
    }
    w->version = 2;
    w->flags = head[5];
    size_t at = 6u + (w->flags & 0x20 ? 16u : 0u) + (w->flags & 0x10 ? 4u : 0u);
    size_t width = (size_t)1 << (w->flags & 3);
    EBB_TRY(data_h5_fetch(h, address + at, head, width, err));
    return walk_add(w, h->base + address + at + width, ebb_load_bytes(head, width), err);
}

/* The next message; *found false at the end. Continuations are followed. */
static enum ebb_status walk_next(struct walk *w, struct message *m, bool *found,
                                 struct ebb_error *err)
{
    const struct data_file *file = w->h->file;
    for (;;) {
        uint8_t head[8];
        size_t width = w->version == 1 ? 8 : w->flags & 4 ? 6 : 4;
        while (w->block < w->block_count &&
               w->blocks[w->block].end - w->blocks[w->block].at < width)
            w->block++;
        if (w->block == w->block_count) {
            *found = false;
            return EBB_OK;
        }
        uint64_t at = w->blocks[w->block].at, end = w->blocks[w->block].end;
        if (w->messages++ == MAX_MESSAGES)
            return data_corrupt(err, file, at, "HDF5: more than %d header messages", MAX_MESSAGES);
        EBB_TRY(data_file_read(file, at, head, width, err));
        m->type = w->version == 1 ? (unsigned)ebb_load_bytes(head, 2) : head[0];
        m->bytes = (size_t)ebb_load_bytes(head + (w->version == 1 ? 2 : 1), 2);
        m->place = at + width;
        if (m->bytes > end - m->place)
            return data_corrupt(err, file, at, "HDF5: a message of %zu bytes leaves its header",
                                m->bytes);
        w->blocks[w->block].at = m->place + m->bytes;
        m->held = m->bytes < BODY_BYTES ? m->bytes : BODY_BYTES;
        EBB_TRY(data_file_read(file, m->place, m->body, m->held, err));
        if (m->type != 0x10) {
            *found = true;
            return EBB_OK;
        }
        if (m->held < 16)
            return data_corrupt(err, file, at, "HDF5: a cut continuation");
        uint64_t next = ebb_load_bytes(m->body, 8), bytes = ebb_load_bytes(m->body + 8, 8);
        if (w->version == 2 && bytes >= 8) { /* "OCHK" before, a checksum after */
            next += 4;
            bytes -= 8;
        }
        if (next > UINT64_MAX - w->h->base)
            return data_corrupt(err, file, at, "HDF5: a continuation that leads nowhere");
        EBB_TRY(walk_add(w, w->h->base + next, bytes, err));
    }
}

/* ---- groups ---- */

/* The name at an offset of a local heap's data equals `name`, or how they differ. */
static enum ebb_status heap_compare(const struct data_h5 *h, uint64_t heap, uint64_t offset,
                                    const char *name, size_t length, int *order,
                                    struct ebb_error *err)
{
    char text[NAME_BYTES + 1] = {0};
    uint64_t left = h->file->length - h->base;
    if (heap > left || offset > left - heap)
        return data_corrupt(err, h->file, 0, "HDF5: a name lies outside the file");
    left -= heap + offset;
    EBB_TRY(
        data_h5_fetch(h, heap + offset, text, left < NAME_BYTES ? (size_t)left : NAME_BYTES, err));
    size_t n = strlen(text), least = n < length ? n : length;
    *order = memcmp(name, text, least);
    if (*order == 0)
        *order = length < n ? -1 : length > n;
    return EBB_OK;
}

static enum ebb_status find_in_node(const struct data_h5 *h, uint64_t node, uint64_t heap,
                                    const char *name, size_t length, uint64_t *address,
                                    struct ebb_error *err)
{
    uint8_t head[8], entry[40];
    EBB_TRY(data_h5_fetch(h, node, head, 8, err));
    if (memcmp(head, "SNOD", 4) != 0)
        return data_corrupt(err, h->file, h->base + node, "HDF5: no symbol table node");
    size_t count = (size_t)ebb_load_bytes(head + 6, 2);
    for (size_t i = 0; i < count; i++) {
        int order;
        EBB_TRY(data_h5_fetch(h, node + 8 + 40 * i, entry, 40, err));
        EBB_TRY(heap_compare(h, heap, ebb_load_bytes(entry, 8), name, length, &order, err));
        if (order == 0) {
            *address = ebb_load_bytes(entry + 8, 8);
            return EBB_OK;
        }
    }
    return EBB_OK;
}

static enum ebb_status find_in_table(const struct data_h5 *h, uint64_t tree, uint64_t heap_header,
                                     const char *name, size_t length, uint64_t *address,
                                     struct ebb_error *err)
{
    uint8_t head[32], pair[16];
    EBB_TRY(data_h5_fetch(h, heap_header, head, 32, err));
    if (memcmp(head, "HEAP", 4) != 0)
        return data_corrupt(err, h->file, h->base + heap_header, "HDF5: no local heap");
    uint64_t heap = ebb_load_bytes(head + 24, 8);
    unsigned above = MAX_LEVEL;
    for (uint64_t node = tree;;) {
        EBB_TRY(data_h5_fetch(h, node, head, 24, err));
        if (memcmp(head, "TREE", 4) != 0 || head[4] != 0 || head[5] >= above)
            return data_corrupt(err, h->file, h->base + node, "HDF5: no group tree node");
        above = head[5];
        uint64_t low = 0,
                 high = ebb_load_bytes(head + 6, 2); /* child i holds names up to key i + 1 */
        if (high == 0)
            return EBB_OK;
        while (low + 1 < high) {
            uint64_t middle = low + (high - low) / 2;
            int order;
            EBB_TRY(data_h5_fetch(h, node + 24 + 16 * middle, pair, 8, err));
            EBB_TRY(heap_compare(h, heap, ebb_load_bytes(pair, 8), name, length, &order, err));
            if (order > 0)
                low = middle;
            else
                high = middle;
        }
        EBB_TRY(data_h5_fetch(h, node + 24 + 16 * low + 8, pair, 8, err));
        if (above == 0)
            return find_in_node(h, ebb_load_bytes(pair, 8), heap, name, length, address, err);
        node = ebb_load_bytes(pair, 8);
    }
}

/* The message has at least n bytes here. */
static enum ebb_status want(const struct data_h5 *h, const struct message *m, size_t n,
                            const char *what, struct ebb_error *err)
{
    return n <= m->held ? EBB_OK : data_corrupt(err, h->file, m->place, "HDF5: a cut %s", what);
}

/* A hard link's address when the message is a link of this name. */
static enum ebb_status link_match(const struct data_h5 *h, const struct message *m,
                                  const char *name, size_t length, uint64_t *address,
                                  struct ebb_error *err)
{
    if (m->held < 2)
        return EBB_OK;
    unsigned flags = m->body[1], type = 0;
    size_t at = 2;
    if (flags & 8 && at < m->held)
        type = m->body[at++];
    at += flags & 4 ? 8 : 0;
    at += flags & 0x10 ? 1 : 0;
    size_t width = (size_t)1 << (flags & 3);
    EBB_TRY(want(h, m, at + width, "link", err));
    uint64_t n = ebb_load_bytes(m->body + at, width);
    at += width;
    if (n > m->held - at || n != length || memcmp(m->body + at, name, length) != 0)
        return EBB_OK;
    if (type != 0)
        return refuse(err, h, "link type", type);
    if (m->held - at - (size_t)n < 8)
        return data_corrupt(err, h->file, m->place, "HDF5: a cut link");
    *address = ebb_load_bytes(m->body + at + n, 8);
    return EBB_OK;
}

/* Header of `name` in the group whose header is at `group`; *address undefined when absent. */
static enum ebb_status find_child(const struct data_h5 *h, uint64_t group, const char *name,
                                  size_t length, uint64_t *address, struct ebb_error *err)
{
    struct walk w;
    struct message m;
    bool found;
    *address = undefined;
    EBB_TRY(walk_init(&w, h, group, err));
    for (;;) {
        EBB_TRY(walk_next(&w, &m, &found, err));
        if (!found || *address != undefined)
            return EBB_OK;
        if (m.type == 0x11 && m.held >= 16)
            EBB_TRY(find_in_table(h, ebb_load_bytes(m.body, 8), ebb_load_bytes(m.body + 8, 8), name,
                                  length, address, err));
        else if (m.type == 6)
            EBB_TRY(link_match(h, &m, name, length, address, err));
        else if (m.type == 2 && m.held >= 18) {
            size_t at = 2 + (m.body[1] & 1 ? 8 : 0);
            if (ebb_load_bytes(m.body + at, 8) != undefined)
                return refuse(err, h, "dense group, link info version", m.body[0]);
        }
    }
}

/* ---- messages of a dataset ---- */

static enum ebb_status read_space(const struct data_h5 *h, const struct message *m,
                                  struct data_h5_dataset *d, struct ebb_error *err)
{
    size_t at = m->held && m->body[0] == 1 ? 8 : 4;
    if (m->held < at || m->body[0] < 1 || m->body[0] > 2)
        return data_corrupt(err, h->file, m->place, "HDF5: a dataspace that is none");
    if (m->body[1] > DATA_MAX_RANK)
        return refuse(err, h, "rank", m->body[1]);
    if (m->body[0] == 2 && m->body[3] == 2)
        return refuse(err, h, "null dataspace version", 2);
    d->rank = m->body[1];
    uint64_t count = 1;
    for (int i = 0; i < d->rank; i++, at += 8) {
        EBB_TRY(want(h, m, at + 8, "dataspace", err));
        d->dims[i] = ebb_load_bytes(m->body + at, 8);
        uint64_t n = d->dims[i] ? d->dims[i] : 1; /* an empty one must not hide the others */
        if (__builtin_mul_overflow(count, n, &count) || count > UINT64_C(1) << 56)
            return data_corrupt(err, h->file, m->place, "HDF5: sizes overflow");
    }
    return EBB_OK;
}

static enum ebb_status read_number(const struct data_h5 *h, const uint8_t *body, size_t held,
                                   uint64_t place, struct data_h5_type *t, struct ebb_error *err)
{
    if (held < 12)
        return data_corrupt(err, h->file, place, "HDF5: a cut datatype");
    unsigned class = body[0] & 15;
    if (class == 8 && held >= 20) { /* an enumeration (h5py's booleans): its base follows */
        EBB_TRY(read_number(h, body + 8, held - 8, place, t, err));
        return t->class == DATA_H5_INTEGER ? EBB_OK : refuse(err, h, "datatype class", 8);
    }
    if (class > 1)
        return refuse(err, h, "datatype class", class);
    t->class = class == 0 ? DATA_H5_INTEGER : DATA_H5_FLOAT;
    t->bytes = (uint32_t)ebb_load_bytes(body + 4, 4);
    t->is_big_endian = body[1] & 1;
    t->is_signed = body[1] & 8;
    uint64_t precision = ebb_load_bytes(body + 10, 2);
    bool is_known = class == 0 ? t->bytes == 1 || t->bytes == 2 || t->bytes == 4 || t->bytes == 8
                               : t->bytes == 2 || t->bytes == 4 || t->bytes == 8;
    if (!is_known || ebb_load_bytes(body + 8, 2) != 0 || precision != 8u * t->bytes)
        return refuse(err, h, "number of bytes", t->bytes);
    return EBB_OK;
}

static enum ebb_status read_type(const struct data_h5 *h, const struct message *m,
                                 struct data_h5_dataset *d, struct ebb_error *err)
{
    EBB_TRY(want(h, m, 8, "datatype", err));
    if ((m->body[0] & 15) != 9)
        return read_number(h, m->body, m->held, m->place, &d->type, err);
    if ((m->body[1] & 15) != 0)
        return refuse(err, h, "string type", 9);
    d->type = (struct data_h5_type){.class = DATA_H5_ROWS, .bytes = 16};
    if (ebb_load_bytes(m->body + 4, 4) != 16)
        return data_corrupt(err, h->file, m->place, "HDF5: variable-length entries of %llu bytes",
                            (unsigned long long)ebb_load_bytes(m->body + 4, 4));
    return read_number(h, m->body + 8, m->held - 8, m->place, &d->base, err);
}

static enum ebb_status read_chunks(const struct data_h5 *h, const struct message *m, size_t at,
                                   int count, size_t width, struct data_h5_dataset *d,
                                   struct ebb_error *err)
{
    if (count < 2 || count > DATA_MAX_RANK + 1)
        return refuse(err, h, "rank of chunks", (unsigned)count);
    if (at + (size_t)count * width > m->held)
        return data_corrupt(err, h->file, m->place, "HDF5: cut chunk sizes");
    d->chunk_bytes = 1;
    for (int i = 0; i < count; i++, at += width) {
        uint64_t n = ebb_load_bytes(m->body + at, width);
        if (i < count - 1)
            d->chunk[i] = n;
        if (n == 0 || __builtin_mul_overflow(d->chunk_bytes, n, &d->chunk_bytes) ||
            d->chunk_bytes > UINT64_C(1) << 32)
            return data_corrupt(err, h->file, m->place, "HDF5: chunks of an impossible size");
    }
    return EBB_OK;
}

static enum ebb_status read_layout4(const struct data_h5 *h, const struct message *m,
                                    struct data_h5_dataset *d, struct ebb_error *err)
{
    EBB_TRY(want(h, m, 6, "layout", err));
    unsigned flags = m->body[2];
    int count = m->body[3];
    size_t width = m->body[4], at = 5;
    if (width < 1 || width > 8)
        return data_corrupt(err, h->file, m->place, "HDF5: chunk sizes of %zu bytes", width);
    EBB_TRY(read_chunks(h, m, at, count, width, d, err));
    at += (size_t)count * width;
    EBB_TRY(want(h, m, at + 1, "layout", err));
    unsigned index = m->body[at++];
    if (index == 1) {
        d->index = DATA_H5_SINGLE;
        if (flags & 2) {
            EBB_TRY(want(h, m, at + 12, "layout", err));
            d->single_bytes = ebb_load_bytes(m->body + at, 8);
            at += 12;
        }
    } else if (index == 2) {
        d->index = DATA_H5_IMPLICIT;
    } else {
        return refuse(err, h, "chunk index", index);
    }
    EBB_TRY(want(h, m, at + 8, "layout", err));
    d->address = ebb_load_bytes(m->body + at, 8);
    return EBB_OK;
}

static enum ebb_status read_layout(const struct data_h5 *h, const struct message *m,
                                   struct data_h5_dataset *d, struct ebb_error *err)
{
    EBB_TRY(want(h, m, 4, "layout", err));
    unsigned version = m->body[0], class = m->body[1];
    if (version != 3 && version != 4)
        return refuse(err, h, "layout version", version);
    if (class == 0) {
        d->layout = DATA_H5_COMPACT;
        d->bytes = ebb_load_bytes(m->body + 2, 2);
        d->address = m->place + 4 - h->base;
        if (d->bytes > m->bytes - 4)
            return data_corrupt(err, h->file, m->place, "HDF5: compact data leave their message");
        return EBB_OK;
    }
    if (class == 1) {
        d->layout = DATA_H5_CONTIGUOUS;
        EBB_TRY(want(h, m, 18, "layout", err));
        d->address = ebb_load_bytes(m->body + 2, 8);
        d->bytes = ebb_load_bytes(m->body + 10, 8);
        return EBB_OK;
    }
    if (class != 2)
        return refuse(err, h, "layout class", class);
    d->layout = DATA_H5_CHUNKED;
    if (version == 4)
        return read_layout4(h, m, d, err);
    d->index = DATA_H5_BTREE;
    EBB_TRY(want(h, m, 11, "layout", err));
    d->address = ebb_load_bytes(m->body + 3, 8);
    return read_chunks(h, m, 11, m->body[2], 4, d, err);
}

static enum ebb_status read_filters(const struct data_h5 *h, const struct message *m,
                                    struct data_h5_dataset *d, struct ebb_error *err)
{
    EBB_TRY(want(h, m, 2, "filter list", err));
    unsigned version = m->body[0], count = m->body[1];
    size_t at = version == 1 ? 8 : 2;
    if (version < 1 || version > 2 || count > DATA_H5_FILTERS)
        return refuse(err, h, "filter list version", version);
    for (unsigned i = 0; i < count; i++) {
        EBB_TRY(want(h, m, at + 8, "filter list", err));
        unsigned id = (unsigned)ebb_load_bytes(m->body + at, 2);
        bool has_name = version == 1 || id >= 256;
        size_t name = has_name ? (size_t)ebb_load_bytes(m->body + at + 2, 2) : 0;
        size_t values = (size_t)ebb_load_bytes(m->body + at + (has_name ? 6 : 4), 2);
        at += has_name ? 8 : 6;
        if (version == 1) {
            name = (name + 7) & ~(size_t)7;
            values += values & 1;
        }
        at += name + 4 * values;
        if (id < 1 || id > 3)
            return refuse(err, h, "filter", id);
        d->filters[i] = (uint16_t)id;
    }
    d->filter_count = (int)count;
    return EBB_OK;
}

static enum ebb_status read_dataset(const struct data_h5 *h, uint64_t header,
                                    struct data_h5_dataset *d, struct ebb_error *err)
{
    struct walk w;
    struct message m;
    static const struct {
        unsigned type;
        enum ebb_status (*read)(const struct data_h5 *h, const struct message *m,
                                struct data_h5_dataset *d, struct ebb_error *err);
    } parts[] = {{1, read_space}, {3, read_type}, {8, read_layout}, {11, read_filters}};
    enum { NEEDED = 7 }; /* all but the filters */
    unsigned seen = 0;
    bool found;
    memset(d, 0, sizeof *d);
    d->header = header;
    EBB_TRY(walk_init(&w, h, header, err));
    for (;;) {
        EBB_TRY(walk_next(&w, &m, &found, err));
        if (!found)
            break;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            if (m.type != parts[i].type || (seen >> i & 1))
                continue;
            EBB_TRY(parts[i].read(h, &m, d, err));
            seen |= 1u << i;
        }
    }
    if ((seen & NEEDED) != NEEDED)
        return data_corrupt(err, h->file, h->base + header, "HDF5: this object is no dataset");
    uint64_t element = d->type.bytes, count = data_h5_count(d);
    if (d->layout != DATA_H5_CHUNKED && d->address != undefined && d->bytes < count * element)
        return data_corrupt(
            err, h->file, h->base + header, "HDF5: %llu elements of %llu bytes in %llu bytes",
            (unsigned long long)count, (unsigned long long)element, (unsigned long long)d->bytes);
    uint64_t chunk = element;
    for (int i = 0; d->layout == DATA_H5_CHUNKED && i < d->rank; i++)
        chunk *= d->chunk[i] ? d->chunk[i] : 1;
    if (d->layout == DATA_H5_CHUNKED && (d->rank == 0 || chunk != d->chunk_bytes))
        return data_corrupt(err, h->file, h->base + header,
                            "HDF5: chunks do not fit the dataset's rank or type");
    return EBB_OK;
}

static enum ebb_status find_object(const struct data_h5 *h, const char *path, uint64_t *address,
                                   struct ebb_error *err)
{
    *address = h->root;
    for (const char *at = path; *at;) {
        at += strspn(at, "/");
        size_t n = strcspn(at, "/");
        if (n == 0)
            break;
        if (n > NAME_BYTES)
            return ebb_fail(err, EBB_EINPUT, "%s: the name %.40s... is too long", h->file->path,
                            at);
        EBB_TRY(find_child(h, *address, at, n, address, err));
        if (*address == undefined)
            return ebb_fail(err, EBB_EINPUT, "%s: no dataset %s: %.*s is not there", h->file->path,
                            path, (int)n, at);
        at += n;
    }
    return EBB_OK;
}

enum ebb_status data_h5_find(const struct data_h5 *h, const char *path, struct data_h5_dataset *d,
                             struct ebb_error *err)
{
    uint64_t address;
    EBB_TRY(find_object(h, path, &address, err));
    enum ebb_status status = read_dataset(h, address, d, err);
    return status == EBB_OK ? EBB_OK : ebb_context(err, status, "dataset %s", path);
}

bool data_h5_has(const struct data_h5 *h, const char *path)
{
    uint64_t address;
    return find_object(h, path, &address, NULL) == EBB_OK;
}

uint64_t data_h5_count(const struct data_h5_dataset *d)
{
    uint64_t n = 1;
    for (int i = 0; i < d->rank; i++)
        n *= d->dims[i];
    return n;
}

uint64_t data_h5_row_count(const struct data_h5_dataset *d)
{
    uint64_t n = 1;
    for (int i = 1; i < d->rank; i++)
        n *= d->dims[i];
    return n;
}
