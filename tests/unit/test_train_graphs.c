/* Graphs and slabs that a device has no room for: steps go on one by one with the same bits, and budgets are taken as they
 * were asked for. The places where steps run are this file's own: the device is far, with less room. */
#include "engine_kit.h"

#include <unistd.h>

#include "device/device.h"
#include "kernel/kernel.h"
#include "train/place.h"

static struct ebb_error err;

static struct {
    int room;             /* for graphs */
    int graphs, captures; /* there are; that came to one */
    int asked, launches;  /* captures that were tried; graphs that were launched */
    uint64_t slab_bytes;  /* that was asked for */
    uint64_t most_nodes;  /* of the table */
} tight;

static enum ebb_status tight_capture_end(struct device *d, struct device_graph **graph,
                                         struct ebb_error *e)
{
    tight.asked++;
    if (graph && tight.graphs >= tight.room) {
        (void)device_far.capture_end(d, NULL, NULL);
        return ebb_fail(e, EBB_ENOMEM, "tight device: no room for a graph");
    }
    EBB_TRY(device_far.capture_end(d, graph, e));
    tight.graphs += graph != NULL;
    tight.captures += graph != NULL;
    return EBB_OK;
}

static void tight_graph_free(struct device *d, struct device_graph *graph)
{
    tight.graphs--;
    device_far.graph_free(d, graph);
}

static enum ebb_status tight_graph_launch(struct device *d, struct device_graph *graph,
                                          struct ebb_error *e)
{
    tight.launches++;
    return device_far.graph_launch(d, graph, e);
}

static struct device_table tight_table;

static enum ebb_status tight_create(struct device **d, const struct device_config *config,
                                    struct ebb_error *e)
{
    EBB_TRY(device_far.create(d, config, e));
    (*d)->table = &tight_table;
    return EBB_OK;
}

/* Asked for more than any host has, it takes a little. */
static enum ebb_status tight_reserve(struct device *d, enum device_tier tier, uint64_t bytes,
                                     struct ebb_error *e)
{
    if (tier == DEVICE_T0)
        tight.slab_bytes = bytes;
    return device_far.reserve(d, tier, bytes < 1 << 24 ? bytes : 1 << 24, e);
}

enum ebb_status train_place_find(const char *name, struct train_place *place, struct ebb_error *e)
{
    (void)e;
    tight_table = device_far;
    tight_table.create = tight_create;
    tight_table.reserve = tight_reserve;
    tight_table.is_lazy = false;
    tight_table.most_nodes = tight.most_nodes;
    tight_table.capture_end = tight_capture_end;
    tight_table.graph_launch = tight_graph_launch;
    tight_table.graph_free = tight_graph_free;
    *place = name ? (struct train_place){&tight_table, &kernel_far, "cpu", false}
                  : (struct train_place){&device_cpu, &kernel_cpu, "cpu", false};
    return EBB_OK;
}

/* ---- two programs in turn, their batches in two places ----------------------------------------- */

#define ROUNDS 8

struct turns {
    struct step step; /* first: the context of fill and read_loss */
    void *places[2];
};

static const void *lend(void *context, uint32_t tensor, uint64_t count)
{
    struct turns *t = context;
    void *place = t->places[t->step.number % 2];
    if (tensor != t->step.x || !place)
        return NULL;
    CHECK_OK(fill(&t->step, tensor, place, count, &err), &err);
    return place;
}

static void run_turns(const char *device, bool is_lent, float losses[2][ROUNDS])
{
    struct train_engine_options o = {
        .budget_bytes = 1 << 22, .threads = 1, .device = device, .policy = "lru"};
    struct train_engine *engine;
    struct train_program *programs[2];
    struct turns turns[2] = {0};
    struct exec_report report;
    CHECK_OK(train_engine_create(&engine, &o, &err), &err);
    for (int k = 0; k < 2; k++) {
        struct trace *trace = make_step(train_engine_backend(engine), &turns[k].step, k == 0);
        CHECK_OK(train_engine_add(engine, trace, &programs[k], &err), &err);
        for (int i = 0; i < 2 && is_lent; i++)
            turns[k].places[i] = train_engine_host_take(engine, BATCH * WIDTH * sizeof(float));
    }
    for (int n = 0; n < ROUNDS; n++)
        for (int k = 0; k < 2; k++) {
            struct exec_io io = {.context = &turns[k],
                                 .fill = fill,
                                 .read = read_loss,
                                 .lend = is_lent ? lend : NULL};
            turns[k].step.number = n;
            CHECK_OK(train_engine_run(engine, programs[k], &io, NULL, &report, &err), &err);
            losses[k][n] = turns[k].step.loss_value;
        }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++)
            train_engine_host_give(engine, turns[k].places[i]);
    train_engine_destroy(engine);
}

TEST(graphs_that_do_not_fit__are_left_out_and_bits_stay)
{
    static const struct {
        int room;
        bool is_lent;
        int captures, asked, launches; /* of 14 runs that may be captured */
    } rows[] = {
        {9, false, 2, 2, 14},                      /* one graph each */
        {1, false, 1, 2, 7},                       /* the second is asked for once */
        {0, false, 0, 2, 0},  {9, true, 4, 4, 14}, /* two each */
        {3, true, 4, 5, 14}, /* the second program's two become one, made anew */
        {2, true, 4, 6, 14}, /* so do the first one's */
        {1, true, 2, 4, 7},  /* the first has come first */
        {0, true, 0, 2, 0},
    };
    float want[2][ROUNDS], got[2][ROUNDS];
    run_turns(NULL, false, want);
    CHECK(want[0][0] != want[0][ROUNDS - 1]);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memset(&tight, 0, sizeof tight);
        tight.room = rows[i].room;
        run_turns("tight", rows[i].is_lent, got);
        CHECK(memcmp(want, got, sizeof want) == 0);
        CHECK_EQ(tight.graphs, 0); /* all were given back */
        CHECK_EQ(tight.captures, rows[i].captures);
        CHECK_EQ(tight.asked, rows[i].asked);
        CHECK_EQ(tight.launches, rows[i].launches);
    }
}

/* With copies on their way beside the ops. */
TEST(a_device_without_room_for_graphs__trains_to_the_same_weights)
{
    run_reference(&err);
    struct train_engine_options o = {
        .threads = 1, .device = "tight", .policy = "lru", .host_bytes = 1 << 20};
    o.budget_bytes = (reference.floor + (reference.unlimited - reference.floor) / 4) / 256 * 256;
    for (int room = 0; room < 2; room++) {
        memset(&tight, 0, sizeof tight);
        tight.room = room;
        CHECK_OK(train(&o, false, &other, &err), &err);
        CHECK(other.swapped > 0);
        check_equal(&reference, &other);
        CHECK_EQ(tight.launches, room ? STEPS - 1 : 0);
    }
}

/* How many nodes a device takes is known before anything is captured. */
TEST(a_step_of_more_nodes_than_a_device_takes__is_never_captured)
{
    float got[2][ROUNDS];
    memset(&tight, 0, sizeof tight);
    tight.room = 9;
    tight.most_nodes = 8;
    run_turns("tight", true, got);
    CHECK_EQ(tight.asked, 0);
}

/* ---- slabs ------------------------------------------------------------------------------------- */

TEST(a_budget_above_the_hosts_memory__is_taken_as_it_is)
{
    uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    struct train_engine_options o = {.threads = 1, .device = "tight"};
    for (int is_limited = 0; is_limited < 2; is_limited++) {
        struct train_engine *engine;
        struct train_program *program;
        struct step step;
        o.budget_bytes = is_limited ? 3 * host / 256 * 256 : UINT64_MAX;
        memset(&tight, 0, sizeof tight);
        CHECK_OK(train_engine_create(&engine, &o, &err), &err);
        struct trace *trace = make_step(train_engine_backend(engine), &step, true);
        CHECK_OK(train_engine_add(engine, trace, &program, &err), &err);
        CHECK_OK(train_engine_reserve(engine, &err), &err);
        CHECK(tight.slab_bytes ==
              (is_limited ? o.budget_bytes : train_program_info(program)->peak_bytes));
        train_engine_destroy(engine);
    }
}

TEST_MAIN()
