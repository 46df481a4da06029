// libhipblaslt: handles, descriptors, layouts, preferences.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "core/card.h"
#include "core/error.h"
#include "core/faults.h"
#include "core/flavour.h"
#include "core/graveyard.h"
#include "core/stream.h"
#include "hip/hipblaslt_types.h"

using simgpu::Attribute;
using simgpu::Checked;
using simgpu::HipHandle;
using simgpu::LtDescriptor;
using simgpu::LtLayout;
using simgpu::LtPreference;

namespace {

constexpr Attribute kLayout[] = {
    SIM_ATTRIBUTE(0, LtLayout, batch), SIM_ATTRIBUTE(1, LtLayout, batch_stride),
    SIM_ATTRIBUTE(2, LtLayout, type),  SIM_ATTRIBUTE(3, LtLayout, order),
    SIM_ATTRIBUTE(4, LtLayout, rows),  SIM_ATTRIBUTE(5, LtLayout, columns),
    SIM_ATTRIBUTE(6, LtLayout, ld),
};
constexpr Attribute kDescriptor[] = {
    SIM_ATTRIBUTE(0, LtDescriptor, trans_a),
    SIM_ATTRIBUTE(1, LtDescriptor, trans_b),
    SIM_ATTRIBUTE(2, LtDescriptor, epilogue),
    SIM_ATTRIBUTE(3, LtDescriptor, bias),
    SIM_ATTRIBUTE(4, LtDescriptor, bias_type),
    SIM_ATTRIBUTE(5, LtDescriptor, scales[0]),
    SIM_ATTRIBUTE(6, LtDescriptor, scales[1]),
    SIM_ATTRIBUTE(7, LtDescriptor, scales[2]),
    SIM_ATTRIBUTE(8, LtDescriptor, scales[3]),
    SIM_ATTRIBUTE(9, LtDescriptor, scales[4]),
    SIM_ATTRIBUTE(10, LtDescriptor, aux),
    SIM_ATTRIBUTE(11, LtDescriptor, aux_ld),
    SIM_ATTRIBUTE(12, LtDescriptor, aux_stride),
    SIM_ATTRIBUTE(13, LtDescriptor, pointer_mode),
    SIM_ATTRIBUTE(14, LtDescriptor, scales[5]),
    SIM_ATTRIBUTE(100, LtDescriptor, input_types[0]),
    SIM_ATTRIBUTE(101, LtDescriptor, input_types[1]),
};
// Since hipBLASLt 1.0.
constexpr Attribute kDescriptor1[] = {
    SIM_ATTRIBUTE(22, LtDescriptor, aux_type),
    SIM_ATTRIBUTE(23, LtDescriptor, bias_stride32),
    SIM_ATTRIBUTE(33, LtDescriptor, units),
    SIM_ATTRIBUTE(102, LtDescriptor, activation_arguments[0]),
    SIM_ATTRIBUTE(103, LtDescriptor, activation_arguments[1]),
};
// Before: other things under the same numbers.
constexpr Attribute kDescriptor0[] = {
    SIM_ATTRIBUTE(102, LtDescriptor, scales[0]),
    SIM_ATTRIBUTE(103, LtDescriptor, scales[1]),
};
constexpr Attribute kPreference[] = {
    SIM_ATTRIBUTE(0, LtPreference, search_mode),
    SIM_ATTRIBUTE(1, LtPreference, workspace),
    SIM_ATTRIBUTE(2, LtPreference, units),
};

hipblasStatus_t StatusOf(bool good) { return good ? kHipSuccess : kHipInvalidValue; }

std::span<const Attribute> DescriptorTable(int number) {
  if (simgpu::FindAttribute(kDescriptor, number) != nullptr) return kDescriptor;
  if (simgpu::ThisFlavour().rocm > 6) return kDescriptor1;
  return kDescriptor0;
}

}  // namespace

namespace simgpu {

hipblasStatus_t CheckHipHandle(void* handle) {
  const HipHandle* const typed = Checked<HipHandle>(handle);
  if (typed == nullptr) return kHipNotInitialized;
  if (Healthy() != Err::kOk) return kHipExecutionFailed;
  if (typed->ordinal == Current()) return kHipSuccess;
  Misuse("handle_of_another_card");
  return kHipInvalidValue;
}

}  // namespace simgpu

extern "C" {

SIM_API hipblasStatus_t hipblasLtCreate(void** handle) {
  if (handle == nullptr) return kHipInvalidValue;
  if (simgpu::Healthy() != simgpu::Err::kOk) return kHipNotInitialized;
  if (simgpu::FaultOn("no_handles")) return kHipNotInitialized;
  // It takes memory of the card.
  if (simgpu::ForbiddenInCapture() != simgpu::Err::kOk) return kHipNotInitialized;
  auto* const made = new HipHandle;
  made->ordinal = simgpu::Current();
  *handle = made;
  simgpu::Count("handles");
  return kHipSuccess;
}
SIM_API hipblasStatus_t hipblasLtDestroy(void* handle) {
  HipHandle* const typed = Checked<HipHandle>(handle);
  if (typed == nullptr) return kHipNotInitialized;
  static_cast<void>(simgpu::SynchronizeCard());
  typed->magic = 0;
  simgpu::Bury(std::shared_ptr<HipHandle>(typed));
  simgpu::Count("handles_destroyed");
  return kHipSuccess;
}

// major * 100000 + minor * 100 + patch
SIM_API hipblasStatus_t hipblasLtGetVersion(void* handle, int* version) {
  if (Checked<HipHandle>(handle) == nullptr) return kHipNotInitialized;
  *version =
      simgpu::FaultOn("old_library") ? 300 : static_cast<int>(simgpu::ThisFlavour().lt_version);
  return kHipSuccess;
}
SIM_API hipblasStatus_t hipblasLtGetGitRevision(void* handle, char* revision) {
  if (Checked<HipHandle>(handle) == nullptr) return kHipNotInitialized;
  std::snprintf(revision, 128, "%s%s", simgpu::ThisFlavour().lt_revision,
                simgpu::FaultOn("moved_indices") ? "-moved" : "");
  return kHipSuccess;
}
SIM_API hipblasStatus_t hipblasLtGetArchName(char** name) {
  static char arch[] = "gfx942";
  *name = arch;
  return kHipSuccess;
}

SIM_API hipblasStatus_t hipblasLtMatrixLayoutCreate(void** out, int type, uint64_t rows,
                                                    uint64_t columns, int64_t ld) {
  if (!simgpu::Make<LtLayout>(out)) return kHipInvalidValue;
  auto* const layout = static_cast<LtLayout*>(*out);
  layout->type = type;
  layout->rows = rows;
  layout->columns = columns;
  layout->ld = ld;
  return kHipSuccess;
}
SIM_API hipblasStatus_t hipblasLtMatrixLayoutDestroy(void* layout) {
  return StatusOf(simgpu::Destroy<LtLayout>(layout));
}
SIM_API hipblasStatus_t hipblasLtMatrixLayoutSetAttribute(void* layout, int number,
                                                          const void* from, size_t size) {
  return StatusOf(simgpu::SetIn<LtLayout>(layout, kLayout, number, from, size));
}
SIM_API hipblasStatus_t hipblasLtMatrixLayoutGetAttribute(const void* layout, int number, void* to,
                                                          size_t size, size_t* written) {
  return StatusOf(simgpu::GetFrom<LtLayout>(layout, kLayout, number, to, size, written));
}

SIM_API hipblasStatus_t hipblasLtMatmulDescCreate(void** out, int compute, int scale_type) {
  if (!simgpu::Make<LtDescriptor>(out)) return kHipInvalidValue;
  auto* const descriptor = static_cast<LtDescriptor*>(*out);
  descriptor->compute = compute;
  descriptor->scale_type = scale_type;
  descriptor->trans_a = kHipOpN;
  descriptor->trans_b = kHipOpN;
  return kHipSuccess;
}
SIM_API hipblasStatus_t hipblasLtMatmulDescDestroy(void* descriptor) {
  return StatusOf(simgpu::Destroy<LtDescriptor>(descriptor));
}
SIM_API hipblasStatus_t hipblasLtMatmulDescSetAttribute(void* descriptor, int number,
                                                        const void* from, size_t size) {
  if (simgpu::ThisFlavour().rocm == 6 && (number == 102 || number == 103)) {
    simgpu::Misuse("attribute_102_103");
  }
  return StatusOf(
      simgpu::SetIn<LtDescriptor>(descriptor, DescriptorTable(number), number, from, size));
}
SIM_API hipblasStatus_t hipblasLtMatmulDescGetAttribute(const void* descriptor, int number,
                                                        void* to, size_t size, size_t* written) {
  return StatusOf(simgpu::GetFrom<LtDescriptor>(descriptor, DescriptorTable(number), number, to,
                                                size, written));
}

SIM_API hipblasStatus_t hipblasLtMatmulPreferenceCreate(void** out) {
  return StatusOf(simgpu::Make<LtPreference>(out));
}
SIM_API hipblasStatus_t hipblasLtMatmulPreferenceDestroy(void* preference) {
  return StatusOf(simgpu::Destroy<LtPreference>(preference));
}
SIM_API hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(void* preference, int number,
                                                              const void* from, size_t size) {
  return StatusOf(simgpu::SetIn<LtPreference>(preference, kPreference, number, from, size));
}

}  // extern "C"
