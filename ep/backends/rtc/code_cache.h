// Compiled code on disk: compiling takes seconds, reading it milliseconds.
//
// One file for each module, named after all that its code depends on. A file is written whole or
// not at all, by as many processes at once as like, and one that is damaged is as one that is not
// there. It may be deleted at any time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gemm/status.h"

namespace tunableop {

// Of all that a module's code depends on. Not for secrets: nobody is kept from making two texts
// with the same one.
class CodeDigest {
 public:
  // Texts that are added one by one are not the same as one text.
  void Add(std::string_view text) noexcept;
  std::array<uint64_t, 2> value() const noexcept { return {low_, high_}; }
  std::string Hex() const;  // 32 digits

 private:
  void Mix(unsigned char byte) noexcept;
  uint64_t low_ = 0xCBF29CE484222325;  // FNV-1a; and another start for the second
  uint64_t high_ = 0x6C62272E07BB0142;
};

// Immutable and thread-safe.
class CodeCache {
 public:
  // Empty: nothing is kept. The folder is made when something is first written.
  explicit CodeCache(std::string folder) : folder_(std::move(folder)) {}

  // TUNABLEOP_KERNEL_CACHE ("off": empty), else onnxruntime-ep-tunableop/kernels in
  // XDG_CACHE_HOME, else in ~/.cache. kNotFound: none of them says where.
  static Result<std::string> DefaultFolder();

  const std::string& folder() const noexcept { return folder_; }

  // `name`: how the file's name begins, for a person: "binary-f16-sm_90". Nothing: it is not there,
  // cannot be read or is damaged.
  std::optional<std::vector<std::byte>> Read(const std::string& name,
                                             const CodeDigest& digest) const;
  // kIoError: why not. Nothing is left behind then.
  Status Write(const std::string& name, const CodeDigest& digest,
               std::span<const std::byte> code) const;

 private:
  std::string PathOf(const std::string& name, const CodeDigest& digest) const;

  const std::string folder_;
};

}  // namespace tunableop
