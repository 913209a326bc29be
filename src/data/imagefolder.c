/* imagefolder.c - the dataset `imagefolder`: train/CLASS/FILE, val/CLASS/FILE, PNG and JPEG; or files
 * that a table names, with what they are.
 *
 * Transform: shorter side to `resize`, centre crop `crop`, numbers by table. With
 * augmentation the training split gets a random resized crop and flips, drawn from (seed, epoch,
 * index) alone. */
#include "data/internal.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "data/image.h"
#include "data/labels.h"
#include "data/pixels.h"
#include "data/synthetic.h"

struct folder_state {
    char *folders[DATA_SPLITS];
    struct data_labels lists[DATA_SPLITS];
    int64_t crop;
    bool is_random, flip;
    double scale[2], ratio[2];
    struct data_pixels pixels;
    uint64_t seed; /* of generated pictures */
    int64_t classes;
};

static void folder_close(struct data_set *set)
{
    struct folder_state *state = set->state;
    for (int s = 0; s < DATA_SPLITS; s++) {
        ebb_free(state->folders[s]);
        data_labels_fini(&state->lists[s]);
    }
}

/* ---- listing ---- */

static enum ebb_status list_class(struct data_labels *list, const char *folder,
                                  const char *class_name, uint32_t class, struct ebb_error *err)
{
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png", NULL};
    struct ebb_names files = {0};
    char *path;
    EBB_TRY(data_path(&path, folder, class_name, err));
    enum ebb_status status = data_names_list(&files, path, suffixes, false, err);
    for (size_t i = 0; i < files.count && status == EBB_OK; i++)
        status = data_labels_add(list, class_name, files.items[i], class, err);
    ebb_names_fini(&files);
    ebb_free(path);
    return status;
}

/* Place of a class name among the sorted names of the training split. */
static enum ebb_status class_of(const struct ebb_names *classes, const char *name, uint32_t *class,
                                const char *folder, struct ebb_error *err)
{
    size_t low = 0, high = classes->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(classes->items[middle], name);
        if (order == 0) {
            *class = (uint32_t)middle;
            return EBB_OK;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return ebb_fail(err, EBB_EINPUT, "%s: class %s is not among the training classes", folder,
                    name);
}

static void count_list(struct data_set *set, enum data_split split)
{
    const struct folder_state *state = set->state;
    set->info.full_count[split] = state->lists[split].count;
    set->info.resident_bytes += data_labels_bytes(&state->lists[split]);
}

static enum ebb_status list_split(struct data_set *set, enum data_split split,
                                  struct ebb_names *classes, struct ebb_error *err)
{
    struct folder_state *state = set->state;
    struct ebb_names found = {0};
    const char *folder = state->folders[split];
    struct ebb_names *names = split == DATA_TRAIN ? classes : &found;
    enum ebb_status status = data_names_list(names, folder, NULL, true, err);
    for (size_t i = 0; i < names->count && status == EBB_OK; i++) {
        uint32_t class = (uint32_t)i;
        size_t before = state->lists[split].count;
        if (split != DATA_TRAIN)
            status = class_of(classes, names->items[i], &class, folder, err);
        EBB_THEN(status, list_class(&state->lists[split], folder, names->items[i], class, err));
        if (status == EBB_OK && split == DATA_TRAIN && state->lists[split].count == before)
            status = ebb_fail(err, EBB_EINPUT, "%s/%s: a class without .jpg, .jpeg or .png files",
                              folder, names->items[i]);
    }
    ebb_names_fini(&found);
    count_list(set, split);
    return status;
}

static enum ebb_status list_folders(struct data_set *set, const struct data_values *v,
                                    struct ebb_error *err)
{
    struct folder_state *state = set->state;
    struct ebb_names *classes = &set->class_names;
    EBB_TRY(data_path(&state->folders[DATA_TRAIN], set->folder, "train", err));
    EBB_TRY(data_path(&state->folders[DATA_VALIDATION], set->folder, "val", err));
    EBB_TRY(list_split(set, DATA_TRAIN, classes, err));
    if (data_path_exists(state->folders[DATA_VALIDATION]))
        EBB_TRY(list_split(set, DATA_VALIDATION, classes, err));
    if (set->info.full_count[DATA_TRAIN] == 0)
        return ebb_fail(err, EBB_EINPUT, "%s: no class folder with .jpg, .jpeg or .png files",
                        state->folders[DATA_TRAIN]);
    set->info.classes = v->classes ? v->classes : (int64_t)classes->count;
    return set->info.classes < (int64_t)classes->count
               ? ebb_fail(err, EBB_EINPUT, "data.classes: %lld given, %zu class folders found",
                          (long long)v->classes, classes->count)
               : EBB_OK;
}

/* Pictures below data_dir that a table names. */
static enum ebb_status list_tables(struct data_set *set, const struct data_values *v,
                                   struct ebb_error *err)
{
    struct folder_state *state = set->state;
    struct data_info *info = &set->info;
    const char *const tables[DATA_SPLITS] = {v->train_labels, v->val_labels};
    for (int s = 0; s < DATA_SPLITS && tables[s]; s++) {
        EBB_TRY(ebb_copy_text(&state->folders[s], set->folder, err));
        EBB_TRY(data_labels_read(set, &state->lists[s], tables[s], v, s == DATA_TRAIN, err));
        count_list(set, (enum data_split)s);
    }
    size_t targets = state->lists[DATA_TRAIN].targets;
    if (targets == 0)
        return data_set_classes(info, v->classes, err);
    info->kind = DATA_NUMBERS;
    info->field_count--; /* not a label but numbers */
    info->sample_bytes -= info->fields[1].bytes;
    data_add_field(info, "y", DATA_F32, 1, (int64_t[]){(int64_t)targets});
    return EBB_OK;
}

/* ---- one picture ---- */

struct picture {
    const struct folder_state *state;
    const struct data_request *request;
    struct data_scratch *scratch;
    struct data_resampler resampler;
    bool is_flipped, is_changed; /* in the mirror; in its colours */
    void *out;
};

/* torchvision's RandomResizedCrop: ten tries, then the largest middle part of a fitting ratio. */
static struct data_resample_plan random_plan(const struct folder_state *s, int64_t width,
                                             int64_t height, struct data_random *r)
{
    struct data_resample_plan p = {
        .out_width = s->crop, .out_height = s->crop, .keep_w = s->crop, .keep_h = s->crop};
    double area = (double)width * (double)height;
    for (int i = 0; i < 10; i++) {
        double target = area * data_random_between(r, s->scale[0], s->scale[1]);
        double ratio = exp(data_random_between(r, log(s->ratio[0]), log(s->ratio[1])));
        p.width = (int64_t)rint(sqrt(target * ratio));
        p.height = (int64_t)rint(sqrt(target / ratio));
        if (p.width > 0 && p.width <= width && p.height > 0 && p.height <= height) {
            p.y = (int64_t)data_random_below(r, (uint64_t)(height - p.height + 1));
            p.x = (int64_t)data_random_below(r, (uint64_t)(width - p.width + 1));
            return p;
        }
    }
    double shape = (double)width / (double)height;
    p.width = width;
    p.height = height;
    if (shape < s->ratio[0])
        p.height = (int64_t)rint((double)width / s->ratio[0]);
    else if (shape > s->ratio[1])
        p.width = (int64_t)rint((double)height * s->ratio[1]);
    p.height = p.height < 1 ? 1 : p.height > height ? height : p.height;
    p.width = p.width < 1 ? 1 : p.width > width ? width : p.width;
    p.y = (height - p.height) / 2;
    p.x = (width - p.width) / 2;
    return p;
}

static enum ebb_status picture_begin(void *context, int64_t width, int64_t height,
                                     struct ebb_error *err)
{
    struct picture *p = context;
    const struct folder_state *s = p->state;
    struct data_random r;
    data_random_init(&r, p->request->seed, p->request->index, (uint32_t)p->request->epoch,
                     DATA_STREAM_AUGMENT);
    bool is_train = p->request->split == DATA_TRAIN;
    struct data_resample_plan plan = is_train && s->is_random
                                         ? random_plan(s, width, height, &r)
                                         : data_middle_plan(&p->request->set->view, width, height);
    p->is_flipped = is_train && s->flip && (data_random_u32(&r) & 1);
    return data_resampler_init(&p->resampler, &plan, p->scratch, err);
}

static enum ebb_status picture_row(void *context, int64_t y, const uint8_t *rgb,
                                   struct ebb_error *err)
{
    struct picture *p = context;
    const struct data_resample_plan *plan = &p->resampler.plan;
    (void)err;
    if (y < plan->y)
        return EBB_OK;
    bool is_done = y >= plan->y + plan->height || data_resampler_row(&p->resampler, y, rgb);
    return is_done ? EBB_ECANCELED : EBB_OK;
}

/* A finished row of bytes to the three planes of numbers. */
static void picture_emit(void *context, int64_t y, const uint8_t *rgb)
{
    struct picture *p = context;
    const struct data_pixels *pixels = &p->state->pixels;
    int64_t n = p->state->crop;
    for (int64_t c = 0; c < 3; c++) {
        const float *table = p->is_changed ? pixels->unit : pixels->table[c];
        int64_t at = (c * n + y) * n;
        for (int64_t x = 0; x < n; x++) {
            uint8_t b = rgb[3 * (p->is_flipped ? n - 1 - x : x) + c];
            if (pixels->is_u8)
                ((uint8_t *)p->out)[at + x] = b;
            else
                ((float *)p->out)[at + x] = table[b];
        }
    }
}

enum ebb_status data_image_decode(const struct data_file *file, struct data_scratch *scratch,
                                  const struct data_row_sink *sink, struct ebb_error *err)
{
    uint8_t magic[8] = {0};
    if (file->length == 0)
        return data_corrupt(err, file, 0, "the file is empty");
    EBB_TRY(data_file_read(file, 0, magic, file->length < 8 ? (size_t)file->length : 8, err));
    if (memcmp(magic, "\x89PNG\r\n\x1a\n", 8) == 0)
        return data_png_decode(file, scratch, sink, err);
    if (magic[0] == 0xff && magic[1] == 0xd8)
        return data_jpeg_decode(file, scratch, sink, err);
    return data_corrupt(err, file, 0, "neither PNG nor JPEG: it starts with %02x %02x %02x %02x",
                        magic[0], magic[1], magic[2], magic[3]);
}

static enum ebb_status generate_rows(struct picture *p, const struct data_row_sink *sink,
                                     struct ebb_error *err)
{
    const struct data_request *q = p->request;
    struct data_waves *waves;
    uint8_t *row;
    EBB_TRY(data_scratch_take(p->scratch, sizeof *waves, &waves, err));
    EBB_TRY(data_scratch_take(p->scratch, DATA_PICTURE * 3, &row, err));
    int64_t class = (int64_t)(q->index % (uint64_t)p->state->classes);
    data_waves_init(waves, p->state->seed, q->split, q->index, class);
    EBB_TRY(sink->begin(sink->context, DATA_PICTURE, DATA_PICTURE, err));
    for (int64_t y = 0; y < DATA_PICTURE; y++) {
        data_waves_row(waves, y, row);
        enum ebb_status status = sink->row(sink->context, y, row, err);
        if (status != EBB_OK)
            return status == EBB_ECANCELED ? EBB_OK : status;
    }
    return EBB_OK;
}

static enum ebb_status decode_rows(struct picture *p, const struct data_row_sink *sink,
                                   struct ebb_error *err)
{
    const struct folder_state *state = p->state;
    const struct data_labels *list = &state->lists[p->request->split];
    struct data_file file;
    EBB_TRY(data_file_open_in(&file, state->folders[p->request->split],
                              list->text.data + list->offsets[p->request->index], err));
    enum ebb_status status = data_image_decode(&file, p->scratch, sink, err);
    if (status == EBB_ELIMIT)
        ebb_context(err, status, "%s (data.decode_bytes may be raised)", file.path);
    if (status == EBB_OK && p->resampler.next_row != state->crop)
        status = data_corrupt(err, &file, file.length, "the picture has too few rows");
    data_file_close(&file);
    return status;
}

static void read_target(const struct data_request *q)
{
    const struct folder_state *state = q->set->state;
    const struct data_labels *list = &state->lists[q->split];
    if (!q->fields[1])
        return;
    if (list->targets)
        memcpy(q->fields[1], list->values + q->index * list->targets,
               list->targets * sizeof *list->values);
    else
        *(int64_t *)q->fields[1] = q->set->info.is_synthetic
                                       ? (int64_t)(q->index % (uint64_t)state->classes)
                                       : list->classes[q->index];
}

static enum ebb_status folder_read(const struct data_request *request, struct ebb_error *err)
{
    const struct folder_state *state = request->set->state;
    read_target(request);
    if (!request->fields[0])
        return EBB_OK;
    struct picture *p;
    EBB_TRY(data_scratch_take(request->scratch, sizeof *p, &p, err));
    *p = (struct picture){.state = state,
                          .request = request,
                          .scratch = request->scratch,
                          .is_changed = data_pixels_are_changed(&state->pixels, request),
                          .out = request->fields[0]};
    p->resampler.context = p;
    p->resampler.emit = picture_emit;
    struct data_row_sink sink = {p, picture_begin, picture_row};
    EBB_TRY(request->set->info.is_synthetic ? generate_rows(p, &sink, err)
                                            : decode_rows(p, &sink, err));
    if (p->is_changed)
        data_pixels_color(&state->pixels, request, request->fields[0], state->crop * state->crop);
    return EBB_OK;
}

/* ---- the dataset ---- */

static enum ebb_status folder_open(struct data_set *set, const struct data_values *v,
                                   struct ebb_error *err)
{
    static const struct data_norm imagenet = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
    struct data_info *info = &set->info;
    info->channels = 3;
    info->height = info->width = v->crop;
    info->is_augmented = v->random_resized_crop || v->flip || data_color_is_on(&v->color);
    data_add_field(info, "image", strcmp(v->image_dtype, "u8") == 0 ? DATA_U8 : DATA_F32, 3,
                   (int64_t[]){3, v->crop, v->crop});
    data_add_field(info, "label", DATA_I64, 0, NULL);
    set->make_formats = "jpeg png";
    struct folder_state *state = set->state;
    state->crop = v->crop;
    state->is_random = v->random_resized_crop;
    state->flip = v->flip;
    for (int i = 0; i < 2; i++) {
        state->scale[i] = v->scale.v[i];
        state->ratio[i] = v->ratio.v[i];
    }
    data_pixels_init(&state->pixels, v, 3, &imagenet);
    set->view = (struct data_view){.resize = v->resize,
                                   .width = v->crop,
                                   .height = v->crop,
                                   .channels = 3,
                                   .pixels = &state->pixels};
    info->scratch_bytes = v->decode_bytes;
    if (!v->is_synthetic)
        return v->train_labels ? list_tables(set, v, err) : list_folders(set, v, err);
    state->seed = v->synthetic_seed;
    state->classes = info->classes = v->classes ? v->classes : 1000;
    info->scratch_bytes = (size_t)1 << 20; /* taps and rows of a picture of known size */
    data_synthetic_counts(set, v, 1281167, 50000);
    return EBB_OK;
}

static void folder_defaults(struct data_values *v)
{
    v->resize = 256;
    v->crop = 224;
}

static const char *folder_check(const struct data_values *v, const char **key)
{
    *key = "crop";
    if (v->crop > v->resize)
        return "the crop must not be larger than resize";
    *key = "train_labels";
    bool has_columns = v->inputs.count || v->target.count || v->val_labels ||
                       v->target_kind != DATA_TARGET_AUTO || v->separator;
    if (!v->train_labels && has_columns)
        return "val_labels, inputs, target, target_kind and separator are about a table of labels: "
               "train_labels names it";
    if (v->train_labels && v->is_synthetic)
        return "generated pictures have no table";
    *key = "inputs";
    if (v->inputs.count > 1)
        return "one column has the names of the files";
    *key = "augment";
    if (v->crop_pad)
        return "crop_pad is for idx and cifar; here random_resized_crop, flip, scale, ratio";
    *key = "classes";
    if (v->is_synthetic && v->classes > 65536)
        return "at most 65536 synthetic classes";
    return data_pixels_check(v, 3, key);
}

const struct data_row data_row_imagefolder = {
    DATA_ROW("imagefolder", "class folders of PNG and JPEG files", DATA_CLASSES,
             struct folder_state, folder_open, folder_read, folder_close),
    .aliases = "imagenet",
    .keys = "data_dir resize crop classes normalize mean std image_dtype augment decode_bytes "
            "samples val_samples train_labels val_labels inputs target target_kind separator",
    .required = "data_dir",
    .can_synthesize = true,
    .defaults = folder_defaults,
    .check = folder_check,
};
