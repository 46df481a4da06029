#include "provider/operators.h"

#include <algorithm>
#include <array>

#include "kernels/args_common.h"
#include "provider/kernels/op_kernels.h"
#include "provider/operator_checks.h"
#include "provider/type_name.h"

namespace tunableop {
namespace {

constexpr TypeSet Types(std::initializer_list<ONNXTensorElementDataType> types) noexcept {
  TypeSet set = 0;
  for (const ONNXTensorElementDataType type : types)
    set |= TypeSet{1} << static_cast<uint32_t>(type);
  return set;
}

constexpr TypeSet kHalf =
    Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16});
constexpr TypeSet kSingle = kHalf | Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT});
constexpr TypeSet kFloating =
    kHalf | Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE});
constexpr TypeSet kWhole =
    Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64});
constexpr TypeSet kIndices = Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64});
constexpr TypeSet kCounted =
    kWhole | Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE});
constexpr TypeSet kBool = Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL});
constexpr TypeSet kNumbers = kFloating | kWhole | Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8});

// All that are moved without being looked at.
constexpr TypeSet kMoved =
    Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64,
           ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL});

// Bits of host_inputs and host_outputs.
constexpr uint32_t kInput0 = 1U << 0U;
constexpr uint32_t kInput1 = 1U << 1U;
constexpr uint32_t kInput2 = 1U << 2U;
constexpr uint32_t kInput3 = 1U << 3U;
constexpr uint32_t kInput4 = 1U << 4U;
constexpr uint32_t kInput6 = 1U << 6U;
constexpr uint32_t kOutput0 = 1U << 0U;

constexpr const char* kContrib = "com.microsoft";

struct More {
  const char* domain = "";
  Refusal why_not = nullptr;
  uint32_t host_inputs = 0;
  uint32_t host_outputs = 0;
  bool alias = false;
  uint8_t typed = 0;
};

constexpr Operator Row(const char* op, int first, int last, OrtKernelCreateFunc create,
                       TypeSet types, More more = {}) noexcept {
  return {
      more.domain,       op,         first,     last, create, types, more.why_not, more.host_inputs,
      more.host_outputs, more.alias, more.typed};
}

constexpr auto kTable = std::to_array<Operator>({
    // Other dimensions for the same elements.
    Row("Flatten", 1, 25, &CreateFlatten, kMoved, {.alias = true}),
    Row("Identity", 1, 25, &CreateIdentity, kMoved, {.alias = true}),
    Row("Reshape", 5, 25, &CreateReshape, kMoved, {.host_inputs = kInput1, .alias = true}),
    Row("Squeeze", 1, 25, &CreateSqueeze, kMoved, {.host_inputs = kInput1, .alias = true}),
    Row("Unsqueeze", 1, 25, &CreateUnsqueeze, kMoved, {.host_inputs = kInput1, .alias = true}),
    // Dimensions as values.
    Row("Shape", 1, 25, &CreateShape, kMoved, {.host_outputs = kOutput0}),
    Row("Size", 1, 25, &CreateSize, kMoved, {.host_outputs = kOutput0}),
    // Elementwise, with two inputs or more.
    Row("Add", 7, 14, &CreateBinary, kNumbers),
    Row("And", 7, 7, &CreateBinary, kBool),
    Row("Div", 7, 14, &CreateBinary, kNumbers),
    Row("Equal", 7, 19, &CreateBinary, kNumbers | kBool),
    Row("Greater", 7, 13, &CreateBinary, kNumbers),
    Row("GreaterOrEqual", 12, 16, &CreateBinary, kNumbers),
    Row("Less", 7, 13, &CreateBinary, kNumbers),
    Row("LessOrEqual", 12, 16, &CreateBinary, kNumbers),
    Row("Max", 8, 13, &CreateVariadic, kNumbers),
    Row("Mean", 8, 13, &CreateVariadic, kFloating),
    Row("Min", 8, 13, &CreateVariadic, kNumbers),
    Row("Mod", 10, 13, &CreateBinary, kNumbers, {.why_not = &ModOfFloats}),
    Row("Mul", 7, 14, &CreateBinary, kNumbers),
    Row("Or", 7, 7, &CreateBinary, kBool),
    Row("PRelu", 7, 16, &CreateBinary, kFloating | kWhole),
    Row("Pow", 7, 15, &CreateBinary, kFloating | kWhole, {.why_not = &SecondTypeDiffers}),
    Row("Sub", 7, 14, &CreateBinary, kNumbers),
    Row("Sum", 8, 13, &CreateVariadic, kFloating),
    Row("Xor", 7, 7, &CreateBinary, kBool),
    // Elementwise, with one input.
    Row("Abs", 6, 13, &CreateUnary, kFloating | kWhole),
    Row("Ceil", 6, 13, &CreateUnary, kFloating),
    Row("Celu", 12, 12, &CreateUnary, kFloating),
    Row("Cos", 7, 22, &CreateUnary, kFloating),
    Row("Elu", 6, 22, &CreateUnary, kFloating),
    Row("Erf", 9, 13, &CreateUnary, kFloating),
    Row("Exp", 6, 13, &CreateUnary, kFloating),
    Row("Floor", 6, 13, &CreateUnary, kFloating),
    Row("Gelu", 20, 20, &CreateUnary, kFloating),
    Row("HardSigmoid", 6, 22, &CreateUnary, kFloating),
    Row("HardSwish", 14, 22, &CreateUnary, kFloating),
    Row("IsInf", 10, 20, &CreateUnary, kFloating),
    Row("IsNaN", 9, 20, &CreateUnary, kFloating),
    Row("LeakyRelu", 6, 16, &CreateUnary, kFloating),
    Row("Log", 6, 13, &CreateUnary, kFloating),
    Row("Mish", 18, 22, &CreateUnary, kFloating),
    Row("Neg", 6, 13, &CreateUnary, kFloating | kWhole),
    Row("Not", 1, 1, &CreateUnary, kBool),
    Row("Reciprocal", 6, 13, &CreateUnary, kFloating),
    Row("Relu", 6, 14, &CreateUnary, kFloating | kWhole),
    Row("Round", 11, 22, &CreateUnary, kFloating),
    Row("Selu", 6, 22, &CreateUnary, kFloating),
    Row("Sigmoid", 6, 13, &CreateUnary, kFloating),
    Row("Sign", 9, 13, &CreateUnary, kFloating | kWhole),
    Row("Sin", 7, 22, &CreateUnary, kFloating),
    Row("Softplus", 1, 22, &CreateUnary, kFloating),
    Row("Softsign", 1, 22, &CreateUnary, kFloating),
    Row("Sqrt", 6, 13, &CreateUnary, kFloating),
    Row("Swish", 24, 24, &CreateUnary, kFloating),
    Row("Tanh", 6, 13, &CreateUnary, kFloating),
    Row("ThresholdedRelu", 10, 22, &CreateUnary, kFloating),
    Row("BiasGelu", 1, 1, &CreateBiasGelu, kFloating, {.domain = kContrib}),
    Row("FastGelu", 1, 1, &CreateBiasGelu, kFloating, {.domain = kContrib}),
    Row("Gelu", 1, 1, &CreateUnary, kFloating, {.domain = kContrib}),
    Row("QuickGelu", 1, 1, &CreateUnary, kFloating, {.domain = kContrib}),
    Row("Clip", 6, 13, &CreateClip, kFloating | kWhole, {.host_inputs = kInput1 | kInput2}),
    // Rows.
    Row("LayerNormalization", 17, 17, &CreateNorm, kFloating, {.why_not = &NormOfOthers}),
    Row("LogSoftmax", 1, 13, &CreateSoftmax, kFloating),
    Row("RMSNormalization", 23, 23, &CreateNorm, kFloating, {.why_not = &NormOfOthers}),
    Row("SimplifiedLayerNormalization", 1, 1, &CreateNorm, kFloating, {.why_not = &NormOfOthers}),
    Row("SkipLayerNormalization", 1, 1, &CreateNorm, kFloating,
        {.domain = kContrib, .why_not = &SecondTypeDiffers}),
    Row("SkipSimplifiedLayerNormalization", 1, 1, &CreateNorm, kFloating,
        {.domain = kContrib, .why_not = &SecondTypeDiffers}),
    Row("Softmax", 1, 13, &CreateSoftmax, kFloating),
    // Of transformers.
    Row("Attention", 23, 24, &CreateAttention, kSingle, {.why_not = &AttentionOfOthers}),
    Row("Attention", 1, 1, &CreateProjected, kSingle,
        {.domain = kContrib, .why_not = &ProjectedOfOthers}),
    Row("EmbedLayerNormalization", 1, 1, &CreateEmbedNorm, kSingle,
        {.domain = kContrib, .typed = 2}),
    Row("GroupQueryAttention", 1, 1, &CreateGrouped, kSingle,
        {.domain = kContrib, .why_not = &GroupedOfOthers, .host_inputs = kInput6}),
    Row("MultiHeadAttention", 1, 1, &CreateMultiHead, kSingle,
        {.domain = kContrib, .why_not = &MultiHeadOfOthers}),
    Row("RotaryEmbedding", 23, 23, &CreateRotary, kFloating, {.why_not = &RotaryOfOthers}),
    Row("RotaryEmbedding", 1, 1, &CreateRotary, kFloating,
        {.domain = kContrib, .why_not = &RotaryOfOthers}),
    // Products.
    Row("Conv", 1, 22, &CreateConv, kFloating, {.why_not = &ConvOfOthers}),
    Row("Einsum", 12, 12, &CreateEinsum, kFloating, {.why_not = &NoProduct}),
    Row("FusedMatMul", 1, 1, &CreateFusedMatMul, kFloating,
        {.domain = kContrib, .why_not = &TransposedBatches}),
    // Images.
    Row("AveragePool", 7, 22, &CreatePool, kFloating, {.why_not = &PoolOfOthers}),
    Row("BatchNormalization", 9, 15, &CreateBatchNorm, kFloating, {.why_not = &ChannelsOfOthers}),
    Row("DepthToSpace", 1, 13, &CreateSquares, kMoved),
    Row("GlobalAveragePool", 1, 22, &CreateReduce, kFloating),
    Row("GlobalMaxPool", 1, 22, &CreateReduce, kFloating),
    Row("GroupNormalization", 21, 21, &CreateGroupNorm, kFloating, {.why_not = &ChannelsOfOthers}),
    Row("InstanceNormalization", 6, 22, &CreateGroupNorm, kFloating,
        {.why_not = &ChannelsOfOthers}),
    Row("MaxPool", 1, 22, &CreatePool, kFloating | Types({ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8}),
        {.why_not = &PoolOfOthers}),
    Row("Resize", 11, 19, &CreateResize, kFloating,
        {.why_not = &ResizeOfOthers, .host_inputs = kInput1 | kInput2 | kInput3}),
    Row("SpaceToDepth", 1, 13, &CreateSquares, kMoved),
    // Elements as they are.
    Row("Concat", 4, 13, &CreateConcat, kMoved),
    Row("Expand", 8, 13, &CreateExpand, kMoved, {.host_inputs = kInput1}),
    Row("Pad", 11, 25, &CreatePad, kMoved, {.host_inputs = kInput1 | kInput2 | kInput3}),
    Row("Slice", 1, 13, &CreateSlice, kMoved,
        {.host_inputs = kInput1 | kInput2 | kInput3 | kInput4}),
    Row("Split", 2, 18, &CreateSplit, kMoved, {.host_inputs = kInput1}),
    Row("Tile", 6, 13, &CreateTile, kMoved, {.host_inputs = kInput1}),
    Row("Transpose", 1, 25, &CreateTranspose, kMoved),
    Row("Trilu", 14, 14, &CreateTrilu, kMoved, {.host_inputs = kInput1}),
    Row("Trilu", 1, 1, &CreateTrilu, kMoved, {.domain = kContrib, .host_inputs = kInput1}),
    // Picked by indices.
    Row("Gather", 1, 13, &CreateGather, kMoved, {.why_not = &IndicesAreOthers}),
    Row("GatherElements", 11, 13, &CreateGatherElements, kMoved, {.why_not = &IndicesAreOthers}),
    Row("GatherND", 11, 13, &CreateGatherNd, kMoved, {.why_not = &IndicesAreOthers}),
    // Placed by indices.
    Row("OneHot", 9, 11, &CreateOneHot, kMoved,
        {.why_not = &OneHotOfOthers, .host_inputs = kInput1, .typed = 2}),
    Row("ScatterElements", 11, 18, &CreateScatterElements, kMoved, {.why_not = &ScattersOtherwise}),
    Row("ScatterND", 11, 18, &CreateScatterNd, kMoved, {.why_not = &ScattersOtherwise}),
    // Made of few numbers.
    Row("ConstantOfShape", 9, 25, &CreateConstantOfShape, kIndices,
        {.why_not = &MakesOthers, .host_inputs = kInput0}),
    Row("Range", 11, 11, &CreateRange, kCounted, {.host_inputs = kInput0 | kInput1 | kInput2}),
    // One number of many.
    Row("ArgMax", 1, 13, &CreateArg, kFloating | kWhole),
    Row("ArgMin", 1, 13, &CreateArg, kFloating | kWhole),
    Row("CumSum", 11, 14, &CreateCumSum, kFloating | kWhole, {.host_inputs = kInput1}),
    Row("ReduceL1", 1, 18, &CreateReduce, kFloating | kWhole, {.host_inputs = kInput1}),
    Row("ReduceL2", 1, 18, &CreateReduce, kFloating, {.host_inputs = kInput1}),
    Row("ReduceMax", 1, 20, &CreateReduce, kNumbers | kBool, {.host_inputs = kInput1}),
    Row("ReduceMean", 1, 18, &CreateReduce, kFloating, {.host_inputs = kInput1}),
    Row("ReduceMin", 1, 20, &CreateReduce, kNumbers | kBool, {.host_inputs = kInput1}),
    Row("ReduceProd", 1, 18, &CreateReduce, kFloating | kWhole, {.host_inputs = kInput1}),
    Row("ReduceSum", 1, 13, &CreateReduce, kFloating | kWhole, {.host_inputs = kInput1}),
    Row("ReduceSumSquare", 1, 18, &CreateReduce, kFloating | kWhole, {.host_inputs = kInput1}),
    Row("TopK", 10, 24, &CreateTopK, kFloating | kWhole, {.host_inputs = kInput1}),
    // Others of their kind.
    Row("Cast", 6, 25, &CreateCast, kNumbers | kBool, {.why_not = &CastsToOthers}),
    Row("CastLike", 15, 25, &CreateCast, kNumbers | kBool, {.why_not = &CastsToOthers}),
    Row("Where", 9, 16, &CreateWhere, kMoved, {.typed = 1}),
});

}  // namespace

std::span<const Operator> Operators() noexcept { return kTable; }

const Operator* FindOperator(std::string_view domain, std::string_view op) noexcept {
  for (const Operator& row : kTable) {
    if (row.op == op && row.domain == domain) return &row;
  }
  return nullptr;
}

namespace {

// ONNX Runtime has one place for a value that a node reads twice.
bool ReadsOneValueInTwoPlaces(const Operator& op, const NodeView& node) {
  const auto on_host = [&](size_t i) { return (op.host_inputs >> i & 1U) != 0; };
  const std::vector<ValueView>& inputs = node.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool same =
          inputs[i].present() && inputs[j].present() && inputs[i].name == inputs[j].name;
      if (same && on_host(i) != on_host(j)) return true;
    }
  }
  return false;
}

// Kernels go over so many dimensions; what only has others, or none, of its own goes over none.
std::optional<std::string> TooManyDimensions(const Operator& op, const NodeView& node) {
  if (op.alias || op.host_outputs != 0) return std::nullopt;
  size_t rank = 0;
  for (const ValueView& value : node.inputs()) rank = std::max(rank, value.dims.size());
  for (const ValueView& value : node.outputs()) rank = std::max(rank, value.dims.size());
  if (rank <= static_cast<size_t>(device::kMaxRank)) return std::nullopt;
  return std::to_string(rank) + " dimensions, and its kernel has at most " +
         std::to_string(device::kMaxRank);
}

}  // namespace

std::optional<std::string> WhyNotTaken(const Operator& op, const NodeView& node) {
  if (node.version() < op.first || node.version() > op.last) {
    return std::string(op.op) + " of opset " + std::to_string(node.version()) + " is " +
           (node.version() < op.first ? "older" : "newer") + " than opsets " +
           std::to_string(op.first) + " to " + std::to_string(op.last) + ", which have kernels";
  }
  const ONNXTensorElementDataType type = node.InputType(op.typed);
  if ((op.types >> static_cast<uint32_t>(type) & 1U) == 0) {
    return "input type " + std::string(TypeName(type)) + " has no kernel of " + op.op;
  }
  if (ReadsOneValueInTwoPlaces(op, node)) {
    return "one value is read on the card and on the host";
  }
  if (std::optional<std::string> why = TooManyDimensions(op, node)) return why;
  return op.why_not != nullptr ? op.why_not(node) : std::nullopt;
}

}  // namespace tunableop
