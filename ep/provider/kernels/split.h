// How many parts one kernel writes at once.
#pragma once

#include <cstddef>

#include "abi/ort_c_api.h"

namespace tunableop {

inline constexpr size_t kMostSplitAtOnce = 3;

// A Split of so many outputs runs as one launch of family split_columns, and needs no other; else
// as one of family copy for each output.
bool SplitsAtOnce(size_t outputs, ONNXTensorElementDataType type) noexcept;

}  // namespace tunableop
