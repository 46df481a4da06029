#include "cache/json_tree.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace tunableop {

double JsonTree::number(const Node& node) const {
  if (node.kind == Kind::kInteger) return static_cast<double>(node.integer);
  const std::string_view digits = text(node);
  double value = 0.0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  // Too large, or too small: the sign of the exponent tells which.
  if (error == std::errc::result_out_of_range) {
    const size_t exponent = digits.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos && exponent + 1 < digits.size() &&
                      digits[exponent + 1] == '-';
    return tiny ? 0.0 : std::numeric_limits<double>::infinity();
  }
  return value;
}

std::string JsonTree::Print(const Node& node, size_t limit) const {
  std::string out;
  PrintTo(node, limit, out);
  if (limit != 0 && out.size() > limit) {
    size_t end = limit;
    while (end > 0 && (static_cast<uint8_t>(out[end]) & 0xC0U) == 0x80U) --end;  // whole characters
    out.resize(end);
    out += "...";
  }
  return out;
}

void JsonTree::PrintTo(const Node& node, size_t limit, std::string& out) const {
  switch (node.kind) {
    case Kind::kNull:
      out += "null";
      return;
    case Kind::kBool:
      out += node.integer != 0 ? "true" : "false";
      return;
    case Kind::kInteger:
      out += std::to_string(node.integer);
      return;
    case Kind::kNumber:
      out += text(node);
      return;
    case Kind::kString:
      AppendJsonString(text(node), out);
      return;
    case Kind::kArray:
    case Kind::kObject:
      break;
  }
  out += node.kind == Kind::kArray ? '[' : '{';
  for (Index i = node.first_child; i != kNone; i = nodes_[i].next) {
    if (limit != 0 && out.size() > limit) return;
    if (i != node.first_child) out += ", ";
    if (node.kind == Kind::kObject) {
      AppendJsonString(key(nodes_[i]), out);
      out += ": ";
    }
    PrintTo(nodes_[i], limit, out);
  }
  out += node.kind == Kind::kArray ? ']' : '}';
}

// RFC 3629: no surrogates, nothing overlong.
size_t Utf8Length(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0U; };
  const auto tail = [&](size_t i) { return (at(i) & 0xC0U) == 0x80U; };
  const uint32_t lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF && tail(1)) return 2;
  if ((lead & 0xF0U) == 0xE0U && tail(1) && tail(2) && !(lead == 0xE0 && at(1) < 0xA0) &&
      !(lead == 0xED && at(1) >= 0xA0)) {
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4 && tail(1) && tail(2) && tail(3) &&
      !(lead == 0xF0 && at(1) < 0x90) && !(lead == 0xF4 && at(1) >= 0x90)) {
    return 4;
  }
  return 0;
}

void AppendJsonString(std::string_view text, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    const char c = text[i];
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += "\\u00";
      out += kHex[static_cast<uint8_t>(c) >> 4];
      out += kHex[static_cast<uint8_t>(c) & 15];
    } else {
      out += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  out += '"';
}

void AppendJsonNumber(double value, std::string& out) {
  if (!std::isfinite(value)) value = 0.0;
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), static_cast<size_t>(end - digits.data()));
}

}  // namespace tunableop
