/* internal.h - shared by the files of data: outside bytes, worker scratch, the table of datasets.
 * Private. */
#ifndef EBB_DATA_INTERNAL_H
#define EBB_DATA_INTERNAL_H

#include "base/names.h"
#include "data/color.h"
#include "data/data.h"

/* ---- file.c: bytes outside ---- */

struct data_set;

/* A file read at offsets by any number of threads, or memory that looks like one. pread, not a
 * mapping: a file that shrinks while it is read is an error, not a signal. */
struct data_file {
    char *path;            /* owned: for messages; NULL: closed, as a zeroed one is */
    int fd;                /* -1: memory */
    uint64_t length;       /* when opened */
    const uint8_t *memory; /* borrowed or == owned */
    uint8_t *owned;
};

enum ebb_status data_file_open(struct data_file *file, const char *path, struct ebb_error *err);
/* `name` in a folder; absolute names stay. Failed, both leave a closed file. */
enum ebb_status data_file_open_in(struct data_file *file, const char *folder, const char *name,
                                  struct ebb_error *err);
/* Bytes are borrowed until close. */
enum ebb_status data_file_memory(struct data_file *file, const char *name, const void *bytes,
                                 size_t length, struct ebb_error *err);
void data_file_close(struct data_file *file); /* closed is fine */
/* All n bytes or an error with file and offset (rule D3). */
enum ebb_status data_file_read(const struct data_file *file, uint64_t offset, void *out, size_t n,
                               struct ebb_error *err);
/* "path: byte offset: ..." with EBB_ECORRUPT. */
enum ebb_status data_corrupt(struct ebb_error *err, const struct data_file *file, uint64_t offset,
                             const char *fmt, ...) __attribute__((format(printf, 4, 5)));
bool data_file_is_gzip(const struct data_file *file);

/* Join directory and name; absolute names stay. Caller frees. */
enum ebb_status data_path(char **path, const char *directory, const char *name,
                          struct ebb_error *err);
bool data_path_exists(const char *path);

/* Names of a folder's entries that end with one of `suffixes` (NULL at the end; NULL: all); hidden
 * ones are left out. */
extern const char *const data_h5_suffixes[];
enum ebb_status data_names_list(struct ebb_names *names, const char *directory,
                                const char *const *suffixes, bool directories,
                                struct ebb_error *err);

/* The files of both splits, each in a folder of its own; validation may be missing. */
struct data_folders {
    char *folders[DATA_SPLITS]; /* owned */
    struct ebb_names names[DATA_SPLITS];
};
/* Lists them and counts samples and memory in set->info; not the names in `except`. */
enum ebb_status data_folders_list(struct data_folders *f, struct data_set *set,
                                  const char *const folders[DATA_SPLITS],
                                  const char *const *suffixes, const char *except,
                                  struct ebb_error *err);
enum ebb_status data_folders_open(const struct data_folders *f, enum data_split split,
                                  uint64_t index, struct data_file *file, struct ebb_error *err);
void data_folders_fini(struct data_folders *f);

/* ---- inflate.c: gzip, zlib and plain files as one stream ---- */

struct data_stream {
    const struct data_file *file; /* borrowed */
    void *state;                  /* NULL: plain */
    uint64_t in_offset, in_end;   /* of the next compressed byte; where to stop */
    uint64_t out_offset;          /* bytes given out */
    bool is_end;
    uint8_t *buffer; /* owned: compressed input */
    size_t buffered, taken;
};

enum data_wrap {
    DATA_WRAP_AUTO, /* gzip by its magic, else plain */
    DATA_WRAP_PLAIN,
    DATA_WRAP_RAW, /* deflate without a frame */
    DATA_WRAP_ZLIB,
};

enum ebb_status data_stream_open(struct data_stream *s, const struct data_file *file,
                                 enum data_wrap wrap, uint64_t offset, uint64_t bytes,
                                 struct ebb_error *err);
void data_stream_close(struct data_stream *s);
/* Up to n bytes; *got < n only at the end. */
enum ebb_status data_stream_read(struct data_stream *s, void *out, size_t n, size_t *got,
                                 struct ebb_error *err);
/* Exactly n bytes. */
enum ebb_status data_stream_take(struct data_stream *s, void *out, size_t n, struct ebb_error *err);
/* Most bytes that the stream can still give: what an allocation may be justified by (D3). */
uint64_t data_stream_limit(const struct data_stream *s);
enum { DATA_STREAM_BYTES = 16384 + 65536 }; /* memory of one open stream: buffer and window */

/* ---- unpack.c ---- */

/* The folder for what is made once; it exists afterwards. */
enum ebb_status data_cache_folder(const struct data_set *set, struct ebb_str *folder,
                                  struct ebb_error *err);
/* The rest of a stream, at most `most` bytes, as a file: nameless in the set's cache folder when it
 * is large (the process keeps no memory for it), in memory, which the set counts, when it is small,
 * the folder fails or the set is NULL. */
enum ebb_status data_unpack(struct data_stream *stream, uint64_t most, struct data_set *set,
                            struct data_file *out, struct ebb_error *err);

/* ---- worker scratch: open.c ---- */

/* Memory of one worker, carved anew for every sample. */
struct data_scratch {
    uint8_t *memory;
    size_t bytes, used;
};
/* *pointer = `bytes`, 16-byte aligned; EBB_ELIMIT when the set's scratch_bytes do not suffice. The
 * pointer is given by its address, as for ebb_new. */
enum ebb_status data_scratch_take(struct data_scratch *scratch, size_t bytes, void *pointer,
                                  struct ebb_error *err);
/* What is left, for a decoder that wants memory of its own. */
size_t data_scratch_left(const struct data_scratch *scratch);

/* ---- section.c: the keys of the section ---- */

enum { DATA_MAX_LIST = 16 };

struct data_numbers {
    double v[DATA_MAX_LIST];
    size_t count;
};

struct data_texts {
    const char *v[DATA_MAX_LIST]; /* borrowed from the section */
    size_t count;
};

/* Every key any dataset knows, with its value or its default. Texts are borrowed. */
struct data_values {
    const char *name, *data_dir;
    bool is_synthetic; /* data_dir: synthetic[:seed] */
    uint64_t synthetic_seed;
    int64_t train_subset, val_subset;
    /* loader */
    bool shuffle, drop_last_batch;
    int64_t prefetch, workers;
    uint64_t buffer;
    const char *rng;
    /* images */
    int64_t size, height, width, channels, resize, crop, classes;
    const char *normalize, *image_dtype;
    struct data_numbers mean, std;
    uint64_t decode_bytes;
    bool flip, random_resized_crop;
    int64_t crop_pad;
    struct data_numbers scale, ratio;
    struct data_color color;
    unsigned bad_samples; /* 1: skip */
    double mixup;
    /* files */
    const char *train_images, *train_labels, *val_images, *val_labels;
    struct data_texts train_files, val_files, fields;
    struct data_texts inputs, target; /* columns */
    struct data_texts command;        /* a program, and its arguments */
    double timeout;                   /* seconds that it may take for an answer */
    enum data_target_kind {
        DATA_TARGET_AUTO,
        DATA_TARGET_CLASSES,
        DATA_TARGET_NUMBERS
    } target_kind;
    unsigned separator; /* comma, semicolon, tab */
    const char *token_dtype;
    /* language */
    int64_t sequence_length, stride, vocabulary;
    double validation_fraction;
    const char *tokenizer, *merges;
    /* benchmarks */
    bool h5, apply_log;
    const char *compression, *h5_normalize;
    /* generated */
    int64_t samples, val_samples, depth, noise, components;
    bool full;
};

struct data_row;

/* Read a section for the dataset it names. False: mistakes were reported. */
bool data_section_read(struct ebb_reading *reading, const struct ebb_path *path,
                       const struct ebb_doc_node *map, const struct data_env *env,
                       struct data_values *values, const struct data_row **row);

/* ---- the table: open.c ---- */

struct data_request {
    const struct data_set *set;
    enum data_split split;
    uint64_t index; /* of the full split */
    uint64_t seed, epoch;
    void *const *fields; /* where the sample goes; NULL: not wanted */
    struct data_scratch *scratch;
};

struct data_row {
    const char *name, *summary, *aliases; /* aliases: blank-separated */
    int variant;                          /* which of several that share their functions */
    const char *keys;                     /* blank-separated, besides those of every set */
    const char *required;                 /* keys that must be given; alternatives joined by | */
    bool can_synthesize, is_always_synthetic;
    enum data_kind kind;
    size_t state_bytes; /* of set->state: zeroed before open, freed after close */
    /* May change defaults before the section is read. */
    void (*defaults)(struct data_values *values);
    /* Rules between keys, beyond the table. Returns a message or NULL; *key is where. */
    const char *(*check)(const struct data_values *values, const char **key);
    /* Fill set->info (fields, counts) and set->state. On failure close is called as well. */
    enum ebb_status (*open)(struct data_set *set, const struct data_values *values,
                            struct ebb_error *err);
    enum ebb_status (*read)(const struct data_request *request, struct ebb_error *err);
    void (*close)(struct data_set *set); /* what state owns; NULL: nothing */
};

/* What every row has; generated sets have no close. */
#define DATA_ROW(text, about, kind_, type, open_, read_, close_)                                   \
    .name = (text), .summary = (about), .kind = (kind_), .state_bytes = sizeof(type),              \
    .open = (open_), .read = (read_), .close = (close_)

struct data_tokenizer;
struct data_pixels;
struct data_small;

/* How a picture becomes a sample of the validation split; pixels NULL: it cannot. */
struct data_view {
    int64_t resize;        /* the shorter side becomes it; 0: the window is covered */
    int64_t width, height; /* window in the middle */
    int64_t channels;      /* 3, or 1: grey */
    const struct data_pixels *pixels;
    const struct data_small *small; /* what the window is then padded by; NULL: it is the sample */
};

struct data_set {
    struct data_info info;
    const struct data_row *row;
    enum ebb_status (*read)(const struct data_request *request, struct ebb_error *err);
    void (*close)(struct data_set *set);                 /* what state owns; NULL: nothing */
    void *state;                                         /* the format's own; owned */
    uint32_t *subset[DATA_SPLITS];                       /* NULL = all */
    void (*bad_row)(void *context, const char *message); /* of the environment */
    void *bad_row_context;
    struct ebb_names class_names; /* in the order of the classes; none: they are numbers */
    struct data_view view;
    struct data_bad *bad;              /* bad_samples: skip; NULL: they are errors. Owned */
    double mixup;                      /* 0: samples are not blended */
    size_t mixup_bytes;                /* of the scratch: room for a partner */
    char *directory, *cache;           /* owned: of the environment */
    char *folder;                      /* owned: data_dir below the directory */
    uint64_t seed, synthetic_seed;     /* of the run; of generated samples */
    bool is_first_subset;              /* subsets are the first k, not k at random */
    struct data_loader_options loader; /* what the section says */
    bool is_block_validation;          /* validation shards are blocks */
    struct data_tokenizer *tokenizer;  /* of text; owned */
    const char *make_formats;          /* formats data_make knows for this set, first = default */
};

extern const struct data_row data_row_fashion_mnist, data_row_idx, data_row_cifar10,
    data_row_cifar100, data_row_imagefolder, data_row_tokens, data_row_text, data_row_npy,
    data_row_npz, data_row_csv, data_row_command, data_row_hdf5, data_row_tfrecord,
    data_row_deepcam, data_row_cosmoflow, data_row_bert, data_row_language, data_row_trees,
    data_row_gan, data_row_unet;

const struct data_row *data_row_find(const char *name); /* name or alias; NULL */

/* State of another sort than the row's, zeroed and without close: generated data behind the name of
 * files. */
enum ebb_status data_new_state(struct data_set *set, size_t bytes, struct ebb_error *err);
/* Of the sorted starts first[0..count], the last that is not above `at`: which file holds it. */
size_t data_find_start(const uint64_t *first, size_t count, uint64_t at);

/* Describe a field; dims in the variable part, `rank` of them as int64_t. */
void data_add_field(struct data_info *info, const char *name, enum data_dtype dtype, int rank,
                    const int64_t *dims);

/* A row of a table is bad: true when somebody is told and it is left out. */
bool data_leave_out(const struct data_set *set, enum ebb_status status,
                    const struct ebb_error *why);
/* What the labels say (info->classes) against what the section says (0: nothing). */
/* Every place of a mask has a class of the set, where those are known. */
enum ebb_status data_check_mask(const struct data_request *request, const char *where,
                                struct ebb_error *err);
enum ebb_status data_set_classes(struct data_info *info, int64_t given, struct ebb_error *err);
/* Field 0 of rank 3 is an image: channels, height, width. */
void data_set_image(struct data_info *info);

/* Read raw index -> sample; `index` is after the subset. Scratch has info.scratch_bytes. */
/* As data_read_with; where the section says so, one that cannot be read has the next in its place. */
enum ebb_status data_read_good(const struct data_set *set, enum data_split split, uint64_t index,
                               uint64_t seed, uint64_t epoch, void *const *fields,
                               struct data_scratch *scratch, struct ebb_error *err);
enum ebb_status data_bad_open(struct data_set *set, struct ebb_error *err);
void data_bad_close(struct data_set *set);
enum ebb_status data_read_with(const struct data_set *set, enum data_split split, uint64_t index,
                               uint64_t seed, uint64_t epoch, void *const *fields,
                               struct data_scratch *scratch, struct ebb_error *err);

/* ---- random.c: Philox by coordinates ---- */

enum data_stream_id { /* last counter word: what the numbers are for */
                      DATA_STREAM_ORDER = 1,
                      DATA_STREAM_SUBSET = 2,
                      DATA_STREAM_AUGMENT = 3,
                      DATA_STREAM_SYNTHETIC = 4,
                      DATA_STREAM_COLOR = 5,
                      DATA_STREAM_MIXUP = 6,
};

/* A short run of draws at fixed coordinates: (seed; a, b, stream). */
struct data_random {
    uint32_t key[2], counter[4], words[4];
    unsigned used;
};
void data_random_init(struct data_random *r, uint64_t seed, uint64_t a, uint32_t b,
                      uint32_t stream);
uint32_t data_random_u32(struct data_random *r);
double data_random_unit(struct data_random *r); /* [0, 1), 24 bits */
double data_random_between(struct data_random *r, double low, double high);
uint64_t data_random_below(struct data_random *r, uint64_t n); /* n > 0 */
double data_random_normal(struct data_random *r);

/* Permute list[0..n) with the ebb order (Philox Fisher-Yates) of (seed, epoch). */
void data_permute(uint32_t *list, uint64_t n, uint64_t seed, uint64_t epoch, uint32_t stream);

/* ---- mixup.c ---- */

double data_beta(struct data_random *r, double a); /* Beta(a, a) */
/* After the set was opened: may it be blended? Adds the fields that classes need. */
enum ebb_status data_mixup_open(struct data_set *set, double mixup, struct ebb_error *err);
/* As set->read, for a set that is blended. */
enum ebb_status data_mixup_read(const struct data_request *request, struct ebb_error *err);

/* ---- command.c ---- */

/* What a program says of itself; the state is a zeroed one of command.c. */
enum ebb_status data_command_describe(struct data_set *set, const char *text, size_t length,
                                      struct ebb_error *err);

#endif
