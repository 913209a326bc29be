/* table.c - every search method: one line each. */
#include "exp/search/method.h"

static const struct exp_search_method *const methods[] = {
    &exp_method_single,        &exp_method_random,          &exp_method_grid,
    &exp_method_adaptive,      &exp_method_adaptive_simple, &exp_method_pbt,
    &exp_method_adaptive_asha, &exp_method_async_halving,   &exp_method_tpe,
    &exp_method_custom,
};

const struct exp_search_method *exp_method_find(enum exp_searcher_kind kind)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i]->kind == kind)
            return methods[i];
    return NULL;
}
