/* arena.c - a list of blocks; the newest has the free part.
 *
 * Blocks double from 4 KiB to 1 MiB, so a tiny request costs one small block and a large trace few
 * calls. A request that would waste most of a block gets one of its own, linked behind the head. */
#include "base/arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"

enum { ARENA_ALIGN = 16, ARENA_FIRST = 4096, ARENA_LARGEST = 1 << 20 };

struct ebb_arena_block {
    struct ebb_arena_block *older;
    size_t bytes; /* of the part behind this header */
};

static_assert(sizeof(struct ebb_arena_block) % ARENA_ALIGN == 0, "blocks keep alignment");

void ebb_arena_init(struct ebb_arena *arena)
{
    *arena = (struct ebb_arena){0};
}

static void arena_free_list(struct ebb_arena_block *block)
{
    while (block) {
        struct ebb_arena_block *older = block->older;
        ebb_free(block);
        block = older;
    }
}

struct ebb_arena_end {
    struct ebb_arena_end *older;
    void (*end)(void *context);
    void *context;
};

static void arena_call_ends(struct ebb_arena *arena)
{
    for (struct ebb_arena_end *e = arena->ends; e; e = e->older)
        e->end(e->context);
    arena->ends = NULL;
}

bool ebb_arena_defer(struct ebb_arena *arena, void (*end)(void *context), void *context)
{
    struct ebb_arena_end *e = ebb_arena_alloc(arena, sizeof *e);
    if (!e)
        return false;
    *e = (struct ebb_arena_end){arena->ends, end, context};
    arena->ends = e;
    return true;
}

void ebb_arena_fini(struct ebb_arena *arena)
{
    arena_call_ends(arena);
    arena_free_list(arena->head);
    *arena = (struct ebb_arena){0};
}

void ebb_arena_reset(struct ebb_arena *arena)
{
    arena_call_ends(arena);
    struct ebb_arena_block *block = arena->head;
    arena->short_of = 0;
    if (!block)
        return;
    arena_free_list(block->older);
    block->older = NULL;
    arena->at = (char *)(block + 1);
    arena->end = arena->at + block->bytes;
    arena->total_bytes = block->bytes;
}

static struct ebb_arena_block *arena_new_block(struct ebb_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - sizeof(struct ebb_arena_block))
        return NULL;
    struct ebb_arena_block *block = ebb_alloc(sizeof *block + bytes);
    if (!block)
        return NULL;
    block->bytes = bytes;
    arena->total_bytes += bytes;
    return block;
}

/* Slow path of alloc: `bytes` is rounded up already. */
static void *arena_alloc_block(struct ebb_arena *arena, size_t bytes)
{
    size_t next = ARENA_FIRST;
    while (next < arena->total_bytes && next < ARENA_LARGEST)
        next *= 2;
    if (arena->head && bytes > next / 4) {
        struct ebb_arena_block *own = arena_new_block(arena, bytes);
        if (!own)
            return NULL;
        own->older = arena->head->older;
        arena->head->older = own;
        return own + 1;
    }
    struct ebb_arena_block *block = arena_new_block(arena, bytes > next ? bytes : next);
    if (!block)
        return NULL;
    block->older = arena->head;
    arena->head = block;
    arena->at = (char *)(block + 1) + bytes;
    arena->end = (char *)(block + 1) + block->bytes;
    return block + 1;
}

/* Keep in mind that there is not enough memory; returns NULL. */
static void *arena_refuse(struct ebb_arena *arena, size_t bytes)
{
    if (arena->short_of == 0)
        arena->short_of = bytes;
    return NULL;
}

void *ebb_arena_alloc(struct ebb_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - ARENA_ALIGN)
        return arena_refuse(arena, bytes);
    /* Zero bytes still get an address of their own. */
    bytes = bytes ? (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN : ARENA_ALIGN;
    if ((size_t)(arena->end - arena->at) < bytes) {
        void *made = arena_alloc_block(arena, bytes);
        return made ? made : arena_refuse(arena, bytes);
    }
    void *p = arena->at;
    arena->at += bytes;
    return p;
}

enum ebb_status ebb_arena_status(const struct ebb_arena *arena, struct ebb_error *err)
{
    return arena->short_of ? ebb_no_memory(err, arena->short_of) : EBB_OK;
}

void *ebb_arena_calloc(struct ebb_arena *arena, size_t count, size_t bytes)
{
    size_t total;
    if (!ebb_mul_size(count, bytes, &total))
        return arena_refuse(arena, SIZE_MAX);
    void *p = ebb_arena_alloc(arena, total);
    return p ? memset(p, 0, total) : NULL;
}

char *ebb_arena_strndup(struct ebb_arena *arena, const char *s, size_t n)
{
    if (n == SIZE_MAX)
        return NULL;
    char *copy = ebb_arena_alloc(arena, n + 1);
    if (!copy)
        return NULL;
    if (n)
        memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *ebb_arena_printf(struct ebb_arena *arena, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    char *text = NULL;
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n >= 0 && (text = ebb_arena_alloc(arena, (size_t)n + 1)))
        vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    return text;
}
