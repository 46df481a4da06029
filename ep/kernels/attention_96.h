// Attention with vectors of 96 numbers on tensor cores.
#undef TUNABLEOP_HEAD_SIZE
#define TUNABLEOP_HEAD_SIZE 96
#include "kernels/attention_tiles.h"
