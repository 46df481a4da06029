#include "provider/stock_check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "gemm/backend.h"
#include "gemm/packed_b.h"
#include "provider/stock_backend.h"

namespace tunableop {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 28;  // of one operand
constexpr int64_t kMostToldRuns = 100'000;
constexpr double kAloneBudgetMs = 10.0;

// Floats in [-1, 1), the same for the same seed.
std::vector<float> Random(int64_t count, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  uint64_t state = seed;
  for (float& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<float>(static_cast<double>(state >> 40U) / (1U << 23U) - 1.0);
  }
  return values;
}

bool InRange(const StockCheck& c) noexcept {
  const auto fits = [&](int64_t rows, int64_t columns) {
    int64_t elements = 0;
    return rows >= 0 && columns >= 0 && !__builtin_mul_overflow(rows, columns, &elements) &&
           !__builtin_mul_overflow(elements, c.batch, &elements) && elements <= kMostElements;
  };
  return c.batch >= 0 && c.ldc_gap >= 0 && c.ldc_gap < 1024 && c.threads >= 0 &&
         c.threads <= UINT16_MAX && c.runs >= 1 && c.runs <= kMostToldRuns && fits(c.m, c.k) &&
         fits(c.k, c.n) && fits(c.m, c.n + c.ldc_gap) && fits(c.k, c.n + kGroupColumns);
}

Problem ProblemOf(const StockCheck& c) {
  Problem p;
  p.m = c.m;
  p.n = c.n;
  p.k = c.k;
  p.batch = c.batch;
  p.lda = std::max<int64_t>(1, c.trans_a ? c.m : c.k);
  p.ldb = c.packed ? 0 : std::max<int64_t>(1, c.trans_b ? c.k : c.n);
  p.ldc = std::max<int64_t>(1, c.n + c.ldc_gap);
  if (c.batch > 1) {
    p.stride_a = c.m * c.k;
    p.stride_b = c.shared_b ? 0 : c.packed ? PackedFloats(c.k, c.n) : c.k * c.n;
    p.stride_c = c.m * p.ldc;
  }
  p.trans_a = c.trans_a ? 1 : 0;
  p.trans_b = c.trans_b && !c.packed ? 1 : 0;
  p.b_layout = c.packed ? BLayout::kPacked : BLayout::kPlain;
  p.b_constant = c.b_constant || c.packed ? 1 : 0;
  p.alpha = ClassOf(c.alpha);
  p.beta = ClassOf(c.beta);
  if (c.bias) p.epilogue = Epilogue::kBias;
  if (c.relu) p.epilogue = c.bias ? Epilogue::kBiasRelu : Epilogue::kRelu;
  p.threads = static_cast<uint16_t>(c.threads);
  return p;
}

struct Data {
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> bias;
  std::vector<float> before;  // C as it was
  std::vector<float> c;
  PackedB packed;
};

double MaxDifference(const StockCheck& c, const Problem& p, const Data& data) {
  double largest = 0.0;
  const int64_t b_stride = c.shared_b ? 0 : c.k * c.n;
  for (int64_t i = 0; i < c.batch; ++i) {
    const float* a = data.a.data() + i * c.m * c.k;
    const float* b = data.b.data() + i * b_stride;
    for (int64_t row = 0; row < c.m; ++row) {
      for (int64_t column = 0; column < c.n; ++column) {
        double sum = 0.0;
        for (int64_t q = 0; q < c.k; ++q) {
          const double left = c.trans_a ? a[q * c.m + row] : a[row * c.k + q];
          const double right = c.trans_b ? b[column * c.k + q] : b[q * c.n + column];
          sum += left * right;
        }
        const auto at = static_cast<size_t>(i * p.stride_c + row * p.ldc + column);
        double expected = c.alpha * sum + c.beta * data.before[at];
        if (c.bias) expected += data.bias[static_cast<size_t>(column)];
        const double difference = std::abs(expected - data.c[at]);
        // Written so that a NaN is the largest of all.
        if (!(difference <= largest)) largest = difference;
      }
    }
  }
  return largest;
}

double MillisecondsOf(const Plan& plan, const Operands& operands, Status& status) {
  SerialExecutor executor;
  const auto start = std::chrono::steady_clock::now();
  status = plan.Run(operands, executor);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  return spent.count();
}

}  // namespace

Result<StockFigures> CheckStock(const StockCheck& check) {
  if (!InRange(check)) return Status(StatusCode::kInvalidArgument, "sizes out of range");
  const Problem problem = ProblemOf(check);
  const std::shared_ptr<const StockBackend> backend = MakeStockBackend(check.max_bytes);
  const Candidate candidate{"stock", "CPUExecutionProvider", -1, 0};
  Result<std::unique_ptr<Plan>> plan = backend->Prepare(problem, candidate);
  if (!plan.ok()) return plan.TakeStatus();

  Data data;
  const int64_t b_count = check.shared_b ? 1 : check.batch;
  data.a = Random(check.batch * check.m * check.k, 1);
  data.b = Random(b_count * check.k * check.n, 2);
  data.bias = Random(check.n, 3);
  data.before = Random(check.batch * check.m * problem.ldc, 4);
  data.c = data.before;
  if (check.packed) {
    Result<PackedB> packed =
        PackedB::Pack(data.b.data(), check.trans_b ? check.k : check.n, check.trans_b, check.k,
                      check.n, b_count, check.k * check.n);
    if (!packed.ok()) return packed.TakeStatus();
    data.packed = std::move(packed).value();
  }
  Operands operands;
  operands.a = data.a.data();
  operands.b = check.packed ? nullptr : data.b.data();
  operands.packed_b = data.packed.data();
  operands.c = data.c.data();
  operands.bias = data.bias.data();
  operands.alpha = check.alpha;
  operands.beta = check.beta;

  StockFigures figures;
  Status status;
  figures.first_ms = MillisecondsOf(*plan.value(), operands, status);
  if (!status.ok()) return status;
  // With beta every run adds to what the last left, so that only the first can be checked.
  if (check.beta != 0.0F) figures.max_difference = MaxDifference(check, problem, data);
  std::vector<double> times;
  for (int64_t i = 0; i < check.runs; ++i) {
    times.push_back(MillisecondsOf(*plan.value(), operands, status));
    if (!status.ok()) return status;
  }
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  figures.median_ms = *middle;
  Result<double> alone = backend->AloneMs(problem, operands, kAloneBudgetMs);
  if (!alone.ok()) return alone.TakeStatus();
  figures.alone_ms = alone.value();
  if (check.beta == 0.0F) figures.max_difference = MaxDifference(check, problem, data);
  figures.overhead_ms = backend->OverheadMs();
  figures.kernel = candidate.FullName();
  figures.identity = backend->identity();
  return figures;
}

}  // namespace tunableop
