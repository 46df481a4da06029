#include "cache/knowledge_merge.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "cache/neighbours.h"

namespace tunableop {

RecordKey KeyOf(const Record& record) {
  if (record.m_low == 0 && record.m_high == 0) return {record.problem};
  return {WithoutM(record.problem), record.m_low, record.m_high};
}

namespace {

Problem KeyOf(const SeenRecord& seen) { return seen.problem; }
auto KeyOf(const NodeRecord& node) { return std::tuple(node.op, node.name, node.k, node.n); }
auto KeyOf(const FormRecord& form) { return std::tuple(form.group, form.shape); }
auto KeyOf(const DeniedRecord& denied) {
  return std::tuple(denied.library, denied.kernel, denied.library_identity);
}

template <typename T, typename Map>
void Remember(const std::vector<T>& items, Map& positions) {
  for (size_t i = 0; i < items.size(); ++i) positions.emplace(KeyOf(items[i]), i);
}

// The item that has the key of `item`; nullptr: there was none, and `item` was added.
template <typename T, typename Map>
T* FindOrAdd(T& item, std::vector<T>& items, Map& positions) {
  const auto [it, is_new] = positions.emplace(KeyOf(item), items.size());
  if (!is_new) return &items[it->second];
  items.push_back(std::move(item));
  return nullptr;
}

// The later one, but what a race found is worth more than a kernel kept for want of time or memory.
bool Replaces(const Record& later, const Record& there) {
  const auto raced = [](const Record& record) {
    return record.budget_ms == 0.0 && record.winner_ms > 0.0;
  };
  if (raced(later) != raced(there) && later.library_identity == there.library_identity) {
    return raced(later);
  }
  return later.measured_at >= there.measured_at;
}

}  // namespace

size_t RecordKeyHash::operator()(const RecordKey& key) const noexcept {
  return Hash(key.problem) ^ (static_cast<uint64_t>(key.m_low) * 0x9e3779b97f4a7c15ULL) ^
         (static_cast<uint64_t>(key.m_high) * 0xc2b2ae3d27d4eb4fULL);
}

KnowledgeMerger::KnowledgeMerger(Knowledge& there) : there_(there) {
  Remember(there.records, records_);
  Remember(there.seen, seen_);
  Remember(there.nodes, nodes_);
  Remember(there.forms, forms_);
  Remember(there.denied, denied_);
}

void KnowledgeMerger::Add(Record record) {
  Record* there = FindOrAdd(record, there_.records, records_);
  if (there == nullptr) return;
  // A weight and not an account: both may have counted the same calls.
  const uint64_t uses = std::max(there->uses, record.uses);
  if (Replaces(record, *there)) *there = std::move(record);
  there->uses = uses;
}

void KnowledgeMerger::Add(SeenRecord seen) {
  SeenRecord* there = FindOrAdd(seen, there_.seen, seen_);
  if (there != nullptr) there->uses = std::max(there->uses, seen.uses);
}

void KnowledgeMerger::Add(NodeRecord node) {
  NodeRecord* there = FindOrAdd(node, there_.nodes, nodes_);
  if (there == nullptr) return;
  const uint64_t uses = std::max(there->uses, node.uses);
  if (node.measured_at >= there->measured_at) *there = std::move(node);
  there->uses = uses;
}

void KnowledgeMerger::Add(FormRecord form) {
  FormRecord* there = FindOrAdd(form, there_.forms, forms_);
  if (there == nullptr) return;
  // What a race found is worth more than a form kept for want of time.
  const bool raced = form.form_ms > 0.0;
  const bool same_libraries = form.library_identity == there->library_identity;
  const bool replaces = same_libraries && raced != (there->form_ms > 0.0)
                            ? raced
                            : form.measured_at >= there->measured_at;
  if (replaces) *there = std::move(form);
}

void KnowledgeMerger::Add(DeniedRecord denied) {
  DeniedRecord* there = FindOrAdd(denied, there_.denied, denied_);
  if (there == nullptr) return;
  const int deaths = std::max(there->deaths, denied.deaths);
  const bool for_good = there->until == 0 || denied.until == 0;
  const int64_t until = for_good ? 0 : std::max(there->until, denied.until);
  if (denied.denied_at < there->denied_at) *there = std::move(denied);  // the first reason stays
  there->deaths = deaths;
  there->until = until;
}

void KnowledgeMerger::Add(const SpentRecord& spent) {
  SpentRecord& there = there_.spent;
  if (spent.day == there.day) {
    there.ms = std::min(there.ms + spent.ms, std::numeric_limits<double>::max());
  } else if (spent.day > there.day) {
    there = spent;
  }
}

}  // namespace tunableop
