// Arithmetic as exporters write it: constants by value, products in any order of their operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "provider/fusion/graph_index.h"

namespace tunableop {

// Whether a constant that was rounded to `type` is this number; in fp32, too, some write few
// digits.
bool Near(double value, double expected, ONNXTensorElementDataType type) noexcept;

// fp16, bf16, fp32 and fp64: what the kernels of groups exist for.
bool IsFloating(ONNXTensorElementDataType type) noexcept;

// As its maker gives it, or else as its first reader sees it; null: neither is there.
const ValueView* ViewOf(const GraphIndex& graph, std::string_view value) noexcept;

// A constant of one dimension, that of the last one of x, which is known.
bool IsRowOf(const ValueView& row, const ValueView& x) noexcept;

// The constant number of node `i` and what it is applied to, where the result has the dimensions of
// the latter.
std::optional<ScalarOperand> NumberBeside(const GraphIndex& graph, size_t i);

// value + number, by a node whose result has one reader.
struct Shifted {
  std::string_view value;
  double number = 0;
  size_t node = 0;
};
std::optional<Shifted> ShiftedOf(const GraphIndex& graph, std::string_view value);

// scale * values[0] * values[1] ...; a power is its base, so many times.
struct Factors {
  double scale = 1.0;
  std::vector<std::string_view> values;
  std::vector<size_t> nodes;  // that multiply them
};
// What node `root` multiplies: factors that are products and that nobody else reads are taken
// apart. No values: it does not multiply.
Factors FactorsOf(const GraphIndex& graph, size_t root);
// The same of a value that has one reader; others are a factor themselves.
Factors FactorsOf(const GraphIndex& graph, std::string_view value);

// Whether nobody but `nodes` reads what they make, `outputs` aside.
bool Closed(const GraphIndex& graph, std::span<const size_t> nodes,
            std::initializer_list<std::string_view> outputs);

void Append(std::vector<size_t>& to, std::span<const size_t> from);

}  // namespace tunableop
