#include "core/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

namespace simgpu {
namespace {

// A tile in registers: two vectors by four columns.
constexpr int64_t kVectorBytes = 32;
template <typename T>
constexpr int64_t kRows = 2 * kVectorBytes / static_cast<int64_t>(sizeof(T));
constexpr int64_t kColumns = 4;

int64_t RoundUp(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

double Prepared(double value, Compute compute) {
  switch (compute) {
    case Compute::kTf32:
      return RoundToTf32(static_cast<float>(value));
    case Compute::kBf16:
      return RoundToBf16(static_cast<float>(value));
    case Compute::kF16:
      return RoundToF16(static_cast<float>(value));
    default:
      return value;
  }
}

// Calls what(type) with the type as a constant.
template <typename What>
void WithType(Type type, What what) {
  switch (type) {
    case Type::kF32:
      return what(std::integral_constant<Type, Type::kF32>());
    case Type::kF64:
      return what(std::integral_constant<Type, Type::kF64>());
    case Type::kF16:
      return what(std::integral_constant<Type, Type::kF16>());
    case Type::kBF16:
      return what(std::integral_constant<Type, Type::kBF16>());
  }
}

// Panels of kWidth rows (of A) or columns (of B): [panel][k][kWidth], zeros beyond the end.
template <typename T, int64_t kWidth>
std::vector<T> Pack(const Matrix& matrix, int64_t item, int64_t outer, int64_t outer_stride,
                    int64_t k, int64_t k_stride, Compute compute) {
  std::vector<T> packed(static_cast<size_t>(RoundUp(outer, kWidth) * k));
  const auto size = static_cast<int64_t>(SizeOf(matrix.type));
  const char* const base = matrix.data + item * matrix.batch_stride * size;
  WithType(matrix.type, [&](auto type) {
    T* to = packed.data();
    for (int64_t start = 0; start < outer; start += kWidth) {
      const int64_t count = std::min(kWidth, outer - start);
      for (int64_t p = 0; p < k; ++p, to += kWidth) {
        const char* const from = base + (start * outer_stride + p * k_stride) * size;
        for (int64_t o = 0; o < count; ++o) {
          to[o] = static_cast<T>(Load(from + o * outer_stride * size, type()));
        }
      }
    }
  });
  if (compute != Compute::kF32 && compute != Compute::kF64) {
    for (T& value : packed) value = static_cast<T>(Prepared(static_cast<double>(value), compute));
  }
  return packed;
}

// out[column][row] = the product of two panels over `k`.
template <typename T>
[[gnu::always_inline]] inline void Tile(const T* a, const T* b, int64_t k, T* out, int64_t ld) {
  typedef T Vector __attribute__((vector_size(kVectorBytes), aligned(alignof(T))));
  constexpr int64_t kLanes = kRows<T> / 2;
  Vector sums[kColumns][2] = {};
  for (int64_t p = 0; p < k; ++p, a += kRows<T>, b += kColumns) {
    Vector low;
    Vector high;
    std::memcpy(&low, a, sizeof low);
    std::memcpy(&high, a + kLanes, sizeof high);
#pragma GCC unroll 4
    for (int64_t j = 0; j < kColumns; ++j) {
      sums[j][0] += b[j] * low;
      sums[j][1] += b[j] * high;
    }
  }
  for (int64_t j = 0; j < kColumns; ++j) std::memcpy(out + j * ld, sums[j], sizeof sums[j]);
}

template <typename T>
[[gnu::always_inline]] inline void Tiles(const T* a, const T* b, int64_t k0, int64_t k1, int64_t k,
                                         int64_t m, int64_t n, T* out) {
  const int64_t ld = RoundUp(m, kRows<T>);
  for (int64_t j = 0; j < n; j += kColumns) {
    for (int64_t i = 0; i < m; i += kRows<T>) {
      Tile(a + i * k + k0 * kRows<T>, b + j * k + k0 * kColumns, k1 - k0, out + j * ld + i, ld);
    }
  }
}

#if defined(__x86_64__)
template <typename T>
[[gnu::target("avx2,fma")]] void TilesWide(const T* a, const T* b, int64_t k0, int64_t k1,
                                           int64_t k, int64_t m, int64_t n, T* out) {
  Tiles(a, b, k0, k1, k, m, n, out);
}
const bool kWide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif

template <typename T>
void Multiply(const T* a, const T* b, int64_t k0, int64_t k1, const Gemm& gemm, T* out) {
#if defined(__x86_64__)
  if (kWide) return TilesWide(a, b, k0, k1, gemm.k, gemm.m, gemm.n, out);
#endif
  Tiles(a, b, k0, k1, gemm.k, gemm.m, gemm.n, out);
}

double Activate(double value, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return value > 0 || std::isnan(value) ? value : 0;
    case Activation::kGelu: {  // as cuBLASLt and hipBLASLt: by tanh
      const double inner = 0.7978845608028654 * (value + 0.044715 * value * value * value);
      return 0.5 * value * (1 + std::tanh(inner));
    }
    default:
      return value;
  }
}

char* At(const Matrix& matrix, int64_t row, int64_t column, int64_t item) {
  return matrix.data +
         (row * matrix.row_stride + column * matrix.column_stride + item * matrix.batch_stride) *
             static_cast<int64_t>(SizeOf(matrix.type));
}

template <typename T>
void Finish(const Gemm& gemm, int64_t item, const T* sums) {
  const int64_t ld = RoundUp(gemm.m, kRows<T>);
  const bool plain =
      gemm.beta == 0 && gemm.bias.data == nullptr && gemm.activation == Activation::kNone;
  WithType(gemm.d.type, [&](auto type) {
    for (int64_t j = 0; j < gemm.n; ++j) {
      for (int64_t i = 0; i < gemm.m; ++i) {
        double value = gemm.alpha * static_cast<double>(sums[j * ld + i]);
        if (!plain) {
          if (gemm.beta != 0) value += gemm.beta * Load(At(gemm.c, i, j, item), gemm.c.type);
          if (gemm.bias.data != nullptr) value += Load(At(gemm.bias, i, j, item), gemm.bias.type);
          value = Activate(value, gemm.activation);
        }
        Store(At(gemm.d, i, j, item), type(), value);
      }
    }
  });
}

// The sums of one item, [column][rows rounded up].
template <typename T>
std::vector<T> Sums(const Gemm& gemm, const Summation& how, int64_t item) {
  const auto a = Pack<T, kRows<T>>(gemm.a, item, gemm.m, gemm.a.row_stride, gemm.k,
                                   gemm.a.column_stride, gemm.compute);
  const auto b = Pack<T, kColumns>(gemm.b, item, gemm.n, gemm.b.column_stride, gemm.k,
                                   gemm.b.row_stride, gemm.compute);
  const int64_t ld = RoundUp(gemm.m, kRows<T>);
  std::vector<T> sums(static_cast<size_t>(ld * RoundUp(gemm.n, kColumns)));
  if (how.splits <= 1) {
    Multiply(a.data(), b.data(), 0, gemm.k, gemm, sums.data());
    return sums;
  }
  const int64_t each = (gemm.k + how.splits - 1) / how.splits;
  std::vector<T> kept;
  const size_t size = SizeOf(how.partial);
  for (int64_t split = 0; split < how.splits; ++split) {
    const int64_t k0 = std::min(split * each, gemm.k);
    Multiply(a.data(), b.data(), k0, std::min(k0 + each, gemm.k), gemm, sums.data());
    if (how.workspace == nullptr) {
      kept.resize(sums.size());
      for (size_t i = 0; i < sums.size(); ++i) kept[i] += sums[i];
      continue;
    }
    for (int64_t j = 0; j < gemm.n; ++j) {
      for (int64_t i = 0; i < gemm.m; ++i) {
        Store(how.workspace + static_cast<size_t>((split * gemm.n + j) * gemm.m + i) * size,
              how.partial, static_cast<double>(sums[static_cast<size_t>(j * ld + i)]));
      }
    }
  }
  if (how.workspace == nullptr) return kept;
  if (item == 0 && how.between != nullptr) how.between();
  for (int64_t j = 0; j < gemm.n; ++j) {
    for (int64_t i = 0; i < gemm.m; ++i) {
      T sum = 0;
      for (int64_t split = 0; split < how.splits; ++split) {
        sum += static_cast<T>(
            Load(how.workspace + static_cast<size_t>((split * gemm.n + j) * gemm.m + i) * size,
                 how.partial));
      }
      sums[static_cast<size_t>(j * ld + i)] = sum;
    }
  }
  return sums;
}

template <typename T>
void RunAs(const Gemm& gemm, const Summation& how) {
  Summation each = how;
  const size_t bytes = PartialBytes(gemm, how) / static_cast<size_t>(gemm.batch);
  for (int64_t item = 0; item < gemm.batch; ++item) {
    const std::vector<T> sums = Sums<T>(gemm, each, item);
    Finish(gemm, item, sums.data());
    if (each.workspace != nullptr) each.workspace += bytes;
  }
}

}  // namespace

size_t PartialBytes(const Gemm& gemm, const Summation& how) {
  return how.splits <= 1
             ? 0
             : static_cast<size_t>(how.splits * gemm.m * gemm.n * gemm.batch) * SizeOf(how.partial);
}

void Run(const Gemm& gemm, const Summation& how) {
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch == 0) return;
  if (gemm.compute == Compute::kF64) return RunAs<double>(gemm, how);
  RunAs<float>(gemm, how);
}

size_t Extent(const Matrix& matrix, int64_t rows, int64_t columns, int64_t batch) {
  if (rows == 0 || columns == 0 || batch == 0) return 0;
  return static_cast<size_t>((rows - 1) * matrix.row_stride + (columns - 1) * matrix.column_stride +
                             (batch - 1) * matrix.batch_stride + 1) *
         SizeOf(matrix.type);
}

}  // namespace simgpu
