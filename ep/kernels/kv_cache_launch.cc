#include "kernels/kv_cache_launch.h"

namespace tunableop::device {

std::optional<Prepared<KvAppendArgs>> PrepareKvAppend(const KvAppend& append,
                                                      size_t bytes) noexcept {
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto pack = static_cast<int64_t>(16 / bytes);
  const bool packs = append.size % pack == 0 && append.fresh_batch % pack == 0 &&
                     append.fresh_token % pack == 0 && append.fresh_head % pack == 0 &&
                     IsAligned(append.past, 16) && IsAligned(append.fresh, 16) &&
                     IsAligned(append.present, 16);
  const int64_t unit = packs ? pack : 1;
  Prepared<KvAppendArgs> prepared{};
  KvAppendArgs& args = prepared.args;
  args.past = append.past;
  args.fresh = append.fresh;
  args.present = append.present;
  args.lengths = append.lengths;
  args.length_more = append.length_more;
  args.kept = append.kept;
  args.past_tokens = append.past_tokens;
  args.fresh_tokens = append.fresh_tokens;
  args.tokens = append.tokens;
  args.heads = append.heads;
  args.size = append.size / unit;
  args.fresh_batch = append.fresh_batch / unit;
  args.fresh_token = append.fresh_token / unit;
  args.fresh_head = append.fresh_head / unit;
  args.packed = packs ? 1 : 0;
  args.in_place = append.past == append.present ? 1 : 0;
  const int64_t written = args.in_place != 0 ? append.fresh_tokens : append.tokens;
  const int64_t count = append.batches * append.heads * written * args.size;
  if (count > kMost) return std::nullopt;
  args.count = static_cast<UInt32>(count);
  args.by_size = MakeDivisor(args.size);
  args.by_tokens = MakeDivisor(written);
  args.by_heads = MakeDivisor(append.heads);
  prepared.grid = GridFor(count);
  return prepared;
}

Prepared<KvPositionsArgs> PrepareKvPositions(const int32_t* lengths, int64_t length_more,
                                             int64_t batches, int64_t tokens, bool from_start,
                                             int64_t* out) noexcept {
  static_assert(sizeof(int64_t) == sizeof(Int64));
  Prepared<KvPositionsArgs> prepared{};
  KvPositionsArgs& args = prepared.args;
  args.lengths = lengths;
  args.out = reinterpret_cast<Int64*>(out);
  args.length_more = length_more;
  args.batches = batches;
  args.tokens = tokens;
  args.from_start = from_start ? 1 : 0;
  prepared.grid = GridFor(batches * tokens);
  return prepared;
}

Prepared<KvWindowArgs> PrepareKvWindow(const KvWindow& window, void* out) noexcept {
  Prepared<KvWindowArgs> prepared{};
  KvWindowArgs& args = prepared.args;
  args.lengths = window.lengths;
  args.out = static_cast<unsigned char*>(out);
  args.length_more = window.length_more;
  args.batches = window.batches;
  args.queries = window.queries;
  args.keys = window.keys;
  args.window = window.window;
  args.from_start = window.from_start ? 1 : 0;
  prepared.grid = GridFor(window.batches * window.queries * window.keys);
  return prepared;
}

}  // namespace tunableop::device
