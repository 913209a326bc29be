/* forms.c - see forms.h. */
#include "exp/config/forms.h"

#include <string.h>

#include "base/str.h"

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool exp_form_nonempty(const char *text)
{
    return text[0] != '\0';
}

bool exp_form_absolute(const char *text)
{
    return text[0] == '/';
}

bool exp_form_uuid(const char *text)
{
    static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if (strlen(text) != sizeof shape - 1)
        return false;
    for (size_t i = 0; shape[i]; i++) {
        char c = text[i];
        bool is_hex = is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        if (shape[i] == '-' ? c != '-' : !is_hex)
            return false;
    }
    return true;
}

/* scheme://host:port in text[0..length). The host may be a name, an IPv4 address or [IPv6]. */
static bool is_address(const char *text, size_t length)
{
    size_t i = 0;
    if (i >= length || !is_letter(text[i]))
        return false;
    while (i < length && (is_letter(text[i]) || is_digit(text[i]) || strchr("+-.", text[i])))
        i++;
    if (length - i < 3 || memcmp(text + i, "://", 3) != 0)
        return false;
    i += 3;
    size_t colon = length;
    while (colon > i && text[colon - 1] != ':')
        colon--;
    if (colon <= i + 1) /* no ':' at all, or no host before it */
        return false;
    unsigned port = 0;
    size_t digits = length - colon;
    if (digits == 0 || digits > 5)
        return false;
    for (size_t j = colon; j < length; j++) {
        if (!is_digit(text[j]))
            return false;
        port = port * 10 + (unsigned)(text[j] - '0');
    }
    bool is_v6 = text[i] == '[';
    for (size_t j = i; j + 1 < colon; j++)
        if (strchr("/ \t@?#", text[j]) || (text[j] == ':' && !is_v6))
            return false;
    return (!is_v6 || text[colon - 2] == ']') && port >= 1 && port <= 65535;
}

bool exp_form_hdfs_url(const char *text)
{
    for (;;) {
        size_t n = strcspn(text, ";");
        if (!is_address(text, n))
            return false;
        if (text[n] == '\0')
            return true;
        text += n + 1;
    }
}

static bool is_plain(const char *text, const char *refused) /* no blanks, no controls */
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= ' ' || *text == 0x7f || strchr(refused, *text) != NULL)
            return false;
    return true;
}

bool exp_form_bucket(const char *text)
{
    size_t n = 0;
    while (is_letter(text[n]) || is_digit(text[n]) || (n > 0 && text[n] && strchr("._-", text[n])))
        n++;
    return n > 0 && n <= 222 && text[n] == '\0' && strstr(text, "..") == NULL;
}

bool exp_form_prefix(const char *text)
{
    bool is_named = false;
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return false;
    for (size_t n; *text != '\0'; text += n + (text[n] == '/')) {
        n = strcspn(text, "/");
        is_named |= n > 0;
        if ((n == 1 && text[0] == '.') || (n == 2 && memcmp(text, "..", 2) == 0) || n > 512)
            return false;
    }
    return is_named;
}

bool exp_form_endpoint(const char *text)
{
    const char *host = strncmp(text, "http://", 7) == 0    ? text + 7
                       : strncmp(text, "https://", 8) == 0 ? text + 8
                                                           : "";
    return *host != '\0' && *host != '/' && *host != ':' && strlen(host) <= 400 &&
           is_plain(host, "@?#\\");
}

bool exp_form_key(const char *text)
{
    return *text != '\0' && strlen(text) < 256 && is_plain(text, ",");
}

bool exp_form_mount_target(const char *text)
{
    if (text[0] == '/')
        return true;
    bool is_named = false;
    for (size_t n; *text != '\0'; text += n + strspn(text + n, "/")) {
        n = strcspn(text, "/");
        if (n == 2 && memcmp(text, "..", 2) == 0)
            return false; /* out of the working directory, or back to it */
        is_named |= n > 0 && !(n == 1 && text[0] == '.');
    }
    return is_named;
}

bool exp_form_variable(const char *text)
{
    if ((!is_letter(*text) && *text != '_') || strncmp(text, "EBB_", 4) == 0)
        return false;
    while (is_letter(*text) || is_digit(*text) || *text == '_')
        text++;
    return *text == '=';
}

char *exp_path_normalize(struct ebb_arena *arena, const char *path)
{
    size_t capacity = strlen(path) + 2;
    char *out = ebb_arena_alloc(arena, capacity);
    if (!out)
        return NULL;
    bool is_absolute = path[0] == '/';
    size_t n = 0, floor = 0; /* out[0..floor) cannot be climbed out of */
    if (is_absolute)
        out[n++] = '/', floor = 1;
    while (*path) {
        path += strspn(path, "/");
        size_t part = strcspn(path, "/");
        if (part == 2 && path[0] == '.' && path[1] == '.') {
            if (n > floor) {
                while (n > floor && out[n - 1] != '/')
                    n--;
                if (n > floor)
                    n--; /* the slash before the component */
            } else if (!is_absolute) {
                if (n > 0)
                    out[n++] = '/';
                out[n++] = '.', out[n++] = '.';
                floor = n;
            }
        } else if (part > 0 && !(part == 1 && path[0] == '.')) {
            if (n > 0 && out[n - 1] != '/')
                out[n++] = '/';
            memcpy(out + n, path, part);
            n += part;
        }
        path += part;
    }
    if (n == 0)
        out[n++] = '.';
    out[n] = '\0';
    return out;
}

char *exp_path_join(struct ebb_arena *arena, const char *base, const char *path)
{
    if (path[0] == '/')
        return exp_path_normalize(arena, path);
    char *joined = ebb_arena_printf(arena, "%s/%s", base, path);
    return joined ? exp_path_normalize(arena, joined) : NULL;
}

bool exp_path_inside(const char *root, const char *path)
{
    size_t n = strlen(root);
    if (n == 1 && root[0] == '/')
        return path[0] == '/';
    return strncmp(root, path, n) == 0 && (path[n] == '\0' || path[n] == '/');
}
