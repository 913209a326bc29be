/* bpe_train.c - counting words and learning merges.
 *
 * A heap of pairs by (count, lower ids first) with lazy correction: an entry whose count is out of
 * date is pushed again with the right one. Each pair keeps the list of words it was seen in, so a
 * merge touches only those. */
#include "data/bpe.h"

#include <string.h>

#include "base/heap.h"

enum { MAX_WORD = 256, MAX_TOKEN = 256 };

void data_words_fini(struct data_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        ebb_free(words->items[i].symbols);
    ebb_free(words->items);
    ebb_strmap_fini(&words->map);
    *words = (struct data_words){0};
}

static enum ebb_status words_add(struct data_words *words, const char *text, size_t length,
                                 struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&words->items, &words->capacity, words->count + 1, sizeof *words->items, err));
    struct data_word w = {.text = text, .length = (uint32_t)length, .uses = 1};
    EBB_TRY(ebb_new(&w.symbols, length, sizeof *w.symbols, err));
    for (size_t i = 0; i < length; i++)
        w.symbols[i] = data_byte_token((uint8_t)text[i]);
    w.symbol_count = w.length;
    enum ebb_status status = ebb_strmap_put(&words->map, text, length, words->count, err);
    if (status != EBB_OK) {
        ebb_free(w.symbols);
        return status;
    }
    words->items[words->count++] = w;
    return EBB_OK;
}

enum ebb_status data_words_count(struct data_words *words, const char *text, size_t length,
                                 struct ebb_error *err)
{
    for (size_t at = 0; at < length;) {
        size_t n = data_word_length(text + at, length - at);
        n = n < MAX_WORD ? n : MAX_WORD; /* a run without end is cut: merging is quadratic in it */
        uint64_t index;
        if (ebb_strmap_get(&words->map, text + at, n, &index))
            words->items[index].uses++;
        else
            EBB_TRY(words_add(words, text + at, n, err));
        at += n;
    }
    return EBB_OK;
}

/* ---- learning ---- */

struct pair {
    uint64_t key; /* left << 32 | right */
    uint64_t count;
    uint32_t *words; /* that had it; may hold some twice, or no longer */
    size_t word_count, word_capacity;
};

struct entry {
    uint64_t count, key;
    size_t pair;
};

struct learning {
    struct data_tokenizer *t;
    struct data_words words;
    uint32_t *lengths; /* bytes of token 256 + i */
    size_t length_capacity;
    struct pair *pairs;
    size_t pair_count, pair_capacity;
    struct ebb_map index; /* key -> pair */
    struct entry *heap;
    size_t heap_count, heap_capacity;
};

static bool entry_before(const struct entry *a, const struct entry *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static enum ebb_status heap_push(struct learning *l, struct entry e, struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&l->heap, &l->heap_capacity, l->heap_count + 1, sizeof *l->heap, err));
    size_t at = l->heap_count++;
    for (; at > 0 && entry_before(&e, &l->heap[(at - 1) / 2]); at = (at - 1) / 2)
        l->heap[at] = l->heap[(at - 1) / 2];
    l->heap[at] = e;
    return EBB_OK;
}

static struct entry heap_pop(struct learning *l)
{
    struct entry top = l->heap[0], last = l->heap[--l->heap_count];
    size_t at = 0;
    for (size_t next; (next = 2 * at + 1) < l->heap_count; at = next) {
        if (next + 1 < l->heap_count && entry_before(&l->heap[next + 1], &l->heap[next]))
            next++;
        if (!entry_before(&l->heap[next], &last))
            break;
        l->heap[at] = l->heap[next];
    }
    l->heap[at] = last;
    return top;
}

static enum ebb_status pair_find(struct learning *l, uint64_t key, size_t *pair,
                                 struct ebb_error *err)
{
    uint64_t at;
    if (ebb_map_get(&l->index, key, &at)) {
        *pair = (size_t)at;
        return EBB_OK;
    }
    EBB_TRY(ebb_grow(&l->pairs, &l->pair_capacity, l->pair_count + 1, sizeof *l->pairs, err));
    EBB_TRY(ebb_map_put(&l->index, key, l->pair_count, err));
    l->pairs[l->pair_count] = (struct pair){.key = key};
    *pair = l->pair_count++;
    return EBB_OK;
}

static enum ebb_status pair_gain(struct learning *l, uint64_t key, size_t word,
                                 struct ebb_error *err)
{
    size_t p;
    EBB_TRY(pair_find(l, key, &p, err));
    struct pair *pair = &l->pairs[p];
    pair->count += l->words.items[word].uses;
    if (pair->word_count && pair->words[pair->word_count - 1] == word)
        return EBB_OK;
    EBB_TRY(
        ebb_grow(&pair->words, &pair->word_capacity, pair->word_count + 1, sizeof(uint32_t), err));
    pair->words[pair->word_count++] = (uint32_t)word;
    return EBB_OK;
}

static uint64_t pair_key(const uint32_t *symbols)
{
    return (uint64_t)symbols[0] << 32 | symbols[1];
}

static void word_leave(struct learning *l, const struct data_word *w)
{
    uint64_t at;
    for (uint32_t i = 0; i + 1 < w->symbol_count; i++) {
        if (ebb_map_get(&l->index, pair_key(w->symbols + i), &at))
            l->pairs[at].count -= w->uses;
    }
}

static enum ebb_status word_enter(struct learning *l, size_t word, struct ebb_error *err)
{
    const struct data_word *w = &l->words.items[word];
    for (uint32_t i = 0; i + 1 < w->symbol_count; i++)
        EBB_TRY(pair_gain(l, pair_key(w->symbols + i), word, err));
    return EBB_OK;
}

/* New pairs of a changed word that the heap does not know with their present count. */
static enum ebb_status word_push(struct learning *l, const struct data_word *w, uint32_t made,
                                 struct ebb_error *err)
{
    uint64_t at;
    for (uint32_t i = 0; i + 1 < w->symbol_count; i++) {
        uint64_t key = pair_key(w->symbols + i);
        if ((w->symbols[i] != made && w->symbols[i + 1] != made) ||
            !ebb_map_get(&l->index, key, &at))
            continue;
        EBB_TRY(heap_push(l, (struct entry){l->pairs[at].count, key, (size_t)at}, err));
    }
    return EBB_OK;
}

static bool word_merge(struct data_word *w, uint32_t left, uint32_t right, uint32_t made)
{
    uint32_t to = 0, n = w->symbol_count;
    for (uint32_t i = 0; i < n; i++, to++) {
        bool is_pair = i + 1 < n && w->symbols[i] == left && w->symbols[i + 1] == right;
        w->symbols[to] = is_pair ? made : w->symbols[i];
        i += is_pair;
    }
    w->symbol_count = to;
    return to != n;
}

static bool word_has(const struct data_word *w, uint64_t key)
{
    for (uint32_t i = 0; i + 1 < w->symbol_count; i++) {
        if (pair_key(w->symbols + i) == key)
            return true;
    }
    return false;
}

static uint32_t token_bytes(const struct learning *l, uint32_t token)
{
    return token < 256 ? 1 : l->lengths[token - 256];
}

static enum ebb_status learn_merge(struct learning *l, size_t p, struct ebb_error *err)
{
    uint64_t key = l->pairs[p].key;
    uint32_t left = (uint32_t)(key >> 32), right = (uint32_t)key;
    uint32_t made = 256 + (uint32_t)l->t->count;
    EBB_TRY(ebb_grow(&l->lengths, &l->length_capacity, l->t->count + 1, sizeof *l->lengths, err));
    l->lengths[l->t->count] = token_bytes(l, left) + token_bytes(l, right);
    EBB_TRY(data_tokenizer_add(l->t, left, right, err));
    for (size_t i = 0; i < l->pairs[p].word_count; i++) {
        size_t word = l->pairs[p].words[i];
        struct data_word *w = &l->words.items[word];
        if (!word_has(w, key))
            continue;
        word_leave(l, w);
        word_merge(w, left, right, made);
        EBB_TRY(word_enter(l, word, err));
        EBB_TRY(word_push(l, w, made, err));
    }
    ebb_free(l->pairs[p].words);
    l->pairs[p].words = NULL;
    l->pairs[p].word_count = l->pairs[p].word_capacity = 0;
    return EBB_OK;
}

static enum ebb_status learn(struct learning *l, size_t merges, struct ebb_error *err)
{
    for (size_t i = 0; i < l->words.count; i++)
        EBB_TRY(word_enter(l, i, err));
    for (size_t p = 0; p < l->pair_count; p++)
        EBB_TRY(heap_push(l, (struct entry){l->pairs[p].count, l->pairs[p].key, p}, err));
    while (l->t->count < merges && l->heap_count) {
        struct entry e = heap_pop(l);
        struct pair *pair = &l->pairs[e.pair];
        if (e.count != pair->count) { /* out of date */
            if (pair->count > 1 && pair->count < e.count)
                EBB_TRY(heap_push(l, (struct entry){pair->count, e.key, e.pair}, err));
            continue;
        }
        uint32_t left = (uint32_t)(e.key >> 32), right = (uint32_t)e.key;
        if (e.count < 2)
            break;
        if (token_bytes(l, left) + token_bytes(l, right) > MAX_TOKEN ||
            ebb_map_get(&l->t->ranks, e.key, NULL))
            continue;
        EBB_TRY(learn_merge(l, e.pair, err));
    }
    return EBB_OK;
}

enum ebb_status data_tokenizer_train(struct data_tokenizer **out, const char *text, size_t length,
                                     int64_t vocabulary, struct ebb_error *err)
{
    struct learning l = {0};
    enum ebb_status status = ebb_new(&l.t, 1, sizeof *l.t, err);
    if (status == EBB_OK && vocabulary < 257)
        status = ebb_fail(err, EBB_EINPUT,
                          "vocabulary %lld; byte-pair encoding needs at least 257 (the bytes and "
                          "end of text)",
                          (long long)vocabulary);
    EBB_THEN(status, data_words_count(&l.words, text, length, err));
    EBB_THEN(status, learn(&l, (size_t)vocabulary - 257, err));
    for (size_t p = 0; p < l.pair_count; p++)
        ebb_free(l.pairs[p].words);
    ebb_free(l.pairs);
    ebb_free(l.heap);
    ebb_free(l.lengths);
    ebb_map_fini(&l.index);
    data_words_fini(&l.words);
    if (status == EBB_OK)
        *out = l.t;
    else
        data_tokenizer_destroy(l.t);
    return status;
}
