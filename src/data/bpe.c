/* bpe.c - words, merges, spelling; reading and writing merges files. */
#include "data/bpe.h"

#include <string.h>

#include "base/heap.h"

/* ---- bytes ---- */

static bool byte_is_printable(unsigned b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174);
}

/* Printable bytes keep their order and come first (0..187); the others follow. */
uint32_t data_byte_token(uint8_t byte)
{
    uint32_t b = byte;
    if (byte_is_printable(b))
        return b <= 126 ? b - 33 : b <= 172 ? b - 161 + 94 : b - 174 + 106;
    return 188 + (b <= 32 ? b : b <= 160 ? b - 127 + 33 : 67);
}

static uint8_t token_byte(uint32_t token)
{
    if (token < 188)
        return (uint8_t)(token < 94    ? token + 33
                         : token < 106 ? token - 94 + 161
                                       : token - 106 + 174);
    token -= 188;
    return (uint8_t)(token <= 32 ? token : token < 67 ? token - 33 + 127 : 173);
}

/* Code point that spells a byte in merges files. */
static unsigned byte_sign(uint8_t byte)
{
    return byte_is_printable(byte) ? byte : 256 + (data_byte_token(byte) - 188);
}

static bool sign_byte(unsigned sign, uint8_t *byte)
{
    bool is_known = sign < 256 ? byte_is_printable(sign) : sign < 256 + 68;
    if (is_known)
        *byte = sign < 256 ? (uint8_t)sign : token_byte(sign - 256 + 188);
    return is_known;
}

/* ---- words ---- */

enum sign_class { SIGN_BLANK, SIGN_LETTER, SIGN_NUMBER, SIGN_OTHER };

static bool in_ranges(uint32_t c, const uint32_t (*ranges)[2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    }
    return false;
}

static enum sign_class wide_class(uint32_t c)
{
    static const uint32_t blanks[][2] = {{0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
                                         {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                         {0x205f, 0x205f}, {0x3000, 0x3000}};
    static const uint32_t numbers[][2] = {{0xb2, 0xb3},     {0xb9, 0xb9},     {0xbc, 0xbe},
                                          {0x660, 0x669},   {0x6f0, 0x6f9},   {0x966, 0x96f},
                                          {0x2070, 0x2079}, {0x2080, 0x2089}, {0x2150, 0x2189},
                                          {0x2460, 0x249b}, {0xff10, 0xff19}};
    static const uint32_t others[][2] = {
        {0x80, 0xa9},       {0xab, 0xb1},     {0xb4, 0xb4},     {0xb6, 0xb8},
        {0xbb, 0xbb},       {0xbf, 0xbf},     {0xd7, 0xd7},     {0xf7, 0xf7},
        {0x2c2, 0x2c5},     {0x2d2, 0x2df},   {0x300, 0x36f},   {0x200b, 0x2027},
        {0x202a, 0x202e},   {0x2030, 0x205e}, {0x2060, 0x206f}, {0x207a, 0x207e},
        {0x208a, 0x208e},   {0x20a0, 0x20ff}, {0x2190, 0x245f}, {0x2500, 0x2bff},
        {0x3001, 0x3004},   {0x3007, 0x3030}, {0xfe00, 0xfe6f}, {0xff01, 0xff0f},
        {0xff1a, 0xff20},   {0xfffc, 0xffff}, {0xe000, 0xf8ff}, {0x1f000, 0x1faff},
        {0xe0000, 0x10ffff}};
    if (in_ranges(c, blanks, sizeof blanks / sizeof *blanks))
        return SIGN_BLANK;
    if (in_ranges(c, numbers, sizeof numbers / sizeof *numbers))
        return SIGN_NUMBER;
    return in_ranges(c, others, sizeof others / sizeof *others) ? SIGN_OTHER : SIGN_LETTER;
}

/* Class and length of the sign at p. A byte that is no UTF-8 counts as one sign of its own. */
static enum sign_class sign_at(const char *p, size_t left, size_t *length)
{
    const unsigned char *s = (const unsigned char *)p;
    *length = 1;
    if (s[0] < 0x80) {
        if (s[0] == ' ' || (s[0] >= 9 && s[0] <= 13) || (s[0] >= 0x1c && s[0] <= 0x1f))
            return SIGN_BLANK;
        if ((s[0] | 32) >= 'a' && (s[0] | 32) <= 'z')
            return SIGN_LETTER;
        return s[0] >= '0' && s[0] <= '9' ? SIGN_NUMBER : SIGN_OTHER;
    }
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || left < n)
        return SIGN_OTHER;
    uint32_t c = s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return SIGN_OTHER;
        c = c << 6 | (s[i] & 0x3f);
    }
    *length = n;
    return wide_class(c);
}

static size_t run_length(const char *text, size_t length, enum sign_class class)
{
    size_t n = 0, step;
    while (n < length && sign_at(text + n, length - n, &step) == class)
        n += step;
    return n;
}

static size_t contraction_length(const char *text, size_t length)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t n = strlen(endings[i]);
        if (length >= n && memcmp(text, endings[i], n) == 0)
            return n;
    }
    return 0;
}

size_t data_word_length(const char *text, size_t length)
{
    size_t n = contraction_length(text, length), step = 0;
    if (n)
        return n;
    size_t blank = text[0] == ' ' ? 1 : 0; /* a space goes with the word after it */
    if (length > blank) {
        enum sign_class class = sign_at(text + blank, length - blank, &step);
        if (class != SIGN_BLANK)
            return blank + run_length(text + blank, length - blank, class);
    }
    n = run_length(text, length, SIGN_BLANK);
    if (n == length)
        return n;
    size_t last = n; /* leave the last blank to the next word, unless it is alone */
    for (size_t at = 0; at < n; at += step) {
        sign_at(text + at, length - at, &step);
        last = at;
    }
    return last > 0 ? last : n;
}

/* ---- merges ---- */

void data_tokenizer_destroy(struct data_tokenizer *t)
{
    if (!t)
        return;
    ebb_free(t->merges);
    ebb_map_fini(&t->ranks);
    ebb_free(t);
}

int64_t data_tokenizer_vocabulary(const struct data_tokenizer *t)
{
    return t->is_bytes ? 256 : 256 + (int64_t)t->count + 1;
}

enum ebb_status data_tokenizer_add(struct data_tokenizer *t, uint32_t left, uint32_t right,
                                   struct ebb_error *err)
{
    EBB_TRY(ebb_grow(&t->merges, &t->capacity, t->count + 1, sizeof *t->merges, err));
    EBB_TRY(ebb_map_put(&t->ranks, (uint64_t)left << 32 | right, t->count, err));
    t->merges[t->count++] = (struct data_merge){left, right};
    return EBB_OK;
}

size_t data_tokenizer_merge(const struct data_tokenizer *t, uint32_t *symbols, size_t n)
{
    while (n > 1) {
        uint64_t best = UINT64_MAX, rank;
        for (size_t i = 0; i + 1 < n; i++) {
            uint64_t pair = (uint64_t)symbols[i] << 32 | symbols[i + 1];
            if (ebb_map_get(&t->ranks, pair, &rank) && rank < best)
                best = rank;
        }
        if (best == UINT64_MAX)
            break;
        size_t to = 0;
        for (size_t i = 0; i < n; i++, to++) {
            bool is_pair = i + 1 < n && symbols[i] == t->merges[best].left &&
                           symbols[i + 1] == t->merges[best].right;
            symbols[to] = is_pair ? 256 + (uint32_t)best : symbols[i];
            i += is_pair;
        }
        n = to;
    }
    return n;
}

void data_tokenizer_spell(const struct data_tokenizer *t, int64_t token, struct ebb_str *out)
{
    if (token < 0 || token >= data_tokenizer_vocabulary(t))
        return;
    if (t->is_bytes) {
        ebb_str_addc(out, (char)token);
        return;
    }
    uint32_t stack[256]; /* right parts still to spell; a token has at most 256 bytes */
    size_t depth = 0;
    for (uint32_t at = (uint32_t)token;;) {
        if (at < 256) {
            ebb_str_addc(out, (char)token_byte(at));
        } else if (at - 256 < t->count && depth < 256) {
            stack[depth++] = t->merges[at - 256].right;
            at = t->merges[at - 256].left;
            continue;
        }
        if (depth == 0)
            return;
        at = stack[--depth];
    }
}

/* ---- merges files ---- */

static void add_sign(struct ebb_str *out, unsigned sign)
{
    if (sign < 0x80) {
        ebb_str_addc(out, (char)sign);
        return;
    }
    ebb_str_addc(out, (char)(0xc0 | sign >> 6));
    ebb_str_addc(out, (char)(0x80 | (sign & 0x3f)));
}

enum ebb_status data_tokenizer_write(const struct data_tokenizer *t, struct ebb_str *out,
                                     struct ebb_error *err)
{
    struct ebb_str bytes = {0};
    ebb_str_add(out, "#version: 0.2\n");
    for (size_t i = 0; i < t->count; i++) {
        for (int side = 0; side < 2; side++) {
            ebb_str_clear(&bytes);
            data_tokenizer_spell(t, side ? t->merges[i].right : t->merges[i].left, &bytes);
            for (size_t k = 0; k < bytes.length; k++)
                add_sign(out, byte_sign((uint8_t)bytes.data[k]));
            ebb_str_addc(out, side ? '\n' : ' ');
        }
    }
    bool is_failed = bytes.failed;
    ebb_str_fini(&bytes);
    return is_failed ? ebb_no_memory(err, 64) : ebb_str_status(out, err);
}

/* Spelling in a merges file to the bytes it stands for. */
static bool read_spelling(const char *at, size_t length, struct ebb_str *bytes)
{
    ebb_str_clear(bytes);
    for (size_t i = 0; i < length; i++) {
        unsigned sign = (unsigned char)at[i];
        if (sign >= 0x80) {
            if ((sign & 0xe0) != 0xc0 || i + 1 >= length)
                return false;
            sign = (sign & 0x1f) << 6 | ((unsigned char)at[++i] & 0x3f);
        }
        uint8_t byte;
        if (!sign_byte(sign, &byte))
            return false;
        ebb_str_addc(bytes, (char)byte);
    }
    return bytes->length > 0;
}

/* Id of a spelled token: one byte, or the result of an earlier merge. */
static bool find_token(const struct ebb_strmap *known, const struct ebb_str *bytes, uint32_t *id)
{
    uint64_t value;
    if (bytes->length == 1) {
        *id = data_byte_token((uint8_t)bytes->data[0]);
        return true;
    }
    if (!ebb_strmap_get(known, bytes->data, bytes->length, &value))
        return false;
    *id = (uint32_t)value;
    return true;
}

struct merges_reading {
    struct data_tokenizer *t;
    struct ebb_strmap known; /* bytes -> id */
    struct ebb_str left, right;
    const char *name;
    size_t line;
};

static enum ebb_status read_merge(struct merges_reading *r, const char *at, size_t length,
                                  struct ebb_error *err)
{
    const char *blank = memchr(at, ' ', length);
    uint32_t left, right;
    if (!blank || !read_spelling(at, (size_t)(blank - at), &r->left) ||
        !read_spelling(blank + 1, length - (size_t)(blank - at) - 1, &r->right))
        return ebb_fail(err, EBB_ECORRUPT, "%s:%zu: not a merge: two spellings and one space",
                        r->name, r->line);
    if (!find_token(&r->known, &r->left, &left) || !find_token(&r->known, &r->right, &right))
        return ebb_fail(err, EBB_ECORRUPT, "%s:%zu: a part of this merge is made by none before it",
                        r->name, r->line);
    if (r->left.length + r->right.length > 256 || r->t->count >= 1u << 20)
        return ebb_fail(err, EBB_ELIMIT, "%s:%zu: a token of more than 256 bytes, or too many",
                        r->name, r->line);
    if (ebb_map_get(&r->t->ranks, (uint64_t)left << 32 | right, NULL))
        return ebb_fail(err, EBB_ECORRUPT, "%s:%zu: this merge is there already", r->name, r->line);
    ebb_str_addn(&r->left, ebb_str_c(&r->right), r->right.length);
    EBB_TRY(ebb_str_status(&r->left, err));
    EBB_TRY(ebb_strmap_put(&r->known, r->left.data, r->left.length, 256 + r->t->count, err));
    return data_tokenizer_add(r->t, left, right, err);
}

enum ebb_status data_tokenizer_read(struct data_tokenizer **out, const char *name,
                                    const char *bytes, size_t length, struct ebb_error *err)
{
    struct merges_reading r = {.name = name};
    enum ebb_status status = ebb_new(&r.t, 1, sizeof *r.t, err);
    for (size_t at = 0; at < length && status == EBB_OK;) {
        const char *end = memchr(bytes + at, '\n', length - at);
        size_t n = end ? (size_t)(end - bytes) - at : length - at;
        size_t line = n > 0 && bytes[at + n - 1] == '\r' ? n - 1 : n;
        r.line++;
        bool is_comment = r.line == 1 && line >= 8 && memcmp(bytes + at, "#version", 8) == 0;
        if (line > 0 && !is_comment)
            status = read_merge(&r, bytes + at, line, err);
        at += n + 1;
    }
    if (status == EBB_OK && (r.left.failed || r.right.failed))
        status = ebb_no_memory(err, 256);
    ebb_strmap_fini(&r.known);
    ebb_str_fini(&r.left);
    ebb_str_fini(&r.right);
    if (status == EBB_OK)
        *out = r.t;
    else
        data_tokenizer_destroy(r.t);
    return status;
}
