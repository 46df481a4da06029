// Work on all elements of C in runs of rows, spread over an executor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gemm/executor.h"
#include "gemm/problem.h"

namespace tunableop {

class RowRuns {
 public:
  explicit RowRuns(const Problem& problem) noexcept
      : rows_(problem.batch * problem.m),
        run_(std::max<int64_t>(
            1, kRunBytes / std::max<int64_t>(
                               1, problem.n * static_cast<int64_t>(SizeOf(problem.c_type))))) {}

  size_t count() const noexcept { return static_cast<size_t>((rows_ + run_ - 1) / run_); }

  // Calls function(run, begin, end) for each run: rows [begin, end), of which row b * m + i is row
  // i of batch item b. In any order, at the same time; must not throw.
  template <typename Function>
  void ForEach(Executor& executor, const Function& function) const noexcept {
    struct Job {
      const RowRuns* self;
      const Function* function;
    } job{this, &function};
    const auto task = [](void* context, size_t run) {
      const Job& j = *static_cast<const Job*>(context);
      const auto begin = static_cast<int64_t>(run) * j.self->run_;
      (*j.function)(run, begin, std::min(j.self->rows_, begin + j.self->run_));
    };
    // Waking others up takes longer than one run.
    if (count() == 1) {
      task(&job, 0);
    } else {
      executor.ParallelFor(count(), task, &job);
    }
  }

 private:
  // Of C, for one task: some ten microseconds.
  static constexpr int64_t kRunBytes = int64_t{64} << 10;

  int64_t rows_;
  int64_t run_;
};

}  // namespace tunableop
