/* Plug-ins: what is said where there is none, where it is none, and where the GPU is missing. */
#include "test.h"

#include <stdio.h>
#include <unistd.h>

#include "device/device.h"
#include "kernel/kernel.h"
#include "profile/profile.h"

static struct ebb_error err;

TEST(a_plugin_that_is_nowhere__is_named)
{
    const struct kernel_plugin *plugin = NULL;
    assert_int_equal(kernel_plugin_load("nowhere", &plugin, &err), EBB_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "ebb_nowhere.so"));
    assert_non_null(strstr(err.message, "EBB_PLUGIN_PATH"));
    assert_non_null(strstr(err.message, "ninja -C build ebb_nowhere"));
}

TEST(a_file_that_is_no_library__says_why)
{
    char folder[] = "/tmp/ebb_plugin_XXXXXX", path[64];
    const struct kernel_plugin *plugin = NULL;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/ebb_text.so", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("no library\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    char *before = getenv("EBB_PLUGIN_PATH");
    char *kept = before ? strdup(before) : NULL;
    assert_int_equal(setenv("EBB_PLUGIN_PATH", folder, 1), 0);
    assert_int_equal(kernel_plugin_load("text", &plugin, &err), EBB_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "does not load"));
    if (kept)
        (void)setenv("EBB_PLUGIN_PATH", kept, 1);
    else
        (void)unsetenv("EBB_PLUGIN_PATH");
    free(kept);
    (void)remove(path);
    (void)rmdir(folder);
}

/* Only where the plug-in was built (test cuda_loads). */
TEST(cuda_without_a_gpu__loads_and_says_so)
{
    const struct kernel_plugin *plugin = NULL;
    struct kernel_context *context = NULL;
    struct device *device = NULL;
    if (!getenv("EBB_TEST_PLUGIN"))
        return;
    enum ebb_status status = kernel_plugin_load("cuda", &plugin, &err);
    if (status != EBB_OK)
        fail_msg("%s", err.message);
    assert_string_equal(plugin->device->name, "cuda");
    assert_string_equal(plugin->kernels->device, "cuda");
    status = plugin->device->create(&device, NULL, &err);
    if (status == EBB_OK) { /* there is one, after all */
        plugin->device->destroy(device);
        return;
    }
    assert_int_equal(status, EBB_EDEVICE);
    assert_non_null(strstr(err.message, "no GPU"));
    /* without a device a context answers and runs nothing */
    assert_int_equal(plugin->kernels->open(&context, NULL, NULL, 1, &err), EBB_OK);
    struct kernel_count_desc d = {.n = 8};
    struct kernel_args args = {.in_count = 1, .out_count = 1, .in_dtype = {KERNEL_BF16}};
    struct kernel_need need = {.bytes = 48};
    assert_true(plugin->kernels->takes(context, KERNEL_FAMILY_CONVERT, &d, &args));
    assert_int_equal(plugin->kernels->need(context, KERNEL_FAMILY_CONVERT, &d, &args, &need, &err),
                     EBB_OK);
    assert_int_equal(plugin->kernels->run(context, KERNEL_FAMILY_CONVERT, &d, &args, &err),
                     EBB_EUNSUPPORTED);
    plugin->kernels->close(context);
}

/* The hash of the algorithm of a product, by a profile with this row: what signatures hold. */
static uint64_t algorithm_by(const struct kernel_plugin *plugin, const char *row)
{
    char text[512];
    struct profile *profile;
    struct kernel_context *context;
    struct kernel_matmul m = {.rank = 2,
                              .dtype = KERNEL_BF16,
                              .out_dtype = KERNEL_BF16,
                              .a_dims = {4096, 768},
                              .b_dims = {768, 3072},
                              .c_dims = {4096, 3072},
                              .a_strides = {768, 1},
                              .b_strides = {3072, 1}};
    struct kernel_args args = {
        .in_count = 2, .out_count = 1, .in_dtype = {KERNEL_BF16, KERNEL_BF16}};
    struct kernel_need need = {.flops = 1, .bytes = 1};
    int n = snprintf(text, sizeof text, "ebb-device 1\nkind nvidia-h200\n%send\n", row);
    assert_int_equal(profile_read("test", text, (size_t)n, &profile, &err), EBB_OK);
    assert_int_equal(plugin->kernels->open(&context, NULL, profile, 1, &err), EBB_OK);
    assert_int_equal(plugin->kernels->need(context, KERNEL_FAMILY_MATMUL, &m, &args, &need, &err),
                     EBB_OK);
    assert_int_equal(need.workspace_bytes, 32 << 20);
    plugin->kernels->close(context);
    profile_destroy(profile);
    return need.algorithm;
}

#define PRODUCT                                                                                    \
    "row cublaslt bf16>bf16:4096x3072x768*1:768,3072,3072:0,0,0:16:1 90000 0.01 33554432 "

TEST(cuda_products__take_the_algorithm_of_their_row)
{
    const struct kernel_plugin *plugin = NULL;
    if (!getenv("EBB_TEST_PLUGIN"))
        return;
    assert_int_equal(kernel_plugin_load("cuda", &plugin, &err), EBB_OK);
    uint64_t a = algorithm_by(plugin, PRODUCT "130100:42:0:7\n");
    assert_int_equal(algorithm_by(plugin, ""), 0); /* nobody knows */
    assert_true(a != 0);
    assert_true(a == algorithm_by(plugin, PRODUCT "130100:42:0:7\n"));
    assert_true(a != algorithm_by(plugin, PRODUCT "130100:42:0:8\n"));
    assert_true(a != algorithm_by(plugin, PRODUCT "130200:42:0:7\n")); /* another library */
    assert_int_equal(algorithm_by(plugin, PRODUCT "130100:42:x\n"), 0);
}

TEST_MAIN()
