#include "test.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/rng.h"
#include "base/str.h"

TEST(str__grows_and_terminates)
{
    struct ebb_str s;
    ebb_str_init(&s);
    CHECK_STR(ebb_str_c(&s), "");
    ebb_str_add(&s, "ab");
    ebb_str_addc(&s, 'c');
    ebb_str_addn(&s, "def", 2);
    ebb_str_printf(&s, "-%d", 42);
    CHECK_STR(ebb_str_c(&s), "abcde-42");
    CHECK_EQ(s.length, 8);
    char longer[1000];
    memset(longer, 'y', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    ebb_str_printf(&s, "%s!", longer);
    CHECK_EQ(s.length, 8 + 999 + 1);
    CHECK_EQ(s.data[s.length - 1], '!');
    CHECK_EQ(s.data[s.length], '\0');
    ebb_str_clear(&s);
    CHECK_STR(ebb_str_c(&s), "");
    ebb_str_fini(&s);
}

TEST(str__stays_empty_after_running_out)
{
    struct ebb_str s;
    ebb_str_init(&s);
    ebb_str_add(&s, "kept?");
    ebb_heap_fail_at(1);
    for (int i = 0; i < 100; i++)
        ebb_str_add(&s, "0123456789");
    CHECK(s.failed);
    CHECK_STR(ebb_str_c(&s), "");
    CHECK_EQ(ebb_str_status(&s, NULL), EBB_ENOMEM);
    CHECK(!ebb_str_take(&s));
    ebb_str_fini(&s);
    ebb_heap_fail_at(0);
}

TEST(str__take_hands_over)
{
    uint64_t live = ebb_heap_live();
    struct ebb_str s;
    ebb_str_init(&s);
    char *empty = ebb_str_take(&s);
    CHECK_STR(empty, "");
    ebb_str_add(&s, "text");
    char *text = ebb_str_take(&s);
    CHECK_STR(text, "text");
    CHECK_EQ(s.length, 0);
    ebb_free(text);
    ebb_free(empty);
    ebb_str_fini(&s);
    CHECK_EQ(ebb_heap_live(), live);
}

TEST(bytes__are_read_exactly)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1024", 1024},
        {"48MiB", 48u << 20},
        {"1.5GiB", UINT64_C(3) << 29},
        {"2GB", 2000000000},
        {"100kB", 100000},
        {"100KB", 100000},
        {"7 KiB", 7168},
        {"12B", 12},
        {"0.1KiB", 102}, /* 102.4 rounded down */
        {"1.000000000000000001TiB", UINT64_C(1) << 40},
        {"18446744073709551615", UINT64_MAX},
        {"16777215.999999TiB", UINT64_C(18446744073708452104)},
        {"3TB", 3000000000000},
    };
    struct ebb_error err;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 1;
        CHECK_OK(ebb_parse_bytes(good[i].text, &bytes, &err), &err);
        CHECK_EQ(bytes, good[i].bytes);
    }
}

TEST(bytes__refuse_what_is_unclear)
{
    static const char *const bad[] = {"",
                                      "MiB",
                                      "-1",
                                      "+1",
                                      "1.5",
                                      "1.5B",
                                      "1.MiB",
                                      ".5MiB",
                                      "1 ",
                                      " 1",
                                      "48M",
                                      "48mib",
                                      "1e3",
                                      "0x10",
                                      "1MiB ",
                                      "1,5GB",
                                      "16777216TiB",
                                      "1..5GiB",
                                      "18446744073709551616",
                                      "nan",
                                      "1.0000000000000000000MiB"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ebb_error err;
        uint64_t bytes = 77;
        if (ebb_parse_bytes(bad[i], &bytes, &err) != EBB_EINPUT)
            fail_msg("'%s' was accepted", bad[i]);
        CHECK_EQ(bytes, 77);
        CHECK(strstr(err.message, "48MiB") != NULL); /* says what is allowed */
    }
}

TEST(format_bytes__three_digits)
{
    char b[40];
    CHECK_STR(ebb_format_bytes(0, b, sizeof b), "0 B");
    CHECK_STR(ebb_format_bytes(512, b, sizeof b), "512 B");
    CHECK_STR(ebb_format_bytes(1023, b, sizeof b), "1023 B");
    CHECK_STR(ebb_format_bytes(1024, b, sizeof b), "1.00 KiB");
    CHECK_STR(ebb_format_bytes(3u << 19, b, sizeof b), "1.50 MiB");
    CHECK_STR(ebb_format_bytes(48u << 20, b, sizeof b), "48.0 MiB");
    CHECK_STR(ebb_format_bytes(1000u << 20, b, sizeof b), "1000 MiB");
    CHECK_STR(ebb_format_bytes((1u << 30) - 1, b, sizeof b), "1.00 GiB");
    CHECK_STR(ebb_format_bytes(10239, b, sizeof b), "10.0 KiB");
    CHECK_STR(ebb_format_bytes(UINT64_MAX, b, sizeof b), "16.0 EiB");
}

TEST(format_ns__picks_the_unit)
{
    char b[40];
    CHECK_STR(ebb_format_ns(950, b, sizeof b), "950 ns");
    CHECK_STR(ebb_format_ns(1200000, b, sizeof b), "1.20 ms");
    CHECK_STR(ebb_format_ns(15500, b, sizeof b), "15.5 us");
    CHECK_STR(ebb_format_ns(999999, b, sizeof b), "1.00 ms");
    CHECK_STR(ebb_format_ns(3400000000, b, sizeof b), "3.4 s");
    CHECK_STR(ebb_format_ns(59990000000, b, sizeof b), "1 min 00 s");
    CHECK_STR(ebb_format_ns(125000000000, b, sizeof b), "2 min 05 s");
    CHECK_STR(ebb_format_ns(3720000000000, b, sizeof b), "1 h 02 min");
}

TEST(integers__are_strict)
{
    uint64_t u = 5;
    int64_t i = 5;
    CHECK(ebb_parse_u64("18446744073709551615", &u) && u == UINT64_MAX);
    CHECK(!ebb_parse_u64("18446744073709551616", &u));
    CHECK(!ebb_parse_u64("-1", &u) && !ebb_parse_u64("", &u) && !ebb_parse_u64("1 ", &u));
    CHECK(!ebb_parse_u64(" 1", &u) && !ebb_parse_u64("+1", &u) && !ebb_parse_u64("1x", &u));
    CHECK_EQ(u, UINT64_MAX);
    CHECK(ebb_parse_i64("-9223372036854775808", &i) && i == INT64_MIN);
    CHECK(ebb_parse_i64("9223372036854775807", &i) && i == INT64_MAX);
    CHECK(!ebb_parse_i64("9223372036854775808", &i) && !ebb_parse_i64("-", &i));
    CHECK(!ebb_parse_i64("-9223372036854775809", &i) && !ebb_parse_i64("--1", &i));
}

/* Bit for bit what strtod of the C locale gives. */
static void same_as_strtod(const char *text)
{
    double got = 0, want = strtod(text, NULL);
    if (!ebb_parse_double(text, &got) || memcmp(&got, &want, sizeof got) != 0)
        fail_msg("%s: %.17g, strtod says %.17g", text, got, want);
}

TEST(double__is_correctly_rounded)
{
    static const char *const texts[] = {"0",
                                        "-0",
                                        "1",
                                        "+1.5",
                                        ".5",
                                        "5.",
                                        "1e22",
                                        "1e23",
                                        "123456789012345678901234567890",
                                        "9007199254740993",
                                        "9007199254740992.9",
                                        "2.2250738585072011e-308",
                                        "5e-324",
                                        "4e-324",
                                        "2.4703282292062327208e-324",
                                        "1e-400",
                                        "1.7976931348623157e308",
                                        "0.1",
                                        "1e-5",
                                        "3.14159E+0",
                                        "0.000000000000000000000000000000000000000123",
                                        "1e00000000000000000001",
                                        "179769313486231580793728971405301e276",
                                        "8.5e-1",
                                        "100000000000000000000000000000000e-32"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        same_as_strtod(texts[i]);
    /* Half way between two doubles, decided by the very last of 800 digits. */
    char longer[900] = "1.00000000000000011102230246251565404236316680908203125";
    same_as_strtod(longer);
    size_t n = strlen(longer);
    memset(longer + n, '0', 800);
    longer[n + 800] = '1';
    longer[n + 801] = '\0';
    same_as_strtod(longer);
}

TEST(double__random_bits_survive_the_text)
{
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = ebb_splitmix64(&seed);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char text[40];
        ebb_format_double(value, text, sizeof text);
        CHECK(ebb_parse_double(text, &back));
        CHECK_EQ(memcmp(&value, &back, sizeof value), 0);
        same_as_strtod(text);
    }
}

TEST(double__refuses_what_is_no_number)
{
    static const char *const bad[] = {"",      ".",      "-",   "+",     "e5",      "1e",    "1e+",
                                      "nan",   "inf",    "0x1", "1 ",    " 1",      "1.2.3", "1,5",
                                      "1e400", "-1e999", "1f",  "1e5.5", "infinity"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double value = 3;
        if (ebb_parse_double(bad[i], &value))
            fail_msg("'%s' was accepted", bad[i]);
        CHECK(value == 3);
    }
}

TEST(format_double__is_short)
{
    char b[40];
    CHECK_STR(ebb_format_double(0.1, b, sizeof b), "0.1");
    CHECK_STR(ebb_format_double(1e-5, b, sizeof b), "1e-05");
    CHECK_STR(ebb_format_double(3, b, sizeof b), "3");
    CHECK_STR(ebb_format_double(1.0 / 3, b, sizeof b), "0.3333333333333333");
    CHECK_STR(ebb_format_double(5e-324, b, sizeof b), "5e-324");
    CHECK_STR(ebb_format_double(DBL_MAX, b, sizeof b), "1.7976931348623157e+308");
    CHECK_STR(ebb_format_double(-0.0, b, sizeof b), "-0");
    CHECK_STR(ebb_format_double(NAN, b, sizeof b), "null");
    CHECK_STR(ebb_format_double(INFINITY, b, sizeof b), "null");
}

TEST(double__ignores_the_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "ps_AF"};
    const char *got = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !got; i++)
        got = setlocale(LC_ALL, names[i]);
    if (!got)
        skip(); /* no locale with a comma on this machine */
    char b[40];
    double value = 0;
    CHECK_STR(ebb_format_double(0.5, b, sizeof b), "0.5");
    CHECK(ebb_parse_double("1234.5678901234567890123", &value));
    CHECK(value == 0x1.34a4583f6b6b9p+10 || value > 1234.5);
    setlocale(LC_ALL, "C");
}

TEST(nearest__finds_misspellings_only)
{
    static const char *const names[] = {"learning_rate", "batch_size", "lru", "dtr", "dtr_eq"};
    size_t n = sizeof names / sizeof names[0];
    CHECK_STR(ebb_nearest("lerning_rate", names, n), "learning_rate");
    CHECK_STR(ebb_nearest("batchsize", names, n), "batch_size");
    CHECK_STR(ebb_nearest("dtr_qe", names, n), "dtr_eq");
    CHECK_STR(ebb_nearest("lur", names, n), "lru");
    CHECK_STR(ebb_nearest("dtr", names, n), "dtr");
    CHECK(!ebb_nearest("momentum", names, n));
    CHECK(!ebb_nearest("x", names, 0));
    static const char *const ties[] = {"ab", "ac"};
    CHECK_STR(ebb_nearest("a", ties, 2), "ab"); /* the first wins */
}

TEST_MAIN()
