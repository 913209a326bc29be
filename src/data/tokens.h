/* tokens.h - streams of tokens in files, cut into windows. Private. */
#ifndef EBB_DATA_TOKENS_H
#define EBB_DATA_TOKENS_H

#include "data/internal.h"

/* Files one after the other, little-endian integers of one width. A file that starts with the magic
 * number 20240520 has a header of 1024 bytes (version 1, count), as llm.c writes them. */
struct data_tokens {
    struct data_token_file {
        struct data_file file;
        uint64_t start; /* byte of the first token */
    } * files;          /* owned */
    uint64_t *first;    /* owned: tokens before file i; one more than files */
    size_t count, capacity, first_capacity;
    int width; /* 1, 2, 4, 8 bytes */
};

void data_tokens_fini(struct data_tokens *t);
/* Takes the file over, also on failure. */
enum ebb_status data_tokens_add(struct data_tokens *t, struct data_file *take_file,
                                struct ebb_error *err);
uint64_t data_tokens_total(const struct data_tokens *t);

/* State of a set of windows, used by tokens and text. */
struct data_windows {
    struct data_tokens tokens[DATA_SPLITS];
    uint64_t begin[DATA_SPLITS], end[DATA_SPLITS]; /* tokens of each split */
    int64_t sequence, stride, vocabulary;
};

/* Lengths as the section says, and the tokens of each split: without files for validation it gets
 * the tail of the training stream. */
void data_windows_split(struct data_windows *w, const struct data_values *v, bool has_validation);
/* Fill info (fields, counts) from ranges and lengths. */
enum ebb_status data_windows_describe(struct data_set *set, struct data_windows *w,
                                      struct ebb_error *err);
enum ebb_status data_windows_read(const struct data_request *request, struct ebb_error *err);
void data_windows_close(struct data_set *set); /* state is a struct data_windows */

#endif
