// Which modules of kernels the operators of a session will ask for, so that they can be compiled
// several at once, before ONNX Runtime makes the kernels one by one.
#pragma once

#include <optional>

#include "backends/rtc/kernel_library.h"
#include "provider/node_view.h"
#include "provider/operators.h"

namespace tunableop {

// The module that the node's kernel asks for; nullopt: none, or not known. What this misses is
// compiled when the kernel is made; a module that is named here and cannot be compiled keeps the
// node off the card.
std::optional<ModuleName> ModuleOf(const Operator& op, const NodeView& node);

}  // namespace tunableop
