/* names.h - the names in a folder, sorted. */
#ifndef EBB_BASE_NAMES_H
#define EBB_BASE_NAMES_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct ebb_names { /* {0}: none */
    char **items;  /* owned, as their texts are */
    size_t count, capacity;
};

/* Is an entry of the folder wanted? */
typedef bool (*ebb_names_want)(const void *context, DIR *folder, const struct dirent *entry);

/* Add what is wanted of a folder (NULL: everything) but "." and ".."; the new names are sorted. Takes
 * the folder over. */
enum ebb_status ebb_names_read(struct ebb_names *names, DIR *take_folder, ebb_names_want want,
                               const void *context, struct ebb_error *err);
enum ebb_status ebb_names_add(struct ebb_names *names, const char *name, struct ebb_error *err);
void ebb_names_fini(struct ebb_names *names);

/* Does a name end so, with something before it? Capitals count as small letters. */
bool ebb_name_ends(const char *name, const char *suffix);

#endif
