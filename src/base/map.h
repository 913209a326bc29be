/* map.h - hash maps: 64-bit key to 64-bit value, and text to 64-bit value.
 *
 * Open addressing, power-of-two capacity. Iteration order is unspecified: no decision may depend on
 * it. */
#ifndef EBB_BASE_MAP_H
#define EBB_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

struct ebb_map {
    uint64_t *keys, *values;
    uint8_t *used;
    size_t count, capacity;
};

void ebb_map_init(struct ebb_map *map);
void ebb_map_fini(struct ebb_map *map);
enum ebb_status ebb_map_put(struct ebb_map *map, uint64_t key, uint64_t value,
                            struct ebb_error *err);
bool ebb_map_get(const struct ebb_map *map, uint64_t key, uint64_t *value); /* value may be NULL */
bool ebb_map_remove(struct ebb_map *map, uint64_t key);

struct ebb_strmap_entry {
    const char *key; /* the map's copy, not necessarily terminated: use length */
    size_t length;
    uint64_t hash, value;
};

struct ebb_strmap {
    struct ebb_strmap_entry *entries;
    size_t count, capacity;
    struct ebb_arena keys;
};

void ebb_strmap_init(struct ebb_strmap *map);
void ebb_strmap_fini(struct ebb_strmap *map);
/* Insert or overwrite; the key bytes are copied. */
enum ebb_status ebb_strmap_put(struct ebb_strmap *map, const char *key, size_t length,
                               uint64_t value, struct ebb_error *err);
bool ebb_strmap_get(const struct ebb_strmap *map, const char *key, size_t length, uint64_t *value);

#endif
