/* What the machine draws: means over looks at a GPU, and what is said where there is none. */
#include "test.h"

#include <math.h>

#include "cli/power.h"

static unsigned milliwatts, looks;

static int power_of(void *device, unsigned *value)
{
    (void)device;
    *value = milliwatts;
    return looks++ == 2 ? 3 : 0; /* the third look fails, as on a GPU that is busy */
}

static int use_of(void *device, struct cli_power_use *use)
{
    (void)device;
    *use = (struct cli_power_use){.gpu = milliwatts / 10000, .memory = 1};
    return 0;
}

TEST(power__is_the_mean_over_the_looks_of_an_epoch)
{
    struct cli_power p = {.gpu = &looks, .nvml = {.power = power_of, .use = use_of}};
    for (int epoch = 0; epoch < 2; epoch++) {
        looks = 0;
        cli_power_begin(&p);
        for (unsigned i = 1; i <= 4; i++) {
            milliwatts = i * 100000;
            cli_power_look(&p);
        }
        struct cli_power_mean mean = cli_power_mean(&p);
        CHECK(fabs(mean.gpu_watts - 700.0 / 3) < 1e-9); /* 100, 200 and 400 W */
        CHECK(fabs(mean.gpu_percent - 70.0 / 3) < 1e-9);
    }
}

TEST(power__without_a_gpu_is_that_of_the_processors_or_unknown)
{
    struct cli_power p;
    struct ebb_error err = {0};
    CHECK_OK(cli_power_open(&p, false, &err), &err);
    cli_power_begin(&p);
    cli_power_look(&p);
    struct cli_power_mean mean = cli_power_mean(&p);
    CHECK(isnan(mean.gpu_watts) && isnan(mean.gpu_percent));
    CHECK(isnan(mean.cpu_watts) || mean.cpu_watts >= 0);
}

TEST(power__says_what_is_missing)
{
    struct cli_power p;
    struct ebb_error err = {0};
    if (cli_power_open(&p, true, &err) == EBB_OK) { /* a GPU is here */
        cli_power_begin(&p);
        cli_power_look(&p);
        CHECK(cli_power_mean(&p).gpu_watts > 0);
        return;
    }
    CHECK(strstr(err.message, "libnvidia-ml") != NULL || strstr(err.message, "NVML: ") != NULL);
    CHECK(p.gpu == NULL);
}

TEST_MAIN()
