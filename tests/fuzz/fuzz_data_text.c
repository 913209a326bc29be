/* fuzz_data_text.c - merges files and texts of any bytes.
 *
 * The bytes are read as a merges file, and as a text on which merges are learned: tokens must spell
 * the text again, and the merges written must read back as themselves. */

#include "fuzz.h"

#include "data/bpe.h"

static void check_spelling(const struct data_tokenizer *t, const char *text, size_t length)
{
    struct ebb_str back;
    ebb_str_init(&back);
    for (size_t at = 0; at < length;) {
        uint32_t symbols[256];
        size_t n = data_word_length(text + at, length - at);
        require(n > 0 && n <= length - at);
        n = n < 256 ? n : 256;
        for (size_t i = 0; i < n; i++)
            symbols[i] = data_byte_token((uint8_t)text[at + i]);
        size_t made = data_tokenizer_merge(t, symbols, n);
        require(made <= n);
        for (size_t i = 0; i < made; i++)
            data_tokenizer_spell(t, symbols[i], &back);
        at += n;
    }
    require(back.length == length && (length == 0 || memcmp(back.data, text, length) == 0));
    ebb_str_fini(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct data_tokenizer *t = NULL, *again = NULL;
    struct ebb_error err = {0};
    struct ebb_str text;
    uint64_t live = ebb_heap_live();
    const char *bytes = (const char *)data;
    if (data_tokenizer_read(&t, "fuzz", bytes, size, &err) == EBB_OK)
        check_spelling(t, bytes, size);
    else
        require(err.message[0] != '\0');
    data_tokenizer_destroy(t);
    require(data_tokenizer_train(&t, bytes, size, 300, &err) == EBB_OK);
    check_spelling(t, bytes, size);
    ebb_str_init(&text);
    require(data_tokenizer_write(t, &text, &err) == EBB_OK);
    require(data_tokenizer_read(&again, "again", text.data, text.length, &err) == EBB_OK);
    require(again->count == t->count);
    require(t->count == 0 || memcmp(again->merges, t->merges, t->count * sizeof *t->merges) == 0);
    ebb_str_fini(&text);
    data_tokenizer_destroy(t);
    data_tokenizer_destroy(again);
    require(ebb_heap_live() == live);
    return 0;
}
