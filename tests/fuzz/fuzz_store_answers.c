/* What stores answer, and files that name keys: any bytes have a text or none; nothing is read beyond
 * them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "exp/store/aws.h"
#include "exp/store/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"Error", "Code", "UploadId", "Key", "Region"};
    struct exp_aws_keys keys;
    char buf[64], *bytes = malloc(size > 0 ? size : 1);
    if (bytes == NULL)
        return 0;
    memcpy(bytes, data, size);
    struct exp_xml x = {bytes, bytes + size}, inner;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (exp_xml_text(x, names[i], buf, sizeof buf) && strlen(buf) >= sizeof buf)
            abort();
    while (exp_xml_next(&x, "Error", &inner))
        if (inner.at < bytes || inner.end > bytes + size || inner.at > inner.end)
            abort();
    (void)exp_aws_read_profile(bytes, size, "default", &keys);
    free(bytes);
    return 0;
}
