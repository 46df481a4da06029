#include "core/launch.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/faults.h"
#include "core/flavour.h"

namespace simgpu {
namespace {

constexpr int64_t kOverrun = 16;

// Makes the matrix's address one that the host may use; false: a kernel would fault on it.
bool Resolve(Card& card, Matrix& matrix, int64_t rows, int64_t columns, int64_t batch) {
  const size_t bytes = Extent(matrix, rows, columns, batch);
  if (bytes == 0) return true;
  matrix.data = Reach(card, matrix.data, bytes);
  return matrix.data != nullptr;
}

double Illegal(Card& card) {
  Count("illegal_address");
  card.lost = Err::kIllegalAddress;
  return 0;
}

std::vector<double> Values(const Gemm& gemm) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(gemm.m * gemm.n * gemm.batch));
  const auto size = static_cast<int64_t>(SizeOf(gemm.d.type));
  for (int64_t b = 0; b < gemm.batch; ++b) {
    for (int64_t j = 0; j < gemm.n; ++j) {
      for (int64_t i = 0; i < gemm.m; ++i) {
        values.push_back(Load(
            gemm.d.data +
                (b * gemm.d.batch_stride + j * gemm.d.column_stride + i * gemm.d.row_stride) * size,
            gemm.d.type));
      }
    }
  }
  return values;
}

// Calls change(row, column, item, old value, new value) for each and stores what it returns.
template <typename Change>
void Rewrite(const Gemm& gemm, const std::vector<double>& old, Change change) {
  const auto size = static_cast<int64_t>(SizeOf(gemm.d.type));
  size_t next = 0;
  for (int64_t b = 0; b < gemm.batch; ++b) {
    for (int64_t j = 0; j < gemm.n; ++j) {
      for (int64_t i = 0; i < gemm.m; ++i) {
        char* const at =
            gemm.d.data +
            (b * gemm.d.batch_stride + j * gemm.d.column_stride + i * gemm.d.row_stride) * size;
        Store(at, gemm.d.type, change(i, old[next], Load(at, gemm.d.type)));
        ++next;
      }
    }
  }
}

void Overrun(Card& card, const Launch& launch, const char* address) {
  const Gemm& gemm = launch.gemm;
  const size_t size = SizeOf(gemm.d.type);
  const size_t end = Extent(gemm.d, gemm.m, gemm.n, gemm.batch);
  for (int64_t i = 0; i < kOverrun; ++i) {
    char* const at = card.memory.View(address + end + static_cast<size_t>(i) * size, size);
    if (at != nullptr) Store(at, gemm.d.type, 12345);
  }
}

// Runs the kernel with what the faults make of it.
void RunFaulty(Card& card, const Launch& launch, const char* d_address) {
  const int id = launch.algo.id;
  const bool wrong =
      FaultOnFor("wrong", id) || (FaultOnFor("wrong_but_first", id) && !launch.first);
  const bool tail = FaultOnFor("tail", id);
  const bool reads_c = FaultOnFor("reads_c", id) && launch.gemm.beta == 0;
  const Gemm& gemm = launch.gemm;
  if (FaultOnFor("hang", id)) Hang("hang");
  if (FaultOn("real_slow")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(FaultArgument("real_slow", 0, 10)));
  }
  std::vector<double> old;
  if (wrong || tail || reads_c) old = Values(gemm);
  Summation how = launch.how;
  if (FaultOnFor("hang_sum", id)) how.between = [] { Hang("hang_sum"); };
  Run(gemm, how);
  if (wrong) Rewrite(gemm, old, [](int64_t, double, double now) { return now * 1.25 + 0.5; });
  if (tail) {
    Rewrite(gemm, old, [&](int64_t row, double before, double now) {
      return row == gemm.m - 1 ? before : now;
    });
  }
  if (reads_c) {
    Rewrite(gemm, old, [](int64_t, double before, double now) {
      return std::isfinite(before) ? now : std::numeric_limits<double>::quiet_NaN();
    });
  }
  if (FaultOnFor("overrun", id)) Overrun(card, launch, d_address);
}

double Kernel(Card& card, Launch launch) {
  Count("kernels");
  Count("kernels:" + std::to_string(launch.algo.id));
  const int64_t lost = FaultArgument("lost", 0, 1);
  if (FaultOn("lost") && CountedWithFaults("kernels") >= lost) {
    card.lost = Err::kDeviceLost;
    return 0;
  }
  Gemm& gemm = launch.gemm;
  const void* const a_address = gemm.a.data;
  const void* const b_address = gemm.b.data;
  const char* const d_address = gemm.d.data;
  if (launch.alpha != nullptr) {
    const size_t size = SizeOf(launch.scale_type);
    const char* const alpha = Reach(card, launch.alpha, size);
    const char* const beta = Reach(card, launch.beta, size);
    if (alpha == nullptr || beta == nullptr) return Illegal(card);
    gemm.alpha = Load(alpha, launch.scale_type);
    gemm.beta = Load(beta, launch.scale_type);
  }
  bool good = Resolve(card, gemm.a, gemm.m, gemm.k, gemm.batch) &&
              Resolve(card, gemm.b, gemm.k, gemm.n, gemm.batch) &&
              Resolve(card, gemm.d, gemm.m, gemm.n, gemm.batch);
  if (gemm.beta != 0) good = good && Resolve(card, gemm.c, gemm.m, gemm.n, gemm.batch);
  if (gemm.bias.data != nullptr)
    good = good && Resolve(card, gemm.bias, gemm.m, gemm.n, gemm.batch);
  if (launch.workspace != nullptr) {
    launch.how.workspace = Reach(card, launch.workspace, PartialBytes(gemm, launch.how));
    good = good && launch.how.workspace != nullptr;
  }
  if (!good) return Illegal(card);
  RunFaulty(card, launch, d_address);
  const bool warm_a = card.cache.Touch(a_address, Extent(gemm.a, gemm.m, gemm.k, gemm.batch));
  const bool warm_b = card.cache.Touch(b_address, Extent(gemm.b, gemm.k, gemm.n, gemm.batch));
  card.cache.Touch(d_address, Extent(gemm.d, gemm.m, gemm.n, gemm.batch));
  const CostProblem problem{gemm.a.type, gemm.m, gemm.n, gemm.k, gemm.batch};
  Algo costs = launch.algo;
  if (launch.cost_id >= 0) costs.id = launch.cost_id;
  double ms = AlgoMs(problem, costs, !(warm_a && warm_b)) * Noise();
  if (FaultOnFor("slow", launch.algo.id)) {
    ms *= static_cast<double>(FaultArgument("slow", 1, 10));
  }
  if (FaultOn("slow_products")) {
    ms *= static_cast<double>(FaultArgument("slow_products", 0, 10));
  }
  if (gemm.bias.data != nullptr && FaultOn("slow_bias")) {
    ms *= static_cast<double>(FaultArgument("slow_bias", 0, 10));
  }
  return ms;
}

// AMD's libraries load a kernel's code at its first launch, which no capture allows; NVIDIA's
// driver, too, and takes care of captures.
Err LoadCode(const Card& card, int algo_id) {
  static std::mutex mutex;
  static std::set<std::pair<int, int>> loaded;
  if (!ThisFlavour().amd) return Err::kOk;
  const std::lock_guard lock(mutex);
  if (loaded.contains({card.ordinal, algo_id})) return Err::kOk;
  if (const Err error = ForbiddenInCapture(); error != Err::kOk) return error;
  loaded.emplace(card.ordinal, algo_id);
  return Err::kOk;
}

}  // namespace

Refusal RefusalOf(int algo_id) {
  if (FaultOnFor("not_supported", algo_id)) return Refusal::kNotSupported;
  if (FaultOnFor("execution_failed", algo_id)) return Refusal::kExecutionFailed;
  return Refusal::kNone;
}

Err LaunchGemm(const std::shared_ptr<Stream>& stream, Launch launch) {
  Count("matmuls");
  if (const Err error = LoadCode(stream->card, launch.algo.id); error != Err::kOk) return error;
  const bool alone = launch.workspace == nullptr || stream->launching.fetch_add(1) == 0;
  // The real libraries queue two kernels here, of which the second reads what the first left in the
  // workspace: another thread's between them would take its place.
  if (!alone) Misuse("workspace_of_another_call");
  if (launch.workspace != nullptr && FaultOn("slow_launch")) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  const Err error = Enqueue(stream, [launch](Card& card) { return Kernel(card, launch); });
  if (launch.workspace != nullptr) --stream->launching;
  return error;
}

Err LaunchTransform(const std::shared_ptr<Stream>& stream, Matrix from, Matrix other, Matrix to,
                    int64_t rows, int64_t columns, int64_t batch, double alpha, double beta) {
  Count("transforms");
  return Enqueue(stream, [=](Card& card) {
    Matrix source = from;
    Matrix second = other;
    Matrix target = to;
    if (!Resolve(card, source, rows, columns, batch) ||
        !Resolve(card, target, rows, columns, batch) ||
        (beta != 0 && !Resolve(card, second, rows, columns, batch))) {
      return Illegal(card);
    }
    const auto at = [](const Matrix& matrix, int64_t i, int64_t j, int64_t b) {
      return matrix.data +
             (i * matrix.row_stride + j * matrix.column_stride + b * matrix.batch_stride) *
                 static_cast<int64_t>(SizeOf(matrix.type));
    };
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t i = 0; i < rows; ++i) {
          double value = alpha * Load(at(source, i, j, b), source.type);
          if (beta != 0) value += beta * Load(at(second, i, j, b), second.type);
          Store(at(target, i, j, b), target.type, value);
        }
      }
    }
    const size_t bytes = Extent(source, rows, columns, batch);
    card.cache.Touch(to.data, bytes);
    return 0.002 + static_cast<double>(2 * bytes) / 4e9;
  });
}

}  // namespace simgpu
