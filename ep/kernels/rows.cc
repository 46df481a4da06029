#include "kernels/rows.h"

#include <algorithm>
#include <bit>

namespace tunableop::device {

RowsPlan PlanRows(int64_t rows, int64_t columns, int64_t pack) noexcept {
  // Below so many threads a card of today is not busy; parts of wavefronts need no barrier, and
  // keep it busy with half as many.
  constexpr int64_t kBusy = int64_t{132} * 512;
  constexpr int64_t kBlock = 128;
  constexpr int64_t kMostBlocks = 1 << 20;
  RowsPlan plan;
  const int64_t packs = std::max<int64_t>(columns / pack, 1);
  const int64_t kept = pack >= 8 ? 32 / pack : 6;  // packs that one thread keeps: kRowSteps
  // A power of two of threads, with two packs each where the row is long.
  auto lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((packs + 1) / 2)));
  lanes = std::min<int64_t>(lanes, 32);
  const bool fits = packs <= lanes * kept;
  if (fits && (packs <= 32 || 2 * rows * lanes >= kBusy)) {
    plan.lanes = static_cast<UInt32>(lanes);
    const int64_t in_block = kBlock / lanes;
    plan.grid.block = kBlock;
    plan.grid.x =
        static_cast<UInt32>(std::clamp<int64_t>((rows + in_block - 1) / in_block, 1, kMostBlocks));
    return plan;
  }
  // A block for each row, of whole wavefronts.
  const int64_t wanted = rows * packs >= kBusy ? (packs + kept - 1) / kept : packs;
  plan.grid.block = static_cast<UInt32>(std::clamp<int64_t>((wanted + 63) / 64 * 64, 64, 512));
  plan.grid.x = static_cast<UInt32>(std::clamp<int64_t>(rows, 1, kMostBlocks));
  return plan;
}

int64_t PackOf(int64_t columns, size_t bytes, std::initializer_list<const void*> all) noexcept {
  constexpr size_t kAccess = 16;
  const auto pack = static_cast<int64_t>(kAccess / bytes);
  const bool packs = columns % pack == 0 && std::ranges::all_of(all, [](const void* at) {
                       return IsAligned(at, kAccess);  // null is
                     });
  return packs ? pack : 1;
}

}  // namespace tunableop::device
