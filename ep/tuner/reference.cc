#include "tuner/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "tuner/elements.h"
#include "tuner/float_mode.h"
#include "tuner/versions.h"

namespace tunableop {
namespace {

constexpr int64_t kPanelRows = 32;
constexpr int64_t kPanelColumns = 128;  // 32 KiB of doubles: fits the first-level cache

TUNABLEOP_VERSIONS
void AddProducts(const double* a, const double* panel, int64_t rows, int64_t width,
                 Subnormals subnormals, double* sum, double* magnitude) noexcept {
  for (int64_t i = 0; i < rows; ++i) {
    const double value = a[i];
    const double absolute = subnormals.Weigh(std::abs(value));
    const double* b = panel + i * width;
    for (int64_t j = 0; j < width; ++j) {
      sum[j] += value * b[j];
      magnitude[j] += absolute * subnormals.Weigh(std::abs(b[j]));
    }
  }
}

TUNABLEOP_VERSIONS
void AddSquares(const double* panel, int64_t rows, int64_t width, Subnormals subnormals,
                double* sum) noexcept {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const double value = subnormals.Weigh(std::abs(panel[i * width + j]));
      sum[j] += value * value;
    }
  }
}

}  // namespace

// What the tasks of one computation share: runs of lines of one batch item times runs of adjacent
// columns.
struct Reference::Work {
  struct Run {
    size_t begin;
    size_t end;
  };
  Reference* self;
  const Operands* operands;
  std::vector<double> a;  // [line][k]
  std::vector<Run> lines;
  std::vector<Run> columns;
};

Reference::Reference(const Problem& problem, const Operands& operands, Executor& executor,
                     double budget)
    : problem_(problem), tolerance_(problem) {
  ChooseColumns(budget);
  ChooseLines(budget);
  expected_.assign(lines_.size() * columns_.size(), 0.0);
  allowed_.assign(lines_.size() * columns_.size(), 0.0);

  Work work{this, &operands, {}, {}, {}};
  work.a.resize(lines_.size() * static_cast<size_t>(problem_.k));
  for (size_t line = 0; line < lines_.size(); ++line) {
    LoadRowOfA(problem_, operands, lines_[line].batch, lines_[line].row,
               work.a.data() + line * static_cast<size_t>(problem_.k));
    const bool same_b =
        line != 0 && (problem_.stride_b == 0 || lines_[line].batch == lines_[line - 1].batch);
    if (same_b) {
      work.lines.back().end = line + 1;
    } else {
      work.lines.push_back({line, line + 1});
    }
  }
  for (size_t j = 0; j < columns_.size(); ++j) {
    const bool adjacent = j != 0 && columns_[j] == columns_[j - 1] + 1 &&
                          j - work.columns.back().begin < kPanelColumns;
    if (adjacent) {
      work.columns.back().end = j + 1;
    } else {
      work.columns.push_back({j, j + 1});
    }
  }
  executor.ParallelFor(work.lines.size() * work.columns.size(), &ComputeBlock, &work);
  Finish(operands);
}

void Reference::ChooseColumns(double budget) {
  const int64_t n = problem_.n;
  // Four rows at least are wanted.
  const double affordable = budget / 4.0 / std::max<double>(1.0, static_cast<double>(problem_.k));
  const auto wanted = static_cast<int64_t>(std::max(256.0, affordable));
  constexpr int64_t kBlock = 64;
  std::vector<int64_t> blocks;
  const int64_t count = (n + kBlock - 1) / kBlock;
  if (n <= wanted) {
    for (int64_t i = 0; i < count; ++i) blocks.push_back(i);
  } else {
    std::mt19937_64 random(1);
    blocks = {0, count - 2, count - 1};  // the last may be narrow
    while (static_cast<int64_t>(blocks.size()) < wanted / kBlock) {
      blocks.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(count)));
    }
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  }
  for (const int64_t block : blocks) {
    for (int64_t j = block * kBlock; j < std::min(n, (block + 1) * kBlock); ++j) {
      columns_.push_back(j);
    }
  }
}

void Reference::ChooseLines(double budget) {
  const double per_line = static_cast<double>(problem_.k) * static_cast<double>(columns_.size());
  const double affordable = std::max(4.0, budget / std::max(1.0, per_line));
  const double all = static_cast<double>(problem_.m) * static_cast<double>(problem_.batch);
  std::vector<int64_t> chosen;  // batch * m + row
  if (all <= affordable) {
    for (int64_t i = 0; i < problem_.m * problem_.batch; ++i) chosen.push_back(i);
  } else {
    const int64_t last = (problem_.batch - 1) * problem_.m;
    chosen = {0, problem_.m - 1, last, last + problem_.m - 1};
    std::mt19937_64 random(2);
    // Lines of different batch items need different parts of B, which costs about another line.
    const double cost = problem_.batch > 1 && problem_.stride_b != 0 ? 2.0 : 1.0;
    const auto more = static_cast<int64_t>(std::min(affordable, 4096.0) / cost) - 4;
    for (int64_t i = 0; i < more; ++i) {
      chosen.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(all)));
    }
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  }
  for (const int64_t i : chosen) lines_.push_back({i / problem_.m, i % problem_.m});
}

void Reference::ComputeBlock(void* context, size_t index) {
  const KeepSubnormals mode;
  const Work& work = *static_cast<const Work*>(context);
  Reference& self = *work.self;
  const Problem& p = self.problem_;
  const Work::Run lines = work.lines[index / work.columns.size()];
  const Work::Run columns = work.columns[index % work.columns.size()];
  const auto width = static_cast<int64_t>(columns.end - columns.begin);
  const int64_t j0 = self.columns_[columns.begin];
  alignas(64) std::array<double, kPanelRows * kPanelColumns> panel;
  for (int64_t k0 = 0; k0 < p.k; k0 += kPanelRows) {
    const int64_t k1 = std::min(p.k, k0 + kPanelRows);
    LoadPanelOfB(p, *work.operands, self.lines_[lines.begin].batch, k0, k1, j0, j0 + width,
                 panel.data());
    for (size_t line = lines.begin; line < lines.end; ++line) {
      const size_t at = line * self.columns_.size() + columns.begin;
      AddProducts(work.a.data() + line * static_cast<size_t>(p.k) + k0, panel.data(), k1 - k0,
                  width, self.tolerance_.subnormals(), self.expected_.data() + at,
                  self.allowed_.data() + at);
    }
  }
}

void Reference::Finish(const Operands& operands) noexcept {
  const Problem& p = problem_;
  const auto alpha = static_cast<double>(operands.alpha);
  const auto beta = static_cast<double>(operands.beta);
  const bool biased = p.epilogue == Epilogue::kBias || p.epilogue == Epilogue::kBiasRelu ||
                      p.epilogue == Epilogue::kBiasGelu;
  for (size_t line = 0; line < lines_.size(); ++line) {
    for (size_t j = 0; j < columns_.size(); ++j) {
      const size_t at = line * columns_.size() + j;
      double value = alpha == 0.0 ? 0.0 : alpha * expected_[at];
      double magnitude = alpha == 0.0 ? 0.0 : std::abs(alpha) * allowed_[at];
      // Before alpha scales it, a sum may overflow; and 0 * NaN may be left out or not.
      const bool any = tolerance_.Of(0.0, allowed_[at]) == HUGE_VAL ||
                       (alpha == 0.0 && !std::isfinite(allowed_[at]));
      double addend = 0.0;
      if (beta != 0.0) {
        const int64_t index =
            lines_[line].batch * p.stride_c + lines_[line].row * p.ldc + columns_[j];
        const double c = beta * LoadElement(operands.c, p.c_type, index);
        value += c;
        addend += std::abs(c);
      }
      if (biased) {
        const double bias = LoadElement(operands.bias, p.c_type, columns_[j]);
        value += bias;
        addend += std::abs(bias);
      }
      magnitude += addend;
      expected_[at] = tolerance_.Activate(value);
      allowed_[at] = any ? HUGE_VAL : tolerance_.Of(value, magnitude, addend);
    }
  }
}

Reference::Outcome Reference::Compare(const void* c) const noexcept {
  Outcome worst;
  for (size_t line = 0; line < lines_.size(); ++line) {
    const int64_t row = lines_[line].batch * problem_.stride_c + lines_[line].row * problem_.ldc;
    for (size_t j = 0; j < columns_.size(); ++j) {
      const size_t at = line * columns_.size() + j;
      const double got = LoadElement(c, problem_.c_type, row + columns_[j]);
      const double error = tolerance_.Error(expected_[at], allowed_[at], got);
      if (error > worst.error) {
        worst = {error,
                 {lines_[line].batch, lines_[line].row, columns_[j]},
                 got,
                 expected_[at],
                 allowed_[at]};
      }
    }
  }
  return worst;
}

Reference::Norms Reference::ComputeNorms(const Problem& problem, const Operands& operands,
                                         Executor& executor, double budget) {
  struct Job {
    const Problem* p;
    const Operands* operands;
    Norms* norms;
    int64_t skip;    // every skip-th panel of B is read
    int64_t skip_a;  // and every skip_a-th piece of A
    int64_t blocks;
    Subnormals subnormals;
  };
  Norms norms;
  const int64_t a_items = problem.stride_a == 0 ? 1 : problem.batch;
  const int64_t b_items = problem.stride_b == 0 ? 1 : problem.batch;
  norms.rows.assign(static_cast<size_t>(a_items * problem.m), 0.0);
  norms.columns.assign(static_cast<size_t>(b_items * problem.n), 0.0);

  const double elements = static_cast<double>(b_items) * static_cast<double>(problem.k) *
                          static_cast<double>(problem.n);
  const double a_elements = static_cast<double>(a_items) * static_cast<double>(problem.m) *
                            static_cast<double>(problem.k);
  const auto skip = static_cast<int64_t>(std::max(1.0, std::ceil(elements / budget)));
  const auto skip_a = static_cast<int64_t>(std::max(1.0, std::ceil(a_elements / budget)));
  Job job{&problem,
          &operands,
          &norms,
          skip,
          skip_a,
          (problem.n + kPanelColumns - 1) / kPanelColumns,
          Tolerance(problem).subnormals()};
  executor.ParallelFor(
      static_cast<size_t>(b_items * job.blocks),
      [](void* context, size_t index) {
        const KeepSubnormals mode;
        const Job& j = *static_cast<const Job*>(context);
        const int64_t item = static_cast<int64_t>(index) / j.blocks;
        const int64_t first = static_cast<int64_t>(index) % j.blocks * kPanelColumns;
        const int64_t end = std::min(j.p->n, first + kPanelColumns);
        alignas(64) std::array<double, kPanelRows * kPanelColumns> panel;
        double* sums = j.norms->columns.data() + item * j.p->n + first;
        int64_t used = 0;
        for (int64_t k0 = 0; k0 < j.p->k; k0 += kPanelRows * j.skip) {
          const int64_t k1 = std::min(j.p->k, k0 + kPanelRows);
          LoadPanelOfB(*j.p, *j.operands, item, k0, k1, first, end, panel.data());
          AddSquares(panel.data(), k1 - k0, end - first, j.subnormals, sums);
          used += k1 - k0;
        }
        const double scale = j.skip == 1 ? 1.0
                                         : 4.0 * static_cast<double>(j.p->k) /
                                               static_cast<double>(std::max<int64_t>(1, used));
        for (int64_t i = 0; i < end - first; ++i) sums[i] = std::sqrt(sums[i] * scale);
      },
      &job);

  executor.ParallelFor(
      norms.rows.size(),
      [](void* context, size_t index) {
        const KeepSubnormals mode;
        const Job& j = *static_cast<const Job*>(context);
        const int64_t item = static_cast<int64_t>(index) / j.p->m;
        const int64_t row = static_cast<int64_t>(index) % j.p->m;
        const double sum = SumOfSquaresOfA(*j.p, *j.operands, item, row, j.skip_a, j.subnormals);
        j.norms->rows[index] = std::sqrt(sum);
      },
      &job);
  return norms;
}

}  // namespace tunableop
