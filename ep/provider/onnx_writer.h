// ONNX models of one MatMul or Gemm node, written without protobuf.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tunableop {

// Y = A * B, or Gemm's alpha * op(A) * op(B) + beta * C; all fp32, all dimensions fixed.
struct NodeSpec {
  bool gemm = false;
  std::vector<int64_t> a;
  std::vector<int64_t> b;
  std::vector<int64_t> c;  // empty: no C. Gemm only
  std::vector<int64_t> y;
  bool b_constant = false;  // B is an initializer, whose data the session is given separately
  float alpha = 1.0F;       // these four: Gemm only
  float beta = 1.0F;
  bool trans_a = false;
  bool trans_b = false;
};

// A serialized ModelProto: IR version 8, opset 13, graph inputs "A", "B" (unless constant) and "C"
// (if any), output "Y". A constant B is declared as external data; without
// OrtApi::AddExternalInitializers such a model does not load. A few hundred bytes. Field numbers
// are those of onnx.proto, which never change.
std::string OneNodeModel(const NodeSpec& node);

}  // namespace tunableop
