// How the kernel of where.h is called.
#pragma once

#include "kernels/shapes.h"
#include "kernels/where_args.h"

namespace tunableop::device {

struct WhereOperand {
  const void* data;
  DimsView dims;
};

// `bytes`: of an element of a and b; the condition has one byte. Nothing: they do not broadcast, or
// do so in more than kMaxRank dimensions that cannot be merged.
std::optional<Prepared<WhereArgs>> PrepareWhere(const WhereOperand& condition,
                                                const WhereOperand& a, const WhereOperand& b,
                                                void* out, size_t bytes) noexcept;

}  // namespace tunableop::device
