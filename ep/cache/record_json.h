// One Record as a JSON object: which fields there are, what each may hold. The table in
// record_json.cc is the one place that knows; docs/tuning-results.schema.json says the same for
// other programs.
#pragma once

#include <string>
#include <string_view>

#include "cache/fingerprint.h"
#include "cache/json_tree.h"
#include "cache/record.h"

namespace tunableop {

// Reads an entry of a document of version `schema`. False: `problem` holds "m: expected an integer
// from 0 to 2^53, found "abc"", or, for trouble with the entry as a whole, ": ..." without a
// field's name.
bool ReadRecord(const JsonTree& tree, const JsonTree::Node& node, int schema, Record& record,
                std::string& problem);
// Appends the entry on one line.
void AppendRecord(const Record& record, std::string& out);

bool ReadFingerprint(const JsonTree& tree, const JsonTree::Node& node, Fingerprint& fingerprint,
                     std::string& problem);
void AppendFingerprint(const Fingerprint& fingerprint, std::string& out);

// "cores: expected 2, found 64" for every field in which they differ; empty when equal.
std::string Difference(const Fingerprint& expected, const Fingerprint& found);

}  // namespace tunableop
