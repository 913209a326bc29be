/* tidy.h - read before every file by clang-tidy (tools/tidy), never by a compiler: a failure is a
 * failure. The analyzer looks at one file at a time and would else follow a path on which ebb_fail
 * returns EBB_OK and the outputs of the call are not set. */
#include "base/status.h"

#define ebb_fail(err, status, ...) ((ebb_fail)(err, status, __VA_ARGS__), (status))
#define ebb_no_memory(err, bytes) ((ebb_no_memory)(err, bytes), EBB_ENOMEM)
