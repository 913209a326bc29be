/* pareto_file.c - a Pareto file: every mistake at once, lists of its commands unfolded. */
#include "harness/pareto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/keys.h"
#include "mem/mem.h"
#include "nn/nn.h"
#include "planner/planner.h"

enum { MOST_SETTINGS = 4096, MOST_MODELS = 1000 };
#define MAX_FILE ((size_t)4 << 20)
#define PLAIN_TIMEOUT 60 /* seconds of a trial whose command says nothing */

static const char *const kind_names[PARETO_KINDS] = {"fixed", "ratio", "param_sweep", "use_log",
                                                     "get_log"};

/* ---- keys ------------------------------------------------------------------------------------ */

static const char *const plain_types[] = {"baseline", "dtr", "simrd"};
enum { PLAIN_TYPES = 3 };

static const char *type_name(size_t i)
{
    if (i < PLAIN_TYPES)
        return plain_types[i];
    i -= PLAIN_TYPES;
    if (i <
        mem_policy_count) /* the policy `dtr` is that of all classes: here the type means more */
        return mem_policies[i].name;
    i -= mem_policy_count;
    return i < planner_count ? planner_table[i].name : NULL;
}

static bool is_type(const char *name)
{
    return ebb_name_index(name, plain_types, PLAIN_TYPES) >= 0 || mem_policy_find(name) ||
           planner_find(name);
}

#define ROW(...) EBB_KEY_ROW(struct harness_setup, __VA_ARGS__)
#define NOTHING(name, about)                                                                       \
    {                                                                                              \
        .path = (name), .kind = EBB_KEY_NODE, .at = EBB_KEY_NOWHERE, .help = (about),              \
        .flags = EBB_KEY_NO_EFFECT                                                                 \
    }
static const struct ebb_key command_rows[] = {
    ROW("type", TEXT, type_name, "what runs", .flags = EBB_KEY_REQUIRED, .word = type_name,
        .check = is_type, .allowed = "baseline, dtr, simrd, or a policy or planner"),
    ROW("kind", TEXT, kind_name, "what its budgets are",
        .words = "fixed ratio param_sweep use_log get_log"),
    ROW("batch_size", INT, batch_size, "size of the input", .bounds = "> 0, <= 1000000000"),
    ROW("memory_budget", DOUBLE, memory_budget, "bytes; -1: no limit", .bounds = ">= -1, <= 1e18"),
    ROW("ratio", DOUBLE, ratio, "budget as a part of the baseline's peak",
        .bounds = "> 0, <= 1000"),
    ROW("timeout", DOUBLE, timeout, "seconds that a trial may take", .bounds = "> 0, <= 1e9"),
    ROW("use_profiling", BOOL, use_profiling, "measure what a repetition is made of", .flags = 0),
    ROW("ignore_small_tensors", BOOL, ignore_small_tensors,
        "tensors far below the average size are not evicted", .flags = 0),
    ROW("use_sampling", BOOL, use_sampling, "score about 2 sqrt(n) candidates only", .flags = 0),
    ROW("no_sampling_below_budget", DOUBLE, no_sampling_below_budget,
        "no sampling in budgets up to so many bytes", .bounds = ">= -1"),
    ROW("no_sampling_below_ratio", DOUBLE, no_sampling_below_ratio,
        "no sampling in budgets up to that part of the baseline's peak", .bounds = ">= -1"),
    ROW("save_logs", BOOL, save_logs, "keep the log of the last repetition", .flags = 0),
    ROW("dry_run", INT, dry_run, "repetitions before those that count",
        .bounds = ">= 0, <= 1000000"),
    ROW("n_inputs", INT, n_inputs, "inputs, a process each", .bounds = "> 0, <= 256"),
    ROW("n_reps", INT, n_reps, "repetitions that count", .bounds = "> 0, <= 1000000"),
    ROW("retry_on_error", BOOL, retry_on_error, "begin again after a failed repetition",
        .flags = 0),
    ROW("max_retries", INT, max_retries, "how often", .bounds = ">= 0, <= 1000000"),
    ROW("attempt_timeout", DOUBLE, attempt_timeout, "seconds until the first repetition is done",
        .bounds = "> 0, <= 1e9"),
    ROW("extra_params", FREE, extra_params, "parameters of the model", .flags = EBB_KEY_OPTIONAL),
    ROW("file_path", TEXT, file_path, "log that simrd reads", .flags = 0),
    ROW("costs", WORD, costs, "times of ops that decisions go by", .words = "builtin baseline",
        .flags = EBB_KEY_BEYOND),
    ROW("paired", BOOL, paired, "before every repetition one without a limit",
        .flags = EBB_KEY_BEYOND),
    NOTHING("input_params", "passed through"),
    NOTHING("config", "of the published simulator"),
};
#undef ROW

#define ROW(...) EBB_KEY_ROW(struct harness_pareto, __VA_ARGS__)
static const struct ebb_key file_rows[] = {
    ROW("active", BOOL, is_active, "false: nothing is done", .flags = EBB_KEY_REQUIRED),
    ROW("models", TEXTS, models, "those that are measured",
        .count_at = offsetof(struct harness_pareto, model_count)),
    ROW("dry_run", INT, dry_run, "repetitions before those that count",
        .bounds = ">= 0, <= 1000000"),
    ROW("n_inputs", INT, n_inputs, "inputs, a process each", .bounds = "> 0, <= 256"),
    ROW("n_reps", INT, n_reps, "repetitions that count", .flags = EBB_KEY_REQUIRED,
        .bounds = "> 0, <= 1000000"),
    ROW("dtr_torch_cmd", TEXT, dtr_torch_cmd, "interpreter of published trials", .flags = 0),
    ROW("sync_gpu", BOOL, sync_gpu, "wait for every op of the device", .flags = 0),
    ROW("save_logs", BOOL, save_logs, "keep the log of the last repetition", .flags = 0),
    ROW("log_dest", TEXT, log_dest, "folder of those logs", .flags = 0),
    ROW("report_errors", BOOL, report_errors, "a failure is a result; false: it ends all",
        .flags = 0),
    ROW("set_seed", BOOL, set_seed, "seed says it; false: it is drawn", .flags = 0),
    ROW("seed", INT, seed, "of the first input", .bounds = ">= 0, <= 4294967295"),
    ROW("notify", NODES, notify, "who is told", .flags = EBB_KEY_EMPTY, .allowed = "a list",
        .count_at = offsetof(struct harness_pareto, notify_count)),
    ROW("dtr_settings", FREE, dtr_settings, "default, and the commands of every model",
        .flags = EBB_KEY_REQUIRED),
    NOTHING("ignore_kind", "read by nothing"),
    NOTHING("simrd_config", "list of logs"),
    NOTHING("methods", "read by nothing"),
    NOTHING("batch_size", "read by nothing"),
    NOTHING("title", "of a dashboard"),
    NOTHING("priority", "of a dashboard"),
    NOTHING("rerun_setup", "of a dashboard"),
};
#undef ROW
static const struct ebb_keys command_keys = EBB_KEYS(command_rows), file_keys = EBB_KEYS(file_rows);

/* ---- on the way ------------------------------------------------------------------------------ */

struct reader {
    struct ebb_reading *reading;
    struct harness_pareto *file;
    const struct ebb_doc_node *defaults; /* dtr_settings.default; NULL: none */
};

static void warn(struct reader *r, const struct ebb_path *path, const struct ebb_doc_node *node,
                 const char *words)
{
    struct ebb_str text = {0};
    ebb_str_add(&text, words);
    ebb_reading_say(r->reading, EBB_FINDING_WARNING, path, node, &text);
}

static bool is_note(const char *key)
{
    return strncmp(key, "note", 4) == 0;
}

/* The mapping without its notes, of which each gets a warning; places stay. */
static const struct ebb_doc_node *without_notes(struct reader *r, const struct ebb_path *path,
                                                const struct ebb_doc_node *map)
{
    struct ebb_doc_node *copy = ebb_reading_node(r->reading, EBB_DOC_MAP, map);
    const struct ebb_doc_node **keys = ebb_reading_alloc(r->reading, map->count + 1, sizeof *keys);
    const struct ebb_doc_node **items =
        ebb_reading_alloc(r->reading, map->count + 1, sizeof *items);
    if (!copy || !keys || !items)
        return map;
    for (size_t i = 0; i < map->count; i++) {
        struct ebb_path at = ebb_path_key(path, map->keys[i]);
        if (is_note(map->keys[i]->text)) {
            warn(r, &at, map->items[i], "a note, read by nobody");
            continue;
        }
        keys[copy->count] = map->keys[i];
        items[copy->count++] = map->items[i];
    }
    copy->keys = keys;
    copy->items = items;
    return copy;
}

/* Keys that a command does not have, where the file has them. */
static void check_keys(struct reader *r, const struct ebb_path *path,
                       const struct ebb_doc_node *map)
{
    struct ebb_section section = {.table = &command_keys, .what = "a command"};
    ebb_keys_check(r->reading, &section, path, without_notes(r, path, map));
}

/* "~" and "~/..." begin in the home folder. NULL: memory is out. */
static const char *expand_home(struct ebb_arena *arena, const char *path)
{
    const char *home = getenv("HOME");
    if (path[0] != '~' || (path[1] != '\0' && path[1] != '/') || !home)
        return path;
    return ebb_arena_printf(arena, "%s%s", home, path + 1);
}

/* ---- one command ----------------------------------------------------------------------------- */

/* Keys of a command that published files have among the parameters of the model. */
static const char lifted[] =
    "use_sampling ignore_small_tensors no_sampling_below_budget no_sampling_below_ratio "
    "retry_on_error max_retries attempt_timeout";

/* The command with what `default` says and with the keys that stand in extra_params. */
static const struct ebb_doc_node *complete(struct reader *r, const struct ebb_path *path,
                                           const struct ebb_doc_node *command)
{
    struct ebb_doc_node *map = ebb_reading_node(r->reading, EBB_DOC_MAP, command);
    const struct ebb_doc_node *extra = ebb_doc_given(command, "extra_params");
    bool is_baseline = strcmp(ebb_doc_string(command, "type", ""), "baseline") == 0;
    for (size_t i = 0; i < command->count; i++)
        if (command->items[i] != extra && !is_note(command->keys[i]->text))
            ebb_reading_set(r->reading, map, command->keys[i]->text, command->items[i]);
    for (size_t i = 0; r->defaults && i < r->defaults->count; i++) {
        const char *key = r->defaults->keys[i]->text;
        if (!ebb_doc_given(command, key) && (!is_baseline || strcmp(key, "batch_size") == 0))
            ebb_reading_set(r->reading, map, key, r->defaults->items[i]);
        if (!extra && !is_baseline && strcmp(key, "extra_params") == 0)
            extra = r->defaults->items[i];
    }
    if (!extra || extra->kind != EBB_DOC_MAP) {
        ebb_reading_set(r->reading, map, "extra_params", extra);
        return map;
    }
    struct ebb_doc_node *rest = ebb_reading_node(r->reading, EBB_DOC_MAP, extra);
    struct ebb_path inner = {.up = path, .key = "extra_params"};
    for (size_t i = 0; i < extra->count; i++) {
        const char *key = extra->keys[i]->text;
        const struct ebb_doc_node *other = ebb_doc_given(command, key);
        struct ebb_path at = ebb_path_key(&inner, extra->keys[i]);
        if (!ebb_words_find(lifted, key, strlen(key), NULL)) {
            ebb_reading_set(r->reading, rest, key, extra->items[i]);
        } else if (other && !ebb_doc_equal(other, extra->items[i])) {
            ebb_reading_error(r->reading, &at, extra->items[i],
                              "differs from the command's own %s (line %u); allowed: one of them",
                              key, other->line);
        } else {
            ebb_reading_set(r->reading, map, key, extra->items[i]);
        }
    }
    ebb_reading_set(r->reading, map, "extra_params", rest);
    return map;
}

static void wrong(struct reader *r, const struct ebb_path *path, const struct ebb_doc_node *map,
                  const char *key, const char *words)
{
    ebb_reading_wrong(r->reading, path, map, key, words);
}

#define OF_POLICIES                                                                                \
    "ignore_small_tensors use_sampling no_sampling_below_budget no_sampling_below_ratio"

/* Keys of the command itself that only others than it have. */
static void check_useless(struct reader *r, const struct ebb_path *path,
                          const struct ebb_doc_node *map, const struct harness_setup *s)
{
    const char *useless = "file_path", *words = "acts on type simrd with kind use_log";
    if (s->type == PARETO_BASELINE) {
        useless = "kind memory_budget ratio costs paired file_path " OF_POLICIES;
        words = "has no effect on a baseline";
    } else if (s->type == PARETO_SIMRD) {
        useless = "ratio use_profiling costs paired " OF_POLICIES;
        words = "has no effect on a log that is simulated";
    } else if (s->type == PARETO_NAMED && !planner_policy(s->type_name)) {
        useless = "file_path " OF_POLICIES;
        words = "has no effect on a planner: policies choose among candidates";
    }
    for (size_t i = 0; i < map->count; i++) {
        const char *key = map->keys[i]->text;
        struct ebb_path at = ebb_path_key(path, map->keys[i]);
        if (ebb_words_find(useless, key, strlen(key), NULL) &&
            ebb_doc_get(r->defaults, key) != map->items[i])
            warn(r, &at, map->items[i], words);
    }
}

static void check_sampling(struct reader *r, const struct ebb_path *path,
                           const struct ebb_doc_node *map, const struct harness_setup *s)
{
    const char *ratio = "no_sampling_below_ratio";
    const struct ebb_doc_node *node = ebb_doc_given(map, ratio);
    struct ebb_path at = {.up = path, .key = ratio};
    if (!isnan(s->no_sampling_below_budget) && !isnan(s->no_sampling_below_ratio))
        wrong(r, path, map, ratio,
              "found together with no_sampling_below_budget, allowed: one of them");
    else if (s->no_sampling_below_ratio > 1)
        warn(r, &at, node, "above 1: no budget is sampled");
    else if (!isnan(s->no_sampling_below_ratio) && s->kind != PARETO_RATIO)
        wrong(r, path, map, ratio, "needs kind ratio: there is no baseline's peak to compare with");
}

static void check_budget(struct reader *r, const struct ebb_path *path,
                         const struct ebb_doc_node *map, const struct harness_setup *s)
{
    bool is_log = s->kind == PARETO_USE_LOG || s->kind == PARETO_GET_LOG;
    if (s->kind == PARETO_NO_KIND)
        wrong(r, path, map, "kind",
              s->type == PARETO_SIMRD ? "required but missing, allowed: use_log, get_log"
                                      : "required but missing, allowed: fixed, ratio, param_sweep");
    else if (is_log != (s->type == PARETO_SIMRD))
        wrong(r, path, map, "kind",
              is_log ? "belongs to type simrd; allowed: fixed, ratio, param_sweep"
                     : "found with type simrd, allowed: use_log, get_log");
    if (s->kind == PARETO_USE_LOG && !s->file_path)
        wrong(r, path, map, "file_path", "required but missing, allowed: the path of a DTR log");
    if (s->kind == PARETO_RATIO && isnan(s->ratio))
        wrong(r, path, map, "ratio", "required but missing, allowed: a number > 0");
    if (s->kind == PARETO_RATIO || s->kind == PARETO_NO_KIND)
        return;
    if (isnan(s->memory_budget))
        wrong(r, path, map, "memory_budget",
              "required but missing, allowed: bytes, or -1: no limit");
    else if (s->memory_budget != -1 && !(s->memory_budget >= 1))
        wrong(r, path, map, "memory_budget", "allowed: bytes, or -1: no limit");
}

static void check_setup(struct reader *r, const struct ebb_path *path,
                        const struct ebb_doc_node *map, struct harness_setup *s)
{
    int plain = s->type_name ? ebb_name_index(s->type_name, plain_types, PLAIN_TYPES) : 0;
    int kind = ebb_name_index(s->kind_name, kind_names, PARETO_KINDS);
    if (!s->type_name)
        return; /* told */
    s->type = plain < 0 ? PARETO_NAMED : (enum pareto_type)plain;
    s->kind = kind < 0 || s->type == PARETO_BASELINE ? PARETO_NO_KIND : (enum pareto_kind)kind;
    check_useless(r, path, map, s);
    if (s->type != PARETO_BASELINE && (!s->kind_name || kind >= 0))
        check_budget(r, path, map, s);
    if (s->type != PARETO_BASELINE)
        check_sampling(r, path, map, s);
    if (s->kind != PARETO_USE_LOG && s->batch_size == 0 && !ebb_doc_given(map, "batch_size"))
        wrong(r, path, map, "batch_size", "required but missing, allowed: an integer > 0");
}

/* One combination: `map` has no lists. */
static void read_setup(struct reader *r, const struct ebb_path *path, const char *model, size_t id,
                       const struct ebb_doc_node *map)
{
    struct harness_pareto *f = r->file;
    struct ebb_section section = {.table = &command_keys, .is_open = true}; /* check_keys */
    struct harness_setup s = {.model = model,
                              .command_id = (int64_t)id,
                              .params = map,
                              .memory_budget = NAN,
                              .ratio = NAN,
                              .no_sampling_below_budget = NAN,
                              .no_sampling_below_ratio = NAN,
                              .timeout = PLAIN_TIMEOUT,
                              .attempt_timeout = 15,
                              .max_retries = 10,
                              .n_inputs = f->n_inputs,
                              .n_reps = f->n_reps,
                              .dry_run = f->dry_run,
                              .ignore_small_tensors = true,
                              .use_sampling = true,
                              .save_logs = f->save_logs};
    ebb_keys_read(r->reading, &section, path, map, map, &s);
    check_setup(r, path, map, &s);
    if (s.file_path)
        s.file_path = expand_home(r->reading->arena, s.file_path);
    if (s.kind != PARETO_USE_LOG)
        harness_model_read(r->reading, path, map, &s);
    if (f->count == f->capacity) {
        size_t capacity = f->capacity ? 2 * f->capacity : 64;
        struct harness_setup *more = ebb_reading_alloc(r->reading, capacity, sizeof *more);
        if (!more)
            return;
        if (f->count)
            memcpy(more, f->setups, f->count * sizeof *more);
        f->setups = more;
        f->capacity = capacity;
    }
    s.order = f->count;
    f->setups[f->count++] = s;
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* The values of a list that are not equal to one before. */
static const struct ebb_doc_node *distinct(struct reader *r, const struct ebb_doc_node *list)
{
    struct ebb_doc_node *out = ebb_reading_node(r->reading, EBB_DOC_LIST, list);
    for (size_t i = 0; i < list->count; i++) {
        bool is_new = true;
        for (size_t k = 0; k < i && is_new; k++)
            is_new = !ebb_doc_equal(list->items[k], list->items[i]);
        if (is_new)
            ebb_reading_append(r->reading, out, list->items[i]);
    }
    return out;
}

/* Every list unfolded, the last key fastest. `type` and `kind` are no lists. */
static void unfold(struct reader *r, const struct ebb_path *path, const char *model, size_t id,
                   const struct ebb_doc_node *map)
{
    const struct ebb_doc_node **lists =
        ebb_reading_alloc(r->reading, map->count + 1, sizeof *lists);
    size_t total = 1;
    for (size_t i = 0; lists && i < map->count; i++) {
        struct ebb_path at = ebb_path_key(path, map->keys[i]);
        bool is_list = map->items[i]->kind == EBB_DOC_LIST;
        if (!is_list || ebb_words_find("type kind input_params config", map->keys[i]->text,
                                       strlen(map->keys[i]->text), NULL))
            continue;
        bool is_short = map->items[i]->count <= MOST_SETTINGS;
        if (is_short)
            lists[i] = distinct(r, map->items[i]);
        if (map->items[i]->count == 0)
            ebb_reading_error(r->reading, &at, map->items[i],
                              "found an empty list, allowed: a value, or a list of at least one");
        total *= lists[i] && lists[i]->count ? lists[i]->count : 1;
        if (!is_short || total > MOST_SETTINGS || r->file->count + total > MOST_SETTINGS) {
            ebb_reading_error(r->reading, &at, map->items[i],
                              "the lists of this file make more than %d settings", MOST_SETTINGS);
            return;
        }
    }
    for (size_t n = 0; lists && n < total && !r->reading->failed; n++) {
        struct ebb_doc_node *one = ebb_reading_node(r->reading, EBB_DOC_MAP, map);
        size_t rest = n, stride = total;
        for (size_t i = 0; i < map->count; i++) {
            const struct ebb_doc_node *value = map->items[i];
            if (lists[i] && lists[i]->count == 0)
                continue; /* told */
            if (lists[i]) {
                stride /= lists[i]->count;
                value = lists[i]->items[rest / stride];
                rest %= stride;
            }
            ebb_reading_set(r->reading, one, map->keys[i]->text, value);
        }
        if (one)
            read_setup(r, path, model, id, one);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void read_commands(struct reader *r, const struct ebb_path *path, const char *model,
                          const struct ebb_doc_node *list)
{
    if (list->kind != EBB_DOC_LIST) {
        ebb_reading_refuse(r->reading, path, list, "a list of commands");
        return;
    }
    if (list->count == 0)
        warn(r, path, list, "no commands: nothing is measured");
    for (size_t i = 0; i < list->count; i++) {
        struct ebb_path at = ebb_path_item(path, list, i);
        if (list->items[i]->kind != EBB_DOC_MAP) {
            ebb_reading_refuse(r->reading, &at, list->items[i], "a mapping");
            continue;
        }
        check_keys(r, &at, list->items[i]);
        const struct ebb_doc_node *map = complete(r, &at, list->items[i]);
        if (map)
            unfold(r, &at, model, i, map);
    }
}

/* One of its values, or all of a list. */
static bool is_good(struct reader *r, const struct ebb_path *path, const struct ebb_key *row,
                    const struct ebb_doc_node *node)
{
    struct harness_setup nowhere = {0};
    bool is_all_good = true;
    if (node->kind == EBB_DOC_NULL)
        return false; /* as if it were not there */
    if (node->kind != EBB_DOC_LIST)
        return ebb_key_read(r->reading, row, &command_keys, path, node, &nowhere) != NULL;
    for (size_t i = 0; i < node->count; i++) {
        struct ebb_path item = ebb_path_item(path, node, i);
        is_all_good &=
            ebb_key_read(r->reading, row, &command_keys, &item, node->items[i], &nowhere) != NULL;
    }
    return is_all_good;
}

/* Keys of `default` are those of a command. What is wrong is told once, and not passed on. */
static void read_defaults(struct reader *r)
{
    const struct ebb_doc_node *map = ebb_doc_given(r->file->dtr_settings, "default");
    struct ebb_path up = {.key = "dtr_settings"}, path = {.up = &up, .key = "default"};
    struct ebb_section section = {.table = &command_keys};
    if (!map)
        return;
    if (map->kind != EBB_DOC_MAP) {
        ebb_reading_refuse(r->reading, &path, map, "a mapping");
        return;
    }
    check_keys(r, &path, map);
    struct ebb_doc_node *good = ebb_reading_node(r->reading, EBB_DOC_MAP, map);
    for (size_t i = 0; i < map->count; i++) {
        struct ebb_path at = ebb_path_key(&path, map->keys[i]);
        bool is_foreign;
        const struct ebb_key *row = ebb_section_find(&section, NULL, map->keys[i]->text,
                                                     strlen(map->keys[i]->text), &is_foreign);
        if (row && is_good(r, &at, row, map->items[i]))
            ebb_reading_set(r->reading, good, map->keys[i]->text, map->items[i]);
    }
    r->defaults = good;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In the order of their names, each once. */
static void sort_models(struct reader *r)
{
    struct harness_pareto *f = r->file;
    const char **names = ebb_reading_alloc(r->reading, f->model_count + 1, sizeof *names);
    size_t n = 0;
    if (!names)
        return;
    memcpy(names, f->models, f->model_count * sizeof *names);
    if (f->model_count)
        qsort(names, f->model_count, sizeof *names, compare_names);
    for (size_t i = 0; i < f->model_count; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
            names[n++] = names[i];
    f->models = names;
    f->model_count = n;
}

static bool is_listed(const struct harness_pareto *f, const char *model)
{
    for (size_t i = 0; i < f->model_count; i++)
        if (strcmp(f->models[i], model) == 0)
            return true;
    return false;
}

static void read_models(struct reader *r, const struct ebb_doc_node *root)
{
    struct harness_pareto *f = r->file;
    const struct ebb_doc_node *list = ebb_doc_given(root, "models");
    struct ebb_path models = {.key = "models"}, settings = {.key = "dtr_settings"};
    if (f->model_count > MOST_MODELS) {
        ebb_reading_error(r->reading, &models, list, "found %zu models, allowed: at most %d",
                          f->model_count, MOST_MODELS);
        return;
    }
    sort_models(r);
    if (list && list->kind == EBB_DOC_STRING)
        harness_model_check(r->reading, &models, list, list->text);
    for (size_t i = 0; list && list->kind == EBB_DOC_LIST && i < list->count; i++) {
        struct ebb_path at = ebb_path_item(&models, list, i);
        if (list->items[i]->kind == EBB_DOC_STRING)
            harness_model_check(r->reading, &at, list->items[i], list->items[i]->text);
    }
    for (size_t i = 0; i < f->model_count; i++) {
        const struct ebb_doc_node *commands = ebb_doc_given(f->dtr_settings, f->models[i]);
        struct ebb_path at = {.up = &settings, .key = f->models[i]};
        if (commands)
            read_commands(r, &at, f->models[i], commands);
        else if (nn_model_find(f->models[i]))
            ebb_reading_error(r->reading, &at, f->dtr_settings,
                              "required but missing, allowed: the commands of model %s, which "
                              "models lists",
                              f->models[i]);
    }
    for (size_t i = 0; i < f->dtr_settings->count; i++) {
        const struct ebb_doc_node *key = f->dtr_settings->keys[i];
        struct ebb_path at = ebb_path_key(&settings, key);
        if (strcmp(key->text, "default") != 0 && !is_note(key->text) && !is_listed(f, key->text))
            warn(r, &at, key, "models does not list it: its commands are not run");
    }
}

/* What other programs did with the file. */
static void tell_published(struct reader *r, const struct ebb_doc_node *root, bool is_cuda)
{
    struct harness_pareto *f = r->file;
    struct ebb_path torch = {.key = "dtr_torch_cmd"}, notify = {.key = "notify"};
    struct ebb_arena *arena = r->reading->arena;
    if (f->dtr_torch_cmd)
        warn(r, &torch, ebb_doc_get(root, "dtr_torch_cmd"), "not used: trials run in this program");
    if (f->notify_count)
        warn(r, &notify, ebb_doc_get(root, "notify"), "nobody is told: the results are in files");
    if (f->sync_gpu && !is_cuda)
        ebb_reading_add(r->reading, EBB_FINDING_NOTE, ebb_doc_get(root, "sync_gpu"), "sync_gpu",
                        "acts on device cuda; this one finishes every op before the next");
    if (f->log_dest)
        f->log_dest = expand_home(arena, f->log_dest);
    if (f->save_logs && !f->log_dest)
        ebb_reading_wrong(r->reading, NULL, root, "log_dest",
                          "required with save_logs, allowed: a folder for the logs");
}

/* A command of a model that comes later in the file may be its baseline. */
static int baselines_first(const void *a, const void *b)
{
    const struct harness_setup *x = a, *y = b;
    int order = strcmp(x->model, y->model);
    bool is_x = x->type == PARETO_BASELINE, is_y = y->type == PARETO_BASELINE;
    if (order == 0 && is_x != is_y)
        order = is_x ? -1 : 1;
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

enum ebb_status harness_pareto_parse(struct ebb_arena *arena, const char *name, const char *bytes,
                                     size_t length, bool is_cuda, struct harness_pareto **pareto,
                                     struct ebb_report *report, struct ebb_error *err)
{
    static const char *const plain[] = {"resnet32"};
    const struct ebb_doc_node *root;
    struct ebb_reading reading;
    struct harness_pareto *f = ebb_arena_calloc(arena, 1, sizeof *f);
    if (!f)
        return ebb_no_memory(err, sizeof *f);
    *f = (struct harness_pareto){
        .file = name, .models = plain, .model_count = 1, .dry_run = 8, .n_inputs = 3};
    EBB_TRY(ebb_doc_parse_json(arena, name, bytes, length, &root, err));
    ebb_reading_init(&reading, arena, name, report);
    struct reader r = {.reading = &reading, .file = f};
    if (root->kind != EBB_DOC_MAP) {
        ebb_reading_refuse(&reading, NULL, root, "a mapping");
        return ebb_reading_end(&reading, err);
    }
    struct ebb_section section = {.table = &file_keys};
    ebb_keys_read(&reading, &section, NULL, without_notes(&r, NULL, root), root, f);
    tell_published(&r, root, is_cuda);
    if (f->dtr_settings) {
        read_defaults(&r);
        read_models(&r, root);
    }
    EBB_TRY(ebb_reading_end(&reading, err));
    if (f->count)
        qsort(f->setups, f->count, sizeof *f->setups, baselines_first);
    *pareto = f;
    return EBB_OK;
}

enum ebb_status harness_pareto_read(struct ebb_arena *arena, const char *path, bool is_cuda,
                                    struct harness_pareto **pareto, struct ebb_report *report,
                                    struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, MAX_FILE, err));
    enum ebb_status status =
        harness_pareto_parse(arena, path, view.data, view.length, is_cuda, pareto, report, err);
    ebb_file_view_close(&view);
    return status;
}

bool harness_pareto_is_active(const struct harness_pareto *pareto)
{
    return pareto->is_active;
}

size_t harness_pareto_trials(const struct harness_pareto *pareto)
{
    size_t count = 0;
    for (size_t i = 0; i < pareto->count; i++)
        count += (size_t)pareto->setups[i].n_inputs;
    return count;
}

enum ebb_status harness_pareto_list(struct ebb_arena *arena, const struct harness_pareto *pareto,
                                    struct harness_results *results, int64_t **inputs,
                                    struct ebb_error *err)
{
    int64_t *counts = ebb_arena_calloc(arena, pareto->count + 1, sizeof *counts);
    *results = (struct harness_results){.file = pareto->file};
    for (size_t i = 0; i < pareto->count && counts; i++) {
        const struct harness_setup *s = &pareto->setups[i];
        struct harness_setting *setting = harness_results_add(arena, results, s->model, s->params);
        if (!setting)
            break;
        setting->command_id = s->command_id;
        counts[i] = s->n_inputs;
    }
    *inputs = counts;
    return ebb_arena_status(arena, err);
}
