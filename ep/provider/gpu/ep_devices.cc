#include "provider/gpu/ep_devices.h"

#include <cctype>
#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "provider/ort_runtime.h"
#include "provider/per_process.h"

namespace tunableop {
namespace {

constexpr const char* kBackendKey = "backend";
constexpr const char* kDeviceKey = "device_id";

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// The card among ONNX Runtime's devices: by its place on the bus, where that is known, else by its
// number among the GPUs of its vendor. Null: not listed.
const OrtHardwareDevice* FindHardware(const Card& card,
                                      std::span<const OrtHardwareDevice* const> hardware) {
  const OrtApi& api = *Ort().api;
  const Device& device = *card.device();
  int number = 0;
  const OrtHardwareDevice* by_number = nullptr;
  bool places_known = false;
  for (const OrtHardwareDevice* candidate : hardware) {
    if (api.HardwareDevice_Type(candidate) != OrtHardwareDeviceType_GPU ||
        api.HardwareDevice_VendorId(candidate) != device.vendor_id()) {
      continue;
    }
    const char* place = api.GetKeyValue(api.HardwareDevice_Metadata(candidate), "pci_bus_id");
    if (place != nullptr) {
      places_known = true;
      if (Lower(place) == device.info().pci_bus_id) return candidate;
    }
    if (number++ == device.ordinal()) by_number = candidate;
  }
  return places_known && !device.info().pci_bus_id.empty() ? nullptr : by_number;
}

OwnedKeyValuePairs MetadataOf(const Card& card) {
  OrtKeyValuePairs* pairs = nullptr;
  Ort().api->CreateKeyValuePairs(&pairs);
  OwnedKeyValuePairs owned(pairs);
  const Device& device = *card.device();
  const auto add = [pairs](const char* key, const std::string& value) {
    Ort().api->AddKeyValuePair(pairs, key, value.c_str());
  };
  add(kBackendKey, std::string(device.backend()));
  add(kDeviceKey, std::to_string(device.ordinal()));
  add("name", device.info().name);
  add("arch", device.info().arch);
  return owned;
}

// Null: the device is not a card.
Card* CardOf(const OrtKeyValuePairs* metadata) {
  if (metadata == nullptr) return nullptr;
  const char* backend = Ort().api->GetKeyValue(metadata, kBackendKey);
  const char* id = Ort().api->GetKeyValue(metadata, kDeviceKey);
  if (backend == nullptr || id == nullptr) return nullptr;
  int ordinal = -1;
  std::from_chars(id, id + std::strlen(id), ordinal);
  return FindCard(backend, ordinal);
}

std::string Text(const DeviceChoice& choice) {
  std::string text = choice.kind == DeviceChoice::Kind::kCpu    ? "cpu"
                     : choice.kind == DeviceChoice::Kind::kCuda ? "cuda"
                     : choice.kind == DeviceChoice::Kind::kHip  ? "hip"
                                                                : "auto";
  if (choice.id >= 0) text += ":" + std::to_string(choice.id);
  return text;
}

bool Fits(const DeviceChoice& choice, const Card* given) {
  switch (choice.kind) {
    case DeviceChoice::Kind::kAuto:
      return true;
    case DeviceChoice::Kind::kCpu:
      return given == nullptr;
    default:
      break;
  }
  const char* backend = choice.kind == DeviceChoice::Kind::kCuda ? "cuda" : "hip";
  return given != nullptr && given->device()->backend() == backend &&
         (choice.id < 0 || choice.id == given->device()->ordinal());
}

// Whether there is what the option asks for; if not, why.
bool Exists(const DeviceChoice& choice, std::string& why) {
  if (choice.kind == DeviceChoice::Kind::kCpu || choice.kind == DeviceChoice::Kind::kAuto) {
    return true;
  }
  const bool cuda = choice.kind == DeviceChoice::Kind::kCuda;
  const std::string_view backend = cuda ? "cuda" : "hip";
  std::string here;
  for (const Gpu& gpu : Gpus()) {
    if (gpu.device->backend() != backend) continue;
    const std::string name = std::string(backend) + ":" + std::to_string(gpu.device->ordinal());
    const bool asked = choice.id < 0 || choice.id == gpu.device->ordinal();
    if (asked) {
      const std::string unusable = WhyUnusable(gpu);
      if (unusable.empty()) return true;
      why += (why.empty() ? "" : "; ") + name + " cannot be used: " + unusable;
    }
    here += (here.empty() ? "" : ", ") + name + " (" + gpu.device->info().name + ")";
  }
  if (!why.empty()) return false;
  if (!here.empty()) {
    why = "this machine has " + here;
    return false;
  }
  for (const LibraryState& library : GpuLibraries()) {
    const bool of_cuda = library.library.starts_with("libcu");
    if (library.available || of_cuda != cuda) continue;
    why = library.library + ": " + library.reason;
    break;  // the runtime; without it the others are not looked for
  }
  if (why.empty()) why = "its runtime sees no card";
  return false;
}

}  // namespace

Status OfferCards(OrtEpFactory& factory, std::span<const OrtHardwareDevice* const> hardware,
                  std::span<OrtEpDevice*> ep_devices, size_t& count) {
  Result<std::span<const std::unique_ptr<Card>>> cards = Cards();
  if (!cards.ok()) return cards.TakeStatus();
  for (const std::unique_ptr<Card>& card : cards.value()) {
    if (count == ep_devices.size()) break;
    const OrtHardwareDevice* device = FindHardware(*card, hardware);
    if (device == nullptr) {
      Result<const OrtHardwareDevice*> made = card->MakeHardwareDevice();
      if (!made.ok()) return made.TakeStatus();
      device = made.value();
    }
    const OwnedKeyValuePairs metadata = MetadataOf(*card);
    OrtEpDevice* ep_device = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(
        Ort().ep_api->CreateEpDevice(&factory, device, metadata.get(), nullptr, &ep_device));
    ep_devices[count++] = ep_device;  // ONNX Runtime's, from here on
    TUNABLEOP_RETURN_IF_ORT_ERROR(
        Ort().ep_api->EpDevice_AddAllocatorInfo(ep_device, card->memory()));
    TUNABLEOP_RETURN_IF_ORT_ERROR(
        Ort().ep_api->EpDevice_AddAllocatorInfo(ep_device, card->host_memory()));
  }
  return Status::Ok();
}

Result<Card*> ChooseCard(std::span<const OrtKeyValuePairs* const> metadata,
                         const DeviceChoice& choice) {
  constexpr const char* kHow =
      "; use tunableop.InferenceSession(..., device=...) or tunableop.session_options(device=...), "
      "which pass ONNX Runtime the right device, or SessionOptions.add_provider_for_devices with "
      "the one of onnxruntime.get_ep_devices() that is meant";
  std::string given;
  for (const OrtKeyValuePairs* pairs : metadata) {
    const Card* card = CardOf(pairs);
    given += (given.empty() ? "" : ", ") + (card != nullptr ? card->Name() : std::string("cpu"));
  }
  if (metadata.size() != 1) {
    return Status(StatusCode::kInvalidArgument,
                  "TunableOp runs a session on one device, and was given " +
                      (given.empty() ? "none" : given) + kHow);
  }
  Card* card = CardOf(metadata[0]);
  if (!Fits(choice, card)) {
    const std::string asked = "TunableOp option 'device': '" + Text(choice) + "' was asked for";
    std::string why;
    if (!Exists(choice, why)) {
      return Status(StatusCode::kNotFound, asked + ", and there is none: " + why);
    }
    return Status(StatusCode::kInvalidArgument,
                  asked + ", and ONNX Runtime gave this session " + given + kHow);
  }
  if (card != nullptr && Forks() > 0) {
    return Status(StatusCode::kNotSupported,
                  "TunableOp: " + card->Name() +
                      " cannot be used in a process that was forked after its driver was loaded; "
                      "start such processes with multiprocessing's 'spawn' or 'forkserver'");
  }
  return card;
}

}  // namespace tunableop
