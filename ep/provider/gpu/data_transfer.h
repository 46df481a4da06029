// Copies between the host's memory and the cards', for ONNX Runtime.
#pragma once

#include "abi/ort_c_api.h"

namespace tunableop {

// Serves all cards of this machine. The caller owns it.
//
// On which stream a copy runs: the one that ONNX Runtime names. It names none for the inputs and
// outputs of a session whose providers are not stream aware, for weights, and for what Python
// copies. Then the copy runs behind the work that was queued on the memory, and is done when the
// call returns: for memory of a session's pool behind its block's stream, for all other memory
// behind everything that our sessions have queued (Card::OrderOf). One exception: an input of a
// session that has the card for itself is only queued, in front of the kernels that will read it.
OrtDataTransferImpl* MakeDataTransfer();

}  // namespace tunableop
