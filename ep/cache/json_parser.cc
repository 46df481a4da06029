// JsonTree::Parse: recursive descent over RFC 8259, with the recursion bounded.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "cache/json_tree.h"

namespace tunableop {

class JsonParser {
 public:
  JsonParser(std::string_view text, JsonTree& tree) : text_(text), tree_(tree) {}

  // False: error() says what and where.
  bool Document() {
    if (!Value(0, {0, 0})) return false;
    SkipBlanks();
    return at_ == text_.size() || Fail("expected the end");
  }

  const std::string& error() const { return error_; }

 private:
  using Kind = JsonTree::Kind;
  using Index = JsonTree::Index;
  using Slice = JsonTree::Slice;

  bool Fail(const char* what) {
    size_t line = 1;
    size_t line_begin = 0;
    const size_t end = std::min(at_, text_.size());
    for (size_t i = 0; i < end; ++i) {
      if (text_[i] != '\n') continue;
      ++line;
      line_begin = i + 1;
    }
    error_ = std::string(what) + " at line " + std::to_string(line) + ", column " +
             std::to_string(end - line_begin + 1) + ", found ";
    if (at_ >= text_.size()) {
      error_ += "the end";
    } else {
      const size_t length = Utf8Length(text_.substr(at_));
      AppendJsonString(text_.substr(at_, length == 0 ? 1 : length), error_);
    }
    return false;
  }

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void SkipBlanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool Consume(char c) {
    if (Peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  Index Add(Kind kind, Slice key) {
    JsonTree::Node& node = tree_.nodes_.emplace_back();
    node.kind = kind;
    node.key = key;
    return static_cast<Index>(tree_.nodes_.size() - 1);
  }

  bool Value(int depth, Slice key) {
    SkipBlanks();
    switch (Peek()) {
      case '{':
      case '[':
        return Container(depth, key);
      case '"': {
        Slice text{};
        if (!String(text)) return false;
        tree_.nodes_[Add(Kind::kString, key)].text = text;
        return true;
      }
      case 't':
        return Word("true", Kind::kBool, 1, key);
      case 'f':
        return Word("false", Kind::kBool, 0, key);
      case 'n':
        return Word("null", Kind::kNull, 0, key);
      default:
        return Number(key);
    }
  }

  bool Word(std::string_view word, Kind kind, int64_t value, Slice key) {
    if (text_.substr(at_, word.size()) != word) return Fail("expected a value");
    at_ += word.size();
    tree_.nodes_[Add(kind, key)].integer = value;
    return true;
  }

  bool Container(int depth, Slice key) {
    if (depth == JsonTree::kMaxDepth) return Fail("expected no deeper nesting");
    const bool object = text_[at_++] == '{';
    const char close = object ? '}' : ']';
    const Index self = Add(object ? Kind::kObject : Kind::kArray, key);
    tree_.nodes_[self].first_child = JsonTree::kNone;
    SkipBlanks();
    if (Consume(close)) return true;
    Index last = JsonTree::kNone;
    while (true) {
      Slice name{0, 0};
      if (object) {
        SkipBlanks();
        if (Peek() != '"') return Fail("expected a key");
        if (!String(name)) return false;
        SkipBlanks();
        if (!Consume(':')) return Fail("expected ':'");
      }
      const auto child = static_cast<Index>(tree_.nodes_.size());
      if (!Value(depth + 1, name)) return false;
      if (last == JsonTree::kNone) {
        tree_.nodes_[self].first_child = child;
      } else {
        tree_.nodes_[last].next = child;
      }
      last = child;
      SkipBlanks();
      if (Consume(close)) return true;
      if (!Consume(',')) return Fail(object ? "expected ',' or '}'" : "expected ',' or ']'");
    }
  }

  void Digits() {
    while (Peek() >= '0' && Peek() <= '9') ++at_;
  }
  bool IsDigit() const { return Peek() >= '0' && Peek() <= '9'; }

  bool Number(Slice key) {
    const size_t begin = at_;
    if (Peek() == '-') ++at_;
    if (!IsDigit()) return at_ = begin, Fail("expected a value");
    if (!Consume('0')) Digits();
    bool integer = true;
    if (Consume('.')) {
      integer = false;
      if (!IsDigit()) return Fail("expected a digit");
      Digits();
    }
    if (Peek() == 'e' || Peek() == 'E') {
      integer = false;
      ++at_;
      if (Peek() == '+' || Peek() == '-') ++at_;
      if (!IsDigit()) return Fail("expected a digit");
      Digits();
    }
    const std::string_view digits = text_.substr(begin, at_ - begin);
    int64_t value = 0;
    if (integer) {
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      integer = error == std::errc();
    }
    if (integer) {
      tree_.nodes_[Add(Kind::kInteger, key)].integer = value;
    } else {
      const Slice text = Append(digits);
      tree_.nodes_[Add(Kind::kNumber, key)].text = text;
    }
    return true;
  }

  Slice Append(std::string_view text) {
    const Slice slice{static_cast<uint32_t>(tree_.texts_.size()),
                      static_cast<uint32_t>(text.size())};
    tree_.texts_ += text;
    return slice;
  }

  bool String(Slice& slice) {
    ++at_;
    slice.begin = static_cast<uint32_t>(tree_.texts_.size());
    size_t plain = at_;  // begin of what has not been copied yet
    while (true) {
      if (at_ >= text_.size()) return Fail("expected '\"'");
      const auto c = static_cast<uint8_t>(text_[at_]);
      if (c == '"') break;
      if (c < 0x20) return Fail("expected no control character in a string");
      if (c == '\\') {
        tree_.texts_ += text_.substr(plain, at_ - plain);
        if (!Escape()) return false;
        plain = at_;
      } else if (c < 0x80) {
        ++at_;
      } else {
        const size_t length = Utf8Length(text_.substr(at_, 4));
        if (length == 0) return Fail("expected UTF-8");
        at_ += length;
      }
    }
    tree_.texts_ += text_.substr(plain, at_ - plain);
    ++at_;
    slice.size = static_cast<uint32_t>(tree_.texts_.size()) - slice.begin;
    return true;
  }

  bool Escape() {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    ++at_;
    if (Peek() == 'u') {
      ++at_;
      uint32_t code = 0;
      if (!Hex(code)) return false;
      if (code >= 0xDC00 && code < 0xE000) return Fail("expected a first surrogate before this");
      if (code >= 0xD800 && code < 0xDC00) {
        uint32_t low = 0;
        if (text_.substr(at_, 2) != "\\u") return Fail("expected a second surrogate");
        at_ += 2;
        if (!Hex(low)) return false;
        if (low < 0xDC00 || low >= 0xE000) return Fail("expected a second surrogate before this");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      }
      AppendUtf8(code);
      return true;
    }
    const size_t which = at_ < text_.size() ? kNames.find(text_[at_]) : std::string_view::npos;
    if (which == std::string_view::npos) return Fail("expected an escape");
    tree_.texts_ += kMeanings[which];
    ++at_;
    return true;
  }

  bool Hex(uint32_t& code) {
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    // from_chars takes no sign for unsigned types.
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) {
      return Fail("expected four hexadecimal digits");
    }
    at_ += 4;
    return true;
  }

  void AppendUtf8(uint32_t code) {
    std::string& out = tree_.texts_;
    const auto tail = [&](int shift) {
      out += static_cast<char>(0x80U | ((code >> shift) & 0x3FU));
    };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0U | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0U | (code >> 12));
      tail(6);
      tail(0);
    } else {
      out += static_cast<char>(0xF0U | (code >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }

  const std::string_view text_;
  JsonTree& tree_;
  size_t at_ = 0;
  std::string error_;
};

Result<JsonTree> JsonTree::Parse(std::string_view text) {
  // Offsets have 32 bits; an escape never grows.
  if (text.size() >= UINT32_MAX) return Status(StatusCode::kDataLoss, "larger than 4 GB");
  JsonTree tree;
  tree.nodes_.reserve(text.size() / 16 + 1);
  tree.texts_.reserve(text.size() / 2);
  JsonParser parser(text, tree);
  if (!parser.Document()) return Status(StatusCode::kDataLoss, parser.error());
  return tree;
}

}  // namespace tunableop
