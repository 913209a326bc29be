/* map.c - linear probing, at most 5/8 full, removal by shifting back (no tombstones). */
#include "base/map.h"

#include <string.h>

#include "base/hash.h"
#include "base/heap.h"

enum { MAP_FIRST = 16 };

/* Finalizer of SplitMix64: keys are often small consecutive numbers. */
static uint64_t map_hash(uint64_t key)
{
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
    return key ^ (key >> 31);
}

static bool map_is_full(size_t count, size_t capacity)
{
    return count + 1 > capacity / 8 * 5;
}

void ebb_map_init(struct ebb_map *map)
{
    *map = (struct ebb_map){0};
}

void ebb_map_fini(struct ebb_map *map)
{
    ebb_free(map->keys);
    ebb_free(map->values);
    ebb_free(map->used);
    *map = (struct ebb_map){0};
}

/* Slot of key, or the free slot where it would go. capacity > 0 and one slot is free. */
static size_t map_find(const struct ebb_map *map, uint64_t key)
{
    size_t mask = map->capacity - 1, i = map_hash(key) & mask;
    while (map->used[i] && map->keys[i] != key)
        i = (i + 1) & mask;
    return i;
}

static enum ebb_status map_rehash(struct ebb_map *map, struct ebb_error *err)
{
    struct ebb_map grown = {0};
    if (map->capacity == 0)
        grown.capacity = MAP_FIRST;
    else if (!ebb_mul_size(map->capacity, 2, &grown.capacity))
        return ebb_no_memory(err, SIZE_MAX);
    enum ebb_status status = ebb_new(&grown.keys, grown.capacity, sizeof *grown.keys, err);
    EBB_THEN(status, ebb_new(&grown.values, grown.capacity, sizeof *grown.values, err));
    EBB_THEN(status, ebb_new(&grown.used, grown.capacity, sizeof *grown.used, err));
    if (status != EBB_OK) {
        ebb_map_fini(&grown);
        return status;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (!map->used[i])
            continue;
        size_t to = map_find(&grown, map->keys[i]);
        grown.used[to] = 1;
        grown.keys[to] = map->keys[i];
        grown.values[to] = map->values[i];
    }
    grown.count = map->count;
    ebb_map_fini(map);
    *map = grown;
    return EBB_OK;
}

enum ebb_status ebb_map_put(struct ebb_map *map, uint64_t key, uint64_t value,
                            struct ebb_error *err)
{
    if (map_is_full(map->count, map->capacity)) {
        /* Overwriting needs no room, so a full map still takes it when memory is out. */
        if (map->capacity > 0) {
            size_t at = map_find(map, key);
            if (map->used[at]) {
                map->values[at] = value;
                return EBB_OK;
            }
        }
        EBB_TRY(map_rehash(map, err));
    }
    size_t i = map_find(map, key);
    if (!map->used[i]) {
        map->used[i] = 1;
        map->keys[i] = key;
        map->count++;
    }
    map->values[i] = value;
    return EBB_OK;
}

bool ebb_map_get(const struct ebb_map *map, uint64_t key, uint64_t *value)
{
    if (map->count == 0)
        return false;
    size_t i = map_find(map, key);
    if (!map->used[i])
        return false;
    if (value)
        *value = map->values[i];
    return true;
}

bool ebb_map_remove(struct ebb_map *map, uint64_t key)
{
    if (map->count == 0)
        return false;
    size_t mask = map->capacity - 1, hole = map_find(map, key);
    if (!map->used[hole])
        return false;
    /* Move back every follower whose home is not between the hole and itself. */
    for (size_t i = (hole + 1) & mask; map->used[i]; i = (i + 1) & mask) {
        size_t home = map_hash(map->keys[i]) & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        map->keys[hole] = map->keys[i];
        map->values[hole] = map->values[i];
        hole = i;
    }
    map->used[hole] = 0;
    map->count--;
    return true;
}

void ebb_strmap_init(struct ebb_strmap *map)
{
    *map = (struct ebb_strmap){0};
}

void ebb_strmap_fini(struct ebb_strmap *map)
{
    ebb_arena_fini(&map->keys);
    ebb_free(map->entries);
    *map = (struct ebb_strmap){0};
}

static struct ebb_strmap_entry *strmap_find(const struct ebb_strmap *map, const char *key,
                                            size_t length, uint64_t hash)
{
    size_t mask = map->capacity - 1, i = hash & mask;
    for (;; i = (i + 1) & mask) {
        struct ebb_strmap_entry *e = &map->entries[i];
        if (!e->key || (e->hash == hash && e->length == length &&
                        (length == 0 || memcmp(e->key, key, length) == 0)))
            return e;
    }
}

static enum ebb_status strmap_rehash(struct ebb_strmap *map, struct ebb_error *err)
{
    size_t capacity = MAP_FIRST;
    if (map->capacity > 0 && !ebb_mul_size(map->capacity, 2, &capacity))
        return ebb_no_memory(err, SIZE_MAX);
    struct ebb_strmap_entry *entries;
    EBB_TRY(ebb_new(&entries, capacity, sizeof *entries, err));
    for (size_t i = 0; i < map->capacity; i++) {
        if (!map->entries[i].key)
            continue;
        size_t to = map->entries[i].hash & (capacity - 1);
        while (entries[to].key)
            to = (to + 1) & (capacity - 1);
        entries[to] = map->entries[i];
    }
    ebb_free(map->entries);
    map->entries = entries;
    map->capacity = capacity;
    return EBB_OK;
}

enum ebb_status ebb_strmap_put(struct ebb_strmap *map, const char *key, size_t length,
                               uint64_t value, struct ebb_error *err)
{
    if (map_is_full(map->count, map->capacity))
        EBB_TRY(strmap_rehash(map, err));
    uint64_t hash = ebb_hash64(key, length);
    struct ebb_strmap_entry *e = strmap_find(map, key, length, hash);
    if (!e->key) {
        char *copy = ebb_arena_strndup(&map->keys, key, length);
        if (!copy)
            return ebb_no_memory(err, length);
        *e = (struct ebb_strmap_entry){.key = copy, .length = length, .hash = hash};
        map->count++;
    }
    e->value = value;
    return EBB_OK;
}

bool ebb_strmap_get(const struct ebb_strmap *map, const char *key, size_t length, uint64_t *value)
{
    if (map->count == 0)
        return false;
    struct ebb_strmap_entry *e = strmap_find(map, key, length, ebb_hash64(key, length));
    if (!e->key)
        return false;
    if (value)
        *value = e->value;
    return true;
}
