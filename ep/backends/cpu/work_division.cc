#include "backends/cpu/work_division.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace tunableop::cpu {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"none", "rows", "cols", "grid", "batch"};

// The divisor of `threads` that is nearest to its square root from below: 6 -> 2 (x 3).
int64_t NearSquareFactor(int64_t threads) {
  int64_t factor = 1;
  for (int64_t i = 2; i * i <= threads; ++i) {
    if (threads % i == 0) factor = i;
  }
  return factor;
}

}  // namespace

std::string_view Name(Split split) noexcept { return kNames[static_cast<size_t>(split)]; }

std::optional<Split> ParseSplit(std::string_view name) noexcept {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Split>(i);
  }
  return std::nullopt;
}

WorkDivision::WorkDivision(Split split, int64_t threads, int64_t items, int64_t rows,
                           int64_t columns, int64_t m, int64_t n) noexcept
    : items_(items), rows_(rows), columns_(columns) {
  threads = std::max<int64_t>(1, threads);
  switch (split) {
    case Split::kNone:
      break;
    case Split::kRows:
      row_parts_ = threads;
      break;
    case Split::kColumns:
      column_parts_ = threads;
      break;
    case Split::kGrid:
      row_parts_ = NearSquareFactor(threads);
      column_parts_ = threads / row_parts_;
      if (m > n) std::swap(row_parts_, column_parts_);
      break;
    case Split::kBatch:
      item_parts_ = threads;
      break;
  }
  item_parts_ = std::clamp<int64_t>(item_parts_, 1, std::max<int64_t>(1, items));
  row_parts_ = std::clamp<int64_t>(row_parts_, 1, std::max<int64_t>(1, rows));
  column_parts_ = std::clamp<int64_t>(column_parts_, 1, std::max<int64_t>(1, columns));
}

Part WorkDivision::Get(int64_t index) const noexcept {
  if (count() == 1) return {0, items_, 0, rows_, 0, columns_};
  const int64_t column = index % column_parts_;
  index /= column_parts_;
  const int64_t row = index % row_parts_;
  const int64_t item = index / row_parts_;
  return {items_ * item / item_parts_,       items_ * (item + 1) / item_parts_,
          rows_ * row / row_parts_,          rows_ * (row + 1) / row_parts_,
          columns_ * column / column_parts_, columns_ * (column + 1) / column_parts_};
}

Problem Flattened(const Problem& problem) noexcept {
  Problem flat = problem;
  if (problem.batch > 1 && problem.stride_b == 0 && problem.trans_a == 0 &&
      problem.stride_a == problem.m * problem.lda && problem.stride_c == problem.m * problem.ldc) {
    flat.m = problem.m * problem.batch;
    flat.batch = 1;
    flat.stride_a = 0;
    flat.stride_c = 0;
  }
  return flat;
}

}  // namespace tunableop::cpu
