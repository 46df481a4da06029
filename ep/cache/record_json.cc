#include "cache/record_json.h"

#include <array>
#include <cstdint>

#include "cache/json_fields.h"

namespace tunableop {
namespace {

constexpr int kSecondSchema = 2;  // brought state, uses and buckets

constexpr std::array<Field<Candidate>, 4> kCandidateFields = {{
    {.name = "library", .text = &Candidate::library},
    {.name = "kernel", .text = &Candidate::kernel},
    {.name = "opaque_id",
     .get = [](const Candidate& c) { return c.opaque_id; },
     .set = [](Candidate& c, int64_t v) { c.opaque_id = v; },
     .min_value = INT64_MIN,  // opaque: any value may mean something to the library
     .max_value = INT64_MAX},
    Integer<Candidate, &Candidate::workspace_bytes>("workspace_bytes"),
}};

constexpr std::array<Field<Record>, 18> kMeasuredFields = {{
    {.name = "winner",
     .append = [](const Record& r,
                  std::string& out) { AppendObject<Candidate>(r.winner, kCandidateFields, out); },
     .read =
         [](const JsonTree& tree, const JsonTree::Node& node, int schema, Record& r,
            std::string& problem) {
           return ReadObject<Candidate>(tree, node, kCandidateFields, schema, r.winner, problem);
         }},
    {.name = "library_identity", .text = &Record::library_identity, .may_be_empty = true},
    {.name = "winner_ms", .number = &Record::winner_ms},
    {.name = "default_ms", .number = &Record::default_ms},
    {.name = "default_kernel", .text = &Record::default_kernel, .may_be_empty = true},
    {.name = "error", .number = &Record::error},
    Integer<Record, &Record::tried, 1'000'000>("tried"),
    {.name = "budget_ms", .number = &Record::budget_ms},
    {.name = "stock_ms", .since = kSecondSchema, .number = &Record::stock_ms},
    Flag<Record, &Record::stock_wins>("stock_wins", kSecondSchema),
    Flag<Record, &Record::cold_b>("cold_b", kSecondSchema),
    {.name = "temperature_c", .since = kSecondSchema, .number = &Record::temperature_c},
    {.name = "clock_mhz", .since = kSecondSchema, .number = &Record::clock_mhz},
    Integer<Record, &Record::confirmations, 1'000'000>("confirmations", kSecondSchema),
    Integer<Record, &Record::uses>("uses", kSecondSchema),
    Integer<Record, &Record::m_low>("m_low", kSecondSchema),
    Integer<Record, &Record::m_high>("m_high", kSecondSchema),
    Integer<Record, &Record::measured_at>("measured_at"),
}};
constexpr auto kRecordFields = Join(ProblemFields<Record>(), kMeasuredFields);

constexpr std::array<Field<Fingerprint>, 4> kFingerprintFields = {{
    {.name = "device", .text = &Fingerprint::device},
    {.name = "model", .text = &Fingerprint::model, .may_be_empty = true},
    {.name = "features", .text = &Fingerprint::features, .may_be_empty = true},
    Integer<Fingerprint, &Fingerprint::cores, 1'000'000>("cores"),
}};

}  // namespace

bool ReadRecord(const JsonTree& tree, const JsonTree::Node& node, int schema, Record& record,
                std::string& problem) {
  if (!ReadObject<Record>(tree, node, kRecordFields, schema, record, problem)) return false;
  if (Status status = Validate(record.problem); !status.ok()) {
    problem = ": expected a possible GEMM, found " + std::string(status.message());
    return false;
  }
  const int64_t m = record.problem.m;
  if ((record.m_low != 0 || record.m_high != 0) && (m < record.m_low || m > record.m_high)) {
    problem = ": expected m_low <= m <= m_high, found " + std::to_string(record.m_low) + ", " +
              std::to_string(m) + ", " + std::to_string(record.m_high);
    return false;
  }
  return true;
}

void AppendRecord(const Record& record, std::string& out) {
  AppendObject<Record>(record, kRecordFields, out);
}

bool ReadFingerprint(const JsonTree& tree, const JsonTree::Node& node, Fingerprint& fingerprint,
                     std::string& problem) {
  return ReadObject<Fingerprint>(tree, node, kFingerprintFields, kFirstSchema, fingerprint,
                                 problem);
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
