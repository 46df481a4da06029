// What can go wrong on a simulated card. The vendors' front ends turn these into their own numbers.
#pragma once

// What the libraries of one flavour share; all else stays inside the runtime library.
#define SIM_API __attribute__((visibility("default")))

namespace simgpu {

enum class Err {
  kOk,
  kInvalidValue,
  kOutOfMemory,
  kInsufficientDriver,
  kNoDevice,
  kInvalidDevice,
  kInvalidDevicePointer,
  kInvalidDirection,
  kInvalidHandle,
  kNotReady,
  kNotSupported,
  kUnfitImage,  // code that is none
  kUnfitCard,   // code for another card
  kNotFound,
  kOutOfResources,
  // From here to kDeviceLost: the card does not recover, and everything on it fails.
  kIllegalAddress,
  kDeviceLost,
  kCaptureUnsupported,
  kCaptureInvalidated,
  kCaptureMerge,
  kCaptureUnmatched,
  kCaptureUnjoined,
  kCaptureIsolation,
  kCaptureImplicit,
  kCapturedEvent,
  kCaptureWrongThread,
};

}  // namespace simgpu
