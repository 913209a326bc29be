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
    if ((!is_host && !is_file) || !ebb_parse_double(value + 1, &rate) ||
        !(rate >= DEVICE_LEAST_RATE && rate <= DEVICE_MOST_RATE))
        return cli_usage_error(
            "--link %s: allowed: host=GB/s, file=GB/s, with rates " DEVICE_RATE_BOUNDS, text);
    int tier = is_host ? DEVICE_HOST : DEVICE_FILE;
    links->out[tier].bytes_per_ns = links->in[tier].bytes_per_ns = rate;
    return -1;
}

const char *cli_link_twice(const struct cli_list *list)
{
    for (size_t i = 1; i < list->count; i++)
        for (size_t k = 0; k < i; k++) {
            size_t n = strcspn(list->items[i], "=");
            if (strcspn(list->items[k], "=") == n &&
                strncmp(list->items[i], list->items[k], n) == 0)
                return list->items[i];
        }
    return NULL;
}

int cli_read_links(const struct cli_list *list, struct device_config *links)
{
    const char *twice = cli_link_twice(list);
    int code = twice ? cli_usage_error(CLI_LINK_TWICE, twice) : -1;
    for (size_t i = 0; i < list->count && code < 0; i++)
        code = read_link(list->items[i], links);
    return code;
}
