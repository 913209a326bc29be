/* tables.c - memory.use_cpu_embedding: programs whose tables live in host memory, looked up and
 * updated there. How a program runs is then decided for its light trace (planner.h), with what its
 * tables leave of the host, and said for the program itself. */
#include "base/heap.h"
#include "train/engine_inside.h"

#define OPTION "memory.use_cpu_embedding"

/* Which leaves are tables follows from the first program; the others have the same. */
static enum ebb_status find(struct train_engine *e, const struct train_program *p, bool *is_table,
                            struct ebb_error *err)
{
    struct ebb_error why = {0};
    if (!e->is_table) {
        enum ebb_status status = planner_tables_find(p->trace, is_table, &why);
        if (status == EBB_EINFEASIBLE)
            return ebb_fail(err, EBB_EINPUT,
                            OPTION ": true is about tables that lookups alone read: %s",
                            why.message);
        if (status != EBB_OK)
            return ebb_fail(err, status, "%s", why.message);
        EBB_TRY(ebb_new(&e->is_table, (size_t)p->persistent_count + 1, sizeof *e->is_table, err));
        for (uint32_t leaf = 0; leaf < p->persistent_count; leaf++)
            e->is_table[leaf] = is_table[train_leaf_storage(p, leaf)];
    }
    for (uint32_t leaf = 0; leaf < p->persistent_count; leaf++)
        is_table[train_leaf_storage(p, leaf)] = e->is_table[leaf];
    return EBB_OK;
}

enum ebb_status train_tables_make(struct train_engine *e, struct train_program *p,
                                  struct ebb_error *err)
{
    bool *is_table;
    if (e->options.wishes.cpu_embedding != TRAIN_ON)
        return EBB_OK;
    EBB_TRY(ebb_new(&is_table, (size_t)p->trace->storage_count + 1, sizeof *is_table, err));
    enum ebb_status status = find(e, p, is_table, err);
    EBB_THEN(status, planner_tables_create(&p->tables, p->trace, is_table, err));
    ebb_free(is_table);
    EBB_TRY(status);
    uint64_t bytes = planner_tables_bytes(p->tables);
    if (bytes > e->ways.host_bytes)
        return ebb_fail(err, EBB_EBUDGET,
                        OPTION ": true needs %llu bytes of host memory for the tables of %s, what "
                               "belongs to them and what is looked up; host has %llu",
                        (unsigned long long)bytes, p->trace->name,
                        (unsigned long long)e->ways.host_bytes);
    return exec_program_create(&p->light, planner_tables_light(p->tables), EXEC_EBB, err);
}

enum ebb_status train_tables_reprice(struct train_program *p, struct ebb_error *err)
{
    if (!p->tables)
        return EBB_OK;
    planner_tables_reprice(p->tables);
    exec_program_destroy(p->light);
    p->light = NULL;
    return exec_program_create(&p->light, planner_tables_light(p->tables), EXEC_EBB, err);
}

void train_tables_fini(struct train_program *p)
{
    exec_program_destroy(p->light);
    planner_tables_destroy(p->tables);
    plan_homes_fini(&p->light_homes);
    plan_fini(&p->said);
    p->tables = NULL;
    p->light = NULL;
}

/* ---- deciding --------------------------------------------------------------------------------- */

enum ebb_status train_tables_ways(struct train_program *p, struct train_ways *w,
                                  struct ebb_error *err)
{
    if (!p->tables)
        return EBB_OK;
    if (w->is_settled)
        EBB_TRY(planner_tables_homes(p->tables, &p->homes, false, &p->light_homes, err));
    w->homes = &p->light_homes;
    w->host_bytes -= planner_tables_bytes(p->tables);
    return EBB_OK;
}

/* What the plan will do, on the null device. */
static enum ebb_status predict(const struct train_engine *e, struct train_program *p,
                               struct ebb_error *err)
{
    struct exec_options o = train_ways_options(&e->ways);
    struct train_program_info *info = &p->choice.info;
    o.plan = &p->said;
    o.policy = NULL;
    EBB_TRY(exec_run(p->exec, &o, &info->report, err));
    info->peak_bytes = info->report.peak_bytes;
    info->overhead = exec_overhead(&info->report);
    return EBB_OK;
}

/* Copies that find no place beside the tables have less room in the next try. */
enum ebb_status train_tables_decide(const struct train_engine *e, struct train_program *p,
                                    struct train_ways *w, struct ebb_error *err)
{
    const uint64_t bytes[PLAN_TIERS] = {e->ways.budget_bytes, e->ways.host_bytes,
                                        e->ways.file_bytes};
    for (;;) {
        struct ebb_error why = {0};
        EBB_TRY(train_choice_make(w, &p->choice, err));
        enum ebb_status status =
            planner_tables_plan(p->tables, &p->choice.plan, bytes, &p->said, &why);
        if (status == EBB_OK)
            return predict(e, p, err);
        if (status != EBB_EBUDGET || w->host_bytes < 4 * PLAN_UNIT)
            return ebb_fail(err, status, "%s", why.message);
        w->host_bytes /= 2;
        p->choice.is_made = false;
    }
}

enum ebb_status train_tables_below(const struct train_engine *e, struct train_program *p,
                                   struct ebb_error *err)
{
    struct planner_tiers tiers = {
        .bytes = {0, e->ways.host_bytes - planner_tables_bytes(p->tables), e->ways.file_bytes}};
    struct plan_homes homes = {0};
    enum ebb_status status =
        planner_homes(planner_tables_light(p->tables), &tiers, 1, PLANNER_SMALL_TOO, &homes, err);
    EBB_THEN(status, planner_tables_homes(p->tables, &homes, true, &p->said.homes, err));
    plan_homes_fini(&homes);
    return status;
}
