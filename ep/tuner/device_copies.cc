#include "tuner/device_copies.h"

#include <cstdint>
#include <utility>

#include "gemm/device_memory.h"
#include "tuner/operand_ranges.h"

namespace tunableop {
namespace {

constexpr size_t kAlignment = 256;  // Device::Allocate's

size_t RoundUp(size_t bytes) noexcept { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Up to the best class a pointer may be better aligned than asked for; below it, it must not be.
size_t OffsetOf(uint8_t alignment_class) noexcept {
  return alignment_class >= kMaxAlignmentLog2 ? 0 : size_t{1} << alignment_class;
}

struct Block {
  Range from;
  size_t offset;

  size_t room() const noexcept { return from.data == nullptr ? 0 : RoundUp(from.bytes + offset); }
};

Result<OwnedOperands> CopyAll(const Problem& problem, const Operands& operands,
                              const std::shared_ptr<const Device>& device, NativeStream stream,
                              CopyKind kind, size_t max_bytes) {
  const OperandRanges ranges = RangesOf(problem, operands);
  const Block a{ranges.a, OffsetOf(problem.align_a)};
  const Block b{ranges.b, OffsetOf(problem.align_b)};
  const Block bias{ranges.bias, 0};
  const Block c{operands.beta != 0.0F ? ranges.c : Range{}, OffsetOf(problem.align_c)};
  const size_t bytes = a.room() + b.room() + bias.room() + c.room();
  if (bytes > max_bytes) {
    return Status(StatusCode::kOutOfMemory,
                  ToString(problem) + ": copies of the operands would take " +
                      std::to_string(bytes) + " bytes of the card's memory, and there are " +
                      std::to_string(max_bytes) + " for it (max_tuning_bytes)");
  }
  Result<DeviceBuffer> memory = DeviceBuffer::Create(device, bytes);
  if (!memory.ok()) return memory.TakeStatus();
  const auto buffer = std::make_shared<const DeviceBuffer>(std::move(memory).value());
  auto* next = static_cast<char*>(buffer->data());
  Status status;
  const auto copy = [&](const Block& block) -> void* {
    if (block.from.data == nullptr) return nullptr;
    char* to = next + block.offset;
    next += block.room();
    if (status.ok()) status = device->Copy(to, block.from.data, block.from.bytes, kind, stream);
    return to;
  };
  Operands view = operands;
  view.a = copy(a);
  view.b = copy(b);
  view.bias = copy(bias);
  view.c = copy(c);
  view.b_transposed = nullptr;
  view.packed_b = nullptr;
  if (!status.ok()) return status;
  return OwnedOperands::Of(view, buffer, bytes);
}

}  // namespace

Result<OwnedOperands> CopyOnDevice(const Problem& problem, const Operands& operands,
                                   const DeviceQueue& queue, size_t max_bytes) {
  return CopyAll(problem, operands, queue.shared_device(), queue.stream(),
                 CopyKind::kDeviceToDevice, max_bytes);
}

Result<OwnedOperands> CopyToDevice(const Problem& problem, const Operands& operands,
                                   const std::shared_ptr<const Device>& device, size_t max_bytes) {
  Result<DeviceStream> stream = DeviceStream::Create(device);
  if (!stream.ok()) return stream.TakeStatus();
  Result<OwnedOperands> copies =
      CopyAll(problem, operands, device, stream.value().get(), CopyKind::kHostToDevice, max_bytes);
  if (!copies.ok()) return copies;
  TUNABLEOP_RETURN_IF_ERROR(device->Synchronize(stream.value().get()));
  return copies;
}

}  // namespace tunableop
