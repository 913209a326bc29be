/* cmd_model_trace.c - ebb model trace: one training step of a model as a trace file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cmd_model.h"
#include "cli/cmd_trace.h"
#include "cli/json.h"
#include "profile/profile.h"

struct job {
    struct nn_config config;
    struct train_model model;
    enum nn_precision precision;
    struct optim_config optim;
    int64_t threads;
    bool is_forward;       /* no backward pass, evaluation mode */
    struct ebb_str passes; /* rewrites that are on, where they were chosen */
    const char *device, *costs;
    const char *file;
};

/* Kernels that answer: the processor's or, by their profile, those of a device that need not be there. */
static enum ebb_status open_backend(const struct job *j, void **backend, struct profile **profile,
                                    struct ebb_error *err)
{
    unsigned passes = 0;
    if (j->threads == 0)
        return EBB_OK;
    EBB_TRY(train_device_answers(j->device, j->costs, (int)j->threads, backend, profile, err));
    if (!j->passes.length)
        return EBB_OK;
    enum ebb_status status =
        ops_rewrites_parse(ebb_str_c(&j->passes), ops_backend_passes(*backend), &passes, err);
    if (status == EBB_EINPUT)
        return ebb_context(err, status, "--passes");
    ops_backend_set_passes(*backend, passes);
    return status;
}

static enum ebb_status save(struct job *j, struct trace_stats *stats, uint32_t *ops,
                            struct ebb_error *err)
{
    struct trace *trace = NULL;
    void *backend = NULL;
    struct profile *profile = NULL;
    enum ebb_status status = open_backend(j, &backend, &profile, err);
    j->model.net = &j->config;
    j->model.precision = (enum train_precision)j->precision;
    j->model.optim = j->is_forward ? NULL : &j->optim;
    j->model.backend = backend;
    EBB_THEN(status, train_model_trace(&j->model, &trace, err));
    EBB_THEN(status, trace_stats_compute(trace, stats, err));
    EBB_THEN(status, trace_write_native(trace, j->file, err));
    if (status == EBB_OK)
        *ops = trace->op_count;
    trace_destroy(trace);
    if (backend != NULL)
        ops_backend_destroy(backend);
    profile_destroy(profile);
    return status;
}

/* --opt KEY=VALUE as a mapping; the rate changes no trace, so it has a default. */
static enum ebb_status parse_optimizer(const char *name, const struct cli_list *list,
                                       struct optim_config *config, struct ebb_error *err)
{
    struct ebb_arena arena = {0};
    const struct ebb_doc_node *map = NULL;
    struct ebb_str text = {0};
    bool has_rate = false;
    for (size_t i = 0; i < list->count; i++) {
        const char *eq = strchr(list->items[i], '=');
        has_rate = has_rate || strncmp(list->items[i], "lr=", 3) == 0;
        if (eq == NULL) { /* the rest of a list: goes before the bracket */
            text.length -= text.length > 2 ? 2 : 0;
            ebb_str_printf(&text, ", %s]\n", list->items[i]);
            continue;
        }
        bool is_list = i + 1 < list->count && strchr(list->items[i + 1], '=') == NULL;
        ebb_str_printf(&text, "%.*s: %s%s%s\n", (int)(eq - list->items[i]), list->items[i],
                       is_list ? "[" : "", eq + 1, is_list ? "]" : "");
    }
    if (!has_rate)
        ebb_str_add(&text, "lr: 0.001\n");
    enum ebb_status status = ebb_str_status(&text, err);
    EBB_THEN(status, ebb_doc_parse_yaml(&arena, "--opt", ebb_str_c(&text), text.length, &map, err));
    EBB_THEN(status, optim_parse(name, map, config, err));
    ebb_arena_fini(&arena);
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status parse_passes(const struct cli_list *list, struct job *j,
                                    struct ebb_error *err)
{
    const char *needs = list->count ? "--passes" : j->device ? "--device" : "--costs";
    if (j->threads == 0 && (list->count || j->device || j->costs))
        return ebb_fail(err, EBB_EINPUT, "%s needs kernels: --threads must not be 0", needs);
    for (size_t i = 0; i < list->count; i++)
        ebb_str_printf(&j->passes, "%s%s", i ? "," : "", list->items[i]);
    return ebb_str_status(&j->passes, err);
}

static int print_saved(const struct job *j, const struct trace_stats *s, uint32_t ops, bool as_json)
{
    if (!as_json) {
        char peak[32], time[32];
        printf("%s: %s, batch %" PRId64 ", %u ops, %s of compute, %s without a limit\n", j->file,
               j->config.model->name, j->model.batch, ops,
               ebb_format_ns(s->base_ns, time, sizeof time),
               ebb_format_bytes(s->baseline_bytes, peak, sizeof peak));
        return 0;
    }
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "file", j->file);
    ebb_jsonw_key_string(w, "name", j->config.model->name);
    ebb_jsonw_key_uint(w, "batch", (uint64_t)j->model.batch);
    ebb_jsonw_key_uint(w, "ops", ops);
    ebb_jsonw_key_uint(w, "base_ns", s->base_ns);
    ebb_jsonw_key_uint(w, "baseline_bytes", s->baseline_bytes);
    return cli_json_object_end(&json);
}

/* Of --passes: what the table of rewrites has. */
static const char *passes_help(struct ebb_arena *arena)
{
    struct ebb_str all = {0}, usual = {0};
    const char *name;
    bool is_default;
    for (size_t i = 0; (name = ops_rewrite_name(i, &is_default)) != NULL; i++) {
        ebb_str_printf(&all, i == 5 ? ",\n%s" : ", %s", name);
        if (is_default)
            ebb_str_printf(&usual, "%s%s", usual.length > 0 ? ", " : "", name);
    }
    const char *text =
        ebb_arena_printf(arena, "rewrites that are on: none%s;\n+P and -P change the default: %s",
                         ebb_str_c(&all), ebb_str_c(&usual));
    ebb_str_fini(&all);
    ebb_str_fini(&usual);
    return text != NULL ? text : "rewrites that are on";
}

static int run(int argc, char **argv)
{
    struct ebb_arena arena = {0};
    struct job j = {.model = {.batch = 1}, .threads = 1};
    const char *precision = "fp32", *optimizer = "SGD";
    struct cli_list set = {0}, opt = {0}, passes = {0};
    bool as_json = false;
    const struct cli_spec spec = {
        .usage = "ebb model trace NAME|FILE -o FILE [OPTION...]",
        .description =
            "Writes the trace of one training step of a model: forward, loss, backward, update.\n"
            "No weight takes memory. `ebb trace`, `ebb sim`, `ebb plan` and `ebb explain` read the "
            "file.\n\n"
            "Examples:\n"
            "  ebb model trace resnet50 --batch 8 --opt momentum=0.9 -o resnet50.trace\n"
            "  ebb model trace gpt2_124M --set length=256 --batch 2 --optimizer AdamW -o "
            "gpt2.trace\n",
        CLI_OPTION_ROWS(
            {CLI_MODEL_OUTPUT(&j.file, "native trace file to write")},
            {CLI_MODEL_BATCH(&j.model.batch, "samples of the step; default 1")},
            {CLI_MODEL_SET(&set, CLI_MODEL_SET_HELP)},
            {"optimizer", 0, CLI_STRING, &optimizer, "NAME",
             "whose updates and states end the step; default SGD"},
            {"opt", 0, CLI_LIST, &opt, "KEY=VALUE",
             "an argument of the optimizer, for example momentum=0.9; repeatable"},
            {CLI_MODEL_PRECISION(&precision)},
            {"threads", 0, CLI_INT, &j.threads, "N",
             "for which kernels choose their workspaces; default 1;\n0: no kernels, no workspaces"},
            {"passes", 0, CLI_LIST, &passes, "P[,P...]", passes_help(&arena)},
            {"device", 0, CLI_STRING, &j.device, "NAME",
             "cpu, cuda or a kind that is not here: nvidia-h200"},
            {"costs", 0, CLI_STRING, &j.costs, "FILE",
             "profile whose times the ops have ('ebb device measure' makes one)"},
            {"forward", 0, CLI_FLAG, &j.is_forward, NULL,
             "only the forward pass, as in evaluation"},
            {CLI_MODEL_JSON(&as_json)}),
        CLI_NEEDS({"optimizer", "!forward"}, {"opt", "!forward"}),
        CLI_LIMITS({"batch", 1, 1 << 24}, {"threads", 0, 4096}),
        CLI_POSITIONAL(1, 1)};
    struct cli_args args;
    struct ebb_error err;
    struct trace_stats stats;
    uint32_t ops = 0;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0) {
        ebb_arena_fini(&arena);
        return code;
    }
    if (j.file == NULL)
        code = cli_usage_error("-o FILE is missing: where should the trace go?");
    else if (cli_model_precision(precision, &j.precision, &err) != EBB_OK ||
             parse_passes(&passes, &j, &err) != EBB_OK ||
             parse_optimizer(optimizer, &opt, &j.optim, &err) != EBB_OK)
        code = cli_report(&err);
    if (code < 0)
        code = cli_model_config(&arena, args.positional[0], &set, &j.config);
    if (code < 0)
        code = save(&j, &stats, &ops, &err) == EBB_OK ? print_saved(&j, &stats, ops, as_json)
                                                      : cli_report(&err);
    ebb_arena_fini(&arena);
    ebb_str_fini(&j.passes);
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_model_trace = {
    .name = "trace", .summary = "one training step of a model as a trace file", .run = run};
