// Kernels row by row.
#include <pybind11/stl.h>

#include <limits>
#include <optional>
#include <vector>

#include "device_kernels/run.h"
#include "kernels/embed_norm_launch.h"
#include "kernels/layer_norm_launch.h"
#include "kernels/softmax_launch.h"

namespace py = pybind11;

namespace tunableop::device {
namespace {

using Array = std::optional<py::array>;

const void* DataOf(const Array& array) { return array ? array->data() : nullptr; }
void* MutableOf(Array& array) { return array ? array->mutable_data() : nullptr; }

// The last dimension is the normalised one.
DimsView RowsOf(const Array& array) {
  return array ? DimsOf(*array).first(DimsOf(*array).size() - 1) : DimsView{};
}

bool LayerNorm(const std::string& entry, const std::string& t0, const py::array& x, py::array& out,
               double epsilon, uint32_t blocks, const Array& skip, const Array& bias,
               const Array& gamma, const Array& beta, Array sum, Array mean, Array inverse) {
  LayerNormTensors tensors;
  tensors.x = x.data();
  tensors.x_rows = RowsOf(x);
  tensors.skip = DataOf(skip);
  tensors.skip_rows = RowsOf(skip);
  tensors.bias = DataOf(bias);
  tensors.gamma = DataOf(gamma);
  tensors.beta = DataOf(beta);
  tensors.out = out.mutable_data();
  tensors.sum = MutableOf(sum);
  tensors.mean = static_cast<float*>(MutableOf(mean));
  tensors.inverse = static_cast<float*>(MutableOf(inverse));
  return RunPrepared(KernelOf("layer_norm", t0, t0, entry),
                     PrepareLayerNorm(tensors, x.shape(x.ndim() - 1), epsilon, BytesOf(t0)),
                     blocks);
}

bool Softmax(const std::string& t0, const std::string& t1, const py::array& x, py::array& out,
             uint32_t blocks, const Array& mask, float scale, bool log, bool causal, int64_t past,
             float hidden, bool inverted) {
  SoftmaxTensors tensors;
  tensors.x = x.data();
  tensors.x_dims = DimsOf(x);
  tensors.mask = DataOf(mask);
  if (mask) tensors.mask_dims = DimsOf(*mask);
  tensors.out = out.mutable_data();
  SoftmaxOptions options;
  options.scale = scale;
  options.log = log;
  options.causal = causal;
  options.past = past;
  options.hidden = hidden;
  options.inverted = inverted;
  return RunPrepared(KernelOf("softmax", t0, t1, "softmax"),
                     PrepareSoftmax(tensors, options, BytesOf(t0), BytesOf(t1)), blocks);
}

// Tables have two dimensions; one without places is a tensor of rows.
bool EmbedNorm(const std::string& entry, const std::string& t0,
               const std::vector<py::array>& tables, const std::vector<Array>& places,
               py::array& out, double epsilon, uint32_t blocks, const py::array& gamma,
               const Array& beta, Array sum) {
  EmbedNormTensors tensors;
  for (size_t i = 0; i < tables.size(); ++i) {
    EmbedNormTensors::Part& part = tensors.parts.at(i);
    part.table = tables[i].data();
    part.rows = tables[i].shape(0);
    part.dims = RowsOf(tables[i]);
    if (!places[i]) continue;
    part.places = places[i]->data();
    part.narrow = places[i]->itemsize() == 4;
    part.dims = DimsOf(*places[i]);
  }
  tensors.gamma = gamma.data();
  tensors.beta = DataOf(beta);
  tensors.out = out.mutable_data();
  tensors.sum = MutableOf(sum);
  return RunPrepared(KernelOf("embed_norm", t0, t0, entry),
                     PrepareEmbedNorm(tensors, gamma.shape(0), epsilon, BytesOf(t0)), blocks);
}

// x has three dimensions.
void SoftmaxInner(const std::string& t0, const py::array& x, py::array& out, uint32_t blocks,
                  bool log) {
  const auto prepared =
      PrepareSoftmaxInner(x.data(), out.mutable_data(), x.shape(0), x.shape(1), x.shape(2), log);
  RunPrepared<SoftmaxInnerArgs>(KernelOf("softmax", t0, t0, "softmax_inner"), prepared, blocks);
}

}  // namespace

void BindRows(py::module_& module) {
  const py::kw_only options;
  module.def(
      "layer_norm", &LayerNorm, py::arg("entry"), py::arg("t0"), py::arg("x"), py::arg("out"),
      py::arg("epsilon"), py::arg("blocks"), options, py::arg("skip") = py::none(),
      py::arg("bias") = py::none(), py::arg("gamma") = py::none(), py::arg("beta") = py::none(),
      py::arg("sum") = py::none(), py::arg("mean") = py::none(), py::arg("inverse") = py::none());
  module.def("embed_norm", &EmbedNorm, py::arg("entry"), py::arg("t0"), py::arg("tables"),
             py::arg("places"), py::arg("out"), py::arg("epsilon"), py::arg("blocks"), options,
             py::arg("gamma"), py::arg("beta") = py::none(), py::arg("sum") = py::none());
  module.def("softmax", &Softmax, py::arg("t0"), py::arg("t1"), py::arg("x"), py::arg("out"),
             py::arg("blocks"), options, py::arg("mask") = py::none(), py::arg("scale") = 1.0F,
             py::arg("log") = false, py::arg("causal") = false, py::arg("past") = 0,
             py::arg("hidden") = -std::numeric_limits<float>::infinity(),
             py::arg("inverted") = false);
  module.def("softmax_inner", &SoftmaxInner, py::arg("t0"), py::arg("x"), py::arg("out"),
             py::arg("blocks"), py::arg("log"));
}

}  // namespace tunableop::device
