#include "tuner/operand_ranges.h"

#include "gemm/packed_b.h"

namespace tunableop {
namespace {

Range Matrices(const void* data, DataType type, int64_t rows, int64_t columns, int64_t leading,
               int64_t batch, int64_t stride) noexcept {
  const int64_t elements = (batch - 1) * stride + (rows - 1) * leading + columns;
  return {data, static_cast<size_t>(elements) * SizeOf(type)};
}

}  // namespace

OperandRanges RangesOf(const Problem& p, const Operands& o) noexcept {
  OperandRanges ranges;
  if (Flops(p) == 0.0) return ranges;
  ranges.a = p.trans_a != 0 ? Matrices(o.a, p.a_type, p.k, p.m, p.lda, p.batch, p.stride_a)
                            : Matrices(o.a, p.a_type, p.m, p.k, p.lda, p.batch, p.stride_a);
  if (p.b_layout == BLayout::kPacked) {
    ranges.b = {
        o.packed_b,
        static_cast<size_t>((p.batch - 1) * p.stride_b + PackedFloats(p.k, p.n)) * sizeof(float)};
  } else {
    ranges.b = p.trans_b != 0 ? Matrices(o.b, p.b_type, p.n, p.k, p.ldb, p.batch, p.stride_b)
                              : Matrices(o.b, p.b_type, p.k, p.n, p.ldb, p.batch, p.stride_b);
  }
  ranges.c = Matrices(o.c, p.c_type, p.m, p.n, p.ldc, p.batch, p.stride_c);
  if (o.bias != nullptr) ranges.bias = {o.bias, static_cast<size_t>(p.n) * SizeOf(p.c_type)};
  return ranges;
}

}  // namespace tunableop
