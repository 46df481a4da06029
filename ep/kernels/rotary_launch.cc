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

std::optional<Prepared<RotaryHalvesArgs>> PrepareRotaryHalves(const RotaryHalvesTensors& tensors,
                                                              size_t bytes) noexcept {
  if (tensors.out_dims.empty() || tensors.out_dims.back() % 2 != 0) return std::nullopt;
  const int64_t columns = tensors.out_dims.back();
  const std::array<DimsView, 3> operands{tensors.x_dims, tensors.cosines_dims, tensors.sines_dims};
  std::array<int64_t, 3> elements;  // of each operand so far
  elements.fill(columns);
  Merged<3> merged;
  const size_t rank = tensors.out_dims.size();
  for (const DimsView& dims : operands) {
    if (dims.empty() || dims.size() > rank || dims.back() != columns) return std::nullopt;
  }
  for (size_t d = 1; d < rank; ++d) {
    const int64_t dim = tensors.out_dims[rank - 1 - d];
    std::array<int64_t, 3> strides{};
    for (size_t n = 0; n < 3; ++n) {
      const DimsView& dims = operands[n];
      const int64_t own = d < dims.size() ? dims[dims.size() - 1 - d] : 1;
      if (own != dim && own != 1) return std::nullopt;
      strides[n] = own == 1 ? 0 : elements[n];
      elements[n] *= own;
    }
    if (!merged.Add(dim, strides)) return std::nullopt;
  }
  const auto rows = merged.Finish();
  if (!rows || rows->count > rows->slab) return std::nullopt;

  Prepared<RotaryHalvesArgs> prepared{};
  RotaryHalvesArgs& args = prepared.args;
  args.x = tensors.x;
  args.cosines = tensors.cosines;
  args.sines = tensors.sines;
  args.out = tensors.out;
  args.half = columns / 2;
  args.rows = *rows;
  const auto pack = static_cast<int64_t>(16 / bytes);
  const bool packs = args.half % pack == 0 && IsAligned(args.x, 16) &&
                     IsAligned(args.cosines, 16) && IsAligned(args.sines, 16) &&
                     IsAligned(args.out, 16);
  args.packed = packs ? 1 : 0;
  args.steps = packs ? args.half / pack : args.half;
  args.by_steps = MakeDivisor(args.steps);
  args.wide = rows->count * args.steps > int64_t{1} << 30 ? 1 : 0;
  prepared.grid = GridFor(rows->count * args.steps);
  return prepared;
}

}  // namespace tunableop::device
