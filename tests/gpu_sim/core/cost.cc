#include "core/cost.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <numeric>
#include <string>

#include "core/faults.h"

namespace simgpu {
namespace {

// Milliseconds, bytes and operations of no card in particular.
constexpr double kStartMs = 0.002;
constexpr double kUnits = 128;
constexpr double kFlopsPerUnit = 5e8;
constexpr double kBytesCold = 4e9;
constexpr double kBytesWarm = 12e9;

uint64_t Mix(std::initializer_list<int64_t> values) {
  uint64_t hash = 0x9E3779B97F4A7C15u;
  for (const int64_t value : values) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 29;
  }
  return hash;
}

double Ceil(int64_t value, int64_t by) {
  const int64_t whole = (value + by - 1) / by;
  return static_cast<double>(whole);
}

}  // namespace

double AlgoMs(const CostProblem& p, const Algo& algo, bool cold) {
  const double speed = p.type == Type::kF64 ? 0.5 : p.type == Type::kF32 ? 1 : 8;
  const double area = static_cast<double>(algo.tile_m) * algo.tile_n;
  const double efficiency = area / (area + 2048) * (1 - 0.3 / (algo.stages % 4 + 1));
  const double tiles =
      Ceil(p.m, algo.tile_m) * Ceil(p.n, algo.tile_n) * static_cast<double>(p.batch) * algo.splits;
  const double waves = Ceil(static_cast<int64_t>(tiles), 128);
  const double tile_ms = 2 * area * Ceil(p.k, algo.splits) / (kFlopsPerUnit * speed * efficiency);
  const auto result = static_cast<double>(p.m * p.n * p.batch);
  const double bytes = (static_cast<double>((p.m + p.n) * p.k * p.batch) + result) *
                       static_cast<double>(SizeOf(p.type));
  const double rate = cold ? kBytesCold : kBytesWarm;
  // Few tiles cannot keep the memory busy.
  const double busy = std::min(1.0, (tiles + 8) / kUnits);
  double ms = kStartMs + std::max(waves * tile_ms, bytes / (rate * busy));
  if (algo.splits > 1) ms += 0.001 + 2 * algo.splits * result * 4 / kBytesWarm;
  const uint64_t hash = Mix({algo.id, algo.tile_m, algo.tile_n, algo.stages, algo.splits,
                             algo.variant, p.m, p.n, p.k, static_cast<int64_t>(p.type)});
  ms *= 1 + 0.15 * static_cast<double>(hash % 1000) / 1000;
  if (cold) ms *= 1.1 + 0.2 * static_cast<double>((hash >> 20) % 1000) / 1000;
  return ms;
}

int ShapeClass(int64_t m, int64_t n, int64_t k) { return static_cast<int>((m + n + k) % 3); }

std::vector<int> HeuristicOrder(const CostProblem& problem, const std::vector<Algo>& algos) {
  std::vector<double> ms(algos.size());
  for (size_t i = 0; i < algos.size(); ++i) ms[i] = AlgoMs(problem, algos[i], true);
  std::vector<int> order(algos.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int i) { return ms[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return at(a) < at(b); });
  const int kind = ShapeClass(problem.m, problem.n, problem.k);
  if (kind == 0 || order.empty()) return order;
  const int best = order[0];
  const auto slower =
      std::find_if(order.begin(), order.end(), [&](int i) { return at(i) >= kGap * at(best); });
  if (slower == order.end()) return order;  // nothing is that slow: as class 0
  std::vector<int> list(slower, order.end());
  if (kind == 1) list.insert(list.begin() + std::min<ptrdiff_t>(3, std::ssize(list)), best);
  return list;
}

double Noise() {
  struct Source {
    double amplitude = 0;
    uint64_t state = 1;
    std::mutex mutex;
  };
  static auto* const source = [] {
    auto* const made = new Source;
    if (const char* text = std::getenv("SIM_GPU_NOISE")) {
      char* end = nullptr;
      made->amplitude = std::strtod(text, &end);
      if (*end == ':') made->state = std::strtoull(end + 1, nullptr, 0) * 2 + 1;
    }
    return made;
  }();
  const double amplitude = FaultOn("noisy")
                               ? static_cast<double>(FaultArgument("noisy", 0, 5)) / 100
                               : source->amplitude;
  if (amplitude == 0) return 1;
  const std::lock_guard lock(source->mutex);
  source->state = source->state * 6364136223846793005u + 1442695040888963407u;
  const auto unit = static_cast<double>(source->state >> 33) / static_cast<double>(1u << 31);
  return 1 + amplitude * (2 * unit - 1);
}

}  // namespace simgpu
