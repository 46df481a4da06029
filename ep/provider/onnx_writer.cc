#include "provider/onnx_writer.h"

#include <bit>
#include <string_view>

namespace tunableop {
namespace {

constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 13;
constexpr int64_t kFloat = 1;           // TensorProto.DataType.FLOAT
constexpr int64_t kExternal = 1;        // TensorProto.DataLocation.EXTERNAL
constexpr int64_t kAttributeFloat = 1;  // AttributeProto.AttributeType
constexpr int64_t kAttributeInt = 2;

// One protobuf message, field by field.
class Message {
 public:
  Message& Int(uint32_t field, int64_t value) {
    Key(field, 0);
    Varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& Float(uint32_t field, float value) {
    Key(field, 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
    return *this;
  }
  Message& Text(uint32_t field, std::string_view text) {
    Key(field, 2);
    Varint(text.size());
    bytes_ += text;
    return *this;
  }
  Message& Nested(uint32_t field, const Message& message) { return Text(field, message.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void Key(uint32_t field, uint32_t wire_type) { Varint(field << 3U | wire_type); }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// ValueInfoProto
Message Value(std::string_view name, const std::vector<int64_t>& dims) {
  Message shape;
  for (const int64_t dim : dims) shape.Nested(1, Message().Int(1, dim));
  const Message tensor = Message().Int(1, kFloat).Nested(2, shape);
  return Message().Text(1, name).Nested(2, Message().Nested(1, tensor));
}

// TensorProto; the location is never looked at.
Message ExternalTensor(std::string_view name, const std::vector<int64_t>& dims) {
  Message tensor;
  int64_t bytes = sizeof(float);
  for (const int64_t dim : dims) {
    tensor.Int(1, dim);
    bytes *= dim;
  }
  tensor.Int(2, kFloat).Text(8, name);
  tensor.Nested(13, Message().Text(1, "location").Text(2, "memory"));
  tensor.Nested(13, Message().Text(1, "length").Text(2, std::to_string(bytes)));
  return tensor.Int(14, kExternal);
}

Message FloatAttribute(std::string_view name, float value) {
  return Message().Text(1, name).Float(2, value).Int(20, kAttributeFloat);
}
Message IntAttribute(std::string_view name, int64_t value) {
  return Message().Text(1, name).Int(3, value).Int(20, kAttributeInt);
}

// NodeProto
Message Node(const NodeSpec& node) {
  Message message;
  message.Text(1, "A").Text(1, "B");
  if (!node.c.empty()) message.Text(1, "C");
  message.Text(2, "Y").Text(3, "node").Text(4, node.gemm ? "Gemm" : "MatMul");
  if (!node.gemm) return message;
  return message.Nested(5, FloatAttribute("alpha", node.alpha))
      .Nested(5, FloatAttribute("beta", node.beta))
      .Nested(5, IntAttribute("transA", node.trans_a ? 1 : 0))
      .Nested(5, IntAttribute("transB", node.trans_b ? 1 : 0));
}

}  // namespace

std::string OneNodeModel(const NodeSpec& node) {
  Message graph;
  graph.Nested(1, Node(node)).Text(2, "one_node");
  if (node.b_constant) graph.Nested(5, ExternalTensor("B", node.b));
  graph.Nested(11, Value("A", node.a));
  if (!node.b_constant) graph.Nested(11, Value("B", node.b));
  if (!node.c.empty()) graph.Nested(11, Value("C", node.c));
  graph.Nested(12, Value("Y", node.y));
  const Message opset = Message().Text(1, "").Int(2, kOpset);
  return Message().Int(1, kIrVersion).Nested(7, graph).Nested(8, opset).bytes();
}

}  // namespace tunableop
