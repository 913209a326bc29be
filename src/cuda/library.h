/* library.h - NVIDIA's libraries, opened when first needed, never linked. Private to cuda. */
#ifndef EBB_CUDA_LIBRARY_H
#define EBB_CUDA_LIBRARY_H

#include "base/library.h"

/* Opens `file` as the system finds it, then in the folders of EBB_CUDA_PATH (separated by ':'; a Python wheel's, say),
 * then where the toolkit is usually installed; fills every place. EBB_EUNSUPPORTED: says what is missing, where it was
 * looked for and what to do. */
enum ebb_status cuda_library_load(const char *file, const char *what,
                                  const struct ebb_library_call *calls, size_t count,
                                  struct ebb_error *err);

#endif
