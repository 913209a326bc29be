/* library.h - libraries that are loaded when first needed.
 *
 * Every command pays at its start for what the program is linked with; libcurl and libarchive with
 * the 33 libraries behind them double that (16 to 33 ms of processor time), and most commands need
 * neither. */
#ifndef EBB_BASE_LIBRARY_H
#define EBB_BASE_LIBRARY_H

#include "base/status.h"

#define EBB_CURL_FILE "libcurl.so.4"
#define EBB_CURL_PACKAGE "libcurl4"
#define EBB_ARCHIVE_FILE "libarchive.so.13"
#define EBB_ARCHIVE_PACKAGE "libarchive13"

struct ebb_library_call {
    const char *name;
    void *place; /* of a pointer to a function of that type */
};

/* Fill every place; the library stays loaded. EBB_EUNSUPPORTED: it is not there (err names the
 * package), or lacks one of the calls. */
enum ebb_status ebb_library_load(const char *file, const char *package,
                                 const struct ebb_library_call *calls, size_t count,
                                 struct ebb_error *err);

#endif
