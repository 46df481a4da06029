// Shapes on their way to a kernel: broadcasting, merging of dimensions, magic divisors, grids.
// Plain functions of the host; nothing is allocated, nothing throws.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/args_common.h"

namespace tunableop::device {

using DimsView = std::span<const int64_t>;

// Dimensions in place: what an operator's output is asked for with.
class Dims {
 public:
  static constexpr int kMost = 32;

  Dims() = default;
  // Precondition: at most kMost of them.
  explicit Dims(DimsView dims) noexcept {
    for (const int64_t dim : dims) Append(dim);
  }

  void Append(int64_t dim) noexcept { at_[static_cast<size_t>(rank_++)] = dim; }
  int rank() const noexcept { return rank_; }
  int64_t& operator[](int i) noexcept { return at_[static_cast<size_t>(i)]; }
  int64_t operator[](int i) const noexcept { return at_[static_cast<size_t>(i)]; }
  DimsView view() const noexcept { return {at_.data(), static_cast<size_t>(rank_)}; }

 private:
  std::array<int64_t, kMost> at_{};
  int rank_ = 0;
};

// A kernel's arguments, and how many threads they are for.
template <class Args>
struct Prepared {
  Args args;
  Grid grid;
};

// 1 for no dimensions.
int64_t ElementsOf(DimsView dims) noexcept;

// The shape of an elementwise operator's output. Nothing: they do not fit, or are too many
// dimensions.
std::optional<Dims> BroadcastDims(std::span<const DimsView> operands) noexcept;

// Zeros for a size that nothing is divided by: none, or 2^31 and more.
Divisor MakeDivisor(int64_t by) noexcept;

// Threads for `items` of work in each of `slabs`: at least one block, and at most so many that each
// thread may have more than one item.
Grid GridFor(int64_t items, int64_t slabs = 1, uint32_t block = 256) noexcept;

// For elements in packs of `pack`.
template <int kOperands>
Grid GridFor(const Strided<kOperands>& shape, int64_t pack = 1) noexcept {
  const bool slabs = shape.count > shape.slab;
  return GridFor((slabs ? shape.slab : shape.count) / pack + 1,
                 slabs ? (shape.count + shape.slab - 1) / shape.slab : 1);
}

// A shape before its divisors are made: innermost dimension first, dimensions of size 1 left out
// and those merged that every operand passes with one stride. Strides are in elements.
template <int kOperands>
struct Merged {
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  std::array<std::array<int64_t, kMaxRank>, kOperands> strides{};

  // Adds a dimension outside of those that are there. False: there are kMaxRank already.
  bool Add(int64_t dim, const std::array<int64_t, kOperands>& stride) noexcept {
    if (dim == 1) return true;
    if (rank > 0) {
      const auto last = static_cast<size_t>(rank - 1);
      bool merges = true;
      for (size_t n = 0; n < kOperands; ++n) {
        if (stride[n] != strides[n][last] * dims[last]) merges = false;
      }
      if (merges) {
        dims[last] *= dim;
        return true;
      }
    }
    if (rank == kMaxRank) return false;
    dims[static_cast<size_t>(rank)] = dim;
    for (size_t n = 0; n < kOperands; ++n) strides[n][static_cast<size_t>(rank)] = stride[n];
    ++rank;
    return true;
  }

  // The innermost dimension is counted in packs of `pack` elements. Nothing: too large even in
  // slabs of the outermost dimension.
  std::optional<Strided<kOperands>> Finish(int64_t pack = 1) const noexcept {
    constexpr int64_t kNarrow = int64_t{1} << 30;
    Strided<kOperands> shape{};
    shape.rank = static_cast<UInt32>(rank);
    shape.count = 1;
    std::array<int64_t, kOperands> reach{};  // the largest offset of each
    bool wide = false;
    for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
      shape.slab = shape.count;
      shape.count *= dims[d];
      for (size_t n = 0; n < kOperands; ++n) {
        const int64_t stride = strides[n][d];
        shape.slab_strides[n] = stride;
        reach[n] += (stride < 0 ? -stride : stride) * (dims[d] > 0 ? dims[d] - 1 : 0);
        if (reach[n] > kNarrow) wide = true;
      }
      if (shape.count > kNarrow) wide = true;
      if (wide && d + 1 < static_cast<size_t>(rank)) return std::nullopt;
    }
    if (wide) {
      // One step of the outermost dimension a slab; of an only dimension many.
      const int64_t steps = rank == 1 ? kNarrow / 64 : 1;
      shape.slab *= steps;
      for (size_t n = 0; n < kOperands; ++n) shape.slab_strides[n] *= steps;
      if (rank > 1) --shape.rank;
    } else {
      shape.slab = shape.count > 0 ? shape.count : 1;
    }
    for (size_t d = 0; d < shape.rank; ++d) {
      const int64_t size = d == 0 ? dims[d] / pack : dims[d];
      shape.dims[d] = MakeDivisor(size);
      for (size_t n = 0; n < kOperands; ++n) {
        shape.strides[n][d] = static_cast<Int32>(strides[n][d] * (d == 0 ? pack : 1));
      }
    }
    return shape;
  }
};

// Operands of an elementwise operator, merged. Nothing: they do not broadcast to `out`, or more
// than kMaxRank dimensions are left.
template <int kOperands>
std::optional<Merged<kOperands>> MergeBroadcast(
    DimsView out, const std::array<DimsView, kOperands>& operands) noexcept {
  Merged<kOperands> merged;
  std::array<int64_t, kOperands> elements;  // of each operand so far
  elements.fill(1);
  for (size_t d = 0; d < out.size(); ++d) {
    const int64_t dim = out[out.size() - 1 - d];
    std::array<int64_t, kOperands> strides{};
    for (size_t n = 0; n < kOperands; ++n) {
      const int64_t own = d < operands[n].size() ? operands[n][operands[n].size() - 1 - d] : 1;
      if (own != dim && own != 1) return std::nullopt;
      strides[n] = own == 1 ? 0 : elements[n];
      elements[n] *= own;
    }
    if (!merged.Add(dim, strides)) return std::nullopt;
  }
  for (size_t n = 0; n < kOperands; ++n) {  // an operand must not have more dimensions
    for (size_t d = 0; d + out.size() < operands[n].size(); ++d) {
      if (operands[n][d] != 1) return std::nullopt;
    }
  }
  return merged;
}

// How many elements of `bytes` each can go into one access of at most 16 bytes here: 16 / bytes
// where every address and stride allows it, else 1.
bool IsAligned(const void* address, size_t bytes) noexcept;

// Of a module's type, "f16"; 0: no such type.
size_t BytesOf(std::string_view type) noexcept;

}  // namespace tunableop::device
