/* section.c - the keys of a `data` section: one table, every mistake reported in one go. */
#include "data/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"

enum key_kind {
    KEY_INT,
    KEY_NUMBER,
    KEY_BOOL,
    KEY_TEXT,
    KEY_WORD,    /* one of `words` */
    KEY_BYTES,   /* 1048576 or 1MiB */
    KEY_NUMBERS, /* a list of numbers, or one */
    KEY_TEXTS,   /* a list of texts, or one */
};

struct key {
    const char *name; /* "augment.flip": inside a mapping */
    enum key_kind kind;
    size_t offset;
    double low, high; /* of numbers; of a list's numbers */
    const char *words;
};

#define AT(field) offsetof(struct data_values, field)
static const double most = 1099511627776.0; /* 2^40 */
#define MOST 1099511627776.0

static const struct key keys[] = {
    {"name", KEY_TEXT, AT(name), 0, 0, NULL},
    {"data_dir", KEY_TEXT, AT(data_dir), 0, 0, NULL},
    {"train_subset", KEY_INT, AT(train_subset), 0, MOST, NULL},
    {"val_subset", KEY_INT, AT(val_subset), 0, MOST, NULL},
    {"n_train", KEY_INT, AT(train_subset), 0, MOST, NULL},
    {"n_eval", KEY_INT, AT(val_subset), 0, MOST, NULL},
    {"shuffle", KEY_BOOL, AT(shuffle), 0, 0, NULL},
    {"drop_last_batch", KEY_BOOL, AT(drop_last_batch), 0, 0, NULL},
    {"prefetch", KEY_INT, AT(prefetch), 1, 65536, NULL},
    {"workers", KEY_INT, AT(workers), 0, 256, NULL},
    {"buffer", KEY_BYTES, AT(buffer), 1, MOST, NULL},
    {"rng", KEY_WORD, AT(rng), 0, 0, "ebb torch"},
    {"size", KEY_INT, AT(size), 1, 65536, NULL},
    {"height", KEY_INT, AT(height), 1, 65536, NULL},
    {"width", KEY_INT, AT(width), 1, 65536, NULL},
    {"channels", KEY_INT, AT(channels), 1, 65536, NULL},
    {"classes", KEY_INT, AT(classes), 1, 1e9, NULL},
    {"resize", KEY_INT, AT(resize), 1, 65536, NULL},
    {"crop", KEY_INT, AT(crop), 1, 65536, NULL},
    {"normalize", KEY_WORD, AT(normalize), 0, 0, "standard unit none"},
    {"image_dtype", KEY_WORD, AT(image_dtype), 0, 0, "f32 u8"},
    {"mean", KEY_NUMBERS, AT(mean), -1e6, 1e6, NULL},
    {"std", KEY_NUMBERS, AT(std), 1e-6, 1e6, NULL},
    {"decode_bytes", KEY_BYTES, AT(decode_bytes), 65536, MOST, NULL},
    {"augment.flip", KEY_BOOL, AT(flip), 0, 0, NULL},
    {"augment.crop_pad", KEY_INT, AT(crop_pad), 0, 65536, NULL},
    {"augment.random_resized_crop", KEY_BOOL, AT(random_resized_crop), 0, 0, NULL},
    {"augment.scale", KEY_NUMBERS, AT(scale), 1e-6, 1, NULL},
    {"augment.ratio", KEY_NUMBERS, AT(ratio), 1e-3, 1e3, NULL},
    {"train_images", KEY_TEXT, AT(train_images), 0, 0, NULL},
    {"train_labels", KEY_TEXT, AT(train_labels), 0, 0, NULL},
    {"val_images", KEY_TEXT, AT(val_images), 0, 0, NULL},
    {"val_labels", KEY_TEXT, AT(val_labels), 0, 0, NULL},
    {"train_files", KEY_TEXTS, AT(train_files), 0, 0, NULL},
    {"val_files", KEY_TEXTS, AT(val_files), 0, 0, NULL},
    {"fields", KEY_TEXTS, AT(fields), 0, 0, NULL},
    {"token_dtype", KEY_WORD, AT(token_dtype), 0, 0, "u16 u32 i32 i64"},
    {"sequence_length", KEY_INT, AT(sequence_length), 1, 1 << 24, NULL},
    {"stride", KEY_INT, AT(stride), 1, 1 << 24, NULL},
    {"vocabulary", KEY_INT, AT(vocabulary), 2, 1 << 24, NULL},
    {"validation_fraction", KEY_NUMBER, AT(validation_fraction), 0, 0.9, NULL},
    {"tokenizer", KEY_WORD, AT(tokenizer), 0, 0, "byte bpe"},
    {"merges", KEY_TEXT, AT(merges), 0, 0, NULL},
    {"h5", KEY_BOOL, AT(h5), 0, 0, NULL},
    {"apply_log", KEY_BOOL, AT(apply_log), 0, 0, NULL},
    {"compression", KEY_WORD, AT(compression), 0, 0, "gzip none"},
    {"h5_normalize", KEY_WORD, AT(h5_normalize), 0, 0, "mean log none"},
    {"samples", KEY_INT, AT(samples), 1, 4e9, NULL},
    {"val_samples", KEY_INT, AT(val_samples), 0, 4e9, NULL},
    {"depth", KEY_INT, AT(depth), 0, 16, NULL},
    {"full", KEY_BOOL, AT(full), 0, 0, NULL},
    {"noise", KEY_INT, AT(noise), 1, 1 << 20, NULL},
    {"components", KEY_INT, AT(components), 1, 1 << 20, NULL},
};
enum { KEY_COUNT = sizeof keys / sizeof keys[0] };

static const char every_set[] =
    "name train_subset val_subset shuffle drop_last_batch prefetch workers buffer rng";

/* Of a benchmark file's section, read by the training loop. */
static const char *const batch_keys[] = {
    "global_batch_size",     "local_batch_size",  "gradient_accumulation_freq",
    "gradient_accumulation", "n_epochs",          "global_eval_batch_size",
    "allow_inexact_batch",   "auto_accumulation", "accumulate_across_epochs",
};

static const struct {
    const char *benchmark, *name;
} benchmarks[] = {
    {"resnet50", "imagefolder"}, {"resnet", "imagefolder"}, {"deepcam", "deepcam"},
    {"cosmoflow", "cosmoflow"},  {"bert", "bert"},          {"gpt", "tokens"},
};

bool data_is_batch_key(const char *key)
{
    for (size_t i = 0; i < sizeof batch_keys / sizeof batch_keys[0]; i++) {
        if (strcmp(key, batch_keys[i]) == 0)
            return true;
    }
    return false;
}

/* Is `word` (of length n) one of the blank-separated words? */
static bool words_have(const char *words, const char *word, size_t n)
{
    for (const char *at = words; at && *at;) {
        size_t length = strcspn(at, " ");
        if (length == n && memcmp(at, word, n) == 0)
            return true;
        at += length;
        at += *at == ' ';
    }
    return false;
}

/* ---- reporting ---- */

struct reading {
    const struct data_env *env;
    data_report_fn report;
    void *context;
    struct data_values *values;
    const struct data_row *row;
    size_t mistakes;
    struct ebb_error *err; /* holds the first mistake */
};

static void complain(struct reading *r, const struct ebb_doc_node *node, const char *path,
                     const struct ebb_str *message)
{
    const char *text =
        message->failed ? "refused (out of memory for the reason)" : ebb_str_c(message);
    if (r->mistakes++ == 0 && r->err) {
        if (node && node->line)
            ebb_fail(r->err, EBB_EINPUT, "line %u, column %u: %s: %s", node->line, node->column,
                     path, text);
        else
            ebb_fail(r->err, EBB_EINPUT, "%s: %s", path, text);
    }
    if (r->report)
        r->report(r->context, node, path, text);
}

static void say_found(struct ebb_str *s, const struct ebb_doc_node *node)
{
    ebb_str_add(s, "found ");
    if (node->kind == EBB_DOC_STRING)
        ebb_str_printf(s, "\"%.*s\"", (int)(node->length > 60 ? 60 : node->length), node->text);
    else if (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE)
        ebb_str_add(s, node->text ? node->text : "a number");
    else if (node->kind == EBB_DOC_BOOL)
        ebb_str_add(s, node->boolean ? "true" : "false");
    else
        ebb_str_add(s, ebb_doc_kind_text(node->kind));
}

static void say_words(struct ebb_str *s, const char *words)
{
    for (const char *at = words; *at; at++) {
        if (*at == ' ')
            ebb_str_add(s, ", ");
        else
            ebb_str_addc(s, *at);
    }
}

static void say_range(struct ebb_str *s, const struct key *key)
{
    char low[32], high[32];
    ebb_format_double(key->low, low, sizeof low);
    ebb_format_double(key->high, high, sizeof high);
    if (key->high >= most)
        ebb_str_printf(s, ">= %s", low);
    else
        ebb_str_printf(s, "from %s to %s", low, high);
}

static void say_allowed(struct ebb_str *s, const struct key *key)
{
    ebb_str_add(s, "; allowed: ");
    switch (key->kind) {
    case KEY_INT:
        ebb_str_add(s, "an integer ");
        say_range(s, key);
        break;
    case KEY_NUMBER:
        ebb_str_add(s, "a number ");
        say_range(s, key);
        break;
    case KEY_BOOL:
        ebb_str_add(s, "true, false");
        break;
    case KEY_TEXT:
        ebb_str_add(s, "a text that is not empty");
        break;
    case KEY_WORD:
        say_words(s, key->words);
        break;
    case KEY_BYTES:
        ebb_str_add(s, "bytes, as 67108864 or 64MiB");
        break;
    case KEY_NUMBERS:
        ebb_str_printf(s, "at most %d numbers ", DATA_MAX_LIST);
        say_range(s, key);
        break;
    case KEY_TEXTS:
        ebb_str_printf(s, "one text or a list of 1 to %d", DATA_MAX_LIST);
        break;
    }
}

/* The nearest of blank-separated words is added as "; nearest: w". */
static void say_nearest(struct ebb_str *s, const char *text, const char *words)
{
    const char *list[64];
    char copy[1024];
    size_t count = 0;
    if (snprintf(copy, sizeof copy, "%s", words) >= (int)sizeof copy)
        return;
    for (char *at = copy, *next; at && count < 64; at = next) {
        next = strchr(at, ' ');
        if (next)
            *next++ = '\0';
        if (*at)
            list[count++] = at;
    }
    const char *nearest = ebb_nearest(text, list, count);
    if (nearest)
        ebb_str_printf(s, "; nearest: %s", nearest);
}

static void refuse(struct reading *r, const struct key *key, const struct ebb_doc_node *node,
                   const char *path)
{
    struct ebb_str s;
    ebb_str_init(&s);
    say_found(&s, node);
    say_allowed(&s, key);
    if (key->kind == KEY_WORD && node->kind == EBB_DOC_STRING)
        say_nearest(&s, node->text, key->words);
    complain(r, node, path, &s);
    ebb_str_fini(&s);
}

static void complain_text(struct reading *r, const struct ebb_doc_node *node, const char *path,
                          const char *text)
{
    struct ebb_str s;
    ebb_str_init(&s);
    ebb_str_add(&s, text);
    complain(r, node, path, &s);
    ebb_str_fini(&s);
}

/* ---- one value ---- */

static const char *plain_text(const struct ebb_doc_node *node)
{
    bool is_good = node->kind == EBB_DOC_STRING && node->length > 0 && node->length < 4096 &&
                   !memchr(node->text, 0, node->length);
    return is_good ? node->text : NULL;
}

static bool number_fits(const struct ebb_doc_node *node, const struct key *key)
{
    return (node->kind == EBB_DOC_INT || node->kind == EBB_DOC_DOUBLE) &&
           node->number >= key->low && node->number <= key->high;
}

static bool read_numbers(const struct ebb_doc_node *node, const struct key *key,
                         struct data_numbers *out)
{
    const struct ebb_doc_node *const *items = node->kind == EBB_DOC_LIST ? node->items : &node;
    size_t count = node->kind == EBB_DOC_LIST ? node->count : 1;
    struct data_numbers list = {.count = count};
    if (count == 0 || count > DATA_MAX_LIST)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!number_fits(items[i], key))
            return false;
        list.v[i] = items[i]->number;
    }
    *out = list;
    return true;
}

static bool read_texts(const struct ebb_doc_node *node, struct data_texts *out)
{
    const struct ebb_doc_node *const *items = node->kind == EBB_DOC_LIST ? node->items : &node;
    size_t count = node->kind == EBB_DOC_LIST ? node->count : 1;
    struct data_texts list = {.count = count};
    if (count == 0 || count > DATA_MAX_LIST)
        return false;
    for (size_t i = 0; i < count; i++) {
        list.v[i] = plain_text(items[i]);
        if (!list.v[i])
            return false;
    }
    *out = list;
    return true;
}

static bool read_bytes(const struct ebb_doc_node *node, const struct key *key, uint64_t *out)
{
    uint64_t bytes = 0;
    if (node->kind == EBB_DOC_INT && node->integer > 0)
        bytes = (uint64_t)node->integer;
    else if (!plain_text(node) || ebb_parse_bytes(node->text, &bytes, NULL) != EBB_OK)
        return false;
    if ((double)bytes < key->low || (double)bytes > key->high)
        return false;
    *out = bytes;
    return true;
}

static bool read_value(const struct ebb_doc_node *node, const struct key *key, void *field)
{
    const char *text;
    switch (key->kind) {
    case KEY_INT:
        if (!number_fits(node, key) ||
            (node->kind == EBB_DOC_DOUBLE && node->number != (double)(int64_t)node->number))
            return false; /* 3.0 is 3: the number may come from a search */
        *(int64_t *)field = node->kind == EBB_DOC_INT ? node->integer : (int64_t)node->number;
        return true;
    case KEY_NUMBER:
        if (!number_fits(node, key))
            return false;
        *(double *)field = node->number;
        return true;
    case KEY_BOOL:
        if (node->kind != EBB_DOC_BOOL)
            return false;
        *(bool *)field = node->boolean;
        return true;
    case KEY_TEXT:
    case KEY_WORD:
        text = plain_text(node);
        if (!text || (key->kind == KEY_WORD && !words_have(key->words, text, strlen(text))))
            return false;
        *(const char **)field = text;
        return true;
    case KEY_BYTES:
        return read_bytes(node, key, field);
    case KEY_NUMBERS:
        return read_numbers(node, key, field);
    case KEY_TEXTS:
        return read_texts(node, field);
    }
    return false;
}

/* ---- the section ---- */

static const struct key *key_find(const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strncmp(keys[i].name, prefix, n) == 0 && strcmp(keys[i].name + n, name) == 0)
            return &keys[i];
    }
    return NULL;
}

static void unknown_key(struct reading *r, const struct ebb_doc_node *key, const char *path,
                        const char *known)
{
    struct ebb_str s;
    ebb_str_init(&s);
    if (key_find("", key->text) && r->row)
        ebb_str_printf(&s, "dataset %s has no such key", r->row->name);
    else
        ebb_str_add(&s, "unknown key");
    say_nearest(&s, key->text, known);
    ebb_str_add(&s, "; known: ");
    say_words(&s, known);
    complain(r, key, path, &s);
    ebb_str_fini(&s);
}

static void read_augment(struct reading *r, const struct ebb_doc_node *map)
{
    static const char known[] = "flip crop_pad random_resized_crop scale ratio";
    char path[256];
    if (map->kind != EBB_DOC_MAP) {
        complain_text(r, map, "data.augment", "must be a mapping, as {flip: true}");
        return;
    }
    for (size_t i = 0; i < map->count; i++) {
        snprintf(path, sizeof path, "data.augment.%.200s", map->keys[i]->text);
        const struct key *key = key_find("augment.", map->keys[i]->text);
        if (!key)
            unknown_key(r, map->keys[i], path, known);
        else if (!read_value(map->items[i], key, (char *)r->values + key->offset))
            refuse(r, key, map->items[i], path);
    }
}

static void read_key(struct reading *r, const struct ebb_doc_node *name,
                     const struct ebb_doc_node *node, const char *known)
{
    char path[256];
    snprintf(path, sizeof path, "data.%.200s", name->text);
    if (!words_have(known, name->text, strlen(name->text))) {
        if (!(r->env && r->env->benchmark && data_is_batch_key(name->text)))
            unknown_key(r, name, path, known);
        return;
    }
    if (node->kind == EBB_DOC_NULL) /* an empty value: the default */
        return;
    if (strcmp(name->text, "augment") == 0) {
        read_augment(r, node);
        return;
    }
    const struct key *key = key_find("", name->text);
    if (!read_value(node, key, (char *)r->values + key->offset))
        refuse(r, key, node, path);
}

static const struct data_row *find_row(struct reading *r, const struct ebb_doc_node *section)
{
    const struct ebb_doc_node *name = ebb_doc_get(section, "name");
    if (!name || name->kind == EBB_DOC_NULL) {
        for (size_t i = 0;
             r->env && r->env->benchmark && i < sizeof benchmarks / sizeof *benchmarks; i++) {
            if (strcmp(r->env->benchmark, benchmarks[i].benchmark) == 0)
                return data_row_find(benchmarks[i].name);
        }
    }
    const char *text = name && name->kind == EBB_DOC_STRING ? plain_text(name) : NULL;
    const struct data_row *row = text ? data_row_find(text) : NULL;
    if (row)
        return row;
    struct ebb_str s;
    ebb_str_init(&s);
    if (name)
        say_found(&s, name);
    else
        ebb_str_add(&s, "missing");
    ebb_str_add(&s, "; allowed: ");
    for (size_t i = 0; data_name(i); i++)
        ebb_str_printf(&s, "%s%s", i ? ", " : "", data_name(i));
    const char *nearest = text ? data_row_nearest(text) : NULL;
    if (nearest)
        ebb_str_printf(&s, "; nearest: %s", nearest);
    complain(r, name ? name : section, "data.name", &s);
    ebb_str_fini(&s);
    return NULL;
}

static void set_defaults(struct data_values *v, const struct data_row *row)
{
    *v = (struct data_values){
        .name = row->name,
        .shuffle = true,
        .drop_last_batch = true,
        .workers = 1,
        .buffer = DATA_BUFFER_BYTES,
        .rng = "ebb",
        .normalize = "standard",
        .image_dtype = "f32",
        .decode_bytes = UINT64_C(16) << 20,
        .scale = {.v = {0.08, 1.0}, .count = 2},
        .ratio = {.v = {3.0 / 4.0, 4.0 / 3.0}, .count = 2},
        .token_dtype = "u16",
        .sequence_length = 256,
        .tokenizer = "byte",
        .compression = "gzip",
        .validation_fraction = 0.1,
    };
    if (row->defaults)
        row->defaults(v);
}

/* `required` is blank-separated; a|b: one of them; synthetic data need none. */
static void check_required(struct reading *r, const struct ebb_doc_node *section)
{
    for (const char *at = r->row->required; at && *at;) {
        size_t length = strcspn(at, " ");
        bool is_given = false;
        for (size_t i = 0; i < section->count && !is_given; i++) {
            const char *name = section->keys[i]->text;
            size_t n = strlen(name);
            for (const char *w = at; w < at + length; w += strcspn(w, "| ") + 1)
                is_given = is_given || (strcspn(w, "| ") == n && memcmp(w, name, n) == 0 &&
                                        section->items[i]->kind != EBB_DOC_NULL);
        }
        if (!is_given) {
            char path[128];
            snprintf(path, sizeof path, "data.%.*s", (int)length, at);
            complain_text(r, section, path, "missing: this dataset needs it");
        }
        at += length;
        at += *at == ' ';
    }
}

static void read_directory(struct reading *r, const struct ebb_doc_node *section)
{
    struct data_values *v = r->values;
    if (r->row->is_always_synthetic) {
        v->is_synthetic = true;
        v->synthetic_seed = r->env ? r->env->seed : 0;
    }
    if (!v->data_dir || strncmp(v->data_dir, "synthetic", 9) != 0)
        return;
    const char *rest = v->data_dir + 9;
    if (*rest != '\0' && *rest != ':')
        return;
    const struct ebb_doc_node *node = ebb_doc_get(section, "data_dir");
    v->is_synthetic = true;
    v->synthetic_seed = r->env ? r->env->seed : 0;
    if (!r->row->can_synthesize)
        complain_text(r, node, "data.data_dir", "this dataset has no synthetic form");
    else if (*rest == ':' && !ebb_parse_u64(rest + 1, &v->synthetic_seed))
        complain_text(r, node, "data.data_dir",
                      "allowed: a folder, synthetic, synthetic:<seed> with a whole number");
}

static void check_rules(struct reading *r, const struct ebb_doc_node *section)
{
    const struct data_values *v = r->values;
    const char *key = NULL, *message = NULL;
    char path[128];
    if ((v->scale.count != 2 || v->scale.v[0] > v->scale.v[1]) && (key = "augment.scale"))
        message = "allowed: [least, most] share of the image's area";
    else if ((v->ratio.count != 2 || v->ratio.v[0] > v->ratio.v[1]) && (key = "augment.ratio"))
        message = "allowed: [least, most] width / height";
    else if (v->mean.count != v->std.count && (key = "mean"))
        message = "mean and std must be given together, with as many numbers";
    else if (r->row->check)
        message = r->row->check(v, &key);
    if (!message)
        return;
    snprintf(path, sizeof path, "data.%s", key);
    const struct ebb_doc_node *node = ebb_doc_get(section, key);
    complain_text(r, node ? node : section, path, message);
}

enum ebb_status data_section_read(const struct ebb_doc_node *section, const struct data_env *env,
                                  data_report_fn report, void *context, struct data_values *values,
                                  const struct data_row **row, struct ebb_error *err)
{
    struct reading r = {
        .env = env, .report = report, .context = context, .values = values, .err = err};
    if (!section || section->kind != EBB_DOC_MAP) {
        complain_text(&r, section, "data", "missing: a mapping with the dataset's name is needed");
        return EBB_EINPUT;
    }
    r.row = find_row(&r, section);
    if (!r.row)
        return EBB_EINPUT;
    set_defaults(values, r.row);
    char known[1024];
    snprintf(known, sizeof known, "%s %s", every_set, r.row->keys);
    for (size_t i = 0; i < section->count; i++)
        read_key(&r, section->keys[i], section->items[i], known);
    values->name = r.row->name;
    read_directory(&r, section);
    if (!values->is_synthetic)
        check_required(&r, section);
    if (r.mistakes == 0)
        check_rules(&r, section);
    if (r.mistakes > 1 && err) {
        char first[900];
        snprintf(first, sizeof first, "%.890s", err->message);
        ebb_fail(err, EBB_EINPUT, "%s (and %zu more)", first, r.mistakes - 1);
    }
    if (r.mistakes)
        return EBB_EINPUT;
    *row = r.row;
    return EBB_OK;
}
