/* cmd_bench_check.c - ebb bench check: the log of a benchmark against references, as ReFrame does
 * it: (value, lower, upper, unit) passes where value*(1+lower) <= measured <= value*(1+upper). */
#include "cli/cmd_bench.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/keys.h"
#include "base/str.h"
#include "cli/json.h"
#include "cli/show.h"
#include "cli/train_file.h"

#define MOST_LOG (UINT64_C(1) << 30)

static const struct variable {
    const char *name, *prefix;
    bool is_first; /* the first line counts; else the mean of all */
} variables[] = {
    {"Throughput", "Processing Speed: ", false},
    {"Epoch Length", "Time For Epoch: ", false},
    {"Delta Loss", "Change In Train Loss at Epoch: ", true},
    {"Communication Time", "Communication Time: ", false},
    {"Total IO Time", "Total IO Time: ", false},
    {"Avg GPU Power Draw", "Avg GPU Power Draw: ", true},
    {"Avg GPU Utilization", "Avg GPU Utilization: ", true},
    {"Avg CPU Power Draw", "Avg CPU Power Draw: ", false},
    {"Peak Memory", "Peak Memory: ", false},
    {"Time To Target", "Time To Target: ", true},
};
enum { VARIABLES = sizeof variables / sizeof *variables };

struct reference {
    const struct variable *variable;
    double value, lower, upper; /* NaN: open */
    const char *unit;
    double found; /* NaN: no such line */
    bool is_passed;
};

/* ---- references ------------------------------------------------------------------------------- */

static const struct variable *find_variable(const char *name)
{
    for (size_t i = 0; i < VARIABLES; i++)
        if (strcmp(variables[i].name, name) == 0)
            return &variables[i];
    return NULL;
}

static bool read_bound(struct ebb_reading *reading, const struct ebb_path *path,
                       const struct ebb_doc_node *list, size_t i, double *value)
{
    const struct ebb_doc_node *node = list->items[i];
    struct ebb_path at = ebb_path_item(path, list, i);
    bool is_number = node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE;
    *value = is_number ? node->number : NAN;
    if (is_number || (i > 0 && node->kind == EBB_DOC_NULL))
        return true;
    ebb_reading_refuse(reading, &at, node, i == 0 ? "a number" : "a number, or null: no limit");
    return false;
}

static bool read_tuple(struct ebb_reading *reading, const struct ebb_path *up,
                       const struct ebb_doc_node *map, size_t i, struct reference *r)
{
    const struct ebb_doc_node *key = map->keys[i], *list = map->items[i];
    struct ebb_path path = ebb_path_key(up, key);
    *r = (struct reference){.variable = find_variable(key->text), .unit = "", .found = NAN};
    if (!r->variable) {
        struct ebb_str text = {0};
        const char *names[VARIABLES];
        for (size_t k = 0; k < VARIABLES; k++) {
            names[k] = variables[k].name;
            ebb_str_printf(&text, "%s%s", k ? ", " : "", names[k]);
        }
        const char *near = ebb_nearest(key->text, names, VARIABLES);
        ebb_reading_error(reading, &path, key, "unknown variable%s%s; allowed: %s",
                          near ? ", nearest: " : "", near ? near : "", ebb_str_c(&text));
        ebb_str_fini(&text);
        return false;
    }
    if (list->kind != EBB_DOC_LIST || list->count < 3 || list->count > 4) {
        ebb_reading_refuse(reading, &path, list,
                           "[value, lower, upper, unit], as [200, -0.05, 0.1, images/s]");
        return false;
    }
    bool is_good = read_bound(reading, &path, list, 0, &r->value);
    is_good &= read_bound(reading, &path, list, 1, &r->lower);
    is_good &= read_bound(reading, &path, list, 2, &r->upper);
    struct ebb_path unit = ebb_path_item(&path, list, 3);
    if (list->count == 4 && list->items[3]->kind == EBB_DOC_STRING)
        r->unit = list->items[3]->text;
    else if (list->count == 4 && list->items[3]->kind != EBB_DOC_NULL) {
        ebb_reading_refuse(reading, &unit, list->items[3], "a unit, as images/s");
        is_good = false;
    }
    if (is_good && r->lower > r->upper) {
        ebb_reading_error(reading, &path, list, "found lower %g above upper %g", r->lower,
                          r->upper);
        is_good = false;
    }
    return is_good;
}

/* "system:partition", else "system", else "*". */
static const struct ebb_doc_node *find_system(const struct ebb_doc_node *root, const char *name)
{
    char system[256];
    snprintf(system, sizeof system, "%.*s", (int)strcspn(name, ":"), name);
    const struct ebb_doc_node *node = ebb_doc_given(root, name);
    node = node ? node : ebb_doc_given(root, system);
    return node ? node : ebb_doc_given(root, "*");
}

static int read_references(struct ebb_arena *arena, const char *path, const char *system,
                           struct reference *list, size_t *count)
{
    struct ebb_doc_node *root;
    struct ebb_reading reading;
    struct ebb_report report;
    struct ebb_error err = {0};
    int code = cli_load_mapping(arena, path, "a file of references", &root);
    if (code >= 0)
        return code;
    const struct ebb_doc_node *map = find_system(root, system);
    struct ebb_path at = {.key = system};
    struct ebb_str names = {0};
    ebb_reading_init(&reading, arena, path, &report);
    for (size_t i = 0; i < root->count; i++)
        ebb_str_printf(&names, "%s%s", i ? ", " : "", root->keys[i]->text);
    if (!map)
        ebb_reading_error(&reading, &at, root,
                          "there are no references of this system; allowed: %s", ebb_str_c(&names));
    else if (map->kind != EBB_DOC_MAP || map->count == 0)
        ebb_reading_refuse(&reading, &at, map, "a mapping of variables to references");
    else
        for (size_t i = 0; i < map->count && *count < VARIABLES; i++)
            *count += read_tuple(&reading, &at, map, i, &list[*count]);
    ebb_str_fini(&names);
    if (ebb_reading_end(&reading, &err) == EBB_OK)
        return -1;
    cli_print_report(&report, path, stderr);
    return 2;
}

/* ---- the log -------------------------------------------------------------------------------------- */

/* The first number, or the mean of all, behind a prefix at the beginning of lines. */
static enum ebb_status measure(const struct ebb_file_view *log, const char *name,
                               struct reference *r, struct ebb_error *err)
{
    const char *prefix = r->variable->prefix, *end = log->data + log->length;
    size_t n = strlen(prefix), count = 0, line = 0;
    double sum = 0;
    for (const char *at = log->data; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > n && memcmp(at, prefix, n) == 0) {
            char text[64];
            double value;
            const char *from = at + n, *to = stop;
            while (from < to && isspace((unsigned char)*from)) /* as Python's float() does */
                from++;
            while (to > from && isspace((unsigned char)to[-1]))
                to--;
            snprintf(text, sizeof text, "%.*s", (int)(to - from), from);
            if (!ebb_parse_double(text, &value) || !isfinite(value))
                return ebb_fail(err, EBB_EINPUT, "%s:%zu:%zu: %s: found \"%s\", allowed: a number",
                                name, line + 1, n + 1, r->variable->name, text);
            sum += value;
            count++;
            if (r->variable->is_first)
                break;
        }
        at = stop + 1;
    }
    r->found = count ? sum / (double)count : NAN;
    double size = fabs(r->value);
    r->is_passed = count && (isnan(r->lower) || r->found >= r->value + size * r->lower) &&
                   (isnan(r->upper) || r->found <= r->value + size * r->upper);
    return EBB_OK;
}

static void bounds_text(const struct reference *r, char *text, size_t room)
{
    double size = fabs(r->value);
    char low[32] = "-inf", high[32] = "inf";
    if (!isnan(r->lower))
        snprintf(low, sizeof low, "%.6g", r->value + size * r->lower);
    if (!isnan(r->upper))
        snprintf(high, sizeof high, "%.6g", r->value + size * r->upper);
    snprintf(text, room, "%s to %s", low, high);
}

static void print_table(const struct reference *list, size_t count)
{
    static const char *const headers[] = {"variable", "measured", "reference",
                                          "allowed",  "unit",     "result"};
    struct cli_table *table = cli_table_create(headers, sizeof headers / sizeof *headers);
    for (size_t i = 0; i < count; i++) {
        char bounds[80];
        bounds_text(&list[i], bounds, sizeof bounds);
        cli_table_cell(table, "%s", list[i].variable->name);
        cli_table_cell(table, isnan(list[i].found) ? "-" : "%.6g", list[i].found);
        cli_table_cell(table, "%.6g", list[i].value);
        cli_table_cell(table, "%s", bounds);
        cli_table_cell(table, "%s", list[i].unit);
        cli_table_cell(table, "%s",
                       isnan(list[i].found) ? "not in the log"
                       : list[i].is_passed  ? "ok"
                                            : "outside");
    }
    cli_table_out(table);
}

static void print_objects(const struct reference *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct cli_json json;
        struct ebb_json_writer *w = cli_json_object(&json);
        ebb_jsonw_key_string(w, "variable", list[i].variable->name);
        ebb_jsonw_key_double(w, "measured", list[i].found);
        ebb_jsonw_key_double(w, "reference", list[i].value);
        ebb_jsonw_key_double(w, "lower", list[i].lower);
        ebb_jsonw_key_double(w, "upper", list[i].upper);
        ebb_jsonw_key_string(w, "unit", list[i].unit);
        ebb_jsonw_key_bool(w, "passed", list[i].is_passed);
        cli_json_object_end(&json);
    }
}

/* Sanity first, as the checks have it: a run that trained nothing is no run. */
static int check(const char *path, struct reference *list, size_t count, bool is_json)
{
    struct ebb_file_view log;
    struct ebb_error err = {0};
    bool has_passed = true;
    if (ebb_file_view_open(&log, path, MOST_LOG, &err) != EBB_OK)
        return cli_report(&err);
    enum ebb_status status = EBB_OK;
    if (!log.length || !memmem(log.data, log.length, "Processing Speed", 16))
        status = ebb_fail(&err, EBB_EINPUT,
                          "%s: no line 'Processing Speed': not the log of a benchmark that trained",
                          path);
    for (size_t i = 0; i < count && status == EBB_OK; i++) {
        status = measure(&log, path, &list[i], &err);
        has_passed = has_passed && list[i].is_passed;
    }
    ebb_file_view_close(&log);
    if (status != EBB_OK)
        return cli_report(&err);
    if (is_json)
        print_objects(list, count);
    else
        print_table(list, count);
    return has_passed ? 0 : 1;
}

int cli_bench_check(int argc, char **argv)
{
    const char *references = NULL, *system = NULL;
    bool is_json = false;
    const struct cli_spec spec = {
        .usage = "ebb bench check LOG --references FILE --system NAME",
        .description =
            "Compare the log of 'ebb bench' (- is stdin) with performance references, as ReFrame\n"
            "does: FILE maps systems to variables to [value, lower, upper, unit], and a variable\n"
            "passes when value*(1+lower) <= measured <= value*(1+upper); null is no limit. NAME\n"
            "may be system:partition; then system, then '*' are looked for.\n\n"
            "Variables: Throughput, Epoch Length, Communication Time, Total IO Time, Avg CPU "
            "Power\n"
            "Draw, Peak Memory (means over the epochs); Delta Loss, Avg GPU Power Draw, Avg GPU\n"
            "Utilization, Time To Target (the first line).\n\n"
            "Exit code 0: all pass; 1: one does not; 2: invalid file or option.\n\n"
            "Example:\n"
            "  ebb bench check run.log --references refs.yaml --system archer2:compute\n",
        CLI_OPTION_ROWS({"references", 'r', CLI_STRING, &references, "FILE", "YAML of references"},
                        {"system", 's', CLI_STRING, &system, "NAME", "whose references"},
                        {"json", 0, CLI_FLAG, &is_json, NULL, "one object per variable"}),
        CLI_POSITIONAL(1, 1),
    };
    struct cli_args args = {0};
    struct ebb_arena arena = {0};
    struct reference list[VARIABLES];
    size_t count = 0;
    int code = cli_parse(&spec, argc, argv, &args);
    if (code < 0 && (!references || !system))
        code = cli_usage_error("say what to compare with: --references FILE --system NAME");
    if (code < 0)
        code = read_references(&arena, references, system, list, &count);
    if (code < 0)
        code = check(args.positional[0], list, count, is_json);
    ebb_arena_fini(&arena);
    cli_args_fini(&args);
    return code;
}
