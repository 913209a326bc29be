/* Signatures as Amazon's documents print them ("Authenticating Requests: Using the Authorization
 * Header", "Using Query Parameters", API reference of S3), and names in URLs. */
#include "test.h"

#include "exp/store/sigv4.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct exp_sigv4 example(void)
{
    return (struct exp_sigv4){.access_key = "AKIAIOSFODNN7EXAMPLE",
                              .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                              .region = "us-east-1",
                              .service = "s3",
                              .time = 1369353600, /* 2013-05-24 00:00:00 */
                              .method = "GET",
                              .path = "/",
                              .query = "",
                              .payload = EMPTY};
}

static void check(const struct exp_sigv4 *s, const char *names, const char *signature)
{
    struct ebb_str out = {0}, want = {0};
    struct ebb_error err;
    ebb_str_printf(&want,
                   "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
                   "aws4_request,SignedHeaders=%s,Signature=%s",
                   names, signature);
    CHECK_OK(exp_sigv4_sign(s, &out, &err), &err);
    CHECK_STR(ebb_str_c(&out), ebb_str_c(&want));
    ebb_str_fini(&out);
    ebb_str_fini(&want);
}

TEST(get_of_a_range__is_signed_as_published)
{
    static const char *const headers[] = {"host: examplebucket.s3.amazonaws.com",
                                          "range: bytes=0-9", ("x-amz-content-sha256: " EMPTY),
                                          "x-amz-date: 20130524T000000Z"};
    struct exp_sigv4 s = example();
    s.path = "/test.txt";
    s.headers = headers;
    s.header_count = 4;
    check(&s, "host;range;x-amz-content-sha256;x-amz-date",
          "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(put__is_signed_as_published)
{
#define SUM "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
    /* in no order: the signer sorts */
    static const char *const headers[] = {
        "x-amz-storage-class: REDUCED_REDUNDANCY", "x-amz-date: 20130524T000000Z",
        "date: Fri, 24 May 2013 00:00:00 GMT", ("x-amz-content-sha256: " SUM),
        "host: examplebucket.s3.amazonaws.com"};
    struct exp_sigv4 s = example();
    s.method = "PUT";
    s.path = "/test%24file.text";
    s.headers = headers;
    s.header_count = 5;
    s.payload = SUM;
    check(&s, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
          "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(queries__are_sorted_and_get_their_equals_sign)
{
    static const char *const headers[] = {"host: examplebucket.s3.amazonaws.com",
                                          ("x-amz-content-sha256: " EMPTY),
                                          "x-amz-date: 20130524T000000Z"};
    struct exp_sigv4 s = example();
    s.headers = headers;
    s.header_count = 3;
    s.query = "lifecycle";
    check(&s, "host;x-amz-content-sha256;x-amz-date",
          "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    s.query = "prefix=J&max-keys=2";
    check(&s, "host;x-amz-content-sha256;x-amz-date",
          "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(names__are_encoded_byte_by_byte)
{
    struct ebb_str out = {0};
    exp_url_escape(&out, "a b+c%/\xc3\xbc~-._", true);
    ebb_str_addc(&out, ' ');
    exp_url_escape(&out, "a/b", false);
    CHECK_STR(ebb_str_c(&out), "a%20b%2Bc%25/%C3%BC~-._ a%2Fb");
    ebb_str_fini(&out);
}

TEST(too_many_parameters__are_refused)
{
    struct exp_sigv4 s = example();
    struct ebb_str query = {0}, out = {0};
    struct ebb_error err;
    for (int i = 0; i < 40; i++)
        ebb_str_printf(&query, "&a%d=1", i);
    s.query = ebb_str_c(&query) + 1;
    CHECK_EQ(exp_sigv4_sign(&s, &out, &err), EBB_ELIMIT);
    ebb_str_fini(&query);
    ebb_str_fini(&out);
}

TEST_MAIN()
