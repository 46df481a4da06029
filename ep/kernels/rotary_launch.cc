#include "kernels/rotary_launch.h"

namespace tunableop::device {

std::optional<Prepared<RotaryArgs>> PrepareRotary(const RotaryTensors& tensors,
                                                  const RotaryShape& shape) noexcept {
  static_assert(sizeof(int64_t) == sizeof(Int64));
  const int64_t rotated = shape.rotated > 0 ? shape.rotated : shape.head;
  if (rotated % 2 != 0 || rotated > shape.head) return std::nullopt;
  Prepared<RotaryArgs> prepared{};
  RotaryArgs& args = prepared.args;
  args.x = tensors.x;
  args.out = tensors.out;
  args.cosines = tensors.cosines;
  args.sines = tensors.sines;
  args.positions = reinterpret_cast<const Int64*>(tensors.positions);
  args.first = tensors.first ? 1 : 0;
  args.each = tensors.each ? 1 : 0;
  args.interleaved = shape.interleaved ? 1 : 0;
  args.half = static_cast<UInt32>(rotated / 2);
  args.head = static_cast<UInt32>(shape.head);
  args.pairs = static_cast<UInt32>((shape.head + 1) / 2);
  args.rows = tensors.each ? shape.batch * shape.sequence : tensors.cache_rows;
  args.batch = shape.batch;
  args.sequence = shape.sequence;
  args.heads = shape.heads;
  const int64_t pairs = shape.batch * shape.sequence * shape.heads * args.pairs;
  if (pairs > int64_t{1} << 30) return std::nullopt;
  args.by_pairs = MakeDivisor(args.pairs);
  args.by_heads = MakeDivisor(shape.heads);
  args.by_sequence = MakeDivisor(shape.sequence);
  const int64_t all = shape.sequence * shape.heads * shape.head;
  const int64_t token = shape.heads_outside ? shape.head : shape.heads * shape.head;
  const int64_t head = shape.heads_outside ? shape.sequence * shape.head : shape.head;
  const bool part = shape.x_token > 0 && !shape.heads_outside;
  args.x_strides[0] = part ? shape.sequence * shape.x_token : all;
  args.x_strides[1] = part ? shape.x_token : token;
  args.x_strides[2] = head;
  args.out_strides[0] = all;
  args.out_strides[1] = token;
  args.out_strides[2] = head;
  prepared.grid = GridFor(pairs);
  return prepared;
}

}  // namespace tunableop::device
