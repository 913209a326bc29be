/* fuzz_nn_config.c - a `model:` section of any content: it is refused with a message, or the model
 * has inputs of countable size; nothing stays allocated. */

#include "fuzz.h"

#include "nn/nn.h"

static void parse(const char *bytes, size_t size)
{
    struct ebb_arena arena;
    struct ebb_error err;
    const struct ebb_doc_node *root = NULL;
    struct nn_config config;
    struct nn_port ports[NN_PORTS];
    struct ebb_reading reading;
    struct ebb_report report;
    ebb_arena_init(&arena);
    if (ebb_doc_parse_yaml(&arena, "fuzz", bytes, size, &root, &err) == EBB_OK) {
        ebb_reading_init(&reading, &arena, NULL, &report);
        bool is_read = nn_config_read(&reading, &(struct ebb_path){.key = "model"}, root,
                                      &(struct nn_env){.no_files = true}, &config);
        enum ebb_status status = ebb_reading_end(&reading, &err);
        bool is_file = status == EBB_OK && ebb_doc_given(root, "file") != NULL; /* not read here */
        require((status == EBB_OK) == (report.errors == 0));
        require(is_read == (status == EBB_OK && !is_file));
        if (is_read) {
            size_t n = nn_inputs(&config, 1, ports);
            require(n >= 1 && n <= NN_PORTS);
            for (size_t i = 0; i < n; i++)
                require(tensor_count(&ports[i].view) > 0);
            require(nn_config_check(&config, &err) == EBB_OK);
        }
    }
    ebb_arena_fini(&arena);
}

FUZZ(parse)
