/* synthetic_fields.c - generated pictures, climate fields, cosmic densities, and the unet set.
 *
 * Low-pass noise is a coarse grid of uniform numbers read in between by linear interpolation. */
#include "data/synthetic.h"

#include <math.h>
#include <string.h>

/* ---- pictures ---- */

void data_waves_init(struct data_waves *w, uint64_t seed, enum data_split split, uint64_t index,
                     int64_t class)
{
    struct data_synthetic source = {seed, DATA_SYN_IMAGE};
    struct data_random r = data_synthetic_random(&source, DATA_SPLITS, (uint64_t) class);
    for (int k = 0; k < DATA_WAVES; k++) {
        double across = data_random_between(&r, -0.25, 0.25);
        w->down[k] = data_random_between(&r, -0.25, 0.25);
        w->phase[k] = data_random_between(&r, 0, 6.283185307179586);
        for (int c = 0; c < 3; c++)
            w->share[k][c] = data_random_between(&r, -24, 24);
        for (int x = 0; x < DATA_PICTURE; x++) {
            w->sine[k][x] = sin(across * x);
            w->cosine[k][x] = cos(across * x);
        }
    }
    w->noise = data_synthetic_random(&source, split, index);
}

void data_waves_row(struct data_waves *w, int64_t y, uint8_t *rgb)
{
    double s[DATA_WAVES], c[DATA_WAVES];
    for (int k = 0; k < DATA_WAVES; k++) {
        s[k] = sin(w->down[k] * (double)y + w->phase[k]);
        c[k] = cos(w->down[k] * (double)y + w->phase[k]);
    }
    for (int x = 0; x < DATA_PICTURE; x++) {
        double sum[3] = {128, 128, 128};
        for (int k = 0; k < DATA_WAVES; k++) { /* sin(a + b) */
            double wave = w->sine[k][x] * c[k] + w->cosine[k][x] * s[k];
            for (int i = 0; i < 3; i++)
                sum[i] += w->share[k][i] * wave;
        }
        for (int i = 0; i < 3; i++) {
            double v = sum[i] + (double)(data_random_u32(&w->noise) >> 26) - 32;
            rgb[3 * x + i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
    }
}

/* ---- fields ---- */

enum { CELL = 32 }; /* pixels between two points of the grid */

static int64_t grid_points(int64_t n)
{
    return n / CELL + 2;
}

static void grid_fill(float *grid, int64_t count, struct data_random *r)
{
    for (int64_t i = 0; i < count; i++)
        grid[i] = (float)(data_random_unit(r) * 2 - 1);
}

/* One row of low-pass noise in [-1, 1]. */
static void grid_row(const float *grid, int64_t points, int64_t y, int64_t width, float *out)
{
    const float *a = grid + y / CELL * points, *b = a + points;
    float fy = (float)(y % CELL) / CELL;
    for (int64_t x = 0; x < width; x++) {
        int64_t i = x / CELL;
        float fx = (float)(x % CELL) / CELL;
        float top = a[i] + (a[i + 1] - a[i]) * fx, low = b[i] + (b[i + 1] - b[i]) * fx;
        out[x] = top + (low - top) * fy;
    }
}

struct ellipse {
    double y, x, ry, rx;
    int class;
};

static bool ellipse_holds(const struct ellipse *e, int64_t y, int64_t x)
{
    double dy = ((double)y - e->y) / e->ry, dx = ((double)x - e->x) / e->rx;
    return dy * dy + dx * dx <= 1.0;
}

/* Ellipses of `class` that cover about `share` of the area together. */
static size_t ellipses_place(struct ellipse *list, size_t most, int class, double share,
                             int64_t height, int64_t width, struct data_random *r)
{
    double left = share * (double)height * (double)width * data_random_between(r, 0.5, 1.5);
    size_t n = 0;
    while (left > 1 && n < most) {
        double area = left < 64 || n + 1 == most ? left : left * data_random_between(r, 0.3, 0.8);
        double ratio = data_random_between(r, 0.4, 2.5);
        struct ellipse e = {.class = class};
        e.ry = sqrt(area / 3.141592653589793 * ratio);
        e.rx = sqrt(area / 3.141592653589793 / ratio);
        e.y = data_random_between(r, 0, (double)height);
        e.x = data_random_between(r, 0, (double)width);
        list[n++] = e;
        left -= area;
    }
    return n;
}

/* Classes of all pixels: 0, and the last ellipse that holds a pixel. */
static void ellipses_draw(const struct ellipse *list, size_t count, int64_t height, int64_t width,
                          int64_t *labels)
{
    memset(labels, 0, (size_t)(height * width) * sizeof *labels);
    for (size_t i = 0; i < count; i++) {
        const struct ellipse *e = &list[i];
        int64_t y0 = (int64_t)(e->y - e->ry), y1 = (int64_t)(e->y + e->ry) + 1;
        int64_t x0 = (int64_t)(e->x - e->rx), x1 = (int64_t)(e->x + e->rx) + 1;
        for (int64_t y = y0 < 0 ? 0 : y0; y < height && y <= y1; y++) {
            for (int64_t x = x0 < 0 ? 0 : x0; x < width && x <= x1; x++) {
                if (ellipse_holds(e, y, x))
                    labels[y * width + x] = e->class;
            }
        }
    }
}

size_t data_climate_scratch(const struct data_climate *c)
{
    return (size_t)(grid_points(c->height) * grid_points(c->width)) * sizeof(float) + 64;
}

void data_climate_make(const struct data_climate *c, enum data_split split, uint64_t index,
                       float *scratch, float *x, int64_t *labels)
{
    struct data_synthetic source = {c->seed, DATA_SYN_DEEPCAM};
    struct data_random r = data_synthetic_random(&source, split, index);
    struct ellipse list[24];
    size_t n = ellipses_place(list, 16, 2, 0.0133, c->height, c->width, &r);
    n += ellipses_place(list + n, 8, 1, 0.00046, c->height, c->width, &r);
    ellipses_draw(list, n, c->height, c->width, labels);
    int64_t points = grid_points(c->width), area = c->height * c->width;
    for (int64_t k = 0; x && k < c->channels; k++) {
        grid_fill(scratch, grid_points(c->height) * points, &r);
        for (int64_t y = 0; y < c->height; y++) {
            float *row = x + k * area + y * c->width;
            const int64_t *label = labels + y * c->width;
            grid_row(scratch, points, y, c->width, row);
            for (int64_t i = 0; i < c->width; i++) {
                float offset = k < 4 ? (label[i] == 1 ? 0.3f : label[i] == 2 ? -0.3f : 0) : 0;
                row[i] = 0.5f + 0.2f * row[i] + (k & 1 ? -offset : offset);
            }
        }
    }
}

/* ---- cosmic densities: floor(exp(g)), g a smooth field whose shape the four numbers set ---- */

enum { COARSE = 8, FINE = 32 };

static size_t cube(size_t n)
{
    return n * n * n;
}

size_t data_cosmos_scratch(void)
{
    return (cube(COARSE + 1) + cube(FINE + 1)) * sizeof(float) + 64;
}

/* The line of a grid of n cells per axis at (z, y) of `size`: n + 1 values. */
static void cube_line(const float *grid, int n, int64_t z, int64_t y, int64_t size, float *line)
{
    int64_t m = n + 1;
    float at_z = (float)z * (float)n / (float)size, at_y = (float)y * (float)n / (float)size;
    int64_t i = (int64_t)at_z, k = (int64_t)at_y;
    float fz = at_z - (float)i, fy = at_y - (float)k;
    const float *a = grid + (i * m + k) * m, *b = a + m, *c = a + m * m, *d = c + m;
    for (int64_t x = 0; x < m; x++) {
        float top = a[x] + (b[x] - a[x]) * fy, low = c[x] + (d[x] - c[x]) * fy;
        line[x] = top + (low - top) * fz;
    }
}

static float line_at(const float *line, int n, int64_t x, int64_t size)
{
    float at = (float)x * (float)n / (float)size;
    int64_t i = (int64_t)at;
    return line[i] + (line[i + 1] - line[i]) * (at - (float)i);
}

void data_cosmos_make(uint64_t seed, int64_t size, enum data_split split, uint64_t index,
                      float *scratch, int16_t *counts, float y[4])
{
    struct data_synthetic source = {seed, DATA_SYN_COSMOFLOW};
    struct data_random r = data_synthetic_random(&source, split, index);
    for (int i = 0; i < 4; i++)
        y[i] = (float)(data_random_unit(&r) * 2 - 1);
    float *coarse = scratch, *fine = scratch + cube(COARSE + 1);
    int64_t n = size * size * size;
    for (int64_t c = 0; c < 4; c++) { /* four slices of time */
        grid_fill(coarse, (int64_t)cube(COARSE + 1), &r);
        grid_fill(fine, (int64_t)cube(FINE + 1), &r);
        float amplitude = 1.0f + 0.5f * y[0], tilt = 0.5f + 0.4f * y[1];
        float mean = 0.7f + 0.5f * y[2] + 0.1f * (float)c, skew = 0.3f * y[3];
        float broad[COARSE + 1], narrow[FINE + 1];
        for (int64_t row = 0; row < size * size; row++) {
            int16_t *out = counts + c * n + row * size;
            cube_line(coarse, COARSE, row / size, row % size, size, broad);
            cube_line(fine, FINE, row / size, row % size, size, narrow);
            for (int64_t x = 0; x < size; x++) {
                float g = line_at(broad, COARSE, x, size) + tilt * line_at(narrow, FINE, x, size);
                float e = expf(mean + amplitude * g + skew * g * g);
                out[x] = (int16_t)(e < 32000.0f ? e : 32000.0f);
            }
        }
    }
}

/* ---- unet: pictures with one mask ---- */

struct unet {
    uint64_t seed;
    int64_t height, width;
};

static enum ebb_status unet_read(const struct data_request *q, struct ebb_error *err)
{
    const struct unet *u = q->set->state;
    struct data_synthetic source = {u->seed, DATA_SYN_UNET};
    struct data_random r = data_synthetic_random(&source, q->split, q->index);
    int64_t area = u->height * u->width, points = grid_points(u->width);
    int64_t *labels;
    float *grid;
    EBB_TRY(data_scratch_take(q->scratch, (size_t)area * sizeof *labels, &labels, err));
    EBB_TRY(data_scratch_take(q->scratch, (size_t)(grid_points(u->height) * points) * sizeof(float),
                              &grid, err));
    struct ellipse list[4];
    size_t n = ellipses_place(list, 4, 1, 0.2, u->height, u->width, &r);
    ellipses_draw(list, n, u->height, u->width, labels);
    for (int64_t i = 0; q->fields[1] && i < area; i++)
        ((float *)q->fields[1])[i] = (float)labels[i];
    for (int64_t c = 0; q->fields[0] && c < 3; c++) {
        grid_fill(grid, grid_points(u->height) * points, &r);
        float inside = (float)data_random_between(&r, 0.1, 0.3);
        for (int64_t y = 0; y < u->height; y++) {
            float *row = (float *)q->fields[0] + c * area + y * u->width;
            grid_row(grid, points, y, u->width, row);
            for (int64_t x = 0; x < u->width; x++) {
                float noise = (float)(data_random_u32(&r) >> 8) * 0x1p-24f - 0.5f;
                row[x] =
                    0.4f + 0.2f * row[x] + 0.1f * noise + inside * (float)labels[y * u->width + x];
            }
        }
    }
    return EBB_OK;
}

static enum ebb_status unet_open(struct data_set *set, const struct data_values *v,
                                 struct ebb_error *err)
{
    struct unet *u = set->state;
    (void)err;
    *u = (struct unet){v->synthetic_seed, v->height, v->width};
    struct data_info *info = &set->info;
    info->channels = 3;
    info->height = v->height;
    info->width = v->width;
    info->classes = 1;
    data_synthetic_counts(set, v, 4096, 256);
    data_add_field(info, "image", DATA_F32, 3, (int64_t[]){3, v->height, v->width});
    data_add_field(info, "mask", DATA_F32, 3, (int64_t[]){1, v->height, v->width});
    info->scratch_bytes = (size_t)(v->height * v->width) * sizeof(int64_t) +
                          (size_t)(grid_points(v->height) * grid_points(v->width)) * 4 + 64;
    return EBB_OK;
}

static void unet_defaults(struct data_values *v)
{
    v->height = 416;
    v->width = 608;
}

static const char *unet_check(const struct data_values *v, const char **key)
{
    *key = "height";
    return v->height * v->width > INT64_C(1) << 28 ? "height x width: at most 2^28 pixels" : NULL;
}

const struct data_row data_row_unet = {
    DATA_ROW("unet", "generated: blobs on noise with their mask", DATA_MASKS, struct unet,
             unet_open, unet_read, NULL),
    .aliases = "synthetic_segmentation",
    .keys = "data_dir height width samples val_samples",
    .can_synthesize = true,
    .is_always_synthetic = true,
    .defaults = unet_defaults,
    .check = unet_check,
};
