#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "tuner/device_tuning.h"
#include "tuner/host_copies.h"
#include "tuner/operand_ranges.h"
#include "tuner/preconditions.h"

namespace tunableop {
namespace {

// On the host, where no library does it on the card.
constexpr double kBytesPerMs = 5e5;  // of one thread
constexpr double kShare = 0.25;      // of the budget, at most

}  // namespace

std::string DeviceTuning::MakeTransposedB() {
  if (problem_.b_constant == 0) return "B is not constant";
  const size_t bytes = BytesOfTransposedB(problem_);
  if (bytes + stream_->allocated() > options_.max_scratch_bytes) {
    return "it takes more than the ceiling of " + std::to_string(options_.max_scratch_bytes) +
           " bytes";
  }
  Result<void*> out = stream_->Allocate(bytes);
  if (!out.ok()) return std::string(out.status().message());
  const Backend* last = nullptr;
  for (const Contender& contender : contenders()) {
    if (contender.backend.get() == last) continue;
    last = contender.backend.get();
    Status status = last->TransposeB(problem_, operands_.b, out.value(), stream_->executor());
    if (status.code() == StatusCode::kNotSupported) continue;
    if (status.ok()) status = stream_->Finish();
    if (stream_->broken()) Expect(Status(status.code(), std::string(status.message())));
    if (!status.ok()) return std::string(status.message());
    writing_.b_transposed = out.value();
    return {};
  }
  return TransposeOnHost(out.value(), bytes);
}

std::string DeviceTuning::TransposeOnHost(void* out, size_t bytes) {
  const void* b = answers_->b_on_host();
  const size_t fetched = b == nullptr ? RangesOf(problem_, operands_).b.bytes : 0;
  if (bytes + fetched + answers_->host_bytes() > options_.max_scratch_bytes) {
    return "it takes more than the ceiling of " + std::to_string(options_.max_scratch_bytes) +
           " bytes on the host";
  }
  if (static_cast<double>(bytes) / kBytesPerMs / host_.threads() >
      kShare * options_.max_tuning_ms) {
    return "a budget of " + Milliseconds(options_.max_tuning_ms) + " does not pay for making it";
  }
  const auto memory = std::unique_ptr<char[]>(new (std::nothrow) char[bytes]);
  const auto stored =
      std::unique_ptr<char[]>(new (std::nothrow) char[std::max<size_t>(1, fetched)]);
  if (memory == nullptr || stored == nullptr) return "there is no memory on the host";
  Status status;
  if (b == nullptr) {
    status = stream_->Copy(stored.get(), operands_.b, fetched, CopyKind::kDeviceToHost);
    b = stored.get();
  }
  if (status.ok()) {
    TransposeB(problem_, b, host_, memory.get());
    status = stream_->Copy(out, memory.get(), bytes, CopyKind::kHostToDevice);
  }
  if (status.ok()) status = stream_->Finish();
  if (stream_->broken()) Expect(Status(status.code(), std::string(status.message())));
  if (!status.ok()) return std::string(status.message());
  writing_.b_transposed = out;
  return {};
}

}  // namespace tunableop
