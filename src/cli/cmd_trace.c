/* cmd_trace.c - ebb trace make|show|stat|convert: traces as files. show and stat are in
 * cmd_trace_show.c and cmd_trace_stat.c. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/cmd_trace.h"
#include "cli/train_file.h"
#include "cli/json.h"
#include "cli/show.h"

#define NOT_GIVEN INT64_MIN
#define LOST_BYTES 4096

const char *const cli_trace_phases[] = {"forward", "backward", "update"};

/* ---- writing --------------------------------------------------------------------------------- */

static const struct {
    const char *name, *suffix;
    enum trace_format format;
} formats[] = {{"native", NULL, TRACE_FORMAT_NATIVE},
               {"text", ".jsonl", TRACE_FORMAT_TEXT},
               {"dtr", ".log", TRACE_FORMAT_DTR}};
enum { FORMATS = sizeof formats / sizeof *formats };
#define FORMAT_NAMES "native|text|dtr"
#define FORMAT_HELP "format; default: by the suffix, .jsonl is text, .log a DTR log"

static bool ends_in(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = suffix ? strlen(suffix) : n;
    return n > k && strcmp(path + n - k, suffix) == 0;
}

/* By name, else by the suffix of the file; anything else is native. */
static enum ebb_status pick_format(const char *name, const char *path, enum trace_format *format,
                                   struct ebb_error *err)
{
    const char *names[FORMATS];
    *format = TRACE_FORMAT_NATIVE;
    for (size_t i = 0; i < FORMATS; i++) {
        names[i] = formats[i].name;
        if (name ? strcmp(name, formats[i].name) == 0 : ends_in(path, formats[i].suffix)) {
            *format = formats[i].format;
            return EBB_OK;
        }
    }
    if (!name)
        return EBB_OK;
    const char *near = ebb_nearest(name, names, FORMATS);
    return ebb_fail(err, EBB_EINPUT, "--to %s: native, text or dtr is possible%s%s%s", name,
                    near != NULL ? "; did you mean " : "", near != NULL ? near : "",
                    near != NULL ? "?" : "");
}

static enum ebb_status write_trace(const struct trace *trace, const char *path,
                                   enum trace_format format, char *lost, struct ebb_error *err)
{
    lost[0] = '\0';
    if (format == TRACE_FORMAT_DTR)
        return trace_write_dtr(trace, path, lost, LOST_BYTES, err);
    return format == TRACE_FORMAT_TEXT ? trace_write_text(trace, path, err)
                                       : trace_write_native(trace, path, err);
}

/* What was written: one line, and what the format could not say. */
static int print_written(const struct trace *trace, const char *path, const char *lost,
                         bool as_json, struct ebb_error *err)
{
    struct trace_stats s;
    if (trace_stats_compute(trace, &s, err) != EBB_OK)
        return cli_report(err);
    if (!as_json) {
        char peak[32], time[32];
        printf("%s: %s, %u ops, %s of compute, %s without a limit\n", path, trace->name,
               trace->op_count, ebb_format_ns(s.base_ns, time, sizeof time),
               ebb_format_bytes(s.baseline_bytes, peak, sizeof peak));
        if (lost[0] != '\0')
            fprintf(stderr, "Not said in %s:\n%s", path, lost);
        return 0;
    }
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "file", path);
    ebb_jsonw_key_string(w, "name", trace->name);
    ebb_jsonw_key_uint(w, "ops", trace->op_count);
    ebb_jsonw_key_uint(w, "base_ns", s.base_ns);
    ebb_jsonw_key_uint(w, "baseline_bytes", s.baseline_bytes);
    ebb_jsonw_key(w, "lost");
    cli_write_lines(w, lost);
    return cli_json_object_end(&json);
}

void cli_trace_json_index(struct ebb_json_writer *w, const char *key, uint32_t value)
{
    ebb_jsonw_key_uint_or_null(w, key, value, value != TRACE_NONE);
}

/* ---- make ------------------------------------------------------------------------------------ */

/* Options as given; what was not given keeps its mark, so that an option the shape ignores can be
 * refused. */
struct make_options {
    const char *output, *format;
    int64_t layers, cost_ns, ops, seed;
    uint64_t bytes, weight_bytes;
    double spread;
    bool has_views, has_mutation, has_multi_output, has_workspace, has_once;
    bool as_json;
};

static const struct trace_shape *find_shape(const char *name)
{
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < trace_shape_count && count < 64; i++) {
        if (strcmp(trace_shapes[i].name, name) == 0)
            return &trace_shapes[i];
        names[count++] = trace_shapes[i].name;
    }
    const char *near = ebb_nearest(name, names, count);
    cli_usage_error("there is no shape '%s'%s%s%s\nTry 'ebb trace make --help'.", name,
                    near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                    near != NULL ? "'?" : "");
    return NULL;
}

static bool refuse_unused(const struct trace_shape *shape, const struct make_options *o)
{
    const struct {
        unsigned use;
        bool is_given;
        const char *name;
    } rows[] = {
        {TRACE_USES_LAYERS, o->layers != NOT_GIVEN, "layers"},
        {TRACE_USES_BYTES, o->bytes != UINT64_MAX, "bytes"},
        {TRACE_USES_WEIGHT_BYTES, o->weight_bytes != UINT64_MAX, "weight-bytes"},
        {TRACE_USES_COST, o->cost_ns != NOT_GIVEN, "cost"},
        {TRACE_USES_OPS, o->ops != NOT_GIVEN, "ops"},
        {TRACE_USES_SEED, o->seed != NOT_GIVEN, "seed"},
        {TRACE_USES_SPREAD, o->spread >= 0, "spread"},
        {TRACE_USES_FEATURES, o->has_views, "views"},
        {TRACE_USES_FEATURES, o->has_mutation, "mutation"},
        {TRACE_USES_FEATURES, o->has_multi_output, "multi-output"},
        {TRACE_USES_FEATURES, o->has_workspace, "workspace"},
        {TRACE_USES_FEATURES, o->has_once, "once"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is_given && !(shape->uses & rows[i].use)) {
            cli_usage_error("shape '%s' has no use for --%s", shape->name, rows[i].name);
            return true;
        }
    return false;
}

/* 0 when not given; a value of its own must be at least `least`. */
static bool to_u32(const char *name, int64_t value, int64_t least, uint32_t *out)
{
    if (value == NOT_GIVEN)
        return true;
    if (value < least || value > UINT32_MAX) {
        cli_usage_error("option --%s: %lld, must be from %lld to %lld", name, (long long)value,
                        (long long)least, (long long)UINT32_MAX);
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static int make(const char *name, const struct make_options *o)
{
    const struct trace_shape *shape = find_shape(name);
    struct trace_synth synth = {
        .bytes = o->bytes == UINT64_MAX ? 0 : o->bytes,
        .weight_bytes = o->weight_bytes == UINT64_MAX ? 0 : o->weight_bytes,
        .spread = o->spread >= 0 ? o->spread : 0,
        .has_views = o->has_views,
        .has_mutation = o->has_mutation,
        .has_multi_output = o->has_multi_output,
        .has_workspace = o->has_workspace,
        .has_once = o->has_once,
    };
    if (shape == NULL || refuse_unused(shape, o))
        return 2;
    uint32_t cost = 0, seed = 0;
    if (!to_u32("layers", o->layers, 1, &synth.layers) || !to_u32("ops", o->ops, 1, &synth.ops) ||
        !to_u32("cost", o->cost_ns, 1, &cost) || !to_u32("seed", o->seed, 0, &seed))
        return 2;
    synth.cost_ns = cost;
    synth.seed = seed;
    if (o->output == NULL)
        return cli_usage_error("where to? -o FILE names the file to write");
    struct ebb_error err;
    struct trace *trace = NULL;
    enum trace_format format;
    char lost[LOST_BYTES];
    if (pick_format(o->format, o->output, &format, &err) != EBB_OK ||
        trace_shape_make(shape, &synth, &trace, &err) != EBB_OK)
        return cli_report(&err);
    int code = write_trace(trace, o->output, format, lost, &err) == EBB_OK
                   ? print_written(trace, o->output, lost, o->as_json, &err)
                   : cli_report(&err);
    trace_destroy(trace);
    return code;
}

static void describe_make(struct ebb_str *text)
{
    ebb_str_add(
        text,
        "Makes the trace of one training step that nobody had to record: forward, backward, what "
        "is\n"
        "kept at the end. Good for trying policies and planners, and for load tests.\n\nShapes:\n");
    for (size_t i = 0; i < trace_shape_count; i++)
        ebb_str_printf(text, "  %-12s %s\n", trace_shapes[i].name, trace_shapes[i].help);
    ebb_str_add(text,
                "\nExamples:\n"
                "  ebb trace make transformer --layers 12 -o gpt.trace\n"
                "  ebb trace make random --ops 1000000 --views --spread 1 --seed 7 -o big.trace\n"
                "  ebb trace make chain --layers 64 --bytes 8MiB -o chain.log   (a DTR log)");
}

static int run_make(int argc, char **argv)
{
    struct make_options o = {.layers = NOT_GIVEN,
                             .cost_ns = NOT_GIVEN,
                             .ops = NOT_GIVEN,
                             .seed = NOT_GIVEN,
                             .bytes = UINT64_MAX,
                             .weight_bytes = UINT64_MAX,
                             .spread = -1};
    struct ebb_str text = {0};
    describe_make(&text);
    const struct cli_spec spec = {
        .usage = "ebb trace make SHAPE -o FILE [OPTION...]",
        .description = ebb_str_c(&text),
        CLI_OPTION_ROWS(
            {"output", 'o', CLI_STRING, &o.output, "FILE", "file to write"},
            {"to", 0, CLI_STRING, &o.format, FORMAT_NAMES, FORMAT_HELP},
            {"layers", 0, CLI_INT, &o.layers, "N", "depth, time steps or blocks: see the shapes"},
            {"ops", 0, CLI_INT, &o.ops, "N", "random: about how many ops"},
            {"bytes", 0, CLI_BYTES, &o.bytes, "SIZE", "of a typical activation, for example 8MiB"},
            {"weight-bytes", 0, CLI_BYTES, &o.weight_bytes, "SIZE", "of a typical weight"},
            {"cost", 0, CLI_INT, &o.cost_ns, "NS", "of a typical op, nanoseconds"},
            {"spread", 0, CLI_DOUBLE, &o.spread, "0..1",
             "0: all sizes and costs equal; 1: they vary over two orders of magnitude"},
            {"seed", 0, CLI_INT, &o.seed, "N",
             "of the random choices; the same seed, the same trace"},
            {"views", 0, CLI_FLAG, &o.has_views, NULL, "random: outputs that share storage"},
            {"mutation", 0, CLI_FLAG, &o.has_mutation, NULL,
             "random: ops that write in place, weight updates"},
            {"multi-output", 0, CLI_FLAG, &o.has_multi_output, NULL,
             "random: ops with two outputs"},
            {"workspace", 0, CLI_FLAG, &o.has_workspace, NULL,
             "random: ops that need scratch memory"},
            {"once", 0, CLI_FLAG, &o.has_once, NULL, "random: ops that must not run twice"},
            {"json", 0, CLI_FLAG, &o.as_json, NULL, "one JSON object instead of text"}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args;
    int code = cli_parse(&spec, argc, argv, &args);
    ebb_str_fini(&text);
    if (code >= 0)
        return code;
    code = make(args.positional[0], &o);
    cli_args_fini(&args);
    return code;
}

/* ---- convert --------------------------------------------------------------------------------- */

static int run_convert(int argc, char **argv)
{
    const char *output = NULL, *format_name = NULL;
    bool as_json = false;
    const struct cli_spec spec = {
        .usage = "ebb trace convert FILE -o FILE [--to " FORMAT_NAMES "] [--json]",
        .description =
            "Reads a trace of any format (native, text, DTR log, graph file; the content says "
            "which) or the\n"
            "step of an experiment file, and writes it as a native trace, as text or as a DTR log. "
            "Native\n"
            "files keep everything and load four times faster than logs; text, a line of JSON for "
            "each op,\n"
            "keeps everything and other programs write it. A DTR log cannot say everything: what "
            "it\n"
            "leaves out is listed.\n\n"
            "Examples:\n"
            "  ebb trace convert resnet32.log -o resnet32.trace\n"
            "  ebb trace convert step.jsonl -o step.trace\n"
            "  ebb trace convert vgg16.json -o vgg16.log",
        CLI_OPTION_ROWS({"output", 'o', CLI_STRING, &output, "FILE", "file to write"},
                        {"to", 0, CLI_STRING, &format_name, FORMAT_NAMES, FORMAT_HELP},
                        {"json", 0, CLI_FLAG, &as_json, NULL, "one JSON object instead of text"}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct ebb_error err;
    struct trace *trace = NULL;
    enum trace_format format;
    char lost[LOST_BYTES];
    if (output == NULL)
        code = cli_usage_error("where to? -o FILE names the file to write");
    else if (pick_format(format_name, output, &format, &err) != EBB_OK ||
             cli_load_trace(args.positional[0], &trace, &err) != EBB_OK ||
             write_trace(trace, output, format, lost, &err) != EBB_OK)
        code = cli_report(&err);
    else
        code = print_written(trace, output, lost, as_json, &err);
    trace_destroy(trace);
    cli_args_fini(&args);
    return code;
}

/* ---- verbs ----------------------------------------------------------------------------------- */

static const struct cli_command cmd_make = {
    .name = "trace make",
    .summary = "make a synthetic trace: chain, tree, resnet, transformer, random, ...",
    .run = run_make,
};

static const struct cli_command cmd_convert = {
    .name = "trace convert",
    .summary = "write a trace in another format",
    .run = run_convert,
};

static int run(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&cmd_make, &cli_cmd_trace_show,
                                                      &cli_cmd_trace_stat, &cmd_convert};
    return cli_dispatch("trace", verbs, sizeof verbs / sizeof *verbs, argc, argv);
}

const struct cli_command cli_cmd_trace = {
    .name = "trace",
    .summary = "make, show, measure and convert traces",
    .run = run,
};
