#include "provider/decisions.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace tunableop {
namespace {

using Key = std::tuple<std::string_view, std::string_view, std::string_view>;

Key KeyOf(const NodeDecision& decision) {
  return {decision.graph, decision.name, decision.op_type};
}

bool IsElsewhere(const NodeDecision& decision) {
  return !decision.claimed && decision.reason.ends_with(kElsewhere);
}

}  // namespace

std::vector<NodeDecision> WithEarlier(const std::vector<NodeDecision>& before,
                                      std::vector<NodeDecision> now) {
  std::map<Key, const NodeDecision*> earlier;
  for (const NodeDecision& decision : before) {
    if (!decision.name.empty()) earlier.emplace(KeyOf(decision), &decision);
  }
  for (NodeDecision& decision : now) {
    const auto found = earlier.find(KeyOf(decision));
    if (found == earlier.end()) continue;
    if (IsElsewhere(decision) && !found->second->claimed) decision.reason = found->second->reason;
    earlier.erase(found);
  }
  std::vector<NodeDecision> fused;
  for (const NodeDecision& decision : before) {
    const bool gone = decision.name.empty() || earlier.count(KeyOf(decision)) > 0;
    if (gone && decision.claimed && decision.reason.find(kFusedAs) != std::string::npos) {
      fused.push_back(decision);
    }
  }
  now.insert(now.end(), std::make_move_iterator(fused.begin()),
             std::make_move_iterator(fused.end()));
  return now;
}

}  // namespace tunableop
