/* ignore.c - see ignore.h. */
#include "cli/ignore.h"

#include <fnmatch.h>
#include <string.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"

static const char always[] = ".git/\n__pycache__/\n*.pyc\n.ebbignore\n.detignore\n";

static enum ebb_status add_rule(struct cli_ignore *ignore, char *line, struct ebb_error *err)
{
    struct cli_ignore_rule rule = {0};
    size_t n = strlen(line);
    while (n > 0 && (line[n - 1] == '\r' || (line[n - 1] == ' ' && (n < 2 || line[n - 2] != '\\'))))
        line[--n] = '\0';
    if (n == 0 || line[0] == '#')
        return EBB_OK;
    if (line[0] == '!') {
        rule.is_negated = true;
        line++;
        n--;
    }
    if (n > 0 && line[n - 1] == '/') {
        rule.is_directory = true;
        line[--n] = '\0';
    }
    rule.is_rooted = strchr(line, '/') != NULL;
    if (line[0] == '/')
        line++;
    if (line[0] == '\0')
        return EBB_OK;
    rule.pattern = line;
    EBB_TRY(
        ebb_grow(&ignore->rules, &ignore->capacity, ignore->count + 1, sizeof *ignore->rules, err));
    ignore->rules[ignore->count++] = rule;
    return EBB_OK;
}

enum ebb_status cli_ignore_parse(struct cli_ignore *ignore, const char *text, size_t length,
                                 struct ebb_error *err)
{
    struct ebb_str all = {0};
    *ignore = (struct cli_ignore){0};
    ebb_str_add(&all, always);
    ebb_str_addn(&all, text, length);
    enum ebb_status status = ebb_str_status(&all, err);
    if (status != EBB_OK)
        return status;
    ignore->text = ebb_str_take(&all);
    for (char *line = ignore->text, *next; line != NULL && status == EBB_OK; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        status = add_rule(ignore, line, err);
    }
    if (status != EBB_OK)
        cli_ignore_fini(ignore);
    return status;
}

void cli_ignore_fini(struct cli_ignore *ignore)
{
    ebb_free(ignore->rules);
    ebb_free(ignore->text);
    *ignore = (struct cli_ignore){0};
}

/* One component against a pattern of the same extent. */
static bool name_matches(const char *pattern, size_t pattern_length, const char *name,
                         size_t name_length)
{
    char p[512], n[512];
    if (pattern_length >= sizeof p || name_length >= sizeof n)
        return false;
    memcpy(p, pattern, pattern_length);
    memcpy(n, name, name_length);
    p[pattern_length] = n[name_length] = '\0';
    return fnmatch(p, n, 0) == 0;
}

/* Component by component; "**" takes any number of them. Depth is bounded by the path's. */
static bool path_matches(const char *pattern, const char *path)
{
    for (;;) {
        if (strncmp(pattern, "**", 2) == 0 && (pattern[2] == '/' || pattern[2] == '\0')) {
            if (pattern[2] == '\0')
                return path[0] != '\0';
            for (const char *at = path; at != NULL; at = strchr(at, '/')) {
                at += *at == '/';
                if (path_matches(pattern + 3, at))
                    return true;
            }
            return false;
        }
        size_t p = strcspn(pattern, "/"), n = strcspn(path, "/");
        if (n == 0 || !name_matches(pattern, p, path, n))
            return false;
        if (pattern[p] == '\0' || path[n] == '\0')
            return pattern[p] == '\0' && path[n] == '\0';
        pattern += p + 1;
        path += n + 1;
    }
}

bool cli_ignore_has(const struct cli_ignore *ignore, const char *path, bool is_directory)
{
    bool is_ignored = false;
    const char *name = ebb_file_name(path);
    for (size_t i = 0; i < ignore->count; i++) {
        const struct cli_ignore_rule *rule = &ignore->rules[i];
        if (rule->is_directory && !is_directory)
            continue;
        if (rule->is_rooted
                ? path_matches(rule->pattern, path)
                : name_matches(rule->pattern, strlen(rule->pattern), name, strlen(name)))
            is_ignored = !rule->is_negated;
    }
    return is_ignored;
}
