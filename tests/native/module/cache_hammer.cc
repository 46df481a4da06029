#include "module/cache_hammer.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "cache/session_cache.h"

namespace tunableop::bindings {
namespace {

constexpr int kAlive = 12345;
constexpr int kDestroyed = -1;

Problem MakeProblem(int64_t i) {
  Problem p;
  p.m = i + 1;
  p.n = 8;
  p.k = 8;
  p.lda = p.ldb = p.ldc = 8;
  return p;
}

// Destroyed entries are marked and kept for a while, so that a reader that still looks at one sees
// the mark and not memory that happens to be unchanged.
class Graveyard {
 public:
  void Bury(Entry* entry) {
    entry->record.tried = kDestroyed;
    entry->record.problem.m = -1;
    live.fetch_sub(1);
    const std::lock_guard lock(mutex_);
    buried_.emplace_back(entry);
    if (buried_.size() > 4096) buried_.pop_front();
  }
  std::shared_ptr<const Entry> Make(int64_t i) {
    auto* entry = new Entry;
    entry->record.problem = MakeProblem(i);
    entry->record.tried = kAlive;
    entry->record.measured_at = i;
    const int64_t now_live = live.fetch_add(1) + 1;
    int64_t before = peak.load();
    while (now_live > before && !peak.compare_exchange_weak(before, now_live)) {
    }
    return {entry, [this](const Entry* e) { Bury(const_cast<Entry*>(e)); }};
  }

  std::atomic<int64_t> live{0};
  std::atomic<int64_t> peak{0};

 private:
  std::mutex mutex_;
  std::deque<std::unique_ptr<Entry>> buried_;
};

}  // namespace

HammerReport HammerCache(int threads, double seconds, int64_t distinct, size_t capacity) {
  HammerReport report;
  Graveyard graveyard;
  {
    SessionCache cache(capacity);
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> finds{0};
    std::atomic<uint64_t> hits{0};
    std::atomic<uint64_t> wrong{0};
    std::atomic<uint64_t> writes{0};
    const auto read = [&](uint64_t seed) {
      std::mt19937_64 random(seed);
      uint64_t my_finds = 0;
      uint64_t my_hits = 0;
      uint64_t my_wrong = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        const SessionCache::ReadGuard guard;
        const Entry* last = nullptr;
        Problem last_problem;
        for (int i = 0; i < 8; ++i) {
          const Problem problem =
              MakeProblem(static_cast<int64_t>(random() % static_cast<uint64_t>(distinct)));
          const SessionCache::ReadGuard nested;
          ++my_finds;
          const Entry* entry = cache.Find(problem);
          if (entry == nullptr) continue;
          ++my_hits;
          if (entry->record.problem != problem || entry->record.tried != kAlive) ++my_wrong;
          // What was found under the outer guard is still there.
          if (last != nullptr &&
              (last->record.tried != kAlive || last->record.problem != last_problem)) {
            ++my_wrong;
          }
          last = entry;
          last_problem = problem;
        }
      }
      finds += my_finds;
      hits += my_hits;
      wrong += my_wrong;
    };
    const auto write = [&](uint64_t seed) {
      std::mt19937_64 random(seed);
      uint64_t mine = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        const auto i = static_cast<int64_t>(random() % static_cast<uint64_t>(distinct));
        switch (random() % 16) {
          case 0:
            cache.Erase(MakeProblem(i));
            break;
          case 1:
            if (random() % 256 == 0) cache.Clear();
            break;
          case 2:
            // Threads come and go.
            std::thread([&] {
              const SessionCache::ReadGuard guard;
              const Entry* entry = cache.Find(MakeProblem(i));
              if (entry != nullptr && entry->record.tried != kAlive) ++wrong;
            }).join();
            break;
          default:
            cache.Put(graveyard.Make(i));
        }
        ++mine;
      }
      writes += mine;
    };
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) {
      const auto seed = static_cast<uint64_t>(t) + 1;
      pool.emplace_back([&, t, seed] { t % 4 == 0 ? write(seed) : read(seed); });
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    for (std::thread& thread : pool) thread.join();
    report = {finds, hits, writes, wrong, graveyard.peak, 0, cache.evicted(), cache.size()};
  }
  report.live_at_end = graveyard.live;
  return report;
}

double MeasureFind(int64_t distinct, int64_t used) {
  Graveyard graveyard;  // outlives the entries
  SessionCache cache(static_cast<size_t>(distinct));
  std::vector<Problem> problems;
  for (int64_t i = 0; i < distinct; ++i) {
    // Spread over all of them.
    if (i % std::max<int64_t>(1, distinct / used) == 0) problems.push_back(MakeProblem(i));
    cache.Put(graveyard.Make(i));
  }
  constexpr int kFinds = 2'000'000;
  uint64_t found = 0;
  const auto begin = std::chrono::steady_clock::now();
  size_t at = 0;
  for (int i = 0; i < kFinds; ++i) {
    const SessionCache::ReadGuard guard;
    found += cache.Find(problems[at]) != nullptr ? 1 : 0;
    if (++at == problems.size()) at = 0;
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  return found == kFinds ? spent.count() / kFinds : -1.0;
}

double MeasurePut(int64_t capacity) {
  Graveyard graveyard;
  SessionCache cache(static_cast<size_t>(capacity));
  const int64_t hot = capacity * 4 / 5;
  const auto find_hot = [&] {
    const SessionCache::ReadGuard guard;
    for (int64_t i = 0; i < hot; ++i) cache.Find(MakeProblem(i));
  };
  for (int64_t i = 0; i < hot; ++i) cache.Put(graveyard.Make(i));
  for (int turn = 0; turn < 4; ++turn) find_hot();
  int64_t next = hot;
  while (next < 2 * capacity) cache.Put(graveyard.Make(next++));
  constexpr int64_t kPuts = 20'000;
  std::chrono::duration<double, std::nano> spent{0};
  for (int64_t put = 0; put < kPuts;) {
    find_hot();
    const auto begin = std::chrono::steady_clock::now();
    for (const int64_t end = put + kPuts / 10; put < end; ++put) cache.Put(graveyard.Make(next++));
    spent += std::chrono::steady_clock::now() - begin;
  }
  return spent.count() / kPuts;
}

}  // namespace tunableop::bindings
