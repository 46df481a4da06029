// The numbers of the simulation's errors: cudaError_t and hipError_t agree on all of these.
#pragma once

#include "core/card.h"
#include "core/error.h"

namespace simgpu {

constexpr int VendorError(Err error) {
  switch (error) {
    case Err::kOk:
      return 0;
    case Err::kInvalidValue:
      return 1;
    case Err::kOutOfMemory:
      return 2;
    case Err::kInvalidDevicePointer:
      return 17;
    case Err::kInvalidDirection:
      return 21;
    case Err::kInsufficientDriver:
      return 35;
    case Err::kNoDevice:
      return 100;
    case Err::kInvalidDevice:
      return 101;
    case Err::kUnfitImage:
      return 200;
    case Err::kUnfitCard:
      return 209;
    case Err::kNotFound:
      return 500;
    case Err::kOutOfResources:
      return 701;
    case Err::kInvalidHandle:
      return 400;
    case Err::kNotReady:
      return 600;
    case Err::kIllegalAddress:
      return 700;
    case Err::kDeviceLost:
      return 719;
    case Err::kNotSupported:
      return 801;
    case Err::kCaptureUnsupported:
      return 900;
    case Err::kCaptureInvalidated:
      return 901;
    case Err::kCaptureMerge:
      return 902;
    case Err::kCaptureUnmatched:
      return 903;
    case Err::kCaptureUnjoined:
      return 904;
    case Err::kCaptureIsolation:
      return 905;
    case Err::kCaptureImplicit:
      return 906;
    case Err::kCapturedEvent:
      return 907;
    case Err::kCaptureWrongThread:
      return 908;
  }
  return 999;
}

// What a function of the runtime returns; the thread remembers it.
inline int Returned(Err error) {
  Remember(error);
  return VendorError(error);
}

}  // namespace simgpu
