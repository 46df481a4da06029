// What is said of nodes when ONNX Runtime asks for them in several rounds.
#pragma once

#include <string_view>
#include <vector>

#include "provider/capability.h"

namespace tunableop {

// Why a node is refused that was given away in an earlier round.
inline constexpr std::string_view kElsewhere = "another execution provider has it already";

// ONNX Runtime asks again when it has put a function's nodes in the place of a call of it. By then
// nodes of a group have become one, which is none of the model's, and those of others say nothing
// but that. `before`: of the round before, empty in the first. Returns `now` with what was said
// then.
std::vector<NodeDecision> WithEarlier(const std::vector<NodeDecision>& before,
                                      std::vector<NodeDecision> now);

}  // namespace tunableop
