#include "provider/factory.h"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "provider/guard.h"
#include "provider/kernel_registry.h"
#include "provider/options.h"
#include "provider/ort_runtime.h"
#include "provider/provider.h"
#include "provider/stock_session.h"

namespace tunableop {
namespace {

// The entries "ep.tunableopexecutionprovider.<key>" of a session's configuration, without the
// prefix.
Result<Options> ReadOptions(const OrtSessionOptions* session_options) {
  OrtKeyValuePairs* raw = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetSessionOptionsConfigEntries(session_options, &raw));
  const OwnedKeyValuePairs entries(raw);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  Ort().api->GetKeyValuePairs(entries.get(), &keys, &values, &count);
  constexpr std::string_view kPrefix = kOptionPrefix;
  std::vector<std::pair<std::string, std::string>> pairs;
  for (size_t i = 0; i < count; ++i) {
    std::string_view key(keys[i]);
    if (!key.starts_with(kPrefix)) continue;
    key.remove_prefix(kPrefix.size());
    pairs.emplace_back(key, values[i]);
  }
  return ParseOptions(pairs);
}

}  // namespace

Factory::Factory() : OrtEpFactory{} {
  ort_version_supported = Ort().version;
  GetName = &GetNameImpl;
  GetVendor = &GetVendorImpl;
  GetVendorId = &GetVendorIdImpl;
  GetVersion = &GetVersionImpl;
  GetSupportedDevices = &GetSupportedDevicesImpl;
  CreateEp = &CreateEpImpl;
  ReleaseEp = &ReleaseEpImpl;
  CreateDataTransfer = &CreateDataTransferImpl;  // called without a check for null
  IsStreamAware = &IsStreamAwareImpl;
}

Result<const OrtKernelRegistry*> Factory::Registry() {
  const std::lock_guard lock(registry_mutex_);
  if (registry_ == nullptr)
    TUNABLEOP_RETURN_IF_ERROR(MakeKernelRegistry(kProviderName, &registry_));
  return static_cast<const OrtKernelRegistry*>(registry_);
}

const char* Factory::GetNameImpl(const OrtEpFactory* /*self*/) noexcept { return kProviderName; }
const char* Factory::GetVendorImpl(const OrtEpFactory* /*self*/) noexcept {
  return "onnxruntime-ep-tunableop";
}
uint32_t Factory::GetVendorIdImpl(const OrtEpFactory* /*self*/) noexcept { return 0; }
const char* Factory::GetVersionImpl(const OrtEpFactory* /*self*/) noexcept {
  return TUNABLEOP_VERSION;
}

OrtStatus* Factory::GetSupportedDevicesImpl(OrtEpFactory* self,
                                            const OrtHardwareDevice* const* devices,
                                            size_t device_count, OrtEpDevice** ep_devices,
                                            size_t max_ep_devices,
                                            size_t* ep_device_count) noexcept {
  *ep_device_count = 0;
  return Guard([&]() -> Status {
    for (size_t i = 0; i < device_count && *ep_device_count < max_ep_devices; ++i) {
      if (Ort().api->HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
      // No allocator is registered: ONNX Runtime's own CPU memory is used, and feeds are not
      // copied.
      TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->CreateEpDevice(self, devices[i], nullptr, nullptr,
                                                                 &ep_devices[*ep_device_count]));
      ++*ep_device_count;
    }
    return Status::Ok();
  });
}

OrtStatus* Factory::CreateEpImpl(OrtEpFactory* self, const OrtHardwareDevice* const* /*devices*/,
                                 const OrtKeyValuePairs* const* /*metadata*/,
                                 size_t /*device_count*/, const OrtSessionOptions* session_options,
                                 const OrtLogger* logger, OrtEp** ep) noexcept {
  *ep = nullptr;
  return Guard([&]() -> Status {
    auto& factory = *static_cast<Factory*>(self);
    if (StockSession::IsBeingMade()) {
      return {StatusCode::kInternal,
              "ONNX Runtime gave TunableOp a session that is to measure the "
              "stock provider"};
    }
    Result<Options> options = ReadOptions(session_options);
    if (!options.ok()) return options.TakeStatus();
    Result<const OrtKernelRegistry*> registry = factory.Registry();
    if (!registry.ok()) return registry.TakeStatus();
    const Log log(logger != nullptr ? logger : factory.default_logger_.load());
    if (options.value().device.kind == DeviceChoice::Kind::kCuda ||
        options.value().device.kind == DeviceChoice::Kind::kHip) {
      return {StatusCode::kInvalidArgument,
              std::string("TunableOp option 'device': expected auto or cpu, for ONNX Runtime gave "
                          "this session the CPU, found '") +
                  (options.value().device.kind == DeviceChoice::Kind::kCuda ? "cuda" : "hip") +
                  "'"};
    }
    Result<Target> target = Target::Cpu().Restricted(options.value());
    if (!target.ok()) return target.TakeStatus();
    auto state =
        std::make_shared<SessionState>(std::move(options).value(), log, std::move(target).value());
    if (!state->options().cache_path.empty()) {
      Status status = state->LoadOwnCache();
      if (!status.ok() && status.code() != StatusCode::kNotFound)
        log.Warning(std::string(status.message()));
    }
    *ep = new Provider(std::move(state), registry.value(), Log(factory.default_logger_.load()));
    return Status::Ok();
  });
}

void Factory::ReleaseEpImpl(OrtEpFactory* /*self*/, OrtEp* ep) noexcept {
  delete static_cast<Provider*>(ep);
}

OrtStatus* Factory::CreateDataTransferImpl(OrtEpFactory* /*self*/,
                                           OrtDataTransferImpl** transfer) noexcept {
  *transfer = nullptr;  // CPU memory needs none
  return nullptr;
}

bool Factory::IsStreamAwareImpl(const OrtEpFactory* /*self*/) noexcept { return false; }

}  // namespace tunableop
