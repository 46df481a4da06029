// Attention with vectors of 64 numbers on tensor cores.
#undef TUNABLEOP_HEAD_SIZE
#define TUNABLEOP_HEAD_SIZE 64
#include "kernels/attention_tiles.h"
