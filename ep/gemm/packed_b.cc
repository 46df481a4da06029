#include "gemm/packed_b.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace tunableop {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Rows packed before moving to the next group. 16 source rows keep few pages in flight, and 16
// packed rows are one contiguous 4 KiB.
constexpr int64_t kRowBlock = 16;

typedef float Quad __attribute__((vector_size(16)));
typedef float UnalignedQuad __attribute__((vector_size(16), aligned(4), may_alias));

inline Quad Load4(const float* from) { return *reinterpret_cast<const UnalignedQuad*>(from); }
inline void Store4(float* to, Quad value) { *reinterpret_cast<UnalignedQuad*>(to) = value; }

inline void Transpose4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  const Quad r0 = Load4(from);
  const Quad r1 = Load4(from + from_stride);
  const Quad r2 = Load4(from + 2 * from_stride);
  const Quad r3 = Load4(from + 3 * from_stride);
  const Quad t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
  const Quad t1 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
  const Quad t2 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const Quad t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  Store4(to, __builtin_shufflevector(t0, t1, 0, 1, 4, 5));
  Store4(to + to_stride, __builtin_shufflevector(t0, t1, 2, 3, 6, 7));
  Store4(to + 2 * to_stride, __builtin_shufflevector(t2, t3, 0, 1, 4, 5));
  Store4(to + 3 * to_stride, __builtin_shufflevector(t2, t3, 2, 3, 6, 7));
}

// from: columns x rows with leading dimension ldb; to: rows x width.
void PackTransposedBlock(const float* from, int64_t ldb, int64_t rows, int64_t columns,
                         int64_t width, float* to) {
  const int64_t rows4 = rows / 4 * 4;
  const int64_t columns4 = columns / 4 * 4;
  for (int64_t j = 0; j < columns4; j += 4) {
    for (int64_t p = 0; p < rows4; p += 4) {
      Transpose4(from + j * ldb + p, ldb, to + p * width + j, width);
    }
    for (int64_t p = rows4; p < rows; ++p) {
      for (int64_t q = j; q < j + 4; ++q) to[p * width + q] = from[q * ldb + p];
    }
  }
  for (int64_t j = columns4; j < columns; ++j) {
    for (int64_t p = 0; p < rows; ++p) to[p * width + j] = from[j * ldb + p];
  }
}

// Matrices of at least a huge page are mapped (and so already zero), smaller ones allocated.
bool IsMapped(size_t bytes) { return bytes >= kHugePage; }

float* Allocate(size_t bytes) {
  if (!IsMapped(bytes)) {
    return static_cast<float*>(::operator new(bytes, std::align_val_t{64}, std::nothrow));
  }
  // The kernel aligns to 4 KiB only: map a huge page more and give the ends back.
  const size_t length = bytes + kHugePage;
  void* map = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(map);
  const uintptr_t aligned = (start + kHugePage - 1) & ~(uintptr_t{kHugePage} - 1);
  if (aligned != start) munmap(map, aligned - start);
  const size_t rest = start + length - (aligned + bytes);
  if (rest != 0) munmap(reinterpret_cast<void*>(aligned + bytes), rest);
  // Only advice: without huge pages everything still works.
  (void)madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<float*>(aligned);
}

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void PackB(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n,
           float* packed) noexcept {
  if (n == 1 && !transposed) {
    for (int64_t p = 0; p < k; ++p) packed[p] = b[p * ldb];
    return;
  }
  const int64_t groups = PackedGroupCount(n);
  for (int64_t p = 0; p < k; p += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, k - p);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t column = g * kGroupColumns;
      const int64_t columns = std::min(kGroupColumns, n - column);
      const int64_t width = PackedGroupWidth(n, g);
      float* to = packed + column * k + p * width;
      if (transposed) {
        PackTransposedBlock(b + column * ldb + p, ldb, rows, columns, width, to);
      } else {
        for (int64_t r = 0; r < rows; ++r) {
          std::memcpy(to + r * width, b + (p + r) * ldb + column,
                      static_cast<size_t>(columns) * sizeof(float));
        }
      }
      if (columns == width) continue;
      for (int64_t r = 0; r < rows; ++r) {
        std::fill(to + r * width + columns, to + (r + 1) * width, 0.0F);
      }
    }
  }
}

void UnpackB(const float* packed, int64_t k, int64_t n, float* out, int64_t ldo) noexcept {
  const int64_t groups = PackedGroupCount(n);
  for (int64_t p = 0; p < k; p += kRowBlock) {
    const int64_t last = std::min(k, p + kRowBlock);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t column = g * kGroupColumns;
      const int64_t width = PackedGroupWidth(n, g);
      const auto bytes = static_cast<size_t>(std::min(kGroupColumns, n - column)) * sizeof(float);
      const float* from = packed + column * k;
      for (int64_t r = p; r < last; ++r)
        std::memcpy(out + r * ldo + column, from + r * width, bytes);
    }
  }
}

void PackedB::Unmap::operator()(float* data) const noexcept {
  if (IsMapped(bytes)) {
    munmap(data, bytes);
  } else {
    ::operator delete(data, std::align_val_t{64});
  }
}

Result<PackedB> PackedB::Pack(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n,
                              int64_t batch, int64_t stride) {
  if (k < 0 || n < 0 || batch < 0 || stride < 0 || ldb < std::max<int64_t>(1, transposed ? k : n)) {
    return Status(StatusCode::kInvalidArgument, "packing B: a size is negative or ldb too short");
  }
  int64_t floats = 0;
  size_t bytes = 0;
  if (__builtin_mul_overflow(k, n + kGroupColumns, &floats) ||
      __builtin_mul_overflow(PackedFloats(k, n), batch, &floats) ||
      __builtin_mul_overflow(static_cast<size_t>(floats), sizeof(float), &bytes) ||
      bytes > SIZE_MAX - 2 * kHugePage) {
    return Status(StatusCode::kInvalidArgument, "packing B: the matrix is too large");
  }
  // A whole unit, so that an empty matrix has an address too.
  bytes = RoundUp(std::max<size_t>(bytes, 1), 64);
  if (IsMapped(bytes)) bytes = RoundUp(bytes, 4096);

  PackedB result;
  result.data_ = std::unique_ptr<float, Unmap>(Allocate(bytes), Unmap{bytes});
  if (!result.data_) {
    return Status(StatusCode::kOutOfMemory,
                  "packing B: no memory for " + std::to_string(bytes) + " bytes");
  }
  result.bytes_ = bytes;
  result.k_ = k;
  result.n_ = n;
  result.batch_ = batch;
  for (int64_t i = 0; i < batch; ++i) {
    PackB(b + i * stride, ldb, transposed, k, n, result.data_.get() + i * result.stride());
  }
  return result;
}

}  // namespace tunableop
