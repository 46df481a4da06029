#include "kernels/attention_launch.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace tunableop::device {
namespace {

constexpr int64_t kChunk = 4;        // numbers that are read at a time
constexpr int64_t kChunksOfOne = 4;  // chunks of a thread: kChunks on a card
constexpr int64_t kBlock = 128;
constexpr int64_t kWarpRows = 16;
constexpr int64_t kBlockRows = 64;
constexpr int64_t kMost = int64_t{1} << 30;
// Blocks below which a card of today is not busy.
constexpr int64_t kBusy = 132;
// Blocks of many rows below which blocks of few are faster.
constexpr int64_t kFewBlocks = 80;
// The least keys that are worth a part of their own, and the most parts.
constexpr int64_t kLeastPart = 128;
constexpr int64_t kMostParts = 16;

int64_t Parts(int64_t count, int64_t of) noexcept { return (count + of - 1) / of; }

int64_t ValueSize(const AttentionShape& shape) noexcept {
  return shape.value_size > 0 ? shape.value_size : shape.size;
}
int64_t LongerSize(const AttentionShape& shape) noexcept {
  return std::max(shape.size, ValueSize(shape));
}

bool AreMultiples(const AttentionStrides& at, int64_t of) noexcept {
  return at.batch % of == 0 && at.token % of == 0 && at.head % of == 0;
}

// All vectors can be read in pieces of so many elements.
bool InPieces(const AttentionTensors& tensors, int64_t piece, size_t bytes) noexcept {
  const auto is = [&](const AttentionTensor& tensor) {
    return AreMultiples(tensor.at, piece) &&
           IsAligned(tensor.data, static_cast<size_t>(piece) * bytes);
  };
  return tensors.k_step == 1 && is(tensors.q) && is(tensors.k) && is(tensors.v);
}

bool MaskInPairs(const AttentionTensors& tensors, const AttentionShape& shape,
                 size_t bytes) noexcept {
  return tensors.mask_step == 1 && shape.keys % 2 == 0 && AreMultiples(tensors.mask.at, 2) &&
         IsAligned(tensors.mask.data, 2 * (tensors.mask_is != AttentionMask::kAdded ? 1 : bytes));
}

AttentionArgs ArgsOf(const AttentionTensors& tensors, const AttentionShape& shape,
                     size_t bytes) noexcept {
  AttentionArgs args{};
  args.q = tensors.q.data;
  args.k = tensors.k.data;
  args.v = tensors.v.data;
  args.mask = tensors.mask.data;
  args.lengths = tensors.lengths;
  args.out = tensors.out;
  args.q_at = tensors.q.at;
  args.k_at = tensors.k.at;
  args.v_at = tensors.v.at;
  args.out_at = tensors.out_at;
  args.mask_at = tensors.mask.at;
  args.k_step = tensors.k_step;
  args.mask_step = tensors.mask_step;
  args.batches = static_cast<UInt32>(shape.batches);
  args.heads = static_cast<UInt32>(shape.heads);
  args.sharing = static_cast<UInt32>(shape.heads / shape.kv_heads);
  args.queries = static_cast<UInt32>(shape.queries);
  args.keys = static_cast<UInt32>(shape.keys);
  args.key_size = static_cast<UInt32>(shape.size);
  args.value_size = static_cast<UInt32>(ValueSize(shape));
  args.size = static_cast<UInt32>(LongerSize(shape));
  args.splits = 1;
  args.split_keys = args.keys;
  args.length_more = static_cast<UInt32>(tensors.length_more);
  args.none_is_all = tensors.none_is_all ? 1 : 0;
  args.has_sinks = tensors.has_sinks ? 1 : 0;
  args.sinks = tensors.sinks;
  args.causal = shape.causal ? 1 : 0;
  args.past_by_end = shape.past_by_end ? 1 : 0;
  args.past = static_cast<Int32>(shape.past);
  args.mask_flags = static_cast<UInt32>(tensors.mask_is);
  args.fill = tensors.fill;
  args.mask_pairs = MaskInPairs(tensors, shape, bytes) ? 1 : 0;
  args.packed =
      shape.size % kChunk == 0 && ValueSize(shape) % kChunk == 0 && InPieces(tensors, kChunk, bytes)
          ? 1
          : 0;
  args.scale = shape.scale;
  args.cap = shape.cap;
  args.least_weight = shape.zeros_for_nothing ? std::numeric_limits<float>::min() : 0.0F;
  return args;
}

// Blocks of the kernels of attention_tiles.h.
int64_t PlanTiles(const AttentionShape& shape, AttentionEntry& entry) noexcept {
  const int64_t rows = shape.queries * (shape.heads / shape.kv_heads);
  const int64_t outside = shape.batches * shape.kv_heads;
  const bool few = rows <= kWarpRows || outside * Parts(rows, kBlockRows) < kFewBlocks;
  entry = few ? AttentionEntry::kKeys : AttentionEntry::kRows;
  return outside * Parts(rows, few ? kWarpRows : kBlockRows);
}

// What attention_plain.h calls teams.
int64_t PlanTeams(const AttentionShape& shape, AttentionArgs& args) noexcept {
  const int64_t part = kChunk * kChunksOfOne;
  const auto lanes =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(Parts(LongerSize(shape), part))));
  const int64_t teams = kBlock / lanes;
  const auto blocks = [&](int64_t split) {
    return shape.batches * shape.heads * Parts(shape.queries, teams / split);
  };
  int64_t split = 1;
  while (split < teams && blocks(split) < 2 * kBusy) split *= 2;
  args.lanes = static_cast<UInt32>(lanes);
  args.team_split = static_cast<UInt32>(split);
  return blocks(split);
}

// Into how many parts the keys of so many blocks are divided: all of them at a time on the card.
void PlanParts(const AttentionShape& shape, int64_t blocks, AttentionArgs& args) noexcept {
  const int64_t most = std::min(Parts(shape.keys, kLeastPart), kMostParts);
  const int64_t parts = std::min(2 * kBusy / std::max<int64_t>(blocks, 1), most);
  if (parts < 2) return;
  // Whole tiles of any kernel.
  const int64_t keys = Parts(Parts(shape.keys, parts), kBlock) * kBlock;
  args.split_keys = static_cast<UInt32>(keys);
  args.splits = static_cast<UInt32>(Parts(shape.keys, keys));
}

}  // namespace

AttentionStrides StridesOf(int64_t tokens, int64_t heads, int64_t size,
                           bool heads_outside) noexcept {
  AttentionStrides strides{};
  strides.batch = tokens * heads * size;
  strides.token = heads_outside ? size : heads * size;
  strides.head = heads_outside ? tokens * size : size;
  return strides;
}

bool AttentionTilesRunOn(std::string_view arch) noexcept {
  constexpr std::string_view kNvidia = "sm_";
  constexpr int kOldest = 80;
  if (!arch.starts_with(kNvidia)) return false;
  int capability = 0;
  std::from_chars(arch.data() + kNvidia.size(), arch.data() + arch.size(), capability);
  return capability >= kOldest;
}

const char* NameOf(AttentionEntry entry) noexcept {
  switch (entry) {
    case AttentionEntry::kRows:
      return "attention_rows";
    case AttentionEntry::kKeys:
      return "attention_keys";
    case AttentionEntry::kAny:
      break;
  }
  return "attention";
}

const char* AttentionTilesFamily(std::string_view type, int64_t size, bool tf32) noexcept {
  const bool floats = tf32 && type == "f32";
  if (!floats && type != "f16" && type != "bf16") return nullptr;
  switch (size) {
    case 32:
      return "attention_32";
    case 64:
      return "attention_64";
    case 96:
      return "attention_96";
    case 128:
      return "attention_128";
    default:
      return nullptr;
  }
}

std::optional<AttentionCall> PrepareAttention(const AttentionTensors& tensors,
                                              const AttentionShape& shape, std::string_view type,
                                              const AttentionMeans& means) noexcept {
  if (shape.size < 1 || LongerSize(shape) > kMostAttentionSize) return std::nullopt;
  if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) return std::nullopt;
  if (shape.keys > kMost || shape.past > kMost || shape.past < -kMost) return std::nullopt;
  if (shape.batches * shape.heads * shape.queries > kMost) return std::nullopt;
  const size_t bytes = BytesOf(type);
  if (bytes == 0) return std::nullopt;
  const int64_t piece = 16 / static_cast<int64_t>(bytes);  // numbers that tiles move at a time
  AttentionCall made{};
  AttentionArgs& args = made.call.args;
  args = ArgsOf(tensors, shape, bytes);
  const bool tiles =
      means.tiles && ValueSize(shape) == shape.size && shape.cap == 0.0F && !tensors.has_sinks &&
      AttentionTilesFamily(type, shape.size, true) != nullptr && InPieces(tensors, piece, bytes) &&
      AreMultiples(tensors.out_at, piece) && IsAligned(tensors.out, 16);
  const int64_t teams = PlanTeams(shape, args);  // what the host has for tiles, too
  const int64_t blocks = tiles ? PlanTiles(shape, made.entry) : teams;
  if (means.scratch && made.entry != AttentionEntry::kRows) PlanParts(shape, blocks, args);
  made.call.grid.block = kBlock;
  made.call.grid.x =
      static_cast<UInt32>(std::clamp<int64_t>(blocks * args.splits, 1, int64_t{1} << 30));
  if (args.splits > 1) {
    const int64_t rows = shape.batches * shape.heads * shape.queries;
    made.scratch_bytes = static_cast<size_t>(rows) * args.splits * (args.size + 2) * sizeof(float);
    made.merge.args = {nullptr,      tensors.out, tensors.out_at,  args.batches, args.heads,
                       args.queries, args.size,   args.value_size, args.splits,  args.least_weight};
    made.merge.grid = GridFor(rows * args.size, 1, kBlock);
  }
  return made;
}

}  // namespace tunableop::device
