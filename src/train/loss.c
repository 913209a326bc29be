/* loss.c - the section `loss`: which op compares the first output with its target, and how.
 *
 * Without the section a model's own loss is used. Names are those of the ops, with or without
 * "_loss". `weight` are the weights of the classes; `divide_by` tells what a weighted mean is
 * divided by: the sum of the weights met (torch), or the number of elements (DeepCAM). */
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "train/step.h"

static const char *const divisors[] = {"weights", "elements", NULL};

static const struct train_key keys[] = {
    {"label_smoothing", TRAIN_V_NUMBER, 0, 1, NULL, "cross_entropy: mass moved to all classes"},
    {"ignore_index", TRAIN_V_INT, -1e9, 1e9, NULL, "cross_entropy, nll_loss: target that counts 0"},
    {"weight", TRAIN_V_NUMBERS, 0, 0, NULL, "cross_entropy, nll_loss: weight of each class"},
    {"divide_by", TRAIN_V_TEXT, 0, 0, divisors, "weighted mean: divided by what"},
    {"beta", TRAIN_V_NUMBER, 0, INFINITY, NULL, "smooth_l1_loss: where it becomes linear"},
    {0},
};

static const struct loss {
    const char *op, *alias;
    const char *keys[6];
    bool is_classes; /* targets are class numbers */
} losses[] = {
    {"cross_entropy",
     "CrossEntropyLoss",
     {"label_smoothing", "ignore_index", "weight", "divide_by"},
     true},
    {"nll_loss", "nll", {"ignore_index", "weight", "divide_by"}, true},
    {"mse_loss", "mse", {NULL}, false},
    {"l1_loss", "l1", {NULL}, false},
    {"smooth_l1_loss", "smooth_l1", {"beta"}, false},
    {"bce_loss", "bce", {NULL}, false},
    {"bce_with_logits_loss", "bce_with_logits", {NULL}, false},
    {"kl_div_loss", "kl_div", {NULL}, false},
};
enum { LOSSES = sizeof losses / sizeof *losses };

static const struct loss *find(const char *name)
{
    for (size_t i = 0; i < LOSSES; i++)
        if (strcmp(losses[i].op, name) == 0 || strcmp(losses[i].alias, name) == 0)
            return &losses[i];
    return NULL;
}

static void unknown_loss(struct train_checker *c, const struct ebb_doc_node *node)
{
    const char *names[LOSSES];
    struct ebb_str list;
    ebb_str_init(&list);
    for (size_t i = 0; i < LOSSES; i++)
        ebb_str_printf(&list, "%s%s", i ? ", " : "", names[i] = losses[i].op);
    const char *near = ebb_nearest(node->text, names, LOSSES);
    train_complain(c, node, "name", "found '%.40s', allowed: %s%s%s", node->text, ebb_str_c(&list),
                   near ? "; nearest: " : "", near ? near : "");
    ebb_str_fini(&list);
}

void train_check_loss(struct train_checker *c, const struct ebb_doc_node *map)
{
    const struct ebb_doc_node *name = ebb_doc_get(map, "name");
    const struct loss *loss = name && name->kind == EBB_DOC_STRING ? find(name->text) : NULL;
    struct train_key allowed[8] = {0};
    size_t count = 0;
    if (!name || name->kind != EBB_DOC_STRING) {
        train_complain(c, name ? name : map, "name", "%s, allowed: the name of a loss",
                       name ? "is no string" : "is missing");
        return;
    }
    if (!loss) {
        unknown_loss(c, name);
        return;
    }
    for (size_t k = 0; keys[k].name; k++)
        for (size_t i = 0; i < 6 && loss->keys[i]; i++)
            if (strcmp(loss->keys[i], keys[k].name) == 0)
                allowed[count++] = keys[k];
    train_check_keys(c, map, allowed, (const char *const[]){"name", NULL});
}

bool train_loss_takes_classes(const struct ebb_doc_node *map)
{
    const struct loss *loss = find(ebb_doc_string(map, "name", ""));
    return loss && loss->is_classes;
}

size_t train_loss_weights(const struct ebb_doc_node *map, float *weights, size_t most)
{
    const struct ebb_doc_node *list = ebb_doc_get(map, "weight");
    size_t count = list && list->kind == EBB_DOC_LIST ? list->count : 0;
    for (size_t i = 0; i < count && i < most; i++) {
        double value = 0;
        train_number(list->items[i], &value);
        weights[i] = (float)value;
    }
    return count;
}

tensor_id train_loss(struct nn_builder *b, const struct ebb_doc_node *map, tensor_id answer,
                     tensor_id target, tensor_id weights)
{
    const struct loss *loss = find(ebb_doc_string(map, "name", ""));
    tensor_id in[3] = {answer, target, weights};
    double smoothing = 0, beta = 1;
    if (!loss)
        return tensor_fail(b->session, EBB_EINPUT, "loss: unknown name");
    bool by_elements = strcmp(ebb_doc_string(map, "divide_by", "weights"), "elements") == 0;
    const char *reduction = by_elements ? "none" : "mean";
    tensor_id out;
    train_number(ebb_doc_get(map, "label_smoothing"), &smoothing);
    train_number(ebb_doc_get(map, "beta"), &beta);
    if (strcmp(loss->op, "cross_entropy") == 0)
        out = nn_op(b, loss->op, weights.v ? 3 : 2, in, NULL,
                    "{\"reduction\": \"%s\", \"ignore_index\": %lld, \"label_smoothing\": %.9g}",
                    reduction, (long long)ebb_doc_int(map, "ignore_index", -100), smoothing);
    else if (loss->is_classes)
        out = nn_op(b, loss->op, weights.v ? 3 : 2, in, NULL,
                    "{\"reduction\": \"%s\", \"ignore_index\": %lld}", reduction,
                    (long long)ebb_doc_int(map, "ignore_index", -100));
    else if (strcmp(loss->op, "smooth_l1_loss") == 0)
        out = nn_op(b, loss->op, 2, in, NULL, "{\"beta\": %.9g}", beta);
    else
        out = nn_op(b, loss->op, 2, in, NULL, NULL);
    return by_elements ? nn_op(b, "mean", 1, &out, NULL, NULL) : out;
}
