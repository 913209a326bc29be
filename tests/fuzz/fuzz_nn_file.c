/* fuzz_nn_file.c - a model file of any content. */
#include "fuzz_nn.h"

FUZZ(read_model)
