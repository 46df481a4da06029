// The one table of operators that run on a card beside MatMul and Gemm: what the kernel registry,
// the policy of claims and its explanation are made from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "abi/ort_c_api.h"
#include "provider/node_view.h"

namespace tunableop {

// Bit ONNXTensorElementDataType.
using TypeSet = uint64_t;

// Why a node cannot be taken, in words; nullopt: it can.
using Refusal = std::optional<std::string> (*)(const NodeView& node);

struct Operator {
  const char* domain = "";  // "": ONNX's own
  const char* op = "";
  // Opsets of the oldest and the newest definition that the kernel is right for. A definition that
  // is newer than all that were known when this was written is refused.
  int first = 1;
  int last = 1;
  OrtKernelCreateFunc create = nullptr;  // its `state` is this row
  TypeSet types = 0;                     // of input `typed`
  Refusal why_not = nullptr;             // what else there is to check; null: nothing
  // Bit i: input i (output i) is in the host's memory, as the stock CUDA provider declares it.
  uint32_t host_inputs = 0;
  uint32_t host_outputs = 0;
  bool alias = false;  // output 0 may be input 0's memory
  uint8_t typed = 0;
};

std::span<const Operator> Operators() noexcept;

// Of any version; null: no kernel here has that name.
const Operator* FindOperator(std::string_view domain, std::string_view op) noexcept;

// Whether this row is right for the node: versions, types, ranks, attributes.
std::optional<std::string> WhyNotTaken(const Operator& op, const NodeView& node);

}  // namespace tunableop
