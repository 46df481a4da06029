#include "provider/fusion/attention.h"

#include <array>
#include <string>

#include "provider/fusion/attention_match.h"
#include "provider/kernels/element.h"

namespace tunableop {
namespace {

constexpr size_t kRank = 4;
using Sizes = std::array<int64_t, kRank>;

// A tensor of four dimensions as a product sees it.
struct Seen {
  void* data = nullptr;
  Sizes dims{1, 1, 1, 1};
  Sizes strides{};

  // Elements to the next one of that dimension; a dimension of one is there for all.
  int64_t Stride(size_t d) const noexcept { return dims[d] == 1 ? 0 : strides[d]; }
};

Seen SeenAs(const DeviceTensor& tensor, const std::array<size_t, kRank>& order) noexcept {
  Sizes dims{1, 1, 1, 1};
  const size_t missing = kRank - tensor.dims.size();
  for (size_t d = missing; d < kRank; ++d) dims[d] = tensor.dims[d - missing];
  Sizes strides{};
  int64_t elements = 1;
  for (size_t d = kRank; d-- > 0;) {
    strides[d] = elements;
    elements *= dims[d];
  }
  Seen seen;
  seen.data = tensor.data;
  for (size_t d = 0; d < kRank; ++d) {
    seen.dims[d] = dims[order[d]];
    seen.strides[d] = strides[order[d]];
  }
  return seen;
}

constexpr std::array<size_t, kRank> kAsItIs{0, 1, 2, 3};

// The size of a dimension that several have; -1: they do not broadcast.
int64_t Common(std::initializer_list<int64_t> sizes) noexcept {
  int64_t common = 1;
  for (const int64_t size : sizes) {
    if (size == 1 || size == common) continue;
    if (common != 1) return -1;
    common = size;
  }
  return common;
}

class FusedAttention final : public FusedKernel {
 public:
  Status Init(const FusedInfo& info) override {
    std::optional<Attention> found = MatchWhole(info.graph(), &MatchAttention);
    if (!found) return NotThePattern(info);
    gpu_ = info.gpu();
    q_ = info.Input(found->q.value.name);
    k_ = info.Input(found->k.value.name);
    v_ = info.Input(found->v.value.name);
    if (found->mask) mask_ = info.Input(found->mask->name);
    type_ = ModuleType(found->type());
    bytes_ = ElementBytes(found->type());
    TUNABLEOP_RETURN_IF_ERROR(Find(info, "attention", type_, type_, "attention", &plain_));
    TUNABLEOP_RETURN_IF_ERROR(Find(info, "attention", type_, type_, "attention_merge", &merge_));
    const char* family = found->Family();
    TUNABLEOP_RETURN_IF_ERROR(Find(info, family, type_, type_, "attention_rows", &rows_));
    TUNABLEOP_RETURN_IF_ERROR(Find(info, family, type_, type_, "attention_keys", &keys_));
    parts_ = *std::move(found);
    return Status::Ok();
  }

  Status Compute(OpContext& context) const override {
    std::array<Seen, kRank> seen{};  // q, k, v, mask
    const std::array<size_t, kRank> places{q_, k_, v_, mask_};
    const std::array<const std::array<size_t, kRank>*, kRank> orders{
        &parts_.q.order, &parts_.k.order, &parts_.v.order, &kAsItIs};
    for (size_t i = 0; i < kRank; ++i) {
      if (places[i] == FusedInfo::kAbsent) continue;
      Result<DeviceTensor> tensor = context.Input(places[i]);
      if (!tensor.ok()) return tensor.TakeStatus();
      if (tensor.value().dims.size() > kRank || (i < 3 && tensor.value().dims.size() != kRank)) {
        return context.TooManyDims({tensor.value().dims});
      }
      seen[i] = SeenAs(tensor.value(), *orders[i]);
    }
    device::AttentionShape shape;
    if (!ShapeOf(seen, shape)) {
      return context.Error(StatusCode::kInvalidArgument, "its operands' shapes do not fit");
    }
    Sizes dims{shape.batches, shape.heads, shape.queries, shape.size};
    if (parts_.tokens_outside) std::swap(dims[1], dims[2]);
    Result<DeviceTensor> out = context.Output(0, dims);
    if (!out.ok()) return out.TakeStatus();
    if (out.value().elements() == 0) return Status::Ok();
    if (shape.keys == 0) {  // sums of nothing
      return context.device().Fill(out.value().data, 0,
                                   static_cast<size_t>(out.value().elements()) * bytes_,
                                   context.stream());
    }
    return Run(context, seen, shape, out.value().data);
  }

 private:
  // What the nodes would broadcast to. False: they could not.
  bool ShapeOf(const std::array<Seen, kRank>& seen, device::AttentionShape& shape) const noexcept {
    const Seen& q = seen[0];
    const Seen& k = seen[1];
    const Seen& v = seen[2];
    const Seen& mask = seen[3];
    shape.batches = Common({q.dims[0], k.dims[0], v.dims[0], mask.dims[0]});
    shape.heads = Common({q.dims[1], k.dims[1], v.dims[1], mask.dims[1]});
    shape.queries = Common({q.dims[2], mask.dims[2]});
    shape.keys = Common({k.dims[3], mask.dims[3]});
    shape.size = parts_.size;
    shape.scale = parts_.scale;
    // One of a product's operands may have one head for all of the other's; not both differently.
    shape.kv_heads = k.dims[1] == 1 && v.dims[1] == 1 && shape.heads > 0 ? 1 : shape.heads;
    return shape.batches >= 0 && shape.heads >= 0 && shape.queries >= 0 && shape.keys >= 0 &&
           q.dims[3] == shape.size && k.dims[2] == shape.size && v.dims[3] == shape.size &&
           v.dims[2] == shape.keys;
  }

  Status Run(OpContext& context, const std::array<Seen, kRank>& seen,
             const device::AttentionShape& shape, void* out) const {
    const auto rows = [](const Seen& of) {
      return device::AttentionTensor{of.data, {of.Stride(0), of.Stride(2), of.Stride(1)}};
    };
    device::AttentionTensors tensors;
    tensors.q = rows(seen[0]);
    tensors.k = {seen[1].data, {seen[1].Stride(0), seen[1].Stride(3), seen[1].Stride(1)}};
    tensors.k_step = shape.size == 1 ? 1 : seen[1].strides[2];
    tensors.v = rows(seen[2]);
    if (mask_ != FusedInfo::kAbsent) {
      tensors.mask = rows(seen[3]);
      tensors.mask_step = seen[3].Stride(3);
      tensors.mask_is = parts_.mask_is;
      tensors.fill = parts_.fill;
    }
    tensors.out = out;
    tensors.out_at =
        device::StridesOf(shape.queries, shape.heads, shape.size, !parts_.tokens_outside);
    std::optional<device::AttentionCall> call =
        device::PrepareAttention(tensors, shape, type_, {.tiles = true, .scratch = true});
    if (!call) {
      return context.Error(StatusCode::kNotSupported, "tensors of 2^30 vectors and more");
    }
    void* scratch = nullptr;
    if (call->scratch_bytes > 0) {
      scratch = gpu_->memory()->Allocate(call->scratch_bytes, context.stream());
      if (scratch == nullptr) {
        return context.Error(StatusCode::kOutOfMemory, gpu_->memory()->LastFailure());
      }
      call->SetScratch(scratch);
    }
    Status status = context.Launch(FunctionOf(call->entry), call->call);
    if (scratch != nullptr) {
      if (status.ok()) status = context.Launch(merge_, call->merge);
      gpu_->memory()->Free(scratch);  // for who comes behind on this stream
    }
    return status;
  }

  const DeviceFunction& FunctionOf(device::AttentionEntry entry) const noexcept {
    if (entry == device::AttentionEntry::kAny) return plain_;
    return entry == device::AttentionEntry::kRows ? rows_ : keys_;
  }

  std::shared_ptr<GpuSession> gpu_;
  Attention parts_;  // of the group's graph, which is gone: no names, no constants
  DeviceFunction plain_;
  DeviceFunction rows_;
  DeviceFunction keys_;
  DeviceFunction merge_;
  size_t q_ = FusedInfo::kAbsent;
  size_t k_ = FusedInfo::kAbsent;
  size_t v_ = FusedInfo::kAbsent;
  size_t mask_ = FusedInfo::kAbsent;
  const char* type_ = "";
  size_t bytes_ = 0;
};

std::optional<Group> FindOf(const GraphIndex& graph, size_t last, bool floats) {
  std::optional<Attention> found = MatchAttention(graph, last);
  if (!found || (found->type() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) != floats) {
    return std::nullopt;
  }
  const char* type = ModuleType(found->type());
  const char* family = found->Family();
  return Group{std::move(found->all), {{"attention", type, type}, {family, type, type}}};
}

std::optional<Group> FindHalves(const GraphIndex& graph, size_t last) {
  return FindOf(graph, last, /*floats=*/false);
}
std::optional<Group> FindFloats(const GraphIndex& graph, size_t last) {
  return FindOf(graph, last, /*floats=*/true);
}

std::unique_ptr<FusedKernel> Make() { return std::make_unique<FusedAttention>(); }

bool Suits(const FusionPlace& place) noexcept { return device::AttentionTilesRunOn(place.arch); }

}  // namespace

Fusion AttentionFusion() noexcept { return {{.op = "Attention"}, &FindHalves, &Make, &Suits}; }

Fusion AttentionTf32Fusion() noexcept {
  return {{.op = "Attention"}, &FindFloats, &Make, +[](const FusionPlace& place) {
            return place.precision == Precision::kTf32 && Suits(place);
          }};
}

}  // namespace tunableop
