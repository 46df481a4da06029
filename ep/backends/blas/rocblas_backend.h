// rocBLAS, the other GEMM library of AMD, on one card.
#pragma once

#include <memory>

#include "backends/gpu/vendor_library.h"
#include "gemm/backend.h"
#include "gemm/device.h"
#include "gemm/status.h"

namespace tunableop {

// `device` is a HIP device, `library` is librocblas. Nothing of the card is used before the first
// call of Candidates or Prepare.
//
// kInvalidArgument: no HIP device. kNotFound: the library lacks a symbol that it must have.
// kNotSupported: it has no kernels for this card; the first GEMM would end the process (rocBLAS
// calls abort()), so that it is not tried.
//
// Kernels: "default", what rocBLAS chooses itself, and "solution/<index>" from
// rocblas_gemm_ex_get_solutions, where the library has that (a beta function: rocBLAS 3 and newer).
// An index is a position in one build of the kernel library, so that identity() says which build
// ("5.1.0.3c1f7a2+gfx942"). Its sign says which of its two sources of kernels rocBLAS takes it from
// (in newer versions: positive from hipBLASLt, below -10 from Tensile; in older ones all are
// positive), which is no business of ours: names keep indices as they are.
//
// Run() computes without atomics, on one stream, in the workspace of its queue only.
Result<std::shared_ptr<const Backend>> MakeRocblasBackend(std::shared_ptr<const Device> device,
                                                          const VendorLibrary& library);

}  // namespace tunableop
