// How a struct is a JSON object: a table of its fields, read and written by one pair of functions.
// Private to this room.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cache/json_tree.h"
#include "gemm/problem.h"

namespace tunableop {

inline constexpr int kFirstSchema = 1;
inline constexpr int64_t kMaxExact = int64_t{1} << 53;  // what every JSON reader keeps exactly
inline constexpr size_t kMaxText = 4096;

// A field of T. Exactly one of the groups below is set, which decides the JSON type.
template <typename T>
struct Field {
  std::string_view name;
  // The version of the document that brought it. One of a later version than the first may be
  // missing, and then has its default, which is 0 or false; it is not written when it has it.
  int since = kFirstSchema;

  // Integers, booleans (max_value 1, boolean) and enumerations (`enum_name`).
  int64_t (*get)(const T&) = nullptr;
  void (*set)(T&, int64_t) = nullptr;
  int64_t min_value = 0;
  int64_t max_value = 0;
  bool boolean = false;
  std::string_view (*enum_name)(int64_t) = nullptr;

  double T::* number = nullptr;     // finite and not negative
  std::string T::* text = nullptr;  // may be empty only if `may_be_empty`
  bool may_be_empty = false;

  // A nested object.
  void (*append)(const T&, std::string&) = nullptr;
  bool (*read)(const JsonTree&, const JsonTree::Node&, int schema, T&, std::string&) = nullptr;
};

inline std::string Limit(int64_t value) {
  return value == kMaxExact ? "2^53" : std::to_string(value);
}

template <typename T>
std::string Expected(const Field<T>& field) {
  if (field.boolean) return "true or false";
  if (field.enum_name != nullptr) {
    std::string names = "one of";
    for (int64_t i = 0; i <= field.max_value; ++i) {
      names += (i == 0 ? " \"" : ", \"") + std::string(field.enum_name(i)) + '"';
    }
    return names;
  }
  if (field.get != nullptr) {
    return "an integer from " + Limit(field.min_value) + " to " + Limit(field.max_value);
  }
  if (field.number != nullptr) return "a number from 0 up";
  if (field.text != nullptr) return field.may_be_empty ? "a string" : "a string that is not empty";
  return "an object";
}

template <typename T>
bool ReadScalar(const JsonTree& tree, const JsonTree::Node& node, const Field<T>& field, T& value) {
  if (field.boolean) {
    if (node.kind != JsonTree::Kind::kBool) return false;
    field.set(value, node.integer);
  } else if (field.enum_name != nullptr) {
    if (node.kind != JsonTree::Kind::kString) return false;
    int64_t i = 0;
    while (i <= field.max_value && field.enum_name(i) != tree.text(node)) ++i;
    if (i > field.max_value) return false;
    field.set(value, i);
  } else if (field.get != nullptr) {
    if (node.kind != JsonTree::Kind::kInteger || node.integer < field.min_value ||
        node.integer > field.max_value) {
      return false;
    }
    field.set(value, node.integer);
  } else if (field.number != nullptr) {
    if (node.kind != JsonTree::Kind::kInteger && node.kind != JsonTree::Kind::kNumber) return false;
    const double number = tree.number(node);
    if (!std::isfinite(number) || number < 0.0) return false;
    value.*field.number = number;
  } else {
    if (node.kind != JsonTree::Kind::kString) return false;
    const std::string_view text = tree.text(node);
    if (text.size() > kMaxText || (text.empty() && !field.may_be_empty)) return false;
    value.*field.text = text;
  }
  return true;
}

// Reads an object of a document of version `schema`, strictly: unknown, repeated, missing and
// ill-typed fields make it false, and `problem` says which.
template <typename T>
bool ReadObject(const JsonTree& tree, const JsonTree::Node& node, std::span<const Field<T>> fields,
                int schema, T& value, std::string& problem) {
  if (node.kind != JsonTree::Kind::kObject) {
    problem = ": expected an object, found " + tree.Print(node, 40);
    return false;
  }
  uint64_t seen = 0;
  size_t guess = 0;  // files list the fields in the table's order
  for (JsonTree::Index i = node.first_child; i != JsonTree::kNone; i = tree.at(i).next) {
    const JsonTree::Node& member = tree.at(i);
    const std::string_view name = tree.key(member);
    size_t f = guess < fields.size() ? guess : 0;
    size_t tried = 0;
    while (tried < fields.size() && fields[f].name != name) {
      f = f + 1 < fields.size() ? f + 1 : 0;
      ++tried;
    }
    if (tried == fields.size() || fields[f].since > schema) {
      problem = tree.Print(member, 40);
      problem =
          "." + std::string(name.substr(0, 40)) + ": expected no such field, found " + problem;
      return false;
    }
    const Field<T>& field = fields[f];
    if ((seen >> f) & 1U) {
      problem = "." + std::string(name) + ": expected once, found twice";
      return false;
    }
    seen |= uint64_t{1} << f;
    guess = f + 1;
    if (field.read != nullptr) {
      if (!field.read(tree, member, schema, value, problem)) {
        problem = "." + std::string(name) + problem;
        return false;
      }
    } else if (!ReadScalar(tree, member, field, value)) {
      problem = "." + std::string(name) + ": expected " + Expected(field) + ", found " +
                tree.Print(member, 40);
      return false;
    }
  }
  for (size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].since == kFirstSchema && ((seen >> f) & 1U) == 0) {
      problem = "." + std::string(fields[f].name) + ": expected " + Expected(fields[f]) +
                ", found nothing";
      return false;
    }
  }
  return true;
}

template <typename T>
bool IsDefault(const Field<T>& field, const T& value) {
  if (field.get != nullptr) return field.get(value) == 0;
  // What is not finite is written as 0.
  if (field.number != nullptr)
    return !std::isfinite(value.*field.number) || value.*field.number == 0.0;
  return false;
}

template <typename T>
void AppendObject(const T& value, std::span<const Field<T>> fields, std::string& out) {
  out += '{';
  for (const Field<T>& field : fields) {
    if (field.since > kFirstSchema && IsDefault(field, value)) continue;
    if (out.back() != '{') out += ", ";
    out += '"';
    out += field.name;
    out += "\": ";
    if (field.boolean) {
      out += field.get(value) != 0 ? "true" : "false";
    } else if (field.enum_name != nullptr) {
      out += '"';
      out += field.enum_name(field.get(value));
      out += '"';
    } else if (field.get != nullptr) {
      out += std::to_string(field.get(value));
    } else if (field.number != nullptr) {
      AppendJsonNumber(value.*field.number, out);
    } else if (field.text != nullptr) {
      AppendJsonString(value.*field.text, out);
    } else {
      field.append(value, out);
    }
  }
  out += '}';
}

// An integer of any type. One that grows without a limit is kept within what the document holds.
template <typename T, auto Member, int64_t Max = kMaxExact>
constexpr Field<T> Integer(std::string_view name, int since = kFirstSchema) {
  return {.name = name,
          .since = since,
          .get = [](const T& t) -> int64_t {
            if (std::cmp_greater(t.*Member, Max)) return Max;
            return std::cmp_less(t.*Member, 0) ? 0 : static_cast<int64_t>(t.*Member);
          },
          .set =
              [](T& t, int64_t v) {
                t.*Member = static_cast<std::remove_reference_t<decltype(t.*Member)>>(v);
              },
          .max_value = Max};
}
template <typename T, auto Member>
constexpr Field<T> Flag(std::string_view name, int since = kFirstSchema) {
  return {.name = name,
          .since = since,
          .get = [](const T& t) -> int64_t { return t.*Member ? 1 : 0; },
          .set = [](T& t, int64_t v) { t.*Member = v != 0; },
          .max_value = 1,
          .boolean = true};
}

// The fields of T::problem: the key of whatever is kept for a problem.

template <typename T, auto Member>
constexpr Field<T> ProblemInteger(std::string_view name, int64_t max_value) {
  return {.name = name,
          .get = [](const T& t) { return static_cast<int64_t>(t.problem.*Member); },
          .set =
              [](T& t, int64_t v) {
                using Type = std::remove_reference_t<decltype(t.problem.*Member)>;
                t.problem.*Member = static_cast<Type>(v);
              },
          .max_value = max_value};
}
template <typename T, auto Member>
constexpr Field<T> ProblemFlag(std::string_view name) {
  Field<T> field = ProblemInteger<T, Member>(name, 1);
  field.boolean = true;
  return field;
}
template <typename T, auto Member, typename Enum>
constexpr Field<T> ProblemEnum(std::string_view name, Enum last) {
  Field<T> field = ProblemInteger<T, Member>(name, static_cast<int64_t>(last));
  field.enum_name = [](int64_t i) { return Name(static_cast<Enum>(i)); };
  return field;
}

template <typename T>
constexpr std::array<Field<T>, 25> ProblemFields() {
  return {{
      ProblemInteger<T, &Problem::m>("m", kMaxExact),
      ProblemInteger<T, &Problem::n>("n", kMaxExact),
      ProblemInteger<T, &Problem::k>("k", kMaxExact),
      ProblemInteger<T, &Problem::batch>("batch", kMaxExact),
      ProblemInteger<T, &Problem::lda>("lda", kMaxExact),
      ProblemInteger<T, &Problem::ldb>("ldb", kMaxExact),
      ProblemInteger<T, &Problem::ldc>("ldc", kMaxExact),
      ProblemInteger<T, &Problem::stride_a>("stride_a", kMaxExact),
      ProblemInteger<T, &Problem::stride_b>("stride_b", kMaxExact),
      ProblemInteger<T, &Problem::stride_c>("stride_c", kMaxExact),
      ProblemEnum<T, &Problem::a_type>("a_type", DataType::kFloat64),
      ProblemEnum<T, &Problem::b_type>("b_type", DataType::kFloat64),
      ProblemEnum<T, &Problem::c_type>("c_type", DataType::kFloat64),
      ProblemFlag<T, &Problem::trans_a>("trans_a"),
      ProblemFlag<T, &Problem::trans_b>("trans_b"),
      ProblemEnum<T, &Problem::b_layout>("b_layout", BLayout::kPacked),
      ProblemFlag<T, &Problem::b_constant>("b_constant"),
      ProblemEnum<T, &Problem::alpha>("alpha", ScalarClass::kOther),
      ProblemEnum<T, &Problem::beta>("beta", ScalarClass::kOther),
      ProblemEnum<T, &Problem::epilogue>("epilogue", Epilogue::kBiasGelu),
      ProblemEnum<T, &Problem::precision>("precision", Precision::kTf32),
      ProblemInteger<T, &Problem::align_a>("align_a", kMaxAlignmentLog2),
      ProblemInteger<T, &Problem::align_b>("align_b", kMaxAlignmentLog2),
      ProblemInteger<T, &Problem::align_c>("align_c", kMaxAlignmentLog2),
      ProblemInteger<T, &Problem::threads>("threads", UINT16_MAX),
  }};
}

template <typename T, size_t A, size_t B>
constexpr std::array<Field<T>, A + B> Join(const std::array<Field<T>, A>& first,
                                           const std::array<Field<T>, B>& second) {
  static_assert(A + B <= 64, "ReadObject counts fields in 64 bits");
  std::array<Field<T>, A + B> all{};
  for (size_t i = 0; i < A; ++i) all[i] = first[i];
  for (size_t i = 0; i < B; ++i) all[A + i] = second[i];
  return all;
}

}  // namespace tunableop
