// Which cards ONNX Runtime may give us, and which one it gave a session.
#pragma once

#include <cstddef>
#include <span>

#include "abi/ort_c_api.h"
#include "gemm/status.h"
#include "provider/gpu/cards.h"
#include "provider/options.h"

namespace tunableop {

// Appends an OrtEpDevice for each card to what is `count` long, as far as there is room. `hardware`
// are ONNX Runtime's devices; a card that is not among them gets one of its own. The metadata of
// each say which card it is: "backend" ("cuda", "hip"), "device_id", "name", "arch".
Status OfferCards(OrtEpFactory& factory, std::span<const OrtHardwareDevice* const> hardware,
                  std::span<OrtEpDevice*> ep_devices, size_t& count);

// The card that ONNX Runtime gave a session, by the metadata of its devices; null: the CPU. Error:
// more than one, or not what the option `device` asks for; the text says what to do.
Result<Card*> ChooseCard(std::span<const OrtKeyValuePairs* const> metadata,
                         const DeviceChoice& choice);

}  // namespace tunableop
