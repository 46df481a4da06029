#include "cache/json_tree.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tunableop {

// Receives the events of nlohmann's parser.
class TreeBuilder {
 public:
  explicit TreeBuilder(JsonTree& tree) : tree_(tree) {}

  bool null() { return Add(JsonTree::Kind::kNull) != nullptr; }
  bool boolean(bool value) {
    Add(JsonTree::Kind::kBool)->integer = value ? 1 : 0;
    return true;
  }
  bool number_integer(int64_t value) {
    Add(JsonTree::Kind::kInteger)->integer = value;
    return true;
  }
  bool number_unsigned(uint64_t value) {
    if (value <= static_cast<uint64_t>(INT64_MAX)) {
      return number_integer(static_cast<int64_t>(value));
    }
    Add(JsonTree::Kind::kNumber)->number = static_cast<double>(value);
    return true;
  }
  bool number_float(double value, const std::string& /*text*/) {
    Add(JsonTree::Kind::kNumber)->number = value;
    return true;
  }
  bool string(std::string& value) {
    const auto begin = static_cast<uint32_t>(tree_.texts_.size());
    tree_.texts_ += value;
    JsonTree::Node* node = Add(JsonTree::Kind::kString);
    node->text.begin = begin;
    node->text.size = static_cast<uint32_t>(value.size());
    return true;
  }
  bool binary(std::vector<uint8_t>& /*value*/) { return false; }
  bool start_object(size_t /*size*/) { return Open(JsonTree::Kind::kObject); }
  bool start_array(size_t /*size*/) { return Open(JsonTree::Kind::kArray); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& name) {
    key_begin_ = static_cast<uint32_t>(tree_.texts_.size());
    key_size_ = static_cast<uint32_t>(name.size());
    tree_.texts_ += name;
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: ..." -> what follows "] ".
    std::string_view what = error.what();
    const size_t bracket = what.find("] ");
    if (bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
    error_ = std::string(what) + " (byte " + std::to_string(position) + ")";
    return false;
  }

  const std::string& error() const { return error_; }

 private:
  struct Level {
    JsonTree::Index parent;
    JsonTree::Index last_child;
  };

  JsonTree::Node* Add(JsonTree::Kind kind) {
    const auto index = static_cast<JsonTree::Index>(tree_.nodes_.size());
    JsonTree::Node& node = tree_.nodes_.emplace_back();
    node.kind = kind;
    node.key_begin = key_begin_;
    node.key_size = key_size_;
    key_size_ = 0;
    if (depth_ > 0) {
      Level& level = levels_[depth_ - 1];
      if (level.last_child == JsonTree::kNone) {
        tree_.nodes_[level.parent].first_child = index;
      } else {
        tree_.nodes_[level.last_child].next = index;
      }
      level.last_child = index;
    }
    return &node;
  }
  bool Open(JsonTree::Kind kind) {
    if (depth_ == levels_.size()) {
      error_ = "nested more than " + std::to_string(JsonTree::kMaxDepth) + " levels deep";
      return false;
    }
    Add(kind);
    levels_[depth_++] = {static_cast<JsonTree::Index>(tree_.nodes_.size() - 1), JsonTree::kNone};
    return true;
  }
  bool Close() {
    --depth_;
    return true;
  }

  JsonTree& tree_;
  std::array<Level, JsonTree::kMaxDepth> levels_{};
  size_t depth_ = 0;
  uint32_t key_begin_ = 0;
  uint32_t key_size_ = 0;
  std::string error_;
};

Result<JsonTree> JsonTree::Parse(std::string_view text) {
  if (text.size() >= UINT32_MAX) return Status(StatusCode::kDataLoss, "larger than 4 GB");
  JsonTree tree;
  tree.nodes_.reserve(text.size() / 16 + 1);
  tree.texts_.reserve(text.size() / 2);
  TreeBuilder builder(tree);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return Status(StatusCode::kDataLoss, builder.error());
  }
  return tree;
}

const JsonTree::Node* JsonTree::Member(const Node& object, std::string_view name) const {
  const Node* found = nullptr;
  for (Index i = object.first_child; i != kNone; i = nodes_[i].next) {
    if (key(nodes_[i]) == name) found = &nodes_[i];
  }
  return found;
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
      AppendJsonNumber(node.number, out);
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

namespace {

// Bytes of the UTF-8 character at the start of `text` (RFC 3629: no surrogates, nothing overlong),
// or 0 when there is none.
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

}  // namespace

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
