// How the kernel of split_columns.h is called.
#pragma once

#include <array>

#include "kernels/shapes.h"
#include "kernels/split_columns_args.h"

namespace tunableop::device {

// x [rows, the sum of `columns`] to three tensors [rows, columns[i]], each without gaps or null.
// `bytes`: of one element. Nothing: 2^31 columns and more.
std::optional<Prepared<SplitColumnsArgs>> PrepareSplitColumns(const void* x,
                                                              const std::array<void*, 3>& outs,
                                                              int64_t rows,
                                                              const std::array<int64_t, 3>& columns,
                                                              size_t bytes) noexcept;

}  // namespace tunableop::device
