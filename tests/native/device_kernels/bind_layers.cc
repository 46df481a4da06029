// Kernels of what lies between the layers of a network.
#include <pybind11/stl.h>

#include <optional>

#include "device_kernels/run.h"
#include "kernels/bias_act_launch.h"
#include "kernels/rotary_launch.h"

namespace py = pybind11;

namespace tunableop::device {
namespace {

using Array = std::optional<py::array>;

const void* DataOf(const Array& array) { return array ? array->data() : nullptr; }

// x and gate have two dimensions, and may be wider than the output: its columns are their first.
void BiasAct(const std::string& entry, const std::string& t0, const py::array& x, py::array& out,
             uint32_t blocks, const Array& bias, const Array& gate, double alpha) {
  BiasActTensors tensors;
  tensors.x = x.data();
  tensors.x_stride = x.shape(1);
  tensors.bias = DataOf(bias);
  tensors.gate = DataOf(gate);
  tensors.gate_stride = gate ? gate->shape(1) : 0;
  tensors.out = out.mutable_data();
  RunPrepared<BiasActArgs>(KernelOf("bias_act", t0, t0, entry),
                           PrepareBiasAct(tensors, out.shape(0), out.shape(1), alpha, BytesOf(t0)),
                           blocks);
}

// The output has four dimensions; x is that, or [batch, sequence, anything] of which it is the
// front.
bool Rotary(const std::string& t0, const py::array& x, py::array& out, const py::array& cosines,
            const py::array& sines, uint32_t blocks, const Array& positions, bool interleaved,
            bool heads_outside, int64_t rotated) {
  RotaryTensors tensors;
  tensors.x = x.data();
  tensors.out = out.mutable_data();
  tensors.cosines = cosines.data();
  tensors.sines = sines.data();
  tensors.positions = static_cast<const int64_t*>(DataOf(positions));
  tensors.cache_rows = cosines.shape(0);
  tensors.first = positions && positions->size() == 1;
  tensors.each = cosines.ndim() == 3;
  RotaryShape shape;
  shape.batch = out.shape(0);
  shape.sequence = out.shape(heads_outside ? 2 : 1);
  shape.heads = out.shape(heads_outside ? 1 : 2);
  shape.head = out.shape(3);
  shape.rotated = rotated;
  shape.interleaved = interleaved;
  shape.heads_outside = heads_outside;
  shape.x_token = x.ndim() == 3 ? x.shape(2) : 0;
  return RunPrepared(KernelOf("rotary", t0, t0, "rotary"), PrepareRotary(tensors, shape), blocks);
}

}  // namespace

void BindLayers(py::module_& module) {
  const py::kw_only options;
  module.def("bias_act", &BiasAct, py::arg("entry"), py::arg("t0"), py::arg("x"), py::arg("out"),
             py::arg("blocks"), options, py::arg("bias") = py::none(), py::arg("gate") = py::none(),
             py::arg("alpha") = 1.0);
  module.def("rotary", &Rotary, py::arg("t0"), py::arg("x"), py::arg("out"), py::arg("cosines"),
             py::arg("sines"), py::arg("blocks"), options, py::arg("positions") = py::none(),
             py::arg("interleaved") = false, py::arg("heads_outside") = false,
             py::arg("rotated") = 0);
}

}  // namespace tunableop::device
