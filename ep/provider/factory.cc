#include "provider/factory.h"

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "provider/gpu/allocators.h"
#include "provider/gpu/cards.h"
#include "provider/gpu/data_transfer.h"
#include "provider/gpu/ep_devices.h"
#include "provider/gpu/gpu_session.h"
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
  CreateAllocator = &CreateAllocatorImpl;
  ReleaseAllocator = &ReleaseAllocatorImpl;
  CreateDataTransfer = &CreateDataTransferImpl;  // called without a check for null
  IsStreamAware = &IsStreamAwareImpl;
}

Result<const OrtKernelRegistry*> Factory::Registry(bool for_card) {
  const std::lock_guard lock(registry_mutex_);
  OrtKernelRegistry*& registry = registries_[for_card ? 1 : 0];
  if (registry == nullptr) {
    TUNABLEOP_RETURN_IF_ERROR(MakeKernelRegistry(kProviderName, for_card, &registry));
  }
  return static_cast<const OrtKernelRegistry*>(registry);
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
    const std::span<const OrtHardwareDevice* const> hardware(devices, device_count);
    const std::span<OrtEpDevice*> room(ep_devices, max_ep_devices);
    // A provider that is asked for by name gets the first.
    TUNABLEOP_RETURN_IF_ERROR(OfferCards(*self, hardware, room, *ep_device_count));
    for (const OrtHardwareDevice* device : hardware) {
      if (*ep_device_count == room.size()) break;
      if (Ort().api->HardwareDevice_Type(device) != OrtHardwareDeviceType_CPU) continue;
      // No allocator is registered: ONNX Runtime's own CPU memory is used, and feeds are not
      // copied.
      TUNABLEOP_RETURN_IF_ORT_ERROR(
          Ort().ep_api->CreateEpDevice(self, device, nullptr, nullptr, &room[*ep_device_count]));
      ++*ep_device_count;
    }
    return Status::Ok();
  });
}

namespace {

bool CanCapture() noexcept { return Ort().Has(ort_since::OrtEp_IsGraphCaptureEnabled); }

Graphs::Limits GraphLimits(const Options& options, const Card& card) noexcept {
  constexpr size_t kShare = 4;  // of the card's memory
  if (!options.graphs || !CanCapture()) return {};
  const size_t bytes = options.graph_memory;
  return {options.max_graphs, bytes > 0 ? bytes : card.device()->info().memory_bytes / kShare};
}

}  // namespace

OrtStatus* Factory::CreateEpImpl(OrtEpFactory* self, const OrtHardwareDevice* const* /*devices*/,
                                 const OrtKeyValuePairs* const* metadata, size_t device_count,
                                 const OrtSessionOptions* session_options, const OrtLogger* logger,
                                 OrtEp** ep) noexcept {
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
    Result<Card*> card = ChooseCard({metadata, device_count}, options.value().device);
    if (!card.ok()) return card.TakeStatus();
    const bool on_card = card.value() != nullptr;
    Result<const OrtKernelRegistry*> registry = factory.Registry(on_card);
    if (!registry.ok()) return registry.TakeStatus();
    Result<Target> target =
        (on_card ? Target::Card(card.value()->gpu()) : Target::Cpu()).Restricted(options.value());
    if (!target.ok()) return target.TakeStatus();
    std::shared_ptr<GpuSession> gpu;
    if (on_card) {
      Result<std::shared_ptr<GpuSession>> made =
          GpuSession::Create(*card.value(), GraphLimits(options.value(), *card.value()));
      if (!made.ok()) return made.TakeStatus();
      gpu = std::move(made).value();
      card.value()->StartWarmUp();
    }
    const Log log = logger != nullptr ? Log(logger) : DefaultLog();
    auto state =
        std::make_shared<SessionState>(std::move(options).value(), log, std::move(target).value());
    if (state->options().graphs && !on_card) {
      state->NoteGraphs("there are no graphs: this session runs on the CPU");
    } else if (state->options().graphs && !CanCapture()) {
      state->NoteGraphs("there are no graphs: onnxruntime " + Ort().runtime_version +
                        " cannot capture them for a plugin provider; 1.26 or newer can");
    }
    if (!state->options().cache_path.empty()) {
      Status status = state->LoadOwnCache();
      if (!status.ok() && status.code() != StatusCode::kNotFound)
        log.Warning(std::string(status.message()));
    }
    *ep = new Provider(std::move(state), std::move(gpu), registry.value(), DefaultLog());
    return Status::Ok();
  });
}

void Factory::ReleaseEpImpl(OrtEpFactory* /*self*/, OrtEp* ep) noexcept {
  delete static_cast<Provider*>(ep);
}

OrtStatus* Factory::CreateAllocatorImpl(OrtEpFactory* /*self*/, const OrtMemoryInfo* info,
                                        const OrtKeyValuePairs* /*options*/,
                                        OrtAllocator** allocator) noexcept {
  *allocator = nullptr;
  return Guard([&]() -> Status {
    Result<std::span<const std::unique_ptr<Card>>> cards = Cards();
    if (!cards.ok()) return cards.TakeStatus();
    const OrtMemoryDevice* device = Ort().ep_api->MemoryInfo_GetMemoryDevice(info);
    for (const std::unique_ptr<Card>& card : cards.value()) {
      const bool host = card->HoldsHost(device);
      if (!host && !card->Holds(device, /*exactly=*/false)) continue;
      *allocator = MakeSharedAllocator(*card, host);
      return Status::Ok();
    }
    return {StatusCode::kInvalidArgument,
            "ONNX Runtime asked TunableOp for an allocator of memory that is no card's of its own"};
  });
}

void Factory::ReleaseAllocatorImpl(OrtEpFactory* /*self*/, OrtAllocator* allocator) noexcept {
  ReleaseAllocatorOfOurs(allocator);
}

OrtStatus* Factory::CreateDataTransferImpl(OrtEpFactory* /*self*/,
                                           OrtDataTransferImpl** transfer) noexcept {
  *transfer = nullptr;
  return Guard([&]() -> Status {
    Result<std::span<const std::unique_ptr<Card>>> cards = Cards();
    if (!cards.ok()) return cards.TakeStatus();
    if (!cards.value().empty()) *transfer = MakeDataTransfer();  // CPU memory needs none
    return Status::Ok();
  });
}

// Even where we have a stream: as the first stream-aware provider of a session ours would be what
// a stock GPU provider's kernels are given, which take it for one of their own and crash.
bool Factory::IsStreamAwareImpl(const OrtEpFactory* /*self*/) noexcept { return false; }

}  // namespace tunableop
