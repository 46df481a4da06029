// The vendors' GEMM libraries that choose a kernel themselves and let the caller choose another:
// cublasLt and hipBLASLt. One backend, a template over a table of names and numbers for each.
//
// Kernel names:
//   cublaslt   "66:t20.s35.k1.r0.w0.c0.i0.u3": the algorithm and all its settings (algo_config.h).
//              It holds for any build that knows such an algorithm.
//   hipblaslt  the name that the library gives its solution, with its index as opaque_id; or
//              "index:1234" where it gives no names, which holds for one build of the library.
//   either + "/bt"  the same on Operands::b_transposed.
//
// The libraries' GELU is the tanh approximation, and ONNX's Gelu is by default the exact one: up to
// 5e-4 apart. So epilogues with GELU are refused.
#pragma once

#include <memory>

#include "backends/gpu/vendor_library.h"
#include "gemm/backend.h"
#include "gemm/device.h"
#include "gemm/status.h"

namespace tunableop {

// Which slot of DeviceQueue::state holds this library's handle. rocBLAS has 1.
inline constexpr size_t kLtQueueSlot = 0;

// The largest workspace that a kernel of these libraries may ask for, and what a queue should
// have: split-K keeps its partial sums there. cublasLt's own advice for Hopper is 32 MiB; on AMD
// no kernel that needed 256 MiB was ever fastest (AMDMIGraphX#4188).
inline constexpr size_t kLtWorkspaceBytes = size_t{32} << 20;

// kNotSupported, with the reason: a symbol is missing, the library is too old, or it cannot run on
// this card. kOutOfMemory, kInternal: it could not be asked, which may be otherwise another time.
Result<std::shared_ptr<const Backend>> MakeCublasLtBackend(std::shared_ptr<const Device> device,
                                                           const VendorLibrary& library);
Result<std::shared_ptr<const Backend>> MakeHipblasLtBackend(std::shared_ptr<const Device> device,
                                                            const VendorLibrary& library);

}  // namespace tunableop
