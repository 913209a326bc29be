/* yaml_scan.h - a cheap look at YAML text before libfyaml sees it. Private to base.
 *
 * libfyaml reads a whole flow collection ([...], {...}) into tokens before it gives the first
 * event, so the guards on events come too late for one of 256 KiB (measured: 90 ms). This scan
 * knows just enough of the language - comments, quotes, block scalars - to count open brackets and
 * commas of flow collections, in one pass of about 0.5 ms. In doubt it counts less. */
#ifndef EBB_BASE_YAML_SCAN_H
#define EBB_BASE_YAML_SCAN_H

#include <stddef.h>
#include <stdint.h>

struct ebb_yaml_scan {
    size_t depth;  /* deepest nesting of flow collections */
    size_t values; /* commas and colons of flow collections: no more than its values and keys */
    uint32_t line, column; /* where a limit was passed */
};

/* Stops early when depth or values pass their limit. */
void ebb_yaml_scan(struct ebb_yaml_scan *scan, const char *bytes, size_t length, size_t max_depth,
                   size_t max_values);

#endif
