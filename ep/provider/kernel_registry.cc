#include "provider/kernel_registry.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "provider/kernels/kernel.h"
#include "provider/kernels/memcpy.h"
#include "provider/operators.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

struct FixedKernel {
  const char* op_type;
  int first_version;  // opset versions at which the operator's definition changed
  int last_version;
  OrtKernelCreateFunc create;
};

// ONNX Runtime matches a node's own since-version, so each definition of the specification is a
// row.
constexpr std::array<FixedKernel, 6> kProducts = {{
    {"MatMul", 1, 8, &CreateMatMul},
    {"MatMul", 9, 12, &CreateMatMul},
    {"MatMul", 13, 1000, &CreateMatMul},
    {"Gemm", 7, 8, &CreateGemm},
    {"Gemm", 9, 12, &CreateGemm},
    {"Gemm", 13, 1000, &CreateGemm},
}};
constexpr int kFirstWithBFloat16 = 13;

// Without kernels of our own for these, ONNX Runtime hands a card's kernel host memory.
constexpr FixedKernel kFromHost = {"MemcpyFromHost", 1, 1000, &CreateMemcpyFromHost};
constexpr FixedKernel kToHost = {"MemcpyToHost", 1, 1000, &CreateMemcpyToHost};

struct BuilderDeleter {
  void operator()(OrtKernelDefBuilder* builder) const noexcept {
    Ort().ep_api->ReleaseKernelDefBuilder(builder);
  }
};
struct DefDeleter {
  void operator()(OrtKernelDef* def) const noexcept { Ort().ep_api->ReleaseKernelDef(def); }
};
struct RegistryDeleter {
  void operator()(OrtKernelRegistry* registry) const noexcept {
    Ort().ep_api->ReleaseKernelRegistry(registry);
  }
};

Result<std::vector<const OrtDataType*>> TypesOf(
    std::span<const ONNXTensorElementDataType> elements) {
  std::vector<const OrtDataType*> types;
  for (const ONNXTensorElementDataType element : elements) {
    const OrtDataType* type = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->GetTensorDataType(element, &type));
    types.push_back(type);
  }
  return types;
}

// All that a card's memory can hold: not strings. Older versions do not know the newest ones.
std::vector<const OrtDataType*> FixedSizeTypes() {
  std::vector<const OrtDataType*> types;
  constexpr int kTypes = 64;  // more than there are; each version refuses what it does not know
  for (int element = 1; element < kTypes; ++element) {
    const auto kind = static_cast<ONNXTensorElementDataType>(element);
    const OrtDataType* type = nullptr;
    if (kind == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) continue;
    if (FromOrt(Ort().ep_api->GetTensorDataType(kind, &type)).ok() && type != nullptr) {
      types.push_back(type);
    }
  }
  return types;
}

// One kernel on its way into a registry.
class Definition {
 public:
  static Result<Definition> Create(const char* provider_name, const char* domain, const char* op,
                                   int first_version, int last_version) {
    const OrtEpApi& api = *Ort().ep_api;
    OrtKernelDefBuilder* raw = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.CreateKernelDefBuilder(&raw));
    Definition definition(raw);
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.KernelDefBuilder_SetOperatorType(raw, op));
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.KernelDefBuilder_SetDomain(raw, domain));
    TUNABLEOP_RETURN_IF_ORT_ERROR(
        api.KernelDefBuilder_SetSinceVersion(raw, first_version, last_version));
    TUNABLEOP_RETURN_IF_ORT_ERROR(api.KernelDefBuilder_SetExecutionProvider(raw, provider_name));
    return definition;
  }

  OrtKernelDefBuilder* builder() const noexcept { return builder_.get(); }

  Status AddTo(OrtKernelRegistry* registry, OrtKernelCreateFunc create, void* state) {
    OrtKernelDef* raw = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->KernelDefBuilder_Build(builder(), &raw));
    const std::unique_ptr<OrtKernelDef, DefDeleter> def(raw);
    return FromOrt(Ort().ep_api->KernelRegistry_AddKernel(registry, raw, create, state));
  }

 private:
  explicit Definition(OrtKernelDefBuilder* builder) noexcept : builder_(builder) {}
  std::unique_ptr<OrtKernelDefBuilder, BuilderDeleter> builder_;
};

enum class HostSide : uint8_t { kNone, kInput, kOutput };

Status Register(const FixedKernel& op, const std::vector<const OrtDataType*>& types, HostSide host,
                const char* provider_name, OrtKernelRegistry* registry) {
  const OrtEpApi& api = *Ort().ep_api;
  Result<Definition> definition =
      Definition::Create(provider_name, "", op.op_type, op.first_version, op.last_version);
  if (!definition.ok()) return definition.TakeStatus();
  OrtKernelDefBuilder* builder = definition.value().builder();
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      api.KernelDefBuilder_AddTypeConstraint(builder, "T", types.data(), types.size()));
  if (host == HostSide::kInput) {
    TUNABLEOP_RETURN_IF_ORT_ERROR(
        api.KernelDefBuilder_SetInputMemType(builder, 0, OrtMemTypeCPUInput));
  } else if (host == HostSide::kOutput) {
    TUNABLEOP_RETURN_IF_ORT_ERROR(
        api.KernelDefBuilder_SetOutputMemType(builder, 0, OrtMemTypeCPUOutput));
  }
  return definition.value().AddTo(registry, op.create, nullptr);
}

// Without constraints of types: which node is taken is decided where nodes are claimed.
Status Register(const Operator& op, const char* provider_name, OrtKernelRegistry* registry) {
  const OrtEpApi& api = *Ort().ep_api;
  Result<Definition> definition =
      Definition::Create(provider_name, op.domain, op.op, op.first, op.last);
  if (!definition.ok()) return definition.TakeStatus();
  OrtKernelDefBuilder* builder = definition.value().builder();
  constexpr size_t kBits = 32;
  for (size_t i = 0; i < kBits; ++i) {
    if ((op.host_inputs >> i & 1U) != 0) {
      TUNABLEOP_RETURN_IF_ORT_ERROR(
          api.KernelDefBuilder_SetInputMemType(builder, i, OrtMemTypeCPUInput));
    }
    if ((op.host_outputs >> i & 1U) != 0) {
      TUNABLEOP_RETURN_IF_ORT_ERROR(
          api.KernelDefBuilder_SetOutputMemType(builder, i, OrtMemTypeCPUOutput));
    }
  }
  if (op.alias) {
    constexpr int kFirst = 0;
    TUNABLEOP_RETURN_IF_ORT_ERROR(
        api.KernelDefBuilder_AddInputOutputAliases(builder, &kFirst, &kFirst, 1));
  }
  // The state is only read.
  return definition.value().AddTo(registry, op.create, const_cast<Operator*>(&op));  // NOLINT
}

}  // namespace

Status MakeKernelRegistry(const char* provider_name, bool for_card, OrtKernelRegistry** registry) {
  OrtKernelRegistry* raw = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->CreateKernelRegistry(&raw));
  std::unique_ptr<OrtKernelRegistry, RegistryDeleter> owned(raw);
  for (const FixedKernel& op : kProducts) {
    std::vector<ONNXTensorElementDataType> elements = {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT};
    if (for_card) {
      elements.push_back(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16);
      elements.push_back(ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE);
      if (op.first_version >= kFirstWithBFloat16) {
        elements.push_back(ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16);
      }
    }
    Result<std::vector<const OrtDataType*>> types = TypesOf(elements);
    if (!types.ok()) return types.TakeStatus();
    TUNABLEOP_RETURN_IF_ERROR(Register(op, types.value(), HostSide::kNone, provider_name, raw));
  }
  if (for_card) {
    const std::vector<const OrtDataType*> types = FixedSizeTypes();
    TUNABLEOP_RETURN_IF_ERROR(Register(kFromHost, types, HostSide::kInput, provider_name, raw));
    TUNABLEOP_RETURN_IF_ERROR(Register(kToHost, types, HostSide::kOutput, provider_name, raw));
    for (const Operator& op : Operators()) {
      TUNABLEOP_RETURN_IF_ERROR(Register(op, provider_name, raw));
    }
  }
  *registry = owned.release();
  return Status::Ok();
}

}  // namespace tunableop
