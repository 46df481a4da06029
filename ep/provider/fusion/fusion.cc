#include "provider/fusion/fusion.h"

#include <string>

namespace tunableop {
namespace {

size_t PlaceOf(const std::vector<ValueView>& values, std::string_view name) noexcept {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].present() && values[i].name == name) return i;
  }
  return FusedInfo::kAbsent;
}

}  // namespace

size_t FusedInfo::Input(std::string_view value) const noexcept {
  return PlaceOf(fused_.inputs(), value);
}

size_t FusedInfo::Output(std::string_view value) const noexcept {
  return PlaceOf(fused_.outputs(), value);
}

Status FusedKernel::Find(const FusedInfo& info, const char* family, const char* t0, const char* t1,
                         const char* entry, DeviceFunction* function) {
  Result<DeviceFunction> found = info.gpu()->card().kernels().Get(family, t0, t1, entry);
  if (!found.ok()) {
    return {found.status().code(), std::string(info.fusion().op.op) + ": " +
                                       std::string(found.status().message()) +
                                       "; with fused_groups=0 a session needs no such kernel"};
  }
  *function = std::move(found).value();
  return Status::Ok();
}

Status FusedKernel::Read(const OpContext& context, size_t input, DeviceTensor& tensor) {
  if (input == FusedInfo::kAbsent) return Status::Ok();
  Result<DeviceTensor> read = context.Input(input);
  if (!read.ok()) return read.TakeStatus();
  tensor = read.value();
  return Status::Ok();
}

Status FusedKernel::Make(const OpContext& context, size_t output, std::span<const int64_t> dims,
                         DeviceTensor& tensor) {
  if (output == FusedInfo::kAbsent) return Status::Ok();
  Result<DeviceTensor> made = context.Output(output, dims);
  if (!made.ok()) return made.TakeStatus();
  tensor = made.value();
  return Status::Ok();
}

Status FusedKernel::NotThePattern(const FusedInfo& info) {
  return {StatusCode::kInternal,
          std::string(info.fusion().op.op) + ": the group is not what it was claimed for"};
}

}  // namespace tunableop
