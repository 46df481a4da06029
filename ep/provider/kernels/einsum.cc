// Einsum where it is one product, of operands that are copied where their order is none of a
// product's; or another order of one operand.
#include <array>
#include <string>
#include <vector>

#include "kernels/copy_launch.h"
#include "provider/kernels/einsum_equation.h"
#include "provider/kernels/element.h"
#include "provider/kernels/inner_product.h"
#include "provider/kernels/kernel.h"
#include "provider/kernels/matmul_shape.h"
#include "provider/kernels/op_kernels.h"
#include "provider/kernels/scratch.h"

namespace tunableop {
namespace {

constexpr size_t kLetters = 128;
using Sizes = std::array<int64_t, kLetters>;  // of each letter's dimension

int64_t Product(const Sizes& sizes, std::string_view letters) noexcept {
  int64_t product = 1;
  for (const char letter : letters) product *= sizes[static_cast<size_t>(letter)];
  return product;
}

// Matrices behind one another.
struct Matrices {
  const void* data = nullptr;
  bool turned = false;
  Scratch made;
};

class Einsum final : public OpKernel {
 public:
  Status Init(const OpInfo& info) override {
    const std::string text = info.String("equation", "");
    std::optional<EinsumEquation> read = ReadEinsum(text);
    if (!read || read->operands.size() != info.inputs()) {
      return {StatusCode::kInternal, "Einsum: " + text + " is no product"};
    }
    equation_ = *std::move(read);
    const ONNXTensorElementDataType type = info.InputType(0);
    TUNABLEOP_RETURN_IF_ERROR(product_.Init(info, state(), type));
    return Find("copy", WidthType(type), WidthType(type), "copy", &copy_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 2> inputs;
    Sizes sizes;
    sizes.fill(1);
    for (size_t i = 0; i < equation_.operands.size(); ++i) {
      Result<DeviceTensor> input = context.Input(i);
      if (!input.ok()) return input.TakeStatus();
      inputs[i] = input.value();
      TUNABLEOP_RETURN_IF_ERROR(Measure(context, i, inputs[i].dims, sizes));
    }
    device::Dims dims;
    for (const char letter : equation_.result) dims.Append(sizes[static_cast<size_t>(letter)]);
    Result<DeviceTensor> output = context.Output(0, dims.view());
    if (!output.ok()) return output.TakeStatus();
    const DeviceTensor& out = output.value();
    if (out.elements() == 0) return Status::Ok();
    if (equation_.operands.size() == 1) {
      return Copy(context, inputs[0], equation_.operands[0], sizes, equation_.result, out.data);
    }
    if (Product(sizes, equation_.summed) == 0) {  // sums of nothing
      return context.device().Fill(
          out.data, 0, static_cast<size_t>(out.elements()) * product_.bytes(), context.stream());
    }
    return Multiply(context, inputs, sizes, out);
  }

 private:
  // A dimension of one is there for all of another operand's.
  Status Measure(const OpContext& context, size_t operand, std::span<const int64_t> dims,
                 Sizes& sizes) const {
    const std::string& letters = equation_.operands[operand];
    bool fits = dims.size() == letters.size();
    for (size_t d = 0; fits && d < dims.size(); ++d) {
      int64_t& size = sizes[static_cast<size_t>(letters[d])];
      fits = size == 1 || dims[d] == 1 || dims[d] == size;
      if (size == 1) size = dims[d];
    }
    if (fits) return Status::Ok();
    return context.Error(StatusCode::kInvalidArgument,
                         DimsText(dims) + " do not fit '" + letters + "' of its equation");
  }

  Status Multiply(const OpContext& context, const std::array<DeviceTensor, 2>& inputs,
                  const Sizes& sizes, const DeviceTensor& out) const {
    Matrices a;
    Matrices b;
    const std::string& batch = equation_.batch;
    TUNABLEOP_RETURN_IF_ERROR(
        Lay(context, inputs[0], 0, sizes, equation_.rows, equation_.summed, a));
    TUNABLEOP_RETURN_IF_ERROR(
        Lay(context, inputs[1], 1, sizes, equation_.summed, equation_.columns, b));
    Problem problem = product_.Start();
    problem.m = Product(sizes, equation_.rows);
    problem.n = Product(sizes, equation_.columns);
    problem.k = Product(sizes, equation_.summed);
    problem.trans_a = a.turned ? 1 : 0;
    problem.trans_b = b.turned ? 1 : 0;
    problem.lda = a.turned ? problem.m : problem.k;
    problem.ldb = b.turned ? problem.k : problem.n;
    problem.ldc = problem.n;
    problem.batch = Product(sizes, batch);
    if (problem.batch > 1) {
      problem.stride_a = problem.m * problem.k;
      problem.stride_b = problem.k * problem.n;
      problem.stride_c = problem.m * problem.n;
    }
    Operands operands;
    operands.a = a.data;
    operands.b = b.data;
    operands.c = out.data;
    const std::string order = batch + equation_.rows + equation_.columns;
    if (order == equation_.result) return product_.Run(context, problem, operands);
    Scratch ordered;
    TUNABLEOP_RETURN_IF_ERROR(Take(context, out.elements(), ordered));
    operands.c = ordered.data();
    TUNABLEOP_RETURN_IF_ERROR(product_.Run(context, problem, operands));
    device::Dims dims;
    for (const char letter : order) dims.Append(sizes[static_cast<size_t>(letter)]);
    DeviceTensor made = out;
    made.data = ordered.data();
    made.dims = dims.view();
    return Copy(context, made, order, sizes, equation_.result, out.data);
  }

  // An operand as matrices of these rows and columns: as it is, turned, or as a copy.
  Status Lay(const OpContext& context, const DeviceTensor& input, size_t operand,
             const Sizes& sizes, const std::string& rows, const std::string& columns,
             Matrices& matrices) const {
    const std::string& letters = equation_.operands[operand];
    const std::string order = equation_.batch + rows + columns;
    matrices.data = input.data;
    if (input.elements() == Product(sizes, letters)) {
      if (letters == order) return Status::Ok();
      matrices.turned = letters == equation_.batch + columns + rows;
      if (matrices.turned) return Status::Ok();
    }
    TUNABLEOP_RETURN_IF_ERROR(Take(context, Product(sizes, letters), matrices.made));
    matrices.data = matrices.made.data();
    return Copy(context, input, letters, sizes, order, matrices.made.data());
  }

  Status Take(const OpContext& context, int64_t elements, Scratch& scratch) const {
    scratch = Scratch(*gpu().memory(), static_cast<size_t>(elements) * product_.bytes(),
                      context.stream());
    return scratch.data() != nullptr ? Status::Ok() : NoMemory(gpu());
  }

  // `from`, whose dimensions are `letters`, in another order, and of full size.
  Status Copy(const OpContext& context, const DeviceTensor& from, const std::string& letters,
              const Sizes& sizes, const std::string& order, void* to) const {
    Sizes strides{};
    int64_t stride = 1;
    for (size_t d = letters.size(); d-- > 0;) {
      strides[static_cast<size_t>(letters[d])] = from.dims[d] == 1 ? 0 : stride;
      stride *= from.dims[d];
    }
    device::Dims dims;
    device::Dims from_strides;
    device::Dims to_strides;
    for (size_t d = 0; d < order.size(); ++d) {
      dims.Append(sizes[static_cast<size_t>(order[d])]);
      from_strides.Append(strides[static_cast<size_t>(order[d])]);
      to_strides.Append(Product(sizes, std::string_view(order).substr(d + 1)));
    }
    const auto call = device::PrepareCopy(from.data, from_strides.view(), to, to_strides.view(),
                                          dims.view(), product_.bytes());
    if (!call) return context.TooManyDims({from.dims});
    return context.Launch(copy_, *call);
  }

  EinsumEquation equation_;
  InnerProduct product_;
  DeviceFunction copy_;
};

}  // namespace

OrtStatus* CreateEinsum(void* state, const OrtKernelInfo* info, OrtKernelImpl** kernel) noexcept {
  return CreateOpKernel<Einsum>(state, info, kernel);
}

}  // namespace tunableop
