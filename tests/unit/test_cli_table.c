/* Tables: alignment, UTF-8, blanks, control characters, memory. And the interrupt flag. */
#include "test.h"

#include <signal.h>
#include <stdio.h>

#include "base/heap.h"
#include "cli/cli.h"

static char text[4096];

static const char *print(struct cli_table *table)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    cli_table_print(table, f);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    cli_table_destroy(table);
    return text;
}

TEST(table__aligns_numbers_right_and_text_left)
{
    struct cli_table *t = cli_table_create((const char *const[]){"name", "peak", "id"}, 3);
    cli_table_cell(t, "%s", "dtr");
    cli_table_cell(t, "%.2f MiB", 1.5);
    cli_table_cell(t, "%s", "3fa9");
    cli_table_cell(t, "largest");
    cli_table_cell(t, "%d B", 512);
    cli_table_cell(t, "7");
    CHECK_STR(print(t), "name         peak  id\n"
                        "dtr      1.50 MiB  3fa9\n"
                        "largest     512 B  7\n");
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(table__knows_numbers)
{
    static const char *const numbers[] = {"1",  "-1.5e-3",    "34.5%", "1.20x",     "3 s",
                                          "+7", "2 min 05 s", ".5",    "12.5 img/s"};
    static const char *const others[] = {"3fa9", "2024-01-02",     "1 - 2",
                                         "x1",   "1 verylongword", "--"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct cli_table *t = cli_table_create((const char *const[]){"a wide header"}, 1);
        cli_table_cell(t, "%s", numbers[i]);
        if (strstr(print(t), "\n ") == NULL)
            fail_msg("'%s' was not taken for a number", numbers[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct cli_table *t = cli_table_create((const char *const[]){"a wide header"}, 1);
        cli_table_cell(t, "%s", others[i]);
        if (strstr(print(t), "\n ") != NULL)
            fail_msg("'%s' was taken for a number", others[i]);
    }
}

TEST(table__leaves_no_blanks_at_line_ends)
{
    struct cli_table *t = cli_table_create((const char *const[]){"a", "b", "c"}, 3);
    cli_table_cell(t, "long text");
    cli_table_cell(t, "%s", "");
    cli_table_cell(t, "%s", "");
    cli_table_cell(t, "x");
    cli_table_cell(t, "-");
    cli_table_cell(t, "y");
    CHECK_STR(print(t), "a          b  c\n"
                        "long text\n"
                        "x          -  y\n");
}

TEST(table__counts_characters_and_tames_controls)
{
    struct cli_table *t = cli_table_create((const char *const[]){"näme", "b"}, 2);
    cli_table_cell(t, "a\nb\x1b[2J");
    cli_table_cell(t, "x");
    cli_table_cell(t, "größe×8");
    cli_table_cell(t, "y");
    CHECK_STR(print(t), "näme     b\n"
                        "a b?[2J  x\n"
                        "größe×8  y\n");
}

TEST(table__prints_an_unfinished_row)
{
    struct cli_table *t = cli_table_create((const char *const[]){"a", "b"}, 2);
    cli_table_cell(t, "only");
    CHECK_STR(print(t), "a     b\nonly\n");
}

TEST(table__says_when_memory_is_out)
{
    for (uint64_t n = 1; n < 100; n++) {
        ebb_heap_fail_at(n);
        struct cli_table *t = cli_table_create((const char *const[]){"a", "b"}, 2);
        cli_table_cell(t, "1");
        cli_table_cell(t, "2");
        print(t);
        ebb_heap_fail_at(0);
        CHECK_EQ(ebb_heap_live(), 0);
        if (strcmp(text, "a  b\n1  2\n") == 0)
            return;
        CHECK_STR(text, "(no memory for this table)\n");
    }
    fail_msg("never succeeded");
}

TEST(table__quotes_csv)
{
    struct cli_table *t = cli_table_create((const char *const[]){"id", "note"}, 2);
    cli_table_cell(t, "1");
    cli_table_cell(t, "a, \"b\"");
    FILE *f = tmpfile();
    assert_non_null(f);
    cli_table_csv(t, f);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    cli_table_destroy(t);
    CHECK_STR(text, "id,note\r\n1,\"a, \"\"b\"\"\"\r\n");
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(table__has_rules_for_experiments)
{
    struct cli_table *t = cli_table_create((const char *const[]){"ID", "Name", "Note"}, 3);
    const char *const cells[] = {"7", "long name", "", "12", "x", "ok"};
    for (size_t i = 0; i < 6; i++)
        cli_table_cell(t, "%s", cells[i]);
    FILE *f = tmpfile();
    assert_non_null(f);
    cli_table_ruled(t, f);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    cli_table_destroy(t);
    CHECK_STR(text, " ID | Name      | Note\n"
                    "----+-----------+------\n"
                    "  7 | long name |\n"
                    " 12 | x         | ok\n");
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST(interrupts__set_the_flag_once)
{
    CHECK(!cli_interrupted());
    cli_catch_interrupts();
    raise(SIGTERM);
    CHECK(cli_interrupted());
    struct sigaction now;
    sigaction(SIGTERM, NULL, &now);
    CHECK(now.sa_handler == SIG_DFL); /* the second one kills */
}

TEST_MAIN()
