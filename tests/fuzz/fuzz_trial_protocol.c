/* Any line is a message of the trial protocol, or is refused with a reason. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "exp/exp.h"
#include "exp/master/talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err;
    struct exp_talk_message m;
    const struct ebb_doc_node *average = NULL;
    ebb_arena_init(&arena);
    err.message[0] = '\0';
    enum ebb_status status = exp_talk_read(&arena, (const char *)data, size, &m, &err);
    if (status != EBB_OK && err.message[0] == '\0')
        abort();
    if (status == EBB_OK && m.kind == EXP_TALK_DONE) {
        const struct ebb_doc_node *batches = ebb_doc_get(m.metrics, "batch_metrics");
        if (m.seq < 1 || m.work.step < 0)
            abort();
        if (batches != NULL && batches->kind == EBB_DOC_LIST)
            exp_talk_average(&arena, batches, &average, &err);
    }
    ebb_arena_fini(&arena);
    return 0;
}
