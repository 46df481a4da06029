#include "provider/kernel_registry.h"

#include <array>
#include <memory>

#include "provider/kernels/kernel.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

struct Operator {
  const char* op_type;
  int first_version;  // opset versions at which the operator's definition changed
  int last_version;
  OrtKernelCreateFunc create;
};

// ONNX Runtime matches a node's own since-version, so each definition of the specification is a
// row.
constexpr std::array<Operator, 6> kOperators = {{
    {"MatMul", 1, 8, &CreateMatMul},
    {"MatMul", 9, 12, &CreateMatMul},
    {"MatMul", 13, 1000, &CreateMatMul},
    {"Gemm", 7, 8, &CreateGemm},
    {"Gemm", 9, 12, &CreateGemm},
    {"Gemm", 13, 1000, &CreateGemm},
}};

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

Status Register(const Operator& op, const char* provider_name, OrtKernelRegistry* registry) {
  const OrtEpApi& api = *Ort().ep_api;
  OrtKernelDefBuilder* raw_builder = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.CreateKernelDefBuilder(&raw_builder));
  const std::unique_ptr<OrtKernelDefBuilder, BuilderDeleter> builder(raw_builder);
  const OrtDataType* fp32 = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.GetTensorDataType(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &fp32));
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.KernelDefBuilder_SetOperatorType(raw_builder, op.op_type));
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.KernelDefBuilder_SetDomain(raw_builder, ""));
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      api.KernelDefBuilder_SetSinceVersion(raw_builder, op.first_version, op.last_version));
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      api.KernelDefBuilder_SetExecutionProvider(raw_builder, provider_name));
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.KernelDefBuilder_AddTypeConstraint(raw_builder, "T", &fp32, 1));
  OrtKernelDef* raw_def = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(api.KernelDefBuilder_Build(raw_builder, &raw_def));
  const std::unique_ptr<OrtKernelDef, DefDeleter> def(raw_def);
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      api.KernelRegistry_AddKernel(registry, raw_def, op.create, nullptr));
  return Status::Ok();
}

}  // namespace

Status MakeKernelRegistry(const char* provider_name, OrtKernelRegistry** registry) {
  OrtKernelRegistry* raw = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->CreateKernelRegistry(&raw));
  std::unique_ptr<OrtKernelRegistry, RegistryDeleter> owned(raw);
  for (const Operator& op : kOperators) TUNABLEOP_RETURN_IF_ERROR(Register(op, provider_name, raw));
  *registry = owned.release();
  return Status::Ok();
}

}  // namespace tunableop
