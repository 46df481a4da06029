#include "tuner/device_operands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

namespace tunableop {
namespace {

constexpr size_t kWholeBytes = size_t{64} << 10;
constexpr size_t kPieces = 64;
constexpr size_t kPieceBytes = 1024;

OperandRanges Read(const Problem& problem, const Operands& operands) noexcept {
  OperandRanges ranges = RangesOf(problem, operands);
  if (operands.beta == 0.0F) ranges.c = {};
  return ranges;
}

template <typename Element>
void Transpose(const Problem& p, const Element* b, Executor& executor, Element* out) noexcept {
  struct Job {
    const Problem* p;
    const Element* b;
    Element* out;
    int64_t strips;
  };
  constexpr int64_t kStrip = 32;  // columns of op(B) that a task does, and rows at a time
  Job job{&p, b, out, (p.n + kStrip - 1) / kStrip};
  const int64_t items = p.stride_b == 0 ? 1 : p.batch;
  executor.ParallelFor(
      static_cast<size_t>(items * job.strips),
      [](void* context, size_t index) {
        const Job& j = *static_cast<const Job*>(context);
        const int64_t k = j.p->k;
        const int64_t item = static_cast<int64_t>(index) / j.strips;
        const int64_t first = static_cast<int64_t>(index) % j.strips * kStrip;
        const int64_t end = std::min(j.p->n, first + kStrip);
        const Element* from = j.b + item * j.p->stride_b;
        Element* to = j.out + item * j.p->n * k;
        if (j.p->trans_b != 0) {
          for (int64_t column = first; column < end; ++column) {
            std::memcpy(to + column * k, from + column * j.p->ldb,
                        static_cast<size_t>(k) * sizeof(Element));
          }
          return;
        }
        for (int64_t k0 = 0; k0 < k; k0 += kStrip) {
          const int64_t k1 = std::min(k, k0 + kStrip);
          for (int64_t column = first; column < end; ++column) {
            for (int64_t i = k0; i < k1; ++i) to[column * k + i] = from[i * j.p->ldb + column];
          }
        }
      },
      &job);
}

}  // namespace

size_t DeviceOperands::BytesFor(const Problem& problem, const Operands& operands) noexcept {
  const OperandRanges ranges = Read(problem, operands);
  return ranges.a.bytes + ranges.b.bytes + ranges.c.bytes + ranges.bias.bytes;
}

Result<DeviceOperands> DeviceOperands::Download(const Problem& problem, const Operands& operands,
                                                MeasuringStream& stream) {
  DeviceOperands self;
  const OperandRanges ranges = Read(problem, operands);
  self.a_.on_card = ranges.a;
  self.b_.on_card = ranges.b;
  self.c_.on_card = ranges.c;
  self.bias_.on_card = ranges.bias;
  for (Part* part : {&self.a_, &self.b_, &self.c_, &self.bias_}) {
    const size_t bytes = part->on_card.data != nullptr ? part->on_card.bytes : 0;
    part->on_card.bytes = bytes;
    if (bytes == 0) continue;
    part->copy.reset(new (std::nothrow) char[bytes]);
    if (part->copy == nullptr) {
      return Status(StatusCode::kOutOfMemory,
                    "no memory on the host for a copy of " + std::to_string(bytes) + " bytes");
    }
    TUNABLEOP_RETURN_IF_ERROR(
        stream.Copy(part->copy.get(), part->on_card.data, bytes, CopyKind::kDeviceToHost));
  }
  TUNABLEOP_RETURN_IF_ERROR(stream.Finish());
  self.view_ = operands;
  self.view_.a = self.a_.copy.get();
  self.view_.b = self.b_.copy.get();
  self.view_.b_transposed = nullptr;
  self.view_.c = self.c_.copy.get();
  self.view_.bias = self.bias_.copy.get();
  return self;
}

bool DeviceOperands::Changed(MeasuringStream& stream) const {
  if (stream.broken()) return false;
  std::array<char, kPieceBytes> piece;
  for (const Part* part : {&a_, &b_, &c_, &bias_}) {
    const auto* card = static_cast<const char*>(part->on_card.data);
    const size_t bytes = part->on_card.bytes;
    const bool whole = bytes <= kWholeBytes;
    const size_t pieces = whole ? (bytes + kPieceBytes - 1) / kPieceBytes : kPieces;
    for (size_t i = 0; i < pieces; ++i) {
      const size_t at =
          whole ? i * kPieceBytes
                : static_cast<size_t>(static_cast<unsigned __int128>(bytes - kPieceBytes) * i /
                                      (kPieces - 1));
      const size_t size = std::min(kPieceBytes, bytes - at);
      if (!stream.Copy(piece.data(), card + at, size, CopyKind::kDeviceToHost).ok()) return false;
      if (!stream.Finish().ok()) return false;
      if (std::memcmp(piece.data(), part->copy.get() + at, size) != 0) return true;
    }
  }
  return false;
}

size_t BytesOfTransposedB(const Problem& p) noexcept {
  return static_cast<size_t>((p.stride_b == 0 ? 1 : p.batch) * p.n * p.k) * SizeOf(p.b_type);
}

void TransposeB(const Problem& p, const void* b, Executor& executor, void* out) noexcept {
  switch (SizeOf(p.b_type)) {
    case 2:
      return Transpose(p, static_cast<const uint16_t*>(b), executor, static_cast<uint16_t*>(out));
    case 4:
      return Transpose(p, static_cast<const uint32_t*>(b), executor, static_cast<uint32_t*>(out));
    default:
      return Transpose(p, static_cast<const uint64_t*>(b), executor, static_cast<uint64_t*>(out));
  }
}

}  // namespace tunableop
