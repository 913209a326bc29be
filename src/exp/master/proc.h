/* proc.h - trial processes: starting, watching, finding again, ending with all they started.
 *
 * A trial leads a process group of its own. It is known by its allocation, which stands in its
 * environment: so a next master finds it, and everything it left behind, without having been told a
 * number that may have been reused. Private to exp/master. */
#ifndef EBB_EXP_MASTER_PROC_H
#define EBB_EXP_MASTER_PROC_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"
#include "base/str.h"
#include "exp/config/config.h"

struct exp_proc {
    pid_t pid;
    int fd;        /* pidfd: readable when the process is gone; -1 = none */
    bool is_child; /* its exit status can be had */
};

struct exp_spawn {
    char *const *argv, *const *envp;
    const char *work_dir;
    int log; /* becomes standard output and error */
    bool has_cpus;
    cpu_set_t cpus;
    uint64_t memory_bytes; /* RLIMIT_DATA; 0 = none */
    const struct exp_bind_mount *mounts;
    size_t mount_count;
    int64_t shm_bytes; /* a /dev/shm of its own, of this size; < 0 = the machine's */
};

/* EBB_EINPUT: the program cannot be run (err says why); EBB_EIO: no process now, try later. */
enum ebb_status exp_proc_spawn(const struct exp_spawn *spawn, struct exp_proc *proc,
                               struct ebb_error *err);
/* A process that an earlier master started. EBB_EIO: it is gone. */
enum ebb_status exp_proc_adopt(pid_t pid, struct exp_proc *proc, struct ebb_error *err);
/* The exit status as waitpid gives it; -1 = unknown. Call when fd is readable. */
int exp_proc_reap(struct exp_proc *proc);
void exp_proc_kill_group(pid_t pid); /* SIGKILL to the group; nobody there is fine */
void exp_proc_kill(pid_t pid);
void exp_proc_close(struct exp_proc *proc);

/* "exited with status 3", "was killed by signal 9 (...)" */
void exp_proc_describe(int status, struct ebb_str *out);

struct exp_proc_found {
    pid_t pid;
    char allocation[37];
    bool is_leader; /* of its process group */
};

/* All processes of this user whose environment has EBB_ALLOCATION_ID and an EBB_CONFIG below
 * state_dir. *found is owned by the caller (ebb_free). only_children: look only at children of this
 * process (orphans come to the subreaper); those that have ended are reaped unless `keeps` knows
 * them. */
struct exp_proc_scan {
    const char *state_dir;
    bool only_children;
    bool (*keeps)(void *context, pid_t pid); /* may be NULL */
    void *context;
};
enum ebb_status exp_proc_scan(const struct exp_proc_scan *scan, struct exp_proc_found **found,
                              size_t *count, struct ebb_error *err);

#endif
