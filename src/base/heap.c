/* heap.c - the only caller of malloc.
 *
 * The three counters below are the one mutable global state of the tree: they only observe (tests
 * read them) or fail a call on a test's order; no result depends on them. Relaxed order is enough,
 * each counter stands alone. */
#include "base/heap.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint_fast64_t heap_live;
static atomic_uint_fast64_t heap_calls;
static atomic_uint_fast64_t heap_countdown; /* 0 = off, 1 = the next call fails */

/* Count one call; true when a test wants exactly this one to fail. */
static bool heap_call_fails(void)
{
    atomic_fetch_add_explicit(&heap_calls, 1, memory_order_relaxed);
    uint_fast64_t left = atomic_load_explicit(&heap_countdown, memory_order_relaxed);
    while (left > 0) {
        if (atomic_compare_exchange_weak_explicit(&heap_countdown, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return left == 1;
    }
    return false;
}

static void *heap_count_block(void *p)
{
    if (p)
        atomic_fetch_add_explicit(&heap_live, 1, memory_order_relaxed);
    return p;
}

void *ebb_alloc(size_t bytes)
{
    if (heap_call_fails())
        return NULL;
    return heap_count_block(malloc(bytes ? bytes : 1));
}

void *ebb_calloc(size_t count, size_t bytes)
{
    size_t total;
    if (heap_call_fails() || !ebb_mul_size(count, bytes, &total))
        return NULL;
    return heap_count_block(calloc(total ? total : 1, 1));
}

void *ebb_realloc(void *p, size_t count, size_t bytes)
{
    size_t total;
    if (heap_call_fails() || !ebb_mul_size(count, bytes, &total))
        return NULL;
    void *q = realloc(p, total ? total : 1);
    return p ? q : heap_count_block(q);
}

void *ebb_alloc_aligned(size_t alignment, size_t bytes)
{
    if (heap_call_fails())
        return NULL;
    if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    void *p = NULL;
    if (posix_memalign(&p, alignment, bytes ? bytes : 1) != 0)
        return NULL;
    return heap_count_block(p);
}

void ebb_free(void *p)
{
    if (!p)
        return;
    atomic_fetch_sub_explicit(&heap_live, 1, memory_order_relaxed);
    free(p);
}

char *ebb_strndup(const char *s, size_t n)
{
    size_t length = strnlen(s, n);
    char *copy = ebb_alloc(length + 1);
    if (!copy)
        return NULL;
    memcpy(copy, s, length);
    copy[length] = '\0';
    return copy;
}

char *ebb_strdup(const char *s)
{
    return ebb_strndup(s, SIZE_MAX);
}

enum ebb_status ebb_new(void *pointer, size_t count, size_t bytes, struct ebb_error *err)
{
    size_t total = SIZE_MAX;
    void *made = ebb_calloc(count ? count : 1, bytes);
    memcpy(pointer, &made, sizeof made);
    (void)ebb_mul_size(count, bytes, &total);
    return made ? EBB_OK : ebb_no_memory(err, total);
}

enum ebb_status ebb_copy_text(char **copy, const char *text, struct ebb_error *err)
{
    *copy = ebb_strdup(text);
    return *copy ? EBB_OK : ebb_no_memory(err, strlen(text) + 1);
}

enum ebb_status ebb_grow_more(void *data, size_t *capacity, size_t need, size_t bytes,
                              struct ebb_error *err)
{
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted < need) {
        if (!ebb_mul_size(wanted, 2, &wanted))
            wanted = need;
    }
    /* `data` is the address of a pointer to any object type: read and written by memcpy. */
    void *old;
    memcpy(&old, data, sizeof old);
    void *grown = ebb_realloc(old, wanted, bytes);
    if (!grown) {
        size_t total = SIZE_MAX;
        (void)ebb_mul_size(wanted, bytes, &total);
        return ebb_no_memory(err, total);
    }
    memcpy(data, &grown, sizeof grown);
    *capacity = wanted;
    return EBB_OK;
}

void ebb_heap_fail_at(uint64_t nth)
{
    atomic_store_explicit(&heap_countdown, nth, memory_order_relaxed);
}

uint64_t ebb_heap_live(void)
{
    return atomic_load_explicit(&heap_live, memory_order_relaxed);
}

uint64_t ebb_heap_calls(void)
{
    return atomic_load_explicit(&heap_calls, memory_order_relaxed);
}

void ebb_heap_trim(void)
{
    (void)malloc_trim(0);
}

void ebb_swap(void *a, void *b, size_t bytes)
{
    unsigned char *x = a, *y = b, part[256];
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < sizeof part ? bytes - at : sizeof part;
        memcpy(part, x + at, n);
        memcpy(x + at, y + at, n);
        memcpy(y + at, part, n);
    }
}
