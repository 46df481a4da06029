#include "kernels/shapes.h"

#include <algorithm>
#include <bit>

namespace tunableop::device {

int64_t ElementsOf(DimsView dims) noexcept {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

std::optional<Dims> BroadcastDims(std::span<const DimsView> operands) noexcept {
  size_t rank = 0;
  for (const DimsView& dims : operands) rank = std::max(rank, dims.size());
  if (rank > Dims::kMost) return std::nullopt;
  Dims out;
  for (size_t d = 0; d < rank; ++d) {
    int64_t dim = 1;
    for (const DimsView& dims : operands) {
      const size_t missing = rank - dims.size();
      const int64_t own = d < missing ? 1 : dims[d - missing];
      if (own == 1 || own == dim) continue;
      if (dim != 1) return std::nullopt;
      dim = own;
    }
    out.Append(dim);
  }
  return out;
}

Divisor MakeDivisor(int64_t by) noexcept {
  if (by <= 0 || by >= int64_t{1} << 31) return {};
  Divisor divisor{};
  divisor.divisor = static_cast<UInt32>(by);
  divisor.shift = static_cast<UInt32>(std::bit_width(divisor.divisor - 1));
  const uint64_t above = (uint64_t{1} << divisor.shift) - divisor.divisor;
  divisor.multiplier = static_cast<UInt32>((above << 32) / divisor.divisor + 1);
  return divisor;
}

Grid GridFor(int64_t items, int64_t slabs, uint32_t block) noexcept {
  constexpr int64_t kMostBlocks = 1 << 20;
  constexpr int64_t kMostSlabs = 1 << 15;
  Grid grid;
  grid.block = block;
  grid.x = static_cast<UInt32>(std::clamp<int64_t>((items + block - 1) / block, 1, kMostBlocks));
  grid.y = static_cast<UInt32>(std::clamp<int64_t>(slabs, 1, kMostSlabs));
  return grid;
}

bool IsAligned(const void* address, size_t bytes) noexcept {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

size_t BytesOf(std::string_view type) noexcept {
  if (type == "f32" || type == "i32" || type == "w4") return 4;
  if (type == "f16" || type == "bf16" || type == "w2") return 2;
  if (type == "f64" || type == "i64" || type == "w8") return 8;
  if (type == "u8" || type == "b" || type == "w1") return 1;
  return 0;
}

}  // namespace tunableop::device
