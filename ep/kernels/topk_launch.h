// How the kernel of topk.h is called.
#pragma once

#include "kernels/rows.h"
#include "kernels/topk_args.h"

namespace tunableop::device {

// `kept`: at most as many as there are along `axis`, which is not negative.
Prepared<TopKArgs> PrepareTopK(const void* x, DimsView x_dims, size_t axis, int64_t kept,
                               bool smallest, void* values, int64_t* places) noexcept;

}  // namespace tunableop::device
