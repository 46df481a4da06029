// Kernels that write what no input holds, and those that write where indices say.
#include <pybind11/pybind11.h>

#include "device_kernels/run.h"
#include "kernels/fill_launch.h"
#include "kernels/range_launch.h"
#include "kernels/scatter_launch.h"

namespace py = pybind11;

namespace tunableop::device {

void BindMakes(py::module_& module) {
  module.def("fill", [](const std::string& t0, py::array& out, uint64_t bits, uint32_t blocks) {
    RunPrepared<FillArgs>(KernelOf("fill", t0, t0, "fill"),
                          PrepareFill(out.mutable_data(), out.size(), bits), blocks);
  });
  module.def("trilu", [](const std::string& t0, const py::array& x, int64_t diagonal, bool upper,
                         py::array& out, uint32_t blocks) {
    RunPrepared<TriluArgs>(KernelOf("fill", t0, t0, "fill_trilu"),
                           PrepareTrilu(x.data(), DimsOf(x), diagonal, upper, out.mutable_data()),
                           blocks);
  });
  module.def("range", [](const std::string& t0, py::array& out, double start, double delta,
                         uint32_t blocks) {
    const bool whole = t0[0] == 'i';
    RunPrepared<RangeArgs>(
        KernelOf("range", t0, t0, "range"),
        whole ? PrepareWholeRange(out.mutable_data(), out.size(), static_cast<int64_t>(start),
                                  static_cast<int64_t>(delta))
              : PrepareRange(out.mutable_data(), out.size(), start, delta),
        blocks);
  });
  module.def("scatter_elements", [](const std::string& t0, const std::string& t1,
                                    const py::array& indices, size_t axis, const py::array& updates,
                                    py::array& out, uint32_t blocks) {
    return RunPrepared(KernelOf("scatter", t0, t1, "scatter_elements"),
                       PrepareScatterElements(indices.data(), DimsOf(indices), axis, updates.data(),
                                              out.mutable_data(), DimsOf(out)),
                       blocks);
  });
  module.def("scatter_nd",
             [](const std::string& t0, const std::string& t1, const py::array& indices,
                const py::array& updates, py::array& out, uint32_t blocks) {
               return RunPrepared(KernelOf("scatter", t0, t1, "scatter_nd"),
                                  PrepareScatterNd(indices.data(), DimsOf(indices), updates.data(),
                                                   out.mutable_data(), DimsOf(out)),
                                  blocks);
             });
}

}  // namespace tunableop::device
