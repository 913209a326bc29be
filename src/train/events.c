/* events.c - TensorBoard event files: TFRecord frames around protobuf messages.
 *
 * A frame is: length (u64), masked crc32c of the length, bytes, masked crc32c of the bytes, little
 * endian. Event: 1 wall_time (double), 2 step (int64), 3 file_version (string), 5 summary; Summary:
 * 1 value (repeated); Value: 1 tag, 2 simple_value (float). */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/str.h"
#include "train/train.h"

struct train_events {
    FILE *stream;
    char *path;
};

static void put_bytes(struct ebb_str *s, unsigned field, const char *bytes, size_t n)
{
    ebb_add_field(s, field, n);
    ebb_str_addn(s, bytes, n);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void put_time(struct ebb_str *event, double wall)
{
    char bytes[sizeof wall];
    memcpy(bytes, &wall, sizeof wall);
    ebb_add_varint(event, 1 << 3 | 1);
    ebb_str_addn(event, bytes, sizeof bytes);
}

static enum ebb_status write_frame(struct train_events *e, struct ebb_str *event,
                                   struct ebb_error *err)
{
    uint8_t head[EBB_RECORD_HEAD], foot[4];
    enum ebb_status status = ebb_str_status(event, err);
    if (status == EBB_OK) {
        size_t n = event->length;
        ebb_record_head(head, n);
        ebb_store_u32(foot, ebb_record_sum(event->data, n));
        if (fwrite(head, 1, sizeof head, e->stream) != sizeof head ||
            fwrite(event->data, 1, n, e->stream) != n ||
            fwrite(foot, 1, sizeof foot, e->stream) != sizeof foot)
            status = ebb_fail(err, EBB_EIO, "cannot write %s", e->path);
    }
    ebb_str_fini(event);
    return status;
}

enum ebb_status train_events_open(struct train_events **events, const char *folder,
                                  struct ebb_error *err)
{
    char host[64] = "localhost", path[4096];
    EBB_TRY(ebb_file_mkdirs(folder, err));
    gethostname(host, sizeof host - 1);
    struct train_events *e;
    EBB_TRY(ebb_new(&e, 1, sizeof *e, err));
    for (int n = 0; e->stream == NULL && n < 1000; n++) { /* never over a file that is there */
        snprintf(path, sizeof path, "%s/events.out.tfevents.%lld.%s.%d.%d", folder,
                 (long long)time(NULL), host, (int)getpid(), n);
        e->stream = fopen(path, "wbxe");
        if (e->stream == NULL && errno != EEXIST)
            break;
    }
    enum ebb_status status = e->stream ? ebb_copy_text(&e->path, path, err)
                                       : ebb_fail(err, EBB_EIO, "cannot write %s", path);
    if (status == EBB_OK) {
        static const char version[] = "brain.Event:2";
        struct ebb_str event = {0};
        put_time(&event, now());
        put_bytes(&event, 3, version, sizeof version - 1);
        status = write_frame(e, &event, err);
    }
    if (status != EBB_OK)
        train_events_close(e, NULL);
    else
        *events = e;
    return status;
}

enum ebb_status train_events_scalar(struct train_events *e, const char *tag, int64_t step,
                                    double value, struct ebb_error *err)
{
    return train_events_scalar_at(e, tag, step, value, now(), err);
}

enum ebb_status train_events_flush(struct train_events *e, struct ebb_error *err)
{
    return fflush(e->stream) == 0 ? EBB_OK : ebb_fail(err, EBB_EIO, "cannot write %s", e->path);
}

int64_t train_events_bytes(const struct train_events *e)
{
    return (int64_t)ftello(e->stream);
}

enum ebb_status train_events_scalar_at(struct train_events *e, const char *tag, int64_t step,
                                       double value, double time, struct ebb_error *err)
{
    struct ebb_str one = {0}, summary = {0}, event = {0};
    float simple = (float)value;
    char bytes[sizeof simple];
    memcpy(bytes, &simple, sizeof simple);
    put_bytes(&one, 1, tag, strlen(tag));
    ebb_add_varint(&one, 2 << 3 | 5);
    ebb_str_addn(&one, bytes, sizeof bytes);
    put_bytes(&summary, 1, ebb_str_c(&one), one.length);
    put_time(&event, time);
    ebb_add_varint(&event, 2 << 3 | 0);
    ebb_add_varint(&event, (uint64_t)step);
    put_bytes(&event, 5, ebb_str_c(&summary), summary.length);
    if (one.failed || summary.failed)
        event.failed = true;
    ebb_str_fini(&one);
    ebb_str_fini(&summary);
    return write_frame(e, &event, err);
}

enum ebb_status train_events_close(struct train_events *e, struct ebb_error *err)
{
    enum ebb_status status = EBB_OK;
    if (!e)
        return EBB_OK;
    if (e->stream && fclose(e->stream) != 0)
        status = ebb_fail(err, EBB_EIO, "cannot write %s", e->path);
    ebb_free(e->path);
    ebb_free(e);
    return status;
}
