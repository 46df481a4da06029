// x86-64-v2: 16 registers of 4 floats, no fused multiply-add.

#define TUNABLEOP_NAME "sse42"
#define TUNABLEOP_TABLE kSse42Kernels
#define TUNABLEOP_WIDTH 4
#define TUNABLEOP_TILES  \
  AddTiles<8, 1>(table); \
  AddTiles<6, 2>(table); \
  AddTiles<4, 3>(table); \
  AddTiles<2, 4>(table); \
  AddTiles<1, 8>(table);
#define TUNABLEOP_PREFERRED {6, 2}, {4, 3}, {5, 2}, {8, 1}

#include "backends/cpu/micro_table.inc"
