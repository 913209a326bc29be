/* status.h - failure is a value.
 *
 * A function that can fail returns enum ebb_status and takes struct ebb_error *err last (may be
 * NULL: then only the code is returned). The message says what was attempted, on what, with which
 * numbers. On failure outputs are untouched and nothing leaks. Library code never prints or exits.
 */
#ifndef EBB_BASE_STATUS_H
#define EBB_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#define EBB_STATUS_LIST(X)                                                                         \
    X(OK, "ok")                                                                                    \
    X(EINPUT, "invalid input")            /* a file, option or value the user gave is wrong */     \
    X(ENOMEM, "out of memory")            /* host memory of the process itself */                  \
    X(EBUDGET, "does not fit the budget") /* a normal result */                                    \
    X(EINFEASIBLE, "infeasible")          /* proved or decided: no answer exists */                \
    X(ELIMIT, "limit exceeded")           /* a stated guard: size, depth, thrash, time */          \
    X(EIO, "input/output error")                                                                   \
    X(EFULL, "no room left on the disk") /* passes when somebody makes room: wait, try again */    \
    X(ECORRUPT, "corrupt data")          /* checksum, magic or invariant of a file */              \
    X(EUNSUPPORTED, "not supported by this build")                                                 \
    X(ECANCELED, "canceled")                                                                       \
    X(EDEVICE, "device failure")                                                                   \
    X(EINTERNAL, "internal error") /* our own bug, reported instead of undefined */

enum ebb_status {
#define X(name, text) EBB_##name,
    EBB_STATUS_LIST(X)
#undef X
};

struct ebb_error {
    enum ebb_status status;
    char message[1024]; /* always terminated; long messages are cut with "..." */
};

const char *ebb_status_text(enum ebb_status status);

/* Fill err (if not NULL) and return status, so that `return ebb_fail(err, EBB_EIO, "...", ...)`
 * works. */
enum ebb_status ebb_fail(struct ebb_error *err, enum ebb_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "context: " before an existing message when passing it upward; returns err->status. */
enum ebb_status ebb_context(struct ebb_error *err, enum ebb_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What an errno value of reading or writing files is: ENOMEM, EFULL or EIO. */
enum ebb_status ebb_errno_status(int code);

enum ebb_status ebb_no_memory(struct ebb_error *err, size_t bytes);

/* The next of several steps that share a clean-up: done when all before it went well. */
#define EBB_THEN(status, ...)                                                                      \
    do {                                                                                           \
        if ((status) == EBB_OK)                                                                    \
            (status) = (__VA_ARGS__);                                                              \
    } while (0)

/* The end of a function that makes an object: all went well, and it is the caller's, or it goes. A
 * value; `status` is a variable, it is looked at twice:
 *     return EBB_HAND_OUT(status, program, p, exec_program_destroy);                              */
#define EBB_HAND_OUT(status, out, object, destroy)                                                 \
    ((status) == EBB_OK ? (void)(*(out) = (object)) : destroy(object), (status))

/* The only macro that returns. */
#define EBB_TRY(expr)                                                                              \
    do {                                                                                           \
        enum ebb_status ebb_try_status_ = (expr);                                                  \
        if (ebb_try_status_ != EBB_OK)                                                             \
            return ebb_try_status_;                                                                \
    } while (0)

#endif
