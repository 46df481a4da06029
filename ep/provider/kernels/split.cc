// Split: the parts of a tensor along one of its dimensions.
#include "provider/kernels/split.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/split_columns_launch.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/mover.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class Split final : public Mover {
 public:
  Status Init(const OpInfo& info) override {
    axis_ = info.Int("axis", 0);
    sizes_ = info.Ints("split");
    outputs_ = info.outputs();
    at_once_ = SplitsAtOnce(outputs_, info.InputType(0));
    if (!at_once_) return Mover::Init(info);
    InitType(info);
    const char* width = WidthType(type());
    return Find("split_columns", width, width, "split_columns", &all_);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const DeviceTensor& x = input.value();
    const std::optional<size_t> axis = AxisOf(axis_, x.dims.size());
    if (!axis) return context.NoSuchAxis(axis_, x.dims);
    Result<std::vector<int64_t>> sizes = Sizes(context, x.dims[*axis]);
    if (!sizes.ok()) return sizes.TakeStatus();
    return at_once_ ? AtOnce(context, x, *axis, sizes.value())
                    : EachAlone(context, x, *axis, sizes.value());
  }

 private:
  Status EachAlone(OpContext& context, const DeviceTensor& x, size_t axis,
                   const std::vector<int64_t>& sizes) const {
    device::Dims starts(x.dims);
    device::Dims steps(x.dims);
    device::Dims dims(x.dims);
    for (int i = 0; i < starts.rank(); ++i) {
      starts[i] = 0;
      steps[i] = 1;
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto at = static_cast<int>(axis);
      dims[at] = sizes[i];
      Result<DeviceTensor> output = context.Output(i, dims.view());
      if (!output.ok()) return output.TakeStatus();
      if (output.value().present() && output.value().elements() > 0) {
        TUNABLEOP_RETURN_IF_ERROR(
            Move(context,
                 device::PrepareSlice(x.data, x.dims, starts.view(), steps.view(),
                                      output.value().data, dims.view(), bytes()),
                 x, output.value()));
      }
      starts[at] += sizes[i];
    }
    return Status::Ok();
  }

  // All dimensions before the axis are rows of a matrix, the others its columns.
  Status AtOnce(OpContext& context, const DeviceTensor& x, size_t axis,
                const std::vector<int64_t>& sizes) const {
    int64_t rows = 1;
    int64_t inner = 1;
    for (size_t i = 0; i < axis; ++i) rows *= x.dims[i];
    for (size_t i = axis + 1; i < x.dims.size(); ++i) inner *= x.dims[i];
    std::array<void*, kMostSplitAtOnce> outs{};
    std::array<int64_t, kMostSplitAtOnce> columns{};
    device::Dims dims(x.dims);
    for (size_t i = 0; i < sizes.size(); ++i) {
      dims[static_cast<int>(axis)] = sizes[i];
      Result<DeviceTensor> output = context.Output(i, dims.view());
      if (!output.ok()) return output.TakeStatus();
      outs[i] = output.value().data;
      columns[i] = sizes[i] * inner;
    }
    if (x.elements() == 0) return Status::Ok();
    if (const auto call = device::PrepareSplitColumns(x.data, outs, rows, columns, bytes())) {
      return context.Launch(all_, *call);
    }
    return Rows(context, x, rows, outs, columns);  // of 2^30 columns and more
  }

  Status Rows(const OpContext& context, const DeviceTensor& x, int64_t rows,
              const std::array<void*, kMostSplitAtOnce>& outs,
              const std::array<int64_t, kMostSplitAtOnce>& columns) const {
    size_t step = 0;
    for (const int64_t width : columns) step += static_cast<size_t>(width) * bytes();
    const auto* from = static_cast<const std::byte*>(x.data);
    for (size_t i = 0; i < outs.size(); ++i) {
      const size_t width = static_cast<size_t>(columns[i]) * bytes();
      if (outs[i] != nullptr) {
        TUNABLEOP_RETURN_IF_ERROR(context.device().CopyRows(
            outs[i], width, from, step, width, static_cast<size_t>(rows), context.stream()));
      }
      from += width;
    }
    return Status::Ok();
  }

  Result<std::vector<int64_t>> Sizes(const OpContext& context, int64_t whole) const {
    std::optional<std::vector<int64_t>> sizes = sizes_;
    if (!sizes) {
      Result<std::optional<std::vector<int64_t>>> given = context.HostInts(1);
      if (!given.ok()) return given.TakeStatus();
      sizes = std::move(given).value();
    }
    if (!sizes) {  // equal parts, of which the last may be smaller
      const auto count = static_cast<int64_t>(outputs_);
      const int64_t part = (whole + count - 1) / count;
      sizes.emplace();
      for (int64_t begin = 0, i = 0; i < count; ++i, begin += part) {
        sizes->push_back(std::clamp<int64_t>(whole - begin, 0, part));
      }
    }
    int64_t sum = 0;
    for (const int64_t size : *sizes) sum += size;
    const bool negative =
        std::any_of(sizes->begin(), sizes->end(), [](int64_t s) { return s < 0; });
    if (sum != whole || negative || sizes->size() != outputs_) {
      return context.Error(StatusCode::kInvalidArgument,
                           std::to_string(whole) + " cannot be split into " + DimsText(*sizes));
    }
    return *std::move(sizes);
  }

  int64_t axis_ = 0;
  std::optional<std::vector<int64_t>> sizes_;
  size_t outputs_ = 1;
  bool at_once_ = false;
  DeviceFunction all_;
};

}  // namespace

bool SplitsAtOnce(size_t outputs, ONNXTensorElementDataType type) noexcept {
  return outputs > 1 && outputs <= kMostSplitAtOnce && ElementBytes(type) > 1;
}

OrtStatus* CreateSplit(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Split>(state, info, kernel);
}

}  // namespace tunableop
