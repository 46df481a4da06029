// What an equation of Einsum says, as far as it is one product of two operands, or another order of
// one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tunableop {

// Letters of dimensions. Of the operands as they are written, then by what they are in the product:
// `batch` is everywhere, `rows` in the first operand and the result, `columns` in the second and
// the result, `summed` in both operands only. One operand has rows alone.
struct EinsumEquation {
  std::vector<std::string> operands;
  std::string result;
  std::string batch;
  std::string rows;
  std::string columns;
  std::string summed;
};

// Nothing: it is none, or not of that kind (dots, letters twice in one operand, sums over one).
std::optional<EinsumEquation> ReadEinsum(std::string_view text);

}  // namespace tunableop
