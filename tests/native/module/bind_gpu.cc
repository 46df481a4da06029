// The vendors' libraries and the cards, for tests.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/gpu/card_info.h"
#include "backends/gpu/devices.h"
#include "backends/gpu/vendor_library.h"
#include "backends/gpu/vendor_search.h"
#include "gemm/device.h"
#include "gemm/device_memory.h"
#include "module/module.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

using DevicePtr = std::shared_ptr<const Device>;

template <typename T>
T Take(Result<T> result) {
  if (!result.ok()) ThrowIfError(result.TakeStatus());
  return std::move(result).value();
}

Vendor VendorOf(const std::string& name) {
  if (name == "nvidia") return Vendor::kNvidia;
  if (name == "amd") return Vendor::kAmd;
  throw py::value_error("no such vendor: " + name);
}

uintptr_t Address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
void* Pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

std::string FindLibrary(const std::string& vendor, const std::vector<std::string>& sonames,
                        const VendorSurroundings& surroundings) {
  std::vector<const char*> names;
  names.reserve(sonames.size());
  for (const std::string& soname : sonames) names.push_back(soname.c_str());
  return Take(VendorLibrary::Load(VendorOf(vendor), names, surroundings)).path();
}

py::dict Describe(const Device& device) {
  const DeviceInfo& info = device.info();
  py::dict described;
  described["backend"] = std::string(device.backend());
  described["vendor_id"] = device.vendor_id();
  described["ordinal"] = device.ordinal();
  described["name"] = info.name;
  described["arch"] = info.arch;
  described["pci_bus_id"] = info.pci_bus_id;
  described["compute_units"] = info.compute_units;
  described["memory_bytes"] = info.memory_bytes;
  described["cache_bytes"] = info.cache_bytes;
  described["driver_version"] = info.driver_version;
  described["runtime_version"] = info.runtime_version;
  return described;
}

void BindSearch(py::module_& module) {
  py::class_<VendorSurroundings>(module, "VendorSurroundings")
      .def(py::init([](std::string chosen, std::vector<std::string> installs,
                       std::string own_library, std::string root) {
             return VendorSurroundings{std::move(chosen), std::move(installs),
                                       std::move(own_library), std::move(root)};
           }),
           py::arg("chosen") = "", py::arg("installs") = std::vector<std::string>(),
           py::arg("own_library") = "", py::arg("root") = "");
  module.def("find_vendor_library", &FindLibrary, py::arg("vendor"), py::arg("sonames"),
             py::arg("surroundings"), "The path of what was loaded.");
  module.def("vendor_folders",
             [](const std::string& vendor) { return VendorFolders(VendorOf(vendor)); });
  module.def(
      "vendor_name_fit",
      [](const std::string& file, const std::string& soname) {
        return static_cast<int>(FitOf(file, soname));
      },
      "0: not at all; 1: no version; 2: with a hash; 3: exactly.");
  module.def("kfd_cache_bytes", &KfdCacheBytes);
  module.def("vendor_version_text", [](const std::string& vendor, int version) {
    return VersionText(VendorOf(vendor), version);
  });
}

// Calls that copy take and give numpy arrays; memory of the card is an address.
void BindDevice(py::module_& module) {
  py::class_<Device, std::shared_ptr<Device>> device(module, "Device");
  device.def("describe", &Describe)
      .def_property_readonly("lost", &Device::lost)
      .def("allocate",
           [](const Device& self, size_t bytes) { return Address(Take(self.Allocate(bytes))); })
      .def("free", [](const Device& self, uintptr_t memory) { self.Free(Pointer(memory)); })
      .def("allocate_host",
           [](const Device& self, size_t bytes) { return Address(Take(self.AllocateHost(bytes))); })
      .def("free_host", [](const Device& self, uintptr_t at) { self.FreeHost(Pointer(at)); })
      .def("memory_info",
           [](const Device& self) {
             size_t free = 0;
             size_t total = 0;
             ThrowIfError(self.MemoryInfo(free, total));
             return std::pair(free, total);
           })
      .def("upload",
           [](const Device& self, uintptr_t to, const py::array& from, uintptr_t stream) {
             ThrowIfError(self.Copy(Pointer(to), from.data(), from.nbytes(),
                                    CopyKind::kHostToDevice, Pointer(stream)));
           })
      .def("download",
           [](const Device& self, py::array& to, uintptr_t from, uintptr_t stream) {
             ThrowIfError(self.Copy(to.mutable_data(), Pointer(from), to.nbytes(),
                                    CopyKind::kDeviceToHost, Pointer(stream)));
           })
      .def("copy",
           [](const Device& self, uintptr_t to, uintptr_t from, size_t bytes, uintptr_t stream) {
             ThrowIfError(self.Copy(Pointer(to), Pointer(from), bytes, CopyKind::kDeviceToDevice,
                                    Pointer(stream)));
           })
      .def("fill",
           [](const Device& self, uintptr_t to, uint8_t value, size_t bytes, uintptr_t stream) {
             ThrowIfError(self.Fill(Pointer(to), value, bytes, Pointer(stream)));
           });
  device.def("create_stream", [](const Device& self) { return Address(Take(self.CreateStream())); })
      .def("destroy_stream",
           [](const Device& self, uintptr_t stream) { self.DestroyStream(Pointer(stream)); })
      .def("synchronize", [](const Device& self,
                             uintptr_t stream) { ThrowIfError(self.Synchronize(Pointer(stream))); })
      .def("is_capturing",
           [](const Device& self, uintptr_t stream) { return self.IsCapturing(Pointer(stream)); })
      .def("create_event", [](const Device& self) { return Address(Take(self.CreateEvent())); })
      .def("destroy_event",
           [](const Device& self, uintptr_t event) { self.DestroyEvent(Pointer(event)); })
      .def("record_event",
           [](const Device& self, uintptr_t event, uintptr_t stream) {
             ThrowIfError(self.RecordEvent(Pointer(event), Pointer(stream)));
           })
      .def("wait_event",
           [](const Device& self, uintptr_t stream, uintptr_t event) {
             ThrowIfError(self.WaitEvent(Pointer(stream), Pointer(event)));
           })
      .def("query_event",
           [](const Device& self, uintptr_t event) {
             bool done = false;
             ThrowIfError(self.QueryEvent(Pointer(event), done));
             return done;
           })
      .def("synchronize_event",
           [](const Device& self, uintptr_t event) {
             ThrowIfError(self.SynchronizeEvent(Pointer(event)));
           })
      .def("elapsed_ms",
           [](const Device& self, uintptr_t begin, uintptr_t end) {
             double ms = 0.0;
             ThrowIfError(self.ElapsedMs(Pointer(begin), Pointer(end), ms));
             return ms;
           })
      .def("make_current", &Device::MakeCurrent)
      .def("restore", &Device::Restore);
}

// The runtime counts its current card for each thread: threads that mix two cards must not mix up
// their memory. The number of values that were not what was written.
int HammerCards(const std::vector<DevicePtr>& devices, int threads, int rounds) {
  std::vector<std::thread> pool;
  std::atomic<int> wrong{0};
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        const DevicePtr& device = devices[(t + i) % devices.size()];
        auto buffer = DeviceBuffer::Create(device, 4096);
        auto stream = DeviceStream::Create(device);
        if (!buffer.ok() || !stream.ok()) {
          ++wrong;
          continue;
        }
        const NativeStream native = stream.value().get();
        const auto value = static_cast<uint8_t>(t * 31 + i);
        std::vector<uint8_t> read(4096);
        const bool done = device->Fill(buffer.value().data(), value, read.size(), native).ok() &&
                          device
                              ->Copy(read.data(), buffer.value().data(), read.size(),
                                     CopyKind::kDeviceToHost, native)
                              .ok() &&
                          device->Synchronize(native).ok();
        if (!done || read != std::vector<uint8_t>(read.size(), value)) ++wrong;
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  return wrong;
}

}  // namespace

void BindGpu(py::module_& module) {
  BindSearch(module);
  BindDevice(module);
  module.def("vendor_card_addresses", [] {  // without making anything ready
    std::vector<std::string> addresses;
    for (const Gpu& gpu : Gpus()) addresses.push_back(gpu.device->info().pci_bus_id);
    return addresses;
  });
  module.def("vendor_cards", [] {
    py::list list;
    for (const Gpu& gpu : Gpus()) {
      py::dict one;
      one["device"] = std::const_pointer_cast<Device>(gpu.device);
      std::vector<std::string> names;
      for (const auto& backend : gpu.backends) names.emplace_back(backend->library());
      one["backends"] = names;
      one["reason"] = gpu.reason;
      one["unusable"] = WhyUnusable(gpu);
      list.append(one);
    }
    return list;
  });
  module.def("vendor_libraries", [] {
    py::dict lines;
    for (const LibraryState& state : GpuLibraries()) {
      py::dict line;
      line["available"] = state.available;
      line["identity"] = state.identity;
      line["path"] = state.path;
      line["reason"] = state.reason;
      lines[py::str(state.library)] = line;
    }
    return lines;
  });
  module.def("hammer_cards",
             [](const std::vector<std::shared_ptr<Device>>& devices, int threads, int rounds) {
               const std::vector<DevicePtr> cards(devices.begin(), devices.end());
               const py::gil_scoped_release released;
               return HammerCards(cards, threads, rounds);
             });
}

}  // namespace tunableop::bindings
