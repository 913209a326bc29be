/* test_worker_state.c - the default checkpoint of shared-object trials, and metrics. */
#include <ebb.h> /* first: cmocka has a macro of one of its names */

#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "worker/internal.h"

struct state {
    float weights[6], momentum[6];
    double bias;
    int64_t count;
    ebb_tensor model_tensors[2], optim_tensors[2];
    ebb_model model;
    ebb_optim optim;
};

static void state_init(struct state *s, float start)
{
    *s = (struct state){.bias = start, .count = (int64_t)start};
    for (int i = 0; i < 6; i++) {
        s->weights[i] = start + (float)i;
        s->momentum[i] = -start - (float)i;
    }
    s->model_tensors[0] = (ebb_tensor){
        .name = "w\"x", .dtype = EBB_F32, .rank = 2, .shape = {2, 3}, .data = s->weights};
    s->model_tensors[1] = (ebb_tensor){.name = "b", .dtype = EBB_F64, .rank = 0, .data = &s->bias};
    s->optim_tensors[0] =
        (ebb_tensor){.name = "m", .dtype = EBB_F32, .rank = 1, .shape = {6}, .data = s->momentum};
    s->optim_tensors[1] =
        (ebb_tensor){.name = "n", .dtype = EBB_I64, .rank = 1, .shape = {1}, .data = &s->count};
    s->model = (ebb_model){.tensors = s->model_tensors, .tensor_count = 2};
    s->optim = (ebb_optim){.tensors = s->optim_tensors, .tensor_count = 2};
}

static char *make_directory(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/ebb-state-XXXXXX");
    CHECK(mkdtemp(path) != NULL);
    return path;
}

static void remove_directory(const char *dir)
{
    static const char *const names[] = {"state/weights.safetensors", "state/optimizer.safetensors",
                                        "state/train.json", "state", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        remove(path);
    }
}

/* A state saved, and another one to load it into. */
static char *save_one(struct state *a, struct state *b)
{
    struct ebb_error err = {0};
    char *dir = make_directory();
    state_init(a, 3);
    state_init(b, 0);
    CHECK_OK(worker_state_save(dir, &a->model, &a->optim, 70, &err), &err);
    return dir;
}

TEST(state__comes_back_as_it_was)
{
    struct ebb_error err = {0};
    struct state a, b;
    char *dir = save_one(&a, &b);
    CHECK_OK(worker_state_load(dir, &b.model, &b.optim, &err), &err);
    assert_memory_equal(a.weights, b.weights, sizeof a.weights);
    assert_memory_equal(a.momentum, b.momentum, sizeof a.momentum);
    CHECK(a.bias == b.bias && a.count == b.count);
    remove_directory(dir);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(state__warm_start_leaves_the_optimizer)
{
    struct ebb_error err = {0};
    struct state a, b;
    char *dir = save_one(&a, &b);
    CHECK_OK(worker_state_load(dir, &b.model, NULL, &err), &err);
    CHECK(b.weights[5] == 8 && b.momentum[5] == -5);
    remove_directory(dir);
}

TEST(state__of_another_model_is_refused)
{
    struct ebb_error err = {0};
    struct state a, b;
    char *dir = save_one(&a, &b);
    b.model_tensors[0].shape[0] = 3;
    b.model_tensors[0].shape[1] = 2;
    CHECK_EQ(worker_state_load(dir, &b.model, NULL, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "different model") != NULL);
    b.model_tensors[0].name = "nothing";
    CHECK_EQ(worker_state_load(dir, &b.model, NULL, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "no tensor 'nothing'") != NULL);
    remove_directory(dir);
    CHECK_EQ(worker_state_load(dir, &b.model, NULL, &err), EBB_EIO);
}

/* Every byte of the header changed, every length cut: an error or the same shapes, never more. */
TEST(state__survives_any_damage)
{
    struct ebb_error err = {0};
    struct state a, b;
    struct ebb_file_view view;
    char *dir = make_directory(), path[128];
    state_init(&a, 3);
    CHECK_OK(worker_state_save(dir, &a.model, &a.optim, 70, &err), &err);
    snprintf(path, sizeof path, "%s/state/weights.safetensors", dir);
    CHECK_OK(ebb_file_view_open(&view, path, 1 << 20, &err), &err);
    char *bytes = ebb_alloc(view.length);
    for (size_t i = 0; i < view.length; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bytes, view.data, view.length);
            bytes[i] = (char)(bytes[i] ^ (1 << bit));
            state_init(&b, 0);
            worker_state_parse("x", bytes, view.length, b.model_tensors, 2, &err);
        }
    for (size_t n = 0; n < view.length; n++) {
        char *cut = ebb_alloc(n);
        memcpy(cut, view.data, n);
        state_init(&b, 0);
        CHECK(worker_state_parse("x", cut, n, b.model_tensors, 2, &err) != EBB_OK);
        ebb_free(cut);
    }
    ebb_free(bytes);
    ebb_file_view_close(&view);
    remove_directory(dir);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(metrics__keep_order_and_overwrite)
{
    struct ebb_error err = {0};
    struct worker_metrics m;
    struct ebb_str text;
    struct ebb_json_writer w;
    worker_metrics_init(&m);
    CHECK_OK(worker_metrics_set(&m, "loss", 1, &err), &err);
    CHECK_OK(worker_metrics_set(&m, "accuracy", NAN, &err), &err);
    CHECK_OK(worker_metrics_set(&m, "loss", -INFINITY, &err), &err);
    CHECK_EQ(worker_metrics_set(&m, "", 1, &err), EBB_EINPUT);
    ebb_str_init(&text);
    ebb_jsonw_init(&w, &text, 0);
    worker_metrics_write(&m, &w);
    CHECK_STR(ebb_str_c(&text), "{\"loss\": \"-Infinity\", \"accuracy\": \"NaN\"}");
    ebb_str_fini(&text);
    worker_metrics_fini(&m);
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(metrics__survive_failing_allocations)
{
    for (uint64_t n = 1; n < 8; n++) {
        struct worker_metrics m;
        worker_metrics_init(&m);
        ebb_heap_fail_at(n);
        for (int i = 0; i < 3; i++) {
            char name[8];
            snprintf(name, sizeof name, "m%d", i);
            worker_metrics_set(&m, name, i, NULL);
        }
        ebb_heap_fail_at(0);
        worker_metrics_fini(&m);
        CHECK_EQ(ebb_heap_live(), 0);
    }
}

TEST_MAIN()
