// Kernels that write what no input holds, where indices say, or behind what is kept.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <optional>

#include "device_kernels/run.h"
#include "kernels/fill_launch.h"
#include "kernels/im2col_launch.h"
#include "kernels/kv_cache_launch.h"
#include "kernels/range_launch.h"
#include "kernels/scatter_launch.h"

namespace py = pybind11;

namespace tunableop::device {

namespace {

// `past` and `out`: [batch, heads, tokens, size]; `fresh`: [batch, tokens, heads, size].
bool Append(const std::string& t0, const std::optional<py::array>& past, const py::array& fresh,
            const std::optional<py::array>& lengths, int64_t kept, py::array& out,
            uint32_t blocks) {
  KvAppend append;
  append.past = past ? past->data() : nullptr;
  append.fresh = fresh.data();
  append.present = out.mutable_data();
  append.lengths = lengths ? static_cast<const int32_t*>(lengths->data()) : nullptr;
  append.kept = kept;
  append.batches = out.shape(0);
  append.heads = out.shape(1);
  append.past_tokens = past ? past->shape(2) : 0;
  append.fresh_tokens = fresh.shape(1);
  append.tokens = out.shape(2);
  append.size = out.shape(3);
  append.fresh_head = append.size;
  append.fresh_token = append.heads * append.size;
  append.fresh_batch = append.fresh_tokens * append.fresh_token;
  return RunPrepared(KernelOf("kv_cache", t0, t0, "kv_append"),
                     PrepareKvAppend(append, BytesOf(t0)), blocks);
}

}  // namespace

void BindMakes(py::module_& module) {
  module.def("im2col",
             [](const std::string& t0, const py::array& x, const std::array<int64_t, 2>& filter,
                const std::array<int64_t, 2>& stride, const std::array<int64_t, 2>& dilation,
                const std::array<int64_t, 4>& pads, int64_t first, int64_t band, py::array& out,
                uint32_t blocks) {
               ConvShape shape;
               shape.images = x.shape(0);
               shape.channels = x.shape(1);
               shape.size = {x.shape(2), 1, x.shape(3)};
               shape.filter = {filter[0], 1, filter[1]};
               shape.stride = {stride[0], 1, stride[1]};
               shape.dilation = {dilation[0], 1, dilation[1]};
               shape.before = {pads[0], 0, pads[1]};
               shape.after = {pads[2], 0, pads[3]};
               shape.first = first;
               shape.band = band;
               return RunPrepared(KernelOf("im2col", t0, t0, "im2col"),
                                  PrepareIm2Col(x.data(), shape, out.mutable_data()), blocks);
             });
  module.def("kv_append", &Append);
  module.def("kv_positions", [](const py::array& lengths, int64_t more, bool from_start,
                                py::array& out, uint32_t blocks) {
    RunPrepared<KvPositionsArgs>(
        KernelOf("kv_cache", "w4", "w4", "kv_positions"),
        PrepareKvPositions(static_cast<const int32_t*>(lengths.data()), more, out.shape(0),
                           out.shape(1), from_start, static_cast<int64_t*>(out.mutable_data())),
        blocks);
  });
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
  module.def("one_hot", [](const std::string& t0, const std::string& t1, const py::array& indices,
                           const py::array& values, py::array& out, uint32_t blocks) {
    RunPrepared<OneHotArgs>(KernelOf("scatter", t0, t1, "scatter_one_hot"),
                            PrepareOneHot(indices.data(), out.shape(0), out.shape(1), out.shape(2),
                                          values.data(), out.mutable_data()),
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
