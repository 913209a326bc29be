/* heap.h - long-lived host memory, with fault injection.
 *
 * Raw malloc is banned outside this file's implementation. Every function returns NULL when memory
 * is out (or when a test asked this very call to fail); sizes of arrays are multiplied with
 * overflow check. Tests: ebb_heap_fail_at(n) makes the n-th following allocation fail (1 = the next
 * one, 0 = off); ebb_heap_live() counts blocks not yet freed, so a test can prove that nothing
 * leaks. */
#ifndef EBB_BASE_HEAP_H
#define EBB_BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

void *ebb_alloc(size_t bytes);                /* uninitialised; bytes 0 gives a unique pointer */
void *ebb_calloc(size_t count, size_t bytes); /* zeroed */
void *ebb_realloc(void *p, size_t count, size_t bytes); /* p stays valid on failure */
void *ebb_alloc_aligned(size_t alignment, size_t bytes);
void ebb_free(void *p); /* NULL is fine */
char *ebb_strdup(const char *s);
char *ebb_strndup(const char *s, size_t n);

/* *pointer = `count` zeroed elements of `bytes`; pointer is the address of a pointer, as for ebb_grow:
 *     EBB_TRY(ebb_new(&p->steps, n, sizeof *p->steps, err));
 * On failure it is NULL, so that one clean-up may free all that an object owns. */
enum ebb_status ebb_new(void *pointer, size_t count, size_t bytes, struct ebb_error *err);
/* *copy = an owned copy of the text. */
enum ebb_status ebb_copy_text(char **copy, const char *text, struct ebb_error *err);

/* Grow *data so that it holds at least `need` elements of `bytes`; capacity doubles. Typical use:
 *     EBB_TRY(ebb_grow(&v->items, &v->capacity, v->count + 1, sizeof *v->items, err));           */
enum ebb_status ebb_grow_more(void *data, size_t *capacity, size_t need, size_t bytes,
                              struct ebb_error *err);
static inline enum ebb_status ebb_grow(void *data, size_t *capacity, size_t need, size_t bytes,
                                       struct ebb_error *err)
{
    return need <= *capacity ? EBB_OK : ebb_grow_more(data, capacity, need, bytes, err);
}

/* Two objects of `bytes` change their contents. */
void ebb_swap(void *a, void *b, size_t bytes);

/* What is free goes back to the system: where much was taken for a while. */
void ebb_heap_trim(void);

void ebb_heap_fail_at(uint64_t nth);
uint64_t ebb_heap_live(void);  /* blocks allocated and not freed */
uint64_t ebb_heap_calls(void); /* allocations so far */

/* Overflow-checked size arithmetic: false on overflow, *out untouched then. */
static inline int ebb_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

#endif
