#include "core/kernels.h"

#include "kernels/host.h"

namespace simgpu {
namespace {

// What tests/native writes into its struct, too.
struct ScaleArgs {
  const void* x;
  void* y;
  int64_t count;
  double factor;
};

template <typename T>
void Scale(const void* /*function*/, const void* args, Blocks grid) {
  const auto& scale = *static_cast<const ScaleArgs*>(args);
  const int64_t threads = int64_t{grid.x} * grid.y * grid.z;
  for (int64_t thread = 0; thread < threads; ++thread) {
    for (int64_t i = thread; i < scale.count; i += threads) {
      static_cast<T*>(scale.y)[i] =
          static_cast<T>(scale.factor * static_cast<double>(static_cast<const T*>(scale.x)[i]));
    }
  }
}

struct Own {
  std::string_view t0;
  std::string_view entry;
  void (*run)(const void* function, const void* args, Blocks grid);
  size_t args_bytes;
};
constexpr std::string_view kOwnFamily = "sim";
constexpr Own kOwn[] = {
    {"f32", "scale", &Scale<float>, sizeof(ScaleArgs)},
    {"f64", "scale", &Scale<double>, sizeof(ScaleArgs)},
    {"i64", "scale", &Scale<int64_t>, sizeof(ScaleArgs)},
};

void RunOnHost(const void* function, const void* args, Blocks grid) {
  namespace device = tunableop::device;
  device::RunHostKernel(reinterpret_cast<device::HostKernel>(const_cast<void*>(function)), args,
                        {grid.x, grid.y, grid.z});
}

}  // namespace

bool FindKernel(std::string_view family, std::string_view t0, std::string_view t1,
                std::string_view entry, Kernel* kernel) {
  if (family == kOwnFamily) {
    for (const Own& own : kOwn) {
      if (own.t0 != t0 || own.entry != entry) continue;
      *kernel = {own.run, nullptr, own.args_bytes};
      return true;
    }
    return false;
  }
  namespace device = tunableop::device;
  const device::HostKernel found = device::FindHostKernel(family, t0, t1, entry);
  if (found == nullptr) return false;
  *kernel = {&RunOnHost, reinterpret_cast<const void*>(found),
             device::HostKernelArgsBytes(family, t0, t1, entry)};
  return true;
}

bool HasModule(std::string_view family, std::string_view t0, std::string_view t1) {
  if (family == kOwnFamily) {
    for (const Own& own : kOwn) {
      if (own.t0 == t0) return true;
    }
    return false;
  }
  for (const tunableop::device::HostKernelName& name : tunableop::device::HostKernelNames()) {
    if (name.family == family && name.t0 == t0 && name.t1 == t1) return true;
  }
  return false;
}

}  // namespace simgpu
