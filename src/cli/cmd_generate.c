/* cmd_generate.c - ebb generate: text of a language model, token by token. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/rng.h"
#include "base/str.h"
#include "cli/cmd_model.h"
#include "cli/json.h"
#include "cli/machine.h"
#include "cli/train_file.h"

struct generation {
    struct cli_train_changes changes;
    const char *weights, *prompt;
    struct cli_list rename, transpose;
    int64_t count, seed;
    double temperature;
    bool as_json;
    struct cli_train_file file;
    struct nn_config net;
    struct data_set *set;       /* NULL: none, tokens are numbers */
    struct train_forward model; /* for one sequence */
    size_t token_port;
    int64_t length, vocabulary;
    int64_t *tokens; /* owned: prompt and what was made */
    bool has_text;   /* else tokens are numbers */
    size_t token_count, made_from;
};

/* ---- the model -------------------------------------------------------------------------------- */

/* One input of tokens, and scores of every token over the vocabulary. */
static enum ebb_status find_ports(struct generation *g, const struct tensor_view *scores,
                                  struct ebb_error *err)
{
    size_t found = 0;
    for (size_t i = 0; i < g->model.port_count; i++)
        if (g->model.ports[i].kind == NN_TOKENS && ++found == 1)
            g->token_port = i;
    const struct tensor_view *v = &g->model.ports[g->token_port].view;
    if (found != 1 || v->rank != 2 || scores->rank != 2 || scores->dims[0] != v->dims[1] ||
        g->net.model->task != NN_LANGUAGE_MODEL)
        return ebb_fail(err, EBB_EINPUT,
                        "model %s does not score every token of one sequence: it generates no text",
                        g->net.model->name);
    g->length = v->dims[1];
    g->vocabulary = scores->dims[1];
    return EBB_OK;
}

/* States begin anew; what is no token is generated. */
static void fill_inputs(struct generation *g)
{
    for (size_t i = 0; i < g->model.port_count; i++) {
        void *to = i != g->token_port ? train_forward_place(&g->model, g->model.inputs[i]) : NULL;
        if (to != NULL)
            nn_generate(&g->net, &g->model.ports[i], 0, 0, to);
    }
}

static enum ebb_status build(struct generation *g, struct ebb_error *err)
{
    struct train_forward *m = &g->model;
    struct train_forward_options o = {.batch = 1,
                                      .precision = (enum nn_precision)g->file.config.precision,
                                      .memory = &g->file.config,
                                      .machine_bytes = cli_machine_bytes()};
    EBB_TRY(train_forward_open(m, &g->net, &o, err));
    EBB_TRY(find_ports(g, tensor_view_of(m->session, m->outputs[0].id), err));
    return cli_model_weights(m, g->weights, &g->rename, &g->transpose, err);
}

/* ---- tokens ----------------------------------------------------------------------------------- */

/* Numbers with blanks between them, where the data have no text. */
static enum ebb_status parse_numbers(struct generation *g, struct ebb_error *err)
{
    size_t capacity = 0;
    for (const char *at = g->prompt; *(at += strspn(at, " ")) != '\0';) {
        char *end;
        long long v = strtoll(at, &end, 10);
        if (end == at || (*end != ' ' && *end != '\0'))
            return ebb_fail(err, EBB_EINPUT,
                            "--prompt %s: the data have no text, so tokens are numbers", g->prompt);
        EBB_TRY(ebb_grow(&g->tokens, &capacity, g->token_count + 1, sizeof *g->tokens, err));
        g->tokens[g->token_count++] = v;
        at = end;
    }
    return EBB_OK;
}

static enum ebb_status read_prompt(struct generation *g, struct ebb_error *err)
{
    struct ebb_error why = {0};
    enum ebb_status status = g->set != NULL ? data_encode(g->set, g->prompt, strlen(g->prompt),
                                                          &g->tokens, &g->token_count, &why)
                                            : EBB_EINPUT;
    g->has_text = status == EBB_OK;
    if (status == EBB_EINPUT)
        status = parse_numbers(g, err);
    else if (status != EBB_OK)
        *err = why;
    EBB_TRY(status);
    if (g->token_count == 0)
        return ebb_fail(err, EBB_EINPUT, "--prompt is empty: text begins with something");
    for (size_t i = 0; i < g->token_count; i++)
        if (g->tokens[i] < 0 || g->tokens[i] >= g->vocabulary)
            return ebb_fail(err, EBB_EINPUT, "--prompt: token %" PRId64 ", the model has %" PRId64,
                            g->tokens[i], g->vocabulary);
    g->made_from = g->token_count;
    return EBB_OK;
}

/* By the softmax of scores / temperature; 0: the best. */
static int64_t draw(const struct generation *g, const float *scores, struct ebb_mt19937 *rng)
{
    int64_t best = 0;
    double sum = 0;
    for (int64_t i = 1; i < g->vocabulary; i++)
        best = scores[i] > scores[best] ? i : best;
    if (!(g->temperature > 0))
        return best;
    for (int64_t i = 0; i < g->vocabulary; i++)
        sum += exp(((double)scores[i] - (double)scores[best]) / g->temperature);
    double left = (double)ebb_mt_u32(rng) * 0x1p-32 * sum;
    for (int64_t i = 0; i < g->vocabulary; i++) {
        left -= exp(((double)scores[i] - (double)scores[best]) / g->temperature);
        if (left < 0)
            return i;
    }
    return best;
}

/* The last tokens that the model sees at once, from its first place on; what follows is masked by
 * the model itself. */
static enum ebb_status make_one(struct generation *g, struct ebb_mt19937 *rng,
                                struct ebb_error *err)
{
    size_t seen = g->token_count < (size_t)g->length ? g->token_count : (size_t)g->length;
    int64_t *in = train_forward_place(&g->model, g->model.inputs[g->token_port]);
    for (int64_t i = 0; i < g->length; i++)
        in[i] = (size_t)i < seen ? g->tokens[g->token_count - seen + (size_t)i] : 0;
    fill_inputs(g);
    EBB_TRY(train_forward_run(&g->model, err));
    const float *scores = train_forward_place(&g->model, g->model.outputs[0].id);
    int64_t *more = ebb_realloc(g->tokens, g->token_count + 1, sizeof *more);
    if (more == NULL)
        return ebb_no_memory(err, g->token_count * sizeof *more);
    g->tokens = more;
    g->tokens[g->token_count++] = draw(g, scores + (seen - 1) * (size_t)g->vocabulary, rng);
    return EBB_OK;
}

static enum ebb_status say(const struct generation *g, size_t from, struct ebb_str *out)
{
    if (g->set == NULL ||
        data_decode(g->set, g->tokens + from, g->token_count - from, out, NULL) != EBB_OK)
        for (size_t i = from; i < g->token_count; i++)
            ebb_str_printf(out, "%s%" PRId64, i > from ? " " : "", g->tokens[i]);
    return ebb_str_status(out, NULL);
}

static enum ebb_status generate(struct generation *g, struct ebb_error *err)
{
    struct ebb_mt19937 rng;
    EBB_TRY(train_open_net(&g->file.config, &g->net, &g->set, err));
    EBB_TRY(build(g, err));
    EBB_TRY(read_prompt(g, err));
    ebb_mt_seed(&rng, (uint32_t)g->seed);
    cli_catch_interrupts();
    for (int64_t i = 0; i < g->count && !cli_interrupted(); i++)
        EBB_TRY(make_one(g, &rng, err));
    return EBB_OK;
}

static int print(const struct generation *g)
{
    struct ebb_str text = {0};
    int code = say(g, g->made_from, &text) == EBB_OK ? 0 : 1;
    if (g->as_json) {
        struct cli_json json;
        struct ebb_json_writer *w = cli_json_object(&json);
        ebb_jsonw_key_string(w, "prompt", g->prompt);
        ebb_jsonw_key_string(w, "text", ebb_str_c(&text));
        ebb_jsonw_key_array(w, "tokens");
        for (size_t i = g->made_from; i < g->token_count; i++)
            ebb_jsonw_int(w, g->tokens[i]);
        ebb_jsonw_array_end(w);
        code = cli_json_object_end(&json);
    } else {
        printf("%s%s", g->prompt, g->has_text ? "" : " ");
        fwrite(ebb_str_c(&text), 1, text.length, stdout); /* a token may be any byte */
        putchar('\n');
    }
    ebb_str_fini(&text);
    return code;
}

static int run(int argc, char **argv)
{
    struct generation g = {.changes.seed = -1, .count = 100, .seed = 1, .temperature = 1};
    const struct cli_option options[] = {
        {"weights", 'w', CLI_STRING, &g.weights, "FILE",
         "safetensors, .pt, .npz, an index of several files, a folder with one, a\ncheckpoint of "
         "ebb"},
        {CLI_MODEL_RENAME(&g.rename)},
        {CLI_MODEL_TRANSPOSE(&g.transpose)},
        {"prompt", 'p', CLI_STRING, &g.prompt, "TEXT", "what it goes on from"},
        {"tokens", 'n', CLI_INT, &g.count, "N", "to make; default 100"},
        {"temperature", 't', CLI_DOUBLE, &g.temperature, "T",
         "of the draw: 0 takes the best token always; default 1"},
        {"seed", 0, CLI_INT, &g.seed, "N", "of the draw; default 1"},
        {"set", 0, CLI_LIST, &g.changes.sets, "KEY=VALUE", "put a value over one of the file"},
        {"budget", 0, CLI_STRING, &g.changes.budget, "BYTES",
         "memory of the device; default: as the file says"},
        {CLI_MODEL_JSON(&g.as_json)},
    };
    const struct cli_spec spec = {
        .usage = "ebb generate FILE --weights FILE --prompt TEXT [OPTION...]",
        .description = "Goes on with a text, token by token, as the language model of an "
                       "experiment file does\n"
                       "with these weights. The tokenizer is that of its data; where they have "
                       "none, tokens are\n"
                       "numbers with blanks between them. The same seed gives the same text.\n\n"
                       "Example:\n"
                       "  ebb generate examples/gpt_bytes.yaml --weights w.safetensors --prompt "
                       "'The licence'\n",
        CLI_OPTIONS(options),
        CLI_LIMITS({"tokens", 1, 1e6}, {"temperature", 0, 100}, {"seed", 0, 4294967295.0}),
        CLI_POSITIONAL(1, 1)};
    struct cli_args args = {0};
    struct ebb_error err = {0};
    int code = cli_parse(&spec, argc, argv, &args);
    if (code >= 0)
        return code;
    if (g.weights == NULL || g.prompt == NULL) {
        code = cli_usage_error("%s is missing",
                               g.weights == NULL ? "--weights FILE" : "--prompt TEXT");
    } else {
        code = cli_train_open(&g.file, args.positional[0], &g.changes);
        if (code < 0)
            code = generate(&g, &err) == EBB_OK ? print(&g) : cli_report(&err);
        train_forward_close(&g.model);
        data_close(g.set);
        ebb_free(g.tokens);
        cli_train_close(&g.file);
    }
    cli_args_fini(&args);
    return code;
}

const struct cli_command cli_cmd_generate = {
    .name = "generate", .summary = "text of a trained language model", .run = run};
