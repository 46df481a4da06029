#include <utility>

#include "backends/lt/backend.h"
#include "backends/lt/cuda_kernels.h"

namespace tunableop {

Result<std::shared_ptr<const Backend>> MakeCublasLtBackend(std::shared_ptr<const Device> device,
                                                           const VendorLibrary& library) {
  return lt::LtBackend<lt::CudaKernels>::Make(std::move(device), library);
}

}  // namespace tunableop
