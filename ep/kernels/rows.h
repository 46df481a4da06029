// How many threads work on a row, for the kernels that go over rows.
#pragma once

#include <initializer_list>

#include "kernels/shapes.h"

namespace tunableop::device {

struct RowsPlan {
  UInt32 lanes = 0;  // of a row: a power of two of at most 32; 0: a whole block
  Grid grid;
};

// `pack`: elements of one access. Few rows get many threads each: what counts then is how long one
// row takes.
RowsPlan PlanRows(int64_t rows, int64_t columns, int64_t pack) noexcept;

// The rows of operands, of which these are the dimensions; they are broadcast. Nothing: they do not
// fit, or are 2^30 and more.
template <int kOperands>
std::optional<Strided<kOperands>> RowsOf(const std::array<DimsView, kOperands>& operands) noexcept {
  const std::optional<Dims> dims = BroadcastDims(operands);
  if (!dims) return std::nullopt;
  const auto merged = MergeBroadcast<kOperands>(dims->view(), operands);
  if (!merged) return std::nullopt;
  const auto rows = merged->Finish();
  return rows && rows->count <= rows->slab ? rows : std::nullopt;
}

// How many elements of rows of `columns` one access can have, where these are all that is accessed;
// null: it is not there.
int64_t PackOf(int64_t columns, size_t bytes, std::initializer_list<const void*> all) noexcept;

}  // namespace tunableop::device
