// The element types of GEMMs, and how they are rounded.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace simgpu {

enum class Type : uint8_t { kF32, kF64, kF16, kBF16 };

inline size_t SizeOf(Type type) { return type == Type::kF64 ? 8 : type == Type::kF32 ? 4 : 2; }

inline uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// To the nearest, ties to even, in the low `drop` bits of the mantissa.
inline float RoundMantissa(float value, int drop) {
  uint32_t bits = BitsOf(value);
  if ((bits & 0x7F800000u) == 0x7F800000u) return value;
  const uint32_t half = 1u << (drop - 1);
  bits += half - 1 + ((bits >> drop) & 1u);
  return FloatOf(bits & ~((1u << drop) - 1));
}
inline float RoundToTf32(float value) { return RoundMantissa(value, 13); }
inline float RoundToBf16(float value) { return RoundMantissa(value, 16); }

inline float FromBf16(uint16_t bits) { return FloatOf(static_cast<uint32_t>(bits) << 16); }
inline uint16_t ToBf16(float value) {
  if (std::isnan(value)) return 0x7FC0;
  return static_cast<uint16_t>(BitsOf(RoundToBf16(value)) >> 16);
}

inline float FromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 0x1F) return FloatOf(sign | 0x7F800000u | mantissa << 13);
  if (exponent != 0) return FloatOf(sign | (exponent + 112) << 23 | mantissa << 13);
  const float tiny = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -tiny : tiny;
}
inline uint16_t ToF16(float value) {
  const uint32_t bits = BitsOf(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const float size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00u;
  if (size >= 65520.0f) return sign | 0x7C00u;
  if (size < 0x1p-14f) {  // subnormal: adding a big number rounds at the right bit
    const float shifted = size + 0.5f;
    return sign | static_cast<uint16_t>(BitsOf(shifted) - BitsOf(0.5f));
  }
  const uint32_t rounded = BitsOf(RoundMantissa(size, 13));
  return sign | static_cast<uint16_t>((rounded >> 13) - (112u << 10));
}
inline float RoundToF16(float value) { return FromF16(ToF16(value)); }

inline double Load(const char* from, Type type) {
  switch (type) {
    case Type::kF64: {
      double value;
      std::memcpy(&value, from, sizeof value);
      return value;
    }
    case Type::kF32: {
      float value;
      std::memcpy(&value, from, sizeof value);
      return value;
    }
    default: {
      uint16_t bits;
      std::memcpy(&bits, from, sizeof bits);
      return type == Type::kF16 ? FromF16(bits) : FromBf16(bits);
    }
  }
}
inline void Store(char* to, Type type, double value) {
  if (type == Type::kF64) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const auto narrow = static_cast<float>(value);
  if (type == Type::kF32) {
    std::memcpy(to, &narrow, sizeof narrow);
    return;
  }
  const uint16_t bits = type == Type::kF16 ? ToF16(narrow) : ToBf16(narrow);
  std::memcpy(to, &bits, sizeof bits);
}

}  // namespace simgpu
