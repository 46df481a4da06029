// SessionState: where the stock provider is faster.
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "provider/session_state.h"
#include "provider/unix_seconds.h"
#include "tuner/clock.h"
#include "tuner/scratch.h"
#include "tuner/statistics.h"

namespace tunableop {
namespace {

constexpr int kTurnsAlone = 3;  // see WinsEveryTurn
// Of max_tuning_ms, for each turn of a kernel that runs alone.
constexpr double kShareOfTurn = 0.05;
constexpr size_t kMostCallsAlone = 1000;
constexpr size_t kFewestCallsAlone = 3;  // one that the system interrupted is no figure

}  // namespace

SessionState::StockFigure SessionState::StockAlone(const Problem& problem, const Operands& operands,
                                                   Executor& executor, const TuneResult& result,
                                                   Pacer* pacer) {
  // Where the pools of two libraries cannot take turns call by call (provider/stock_backend.h),
  // each has the machine for itself for a while. Stock wins only if its slowest turn is faster than
  // ours at its fastest.
  const double budget_ms = options_.tuner.max_tuning_ms * kShareOfTurn;
  Result<Scratch> scratch = Scratch::Create(problem, options_.tuner.max_scratch_bytes / 4);
  if (!scratch.ok()) return {};
  Operands writing = operands;
  writing.c = scratch.value().c();
  if (operands.beta != 0.0F) scratch.value().FillC(operands.c);
  std::vector<double> stock_ms;
  std::vector<double> ours_ms;
  for (int turn = 0; turn < kTurnsAlone; ++turn) {
    // Requests come first here too: each call waits for its turn.
    Result<double> theirs = stock_->AloneMs(problem, writing, budget_ms, pacer);
    if (!theirs.ok()) {
      if (turn == 0) {
        Note("(" + ToString(problem) +
             "): the stock provider's kernel: " + std::string(theirs.status().message()));
      }
      return {};
    }
    stock_ms.push_back(theirs.value());
    std::vector<double> calls;
    double spent_ms = 0.0;
    do {
      if (pacer != nullptr && !pacer->WaitForTurn()) return {};
      const int64_t begin = SteadyNow();
      if (!result.plan->Run(writing, executor).ok()) return {};
      calls.push_back(static_cast<double>(SteadyNow() - begin) * 1e-6);
      spent_ms += calls.back();
    } while ((spent_ms < budget_ms && calls.size() < kMostCallsAlone) ||
             calls.size() < kFewestCallsAlone);
    ours_ms.push_back(std::max(Median(calls), 1e-9));
  }
  StockFigure stock;
  // Relative to ours in the same minutes, at the scale of the race.
  const double scale = result.winner_ms / Median(ours_ms);
  stock.ms = Median(stock_ms) * scale;
  stock.wins = WinsEveryTurn(stock_ms, ours_ms, options_.tuner.min_gain);
  return stock;
}

std::vector<NodeRecord> SessionState::NodeRecords(const std::vector<Record>& records) const {
  std::unordered_map<uint64_t, const Record*> by_hash;
  for (const Record& record : records) {
    if (record.stock_ms > 0.0 && record.winner_ms > 0.0) by_hash[Hash(record.problem)] = &record;
  }
  std::vector<NodeRecord> nodes;
  if (by_hash.empty()) return nodes;
  // Nodes that the file cannot tell apart (both branches of an If may use one name) are left to
  // the stock provider together, or not at all.
  struct Sums {
    uint64_t hits = 0;
    uint64_t uses = 0;
    double ours = 0.0;
    double stock = 0.0;
    double lost = 0.0;  // of ours, in problems where the stock provider is faster beyond noise
  };
  std::map<std::tuple<std::string, std::string, int64_t, int64_t>, Sums> all;
  {
    const std::lock_guard lock(report_mutex_);
    for (const std::shared_ptr<GemmNode>& node : nodes_) {
      if (node->name.empty()) continue;
      Sums& sums = all[{node->op, node->name, node->k, node->n}];
      sums.hits += node->counters.hits();
      for (const NodeCounters::Use& use : node->counters.uses()) {
        const auto found = by_hash.find(use.hash);
        if (found == by_hash.end()) continue;
        const auto count = static_cast<double>(use.count);
        sums.uses += use.count;
        sums.ours += count * found->second->winner_ms;
        sums.stock += count * found->second->stock_ms;
        if (found->second->stock_wins) sums.lost += count * found->second->winner_ms;
      }
    }
  }
  for (const auto& [key, sums] : all) {
    // What most of its calls are like must be known.
    if (sums.uses == 0 || 2 * sums.uses < sums.hits) continue;
    NodeRecord record;
    std::tie(record.op, record.name, record.k, record.n) = key;
    record.uses = sums.uses;
    record.ours_ms = sums.ours / static_cast<double>(sums.uses);
    record.stock_ms = sums.stock / static_cast<double>(sums.uses);
    record.stock =
        sums.stock <= (1.0 - options_.tuner.min_gain) * sums.ours && 2.0 * sums.lost > sums.ours;
    record.measured_at = UnixSeconds();
    nodes.push_back(std::move(record));
  }
  return nodes;
}

std::optional<std::string> SessionState::StockIsFaster(std::string_view op, std::string_view name,
                                                       int64_t k, int64_t n) const {
  const std::lock_guard lock(known_mutex_);
  for (const NodeRecord& node : nodes_known_) {
    if (!node.stock || node.op != op || node.name != name || node.k != k || node.n != n) continue;
    char text[96];
    std::snprintf(text, sizeof(text), "%.4g ms against %.4g ms, over %llu calls", node.stock_ms,
                  node.ours_ms, static_cast<unsigned long long>(node.uses));
    return std::string(text);
  }
  return std::nullopt;
}

}  // namespace tunableop
