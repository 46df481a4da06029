// Operators that give the elements other dimensions, or the dimensions as values: no kernel runs.
// ONNX Runtime gives an output the input's memory where it can; a graph's own output gets a copy.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "provider/kernels/axes.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"

namespace tunableop {
namespace {

class View : public OpKernel {
 public:
  Status Init(const OpInfo& /*info*/) override { return Status::Ok(); }

  Status Compute(OpContext& context) const final {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    Result<std::vector<int64_t>> dims = Dims(context, input.value().dims);
    if (!dims.ok()) return dims.TakeStatus();
    Result<DeviceTensor> output = context.Output(0, dims.value());
    if (!output.ok()) return output.TakeStatus();
    return context.Copy(output.value(), input.value());
  }

 protected:
  // The output's. They have as many elements as the input's.
  virtual Result<std::vector<int64_t>> Dims(const OpContext& context,
                                            std::span<const int64_t> input) const = 0;
};

class Identity final : public View {
  Result<std::vector<int64_t>> Dims(const OpContext& /*context*/,
                                    std::span<const int64_t> input) const override {
    return std::vector<int64_t>(input.begin(), input.end());
  }
};

class Flatten final : public View {
 public:
  Status Init(const OpInfo& info) override {
    axis_ = info.Int("axis", 1);
    return Status::Ok();
  }

 private:
  Result<std::vector<int64_t>> Dims(const OpContext& context,
                                    std::span<const int64_t> input) const override {
    const auto rank = static_cast<int64_t>(input.size());
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    if (axis < 0 || axis > rank) {
      return context.Error(StatusCode::kInvalidArgument,
                           "axis " + std::to_string(axis_) + " is none of " + DimsText(input));
    }
    std::vector<int64_t> dims = {1, 1};
    for (int64_t i = 0; i < rank; ++i) dims[i < axis ? 0 : 1] *= input[static_cast<size_t>(i)];
    return dims;
  }

  int64_t axis_ = 1;
};

class Reshape final : public View {
 public:
  Status Init(const OpInfo& info) override {
    zero_is_zero_ = info.Int("allowzero", 0) != 0;
    return Status::Ok();
  }

 private:
  Result<std::vector<int64_t>> Dims(const OpContext& context,
                                    std::span<const int64_t> input) const override {
    Result<std::optional<std::vector<int64_t>>> shape = context.HostInts(1);
    if (!shape.ok()) return shape.TakeStatus();
    const std::vector<int64_t> asked = std::move(shape).value().value_or(std::vector<int64_t>());
    std::vector<int64_t> dims = asked;
    const auto wrong = [&] {
      return context.Error(StatusCode::kInvalidArgument,
                           DimsText(input) + " cannot become the shape " + DimsText(asked));
    };
    int64_t elements = 1;
    for (const int64_t dim : input) elements *= dim;
    int64_t known = 1;
    std::optional<size_t> open;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == 0 && !zero_is_zero_) {
        if (i >= input.size()) return wrong();
        dims[i] = input[i];
      }
      if (dims[i] >= 0) {
        known *= dims[i];
      } else if (dims[i] == -1 && !open) {
        open = i;
      } else {
        return wrong();
      }
    }
    if (open) {
      if (known == 0 || elements % known != 0) return wrong();
      dims[*open] = elements / known;
      known *= dims[*open];
    }
    if (known != elements) return wrong();
    return dims;
  }

  bool zero_is_zero_ = false;
};

// Squeeze and Unsqueeze: axes are an attribute, from opset 13 on an input.
class WithAxes : public View {
 public:
  Status Init(const OpInfo& info) override {
    axes_ = info.Ints("axes");
    return Status::Ok();
  }

 protected:
  Result<std::optional<std::vector<int64_t>>> Axes(const OpContext& context) const {
    if (axes_) return axes_;
    return context.HostInts(1);
  }

 private:
  std::optional<std::vector<int64_t>> axes_;
};

class Squeeze final : public WithAxes {
  Result<std::vector<int64_t>> Dims(const OpContext& context,
                                    std::span<const int64_t> input) const override {
    Result<std::optional<std::vector<int64_t>>> axes = Axes(context);
    if (!axes.ok()) return axes.TakeStatus();
    std::vector<bool> gone(input.size(), false);
    // No axes, or none in the list: every 1 goes, as in ONNX Runtime's own.
    if (!axes.value() || axes.value()->empty()) {
      std::transform(input.begin(), input.end(), gone.begin(),
                     [](int64_t dim) { return dim == 1; });
    } else {
      for (const int64_t axis : *axes.value()) {
        const std::optional<size_t> at = AxisOf(axis, input.size());
        if (!at || input[*at] != 1) {
          return context.Error(StatusCode::kInvalidArgument,
                               "axis " + std::to_string(axis) + " of " + DimsText(input) +
                                   (at ? " is not 1" : " does not exist"));
        }
        gone[*at] = true;
      }
    }
    std::vector<int64_t> dims;
    for (size_t i = 0; i < input.size(); ++i) {
      if (!gone[i]) dims.push_back(input[i]);
    }
    return dims;
  }
};

class Unsqueeze final : public WithAxes {
  Result<std::vector<int64_t>> Dims(const OpContext& context,
                                    std::span<const int64_t> input) const override {
    Result<std::optional<std::vector<int64_t>>> axes = Axes(context);
    if (!axes.ok()) return axes.TakeStatus();
    const std::vector<int64_t> added = std::move(axes).value().value_or(std::vector<int64_t>());
    std::vector<int64_t> dims(input.size() + added.size(), 0);
    for (const int64_t axis : added) {
      const std::optional<size_t> at = AxisOf(axis, dims.size());
      if (!at || dims[*at] == 1) {
        return context.Error(StatusCode::kInvalidArgument,
                             "axes " + DimsText(added) + " cannot be added to " + DimsText(input));
      }
      dims[*at] = 1;
    }
    std::vector<bool> is_new(dims.size());
    std::transform(dims.begin(), dims.end(), is_new.begin(), [](int64_t dim) { return dim == 1; });
    size_t next = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!is_new[i]) dims[i] = input[next++];
    }
    return dims;
  }
};

class Shape final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    begin_ = info.Int("start", 0);
    end_ = info.Int("end", INT64_MAX);
    return Status::Ok();
  }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    const std::span<const int64_t> dims = input.value().dims;
    const auto rank = static_cast<int64_t>(dims.size());
    const auto clamped = [rank](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const int64_t begin = clamped(begin_);
    const int64_t count = std::max<int64_t>(clamped(end_) - begin, 0);
    Result<DeviceTensor> output = context.Output(0, {&count, 1});
    if (!output.ok()) return output.TakeStatus();
    std::copy_n(dims.begin() + begin, count, static_cast<int64_t*>(output.value().data));
    return Status::Ok();
  }

 private:
  int64_t begin_ = 0;
  int64_t end_ = INT64_MAX;
};

class Size final : public OpKernel {
 public:
  Status Init(const OpInfo& /*info*/) override { return Status::Ok(); }

  Status Compute(OpContext& context) const override {
    Result<DeviceTensor> input = context.Input(0);
    if (!input.ok()) return input.TakeStatus();
    Result<DeviceTensor> output = context.Output(0, {});
    if (!output.ok()) return output.TakeStatus();
    *static_cast<int64_t*>(output.value().data) = input.value().elements();
    return Status::Ok();
  }
};

}  // namespace

OrtStatus* CreateFlatten(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Flatten>(state, info, kernel);
}
OrtStatus* CreateIdentity(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Identity>(state, info, kernel);
}
OrtStatus* CreateReshape(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Reshape>(state, info, kernel);
}
OrtStatus* CreateShape(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Shape>(state, info, kernel);
}
OrtStatus* CreateSize(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Size>(state, info, kernel);
}
OrtStatus* CreateSqueeze(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Squeeze>(state, info, kernel);
}
OrtStatus* CreateUnsqueeze(void* state, const OrtKernelInfo* info,
                           OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Unsqueeze>(state, info, kernel);
}

}  // namespace tunableop
