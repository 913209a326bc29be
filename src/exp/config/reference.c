/* reference.c - the reference of the experiment file, written from the table. */
#include <string.h>

#include "exp/config/reader.h"

/* ---- rows as text ---- */

/* "searcher" of "searcher.replace_function.truncate_fraction", "bind_mounts" of "bind_mounts[].x".
 */
static size_t heading_length(const struct ebb_key *row)
{
    return strchr(row->path, '.') ? strcspn(row->path, ".[") : 0;
}

/* The key as it stands below the heading. */
static const char *key_below(const struct ebb_key *row)
{
    size_t n = heading_length(row);
    const char *key = row->path + n;
    if (strncmp(key, "[]", 2) == 0)
        key += 2;
    if (*key == '.')
        key++;
    return strncmp(key, "*.", 2) == 0 ? key + 2 : key;
}

static bool same_heading(const struct ebb_key *a, const struct ebb_key *b)
{
    size_t n = heading_length(a);
    return n == heading_length(b) && memcmp(a->path, b->path, n) == 0;
}

static void say_default(const struct ebb_key *row, struct ebb_str *out)
{
    if (row->flags & EBB_KEY_REQUIRED)
        ebb_str_add(out, "**required**");
    else if (row->preset)
        ebb_str_printf(out, "`%s`", row->preset[0] ? row->preset : "\"\"");
    else if (row->kind == EBB_KEY_OWN && row->type->empty == EBB_DOC_LIST)
        ebb_str_add(out, "`[]`");
    else if (row->flags & EBB_KEY_NULLABLE)
        ebb_str_add(out, "`null`");
    else if (row->kind == EBB_KEY_FREE && !(row->flags & EBB_KEY_OPTIONAL))
        ebb_str_add(out, "`{}`");
}

/* Table cells cannot hold a bare '|' or '<'. */
static void say_cell(const char *text, struct ebb_str *out)
{
    for (; *text; text++) {
        if (*text == '|')
            ebb_str_addc(out, '\\');
        ebb_str_addc(out, *text);
    }
}

/* The alternatives a row exists in; a row below a mapping has those of the mapping. */
static const char *alternatives(const struct ebb_key *row)
{
    size_t n = (size_t)(ebb_key_name(row) - row->path);
    for (size_t i = 0; !row->when && n > 0 && i < exp_schema.count; i++)
        if (strlen(exp_schema.rows[i].path) == n - 1 &&
            memcmp(exp_schema.rows[i].path, row->path, n - 1) == 0)
            return exp_schema.rows[i].when;
    return row->when;
}

static void add_row(const struct ebb_key *row, bool has_tag, struct ebb_str *out)
{
    struct ebb_str text = {0};
    ebb_str_printf(out, "| `%s` | ", key_below(row));
    if (has_tag) {
        const char *when = alternatives(row);
        ebb_say_words(when ? when : "all", &text);
        ebb_str_printf(out, "%s | ", ebb_str_c(&text));
        ebb_str_clear(&text);
    }
    ebb_say_allowed(row, &text);
    say_cell(ebb_str_c(&text), out);
    ebb_str_add(out, " | ");
    say_default(row, out);
    ebb_str_add(out, " | ");
    if (row->flags & EBB_KEY_OLD)
        ebb_str_add(out, "*(old files)* ");
    if (row->flags & EBB_KEY_BEYOND)
        ebb_str_add(out, "*(ebb)* ");
    say_cell(row->help, out);
    ebb_str_add(out, " |\n");
    ebb_str_fini(&text);
}

static bool section_has_tag(const struct ebb_key *row)
{
    if (heading_length(row) == 0)
        return false;
    for (size_t i = 0; i < exp_schema.count; i++)
        if ((exp_schema.rows[i].flags & EBB_KEY_TAG) && same_heading(&exp_schema.rows[i], row))
            return true;
    return false;
}

static void add_tables(struct ebb_str *out)
{
    for (size_t i = 0; i < exp_schema.count; i++) {
        const struct ebb_key *row = &exp_schema.rows[i];
        bool has_tag = section_has_tag(row);
        if (i == 0 || !same_heading(row, row - 1)) {
            if (heading_length(row) == 0)
                ebb_str_add(out, "\n## Top level\n\n");
            else
                ebb_str_printf(out, "\n## %.*s\n\n", (int)heading_length(row), row->path);
            ebb_str_add(
                out, has_tag ? "| key | of | allowed | default | meaning |\n|---|---|---|---|---|\n"
                             : "| key | allowed | default | meaning |\n|---|---|---|---|\n");
        }
        add_row(row, has_tag, out);
    }
}

/* ---- the page ---- */

static const char introduction[] =
    "# The experiment file\n"
    "\n"
    "<!-- Written by `ebb experiment schema`. Change src/exp/config/schema.c instead. -->\n"
    "\n"
    "A YAML 1.2 mapping (JSON is a subset of it): `yes`, `no`, `on`, `off` are strings, only "
    "`true` and `false` are\n"
    "booleans. At most 256 KiB (as JSON 1 MiB), 1,000 keys per mapping, 32 levels, 20,000 values "
    "after aliases are\n"
    "expanded. Anchors, aliases and `<<` merges are allowed, a key written twice is an error.\n"
    "\n"
    "```yaml\n"
    "entrypoint: ebb:image_classification\n"
    "data: {name: fashion_mnist}\n"
    "model: {name: cifar_resnet20}\n"
    "hyperparameters:\n"
    "  global_batch_size: 64\n"
    "  learning_rate: {type: log, base: 10, minval: -4, maxval: -1}\n"
    "opt: {name: SGD, lr: \"${learning_rate}\"}\n"
    "searcher: {name: adaptive_simple, metric: validation_loss, max_steps: 16, max_trials: 8}\n"
    "```\n"
    "\n"
    "`ebb experiment validate FILE` checks a file and starts nothing. Every error is reported at "
    "once, in the order of\n"
    "the file: `file:line:column: key: what was found, what is allowed, the nearest known name`.\n"
    "\n"
    "## Values\n"
    "\n"
    "- Unknown keys are errors, except inside `data`, `val`, `vals`, `security` and `internal`. A "
    "key of another searcher,\n"
    "  store or kind of hyperparameter is unknown, too.\n"
    "- An integer is not `3.5` and not `\"3\"`, but `3.0` is 3. A number may be an integer. A "
    "string is not a number.\n"
    "- `null` means \"not given\".\n"
    "- With an `ebb:` or `onnx:` entrypoint, `${name}` in a text of `data`, `model`, `opt`, "
    "`lr_schedule`, `loss` or\n"
    "  `memory` stands for the hyperparameter of that name: as the whole text for its value, "
    "inside a longer text for its\n"
    "  spelling. `$${` is a plain `${`.\n"
    "\n"
    "## Layers\n"
    "\n"
    "The effective configuration is made of the defaults below, the site's `checkpoint_storage`, "
    "one template, and the\n"
    "file, each over the one before:\n"
    "\n"
    "| what | rule |\n"
    "|---|---|\n"
    "| number, text, boolean | the later layer wins |\n"
    "| mapping | merged key by key |\n"
    "| list | joined, the earlier layer first |\n"
    "| `labels` | united |\n"
    "| searcher, store or hyperparameter of another kind | keys of the old kind go, keys that all "
    "kinds have stay |\n"
    "| `val`, `vals`, a command | replaced as a whole |\n"
    "| `null` | lets the earlier layer through; where `null` is a value of its own, it wins |\n"
    "\n"
    "A template need not be complete; its keys must exist. What is stored with the experiment is "
    "the *normalised* form:\n"
    "merged, with all defaults written out.\n"
    "\n"
    "In the tables, *(old files)* marks keys that are read so that files of other systems load, "
    "*(ebb)* keys that only\n"
    "ebb has.\n";

static void add_unbuilt(struct ebb_str *out)
{
    ebb_str_add(out, "\n## Valid, but not yet runnable\n\n"
                     "This build checks the following and refuses to run it; `ebb experiment "
                     "validate` says so in notes,\n"
                     "`ebb doctor` lists it.\n\n"
                     "| key | value | reason |\n|---|---|---|\n");
    for (size_t i = 0; i < exp_unbuilt_count; i++) {
        const struct exp_unbuilt *row = &exp_unbuilt_table[i];
        ebb_str_printf(out, "| `%s` | ", row->path);
        say_cell(row->value[0] ? row->value : "any", out);
        ebb_str_printf(out, " | %s |\n", row->reason);
    }
}

void exp_config_reference_markdown(struct ebb_str *out)
{
    ebb_str_add(out, introduction);
    add_tables(out);
    add_unbuilt(out);
}

/* ---- the same for programs ---- */

static void add_json_row(const struct ebb_key *row, struct ebb_json_writer *w)
{
    struct ebb_str allowed = {0};
    ebb_say_allowed(row, &allowed);
    ebb_jsonw_object(w);
    ebb_jsonw_key_string(w, "path", row->path);
    ebb_jsonw_key_string(w, "of", alternatives(row));
    ebb_jsonw_key_string(w, "allowed", ebb_str_c(&allowed));
    ebb_jsonw_key_bool(w, "required", (row->flags & EBB_KEY_REQUIRED) != 0);
    ebb_jsonw_key_string(w, "default", row->preset);
    ebb_jsonw_key_string(w, "origin",
                         row->flags & EBB_KEY_OLD      ? "old files"
                         : row->flags & EBB_KEY_BEYOND ? "ebb"
                                                       : "standard");
    ebb_jsonw_key_string(w, "help", row->help);
    ebb_jsonw_object_end(w);
    ebb_str_fini(&allowed);
}

void exp_config_reference_json(struct ebb_json_writer *w)
{
    ebb_jsonw_object(w);
    ebb_jsonw_key_array(w, "keys");
    for (size_t i = 0; i < exp_schema.count; i++)
        add_json_row(&exp_schema.rows[i], w);
    ebb_jsonw_array_end(w);
    ebb_jsonw_key_array(w, "not_runnable");
    for (size_t i = 0; i < exp_unbuilt_count; i++) {
        ebb_jsonw_object(w);
        ebb_jsonw_key_string(w, "path", exp_unbuilt_table[i].path);
        ebb_jsonw_key_string(w, "value", exp_unbuilt_table[i].value);
        ebb_jsonw_key_string(w, "reason", exp_unbuilt_table[i].reason);
        ebb_jsonw_object_end(w);
    }
    ebb_jsonw_array_end(w);
    ebb_jsonw_object_end(w);
}
