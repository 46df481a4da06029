// Which kernel of ep/kernels/binary.h an operator is.
#pragma once

#include <string_view>

namespace tunableop {

// "binary_add"; "": none.
const char* BinaryEntry(std::string_view op) noexcept;

}  // namespace tunableop
