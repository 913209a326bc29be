/* forms.h - texts with a form of their own: paths, UUIDs, addresses, variables, built-in tasks.
 *
 * Pure functions on one text. Private to exp/config. */
#ifndef EBB_EXP_CONFIG_FORMS_H
#define EBB_EXP_CONFIG_FORMS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/tasks.h"

/* Tasks of an `ebb:` entrypoint: blank-separated, and as the reference page names them. */
#define EXP_TASK_WORD(name, models, help) #name " "
#define EXP_TASK_CODE(name, models, help) "`" #name "`, "
#define EXP_TASKS EBB_TASK_LIST(EXP_TASK_WORD)
#define EXP_TASKS_TEXT EBB_TASK_LIST(EXP_TASK_CODE)

bool exp_form_nonempty(const char *text);
bool exp_form_absolute(const char *text);
bool exp_form_uuid(const char *text);         /* 8-4-4-4-12 hexadecimal digits, either case */
bool exp_form_hdfs_url(const char *text);     /* scheme://host:port[;scheme://host:port]... */
bool exp_form_bucket(const char *text);       /* it may become part of a host's name */
bool exp_form_prefix(const char *text);       /* no "." or ".." between slashes */
bool exp_form_endpoint(const char *text);     /* http[s]://host[:port][/path], no user in it */
bool exp_form_key(const char *text);          /* it becomes part of a header */
bool exp_form_mount_target(const char *text); /* a path that is not the working directory itself */
bool exp_form_variable(const char *text);     /* NAME=VALUE with a C identifier as name */

/* Lexical normal form: no ".", no "..", no doubled or trailing slash; ".." at the root is dropped,
 * leading
 * ".." of a relative path are kept; an empty result is "." (relative) or "/". NULL when memory is
 * out. */
char *exp_path_normalize(struct ebb_arena *arena, const char *path);
/* normalize(base/path), or normalize(path) when path is absolute. */
char *exp_path_join(struct ebb_arena *arena, const char *base, const char *path);
/* Is normalised `path` equal to normalised `root` or below it, component by component? */
bool exp_path_inside(const char *root, const char *path);

#endif
