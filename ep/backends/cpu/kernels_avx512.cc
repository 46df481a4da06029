// AVX-512F: 32 registers of 16 floats.
#include <immintrin.h>

#define TUNABLEOP_NAME "avx512"
#define TUNABLEOP_TABLE kAvx512Kernels
#define TUNABLEOP_WIDTH 16
#define TUNABLEOP_TILES   \
  AddTiles<16, 1>(table); \
  AddTiles<14, 2>(table); \
  AddTiles<9, 3>(table);  \
  AddTiles<6, 4>(table);
#define TUNABLEOP_PREFERRED {6, 4}, {14, 2}, {9, 3}, {5, 4}, {12, 2}

#include "backends/cpu/micro_table.inc"
