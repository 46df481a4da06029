// Operators that take tensors apart and put them together: Concat, Slice.
#include <algorithm>
#include <string>
#include <vector>

#include "provider/kernels/axes.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/mover.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class Concat final : public Mover {
 public:
  Status Init(const OpInfo& info) override {
    axis_ = info.Int("axis", 0);
    return Mover::Init(info);
  }

  Status Compute(OpContext& context) const override {
    const size_t count = context.inputs();
    Result<DeviceTensor> first = context.Input(0);
    if (!first.ok()) return first.TakeStatus();
    const std::optional<size_t> axis = AxisOf(axis_, first.value().dims.size());
    if (!axis) return context.NoSuchAxis(axis_, first.value().dims);
    device::Dims dims(first.value().dims);
    for (size_t i = 1; i < count; ++i) {
      Result<DeviceTensor> part = context.Input(i);
      if (!part.ok()) return part.TakeStatus();
      if (!Fits(part.value().dims, first.value().dims, *axis)) {
        return context.TooManyDims({first.value().dims, part.value().dims});
      }
      dims[static_cast<int>(*axis)] += part.value().dims[*axis];
    }
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    int64_t offset = 0;
    for (size_t i = 0; i < count; ++i) {
      Result<DeviceTensor> part = context.Input(i);
      if (!part.ok()) return part.TakeStatus();
      const DeviceTensor& from = part.value();
      if (from.elements() > 0) {
        TUNABLEOP_RETURN_IF_ERROR(
            Move(context,
                 device::PrepareConcatPart(from.data, from.dims, output.value().data,
                                           output.value().dims, *axis, offset, bytes()),
                 from, output.value()));
      }
      offset += from.dims[*axis];
    }
    return Status::Ok();
  }

 private:
  static bool Fits(std::span<const int64_t> dims, std::span<const int64_t> first, size_t axis) {
    if (dims.size() != first.size()) return false;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i != axis && dims[i] != first[i]) return false;
    }
    return true;
  }

  int64_t axis_ = 0;
};

class Slice final : public Mover {
 public:
  Status Init(const OpInfo& info) override {
    starts_ = info.Ints("starts");
    ends_ = info.Ints("ends");
    axes_ = info.Ints("axes");
    return Mover::Init(info);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const DeviceTensor& x = input.value();
    Ints starts = starts_;
    Ints ends = ends_;
    Ints axes = axes_;
    Ints steps;
    if (!starts_) {
      size_t index = 1;
      for (Ints* each : {&starts, &ends, &axes, &steps}) {
        Result<Ints> read = context.HostInts(index++);
        if (!read.ok()) return read.TakeStatus();
        *each = std::move(read).value();
      }
    }
    device::Dims begins(x.dims);
    device::Dims strides(x.dims);
    device::Dims dims(x.dims);
    for (int i = 0; i < begins.rank(); ++i) {
      begins[i] = 0;
      strides[i] = 1;
    }
    const size_t count = starts ? starts->size() : 0;
    const bool whole = starts && ends && ends->size() == count && count <= x.dims.size() &&
                       (!axes || axes->size() == count) && (!steps || steps->size() == count);
    if (!whole)
      return context.Error(StatusCode::kInvalidArgument, "its inputs do not fit together");
    for (size_t i = 0; i < count; ++i) {
      const int64_t asked = axes ? (*axes)[i] : static_cast<int64_t>(i);
      const std::optional<size_t> axis = AxisOf(asked, x.dims.size());
      if (!axis) return context.NoSuchAxis(asked, x.dims);
      const int64_t step = steps ? (*steps)[i] : 1;
      if (step == 0) return context.Error(StatusCode::kInvalidArgument, "a step of 0");
      const Range range = Of((*starts)[i], (*ends)[i], step, x.dims[*axis]);
      const auto at = static_cast<int>(*axis);
      begins[at] = range.begin;
      strides[at] = step;
      dims[at] = range.count;
    }
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    return Move(context,
                device::PrepareSlice(x.data, x.dims, begins.view(), strides.view(),
                                     output.value().data, dims.view(), bytes()),
                x, output.value());
  }

 private:
  using Ints = std::optional<std::vector<int64_t>>;
  struct Range {
    int64_t begin;
    int64_t count;
  };

  static Range Of(int64_t start, int64_t end, int64_t step, int64_t dim) noexcept {
    const bool forward = step > 0;
    const int64_t lowest = forward ? 0 : -1;
    const int64_t highest = forward ? dim : dim - 1;
    if (start < 0) start += dim;
    if (end < 0) end = std::max(end, INT64_MIN + dim + 1) + dim;
    start = std::clamp(start, int64_t{0}, std::max<int64_t>(highest, 0));
    end = std::clamp(end, lowest, std::max(highest, lowest));
    const int64_t span = forward ? end - start : start - end;
    if (span <= 0) return {start, 0};
    // Steps as large as int64 are legal: one step is then taken.
    const uint64_t size =
        forward ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
    return {start, static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / size + 1)};
  }

  Ints starts_;
  Ints ends_;
  Ints axes_;
};

}  // namespace

OrtStatus* CreateConcat(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Concat>(state, info, kernel);
}
OrtStatus* CreateSlice(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Slice>(state, info, kernel);
}

}  // namespace tunableop
