/* tool.c - a store by hand, for tests against real servers:
 *
 *     store_tool LOCATION put UUID DIRECTORY JOURNAL   (keys: ACCESS_KEY, SECRET_KEY, or the usual)
 *     store_tool LOCATION get UUID DIRECTORY
 *     store_tool LOCATION remove UUID DIRECTORY [JOURNAL] (what lies in DIRECTORY/UUID is the record)
 *     store_tool LOCATION check DIRECTORY
 *     store_tool - seal DIRECTORY UUID                 (.UUID.tmp becomes UUID)
 *
 * PATIENCE_S: seconds for which a transfer may stand still. Prints what it did, with bytes, seconds,
 * the peak of its memory and the processors' time; exits 1 with the message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "exp/store/driver.h"
#include "exp/store/store.h"

static int report(enum ebb_status status, const struct ebb_error *err, const char *what,
                  uint64_t begin, const struct exp_store_watch *watch)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double seconds = (double)(ebb_clock_ns() - begin) / 1e9;
    if (status != EBB_OK) {
        fprintf(stderr, "%s: %s\n", ebb_status_text(status), err->message);
        return 1;
    }
    double busy = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                  (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("%s %lld bytes %.3f s %ld KiB, %.2f s of processors\n", what,
           (long long)atomic_load(&watch->bytes), seconds, usage.ru_maxrss, busy);
    return 0;
}

static enum ebb_status seal(const char *directory, const char *uuid, struct ebb_error *err)
{
    struct exp_storage s = {.kind = EXP_STORAGE_SHARED_FS, .directory = directory};
    struct exp_store *place = NULL;
    EBB_TRY(exp_store_open(&s, 0, NULL, &place, err));
    struct exp_store_item item = {.uuid = uuid, .metadata = "{}"};
    exp_store_publish(place, &item, 1);
    *err = item.err;
    if (item.status == EBB_OK)
        printf("%s\n", ebb_str_c(&item.resources));
    ebb_str_fini(&item.resources);
    exp_store_close(place);
    return item.status;
}

/* The record of a sealed copy. */
static void list(const char *directory, const char *uuid, struct ebb_str *out)
{
    struct exp_storage s = {.kind = EXP_STORAGE_SHARED_FS, .directory = directory};
    struct exp_store *place = NULL;
    struct ebb_error err;
    if (exp_store_open(&s, 0, NULL, &place, &err) != EBB_OK)
        return;
    struct exp_store_item item = {.uuid = uuid, .metadata = "{}"};
    exp_store_publish(place, &item, 1);
    ebb_str_add(out, ebb_str_c(&item.resources));
    ebb_str_fini(&item.resources);
    exp_store_close(place);
}

static enum ebb_status act(struct exp_store *store, int count, char **args,
                           struct exp_store_watch *watch, struct ebb_error *err)
{
    const char *verb = args[0];
    if (strcmp(verb, "check") == 0)
        return exp_store_check(store, args[1], watch, err);
    if (strcmp(verb, "get") == 0)
        return exp_store_fetch(store, args[1], NULL, args[2], watch, err);
    if (strcmp(verb, "put") == 0 && count == 4) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", args[2], args[1]);
        return exp_store_upload(store, args[1], path, args[3], watch, err);
    }
    struct ebb_str record = {0};
    list(args[2], args[1], &record);
    enum ebb_status status = exp_store_remove(
        store, args[1], record.length > 0 ? ebb_str_c(&record) : NULL, args[3], watch, err);
    ebb_str_fini(&record);
    return status;
}

int main(int argc, char **argv)
{
    struct ebb_error err = {0};
    struct exp_store_net *net = NULL;
    struct exp_store *store = NULL;
    struct exp_store_watch watch = {0};
    struct exp_store_keys keys = {getenv("ACCESS_KEY"), getenv("SECRET_KEY")};
    uint64_t begin = ebb_clock_ns();
    if (argc < 4)
        return 2;
    if (strcmp(argv[2], "seal") == 0)
        return report(seal(argv[3], argv[4], &err), &err, "sealed", begin, &watch);
    enum ebb_status status = exp_store_net_create(&net, &err);
    if (status == EBB_OK && getenv("PATIENCE_S") != NULL)
        exp_store_net_set_patience(net, atoi(getenv("PATIENCE_S")));
    if (status == EBB_OK)
        status = exp_store_open_location(argv[1], &keys, net, &store, &err);
    if (status == EBB_OK)
        status = act(store, argc - 2, argv + 2, &watch, &err);
    int code = report(status, &err, argv[2], begin, &watch);
    exp_store_close(store);
    exp_store_net_destroy(net);
    return code;
}
