// The one packed layout of a constant B (fp32), which every CPU kernel reads, so that a weight is
// packed once, before anything is tuned, and switching kernels repacks nothing.
//
//   op(B) is k x n. Its columns are cut into groups of kGroupColumns. Group g is a dense row-major
//   [k][width(g)] block that starts at float g * kGroupColumns * k. Every group but the last is
//   kGroupColumns wide. The last one's width is the number of columns left, rounded up to
//   kColumnPad and zero-filled; with n == 1 it is 1 (a plain vector).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gemm/status.h"

namespace tunableop {

inline constexpr int64_t kGroupColumns = 64;
inline constexpr int64_t kColumnPad = 16;

// Columns stored for group `group` of an n-column B, padding included.
constexpr int64_t PackedGroupWidth(int64_t n, int64_t group) noexcept {
  const int64_t left = n - group * kGroupColumns;
  if (left >= kGroupColumns) return kGroupColumns;
  if (n == 1) return 1;
  return (left + kColumnPad - 1) / kColumnPad * kColumnPad;
}
constexpr int64_t PackedGroupCount(int64_t n) noexcept {
  return (n + kGroupColumns - 1) / kGroupColumns;
}
// Floats of one packed k x n matrix.
constexpr int64_t PackedFloats(int64_t k, int64_t n) noexcept {
  if (n == 0) return 0;
  const int64_t last = PackedGroupCount(n) - 1;
  return k * (last * kGroupColumns + PackedGroupWidth(n, last));
}
// op(B)[row, column] of one packed matrix. For references and tests, not for kernels.
inline float PackedAt(const float* packed, int64_t k, int64_t n, int64_t row,
                      int64_t column) noexcept {
  const int64_t group = column / kGroupColumns;
  return packed[group * kGroupColumns * k + row * PackedGroupWidth(n, group) +
                column % kGroupColumns];
}

// Packs one matrix. b: k x n row-major with leading dimension ldb, or n x k when `transposed`.
// `packed` has room for PackedFloats(k, n) floats. Allocates nothing.
void PackB(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n,
           float* packed) noexcept;

// The reverse: writes op(B) of one packed matrix, k x n row-major with leading dimension ldo (at
// least n), to `out`; what lies between the rows is not touched. Allocates nothing.
void UnpackB(const float* packed, int64_t k, int64_t n, float* out, int64_t ldo) noexcept;

// Owns packed matrices in anonymous memory, on huge pages where the system has them (+3 to +20 % on
// large weights, measured), aligned to 2 MiB when at least that large, else to 64 bytes.
class PackedB {
 public:
  PackedB() noexcept = default;
  // `batch` matrices one after the other, `stride` elements apart in `b`.
  static Result<PackedB> Pack(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n,
                              int64_t batch, int64_t stride);

  explicit operator bool() const noexcept { return data_ != nullptr; }
  const float* data() const noexcept { return data_.get(); }
  int64_t k() const noexcept { return k_; }
  int64_t n() const noexcept { return n_; }
  int64_t batch() const noexcept { return batch_; }
  // Floats between consecutive matrices: Problem::stride_b when batch() > 1.
  int64_t stride() const noexcept { return PackedFloats(k_, n_); }
  size_t bytes() const noexcept { return bytes_; }

 private:
  struct Unmap {
    // Constructors written out: a default member initializer cannot be used before PackedB is
    // complete, and data_ needs it there.
    Unmap() noexcept : bytes(0) {}
    explicit Unmap(size_t size) noexcept : bytes(size) {}
    size_t bytes;
    void operator()(float* data) const noexcept;
  };
  std::unique_ptr<float, Unmap> data_;
  size_t bytes_ = 0;
  int64_t k_ = 0;
  int64_t n_ = 0;
  int64_t batch_ = 0;
};

}  // namespace tunableop
