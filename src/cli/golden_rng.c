/* golden_rng.c - rng.json: Philox, torch's generator, default initialisation. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "cli/golden.h"
#include "nn/nn.h"

#define MAX_DRAWS 4096

static void run_philox(struct golden *g, const struct ebb_doc_node *list)
{
    for (size_t i = 0; list && i < list->count; i++) {
        const struct ebb_doc_node *c = ebb_doc_get(list->items[i], "counter");
        const struct ebb_doc_node *k = ebb_doc_get(list->items[i], "key");
        const struct ebb_doc_node *want = ebb_doc_get(list->items[i], "out");
        uint32_t counter[4], key[2], out[4];
        char name[32];
        snprintf(name, sizeof name, "philox_%zu", i);
        golden_begin(g, "rng", name);
        for (size_t w = 0; w < 4; w++)
            counter[w] = (uint32_t)c->items[w]->integer;
        for (size_t w = 0; w < 2; w++)
            key[w] = (uint32_t)k->items[w]->integer;
        ebb_philox(key, counter, out);
        for (size_t w = 0; w < 4; w++)
            golden_compare_number(g, "word", out[w], want->items[w]->number, 0, 0);
        golden_end(g);
    }
}

static void compare_list(struct golden *g, const char *part, const float *got,
                         const struct ebb_doc_node *want, double tolerance)
{
    for (size_t i = 0; i < want->count; i++) {
        double ref = want->items[i]->number;
        if (!(fabs((double)got[i] - ref) <= tolerance * fmax(1, fabs(ref))))
            golden_fail(g, "%s[%zu] is %.9g, expected %.9g", part, i, (double)got[i], ref);
    }
}

/* One stream: its name says what is drawn. */
static void run_stream(struct golden *g, uint64_t seed, const char *what,
                       const struct ebb_doc_node *want)
{
    struct nn_torch_rng rng;
    float y[MAX_DRAWS];
    int64_t p[MAX_DRAWS];
    size_t n = want->count;
    nn_torch_seed(&rng, seed);
    if (n > MAX_DRAWS) {
        golden_fail(g, "too many draws");
    } else if (strncmp(what, "uniform_", 8) == 0) {
        nn_torch_uniform(&rng, n, 0.0f, 1.0f, y);
        compare_list(g, what, y, want, 0);
    } else if (strncmp(what, "normal_", 7) == 0) {
        nn_torch_normal(&rng, n, 0.0f, 1.0f, y);
        compare_list(g, what, y, want, 1e-6);
    } else if (strncmp(what, "bernoulli_p0.5_", 15) == 0) {
        nn_torch_bernoulli(&rng, n, 0.5, y);
        compare_list(g, what, y, want, 0);
    } else if (strncmp(what, "randperm_", 9) == 0) {
        nn_torch_randperm(&rng, n, p);
        for (size_t i = 0; i < n; i++)
            golden_compare_number(g, what, (double)p[i], want->items[i]->number, 0, 0);
    } else if (strcmp(what, "random_u32") == 0) { /* drawn modulo 2^32 - 1 */
        for (size_t i = 0; i < n; i++)
            golden_compare_number(g, what, (double)(ebb_mt_u32(&rng.mt) % UINT32_MAX),
                                  want->items[i]->number, 0, 0);
    } else {
        golden_fail(g, "unknown stream '%s'", what);
    }
}

static void run_torch(struct golden *g, const struct ebb_doc_node *seeds)
{
    for (size_t i = 0; seeds && i < seeds->count; i++)
        for (size_t k = 0; k < seeds->items[i]->count; k++) {
            char name[96];
            uint64_t seed = 0;
            const char *what = seeds->items[i]->keys[k]->text;
            snprintf(name, sizeof name, "torch_%s_%s", seeds->keys[i]->text, what);
            golden_begin(g, "rng", name);
            ebb_parse_u64(seeds->keys[i]->text, &seed);
            run_stream(g, seed, what, seeds->items[i]->items[k]);
            golden_end(g);
        }
}

/* "Linear(5,3)", "Conv2d(2,3,3)", "Embedding(6,4)", "LSTM(3,4)": parameters in declaration order.
 */
static void run_init(struct golden *g, const struct ebb_doc_node *doc)
{
    const char *module = ebb_doc_string(doc, "module", "?");
    long a = 0, b = 0, k = 0;
    float y[MAX_DRAWS], bound = 0;
    struct nn_torch_rng rng;
    golden_begin(g, "rng", module);
    bool is_normal = sscanf(module, "Embedding(%ld,%ld)", &a, &b) == 2;
    if (is_normal)
        bound = 1.0f;
    else if (sscanf(module, "Linear(%ld,%ld)", &a, &b) == 2)
        bound = nn_default_bound(a);
    else if (sscanf(module, "Conv2d(%ld,%ld,%ld)", &a, &b, &k) == 3)
        bound = nn_default_bound(a * k * k);
    else if (sscanf(module, "LSTM(%ld,%ld)", &a, &b) == 2)
        bound = nn_default_bound(b);
    else
        golden_fail(g, "unknown module '%s'", module);
    nn_torch_seed(&rng, (uint64_t)ebb_doc_int(doc, "seed", 1));
    const struct ebb_doc_node *values = ebb_doc_get(doc, "values"); /* else one list per name */
    for (size_t i = 0; i < (values ? values : doc)->count; i++) {
        const struct ebb_doc_node *want = (values ? values : doc)->items[i];
        if (want->kind != EBB_DOC_LIST)
            continue;
        if (want->count > MAX_DRAWS) {
            golden_fail(g, "too many draws");
            break;
        }
        if (is_normal)
            nn_torch_normal(&rng, want->count, 0.0f, 1.0f, y);
        else
            nn_torch_uniform(&rng, want->count, -bound, bound, y);
        compare_list(g, "parameter", y, want, 1e-6);
    }
    golden_end(g);
}

/* The sampler rule: pad by repetition or truncate, then every R-th. */
static void run_sampler(struct golden *g, const struct ebb_doc_node *doc, size_t index)
{
    int64_t n = ebb_doc_int(doc, "dataset", 0), ranks = ebb_doc_int(doc, "replicas", 1);
    const struct ebb_doc_node *want = ebb_doc_get(doc, "indices");
    int64_t order[MAX_DRAWS];
    char name[32];
    snprintf(name, sizeof name, "sampler_%zu", index);
    golden_begin(g, "rng", name);
    bool is_dropping = ebb_doc_bool(doc, "drop_last", false);
    int64_t per_rank = is_dropping ? n / ranks : (n + ranks - 1) / ranks;
    if (n < 1 || n > MAX_DRAWS || !want || want->count != (size_t)ranks) {
        golden_fail(g, "no indices");
        golden_end(g);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    if (ebb_doc_bool(doc, "shuffle", false)) {
        struct nn_torch_rng rng;
        nn_torch_seed(&rng, (uint64_t)(ebb_doc_int(doc, "seed", 0) + ebb_doc_int(doc, "epoch", 0)));
        nn_torch_randperm(&rng, (size_t)n, order);
    }
    for (size_t r = 0; r < want->count; r++) {
        const struct ebb_doc_node *list = want->items[r];
        if (list->count != (size_t)per_rank)
            golden_fail(g, "rank %zu has %zu samples, expected %lld", r, list->count,
                        (long long)per_rank);
        for (size_t i = 0; i < list->count; i++)
            golden_compare_number(g, "index", (double)order[((int64_t)i * ranks + (int64_t)r) % n],
                                  list->items[i]->number, 0, 0);
    }
    golden_end(g);
}

enum ebb_status golden_rng(struct golden *g, struct ebb_error *err)
{
    if (!golden_has(g, "rng.json"))
        return EBB_OK;
    const struct ebb_doc_node *root = golden_json(g, "rng.json", err);
    if (!root)
        return err->status;
    run_philox(g, ebb_doc_get(root, "philox4x32_10"));
    run_torch(g, ebb_doc_get(root, "torch_mt19937"));
    const struct ebb_doc_node *init = ebb_doc_get(root, "init");
    for (size_t i = 0; init && i < init->count; i++)
        run_init(g, init->items[i]);
    const struct ebb_doc_node *sampler = ebb_doc_get(root, "distributed_sampler");
    for (size_t i = 0; sampler && i < sampler->count; i++)
        run_sampler(g, sampler->items[i], i);
    return EBB_OK;
}
