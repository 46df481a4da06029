#include "tuner/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "gemm/packed_b.h"
#include "tuner/versions.h"

namespace tunableop {
namespace {

inline float FromBFloat16(uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// IEEE 754 binary16, without branches, so that rows of it are converted by vector instructions
// (Marat Dukhan's FP16 library). All arithmetic is on normal numbers: right in every mode.
inline float FromFloat16(uint16_t bits) noexcept {
  const uint32_t word = static_cast<uint32_t>(bits) << 16U;
  const uint32_t twice = word + word;  // without the sign
  // Normal numbers, infinities and NaN: the exponent is moved, and its bias corrected.
  const float normal = std::bit_cast<float>((twice >> 4U) + (uint32_t{0xE0} << 23U)) * 0x1p-112F;
  // Subnormal ones: the fraction is put beside 0.5, which is then taken off.
  const float subnormal = std::bit_cast<float>((twice >> 17U) | (uint32_t{126} << 23U)) - 0.5F;
  const uint32_t magnitude = twice < (uint32_t{1} << 27U) ? std::bit_cast<uint32_t>(subnormal)
                                                          : std::bit_cast<uint32_t>(normal);
  return std::bit_cast<float>((word & 0x80000000U) | magnitude);
}

// Rows of elements that lie side by side.
TUNABLEOP_VERSIONS
void LoadRow(const float* from, int64_t count, double* out) noexcept {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<double>(from[i]);
}
TUNABLEOP_VERSIONS
void LoadFloat16Row(const uint16_t* from, int64_t count, double* out) noexcept {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<double>(FromFloat16(from[i]));
}
TUNABLEOP_VERSIONS
void LoadBFloat16Row(const uint16_t* from, int64_t count, double* out) noexcept {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<double>(FromBFloat16(from[i]));
}

struct Float32 {
  using Stored = float;
  static double Load(float v) noexcept { return static_cast<double>(v); }
  static void Load(const float* from, int64_t count, double* out) noexcept {
    LoadRow(from, count, out);
  }
};
struct Float64 {
  using Stored = double;
  static double Load(double v) noexcept { return v; }
  static void Load(const double* from, int64_t count, double* out) noexcept {
    std::copy_n(from, count, out);
  }
};
struct Float16 {
  using Stored = uint16_t;
  static double Load(uint16_t v) noexcept { return static_cast<double>(FromFloat16(v)); }
  static void Load(const uint16_t* from, int64_t count, double* out) noexcept {
    LoadFloat16Row(from, count, out);
  }
};
struct BFloat16 {
  using Stored = uint16_t;
  static double Load(uint16_t v) noexcept { return static_cast<double>(FromBFloat16(v)); }
  static void Load(const uint16_t* from, int64_t count, double* out) noexcept {
    LoadBFloat16Row(from, count, out);
  }
};

template <typename Function>
auto WithType(DataType type, Function function) noexcept {
  switch (type) {
    case DataType::kFloat16:
      return function(Float16{});
    case DataType::kBFloat16:
      return function(BFloat16{});
    case DataType::kFloat64:
      return function(Float64{});
    case DataType::kFloat32:
      break;
  }
  return function(Float32{});
}

}  // namespace

double LoadElement(const void* data, DataType type, int64_t index) noexcept {
  return WithType(type, [&](auto t) {
    using Type = decltype(t);
    return Type::Load(static_cast<const typename Type::Stored*>(data)[index]);
  });
}

void LoadElements(const void* data, DataType type, int64_t begin, int64_t count,
                  double* out) noexcept {
  WithType(type, [&](auto t) {
    using Type = decltype(t);
    Type::Load(static_cast<const typename Type::Stored*>(data) + begin, count, out);
  });
}

void LoadRowOfA(const Problem& p, const Operands& operands, int64_t batch, int64_t row,
                double* out) noexcept {
  WithType(p.a_type, [&](auto t) {
    using Type = decltype(t);
    const auto* a = static_cast<const typename Type::Stored*>(operands.a) + batch * p.stride_a;
    if (p.trans_a != 0) {
      for (int64_t i = 0; i < p.k; ++i) out[i] = Type::Load(a[i * p.lda + row]);
    } else {
      Type::Load(a + row * p.lda, p.k, out);
    }
  });
}

void LoadPanelOfB(const Problem& p, const Operands& operands, int64_t batch, int64_t k0, int64_t k1,
                  int64_t j0, int64_t j1, double* out) noexcept {
  const int64_t width = j1 - j0;
  if (p.b_layout == BLayout::kPacked) {
    const float* b = operands.packed_b + batch * p.stride_b;
    for (int64_t i = k0; i < k1; ++i) {
      double* row = out + (i - k0) * width;
      // A group's row is contiguous.
      for (int64_t j = j0; j < j1;) {
        const int64_t group_end = std::min(j1, (j / kGroupColumns + 1) * kGroupColumns);
        const float* from = b + (j / kGroupColumns) * kGroupColumns * p.k +
                            i * PackedGroupWidth(p.n, j / kGroupColumns) + j % kGroupColumns;
        for (; j < group_end; ++j) row[j - j0] = static_cast<double>(*from++);
      }
    }
    return;
  }
  WithType(p.b_type, [&](auto t) {
    using Type = decltype(t);
    const auto* b = static_cast<const typename Type::Stored*>(operands.b) + batch * p.stride_b;
    if (p.trans_b != 0) {
      for (int64_t j = j0; j < j1; ++j) {
        for (int64_t i = k0; i < k1; ++i) {
          out[(i - k0) * width + (j - j0)] = Type::Load(b[j * p.ldb + i]);
        }
      }
    } else {
      for (int64_t i = k0; i < k1; ++i) {
        Type::Load(b + i * p.ldb + j0, width, out + (i - k0) * width);
      }
    }
  });
}

double SumOfSquaresOfA(const Problem& p, const Operands& operands, int64_t batch, int64_t row,
                       int64_t skip, Subnormals subnormals) noexcept {
  constexpr int64_t kPiece = 64;
  return WithType(p.a_type, [&](auto t) {
    using Type = decltype(t);
    const auto* a = static_cast<const typename Type::Stored*>(operands.a) + batch * p.stride_a +
                    (p.trans_a != 0 ? row : row * p.lda);
    const int64_t step = p.trans_a != 0 ? p.lda : 1;
    double sums[4] = {};  // four chains: an addition takes several cycles
    int64_t used = 0;
    for (int64_t begin = 0; begin < p.k; begin += kPiece * skip) {
      const int64_t end = std::min(p.k, begin + kPiece);
      used += end - begin;
      int64_t i = begin;
      for (; i + 4 <= end; i += 4) {
        for (int64_t lane = 0; lane < 4; ++lane) {
          const double value = subnormals.Weigh(std::abs(Type::Load(a[(i + lane) * step])));
          sums[lane] += value * value;
        }
      }
      for (; i < end; ++i) {
        const double value = subnormals.Weigh(std::abs(Type::Load(a[i * step])));
        sums[0] += value * value;
      }
    }
    const double sum = sums[0] + sums[1] + sums[2] + sums[3];
    if (skip == 1) return sum;
    return 4.0 * sum * static_cast<double>(p.k) / static_cast<double>(std::max<int64_t>(1, used));
  });
}

double UnitRoundoff(DataType type) noexcept {
  switch (type) {
    case DataType::kFloat16:
      return 0x1p-11;
    case DataType::kBFloat16:
      return 0x1p-8;
    case DataType::kFloat64:
      return 0x1p-53;
    case DataType::kFloat32:
      break;
  }
  return 0x1p-24;
}

double LargestValue(DataType type) noexcept {
  switch (type) {
    case DataType::kFloat16:
      return 65504.0;
    case DataType::kBFloat16:
      return 0x1.FEp127;
    case DataType::kFloat64:
      return std::numeric_limits<double>::max();
    case DataType::kFloat32:
      break;
  }
  return static_cast<double>(std::numeric_limits<float>::max());
}

double SmallestNormal(DataType type) noexcept {
  switch (type) {
    case DataType::kFloat16:
      return 0x1p-14;
    case DataType::kFloat64:
      return std::numeric_limits<double>::min();
    case DataType::kBFloat16:
    case DataType::kFloat32:
      break;
  }
  return 0x1p-126;
}

DataType AccumulatorOf(const Problem& p) noexcept {
  return p.a_type == DataType::kFloat64 || p.b_type == DataType::kFloat64 ? DataType::kFloat64
                                                                          : DataType::kFloat32;
}

}  // namespace tunableop
