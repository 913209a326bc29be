/* section.c - the keys of a `data` section: rows of base/keys.h, and the rules between them. */
#include "data/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/keys.h"

static bool is_dataset(const char *name)
{
    return data_row_find(name) != NULL;
}

static bool is_text(const char *text)
{
    return text[0] != '\0' && strlen(text) < 4096;
}

#define AT(field) .at = offsetof(struct data_values, field)
#define LIST(field)                                                                                \
    .room = DATA_MAX_LIST, AT(field.v), .count_at = offsetof(struct data_values, field.count)
#define TEXT .check = is_text, .allowed = "a string that is not empty"

/* clang-format off */
static const struct ebb_key rows[] = {
    {.path = "name", .kind = EBB_KEY_TEXT, .flags = EBB_KEY_REQUIRED, .word = data_name, .check = is_dataset, AT(name)},
    {.path = "data_dir", .kind = EBB_KEY_TEXT, TEXT, AT(data_dir)},
    {.path = "train_subset", .kind = EBB_KEY_INT, .bounds = ">= 0, <= 1099511627776", AT(train_subset)},
    {.path = "val_subset", .kind = EBB_KEY_INT, .bounds = ">= 0, <= 1099511627776", AT(val_subset)},
    {.path = "n_train", .kind = EBB_KEY_INT, .bounds = ">= 0, <= 1099511627776", AT(train_subset)},
    {.path = "n_eval", .kind = EBB_KEY_INT, .bounds = ">= 0, <= 1099511627776", AT(val_subset)},
    {.path = "shuffle", .kind = EBB_KEY_BOOL, AT(shuffle)},
    {.path = "drop_last_batch", .kind = EBB_KEY_BOOL, AT(drop_last_batch)},
    {.path = "prefetch", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 65536", AT(prefetch)},
    {.path = "workers", .kind = EBB_KEY_INT, .bounds = ">= 0, <= 256", AT(workers)},
    {.path = "buffer", .kind = EBB_KEY_BYTES, .bounds = ">= 1, <= 1099511627776", AT(buffer)},
    {.path = "rng", .kind = EBB_KEY_TEXT, .words = "ebb torch", AT(rng)},
    {.path = "size", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 65536", AT(size)},
    {.path = "height", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 65536", AT(height)},
    {.path = "width", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 65536", AT(width)},
    {.path = "channels", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 65536", AT(channels)},
    {.path = "classes", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 1000000000", AT(classes)},
    {.path = "resize", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 65536", AT(resize)},
    {.path = "crop", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 65536", AT(crop)},
    {.path = "normalize", .kind = EBB_KEY_TEXT, .words = "standard unit none", AT(normalize)},
    {.path = "image_dtype", .kind = EBB_KEY_TEXT, .words = "f32 u8", AT(image_dtype)},
    {.path = "mean", .kind = EBB_KEY_DOUBLES, .bounds = ">= -1000000, <= 1000000", LIST(mean)},
    {.path = "std", .kind = EBB_KEY_DOUBLES, .bounds = ">= 1e-6, <= 1000000", LIST(std)},
    {.path = "decode_bytes", .kind = EBB_KEY_BYTES, .bounds = ">= 65536, <= 1099511627776", AT(decode_bytes)},
    {.path = "augment", .kind = EBB_KEY_MAP, .flags = EBB_KEY_OPTIONAL, .allowed = "a mapping, as {flip: true}", .at = 0},
    {.path = "augment.flip", .kind = EBB_KEY_BOOL, AT(flip)},
    {.path = "augment.crop_pad", .kind = EBB_KEY_INT, .bounds = ">= 0, <= 65536", AT(crop_pad)},
    {.path = "augment.random_resized_crop", .kind = EBB_KEY_BOOL, AT(random_resized_crop)},
    {.path = "augment.scale", .kind = EBB_KEY_DOUBLES, .bounds = ">= 1e-6, <= 1", LIST(scale)},
    {.path = "augment.ratio", .kind = EBB_KEY_DOUBLES, .bounds = ">= 1e-3, <= 1e3", LIST(ratio)},
    {.path = "augment.brightness", .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE, .bounds = ">= 0, <= 16", AT(color.brightness)},
    {.path = "augment.contrast", .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE, .bounds = ">= 0, <= 16", AT(color.contrast)},
    {.path = "augment.saturation", .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE, .bounds = ">= 0, <= 16", AT(color.saturation)},
    {.path = "augment.hue", .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE, .bounds = ">= 0, <= 0.5", AT(color.hue)},
    {.path = "bad_samples", .kind = EBB_KEY_WORD, .words = "refuse skip", AT(bad_samples)},
    {.path = "mixup", .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE, .bounds = ">= 0, <= 100", AT(mixup)},
    {.path = "command", .kind = EBB_KEY_TEXTS, .check = is_text, LIST(command)},
    {.path = "timeout", .kind = EBB_KEY_DOUBLE, .flags = EBB_KEY_LOOSE, .bounds = ">= 0.001, <= 86400", AT(timeout)},
    {.path = "train_images", .kind = EBB_KEY_TEXT, TEXT, AT(train_images)},
    {.path = "train_labels", .kind = EBB_KEY_TEXT, TEXT, AT(train_labels)},
    {.path = "val_images", .kind = EBB_KEY_TEXT, TEXT, AT(val_images)},
    {.path = "val_labels", .kind = EBB_KEY_TEXT, TEXT, AT(val_labels)},
    {.path = "train_files", .kind = EBB_KEY_TEXTS, .check = is_text, LIST(train_files)},
    {.path = "val_files", .kind = EBB_KEY_TEXTS, .check = is_text, LIST(val_files)},
    {.path = "fields", .kind = EBB_KEY_TEXTS, .check = is_text, LIST(fields)},
    {.path = "inputs", .kind = EBB_KEY_TEXTS, .check = is_text, LIST(inputs)},
    {.path = "target", .kind = EBB_KEY_TEXTS, .check = is_text, LIST(target)},
    {.path = "target_kind", .kind = EBB_KEY_WORD, .words = "auto classes numbers", AT(target_kind)},
    {.path = "separator", .kind = EBB_KEY_WORD, .words = "comma semicolon tab", AT(separator)},
    {.path = "token_dtype", .kind = EBB_KEY_TEXT, .words = "u16 u32 i32 i64", AT(token_dtype)},
    {.path = "sequence_length", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 16777216", AT(sequence_length)},
    {.path = "stride", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 16777216", AT(stride)},
    {.path = "vocabulary", .kind = EBB_KEY_INT, .bounds = ">= 2, <= 16777216", AT(vocabulary)},
    {.path = "validation_fraction", .kind = EBB_KEY_DOUBLE, .bounds = ">= 0, <= 0.9", AT(validation_fraction)},
    {.path = "tokenizer", .kind = EBB_KEY_TEXT, .words = "byte bpe", AT(tokenizer)},
    {.path = "merges", .kind = EBB_KEY_TEXT, TEXT, AT(merges)},
    {.path = "h5", .kind = EBB_KEY_BOOL, AT(h5)},
    {.path = "apply_log", .kind = EBB_KEY_BOOL, AT(apply_log)},
    {.path = "compression", .kind = EBB_KEY_TEXT, .words = "gzip none", AT(compression)},
    {.path = "h5_normalize", .kind = EBB_KEY_TEXT, .words = "mean log none", AT(h5_normalize)},
    {.path = "samples", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 4000000000", AT(samples)},
    {.path = "val_samples", .kind = EBB_KEY_INT, .bounds = ">= 0, <= 4000000000", AT(val_samples)},
    {.path = "depth", .kind = EBB_KEY_INT, .bounds = ">= 0, <= 16", AT(depth)},
    {.path = "full", .kind = EBB_KEY_BOOL, AT(full)},
    {.path = "noise", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 1048576", AT(noise)},
    {.path = "components", .kind = EBB_KEY_INT, .bounds = ">= 1, <= 1048576", AT(components)},
};
/* clang-format on */

static const struct ebb_keys keys = {rows, sizeof rows / sizeof *rows, "docs/data.md"};

static const char every_set[] =
    "train_subset val_subset shuffle drop_last_batch prefetch workers buffer rng mixup "
    "bad_samples";

/* Of a benchmark file's section, read by the training loop. */
static const char batch_keys[] =
    "global_batch_size local_batch_size gradient_accumulation_freq gradient_accumulation n_epochs "
    "global_eval_batch_size allow_inexact_batch auto_accumulation accumulate_across_epochs";

static const struct {
    const char *benchmark, *name;
} benchmarks[] = {
    {"resnet50", "imagefolder"}, {"resnet", "imagefolder"}, {"deepcam", "deepcam"},
    {"cosmoflow", "cosmoflow"},  {"bert", "bert"},          {"gpt", "tokens"},
};

struct section { /* that is read */
    struct ebb_reading *reading;
    const struct ebb_path *path;
    const struct ebb_doc_node *map;
    const struct data_env *env;
    struct data_values *values;
    const struct data_row *row;
};

static const struct data_row *find_row(const struct section *s)
{
    struct data_values values = {0};
    struct ebb_section name = {.table = &keys, .only = "name", .is_open = true};
    const char *benchmark = s->env ? s->env->benchmark : NULL;
    for (size_t i = 0; benchmark && i < sizeof benchmarks / sizeof *benchmarks; i++)
        if (!ebb_doc_given(s->map, "name") && strcmp(benchmark, benchmarks[i].benchmark) == 0)
            return data_row_find(benchmarks[i].name);
    ebb_keys_read(s->reading, &name, s->path, s->map, s->map, &values);
    return values.name ? data_row_find(values.name) : NULL;
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
static void check_required(const struct section *s)
{
    const char *word;
    size_t n = 0;
    for (size_t i = 0; (word = ebb_words_at(s->row->required, i, &n)) != NULL; i++) {
        char key[64];
        bool is_given = false;
        for (const char *at = word; at < word + n; at += strcspn(at, "| ") + 1) {
            snprintf(key, sizeof key, "%.*s", (int)strcspn(at, "| "), at);
            is_given = is_given || ebb_doc_given(s->map, key);
        }
        snprintf(key, sizeof key, "%.*s", (int)n, word);
        if (!is_given)
            ebb_reading_wrong(s->reading, s->path, s->map, key,
                              "required but missing: this dataset needs it");
    }
}

static void read_directory(const struct section *s)
{
    struct data_values *v = s->values;
    uint64_t seed = s->env ? s->env->seed : 0;
    if (s->row->is_always_synthetic) {
        v->is_synthetic = true;
        v->synthetic_seed = seed;
    }
    if (!v->data_dir || strncmp(v->data_dir, "synthetic", 9) != 0)
        return;
    const char *rest = v->data_dir + 9;
    if (*rest != '\0' && *rest != ':')
        return;
    v->is_synthetic = true;
    v->synthetic_seed = seed;
    if (!s->row->can_synthesize)
        ebb_reading_wrong(s->reading, s->path, s->map, "data_dir",
                          "this dataset has no synthetic form");
    else if (*rest == ':' && !ebb_parse_u64(rest + 1, &v->synthetic_seed))
        ebb_reading_wrong(s->reading, s->path, s->map, "data_dir",
                          "allowed: a folder, synthetic, synthetic:<seed> with a whole number");
}

static void check_rules(const struct section *s)
{
    const struct data_values *v = s->values;
    const char *key = NULL, *message = NULL;
    if ((v->scale.count != 2 || v->scale.v[0] > v->scale.v[1]) && (key = "augment.scale"))
        message = "allowed: [least, most] share of the image's area";
    else if ((v->ratio.count != 2 || v->ratio.v[0] > v->ratio.v[1]) && (key = "augment.ratio"))
        message = "allowed: [least, most] width / height";
    else if (v->mean.count != v->std.count && (key = "mean"))
        message = "mean and std must be given together, with as many numbers";
    else if (s->row->check)
        message = s->row->check(v, &key);
    if (message)
        ebb_reading_wrong(s->reading, s->path, s->map, key, message);
}

bool data_section_read(struct ebb_reading *reading, const struct ebb_path *path,
                       const struct ebb_doc_node *map, const struct data_env *env,
                       struct data_values *values, const struct data_row **row)
{
    struct section s = {.reading = reading, .path = path, .map = map, .env = env, .values = values};
    size_t errors = reading->report->errors;
    char only[1024], also[sizeof batch_keys + 8], what[64];
    if (!map || map->kind != EBB_DOC_MAP) {
        ebb_reading_error(reading, path, map,
                          "missing: a mapping with the dataset's name is needed");
        return false;
    }
    s.row = find_row(&s);
    if (!s.row)
        return false;
    set_defaults(values, s.row);
    snprintf(only, sizeof only, "%s %s", every_set, s.row->keys);
    snprintf(also, sizeof also, "name %s", env && env->benchmark ? batch_keys : "");
    snprintf(what, sizeof what, "dataset %s", s.row->name);
    struct ebb_section section = {.table = &keys, .only = only, .also = also, .what = what};
    ebb_keys_read(reading, &section, path, map, map, values);
    read_directory(&s);
    if (!values->is_synthetic)
        check_required(&s);
    if (reading->report->errors == errors)
        check_rules(&s);
    *row = s.row;
    return reading->report->errors == errors && !reading->failed;
}
