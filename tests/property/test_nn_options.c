/* Any options a user may write: a model builds, or says what is wrong; nothing else happens. */
#include "test.h"

#include "../unit/nn_kit.h"
#include "train/train.h"

#define ROUNDS 5 /* per model */

static uint64_t next(uint64_t *state, uint64_t n)
{
    return ebb_splitmix64(state) % n;
}

/* Mostly small, sometimes the limits, sometimes beyond them. */
static void any_value(const struct ebb_key *o, uint64_t *state, char *text, size_t size)
{
    long long low = 0, high = 0;
    size_t length = 0;
    if (o->bounds && o->kind == EBB_KEY_INT)
        CHECK_EQ(sscanf(o->bounds, ">= %lld, <= %lld", &low, &high), 2);
    switch (o->kind) {
    case EBB_KEY_INT:
        if (next(state, 12) == 0)
            snprintf(text, size, "%lld", next(state, 2) ? high : low - 1);
        else
            snprintf(text, size, "%lld",
                     low +
                         (long long)next(state, high - low < 12 ? (uint64_t)(high - low) + 1 : 12));
        break;
    case EBB_KEY_DOUBLE:
        snprintf(text, size, "%.3f", (double)next(state, 1200) / 1000.0);
        break;
    case EBB_KEY_BOOL:
        snprintf(text, size, "%s", next(state, 2) ? "true" : "false");
        break;
    case EBB_KEY_WORD:
        for (uint64_t k = 0, last = next(state, 3); k <= last; k++) {
            const char *word = ebb_words_at(o->words, k, &length);
            if (word)
                snprintf(text, size, "%.*s", (int)length, word);
        }
        break;
    default: {
        size_t at = 0;
        for (uint64_t k = 0, n = 1 + next(state, next(state, 8) ? 4 : 70); k < n && at < size; k++)
            at += (size_t)snprintf(text + at, size - at, "%s%d", k ? "," : "",
                                   1 + (int)next(state, 3));
        break;
    }
    }
}

static void try_model(const struct nn_model *m, uint64_t *state, int *built, int *refused)
{
    struct ebb_error err;
    struct nn_config c;
    struct nn_stats stats;
    char text[512];
    CHECK_OK(kit_config(&c, m->name, kit_small_of(m->name), &err), &err);
    for (size_t i = 0; i < m->option_count; i++) {
        if (next(state, 3))
            continue;
        any_value(&m->options[i], state, text, sizeof text);
        if (nn_config_set(&c, m->options[i].path, text, &err) != EBB_OK) {
            CHECK_EQ(err.status, EBB_EINPUT);
            CHECK(strstr(err.message, m->options[i].path) != NULL);
        }
    }
    struct train_model model = {.net = &c, .batch = 1 + (int64_t)next(state, 3)};
    model.precision = (enum train_precision)next(state, 3);
    enum ebb_status status = train_model_stats(&model, &stats, &err);
    if (status == EBB_OK) {
        CHECK(stats.parameters > 0 && stats.trained_parameters > 0 && stats.ops > 0);
        ++*built;
    } else {
        CHECK(err.message[0] != '\0');
        CHECK(status == EBB_EINPUT || status == EBB_ELIMIT || status == EBB_EUNSUPPORTED);
        ++*refused;
    }
}

TEST(options__build_or_explain)
{
    uint64_t state = 20;
    int built = 0, refused = 0;
    for (size_t i = 0; i < nn_model_count(); i++)
        for (int r = 0; r < ROUNDS; r++)
            try_model(nn_model_at(i), &state, &built, &refused);
    printf("%d built, %d refused\n", built, refused);
    CHECK(built > refused);
}

TEST_MAIN()
