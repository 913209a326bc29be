/* Random traces through both writers and back. Seeds are fixed. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "test.h"
#include "trace_equal.h"
#include "trace_kit.h"

#include "base/heap.h"
#include "base/rng.h"
#include "trace/trace.h"

#define RUNS 100 /* each writes four files, synced to the disk */

static struct trace *random_trace(uint64_t seed)
{
    struct ebb_error err;
    struct trace *t = NULL;
    uint64_t r = seed * 77;
    uint64_t bits = ebb_splitmix64(&r);
    struct trace_synth synth = {.ops = 1 + (uint32_t)(ebb_splitmix64(&r) % 300),
                                .seed = seed,
                                .spread = (double)(bits >> 8 & 3) / 3.0,
                                .has_views = bits & 1,
                                .has_mutation = bits & 2,
                                .has_multi_output = bits & 4,
                                .has_workspace = bits & 8,
                                .has_once = bits & 16};
    for (size_t i = 0; i < trace_shape_count; i++)
        if (strcmp(trace_shapes[i].name, "random") == 0)
            CHECK_OK(trace_shape_make(&trace_shapes[i], &synth, &t, &err), &err);
    return t;
}

/* Extra GETs, RELEASEs of kept handles and mid-way pins: commands the shapes do not make. The copy
 * is in the builder. */
static struct trace *shaken(const struct trace *t, uint64_t seed)
{
    struct ebb_error err;
    struct trace_builder *b = NULL;
    struct trace *made = NULL;
    uint32_t *handles = ebb_calloc(t->tensor_count + 1u, sizeof *handles);
    CHECK(handles != NULL);
    CHECK_OK(trace_builder_create(&b, &err), &err);
    for (uint32_t i = 0; i < t->command_count; i++) {
        uint32_t index = t->commands[i].index, first;
        if (i == t->backward_command)
            trace_builder_mark_backward(b);
        if (t->commands[i].kind == TRACE_RUN) {
            const struct trace_op *op = &t->ops[index];
            struct trace_output outputs[16];
            for (uint32_t k = 0; k < op->output_count; k++) {
                const struct trace_tensor *x = &t->tensors[op->output_first + k];
                outputs[k] = (struct trace_output){.alias = x->alias};
                if (x->alias == TRACE_FRESH)
                    outputs[k].bytes = t->storages[x->storage].bytes;
                else
                    outputs[k].alias_input = x->alias_input;
                handles[op->output_first + k] = 1;
            }
            struct trace_op_desc desc = {.kind = op->kind,
                                         .cost_ns = op->cost_ns,
                                         .inputs = t->inputs + op->input_first,
                                         .input_count = op->input_count,
                                         .outputs = outputs,
                                         .output_count = op->output_count,
                                         .partner = TRACE_NONE,
                                         .phase = op->phase,
                                         .is_leaf = op->is_leaf};
            CHECK_OK(trace_builder_op(b, &desc, &first, &err), &err);
        } else {
            CHECK_OK(trace_builder_command(b, t->commands[i].kind, index, &err), &err);
            handles[index] += t->commands[i].kind == TRACE_GET;
            handles[index] -= t->commands[i].kind == TRACE_RELEASE;
        }
        if (t->commands[i].kind != TRACE_PIN && ebb_splitmix64(&seed) % 4 == 0 &&
            handles[index] > 0 && t->commands[i].kind == TRACE_RELEASE) {
            CHECK_OK(trace_builder_command(b, TRACE_GET, index, &err), &err);
            CHECK_OK(trace_builder_command(b, TRACE_RELEASE, index, &err), &err);
        }
    }
    CHECK_OK(trace_builder_finish(b, "shaken", &made, &err), &err);
    trace_builder_destroy(b);
    ebb_free(handles);
    return made;
}

TEST(native__loses_nothing)
{
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        struct ebb_error err;
        char why[200];
        struct trace *t = random_trace(seed), *back = NULL;
        CHECK_OK(trace_write_native(t, trace_kit_path, &err), &err);
        CHECK_OK(trace_load(trace_kit_path, TRACE_FORMAT_AUTO, &back, &err), &err);
        if (!trace_equal(t, back, why))
            fail_msg("seed %llu: %s", (unsigned long long)seed, why);
        trace_destroy(back);
        trace_destroy(t);
    }
}

/* Sentences about things that are not part of the program. */
static bool is_program_kept(const char *lost)
{
    static const char *const harmless[] = {"have labels", "have attributes", "use workspace",
                                           "know the forward op", "can skip outputs"};
    for (const char *line = lost, *end; *line != '\0'; line = end + 1) {
        bool is_harmless = false;
        end = strchr(line, '\n');
        CHECK(end != NULL);
        for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
            const char *at = strstr(line, harmless[i]);
            is_harmless |= at != NULL && at < end;
        }
        if (!is_harmless)
            return false;
    }
    return true;
}

/* Writes, reads, writes, reads: what is said to be kept is kept, and a log is a fixed point. */
static bool check_log(const struct trace *t, uint64_t seed)
{
    struct ebb_error err;
    char why[200], lost[2000];
    struct trace *back = NULL, *again = NULL;
    CHECK_OK(trace_write_dtr(t, trace_kit_path, lost, sizeof lost, &err), &err);
    CHECK_OK(trace_load(trace_kit_path, TRACE_FORMAT_AUTO, &back, &err), &err);
    bool is_kept = is_program_kept(lost);
    if (is_kept && !trace_equal_program(t, back, why))
        fail_msg("seed %llu: %s", (unsigned long long)seed, why);
    CHECK_OK(trace_write_dtr(back, trace_kit_path, lost, sizeof lost, &err), &err);
    CHECK_STR(lost, "");
    CHECK_OK(trace_load(trace_kit_path, TRACE_FORMAT_AUTO, &again, &err), &err);
    if (!trace_equal_program(back, again, why))
        fail_msg("seed %llu, second time: %s", (unsigned long long)seed, why);
    trace_destroy(again);
    trace_destroy(back);
    return is_kept;
}

TEST(log__keeps_what_it_does_not_admit_to_lose)
{
    int kept = 0;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        struct trace *t = random_trace(seed);
        struct trace *u = shaken(t, seed);
        kept += check_log(t, seed);
        check_log(u, seed);
        trace_destroy(u);
        trace_destroy(t);
    }
    CHECK(kept > RUNS / 8); /* those without mutation and once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(native__loses_nothing),
        RUN(log__keeps_what_it_does_not_admit_to_lose),
    };
    return cmocka_run_group_tests(tests, trace_kit_make_path, trace_kit_drop_path);
}
