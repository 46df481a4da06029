// Kernels that pick by indices, reduce and scan.
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "device_kernels/run.h"
#include "kernels/gather_launch.h"
#include "kernels/reduce_launch.h"

namespace py = pybind11;

namespace tunableop::device {
namespace {

bool Reduce(const std::string& entry, const std::string& t0, const py::array& x,
            const std::vector<size_t>& axes, py::array& out, uint32_t blocks) {
  const auto rank = static_cast<size_t>(x.ndim());
  const auto reduced = std::make_unique<bool[]>(rank + 1);
  for (const size_t axis : axes) reduced[axis] = true;
  return RunPrepared(
      KernelOf("reduce", t0, t0, entry),
      PrepareReduce(x.data(), DimsOf(x), {reduced.get(), rank}, out.mutable_data(), BytesOf(t0)),
      blocks);
}

}  // namespace

void BindPicks(py::module_& module) {
  module.def("gather", [](const std::string& t0, const std::string& t1, const py::array& x,
                          size_t axis, const py::array& indices, py::array& out, uint32_t blocks) {
    RunPrepared<GatherArgs>(KernelOf("gather", t0, t1, "gather"),
                            PrepareGather(x.data(), DimsOf(x), axis, indices.data(), indices.size(),
                                          out.mutable_data(), BytesOf(t0)),
                            blocks);
  });
  module.def("gather_elements",
             [](const std::string& t0, const std::string& t1, const py::array& x, size_t axis,
                const py::array& indices, py::array& out, uint32_t blocks) {
               return RunPrepared(KernelOf("gather", t0, t1, "gather_elements"),
                                  PrepareGatherElements(x.data(), DimsOf(x), axis, indices.data(),
                                                        DimsOf(indices), out.mutable_data()),
                                  blocks);
             });
  module.def("gather_nd",
             [](const std::string& t0, const std::string& t1, const py::array& x, size_t batch_dims,
                const py::array& indices, py::array& out, uint32_t blocks) {
               return RunPrepared(KernelOf("gather", t0, t1, "gather_nd"),
                                  PrepareGatherNd(x.data(), DimsOf(x), batch_dims, indices.data(),
                                                  DimsOf(indices), out.mutable_data()),
                                  blocks);
             });
  module.def("reduce", &Reduce);
  module.def("cumsum", [](const std::string& t0, const py::array& x, size_t axis, bool exclusive,
                          bool reverse, py::array& out, uint32_t blocks) {
    RunPrepared<CumSumArgs>(
        KernelOf("reduce", t0, t0, "reduce_cumsum"),
        PrepareCumSum(x.data(), DimsOf(x), axis, exclusive, reverse, out.mutable_data()), blocks);
  });
  module.def("arg", [](const std::string& entry, const std::string& t0, const py::array& x,
                       size_t axis, bool last, py::array& out, uint32_t blocks) {
    auto* const places = static_cast<int64_t*>(out.mutable_data());
    RunPrepared<ArgArgs>(KernelOf("reduce", t0, t0, entry),
                         PrepareArg(x.data(), DimsOf(x), axis, last, places), blocks);
  });
}

}  // namespace tunableop::device
