/* The experiment file under stress: memory that runs out, hostile files, random files made from the
 * table. */
#include <time.h>

#include "exp_config_support.h"

#include "base/rng.h"
#include "exp/config/schema.h"

/* Every kind of value at once. */
static const char rich[] =
    "description: everything\n"
    "labels: {a: true, b: false}\n"
    "entrypoint: ebb:image_classification\n"
    "data: {name: mnist, lr: '${lr}', l: [1, 2]}\n"
    "model: {name: x}\nopt: {lr: '${lr}'}\nmemory: {budget: 48MiB}\n"
    "checkpoint_storage: {type: shared_fs, host_path: /a, storage_path: b}\n"
    "tensorboard_storage: {type: s3, bucket: b, access_key: k, secret_key: s}\n"
    "hyperparameters: {global_batch_size: {type: categorical, vals: [8, 12]}, lr: {type: log, "
    "base: "
    "10, minval: -4, maxval: -1, count: 3}, n: {type: int, minval: 1, maxval: 4, count: 2}, c: x}\n"
    "searcher: {name: grid, metric: m, max_steps: 3, source_checkpoint_uuid: "
    "01234567-89AB-CDEF-0123-456789ABCDEF}\n"
    "resources: {slots_per_trial: 8, max_slots: 8}\n"
    "bind_mounts: [{host_path: /x, container_path: y}, {host_path: /z, container_path: z}]\n"
    "environment: {image: i, environment_variables: [A=1, B=2, A=3], registry_auth: {username: u, "
    "password: p}, ports: {x: 1}}\n"
    "reproducibility: {experiment_seed: 3}\n"
    "security: [1]\n";
static const char rich_template[] =
    "labels: [t]\nsearcher: {name: random, max_trials: 4}\n"
    "environment: {image: {cpu: c}, environment_variables: {gpu: [T=1]}}\n"
    "bind_mounts: [{host_path: /t, container_path: t}]\ndata: {l: [0], more: {x: 1}}\n";
static const char broken[] =
    "descripton: d\nlabels: [1]\nentrypoint: ebb:gann\nsearcher: {name: "
    "single, max_trials: 3, mode: x}\nhyperparameters: {a: {type: int}, b: "
    "{type: lug}}\nenvironment: {environment_variables: [x], image: {tpu: "
    "1}}\ncheckpoint_storage: {type: shared_fs, host_path: /a, "
    "storage_path: ..}\nbind_mounts: [1]\n";

static enum ebb_status read_both(struct ebb_arena *arena, const char *file, struct ebb_str *out)
{
    struct exp_config config = {0};
    struct ebb_report report = {0};
    struct ebb_error err = {0};
    struct exp_config_options options = {.file_name = "f",
                                         .template_name = "t",
                                         .default_seed = 5,
                                         .default_description = "generated"};
    enum ebb_status status = ebb_doc_parse_yaml(arena, "t", rich_template, sizeof rich_template - 1,
                                                &options.template_root, &err);
    if (status != EBB_OK)
        return status;
    status = exp_config_parse(arena, file, strlen(file), &options, &config, &report, &err);
    if (status == EBB_OK && !exp_config_masked(arena, config.normalized))
        return EBB_ENOMEM;
    for (size_t i = 0; i < report.count; i++)
        ebb_finding_format(&report.items[i], out);
    if (status == EBB_OK) {
        struct ebb_json_writer w;
        ebb_jsonw_init(&w, out, 0);
        ebb_doc_write_json(config.normalized, &w);
    }
    return status;
}

/* Fail allocation 1, 2, 3, ... until nothing fails: only statuses, no leak, and at the end the same
 * result. */
static void torture(const char *file, enum ebb_status expected)
{
    struct ebb_str good;
    struct ebb_arena arena;
    ebb_str_init(&good);
    ebb_arena_init(&arena);
    CHECK_EQ(read_both(&arena, file, &good), expected);
    ebb_arena_fini(&arena);
    enum ebb_status status = EBB_ENOMEM;
    uint64_t n = 1;
    for (; n < 100000; n++) {
        struct ebb_str out;
        uint64_t live = ebb_heap_live();
        ebb_str_init(&out);
        ebb_arena_init(&arena);
        ebb_heap_fail_at(n);
        status = read_both(&arena, file, &out);
        ebb_heap_fail_at(0);
        ebb_arena_fini(&arena);
        bool is_same = strcmp(ebb_str_c(&out), ebb_str_c(&good)) == 0;
        ebb_str_fini(&out);
        CHECK_EQ(ebb_heap_live(), live);
        if (status == expected && is_same)
            break; /* the n-th allocation was never reached, or only lengthened a message */
        CHECK(status == EBB_ENOMEM || status == expected);
    }
    CHECK(n > 20 && n < 100000);
    ebb_str_fini(&good);
}

TEST(memory__running_out_is_a_status)
{
    torture(rich, EBB_OK);
    torture(broken, EBB_EINPUT);
}

/* ---- hostile files ---- */

/* Processor milliseconds of the fastest of five readings; all must answer `expected`. */
static double read_ms(const struct ebb_str *file, enum ebb_status expected, enum ebb_status other)
{
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        struct ebb_arena arena;
        struct exp_config config;
        struct ebb_report report;
        struct ebb_error err = {0};
        struct exp_config_options options = {.file_name = "bomb", .default_seed = -1};
        ebb_arena_init(&arena);
        clock_t start = clock();
        enum ebb_status status =
            exp_config_parse(&arena, file->data, file->length, &options, &config, &report, &err);
        double ms = (double)(clock() - start) * 1000.0 / CLOCKS_PER_SEC;
        best = ms < best ? ms : best;
        if (status != expected && status != other)
            fail_msg("%s", err.message);
        ebb_arena_fini(&arena);
    }
    return best;
}

static void write_hparams(struct ebb_str *s, int count)
{
    reading_text(s, "hyperparameters:");
    for (int i = 0; i < count; i++)
        ebb_str_printf(s, "  p%d: {type: double, minval: %d, maxval: %d.5}\n", i, i, i);
    ebb_str_add(s, "  global_batch_size: 4\n");
}

static void write_mounts(struct ebb_str *s, int count)
{
    reading_text(s, "bind_mounts:");
    for (int i = 0; i < count; i++)
        ebb_str_printf(s, "- {host_path: /a%d, container_path: b}\n", i);
}

static double valid_ms(void (*write)(struct ebb_str *s, int count), int count)
{
    struct ebb_str s;
    write(&s, count);
    double ms = read_ms(&s, EBB_OK, EBB_OK);
    ebb_str_fini(&s);
    return ms;
}

/* What is refused costs no more than some of the largest files that are accepted: the measure is
 * taken in the same process, since machines differ. */
static void expect_fast(const char *what, const struct ebb_str *file, double valid)
{
    double ms = read_ms(file, EBB_EINPUT, EBB_ELIMIT);
    print_message("  %-22s %6.2f ms\n", what, ms);
    if (ms >= 10 * valid + 1)
        fail_msg("%s: %.1f ms; the largest valid file takes %.1f", what, ms, valid);
}

TEST(bombs__are_refused_at_once)
{
    struct ebb_str s;
    double valid = valid_ms(write_mounts, 3900);
    print_message("  %-22s %6.2f ms\n", "valid: 3,900 mounts", valid);
    ebb_str_init(&s);
    ebb_str_add(&s, "a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (char c = 'b'; c <= 'z'; c++)
        ebb_str_printf(&s, "%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c - 1,
                       c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1, c - 1);
    expect_fast("alias bomb", &s, valid);
    ebb_str_clear(&s);
    for (int i = 0; i < 5000; i++)
        ebb_str_printf(&s, "key_number_%d: %d\n", i, i);
    expect_fast("5,000 keys", &s, valid);
    ebb_str_clear(&s);
    for (int i = 0; i < 100000; i++)
        ebb_str_addc(&s, '[');
    expect_fast("100,000 brackets", &s, valid);
    ebb_str_clear(&s);
    ebb_str_add(&s, "labels: [");
    for (int i = 0; i < 60000; i++)
        ebb_str_add(&s, "a, ");
    ebb_str_add(&s, "a]\n");
    expect_fast("60,000 values", &s, valid);
    ebb_str_clear(&s);
    ebb_str_add(&s, "description: ");
    while (s.length < 600000)
        ebb_str_add(&s, "long ");
    expect_fast("600 kB", &s, valid);
    ebb_str_clear(&s);
    for (int i = 0; i < 999; i++) /* within every limit of the parser: each is a finding of ours */
        ebb_str_printf(&s, "max_restars%d: {a: %d}\n", i, i);
    expect_fast("999 unknown keys", &s, valid);
    ebb_str_clear(&s);
    ebb_str_add(&s, "bind_mounts:\n");
    for (int i = 0; i < 6000; i++)
        ebb_str_add(&s, "- {host_pth: a}\n");
    expect_fast("6,000 bad mounts", &s, valid);
    ebb_str_fini(&s);
}

/* Four times the text: about four times as long, and by far not sixteen. */
TEST(bombs__large_valid_files_take_time_in_proportion)
{
    double part = valid_ms(write_hparams, 225), whole = valid_ms(write_hparams, 900);
    print_message("  900 hyperparameters    %6.2f ms, 225: %.2f ms\n", whole, part);
    CHECK(whole < 10 * part + 1);
    part = valid_ms(write_mounts, 975), whole = valid_ms(write_mounts, 3900);
    print_message("  3,900 mounts           %6.2f ms, 975: %.2f ms\n", whole, part);
    CHECK(whole < 10 * part + 1);
}

/* ---- random files made from the table ---- */

static uint64_t below(uint64_t *rng, uint64_t n)
{
    return ebb_splitmix64(rng) % n;
}

/* A value for a row: usually of its type, once in `wildness` anything. */
static void add_value(uint64_t *rng, uint64_t wildness, const struct ebb_key *row,
                      struct ebb_str *out)
{
    static const char *const wild[] = {"null",  "3",    "-1",          "2.5",  "'text'", "[]",
                                       "{}",    "true", "[1, a]",      "1e99", "''",     "{cpu: x}",
                                       "[A=1]", "/abs", "{type: int}", "a:b",  "'${lr}'"};
    size_t index, n = 0;
    if (below(rng, wildness) == 0) {
        ebb_str_add(out, wild[below(rng, sizeof wild / sizeof wild[0])]);
        return;
    }
    if (row->kind == EBB_KEY_OWN) {
        const struct {
            const struct ebb_key_type *type;
            const char *text;
        } own[] = {
            {&exp_type_labels, "[a, b, a]"},
            {&exp_type_command, "[a, b, a]"},
            {&exp_type_image, below(rng, 2) ? "i" : "{gpu: i}"},
            {&exp_type_variables, below(rng, 2) ? "[A=1, A=2]" : "{cpu: [B=1]}"},
            {&exp_type_mounts, "[{host_path: /a, container_path: b}]"},
            {row->type, "{a: 1}"},
        };
        size_t i = 0;
        while (own[i].type != row->type)
            i++;
        ebb_str_add(out, own[i].text);
        return;
    }
    switch (row->kind) {
    case EBB_KEY_INT:
        ebb_str_printf(out, "%d", 1 + (int)below(rng, 40));
        break;
    case EBB_KEY_DOUBLE:
        ebb_str_add(out, row->bounds && strchr(row->bounds, '<') ? "0.25" : "2.5");
        break;
    case EBB_KEY_BOOL:
        ebb_str_add(out, below(rng, 2) ? "true" : "false");
        break;
    case EBB_KEY_WORD:
        index = below(rng, ebb_words_count(row->words));
        ebb_str_addn(out, ebb_words_at(row->words, index, &n), n);
        break;
    case EBB_KEY_TEXT:
        if (row->allowed && strcmp(row->allowed, "a UUID") == 0)
            ebb_str_add(out, "01234567-89ab-cdef-0123-456789abcdef");
        else if (row->allowed && strstr(row->allowed, "://"))
            ebb_str_add(out, "'http://name:1'");
        else
            ebb_str_add(out, row->words ? "shared" : "/path");
        break;
    case EBB_KEY_NODE:
        ebb_str_add(out, wild[below(rng, sizeof wild / sizeof wild[0])]);
        break;
    case EBB_KEY_NODES:
    case EBB_KEY_INTS:
        ebb_str_add(out, "[2, 3]");
        break;
    default:
        ebb_str_add(out, "{a: 1}");
        break;
    }
}

static bool is_there(const char *const *keys, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* Members of a section, each key with some probability. */
static void add_section(uint64_t *rng, uint64_t wildness, const char *section, const char *tag,
                        struct ebb_str *out)
{
    const struct ebb_section here = {.table = &exp_schema, .prefix = section};
    const char *keys[64];
    size_t count = 0;
    ebb_str_addc(out, '{');
    for (size_t i = 0; i < exp_schema.count; i++) {
        const struct ebb_key *row = &exp_schema.rows[i];
        bool is_tag = (row->flags & EBB_KEY_TAG) && tag;
        uint64_t odds = row->flags & EBB_KEY_REQUIRED ? 2 * wildness : 3;
        if (!ebb_section_has(&here, row) ||
            (!ebb_key_applies(row, tag) && below(rng, 2 * wildness)) ||
            is_there(keys, count, ebb_key_name(row)) || below(rng, odds) == 0)
            continue;
        if (!(row->flags & EBB_KEY_REQUIRED) && !is_tag && below(rng, 2))
            continue;
        ebb_str_printf(out, "%s%s: ", count ? ", " : "", ebb_key_name(row));
        if (is_tag)
            ebb_str_add(out, tag);
        else if (row->kind == EBB_KEY_MAP)
            add_section(rng, wildness, ebb_key_section(&exp_schema, row).prefix, NULL, out);
        else
            add_value(rng, wildness, row, out);
        keys[count++] = ebb_key_name(row);
    }
    ebb_str_addc(out, '}');
}

static void add_tagged(uint64_t *rng, uint64_t wildness, const char *section, struct ebb_str *out)
{
    char tag[32];
    size_t n = 0;
    const struct ebb_section here = {.table = &exp_schema, .prefix = section};
    const struct ebb_key *row = ebb_section_tag(&here);
    size_t index = below(rng, ebb_words_count(row->words));
    const char *word = ebb_words_at(row->words, index, &n);
    snprintf(tag, sizeof tag, "%.*s", (int)n, word);
    add_section(rng, wildness, section, tag, out);
}

static void random_file(uint64_t *rng, struct ebb_str *out)
{
    const struct ebb_section here = {.table = &exp_schema};
    uint64_t wildness = below(rng, 2) ? 12 : 500;
    ebb_str_printf(out, "entrypoint: %s\n", below(rng, 3) ? "a:b" : "ebb:gan");
    ebb_str_add(out, "hyperparameters: {global_batch_size: 64, lr: ");
    add_tagged(rng, wildness, "hyperparameters.*", out);
    ebb_str_add(out, "}\nsearcher: ");
    add_tagged(rng, wildness, "searcher", out);
    ebb_str_addc(out, '\n');
    if (below(rng, 8)) /* searcher.early_stopping needs it */
        ebb_str_printf(out, "min_validation_period: %d\n", (int)below(rng, 3 * wildness));
    if (below(rng, 2)) {
        ebb_str_add(out, "checkpoint_storage: ");
        add_tagged(rng, wildness, "checkpoint_storage", out);
        ebb_str_addc(out, '\n');
    }
    for (size_t i = 0; i < exp_schema.count; i++) {
        const struct ebb_key *row = &exp_schema.rows[i];
        static const char taken[] =
            "entrypoint hyperparameters searcher checkpoint_storage min_validation_period";
        if (!ebb_section_has(&here, row) ||
            ebb_words_find(taken, row->path, strlen(row->path), NULL) || below(rng, 4))
            continue;
        ebb_str_printf(out, "%s: ", row->path);
        if (row->kind == EBB_KEY_MAP)
            add_section(rng, wildness, ebb_key_section(&exp_schema, row).prefix, NULL, out);
        else
            add_value(rng, wildness, row, out);
        ebb_str_addc(out, '\n');
    }
}

/* Reading the normalised form again gives the normalised form (C3), and warnings do not multiply.
 */
static void check_fixed_point(const struct exp_config *config)
{
    struct ebb_arena arena;
    struct exp_config again;
    struct ebb_report report;
    struct ebb_error err = {0};
    struct exp_config_options options = {.file_name = "normalised", .default_seed = -1};
    ebb_arena_init(&arena);
    CHECK_OK(exp_config_read(&arena, config->normalized, &options, &again, &report, &err), &err);
    CHECK(ebb_doc_equal(config->normalized, again.normalized));
    ebb_arena_fini(&arena);
}

TEST(random__files_are_accepted_to_a_fixed_point_or_refused_in_order)
{
    uint64_t rng = 20240531;
    int accepted = 0;
    for (int i = 0; i < 4000; i++) {
        struct ebb_str text;
        struct ebb_arena arena;
        struct exp_config config = {0};
        struct ebb_report report;
        struct ebb_error err = {0};
        struct exp_config_options options = {.file_name = "random", .default_seed = -1};
        ebb_str_init(&text);
        ebb_arena_init(&arena);
        random_file(&rng, &text);
        enum ebb_status status =
            exp_config_parse(&arena, text.data, text.length, &options, &config, &report, &err);
        if (status == EBB_OK)
            check_fixed_point(&config);
        else if (status != EBB_EINPUT || report.items[0].line == 0)
            fail_msg("%s\n%s", ebb_str_c(&text), err.message); /* the generator makes valid YAML */
        CHECK_EQ(report.errors == 0, status == EBB_OK);
        for (size_t k = 1; k < report.count; k++)
            CHECK(report.items[k - 1].line < report.items[k].line ||
                  (report.items[k - 1].line == report.items[k].line &&
                   report.items[k - 1].column <= report.items[k].column));
        accepted += status == EBB_OK;
        ebb_arena_fini(&arena);
        ebb_str_fini(&text);
    }
    print_message("  %d of 4000 accepted\n", accepted);
    CHECK(accepted > 200 && accepted < 3800);
}

TEST(rich__file_is_a_fixed_point)
{
    struct reading r;
    reading_open(&r, rich);
    CHECK_OK(r.status, &r.err);
    check_fixed_point(&r.config);
    reading_close(&r);
}

/* ---- the table itself ---- */

TEST(table__rows_are_complete)
{
    for (size_t i = 0; i < exp_schema.count; i++) {
        const struct ebb_key *row = &exp_schema.rows[i];
        CHECK(row->path && row->help && row->help[0]);
        CHECK((row->kind == EBB_KEY_WORD) <= (row->words != NULL));
        CHECK(!(row->preset && (row->flags & EBB_KEY_REQUIRED)));
        CHECK(!(row->check && !row->allowed));
        if (row->kind == EBB_KEY_WORD && row->preset)
            CHECK(ebb_words_find(row->words, row->preset, strlen(row->preset), NULL));
        if (row->when) {
            size_t n = 0;
            char section[64];
            snprintf(section, sizeof section, "%.*s", (int)(ebb_key_name(row) - row->path) - 1,
                     row->path);
            const struct ebb_section here = {.table = &exp_schema, .prefix = section};
            const struct ebb_key *tag = ebb_section_tag(&here);
            CHECK(tag != NULL);
            for (size_t k = 0; ebb_words_at(row->when, k, &n); k++)
                CHECK(ebb_words_find(tag->words, ebb_words_at(row->when, k, &n), n, NULL));
        }
    }
}

TEST_MAIN()
