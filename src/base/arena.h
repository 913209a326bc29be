/* arena.h - memory that dies together: a trace, a plan, a config, a request.
 *
 * Name arenas for their lifetime (step_arena, doc_arena). Not thread-safe; one owner. Blocks come
 * from heap.h, so fault injection covers arenas as well. */
#ifndef EBB_BASE_ARENA_H
#define EBB_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct ebb_arena_block;
struct ebb_arena_end;

struct ebb_arena {
    struct ebb_arena_block *head; /* newest block */
    char *at, *end;               /* free part of the newest block */
    size_t total_bytes;           /* sum of block sizes */
    size_t short_of;              /* bytes of the first request that failed; 0: none has */
    struct ebb_arena_end *ends;   /* what ends with it, the newest first */
};

void ebb_arena_init(struct ebb_arena *arena);
void ebb_arena_fini(struct ebb_arena *arena);  /* frees everything; init again to reuse */
void ebb_arena_reset(struct ebb_arena *arena); /* as fini, keeps the newest block for reuse */

/* 16-byte aligned; NULL when memory is out. */
void *ebb_arena_alloc(struct ebb_arena *arena, size_t bytes);
void *ebb_arena_calloc(struct ebb_arena *arena, size_t count, size_t bytes);
char *ebb_arena_strndup(struct ebb_arena *arena, const char *s, size_t n);
char *ebb_arena_printf(struct ebb_arena *arena, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* end(context) is called when the arena ends or is reset: what is open (a mapped file) and lives as
 * long as the memory. false: memory is out, and nobody will call it. */
bool ebb_arena_defer(struct ebb_arena *arena, void (*end)(void *context), void *context);

/* ENOMEM when a request since init or reset got NULL: an object takes all its arrays, then asks
 * once. */
enum ebb_status ebb_arena_status(const struct ebb_arena *arena, struct ebb_error *err);

#endif
