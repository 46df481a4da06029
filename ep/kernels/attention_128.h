// Attention with vectors of 128 numbers on tensor cores.
#undef TUNABLEOP_HEAD_SIZE
#define TUNABLEOP_HEAD_SIZE 128
#include "kernels/attention_tiles.h"
