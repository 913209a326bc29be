/* data.h - datasets, file formats, samplers, the prefetching loader, generated data.
 *
 *     section of a file --data_open--> data_set (read-only) --data_loader_create--> loader
 *                                                            data_loader_next fills caller's memory
 *
 * Rules.
 *   D1 A sample is a pure function of (set, split, index, epoch, seed): augmentation included. So
 *      order, worker count, restarts and ranks never change a byte.
 *   D2 The loader's private memory (slots, worker scratch, order of samples) is at most
 *      buffer_bytes, whatever the batch size; what it took is counted and reported.
 *   D3 A damaged file is an error that names the file and the byte offset, never a crash, and never
 *      an allocation that the file's own length does not justify.
 *   D4 A set is immutable after opening: any number of loaders and threads may read it.
 *
 * Nothing here knows tensors, devices or training; docs/data.md is the user's page. */
#ifndef EBB_DATA_DATA_H
#define EBB_DATA_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/doc.h"
#include "base/keys.h"
#include "base/status.h"
#include "base/str.h"

/* ---- what a sample is ---- */

enum data_dtype { DATA_F32, DATA_F64, DATA_U8, DATA_I16, DATA_I32, DATA_I64 };
size_t data_dtype_bytes(enum data_dtype dtype);
const char *data_dtype_text(enum data_dtype dtype); /* "f32", ... */

enum { DATA_MAX_RANK = 6, DATA_MAX_FIELDS = 8 };

struct data_field { /* of one sample: no batch dimension; row-major */
    const char *name;
    enum data_dtype dtype;
    int rank; /* 0 = scalar */
    int64_t dims[DATA_MAX_RANK];
    size_t bytes;
};

/* Field 0 is what the model eats, field 1 what it should say:
 *   DATA_CLASSES   image f32|u8 [C,H,W], label i64 []
 *   DATA_MASKS     image f32 [C,H,W], mask i64 [H,W] (deepcam) or f32 [1,H,W] (unet: 0/1)
 *   DATA_NUMBERS   x f32 [...], y f32 [n]
 *   DATA_LANGUAGE  tokens i64 [T], targets i64 [T] (tokens one place on)
 *   DATA_MASKED    tokens i64 [T], targets i64 [T] (-100 = no loss), segments i64 [T], attention
 * i64 [T] (1 = real), next_sentence i64 [] DATA_TREES     words i64 [M], label i64 [], left i64
 * [M], right i64 [M], nodes i64 []: children stand before parents, the root is node nodes-1, -1 =
 * no child / unused place DATA_GAN       noise f32 [z], real f32 [2] DATA_ARRAYS    fields as the
 * file or section names them */
enum data_kind {
    DATA_CLASSES,
    DATA_MASKS,
    DATA_NUMBERS,
    DATA_LANGUAGE,
    DATA_MASKED,
    DATA_TREES,
    DATA_GAN,
    DATA_ARRAYS,
};
const char *data_kind_text(enum data_kind kind); /* "classes", ... */

enum data_split { DATA_TRAIN, DATA_VALIDATION, DATA_SPLITS };

struct data_info {
    const char *name; /* canonical name of the dataset */
    enum data_kind kind;
    size_t field_count;
    struct data_field fields[DATA_MAX_FIELDS];
    size_t sample_bytes;              /* sum of the fields */
    uint64_t count[DATA_SPLITS];      /* after subsets; validation may be 0 */
    uint64_t full_count[DATA_SPLITS]; /* before subsets */
    int64_t classes;                  /* 0 = not a matter of classes */
    int64_t channels, height, width;  /* 0 = no image */
    int64_t vocabulary, sequence;     /* 0 = no language */
    bool is_synthetic;
    bool is_augmented;  /* the training split changes with the epoch */
    size_t mixup_field; /* of mixed classes: the partner's label; the next is the share. 0: none */
    uint64_t resident_bytes; /* memory that the open set holds */
    uint64_t scratch_bytes;  /* that decoding one sample needs, per worker */
};

/* ---- opening ---- */

struct data_set;

struct data_env {
    const char *benchmark; /* "resnet50", "deepcam", "cosmoflow", "bert", "gpt": a benchmark file,
                              whose batch keys are allowed here and read by the caller, and whose
                              `name` may be left out; NULL: an experiment file */
    const char *directory; /* relative paths start here; NULL: the working directory */
    const char *cache;     /* folder for token files; NULL: ${XDG_CACHE_HOME:-~/.cache}/ebb */
    uint64_t seed;         /* of the run: subsets, synthetic data without a seed of its own */
    /* NULL, or told every bad row of a table, which is then left out; else the first one is an error. */
    void (*bad_row)(void *context, const char *message);
    void *bad_row_context;
};

/* Keys and values only: no file is touched. False: mistakes were reported. `path` is where the
 * section stands. */
bool data_check(struct ebb_reading *reading, const struct ebb_path *path,
                const struct ebb_doc_node *section, const struct data_env *env);

/* Check, then open. err names the first mistake and counts the rest. */
enum ebb_status data_open(const struct ebb_doc_node *section, const struct data_env *env,
                          struct data_set **set, struct ebb_error *err);
void data_close(struct data_set *set); /* after its loaders; NULL is fine */
const struct data_info *data_describe(const struct data_set *set);

/* Names of datasets, one per row of the table; NULL at the end. */
const char *data_name(size_t i);
const char *data_summary(size_t i); /* one line */
bool data_can_synthesize(size_t i); /* data_dir: synthetic */

/* One sample into fields[i] (info->fields[i].bytes each). Any thread. `seed` and `epoch` matter
 * only to augmented sets. */
enum ebb_status data_read(const struct data_set *set, enum data_split split, uint64_t index,
                          uint64_t seed, uint64_t epoch, void *const *fields,
                          struct ebb_error *err);

/* What a class is called: its folder, its word in a table; NULL: classes are numbers. */
const char *data_class_name(const struct data_set *set, int64_t class);
/* Inputs from outside, as the validation split makes numbers of its own. A picture of a set of
 * pictures; `count` is what the model takes. */
enum ebb_status data_picture(const struct data_set *set, const char *path, float *out, size_t count,
                             struct ebb_error *err);
/* The rows of another table of a csv set, with or without its targets: rows x columns, ebb_free. */
enum ebb_status data_rows(const struct data_set *set, const char *path, float **rows,
                          uint64_t *count, struct ebb_error *err);

/* Text of language sets, for samples and perplexities: bytes of `count` tokens appended to out.
 * EBB_EINPUT for a set without text. */
enum ebb_status data_decode(const struct data_set *set, const int64_t *tokens, size_t count,
                            struct ebb_str *out, struct ebb_error *err);
enum ebb_status data_encode(const struct data_set *set, const char *text, size_t length,
                            int64_t **tokens, size_t *count, struct ebb_error *err); /* ebb_free */

/* ---- samplers ---- */

enum data_order { DATA_SEQUENTIAL, DATA_SHUFFLE, DATA_SHUFFLE_TORCH /* MT19937: torch's order */ };
enum data_shard {
    DATA_SHARD_STRIDE, /* rank r takes list[r::R]; the list is extended or truncated */
    DATA_SHARD_BLOCK,  /* contiguous N//R and the remainder idx % R == r: every sample once */
};

struct data_sampler {
    uint64_t count; /* N */
    uint32_t world, rank;
    enum data_order order;
    enum data_shard shard;
    bool drop_last; /* at the level of ranks; drop of partial batches is the loader's */
    uint64_t seed;
};

uint64_t data_sampler_length(const struct data_sampler *sampler); /* samples of this rank */
/* Write the rank's list of one epoch (data_sampler_length entries). scratch: count entries, may be
 * NULL for DATA_SEQUENTIAL. */
void data_sampler_list(const struct data_sampler *sampler, uint64_t epoch, uint32_t *scratch,
                       uint32_t *list);

/* ---- batch arithmetic ---- */

struct data_batching {
    /* in */
    uint64_t devices, global_batch, local_batch; /* local_batch 0 = derive */
    int64_t accumulation;                        /* -1 = by cap */
    uint64_t cap;                                /* 64; CosmoFlow 16 */
    uint64_t samples;                            /* N of the training split */
    bool drop_last, sampler_drop_last;
    /* out */
    uint64_t local, accumulate, global, effective;
    bool is_exact; /* effective == global as asked for */
    uint64_t per_device, iterations, updates, leftover;
};
/* EBB_EINPUT when nothing is left for a device; inexact is the caller's to judge. */
enum ebb_status data_batch_plan(struct data_batching *b, struct ebb_error *err);

/* ---- the loader ---- */

struct data_loader; /* owned by one thread; its workers talk to it through queues */

struct data_loader_options {
    enum data_split split;
    size_t batch; /* samples per call, > 0 */
    enum data_order order;
    enum data_shard shard;
    uint64_t seed;          /* of order and augmentation */
    bool drop_last;         /* drop the final partial batch of an epoch */
    bool sampler_drop_last; /* see data_sampler */
    uint32_t world, rank;   /* 0, 0 reads as one rank */
    uint64_t epochs;        /* stop after so many; 0 = no end */
    int workers;            /* 0 = decode in the caller's thread, nothing ahead of time */
    size_t prefetch;       /* batches ahead per worker at most; 0 = as many as buffer_bytes holds */
    uint64_t buffer_bytes; /* D2; 0 = DATA_BUFFER_BYTES. Too little for the least the loader needs:
                              EBB_EBUDGET with the number */
};
#define DATA_BUFFER_BYTES (UINT64_C(64) << 20)

/* What the section says (order, drop_last, workers, prefetch, buffer) and the dataset's own rules:
 * training splits as samplers say; validation in order, every sample once, one epoch. The caller sets
 * batch, seed, world, rank and epochs. */
void data_loader_options_of(const struct data_set *set, enum data_split split,
                            struct data_loader_options *options);

enum ebb_status data_loader_create(const struct data_set *set,
                                   const struct data_loader_options *options,
                                   struct data_loader **loader, struct ebb_error *err);
void data_loader_destroy(struct data_loader *loader); /* joins the workers; NULL is fine */

struct data_batch {
    size_t count;          /* samples written: batch, or less at the end of an epoch; 0 = the end */
    uint64_t epoch, index; /* of this batch: epoch from 0, batch within the epoch from 0 */
    bool is_last;          /* last batch of its epoch */
};

/* The next batch: sample b of field f goes to (char *)fields[f] + b * info->fields[f].bytes. A NULL
 * pointer leaves that field out. After an error the position stands still. */
enum ebb_status data_loader_next(struct data_loader *loader, void *const *fields,
                                 struct data_batch *batch, struct ebb_error *err);

uint64_t data_loader_batches(const struct data_loader *loader); /* per epoch */
uint64_t data_loader_samples(const struct data_loader *loader); /* of this rank per epoch */

/* Where the next batch comes from. Plain numbers (each below 2^63) for a checkpoint; everything
 * else follows from the seed. */
struct data_position {
    uint64_t epoch, batch;              /* of the next batch */
    uint64_t seed, samples, batch_size; /* must match on restore, as must world and rank */
    uint64_t world, rank;
};
void data_loader_save(const struct data_loader *loader, struct data_position *position);
/* Any batch, forwards or backwards; EBB_EINPUT names the number that differs. */
enum ebb_status data_loader_restore(struct data_loader *loader,
                                    const struct data_position *position, struct ebb_error *err);
void data_position_write(const struct data_position *position, struct ebb_json_writer *w);
enum ebb_status data_position_read(const struct ebb_doc_node *node, struct data_position *position,
                                   struct ebb_error *err);

/* Samples of a set with `bad_samples: skip` that could not be read so far: their number, and what is
 * said of the first DATA_BAD_NAMED. Any thread; a name stays until the set is closed. */
#define DATA_BAD_NAMED 16
uint64_t data_bad_count(const struct data_set *set);             /* NULL: 0 */
const char *data_bad_name(const struct data_set *set, size_t i); /* NULL: there are not so many */

struct data_stats {
    uint64_t batches, samples;
    uint64_t waited_ns;  /* the caller's time in data_loader_next waiting for or doing decoding */
    uint64_t copied_ns;  /* ... copying from slots */
    uint64_t between_ns; /* time between calls; waited share = waited / (waited+copied+between) */
    uint64_t private_bytes, buffer_bytes; /* D2: private <= buffer */
    size_t slots;                         /* samples that can be ready ahead; 0 = none */
    int workers;
};
void data_loader_stats(const struct data_loader *loader, struct data_stats *stats);

/* ---- making files (ebb data make) ---- */

/* Write the first `count` samples of both splits of an open synthetic set in its real format below
 * `directory` (which the dataset's name then reads back): class folders of PNG or JPEG, TFRecord,
 * HDF5, token files. */
struct data_make_options {
    uint64_t count[DATA_SPLITS]; /* 0 = none */
    const char *format;          /* "png", "jpeg", "tfrecord", "tfrecord.gz", "hdf5", "tokens";
                                    NULL = the dataset's first */
};
enum ebb_status data_make(const struct data_set *set, const char *directory,
                          const struct data_make_options *options, struct ebb_error *err);

/* ---- reference cases (ebb dev golden) ---- */

/* Case by case, in a fixed order: name, and NULL or why it failed. */
typedef void (*data_case_fn)(void *context, const char *group, const char *name,
                             const char *failure);
/* Tensor of the reference file: fills data (borrowed), dtype text as in safetensors ("F32"), dims;
 * false when absent. The caller reads safetensors; this folder does not. */
struct data_reference {
    const void *data;
    size_t bytes;
    const char *dtype;
    int rank;
    int64_t dims[DATA_MAX_RANK];
};
typedef bool (*data_reference_fn)(void *context, const char *name, struct data_reference *out);

/* Run the folder `formats` (files of the reference data) against expected tensors. */
enum ebb_status data_golden_formats(const char *directory, data_reference_fn find,
                                    data_case_fn done, void *context, struct ebb_error *err);

#endif
