// How one product is cut into tasks for an Executor.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "gemm/problem.h"

namespace tunableop::cpu {

// kGrid cuts rows and columns; the others what their name says.
enum class Split : uint8_t { kNone, kRows, kColumns, kGrid, kBatch };

std::string_view Name(Split split) noexcept;  // "none", "rows", "cols", "grid", "batch"
std::optional<Split> ParseSplit(std::string_view name) noexcept;

// One task: batch items x rows x columns, each a range [begin, end). Columns are counted in groups
// of kGroupColumns, the unit of the packed layout.
struct Part {
  int64_t item_begin = 0;
  int64_t item_end = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t column_begin = 0;
  int64_t column_end = 0;
};

// An immutable division of items x rows x columns into at most `threads` parts of even size.
class WorkDivision {
 public:
  // m and n decide which side of a grid is longer.
  WorkDivision(Split split, int64_t threads, int64_t items, int64_t rows, int64_t columns,
               int64_t m, int64_t n) noexcept;

  int64_t count() const noexcept { return item_parts_ * row_parts_ * column_parts_; }
  Part Get(int64_t index) const noexcept;

 private:
  int64_t items_;
  int64_t rows_;
  int64_t columns_;
  int64_t item_parts_ = 1;
  int64_t row_parts_ = 1;
  int64_t column_parts_ = 1;
};

// A whole batch that shares B and whose A and C follow each other without a gap is one tall matrix.
Problem Flattened(const Problem& problem) noexcept;

}  // namespace tunableop::cpu
