/* cmd_train_say.c - what `ebb train` reports: its last line, a summary, a line while it runs, metrics in
 * files. */
#include "cli/cmd_train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/json.h"

#define CSV_HEADER "update,name,value\n"

/* ---- reports --------------------------------------------------------------------------------- */

static void json_metrics(struct ebb_json_writer *w, const struct train_metrics *m)
{
    ebb_jsonw_object(w);
    for (size_t i = 0; i < m->count; i++)
        ebb_jsonw_key_double(w, m->items[i].name, m->items[i].value);
    ebb_jsonw_object_end(w);
}

/* Parameters over what tier 0 took and the others were given. */
static double per_gb(const struct cli_train_session *s, const struct train_state *st)
{
    const struct train_config *c = &s->file->config;
    double bytes = (double)st->peak_bytes + (double)c->host_bytes + (double)c->file_bytes;
    return bytes > 0 ? (double)st->parameters / (bytes / 1e9) : 0;
}

void cli_train_json(const struct cli_train_session *s, const struct train_state *st,
                    const char *hash)
{
    struct cli_json json;
    struct ebb_json_writer *w = cli_json_object(&json);
    ebb_jsonw_key_string(w, "status", s->status);
    ebb_jsonw_key_int(w, "updates", st->updates);
    ebb_jsonw_key_double(w, "loss", s->loss);
    ebb_jsonw_key(w, "metrics");
    json_metrics(w, &s->metrics);
    ebb_jsonw_key_uint_or_null(w, "budget_bytes", st->budget_bytes, st->budget_bytes < UINT64_MAX);
    ebb_jsonw_key_uint(w, "floor_bytes", st->floor_bytes);
    ebb_jsonw_key_uint(w, "peak_bytes", st->peak_bytes);
    ebb_jsonw_key_double(w, "update_ms", (double)st->update_ns / 1e6);
    ebb_jsonw_key_double(w, "predicted_ms", (double)st->predicted_ns / 1e6);
    ebb_jsonw_key_string(w, "costs", st->costs ? st->costs : "builtin");
    ebb_jsonw_key_double(
        w, "stall_ms", st->run_updates ? (double)st->stall_ns / (double)st->run_updates / 1e6 : 0);
    ebb_jsonw_key_uint(w, "evictions", st->evictions);
    ebb_jsonw_key_uint(w, "remat_ops", st->remat_ops);
    ebb_jsonw_key_uint(w, "swapped_bytes", st->swapped_bytes);
    ebb_jsonw_key_uint(w, "host_ops", st->host_ops);
    ebb_jsonw_key_uint(w, "state_bytes", st->persistent_bytes);
    ebb_jsonw_key_uint(w, "state_below_bytes", st->below_bytes);
    if (st->warm_below_bytes)
        ebb_jsonw_key_uint(w, "warmup_below_bytes", st->warm_below_bytes);
    if (st->samples) {
        ebb_jsonw_key_uint(w, "observed_bytes", st->observed_bytes);
        ebb_jsonw_key_uint(w, "accounted_bytes", st->accounted_bytes);
        ebb_jsonw_key_uint(w, "beyond_bytes", st->beyond_bytes);
        ebb_jsonw_key_int(w, "beyond_update", st->beyond_update);
        ebb_jsonw_key_string(w, "beyond_op", st->beyond_op);
        ebb_jsonw_key_uint(w, "samples", st->samples);
        ebb_jsonw_key_uint(w, "allowed_bytes", st->allowed_bytes);
    }
    if (st->reserve_file) {
        ebb_jsonw_key_uint(w, "next_allowed_bytes",
                           s->next_reserve ? s->next_reserve : st->allowed_bytes);
        ebb_jsonw_key_string(w, "reserve_file", st->reserve_file);
    }
    if (st->device_reserve_bytes) {
        ebb_jsonw_key_uint(w, "device_reserve_bytes", st->device_reserve_bytes);
        ebb_jsonw_key_uint(w, "device_beside_bytes", st->device_beside_bytes);
    }
    ebb_jsonw_key_uint(w, "reserve_bytes", st->reserve_bytes);
    ebb_jsonw_key_int(w, "parameters", st->parameters);
    ebb_jsonw_key_double(w, "parameters_per_gb", per_gb(s, st));
    ebb_jsonw_key_int(w, "threads", st->threads);
    if (st->bad_samples)
        ebb_jsonw_key_uint(w, "bad_samples", st->bad_samples);
    ebb_jsonw_key_string(w, "weights_sha256", hash);
    cli_json_object_end(&json);
}

static const char *bytes_text(uint64_t bytes, char *buf, size_t size)
{
    if (bytes == UINT64_MAX)
        snprintf(buf, size, "unlimited");
    else
        ebb_format_bytes(bytes, buf, size);
    return buf;
}

void cli_train_summary(const struct cli_train_session *s, const struct train_state *st,
                       const char *hash)
{
    char a[32], b[32], c[32], d[32];
    printf("%s: %s, %" PRId64 " parameters, %d threads\n", s->path,
           train_task_name(s->file->config.task), st->parameters, st->threads);
    printf("  updates   %" PRId64 " of %" PRId64 " (%s), %s each\n", st->updates, s->target,
           s->status, ebb_format_ns(st->update_ns, a, sizeof a));
    if (isfinite(s->loss))
        printf("  loss      %.6g\n", s->loss);
    for (size_t i = 0; i < s->metrics.count; i++)
        printf("  %s %.6g\n", s->metrics.items[i].name, s->metrics.items[i].value);
    printf("  memory    peak %s of %s, floor %s, without limit %s\n",
           bytes_text(st->peak_bytes, a, sizeof a), bytes_text(st->budget_bytes, b, sizeof b),
           bytes_text(st->floor_bytes, c, sizeof c), bytes_text(st->unlimited_bytes, d, sizeof d));
    printf("  kept by   %s%s: %" PRIu64 " evictions, %" PRIu64 " ops run again, %s swapped, "
           "predicted time x%.3f%s\n",
           st->how, st->is_fallback ? " (the one asked for failed its dry run)" : "", st->evictions,
           st->remat_ops, bytes_text(st->swapped_bytes, a, sizeof a), st->overhead,
           st->costs ? " by measured times" : "");
    printf("  process   %s anonymous beyond these (reserve), with room of %s for "
           "data; %.1f %% of the "
           "time waiting for data\n",
           bytes_text(st->reserve_bytes, a, sizeof a), bytes_text(st->buffer_bytes, b, sizeof b),
           st->busy_ns ? 100.0 * (double)st->wait_ns / (double)st->busy_ns : 0.0);
    if (s->file->config.host_bytes || s->file->config.file_bytes)
        printf("  tiers     %s of state below the device; %.4g million parameters per GB of all\n",
               bytes_text(st->below_bytes, a, sizeof a), per_gb(s, st) / 1e6);
    if (st->device_reserve_bytes)
        printf("  device    %s beside the budget at the end, reserve %s%s\n",
               bytes_text(st->device_beside_bytes, a, sizeof a),
               bytes_text(st->device_reserve_bytes, b, sizeof b),
               st->device_beside_bytes > st->device_reserve_bytes
                   ? ": more than that; what other programs hold on the device counts, too"
                   : "");
    if (st->samples)
        printf("  observed  %s at most, %s accounted for; %s beyond at most, in update %" PRId64
               " at %s %s\n",
               bytes_text(st->observed_bytes, a, sizeof a),
               bytes_text(st->accounted_bytes, b, sizeof b),
               bytes_text(st->beyond_bytes, c, sizeof c), st->beyond_update,
               st->beyond_op ? st->beyond_op : "no op", st->beyond_op ? st->beyond_label : "");
    if (st->skipped)
        printf("  skipped   %" PRId64 " updates with infinite gradients, loss scale %g\n",
               st->skipped, st->loss_scale);
    if (st->bad_samples)
        printf("  bad       %" PRIu64 " samples could not be read, others took their places\n",
               st->bad_samples);
    for (size_t i = 0; train_trial_bad_sample(s->trial, i); i++)
        printf("            %s\n", train_trial_bad_sample(s->trial, i));
    printf("  weights   sha256 %s\n", hash);
}

void cli_train_progress(struct cli_train_session *s, const struct train_batch *b, int64_t items)
{
    struct train_state st;
    char used[32], whole[32];
    if (!s->progress)
        return;
    train_trial_state(s->trial, &st);
    bool is_limited = st.budget_bytes != UINT64_MAX;
    double rate = st.update_ns ? (double)items * 1e9 / (double)st.update_ns : 0;
    ebb_progress_note(s->progress, "loss %.4f  rate %.3g  %.3g items/s  %s%s%s", b->loss, b->rate,
                      rate, bytes_text(st.peak_bytes, used, sizeof used), is_limited ? " of " : "",
                      is_limited ? bytes_text(st.budget_bytes, whole, sizeof whole) : "");
    ebb_progress_add(s->progress, 1);
}

/* ---- metrics in files ------------------------------------------------------------------------ */

enum ebb_status cli_train_record(struct cli_train_session *s, const char *name, double value,
                                 struct ebb_error *err)
{
    int64_t updates = train_trial_updates(s->trial);
    if (s->csv && fprintf(s->csv, "%" PRId64 ",%s,%.9g\n", updates, name, value) < 0)
        return ebb_fail(err, EBB_EIO, "cannot write %s", s->o->csv);
    return s->events ? train_events_scalar(s->events, name, updates, value, err) : EBB_OK;
}

/* After a resume the file goes on where the checkpoint was made: what was written for updates that
 * are now done again is cut off. */
static enum ebb_status open_csv(struct cli_train_session *s, struct ebb_error *err)
{
    int64_t updates = train_trial_updates(s->trial);
    char line[512]; /* ours are shorter */
    long end = 0;
    s->csv = s->is_resumed ? fopen(s->o->csv, "r+e") : NULL;
    bool is_old = s->csv != NULL;
    while (is_old) {
        size_t n = fgets(line, sizeof line, s->csv) ? strlen(line) : 0;
        char *rest = line;
        long long update = n > 0 ? strtoll(line, &rest, 10) : 0;
        bool is_header = end == 0 && n > 0 && strcmp(line, CSV_HEADER) == 0;
        if (n == 0 || line[n - 1] != '\n' ||
            (!is_header && (rest == line || *rest != ',' || update > updates)))
            break;
        end = ftell(s->csv);
    }
    if (is_old && (fseek(s->csv, end, SEEK_SET) != 0 || ftruncate(fileno(s->csv), end) != 0))
        return ebb_fail(err, EBB_EIO, "cannot write %s: %s", s->o->csv, strerror(errno));
    s->made_csv = access(s->o->csv, F_OK) != 0;
    if (!is_old)
        s->csv = fopen(s->o->csv, "we");
    if (!s->csv || (end == 0 && (fputs(CSV_HEADER, s->csv) < 0 || fflush(s->csv) != 0)))
        return ebb_fail(err, EBB_EIO, "cannot write %s: %s", s->o->csv, strerror(errno));
    return EBB_OK;
}

enum ebb_status cli_train_open_records(struct cli_train_session *s, struct ebb_error *err)
{
    if (s->o->csv)
        EBB_TRY(open_csv(s, err));
    return s->o->tensorboard ? train_events_open(&s->events, s->o->tensorboard, err) : EBB_OK;
}

enum ebb_status cli_train_flush_records(struct cli_train_session *s, struct ebb_error *err)
{
    if (s->csv && fflush(s->csv) != 0)
        return ebb_fail(err, ebb_errno_status(errno), "cannot write %s: %s", s->o->csv,
                        strerror(errno));
    return s->events ? train_events_flush(s->events, err) : EBB_OK;
}

enum ebb_status cli_train_close_records(struct cli_train_session *s, struct ebb_error *err)
{
    enum ebb_status status = train_events_close(s->events, err);
    if (s->csv && fclose(s->csv) != 0 && status == EBB_OK)
        status = ebb_fail(err, EBB_EIO, "cannot write %s", s->o->csv);
    s->csv = NULL;
    s->events = NULL;
    return status;
}
