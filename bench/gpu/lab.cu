/* lab.cu - the kernels of src/cuda against double precision on the CPU, and their times on shapes of GPT-2 124M.
 *
 *   lab [PART...]     parts: copy norm bn pool gelu columns entropy embed update attention repeat; all without an argument
 *
 * A line per kernel: what, error, ms, GB/s or TFLOP/s, fraction of the measured ceiling. Times are medians of five replays
 * of a graph of 20 launches over rotating buffers. With LAB_CHECK set nothing is timed (for compute-sanitizer). Exit status 1
 * if any check fails. */
#include "cuda/cuda.h"
#include "reference.h"
#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        int e_ = (int)(call);                                                                      \
        if (e_) {                                                                                  \
            printf("%s: %s\n", #call, cudaGetErrorString((cudaError_t)e_));                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int failures;
static double ceiling = 4.2e12; /* bytes per second of the copy kernel, measured by part copy */
static cudaStream_t stream;

template <class T> static T *device_new(size_t n)
{
    T *p;
    MUST(cudaMalloc(&p, n * sizeof(T) + 256));
    MUST(cudaMemset(p, 0xff, n * sizeof(T) + 256)); /* poison: NaN */
    return p;
}

template <class T> static T *device_copy(const std::vector<T> &v)
{
    T *p = device_new<T>(v.size());
    MUST(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

template <class T> static std::vector<T> host_copy(const T *p, size_t n)
{
    std::vector<T> v(n);
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

static std::vector<uint16_t> noise(size_t n, float scale, uint64_t seed)
{
    std::vector<uint16_t> v(n);
    size_t block = std::min(n, (size_t)4194301); /* a prime: repeated rows do not line up */
    ref_fill(v.data(), block, scale, seed);
    for (size_t at = block; at < n; at += block)
        memcpy(&v[at], v.data(), std::min(block, n - at) * 2);
    return v;
}

static std::vector<float> noise_float(size_t n, float scale, float shift, uint64_t seed)
{
    std::vector<float> v(n);
    uint64_t s = seed * 77 + 5;
    for (auto &x : v)
        x = shift + scale * ref_noise(&s);
    return v;
}

/* ms of one f(i), i = 0..19; 0 where only checks are wanted */
template <class F> static double time_ms(F f)
{
    enum { N = 20, RUNS = 5 };
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t a, b;
    float ms[RUNS];
    if (getenv("LAB_CHECK"))
        return 0;
    f(0);
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < N; i++)
        f(i);
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaEventCreate(&a));
    MUST(cudaEventCreate(&b));
    for (int r = -1; r < RUNS; r++) {
        MUST(cudaEventRecord(a, stream));
        MUST(cudaGraphLaunch(exec, stream));
        MUST(cudaEventRecord(b, stream));
        MUST(cudaEventSynchronize(b));
        if (r >= 0)
            MUST(cudaEventElapsedTime(&ms[r], a, b));
    }
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
    std::sort(ms, ms + RUNS);
    return (double)ms[RUNS / 2] / N;
}

struct error_sum {
    double a = 0, b = 0;
    void add(double x, double r)
    {
        a += (x - r) * (x - r);
        b += r * r;
        if (!(x == x))
            a = NAN;
    }
    double value() const
    {
        return sqrt(a / (b > 0 ? b : 1));
    }
};

static void verdict(const char *what, double error, double limit)
{
    bool is_ok = error <= limit; /* false for NaN */
    failures += !is_ok;
    printf("%-44s error %.2e %s\n", what, error, is_ok ? "ok" : "WRONG");
}

static void speed(const char *what, double ms, double bytes, double flops)
{
    if (flops > 0)
        printf("%-44s %.4f ms  %.0f TFLOP/s\n", what, ms, flops / ms * 1e-9);
    else
        printf("%-44s %.4f ms  %.0f GB/s  %.2f of copy\n", what, ms, bytes / ms * 1e-6,
               bytes / ms * 1e3 / ceiling);
    fflush(stdout);
}

enum { ROWS = 32768, WIDTH = 768, WIDE = 3072, SETS = 4 };

static void part_copy(void)
{
    size_t n = (size_t)201 << 20;
    std::vector<uint16_t> x = noise(n, 1, 1);
    uint16_t *a = device_copy(x), *b = device_new<uint16_t>(n);
    MUST(cuda_unary(CUDA_COPY, (int64_t)n - 3, CUDA_BF16, a, CUDA_BF16, b, stream));
    std::vector<uint16_t> y = host_copy(b, n);
    verdict("copy, count not a multiple of 8",
            memcmp(x.data(), y.data(), (n - 3) * 2) || y[n - 1] != 0xffff, 0);
    double ms = time_ms(
        [&](int) { MUST(cuda_unary(CUDA_COPY, (int64_t)n, CUDA_BF16, a, CUDA_BF16, b, stream)); });
    ceiling = 4.0 * (double)n / ms * 1e3;
    speed("copy kernel 402 MiB", ms, 4.0 * (double)n, 0);
    ms =
        time_ms([&](int) { MUST(cudaMemcpyAsync(b, a, n * 2, cudaMemcpyDeviceToDevice, stream)); });
    speed("cudaMemcpy 402 MiB", ms, 4.0 * (double)n, 0);
    size_t m = (size_t)ROWS * WIDTH;
    ms = time_ms([&](int i) {
        size_t at = (size_t)(i % SETS) * m;
        MUST(cuda_unary(CUDA_COPY, (int64_t)m, CUDA_BF16, a + at, CUDA_BF16, b + at, stream));
    });
    speed("copy kernel 50 MB", ms, 4.0 * (double)m, 0);
    float *f = device_new<float>(m * 2);
    ms = time_ms([&](int i) {
        size_t at = (size_t)(i % 2) * m;
        MUST(cuda_unary(CUDA_COPY, (int64_t)m, CUDA_BF16, a + at, CUDA_F32, f + at, stream));
    });
    speed("cast bf16 to F32, 25 M", ms, 6.0 * (double)m, 0);
    ms = time_ms([&](int i) {
        size_t at = (size_t)(i % SETS) * m;
        MUST(cuda_add((int64_t)m, CUDA_BF16, a + at, a + (at + m) % (SETS * m), b + at, stream));
    });
    speed("add 50 MB", ms, 6.0 * (double)m, 0);
    cudaFree(a), cudaFree(b), cudaFree(f);
}

static void norm_case(int64_t rows, int64_t n, bool has_residual)
{
    size_t count = (size_t)(rows * n);
    std::vector<uint16_t> x = noise(count, 1, 2), r = noise(count, 1, 3), g = noise(count, 1, 4);
    std::vector<float> w = noise_float((size_t)n, 0.2f, 1, 5),
                       b = noise_float((size_t)n, 0.2f, 0, 6);
    uint16_t *dx = device_copy(x), *dr = device_copy(r), *dg = device_copy(g),
             *ds = device_new<uint16_t>(count), *dy = device_new<uint16_t>(count),
             *dgx = device_new<uint16_t>(count);
    float *dw = device_copy(w), *db = device_copy(b), *mean = device_new<float>((size_t)rows),
          *rstd = device_new<float>((size_t)rows), *gw = device_new<float>((size_t)n),
          *gb = device_new<float>((size_t)n);
    struct cuda_norm d = {rows, n, 1e-5f, CUDA_BF16};
    char *ws = device_new<char>(cuda_layer_norm_grad_workspace(&d));
    MUST(cuda_layer_norm(&d, dx, has_residual ? dr : NULL, dw, db, has_residual ? ds : NULL, dy,
                         mean, rstd, stream));
    const uint16_t *source = has_residual ? ds : dx;
    MUST(cuda_layer_norm_grad(&d, dg, source, has_residual ? dr : NULL, dw, mean, rstd, dgx, gw, gb,
                              ws, stream));
    std::vector<uint16_t> s = host_copy(source, count), y = host_copy(dy, count),
                          gx = host_copy(dgx, count);
    std::vector<float> hgw = host_copy(gw, (size_t)n), hgb = host_copy(gb, (size_t)n);
    std::vector<double> rw((size_t)n), rb((size_t)n);
    error_sum es, ey, ex, ew, eb;
    for (int64_t i = 0; i < rows; i++) {
        const uint16_t *row = &s[(size_t)(i * n)], *gr = &g[(size_t)(i * n)];
        double m = 0, v = 0, a = 0, c = 0;
        for (int64_t k = 0; k < n; k++) {
            m += (double)ref_float(row[k]);
            if (has_residual)
                es.add(ref_float(row[k]), (double)ref_float(x[(size_t)(i * n + k)]) +
                                              (double)ref_float(r[(size_t)(i * n + k)]));
        }
        m /= (double)n;
        for (int64_t k = 0; k < n; k++)
            v += (ref_float(row[k]) - m) * (ref_float(row[k]) - m);
        double q = 1 / sqrt(v / (double)n + 1e-5);
        for (int64_t k = 0; k < n; k++) {
            double h = (ref_float(row[k]) - m) * q, gg = ref_float(gr[k]);
            ey.add(ref_float(y[(size_t)(i * n + k)]), h * w[(size_t)k] + b[(size_t)k]);
            rw[(size_t)k] += gg * h;
            rb[(size_t)k] += gg;
            a += gg * w[(size_t)k];
            c += gg * w[(size_t)k] * h;
        }
        for (int64_t k = 0; k < n; k++) {
            double h = (ref_float(row[k]) - m) * q, gg = ref_float(gr[k]);
            double want = q * (gg * w[(size_t)k] - a / (double)n - h * c / (double)n);
            ex.add(ref_float(gx[(size_t)(i * n + k)]),
                   want + (has_residual ? (double)ref_float(r[(size_t)(i * n + k)]) : 0));
        }
    }
    for (size_t k = 0; k < (size_t)n; k++)
        ew.add(hgw[k], rw[k]), eb.add(hgb[k], rb[k]);
    char text[128];
    snprintf(text, sizeof text, "layer norm %lld x %lld%s: sum, y", (long long)rows, (long long)n,
             has_residual ? " +" : "");
    verdict(text, std::max(es.value(), ey.value()), 3e-3);
    snprintf(text, sizeof text, "layer norm gradient %lld x %lld: dx", (long long)rows,
             (long long)n);
    verdict(text, ex.value(), 3e-3);
    verdict("  dw, db", std::max(ew.value(), eb.value()), 1e-5);
    for (void *p :
         {(void *)dx, (void *)dr, (void *)dg, (void *)ds, (void *)dy, (void *)dgx, (void *)dw,
          (void *)db, (void *)mean, (void *)rstd, (void *)gw, (void *)gb, (void *)ws})
        cudaFree(p);
}

static void part_norm(void)
{
    norm_case(1000, 768, false);
    norm_case(1000, 768, true);
    norm_case(301, 64, true);
    norm_case(130, 1024, true);
    norm_case(77, 1600, true);
    norm_case(40, 4096, true);
    for (int n : {768, 1600}) {
        int rows = n == 768 ? ROWS : 16384;
        size_t m = (size_t)rows * (size_t)n;
        uint16_t *x = device_copy(noise(m * SETS, 1, 7)), *g = device_copy(noise(m * SETS, 1, 8)),
                 *y = device_new<uint16_t>(m * SETS), *s = device_new<uint16_t>(m * SETS);
        float *w = device_copy(noise_float((size_t)n, 0.1f, 1, 1)),
              *mean = device_new<float>((size_t)rows), *rstd = device_new<float>((size_t)rows),
              *gw = device_new<float>((size_t)n), *gb = device_new<float>((size_t)n);
        struct cuda_norm d = {rows, n, 1e-5f, CUDA_BF16};
        char *ws = device_new<char>(cuda_layer_norm_grad_workspace(&d)), text[64];
        snprintf(text, sizeof text, "layer norm %d x %d", rows, n);
        speed(text, time_ms([&](int i) {
                  size_t at = (size_t)(i % SETS) * m;
                  MUST(cuda_layer_norm(&d, x + at, NULL, w, w, NULL, y + at, mean, rstd, stream));
              }),
              4.0 * (double)m, 0);
        speed(
            "  + residual", time_ms([&](int i) {
                size_t at = (size_t)(i % SETS) * m;
                MUST(cuda_layer_norm(&d, x + at, g + at, w, w, s + at, y + at, mean, rstd, stream));
            }),
            8.0 * (double)m, 0);
        speed("  gradient + residual", time_ms([&](int i) {
                  size_t at = (size_t)(i % SETS) * m;
                  MUST(cuda_layer_norm_grad(&d, g + at, x + at, s + at, w, mean, rstd, y + at, gw,
                                            gb, ws, stream));
              }),
              8.0 * (double)m, 0);
        cudaFree(x), cudaFree(g), cudaFree(y), cudaFree(s), cudaFree(ws);
    }
}

static void bn_case(int64_t rows, int64_t n, bool is_relu, bool has_residual)
{
    size_t count = (size_t)(rows * n);
    std::vector<uint16_t> x = noise(count, 1, 40), r = noise(count, 1, 41), g = noise(count, 1, 42);
    for (size_t i = 0; i < count; i++) /* a mean far from zero */
        x[i] = ref_bf16(ref_float(x[i]) + (float)(i % (size_t)n % 7) * 4);
    std::vector<float> w = noise_float((size_t)n, 0.2f, 1, 43),
                       b = noise_float((size_t)n, 0.2f, 0, 44);
    uint16_t *dx = device_copy(x), *dr = device_copy(r), *dg = device_copy(g),
             *dy = device_new<uint16_t>(count), *gx = device_new<uint16_t>(count),
             *gr = device_new<uint16_t>(count);
    float *dw = device_copy(w), *db = device_copy(b), *mean = device_new<float>((size_t)n),
          *var = device_new<float>((size_t)n), *gw = device_new<float>((size_t)n),
          *gb = device_new<float>((size_t)n);
    struct cuda_batch_norm d = {rows, n, 1e-5f, is_relu, CUDA_BF16};
    char *ws = device_new<char>(cuda_batch_norm_workspace(&d));
    MUST(cuda_batch_norm_stats(&d, dx, mean, var, ws, stream));
    MUST(cuda_batch_norm_apply(&d, dx, has_residual ? dr : NULL, mean, var, dw, db, dy, stream));
    MUST(cuda_batch_norm_grad(&d, dg, dx, has_residual ? dy : NULL, mean, var, dw, db, gx,
                              has_residual ? gr : NULL, gw, gb, ws, stream));
    std::vector<uint16_t> y = host_copy(dy, count), hx = host_copy(gx, count),
                          hr = host_copy(gr, count);
    std::vector<float> hw = host_copy(gw, (size_t)n), hb = host_copy(gb, (size_t)n);
    error_sum ey, ex, er, ew, eb;
    for (int64_t k = 0; k < n; k++) {
        double m = 0, v = 0, sw = 0, sb = 0;
        auto at = [&](int64_t i) { return (size_t)(i * n + k); };
        for (int64_t i = 0; i < rows; i++)
            m += ref_float(x[at(i)]);
        m /= (double)rows;
        for (int64_t i = 0; i < rows; i++)
            v += (ref_float(x[at(i)]) - m) * (ref_float(x[at(i)]) - m);
        double q = 1 / sqrt(v / (double)rows + 1e-5);
        std::vector<double> gated((size_t)rows);
        for (int64_t i = 0; i < rows; i++) {
            double h = (ref_float(x[at(i)]) - m) * q, o = h * w[(size_t)k] + b[(size_t)k];
            if (has_residual)
                o += ref_float(r[at(i)]);
            ey.add(ref_float(y[at(i)]), is_relu && o < 0 ? 0 : o);
            /* the gate as stored: near zero both are right */
            bool is_open = !is_relu || ref_float(y[at(i)]) > 0;
            gated[(size_t)i] = is_open ? ref_float(g[at(i)]) : 0;
            sw += gated[(size_t)i] * h;
            sb += gated[(size_t)i];
        }
        ew.add(hw[(size_t)k], sw);
        eb.add(hb[(size_t)k], sb);
        for (int64_t i = 0; i < rows; i++) {
            double h = (ref_float(x[at(i)]) - m) * q;
            ex.add(ref_float(hx[at(i)]),
                   w[(size_t)k] * q *
                       (gated[(size_t)i] - sb / (double)rows - h * sw / (double)rows));
            if (has_residual)
                er.add(ref_float(hr[at(i)]), gated[(size_t)i]);
        }
    }
    char text[96];
    snprintf(text, sizeof text, "batch norm %lld x %lld%s%s: y", (long long)rows, (long long)n,
             is_relu ? " relu" : "", has_residual ? " + residual" : "");
    verdict(text, ey.value(), 3e-3);
    verdict("  dx, gated gradient", std::max(ex.value(), er.value()), 3e-3);
    verdict("  dw, db", std::max(ew.value(), eb.value()), 1e-4);
    for (void *p :
         {(void *)dx, (void *)dr, (void *)dg, (void *)dy, (void *)gx, (void *)gr, (void *)dw,
          (void *)db, (void *)mean, (void *)var, (void *)gw, (void *)gb, (void *)ws})
        cudaFree(p);
}

/* All batch norms of ResNet-50, batch 256: {count, places, channels, kind}; kind 0 plain, 1 relu, 2 residual + relu. */
static void part_bn(void)
{
    bn_case(1000, 64, true, false);
    bn_case(4099, 256, true, true);
    bn_case(700, 2048, false, false);
    bn_case(300, 2056, true, true);
    bn_case(97, 24, true, false);
    static const int shapes[][4] = {
        {1, 112, 64, 1}, {6, 56, 64, 1},   {3, 56, 256, 2},  {1, 56, 256, 0},
        {1, 56, 128, 1}, {7, 28, 128, 1},  {4, 28, 512, 2},  {1, 28, 512, 0},
        {1, 28, 256, 1}, {11, 14, 256, 1}, {6, 14, 1024, 2}, {1, 14, 1024, 0},
        {1, 14, 512, 1}, {5, 7, 512, 1},   {3, 7, 2048, 2},  {1, 7, 2048, 0}};
    double sums[3] = {0}, bytes = 0;
    size_t most = (size_t)256 * 112 * 112 * 64;
    uint16_t *x = device_copy(noise(most, 1, 45)), *g = device_copy(noise(most, 1, 46)),
             *y = device_copy(noise(most, 1, 47)), *o = device_new<uint16_t>(most),
             *o2 = device_new<uint16_t>(most);
    float *one = device_copy(noise_float(2048, 0.1f, 1, 48)), *mean = device_new<float>(2048),
          *var = device_new<float>(2048), *gw = device_new<float>(2048),
          *gb = device_new<float>(2048);
    for (auto &s : shapes) {
        struct cuda_batch_norm d = {(int64_t)256 * s[1] * s[1], s[2], 1e-5f, s[3] > 0, CUDA_BF16};
        char *ws = device_new<char>(cuda_batch_norm_workspace(&d)), text[64];
        double size = 2.0 * (double)d.rows * (double)d.channels;
        double a = time_ms(
                   [&](int) { MUST(cuda_batch_norm_stats(&d, x, mean, var, ws, stream)); }),
               b = time_ms([&](int) {
                   MUST(cuda_batch_norm_apply(&d, x, s[3] == 2 ? y : NULL, mean, var, one, one, o,
                                              stream));
               }),
               c = time_ms([&](int) {
                   MUST(cuda_batch_norm_grad(&d, g, x, s[3] == 2 ? y : NULL, mean, var, one, one,
                                             o, s[3] == 2 ? o2 : NULL, gw, gb, ws, stream));
               });
        double moved = size * (1 + (s[3] == 2 ? 3 : 2) + (s[3] == 2 ? 8 : 5));
        snprintf(text, sizeof text, "batch norm %d^2 x %d kind %d: all three", s[1], s[2], s[3]);
        speed(text, a + b + c, moved, 0);
        sums[0] += s[0] * a;
        sums[1] += s[0] * b;
        sums[2] += s[0] * c;
        bytes += s[0] * moved;
        cudaFree(ws);
    }
    printf("batch norms of ResNet-50 b256: statistics %.2f, apply %.2f, gradient %.2f ms; %.1f GB, "
           "%.2f of copy\n",
           sums[0], sums[1], sums[2], bytes * 1e-9,
           bytes / (sums[0] + sums[1] + sums[2]) * 1e3 / ceiling);
    cudaFree(x), cudaFree(g), cudaFree(y), cudaFree(o), cudaFree(o2);
}

static void part_pool(void)
{
    struct cuda_pool d = {3, 13, 11, 16, 7, 6, 3, 2, 1, CUDA_BF16};
    size_t in = 3 * 13 * 11 * 16, out = 3 * 7 * 6 * 16;
    std::vector<uint16_t> x = noise(in, 1, 50), g = noise(out, 1, 51);
    for (size_t i = 0; i < in; i += 3)
        x[i] = 0x3f80; /* equal ones */
    uint16_t *dx = device_copy(x), *dg = device_copy(g), *dy = device_new<uint16_t>(out),
             *gx = device_new<uint16_t>(in);
    uint8_t *index = device_new<uint8_t>(out);
    MUST(cuda_max_pool(&d, dx, dy, index, stream));
    MUST(cuda_max_pool_grad(&d, dg, index, gx, stream));
    std::vector<uint16_t> y = host_copy(dy, out), h = host_copy(gx, in);
    std::vector<double> want(in);
    error_sum e, eg;
    for (int n = 0; n < 3; n++)
        for (int r = 0; r < 7; r++)
            for (int c = 0; c < 6; c++)
                for (int k = 0; k < 16; k++) {
                    double best = -1e30;
                    size_t at = 0, to = (size_t)(((n * 7 + r) * 6 + c) * 16 + k);
                    for (int a = 0; a < 3; a++)
                        for (int b = 0; b < 3; b++) {
                            int i = r * 2 - 1 + a, j = c * 2 - 1 + b;
                            size_t from = (size_t)(((n * 13 + i) * 11 + j) * 16 + k);
                            if (i >= 0 && i < 13 && j >= 0 && j < 11 && ref_float(x[from]) > best)
                                best = ref_float(x[from]), at = from;
                        }
                    e.add(ref_float(y[to]), best);
                    want[at] += ref_float(g[to]);
                }
    for (size_t i = 0; i < in; i++)
        eg.add(ref_float(h[i]), want[i]);
    verdict("max pool", e.value(), 0);
    verdict("  gradient", eg.value(), 3e-3);
    uint16_t *my = device_new<uint16_t>(48), *mx = device_new<uint16_t>(in);
    MUST(cuda_mean_pool(&d, dx, my, stream));
    MUST(cuda_mean_pool_grad(&d, dg, mx, stream));
    std::vector<uint16_t> hm = host_copy(my, 48), hs = host_copy(mx, in);
    error_sum em, es;
    for (size_t i = 0; i < 48; i++) {
        double sum = 0;
        for (size_t p = 0; p < 143; p++) {
            sum += ref_float(x[(i / 16 * 143 + p) * 16 + i % 16]);
            es.add(ref_float(hs[(i / 16 * 143 + p) * 16 + i % 16]), (double)ref_float(g[i]) / 143);
        }
        em.add(ref_float(hm[i]), sum / 143);
    }
    verdict("mean pool and gradient", std::max(em.value(), es.value()), 4e-3);
    struct cuda_pool big = {256, 112, 112, 64, 56, 56, 3, 2, 1, CUDA_BF16},
                     last = {256, 7, 7, 2048, 1, 1, 7, 1, 0, CUDA_BF16};
    size_t n = (size_t)256 * 112 * 112 * 64;
    uint16_t *a = device_copy(noise(n, 1, 52)), *b = device_new<uint16_t>(n / 4),
             *c = device_new<uint16_t>(n);
    uint8_t *i8 = device_new<uint8_t>(n / 4);
    speed("max pool 112^2 x 64, 3x3/2",
          time_ms([&](int) { MUST(cuda_max_pool(&big, a, b, i8, stream)); }), 2.75 * (double)n, 0);
    speed("  gradient", time_ms([&](int) { MUST(cuda_max_pool_grad(&big, b, i8, c, stream)); }),
          2.75 * (double)n, 0);
    speed("mean pool 7^2 x 2048", time_ms([&](int) { MUST(cuda_mean_pool(&last, a, b, stream)); }),
          2.0 * 256 * 49 * 2048, 0);
    speed("  gradient", time_ms([&](int) { MUST(cuda_mean_pool_grad(&last, b, c, stream)); }),
          2.0 * 256 * 49 * 2048, 0);
    cudaFree(a), cudaFree(b), cudaFree(c);
}

static void part_gelu(void)
{
    size_t n = 100003;
    std::vector<uint16_t> x = noise(n, 3, 9), g = noise(n, 1, 10);
    uint16_t *dx = device_copy(x), *dg = device_copy(g), *dy = device_new<uint16_t>(n);
    for (enum cuda_unary f : {CUDA_GELU_TANH, CUDA_GELU, CUDA_RELU}) {
        error_sum e, eg;
        MUST(cuda_unary(f, (int64_t)n, CUDA_BF16, dx, CUDA_BF16, dy, stream));
        std::vector<uint16_t> y = host_copy(dy, n);
        MUST(cuda_unary_grad(f, (int64_t)n, CUDA_BF16, dg, dx, dy, stream));
        std::vector<uint16_t> s = host_copy(dy, n);
        for (size_t i = 0; i < n; i++) {
            double v = ref_float(x[i]), u = 0.7978845608028654 * (v + 0.044715 * v * v * v),
                   t = tanh(u), value, slope;
            if (f == CUDA_GELU_TANH) {
                value = 0.5 * v * (1 + t);
                slope = 0.5 * (1 + t) +
                        0.5 * v * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * v * v);
            } else if (f == CUDA_GELU) {
                value = 0.5 * v * (1 + erf(v / sqrt(2.0)));
                slope = 0.5 * (1 + erf(v / sqrt(2.0))) + v * exp(-0.5 * v * v) * 0.3989422804014327;
            } else {
                value = v > 0 ? v : 0;
                slope = v > 0;
            }
            e.add(ref_float(y[i]), value);
            eg.add(ref_float(s[i]), slope * (double)ref_float(g[i]));
        }
        verdict(f == CUDA_RELU ? "relu" : f == CUDA_GELU ? "gelu" : "gelu tanh", e.value(), 2.5e-3);
        verdict("  gradient", eg.value(), 2.5e-3);
    }
    size_t m = (size_t)ROWS * WIDE;
    uint16_t *a = device_copy(noise(m * 2, 1, 11)), *b = device_new<uint16_t>(m * 2);
    speed("gelu tanh 201 MB", time_ms([&](int i) {
              MUST(cuda_unary(CUDA_GELU_TANH, (int64_t)m, CUDA_BF16, a + (size_t)(i % 2) * m,
                              CUDA_BF16, b + (size_t)(i % 2) * m, stream));
          }),
          4.0 * (double)m, 0);
    speed("gelu erf 201 MB", time_ms([&](int i) {
              MUST(cuda_unary(CUDA_GELU, (int64_t)m, CUDA_BF16, a + (size_t)(i % 2) * m, CUDA_BF16,
                              b + (size_t)(i % 2) * m, stream));
          }),
          4.0 * (double)m, 0);
    cudaFree(a), cudaFree(b);
}

static void part_columns(void)
{
    int64_t rows = 1003, n = 776;
    size_t count = (size_t)(rows * n);
    std::vector<uint16_t> x = noise(count, 2, 12), g = noise(count, 1, 13);
    uint16_t *dx = device_copy(x), *dg = device_copy(g), *out = device_new<uint16_t>(count),
             *out2 = device_new<uint16_t>(count);
    float *sums = device_new<float>((size_t)n), *sums2 = device_new<float>((size_t)n);
    char *ws = device_new<char>(cuda_columns_workspace(rows, n));
    MUST(cuda_column_sums(rows, n, CUDA_BF16, dg, sums, ws, stream));
    std::vector<float> h = host_copy(sums, (size_t)n);
    error_sum e;
    for (int64_t k = 0; k < n; k++) {
        double r = 0;
        for (int64_t i = 0; i < rows; i++)
            r += ref_float(g[(size_t)(i * n + k)]);
        e.add(h[(size_t)k], r);
    }
    verdict("column sums", e.value(), 1e-5);
    MUST(cuda_unary_grad_sums(CUDA_GELU_TANH, rows, n, CUDA_BF16, dg, dx, out, sums, ws, stream));
    MUST(cuda_unary_grad(CUDA_GELU_TANH, rows * n, CUDA_BF16, dg, dx, out2, stream));
    MUST(cuda_column_sums(rows, n, CUDA_BF16, out2, sums2, ws, stream));
    verdict("gelu gradient + sums: bits of the two alone",
            host_copy(out, count) != host_copy(out2, count) ||
                host_copy(sums, (size_t)n) != host_copy(sums2, (size_t)n),
            0);
    size_t m = (size_t)ROWS * WIDE;
    uint16_t *a = device_copy(noise(m, 1, 14)), *b = device_copy(noise(m, 1, 15)),
             *c = device_new<uint16_t>(m);
    char *big = device_new<char>(cuda_columns_workspace(ROWS, WIDE));
    float *wide = device_new<float>(WIDE);
    speed("gelu gradient + bias gradient 32768 x 3072", time_ms([&](int) {
              MUST(cuda_unary_grad_sums(CUDA_GELU_TANH, ROWS, WIDE, CUDA_BF16, a, b, c, wide, big,
                                        stream));
          }),
          6.0 * (double)m, 0);
    speed("column sums 32768 x 3072", time_ms([&](int) {
              MUST(cuda_column_sums(ROWS, WIDE, CUDA_BF16, a, wide, big, stream));
          }),
          2.0 * (double)m, 0);
    speed("column sums 32768 x 2304", time_ms([&](int) {
              MUST(cuda_column_sums(ROWS, 2304, CUDA_BF16, a, wide, big, stream));
          }),
          2.0 * ROWS * 2304, 0);
    speed("column sums 32768 x 768", time_ms([&](int i) {
              MUST(cuda_column_sums(ROWS, WIDTH, CUDA_BF16, a + (size_t)(i % SETS) * ROWS * WIDTH,
                                    wide, big, stream));
          }),
          2.0 * ROWS * WIDTH, 0);
    cudaFree(a), cudaFree(b), cudaFree(c);
}

static void entropy_case(int64_t rows, int64_t classes, int64_t stride)
{
    size_t count = (size_t)(rows * stride);
    std::vector<uint16_t> x = noise(count, 3, 16);
    std::vector<int64_t> t((size_t)rows);
    for (size_t i = 0; i < t.size(); i++)
        t[i] = (int64_t)(i * 2654435761u % (size_t)classes);
    t[1] = classes - 1;
    t[2] = -100;    /* ignored */
    t[3] = classes; /* wrong */
    uint16_t *dx = device_copy(x);
    int64_t *dt = device_copy(t);
    float *loss = device_new<float>((size_t)rows);
    uint32_t *error = device_new<uint32_t>(1); /* all ones */
    struct cuda_entropy d = {rows, classes, stride, -100, 1.0f / 64, CUDA_BF16};
    MUST(cuda_entropy_grad(&d, dx, dt, loss, error, stream));
    std::vector<uint16_t> y = host_copy(dx, count);
    std::vector<float> l = host_copy(loss, (size_t)rows);
    error_sum e, el;
    for (int64_t i = 0; i < rows; i++) {
        const uint16_t *row = &x[(size_t)(i * stride)];
        double m = -1e300, s = 0;
        bool is_off = t[(size_t)i] == -100 || t[(size_t)i] >= classes;
        for (int64_t k = 0; k < classes; k++)
            m = std::max(m, (double)ref_float(row[k]));
        for (int64_t k = 0; k < classes; k++)
            s += exp(ref_float(row[k]) - m);
        el.add(l[(size_t)i], is_off ? 0 : m + log(s) - ref_float(row[t[(size_t)i]]));
        for (int64_t k = 0; k < stride; k++) {
            double want = k >= classes || is_off
                              ? 0
                              : (exp(ref_float(row[k]) - m) / s - (k == t[(size_t)i])) / 64;
            e.add(ref_float(y[(size_t)(i * stride + k)]), want);
        }
    }
    char text[64];
    snprintf(text, sizeof text, "cross entropy %lld of %lld", (long long)classes,
             (long long)stride);
    verdict(text, std::max(e.value(), 100 * el.value()), 3e-3);
    verdict("  wrong target reported", host_copy(error, 1)[0] != 4, 0);
    cudaFree(dx), cudaFree(dt), cudaFree(loss), cudaFree(error);
}

static void part_entropy(void)
{
    entropy_case(6, 50304, 50304);
    entropy_case(6, 50257, 50304);
    entropy_case(9, 1000, 1000);
    entropy_case(5, 100001, 100008);
    int64_t rows = 4096;
    for (int64_t classes : {50304, 50257}) {
        size_t m = (size_t)rows * 50304;
        uint16_t *x = device_copy(noise(m, 1, 17));
        std::vector<int64_t> t((size_t)rows, 17);
        int64_t *dt = device_copy(t);
        float *loss = device_new<float>((size_t)rows);
        struct cuda_entropy d = {rows, classes, 50304, -100, 1.0f / 32768, CUDA_BF16};
        char text[64];
        snprintf(text, sizeof text, "cross entropy 4096 x %lld (8 a step)", (long long)classes);
        speed(text, time_ms([&](int) { MUST(cuda_entropy_grad(&d, x, dt, loss, NULL, stream)); }),
              4.0 * (double)m, 0);
        cudaFree(x), cudaFree(dt), cudaFree(loss);
    }
}

static void embed_case(int64_t count, int64_t rows, int64_t n, int kind)
{
    std::vector<uint16_t> table = noise((size_t)(rows * n), 1, 18),
                          pos = noise((size_t)(count * n), 1, 19),
                          g = noise((size_t)(count * n), 1, 20);
    std::vector<int64_t> index((size_t)count);
    uint64_t s = 99;
    for (auto &i : index) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        double u = (double)(s >> 11) / 9007199254740992.0;
        i = kind == 0   ? (int64_t)(u * (double)rows)
            : kind == 1 ? (int64_t)(pow(u, 6) * (double)rows)
                        : 5;
    }
    std::vector<float> start = noise_float((size_t)(rows * n), 1, 0, 21);
    uint16_t *dt = device_copy(table), *dp = device_copy(pos), *dg = device_copy(g),
             *dy = device_new<uint16_t>((size_t)(count * n));
    int64_t *di = device_copy(index), positions = count / 4;
    float *dtable = device_copy(start), *dposition = device_new<float>((size_t)(positions * n));
    struct cuda_embed d = {count, rows, n, positions, CUDA_BF16};
    char *ws = device_new<char>(cuda_embed_grad_workspace(&d));
    MUST(cuda_embed(&d, di, dt, dp, dy, NULL, stream));
    MUST(cuda_embed_grad(&d, di, dg, dtable, ws, stream));
    MUST(cuda_embed_position_grad(&d, dg, dposition, stream));
    std::vector<uint16_t> y = host_copy(dy, (size_t)(count * n));
    std::vector<float> gt = host_copy(dtable, (size_t)(rows * n)),
                       gp = host_copy(dposition, (size_t)(positions * n));
    error_sum e, eg, ep;
    std::vector<double> want(start.begin(), start.end()), want_p((size_t)(positions * n));
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < n; k++) {
            size_t from = (size_t)(index[(size_t)i] * n + k), at = (size_t)(i * n + k),
                   p = (size_t)(i % positions * n + k);
            e.add(ref_float(y[at]), (double)ref_float(table[from]) + (double)ref_float(pos[p]));
            want[from] += ref_float(g[at]);
            want_p[p] += ref_float(g[at]);
        }
    for (size_t i = 0; i < want.size(); i++)
        eg.add(gt[i], want[i]);
    for (size_t i = 0; i < want_p.size(); i++)
        ep.add(gp[i], want_p[i]);
    static const char *const kinds[] = {"even", "skewed", "one row"};
    char text[64];
    snprintf(text, sizeof text, "embedding, %s", kinds[kind]);
    verdict(text, e.value(), 3e-3);
    verdict("  gradient of table", eg.value(), 1e-5);
    verdict("  gradient of positions", ep.value(), 1e-5);
    MUST(cudaMemcpy(dtable, start.data(), start.size() * 4, cudaMemcpyHostToDevice));
    MUST(cuda_embed_grad(&d, di, dg, dtable, ws, stream));
    verdict("  same bits again", host_copy(dtable, (size_t)(rows * n)) != gt, 0);
    if (count == ROWS) {
        speed("embedding 32768 x 768",
              time_ms([&](int) { MUST(cuda_embed(&d, di, dt, dp, dy, NULL, stream)); }),
              6.0 * (double)(count * n), 0);
        speed("  gradient of table",
              time_ms([&](int) { MUST(cuda_embed_grad(&d, di, dg, dtable, ws, stream)); }),
              2.0 * (double)(count * n), 0);
        speed("  gradient of positions",
              time_ms([&](int) { MUST(cuda_embed_position_grad(&d, dg, dposition, stream)); }),
              2.0 * (double)(count * n), 0);
    }
    for (void *p : {(void *)dt, (void *)dp, (void *)dg, (void *)dy, (void *)di, (void *)dtable,
                    (void *)dposition, (void *)ws})
        cudaFree(p);
}

static void part_embed(void)
{
    embed_case(1000, 300, 64, 0);
    embed_case(1000, 300, 264, 1);
    embed_case(1000, 300, 768, 2);
    embed_case(ROWS, 50304, WIDTH, 1);
    embed_case(ROWS, 50304, WIDTH, 2);
}

static float bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* kernel/convert.c and kernel/update.c, element by element; compiled without contraction */
static void adam_cpu(const float *k, float g, uint16_t *high, uint16_t *rest, float *m, float *v)
{
    uint32_t low = *rest, u;
    float w = bits_float((((uint32_t)*high - (low >> 15)) << 16) | low);
    g = g * k[11];
    g = k[1] != 0.0f ? fmaf(k[1], w, g) : g;
    *m = fmaf(k[3], g, k[2] * *m);
    *v = fmaf(k[5] * g, g, k[4] * *v);
    w = w * k[8] - k[0] * *m / (sqrtf(*v) / k[6] + k[7]);
    memcpy(&u, &w, 4);
    *rest = (uint16_t)u;
    *high = (uint16_t)((u >> 16) + (u >> 15 & 1u));
}

static void part_update(void)
{
    size_t n = 1000003;
    for (int kind = 0; kind < 3; kind++) {
        std::vector<float> g = noise_float(n, kind == 2 ? 1e-20f : 0.02f, 0, 22),
                           m = noise_float(n, 0.01f, 0, 23), v(n);
        std::vector<uint16_t> high = noise(n, 0.1f, 24), rest(n), gh(n);
        for (size_t i = 0; i < n; i++) {
            v[i] = m[i] * m[i] * 3 + (kind == 2 ? 0.0f : 1e-9f);
            rest[i] = (uint16_t)(i * 40503u);
            gh[i] = ref_bf16(g[i]);
        }
        float k[12] = {6e-4f / (1 - 0.9f),
                       kind == 1 ? 0.01f : 0.0f,
                       0.9f,
                       1 - 0.9f,
                       0.95f,
                       1 - 0.95f,
                       0.3f,
                       1e-8f,
                       1 - 6e-4f * 0.1f,
                       0,
                       0,
                       kind == 1 ? -1.0f : 1.0f};
        std::vector<float> ks(k, k + 12);
        float *dk = device_copy(ks), *dg = device_copy(g), *dm = device_copy(m),
              *dv = device_copy(v);
        uint16_t *dh = device_copy(high), *dr = device_copy(rest), *dgh = device_copy(gh);
        bool is_low = kind == 1;
        std::vector<struct cuda_update> pieces; /* kind 2: the same in uneven pieces */
        for (size_t at = 0, i = 1; at < n; at += i * 8, i++)
            pieces.push_back(
                {(int64_t)std::min(i * 8, n - at), dg + at, dh + at, dr + at, dm + at, dv + at});
        for (int step = 0; step < 3; step++) {
            if (kind == 2)
                MUST(cuda_adam_split_many((int)pieces.size(), pieces.data(), CUDA_F32, dk, stream));
            else
                MUST(cuda_adam_split((int64_t)n, is_low ? CUDA_BF16 : CUDA_F32, dk,
                                     is_low ? (void *)dgh : (void *)dg, dh, dr, dm, dv, stream));
            for (size_t i = 0; i < n; i++)
                adam_cpu(k, is_low ? ref_float(gh[i]) : g[i], &high[i], &rest[i], &m[i], &v[i]);
        }
        bool is_same = host_copy(dh, n) == high && host_copy(dr, n) == rest &&
                       !memcmp(host_copy(dm, n).data(), m.data(), n * 4) &&
                       !memcmp(host_copy(dv, n).data(), v.data(), n * 4);
        verdict(kind == 0   ? "AdamW split: bits of the CPU"
                : kind == 1 ? "  with L2 decay, bf16 gradient"
                            : "  tiny gradients, many tensors",
                !is_same, 0);
        for (void *p :
             {(void *)dk, (void *)dg, (void *)dm, (void *)dv, (void *)dh, (void *)dr, (void *)dgh})
            cudaFree(p);
    }
    size_t all = 124439808;
    std::vector<float> ks(12, 0.5f);
    float *k = device_copy(ks), *g = device_new<float>(all), *m = device_new<float>(all),
          *v = device_new<float>(all);
    uint16_t *h = device_new<uint16_t>(all), *r = device_new<uint16_t>(all);
    MUST(cudaMemset(g, 0x11, all * 4));
    MUST(cudaMemset(m, 0x11, all * 4));
    MUST(cudaMemset(v, 0x11, all * 4));
    MUST(cudaMemset(h, 0x3c, all * 2));
    speed("AdamW split, 124.4 M in one", time_ms([&](int) {
              MUST(cuda_adam_split((int64_t)all, CUDA_F32, k, g, h, r, m, v, stream));
          }),
          28.0 * (double)all, 0);
    cudaFree(g), cudaFree(m), cudaFree(v), cudaFree(h), cudaFree(r);
}

__global__ void hash_words(size_t n, const uint32_t *x, unsigned long long *out)
{
    unsigned long long h = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        unsigned long long v = x[i] ^ (i * 0x9e3779b97f4a7c15ull);
        v ^= v >> 31;
        v *= 0xbf58476d1ce4e5b9ull;
        h += v ^ v >> 29;
    }
    atomicAdd(out, h);
}

struct attention_data {
    struct cuda_attention d;
    uint16_t *qkv, *o, *go, *dqkv;
    float *stats;
    char *ws;
    size_t qkv_count, o_count;
    int heads, width;
};

static attention_data attention_new(int batch, int heads, int tokens, bool is_causal)
{
    attention_data a;
    int width = heads * 64;
    a.d = {batch,
           heads,
           tokens,
           is_causal,
           0.125f,
           3 * width,
           64,
           (int64_t)tokens * 3 * width,
           width,
           64,
           (int64_t)tokens * width};
    a.heads = heads, a.width = width;
    a.qkv_count = (size_t)batch * (size_t)tokens * 3 * (size_t)width;
    a.o_count = a.qkv_count / 3;
    a.qkv = device_copy(noise(a.qkv_count, 1, 30));
    a.go = device_copy(noise(a.o_count, 1, 31));
    a.o = device_new<uint16_t>(a.o_count);
    a.dqkv = device_new<uint16_t>(a.qkv_count);
    a.stats = device_new<float>((size_t)(batch * heads * tokens));
    a.ws = device_new<char>(cuda_attention_grad_workspace(&a.d));
    return a;
}

static void attention_free(attention_data &a)
{
    for (void *p :
         {(void *)a.qkv, (void *)a.o, (void *)a.go, (void *)a.dqkv, (void *)a.stats, (void *)a.ws})
        cudaFree(p);
}

static void attention_forward(attention_data &a)
{
    MUST(cuda_attention(&a.d, a.qkv, a.qkv + a.width, a.qkv + 2 * a.width, a.o, a.stats, stream));
}

static void attention_backward(attention_data &a)
{
    MUST(cuda_attention_grad(&a.d, a.qkv, a.qkv + a.width, a.qkv + 2 * a.width, a.o, a.go, a.stats,
                             a.dqkv, a.dqkv + a.width, a.dqkv + 2 * a.width, a.ws, stream));
}

static void attention_case(int batch, int heads, int tokens, bool is_causal)
{
    attention_data a = attention_new(batch, heads, tokens, is_causal);
    attention_forward(a);
    MUST(cudaStreamSynchronize(stream));
    attention_backward(a);
    MUST(cudaStreamSynchronize(stream));
    std::vector<uint16_t> qkv = host_copy(a.qkv, a.qkv_count), o = host_copy(a.o, a.o_count),
                          go = host_copy(a.go, a.o_count), g = host_copy(a.dqkv, a.qkv_count);
    std::vector<float> stats = host_copy(a.stats, (size_t)(batch * heads * tokens));
    std::vector<double> ro((size_t)tokens * 64), rs((size_t)tokens), rq(ro.size()), rk(ro.size()),
        rv(ro.size());
    double worst[5] = {0};
    int w = a.width;
    for (int which : {0, batch * heads - 1}) {
        int b = which / heads, h = which % heads;
        size_t at = (size_t)b * (size_t)tokens * 3 * (size_t)w + (size_t)h * 64,
               at_o = (size_t)b * (size_t)tokens * (size_t)w + (size_t)h * 64;
        ref_attention(tokens, 64, is_causal, &qkv[at], &qkv[at + (size_t)w],
                      &qkv[at + 2 * (size_t)w], &go[at_o], 3 * w, w, ro.data(), rs.data(),
                      rq.data(), rk.data(), rv.data());
        error_sum es;
        for (int t = 0; t < tokens; t++)
            es.add(stats[(size_t)which * (size_t)tokens + (size_t)t], rs[(size_t)t]);
        double e[5] = {ref_error_bf16(&o[at_o], w, tokens, 64, ro.data()), es.value(),
                       ref_error_bf16(&g[at], 3 * w, tokens, 64, rq.data()),
                       ref_error_bf16(&g[at + (size_t)w], 3 * w, tokens, 64, rk.data()),
                       ref_error_bf16(&g[at + 2 * (size_t)w], 3 * w, tokens, 64, rv.data())};
        for (int i = 0; i < 5; i++)
            worst[i] = e[i] > worst[i] || !(e[i] == e[i]) ? e[i] : worst[i];
    }
    char text[96];
    snprintf(text, sizeof text, "attention %d x %d x %d %s", batch, heads, tokens,
             is_causal ? "causal" : "full");
    printf("%s: o %.2e stats %.2e dq %.2e dk %.2e dv %.2e\n", text, worst[0], worst[1], worst[2],
           worst[3], worst[4]);
    verdict("  forward", std::max(worst[0], 100 * worst[1]), 5e-3);
    verdict("  gradient", std::max(worst[2], std::max(worst[3], worst[4])), 1e-2);
    attention_free(a);
}

static void part_attention(void)
{
    attention_case(1, 2, 128, true);
    attention_case(2, 3, 256, true);
    attention_case(1, 2, 256, false);
    attention_case(2, 2, 200, true);
    attention_case(1, 3, 333, false);
    attention_case(1, 200, 64, true);
    attention_case(2, 12, 1024, true);
    attention_case(3, 64, 1024, true);
    static const int shapes[][2] = {
        {32, 12}, {16, 25}, {8, 12}, {4, 12}}; /* GPT-2 124M, XL, small batches */
    for (auto &shape : shapes) {
        int b = shape[0], heads = shape[1];
        attention_data a = attention_new(b, heads, 1024, true);
        double pairs = 1024.0 * 1025 / 2 * b * heads;
        char text[64];
        snprintf(text, sizeof text, "attention forward %d x %d x 1024", b, heads);
        speed(text, time_ms([&](int) { attention_forward(a); }), 0, 4 * 64 * pairs);
        snprintf(text, sizeof text, "attention gradient %d x %d x 1024 (%.0f MiB)", b, heads,
                 (double)cuda_attention_grad_workspace(&a.d) / 1048576);
        speed(text, time_ms([&](int) { attention_backward(a); }), 0, 10 * 64 * pairs);
        attention_free(a);
    }
}

/* One call each way, for a profiler. */
static void part_once(void)
{
    attention_data a = attention_new(32, 12, 1024, true);
    attention_forward(a);
    attention_backward(a);
    MUST(cudaStreamSynchronize(stream));
    attention_free(a);
}

static void part_repeat(void)
{
    attention_data a = attention_new(32, 12, 1024, true);
    unsigned long long *hash = device_new<unsigned long long>(1), first = 0;
    int differing = 0;
    attention_forward(a);
    for (int i = 0; i < 1000; i++) {
        MUST(cudaMemsetAsync(hash, 0, 8, stream));
        attention_backward(a);
        hash_words<<<1024, 256, 0, stream>>>(a.qkv_count / 2, (const uint32_t *)a.dqkv, hash);
        unsigned long long h = host_copy(hash, 1)[0];
        first = i ? first : h;
        differing += h != first;
    }
    verdict("attention gradient: 1,000 repeats differing", differing, 0);
    attention_free(a);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"copy", part_copy},           {"norm", part_norm},     {"bn", part_bn},
                 {"pool", part_pool},           {"gelu", part_gelu},     {"columns", part_columns},
                 {"entropy", part_entropy},     {"embed", part_embed},   {"update", part_update},
                 {"attention", part_attention}, {"repeat", part_repeat}, {"once", part_once}};
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (const auto &part : parts) {
        bool is_wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            is_wanted = is_wanted || !strcmp(argv[i], part.name);
        if (is_wanted)
            part.run();
    }
    printf("lab: %d checks failed\n", failures);
    return failures != 0;
}
