// Which nodes of a graph run as one.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "provider/fusion/fusion.h"

namespace tunableop {

struct FoundGroup {
  const Fusion* fusion = nullptr;
  Group group;
};

// Groups of claimed nodes, none in two of them, by the patterns that suit `place`. `left`: nodes
// that compute shapes, which a pattern may take as well (Group::shapes). A pattern's find
// is left out where one of its nodes is not claimed, where something that is no constant is read on
// the host (a fused node's inputs are all on the card), and where the group could not run at one
// moment: a path leads out of it and back.
std::vector<FoundGroup> FindGroups(const GraphIndex& graph, const std::vector<bool>& claimed,
                                   const std::vector<bool>& left, const FusionPlace& place);

// The pattern that a whole graph is an instance of; null: none.
const Fusion* FusionOf(const GraphIndex& graph, const FusionPlace& place);

}  // namespace tunableop
