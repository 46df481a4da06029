// A number that is made of a shape, and what it is applied to: 1 / sqrt(size of a head), as
// exporters write it where the size is free. By itself it would be made on the CPU and copied to
// the card.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "provider/fusion/graph_index.h"

namespace tunableop {

// One to eight numbers, rounded to `type` after every step.
struct SmallNumbers {
  static constexpr size_t kMost = 8;
  std::array<double, kMost> at{};
  size_t count = 0;
};

// A step of the way from shapes to the number.
struct ScalarStep {
  enum class Kind : uint8_t { kConstant, kShape, kPart, kSame, kUnary, kBinary };
  Kind kind = Kind::kConstant;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t count = 0;              // of numbers
  std::string_view op;           // kUnary, kBinary
  std::array<size_t, 2> from{};  // earlier steps; kShape: of the sources, the first
  size_t first = 0;              // kShape, kPart: of the numbers of `from`
  SmallNumbers constant;
};

struct ShapeScalar {
  struct End {
    size_t node = 0;
    size_t scalar = 0;  // which of its two inputs is the number
  };
  std::vector<size_t> chain;              // nodes from shapes to the number
  std::vector<End> ends;                  // nodes that it is applied in
  std::vector<std::string_view> sources;  // tensors whose shapes are read
  std::vector<ScalarStep> steps;          // the last is the number

  std::vector<size_t> nodes() const;
};

// `last`: one of the ends.
std::optional<ShapeScalar> MatchShapeScalar(const GraphIndex& graph, size_t last);

// The number. `shapes`: of the sources, each with as many dimensions as the model says (else
// nullopt).
std::optional<double> Evaluate(const std::vector<ScalarStep>& steps,
                               const std::vector<std::vector<int64_t>>& shapes);

// Its bits in the element's type.
uint64_t ElementBits(double value, ONNXTensorElementDataType type) noexcept;

}  // namespace tunableop
