// A node of a graph as it is while nodes are claimed: names, types, constants, attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "abi/ort_c_api.h"
#include "gemm/status.h"

namespace tunableop {

// An input or output of a node.
struct ValueView {
  const OrtValueInfo* info = nullptr;  // the graph's; null: an optional one that is absent
  std::string_view name;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;  // also if no tensor
  std::vector<int64_t> dims;  // -1: not known; empty: a scalar, or not even known how many
  bool constant = false;      // an initializer that nobody can replace

  bool present() const noexcept { return info != nullptr; }
  // The elements of a constant of type int64 or int32; nullopt: it is none.
  std::optional<std::vector<int64_t>> ConstantInts() const;
  // The memory of a constant, as long as the graph is; empty: it is none, or has no element.
  std::span<const std::byte> ConstantBytes() const;
  // The one element of a constant of any type to calculate with; nullopt: it is none, or has more.
  std::optional<double> ConstantNumber() const;
};

// Everything that points anywhere points into the graph, which outlives this.
class NodeView {
 public:
  static Result<NodeView> Read(const OrtNode* node);

  const OrtNode* node() const noexcept { return node_; }
  std::string_view op() const noexcept { return op_; }
  std::string_view domain() const noexcept { return domain_; }  // "": ONNX's own
  std::string_view name() const noexcept { return name_; }      // may be empty
  int version() const noexcept { return version_; }             // opset of its definition
  const std::vector<ValueView>& inputs() const noexcept { return inputs_; }
  const std::vector<ValueView>& outputs() const noexcept { return outputs_; }
  bool Has(size_t input) const noexcept {
    return input < inputs_.size() && inputs_[input].present();
  }
  bool Gives(size_t output) const noexcept {
    return output < outputs_.size() && outputs_[output].present();
  }
  // UNDEFINED: absent.
  ONNXTensorElementDataType InputType(size_t input) const noexcept;
  ONNXTensorElementDataType OutputType(size_t output) const noexcept;

  // Attributes; `missing` where there is none, or one of another kind.
  int64_t Int(const char* attribute, int64_t missing) const noexcept;
  float Float(const char* attribute, float missing) const noexcept;
  std::string String(const char* attribute, std::string missing) const;
  std::optional<std::vector<int64_t>> Ints(const char* attribute) const;
  bool HasAttribute(const char* attribute) const noexcept;

  // The provider that has it: "" none yet.
  std::string_view owner() const noexcept { return owner_; }

 private:
  const OrtNode* node_ = nullptr;
  std::string_view op_;
  std::string_view domain_;
  std::string_view name_;
  std::string_view owner_;
  int version_ = 0;
  std::vector<ValueView> inputs_;
  std::vector<ValueView> outputs_;
};

// All nodes of the graph, in ONNX Runtime's order.
Result<std::vector<NodeView>> ReadNodes(const OrtGraph* graph);

}  // namespace tunableop
