/* json.h - one JSON value on a line of stdout: the frame of every --json that is not an answer's
 * own bytes. Private to cli. */
#ifndef EBB_CLI_JSON_H
#define EBB_CLI_JSON_H

#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"

struct cli_json {
    struct ebb_str text;
    struct ebb_json_writer w;
};

/* A writer whose value cli_json_end prints; the exit code. */
struct ebb_json_writer *cli_json_begin(struct cli_json *json);
int cli_json_end(struct cli_json *json);
/* The same for an object, which is opened and closed. */
struct ebb_json_writer *cli_json_object(struct cli_json *json);
int cli_json_object_end(struct cli_json *json);

#endif
