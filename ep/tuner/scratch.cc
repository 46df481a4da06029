#include "tuner/scratch.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "tuner/row_runs.h"

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

// From the first to the last element of C, not stride times batch: the last item ends early.
__int128 Extent(const Problem& p) noexcept {
  if (p.m <= 0 || p.n <= 0 || p.batch <= 0) return 0;
  return static_cast<__int128>(p.batch - 1) * p.stride_c + static_cast<__int128>(p.m - 1) * p.ldc +
         p.n;
}

}  // namespace

void Scratch::Free::operator()(void* memory) const noexcept {
  if (bytes == 0) return;
  // The next owner of this memory may read it before writing, and should find no NaN of ours.
  std::memset(memory, 0, bytes);
  ::operator delete(memory, kAlignment);
}

Result<size_t> Scratch::BytesFor(const Problem& problem, size_t max_bytes) {
  const __int128 bytes =
      Extent(problem) * static_cast<__int128>(SizeOf(problem.c_type)) + 2 * kMarginBytes + 64;
  if (bytes > static_cast<__int128>(max_bytes)) {
    return Status(StatusCode::kOutOfMemory, "a copy of C takes more than the ceiling of " +
                                                std::to_string(max_bytes) + " bytes");
  }
  return static_cast<size_t>(bytes);
}

Result<Scratch> Scratch::Create(const Problem& problem, size_t max_bytes) {
  Result<size_t> bytes = BytesFor(problem, max_bytes);
  if (!bytes.ok()) return bytes.TakeStatus();
  Scratch scratch(problem);
  scratch.memory_ = std::unique_ptr<void, Free>(
      ::operator new(bytes.value(), kAlignment, std::nothrow), Free(bytes.value()));
  if (scratch.memory_ == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  "no memory for a copy of C of " + std::to_string(bytes.value()) + " bytes");
  }
  scratch.LayOut(bytes.value());
  return scratch;
}

Scratch Scratch::Image(const Problem& problem, void* memory) {
  Scratch scratch(problem);
  scratch.image_ = true;
  scratch.memory_ = std::unique_ptr<void, Free>(memory, Free());
  scratch.LayOut(BytesFor(problem, SIZE_MAX).value());
  return scratch;
}

size_t Scratch::OffsetOfC(const Problem& problem) noexcept {
  // As much aligned as the real C, and not more: it decides which kernels run, and how fast.
  const size_t alignment = size_t{1} << problem.align_c;
  const size_t shift =
      problem.align_c < kMaxAlignmentLog2 ? std::max(SizeOf(problem.c_type), alignment) : 0;
  return static_cast<size_t>(kMarginBytes) + shift;
}

void Scratch::LayOut(size_t bytes) noexcept {
  bytes_ = bytes;
  salt_ = NextSalt();
  const auto size = static_cast<int64_t>(SizeOf(problem_.c_type));
  const auto offset = static_cast<int64_t>(OffsetOfC(problem_));
  first_ = offset / size;
  elements_ = first_ + static_cast<int64_t>(Extent(problem_)) + kMarginBytes / size;
  c_ = static_cast<char*>(memory_.get()) + offset;
  PoisonAll();
}

int64_t Scratch::OffsetOfRow(int64_t row) const noexcept {
  return row / problem_.m * problem_.stride_c + row % problem_.m * problem_.ldc;
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

void Scratch::CopyC(Executor& executor, void* out) const noexcept {
  const size_t size = SizeOf(problem_.c_type);
  const size_t row = static_cast<size_t>(problem_.n) * size;
  RowRuns(problem_).ForEach(executor, [&](size_t /*run*/, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(static_cast<char*>(out) + static_cast<size_t>(i) * row,
                  static_cast<const char*>(c_) + static_cast<size_t>(OffsetOfRow(i)) * size, row);
    }
  });
}

bool Scratch::FindPoison(Executor& executor, int64_t& batch, int64_t& row, int64_t& column) const {
  const RowRuns runs(problem_);
  // The first row of each run that has poison, plus 1; 0: none.
  std::vector<int64_t> first(runs.count(), 0);
  WithPoison(problem_.c_type, salt_, [&](auto poison) {
    const auto* c = static_cast<const decltype(poison)*>(c_);
    runs.ForEach(executor, [&](size_t run, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto* elements = c + OffsetOfRow(i);
        decltype(poison) found = 0;  // no early exit, and no wider type: vectorises
        for (int64_t j = 0; j < problem_.n; ++j) {
          found = static_cast<decltype(poison)>(found | (elements[j] == poison ? 1U : 0U));
        }
        if (found == 0) continue;
        first[run] = i + 1;
        return;
      }
    });
  });
  const auto found = std::find_if(first.begin(), first.end(), [](int64_t i) { return i != 0; });
  if (found == first.end()) return false;
  batch = (*found - 1) / problem_.m;
  row = (*found - 1) % problem_.m;
  WithPoison(problem_.c_type, salt_, [&](auto poison) {
    const auto* begin = static_cast<const decltype(poison)*>(c_) + OffsetOfRow(*found - 1);
    column = std::find(begin, begin + problem_.n, poison) - begin;
  });
  return true;
}

bool Scratch::RowsAreInOrder() const noexcept {
  return problem_.batch == 1 || problem_.stride_c >= (problem_.m - 1) * problem_.ldc + problem_.n;
}

bool Scratch::GapsArePoison() const noexcept {
  return WithPoison(problem_.c_type, salt_, [&](auto poison) {
    const auto* begin = static_cast<const decltype(poison)*>(memory_.get());
    decltype(poison) difference = 0;  // no early exit: vectorises
    int64_t at = 0;
    const auto look_until = [&](int64_t end) {
      for (; at < end; ++at) {
        difference = static_cast<decltype(poison)>(difference | (begin[at] ^ poison));
      }
    };
    const int64_t rows = problem_.n > 0 ? problem_.batch * problem_.m : 0;
    for (int64_t i = 0; i < rows; ++i) {
      look_until(first_ + OffsetOfRow(i));
      at += problem_.n;
    }
    look_until(elements_);
    return difference == 0;
  });
}

bool Scratch::PoisonAndCheckGaps() noexcept {
  if (RowsAreInOrder()) {
    const bool intact = GapsArePoison();
    if (image_) return intact;
    if (intact) {
      PoisonC();
    } else {
      PoisonAll();
    }
    return intact;
  }
  PoisonC();
  const bool intact = WithPoison(problem_.c_type, salt_, [&](auto poison) {
    const auto* begin = static_cast<const decltype(poison)*>(memory_.get());
    decltype(poison) difference = 0;  // no early exit: vectorises
    for (int64_t i = 0; i < elements_; ++i) {
      difference = static_cast<decltype(poison)>(difference | (begin[i] ^ poison));
    }
    return difference == 0;
  });
  if (!intact) PoisonAll();
  return intact;
}

}  // namespace tunableop
