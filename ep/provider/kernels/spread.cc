// Operators that write elements in another order, or more than once: Expand, Tile, Transpose, Pad,
// DepthToSpace, SpaceToDepth.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "provider/kernels/axes.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/mover.h"
#include "provider/kernels/op_kernels.h"
#include "provider/kernels/scratch.h"

namespace tunableop {
namespace {

class Expand final : public Mover {
 public:
  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    Result<std::optional<std::vector<int64_t>>> shape = context.HostInts(1);
    if (!shape.ok()) return shape.TakeStatus();
    const std::vector<int64_t> asked = std::move(shape).value().value_or(std::vector<int64_t>());
    const std::array<device::DimsView, 2> both{input.value().dims, asked};
    const std::optional<device::Dims> dims = device::BroadcastDims(both);
    if (!dims) return context.TooManyDims({input.value().dims, asked});
    Result<DeviceTensor> output = context.Output(0, dims->view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    return Move(context,
                device::PrepareExpand(input.value().data, input.value().dims, output.value().data,
                                      output.value().dims, bytes()),
                input.value(), output.value());
  }
};

class Tile final : public Mover {
 public:
  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    Result<std::optional<std::vector<int64_t>>> given = context.HostInts(1);
    if (!given.ok()) return given.TakeStatus();
    const std::vector<int64_t> repeats = std::move(given).value().value_or(std::vector<int64_t>());
    const std::span<const int64_t> from = input.value().dims;
    if (repeats.size() != from.size()) {
      return context.Error(StatusCode::kInvalidArgument,
                           DimsText(from) + " cannot be repeated " + DimsText(repeats) + " times");
    }
    device::Dims dims(from);
    for (size_t i = 0; i < repeats.size(); ++i) dims[static_cast<int>(i)] *= repeats[i];
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    const auto call =
        device::PrepareTile(input.value().data, from, repeats, output.value().data, bytes());
    if (call) return Move(context, call, input.value(), output.value());
    return InPasses(context, input.value(), repeats, output.value());
  }

 private:
  // A few dimensions at a time, from the last ones on: each that is repeated counts twice, and one
  // copy goes over kMaxRank of them.
  Status InPasses(const OpContext& context, DeviceTensor from, std::span<const int64_t> repeats,
                  const DeviceTensor& to) const {
    constexpr size_t kAtOnce = 3;
    Scratch kept;
    device::Dims dims(from.dims);
    for (size_t end = repeats.size(); end > 0;) {
      const size_t begin = end - std::min(end, kAtOnce);
      device::Dims some;  // repeats of this pass
      device::Dims next(dims);
      for (size_t d = 0; d < repeats.size(); ++d) {
        some.Append(d >= begin && d < end ? repeats[d] : 1);
        next[static_cast<int>(d)] *= some[static_cast<int>(d)];
      }
      DeviceTensor out = to;
      out.dims = next.view();
      Scratch memory;
      if (begin > 0) {
        memory = Scratch(*gpu().memory(), static_cast<size_t>(out.elements()) * bytes(),
                         context.stream());
        if (memory.data() == nullptr) return NoMemory(gpu());
        out.data = memory.data();
      }
      TUNABLEOP_RETURN_IF_ERROR(
          Move(context, device::PrepareTile(from.data, dims.view(), some.view(), out.data, bytes()),
               from, out));
      kept = std::move(memory);
      from.data = out.data;
      dims = next;
      from.dims = dims.view();
      end = begin;
    }
    return Status::Ok();
  }
};

class Turner : public Mover {
 public:
  Status Init(const OpInfo& info) override {
    TUNABLEOP_RETURN_IF_ERROR(Mover::Init(info));
    return Find("copy", WidthType(type()), WidthType(type()), "copy_tiled", &tiled_);
  }

 protected:
  // `dims`: those of x as they are to be seen, of which `order` makes those of `out`.
  Status Turn(const OpContext& context, DeviceTensor x, std::span<const int64_t> dims,
              std::span<const int64_t> order, const DeviceTensor& out) const {
    x.dims = dims;
    if (x.elements() == 0) return Status::Ok();
    const auto call = device::PrepareTranspose(x.data, dims, order, out.data, bytes());
    if (!call) return context.TooManyDims({dims});
    if (call->tiled) return context.Launch(tiled_, call->grid, call->args());
    return Move(context, device::Prepared<device::CopyArgs>{call->copy_args, call->grid}, x, out);
  }

 private:
  DeviceFunction tiled_;
};

class Transpose final : public Turner {
 public:
  Status Init(const OpInfo& info) override {
    order_ = info.Ints("perm");
    return Turner::Init(info);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const DeviceTensor& x = input.value();
    device::Dims order;
    const auto rank = static_cast<int64_t>(x.dims.size());
    if (order_ && static_cast<int64_t>(order_->size()) != rank) {
      return context.Error(StatusCode::kInvalidArgument,
                           "perm " + DimsText(*order_) + " does not fit " + DimsText(x.dims));
    }
    device::Dims dims;
    for (int64_t i = 0; i < rank; ++i) {
      order.Append(order_ ? (*order_)[static_cast<size_t>(i)] : rank - 1 - i);
      dims.Append(x.dims[static_cast<size_t>(order[static_cast<int>(i)])]);
    }
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    return Turn(context, x, x.dims, order.view(), output.value());
  }

 private:
  std::optional<std::vector<int64_t>> order_;
};

// DepthToSpace and SpaceToDepth: squares of an image become channels, and the other way.
class Squares final : public Turner {
 public:
  Status Init(const OpInfo& info) override {
    size_ = info.Int("blocksize", 0);
    to_space_ = info.op().op == std::string_view("DepthToSpace");
    columns_first_ = info.String("mode", "DCR") == "CRD";
    return Turner::Init(info);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const std::span<const int64_t> x = input.value().dims;
    const bool fits =
        x.size() == 4 && size_ > 0 &&
        (to_space_ ? x[1] % (size_ * size_) == 0 : x[2] % size_ == 0 && x[3] % size_ == 0);
    if (!fits) {
      return context.Error(StatusCode::kInvalidArgument,
                           DimsText(x) + " has no blocks of " + std::to_string(size_));
    }
    std::array<int64_t, 4> dims{};
    std::array<int64_t, 6> seen{};
    std::array<int64_t, 6> order{0, 3, 5, 1, 2, 4};
    if (to_space_) {
      const int64_t channels = x[1] / (size_ * size_);
      dims = {x[0], channels, x[2] * size_, x[3] * size_};
      if (columns_first_) {
        seen = {x[0], channels, size_, size_, x[2], x[3]};
        order = {0, 1, 4, 2, 5, 3};
      } else {
        seen = {x[0], size_, size_, channels, x[2], x[3]};
        order = {0, 3, 4, 1, 5, 2};
      }
    } else {
      dims = {x[0], x[1] * size_ * size_, x[2] / size_, x[3] / size_};
      seen = {x[0], x[1], x[2] / size_, size_, x[3] / size_, size_};
    }
    Result<DeviceTensor> output = context.Output(0, dims);
    if (!output.ok()) return output.TakeStatus();
    return Turn(context, input.value(), seen, order, output.value());
  }

 private:
  int64_t size_ = 0;
  bool to_space_ = false;
  bool columns_first_ = false;
};

class Pad final : public Mover {
 public:
  Status Init(const OpInfo& info) override {
    const std::string mode = info.String("mode", "constant");
    mode_ = mode == "edge"      ? device::PadMode::kEdge
            : mode == "reflect" ? device::PadMode::kReflect
            : mode == "wrap"    ? device::PadMode::kWrap
                                : device::PadMode::kConstant;
    TUNABLEOP_RETURN_IF_ERROR(Mover::Init(info));
    return Find("copy", WidthType(type()), WidthType(type()), "copy_pad", &pad_);
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const DeviceTensor& x = input.value();
    device::Dims before(x.dims);
    device::Dims dims(x.dims);
    TUNABLEOP_RETURN_IF_ERROR(ReadPads(context, x.dims, before, dims));
    Result<DeviceTensor> value = context.Input(2);
    if (!value.ok()) return value.TakeStatus();
    uint64_t bits = 0;
    if (value.value().present() && value.value().elements() > 0) {
      std::memcpy(&bits, value.value().data, bytes());
    }
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    if (output.value().elements() == 0) return Status::Ok();
    const auto call = device::PreparePad(x.data, x.dims, before.view(), mode_, bits,
                                         output.value().data, output.value().dims, bytes());
    if (!call) return context.TooManyDims({x.dims, output.value().dims});
    return context.Launch(pad_, *call);
  }

 private:
  static Status ReadPads(const OpContext& context, std::span<const int64_t> from,
                         device::Dims& before, device::Dims& dims) {
    Result<std::optional<std::vector<int64_t>>> given = context.HostInts(1);
    if (!given.ok()) return given.TakeStatus();
    Result<std::optional<std::vector<int64_t>>> axes = context.HostInts(3);
    if (!axes.ok()) return axes.TakeStatus();
    const std::vector<int64_t> pads = std::move(given).value().value_or(std::vector<int64_t>());
    const size_t count = axes.value() ? axes.value()->size() : from.size();
    if (pads.size() != 2 * count) {
      return context.Error(StatusCode::kInvalidArgument,
                           "pads " + DimsText(pads) + " do not fit " + DimsText(from));
    }
    for (int i = 0; i < before.rank(); ++i) before[i] = 0;
    for (size_t i = 0; i < count; ++i) {
      const int64_t asked = axes.value() ? (*axes.value())[i] : static_cast<int64_t>(i);
      const std::optional<size_t> axis = AxisOf(asked, from.size());
      if (!axis) return context.NoSuchAxis(asked, from);
      const auto at = static_cast<int>(*axis);
      before[at] = pads[i];
      dims[at] += pads[i] + pads[i + count];
      if (dims[at] < 0) {
        return context.Error(
            StatusCode::kInvalidArgument,
            "pads " + DimsText(pads) + " leave less than nothing of " + DimsText(from));
      }
    }
    return Status::Ok();
  }

  DeviceFunction pad_;
  device::PadMode mode_ = device::PadMode::kConstant;
};

}  // namespace

OrtStatus* CreateExpand(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Expand>(state, info, kernel);
}
OrtStatus* CreatePad(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Pad>(state, info, kernel);
}
OrtStatus* CreateSquares(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Squares>(state, info, kernel);
}
OrtStatus* CreateTile(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Tile>(state, info, kernel);
}
OrtStatus* CreateTranspose(void* state, const OrtKernelInfo* info,
                           OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Transpose>(state, info, kernel);
}

}  // namespace tunableop
