// Attention with vectors of 32 numbers on tensor cores.
#undef TUNABLEOP_HEAD_SIZE
#define TUNABLEOP_HEAD_SIZE 32
#include "kernels/attention_tiles.h"
