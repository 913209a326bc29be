/* table.c - the methods by their kind: rows of EXP_SEARCHERS (exp/config/types.h). */
#include "exp/search/method.h"

const struct exp_search_method exp_method_none = {0};

const struct exp_search_method *exp_method_find(enum exp_searcher_kind kind)
{
    static const struct exp_search_method *const methods[] = {
#define X(KIND, name, method) &exp_method_##method,
        EXP_SEARCHERS(X)
#undef X
    };
    bool is_row = (size_t)kind < sizeof methods / sizeof *methods;
    return is_row && methods[kind]->start != NULL ? methods[kind] : NULL;
}
