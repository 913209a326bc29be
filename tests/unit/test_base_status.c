#include "test.h"

#include <stdio.h>

#include "base/status.h"

TEST(fail__fills_code_and_text)
{
    struct ebb_error err;
    CHECK_EQ(ebb_fail(&err, EBB_EBUDGET, "step %d needs %s", 41, "512 MiB"), EBB_EBUDGET);
    CHECK_EQ(err.status, EBB_EBUDGET);
    CHECK_STR(err.message, "step 41 needs 512 MiB");
}

TEST(fail__without_error_returns_code)
{
    CHECK_EQ(ebb_fail(NULL, EBB_EIO, "x"), EBB_EIO);
    CHECK_EQ(ebb_context(NULL, EBB_EIO, "x"), EBB_EIO);
    CHECK_EQ(ebb_no_memory(NULL, 5), EBB_ENOMEM);
}

TEST(fail__cuts_long_messages_visibly)
{
    struct ebb_error err;
    char longer[3000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    ebb_fail(&err, EBB_EINPUT, "%s", longer);
    CHECK_EQ(strlen(err.message), sizeof err.message - 1);
    CHECK_STR(err.message + sizeof err.message - 4, "...");
}

TEST(fail__may_quote_its_own_message)
{
    struct ebb_error err;
    ebb_fail(&err, EBB_EINPUT, "inner");
    ebb_fail(&err, EBB_EINPUT, "outer (%s)", err.message);
    CHECK_STR(err.message, "outer (inner)");
}

TEST(fail__shows_no_control_characters)
{
    struct ebb_error err;
    ebb_fail(&err, EBB_EINPUT, "%s", "a.npy\x1b[2J\x07\x7f\xc2\x9b\n\tb \xc3\xa4");
    CHECK_STR(err.message, "a.npy?[2J????\n\tb \xc3\xa4");
}

TEST(context__stands_before_the_message)
{
    struct ebb_error err;
    ebb_fail(&err, EBB_EIO, "disk full");
    CHECK_EQ(ebb_context(&err, err.status, "checkpoint %d", 3), EBB_EIO);
    CHECK_STR(err.message, "checkpoint 3: disk full");
    for (int i = 0; i < 200; i++)
        ebb_context(&err, err.status, "level %d", i);
    CHECK_EQ(strlen(err.message), sizeof err.message - 1);
    CHECK_STR(err.message + sizeof err.message - 4, "...");
    CHECK_EQ(memcmp(err.message, "level 199: level 198: ", 22), 0);
}

TEST(text__names_every_status)
{
    CHECK_STR(ebb_status_text(EBB_OK), "ok");
    CHECK_STR(ebb_status_text(EBB_EINTERNAL), "internal error");
    CHECK_STR(ebb_status_text((enum ebb_status)77), "unknown status");
}

TEST_MAIN()
