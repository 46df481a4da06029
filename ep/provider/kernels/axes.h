// Axes of a tensor's dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tunableop {

// Of an axis from -rank to rank-1; nullopt: it is none.
constexpr std::optional<size_t> AxisOf(int64_t axis, size_t rank) noexcept {
  const auto size = static_cast<int64_t>(rank);
  if (axis < -size || axis >= size) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + size : axis);
}

constexpr int64_t ProductOf(std::span<const int64_t> dims) noexcept {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

}  // namespace tunableop
