// Kernels of images, and of what attention adds to its scores.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <vector>

#include "device_kernels/run.h"
#include "kernels/attention_bias_launch.h"
#include "kernels/channel_launch.h"
#include "kernels/pool_launch.h"
#include "kernels/resize_launch.h"
#include "kernels/topk_launch.h"

namespace py = pybind11;

namespace tunableop::device {
namespace {

using Three = std::array<int64_t, 3>;
using Array = std::optional<py::array>;

// x and out: [planes, deep, down, along].
bool Pool(const std::string& t0, bool most, const py::array& x, const std::array<Three, 5>& window,
          bool counts_padding, py::array& out, std::optional<py::array> places, uint32_t blocks) {
  PoolShape shape;
  shape.planes = x.shape(0);
  for (size_t d = 0; d < 3; ++d) {
    shape.size[d] = x.shape(static_cast<py::ssize_t>(d) + 1);
    shape.out[d] = out.shape(static_cast<py::ssize_t>(d) + 1);
  }
  shape.window = window[0];
  shape.stride = window[1];
  shape.dilation = window[2];
  shape.before = window[3];
  shape.after = window[4];
  shape.counts_padding = counts_padding;
  return RunPrepared(KernelOf("pool", t0, t0, most ? "pool_max" : "pool_average"),
                     PreparePool(x.data(), shape, out.mutable_data(),
                                 places ? static_cast<int64_t*>(places->mutable_data()) : nullptr),
                     blocks);
}

// x and out: [images, channels, inner].
bool Channels(const std::string& t0, const std::string& t1, const py::array& x,
              const py::array& scale, const py::array& shift, const Array& mean,
              const Array& variance, double epsilon, py::array& out, uint32_t blocks) {
  const ChannelNumbers numbers{scale.data(), shift.data(), mean ? mean->data() : nullptr,
                               variance ? variance->data() : nullptr, epsilon};
  return RunPrepared(
      KernelOf("channel", t0, t1, "channel_apply"),
      PrepareChannels(x.data(), numbers, x.shape(0), x.shape(1), x.shape(2), out.mutable_data()),
      blocks);
}

bool Resize(const std::string& t0, bool linear, const py::array& x,
            const std::vector<float>& scales, uint32_t place, uint32_t round, py::array& out,
            uint32_t blocks) {
  ResizeShape shape;
  shape.sizes = DimsOf(x);
  shape.outs = DimsOf(out);
  shape.scales = scales;
  shape.place = static_cast<ResizePlace>(place);
  shape.round = static_cast<ResizeRound>(round);
  return RunPrepared(KernelOf("resize", t0, t0, linear ? "resize_linear" : "resize_nearest"),
                     PrepareResize(x.data(), shape, out.mutable_data()), blocks);
}

void TopK(const std::string& t0, const py::array& x, size_t axis, bool smallest, py::array& values,
          py::array& places, uint32_t blocks) {
  RunPrepared<TopKArgs>(
      KernelOf("topk", t0, t0, "topk"),
      PrepareTopK(x.data(), DimsOf(x), axis, values.shape(static_cast<py::ssize_t>(axis)), smallest,
                  values.mutable_data(), static_cast<int64_t*>(places.mutable_data())),
      blocks);
}

// `mask`: one of the forms of KeyMask; `added`: [batch, head, query, key], with strides of 0 where
// it is broadcast. Gives [batch, heads, queries, key], of as many as it takes; "out" is long enough
// for all.
std::array<int64_t, 2> Bias(const std::string& t0, const py::array& mask, const Array& added,
                            const std::array<int64_t, 4>& scores, float fill, py::array& out,
                            uint32_t blocks) {
  AttentionShape shape;
  shape.batches = scores[0];
  shape.heads = scores[1];
  shape.queries = scores[2];
  shape.keys = scores[3];
  AttentionBias bias;
  bias.mask = static_cast<const int32_t*>(mask.data());
  bias.mask_is = mask.ndim() == 1   ? KeyMask::kBounds
                 : mask.ndim() == 2 ? KeyMask::kKeys
                                    : KeyMask::kQueries;
  if (added) {
    const auto step = [&](int d) {
      return static_cast<Int64>(added->strides(d) / added->itemsize());
    };
    bias.added = added->data();
    bias.added_at = {step(0), step(2), step(1)};
    bias.added_step = step(3);
  }
  bias.fill = fill;
  RunPrepared(KernelOf("attention_bias", t0, t0, "attention_bias"),
              PrepareAttentionBias(bias, shape, t0, out.mutable_data()), blocks);
  return {bias.Heads(shape), bias.Queries(shape)};
}

}  // namespace

void BindImages(py::module_& module) {
  module.def("pool", &Pool);
  module.def("channels", &Channels);
  module.def("attention_bias", &Bias);
  module.def("resize", &Resize);
  module.def("topk", &TopK);
}

}  // namespace tunableop::device
