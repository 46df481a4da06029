// Tuning results as a JSON document, in a file or in a string. Schema:
// docs/tuning-results.schema.json.
//
// Validation is per entry: a bad one is dropped with a message that says which file, entry and
// field, what was expected and what was found; the good ones are used. Nothing here throws but
// std::bad_alloc, when there is no memory even for a message.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/fingerprint.h"
#include "cache/knowledge.h"
#include "gemm/status.h"

namespace tunableop {

inline constexpr int kSchemaVersion = 2;  // 1 is read, too

struct LoadReport {
  Knowledge knowledge;                // valid for this machine, merged where the document repeats
  std::vector<std::string> problems;  // one line for each element (or document) that was refused
};

// Never fails as a whole: a document that cannot be read at all yields no knowledge and one problem
// line. `origin` names the document in messages. Entries measured on another machine (fingerprint)
// are refused.
LoadReport ParseResults(std::string_view json, std::string_view origin, const Fingerprint& here);
std::string FormatResults(const Knowledge& knowledge, const Fingerprint& here);

// kNotFound when there is no such file (a first start: normal); any other trouble is in `problems`.
// Takes no lock: files are only ever replaced whole.
Result<LoadReport> LoadFile(const std::filesystem::path& path, const Fingerprint& here);

// Merges `knowledge` into what the file holds now (the newer measurement of a problem wins;
// knowledge.spent is added; denials whose time is over go) and replaces the file atomically
// (temporary file in the same folder, fsync, rename), under an advisory lock on
// "<path>.lock", so that neither a crash nor a second process loses anything. Entries of other
// machines and libraries in the file are kept. A file that is damaged, of another schema, or holds
// entries of this machine that are not valid, is set aside as "<path>.bad" ("<path>.bad.2" ...
// where that exists) and not lost. A symbolic link stays, and what it points to is replaced. On
// failure the old file is untouched. kNotFound: no such folder; kBusy: another process held
// the lock for `patience_ms`; kIoError: any other refusal, in words.
Status SaveFile(const std::filesystem::path& path, const Knowledge& knowledge,
                const Fingerprint& here, int patience_ms = 30'000);

// What an editor makes of a file.
struct Edited {
  std::string content;
  bool set_aside = false;  // the old file is kept as "<path>.bad": something in it gets lost
};
// Gets the path with links followed, and what the file holds (nullptr: there is none). Nothing: the
// file stays as it is.
using Editor =
    std::function<std::optional<Edited>(const std::string& file, const std::string* old)>;

// Replaces the file by what `edit` makes of it, under the lock of SaveFile and as it does. Returns
// where the old file was set aside; empty: it was not. Errors are those of SaveFile; `edit` may
// throw what is a std::exception, which becomes one.
Result<std::string> EditFile(const std::filesystem::path& path, const Editor& edit,
                             int patience_ms = 30'000);

}  // namespace tunableop
