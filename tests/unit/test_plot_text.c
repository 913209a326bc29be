/* Words on charts: nothing a user types may become a command, markup or broken UTF-8. */
#include "test.h"

#include <stdio.h>

#include "base/heap.h"
#include "plot/text.h"

static const char *quoted(const char *text, size_t columns)
{
    static char buf[512];
    struct ebb_str s;
    ebb_str_init(&s);
    plot_text_quote(&s, text, columns);
    snprintf(buf, sizeof buf, "%s", ebb_str_c(&s));
    ebb_str_fini(&s);
    return buf;
}

static const char *xml(const char *text)
{
    static char buf[512];
    struct ebb_str s;
    ebb_str_init(&s);
    plot_text_xml(&s, text);
    snprintf(buf, sizeof buf, "%s", ebb_str_c(&s));
    ebb_str_fini(&s);
    return buf;
}

TEST(quote__doubles_single_quotes)
{
    TEST_UNUSED;
    CHECK_STR(quoted("it's", 99), "'it''s'");
    CHECK_STR(quoted("'", 99), "''''");
    CHECK_STR(quoted("", 99), "''");
}

TEST(quote__leaves_what_single_quotes_protect)
{
    TEST_UNUSED;
    CHECK_STR(quoted("a\\b \"c\" `ls` @m $x %d", 99), "'a\\b \"c\" `ls` @m $x %d'");
    CHECK_STR(quoted("dtr_eq x^2 {a} ~ & #", 99), "'dtr_eq x^2 {a} ~ & #'");
    CHECK_STR(quoted("ends in \\", 99), "'ends in \\'");
}

TEST(quote__blanks_controls)
{
    TEST_UNUSED;
    CHECK_STR(quoted("a\nb\r\tc\x1b[2J\x7f", 99), "'a b  c [2J '");
    CHECK_STR(quoted("x\xc2\x85y", 99), "'x y'"); /* C1 */
}

TEST(quote__mends_broken_utf8)
{
    TEST_UNUSED;
    CHECK_STR(quoted("ü 漢 😀", 99), "'ü 漢 😀'");
    CHECK_STR(quoted("a\xff"
                     "b",
                     99),
              "'a\xef\xbf\xbd"
              "b'");
    CHECK_STR(quoted("cut \xe6\xbc", 99), "'cut \xef\xbf\xbd\xef\xbf\xbd'");
    CHECK_STR(quoted("\xc0\xaf", 99), "'\xef\xbf\xbd\xef\xbf\xbd'");                 /* overlong */
    CHECK_STR(quoted("\xed\xa0\x80", 99), "'\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd'"); /* surrogate */
}

TEST(quote__cuts_by_characters)
{
    TEST_UNUSED;
    CHECK_STR(quoted("äöüß", 4), "'äöüß'");
    CHECK_STR(quoted("äöüßx", 4), "'äöü…'");
}

TEST(xml__escapes_markup)
{
    TEST_UNUSED;
    CHECK_STR(xml("a<b> & 'c' \"d\""), "a&lt;b&gt; &amp; 'c' \"d\"");
}

TEST(line__breaks_at_blanks_and_newlines)
{
    TEST_UNUSED;
    const char *next, *text = "one two three\nfour";
    CHECK_EQ(plot_text_line(text, 9, &next), 7); /* "one two" */
    CHECK_STR(next, "three\nfour");
    CHECK_EQ(plot_text_line(next, 9, &next), 5);
    CHECK_STR(next, "four");
    CHECK_EQ(plot_text_line(next, 9, &next), 4);
    assert_null(next);
}

TEST(line__splits_a_word_that_is_too_long)
{
    TEST_UNUSED;
    const char *next;
    CHECK_EQ(plot_text_line("abcdefgh", 3, &next), 3);
    CHECK_STR(next, "defgh");
}

TEST(text__leaks_nothing)
{
    TEST_UNUSED;
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST_MAIN(RUN(quote__doubles_single_quotes), RUN(quote__leaves_what_single_quotes_protect),
          RUN(quote__blanks_controls), RUN(quote__mends_broken_utf8),
          RUN(quote__cuts_by_characters), RUN(xml__escapes_markup),
          RUN(line__breaks_at_blanks_and_newlines), RUN(line__splits_a_word_that_is_too_long),
          RUN(text__leaks_nothing))
