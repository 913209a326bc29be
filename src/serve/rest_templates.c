/* rest_templates.c - pieces of configuration kept by name. */
#include "serve/rest.h"

#define AT(member) offsetof(struct exp_db_template, member)
static const struct serve_column columns[] = {
    {"name", SERVE_TEXT, AT(name), 0},
    {"config", SERVE_TEXT, AT(config), 0},
};

static enum ebb_status list(struct serve_rest *r)
{
    struct exp_db_template row;
    serve_begin_list(r, "templates");
    struct exp_db_cursor c = exp_db_templates(r->db, NULL, &row, r->err);
    while (exp_db_fetch(&c)) {
        c.status = serve_template_hide(r, &row);
        if (c.status == EBB_OK)
            serve_write_object(&r->w, SERVE_COLUMNS(columns), &row);
    }
    serve_end_list(r);
    return exp_db_end(&c);
}

static enum ebb_status get(struct serve_rest *r)
{
    struct exp_db_template row;
    EBB_TRY(serve_find(r, exp_db_template_read(r->db, EXP_DB_NAME(r->name), &row, r->err),
                       "no template %s", r->name));
    EBB_TRY(serve_template_hide(r, &row));
    serve_write_object(&r->w, SERVE_COLUMNS(columns), &row);
    return EBB_OK;
}

/* Masks are what the stored one has there. */
static enum ebb_status reveal(struct serve_rest *r, const struct ebb_doc_node **text)
{
    struct exp_db_template old;
    bool is_there = false;
    EBB_TRY(exp_db_only(exp_db_template_read(r->db, EXP_DB_NAME(r->name), &old, r->err), r->arena,
                        &is_there));
    return serve_template_reveal(r, is_there ? &old : NULL, text);
}

static enum ebb_status put(struct serve_rest *r)
{
    const struct ebb_doc_node *text = ebb_doc_get(r->body, "config"), *root = NULL;
    struct ebb_error why;
    if (text == NULL || text->kind != EBB_DOC_STRING)
        return serve_refuse(r, 400, "config: missing, or not a text");
    EBB_TRY(reveal(r, &text));
    enum ebb_status status =
        ebb_doc_parse_yaml(r->arena, r->name, text->text, text->length, &root, &why);
    EBB_TRY(serve_blame(r, status, &why, 400, ""));
    if (root->kind != EBB_DOC_MAP)
        return serve_refuse(r, 400, "a template is a mapping");
    struct ebb_report report = {0};
    struct ebb_str lines = {0};
    status =
        exp_template_check(r->arena, r->name, root, r->info.options->check_section, &report, &why);
    ebb_report_lines(&report, &lines);
    if (status == EBB_EINPUT && lines.length > 0)
        lines.data[--lines.length] = '\0'; /* the end of the last line */
    if (status == EBB_EINPUT)
        status = serve_refuse(r, 400, "%s", ebb_str_c(&lines));
    else
        status = serve_blame(r, status, &why, 400, "");
    ebb_str_fini(&lines);
    EBB_TRY(status);
    struct exp_db_template row = {.name = r->name, .config = text->text};
    EBB_TRY(exp_db_template_write(r->db, &row, r->err));
    return get(r);
}

static enum ebb_status delete (struct serve_rest *r) {
    EBB_TRY(get(r)); ebb_str_clear(&r->response->body); r->response->status = 204;
    return exp_db_template_delete(r->db, EXP_DB_NAME(r->name), r->err);
}

static const struct serve_route routes[] = {
    {"GET", "/templates", list, "list templates", 0},
    {"GET", "/templates/*", get, "one template", 0},
    {"PUT", "/templates/*", put, "store a template", 0},
    {"DELETE", "/templates/*", delete, "delete a template", 0},
};
const struct serve_routes serve_routes_templates = SERVE_ROUTES(routes);
