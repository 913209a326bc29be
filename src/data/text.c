/* text.c - the dataset `text`: plain files, bytes or byte-pair tokens.
 *
 * Byte tokens are read from the files themselves. Byte-pair tokens are made once and kept in the
 * cache folder as <hash>.merges and <hash>.tokens, the hash being that of the text, the vocabulary
 * (or the merges file) and this format's version. */
#include "data/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/heap.h"
#include "data/bpe.h"
#include "data/tokens.h"

enum { CACHE_VERSION = 1 };
#define TEXT_MAX (UINT64_C(4) << 30) /* of one text that is held in memory */

static void text_close(struct data_set *set)
{
    data_windows_close(set);
    data_tokenizer_destroy(set->tokenizer);
}

/* ---- files ---- */

static enum ebb_status add_text_file(struct data_set *set, struct data_tokens *t, const char *path,
                                     struct ebb_error *err)
{
    struct data_file file;
    EBB_TRY(data_file_open(&file, path, err));
    if (!data_file_is_gzip(&file))
        return data_tokens_add(t, &file, err);
    struct data_stream s = {0};
    struct data_file unpacked = {0};
    enum ebb_status status = data_stream_open(&s, &file, DATA_WRAP_AUTO, 0, file.length, err);
    EBB_THEN(status, data_unpack(&s, TEXT_MAX, set, &unpacked, err));
    data_stream_close(&s);
    data_file_close(&file);
    EBB_THEN(status, data_tokens_add(t, &unpacked, err));
    return status;
}

static enum ebb_status add_text(struct data_set *set, struct data_tokens *t, const char *path,
                                struct ebb_error *err)
{
    struct stat about;
    struct ebb_names names = {0};
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return add_text_file(set, t, path, err);
    enum ebb_status status = data_names_list(&names, path, NULL, false, err);
    for (size_t i = 0; i < names.count && status == EBB_OK; i++) {
        char *file;
        status = data_path(&file, path, names.items[i], err);
        if (status == EBB_OK && lstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
            about.st_size > 0)
            status = add_text_file(set, t, file, err); /* links would repeat what is there */
        ebb_free(file);
    }
    ebb_names_fini(&names);
    return status;
}

static enum ebb_status add_texts(struct data_set *set, const struct data_texts *names,
                                 struct data_tokens *t, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    t->width = 1;
    for (size_t i = 0; i < names->count && status == EBB_OK; i++) {
        char *path;
        EBB_TRY(data_path(&path, set->folder, names->v[i], err));
        status = add_text(set, t, path, err);
        ebb_free(path);
    }
    if (status == EBB_OK && names->count && data_tokens_total(t) == 0)
        status = ebb_fail(err, EBB_EINPUT, "text: %s holds no text", names->v[0]);
    return status;
}

/* ---- byte-pair tokens ---- */

struct encoding {
    struct data_set *set;
    struct data_tokens bytes[DATA_SPLITS]; /* the text */
    uint64_t begin[DATA_SPLITS], end[DATA_SPLITS];
    char *text[DATA_SPLITS]; /* owned copies */
    size_t length[DATA_SPLITS];
    struct data_tokenizer *t;
    char *merges_path, *tokens_path[DATA_SPLITS];
    int width;
};

static void encoding_fini(struct encoding *e)
{
    for (int s = 0; s < DATA_SPLITS; s++) {
        data_tokens_fini(&e->bytes[s]);
        ebb_free(e->text[s]);
        ebb_free(e->tokens_path[s]);
    }
    ebb_free(e->merges_path);
}

static enum ebb_status load_text(struct encoding *e, int split, struct ebb_error *err)
{
    const struct data_tokens *t = &e->bytes[e->bytes[split].count ? split : DATA_TRAIN];
    uint64_t n = e->end[split] - e->begin[split], done = 0;
    if (n > TEXT_MAX)
        return ebb_fail(err, EBB_ELIMIT, "text: more than 4 GiB for the byte-pair tokenizer");
    EBB_TRY(ebb_new(&e->text[split], n, 1, err));
    for (size_t i = 0; i < t->count && done < n; i++) {
        uint64_t start = e->begin[split] + done;
        if (start >= t->first[i + 1])
            continue;
        uint64_t left = t->first[i + 1] - start;
        size_t now = left < n - done ? (size_t)left : (size_t)(n - done);
        EBB_TRY(data_file_read(&t->files[i].file, start - t->first[i], e->text[split] + done, now,
                               err));
        done += now;
    }
    e->length[split] = (size_t)n;
    return EBB_OK;
}

static enum ebb_status cache_paths(struct encoding *e, const char *recipe, struct ebb_error *err)
{
    struct ebb_str folder = {0}, name = {0};
    enum ebb_status status = data_cache_folder(e->set, &folder, err);
    ebb_str_printf(&name, "%d %s", CACHE_VERSION, recipe);
    for (int s = 0; s < DATA_SPLITS; s++) {
        struct ebb_hash128 h = ebb_hash128(e->text[s], e->length[s]);
        ebb_str_printf(&name, " %016llx%016llx", (unsigned long long)h.high,
                       (unsigned long long)h.low);
    }
    EBB_THEN(status, ebb_str_status(&name, err));
    if (status == EBB_OK) {
        struct ebb_hash128 h = ebb_hash128(name.data, name.length);
        char file[96];
        static const char *const ends[] = {"merges", "train.tokens", "val.tokens"};
        char **paths[] = {&e->merges_path, &e->tokens_path[0], &e->tokens_path[1]};
        for (int i = 0; i < 3 && status == EBB_OK; i++) {
            snprintf(file, sizeof file, "%016llx%016llx.%s", (unsigned long long)h.high,
                     (unsigned long long)h.low, ends[i]);
            status = data_path(paths[i], folder.data, file, err);
        }
    }
    ebb_str_fini(&folder);
    ebb_str_fini(&name);
    return status;
}

static enum ebb_status read_merges(struct encoding *e, const char *path, struct ebb_error *err)
{
    struct ebb_file_view view;
    EBB_TRY(ebb_file_view_open(&view, path, (size_t)64 << 20, err));
    enum ebb_status status = data_tokenizer_read(&e->t, path, view.data, view.length, err);
    ebb_file_view_close(&view);
    return status;
}

static enum ebb_status make_merges(struct encoding *e, int64_t vocabulary, struct ebb_error *err)
{
    if (data_path_exists(e->merges_path))
        return read_merges(e, e->merges_path, err);
    EBB_TRY(
        data_tokenizer_train(&e->t, e->text[DATA_TRAIN], e->length[DATA_TRAIN], vocabulary, err));
    struct ebb_str text = {0};
    enum ebb_status status = data_tokenizer_write(e->t, &text, err);
    EBB_THEN(status, ebb_file_write_atomic(e->merges_path, ebb_str_c(&text), text.length, err));
    ebb_str_fini(&text);
    return status;
}

static enum ebb_status write_tokens(const struct encoding *e, int split, FILE *out,
                                    struct ebb_error *err)
{
    struct data_words words = {0};
    const char *text = e->text[split];
    size_t length = e->length[split];
    enum ebb_status status = data_words_count(&words, text, length, err);
    for (size_t i = 0; i < words.count && status == EBB_OK; i++) {
        struct data_word *w = &words.items[i];
        w->symbol_count = (uint32_t)data_tokenizer_merge(e->t, w->symbols, w->symbol_count);
    }
    for (size_t at = 0; at < length && status == EBB_OK;) {
        size_t n = data_word_length(text + at, length - at);
        uint64_t index;
        n = n < 256 ? n : 256; /* the cut that data_words_count made */
        if (!ebb_strmap_get(&words.map, text + at, n, &index))
            status = ebb_fail(err, EBB_EINTERNAL, "text: a word of %zu bytes was not counted", n);
        for (uint32_t k = 0; status == EBB_OK && k < words.items[index].symbol_count; k++)
            fwrite(&words.items[index].symbols[k], (size_t)e->width, 1, out); /* little endian */
        at += n;
    }
    data_words_fini(&words);
    return status;
}

static enum ebb_status open_tokens(const struct encoding *e, int split, struct data_tokens *t,
                                   struct ebb_error *err)
{
    struct data_file file;
    if (!data_path_exists(e->tokens_path[split])) {
        struct ebb_file_out out;
        EBB_TRY(ebb_file_out_open(&out, e->tokens_path[split], err));
        enum ebb_status status = write_tokens(e, split, out.stream, err);
        EBB_THEN(status, ebb_file_out_commit(&out, err));
        if (status != EBB_OK) {
            ebb_file_out_abort(&out);
            return status;
        }
    }
    EBB_TRY(data_file_open(&file, e->tokens_path[split], err));
    t->width = e->width;
    return data_tokens_add(t, &file, err);
}

static enum ebb_status encode_text(struct data_set *set, struct data_windows *w,
                                   const struct data_values *v, struct ebb_error *err)
{
    struct encoding e = {.set = set};
    char recipe[64];
    for (int s = 0; s < DATA_SPLITS; s++) {
        e.bytes[s] = w->tokens[s];
        w->tokens[s] = (struct data_tokens){0};
        e.begin[s] = w->begin[s];
        e.end[s] = w->end[s];
    }
    enum ebb_status status = load_text(&e, DATA_TRAIN, err);
    EBB_THEN(status, load_text(&e, DATA_VALIDATION, err));
    if (status == EBB_OK && v->merges) {
        char *path;
        status = data_path(&path, set->directory, v->merges, err);
        EBB_THEN(status, read_merges(&e, path, err));
        ebb_free(path);
    }
    if (status == EBB_OK && e.t) { /* the merges decide, not their file's name */
        uint64_t hash = 0;
        for (size_t i = 0; i < e.t->count; i++) {
            uint64_t mixed[3] = {hash, e.t->merges[i].left, e.t->merges[i].right};
            hash = ebb_hash64(mixed, sizeof mixed);
        }
        snprintf(recipe, sizeof recipe, "merges %016llx", (unsigned long long)hash);
    } else {
        snprintf(recipe, sizeof recipe, "vocabulary %lld", (long long)v->vocabulary);
    }
    EBB_THEN(status, cache_paths(&e, recipe, err));
    if (status == EBB_OK && !e.t)
        status = make_merges(&e, v->vocabulary, err);
    if (status == EBB_OK)
        e.width = data_tokenizer_vocabulary(e.t) > 65536 ? 4 : 2;
    for (int s = 0; s < DATA_SPLITS && status == EBB_OK; s++) {
        if (e.length[s])
            status = open_tokens(&e, s, &w->tokens[s], err);
        w->begin[s] = 0;
        w->end[s] = data_tokens_total(&w->tokens[s]);
    }
    set->tokenizer = e.t;
    encoding_fini(&e);
    return status;
}

/* ---- the dataset ---- */

static enum ebb_status text_open(struct data_set *set, const struct data_values *v,
                                 struct ebb_error *err)
{
    struct data_windows *w = set->state;
    EBB_TRY(add_texts(set, &v->train_files, &w->tokens[DATA_TRAIN], err));
    EBB_TRY(add_texts(set, &v->val_files, &w->tokens[DATA_VALIDATION], err));
    data_windows_split(w, v, v->val_files.count > 0);
    if (strcmp(v->tokenizer, "byte") == 0) {
        EBB_TRY(ebb_new(&set->tokenizer, 1, sizeof *set->tokenizer, err));
        set->tokenizer->is_bytes = true;
    } else {
        EBB_TRY(encode_text(set, w, v, err));
    }
    w->vocabulary = data_tokenizer_vocabulary(set->tokenizer);
    return data_windows_describe(set, w, err);
}

static void text_defaults(struct data_values *v)
{
    v->train_files = (struct data_texts){.v = {"/usr/share/common-licenses"}, .count = 1};
    v->vocabulary = 1024;
}

static const char *text_check(const struct data_values *v, const char **key)
{
    *key = "vocabulary";
    if (strcmp(v->tokenizer, "bpe") == 0 && v->vocabulary < 257)
        return "byte-pair encoding needs at least 257 (the bytes and end of text)";
    *key = "merges";
    if (v->merges && strcmp(v->tokenizer, "bpe") != 0)
        return "merges need tokenizer: bpe";
    return NULL;
}

const struct data_row data_row_text = {
    DATA_ROW("text", "plain text as bytes or byte-pair tokens", DATA_LANGUAGE, struct data_windows,
             text_open, data_windows_read, text_close),
    .keys = "data_dir train_files val_files tokenizer vocabulary merges sequence_length stride "
            "validation_fraction",
    .defaults = text_defaults,
    .check = text_check,
};

enum ebb_status data_decode(const struct data_set *set, const int64_t *tokens, size_t count,
                            struct ebb_str *out, struct ebb_error *err)
{
    if (!set->tokenizer)
        return ebb_fail(err, EBB_EINPUT, "%s: this dataset has no text", set->info.name);
    for (size_t i = 0; i < count; i++)
        data_tokenizer_spell(set->tokenizer, tokens[i], out);
    return ebb_str_status(out, err);
}

enum ebb_status data_encode(const struct data_set *set, const char *text, size_t length,
                            int64_t **tokens, size_t *count, struct ebb_error *err)
{
    const struct data_tokenizer *t = set->tokenizer;
    if (!t)
        return ebb_fail(err, EBB_EINPUT, "%s: this dataset has no text", set->info.name);
    int64_t *out;
    size_t n = 0;
    EBB_TRY(ebb_new(&out, length, sizeof *out, err));
    for (size_t at = 0; at < length;) {
        uint32_t symbols[256];
        size_t word = data_word_length(text + at, length - at);
        word = word < 256 ? word : 256;
        for (size_t i = 0; i < word; i++)
            symbols[i] =
                t->is_bytes ? (uint8_t)text[at + i] : data_byte_token((uint8_t)text[at + i]);
        size_t made = t->is_bytes ? word : data_tokenizer_merge(t, symbols, word);
        for (size_t i = 0; i < made; i++)
            out[n++] = symbols[i];
        at += word;
    }
    *tokens = out;
    *count = n;
    return EBB_OK;
}
