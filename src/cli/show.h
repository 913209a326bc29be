/* show.h - values of answers as people read them. Private to cli. */
#ifndef EBB_CLI_SHOW_H
#define EBB_CLI_SHOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/doc.h"
#include "base/str.h"
#include "cli/cli.h"

/* All return buf, or "" for null and absent. */
#define CLI_CELL 64
const char *cli_show_time(const struct ebb_doc_node *value, char buf[CLI_CELL]);
const char *cli_show_number(const struct ebb_doc_node *value, char buf[CLI_CELL]);
const char *cli_show_percent(const struct ebb_doc_node *value, char buf[CLI_CELL]);
const char *cli_show_bytes(const struct ebb_doc_node *value, char buf[CLI_CELL]);
/* What an experiment's store does not have yet, and why: "2 checkpoints, 4.5 KiB, on the way ...". */
void cli_show_uploads(const struct ebb_doc_node *uploads, struct ebb_str *out);

/* A metric: numbers and the texts "NaN", "Infinity", "-Infinity"; NaN for anything else. */
double cli_metric(const struct ebb_doc_node *node);
/* A number with up to six digits, or a scalar as it is. */
void cli_show_value(struct ebb_str *out, const struct ebb_doc_node *node);
/* "hidden 33, learning_rate 0.0123": scalars of a mapping. */
void cli_show_map(struct ebb_str *out, const struct ebb_doc_node *map);
void cli_show_list(struct ebb_str *out, const struct ebb_doc_node *list, const char *between);
/* Metrics of a step or validation: the mapping of numbers inside. */
const struct ebb_doc_node *cli_step_metrics(const struct ebb_doc_node *node);
/* Compact JSON. */
void cli_show_json(struct ebb_str *out, const struct ebb_doc_node *node);

/* The answer's own bytes, as one line; the frame of every --json. */
int cli_print_body(const struct ebb_str *body);
/* {"key": list}, as one line. */
void cli_print_list(const char *key, const struct ebb_doc_node *list);

/* What a report says, as lines; with the name of a file, its counts too. */
void cli_print_report(const struct ebb_report *report, const char *file_name, FILE *stream);
/* Lines of a text as a list of texts. */
void cli_write_lines(struct ebb_json_writer *w, const char *lines);
void cli_print_json(const struct ebb_doc_node *node); /* as one line */
void cli_print_yaml(const struct ebb_doc_node *node);
/* "key            value"; nothing for null, absent and "". */
void cli_print_pair(const char *key, const struct ebb_doc_node *value);

/* A text that a trial made, as one line that does nothing to a terminal, cut where it is long. */
void cli_show_plain(struct ebb_str *out, const char *text);
/* An entry of a log: its message as such a line, or the entry as JSON. */
void cli_print_log(const struct ebb_doc_node *line, bool is_json);

/* The longest part of text that fits `columns`. In bytes. */
size_t cli_fit(const char *text, size_t columns);

#endif
