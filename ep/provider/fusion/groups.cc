#include "provider/fusion/groups.h"

#include <algorithm>
#include <optional>

#include "provider/fusion/fusions.h"
#include "provider/operators.h"

namespace tunableop {
namespace {

constexpr size_t kNone = SIZE_MAX;

class Finder {
 public:
  Finder(const GraphIndex& graph, const std::vector<bool>& claimed, const std::vector<bool>& left,
         const FusionPlace& place)
      : graph_(graph),
        claimed_(claimed),
        left_(left),
        place_(place),
        group_of_(graph.nodes().size(), kNone) {}

  std::vector<FoundGroup> Find() {
    for (const Fusion& fusion : Fusions()) {
      if (fusion.suits != nullptr && !fusion.suits(place_)) continue;
      // From the end: a pattern whose last part may be missing is found with it.
      for (size_t i = graph_.nodes().size(); i-- > 0;) {
        if (!Free(i) || !IsRead(i)) continue;
        std::optional<Group> group = fusion.match(graph_, i);
        if (group && Possible(*group)) Take(fusion, *std::move(group));
      }
    }
    return std::move(found_);
  }

 private:
  bool Free(size_t i) const { return claimed_[i] && group_of_[i] == kNone; }

  bool IsShapes(const Group& group, size_t i) const {
    return left_[i] && group_of_[i] == kNone &&
           std::find(group.shapes.begin(), group.shapes.end(), i) != group.shapes.end();
  }

  // ONNX Runtime makes no output of a group for what nobody reads.
  bool IsRead(size_t i) const {
    const std::string_view value = graph_.node(i).outputs()[0].name;
    return !graph_.Consumers(value).empty() || graph_.Leaves(value);
  }

  bool Possible(const Group& group) const {
    const auto may_be_in = [&](size_t i) { return (Free(i) || IsShapes(group, i)) && IsRead(i); };
    return std::all_of(group.nodes.begin(), group.nodes.end(), may_be_in) && !ReadsHost(group) &&
           !ComesBack(group);
  }

  void Take(const Fusion& fusion, Group group) {
    std::sort(group.nodes.begin(), group.nodes.end());
    for (const size_t i : group.nodes) group_of_[i] = found_.size();
    found_.push_back({&fusion, std::move(group)});
  }

  bool ReadsHost(const Group& group) const {
    for (const size_t i : group.nodes) {
      const NodeView& node = graph_.node(i);
      const Operator* op = FindOperator(node.domain(), node.op());
      for (size_t k = 0; op != nullptr && k < node.inputs().size(); ++k) {
        const bool on_host = (op->host_inputs >> k & 1U) != 0;
        if (on_host && node.Has(k) && !node.inputs()[k].constant) return true;
      }
    }
    return false;
  }

  // Whether some path leaves the group and comes back; those chosen before are one node each.
  bool ComesBack(const Group& group) const {
    std::vector<bool> inside(graph_.nodes().size(), false);
    for (const size_t i : group.nodes) inside[i] = true;
    std::vector<bool> seen(graph_.nodes().size(), false);
    std::vector<size_t> todo;
    const auto follow = [&](size_t from) {
      for (const ValueView& output : graph_.node(from).outputs()) {
        for (const size_t reader : graph_.Consumers(output.name)) {
          if (!seen[reader]) todo.push_back(reader);
        }
      }
    };
    for (const size_t i : group.nodes) {
      for (const ValueView& output : graph_.node(i).outputs()) {
        for (const size_t reader : graph_.Consumers(output.name)) {
          if (!inside[reader]) todo.push_back(reader);
        }
      }
    }
    while (!todo.empty()) {
      const size_t i = todo.back();
      todo.pop_back();
      if (inside[i]) return true;
      if (seen[i]) continue;
      seen[i] = true;
      if (group_of_[i] == kNone) {
        follow(i);
        continue;
      }
      for (const size_t other : found_[group_of_[i]].group.nodes) {
        seen[other] = true;
        follow(other);
      }
    }
    return false;
  }

  const GraphIndex& graph_;
  const std::vector<bool>& claimed_;
  const std::vector<bool>& left_;
  const FusionPlace& place_;
  std::vector<size_t> group_of_;  // of found_
  std::vector<FoundGroup> found_;
};

}  // namespace

std::vector<FoundGroup> FindGroups(const GraphIndex& graph, const std::vector<bool>& claimed,
                                   const std::vector<bool>& left, const FusionPlace& place) {
  return Finder(graph, claimed, left, place).Find();
}

const Fusion* FusionOf(const GraphIndex& graph, const FusionPlace& place) {
  for (const Fusion& fusion : Fusions()) {
    if (fusion.suits != nullptr && !fusion.suits(place)) continue;
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const std::optional<Group> group = fusion.match(graph, i);
      if (group && group->nodes.size() == graph.nodes().size()) return &fusion;
    }
  }
  return nullptr;
}

}  // namespace tunableop
