#include "provider/gpu/data_transfer.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "provider/gpu/cards.h"
#include "provider/gpu/graph_run.h"
#include "provider/guard.h"
#include "provider/ort_runtime.h"

namespace tunableop {
namespace {

bool IsHost(const OrtMemoryDevice* device) noexcept {
  const OrtEpApi& api = *Ort().ep_api;
  return api.MemoryDevice_GetDeviceType(device) == OrtMemoryInfoDeviceType_CPU ||
         api.MemoryDevice_GetMemoryType(device) == OrtDeviceMemoryType_HOST_ACCESSIBLE;
}

Card* CardOf(const OrtMemoryDevice* device, bool exactly) noexcept {
  Result<std::span<const std::unique_ptr<Card>>> cards = Cards();
  if (!cards.ok()) return nullptr;
  for (const std::unique_ptr<Card>& card : cards.value()) {
    if (card->Holds(device, exactly)) return card.get();
  }
  return nullptr;
}

class DataTransfer final : public OrtDataTransferImpl {
 public:
  DataTransfer() : OrtDataTransferImpl{}, exactly_(HasStockGpu()) {
    ort_version_supported = Ort().version;
    OrtDataTransferImpl::Release = [](OrtDataTransferImpl* self) noexcept {
      delete static_cast<DataTransfer*>(self);
    };
    OrtDataTransferImpl::CanCopy = &CanCopyImpl;
    OrtDataTransferImpl::CopyTensors = &CopyTensorsImpl;
  }

 private:
  static bool CanCopyImpl(const OrtDataTransferImpl* self, const OrtMemoryDevice* from,
                          const OrtMemoryDevice* to) noexcept {
    // One side that is ours for sure; the other may be the same card's memory as another provider
    // or a user allocated it.
    const bool exactly = static_cast<const DataTransfer*>(self)->exactly_;
    const bool ours = CardOf(from, exactly) != nullptr || CardOf(to, exactly) != nullptr;
    return ours && (IsHost(from) || CardOf(from, false) != nullptr) &&
           (IsHost(to) || CardOf(to, false) != nullptr);
  }

  static OrtStatus* CopyTensorsImpl(OrtDataTransferImpl* /*self*/, const OrtValue** from,
                                    OrtValue** to, OrtSyncStream** streams, size_t count) noexcept {
    return Guard([&]() -> Status {
      if (GraphRun* run = CurrentGraphRun(); run != nullptr) run->copied = true;
      for (size_t i = 0; i < count; ++i) {
        TUNABLEOP_RETURN_IF_ERROR(
            CopyOne(from[i], to[i], streams != nullptr ? streams[i] : nullptr));
      }
      return Status::Ok();
    });
  }

  static Status CopyOne(const OrtValue* from, OrtValue* to, OrtSyncStream* stream) {
    const OrtEpApi& api = *Ort().ep_api;
    size_t bytes = 0;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorSizeInBytes(from, &bytes));
    if (bytes == 0) return Status::Ok();
    const void* source = nullptr;
    void* target = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorData(from, &source));
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->GetTensorMutableData(to, &target));
    Card* source_card = CardOf(api.Value_GetMemoryDevice(from), false);
    Card* target_card = CardOf(api.Value_GetMemoryDevice(to), false);
    if (source == nullptr || target == nullptr) {
      Card* card = source == nullptr ? source_card : target_card;
      return {StatusCode::kOutOfMemory, "TunableOp: there is no memory to copy " +
                                            std::to_string(bytes) + " bytes " +
                                            (source == nullptr ? "from" : "to") +
                                            (card != nullptr ? "; " + card->WhyNoMemory() : "")};
    }
    if (source_card == nullptr && target_card == nullptr) {
      std::memcpy(target, source, bytes);
      return Status::Ok();
    }
    if (stream != nullptr &&
        (source_card == nullptr || target_card == nullptr || source_card == target_card)) {
      const Card& card = target_card != nullptr ? *target_card : *source_card;
      return card.device()->Copy(target, source, bytes,
                                 KindOf(source_card != nullptr, target_card != nullptr),
                                 Ort().api->SyncStream_GetHandle(stream));
    }
    if (source_card == nullptr) {
      const bool pageable = api.MemoryDevice_GetDeviceType(api.Value_GetMemoryDevice(from)) ==
                            OrtMemoryInfoDeviceType_CPU;
      return ToCard(*target_card, target, source, bytes, pageable);
    }
    if (target_card == nullptr) return FromCard(*source_card, target, source, bytes);
    if (source_card == target_card) return OnCard(*target_card, target, source, bytes);
    std::vector<std::byte> between(bytes);  // not every two cards reach each other's memory
    TUNABLEOP_RETURN_IF_ERROR(FromCard(*source_card, between.data(), source, bytes));
    return ToCard(*target_card, target, between.data(), bytes, false);
  }

  static CopyKind KindOf(bool from_card, bool to_card) noexcept {
    if (!from_card) return CopyKind::kHostToDevice;
    return to_card ? CopyKind::kDeviceToDevice : CopyKind::kDeviceToHost;
  }

  static Status ToCard(Card& card, void* target, const void* source, size_t bytes, bool pageable) {
    const Device& device = *card.device();
    Result<Card::Order> order = card.OrderOf(target);
    if (!order.ok()) return order.TakeStatus();
    const NativeStream stream = order.value().stream;
    TUNABLEOP_RETURN_IF_ERROR(NotCapturing(device, stream));
    TUNABLEOP_RETURN_IF_ERROR(device.Copy(target, source, bytes, CopyKind::kHostToDevice, stream));
    // The host's side of pageable memory is done with.
    if (order.value().alone && pageable) return Status::Ok();
    return device.Synchronize(stream);
  }

  static Status FromCard(Card& card, void* target, const void* source, size_t bytes) {
    const Device& device = *card.device();
    Result<Card::Order> order = card.OrderOf(source);
    if (!order.ok()) return order.TakeStatus();
    const NativeStream stream = order.value().stream;
    TUNABLEOP_RETURN_IF_ERROR(NotCapturing(device, stream));
    TUNABLEOP_RETURN_IF_ERROR(device.Copy(target, source, bytes, CopyKind::kDeviceToHost, stream));
    return device.Synchronize(stream);
  }

  static Status OnCard(Card& card, void* target, const void* source, size_t bytes) {
    const Device& device = *card.device();
    Result<Card::Order> order = card.OrderOf(target);
    if (!order.ok()) return order.TakeStatus();
    Result<Card::Order> other = card.OrderOf(source);
    if (!other.ok()) return other.TakeStatus();
    const NativeStream stream = order.value().stream;
    TUNABLEOP_RETURN_IF_ERROR(NotCapturing(device, stream));
    if (other.value().stream != stream) {
      TUNABLEOP_RETURN_IF_ERROR(device.Synchronize(other.value().stream));
    }
    TUNABLEOP_RETURN_IF_ERROR(
        device.Copy(target, source, bytes, CopyKind::kDeviceToDevice, stream));
    return device.Synchronize(stream);
  }

  static Status NotCapturing(const Device& device, NativeStream stream) {
    if (!device.IsCapturing(stream)) return Status::Ok();
    return {StatusCode::kNotSupported,
            "TunableOp: a graph is being captured, and a copy to or from the host cannot be a part "
            "of it: bind inputs and outputs on the card"};
  }

  const bool exactly_;
};

}  // namespace

OrtDataTransferImpl* MakeDataTransfer() { return new DataTransfer; }

}  // namespace tunableop
