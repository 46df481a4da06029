// aarch64: 32 registers of 4 floats.

#define TUNABLEOP_NAME "neon"
#define TUNABLEOP_TABLE kNeonKernels
#define TUNABLEOP_WIDTH 4
#define TUNABLEOP_TILES   \
  AddTiles<16, 1>(table); \
  AddTiles<12, 2>(table); \
  AddTiles<8, 3>(table);  \
  AddTiles<6, 4>(table);  \
  AddTiles<2, 8>(table);
#define TUNABLEOP_PREFERRED {6, 4}, {12, 2}, {8, 3}, {8, 2}

#include "backends/cpu/micro_table.inc"
