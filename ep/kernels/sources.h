// The text of the kernels, as a compiler at run time takes it.
#pragma once

#include <string_view>

namespace tunableop::device {

// Everything that the family's module needs in one text: it includes nothing. Its element types are
// given as -DTUNABLEOP_T0=f16 -DTUNABLEOP_T1=f16. Empty: there is no such family.
std::string_view KernelSource(std::string_view family);

}  // namespace tunableop::device
