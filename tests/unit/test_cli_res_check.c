/* What --res_check calls a difference. */
#include "test.h"

#include <math.h>

#include "cli/res_check.h"

TEST(res_check__any_bit_of_a_loss_or_the_weights)
{
    struct cli_res a = {.losses = {5, 4, 3, 2, 0.0}, .hash = "ab"}, b = a;
    CHECK_EQ(cli_res_differ(&a, &b), 0);
    b.losses[4] = -0.0;
    CHECK_EQ(cli_res_differ(&a, &b), 5);
    b.losses[1] = nextafter(4, 5);
    CHECK_EQ(cli_res_differ(&a, &b), 2);
    b = a;
    b.hash[1] = 'c';
    CHECK_EQ(cli_res_differ(&a, &b), CLI_RES_UPDATES + 1);
}

TEST_MAIN()
