#include "cache/knowledge_json.h"

#include <array>
#include <cstdint>
#include <string_view>

#include "cache/json_fields.h"

namespace tunableop {
namespace {

constexpr size_t kReasonBytes = 1000;   // a byte that is no UTF-8 is written as three
constexpr int64_t kMaxDay = 1'000'000;  // the year 4707

constexpr auto kSeenFields =
    Join(ProblemFields<SeenRecord>(),
         std::array<Field<SeenRecord>, 1>{{Integer<SeenRecord, &SeenRecord::uses>("uses")}});

constexpr std::array<Field<NodeRecord>, 9> kNodeFields = {{
    {.name = "op", .text = &NodeRecord::op},
    {.name = "name", .text = &NodeRecord::name},
    Integer<NodeRecord, &NodeRecord::k>("k"),
    Integer<NodeRecord, &NodeRecord::n>("n"),
    Integer<NodeRecord, &NodeRecord::uses>("uses"),
    {.name = "ours_ms", .number = &NodeRecord::ours_ms},
    {.name = "stock_ms", .number = &NodeRecord::stock_ms},
    Flag<NodeRecord, &NodeRecord::stock>("stock"),
    Integer<NodeRecord, &NodeRecord::measured_at>("measured_at"),
}};

constexpr std::array<Field<FormRecord>, 9> kFormFields = {{
    {.name = "group", .text = &FormRecord::group},
    {.name = "shape", .text = &FormRecord::shape},
    {.name = "form", .text = &FormRecord::form},
    {.name = "usual_form", .text = &FormRecord::usual_form},
    {.name = "library_identity", .text = &FormRecord::library_identity, .may_be_empty = true},
    {.name = "form_ms", .number = &FormRecord::form_ms},
    {.name = "usual_ms", .number = &FormRecord::usual_ms},
    Flag<FormRecord, &FormRecord::cold>("cold"),
    Integer<FormRecord, &FormRecord::measured_at>("measured_at"),
}};

constexpr std::array<Field<DeniedRecord>, 7> kDeniedFields = {{
    {.name = "library", .text = &DeniedRecord::library},
    {.name = "kernel", .text = &DeniedRecord::kernel},
    {.name = "library_identity", .text = &DeniedRecord::library_identity, .may_be_empty = true},
    {.name = "reason", .text = &DeniedRecord::reason, .may_be_empty = true},
    Integer<DeniedRecord, &DeniedRecord::deaths, 1'000'000>("deaths"),
    Integer<DeniedRecord, &DeniedRecord::denied_at>("denied_at"),
    Integer<DeniedRecord, &DeniedRecord::until>("until"),
}};

constexpr std::array<Field<SpentRecord>, 2> kSpentFields = {{
    Integer<SpentRecord, &SpentRecord::day, kMaxDay>("day"),
    {.name = "ms", .number = &SpentRecord::ms},
}};

bool Fits(std::string_view text) { return !text.empty() && text.size() <= kMaxText; }

}  // namespace

bool ReadElement(const JsonTree& tree, const JsonTree::Node& node, SeenRecord& seen,
                 std::string& problem) {
  if (!ReadObject<SeenRecord>(tree, node, kSeenFields, kFirstSchema, seen, problem)) return false;
  const Status status = Validate(seen.problem);
  if (!status.ok()) {
    problem = ": expected a possible GEMM, found " + std::string(status.message());
  }
  return status.ok();
}

bool ReadElement(const JsonTree& tree, const JsonTree::Node& node, NodeRecord& record,
                 std::string& problem) {
  return ReadObject<NodeRecord>(tree, node, kNodeFields, kFirstSchema, record, problem);
}

bool ReadElement(const JsonTree& tree, const JsonTree::Node& node, FormRecord& form,
                 std::string& problem) {
  return ReadObject<FormRecord>(tree, node, kFormFields, kFirstSchema, form, problem);
}

bool ReadElement(const JsonTree& tree, const JsonTree::Node& node, DeniedRecord& denied,
                 std::string& problem) {
  return ReadObject<DeniedRecord>(tree, node, kDeniedFields, kFirstSchema, denied, problem);
}

bool ReadElement(const JsonTree& tree, const JsonTree::Node& node, SpentRecord& spent,
                 std::string& problem) {
  return ReadObject<SpentRecord>(tree, node, kSpentFields, kFirstSchema, spent, problem);
}

bool Writable(const NodeRecord& record) { return Fits(record.op) && Fits(record.name); }
bool Writable(const FormRecord& form) {
  return Fits(form.group) && Fits(form.shape) && Fits(form.form) && Fits(form.usual_form) &&
         form.library_identity.size() <= kMaxText;
}
bool Writable(const DeniedRecord& denied) { return Fits(denied.library) && Fits(denied.kernel); }

void AppendElement(const SeenRecord& seen, std::string& out) {
  AppendObject<SeenRecord>(seen, kSeenFields, out);
}

void AppendElement(const NodeRecord& record, std::string& out) {
  AppendObject<NodeRecord>(record, kNodeFields, out);
}

void AppendElement(const FormRecord& form, std::string& out) {
  AppendObject<FormRecord>(form, kFormFields, out);
}

void AppendElement(const DeniedRecord& denied, std::string& out) {
  if (denied.reason.size() <= kReasonBytes) {
    return AppendObject<DeniedRecord>(denied, kDeniedFields, out);
  }
  DeniedRecord cut = denied;
  size_t end = kReasonBytes;
  while (end > 0 && (static_cast<uint8_t>(cut.reason[end]) & 0xC0U) == 0x80U) --end;
  cut.reason.resize(end);
  AppendObject<DeniedRecord>(cut, kDeniedFields, out);
}

void AppendElement(const SpentRecord& spent, std::string& out) {
  AppendObject<SpentRecord>(spent, kSpentFields, out);
}

}  // namespace tunableop
