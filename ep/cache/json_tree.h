// A JSON document as a flat tree: one vector of nodes, one string with all texts. About six times
// faster to build than a map-based one, which counts at the 10,000 entries of a long-lived file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gemm/status.h"

namespace tunableop {

class JsonTree {
 public:
  enum class Kind : uint8_t { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };
  using Index = uint32_t;
  static constexpr Index kNone = UINT32_MAX;
  // Arrays and objects inside each other. A results document has 5.
  static constexpr int kMaxDepth = 16;

  struct Node {
    Kind kind = Kind::kNull;
    Index first_child = kNone;
    Index next = kNone;      // sibling
    uint32_t key_begin = 0;  // of a member of an object; into the texts
    uint32_t key_size = 0;
    union {
      int64_t integer = 0;  // kInteger, kBool
      double number;        // kNumber: fractions, exponents and integers beyond int64
      struct {
        uint32_t begin;
        uint32_t size;
      } text;  // kString
    };
  };

  // kDataLoss: not JSON, nested too deeply, or holding a number that no double can; the message
  // says where. Keeps duplicate keys, in order: judging them is the reader's business. Does not
  // throw but for lack of memory.
  static Result<JsonTree> Parse(std::string_view text);

  const Node& root() const { return nodes_.front(); }
  const Node& at(Index index) const { return nodes_[index]; }
  std::string_view key(const Node& node) const { return Text(node.key_begin, node.key_size); }
  std::string_view text(const Node& node) const { return Text(node.text.begin, node.text.size); }

  // The member of that name, or nullptr. The last one, where a key is repeated.
  const Node* Member(const Node& object, std::string_view name) const;

  // The value as JSON again, on one line, shortened to `limit` bytes (0: not at all).
  std::string Print(const Node& node, size_t limit = 0) const;

 private:
  friend class TreeBuilder;
  std::string_view Text(uint32_t begin, uint32_t size) const {
    return std::string_view(texts_).substr(begin, size);
  }
  void PrintTo(const Node& node, size_t limit, std::string& out) const;

  std::vector<Node> nodes_;
  std::string texts_;
};

// Appends `text` as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(std::string_view text, std::string& out);
// Appends the shortest decimal that reads back as the same double; 0 for what JSON cannot say.
void AppendJsonNumber(double value, std::string& out);

}  // namespace tunableop
