#include "provider/fusion/attention.h"

#include <algorithm>
#include <array>
#include <string>

#include "provider/element_type.h"
#include "provider/fusion/attention_apart.h"
#include "provider/fusion/attention_match.h"
#include "provider/kernels/element.h"
#include "provider/kernels/scratch.h"

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

// `strides`: of its dimensions as they are in memory.
Seen SeenAs(const DeviceTensor& tensor, const std::array<size_t, kRank>& order,
            const Sizes& strides) noexcept {
  Seen seen;
  seen.data = tensor.data;
  const size_t missing = kRank - tensor.dims.size();
  for (size_t d = 0; d < kRank; ++d) {
    if (order[d] >= missing) seen.dims[d] = tensor.dims[order[d] - missing];
    seen.strides[d] = strides[order[d]];
  }
  return seen;
}

Seen SeenAs(const DeviceTensor& tensor, const std::array<size_t, kRank>& order) noexcept {
  Sizes strides{};
  int64_t elements = 1;
  for (size_t d = kRank; d-- > 0;) {
    strides[d] = elements;
    const size_t missing = kRank - tensor.dims.size();
    if (d >= missing) elements *= tensor.dims[d - missing];
  }
  return SeenAs(tensor, order, strides);
}

constexpr std::array<size_t, kRank> kAsItIs{0, 1, 2, 3};

// By number.
enum Form : size_t { kOneKernel, kApart };
constexpr const char* kForms[] = {"one kernel", "apart"};
// "layout": which operands are transposed; "mask": 1 one that is added, 2 one of flags.
constexpr const char* kSizes[] = {"B", "H", "Q", "K", "S", "layout", "mask"};
constexpr FormGroup kGroup = {"Attention", kForms, kSizes};

bool RunsOnTiles(const Attention& attention, const FusionPlace& place) noexcept {
  const bool floats = attention.type() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  return attention.Family() != nullptr && device::AttentionTilesRunOn(place.arch) &&
         (!floats || place.precision == Precision::kTf32);
}

using Operands = std::array<Seen, kRank>;  // q, k, v, mask

ONNXTensorElementDataType MaskType(const Attention& attention) noexcept {
  return attention.mask ? attention.mask->type : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

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
    if (found->projections) {
      x_ = info.Input(found->projections->x.name);
      TUNABLEOP_RETURN_IF_ERROR(products_.Init(info, *found->projections));
    } else {
      q_ = info.Input(found->q.value.name);
      k_ = info.Input(found->k.value.name);
      v_ = info.Input(found->v.value.name);
    }
    if (found->mask) mask_ = info.Input(found->mask->name);
    type_ = ModuleType(found->type());
    bytes_ = ElementBytes(found->type());
    TUNABLEOP_RETURN_IF_ERROR(Find(info, "attention", type_, type_, "attention", &plain_));
    TUNABLEOP_RETURN_IF_ERROR(Find(info, "attention", type_, type_, "attention_merge", &merge_));
    tiles_ = RunsOnTiles(*found, {gpu_->device().info().arch, info.state()->options().precision});
    if (tiles_) {
      const char* family = found->Family();
      TUNABLEOP_RETURN_IF_ERROR(Find(info, family, type_, type_, "attention_rows", &rows_));
      TUNABLEOP_RETURN_IF_ERROR(Find(info, family, type_, type_, "attention_keys", &keys_));
    }
    state_ = info.state();
    TUNABLEOP_RETURN_IF_ERROR(apart_.Init(info, found->type(), MaskType(*found)));
    parts_ = *std::move(found);
    return Status::Ok();
  }

  Status Compute(OpContext& context) const override {
    Operands seen{};
    Scratch projected;
    if (x_ != FusedInfo::kAbsent) TUNABLEOP_RETURN_IF_ERROR(Project(context, seen, projected));
    TUNABLEOP_RETURN_IF_ERROR(See(context, seen));
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
  // What is an input.
  Status See(OpContext& context, Operands& seen) const {
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
    return Status::Ok();
  }

  // q, k and v as columns of one product.
  Status Project(OpContext& context, Operands& seen, Scratch& projected) const {
    Result<DeviceTensor> x = context.Input(x_);
    if (!x.ok()) return x.TakeStatus();
    const std::span<const int64_t> dims = x.value().dims;
    if (dims.size() != 3 || dims[2] != products_.k()) return context.TooManyDims({dims});
    const int64_t width = products_.width();
    const int64_t rows = dims[0] * dims[1];
    if (rows > 0) {
      projected =
          Scratch(*gpu_->memory(), static_cast<size_t>(rows * width) * bytes_, context.stream());
      if (projected.data() == nullptr) {
        return context.Error(StatusCode::kOutOfMemory, gpu_->memory()->LastFailure());
      }
      TUNABLEOP_RETURN_IF_ERROR(products_.Run(context, x.value().data, rows, projected.data()));
    }
    for (size_t i = 0; i < Projections::kCount; ++i) {
      DeviceTensor part;
      if (rows > 0) {
        part.data = static_cast<std::byte*>(projected.data()) +
                    static_cast<size_t>(products_.offset(i)) * bytes_;
      }
      const Sizes split{dims[0], dims[1], parts_.heads[i], parts_.size};
      part.dims = split;
      const Attention::Operand& operand = i == 0 ? parts_.q : i == 1 ? parts_.k : parts_.v;
      seen[i] = SeenAs(part, operand.order, {dims[1] * width, width, parts_.size, 1});
    }
    return Status::Ok();
  }

  // What the nodes would broadcast to. False: they could not.
  bool ShapeOf(const Operands& seen, device::AttentionShape& shape) const noexcept {
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

  Status Run(OpContext& context, const Operands& seen, const device::AttentionShape& shape,
             void* out) const {
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

    const int64_t vectors = shape.batches * shape.heads * shape.queries;
    const FormAnswer answer{out, vectors, shape.size};
    Problem like;
    like.m = vectors;
    like.n = shape.size;
    like.k = std::max(shape.keys, shape.size);
    like.a_type = like.b_type = like.c_type = apart_.type();
    if (apart_.type() == DataType::kFloat32) like.precision = state_->options().precision;
    const FormCall call{{&kGroup,
                         apart_.type(),
                         like.precision,
                         {shape.batches, shape.heads, shape.queries, shape.keys, shape.size,
                          Layout(seen), MaskKind()},
                         gpu_->graphs().enabled()},
                        tiles_ ? kOneKernel : kApart,
                        /*weights=*/false,
                        {&answer, 1},
                        like,
                        apart_.Bytes(shape)};
    return state_->RunInForm(call, context.queue(), [&](size_t form) {
      return form == kOneKernel ? RunOneKernel(context, tensors, shape)
                                : apart_.Run(context, tensors, shape, seen[3].dims);
    });
  }

  // What decides how much is copied where products run apart.
  int64_t Layout(const Operands& seen) const noexcept {
    const auto outside = [](const Seen& of, size_t rows) {
      return of.Stride(1) < of.Stride(rows) * of.dims[rows] ? 1 : 0;
    };
    return (parts_.tokens_outside ? 1 : 0) + 2 * outside(seen[0], 2) + 4 * outside(seen[1], 3) +
           8 * outside(seen[2], 2) + 16 * (seen[1].dims[1] != seen[0].dims[1] ? 1 : 0);
  }
  int64_t MaskKind() const noexcept {
    if (mask_ == FusedInfo::kAbsent) return 0;
    return parts_.mask_is == device::AttentionMask::kAdded ? 1 : 2;
  }

  Status RunOneKernel(OpContext& context, const device::AttentionTensors& tensors,
                      const device::AttentionShape& shape) const {
    std::optional<device::AttentionCall> call =
        device::PrepareAttention(tensors, shape, type_, {.tiles = tiles_, .scratch = true});
    if (!call) {
      return context.Error(StatusCode::kNotSupported, "tensors of 2^30 vectors and more");
    }
    Scratch scratch;
    if (call->scratch_bytes > 0) {
      scratch = Scratch(*gpu_->memory(), call->scratch_bytes, context.stream());
      if (scratch.data() == nullptr) {
        return context.Error(StatusCode::kOutOfMemory, gpu_->memory()->LastFailure());
      }
      call->SetScratch(scratch.data());
    }
    TUNABLEOP_RETURN_IF_ERROR(context.Launch(FunctionOf(call->entry), call->call));
    return scratch.data() != nullptr ? context.Launch(merge_, call->merge) : Status::Ok();
  }

  const DeviceFunction& FunctionOf(device::AttentionEntry entry) const noexcept {
    if (entry == device::AttentionEntry::kAny) return plain_;
    return entry == device::AttentionEntry::kRows ? rows_ : keys_;
  }

  std::shared_ptr<SessionState> state_;
  std::shared_ptr<GpuSession> gpu_;
  StackedProducts products_;
  AttentionApart apart_;
  Attention parts_;  // of the group's graph, which is gone: no names, no constants
  DeviceFunction plain_;
  DeviceFunction rows_;
  DeviceFunction keys_;
  DeviceFunction merge_;
  size_t x_ = FusedInfo::kAbsent;  // of the projections, which make q, k and v
  size_t q_ = FusedInfo::kAbsent;
  size_t k_ = FusedInfo::kAbsent;
  size_t v_ = FusedInfo::kAbsent;
  size_t mask_ = FusedInfo::kAbsent;
  const char* type_ = "";
  size_t bytes_ = 0;
  bool tiles_ = false;  // the one kernel is that of tensor cores
};

// `tiles`: only what has a kernel for tensor cores.
std::optional<Group> FindOf(const GraphIndex& graph, size_t last, bool tiles) {
  std::optional<Attention> found = MatchAttention(graph, last);
  if (!found || (tiles && found->Family() == nullptr)) return std::nullopt;
  const char* type = ModuleType(found->type());
  Group group{std::move(found->all), AttentionApart::Modules(found->type(), MaskType(*found))};
  group.modules.push_back({"attention", type, type});
  if (tiles) group.modules.push_back({found->Family(), type, type});
  if (found->projections) {
    group.modules.push_back({"bias_act", type, type});
    group.copies_constants =
        !found->projections->x.constant && !(found->mask && found->mask->constant);
  }
  return group;
}

std::optional<Group> FindTiles(const GraphIndex& graph, size_t last, bool floats) {
  std::optional<Group> group = FindOf(graph, last, /*tiles=*/true);
  const bool has_floats =
      group && graph.node(last).outputs()[0].type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  return has_floats == floats ? group : std::nullopt;
}

std::unique_ptr<FusedKernel> Make() { return std::make_unique<FusedAttention>(); }

bool Suits(const FusionPlace& place) noexcept { return device::AttentionTilesRunOn(place.arch); }

}  // namespace

Fusion AttentionFusion() noexcept {
  return {{.op = "Attention"},
          +[](const GraphIndex& graph, size_t last) { return FindTiles(graph, last, false); },
          &Make,
          &Suits};
}

Fusion AttentionTf32Fusion() noexcept {
  return {{.op = "AttentionTf32"},
          +[](const GraphIndex& graph, size_t last) { return FindTiles(graph, last, true); },
          &Make,
          +[](const FusionPlace& place) {
            return place.precision == Precision::kTf32 && Suits(place);
          }};
}

Fusion AttentionApartFusion() noexcept {
  return {{.op = "AttentionApart"},
          +[](const GraphIndex& graph, size_t last) { return FindOf(graph, last, false); },
          &Make};
}

}  // namespace tunableop
