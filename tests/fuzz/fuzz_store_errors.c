/* Errors of stores that answer in JSON: any bytes become a message that is text. The first byte is the
 * status, a line may be a header. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "exp/store/driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct ebb_error *err)
{
    exp_http_clean(err);
    const char *end = err->message + strlen(err->message);
    for (const char *at = err->message; at < end;) {
        size_t n = (unsigned char)*at < 0x80 ? 1 : ebb_utf8_length(at, end);
        if (n == 0 || (unsigned char)*at < 0x20 || *at == 0x7f)
            abort();
        at += n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int statuses[] = {400, 401, 403, 404, 500};
    struct exp_http_answer answer;
    struct ebb_error err = {0};
    char exception[80];
    if (size < 1)
        return 0;
    exp_http_answer_init(&answer);
    answer.status = statuses[data[0] % 5];
    if (data[0] & 64)
        ebb_str_add(&answer.head, "www-authenticate: Negotiate\n");
    ebb_str_addn(&answer.body, (const char *)data + 1, size - 1);
    exp_gcs_explain(&answer, &err);
    check(&err);
    exp_hdfs_explain(&answer, exception, &err);
    check(&err);
    if (strlen(exception) >= sizeof exception)
        abort();
    exp_http_answer_fini(&answer);
    return 0;
}
