#include "provider/kernels_ahead.h"

#include <algorithm>
#include <cstdint>

#include "provider/kernels/element.h"
#include "provider/kernels/op_kernels.h"
#include "provider/kernels/split.h"

namespace tunableop {
namespace {

// How a family's types follow from a node's.
enum class Typing : uint8_t {
  kSame,        // of the typed input, twice
  kInOut,       // of that and of the output
  kInOther,     // the same, where they differ: else it is a copy, without a kernel
  kWidth,       // the width of that, twice
  kWidthIndex,  // the width of that, and the type of input 1
  kOutWidth,    // the width of the output, twice
};

struct Family {
  OrtKernelCreateFunc create;
  const char* name;
  Typing typing;
};

constexpr Family kFamilies[] = {
    {&CreateBinary, "binary", Typing::kInOut},
    {&CreateVariadic, "binary", Typing::kSame},
    {&CreateUnary, "unary", Typing::kInOut},
    {&CreateClip, "unary", Typing::kInOut},
    {&CreateCast, "cast", Typing::kInOther},
    {&CreateNorm, "layer_norm", Typing::kSame},
    {&CreateSoftmax, "softmax", Typing::kSame},
    {&CreateReduce, "reduce", Typing::kSame},
    {&CreateArg, "reduce", Typing::kSame},
    {&CreateCumSum, "reduce", Typing::kSame},
    {&CreateBiasGelu, "bias_act", Typing::kSame},
    {&CreateProjected, "attention", Typing::kSame},
    {&CreateAttention, "attention", Typing::kSame},
    {&CreateGrouped, "attention", Typing::kSame},
    {&CreateMultiHead, "attention", Typing::kSame},
    {&CreateRotary, "rotary", Typing::kSame},
    {&CreateConv, "im2col", Typing::kWidth},
    {&CreateConcat, "copy", Typing::kWidth},
    {&CreateExpand, "copy", Typing::kWidth},
    {&CreatePad, "copy", Typing::kWidth},
    {&CreateSlice, "copy", Typing::kWidth},
    {&CreateSplit, "copy", Typing::kWidth},
    {&CreateTile, "copy", Typing::kWidth},
    {&CreateTranspose, "copy", Typing::kWidth},
    {&CreateWhere, "where", Typing::kWidth},
    {&CreateGather, "gather", Typing::kWidthIndex},
    {&CreateGatherElements, "gather", Typing::kWidthIndex},
    {&CreateGatherNd, "gather", Typing::kWidthIndex},
    {&CreateScatterElements, "scatter", Typing::kWidthIndex},
    {&CreateScatterNd, "scatter", Typing::kWidthIndex},
    {&CreateTrilu, "fill", Typing::kWidth},
    {&CreateConstantOfShape, "fill", Typing::kOutWidth},
    {&CreateRange, "range", Typing::kSame},
};

}  // namespace

std::optional<ModuleName> ModuleOf(const Operator& op, const NodeView& node) {
  const auto* const family =
      std::find_if(std::begin(kFamilies), std::end(kFamilies),
                   [&](const Family& one) { return one.create == op.create; });
  if (family == std::end(kFamilies)) return std::nullopt;
  const ONNXTensorElementDataType type = node.InputType(op.typed);
  ModuleName module{family->name, ModuleType(type), ModuleType(type)};
  switch (family->typing) {
    case Typing::kSame:
      break;
    case Typing::kInOut:
    case Typing::kInOther:
      module.t1 = ModuleType(node.OutputType(0));
      if (family->typing == Typing::kInOther && module.t0 == module.t1) return std::nullopt;
      break;
    case Typing::kWidth:
      module.t0 = module.t1 = WidthType(type);
      break;
    case Typing::kOutWidth:
      module.t0 = module.t1 = WidthType(node.OutputType(0));
      break;
    case Typing::kWidthIndex:
      module.t0 = WidthType(type);
      module.t1 = ModuleType(node.InputType(1));
      break;
  }
  if (family->create == &CreateSplit && SplitsAtOnce(node.outputs().size(), type)) {
    module.family = "split_columns";
  }
  if (module.t0.empty() || module.t1.empty()) return std::nullopt;
  return module;
}

}  // namespace tunableop
