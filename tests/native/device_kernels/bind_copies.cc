// Kernels that move elements.
#include <pybind11/stl.h>

#include <vector>

#include "device_kernels/run.h"
#include "kernels/copy_launch.h"

namespace py = pybind11;

namespace tunableop::device {
namespace {

using Numbers = std::vector<int64_t>;

bool RunCopy(const std::string& t0, const std::optional<Prepared<CopyArgs>>& prepared,
             uint32_t blocks) {
  return RunPrepared(KernelOf("copy", t0, t0, "copy"), prepared, blocks);
}

// Which kernel ran: "copy", "copy_tiled"; "": the provider would not take it.
std::string Transpose(const std::string& t0, const py::array& x, const Numbers& permutation,
                      py::array& out, uint32_t blocks) {
  const auto launch =
      PrepareTranspose(x.data(), DimsOf(x), permutation, out.mutable_data(), BytesOf(t0));
  if (!launch) return "";
  const char* const entry = launch->tiled ? "copy_tiled" : "copy";
  RunHostKernel(KernelOf("copy", t0, t0, entry), launch->args(),
                {blocks != 0 ? blocks : launch->grid.x, launch->grid.y, launch->grid.z},
                ThreadsOfBlocks());
  return entry;
}

}  // namespace

void BindCopies(py::module_& module) {
  module.def("concat", [](const std::string& t0, const py::array& x, py::array& out, size_t axis,
                          int64_t offset, uint32_t blocks) {
    return RunCopy(t0,
                   PrepareConcatPart(x.data(), DimsOf(x), out.mutable_data(), DimsOf(out), axis,
                                     offset, BytesOf(t0)),
                   blocks);
  });
  module.def("slice", [](const std::string& t0, const py::array& x, const Numbers& starts,
                         const Numbers& steps, py::array& out, uint32_t blocks) {
    return RunCopy(t0,
                   PrepareSlice(x.data(), DimsOf(x), starts, steps, out.mutable_data(), DimsOf(out),
                                BytesOf(t0)),
                   blocks);
  });
  module.def(
      "expand", [](const std::string& t0, const py::array& x, py::array& out, uint32_t blocks) {
        return RunCopy(
            t0, PrepareExpand(x.data(), DimsOf(x), out.mutable_data(), DimsOf(out), BytesOf(t0)),
            blocks);
      });
  module.def("tile", [](const std::string& t0, const py::array& x, const Numbers& repeats,
                        py::array& out, uint32_t blocks) {
    return RunCopy(t0, PrepareTile(x.data(), DimsOf(x), repeats, out.mutable_data(), BytesOf(t0)),
                   blocks);
  });
  module.def("pad", [](const std::string& t0, const py::array& x, const Numbers& before,
                       uint32_t mode, uint64_t value, py::array& out, uint32_t blocks) {
    return RunPrepared(KernelOf("copy", t0, t0, "copy_pad"),
                       PreparePad(x.data(), DimsOf(x), before, static_cast<PadMode>(mode), value,
                                  out.mutable_data(), DimsOf(out), x.itemsize()),
                       blocks);
  });
  module.def("transpose", &Transpose);
}

}  // namespace tunableop::device
