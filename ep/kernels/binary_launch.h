// How the kernels of binary.h are called.
#pragma once

#include "kernels/binary_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// `in_bytes`, `out_bytes`: of one element. Nothing: the operands do not broadcast, or do so in more
// than kMaxRank dimensions that cannot be merged.
std::optional<Prepared<BinaryArgs>> PrepareBinary(const void* a, DimsView a_dims, const void* b,
                                                  DimsView b_dims, void* out, size_t in_bytes,
                                                  size_t out_bytes) noexcept;

}  // namespace tunableop::device
