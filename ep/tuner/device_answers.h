// What a kernel left in a card's scratch: fetched to the host and checked there.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gemm/backend.h"
#include "gemm/executor.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/device_operands.h"
#include "tuner/device_stream.h"
#include "tuner/scratch.h"
#include "tuner/verifier.h"

namespace tunableop {

// Used by the one thread that measures.
class DeviceAnswers {
 public:
  // `problem`, `operands` (the card's), `host` and `stream` must outlive this. `reference_budget`:
  // multiplications (tuner/reference.h). At most `max_bytes` of the card's memory and of the host's
  // are taken, each. Without `verify` nothing is copied to the host, and Check is not to be called.
  // kOutOfMemory, of either.
  static Result<std::unique_ptr<DeviceAnswers>> Create(const Problem& problem,
                                                       const Operands& operands,
                                                       MeasuringStream& stream, Executor& host,
                                                       double reference_budget, size_t max_bytes,
                                                       bool verify);
  ~DeviceAnswers();
  DeviceAnswers(const DeviceAnswers&) = delete;
  DeviceAnswers& operator=(const DeviceAnswers&) = delete;

  // What a kernel takes for C, on the card.
  void* c() const noexcept { return c_; }
  // Copies of the operands.
  const DeviceOperands& copies() const noexcept { return copies_; }
  size_t card_bytes() const noexcept { return card_bytes_; }

  // Queues what makes C ready for a run that will be checked: poison, or where beta reads C, its
  // values.
  Status Prepare();
  // Fetches and judges what a run after Prepare left (verifier.h). Waits for it. An error is the
  // card's.
  Result<Verifier::Verdict> Check(const std::string& name);

 private:
  explicit DeviceAnswers(MeasuringStream& stream) : stream_(stream) {}
  Status AllocateOnCard(size_t size, size_t max_bytes);
  // Page-locked if possible.
  Result<void*> AllocateImage(size_t size);

  MeasuringStream& stream_;
  DeviceOperands copies_;
  void* scratch_ = nullptr;   // on the card
  void* template_ = nullptr;  // on the card: what the scratch is before a run. Null: no memory
  void* c_ = nullptr;
  size_t card_bytes_ = 0;
  size_t image_bytes_ = 0;
  std::unique_ptr<char[]> pageable_;  // of the image, where there is no page-locked memory
  std::optional<Scratch> image_;
  std::optional<Verifier> verifier_;
};

}  // namespace tunableop
