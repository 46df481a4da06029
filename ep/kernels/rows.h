// How many threads work on a row, for the kernels that go over rows.
#pragma once

#include "kernels/shapes.h"

namespace tunableop::device {

struct RowsPlan {
  UInt32 lanes = 0;  // of a row: a power of two of at most 32; 0: a whole block
  Grid grid;
};

// `pack`: elements of one access. Few rows get many threads each: what counts then is how long one
// row takes.
RowsPlan PlanRows(int64_t rows, int64_t columns, int64_t pack) noexcept;

}  // namespace tunableop::device
