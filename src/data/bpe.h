/* bpe.h - byte-level byte-pair encoding, GPT-2's kind. Private.
 *
 * Token ids: 0..255 single bytes in GPT-2's order (printable ones first), then one per merge in
 * order of rank, then end-of-text. With GPT-2's merges file these are GPT-2's own ids. Text is cut
 * into words first (contractions, letters, numbers, other signs, blanks); merges never cross words.
 * Beyond ASCII the cut uses ranges of code points, not the full Unicode table: a rare sign may be
 * cut otherwise than by GPT-2; the text decoded is the same in any case. */
#ifndef EBB_DATA_BPE_H
#define EBB_DATA_BPE_H

#include "base/map.h"
#include "data/internal.h"

struct data_tokenizer {
    bool is_bytes; /* ids are byte values, no merges */
    struct data_merge {
        uint32_t left, right; /* token ids; what they make is 256 + the merge's number */
    } * merges;               /* owned */
    size_t count, capacity;
    struct ebb_map ranks; /* left << 32 | right -> merge */
};

void data_tokenizer_destroy(struct data_tokenizer *t);
int64_t data_tokenizer_vocabulary(const struct data_tokenizer *t);
/* Merges file: "#version" line, then one pair per line in GPT-2's printable spelling. */
enum ebb_status data_tokenizer_read(struct data_tokenizer **t, const char *name, const char *bytes,
                                    size_t length, struct ebb_error *err);
enum ebb_status data_tokenizer_write(const struct data_tokenizer *t, struct ebb_str *out,
                                     struct ebb_error *err);
enum ebb_status data_tokenizer_add(struct data_tokenizer *t, uint32_t left, uint32_t right,
                                   struct ebb_error *err);
/* Bytes of one token appended; ids beyond the vocabulary add nothing. */
void data_tokenizer_spell(const struct data_tokenizer *t, int64_t token, struct ebb_str *out);
uint32_t data_byte_token(uint8_t byte);

/* Length of the word at text (> 0 when there is text). */
size_t data_word_length(const char *text, size_t length);
/* Apply the merges to a word of n symbols in place; returns the new number. */
size_t data_tokenizer_merge(const struct data_tokenizer *t, uint32_t *symbols, size_t n);

/* Different words of texts with their counts. */
struct data_word {
    const char *text; /* borrowed from the text */
    uint32_t length, symbol_count;
    uint64_t uses;
    uint32_t *symbols; /* owned by the table: tokens, after merging */
};
struct data_words {
    struct data_word *items;
    size_t count, capacity;
    struct ebb_strmap map;
};
void data_words_fini(struct data_words *words);
enum ebb_status data_words_count(struct data_words *words, const char *text, size_t length,
                                 struct ebb_error *err);
/* Learn merges until the vocabulary (end-of-text included) is full or no pair occurs twice. The
 * most frequent pair first, the lower ids among equals. */
enum ebb_status data_tokenizer_train(struct data_tokenizer **t, const char *text, size_t length,
                                     int64_t vocabulary, struct ebb_error *err);

#endif
