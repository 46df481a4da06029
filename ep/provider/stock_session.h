// A session of one node on the stock CPU provider, beside the session that this library serves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "abi/ort_c_api.h"
#include "gemm/status.h"
#include "provider/onnx_writer.h"
#include "provider/ort_runtime.h"

namespace tunableop {

using OwnedEnv = std::unique_ptr<OrtEnv, OrtDeleter<&OrtApi::ReleaseEnv>>;
using OwnedSession = std::unique_ptr<OrtSession, OrtDeleter<&OrtApi::ReleaseSession>>;
using OwnedSessionOptions =
    std::unique_ptr<OrtSessionOptions, OrtDeleter<&OrtApi::ReleaseSessionOptions>>;
using OwnedValue = std::unique_ptr<OrtValue, OrtDeleter<&OrtApi::ReleaseValue>>;

// Holds the process's environment (counted: the last to let go destroys it, and its logger is as
// its first maker wanted it), no thread beyond the pool of the session, and no memory arena. It has
// the providers that a session has by default, which is the stock CPU provider alone.
class StockSession {
 public:
  // What the threads do between runs. Spinning is ONNX Runtime's default: 25 to 35 ms long
  // (measured with 1.24 and 1.32), unless the session ends before.
  enum class Idle : uint8_t { kSleep, kSpin };

  // `weight` is B when node.b_constant, row-major without gaps; it must stay as it is until the
  // last run, for what the stock kernel does not pack it reads there.
  static Result<std::unique_ptr<StockSession>> Create(const NodeSpec& node, int threads, Idle idle,
                                                      const float* weight);
  // True while this thread is in Create: a provider of ours that is made meanwhile would measure
  // itself, so the factory refuses.
  static bool IsBeingMade() noexcept;

  // What one run reads and writes; the memory stays the caller's. Null where the node has none.
  struct Pointers {
    const void* a = nullptr;
    const void* b = nullptr;
    const void* c = nullptr;
    void* y = nullptr;
    bool operator==(const Pointers&) const = default;
  };
  // The tensors of the last run serve again when the pointers are the same. Not thread-safe.
  Status Run(const Pointers& pointers);

 private:
  explicit StockSession(NodeSpec node) : node_(std::move(node)) {}
  Status Open(int threads, Idle idle, const float* weight);
  Status Bind(const Pointers& pointers);

  static constexpr size_t kMaxInputs = 3;

  const NodeSpec node_;
  OwnedEnv env_;  // outlives the session
  OwnedSession session_;
  bool bound_ = false;
  Pointers pointers_;
  size_t inputs_ = 0;
  std::array<OwnedValue, kMaxInputs> values_;
  std::array<const OrtValue*, kMaxInputs> input_values_{};
  std::array<const char*, kMaxInputs> input_names_{};
  OwnedValue output_;
};

}  // namespace tunableop
