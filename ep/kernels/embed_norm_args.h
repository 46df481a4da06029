// The arguments of the kernels that sum up embeddings and normalise them.
#pragma once

#include "kernels/args_common.h"

namespace tunableop::device {

// Rows that are added: those of a table, picked by places, or those of a tensor as they are.
struct EmbedPart {
  const void* table;   // null: there is no such part
  const void* places;  // Int64 or Int32; null: rows are taken one after the other
  Int64 rows;          // of the table
  UInt32 narrow;       // places are Int32
};

// z = the sum of the parts; out = (z - mean) / sqrt(variance + epsilon) * gamma + beta over each
// row of `columns`. Pointers that are null are left out.
struct EmbedNormArgs {
  EmbedPart first;
  EmbedPart second;
  EmbedPart third;
  const void* gamma;  // of one row
  const void* beta;   // of one row
  void* out;
  void* sum;  // z
  Int64 columns;
  double epsilon;
  UInt32 packed;  // all that is there can be accessed in packs
  UInt32 lanes;   // threads of a row: see TeamOf
  // From the row's number to that of each part's place, or row. `count`: of rows.
  Strided<3> rows;
};

}  // namespace tunableop::device
