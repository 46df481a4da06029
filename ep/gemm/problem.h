// What a GEMM is here: the key under which a measured choice is kept.
//
// Row-major throughout:  C[b] = epilogue(alpha * op(A[b]) * op(B[b]) + beta * C[b]),  b in [0,
// batch)
//   op(A) is m x k, op(B) is k x n, C is m x n.
// Two problems that could want different kernels must never compare equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "gemm/status.h"

namespace tunableop {

enum class DataType : uint8_t { kFloat32, kFloat16, kBFloat16, kFloat64 };
enum class ScalarClass : uint8_t { kZero, kOne, kOther };
enum class Epilogue : uint8_t { kNone, kBias, kRelu, kBiasRelu, kGelu, kBiasGelu };
enum class Precision : uint8_t { kExact, kBf16, kTf32 };
// How op(B) is handed over: as stored, or in the packed layout of gemm/packed_b.h.
enum class BLayout : uint8_t { kPlain, kPacked };

// The largest alignment that changes which kernel is best: log2 of 16 bytes. A pointer aligned to
// more is in the same class, so that a key does not depend on where an allocator happened to land.
inline constexpr uint8_t kMaxAlignmentLog2 = 4;

struct Problem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  // Leading dimensions: elements between rows of A, B and C as stored. ldb is 0 when B is packed.
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = 0;
  // Elements between consecutive batch items; 0 means that one matrix serves the whole batch.
  // With a packed B: floats between packed items.
  int64_t stride_a = 0;
  int64_t stride_b = 0;
  int64_t stride_c = 0;
  DataType a_type = DataType::kFloat32;
  DataType b_type = DataType::kFloat32;
  DataType c_type = DataType::kFloat32;
  uint8_t trans_a = 0;  // 1: A is stored k x m
  uint8_t trans_b = 0;  // 1: B is stored n x k; 0 when B is packed (packing undoes it)
  BLayout b_layout = BLayout::kPlain;
  uint8_t b_constant = 0;  // 1: B is a weight, the same in every call
  ScalarClass alpha = ScalarClass::kOne;
  ScalarClass beta = ScalarClass::kZero;
  Epilogue epilogue = Epilogue::kNone;
  Precision precision = Precision::kExact;
  uint8_t align_a = 0;  // alignment class: min(log2 of the pointer's alignment, kMaxAlignmentLog2)
  uint8_t align_b = 0;
  uint8_t align_c = 0;
  uint16_t threads = 1;  // CPU threads that the executor offers; 0 on a GPU

  bool operator==(const Problem&) const noexcept = default;
};
// Hash and equality work on the bytes: there must be no padding.
static_assert(std::has_unique_object_representations_v<Problem>);
static_assert(sizeof(Problem) == 96);

// Well mixed in all bits; a few nanoseconds. Not stable between versions: never written to a file.
uint64_t Hash(const Problem& problem) noexcept;

// 2 * m * n * k * batch.
double Flops(const Problem& problem) noexcept;

// Error when a dimension or stride is negative, a leading dimension is too short, or a product of
// sizes does not fit in int64.
Status Validate(const Problem& problem);

// "M=128,N=1536,K=384,fp32" plus whatever differs from a plain product ("transB", "batch=96",
// "bias").
std::string ToString(const Problem& problem);

uint8_t AlignmentClass(const void* pointer) noexcept;
ScalarClass ClassOf(float scalar) noexcept;

// "fp32", "fp16", "bf16", "fp64".
std::string_view Name(DataType type) noexcept;
// "none", "bias", "relu", "bias_relu", "gelu", "bias_gelu".
std::string_view Name(Epilogue epilogue) noexcept;
std::string_view Name(Precision precision) noexcept;  // "exact", "bf16", "tf32"
std::string_view Name(ScalarClass scalar) noexcept;   // "0", "1", "other"
std::string_view Name(BLayout layout) noexcept;       // "plain", "packed"
size_t SizeOf(DataType type) noexcept;                // bytes

}  // namespace tunableop
