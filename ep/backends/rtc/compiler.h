// A vendor's compiler at run time, for one card: nvrtc or hiprtc. Neither needs a header, a toolkit
// or a network. Its absence is normal.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/gpu/vendor_library.h"
#include "gemm/device.h"
#include "gemm/status.h"

namespace tunableop {

struct CompilerApi;

// Immutable and thread-safe.
class Compiler {
 public:
  // Loads the compiler for good, of the release of the card's runtime where there are several. Asks
  // nothing of the card. kNotFound, kNotSupported: where it was looked for, what is wrong with it,
  // or that it makes no code for this card.
  static Result<Compiler> Find(const Device& device);

  // Which one it is, to the byte: "nvrtc 13.0, 104858312 bytes".
  const std::string& identity() const noexcept { return identity_; }
  const std::string& path() const noexcept { return library_.path(); }

  // What to compile with: for the card, with macros ("TUNABLEOP_T0=f16").
  std::vector<std::string> Options(const std::vector<std::string>& macros) const;

  // The code for Device::LoadModule. `name`: of the text, in messages. kNotSupported: the compiler
  // refused it; the message has the beginning of what it said. kOutOfMemory. Takes seconds.
  Result<std::vector<std::byte>> Compile(const std::string& name, std::string_view source,
                                         const std::vector<std::string>& options) const;

 private:
  Compiler(VendorLibrary library, std::shared_ptr<const CompilerApi> api)
      : library_(std::move(library)), api_(std::move(api)) {}
  Status AimAt(const Device& device);
  Status Check(int code, const std::string& what) const;
  std::string LogOf(void* program) const;

  VendorLibrary library_;
  std::shared_ptr<const CompilerApi> api_;
  std::string identity_;
  std::vector<std::string> options_;  // the same for everything
  bool ptx_ = false;  // the card is newer than the compiler: its driver finishes the work
};

}  // namespace tunableop
