/* synthetic.c - generated language, trees and points. */
#include "data/synthetic.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "data/bert.h"

struct data_random data_synthetic_random(const struct data_synthetic *s, enum data_split split,
                                         uint64_t index)
{
    struct data_random r = {.used = 4};
    r.key[0] = (uint32_t)s->seed;
    r.key[1] = (uint32_t)s->id ^ (uint32_t)(s->seed >> 32) * 0x9e3779b9u;
    r.counter[1] = (uint32_t)index;
    r.counter[2] = (uint32_t)split;
    return r;
}

void data_synthetic_counts(struct data_set *set, const struct data_values *v, uint64_t train,
                           uint64_t validation)
{
    set->info.full_count[DATA_TRAIN] = v->samples ? (uint64_t)v->samples : train;
    set->info.full_count[DATA_VALIDATION] = v->val_samples ? (uint64_t)v->val_samples : validation;
    set->info.is_synthetic = true;
}

/* ---- language: an order-2 chain over classes of tokens ----
 *
 * The next token depends on (second last mod 8, last mod 32): 256 contexts, four continuations each
 * with probabilities 1/2, 1/4, 1/8, 1/8. Frequent ids are low ones. The entropy is 1.21 nats per
 * token, far below ln V, and a bigram model gets part of the way. */

struct language {
    struct data_synthetic source;
    int64_t vocabulary, sequence;
    int64_t special; /* BERT: ids below are not made */
};

static int64_t chain_next(const struct language *l, int64_t before, int64_t last, uint32_t draw)
{
    uint32_t key[2] = {(uint32_t)l->source.seed, 0x6c616e67u}, words[4];
    uint32_t way = draw >> 29;
    way = way < 4 ? 0 : way < 6 ? 1 : way == 6 ? 2 : 3;
    ebb_philox(key, (uint32_t[4]){(uint32_t)(before % 8), (uint32_t)(last % 32), way, 1}, words);
    double u = (double)words[0] * 0x1p-32;
    double span = (double)(l->vocabulary - l->special);
    int64_t token = (int64_t)(span * u * u * u);
    return l->special + (token < l->vocabulary - l->special ? token : 0);
}

/* n tokens of a sample, from its first one. */
static void chain_make(const struct language *l, const struct data_request *q, int64_t *out,
                       int64_t n, int64_t skip)
{
    struct data_random r = data_synthetic_random(&l->source, q->split, q->index);
    int64_t span = l->vocabulary - l->special;
    int64_t before = l->special + (int64_t)(data_random_u32(&r) % (uint64_t)span);
    int64_t last = l->special + (int64_t)(data_random_u32(&r) % (uint64_t)span);
    for (int64_t i = 0; i < n + skip; i++) {
        int64_t next = chain_next(l, before, last, data_random_u32(&r));
        before = last;
        last = next;
        if (i >= skip)
            out[i - skip] = next;
    }
}

static enum ebb_status language_read(const struct data_request *q, struct ebb_error *err)
{
    const struct language *l = q->set->state;
    (void)err;
    for (int f = 0; f < 2; f++) {
        if (q->fields[f])
            chain_make(l, q, q->fields[f], l->sequence, f);
    }
    return EBB_OK;
}

enum ebb_status data_synthetic_language(struct data_set *set, const struct data_values *v,
                                        struct ebb_error *err)
{
    EBB_TRY(data_new_state(set, sizeof(struct language), err));
    struct language *l = set->state;
    l->source = (struct data_synthetic){v->synthetic_seed, DATA_SYN_LANGUAGE};
    l->vocabulary = v->vocabulary ? v->vocabulary : 50257;
    l->sequence = v->sequence_length;
    set->read = language_read;
    set->info.vocabulary = l->vocabulary;
    set->info.sequence = l->sequence;
    data_synthetic_counts(set, v, 65536, 1024);
    data_add_field(&set->info, "tokens", DATA_I64, 1, &l->sequence);
    data_add_field(&set->info, "targets", DATA_I64, 1, &l->sequence);
    set->make_formats = "tokens";
    return EBB_OK;
}

/* ---- BERT: two segments, 15 % of the places masked, one at least ---- */

enum { BERT_CLS = 101, BERT_SEP = 102, BERT_MASK = 103, BERT_SPECIAL = 1000 };

static enum ebb_status bert_read(const struct data_request *q, struct ebb_error *err)
{
    const struct language *l = q->set->state;
    size_t bytes = (size_t)l->sequence * sizeof(int64_t);
    int64_t *tokens, *targets, *segments, *attention;
    EBB_TRY(data_scratch_take(q->scratch, bytes, &tokens, err));
    EBB_TRY(data_scratch_take(q->scratch, bytes, &targets, err));
    EBB_TRY(data_scratch_take(q->scratch, bytes, &segments, err));
    EBB_TRY(data_scratch_take(q->scratch, bytes, &attention, err));
    chain_make(l, q, tokens, l->sequence, 0);
    struct data_random r = data_synthetic_random(&l->source, q->split, q->index);
    r.counter[3] = 1; /* beside the chain's own numbers */
    bool is_next = data_random_u32(&r) & 1;
    int64_t half = l->sequence / 2;
    if (!is_next) { /* the second part is another text */
        struct data_request other = *q;
        other.index ^= 0x40000000u;
        chain_make(l, &other, tokens + half, l->sequence - half, half);
    }
    tokens[0] = BERT_CLS;
    tokens[half] = BERT_SEP;
    tokens[l->sequence - 1] = BERT_SEP;
    int64_t first = -1, count = 0; /* place that could be masked; masked places */
    for (int64_t i = 0; i < l->sequence; i++) {
        bool can_be = tokens[i] >= BERT_SPECIAL;
        bool is_masked = can_be && data_random_unit(&r) < 0.15;
        double way = data_random_unit(&r);
        first = can_be && first < 0 ? i : first;
        count += is_masked;
        targets[i] = is_masked ? tokens[i] : -100;
        segments[i] = i > half;
        attention[i] = 1;
        if (is_masked && way < 0.8)
            tokens[i] = BERT_MASK;
        else if (is_masked && way < 0.9)
            tokens[i] = BERT_SPECIAL +
                        (int64_t)data_random_below(&r, (uint64_t)(l->vocabulary - BERT_SPECIAL));
    }
    if (count == 0 && first >= 0) { /* one at least, as in real shards: a mean of nothing is NaN */
        targets[first] = tokens[first];
        tokens[first] = BERT_MASK;
    }
    const int64_t *made[] = {tokens, targets, segments, attention};
    for (int f = 0; f < 4; f++) {
        if (q->fields[f])
            memcpy(q->fields[f], made[f], bytes);
    }
    if (q->fields[4])
        *(int64_t *)q->fields[4] = is_next ? 0 : 1;
    return EBB_OK;
}

enum ebb_status data_synthetic_bert(struct data_set *set, const struct data_values *v,
                                    struct ebb_error *err)
{
    EBB_TRY(data_new_state(set, sizeof(struct language), err));
    struct language *l = set->state;
    set->read = bert_read;
    l->source = (struct data_synthetic){v->synthetic_seed, DATA_SYN_BERT};
    l->vocabulary = v->vocabulary ? v->vocabulary : 30522;
    l->sequence = v->sequence_length;
    l->special = BERT_SPECIAL;
    if (l->vocabulary <= BERT_SPECIAL || l->sequence < 4)
        return ebb_fail(err, EBB_EINPUT,
                        "synthetic bert: vocabulary %lld, sequence %lld; more than %d and at least "
                        "4 are needed",
                        (long long)l->vocabulary, (long long)l->sequence, BERT_SPECIAL);
    data_synthetic_counts(set, v, 65536, 10000);
    data_bert_describe(&set->info, l->vocabulary, l->sequence);
    set->info.scratch_bytes = 4 * ((size_t)l->sequence * sizeof(int64_t) + 16);
    return EBB_OK;
}

static void language_defaults(struct data_values *v)
{
    v->vocabulary = 50257;
    v->sequence_length = 1024;
}

const struct data_row data_row_language = {
    .name = "language",
    .summary = "generated: an order-2 chain of tokens",
    .aliases = "gpt2 synthetic_language",
    .keys = "data_dir vocabulary sequence_length samples val_samples",
    .can_synthesize = true,
    .is_always_synthetic = true,
    .kind = DATA_LANGUAGE,
    .defaults = language_defaults,
    .open = data_synthetic_language,
};

/* ---- trees: sums, extremes and choices over ten digits ----
 *
 * A leaf is a digit word 0..9; an inner node is an operator: 10 sum mod 10, 11 the larger, 12 the
 * smaller, 13 the left, 14 the right. The label is what the root evaluates to. */

enum { TREE_DIGITS = 10, TREE_WORDS = 15 };

struct trees {
    struct data_synthetic source;
    int64_t depth, nodes;
    bool is_full;
};

struct tree_building {
    const struct trees *trees;
    struct data_random r;
    int64_t *words, *left, *right;
    int64_t count;
};

/* Grow a subtree in post-order; *value is what it evaluates to, the result is its node. The depth
 * is at most 16 by the key's range. */
static int64_t tree_grow(struct tree_building *b, int64_t depth, int64_t *value)
{
    bool is_leaf = depth == 0 || (!b->trees->is_full && depth < b->trees->depth &&
                                  data_random_u32(&b->r) % 4 == 0);
    int64_t left = -1, right = -1, word;
    if (is_leaf) {
        word = data_random_u32(&b->r) % TREE_DIGITS;
        *value = word;
    } else {
        int64_t x = 0, y = 0;
        left = tree_grow(b, depth - 1, &x);
        right = tree_grow(b, depth - 1, &y);
        word = TREE_DIGITS + data_random_u32(&b->r) % (TREE_WORDS - TREE_DIGITS);
        const int64_t results[] = {(x + y) % TREE_DIGITS, x > y ? x : y, x < y ? x : y, x, y};
        *value = results[word - TREE_DIGITS];
    }
    int64_t node = b->count++;
    b->words[node] = word;
    b->left[node] = left;
    b->right[node] = right;
    return node;
}

static enum ebb_status trees_read(const struct data_request *q, struct ebb_error *err)
{
    const struct trees *t = q->set->state;
    size_t bytes = (size_t)t->nodes * sizeof(int64_t);
    struct tree_building b = {.trees = t,
                              .r = data_synthetic_random(&t->source, q->split, q->index)};
    int64_t **arrays[] = {&b.words, &b.left, &b.right};
    static const size_t places[] = {0, 2, 3};
    for (int i = 0; i < 3; i++) {
        *arrays[i] = q->fields[places[i]];
        if (!*arrays[i])
            EBB_TRY(data_scratch_take(q->scratch, bytes, arrays[i], err));
        memset(*arrays[i], 0xff, bytes); /* -1 everywhere */
    }
    int64_t value = 0;
    tree_grow(&b, t->depth, &value);
    if (q->fields[1])
        *(int64_t *)q->fields[1] = value;
    if (q->fields[4])
        *(int64_t *)q->fields[4] = b.count;
    return EBB_OK;
}

static enum ebb_status trees_open(struct data_set *set, const struct data_values *v,
                                  struct ebb_error *err)
{
    struct trees *t = set->state;
    (void)err;
    t->source = (struct data_synthetic){v->synthetic_seed, DATA_SYN_TREES};
    t->depth = v->depth;
    t->is_full = v->full;
    t->nodes = ((int64_t)2 << v->depth) - 1;
    struct data_info *info = &set->info;
    info->classes = TREE_DIGITS;
    info->vocabulary = TREE_WORDS;
    info->sequence = t->nodes;
    data_synthetic_counts(set, v, 10000, 1000);
    data_add_field(info, "words", DATA_I64, 1, &t->nodes);
    data_add_field(info, "label", DATA_I64, 0, NULL);
    data_add_field(info, "left", DATA_I64, 1, &t->nodes);
    data_add_field(info, "right", DATA_I64, 1, &t->nodes);
    data_add_field(info, "nodes", DATA_I64, 0, NULL);
    info->scratch_bytes = 3 * ((size_t)t->nodes * sizeof(int64_t) + 16);
    return EBB_OK;
}

static void trees_defaults(struct data_values *v)
{
    v->depth = 6;
}

const struct data_row data_row_trees = {
    DATA_ROW("trees", "generated: expressions over digits and their value", DATA_TREES,
             struct trees, trees_open, trees_read, NULL),
    .aliases = "treelstm",
    .keys = "data_dir depth full samples val_samples",
    .can_synthesize = true,
    .is_always_synthetic = true,
    .defaults = trees_defaults,
};

/* ---- points on a circle, for the unrolled GAN ---- */

struct points {
    struct data_synthetic source;
    int64_t noise, components;
    float *ends; /* running sums of the mixture weights, after the struct */
};

static enum ebb_status gan_read(const struct data_request *q, struct ebb_error *err)
{
    const struct points *p = q->set->state;
    (void)err;
    struct data_random r = data_synthetic_random(&p->source, q->split, q->index);
    float u = (float)data_random_unit(&r);
    int64_t low = 0, high = p->components - 1;
    while (low < high) { /* first end above u */
        int64_t middle = low + (high - low) / 2;
        if (p->ends[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    double angle = 6.283185307179586 * (double)low / (double)p->components;
    double x = 2 * cos(angle) + 0.02 * data_random_normal(&r);
    double y = 2 * sin(angle) + 0.02 * data_random_normal(&r);
    for (int64_t i = 0; q->fields[0] && i < p->noise; i++)
        ((float *)q->fields[0])[i] = (float)data_random_normal(&r);
    if (q->fields[1]) {
        ((float *)q->fields[1])[0] = (float)x;
        ((float *)q->fields[1])[1] = (float)y;
    }
    return EBB_OK;
}

static enum ebb_status gan_open(struct data_set *set, const struct data_values *v,
                                struct ebb_error *err)
{
    size_t n = (size_t)v->components;
    EBB_TRY(data_new_state(set, sizeof(struct points) + n * sizeof(float), err));
    struct points *p = set->state;
    p->source = (struct data_synthetic){v->synthetic_seed, DATA_SYN_GAN};
    p->noise = v->noise;
    p->components = v->components;
    p->ends = (float *)(p + 1);
    struct data_random r = data_synthetic_random(&p->source, DATA_SPLITS, 0);
    double sum = 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        p->ends[i] = (float)(0.1 + data_random_unit(&r));
        sum += (double)p->ends[i];
    }
    for (size_t i = 0; i < n; i++) {
        at += (double)p->ends[i] / sum;
        p->ends[i] = (float)at;
    }
    data_synthetic_counts(set, v, 512 * 128, 512);
    data_add_field(&set->info, "noise", DATA_F32, 1, &p->noise);
    data_add_field(&set->info, "real", DATA_F32, 1, (int64_t[]){2});
    set->info.resident_bytes = n * sizeof(float);
    return EBB_OK;
}

static void gan_defaults(struct data_values *v)
{
    v->noise = 256;
    v->components = 512;
    v->data_dir = "synthetic:123456";
}

const struct data_row data_row_gan = {
    .name = "gan",
    .summary = "generated: points on a circle",
    .aliases = "unrolled_gan",
    .keys = "data_dir noise components samples val_samples",
    .can_synthesize = true,
    .is_always_synthetic = true,
    .kind = DATA_GAN,
    .defaults = gan_defaults,
    .open = gan_open,
    .read = gan_read,
};
