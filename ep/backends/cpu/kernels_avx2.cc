// AVX2 with FMA: 16 registers of 8 floats.
#include <immintrin.h>

#define TUNABLEOP_NAME "avx2"
#define TUNABLEOP_TABLE kAvx2Kernels
#define TUNABLEOP_WIDTH 8
#define TUNABLEOP_TILES   \
  AddTiles<12, 1>(table); \
  AddTiles<6, 2>(table);  \
  AddTiles<4, 3>(table);  \
  AddTiles<2, 4>(table);  \
  AddTiles<1, 8>(table);
#define TUNABLEOP_PREFERRED {6, 2}, {4, 3}, {12, 1}, {5, 2}

#include "backends/cpu/micro_table.inc"
