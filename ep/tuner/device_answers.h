// What a kernel left in a card's scratch: fetched to the host and judged there.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "gemm/backend.h"
#include "gemm/executor.h"
#include "gemm/problem.h"
#include "gemm/status.h"
#include "tuner/device_stream.h"
#include "tuner/host_copies.h"
#include "tuner/verifier.h"

namespace tunableop {

// Used by the one thread that measures.
class DeviceAnswers {
 public:
  struct Setting {
    const Problem& problem;
    const Operands& operands;  // the card's
    MeasuringStream& stream;
    Executor& host;
    double budget;     // multiplications for the reference (tuner/reference.h)
    size_t max_bytes;  // of the card's memory, and of the host's
    bool verify;       // false: nothing is copied to the host, and Check is not to be called
  };

  // Everything is checked, as on a CPU (verifier.h): C whole, against copies of all operands.
  // Where there is room for it, no more than that is done. What Setting refers to must outlive
  // this. kOutOfMemory, of the card or the host.
  static Result<std::unique_ptr<DeviceAnswers>> CreateWhole(const Setting& setting);
  // Only some rows, in some columns, of the first and the last batch item: for matrices too large
  // to be fetched. And the margins around C, but not the gaps in it. `most_copies`: from the card,
  // one for each row or piece of a row.
  static Result<std::unique_ptr<DeviceAnswers>> CreateSampled(const Setting& setting,
                                                              int64_t most_copies);
  virtual ~DeviceAnswers() = default;
  DeviceAnswers(const DeviceAnswers&) = delete;
  DeviceAnswers& operator=(const DeviceAnswers&) = delete;

  // What CreateWhole takes of the host's memory.
  static size_t HostBytesOfWhole(const Setting& setting);

  // What a kernel takes for C, on the card.
  void* c() const noexcept { return c_; }
  // B on the host; null: it was not copied.
  const void* b_on_host() const noexcept { return b_on_host_; }
  // What is taken of the host's memory.
  size_t host_bytes() const noexcept { return host_bytes_; }
  // "", or what was checked if not all.
  const std::string& note() const noexcept { return note_; }

  // Queues what makes C ready for a run that will be checked: poison, or where beta reads C, its
  // values.
  virtual Status Prepare() = 0;
  // Fetches and judges what a run after Prepare left. Waits for it. An error is the card's.
  virtual Result<Verifier::Verdict> Check(const std::string& name) = 0;
  // The operands are no longer what answers are checked against.
  bool OperandsChanged() const { return copies_.Changed(stream_); }

 protected:
  explicit DeviceAnswers(MeasuringStream& stream) : stream_(stream) {}

  MeasuringStream& stream_;
  HostCopies copies_;
  void* c_ = nullptr;
  const void* b_on_host_ = nullptr;
  size_t host_bytes_ = 0;
  std::string note_;
};

}  // namespace tunableop
