#include <utility>

#include "backends/lt/backend.h"
#include "backends/lt/hip_kernels.h"

namespace tunableop {

Result<std::shared_ptr<const Backend>> MakeHipblasLtBackend(std::shared_ptr<const Device> device,
                                                            const VendorLibrary& library) {
  return lt::LtBackend<lt::HipKernels>::Make(std::move(device), library);
}

}  // namespace tunableop
