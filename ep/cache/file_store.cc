#include "cache/file_store.h"

#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "cache/atomic_file.h"
#include "cache/results_document.h"

namespace tunableop {
namespace {

// The JSON library and the standard containers may throw; nothing may leave this room.
Status FromCurrentException(std::string_view origin) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, std::string(origin) + ": out of memory"};
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, std::string(origin) + ": " + error.what()};
  } catch (...) {
    return {StatusCode::kInternal, std::string(origin) + ": unknown exception"};
  }
}

}  // namespace

LoadReport ParseResults(std::string_view json, std::string_view origin, const Fingerprint& here) {
  try {
    ResultsDocument document = ReadDocument(json, origin, here);
    return {std::move(document.knowledge), std::move(document.problems)};
  } catch (...) {
    return {{}, {std::string(FromCurrentException(origin).message()) + "; document ignored"}};
  }
}

std::string FormatResults(const Knowledge& knowledge, const Fingerprint& here) {
  return WriteDocument(knowledge, here, {});
}

Result<LoadReport> LoadFile(const std::filesystem::path& path, const Fingerprint& here) {
  try {
    Result<std::string> content = ReadWholeFile(path.native());
    if (content.ok()) return ParseResults(content.value(), path.native(), here);
    if (content.status().code() == StatusCode::kNotFound) return content.TakeStatus();
    return LoadReport{{}, {std::string(content.status().message()) + "; document ignored"}};
  } catch (...) {
    return FromCurrentException(path.native());
  }
}

Result<std::string> EditFile(const std::filesystem::path& path, const Editor& edit,
                             int patience_ms) {
  try {
    Result<std::string> target = ResolveLinks(path.native());
    if (!target.ok()) return target.TakeStatus();
    const std::string& file = target.value();

    Result<FileLock> lock = FileLock::Acquire(file, patience_ms);
    if (!lock.ok()) return lock.TakeStatus();

    Result<std::string> content = ReadWholeFile(file);
    if (!content.ok() && content.status().code() != StatusCode::kNotFound) {
      return content.TakeStatus();
    }
    const std::optional<Edited> edited = edit(file, content.ok() ? &content.value() : nullptr);
    if (!edited) return std::string();
    const bool set_aside = edited->set_aside && content.ok();
    std::string old_name = set_aside ? FreeBadName(file) : "";
    TUNABLEOP_RETURN_IF_ERROR(ReplaceFile(file, edited->content, old_name));
    return old_name;
  } catch (...) {
    return FromCurrentException(path.native());
  }
}

Status SaveFile(const std::filesystem::path& path, const Knowledge& knowledge,
                const Fingerprint& here, int patience_ms) {
  Result<std::string> set_aside = EditFile(
      path,
      [&](const std::string& file, const std::string* old) {
        ResultsDocument document;
        if (old != nullptr) document = ReadDocument(*old, file, here);
        // An empty file is what a temporary-file interface hands out: nothing to set aside.
        const bool damaged = !document.unusable.empty() && !old->empty();
        MergeKnowledge(knowledge, document.knowledge);
        return Edited{WriteDocument(document.knowledge, here, document.foreign_sections),
                      damaged || document.lossy};
      },
      patience_ms);
  return set_aside.ok() ? Status::Ok() : set_aside.TakeStatus();
}

}  // namespace tunableop
