#include "provider/kernels/matmul_shape.h"

#include <algorithm>
#include <string>

namespace tunableop {
namespace {

Status Wrong(std::span<const int64_t> a, std::span<const int64_t> b, const std::string& what) {
  return {StatusCode::kInvalidArgument,
          "MatMul of A " + DimsText(a) + " and B " + DimsText(b) + ": " + what};
}

// A batch dimension counted from the right; 1 where the input has none.
int64_t BatchDim(std::span<const int64_t> dims, size_t from_right) noexcept {
  const size_t batch_rank = dims.size() > 2 ? dims.size() - 2 : 0;
  return from_right < batch_rank ? dims[batch_rank - 1 - from_right] : 1;
}

// Merges the broadcast batch dimensions, innermost first, into as few loops as their strides allow.
Status CollapseBatch(std::span<const int64_t> a, std::span<const int64_t> b, size_t batch_rank,
                     MatMulShape& shape, std::array<BatchLoop, kMaxRank>& loops, size_t& count) {
  int64_t a_matrices = 1;
  int64_t b_matrices = 1;
  for (size_t i = 0; i < batch_rank; ++i) {
    const int64_t a_dim = BatchDim(a, i);
    const int64_t b_dim = BatchDim(b, i);
    if (a_dim != b_dim && a_dim != 1 && b_dim != 1) {
      return Wrong(a, b,
                   "batch dimensions " + std::to_string(a_dim) + " and " + std::to_string(b_dim) +
                       " do not broadcast");
    }
    const int64_t size = a_dim == 1 ? b_dim : a_dim;
    shape.output[batch_rank - 1 - i] = size;
    if (size == 1) continue;
    const BatchLoop loop{size, a_dim == 1 ? 0 : a_matrices, b_dim == 1 ? 0 : b_matrices};
    a_matrices *= a_dim;
    b_matrices *= b_dim;
    if (count > 0) {
      BatchLoop& last = loops[count - 1];
      if (loop.a_stride == last.a_stride * last.count &&
          loop.b_stride == last.b_stride * last.count) {
        last.count *= size;
        continue;
      }
    }
    loops[count++] = loop;
  }
  return Status::Ok();
}

}  // namespace

std::string DimsText(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  return text + "]";
}

bool MatMulShape::empty() const noexcept {
  return std::find(output.begin(), output.begin() + static_cast<ptrdiff_t>(output_rank), 0) !=
         output.begin() + static_cast<ptrdiff_t>(output_rank);
}

Status ResolveMatMul(std::span<const int64_t> a, std::span<const int64_t> b, MatMulShape& shape) {
  if (a.empty() || b.empty())
    return Wrong(a, b, "an input is a scalar; at least one dimension is needed");
  if (std::max(a.size(), b.size()) > kMaxRank) {
    return Wrong(a, b, "more than " + std::to_string(kMaxRank) + " dimensions are not supported");
  }
  const bool a_vector = a.size() == 1;
  const bool b_vector = b.size() == 1;
  shape.m = a_vector ? 1 : a[a.size() - 2];
  shape.k = a[a.size() - 1];
  shape.n = b_vector ? 1 : b[b.size() - 1];
  const int64_t b_rows = b_vector ? b[0] : b[b.size() - 2];
  if (shape.k != b_rows) {
    return Wrong(a, b,
                 "A has " + std::to_string(shape.k) + " columns and B " + std::to_string(b_rows) +
                     " rows; they must be equal");
  }

  const size_t rank = std::max(a.size(), b.size());
  const size_t batch_rank = rank > 2 ? rank - 2 : 0;
  std::array<BatchLoop, kMaxRank> loops;
  size_t count = 0;
  if (Status status = CollapseBatch(a, b, batch_rank, shape, loops, count); !status.ok())
    return status;
  shape.output_rank = batch_rank;
  if (!a_vector) shape.output[shape.output_rank++] = shape.m;
  if (!b_vector) shape.output[shape.output_rank++] = shape.n;

  shape.inner = {1, 0, 0};
  shape.outer_count = 0;
  if (shape.empty()) return Status::Ok();  // nothing to compute; strides would be zero

  size_t next = 0;
  // One B for consecutive matrices of A: they are rows of one taller matrix.
  if (count > 0 && loops[0].b_stride == 0 && loops[0].a_stride == 1) {
    shape.m *= loops[0].count;
    // What remains counts taller matrices of A.
    for (size_t i = 1; i < count; ++i) loops[i].a_stride /= loops[0].count;
    next = 1;
  }
  if (next < count) shape.inner = loops[next++];
  while (next < count) shape.outer[shape.outer_count++] = loops[next++];
  return Status::Ok();
}

}  // namespace tunableop
