/* power.c - see power.h. */
#include "cli/power.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/library.h"
#include "base/str.h"

/* ---- processors ------------------------------------------------------------------------------ */

/* Energy that the processors have used, in microjoules; 0: it cannot be read. */
static uint64_t energy_uj(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < 8; i++) {
        char path[64], text[32] = "";
        uint64_t one;
        snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%d/energy_uj", i);
        FILE *file = fopen(path, "re");
        if (!file)
            break;
        char *line = fgets(text, sizeof text, file);
        fclose(file);
        text[strcspn(text, "\n")] = '\0';
        if (!line || !ebb_parse_u64(text, &one))
            return 0;
        sum += one;
    }
    return sum;
}

/* ---- the GPU ----------------------------------------------------------------------------------- */

static enum ebb_status load(struct cli_power_nvml *nvml, struct ebb_error *err)
{
    const struct ebb_library_call calls[] = {
        {"nvmlInit_v2", &nvml->init},
        {"nvmlDeviceGetHandleByIndex_v2", &nvml->by_index},
        {"nvmlDeviceGetHandleByUUID", &nvml->by_uuid},
        {"nvmlDeviceGetPowerUsage", &nvml->power},
        {"nvmlDeviceGetUtilizationRates", &nvml->use},
        {"nvmlErrorString", &nvml->words},
    };
    return ebb_library_load("libnvidia-ml.so.1", "libnvidia-ml1", calls,
                            sizeof calls / sizeof *calls, err);
}

/* The GPU that CUDA calls its first: the first one of CUDA_VISIBLE_DEVICES, a number or a UUID. */
static int find_gpu(struct cli_power *power)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char first[96];
    uint64_t index = 0;
    snprintf(first, sizeof first, "%.*s", visible ? (int)strcspn(visible, ",") : 0,
             visible ? visible : "");
    if (first[0] != '\0' && !ebb_parse_u64(first, &index))
        return power->nvml.by_uuid(first, &power->gpu);
    return power->nvml.by_index((unsigned)index, &power->gpu);
}

enum ebb_status cli_power_open(struct cli_power *power, bool has_gpu, struct ebb_error *err)
{
    *power = (struct cli_power){0};
    if (!has_gpu)
        return EBB_OK;
    EBB_TRY(load(&power->nvml, err));
    int code = power->nvml.init();
    code = code == 0 ? find_gpu(power) : code;
    if (code == 0)
        return EBB_OK;
    power->gpu = NULL;
    return ebb_fail(err, EBB_EUNSUPPORTED, "NVML: %s", power->nvml.words(code));
}

/* ---- an epoch ---------------------------------------------------------------------------------- */

void cli_power_begin(struct cli_power *power)
{
    power->begin_ns = ebb_clock_ns();
    power->begin_uj = energy_uj();
    power->milliwatts = power->percents = power->looks = 0;
}

void cli_power_look(struct cli_power *power)
{
    unsigned milliwatts;
    struct cli_power_use use;
    if (!power->gpu || power->nvml.power(power->gpu, &milliwatts) != 0 ||
        power->nvml.use(power->gpu, &use) != 0)
        return;
    power->milliwatts += milliwatts;
    power->percents += use.gpu;
    power->looks++;
}

struct cli_power_mean cli_power_mean(const struct cli_power *power)
{
    double seconds = (double)(ebb_clock_ns() - power->begin_ns) * 1e-9;
    uint64_t now = energy_uj();
    bool is_known = power->begin_uj > 0 && now > power->begin_uj; /* it wraps around */
    double looks = power->looks ? (double)power->looks : NAN;
    return (struct cli_power_mean){
        is_known ? (double)(now - power->begin_uj) * 1e-6 / seconds : NAN,
        (double)power->milliwatts * 1e-3 / looks, (double)power->percents / looks};
}
