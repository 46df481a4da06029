#include "provider/gpu/cards.h"

#include <algorithm>
#include <string>

#include "backends/rtc/code_cache.h"
#include "backends/rtc/kernel_library.h"
#include "gemm/device_memory.h"
#include "kernels/sources.h"
#include "provider/gpu/memory_pool.h"
#include "provider/log.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

constexpr size_t kAlignment = 256;

// Of WarmUp.
constexpr size_t kContextStep = 0;   // the runtime makes one at the first call that needs it
constexpr size_t kCompilerStep = 1;  // its library is found and loaded
constexpr size_t kTypeSteps = 2;     // and further: + DataType

Result<OrtMemoryInfo*> MakeMemoryInfo(const char* name, const Device& device,
                                      OrtDeviceMemoryType type, size_t alignment) {
  OrtMemoryInfo* info = nullptr;
  TUNABLEOP_RETURN_IF_ORT_ERROR(
      Ort().api->CreateMemoryInfo_V2(name, OrtMemoryInfoDeviceType_GPU, device.vendor_id(),
                                     device.ordinal(), type, alignment, OrtDeviceAllocator, &info));
  return info;
}

// A product that every library which has the type at all has a kernel for.
Problem Plain(DataType type) {
  constexpr int64_t kSize = 64;
  Problem problem;
  problem.m = problem.n = problem.k = kSize;
  problem.lda = problem.ldb = problem.ldc = kSize;
  problem.a_type = problem.b_type = problem.c_type = type;
  problem.align_a = problem.align_b = problem.align_c = kMaxAlignmentLog2;
  problem.threads = 0;
  return problem;
}

struct CardList {
  std::vector<std::unique_ptr<Card>> cards;
  Status status;
};

CardList MakeCards() {
  CardList list;
  for (const Gpu& gpu : Gpus()) {
    if (gpu.backends.empty()) continue;
    Result<std::unique_ptr<Card>> card = Card::Create(gpu);
    if (!card.ok()) {
      list.status = card.TakeStatus();
      return list;
    }
    list.cards.push_back(std::move(card).value());
  }
  return list;
}

const CardList& TheCards() {
  static const auto& list = *new CardList(MakeCards());  // see Card
  // Nothing may be asked of the libraries while they end with the process. Made behind what they
  // were loaded by, so that it goes before they do.
  static const struct Ending {
    ~Ending() {
      for (const std::unique_ptr<Card>& card : list.cards) card->EndWarmUp();
    }
  } ending;
  return list;
}

}  // namespace

bool HasStockGpu() noexcept {
  static const bool has = [] {
    char** names = nullptr;
    int count = 0;
    if (!FromOrt(Ort().api->GetAvailableProviders(&names, &count)).ok()) return false;
    bool found = false;
    for (int i = 0; i < count; ++i) {
      const std::string_view name(names[i]);
      found = found || name == "CUDAExecutionProvider" || name == "ROCMExecutionProvider" ||
              name == "MIGraphXExecutionProvider";
    }
    static_cast<void>(FromOrt(Ort().api->ReleaseAvailableProviders(names, count)));
    return found;
  }();
  return has;
}

Result<std::unique_ptr<Card>> Card::Create(const Gpu& gpu) {
  std::unique_ptr<Card> card(new Card(gpu));
  const size_t alignment = HasStockGpu() ? kAlignment : 0;
  Result<OrtMemoryInfo*> memory =
      MakeMemoryInfo("TunableOp", *gpu.device, OrtDeviceMemoryType_DEFAULT, alignment);
  if (!memory.ok()) return memory.TakeStatus();
  card->memory_ = memory.value();
  Result<OrtMemoryInfo*> host =
      MakeMemoryInfo("TunableOpHost", *gpu.device, OrtDeviceMemoryType_HOST_ACCESSIBLE, alignment);
  if (!host.ok()) return host.TakeStatus();
  card->host_memory_ = host.value();
  return card;
}

Card::Card(const Gpu& gpu) : gpu_(gpu), warm_up_([this](size_t step) { DoWarmUp(step); }) {}
Card::~Card() = default;

KernelLibrary& Card::kernels() {
  std::call_once(kernels_made_, [this] {
    const auto log = [](bool warning, const std::string& line) {
      const Log to = DefaultLog();
      warning ? to.Warning(line) : to.Info(line);
    };
    Result<std::string> folder = CodeCache::DefaultFolder();
    kernels_ = std::make_unique<KernelLibrary>(
        device(), KernelLibrary::Settings{
                      .source = &device::KernelSource,
                      .folder = folder.ok() ? folder.value() : "",
                      .why_no_folder = folder.ok() ? "" : std::string(folder.status().message()),
                      .log = log});
  });
  return *kernels_;
}

std::string Card::Name() const {
  return std::string(device()->backend()) + ":" + std::to_string(device()->ordinal());
}

bool Card::Holds(const OrtMemoryDevice* memory_device, bool exactly) const noexcept {
  const OrtEpApi& api = *Ort().ep_api;
  if (exactly) {
    return api.MemoryDevice_AreEqual(memory_device, api.MemoryInfo_GetMemoryDevice(memory_));
  }
  return api.MemoryDevice_GetDeviceType(memory_device) == OrtMemoryInfoDeviceType_GPU &&
         api.MemoryDevice_GetMemoryType(memory_device) == OrtDeviceMemoryType_DEFAULT &&
         api.MemoryDevice_GetVendorId(memory_device) == device()->vendor_id() &&
         api.MemoryDevice_GetDeviceId(memory_device) == static_cast<uint32_t>(device()->ordinal());
}

bool Card::HoldsHost(const OrtMemoryDevice* memory_device) const noexcept {
  const OrtEpApi& api = *Ort().ep_api;
  return api.MemoryDevice_AreEqual(memory_device, api.MemoryInfo_GetMemoryDevice(host_memory_));
}

Result<const OrtHardwareDevice*> Card::MakeHardwareDevice() {
  const std::lock_guard lock(mutex_);
  if (hardware_device_ == nullptr) {
    OrtKeyValuePairs* metadata = nullptr;
    Ort().api->CreateKeyValuePairs(&metadata);
    const OwnedKeyValuePairs owned(metadata);
    const DeviceInfo& info = device()->info();
    if (!info.pci_bus_id.empty()) {
      Ort().api->AddKeyValuePair(metadata, "pci_bus_id", info.pci_bus_id.c_str());
    }
    const char* vendor = device()->vendor_id() == 0x10DE ? "NVIDIA" : "AMD";
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().ep_api->CreateHardwareDevice(
        OrtHardwareDeviceType_GPU, device()->vendor_id(),
        static_cast<uint32_t>(device()->ordinal()), vendor, metadata, &hardware_device_));
  }
  return static_cast<const OrtHardwareDevice*>(hardware_device_);
}

bool Card::AskLibraries(DataType type) const {
  return std::any_of(gpu_.backends.begin(), gpu_.backends.end(), [type](const auto& backend) {
    return !backend->Candidates(Plain(type), CandidateScope::kDefault).empty();
  });
}

bool Card::Runs(DataType type) {
  for (const std::shared_ptr<const Backend>& backend : gpu_.backends) {
    if (!backend->KnownToRun(type).value_or(false)) continue;
    warm_up_.Ask(kTypeSteps + static_cast<size_t>(type));
    return true;
  }
  const std::lock_guard lock(mutex_);
  const uint32_t bit = 1U << static_cast<uint32_t>(type);
  if ((types_ & bit) == 0 && AskLibraries(type)) types_ |= bit;
  return (types_ & bit) != 0;
}

void Card::StartWarmUp() noexcept {
  warm_up_.Ask(kContextStep);
  warm_up_.Ask(kCompilerStep);
}

void Card::DoWarmUp(size_t step) {
  if (step == kContextStep) {
    static_cast<void>(DeviceStream::Create(device()));
  } else if (step == kCompilerStep) {
    static_cast<void>(kernels().Available());
  } else {
    AskLibraries(static_cast<DataType>(step - kTypeSteps));
  }
}

void Card::Add(MemoryPool* pool) {
  const std::lock_guard lock(pools_mutex_);
  pools_.push_back(pool);
}

void Card::Remove(MemoryPool* pool) noexcept {
  const std::lock_guard lock(pools_mutex_);
  std::erase(pools_, pool);
}

size_t Card::TrimAll() noexcept {
  const std::lock_guard lock(pools_mutex_);
  size_t bytes = 0;
  for (MemoryPool* pool : pools_) bytes += pool->Trim();
  return bytes;
}

std::string Card::WhyNoMemory() {
  const std::lock_guard lock(pools_mutex_);
  std::string why;
  for (const MemoryPool* pool : pools_) {
    if (std::string failure = pool->LastFailure(); !failure.empty()) why = std::move(failure);
  }
  return why;
}

Result<Card::Order> Card::OrderOf(const void* memory) {
  {
    const std::lock_guard lock(pools_mutex_);
    for (MemoryPool* pool : pools_) {
      NativeStream stream = nullptr;
      Status status;
      if (!pool->OrderOf(memory, stream, status)) continue;
      if (!status.ok()) return status;
      return Order{stream, pool->streams()->alone() && stream == pool->streams()->own()};
    }
  }
  TUNABLEOP_RETURN_IF_ERROR(SynchronizeAll());
  return Order{};
}

Status Card::SynchronizeAll() {
  std::vector<std::shared_ptr<StreamQueues>> sessions;
  {
    const std::lock_guard lock(pools_mutex_);
    for (MemoryPool* pool : pools_) {
      // A session's pools are made one after the other.
      if (sessions.empty() || sessions.back() != pool->streams()) {
        sessions.push_back(pool->streams());
      }
    }
  }
  for (const std::shared_ptr<StreamQueues>& streams : sessions) {
    TUNABLEOP_RETURN_IF_ERROR(streams->SynchronizeOwn());
    TUNABLEOP_RETURN_IF_ERROR(streams->SynchronizeForeign());
  }
  return Status::Ok();
}

Result<std::span<const std::unique_ptr<Card>>> Cards() {
  const CardList& list = TheCards();
  if (!list.status.ok()) {
    return Status(list.status.code(), std::string(list.status.message()));
  }
  return std::span<const std::unique_ptr<Card>>(list.cards);
}

Card* FindCard(std::string_view backend, int ordinal) noexcept {
  for (const std::unique_ptr<Card>& card : TheCards().cards) {
    if (card->device()->backend() == backend && card->device()->ordinal() == ordinal) {
      return card.get();
    }
  }
  return nullptr;
}

}  // namespace tunableop
