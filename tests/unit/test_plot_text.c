/* Words on charts: nothing a user types may become markup or broken UTF-8; nothing overlaps. */
#include "test.h"

#include <stdio.h>

#include "base/heap.h"
#include "plot/text.h"

static const char *cleaned(const char *text, size_t columns)
{
    static char buf[512];
    struct ebb_str s;
    ebb_str_init(&s);
    plot_text_clean(&s, text, strlen(text), columns);
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

TEST(clean__blanks_controls)
{
    CHECK_STR(cleaned("a\nb\r\tc\x1b[2J\x7f", 99), "a b  c [2J ");
    CHECK_STR(cleaned("x\xc2\x85y", 99), "x y"); /* C1 */
}

TEST(clean__mends_broken_utf8)
{
    CHECK_STR(cleaned("ü 漢 😀", 99), "ü 漢 😀");
    CHECK_STR(cleaned("a\xff"
                      "b",
                      99),
              "a\xef\xbf\xbd"
              "b");
    CHECK_STR(cleaned("cut \xe6\xbc", 99), "cut \xef\xbf\xbd\xef\xbf\xbd");
    CHECK_STR(cleaned("\xc0\xaf", 99), "\xef\xbf\xbd\xef\xbf\xbd");                 /* overlong */
    CHECK_STR(cleaned("\xed\xa0\x80", 99), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* surrogate */
}

TEST(clean__cuts_by_characters)
{
    CHECK_STR(cleaned("äöüß", 4), "äöüß");
    CHECK_STR(cleaned("äöüßx", 4), "äöü…");
}

TEST(pixels__are_those_of_the_widest_font)
{
    CHECK(plot_text_pixels("", 10) == 0);
    CHECK(plot_text_pixels("iii", 10) > 8.3 && plot_text_pixels("iii", 10) < 8.5);
    CHECK(plot_text_pixels("WWW", 10) > 29 && plot_text_pixels("WWW", 10) < 30);
    CHECK(plot_text_pixels("漢字", 10) == 20);
    CHECK(plot_text_pixels("\xff\n", 10) == plot_text_pixels("\xef\xbf\xbd ", 10)); /* as drawn */
}

TEST(fit__cuts_by_pixels_with_room_for_the_dots)
{
    const char *text = "a name that is too long";
    for (double room = 12; room < 300; room += 7.5) {
        const char *shown = cleaned(text, plot_text_fit(text, strlen(text), room, 11.5));
        CHECK(plot_text_pixels(shown, 11.5) <= room);
        CHECK(strcmp(shown, text) == 0 || strstr(shown, "…") != NULL);
    }
    CHECK_EQ(plot_text_fit(text, strlen(text), 300, 11.5), strlen(text));
    CHECK_STR(cleaned(text, plot_text_fit(text, 6, 300, 11.5)), "a nam…"); /* of its first 6 */
}

TEST(xml__escapes_markup)
{
    CHECK_STR(xml("a<b> & 'c' \"d\""), "a&lt;b&gt; &amp; 'c' \"d\"");
}

TEST(line__breaks_at_blanks_and_newlines)
{
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
    const char *next;
    CHECK_EQ(plot_text_line("abcdefgh", 3, &next), 3);
    CHECK_STR(next, "defgh");
}

TEST(text__leaks_nothing)
{
    CHECK_EQ(ebb_heap_live(), 0);
}

TEST_MAIN()
