#include "gemm/problem.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "gemm/packed_b.h"
#include "gemm/status.h"

namespace tunableop {
namespace {

constexpr std::array<std::string_view, 4> kTypeNames = {"fp32", "fp16", "bf16", "fp64"};
constexpr std::array<size_t, 4> kTypeSizes = {4, 2, 2, 8};
constexpr std::array<std::string_view, 6> kEpilogueNames = {"none",      "bias", "relu",
                                                            "bias_relu", "gelu", "bias_gelu"};
constexpr std::array<std::string_view, 3> kPrecisionNames = {"exact", "bf16", "tf32"};
constexpr std::array<std::string_view, 3> kScalarNames = {"0", "1", "other"};
constexpr std::array<std::string_view, 2> kLayoutNames = {"plain", "packed"};

// Folded 64 x 64 -> 128-bit multiplication: the mixing step of wyhash (public domain).
inline uint64_t Mix(uint64_t a, uint64_t b) noexcept {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// So that sizes in bytes, and sums of them, can be counted: far beyond any memory.
constexpr int64_t kMostElements = int64_t{1} << 56;

// Whether the elements from the first to the last of a batch of matrices are more than that.
bool TooLarge(int64_t rows, int64_t columns, int64_t leading, int64_t batch,
              int64_t stride) noexcept {
  const __int128 matrix = static_cast<__int128>(rows) * leading + columns;
  return matrix > kMostElements || static_cast<__int128>(batch) * stride > kMostElements;
}

Status Wrong(const Problem& problem, const char* what) {
  return {StatusCode::kInvalidArgument, ToString(problem) + ": " + what};
}

}  // namespace

uint64_t Hash(const Problem& problem) noexcept {
  std::array<uint64_t, sizeof(Problem) / sizeof(uint64_t)> words;
  std::memcpy(words.data(), &problem, sizeof(Problem));
  // Products that do not wait for each other: a chain of six costs three times as much. The
  // constants are wyhash's; each word meets one of its own, so that swapped sizes give another
  // hash.
  static_assert(words.size() == 12);
  const uint64_t a = Mix(words[0] ^ 0xa0761d6478bd642fULL, words[1] ^ 0xe7037ed1a0b428dbULL);
  const uint64_t b = Mix(words[2] ^ 0x8ebc6af09c88c6e3ULL, words[3] ^ 0x589965cc75374cc3ULL);
  const uint64_t c = Mix(words[4] ^ 0x1d8e4e27c47d124fULL, words[5] ^ 0xeb44accab455d165ULL);
  const uint64_t d = Mix(words[6] ^ 0x9c06faf4d023e3abULL, words[7] ^ 0xc060724a8424f345ULL);
  const uint64_t e = Mix(words[8] ^ 0xcb5af53ae3aaac31ULL, words[9] ^ 0xb56b4bcd2df7a6a3ULL);
  const uint64_t f = Mix(words[10] ^ 0x7a8c5e4b1d2f6a95ULL, words[11] ^ 0xd3b1a4c8e6f70923ULL);
  return Mix(a + 3 * b + 5 * c, (d + 7 * e + 9 * f) ^ 0xa0761d6478bd642fULL);
}

double Flops(const Problem& p) noexcept {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) *
         static_cast<double>(p.batch);
}

Status Validate(const Problem& p) {
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0) return Wrong(p, "a size is negative");
  if (p.stride_a < 0 || p.stride_b < 0 || p.stride_c < 0) return Wrong(p, "a stride is negative");
  if (p.lda < std::max<int64_t>(1, p.trans_a ? p.m : p.k)) return Wrong(p, "lda is too short");
  if (p.ldc < std::max<int64_t>(1, p.n)) return Wrong(p, "ldc is too short");
  if (p.b_layout == BLayout::kPlain) {
    if (p.ldb < std::max<int64_t>(1, p.trans_b ? p.k : p.n)) return Wrong(p, "ldb is too short");
  } else if (p.ldb != 0 || p.trans_b != 0) {
    return Wrong(p, "a packed B has neither ldb nor trans_b");
  }
  const bool packed = p.b_layout == BLayout::kPacked;
  if (TooLarge(p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, p.lda, p.batch, p.stride_a) ||
      TooLarge(p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, packed ? 0 : p.ldb, p.batch,
               p.stride_b) ||
      TooLarge(p.k, kColumnPad, p.n + kColumnPad, 1, 0) ||
      TooLarge(p.m, p.n, p.ldc, p.batch, p.stride_c)) {
    return Wrong(p, "the matrices are larger than 2^56 elements");
  }
  if (packed && p.stride_b != 0 && p.stride_b != PackedFloats(p.k, p.n)) {
    return Wrong(p, "packed matrices lie one after the other");
  }
  return Status::Ok();
}

std::string ToString(const Problem& p) {
  std::string s = "M=" + std::to_string(p.m) + ",N=" + std::to_string(p.n) +
                  ",K=" + std::to_string(p.k) + "," + std::string(Name(p.a_type));
  if (p.b_type != p.a_type || p.c_type != p.a_type) {
    s += "x" + std::string(Name(p.b_type)) + "->" + std::string(Name(p.c_type));
  }
  if (p.batch != 1) s += ",batch=" + std::to_string(p.batch);
  if (p.trans_a) s += ",transA";
  if (p.trans_b) s += ",transB";
  if (p.b_constant) s += ",weight";
  if (p.alpha == ScalarClass::kOther) s += ",alpha";
  if (p.beta != ScalarClass::kZero) s += p.beta == ScalarClass::kOne ? ",beta=1" : ",beta";
  if (p.epilogue != Epilogue::kNone) s += "," + std::string(Name(p.epilogue));
  if (p.precision != Precision::kExact) s += "," + std::string(Name(p.precision));
  if (p.threads > 1) s += ",threads=" + std::to_string(p.threads);
  return s;
}

uint8_t AlignmentClass(const void* pointer) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (address == 0) return kMaxAlignmentLog2;
  return static_cast<uint8_t>(std::min<int>(std::countr_zero(address), kMaxAlignmentLog2));
}

ScalarClass ClassOf(float scalar) noexcept {
  if (scalar == 0.0F) return ScalarClass::kZero;
  return scalar == 1.0F ? ScalarClass::kOne : ScalarClass::kOther;
}

std::string_view Name(DataType type) noexcept { return kTypeNames[static_cast<size_t>(type)]; }
std::string_view Name(Epilogue epilogue) noexcept {
  return kEpilogueNames[static_cast<size_t>(epilogue)];
}
std::string_view Name(Precision precision) noexcept {
  return kPrecisionNames[static_cast<size_t>(precision)];
}
std::string_view Name(ScalarClass scalar) noexcept {
  return kScalarNames[static_cast<size_t>(scalar)];
}
std::string_view Name(BLayout layout) noexcept { return kLayoutNames[static_cast<size_t>(layout)]; }
size_t SizeOf(DataType type) noexcept { return kTypeSizes[static_cast<size_t>(type)]; }

}  // namespace tunableop
