/* link.c - see link.h. */
#include "cli/link.h"

#include <string.h>

#include "base/str.h"

static int read_link(const char *text, struct device_config *links)
{
    const char *value = strchr(text, '=');
    size_t length = value ? (size_t)(value - text) : 0;
    bool is_host = length == 4 && strncmp(text, "host", 4) == 0;
    bool is_file = length == 4 && strncmp(text, "file", 4) == 0;
    double rate = 0;
    if ((!is_host && !is_file) || !ebb_parse_double(value + 1, &rate) || rate <= 0)
        return cli_usage_error("--link %s: allowed: host=GB/s, file=GB/s, with rates > 0", text);
    int tier = is_host ? DEVICE_HOST : DEVICE_FILE;
    links->out[tier].bytes_per_ns = links->in[tier].bytes_per_ns = rate;
    return -1;
}

int cli_read_links(const struct cli_list *list, struct device_config *links)
{
    int code = -1;
    for (size_t i = 0; i < list->count && code < 0; i++)
        code = read_link(list->items[i], links);
    return code;
}
