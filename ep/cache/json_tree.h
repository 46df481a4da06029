// A JSON document as a flat tree: one vector of nodes, one string with all texts. Much faster to
// build than a tree of maps, which counts at the 10,000 entries of a long-lived file, and unlike
// most readers it keeps what a strict one must see: duplicate keys and numbers out of range.
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

  struct Slice {
    uint32_t begin;
    uint32_t size;
  };
  struct Node {
    Kind kind = Kind::kNull;
    Index next = kNone;  // sibling
    Slice key{0, 0};     // of a member of an object
    union {
      int64_t integer = 0;  // kInteger, kBool
      Slice text;           // kString; kNumber: as it was written
      Index first_child;    // kArray, kObject
    };
  };

  // kDataLoss: not JSON (RFC 8259, in UTF-8), or nested too deeply; the message says where. Keeps
  // duplicate keys, in order, and numbers that no double can hold: judging them is the reader's
  // business. Throws for lack of memory only.
  static Result<JsonTree> Parse(std::string_view text);

  const Node& root() const { return nodes_.front(); }
  const Node& at(Index index) const { return nodes_[index]; }
  std::string_view key(const Node& node) const { return Text(node.key); }
  std::string_view text(const Node& node) const { return Text(node.text); }
  // kInteger and kNumber. Infinite, or 0, where a double is too small a vessel.
  double number(const Node& node) const;

  // The value as JSON again, on one line, shortened to `limit` bytes (0: not at all).
  std::string Print(const Node& node, size_t limit = 0) const;

 private:
  friend class JsonParser;
  std::string_view Text(Slice slice) const {
    return std::string_view(texts_).substr(slice.begin, slice.size);
  }
  void PrintTo(const Node& node, size_t limit, std::string& out) const;

  std::vector<Node> nodes_;
  std::string texts_;
};

// Bytes of the UTF-8 character at the start of `text` (RFC 3629), or 0 when there is none.
size_t Utf8Length(std::string_view text);
// Appends `text` as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD.
void AppendJsonString(std::string_view text, std::string& out);
// Appends the shortest decimal that reads back as the same double; 0 for what JSON cannot say.
void AppendJsonNumber(double value, std::string& out);

}  // namespace tunableop
