/* Headers as they are kept: a value is found or not, and fits. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "exp/store/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct exp_http_answer answer;
    char buf[16];
    exp_http_answer_init(&answer);
    ebb_str_addn(&answer.head, (const char *)data, size);
    static const char *const names[] = {"etag", "location", "x-goog-hash", "range", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)exp_http_header(&answer, names[i], buf, sizeof buf);
        if (strlen(buf) >= sizeof buf)
            abort();
    }
    exp_http_answer_fini(&answer);
    return 0;
}
