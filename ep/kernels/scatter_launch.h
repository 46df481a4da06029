// How the kernels of scatter.h are called. `out` holds the elements that stay already.
#pragma once

#include "kernels/scatter_args.h"
#include "kernels/shapes.h"

namespace tunableop::device {

// Nothing: the indices' shape does not fit, or too many dimensions are left.
std::optional<Prepared<ScatterElementsArgs>> PrepareScatterElements(const void* indices,
                                                                    DimsView indices_dims,
                                                                    size_t axis,
                                                                    const void* updates, void* out,
                                                                    DimsView out_dims) noexcept;

// Nothing: an index has more parts than there are dimensions, or than kMaxRank.
std::optional<Prepared<ScatterNdArgs>> PrepareScatterNd(const void* indices, DimsView indices_dims,
                                                        const void* updates, void* out,
                                                        DimsView out_dims) noexcept;

// `out` has a dimension of `depth` more than the indices, before which they have `outer` elements
// and behind which `inner`. `values`: on the card, what is not and what is.
Prepared<OneHotArgs> PrepareOneHot(const void* indices, int64_t outer, int64_t depth, int64_t inner,
                                   const void* values, void* out) noexcept;

}  // namespace tunableop::device
