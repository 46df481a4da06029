// Kernels element by element.
#include "device_kernels/run.h"
#include "kernels/binary_launch.h"
#include "kernels/cast_launch.h"
#include "kernels/unary_launch.h"
#include "kernels/where_launch.h"

namespace py = pybind11;

namespace tunableop::device {
namespace {

void Unary(const std::string& entry, const std::string& t0, const std::string& t1,
           const py::array& x, py::array& out, uint32_t blocks, double alpha, double beta,
           int64_t low, int64_t high) {
  Prepared<UnaryArgs> prepared =
      PrepareUnary(x.data(), out.mutable_data(), x.size(), BytesOf(t0), BytesOf(t1));
  prepared.args.alpha = alpha;
  prepared.args.beta = beta;
  prepared.args.low = low;
  prepared.args.high = high;
  RunPrepared<UnaryArgs>(KernelOf("unary", t0, t1, entry), prepared, blocks);
}

}  // namespace

void BindElements(py::module_& module) {
  module.def("binary", [](const std::string& entry, const std::string& t0, const std::string& t1,
                          const py::array& a, const py::array& b, py::array& out, uint32_t blocks) {
    return RunPrepared(KernelOf("binary", t0, t1, entry),
                       PrepareBinary(a.data(), DimsOf(a), b.data(), DimsOf(b), out.mutable_data(),
                                     BytesOf(t0), BytesOf(t1)),
                       blocks);
  });
  module.def("unary", &Unary, py::arg("entry"), py::arg("t0"), py::arg("t1"), py::arg("x"),
             py::arg("out"), py::arg("blocks"), py::kw_only(), py::arg("alpha") = 0.0,
             py::arg("beta") = 0.0, py::arg("low") = 0, py::arg("high") = 0);
  module.def("cast", [](const std::string& t0, const std::string& t1, const py::array& x,
                        py::array& out, uint32_t blocks) {
    RunPrepared<CastArgs>(
        KernelOf("cast", t0, t1, "cast"),
        PrepareCast(x.data(), out.mutable_data(), x.size(), BytesOf(t0), BytesOf(t1)), blocks);
  });
  module.def("cast_scaled", [](const std::string& t0, const std::string& t1, const py::array& x,
                               py::array& out, uint32_t blocks, double sign, double shift,
                               double scale) {
    RunPrepared<CastScaledArgs>(KernelOf("cast", t0, t1, "cast_scaled"),
                                PrepareCastScaled(x.data(), out.mutable_data(), x.size(),
                                                  BytesOf(t0), BytesOf(t1), {sign, shift, scale}),
                                blocks);
  });
  module.def("where", [](const std::string& t0, const py::array& condition, const py::array& a,
                         const py::array& b, py::array& out, uint32_t blocks) {
    return RunPrepared(KernelOf("where", t0, t0, "where"),
                       PrepareWhere({condition.data(), DimsOf(condition)}, {a.data(), DimsOf(a)},
                                    {b.data(), DimsOf(b)}, out.mutable_data(), BytesOf(t0)),
                       blocks);
  });
}

}  // namespace tunableop::device
