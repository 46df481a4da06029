#include "lt_probe/probe.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "backends/gpu/devices.h"
#include "backends/gpu/vendor_library.h"
#include "backends/lt/lt_backend.h"

namespace tunableop::probe {

std::vector<Shape> ReadShapes(const char* path) {
  std::vector<Shape> shapes;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.starts_with("name,")) continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    Shape shape;
    std::istringstream(line) >> shape.name >> shape.batch >> shape.m >> shape.n >> shape.k >>
        shape.b_constant;
    shapes.push_back(shape);
  }
  if (shapes.empty()) Must({StatusCode::kNotFound, path}, "shapes");
  return shapes;
}

Problem MakeProblem(const Shape& shape, const Kind& kind) {
  Problem p;
  p.m = shape.m;
  p.n = shape.n;
  p.k = shape.k;
  p.batch = shape.batch;
  p.lda = p.k;
  p.ldb = p.n;
  p.ldc = p.n;
  p.stride_a = p.batch > 1 ? p.m * p.k : 0;
  p.stride_b = p.batch > 1 ? p.k * p.n : 0;
  p.stride_c = p.batch > 1 ? p.m * p.n : 0;
  p.a_type = p.b_type = p.c_type = kind.type;
  p.precision = kind.precision;
  p.b_constant = shape.b_constant ? 1 : 0;
  p.align_a = p.align_b = p.align_c = kMaxAlignmentLog2;
  p.threads = 0;
  return p;
}

Card OpenCard() {
  for (const Gpu& gpu : Gpus()) {
    if (gpu.device->backend() != V::kBackend) continue;
    constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    const VendorLibrary library = Must(VendorLibrary::Load(Vendor::kNvidia, kNames), "cublasLt");
    auto api = Must(lt::Api<V>::Load(library), "cublasLt");
    DeviceStream stream = Must(DeviceStream::Create(gpu.device), "stream");
    auto queue = std::make_unique<DeviceQueue>(
        gpu.device, stream.get(),
        Must(DeviceBuffer::Create(gpu.device, kLtWorkspaceBytes), "workspace"));
    Card card{gpu.device,
              Must(MakeCublasLtBackend(gpu.device, library), "backend"),
              std::make_shared<Core>(gpu.device, api),
              Must(lt::CudaKernels::Load(library), "cublasLt"),
              std::move(stream),
              std::move(queue)};
    std::printf("card %s, cublasLt %s from %s\n", gpu.device->info().name.c_str(),
                card.backend->identity().c_str(), library.path().c_str());
    return card;
  }
  for (const LibraryState& line : GpuLibraries()) {
    std::fprintf(stderr, "%s: %s\n", line.library.c_str(), line.reason.c_str());
  }
  Must({StatusCode::kNotFound, "no NVIDIA card"}, "card");
  std::abort();
}

}  // namespace tunableop::probe
