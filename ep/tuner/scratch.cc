#include "tuner/scratch.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <random>

namespace tunableop {
namespace {

constexpr int64_t kMarginBytes = 512;  // catches a full vector or two written past the end
constexpr std::align_val_t kAlignment{64};

// Quiet NaNs whose payload is another one in each scratch. Processors pass the payload of a NaN
// operand on to the result, so a fixed payload that got into somebody's buffer (memory that was
// freed here, say) would look like an element that no kernel wrote.
template <typename Function>
auto WithPoison(DataType type, uint64_t salt, Function function) {
  switch (type) {
    case DataType::kFloat16:
      return function(static_cast<uint16_t>(0x7E01U | (salt & 0x1FEU)));
    case DataType::kBFloat16:
      return function(static_cast<uint16_t>(0x7FC1U | (salt & 0x3EU)));
    case DataType::kFloat64:
      return function(uint64_t{0x7FF8000000000001} | (salt & 0x7FFFFFFFFFFFEU));
    case DataType::kFloat32:
      break;
  }
  return function(static_cast<uint32_t>(0x7FC00001U | (salt & 0x3FFFFEU)));
}

// Another number in each call and each process.
uint64_t NextSalt() {
  static std::atomic<uint64_t> next{std::random_device{}()};
  // The finaliser of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
  // generators").
  uint64_t z = next.fetch_add(0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

void Scratch::Free::operator()(void* memory) const noexcept {
  // The next owner of this memory may read it before writing, and should find no NaN of ours.
  std::memset(memory, 0, bytes);
  ::operator delete(memory, kAlignment);
}

Result<Scratch> Scratch::Create(const Problem& problem, size_t max_bytes) {
  Scratch scratch(problem);
  const auto size = static_cast<int64_t>(SizeOf(problem.c_type));
  // From the first to the last element, not stride times batch: the last item ends early.
  __int128 extent = 0;
  if (problem.m > 0 && problem.n > 0 && problem.batch > 0) {
    extent = static_cast<__int128>(problem.batch - 1) * problem.stride_c +
             static_cast<__int128>(problem.m - 1) * problem.ldc + problem.n;
  }
  const __int128 bytes = extent * size + 2 * kMarginBytes + 64;
  if (bytes > static_cast<__int128>(max_bytes)) {
    return Status(StatusCode::kOutOfMemory, "a copy of C takes more than the ceiling of " +
                                                std::to_string(max_bytes) + " bytes");
  }
  scratch.bytes_ = static_cast<size_t>(bytes);
  scratch.salt_ = NextSalt();
  scratch.memory_ = std::unique_ptr<void, Free>(
      ::operator new(scratch.bytes_, kAlignment, std::nothrow), Free(scratch.bytes_));
  if (scratch.memory_ == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  "no memory for a copy of C of " + std::to_string(scratch.bytes_) + " bytes");
  }
  // As much aligned as the real C, and not more: it decides which kernels run, and how fast.
  int64_t offset = kMarginBytes;
  if (problem.align_c < kMaxAlignmentLog2) {
    offset += std::max<int64_t>(size, int64_t{1} << problem.align_c);
  }
  scratch.first_ = offset / size;
  scratch.elements_ = scratch.first_ + static_cast<int64_t>(extent) + kMarginBytes / size;
  scratch.c_ = static_cast<char*>(scratch.memory_.get()) + offset;
  scratch.Poison(scratch.memory_.get(), scratch.elements_);
  return scratch;
}

template <typename Function>
void Scratch::ForEachRow(Function function) const noexcept {
  const auto size = static_cast<int64_t>(SizeOf(problem_.c_type));
  for (int64_t b = 0; b < problem_.batch; ++b) {
    for (int64_t i = 0; i < problem_.m; ++i) {
      function((b * problem_.stride_c + i * problem_.ldc) * size);
    }
  }
}

void Scratch::Poison(void* to, int64_t elements) const noexcept {
  WithPoison(problem_.c_type, salt_, [&](auto poison) {
    std::fill_n(static_cast<decltype(poison)*>(to), elements, poison);
  });
}

void Scratch::PoisonC() noexcept {
  ForEachRow([&](int64_t at) { Poison(static_cast<char*>(c_) + at, problem_.n); });
}

void Scratch::FillC(const void* c) noexcept {
  const size_t row = static_cast<size_t>(problem_.n) * SizeOf(problem_.c_type);
  ForEachRow([&](int64_t at) {
    std::memcpy(static_cast<char*>(c_) + at, static_cast<const char*>(c) + at, row);
  });
}

void Scratch::CopyC(void* out) const noexcept {
  const size_t row = static_cast<size_t>(problem_.n) * SizeOf(problem_.c_type);
  char* to = static_cast<char*>(out);
  ForEachRow([&](int64_t at) {
    std::memcpy(to, static_cast<const char*>(c_) + at, row);
    to += row;
  });
}

bool Scratch::FindPoison(int64_t& batch, int64_t& row, int64_t& column) const noexcept {
  return WithPoison(problem_.c_type, salt_, [&](auto poison) {
    const auto* c = static_cast<const decltype(poison)*>(c_);
    for (int64_t b = 0; b < problem_.batch; ++b) {
      for (int64_t i = 0; i < problem_.m; ++i) {
        const auto* begin = c + b * problem_.stride_c + i * problem_.ldc;
        int64_t found = 0;  // no early exit: vectorises
        for (int64_t j = 0; j < problem_.n; ++j) found += begin[j] == poison ? 1 : 0;
        if (found == 0) continue;
        batch = b;
        row = i;
        column = std::find(begin, begin + problem_.n, poison) - begin;
        return true;
      }
    }
    return false;
  });
}

bool Scratch::PoisonAndCheckGaps() noexcept {
  PoisonC();
  const bool intact = WithPoison(problem_.c_type, salt_, [&](auto poison) {
    const auto* begin = static_cast<const decltype(poison)*>(memory_.get());
    decltype(poison) difference = 0;  // no early exit: vectorises
    for (int64_t i = 0; i < elements_; ++i) {
      difference = static_cast<decltype(poison)>(difference | (begin[i] ^ poison));
    }
    return difference == 0;
  });
  if (!intact) Poison(memory_.get(), elements_);
  return intact;
}

}  // namespace tunableop
