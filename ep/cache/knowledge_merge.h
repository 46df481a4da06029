// One Knowledge made of several: of everything that two of them know, what is worth more stays.
// Private to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "cache/knowledge.h"
#include "gemm/problem.h"

namespace tunableop {

// What an entry is for: a problem, or what a bucket's problems have in common.
struct RecordKey {
  Problem problem;
  int64_t m_low = 0;
  int64_t m_high = 0;
  bool operator==(const RecordKey&) const noexcept = default;
};
RecordKey KeyOf(const Record& record);
struct RecordKeyHash {
  size_t operator()(const RecordKey& key) const noexcept;
};
struct ProblemHash {
  size_t operator()(const Problem& problem) const noexcept { return Hash(problem); }
};

// Adds to a Knowledge, which outlives this and in which nobody else adds meanwhile. What is there
// keeps its place, what is new follows it. The rules are those of docs/tuning-results.md,
// "Merging".
class KnowledgeMerger {
 public:
  explicit KnowledgeMerger(Knowledge& there);
  void Add(Record record);
  void Add(SeenRecord seen);
  void Add(NodeRecord node);
  void Add(FormRecord form);
  void Add(DeniedRecord denied);
  void Add(const SpentRecord& spent);

 private:
  using NodeKey = std::tuple<std::string, std::string, int64_t, int64_t>;
  using FormKey = std::tuple<std::string, std::string>;
  using KernelKey = std::tuple<std::string, std::string, std::string>;

  Knowledge& there_;
  std::unordered_map<RecordKey, size_t, RecordKeyHash> records_;
  std::unordered_map<Problem, size_t, ProblemHash> seen_;
  std::map<NodeKey, size_t> nodes_;
  std::map<FormKey, size_t> forms_;
  std::map<KernelKey, size_t> denied_;
};

}  // namespace tunableop
