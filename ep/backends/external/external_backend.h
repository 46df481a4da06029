// A library of kernels that a user brings, as a Backend. Each kernel is a candidate under its own
// name, and once more with kRowsSuffix where threads can share its rows.
#pragma once

#include <memory>
#include <string_view>

#include "backends/external/external_library.h"
#include "gemm/backend.h"

namespace tunableop {

namespace external {
inline constexpr std::string_view kRowsSuffix = "/rows";
}

// Its candidates are for problems that the native kernels can run too, so that the first library of
// the registry gives the default and never this one.
std::shared_ptr<const Backend> MakeExternalBackend(external::ExternalLibrary library);

}  // namespace tunableop
