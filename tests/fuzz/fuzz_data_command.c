/* fuzz_data_command.c - what a program says of the samples it has: any bytes are refused with a
 * message, or the fields have sizes that can be; nothing stays allocated. */
#include "fuzz.h"

#include "data/internal.h"

static void describe(const char *bytes, size_t size)
{
    struct ebb_error err = {0};
    struct data_set set = {.row = &data_row_command};
    require(ebb_new(&set.state, 1, data_row_command.state_bytes, &err) == EBB_OK);
    if (data_command_describe(&set, bytes, size, &err) == EBB_OK) {
        const struct data_info *info = &set.info;
        require(info->field_count >= 1 && info->field_count <= DATA_MAX_FIELDS);
        require(info->full_count[DATA_TRAIN] >= 1);
        for (size_t f = 0; f < info->field_count; f++)
            require(info->fields[f].bytes > 0 && info->fields[f].name[0] != '\0');
    } else {
        require(err.message[0] != '\0');
    }
    data_row_command.close(&set);
    ebb_free(set.state);
}

FUZZ(describe)
