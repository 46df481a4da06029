// libcublasLt: handles, descriptors, layouts, preferences.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "core/attributes.h"
#include "core/card.h"
#include "core/error.h"
#include "core/faults.h"
#include "core/flavour.h"
#include "core/graveyard.h"
#include "core/lt_objects.h"
#include "core/stream.h"
#include "cuda/cublaslt_algos.h"

using simgpu::Attribute;
using simgpu::Checked;
using simgpu::kInvalidValue;
using simgpu::kNotInitialized;
using simgpu::kSuccess;
using simgpu::LtDescriptor;
using simgpu::LtHandle;
using simgpu::LtLayout;
using simgpu::LtPreference;

namespace {

constexpr Attribute kLayout[] = {
    SIM_ATTRIBUTE(0, LtLayout, type),         SIM_ATTRIBUTE(1, LtLayout, order),
    SIM_ATTRIBUTE(2, LtLayout, rows),         SIM_ATTRIBUTE(3, LtLayout, columns),
    SIM_ATTRIBUTE(4, LtLayout, ld),           SIM_ATTRIBUTE(5, LtLayout, batch),
    SIM_ATTRIBUTE(6, LtLayout, batch_stride), SIM_ATTRIBUTE(7, LtLayout, plane_offset),
};
constexpr Attribute kDescriptor[] = {
    SIM_ATTRIBUTE(0, LtDescriptor, compute),
    SIM_ATTRIBUTE(1, LtDescriptor, scale_type),
    SIM_ATTRIBUTE(2, LtDescriptor, pointer_mode),
    SIM_ATTRIBUTE(3, LtDescriptor, trans_a),
    SIM_ATTRIBUTE(4, LtDescriptor, trans_b),
    SIM_ATTRIBUTE(5, LtDescriptor, trans_c),
    SIM_ATTRIBUTE(6, LtDescriptor, fill_mode),
    SIM_ATTRIBUTE(7, LtDescriptor, epilogue),
    SIM_ATTRIBUTE(8, LtDescriptor, bias),
    SIM_ATTRIBUTE(10, LtDescriptor, bias_stride),
    SIM_ATTRIBUTE(11, LtDescriptor, aux),
    SIM_ATTRIBUTE(12, LtDescriptor, aux_ld),
    SIM_ATTRIBUTE(13, LtDescriptor, aux_stride),
    SIM_ATTRIBUTE(15, LtDescriptor, units),
    SIM_ATTRIBUTE(17, LtDescriptor, scales[0]),
    SIM_ATTRIBUTE(18, LtDescriptor, scales[1]),
    SIM_ATTRIBUTE(19, LtDescriptor, scales[2]),
    SIM_ATTRIBUTE(20, LtDescriptor, scales[3]),
    SIM_ATTRIBUTE(22, LtDescriptor, aux_type),
    SIM_ATTRIBUTE(25, LtDescriptor, fast_accumulation),
    SIM_ATTRIBUTE(26, LtDescriptor, bias_type),
};
constexpr Attribute kPreference[] = {
    SIM_ATTRIBUTE(0, LtPreference, search_mode),      SIM_ATTRIBUTE(1, LtPreference, workspace),
    SIM_ATTRIBUTE(3, LtPreference, reductions),       SIM_ATTRIBUTE(5, LtPreference, alignment[0]),
    SIM_ATTRIBUTE(6, LtPreference, alignment[1]),     SIM_ATTRIBUTE(7, LtPreference, alignment[2]),
    SIM_ATTRIBUTE(8, LtPreference, alignment[3]),     SIM_ATTRIBUTE(9, LtPreference, waves),
    SIM_ATTRIBUTE(12, LtPreference, implementations),
};

// A transform's operations are in trans_a and trans_b.
constexpr Attribute kTransform[] = {
    SIM_ATTRIBUTE(0, LtDescriptor, scale_type), SIM_ATTRIBUTE(1, LtDescriptor, pointer_mode),
    SIM_ATTRIBUTE(2, LtDescriptor, trans_a), SIM_ATTRIBUTE(3, LtDescriptor, trans_b)};

int StatusOf(bool good) { return good ? kSuccess : kInvalidValue; }

long Version() {
  return simgpu::FaultOn("old_library") ? 110000 : simgpu::ThisFlavour().lt_version;
}

}  // namespace

extern "C" {

SIM_API int cublasLtCreate(void** handle) {
  if (handle == nullptr) return kInvalidValue;
  if (simgpu::Healthy() != simgpu::Err::kOk) return kNotInitialized;
  if (simgpu::FaultOn("no_handles")) return kNotInitialized;
  // It takes memory of the card.
  if (simgpu::ForbiddenInCapture() != simgpu::Err::kOk) return kNotInitialized;
  auto* const made = new LtHandle;
  made->ordinal = simgpu::Current();
  *handle = made;
  simgpu::Count("handles");
  return kSuccess;
}

SIM_API int cublasLtDestroy(void* handle) {
  LtHandle* const typed = Checked<LtHandle>(handle);
  if (typed == nullptr) return kNotInitialized;
  typed->magic = 0;
  simgpu::Bury(std::shared_ptr<LtHandle>(typed));
  simgpu::Count("handles_destroyed");
  return kSuccess;
}

// 130100 is 13.1.0; of 12 and before, 120804 is 12.8.4.
SIM_API size_t cublasLtGetVersion() { return static_cast<size_t>(Version()); }
SIM_API size_t cublasLtGetCudartVersion() {
  return static_cast<size_t>(simgpu::ThisFlavour().runtime_version);
}
SIM_API int cublasLtGetProperty(int type, int* value) {
  const auto version = static_cast<int>(Version());
  switch (type) {
    case 0:
      *value = version / 10000;
      return kSuccess;
    case 1:
      *value = version / 100 % 100;
      return kSuccess;
    case 2:
      *value = version % 100;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}
SIM_API int cublasLtHeuristicsCacheGetCapacity(size_t* capacity) {
  *capacity = 8192;
  return kSuccess;
}
SIM_API int cublasLtHeuristicsCacheSetCapacity(size_t) { return kSuccess; }
SIM_API unsigned cublasLtDisableCpuInstructionsSetMask(unsigned) { return 0; }

SIM_API const char* cublasLtGetStatusName(int status) {
  switch (status) {
    case 0:
      return "CUBLAS_STATUS_SUCCESS";
    case 1:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case 3:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case 7:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case 8:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case 11:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case 13:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 14:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case 15:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case 16:
      return "CUBLAS_STATUS_LICENSE_ERROR";
    default:
      return "CUBLAS_STATUS_UNKNOWN";
  }
}
SIM_API const char* cublasLtGetStatusString(int status) { return cublasLtGetStatusName(status); }

SIM_API int cublasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t columns,
                                       int64_t ld) {
  if (!simgpu::Make<LtLayout>(out)) return kInvalidValue;
  auto* const layout = static_cast<LtLayout*>(*out);
  layout->type = type;
  layout->rows = rows;
  layout->columns = columns;
  layout->ld = ld;
  return kSuccess;
}
SIM_API int cublasLtMatrixLayoutDestroy(void* layout) {
  return StatusOf(simgpu::Destroy<LtLayout>(layout));
}
SIM_API int cublasLtMatrixLayoutSetAttribute(void* layout, int number, const void* from,
                                             size_t size) {
  return StatusOf(simgpu::SetIn<LtLayout>(layout, kLayout, number, from, size));
}
SIM_API int cublasLtMatrixLayoutGetAttribute(const void* layout, int number, void* to, size_t size,
                                             size_t* written) {
  return StatusOf(simgpu::GetFrom<LtLayout>(layout, kLayout, number, to, size, written));
}

SIM_API int cublasLtMatmulDescCreate(void** out, int compute, int scale_type) {
  if (!simgpu::Make<LtDescriptor>(out)) return kInvalidValue;
  auto* const descriptor = static_cast<LtDescriptor*>(*out);
  descriptor->compute = compute;
  descriptor->scale_type = scale_type;
  return kSuccess;
}
SIM_API int cublasLtMatmulDescDestroy(void* descriptor) {
  return StatusOf(simgpu::Destroy<LtDescriptor>(descriptor));
}
SIM_API int cublasLtMatmulDescSetAttribute(void* descriptor, int number, const void* from,
                                           size_t size) {
  return StatusOf(simgpu::SetIn<LtDescriptor>(descriptor, kDescriptor, number, from, size));
}
SIM_API int cublasLtMatmulDescGetAttribute(const void* descriptor, int number, void* to,
                                           size_t size, size_t* written) {
  return StatusOf(
      simgpu::GetFrom<LtDescriptor>(descriptor, kDescriptor, number, to, size, written));
}

SIM_API int cublasLtMatmulPreferenceCreate(void** out) {
  return StatusOf(simgpu::Make<LtPreference>(out));
}
SIM_API int cublasLtMatmulPreferenceDestroy(void* preference) {
  return StatusOf(simgpu::Destroy<LtPreference>(preference));
}
SIM_API int cublasLtMatmulPreferenceSetAttribute(void* preference, int number, const void* from,
                                                 size_t size) {
  return StatusOf(simgpu::SetIn<LtPreference>(preference, kPreference, number, from, size));
}
SIM_API int cublasLtMatmulPreferenceGetAttribute(const void* preference, int number, void* to,
                                                 size_t size, size_t* written) {
  return StatusOf(
      simgpu::GetFrom<LtPreference>(preference, kPreference, number, to, size, written));
}

SIM_API int cublasLtMatrixTransformDescCreate(void** out, int scale_type) {
  if (!simgpu::Make<LtDescriptor>(out)) return kInvalidValue;
  static_cast<LtDescriptor*>(*out)->scale_type = scale_type;
  return kSuccess;
}
SIM_API int cublasLtMatrixTransformDescDestroy(void* descriptor) {
  return StatusOf(simgpu::Destroy<LtDescriptor>(descriptor));
}
SIM_API int cublasLtMatrixTransformDescSetAttribute(void* descriptor, int number, const void* from,
                                                    size_t size) {
  return StatusOf(simgpu::SetIn<LtDescriptor>(descriptor, kTransform, number, from, size));
}
SIM_API int cublasLtMatrixTransformDescGetAttribute(const void* descriptor, int number, void* to,
                                                    size_t size, size_t* written) {
  return StatusOf(simgpu::GetFrom<LtDescriptor>(descriptor, kTransform, number, to, size, written));
}

}  // extern "C"
