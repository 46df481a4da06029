#include "tuner/owned_operands.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <utility>

namespace tunableop {
namespace {

constexpr size_t kLine = 64;

int64_t Elements(int64_t rows, int64_t columns, int64_t leading, int64_t batch,
                 int64_t stride) noexcept {
  if (rows == 0 || columns == 0 || batch == 0) return 0;
  return (batch - 1) * stride + (rows - 1) * leading + columns;
}

bool HasBias(const Problem& problem) noexcept {
  return problem.epilogue == Epilogue::kBias || problem.epilogue == Epilogue::kBiasRelu ||
         problem.epilogue == Epilogue::kBiasGelu;
}

size_t BytesNeeded(const Problem& problem, bool b_too) noexcept {
  size_t bytes = static_cast<size_t>(ElementsOfA(problem)) * SizeOf(problem.a_type);
  if (b_too) bytes += static_cast<size_t>(ElementsOfB(problem)) * SizeOf(problem.b_type);
  if (HasBias(problem)) bytes += static_cast<size_t>(problem.n) * SizeOf(problem.c_type);
  if (problem.beta != ScalarClass::kZero) {
    bytes += static_cast<size_t>(ElementsOfC(problem)) * SizeOf(problem.c_type);
  }
  return bytes;
}

Status TooMuch(const Problem& problem, size_t needed, size_t max_bytes) {
  return {StatusCode::kOutOfMemory, ToString(problem) + ": copies of the operands would take " +
                                        std::to_string(needed) + " bytes, and there are " +
                                        std::to_string(max_bytes) +
                                        " for it (max_tuning_bytes holds what waits, what is "
                                        "measured and the stock provider's copies)"};
}

Status NoMemory(const Problem& problem) {
  return {StatusCode::kOutOfMemory, ToString(problem) + ": no memory for copies of the operands"};
}

// The upper half of an fp32 number is a bf16 one; fp16 has its exponent elsewhere. Exact for
// multiples of 1/128 up to 1, which both types hold.
uint16_t HalfBits(float value, DataType type) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(std::round(value * 128.0F) / 128.0F);
  if (type == DataType::kBFloat16) return static_cast<uint16_t>(bits >> 16U);
  const uint32_t sign = bits >> 31U << 15U;
  if ((bits & 0x7FFFFFFFU) == 0) return static_cast<uint16_t>(sign);
  constexpr uint32_t kRebias = (127U - 15U) << 10U;
  return static_cast<uint16_t>(sign | (((bits & 0x7FFFFFFFU) >> 13U) - kRebias));
}

void FillEvenly(void* to, DataType type, int64_t elements, std::mt19937& random) {
  std::uniform_real_distribution<float> even(-1.0F, 1.0F);
  for (int64_t i = 0; i < elements; ++i) {
    const float value = even(random);
    switch (type) {
      case DataType::kFloat32:
        static_cast<float*>(to)[i] = value;
        break;
      case DataType::kFloat64:
        static_cast<double*>(to)[i] = static_cast<double>(value);
        break;
      default:
        static_cast<uint16_t*>(to)[i] = HalfBits(value, type);
    }
  }
}

float ScalarOf(ScalarClass scalar) noexcept {
  if (scalar == ScalarClass::kZero) return 0.0F;
  return scalar == ScalarClass::kOne ? 1.0F : 0.5F;
}

}  // namespace

int64_t ElementsOfA(const Problem& p) noexcept {
  return Elements(p.trans_a != 0 ? p.k : p.m, p.trans_a != 0 ? p.m : p.k, p.lda, p.batch,
                  p.stride_a);
}

int64_t ElementsOfB(const Problem& p) noexcept {
  if (p.b_layout == BLayout::kPacked) {
    return p.batch == 0 ? 0 : (p.batch - 1) * p.stride_b + PackedFloats(p.k, p.n);
  }
  return Elements(p.trans_b != 0 ? p.n : p.k, p.trans_b != 0 ? p.k : p.n, p.ldb, p.batch,
                  p.stride_b);
}

int64_t ElementsOfC(const Problem& p) noexcept {
  return Elements(p.m, p.n, p.ldc, p.batch, p.stride_c);
}

void* OwnedOperands::Allocate(int64_t elements, size_t element_bytes, uint8_t alignment_class) {
  const size_t bytes = static_cast<size_t>(elements) * element_bytes;
  // Up to the best class a pointer may be better aligned than asked for; below it, it must not be.
  const size_t offset = alignment_class >= kMaxAlignmentLog2 ? 0 : size_t{1} << alignment_class;
  std::unique_ptr<char[]> block(new (std::nothrow) char[bytes + 2 * kLine]);
  if (block == nullptr) return nullptr;
  char* begin = block.get();
  begin += (kLine - reinterpret_cast<uintptr_t>(begin) % kLine) % kLine + offset;
  blocks_.push_back(std::move(block));
  bytes_ += bytes + 2 * kLine;
  return begin;
}

Result<OwnedOperands> OwnedOperands::Copy(const Problem& problem, const Operands& operands,
                                          std::shared_ptr<const PackedB> weight, size_t max_bytes) {
  const bool shared = weight != nullptr && problem.b_layout == BLayout::kPacked;
  const size_t needed = BytesNeeded(problem, !shared);
  if (needed > max_bytes) return TooMuch(problem, needed, max_bytes);
  OwnedOperands owned;
  owned.view_ = operands;
  owned.view_.c = nullptr;
  const auto copy = [&](const void* from, int64_t elements, DataType type, uint8_t alignment) {
    void* to = owned.Allocate(elements, SizeOf(type), alignment);
    if (to != nullptr && from != nullptr) {
      std::memcpy(to, from, static_cast<size_t>(elements) * SizeOf(type));
    }
    return to;
  };
  owned.view_.a = copy(operands.a, ElementsOfA(problem), problem.a_type, problem.align_a);
  if (owned.view_.a == nullptr) return NoMemory(problem);
  if (shared) {
    owned.weight_ = std::move(weight);
  } else {
    const bool packed = problem.b_layout == BLayout::kPacked;
    const void* b = packed ? static_cast<const void*>(operands.packed_b) : operands.b;
    const void* to = copy(b, ElementsOfB(problem), problem.b_type, problem.align_b);
    if (to == nullptr) return NoMemory(problem);
    owned.view_.b = packed ? nullptr : to;
    owned.view_.packed_b = packed ? static_cast<const float*>(to) : nullptr;
  }
  if (HasBias(problem)) {
    owned.view_.bias = copy(operands.bias, problem.n, problem.c_type, kMaxAlignmentLog2);
    if (owned.view_.bias == nullptr) return NoMemory(problem);
  }
  if (problem.beta != ScalarClass::kZero) {
    owned.view_.c = copy(operands.c, ElementsOfC(problem), problem.c_type, problem.align_c);
    if (owned.view_.c == nullptr) return NoMemory(problem);
  }
  return owned;
}

OwnedOperands OwnedOperands::Of(const Operands& view, std::shared_ptr<const void> owner,
                                size_t bytes) {
  OwnedOperands owned;
  owned.view_ = view;
  owned.owner_ = std::move(owner);
  owned.bytes_ = bytes;
  return owned;
}

Result<OwnedOperands> OwnedOperands::MakeUp(const Problem& problem, size_t max_bytes) {
  const size_t needed = BytesNeeded(problem, /*b_too=*/true);
  if (needed > max_bytes) return TooMuch(problem, needed, max_bytes);
  OwnedOperands owned;
  std::mt19937 random(static_cast<uint32_t>(Hash(problem)));
  const auto make = [&](int64_t elements, DataType type, uint8_t alignment) {
    void* to = owned.Allocate(elements, SizeOf(type), alignment);
    if (to != nullptr) FillEvenly(to, type, elements, random);
    return to;
  };
  owned.view_.alpha = ScalarOf(problem.alpha);
  owned.view_.beta = ScalarOf(problem.beta);
  owned.view_.a = make(ElementsOfA(problem), problem.a_type, problem.align_a);
  if (owned.view_.a == nullptr) return NoMemory(problem);
  if (problem.b_layout == BLayout::kPacked) {
    const int64_t matrices = problem.batch > 1 && problem.stride_b > 0 ? problem.batch : 1;
    std::vector<float> plain(static_cast<size_t>(matrices * problem.k * problem.n));
    FillEvenly(plain.data(), DataType::kFloat32, matrices * problem.k * problem.n, random);
    Result<PackedB> packed = PackedB::Pack(plain.data(), problem.n, false, problem.k, problem.n,
                                           matrices, problem.k * problem.n);
    if (!packed.ok()) return packed.TakeStatus();
    owned.weight_ = std::make_shared<const PackedB>(std::move(packed).value());
    owned.view_.packed_b = owned.weight_->data();
    owned.bytes_ += owned.weight_->bytes();
  } else {
    owned.view_.b = make(ElementsOfB(problem), problem.b_type, problem.align_b);
    if (owned.view_.b == nullptr) return NoMemory(problem);
  }
  if (HasBias(problem)) {
    owned.view_.bias = make(problem.n, problem.c_type, kMaxAlignmentLog2);
    if (owned.view_.bias == nullptr) return NoMemory(problem);
  }
  if (problem.beta != ScalarClass::kZero) {
    owned.view_.c = make(ElementsOfC(problem), problem.c_type, problem.align_c);
    if (owned.view_.c == nullptr) return NoMemory(problem);
  }
  return owned;
}

}  // namespace tunableop
