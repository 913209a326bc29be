/* memory.h - private to device: the tiers of this machine, for devices whose memory is the host's.
 *
 * Tier 0 and the host tier are mapped, not touched: pages that are never written cost nothing. The
 * file tier is a file without a name, read and written past the page cache (O_DIRECT where the file
 * system has it) through the buffer of the thread that copies; blocks at the ends of a range that
 * belong to others too are read before they are written. */
#ifndef EBB_DEVICE_MEMORY_H
#define EBB_DEVICE_MEMORY_H

#include "device/threads.h"

struct device_memory {
    unsigned char *slab[DEVICE_TIERS]; /* T0, host */
    uint64_t bytes[DEVICE_TIERS];
    int fd; /* of the file tier; -1: none */
};

void device_memory_init(struct device_memory *m);
void device_memory_fini(struct device_memory *m);
/* file_path: folder of the file tier; NULL or "": the system's temporary one. */
enum ebb_status device_memory_reserve(struct device_memory *m, enum device_tier tier,
                                      uint64_t bytes, const char *file_path, struct ebb_error *err);
/* EBB_EDEVICE when the ranges of a copy leave the slabs. */
enum ebb_status device_memory_check(const struct device_memory *m, const struct device_item *copy,
                                    struct ebb_error *err);
/* Copies now; buffer: DEVICE_BUFFER_BYTES, needed for the file tier only. */
enum ebb_status device_memory_copy(const struct device_memory *m, unsigned char *buffer,
                                   const struct device_item *copy, struct ebb_error *err);

/* Shared by devices with links: what a copy takes by the table. */
uint64_t device_link_ns(const struct device_config *config, enum device_tier to,
                        enum device_tier from, uint64_t bytes);

/* Memory for write and read where any memory will do. */
void *device_host_take(struct device *device, uint64_t bytes);
void device_host_give(struct device *device, void *host);

#endif
