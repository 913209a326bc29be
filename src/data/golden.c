/* golden.c - the reference cases of file formats, which look into the readers. */
#include "data/internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "data/bert.h"
#include "data/cosmoflow.h"
#include "data/image.h"

enum { SCRATCH_BYTES = 4 << 20 };

struct golden {
    const char *directory;
    data_reference_fn find;
    data_case_fn done;
    void *context;
    struct data_scratch scratch;
    struct ebb_error err;
    char failure[1200]; /* of the case being run; empty = none */
};

__attribute__((format(printf, 2, 3))) static void fail_case(struct golden *g, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!g->failure[0])
        vsnprintf(g->failure, sizeof g->failure, fmt, args);
    va_end(args);
}

static void expect(struct golden *g, enum ebb_status status)
{
    if (status != EBB_OK)
        fail_case(g, "%.1100s", g->err.message);
}

static void end_case(struct golden *g, const char *group, const char *name)
{
    g->done(g->context, group, name, g->failure[0] ? g->failure : NULL);
    g->failure[0] = '\0';
    g->scratch.used = 0;
}

static double value_at(const void *data, const char *dtype, size_t i)
{
    if (strcmp(dtype, "F32") == 0)
        return (double)((const float *)data)[i];
    if (strcmp(dtype, "I64") == 0)
        return (double)((const int64_t *)data)[i];
    if (strcmp(dtype, "I16") == 0)
        return ((const int16_t *)data)[i];
    return ((const uint8_t *)data)[i];
}

/* n numbers of dtype against the reference `name`; tolerance relative to its largest value. */
static void compare(struct golden *g, const char *name, const void *got, const char *dtype,
                    size_t n, double tolerance)
{
    struct data_reference want;
    if (!g->find(g->context, name, &want)) {
        fail_case(g, "the reference has no %s", name);
        return;
    }
    size_t count = 1;
    for (int i = 0; i < want.rank; i++)
        count *= (size_t)want.dims[i];
    if (count != n) {
        fail_case(g, "%s: %zu numbers, the reference has %zu", name, n, count);
        return;
    }
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(value_at(want.data, want.dtype, i)));
    for (size_t i = 0; i < n; i++) {
        double a = value_at(got, dtype, i), b = value_at(want.data, want.dtype, i);
        if (!(fabs(a - b) <= tolerance * most)) {
            fail_case(g, "%s: element %zu is %.9g, the reference %.9g", name, i, a, b);
            return;
        }
    }
}

/* The reference of that name and rank: its sizes say how large the files are. */
static bool reference(struct golden *g, const char *name, int rank, int64_t most,
                      struct data_reference *want)
{
    bool fits = g->find(g->context, name, want) && want->rank == rank;
    for (int d = 0; fits && d < rank; d++)
        fits = want->dims[d] >= 1 && want->dims[d] <= most;
    if (!fits)
        fail_case(g, "the reference has no %s of rank %d", name, rank);
    return fits;
}

static void *take(struct golden *g, int64_t count, size_t bytes)
{
    void *p = ebb_calloc((size_t)count, bytes);
    if (!p)
        fail_case(g, "out of memory");
    return p;
}

static bool open_file(struct golden *g, const char *name, struct data_file *file)
{
    expect(g, data_file_open_in(file, g->directory, name, &g->err));
    return !g->failure[0];
}

static void cosmo_case(struct golden *g, const char *name, const char *file_name,
                       struct data_cosmo cosmo, const char *expected)
{
    struct data_file file = {0};
    struct data_reference want;
    float *x = NULL, y[4];
    if (reference(g, expected, 4, 64, &want)) {
        cosmo.size = want.dims[1];
        int64_t n = 4 * cosmo.size * cosmo.size * cosmo.size;
        x = take(g, n, sizeof *x);
        if (x && open_file(g, file_name, &file))
            expect(g, data_cosmo_read(&cosmo, &file, (void *[]){x, y}, &g->scratch, &g->err));
        if (!g->failure[0]) {
            compare(g, expected, x, "F32", (size_t)n, 1e-6);
            compare(g, "y", y, "F32", 4, 0);
        }
    }
    data_file_close(&file);
    ebb_free(x);
    end_case(g, "formats", name);
}

static void bert_case(struct golden *g)
{
    struct data_file file = {0};
    struct data_reference want;
    struct data_h5 h;
    int64_t *rest = NULL, *targets = NULL, next;
    if (reference(g, "bert_labels", 2, 4096, &want)) {
        int64_t n = want.dims[1];
        rest = take(g, 3 * n, sizeof *rest); /* tokens, segments, attention */
        targets = take(g, want.dims[0] * n, sizeof *targets);
        if (rest && targets && open_file(g, "bert_part.h5", &file))
            expect(g, data_h5_open(&h, &file, &g->err));
        for (int64_t row = 0; row < want.dims[0] && !g->failure[0]; row++) {
            g->scratch.used = 0;
            expect(g,
                   data_bert_row(&h, (uint64_t)row, n, 1 << 20,
                                 (void *[]){rest, targets + row * n, rest + n, rest + 2 * n, &next},
                                 &g->scratch, &g->err));
            if (!g->failure[0] && (next < 0 || next > 1 || rest[3 * n - 1] != 1))
                fail_case(g, "next_sentence_labels or input_mask differ");
        }
        if (!g->failure[0])
            compare(g, "bert_labels", targets, "I64", (size_t)(want.dims[0] * n), 0);
    }
    data_file_close(&file);
    ebb_free(rest);
    ebb_free(targets);
    end_case(g, "formats", "bert_labels");
}

/* ---- through data_open ---- */

static struct data_set *open_set(struct golden *g, struct ebb_arena *arena, const char *name,
                                 const char *folder, int64_t resize, int64_t crop)
{
    struct ebb_doc_node *section = ebb_doc_new(arena, EBB_DOC_MAP);
    struct data_env env = {.directory = g->directory};
    struct data_set *set = NULL;
    bool is_made = section &&
                   ebb_doc_set(arena, section, "name", ebb_doc_new_string(arena, name)) &&
                   ebb_doc_set(arena, section, "data_dir", ebb_doc_new_string(arena, folder));
    if (is_made && crop)
        is_made = ebb_doc_set(arena, section, "resize", ebb_doc_new_int(arena, resize)) &&
                  ebb_doc_set(arena, section, "crop", ebb_doc_new_int(arena, crop));
    if (!is_made)
        fail_case(g, "out of memory");
    else
        expect(g, data_open(section, &env, &set, &g->err));
    return set;
}

static void deepcam_cases(struct golden *g, struct ebb_arena *arena)
{
    struct data_set *set = open_set(g, arena, "deepcam", "deepcam", 0, 0);
    const struct data_info *info = set ? data_describe(set) : NULL;
    void *image = info ? take(g, 1, info->fields[0].bytes) : NULL;
    void *mask = info ? take(g, 1, info->fields[1].bytes) : NULL;
    struct data_reference want;
    char opened[1200];
    snprintf(opened, sizeof opened, "%s", g->failure);
    for (int wanted = 0; wanted < 1024;
         wanted++) { /* files come in a shuffled order: any may fit */
        char name[32], label[32], result[1200] = "there are no samples";
        snprintf(name, sizeof name, "deepcam%d_x", wanted);
        snprintf(label, sizeof label, "deepcam%d_label", wanted);
        if (wanted > 0 && !g->find(g->context, name, &want))
            break;
        for (uint64_t i = 0; i < (info ? info->count[DATA_TRAIN] : 1); i++) {
            snprintf(g->failure, sizeof g->failure, "%s", opened);
            if (!g->failure[0])
                expect(g, data_read(set, DATA_TRAIN, i, 0, 0, (void *[]){image, mask}, &g->err));
            if (!g->failure[0]) {
                compare(g, name, image, "F32", info->fields[0].bytes / sizeof(float), 1e-6);
                compare(g, label, mask, "I64", info->fields[1].bytes / sizeof(int64_t), 0);
            }
            snprintf(result, sizeof result, "%s", g->failure);
            if (!g->failure[0])
                break;
        }
        snprintf(g->failure, sizeof g->failure, "%s", result);
        end_case(g, "formats", name);
    }
    ebb_free(image);
    ebb_free(mask);
    data_close(set);
}

struct rows { /* collects a picture, scaled or not */
    struct golden *g;
    struct data_resampler resampler;
    uint8_t *out;
    int64_t width, height;
    int64_t out_width, out_height; /* 0: as it is */
};

static void rows_emit(void *context, int64_t y, const uint8_t *rgb)
{
    struct rows *r = context;
    memcpy(r->out + y * r->width * 3, rgb, (size_t)r->width * 3);
}

static enum ebb_status rows_begin(void *context, int64_t width, int64_t height,
                                  struct ebb_error *err)
{
    struct rows *r = context;
    r->width = r->out_width ? r->out_width : width;
    r->height = r->out_height ? r->out_height : height;
    size_t bytes = (size_t)(r->width * r->height) * 3;
    EBB_TRY(data_scratch_take(&r->g->scratch, bytes, &r->out, err));
    struct data_resample_plan plan = {.width = width,
                                      .height = height,
                                      .out_width = r->width,
                                      .out_height = r->height,
                                      .keep_w = r->width,
                                      .keep_h = r->height};
    r->resampler.context = r;
    r->resampler.emit = rows_emit;
    return data_resampler_init(&r->resampler, &plan, &r->g->scratch, err);
}

static enum ebb_status rows_row(void *context, int64_t y, const uint8_t *rgb, struct ebb_error *err)
{
    struct rows *r = context;
    (void)err;
    data_resampler_row(&r->resampler, y, rgb);
    return EBB_OK;
}

static void picture_case(struct golden *g, const char *name, int64_t width, int64_t height)
{
    struct rows r = {.g = g, .out_width = width, .out_height = height};
    struct data_row_sink sink = {&r, rows_begin, rows_row};
    struct data_file file = {0};
    if (open_file(g, "imagefolder/train/n01/img0.png", &file)) {
        expect(g, data_image_decode(&file, &g->scratch, &sink, &g->err));
        if (!g->failure[0])
            compare(g, name, r.out, "U8", (size_t)(r.width * r.height) * 3, 0);
    }
    data_file_close(&file);
    end_case(g, "formats", name);
}

static void tensor_case(struct golden *g, struct ebb_arena *arena)
{
    struct data_reference resized, want;
    struct data_set *set = NULL;
    float *image = NULL;
    if (reference(g, "image_resized_u8", 3, 4096, &resized) &&
        reference(g, "image_tensor", 3, 4096, &want)) {
        int64_t shorter = resized.dims[0] < resized.dims[1] ? resized.dims[0] : resized.dims[1];
        set = open_set(g, arena, "imagefolder", "imagefolder", shorter, want.dims[1]);
    }
    if (set)
        image = take(g, 1, data_describe(set)->fields[0].bytes);
    if (image)
        expect(g, data_read(set, DATA_TRAIN, 0, 0, 0, (void *[]){image, NULL}, &g->err));
    if (!g->failure[0])
        compare(g, "image_tensor", image, "F32",
                data_describe(set)->fields[0].bytes / sizeof(float), 0);
    ebb_free(image);
    data_close(set);
    end_case(g, "formats", "image_tensor");
}

enum ebb_status data_golden_formats(const char *directory, data_reference_fn find,
                                    data_case_fn done, void *context, struct ebb_error *err)
{
    struct golden *g = ebb_calloc(1, sizeof *g);
    struct ebb_arena arena = {0};
    if (!g)
        return ebb_no_memory(err, sizeof *g);
    *g = (struct golden){.directory = directory, .find = find, .done = done, .context = context};
    g->scratch.bytes = SCRATCH_BYTES;
    g->scratch.memory = ebb_alloc(SCRATCH_BYTES);
    if (!g->scratch.memory) {
        ebb_free(g);
        return ebb_no_memory(err, SCRATCH_BYTES);
    }
    struct data_cosmo plain = {.norm = DATA_COSMO_LOG}, packed = {.is_packed = true};
    struct data_cosmo h5 = {.is_h5 = true, .norm = DATA_COSMO_MEAN};
    cosmo_case(g, "cosmo_tfrecord_log", "cosmo_4.tfrecord", plain, "x_log");
    plain.norm = DATA_COSMO_MEAN;
    cosmo_case(g, "cosmo_tfrecord_mean", "cosmo_4.tfrecord", plain, "x_mean");
    packed.norm = DATA_COSMO_LOG;
    cosmo_case(g, "cosmo_tfrecord_gz_log", "cosmo_4.tfrecord.gz", packed, "x_log");
    cosmo_case(g, "cosmo_hdf5_mean", "cosmo_4.h5", h5, "x_mean");
    h5.norm = DATA_COSMO_LOG;
    cosmo_case(g, "cosmo_hdf5_log", "cosmo_4.h5", h5, "x_log");
    bert_case(g);
    deepcam_cases(g, &arena);
    picture_case(g, "image_u8", 0, 0);
    struct data_reference resized;
    if (g->find(g->context, "image_resized_u8", &resized) && resized.rank == 3)
        picture_case(g, "image_resized_u8", resized.dims[1], resized.dims[0]);
    else
        picture_case(g, "image_resized_u8", 0, 0);
    tensor_case(g, &arena);
    ebb_arena_fini(&arena);
    ebb_free(g->scratch.memory);
    ebb_free(g);
    return EBB_OK;
}
