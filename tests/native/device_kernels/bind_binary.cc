#include "device_kernels/run.h"
#include "kernels/binary_launch.h"

namespace py = pybind11;

namespace tunableop::device {

void BindBinary(py::module_& module) {
  module.def("binary", [](const std::string& entry, const std::string& t0, const std::string& t1,
                          const py::array& a, const py::array& b, py::array& out, uint32_t blocks) {
    return RunPrepared(KernelOf("binary", t0, t1, entry),
                       PrepareBinary(a.data(), DimsOf(a), b.data(), DimsOf(b), out.mutable_data(),
                                     BytesOf(t0), BytesOf(t1)),
                       blocks);
  });
}

}  // namespace tunableop::device
