// Kernels of what lies between the layers of a network.
#include <pybind11/stl.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "device_kernels/run.h"
#include "kernels/attention_launch.h"
#include "kernels/bias_act_launch.h"
#include "kernels/rotary_launch.h"
#include "kernels/split_columns_launch.h"

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

AttentionStrides StridesIn(const py::array& of) {
  const auto step = [&](int d) { return static_cast<Int64>(of.strides(d) / of.itemsize()); };
  return {step(0), step(2), step(1)};
}

// Everything is [batch, head, token, size], the mask [batch, head, query, key]; where that is in
// memory is up to the arrays. Returns how it was calculated: the kernel's name, and how many parts
// the keys had; "": not at all.
std::string Attention(const std::string& t0, const py::array& q, const py::array& k,
                      const py::array& v, py::array& out, uint32_t blocks, const Array& mask,
                      const Array& lengths, float scale, bool causal, bool past_by_end,
                      int64_t past, bool tiles, bool divided, bool keeps_false, float fill,
                      bool zeros, bool none_is_all, const Array& sinks) {
  AttentionShape shape;
  shape.batches = q.shape(0);
  shape.heads = q.shape(1);
  shape.kv_heads = k.shape(1);
  shape.queries = q.shape(2);
  shape.keys = k.shape(2);
  shape.size = q.shape(3);
  shape.value_size = v.shape(3);
  shape.scale = scale;
  shape.causal = causal;
  shape.past_by_end = past_by_end;
  shape.past = past;
  shape.zeros_for_nothing = zeros;
  AttentionTensors tensors;
  tensors.q = {q.data(), StridesIn(q)};
  tensors.k = {k.data(), StridesIn(k)};
  tensors.k_step = k.strides(3) / k.itemsize();
  tensors.v = {v.data(), StridesIn(v)};
  if (mask) {
    tensors.mask = {mask->data(), StridesIn(*mask)};
    tensors.mask_step = mask->strides(3) / mask->itemsize();
    if (mask->dtype().kind() == 'b') {
      tensors.mask_is = keeps_false ? AttentionMask::kKeepsFalse : AttentionMask::kKeepsTrue;
    }
    tensors.fill = fill;
  }
  tensors.lengths = static_cast<const int32_t*>(DataOf(lengths));
  tensors.length_more = 1;
  tensors.none_is_all = none_is_all;
  tensors.has_sinks = sinks.has_value();
  tensors.sinks = DataOf(sinks);
  tensors.out = out.mutable_data();
  tensors.out_at = StridesIn(out);
  std::optional<AttentionCall> made =
      PrepareAttention(tensors, shape, t0, {.tiles = tiles, .scratch = divided});
  if (!made) return "";
  std::vector<float> scratch(made->scratch_bytes / sizeof(float));
  if (!scratch.empty()) made->SetScratch(scratch.data());
  const char* const family = made->entry == AttentionEntry::kAny
                                 ? "attention"
                                 : AttentionTilesFamily(t0, shape.size, /*tf32=*/true);
  const HostKernel kernel = KernelOf(family, t0, t0, NameOf(made->entry));
  RunPrepared(kernel, std::optional(made->call), blocks);
  if (!scratch.empty()) {
    RunPrepared(KernelOf("attention", t0, t0, "attention_merge"), std::optional(made->merge),
                blocks);
  }
  return NameOf(made->entry) + std::string(" ") + std::to_string(made->call.args.splits);
}

// x [rows, all columns] to three arrays [rows, some].
bool SplitColumns(const std::string& t0, const py::array& x, py::array& first, py::array& second,
                  py::array& third, uint32_t blocks) {
  return RunPrepared(
      KernelOf("split_columns", t0, t0, "split_columns"),
      PrepareSplitColumns(
          x.data(), {first.mutable_data(), second.mutable_data(), third.mutable_data()}, x.shape(0),
          {first.shape(1), second.shape(1), third.shape(1)}, BytesOf(t0)),
      blocks);
}

bool RotaryHalves(const std::string& t0, const py::array& x, py::array& out,
                  const py::array& cosines, const py::array& sines, uint32_t blocks) {
  RotaryHalvesTensors tensors;
  tensors.x = x.data();
  tensors.x_dims = DimsOf(x);
  tensors.cosines = cosines.data();
  tensors.cosines_dims = DimsOf(cosines);
  tensors.sines = sines.data();
  tensors.sines_dims = DimsOf(sines);
  tensors.out = out.mutable_data();
  tensors.out_dims = DimsOf(out);
  return RunPrepared(KernelOf("rotary", t0, t0, "rotary_halves"),
                     PrepareRotaryHalves(tensors, BytesOf(t0)), blocks);
}

}  // namespace

void BindLayers(py::module_& module) {
  const py::kw_only options;
  module.def("bias_act", &BiasAct, py::arg("entry"), py::arg("t0"), py::arg("x"), py::arg("out"),
             py::arg("blocks"), options, py::arg("bias") = py::none(), py::arg("gate") = py::none(),
             py::arg("alpha") = 1.0);
  module.def("attention", &Attention, py::arg("t0"), py::arg("q"), py::arg("k"), py::arg("v"),
             py::arg("out"), py::arg("blocks"), options, py::arg("mask") = py::none(),
             py::arg("lengths") = py::none(), py::arg("scale") = 1.0F, py::arg("causal") = false,
             py::arg("past_by_end") = false, py::arg("past") = 0, py::arg("tiles") = false,
             py::arg("divided") = false, py::arg("keeps_false") = false,
             py::arg("fill") = -std::numeric_limits<float>::infinity(), py::arg("zeros") = false,
             py::arg("none_is_all") = false, py::arg("sinks") = py::none());
  module.def("split_columns", &SplitColumns, py::arg("t0"), py::arg("x"), py::arg("first"),
             py::arg("second"), py::arg("third"), py::arg("blocks"));
  module.def("rotary", &Rotary, py::arg("t0"), py::arg("x"), py::arg("out"), py::arg("cosines"),
             py::arg("sines"), py::arg("blocks"), options, py::arg("positions") = py::none(),
             py::arg("interleaved") = false, py::arg("heads_outside") = false,
             py::arg("rotated") = 0);
  module.def("rotary_halves", &RotaryHalves, py::arg("t0"), py::arg("x"), py::arg("out"),
             py::arg("cosines"), py::arg("sines"), py::arg("blocks"));
}

}  // namespace tunableop::device
