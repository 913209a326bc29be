/* pareto_model.c - models of Pareto files: published names of parameters become options of the zoo. */
#include "harness/pareto.h"

#include <stdlib.h>
#include <string.h>

#include "base/keys.h"
#include "nn/nn.h"

/* What batch_size and extra_params mean where it is not an option of the same name. SAMPLES: of a
 * batch. A preset is what the published harness takes when the file says nothing. */
#define SAMPLES "samples of a batch"

static const struct published {
    const char *model, *name, *option;
    int64_t preset; /* 0: the zoo's */
} published[] = {
    {"dtr_lstm", "batch_size", "steps", 0},
    {"dtr_lstm", "in_dim", "features", 10},
    {"dtr_lstm", "mem_dim", "memory", 300},
    {"dtr_lstm", "input_size", SAMPLES, 50},
    {"dtr_treelstm", "batch_size", "depth", 0},
    {"dtr_treelstm", "in_dim", "features", 10},
    {"dtr_treelstm", "mem_dim", "memory", 300},
    {"dtr_treelstm", "input_size", SAMPLES, 50},
    {"transformer_12_6", "input_seq_length", "length", 10},
    {"transformer_12_6", "target_seq_length", "target_length", 20},
    {"transformer_12_6", "num_feature", "width", 512},
    {"wlm_transformer", "input_seq_length", "length", 0},
    {"wlm_lstm", "input_seq_length", "length", 0},
    {"wlm_gru", "input_seq_length", "length", 0},
    {"unrolled_gan", "g_hid", "hidden", 0},
    {"unrolled_gan", "d_hid", "hidden", 0},
    {"unrolled_gan", "g_inp", "noise", 0},
    {"unrolled_gan", "unrolled_steps", "unroll", 0},
    {"unrolled_gan_large", "g_hid", "hidden", 0},
    {"unrolled_gan_large", "d_hid", "hidden", 0},
    {"unrolled_gan_large", "g_inp", "noise", 0},
    {"unrolled_gan_large", "unrolled_steps", "unroll", 0},
};
enum { PUBLISHED = sizeof published / sizeof *published };

/* Names of the published harness that nobody can measure here, and why. */
static const struct {
    const char *name, *why;
} refused[] = {
    {"gru", "the published harness names it and has no such model either; gru_encoder is the word "
            "model"},
    {"treelstm_old", "it reads SICK sentence pairs and GloVe vectors, which are not here; treelstm "
                     "is the model that was measured"},
};

bool harness_model_check(struct ebb_reading *reading, const struct ebb_path *path,
                         const struct ebb_doc_node *node, const char *name)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(refused[i].name, name) == 0) {
            ebb_reading_error(reading, path, node, "found \"%s\": %s", name, refused[i].why);
            return false;
        }
    if (nn_model_find(name))
        return true;
    struct ebb_str words = {0}, text = {0};
    for (size_t i = 0; i < nn_model_count(); i++) {
        const struct nn_model *m = nn_model_at(i);
        ebb_words_add(&words, m->name);
        for (size_t k = 0; m->aliases && m->aliases[k]; k++)
            ebb_words_add(&words, m->aliases[k]);
    }
    ebb_str_add(&text, "found ");
    ebb_say_found(node, &text);
    ebb_str_add(&text, ", allowed: a model of the zoo ('ebb model list')");
    ebb_say_nearest(ebb_str_c(&words), name, strlen(name), &text);
    ebb_str_fini(&words);
    ebb_reading_say(reading, EBB_FINDING_ERROR, path, node, &text);
    return false;
}

static const struct published *find_published(const struct nn_model *m, const char *name)
{
    for (size_t i = 0; i < PUBLISHED; i++)
        if (strcmp(published[i].model, m->name) == 0 && strcmp(published[i].name, name) == 0)
            return &published[i];
    return NULL;
}

static const struct ebb_key *find_option(const struct nn_model *m, const char *name)
{
    for (size_t i = 0; i < m->option_count; i++)
        if (strcmp(m->options[i].path, name) == 0)
            return &m->options[i];
    return NULL;
}

struct work {
    struct ebb_reading *reading;
    const struct ebb_path *path; /* of the command */
    struct harness_setup *setup;
    struct nn_config net;
    struct ebb_doc_node *section;
};

/* One parameter, whose mistakes are told under the name that the file has. */
static void set_option(struct work *w, const struct ebb_path *path, const char *option,
                       const struct ebb_doc_node *node)
{
    const struct nn_model *m = w->net.model;
    struct ebb_keys table = {m->options, m->option_count, NULL};
    const struct ebb_key *key = find_option(m, option);
    const struct ebb_doc_node *good =
        ebb_key_read(w->reading, key, &table, path, node, w->net.bytes);
    ebb_reading_set(w->reading, w->section, option, good);
}

static void set_samples(struct work *w, const struct ebb_path *path,
                        const struct ebb_doc_node *node)
{
    static const struct ebb_key key = {.path = "input_size",
                                       .kind = EBB_KEY_INT,
                                       .bounds = "> 0, <= 1000000000",
                                       .at = offsetof(struct harness_setup, samples)};
    ebb_key_read(w->reading, &key, NULL, path, node, w->setup);
}

static void refuse_unknown(struct work *w, const struct ebb_path *path,
                           const struct ebb_doc_node *node, const char *name)
{
    const struct nn_model *m = w->net.model;
    struct ebb_str words = {0}, text = {0};
    for (size_t i = 0; i < PUBLISHED; i++)
        if (strcmp(published[i].model, m->name) == 0 &&
            strcmp(published[i].name, "batch_size") != 0)
            ebb_words_add(&words, published[i].name);
    for (size_t i = 0; i < m->option_count; i++)
        ebb_words_add(&words, m->options[i].path);
    ebb_str_printf(&text, "unknown parameter of model %s", m->name);
    ebb_say_nearest(ebb_str_c(&words), name, strlen(name), &text);
    ebb_str_add(&text, "; allowed: ");
    ebb_say_words(ebb_str_c(&words), &text);
    ebb_str_fini(&words);
    ebb_reading_say(w->reading, EBB_FINDING_ERROR, path, node, &text);
}

static void set_parameter(struct work *w, const struct ebb_path *path, const char *name,
                          const struct ebb_doc_node *node)
{
    const struct published *p = find_published(w->net.model, name);
    if (p && strcmp(p->option, SAMPLES) == 0)
        set_samples(w, path, node);
    else if (p)
        set_option(w, path, p->option, node);
    else if (find_option(w->net.model, name))
        set_option(w, path, name, node);
    else
        refuse_unknown(w, path, node, name);
}

static void set_presets(struct work *w, const struct ebb_doc_node *extra)
{
    for (size_t i = 0; i < PUBLISHED; i++) {
        const struct published *p = &published[i];
        if (strcmp(p->model, w->net.model->name) != 0 || p->preset == 0 ||
            ebb_doc_given(extra, p->name) || ebb_doc_given(extra, p->option))
            continue;
        struct ebb_doc_node *node = ebb_doc_new_int(w->reading->arena, p->preset);
        struct ebb_path path = {.up = w->path, .key = p->name};
        if (node)
            set_parameter(w, &path, p->name, node);
    }
}

/* Both networks of the GAN have one width here. */
static void check_widths(struct work *w, const struct ebb_path *path,
                         const struct ebb_doc_node *extra)
{
    const struct ebb_doc_node *g = ebb_doc_given(extra, "g_hid"),
                              *d = ebb_doc_given(extra, "d_hid");
    if (g && d && !ebb_doc_equal(g, d))
        ebb_reading_error(w->reading, path, d,
                          "d_hid differs from g_hid: generator and discriminator of model %s have "
                          "hidden layers of one width",
                          w->net.model->name);
}

static const char *task_of(const struct nn_model *m)
{
    return m->task == NN_SEQUENCE ? "regression" : nn_task_name(m->task);
}

void harness_model_read(struct ebb_reading *reading, const struct ebb_path *path,
                        const struct ebb_doc_node *command, struct harness_setup *setup)
{
    struct work w = {.reading = reading, .path = path, .setup = setup};
    const struct ebb_doc_node *extra = setup->extra_params;
    struct ebb_path inner = {.up = path, .key = "extra_params"};
    struct ebb_path batch = {.up = path, .key = "batch_size"};
    struct ebb_error err;
    size_t errors = reading->report->errors;
    if (nn_config_init(&w.net, setup->model, &err) != EBB_OK)
        return; /* told where models are listed */
    const struct nn_model *m = w.net.model;
    w.section = ebb_reading_node(reading, EBB_DOC_MAP, command);
    ebb_reading_set(reading, w.section, "name", ebb_doc_new_string(reading->arena, m->name));
    setup->samples = setup->batch_size;
    setup->task = task_of(m);
    set_presets(&w, extra);
    if (find_published(m, "batch_size") && ebb_doc_given(command, "batch_size"))
        set_parameter(&w, &batch, "batch_size", ebb_doc_given(command, "batch_size"));
    for (size_t i = 0; extra && i < extra->count; i++) {
        struct ebb_path at = ebb_path_key(&inner, extra->keys[i]);
        set_parameter(&w, &at, extra->keys[i]->text, extra->items[i]);
    }
    check_widths(&w, &inner, extra);
    if (reading->report->errors == errors && nn_config_check(&w.net, &err) != EBB_OK)
        ebb_reading_error(reading, extra ? &inner : path, extra ? extra : command, "%s",
                          err.message);
    setup->section = w.section;
}
