/* cmd_data.c - ebb data list|show|check|make: datasets. */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/doc.h"
#include "base/heap.h"
#include "base/progress.h"
#include "cli/json.h"
#include "cli/show.h"
#include "data/data.h"
#include "train/train.h"

/* ---- shared ---------------------------------------------------------------------------------- */

/* SECTION is the text of a section ({name: ...}) or a file that has one at `data`. */
struct opened {
    struct ebb_arena arena;
    struct data_set *set;
    bool leaves_out; /* bad rows of tables are told and left out */
    uint64_t bad;    /* such rows */
};

#define SHOWN 50 /* bad samples that are named */

static void tell_bad(void *context, const char *message)
{
    struct opened *o = context;
    if (o->bad++ < SHOWN)
        fprintf(stderr, "%s\n", message);
}

/* Every mistake to stderr; false when there is one. */
static bool check_section(struct opened *o, const char *file, const struct ebb_doc_node *section,
                          const struct data_env *env, struct ebb_error *err)
{
    struct ebb_reading reading;
    struct ebb_report report;
    ebb_reading_init(&reading, &o->arena, file, &report);
    data_check(&reading, &(struct ebb_path){.key = "data"}, section, env);
    enum ebb_status status = ebb_reading_end(&reading, err);
    cli_print_report(&report, NULL, stderr);
    return status == EBB_OK;
}

static void close_section(struct opened *o)
{
    data_close(o->set);
    ebb_arena_fini(&o->arena);
}

/* One value of each hyperparameter: itself, or of those that are searched the first or least. */
static const struct ebb_doc_node *some_values(struct ebb_arena *arena,
                                              const struct ebb_doc_node *hparams)
{
    struct ebb_doc_node *some = ebb_doc_new(arena, EBB_DOC_MAP);
    for (size_t i = 0;
         some != NULL && hparams != NULL && hparams->kind == EBB_DOC_MAP && i < hparams->count;
         i++) {
        const struct ebb_doc_node *value = hparams->items[i], *list = ebb_doc_get(value, "vals");
        if (value->kind == EBB_DOC_MAP)
            value = list != NULL && list->kind == EBB_DOC_LIST && list->count > 0 ? list->items[0]
                    : ebb_doc_get(value, "val") != NULL ? ebb_doc_get(value, "val")
                                                        : ebb_doc_get(value, "minval");
        if (value != NULL && !ebb_doc_set(arena, some, hparams->keys[i]->text, value))
            return NULL;
    }
    return some;
}

/* The section of a file, with values in the place of ${name}. */
static const struct ebb_doc_node *section_of(struct opened *o, const char *file,
                                             const struct ebb_doc_node *root)
{
    struct ebb_reading reading;
    struct ebb_report report;
    const struct ebb_doc_node *section = ebb_doc_get(root, "data");
    if (section == NULL || ebb_doc_get(root, "hyperparameters") == NULL)
        return section;
    ebb_reading_init(&reading, &o->arena, file, &report);
    const struct ebb_doc_node *filled = train_expand(
        &o->arena, &reading, section, some_values(&o->arena, ebb_doc_get(root, "hyperparameters")));
    ebb_reading_fini(&reading);
    return filled != NULL ? filled : section;
}

/* Returns -1 when the dataset is open, else the exit code. */
static int open_section(struct opened *o, const char *text, uint64_t seed)
{
    struct ebb_error err = {.status = EBB_OK};
    const struct ebb_doc_node *root = NULL;
    char folder[1024] = "";
    const char *slash = strrchr(text, '/');
    bool is_text = text[0] == '{';
    ebb_arena_init(&o->arena);
    enum ebb_status status =
        is_text ? ebb_doc_parse_yaml(&o->arena, "section", text, strlen(text), &root, &err)
                : ebb_doc_load(&o->arena, text, &root, &err);
    if (!is_text && slash != NULL && (size_t)(slash - text) < sizeof folder)
        memcpy(folder, text, (size_t)(slash - text) + 1);
    struct data_env env = {.directory = folder[0] ? folder : NULL,
                           .seed = seed,
                           .bad_row = o->leaves_out ? tell_bad : NULL,
                           .bad_row_context = o};
    const struct ebb_doc_node *section = is_text            ? root
                                         : status == EBB_OK ? section_of(o, text, root)
                                                            : NULL;
    bool is_good = status == EBB_OK && check_section(o, is_text ? NULL : text, section, &env, &err);
    if (is_good && data_open(section, &env, &o->set, &err) == EBB_OK)
        return -1;
    bool is_told = status == EBB_OK && !is_good && err.status == EBB_EINPUT;
    int code = is_told ? 2 : cli_report(&err);
    close_section(o);
    return code;
}

/* ---- list ------------------------------------------------------------------------------------ */

static int run_list(int argc, char **argv)
{
    static const char *const headers[] = {"dataset", "synthetic", "what it is"};
    bool as_json = false;
    const struct cli_spec spec = {
        .usage = "ebb data list [OPTION...]",
        .description = "Lists the datasets that a `data` section can name, and which of them can "
                       "be\ngenerated with data_dir: synthetic. Keys: docs/data.md.\n\nExample:\n "
                       " ebb data list\n",
        CLI_OPTION_ROWS({"json", 0, CLI_FLAG, &as_json, NULL, "one JSON object per line"})};
    struct cli_args args;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    struct cli_table *table = as_json ? NULL : cli_table_create(headers, 3);
    for (size_t i = 0; data_name(i) != NULL; i++) {
        if (as_json) {
            struct cli_json json;
            struct ebb_json_writer *w = cli_json_object(&json);
            ebb_jsonw_key_string(w, "name", data_name(i));
            ebb_jsonw_key_string(w, "summary", data_summary(i));
            ebb_jsonw_key_bool(w, "synthetic", data_can_synthesize(i));
            cli_json_object_end(&json);
        }
        cli_table_cell(table, "%s", data_name(i));
        cli_table_cell(table, "%s", data_can_synthesize(i) ? "yes" : "no");
        cli_table_cell(table, "%s", data_summary(i));
    }
    if (!as_json)
        cli_table_out(table);
    cli_args_fini(&args);
    return 0;
}

/* ---- show ------------------------------------------------------------------------------------ */

static void show_text(const struct data_info *info)
{
    char bytes[32], more[32];
    printf("%s: %s%s, %" PRIu64 " training and %" PRIu64 " validation samples of %s\n", info->name,
           data_kind_text(info->kind), info->is_synthetic ? ", generated" : "",
           info->count[DATA_TRAIN], info->count[DATA_VALIDATION],
           ebb_format_bytes(info->sample_bytes, bytes, sizeof bytes));
    for (size_t f = 0; f < info->field_count; f++) {
        const struct data_field *field = &info->fields[f];
        printf("  %-14s %s [", field->name, data_dtype_text(field->dtype));
        for (int i = 0; i < field->rank; i++)
            printf("%s%" PRId64, i ? ", " : "", field->dims[i]);
        printf("]\n");
    }
    if (info->classes > 0)
        printf("  classes        %" PRId64 "\n", info->classes);
    if (info->vocabulary > 0)
        printf("  vocabulary     %" PRId64 ", sequences of %" PRId64 "\n", info->vocabulary,
               info->sequence);
    printf("  memory         %s held, %s to decode a sample\n",
           ebb_format_bytes(info->resident_bytes, bytes, sizeof bytes),
           ebb_format_bytes(info->scratch_bytes, more, sizeof more));
}

static void show_json(const struct data_info *info)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"train", info->count[DATA_TRAIN]},         {"validation", info->count[DATA_VALIDATION]},
        {"sample_bytes", info->sample_bytes},       {"classes", (uint64_t)info->classes},
        {"vocabulary", (uint64_t)info->vocabulary}, {"sequence", (uint64_t)info->sequence},
        {"resident_bytes", info->resident_bytes},   {"scratch_bytes", info->scratch_bytes},
    };
    ebb_jsonw_key_string(w, "name", info->name);
    ebb_jsonw_key_string(w, "kind", data_kind_text(info->kind));
    ebb_jsonw_key_bool(w, "synthetic", info->is_synthetic);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ebb_jsonw_key_uint(w, numbers[i].key, numbers[i].value);
    ebb_jsonw_key_array(w, "fields");
    for (size_t f = 0; f < info->field_count; f++) {
        ebb_jsonw_object(w);
        ebb_jsonw_key_string(w, "name", info->fields[f].name);
        ebb_jsonw_key_string(w, "dtype", data_dtype_text(info->fields[f].dtype));
        ebb_jsonw_key_array(w, "dims");
        for (int i = 0; i < info->fields[f].rank; i++)
            ebb_jsonw_int(w, info->fields[f].dims[i]);
        ebb_jsonw_array_end(w);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    cli_json_object_end(&json);
}

/* -1: the dataset that the first word names is open, to be closed by end(); else the exit code. */
static int begin(const struct cli_spec *spec, int argc, char **argv, struct cli_args *args,
                 const int64_t *seed, struct opened *o)
{
    int code = cli_parse(spec, argc, argv, args);
    if (code >= 0)
        return code;
    code = open_section(o, args->positional[0], seed ? (uint64_t)*seed : 0);
    if (code >= 0)
        cli_args_fini(args);
    return code;
}

static int end(struct cli_args *args, struct opened *o, int code)
{
    close_section(o);
    cli_args_fini(args);
    return code;
}

static int run_show(int argc, char **argv)
{
    bool as_json = false;
    int64_t seed = 0;
    const struct cli_spec spec = {
        .usage = "ebb data show SECTION|FILE [OPTION...]",
        .description = "Opens a dataset and tells what it holds: samples, fields, classes, memory. "
                       "SECTION is\nthe text of a `data` section, FILE an experiment or benchmark "
                       "file that has one.\n\nExamples:\n  ebb data show '{name: fashion_mnist}'\n"
                       "  ebb data show examples/fashion_mnist.yaml\n",
        CLI_OPTION_ROWS({"seed", 0, CLI_INT, &seed, "N", "of the run"},
                        {"json", 0, CLI_FLAG, &as_json, NULL, "one JSON object"}),
        CLI_POSITIONAL(1, 1)};
    struct cli_args args;
    struct opened o = {0};
    int code = begin(&spec, argc, argv, &args, &seed, &o);
    if (code >= 0)
        return code;
    if (as_json)
        show_json(data_describe(o.set));
    else
        show_text(data_describe(o.set));
    return end(&args, &o, 0);
}

/* ---- check ----------------------------------------------------------------------------------- */

struct check {
    uint64_t good[DATA_SPLITS], bad[DATA_SPLITS];
};

/* Numbers that are none, in fields of numbers. */
static uint64_t count_bad_numbers(const struct data_info *info, void *const *fields)
{
    uint64_t bad = 0;
    for (size_t f = 0; f < info->field_count; f++)
        for (size_t i = 0; info->fields[f].dtype == DATA_F32 && i < info->fields[f].bytes / 4; i++)
            bad += isfinite(((const float *)fields[f])[i]) ? 0 : 1;
    return bad;
}

static void check_split(const struct data_set *set, int split, void *const *fields, struct check *c)
{
    static const char *const names[] = {"train", "validation"};
    const struct data_info *info = data_describe(set);
    struct ebb_progress *progress = ebb_progress_create(names[split], info->count[split]);
    for (uint64_t i = 0; i < info->count[split] && !cli_interrupted(); i++) {
        struct ebb_error err = {0};
        bool is_read = data_read(set, (enum data_split)split, i, 0, 0, fields, &err) == EBB_OK;
        uint64_t numbers = is_read ? count_bad_numbers(info, fields) : 0;
        bool is_good = is_read && numbers == 0;
        if (!is_good && c->bad[0] + c->bad[1] < SHOWN && is_read)
            fprintf(stderr, "%s sample %" PRIu64 ": %" PRIu64 " values are not finite\n",
                    names[split], i, numbers);
        else if (!is_good && c->bad[0] + c->bad[1] < SHOWN)
            fprintf(stderr, "%s sample %" PRIu64 ": %s\n", names[split], i, err.message);
        c->good[split] += is_good;
        c->bad[split] += !is_good;
        ebb_progress_add(progress, 1);
    }
    ebb_progress_destroy(progress);
}

static int check(const struct opened *o, bool as_json)
{
    const struct data_set *set = o->set;
    const struct data_info *info = data_describe(set);
    void *fields[DATA_MAX_FIELDS] = {0};
    struct check c = {0};
    struct ebb_error err = {0};
    enum ebb_status status = EBB_OK;
    for (size_t f = 0; f < info->field_count && status == EBB_OK; f++)
        status = ebb_new(&fields[f], 1, info->fields[f].bytes + 1, &err);
    cli_catch_interrupts();
    for (int s = 0; s < DATA_SPLITS && status == EBB_OK; s++)
        check_split(set, s, fields, &c);
    for (size_t f = 0; f < info->field_count; f++)
        ebb_free(fields[f]);
    if (status != EBB_OK)
        return cli_report(&err);
    if (as_json)
        printf("{\"train\": {\"good\": %" PRIu64 ", \"bad\": %" PRIu64
               "}, \"validation\": {\"good\": %" PRIu64 ", \"bad\": %" PRIu64
               "}, \"bad_rows\": %" PRIu64 "}\n",
               c.good[0], c.bad[0], c.good[1], c.bad[1], o->bad);
    else
        printf("%s: training %" PRIu64 " good, %" PRIu64 " bad; validation %" PRIu64
               " good, %" PRIu64 " bad\n",
               info->name, c.good[0], c.bad[0], c.good[1], c.bad[1]);
    if (o->bad && !as_json)
        printf("%s: %" PRIu64 " bad rows of tables\n", info->name, o->bad);
    return o->bad || c.bad[0] + c.bad[1] || cli_interrupted() ? 1 : 0;
}

static int run_check(int argc, char **argv)
{
    bool as_json = false;
    const struct cli_option options[] = {
        {"json", 0, CLI_FLAG, &as_json, NULL, "one JSON object"},
    };
    const struct cli_spec spec = {
        .usage = "ebb data check SECTION|FILE [OPTION...]",
        .description = "Reads every sample of both splits once and tells the bad ones, the first "
                       "50 with file\nand place: damaged files, labels that are no classes, "
                       "numbers that are not finite.\nExit code 1 when there is one.\n\nExample:\n"
                       "  ebb data check exp.yaml\n",
        CLI_OPTIONS(options),
        CLI_POSITIONAL(1, 1)};
    struct cli_args args;
    struct opened o = {.leaves_out = true};
    int code = begin(&spec, argc, argv, &args, NULL, &o);
    return code < 0 ? end(&args, &o, check(&o, as_json)) : code;
}

/* ---- make ------------------------------------------------------------------------------------ */

static int run_make(int argc, char **argv)
{
    bool as_json = false;
    int64_t train = 64, val = 16;
    const char *format = NULL;
    const struct cli_spec spec = {
        .usage = "ebb data make SECTION DIR [OPTION...]",
        .description = "Writes the first samples of a synthetic dataset below DIR in the format "
                       "that the real one\nhas, so that the same dataset reads them with data_dir: "
                       "DIR.\n\nExamples:\n  ebb data make '{name: imagefolder, data_dir: "
                       "synthetic, classes: 10}' /tmp/pictures --train 200\n  ebb data make "
                       "'{name: cosmoflow, data_dir: \"synthetic:7\", size: 32}' /tmp/cubes "
                       "--format hdf5\n",
        CLI_OPTION_ROWS(
            {"train", 0, CLI_INT, &train, "N", "training samples (default 64)"},
            {"val", 0, CLI_INT, &val, "N", "validation samples (default 16)"},
            {"format", 0, CLI_STRING, &format, "NAME",
             "jpeg, png; tfrecord.gz, tfrecord, hdf5; tokens (default: the dataset's first)"},
            {"json", 0, CLI_FLAG, &as_json, NULL, "one JSON object"}),
        CLI_LIMITS({"train", 0, 1e9}, {"val", 0, 1e9}),
        CLI_POSITIONAL(2, 2)};
    struct cli_args args;
    struct opened o = {0};
    struct ebb_error err = {.status = EBB_OK};
    int code = begin(&spec, argc, argv, &args, NULL, &o);
    if (code >= 0)
        return code;
    struct data_make_options make = {.count = {(uint64_t)train, (uint64_t)val}, .format = format};
    if (data_make(o.set, args.positional[1], &make, &err) != EBB_OK)
        return end(&args, &o, cli_report(&err));
    if (as_json)
        printf("{\"train\":%" PRId64 ",\"validation\":%" PRId64 "}\n", train, val);
    else
        printf("%s: %" PRId64 " training and %" PRId64 " validation samples of %s\n",
               args.positional[1], train, val, data_describe(o.set)->name);
    return end(&args, &o, 0);
}

static const struct cli_command cmd_list = {
    .name = "list", .summary = "datasets that can be named", .run = run_list};
static const struct cli_command cmd_show = {
    .name = "show", .summary = "samples, fields and memory of one dataset", .run = run_show};
static const struct cli_command cmd_make = {
    .name = "make", .summary = "synthetic samples as real files", .run = run_make};

static const struct cli_command cmd_check = {
    .name = "check", .summary = "read everything once, tell what is bad", .run = run_check};

static int run_data(int argc, char **argv)
{
    static const struct cli_command *const verbs[] = {&cmd_list, &cmd_show, &cmd_check, &cmd_make};
    return cli_dispatch("ebb data", verbs, sizeof verbs / sizeof *verbs, argc, argv);
}

const struct cli_command cli_cmd_data = {
    .name = "data", .summary = "datasets: list, show, check, make", .run = run_data};
