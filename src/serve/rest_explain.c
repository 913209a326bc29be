/* rest_explain.c - memory before training: a model of the zoo with its numbers, explained by 'ebb
 * explain' in a process of its own.
 *
 * What is asked is words and numbers, never a file, path, command or library: so whoever may look
 * may ask. The process has ten seconds and a limit of memory; answers are kept. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/keys.h"
#include "base/process.h"
#include "base/tasks.h"
#include "serve/inner.h"

#define LIMIT_NS 10000000000ull
#define SECONDS "7" /* in which it predicts what it can */
#define MEMORY "--as=4294967296"

struct asked {
    const char *model, *task, *optimizer, *precision, *device;
    int64_t batch;
    const struct ebb_doc_node *options, *opt;
    uint64_t budget, host, file;
    bool is_quick;
};

static bool is_word(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && n <= 40 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789_") == n;
}

static const char *task_at(size_t index)
{
#define X(name, kinds, help) #name,
    static const char *const names[] = {EBB_TASK_LIST(X) "sequence", NULL};
#undef X
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

#define ROW(name, kind_, field, about, ...)                                                        \
    EBB_KEY_ROW(struct asked, name, kind_, field, about, __VA_ARGS__)
static const struct ebb_key rows[] = {
    ROW("model", TEXT, model, "of the zoo", .check = is_word, .flags = EBB_KEY_REQUIRED,
        .allowed = "a name of 'ebb model list'"),
    ROW("task", TEXT, task, "what it is trained for", .word = task_at, .flags = EBB_KEY_REQUIRED),
    ROW("batch", INT, batch, "samples of a step", .bounds = "> 0, <= 1000000"),
    ROW("optimizer", TEXT, optimizer, "its name", .check = is_word),
    ROW("precision", TEXT, precision, "of compute", .words = "fp32 bf16 fp16"),
    ROW("device", TEXT, device, "where it would run", .words = "cpu nvidia-h200"),
    ROW("budget", BYTES, budget, "bytes of the device", .bounds = "> 0"),
    ROW("host", BYTES, host, "bytes of host memory that tensors may go to", .flags = 0),
    ROW("file", BYTES, file, "bytes of a file that they may go to", .flags = 0),
    ROW("options", FREE, options, "of the model: numbers, lists of them, words",
        .flags = EBB_KEY_OPTIONAL),
    ROW("opt", FREE, opt, "arguments of the optimizer, likewise", .flags = EBB_KEY_OPTIONAL),
    ROW("quick", BOOL, is_quick, "bytes and floor only, no times", .flags = 0),
};
static const struct ebb_keys keys = EBB_KEYS(rows);

/* Numbers, lists of numbers, words: nothing that could name a file. */
static bool is_plain(const struct ebb_doc_node *value)
{
    if (value->kind == EBB_DOC_STRING)
        return is_word(value->text);
    if (value->kind == EBB_DOC_LIST && value->count <= 64) {
        for (size_t i = 0; i < value->count; i++)
            if (value->items[i]->kind != EBB_DOC_INT && value->items[i]->kind != EBB_DOC_DOUBLE)
                return false;
        return true;
    }
    return value->kind == EBB_DOC_INT || value->kind == EBB_DOC_DOUBLE ||
           value->kind == EBB_DOC_BOOL;
}

static enum ebb_status check_plain(struct serve_rest *r, const char *name,
                                   const struct ebb_doc_node *map)
{
    for (size_t i = 0; map != NULL && i < map->count; i++)
        if (!is_word(map->keys[i]->text) || !is_plain(map->items[i]))
            return serve_refuse(r, 400, "%s.%.40s: allowed: a number, a list of numbers, a word",
                                name, map->keys[i]->text);
    return EBB_OK;
}

static enum ebb_status read_asked(struct serve_rest *r, struct asked *a)
{
    struct ebb_reading reading;
    struct ebb_report report;
    struct ebb_error why;
    *a = (struct asked){.batch = 1, .optimizer = "SGD", .precision = "fp32", .device = "cpu"};
    if (r->body == NULL)
        return serve_refuse(r, 400, "the body is missing");
    ebb_reading_init(&reading, r->arena, "body", &report);
    ebb_keys_read(&reading, &(struct ebb_section){.table = &keys}, NULL, r->body, r->body, a);
    EBB_TRY(serve_blame(r, ebb_reading_end(&reading, &why), &why, 400, ""));
    static const char *const others[] = {"name", "file", "init_from"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (a->options != NULL && ebb_doc_get(a->options, others[i]) != NULL)
            return serve_refuse(r, 400, "options.%s: a model of the zoo, by model; no files",
                                others[i]);
    EBB_TRY(check_plain(r, "options", a->options));
    return check_plain(r, "opt", a->opt);
}

static void write_section(struct ebb_json_writer *w, const char *key, const char *name,
                          const struct ebb_doc_node *more)
{
    ebb_jsonw_key_object(w, key);
    ebb_jsonw_key_string(w, "name", name);
    for (size_t i = 0; more != NULL && i < more->count; i++)
        ebb_doc_write_key(more->items[i], w, more->keys[i]->text);
    ebb_jsonw_object_end(w);
}

/* The experiment file that is explained; JSON is YAML. */
static void write_file(const struct asked *a, struct ebb_str *out)
{
    struct ebb_json_writer w;
    struct ebb_str entry = {0};
    bool is_sequence = strcmp(a->task, "sequence") == 0; /* has no task of its own name */
    ebb_str_printf(&entry, "ebb:%s", is_sequence ? "regression" : a->task);
    ebb_jsonw_init(&w, out, 0);
    ebb_jsonw_object(&w);
    ebb_jsonw_key_string(&w, "entrypoint", ebb_str_c(&entry));
    write_section(&w, "model", a->model, a->options);
    ebb_jsonw_key_object(&w, "hyperparameters");
    ebb_jsonw_key_int(&w, "global_batch_size", a->batch);
    ebb_jsonw_object_end(&w);
    write_section(&w, "opt", a->optimizer, a->opt);
    ebb_jsonw_key_object(&w, "memory");
    ebb_jsonw_key_string(&w, "precision", a->precision);
    if (strcmp(a->device, "cpu") != 0)
        ebb_jsonw_key_string(&w, "device", a->device);
    if (a->host > 0)
        ebb_jsonw_key_uint(&w, "host", a->host);
    if (a->file > 0)
        ebb_jsonw_key_uint(&w, "file", a->file);
    ebb_jsonw_object_end(&w);
    ebb_jsonw_key_object(&w, "searcher");
    ebb_jsonw_key_string(&w, "name", "single");
    ebb_jsonw_key_string(&w, "metric", "validation_loss");
    ebb_jsonw_key_int(&w, "max_steps", 1);
    ebb_jsonw_object_end(&w);
    ebb_jsonw_object_end(&w);
    ebb_str_fini(&entry);
}

/* What it says, without who says it: "prlimit failed (exit 2): ebb: error: /dev/stdin:1:40: ..." */
static enum ebb_status blame(struct serve_rest *r, enum ebb_status status,
                             const struct ebb_error *why)
{
    const char *text = strstr(why->message, "): "), *at;
    text = text != NULL ? text + 3 : why->message;
    if ((at = strstr(text, "ebb: error: ")) != NULL)
        text = at + 12;
    if (strncmp(text, "/dev/stdin:", 11) == 0 && (at = strstr(text, ": ")) != NULL)
        text = at + 2;
    if (status == EBB_ELIMIT)
        return serve_refuse(r, 504,
                            "this takes more than %llu s; 'ebb explain FILE' takes its time",
                            LIMIT_NS / 1000000000ull);
    return serve_refuse(r, status == EBB_ENOMEM ? 503 : 422, "%s", text);
}

/* The program itself, as a process with little memory. */
static enum ebb_status run(struct serve_rest *r, const char *const *words,
                           const struct ebb_str *input, struct ebb_str *out)
{
    char self[32];
    const char *argv[16] = {"prlimit", MEMORY, "--", self};
    struct ebb_error why;
    /* as it runs: the file of that name may be another by now */
    snprintf(self, sizeof self, "/proc/%ld/exe", (long)getpid());
    if (r->info.options->ebb_path != NULL)
        argv[3] = r->info.options->ebb_path;
    for (size_t i = 0; words[i] != NULL; i++)
        argv[4 + i] = words[i];
    struct ebb_process process = {
        .argv = argv, .input = ebb_str_c(input), .length = input->length, .timeout_ns = LIMIT_NS};
    enum ebb_status status = ebb_process_run(&process, out, &why);
    if (status == EBB_OK && out->length == 0)
        return serve_refuse(r, 422, "'ebb explain' ended without an answer");
    return status == EBB_OK ? EBB_OK : blame(r, status, &why);
}

/* The same question has the same answer. */
static enum ebb_status run_once(struct serve_rest *r, const char *const *words,
                                const struct ebb_str *input, struct ebb_str *out)
{
    struct ebb_str key = {0};
    for (size_t i = 0; words[i] != NULL; i++)
        ebb_str_printf(&key, "%s\n", words[i]);
    ebb_str_addn(&key, ebb_str_c(input), input->length);
    enum ebb_status status = ebb_str_status(&key, r->err);
    if (status == EBB_OK && !serve_apart_recall(r->apart, &key, out)) {
        status = run(r, words, input, out);
        if (status == EBB_OK)
            serve_apart_keep(r->apart, &key, out);
    }
    ebb_str_fini(&key);
    return status;
}

static enum ebb_status explain(struct serve_rest *r)
{
    struct asked a;
    struct ebb_str file = {0}, out = {0};
    char budget[32];
    EBB_TRY(read_asked(r, &a));
    snprintf(budget, sizeof budget, "%llu", (unsigned long long)a.budget);
    const char *const quick[] = {
        "explain", "/dev/stdin", "--json", "--quick", a.budget > 0 ? "--budget" : NULL,
        budget,    NULL};
    const char *const whole[] = {
        "explain", "/dev/stdin", "--json", "--seconds",
        SECONDS,   "--policy",   "dtr_eq", a.budget > 0 ? "--budget" : NULL,
        budget,    NULL};
    write_file(&a, &file);
    enum ebb_status status = ebb_str_status(&file, r->err);
    if (status == EBB_OK)
        status = run_once(r, a.is_quick ? quick : whole, &file, &out);
    if (status == EBB_OK) {
        ebb_str_clear(&r->response->body);
        ebb_str_addn(&r->response->body, ebb_str_c(&out), out.length);
    }
    ebb_str_fini(&file);
    ebb_str_fini(&out);
    return status;
}

/* Lines of JSON, as a list. */
static enum ebb_status models(struct serve_rest *r)
{
    static const char *const words[] = {"model", "list", "--json", NULL};
    struct ebb_str nothing = {0}, out = {0};
    enum ebb_status status = run_once(r, words, &nothing, &out);
    if (status == EBB_OK) {
        serve_begin_list(r, "models");
        for (const char *at = ebb_str_c(&out); *at != '\0';) {
            size_t n = strcspn(at, "\n");
            if (n > 0)
                ebb_jsonw_raw(&r->w, at, n);
            at += n + (at[n] == '\n');
        }
        serve_end_list(r);
    }
    ebb_str_fini(&out);
    return status;
}

static const struct serve_route routes[] = {
    {"POST", "/explain", explain, "memory of a training step", SERVE_READS | SERVE_SLOW},
    {"GET", "/models", models, "the models of the zoo", SERVE_SLOW},
};
const struct serve_routes serve_routes_explain = SERVE_ROUTES(routes);
