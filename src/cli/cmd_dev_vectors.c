/* cmd_dev_vectors.c - `ebb dev vectors DIR`: run a folder of reference cases of search, scheduling,
 * sequencing, retention and configuration. */
#include "cli/cli.h"

#include <string.h>

#include "base/file.h"
#include "exp/exp.h"

int cli_dev_vectors(int argc, char **argv); /* a verb of `ebb dev`, see cmd_dev.c */

static void print_report(const struct exp_vectors_report *report, bool is_json)
{
    if (is_json)
        printf("{\"passed\":%zu,\"failed\":%zu,\"skipped\":%zu}\n", report->passed, report->failed,
               report->skipped);
    fprintf(is_json ? stderr : stdout, "%s%zu passed, %zu failed, %zu skipped\n",
            ebb_str_c(&report->log), report->passed, report->failed, report->skipped);
}

int cli_dev_vectors(int argc, char **argv)
{
    const char *dump = NULL;
    bool is_json = false;
    const struct cli_option options[] = {
        {.name = "dump",
         .kind = CLI_STRING,
         .target = &dump,
         .value = "FILE",
         .help = "write what was computed: one JSON object per line and case, with file,\n"
                 "index, name, passed, computed"},
        {.name = "json", .kind = CLI_FLAG, .target = &is_json, .help = "print the counts as JSON"},
    };
    const struct cli_spec spec = {
        .usage = "ebb dev vectors DIR [--dump FILE]",
        .description =
            "Runs every case of every *.json file in DIR and compares with what the case expects.\n"
            "The last line is \"N passed, N failed, N skipped\". Exit 1 if a case failed or none\n"
            "passed; a file or case of unknown kind is a failed one.",
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .min_positional = 1,
        .max_positional = 1,
    };
    struct cli_args args;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct exp_vectors_report report;
    struct ebb_error err;
    exp_vectors_init(&report);
    report.wants_dump = dump != NULL;
    enum ebb_status status = exp_vectors_run_folder(args.positional[0], &report, &err);
    if (status == EBB_OK)
        status = ebb_str_status(&report.log, &err);
    if (status == EBB_OK && dump != NULL)
        status = ebb_str_status(&report.dump, &err);
    if (status == EBB_OK && dump != NULL)
        status = ebb_file_write_atomic(dump, ebb_str_c(&report.dump), report.dump.length, &err);
    if (status == EBB_OK) {
        print_report(&report, is_json);
        code = report.failed > 0 || report.passed == 0 ? 1 : 0;
    } else {
        code = cli_report(&err);
    }
    exp_vectors_fini(&report);
    cli_args_fini(&args);
    return code;
}
