/* golden_rng.c - rng.json: Philox, torch's generator, default initialisation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "dev/golden.h"
#include "nn/nn.h"

#define MAX_DRAWS (1 << 20)
#define MAX_ARGS 8

/* Memory of a case: the arena of the run. NULL is said. */
static void *draws(struct dev_judge *g, size_t count, size_t bytes)
{
    void *p = count <= MAX_DRAWS ? ebb_arena_calloc(&g->arena, count + 1, bytes) : NULL;
    if (!p)
        dev_refuse(g, "%zu draws are too many", count);
    return p;
}

static void run_philox(struct dev_judge *g, const struct ebb_doc_node *list)
{
    for (size_t i = 0; list && i < list->count; i++) {
        const struct ebb_doc_node *c = dev_numbers(list->items[i], "counter");
        const struct ebb_doc_node *k = dev_numbers(list->items[i], "key");
        const struct ebb_doc_node *want = dev_numbers(list->items[i], "out");
        uint32_t counter[4], key[2], out[4];
        dev_begin(g, "rng/philox_%zu", i);
        if (!c || c->count != 4 || !k || k->count != 2 || !want || want->count != 4) {
            dev_refuse(g, "counter and out have four words, key two");
            dev_end(g);
            continue;
        }
        for (size_t w = 0; w < 4; w++)
            counter[w] = (uint32_t)c->items[w]->integer;
        for (size_t w = 0; w < 2; w++)
            key[w] = (uint32_t)k->items[w]->integer;
        ebb_philox(key, counter, out);
        for (size_t w = 0; w < 4; w++)
            dev_compare_number(g, "word", out[w], want->items[w]->number, 0, 0);
        dev_end(g);
    }
}

static void compare_list(struct dev_judge *g, const char *part, const float *got,
                         const struct ebb_doc_node *want, double tolerance)
{
    for (size_t i = 0; i < want->count; i++) {
        double ref = want->items[i]->number;
        if (!(fabs((double)got[i] - ref) <= tolerance * fmax(1, fabs(ref))))
            dev_fail(g, "%s[%zu] is %.9g, expected %.9g", part, i, (double)got[i], ref);
    }
}

/* One stream: its name says what is drawn. */
static void run_stream(struct dev_judge *g, uint64_t seed, const char *what,
                       const struct ebb_doc_node *want)
{
    struct nn_torch_rng rng;
    size_t n = want->count;
    double p = 0;
    float *y = draws(g, n, sizeof *y);
    int64_t *order = draws(g, n, sizeof *order);
    if (!y || !order)
        return;
    nn_torch_seed(&rng, seed);
    if (strncmp(what, "uniform_", 8) == 0) {
        nn_torch_uniform(&rng, n, 0.0f, 1.0f, y);
        compare_list(g, what, y, want, 0);
    } else if (strncmp(what, "normal_", 7) == 0) {
        nn_torch_normal(&rng, n, 0.0f, 1.0f, y);
        compare_list(g, what, y, want, 1e-6);
    } else if (sscanf(what, "bernoulli_p%lf_", &p) == 1) {
        nn_torch_bernoulli(&rng, n, p, y);
        compare_list(g, what, y, want, 0);
    } else if (strncmp(what, "randperm_", 9) == 0) {
        nn_torch_randperm(&rng, n, order);
        for (size_t i = 0; i < n; i++)
            dev_compare_number(g, what, (double)order[i], want->items[i]->number, 0, 0);
    } else if (strcmp(what, "random_u32") == 0) { /* drawn modulo 2^32 - 1 */
        for (size_t i = 0; i < n; i++)
            dev_compare_number(g, what, (double)(ebb_mt_u32(&rng.mt) % UINT32_MAX),
                               want->items[i]->number, 0, 0);
    } else {
        dev_refuse(g, "unknown stream '%s'", what);
    }
}

static void run_torch(struct dev_judge *g, const struct ebb_doc_node *seeds)
{
    for (size_t i = 0; seeds && seeds->kind == EBB_DOC_MAP && i < seeds->count; i++) {
        const struct ebb_doc_node *streams = seeds->items[i];
        for (size_t k = 0; streams->kind == EBB_DOC_MAP && k < streams->count; k++) {
            uint64_t seed = 0;
            const char *what = streams->keys[k]->text;
            const struct ebb_doc_node *want = dev_numbers(streams, what);
            dev_begin(g, "rng/torch_%s_%s", seeds->keys[i]->text, what);
            if (!ebb_parse_u64(seeds->keys[i]->text, &seed) || !want)
                dev_refuse(g, "a seed and a list of numbers are needed");
            else
                run_stream(g, seed, what, want);
            dev_end(g);
        }
    }
}

/* ---- initialisation ------------------------------------------------------------------------- */

struct module { /* "Conv2d(4,6,(3,1),groups=2)": name, numbers in order, options by name */
    char name[40];
    long args[MAX_ARGS];
    int count, kernel; /* kernel: where the numbers in inner brackets begin, or 0 */
    long groups, padding;
};

/* Numbers, brackets around some of them, name=value. */
static bool parse_module(const char *text, struct module *m)
{
    size_t n = strcspn(text, "(");
    *m = (struct module){.groups = 1, .padding = -1};
    if (n == 0 || n >= sizeof m->name || text[n] != '(')
        return false;
    memcpy(m->name, text, n);
    for (const char *p = text + n + 1; *p;) {
        char *end;
        if (strncmp(p, "groups=", 7) == 0 || strncmp(p, "padding_idx=", 12) == 0) {
            long *to = *p == 'g' ? &m->groups : &m->padding;
            p = strchr(p, '=') + 1;
            *to = strtol(p, &end, 10);
        } else if (strncmp(p, "bias=False", 10) == 0 || strncmp(p, "bias=True", 9) == 0) {
            end = strpbrk((char *)(uintptr_t)p, ",)"); /* which there are, the lists tell */
        } else if (*p == '(' || *p == ')' || *p == ',' || *p == ' ') {
            m->kernel = *p == '(' ? m->count : m->kernel;
            p++;
            continue;
        } else {
            long v = strtol(p, &end, 10);
            if (m->count < MAX_ARGS)
                m->args[m->count++] = v;
        }
        if (!end || end == p)
            return false;
        p = end;
    }
    return m->groups > 0;
}

/* Inputs of one output of a convolution; 0 when it is none. */
static long fan_of(const struct module *m)
{
    int rank = 0;
    bool is_transposed = sscanf(m->name, "ConvTranspose%dd", &rank) == 1;
    if ((!is_transposed && sscanf(m->name, "Conv%dd", &rank) != 1) || rank < 1 || rank > 3 ||
        m->count < 3)
        return 0;
    long fan = m->args[is_transposed ? 1 : 0] / m->groups;
    for (int d = 0; d < rank; d++)
        fan *= m->args[m->kernel == 2 && 2 + d < m->count ? 2 + d : 2];
    return fan;
}

enum rule { RULE_UNKNOWN, RULE_UNIFORM, RULE_NORMAL, RULE_ONE_ZERO, RULE_ATTENTION };

static enum rule rule_of(const struct module *m, float *bound)
{
    static const char *const recurrent[] = {"LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"};
    static const char *const norms[] = {"LayerNorm", "BatchNorm", "GroupNorm", "InstanceNorm"};
    long fan = fan_of(m);
    if (strcmp(m->name, "Embedding") == 0)
        return RULE_NORMAL;
    if (strcmp(m->name, "MultiheadAttention") == 0)
        return RULE_ATTENTION;
    if (strcmp(m->name, "Linear") == 0 && m->count > 1)
        fan = m->args[0];
    for (size_t i = 0; i < sizeof recurrent / sizeof *recurrent; i++)
        if (strcmp(m->name, recurrent[i]) == 0 && m->count > 1)
            fan = m->args[1];
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (strncmp(m->name, norms[i], strlen(norms[i])) == 0)
            return RULE_ONE_ZERO;
    *bound = fan > 0 ? nn_default_bound(fan) : 0;
    return fan > 0 ? RULE_UNIFORM : RULE_UNKNOWN;
}

/* in_proj is Xavier over the whole [3C, C], drawn after out_proj; biases are zero at last. */
static void draw_attention(struct dev_judge *g, struct nn_torch_rng *rng, long width,
                           const struct ebb_doc_node *values)
{
    size_t n = (size_t)width * (size_t)width;
    float *out = draws(g, n, sizeof *out), *in = draws(g, 3 * n, sizeof *in);
    float *bias = draws(g, (size_t)width, sizeof *bias), *zero = draws(g, 3 * n, sizeof *zero);
    if (!out || !in || !bias || !zero)
        return;
    const float *parts[4] = {in, zero, out, zero};
    const size_t counts[4] = {3 * n, 3 * (size_t)width, n, (size_t)width};
    float bound = nn_default_bound(width), wide = sqrtf(6.0f / (float)(4 * width));
    nn_torch_uniform(rng, n, -bound, bound, out);
    nn_torch_uniform(rng, (size_t)width, -bound, bound, bias);
    nn_torch_uniform(rng, 3 * n, -wide, wide, in);
    for (size_t i = 0; i < values->count; i++)
        if (values->count != 4 || values->items[i]->count != counts[i])
            dev_refuse(g, "in_proj and out_proj, weight and bias of each, are expected");
        else
            compare_list(g, "parameter", parts[i], values->items[i], 1e-6);
}

static void draw_list(struct dev_judge *g, struct nn_torch_rng *rng, const struct module *m,
                      enum rule rule, float bound, const char *name,
                      const struct ebb_doc_node *want)
{
    float *y = draws(g, want->count, sizeof *y);
    if (!y)
        return;
    if (rule == RULE_NORMAL)
        nn_torch_normal(rng, want->count, 0.0f, 1.0f, y);
    else if (rule == RULE_UNIFORM)
        nn_torch_uniform(rng, want->count, -bound, bound, y);
    for (size_t k = 0; rule == RULE_ONE_ZERO && k < want->count; k++)
        y[k] = strcmp(name, "weight") == 0 ? 1.0f : 0.0f;
    for (long k = 0; rule == RULE_NORMAL && m->padding >= 0 && m->count > 1 && k < m->args[1]; k++)
        if ((size_t)(m->padding * m->args[1] + k) < want->count)
            y[m->padding * m->args[1] + k] = 0.0f;
    compare_list(g, "parameter", y, want, 1e-6);
}

/* Parameters of a module in declaration order: a list per name, or "values". */
static void run_init(struct dev_judge *g, const struct ebb_doc_node *doc,
                     const struct dev_tensors *tensors)
{
    (void)tensors;
    const char *text = ebb_doc_string(doc, "module", "?");
    struct nn_torch_rng rng;
    struct module m;
    float bound = 0;
    dev_begin(g, "rng/%s", text);
    enum rule rule = parse_module(text, &m) ? rule_of(&m, &bound) : RULE_UNKNOWN;
    const struct ebb_doc_node *values = ebb_doc_get(doc, "values"), *lists = values ? values : doc;
    nn_torch_seed(&rng, (uint64_t)ebb_doc_int(doc, "seed", 1));
    if (rule == RULE_UNKNOWN) {
        dev_refuse(g, "unknown module '%s'", text);
    } else if (rule == RULE_ATTENTION && values && m.count > 0 && m.args[0] > 0 &&
               m.args[0] < 512) {
        draw_attention(g, &rng, m.args[0], values);
    } else {
        for (size_t i = 0; lists && i < lists->count; i++) {
            const struct ebb_doc_node *want = lists->items[i];
            const char *name = values || lists->kind != EBB_DOC_MAP ? "" : lists->keys[i]->text;
            if (want->kind == EBB_DOC_LIST && strcmp(name, "order") != 0)
                draw_list(g, &rng, &m, rule, bound, name, want);
        }
    }
    dev_end(g);
}

void dev_golden_rng(struct dev_judge *j, const struct ebb_doc_node *root,
                    struct dev_tensors *tensors)
{
    run_philox(j, ebb_doc_get(root, "philox4x32_10"));
    run_torch(j, ebb_doc_get(root, "torch_mt19937"));
    dev_each(j, root, "init", run_init, tensors);
    const struct ebb_doc_node *sampler = ebb_doc_get(root, "distributed_sampler");
    for (size_t i = 0; sampler && i < sampler->count; i++) {
        dev_begin(j, "rng/sampler_%zu", i);
        dev_golden_sampler(j, sampler->items[i]);
        dev_end(j);
    }
}
