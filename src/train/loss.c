/* loss.c - the section `loss`: which op compares the first output with its target, and how.
 *
 * Without the section a model's own loss is used. Names are those of the ops, with or without
 * "_loss". `weight` are the weights of the classes; `divide_by` tells what a weighted mean is
 * divided by: the sum of the weights met (torch), or the number of elements (DeepCAM). */
#include <string.h>

#include "base/keys.h"
#include "train/step.h"

enum { BY_WEIGHTS, BY_ELEMENTS };

static const struct loss {
    const char *op, *alias;
    const char *keys; /* besides `name` */
    bool is_classes;  /* targets are class numbers */
} losses[] = {
    {"cross_entropy", "CrossEntropyLoss", "label_smoothing ignore_index weight divide_by", true},
    {"nll_loss", "nll", "ignore_index weight divide_by", true},
    {"mse_loss", "mse", "", false},
    {"l1_loss", "l1", "", false},
    {"smooth_l1_loss", "smooth_l1", "beta", false},
    {"bce_loss", "bce", "", false},
    {"bce_with_logits_loss", "bce_with_logits", "", false},
    {"kl_div_loss", "kl_div", "", false},
};
enum { LOSSES = sizeof losses / sizeof *losses };

static const char *loss_name(size_t i)
{
    return i < LOSSES ? losses[i].op : NULL;
}

static const struct loss *find(const char *name)
{
    for (size_t i = 0; i < LOSSES; i++)
        if (strcmp(losses[i].op, name) == 0 || strcmp(losses[i].alias, name) == 0)
            return &losses[i];
    return NULL;
}

static bool is_loss(const char *name)
{
    return find(name) != NULL;
}

#define ROW(...) EBB_KEY_ROW(struct train_loss, __VA_ARGS__)
static const struct ebb_key rows[] = {
    ROW("name", TEXT, name, "the op that compares", .flags = EBB_KEY_REQUIRED, .word = loss_name,
        .check = is_loss),
    ROW("label_smoothing", DOUBLE, label_smoothing, "cross_entropy: mass moved to all classes",
        .flags = EBB_KEY_LOOSE, .bounds = ">= 0, <= 1"),
    ROW("ignore_index", INT, ignore_index, "cross_entropy, nll_loss: target that counts 0",
        .bounds = ">= -1000000000, <= 1000000000"),
    ROW("weight", DOUBLES, weights, "cross_entropy, nll_loss: weight of each class",
        .flags = EBB_KEY_LOOSE, .count_at = offsetof(struct train_loss, weight_count)),
    ROW("divide_by", WORD, divide_by, "weighted mean: divided by what",
        .words = "weights elements"),
    ROW("beta", DOUBLE, beta, "smooth_l1_loss: where it becomes linear", .flags = EBB_KEY_LOOSE,
        .bounds = ">= 0"),
};
static const struct ebb_keys keys = EBB_KEYS(rows);

void train_loss_read(struct ebb_reading *reading, const struct ebb_path *path,
                     const struct ebb_doc_node *map, struct train_loss *values)
{
    struct ebb_section name = {.table = &keys, .only = "name", .is_open = true};
    *values = (struct train_loss){.ignore_index = -100, .beta = 1};
    ebb_keys_read(reading, &name, path, map, map, values);
    const struct loss *loss = values->name ? find(values->name) : NULL;
    if (!loss)
        return;
    struct ebb_section rest = {
        .table = &keys, .only = loss->keys, .also = "name", .what = loss->op};
    ebb_keys_read(reading, &rest, path, map, map, values);
    values->name = loss->op;
}

bool train_loss_takes_classes(const struct train_loss *values)
{
    const struct loss *loss = values ? find(values->name) : NULL;
    return loss && loss->is_classes;
}

size_t train_loss_weights(const struct train_loss *values, float *weights, size_t most)
{
    size_t count = values ? values->weight_count : 0;
    for (size_t i = 0; i < count && i < most; i++)
        weights[i] = (float)values->weights[i];
    return count;
}

static tensor_id reduced(struct nn_builder *b, const struct train_loss *values,
                         const tensor_id in[3], const char *reduction)
{
    const struct loss *loss = find(values->name);
    tensor_id weights = in[2], out;
    if (strcmp(loss->op, "cross_entropy") == 0)
        out = nn_op(b, loss->op, weights.v ? 3 : 2, in, NULL,
                    "{\"reduction\": \"%s\", \"ignore_index\": %lld, \"label_smoothing\": %.9g}",
                    reduction, (long long)values->ignore_index, values->label_smoothing);
    else if (loss->is_classes)
        out = nn_op(b, loss->op, weights.v ? 3 : 2, in, NULL,
                    "{\"reduction\": \"%s\", \"ignore_index\": %lld}", reduction,
                    (long long)values->ignore_index);
    else if (strcmp(loss->op, "smooth_l1_loss") == 0)
        out = nn_op(b, loss->op, 2, in, NULL, "{\"beta\": %.9g}", values->beta);
    else
        out = nn_op(b, loss->op, 2, in, NULL, NULL);
    return out;
}

tensor_id train_loss(struct nn_builder *b, const struct train_loss *values, tensor_id answer,
                     tensor_id target, tensor_id weights)
{
    bool by_elements = values->divide_by == BY_ELEMENTS;
    tensor_id out =
        reduced(b, values, (tensor_id[]){answer, target, weights}, by_elements ? "none" : "mean");
    return by_elements ? nn_op(b, "mean", 1, &out, NULL, NULL) : out;
}

tensor_id train_loss_each(struct nn_builder *b, const struct train_loss *values, tensor_id answer,
                          tensor_id target, tensor_id weights)
{
    return reduced(b, values, (tensor_id[]){answer, target, weights}, "none");
}
