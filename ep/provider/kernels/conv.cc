// Conv over one to three dimensions, as products: the weight times what im2col lays out. An image's
// result is [filters, places], which is what ONNX asks for.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "kernels/copy_launch.h"
#include "kernels/im2col_launch.h"
#include "provider/kernels/element.h"
#include "provider/kernels/inner_product.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/op_kernel.h"
#include "provider/kernels/op_kernels.h"
#include "provider/kernels/scratch.h"

namespace tunableop {
namespace {

// Of what is laid out at once, as far as a layer of one result is not more.
constexpr int64_t kMatrixBytes = int64_t{256} << 20;

class Conv final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    strides_ = info.Ints("strides").value_or(std::vector<int64_t>());
    dilations_ = info.Ints("dilations").value_or(std::vector<int64_t>());
    pads_ = info.Ints("pads").value_or(std::vector<int64_t>());
    auto_pad_ = info.String("auto_pad", "NOTSET");
    groups_ = info.Int("group", 1);
    const ONNXTensorElementDataType type = info.InputType(0);
    const char* const width = WidthType(type);
    TUNABLEOP_RETURN_IF_ERROR(product_.Init(info, state(), type));
    TUNABLEOP_RETURN_IF_ERROR(Find("copy", width, width, "copy", &copy_));
    return Find("im2col", width, width, "im2col", &im2col_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 3> inputs;
    TUNABLEOP_RETURN_IF_ERROR(context.Inputs(inputs));
    const DeviceTensor& x = inputs[0];
    const DeviceTensor& weight = inputs[1];
    device::ConvShape shape;
    TUNABLEOP_RETURN_IF_ERROR(Resolve(context, x.dims, weight.dims, shape));
    const int64_t filters = weight.dims[0];
    device::Dims dims;
    dims.Append(shape.images);
    dims.Append(filters);
    for (size_t i = 0; i + 2 < x.dims.size(); ++i) {
      dims.Append(shape.OutSize(PlaceOf(i, x.dims.size() - 2)));
    }
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    const DeviceTensor& y = output.value();
    if (y.elements() == 0) return Status::Ok();
    const DeviceTensor& bias = inputs[2];
    if (bias.present()) {
      const std::array<int64_t, 2> column{filters, 1};
      const std::array<int64_t, 3> whole{shape.images, filters, shape.places()};
      const auto call = device::PrepareExpand(bias.data, column, y.data, whole, product_.bytes());
      if (!call || bias.elements() != filters) return context.TooManyDims({bias.dims, y.dims});
      TUNABLEOP_RETURN_IF_ERROR(context.Launch(copy_, *call));
    }
    if (shape.rows() == 0) {  // sums of nothing
      if (bias.present()) return Status::Ok();
      return context.device().Fill(y.data, 0, static_cast<size_t>(y.elements()) * product_.bytes(),
                                   context.stream());
    }
    return Multiply(context, shape, filters, inputs, y.data);
  }

 private:
  // Where one of so many dimensions is among the shape's: the last is the last, the first of more
  // than one the first.
  static size_t PlaceOf(size_t i, size_t spatial) noexcept { return i + 1 == spatial ? 2 : i; }

  Status Resolve(const OpContext& context, std::span<const int64_t> x, std::span<const int64_t> w,
                 device::ConvShape& shape) const {
    const size_t spatial = x.size() - std::min<size_t>(x.size(), 2);
    const auto fits = [&](const std::vector<int64_t>& given, size_t size) {
      return given.empty() || given.size() == size;
    };
    if (spatial < 1 || spatial > 3 || w.size() != x.size() || groups_ < 1 ||
        x[1] != w[1] * groups_ || w[0] % groups_ != 0 || !fits(strides_, spatial) ||
        !fits(dilations_, spatial) || !fits(pads_, 2 * spatial)) {
      return context.TooManyDims({x, w});
    }
    shape.images = x[0];
    shape.channels = x[1];
    for (size_t i = 0; i < spatial; ++i) {
      const size_t d = PlaceOf(i, spatial);
      shape.size[d] = x[2 + i];
      shape.filter[d] = w[2 + i];
      if (!strides_.empty()) shape.stride[d] = strides_[i];
      if (!dilations_.empty()) shape.dilation[d] = dilations_[i];
      if (shape.stride[d] < 1 || shape.dilation[d] < 1 || shape.filter[d] < 1) {
        return context.Error(StatusCode::kInvalidArgument, "strides, dilations or filters below 1");
      }
      if (auto_pad_ == "NOTSET" && !pads_.empty()) {
        shape.before[d] = pads_[i];
        shape.after[d] = pads_[i + spatial];
      } else if (auto_pad_.starts_with("SAME")) {
        const int64_t places = (shape.size[d] + shape.stride[d] - 1) / shape.stride[d];
        const int64_t reach = shape.dilation[d] * (shape.filter[d] - 1) + 1;
        const int64_t pad =
            std::max<int64_t>(0, (places - 1) * shape.stride[d] + reach - shape.size[d]);
        shape.before[d] = auto_pad_ == "SAME_LOWER" ? pad - pad / 2 : pad / 2;
        shape.after[d] = pad - shape.before[d];
      }
      if (shape.before[d] < 0 || shape.after[d] < 0) {
        return context.Error(StatusCode::kNotSupported,
                             "pads " + DimsText(pads_) + " below 0 have no kernel");
      }
      if (shape.OutSize(d) < 1) {
        return context.Error(StatusCode::kInvalidArgument, "an image of " + DimsText(x.subspan(2)) +
                                                               " with its pads is smaller "
                                                               "than a filter of " +
                                                               DimsText(w.subspan(2)));
      }
    }
    return Status::Ok();
  }

  // As many images at once as the matrix may have; of a large one as many rows of its result.
  Status Multiply(const OpContext& context, const device::ConvShape& whole, int64_t filters,
                  const std::array<DeviceTensor, 3>& inputs, void* y) const {
    const auto bytes = static_cast<int64_t>(product_.bytes());
    const bool plain = whole.is_plain();
    const int64_t line = whole.rows() * whole.layer_places() * bytes;  // for a layer of the result
    const int64_t lines = std::max<int64_t>(kMatrixBytes / line, 1);
    const int64_t height = whole.OutSize(0);
    device::ConvShape shape = whole;
    shape.band = plain ? height : std::min(lines, height);
    const int64_t at_once =
        std::clamp<int64_t>(plain ? whole.images : lines / height, 1, whole.images);
    Scratch columns;
    if (!plain) {
      columns = Scratch(*gpu().memory(), static_cast<size_t>(at_once * shape.band * line),
                        context.stream());
      if (columns.data() == nullptr) return NoMemory(gpu());
    }
    const int64_t image = whole.channels * device::ElementsOf(whole.size);
    const int64_t result = filters * whole.places();
    for (int64_t first = 0; first < whole.images; first += at_once) {
      shape.images = std::min(at_once, whole.images - first);
      const auto* const x = static_cast<const std::byte*>(inputs[0].data) + first * image * bytes;
      for (shape.first = 0; shape.first < height; shape.first += shape.band) {
        device::ConvShape band = shape;
        band.band = std::min(shape.band, height - shape.first);
        if (!plain) {
          const auto call = device::PrepareIm2Col(x, band, columns.data());
          if (!call) return context.TooManyDims({inputs[0].dims, inputs[1].dims});
          TUNABLEOP_RETURN_IF_ERROR(context.Launch(im2col_, *call));
        }
        Operands operands;
        operands.a = inputs[1].data;
        operands.b = plain ? static_cast<const void*>(x) : columns.data();
        operands.c = static_cast<std::byte*>(y) +
                     (first * result + shape.first * whole.layer_places()) * bytes;
        operands.beta = inputs[2].present() ? 1.0F : 0.0F;
        TUNABLEOP_RETURN_IF_ERROR(MultiplyImages(context, band, filters, operands));
      }
    }
    return Status::Ok();
  }

  // One product for all images; with groups one for each image, of all groups.
  Status MultiplyImages(const OpContext& context, const device::ConvShape& shape, int64_t filters,
                        Operands operands) const {
    Problem problem = product_.Start();
    problem.m = filters / groups_;
    problem.n = shape.band_places();
    problem.k = shape.rows() / groups_;
    problem.lda = problem.k;
    problem.ldb = problem.n;
    problem.ldc = shape.places();
    problem.batch = groups_ > 1 ? groups_ : shape.images;
    if (problem.batch > 1) {
      problem.stride_a = groups_ > 1 ? problem.m * problem.k : 0;
      problem.stride_b = problem.k * problem.n;
      problem.stride_c = problem.m * problem.ldc;
    }
    if (groups_ == 1) return product_.Run(context, problem, operands);
    const auto bytes = static_cast<int64_t>(product_.bytes());
    for (int64_t i = 0; i < shape.images; ++i) {
      TUNABLEOP_RETURN_IF_ERROR(product_.Run(context, problem, operands));
      operands.b = static_cast<const std::byte*>(operands.b) + shape.rows() * problem.n * bytes;
      operands.c = static_cast<std::byte*>(operands.c) + filters * problem.ldc * bytes;
    }
    return Status::Ok();
  }

  InnerProduct product_;
  DeviceFunction copy_;
  DeviceFunction im2col_;
  std::vector<int64_t> strides_;
  std::vector<int64_t> dilations_;
  std::vector<int64_t> pads_;
  std::string auto_pad_;
  int64_t groups_ = 1;
};

}  // namespace

OrtStatus* CreateConv(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Conv>(state, info, kernel);
}

}  // namespace tunableop
