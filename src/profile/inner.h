/* inner.h - private: a profile in memory. */
#ifndef EBB_PROFILE_INNER_H
#define EBB_PROFILE_INNER_H

#include "base/arena.h"
#include "base/str.h"
#include "profile/profile.h"

struct profile_fact {
    const char *name;
    uint64_t value;
};

struct profile {
    struct ebb_arena arena; /* texts */
    const char *kind;
    struct profile_link links[PROFILE_LINKS];
    struct profile_fact *facts; /* owned, as are the other two */
    struct profile_fit *fits;
    struct profile_row *rows; /* all three are sorted by profile_finish */
    size_t fact_count, fact_capacity, fit_count, fit_capacity, row_count, row_capacity;
};

const char *profile_text(struct profile *p, const char *text, size_t length); /* NULL: no memory */
/* The text of a file (F3). */
enum ebb_status profile_spell(const struct profile *p, struct ebb_str *out, struct ebb_error *err);

#endif
