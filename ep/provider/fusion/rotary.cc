#include "provider/fusion/rotary.h"

#include <algorithm>
#include <array>

#include "kernels/rotary_launch.h"
#include "provider/fusion/expression.h"
#include "provider/kernels/axes.h"
#include "provider/kernels/element.h"

namespace tunableop {
namespace {

bool IsLastAxis(int64_t axis, size_t rank) {
  return rank > 0 && AxisOf(axis, rank) == std::optional(rank - 1);
}

// The elements from `begin` to `end` of each row of `x`.
struct Part {
  std::string_view x;
  int64_t begin = 0;
  int64_t end = 0;
};

class Pattern {
 public:
  Pattern(const GraphIndex& graph, size_t last) : graph_(graph), last_(last) {}

  std::optional<RotaryParts> Match() {
    if (!Is(graph_, last_, "Add")) return std::nullopt;
    const std::vector<ValueView>& terms = graph_.node(last_).inputs();
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const std::optional<size_t> straight = ProducerOf(graph_, terms[i].name, "Mul");
      const std::optional<size_t> turned = ProducerOf(graph_, terms[1 - i].name, "Mul");
      if (!straight || !turned || straight == turned) continue;
      for (const size_t k : {size_t{0}, size_t{1}}) {
        const std::vector<ValueView>& factors = graph_.node(*turned).inputs();
        RotaryParts parts;
        members_ = {last_, *straight, *turned};
        const std::optional<std::string_view> x = Turned(factors[k].name);
        parts.sines = factors[1 - k];
        if (x && Complete(*straight, *x, parts)) return parts;
      }
    }
    return std::nullopt;
  }

 private:
  bool Complete(size_t straight, std::string_view x, RotaryParts& parts) {
    const std::vector<ValueView>& factors = graph_.node(straight).inputs();
    const size_t at = factors[0].name == x ? 0 : 1;
    if (factors[at].name != x) return false;
    parts.x = factors[at];
    parts.cosines = factors[1 - at];
    if (!IsFloating(parts.x.type)) return false;
    for (const ValueView* table : {&parts.cosines, &parts.sines}) {
      if (table->type != parts.x.type || table->dims.empty() || parts.x.dims.empty() ||
          table->dims.back() != parts.x.dims.back()) {
        return false;
      }
    }
    parts.out = graph_.node(last_).outputs()[0].name;
    parts.members = members_;
    return Closed(graph_, members_, {parts.out});
  }

  // Of what the value is the halves, the second one first and negated.
  std::optional<std::string_view> Turned(std::string_view value) {
    const std::optional<size_t> concat = ProducerOf(graph_, value, "Concat");
    if (!concat) return std::nullopt;
    const NodeView& node = graph_.node(*concat);
    const size_t rank = node.outputs()[0].dims.size();
    if (node.inputs().size() != 2 || !IsLastAxis(node.Int("axis", 0), rank)) return std::nullopt;
    const std::optional<size_t> negated = ProducerOf(graph_, node.inputs()[0].name, "Neg");
    if (!negated) return std::nullopt;
    members_.push_back(*concat);
    members_.push_back(*negated);
    const std::optional<Part> second = PartOf(graph_.node(*negated).inputs()[0].name);
    const std::optional<Part> first = PartOf(node.inputs()[1].name);
    if (!first || !second || first->x != second->x || first->begin != 0 ||
        first->end != second->begin || second->end != 2 * first->end) {
      return std::nullopt;
    }
    return first->x;
  }

  // A Slice or an output of a Split.
  std::optional<Part> PartOf(std::string_view value) {
    const std::optional<size_t> maker = graph_.Producer(value);
    if (!maker) return std::nullopt;
    const NodeView& node = graph_.node(*maker);
    if (node.inputs().empty() || node.inputs()[0].dims.empty()) return std::nullopt;
    const ValueView& x = node.inputs()[0];
    const int64_t whole = x.dims.back();
    if (whole < 2 || whole % 2 != 0) return std::nullopt;
    if (std::find(members_.begin(), members_.end(), *maker) == members_.end()) {
      members_.push_back(*maker);
    }
    if (Is(graph_, *maker, "Split")) {
      // Both are a half where the first is, which the model's shapes say.
      const std::vector<ValueView>& outputs = node.outputs();
      if (outputs.size() != 2 || !IsLastAxis(node.Int("axis", 0), x.dims.size()) ||
          outputs[0].dims.empty() || outputs[0].dims.back() != whole / 2) {
        return std::nullopt;
      }
      const bool second = outputs[1].name == value;
      return Part{x.name, second ? whole / 2 : 0, second ? whole : whole / 2};
    }
    return Is(graph_, *maker, "Slice") ? SliceOf(node, whole) : std::nullopt;
  }

  static std::optional<Part> SliceOf(const NodeView& node, int64_t whole) {
    const auto one = [&](size_t input, const char* attribute) -> std::optional<int64_t> {
      std::optional<std::vector<int64_t>> values = node.Ints(attribute);
      if (!values && node.Has(input)) values = node.inputs()[input].ConstantInts();
      return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
    };
    std::optional<int64_t> begin = one(1, "starts");
    std::optional<int64_t> end = one(2, "ends");
    const std::optional<int64_t> axis = one(3, "axes");
    if (!begin || !end || !axis || !IsLastAxis(*axis, node.inputs()[0].dims.size()) ||
        (node.Has(4) && one(4, "steps") != 1)) {
      return std::nullopt;
    }
    if (*begin < 0) *begin += whole;
    if (*end < 0) *end += whole;
    return Part{node.inputs()[0].name, *begin, std::min(*end, whole)};
  }

  const GraphIndex& graph_;
  const size_t last_;
  std::vector<size_t> members_;
};

class FusedRotary final : public FusedKernel {
 public:
  Status Init(const FusedInfo& info) override {
    const std::optional<RotaryParts> found = MatchWhole(info.graph(), &MatchRotary);
    if (!found) return NotThePattern(info);
    places_ = {info.Input(found->x.name), info.Input(found->cosines.name),
               info.Input(found->sines.name)};
    bytes_ = ElementBytes(found->x.type);
    const char* type = ModuleType(found->x.type);
    return Find(info, "rotary", type, type, "rotary_halves", &function_);
  }

  Status Compute(OpContext& context) const override {
    std::array<DeviceTensor, 3> given;
    for (size_t i = 0; i < given.size(); ++i) {
      TUNABLEOP_RETURN_IF_ERROR(Read(context, places_[i], given[i]));
    }
    const std::array<device::DimsView, 3> shapes{given[0].dims, given[1].dims, given[2].dims};
    const std::optional<device::Dims> dims = device::BroadcastDims(shapes);
    if (!dims) return context.TooManyDims({shapes[0], shapes[1], shapes[2]});
    Result<DeviceTensor> out = context.Output(0, dims->view());
    if (!out.ok()) return out.TakeStatus();
    if (out.value().elements() == 0) return Status::Ok();
    const auto call = device::PrepareRotaryHalves({.x = given[0].data,
                                                   .x_dims = shapes[0],
                                                   .cosines = given[1].data,
                                                   .cosines_dims = shapes[1],
                                                   .sines = given[2].data,
                                                   .sines_dims = shapes[2],
                                                   .out = out.value().data,
                                                   .out_dims = out.value().dims},
                                                  bytes_);
    if (!call) return context.TooManyDims({shapes[0], shapes[1], shapes[2]});
    return context.Launch(function_, *call);
  }

 private:
  DeviceFunction function_;
  std::array<size_t, 3> places_{};
  size_t bytes_ = 0;
};

std::optional<Group> FindRotary(const GraphIndex& graph, size_t last) {
  const std::optional<RotaryParts> parts = MatchRotary(graph, last);
  if (!parts) return std::nullopt;
  const char* type = ModuleType(parts->x.type);
  return Group{parts->members, {{"rotary", type, type}}};
}

}  // namespace

std::optional<RotaryParts> MatchRotary(const GraphIndex& graph, size_t last) {
  return Pattern(graph, last).Match();
}

Fusion RotaryFusion() noexcept {
  return {{.op = "Rotary"}, &FindRotary, +[]() -> std::unique_ptr<FusedKernel> {
            return std::make_unique<FusedRotary>();
          }};
}

}  // namespace tunableop
