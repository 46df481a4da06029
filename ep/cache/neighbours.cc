#include "cache/neighbours.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace tunableop {
namespace {

struct KeyHash {
  size_t operator()(const Problem& problem) const noexcept { return Hash(problem); }
};

// Wraps rather than overflows: what came out of range is no product without gaps.
int64_t Times(int64_t a, int64_t b) noexcept {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

Problem KeyOf(const Problem& problem) noexcept {
  Problem key = WithoutM(problem);
  key.align_a = key.align_b = key.align_c = 0;
  return key;
}

}  // namespace

MRange BucketOf(int64_t m) noexcept {
  if (m < 1) return {};
  const uint64_t high = std::bit_ceil(static_cast<uint64_t>(m));
  const uint64_t low = high / 2 + 1;  // of 1: 1
  return {static_cast<int64_t>(low), static_cast<int64_t>(std::min(high, uint64_t{INT64_MAX}))};
}

Problem WithoutM(const Problem& problem) noexcept {
  Problem p = problem;
  const bool follows = p.trans_a == 0 || p.lda == p.m;
  if (follows && p.stride_a == Times(p.lda, p.trans_a != 0 ? p.k : p.m)) p.stride_a = -1;
  if (p.trans_a != 0 && p.lda == p.m) p.lda = -1;
  if (p.stride_c == Times(p.ldc, p.m)) p.stride_c = -1;
  p.m = 0;
  return p;
}

struct Neighbours::Impl {
  struct Tuned {
    Problem problem;
    Candidate winner;
    bool is_default = false;
    uint64_t turn = 0;
  };
  struct Ranged {
    Record record;
    uint64_t turn = 0;
  };
  struct Group {
    std::map<int64_t, Tuned> by_m;
    std::map<std::pair<int64_t, int64_t>, Ranged> by_range;  // (low, high)
  };
  using Groups = std::unordered_map<Problem, Group, KeyHash>;
  // Where an entry stands: m, 0 for a problem; low, high for a bucket.
  using Place = std::tuple<Problem, int64_t, int64_t>;

  explicit Impl(size_t most) : capacity(std::max<size_t>(1, most)) {}

  // All of the below with `mutex` held.

  void Remove(Groups::iterator group, int64_t first, int64_t second) {
    if (second == 0) {
      group->second.by_m.erase(first);
    } else {
      group->second.by_range.erase({first, second});
    }
    if (group->second.by_m.empty() && group->second.by_range.empty()) groups.erase(group);
  }

  // Gives the place the next turn in `order`, the last one to go.
  void Renew(const Place& place, uint64_t& turn) {
    if (turn != 0) order.erase(turn);
    turn = ++last_turn;
    order.emplace(turn, place);
  }

  void Trim() {
    while (order.size() > capacity) {
      const auto [key, first, second] = order.begin()->second;
      order.erase(order.begin());
      Remove(groups.find(key), first, second);
    }
  }

  const Tuned* Nearest(const Problem& problem) const {
    if (problem.m < 1) return nullptr;
    const auto group = groups.find(KeyOf(problem));
    if (group == groups.end()) return nullptr;
    const std::map<int64_t, Tuned>& by_m = group->second.by_m;
    auto above = by_m.lower_bound(problem.m);
    const auto below = above == by_m.begin() ? by_m.end() : std::prev(above);
    if (above != by_m.end() && above->second.problem == problem) ++above;
    if (above == by_m.end() && below == by_m.end()) return nullptr;
    if (below == by_m.end()) return &above->second;
    if (above == by_m.end()) return &below->second;
    // above / m <= m / below, without rounding.
    using Wide = unsigned __int128;
    const bool is_above = static_cast<Wide>(above->first) * static_cast<Wide>(below->first) <=
                          static_cast<Wide>(problem.m) * static_cast<Wide>(problem.m);
    return &(is_above ? above : below)->second;
  }

  static Ranged* Narrowest(Group& group, int64_t m) {
    Ranged* best = nullptr;
    for (auto& [range, ranged] : group.by_range) {
      if (m < range.first || m > range.second) continue;
      if (best == nullptr ||
          range.second - range.first < best->record.m_high - best->record.m_low) {
        best = &ranged;
      }
    }
    return best;
  }

  const size_t capacity;
  std::mutex mutex;
  Groups groups;
  std::map<uint64_t, Place> order;  // by turn
  uint64_t last_turn = 0;
};

Neighbours::Neighbours(size_t capacity) : impl_(std::make_unique<Impl>(capacity)) {}
Neighbours::~Neighbours() = default;

void Neighbours::Put(const Record& record) {
  const Problem& problem = record.problem;
  if (problem.m < 1) return;
  const Problem key = KeyOf(problem);
  const std::lock_guard lock(impl_->mutex);
  Impl::Group& group = impl_->groups[key];
  if (record.m_high == 0) {
    Impl::Tuned& tuned = group.by_m[problem.m];
    tuned.problem = problem;
    tuned.winner = record.winner;
    tuned.is_default = record.winner.FullName() == record.default_kernel;
    impl_->Renew({key, problem.m, 0}, tuned.turn);
  } else {
    Impl::Ranged& ranged = group.by_range[{record.m_low, record.m_high}];
    ranged.record = record;
    impl_->Renew({key, record.m_low, record.m_high}, ranged.turn);
  }
  impl_->Trim();
}

bool Neighbours::Erase(const Problem& problem) {
  const std::lock_guard lock(impl_->mutex);
  const auto group = impl_->groups.find(KeyOf(problem));
  if (group == impl_->groups.end()) return false;
  const auto tuned = group->second.by_m.find(problem.m);
  if (tuned == group->second.by_m.end() || tuned->second.problem != problem) return false;
  impl_->order.erase(tuned->second.turn);
  impl_->Remove(group, problem.m, 0);
  return true;
}

bool Neighbours::EraseBucket(const Problem& problem) {
  const std::lock_guard lock(impl_->mutex);
  const auto group = impl_->groups.find(KeyOf(problem));
  if (group == impl_->groups.end()) return false;
  const Impl::Ranged* ranged = Impl::Narrowest(group->second, problem.m);
  if (ranged == nullptr) return false;
  impl_->order.erase(ranged->turn);
  impl_->Remove(group, ranged->record.m_low, ranged->record.m_high);
  return true;
}

void Neighbours::Clear() {
  const std::lock_guard lock(impl_->mutex);
  impl_->groups.clear();
  impl_->order.clear();
}

std::optional<Candidate> Neighbours::Nearest(const Problem& problem) const {
  const std::lock_guard lock(impl_->mutex);
  const Impl::Tuned* nearest = impl_->Nearest(problem);
  if (nearest == nullptr) return std::nullopt;
  return nearest->winner;
}

std::optional<Candidate> Neighbours::Advice(const Problem& problem) const {
  const std::lock_guard lock(impl_->mutex);
  const Impl::Tuned* nearest = impl_->Nearest(problem);
  if (nearest == nullptr || nearest->is_default) return std::nullopt;
  const int64_t low = std::min(problem.m, nearest->problem.m);
  const int64_t high = std::max(problem.m, nearest->problem.m);
  if (high - low > low) return std::nullopt;  // more than twice as large
  return nearest->winner;
}

std::optional<Record> Neighbours::Bucket(const Problem& problem) const {
  const std::lock_guard lock(impl_->mutex);
  const auto group = impl_->groups.find(KeyOf(problem));
  if (group == impl_->groups.end()) return std::nullopt;
  const Impl::Ranged* ranged = Impl::Narrowest(group->second, problem.m);
  if (ranged == nullptr) return std::nullopt;
  return ranged->record;
}

size_t Neighbours::size() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->order.size();
}

size_t Neighbours::capacity() const { return impl_->capacity; }

}  // namespace tunableop
