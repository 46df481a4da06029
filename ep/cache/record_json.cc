#include "cache/record_json.h"

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

namespace tunableop {
namespace {

using Kind = JsonTree::Kind;

constexpr int64_t kMaxExact = int64_t{1} << 53;  // what every JSON reader keeps exactly
constexpr size_t kMaxText = 4096;

// A field of T. Exactly one of the groups below is set, which decides the JSON type.
template <typename T>
struct Field {
  std::string_view name;

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
  bool (*read)(const JsonTree&, const JsonTree::Node&, T&, std::string&) = nullptr;
};

std::string Limit(int64_t value) { return value == kMaxExact ? "2^53" : std::to_string(value); }

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
    if (node.kind != Kind::kBool) return false;
    field.set(value, node.integer);
  } else if (field.enum_name != nullptr) {
    if (node.kind != Kind::kString) return false;
    int64_t i = 0;
    while (i <= field.max_value && field.enum_name(i) != tree.text(node)) ++i;
    if (i > field.max_value) return false;
    field.set(value, i);
  } else if (field.get != nullptr) {
    if (node.kind != Kind::kInteger || node.integer < field.min_value ||
        node.integer > field.max_value) {
      return false;
    }
    field.set(value, node.integer);
  } else if (field.number != nullptr) {
    if (node.kind != Kind::kInteger && node.kind != Kind::kNumber) return false;
    const double number = tree.number(node);
    if (!std::isfinite(number) || number < 0.0) return false;
    value.*field.number = number;
  } else {
    if (node.kind != Kind::kString) return false;
    const std::string_view text = tree.text(node);
    if (text.size() > kMaxText || (text.empty() && !field.may_be_empty)) return false;
    value.*field.text = text;
  }
  return true;
}

template <typename T>
bool ReadObject(const JsonTree& tree, const JsonTree::Node& node, std::span<const Field<T>> fields,
                T& value, std::string& problem) {
  if (node.kind != Kind::kObject) {
    problem = ": expected an object, found " + tree.Print(node, 40);
    return false;
  }
  uint64_t seen = 0;
  size_t guess = 0;  // files list the fields in the table's order
  for (JsonTree::Index i = node.first_child; i != JsonTree::kNone; i = tree.at(i).next) {
    const JsonTree::Node& member = tree.at(i);
    const std::string_view name = tree.key(member);
    size_t f = guess;
    if (f >= fields.size() || fields[f].name != name) {
      f = 0;
      while (f < fields.size() && fields[f].name != name) ++f;
    }
    if (f == fields.size()) {
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
      if (!field.read(tree, member, value, problem)) {
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
    if (((seen >> f) & 1U) == 0) {
      problem = "." + std::string(fields[f].name) + ": expected " + Expected(fields[f]) +
                ", found nothing";
      return false;
    }
  }
  return true;
}

template <typename T>
void AppendObject(const T& value, std::span<const Field<T>> fields, std::string& out) {
  out += '{';
  for (const Field<T>& field : fields) {
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

template <auto Member>
constexpr Field<Record> ProblemInteger(std::string_view name, int64_t max_value) {
  return {.name = name,
          .get = [](const Record& r) { return static_cast<int64_t>(r.problem.*Member); },
          .set =
              [](Record& r, int64_t v) {
                using Type = std::remove_reference_t<decltype(r.problem.*Member)>;
                r.problem.*Member = static_cast<Type>(v);
              },
          .max_value = max_value};
}
template <auto Member>
constexpr Field<Record> ProblemFlag(std::string_view name) {
  Field<Record> field = ProblemInteger<Member>(name, 1);
  field.boolean = true;
  return field;
}
template <auto Member, typename Enum>
constexpr Field<Record> ProblemEnum(std::string_view name, Enum last) {
  Field<Record> field = ProblemInteger<Member>(name, static_cast<int64_t>(last));
  field.enum_name = [](int64_t i) { return Name(static_cast<Enum>(i)); };
  return field;
}

constexpr Field<Candidate> kCandidateFields[] = {
    {.name = "library", .text = &Candidate::library},
    {.name = "kernel", .text = &Candidate::kernel},
    {.name = "opaque_id",
     .get = [](const Candidate& c) { return c.opaque_id; },
     .set = [](Candidate& c, int64_t v) { c.opaque_id = v; },
     .min_value = INT64_MIN,  // opaque: any value may mean something to the library
     .max_value = INT64_MAX},
    {.name = "workspace_bytes",
     .get = [](const Candidate& c) { return static_cast<int64_t>(c.workspace_bytes); },
     .set = [](Candidate& c, int64_t v) { c.workspace_bytes = static_cast<size_t>(v); },
     .max_value = kMaxExact},
};

constexpr Field<Record> kRecordFields[] = {
    ProblemInteger<&Problem::m>("m", kMaxExact),
    ProblemInteger<&Problem::n>("n", kMaxExact),
    ProblemInteger<&Problem::k>("k", kMaxExact),
    ProblemInteger<&Problem::batch>("batch", kMaxExact),
    ProblemInteger<&Problem::lda>("lda", kMaxExact),
    ProblemInteger<&Problem::ldb>("ldb", kMaxExact),
    ProblemInteger<&Problem::ldc>("ldc", kMaxExact),
    ProblemInteger<&Problem::stride_a>("stride_a", kMaxExact),
    ProblemInteger<&Problem::stride_b>("stride_b", kMaxExact),
    ProblemInteger<&Problem::stride_c>("stride_c", kMaxExact),
    ProblemEnum<&Problem::a_type>("a_type", DataType::kFloat64),
    ProblemEnum<&Problem::b_type>("b_type", DataType::kFloat64),
    ProblemEnum<&Problem::c_type>("c_type", DataType::kFloat64),
    ProblemFlag<&Problem::trans_a>("trans_a"),
    ProblemFlag<&Problem::trans_b>("trans_b"),
    ProblemEnum<&Problem::b_layout>("b_layout", BLayout::kPacked),
    ProblemFlag<&Problem::b_constant>("b_constant"),
    ProblemEnum<&Problem::alpha>("alpha", ScalarClass::kOther),
    ProblemEnum<&Problem::beta>("beta", ScalarClass::kOther),
    ProblemEnum<&Problem::epilogue>("epilogue", Epilogue::kBiasGelu),
    ProblemEnum<&Problem::precision>("precision", Precision::kTf32),
    ProblemInteger<&Problem::align_a>("align_a", kMaxAlignmentLog2),
    ProblemInteger<&Problem::align_b>("align_b", kMaxAlignmentLog2),
    ProblemInteger<&Problem::align_c>("align_c", kMaxAlignmentLog2),
    ProblemInteger<&Problem::threads>("threads", UINT16_MAX),
    {.name = "winner",
     .append = [](const Record& r,
                  std::string& out) { AppendObject<Candidate>(r.winner, kCandidateFields, out); },
     .read =
         [](const JsonTree& tree, const JsonTree::Node& node, Record& r, std::string& problem) {
           return ReadObject<Candidate>(tree, node, kCandidateFields, r.winner, problem);
         }},
    {.name = "library_identity", .text = &Record::library_identity, .may_be_empty = true},
    {.name = "winner_ms", .number = &Record::winner_ms},
    {.name = "default_ms", .number = &Record::default_ms},
    {.name = "default_kernel", .text = &Record::default_kernel, .may_be_empty = true},
    {.name = "error", .number = &Record::error},
    {.name = "tried",
     .get = [](const Record& r) { return static_cast<int64_t>(r.tried); },
     .set = [](Record& r, int64_t v) { r.tried = static_cast<int>(v); },
     .max_value = 1'000'000},
    {.name = "budget_ms", .number = &Record::budget_ms},
    {.name = "measured_at",
     .get = [](const Record& r) { return r.measured_at; },
     .set = [](Record& r, int64_t v) { r.measured_at = v; },
     .max_value = kMaxExact},
};
static_assert(std::size(kRecordFields) <= 64, "ReadObject counts fields in 64 bits");

constexpr Field<Fingerprint> kFingerprintFields[] = {
    {.name = "device", .text = &Fingerprint::device},
    {.name = "model", .text = &Fingerprint::model, .may_be_empty = true},
    {.name = "features", .text = &Fingerprint::features, .may_be_empty = true},
    {.name = "cores",
     .get = [](const Fingerprint& f) { return static_cast<int64_t>(f.cores); },
     .set = [](Fingerprint& f, int64_t v) { f.cores = static_cast<int>(v); },
     .max_value = 1'000'000},
};

}  // namespace

bool ReadRecord(const JsonTree& tree, const JsonTree::Node& node, Record& record,
                std::string& problem) {
  if (!ReadObject<Record>(tree, node, kRecordFields, record, problem)) return false;
  if (Status status = Validate(record.problem); !status.ok()) {
    problem = ": expected a possible GEMM, found " + std::string(status.message());
    return false;
  }
  return true;
}

void AppendRecord(const Record& record, std::string& out) {
  AppendObject<Record>(record, kRecordFields, out);
}

bool ReadFingerprint(const JsonTree& tree, const JsonTree::Node& node, Fingerprint& fingerprint,
                     std::string& problem) {
  return ReadObject<Fingerprint>(tree, node, kFingerprintFields, fingerprint, problem);
}

void AppendFingerprint(const Fingerprint& fingerprint, std::string& out) {
  AppendObject<Fingerprint>(fingerprint, kFingerprintFields, out);
}

std::string Difference(const Fingerprint& expected, const Fingerprint& found) {
  std::string text;
  const auto compare = [&](const char* name, const std::string& want, const std::string& have) {
    if (want == have) return;
    text += text.empty() ? "" : "; ";
    text += std::string(name) + ": expected " + want + ", found " + have;
  };
  compare("device", '"' + expected.device + '"', '"' + found.device + '"');
  compare("model", '"' + expected.model + '"', '"' + found.model + '"');
  compare("features", '"' + expected.features + '"', '"' + found.features + '"');
  compare("cores", std::to_string(expected.cores), std::to_string(found.cores));
  return text;
}

}  // namespace tunableop
