// What a card says about itself.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "backends/gpu/vendor_library.h"
#include "gemm/device.h"

namespace tunableop {

struct RuntimeApi;

// Makes no context on the card where the driver can be asked without. What cannot be learned stays
// empty or 0.
DeviceInfo ReadCard(const RuntimeApi& api, const VendorLibrary& runtime, int ordinal);

// The last cache before the memory, in bytes, as the amdgpu driver tells the ROCm runtime: HIP
// itself knows the L2 only, which on the big cards is not the last. 0: not known. `nodes`:
// /sys/class/kfd/kfd/topology/nodes; `pci_bus_id`: "0000:c1:00.0".
size_t KfdCacheBytes(const std::string& nodes, std::string_view pci_bus_id);

// 13000 -> "13.0", 12080 -> "12.8"; HIP's 71526015 -> "7.15".
std::string VersionText(Vendor vendor, int version);
// 13000 -> 13; 71526015 -> 7.
int MajorOf(Vendor vendor, int version) noexcept;

}  // namespace tunableop
