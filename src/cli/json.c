/* json.c - one JSON value on a line. */
#include "cli/json.h"

struct ebb_json_writer *cli_json_begin(struct cli_json *json)
{
    ebb_str_init(&json->text);
    ebb_jsonw_init(&json->w, &json->text, 0);
    return &json->w;
}

int cli_json_end(struct cli_json *json)
{
    struct ebb_error err;
    int code = 0;
    if (ebb_str_status(&json->text, &err) == EBB_OK)
        puts(ebb_str_c(&json->text));
    else
        code = cli_report(&err);
    ebb_str_fini(&json->text);
    return code;
}

struct ebb_json_writer *cli_json_object(struct cli_json *json)
{
    ebb_jsonw_object(cli_json_begin(json));
    return &json->w;
}

int cli_json_object_end(struct cli_json *json)
{
    ebb_jsonw_object_end(&json->w);
    return cli_json_end(json);
}
