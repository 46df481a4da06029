#include "cache/eviction.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace tunableop {
namespace {

// Entries that are passed over in search of a victim, and of a protected entry to demote. Where all
// of so many are in use, it matters little which one goes.
constexpr int kMaxSteps = 64;
constexpr int kMaxDemotionSteps = 16;

}  // namespace

void Eviction::List::Append(Tracked& entry) noexcept {
  entry.previous_ = last;
  entry.next_ = nullptr;
  (last != nullptr ? last->next_ : first) = &entry;
  last = &entry;
  ++size;
}

void Eviction::List::Unlink(Tracked& entry) noexcept {
  (entry.previous_ != nullptr ? entry.previous_->next_ : first) = entry.next_;
  (entry.next_ != nullptr ? entry.next_->previous_ : last) = entry.previous_;
  --size;
}

void Eviction::List::Rotate() noexcept {
  Tracked& entry = *first;
  Unlink(entry);
  Append(entry);
}

Eviction::Eviction(size_t capacity)
    : most_protected_(capacity / 5 * 4 + capacity % 5 * 4 / 5), most_past_(capacity) {}

void Eviction::Add(Tracked& entry) noexcept {
  entry.found_.store(Recall(entry.hash), std::memory_order_relaxed);
  entry.protected_ = false;
  probation_.Append(entry);
}

void Eviction::Replace(Tracked& old, Tracked& fresh) noexcept {
  fresh.found_.store(old.found_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  fresh.protected_ = old.protected_;
  fresh.previous_ = old.previous_;
  fresh.next_ = old.next_;
  List& list = ListOf(old);
  (fresh.previous_ != nullptr ? fresh.previous_->next_ : list.first) = &fresh;
  (fresh.next_ != nullptr ? fresh.next_->previous_ : list.last) = &fresh;
}

void Eviction::Remove(Tracked& entry) noexcept { ListOf(entry).Unlink(entry); }

Tracked& Eviction::Evict() noexcept {
  Tracked& victim = Victim();
  Remove(victim);
  Remember(victim);
  return victim;
}

Tracked& Eviction::Victim() noexcept {
  for (int steps = 0; steps < kMaxSteps && probation_.first != nullptr;) {
    Tracked& entry = *probation_.first;
    const uint8_t found = entry.found_.load(std::memory_order_relaxed);
    if ((found & Tracked::kCount) >= kHot && most_protected_ > 0) {
      Promote(entry);
      if (protected_.size > most_protected_) {
        DemoteOne();
        ++steps;
      }
    } else if ((found & Tracked::kSinceHand) != 0) {
      entry.found_.store(found & Tracked::kCount, std::memory_order_relaxed);
      probation_.Rotate();
      ++steps;
    } else {
      return entry;
    }
  }
  return probation_.first != nullptr ? *probation_.first : *protected_.first;
}

void Eviction::Promote(Tracked& entry) noexcept {
  probation_.Unlink(entry);
  entry.protected_ = true;
  protected_.Append(entry);
}

void Eviction::DemoteOne() noexcept {
  for (int steps = 0; steps < kMaxDemotionSteps; ++steps) {
    const uint8_t found = protected_.first->found_.load(std::memory_order_relaxed);
    if ((found & Tracked::kSinceHand) == 0) break;
    protected_.first->found_.store(found & Tracked::kCount, std::memory_order_relaxed);
    protected_.Rotate();
  }
  Tracked& entry = *protected_.first;
  protected_.Unlink(entry);
  entry.protected_ = false;
  entry.found_.store(0, std::memory_order_relaxed);
  probation_.Append(entry);
}

void Eviction::Remember(const Tracked& entry) noexcept {
  const uint8_t count = entry.found_.load(std::memory_order_relaxed) & Tracked::kCount;
  try {
    past_ages_.push_back(entry.hash);
    const auto age = std::prev(past_ages_.end());
    const auto [past, is_new] = past_.try_emplace(entry.hash, Past{count, age});
    if (!is_new) {  // two problems with one hash
      past_ages_.erase(past->second.age);
      past->second = {count, age};
    }
  } catch (const std::bad_alloc&) {
    // Then what comes back is new.
    past_.clear();
    past_ages_.clear();
    return;
  }
  if (past_ages_.size() > most_past_) {
    past_.erase(past_ages_.front());
    past_ages_.pop_front();
  }
}

uint8_t Eviction::Recall(uint64_t hash) noexcept {
  const auto past = past_.find(hash);
  if (past == past_.end()) return 0;
  const auto count = static_cast<uint8_t>(std::min<int>(past->second.count + 1, kHot));
  past_ages_.erase(past->second.age);
  past_.erase(past);
  return count;
}

void Eviction::Clear() noexcept {
  probation_ = protected_ = {};
  past_.clear();
  past_ages_.clear();
}

}  // namespace tunableop
