#include "tuner/host_copies.h"

#include <algorithm>
#include <cstring>

namespace tunableop {
namespace {

constexpr size_t kWholeBytes = size_t{64} << 10;
constexpr size_t kPieces = 16;
constexpr size_t kMostCopies = 32;
constexpr size_t kPieceBytes = 1024;

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

Status HostCopies::Fetch(MeasuringStream& stream, void* to, const void* card, size_t bytes) {
  if (bytes == 0) return Status::Ok();
  TUNABLEOP_RETURN_IF_ERROR(stream.Copy(to, card, bytes, CopyKind::kDeviceToHost));
  copies_.push_back({static_cast<const char*>(card), static_cast<const char*>(to), bytes});
  return Status::Ok();
}

bool HostCopies::Differs(MeasuringStream& stream, const Copy& copy) {
  std::vector<char> piece(std::min(copy.bytes, kWholeBytes));
  const bool whole = copy.bytes <= kWholeBytes;
  const size_t size = whole ? copy.bytes : kPieceBytes;
  const size_t pieces = whole ? 1 : kPieces;
  for (size_t i = 0; i < pieces; ++i) {
    const size_t at = whole ? 0 : (copy.bytes - size) / (kPieces - 1) * i;
    // Into ordinary memory: it is there when this returns.
    if (!stream.Copy(piece.data(), copy.card + at, size, CopyKind::kDeviceToHost).ok()) {
      return false;
    }
    if (std::memcmp(piece.data(), copy.copy + at, size) != 0) return true;
  }
  return false;
}

bool HostCopies::Changed(MeasuringStream& stream) const {
  // What is queued is waited for where waiting ends.
  if (stream.broken() || copies_.empty() || !stream.Finish().ok()) return false;
  const size_t step = std::max<size_t>(1, copies_.size() / kMostCopies);
  for (size_t i = 0; i < copies_.size(); i += step) {
    if (Differs(stream, copies_[i])) return true;
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
