// How the kernels of fill.h are called.
#pragma once

#include "kernels/fill_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// `bits`: of one element.
Prepared<FillArgs> PrepareFill(void* out, int64_t count, uint64_t bits) noexcept;

// Precondition: x has two dimensions at least, and elements.
Prepared<TriluArgs> PrepareTrilu(const void* x, DimsView dims, int64_t diagonal, bool upper,
                                 void* out) noexcept;

}  // namespace tunableop::device
