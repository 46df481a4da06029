// The border: no exception crosses a C callback.
#pragma once

#include <exception>
#include <new>

#include "abi/ort_c_api.h"
#include "gemm/status.h"
#include "provider/ort_runtime.h"

namespace tunableop {

// Runs `body`, which returns a Status, and turns whatever comes out of it into an OrtStatus.
template <typename Body>
OrtStatus* Guard(Body&& body) noexcept {
  try {
    return ToOrt(body());
  } catch (const std::bad_alloc&) {
    return Ort().api->CreateStatus(ORT_FAIL, "TunableOp: out of memory");
  } catch (const std::exception& error) {
    return Ort().api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return Ort().api->CreateStatus(ORT_FAIL, "TunableOp: unknown exception");
  }
}

}  // namespace tunableop
