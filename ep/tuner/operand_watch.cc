#include "tuner/operand_watch.h"

#include <algorithm>
#include <cstring>

namespace tunableop {
namespace {

constexpr size_t kWholeBytes = size_t{64} << 10;
constexpr size_t kPieces = 1024;
constexpr size_t kPieceBytes = 64;

uint64_t Mix(uint64_t sum, const char* data, size_t bytes) noexcept {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15U;  // 2^64 over the golden ratio
  size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, 8);
    sum = (sum ^ word) * kOdd;
    sum ^= sum >> 29U;
  }
  for (; at < bytes; ++at) sum = (sum ^ static_cast<unsigned char>(data[at])) * kOdd;
  return sum;
}

uint64_t Mix(uint64_t sum, const Range& range) noexcept {
  const auto* data = static_cast<const char*>(range.data);
  if (data == nullptr) return sum;
  if (range.bytes <= kWholeBytes) return Mix(sum, data, range.bytes);
  const size_t last = range.bytes - kPieceBytes;
  for (size_t i = 0; i < kPieces; ++i) {
    sum = Mix(sum, data + last / (kPieces - 1) * i, kPieceBytes);
  }
  return Mix(sum, data + last, kPieceBytes);
}

}  // namespace

OperandWatch::OperandWatch(const Problem& problem, const Operands& operands) noexcept
    : ranges_(RangesOf(problem, operands)) {
  if (operands.beta == 0.0F) ranges_.c = {};
  sum_ = Sum();
}

uint64_t OperandWatch::Sum() const noexcept {
  uint64_t sum = Mix(1, ranges_.a);
  sum = Mix(sum, ranges_.b);
  sum = Mix(sum, ranges_.c);
  return Mix(sum, ranges_.bias);
}

}  // namespace tunableop
