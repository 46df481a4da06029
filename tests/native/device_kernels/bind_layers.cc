// Kernels of what lies between the layers of a network.
#include <pybind11/stl.h>

#include <optional>

#include "device_kernels/run.h"
#include "kernels/attention_launch.h"
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

// Everything is [batch, head, token, size], or, with heads inside, [batch, token, head, size]; the
// mask has four dimensions: batch, head, query, key.
bool Attention(const std::string& t0, const std::string& t1, const py::array& q, const py::array& k,
               const py::array& v, py::array& out, uint32_t blocks, const Array& mask,
               const Array& lengths, bool heads_outside, float scale, bool causal, bool past_by_end,
               int64_t past) {
  const int head = heads_outside ? 1 : 2;
  const int token = heads_outside ? 2 : 1;
  AttentionShape shape;
  shape.batches = q.shape(0);
  shape.heads = q.shape(head);
  shape.kv_heads = k.shape(head);
  shape.queries = q.shape(token);
  shape.keys = k.shape(token);
  shape.size = q.shape(3);
  shape.scale = scale;
  shape.causal = causal;
  shape.past_by_end = past_by_end;
  shape.past = past;
  const auto strides = [&](const py::array& of) {
    return StridesOf(of.shape(token), of.shape(head), of.shape(3), heads_outside);
  };
  AttentionTensors tensors;
  tensors.q = {q.data(), strides(q)};
  tensors.k = {k.data(), strides(k)};
  tensors.v = {v.data(), strides(v)};
  if (mask) {
    const auto step = [&](int d, int64_t stride) { return mask->shape(d) == 1 ? 0 : stride; };
    const int64_t row = mask->shape(3);
    const int64_t matrix = row * mask->shape(2);
    tensors.mask = {mask->data(),
                    {step(0, matrix * mask->shape(1)), step(2, row), step(1, matrix)}};
  }
  tensors.lengths = static_cast<const int32_t*>(DataOf(lengths));
  tensors.length_more = 1;
  tensors.out = out.mutable_data();
  tensors.out_at = strides(out);
  return RunPrepared(KernelOf("attention", t0, t1, "attention"),
                     PrepareAttention(tensors, shape, BytesOf(t0)), blocks);
}

}  // namespace

void BindLayers(py::module_& module) {
  const py::kw_only options;
  module.def("bias_act", &BiasAct, py::arg("entry"), py::arg("t0"), py::arg("x"), py::arg("out"),
             py::arg("blocks"), options, py::arg("bias") = py::none(), py::arg("gate") = py::none(),
             py::arg("alpha") = 1.0);
  module.def("attention", &Attention, py::arg("t0"), py::arg("t1"), py::arg("q"), py::arg("k"),
             py::arg("v"), py::arg("out"), py::arg("blocks"), options, py::arg("mask") = py::none(),
             py::arg("lengths") = py::none(), py::arg("heads_outside") = true,
             py::arg("scale") = 1.0F, py::arg("causal") = false, py::arg("past_by_end") = false,
             py::arg("past") = 0);
  module.def("rotary", &Rotary, py::arg("t0"), py::arg("x"), py::arg("out"), py::arg("cosines"),
             py::arg("sines"), py::arg("blocks"), options, py::arg("positions") = py::none(),
             py::arg("interleaved") = false, py::arg("heads_outside") = false,
             py::arg("rotated") = 0);
}

}  // namespace tunableop::device
