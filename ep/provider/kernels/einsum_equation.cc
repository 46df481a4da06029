#include "provider/kernels/einsum_equation.h"

#include <algorithm>
#include <cctype>

namespace tunableop {
namespace {

bool Has(std::string_view letters, char letter) noexcept {
  return letters.find(letter) != std::string_view::npos;
}

bool AreDifferent(std::string_view letters) noexcept {
  for (size_t i = 0; i < letters.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(letters[i])) == 0) return false;
    if (Has(letters.substr(i + 1), letters[i])) return false;
  }
  return true;
}

// Without an arrow: what is there once, in the order of letters.
std::string Implied(const std::vector<std::string>& operands) {
  std::string all;
  for (const std::string& operand : operands) all += operand;
  std::string once;
  for (const char letter : all) {
    if (std::ranges::count(all, letter) == 1) once += letter;
  }
  std::ranges::sort(once);
  return once;
}

}  // namespace

std::optional<EinsumEquation> ReadEinsum(std::string_view text) {
  std::string bare;
  for (const char letter : text) {
    if (letter != ' ') bare += letter;
  }
  EinsumEquation read;
  const size_t arrow = bare.find("->");
  const std::string inputs = bare.substr(0, arrow);
  for (size_t begin = 0; begin <= inputs.size();) {
    const size_t end = std::min(inputs.find(',', begin), inputs.size());
    read.operands.push_back(inputs.substr(begin, end - begin));
    begin = end + 1;
  }
  read.result = arrow == std::string::npos ? Implied(read.operands) : bare.substr(arrow + 2);
  if (read.operands.size() > 2 || !AreDifferent(read.result)) return std::nullopt;
  const std::string& first = read.operands[0];
  const std::string second = read.operands.size() == 2 ? read.operands[1] : "";
  if (!AreDifferent(first) || !AreDifferent(second)) return std::nullopt;
  for (const char letter : read.result) {
    const bool in_first = Has(first, letter);
    const bool in_second = Has(second, letter);
    if (!in_first && !in_second) return std::nullopt;
    (in_first && in_second ? read.batch : in_first ? read.rows : read.columns) += letter;
  }
  for (const char letter : first) {
    if (Has(read.result, letter)) continue;
    if (!Has(second, letter)) return std::nullopt;
    read.summed += letter;
  }
  const bool all = std::ranges::all_of(
      second, [&](char letter) { return Has(read.result, letter) || Has(first, letter); });
  return all ? std::optional(read) : std::nullopt;
}

}  // namespace tunableop
