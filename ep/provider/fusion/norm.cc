#include "provider/fusion/norm.h"

#include <array>

#include "kernels/binary_launch.h"
#include "kernels/layer_norm_launch.h"
#include "provider/fusion/norm_parts.h"
#include "provider/kernels/element.h"

namespace tunableop {
namespace {

using Matcher = std::optional<NormParts> (*)(const GraphIndex& graph, size_t last);

// Whether some operand may turn out to have an element for a whole row: the norm's kernel adds
// whole rows only.
bool MayAddElements(const NormParts& parts) {
  if (!parts.skip.present()) return false;
  const auto whole = [&](const ValueView& value) {
    return !value.dims.empty() && value.dims.back() > 1 && value.dims.back() == parts.gamma.dims[0];
  };
  return !whole(parts.x) || !whole(parts.skip);
}

std::vector<ModuleName> ModulesOf(const NormParts& parts) {
  const char* type = ModuleType(parts.x.type);
  std::vector<ModuleName> modules{{"layer_norm", type, type}};
  if (MayAddElements(parts)) modules.push_back({"binary", type, type});
  return modules;
}

template <Matcher kMatch>
std::optional<Group> Find(const GraphIndex& graph, size_t last) {
  const std::optional<NormParts> parts = kMatch(graph, last);
  if (!parts) return std::nullopt;
  return Group{parts->members, ModulesOf(*parts)};
}

template <Matcher kMatch>
class FusedNorm final : public FusedKernel {
 public:
  Status Init(const FusedInfo& info) override {
    const std::optional<NormParts> found = MatchWhole(info.graph(), kMatch);
    if (!found) return NotThePattern(info);
    x_ = info.Input(found->x.name);
    if (found->skip.present()) {
      skip_ = info.Input(found->skip.name);
      sum_ = info.Output(found->sum);
    }
    gamma_ = info.Input(found->gamma.name);
    if (found->beta.present()) beta_ = info.Input(found->beta.name);
    out_ = info.Output(found->out);
    epsilon_ = found->epsilon;
    bytes_ = ElementBytes(found->x.type);
    const char* type = ModuleType(found->x.type);
    if (MayAddElements(*found)) {
      TUNABLEOP_RETURN_IF_ERROR(FusedKernel::Find(info, "binary", type, type, "binary_add", &add_));
    }
    return FusedKernel::Find(info, "layer_norm", type, type,
                             found->mean ? "layer_norm" : "rms_norm", &norm_);
  }

  Status Compute(OpContext& context) const override {
    DeviceTensor x;
    DeviceTensor skip;
    DeviceTensor gamma;
    DeviceTensor beta;
    TUNABLEOP_RETURN_IF_ERROR(Read(context, x_, x));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, skip_, skip));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, gamma_, gamma));
    TUNABLEOP_RETURN_IF_ERROR(Read(context, beta_, beta));
    const std::array<device::DimsView, 2> shapes{x.dims, skip.dims};
    const std::optional<device::Dims> dims = device::BroadcastDims(shapes);
    if (!dims) return context.TooManyDims({x.dims, skip.dims});
    const int64_t columns = dims->rank() == 0 ? 1 : dims->view().back();
    for (const DeviceTensor* row : {&gamma, &beta}) {
      if (row->present() && row->elements() != columns) {
        return context.TooManyDims({dims->view(), row->dims});
      }
    }
    DeviceTensor out;
    DeviceTensor sum;
    TUNABLEOP_RETURN_IF_ERROR(Make(context, out_, dims->view(), out));
    TUNABLEOP_RETURN_IF_ERROR(Make(context, sum_, dims->view(), sum));
    if (out.elements() == 0) return Status::Ok();

    device::LayerNormTensors tensors;
    tensors.gamma = gamma.data;
    tensors.beta = beta.data;
    tensors.out = out.data;
    if (skip.present() && (!HasRows(x, columns) || !HasRows(skip, columns))) {
      if (!add_) return context.TooManyDims({x.dims, skip.dims});  // not what the model says
      void* to = sum.present() ? sum.data : out.data;
      const auto add =
          device::PrepareBinary(x.data, x.dims, skip.data, skip.dims, to, bytes_, bytes_);
      if (!add) return context.TooManyDims({x.dims, skip.dims});
      TUNABLEOP_RETURN_IF_ERROR(context.Launch(add_, *add));
      tensors.x = to;
      tensors.x_rows = RowsOf(dims->view());
    } else {
      tensors.x = x.data;
      tensors.x_rows = RowsOf(x.dims);
      tensors.skip = skip.data;
      tensors.skip_rows = RowsOf(skip.dims);
      tensors.sum = sum.data;
    }
    const auto call = device::PrepareLayerNorm(tensors, columns, epsilon_, bytes_);
    if (!call) return context.TooManyDims({x.dims, skip.dims});
    return context.Launch(norm_, *call);
  }

 private:
  static bool HasRows(const DeviceTensor& tensor, int64_t columns) {
    return !tensor.dims.empty() && tensor.dims.back() == columns;
  }

  static std::span<const int64_t> RowsOf(std::span<const int64_t> dims) {
    return dims.empty() ? dims : dims.first(dims.size() - 1);
  }

  DeviceFunction norm_;
  DeviceFunction add_;
  size_t x_ = FusedInfo::kAbsent;
  size_t skip_ = FusedInfo::kAbsent;
  size_t gamma_ = FusedInfo::kAbsent;
  size_t beta_ = FusedInfo::kAbsent;
  size_t out_ = FusedInfo::kAbsent;
  size_t sum_ = FusedInfo::kAbsent;
  double epsilon_ = 0;
  size_t bytes_ = 0;
};

template <Matcher kMatch>
Fusion FusionNamed(const char* name) noexcept {
  return {{.op = name}, &Find<kMatch>, +[]() -> std::unique_ptr<FusedKernel> {
            return std::make_unique<FusedNorm<kMatch>>();
          }};
}

}  // namespace

Fusion ResidualNormFusion() noexcept { return FusionNamed<&MatchResidualNorm>("Add+Norm"); }
Fusion NormChainFusion() noexcept { return FusionNamed<&MatchNormChain>("Norm"); }

}  // namespace tunableop
