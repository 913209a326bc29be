/* Colours and mixup: numbers of torchvision, or of their definition; the same for a sample and epoch. */
#include "data_support.h"

#include <math.h>

#include "data/color.h"
#include "data/internal.h"

static void check_close(const float *have, const float *want, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(have[i] - want[i]) < 2e-6f))
            fail_msg("%s[%zu]: %.8g instead of %.8g", what, i, (double)have[i], (double)want[i]);
}

/* Two rows of three pixels, red, green and blue; adjust_* of torchvision 0.14. */
static const float picture[18] = {0.1f, 0.8f, 0.5f, 0.9f, 0.0f,  0.3f, 0.2f, 0.7f, 0.5f,
                                  0.1f, 1.0f, 0.3f, 0.9f, 0.05f, 0.5f, 0.4f, 0.6f, 0.3f};
static const float brighter[18] = {0.14f, 1, 0.7f,  1, 0,     0.42f, 0.28f, 0.98f, 0.7f,
                                   0.14f, 1, 0.42f, 1, 0.07f, 0.7f,  0.56f, 0.84f, 0.42f};
static const float duller[18] = {0.3489947f, 0.5589947f, 0.4689947f, 0.5889947f, 0.3189947f,
                                 0.4089947f, 0.3789947f, 0.5289947f, 0.4689947f, 0.3489947f,
                                 0.6189947f, 0.4089947f, 0.5889947f, 0.3339947f, 0.4689947f,
                                 0.4389947f, 0.4989947f, 0.4089947f};
static const float richer[18] = {
    0, 0.9009960f, 0.5000350f, 1, 0, 0.3000211f, 0.1650770f, 0.7309961f, 0.5000350f,
    0, 1,          0.3000211f, 1, 0, 0.5000350f, 0.4186830f, 0.5612200f, 0.3000211f};
static const float turned[18] = {0.9f,       0.05f,      0.5f, 0.8959999f, 0,          0.3f,
                                 0.1f,       0.8f,       0.5f, 0.9f,       0.0200002f, 0.3f,
                                 0.6960003f, 0.2350002f, 0.5f, 0.1f,       1,          0.3f};
static const float turned_back[18] = {0.5200005f, 0.4000004f, 0.5f, 0.1f,       1,          0.3f,
                                      0.9f,       0.05f,      0.5f, 0.7199999f, 0.1999996f, 0.3f,
                                      0.1f,       0.8f,       0.5f, 0.9f,       0,          0.3f};
static const float grey_contrast[6] = {0, 1, 0.5533333f, 1, 0, 0.1933334f};

TEST(colours__are_those_of_torchvision)
{
    static const struct {
        void (*change)(float *, int64_t, int64_t, float);
        float by;
        const float *want;
        const char *name;
    } rows[] = {{data_color_brightness, 1.4f, brighter, "brightness"},
                {data_color_contrast, 0.3f, duller, "contrast"},
                {data_color_saturation, 1.7f, richer, "saturation"},
                {data_color_hue, 0.23f, turned, "hue"},
                {data_color_hue, -0.4f, turned_back, "hue back"}};
    float p[18];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(p, picture, sizeof p);
        rows[i].change(p, 6, 3, rows[i].by);
        check_close(p, rows[i].want, 18, rows[i].name);
    }
    memcpy(p, picture, sizeof p);
    data_color_contrast(p, 6, 1, 1.8f);
    check_close(p, grey_contrast, 6, "contrast of grey");
    memcpy(p, picture, sizeof p);
    data_color_saturation(p, 6, 1, 3);
    data_color_hue(p, 6, 1, 0.3f);
    CHECK(memcmp(p, picture, sizeof p) == 0); /* grey has neither */
}

TEST(colours__change_with_epoch_and_seed_in_their_range)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, 30);
    struct data_set *plain = kit_open(kit, IDX_SECTION "}");
    struct data_set *set = kit_open(kit, IDX_SECTION ", augment: {brightness: 0.5}}");
    CHECK(data_describe(set)->is_augmented);
    float a[20], b[20], raw[20], least = 9, most = 0;
    int same = 0;
    for (uint64_t i = 1; i < 17; i++)
        for (uint64_t epoch = 0; epoch < 8; epoch++) {
            void *to[] = {a, NULL}, *again[] = {b, NULL}, *origin[] = {raw, NULL};
            CHECK_OK(data_read(set, DATA_TRAIN, i, 5, epoch, to, &kit->err), &kit->err);
            CHECK_OK(data_read(set, DATA_TRAIN, i, 5, epoch, again, &kit->err), &kit->err);
            CHECK(memcmp(a, b, sizeof a) == 0);
            CHECK_OK(data_read(plain, DATA_TRAIN, i, 5, epoch, origin, &kit->err), &kit->err);
            float factor = a[0] / raw[0]; /* below 255 / 1.5: nothing is cut */
            for (int k = 0; k < 20; k++)
                CHECK(fabsf(a[k] - factor * raw[k]) < 1e-3f);
            least = fminf(least, factor);
            most = fmaxf(most, factor);
            CHECK_OK(data_read(set, DATA_TRAIN, i, 6, epoch, again, &kit->err), &kit->err);
            same += memcmp(a, b, sizeof a) == 0;
            CHECK_OK(data_read(set, DATA_VALIDATION, i, 5, epoch, again, &kit->err), &kit->err);
            CHECK(memcmp(b, raw, sizeof raw) == 0);
        }
    CHECK(least >= 0.5f && least < 0.55f && most <= 1.5001f && most > 1.45f && same == 0);
    data_close(plain);
    data_close(set);
    CHECK(strstr(kit_refused(kit, IDX_SECTION ", augment: {hue: 0.1}}"), "three channels"));
    CHECK(
        strstr(kit_refused(kit, IDX_SECTION ", image_dtype: u8, augment: {contrast: 0.1}}"), "u8"));
    CHECK(strstr(kit_refused(kit, IDX_SECTION ", augment: {hue: 0.6}}"), "<= 0.5"));
}

TEST(shares__are_beta)
{
    static const double alphas[] = {0.1, 0.2, 1, 2.5, 30};
    for (size_t i = 0; i < sizeof alphas / sizeof *alphas; i++) {
        double a = alphas[i], sum = 0, squares = 0, n = 40000, quarter = 0;
        for (uint64_t k = 0; k < 40000; k++) {
            struct data_random r;
            data_random_init(&r, 11, k, 0, DATA_STREAM_MIXUP);
            double x = data_beta(&r, a);
            CHECK(x >= 0 && x <= 1);
            sum += x;
            squares += x * x;
            quarter += x < 0.25;
        }
        double mean = sum / n, variance = squares / n - mean * mean;
        if (fabs(mean - 0.5) > 0.01 || fabs(variance * 4 * (2 * a + 1) - 1) > 0.03)
            fail_msg("Beta(%g): mean %g, variance %g", a, mean, variance);
        if (i == 2) /* Beta(1, 1) is uniform */
            CHECK(fabs(quarter / n - 0.25) < 0.01);
    }
}

/* The partner is found by what it would have to be. */
static int64_t partner_of(const float raw[30][20], const float *mixed, uint64_t i, float share)
{
    for (int64_t j = 0; j < 30; j++) {
        bool fits = true;
        for (int k = 0; k < 20 && fits; k++)
            fits = fabsf(mixed[k] - (share * raw[i][k] + (1 - share) * raw[j][k])) < 1e-3f;
        if (fits)
            return j;
    }
    return -1;
}

TEST(mixup__blends_with_a_sample_of_the_split)
{
    struct kit *kit = *cmocka_state;
    kit_write_idx(kit, 30);
    struct data_set *plain = kit_open(kit, IDX_SECTION "}");
    struct data_set *set = kit_open(kit, IDX_SECTION ", mixup: 1.0}");
    const struct data_info *info = data_describe(set);
    float raw[30][20], x[20], y[20], share, share_again;
    int64_t labels[30], label, other, other_again, seen = 0;
    CHECK(info->field_count == 4 && info->mixup_field == 2 && info->classes == 3);
    for (uint64_t i = 0; i < 30; i++)
        CHECK_OK(data_read(plain, DATA_TRAIN, i, 0, 0, (void *[]){raw[i], &labels[i]}, &kit->err),
                 &kit->err);
    for (uint64_t i = 0; i < 30; i++) {
        void *to[] = {x, &label, &other, &share}, *again[] = {y, NULL, &other_again, &share_again};
        CHECK_OK(data_read(set, DATA_TRAIN, i, 3, 1, to, &kit->err), &kit->err);
        CHECK_OK(data_read(set, DATA_TRAIN, i, 3, 1, again, &kit->err), &kit->err);
        CHECK(memcmp(x, y, sizeof x) == 0 && other == other_again && share >= 0 && share <= 1);
        int64_t j = partner_of((const float(*)[20])raw, x, i, share);
        CHECK(j >= 0 && label == labels[i]);
        if (share < 0.95f && j != (int64_t)i) {
            CHECK_EQ(other, labels[j]);
            seen++;
        }
        CHECK_OK(data_read(set, DATA_VALIDATION, i, 3, 1, to, &kit->err), &kit->err);
        CHECK(memcmp(x, raw[i], sizeof x) == 0 && other == labels[i] && share == 1);
    }
    CHECK(seen > 20);
    data_close(plain);
    data_close(set);
    CHECK(strstr(kit_refused(kit, IDX_SECTION ", image_dtype: u8, mixup: 1}"), "data.mixup"));
    CHECK(strstr(kit_refused(kit, "{name: language, mixup: 1}"), "allowed: classes or numbers"));
}

/* The loader is the same with threads and without; targets that are numbers are blended. */
TEST(mixup__of_numbers_and_through_a_loader)
{
    struct kit *kit = *cmocka_state;
    static const char table[] = "a,b,y\n0,1,10\n1,3,20\n2,7,50\n4,8,70\n";
    kit_write(kit, "t.csv", table, sizeof table - 1);
    struct data_set *set = kit_open(
        kit, "{name: csv, train_files: t.csv, target: y, target_kind: numbers, mixup: 0.4}");
    CHECK_EQ(data_describe(set)->field_count, 2);
    float rows[2][24];
    for (int workers = 0; workers < 2; workers++) {
        struct data_loader_options o;
        struct data_loader *loader;
        struct data_batch b;
        data_loader_options_of(set, DATA_TRAIN, &o);
        o.batch = 2;
        o.seed = 9;
        o.workers = workers * 2;
        CHECK_OK(data_loader_create(set, &o, &loader, &kit->err), &kit->err);
        float *to = rows[workers];
        for (int i = 0; i < 4; i++, to += 6)
            CHECK_OK(data_loader_next(loader, (void *[]){to, to + 4}, &b, &kit->err), &kit->err);
        data_loader_destroy(loader);
    }
    CHECK(memcmp(rows[0], rows[1], sizeof rows[0]) == 0);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) { /* y = 10 + 10 a on the first two rows, above it later */
            float a = rows[0][6 * i + 2 * k], y = rows[0][6 * i + 4 + k];
            CHECK(a >= 0 && a <= 4 && y >= 10 + 10 * a - 1e-3f && y <= 70);
        }
    data_close(set);
}

TEST_MAIN_EACH(kit_setup, kit_teardown)
