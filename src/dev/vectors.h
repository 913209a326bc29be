/* vectors.h - runs reference cases (tests/golden/search and other folders of the same format).
 *
 * A folder holds JSON files, each a list of cases with inputs and `expected`. For every case the
 * same thing is computed with this program's own code, in the shape of `expected`, and compared:
 * integers, text and counts exactly, hyperparameter values to 1e-12 relative (pow differs in the
 * last bit between C libraries). A file or case nobody knows is failed, never skipped. */
#ifndef EBB_DEV_VECTORS_H
#define EBB_DEV_VECTORS_H

#include <stddef.h>

#include "base/doc.h"
#include "base/status.h"
#include "base/str.h"

struct dev_vectors_report {
    size_t passed, failed, skipped;
    struct ebb_str log;  /* one line per failed case: "file: case: reason" */
    struct ebb_str dump; /* when wants_dump: one JSON object per line and case:
                            {"file":..., "index":..., "name":..., "passed":..., "computed":...} */
    bool wants_dump;
    const char *file; /* borrowed: name of the file being run, for both texts */
};

void dev_vectors_init(struct dev_vectors_report *report);
void dev_vectors_fini(struct dev_vectors_report *report);

/* Count one case. `name` may be NULL (then the index names it); `computed` (what this program came
 * to, in the shape of `expected`) may be NULL when there was nothing to compute. */
void dev_vectors_pass(struct dev_vectors_report *report, size_t index, const char *name,
                      const struct ebb_doc_node *computed);
void dev_vectors_fail(struct dev_vectors_report *report, size_t index, const char *name,
                      const struct ebb_doc_node *computed, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Every file of one kind is a list of cases; a runner judges them all. config_validation.json is
 * judged in vectors_config.c. */
void dev_vectors_config(const struct ebb_doc_node *root, struct dev_vectors_report *report);

/* One file by its name (path's last part decides the kind), or every *.json file of a folder in
 * byte order of the names. The status is about reading; a failed case is no error. */
enum ebb_status dev_vectors_run_file(const char *path, struct dev_vectors_report *report,
                                     struct ebb_error *err);
enum ebb_status dev_vectors_run_folder(const char *folder, struct dev_vectors_report *report,
                                       struct ebb_error *err);

#endif
