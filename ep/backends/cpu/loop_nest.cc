#include "backends/cpu/loop_nest.h"

#include <algorithm>
#include <cstddef>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/scratch.h"
#include "gemm/packed_b.h"

namespace tunableop::cpu {
namespace {

// Floats of B that are packed before rows are walked: 1 MiB, half of the second-level cache of a
// server core; smaller caches are served by smaller kc.
constexpr int64_t kPackedBlockFloats = int64_t{1} << 18;
// Rows of A that are packed at once when the kernel names no mc.
constexpr int64_t kPackedRows = 192;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The loops of one RunBlock call.
class Nest {
 public:
  Nest(const Problem& problem, const KernelConfig& config, const Operands& operands, int64_t item,
       const Part& part) noexcept
      : p_(problem),
        config_(config),
        kernels_(*config.kernels),
        part_(part),
        a_(static_cast<const float*>(operands.a) + item * problem.stride_a),
        c_(static_cast<float*>(operands.c) + item * problem.stride_c),
        bias_(BiasOf(problem, operands)),
        alpha_(operands.alpha),
        beta_(operands.beta) {
    packed_ = p_.b_layout == BLayout::kPacked;
    b_ = (packed_ ? operands.packed_b : static_cast<const float*>(operands.b)) + item * p_.stride_b;
    // The packed form of a single column is too narrow for vectors: it is read as a plain column.
    ldb_ = packed_ ? 1 : p_.ldb;
    if (packed_ && p_.n == 1) packed_ = false;
    pack_all_ = !packed_ && (config.pack_b || p_.trans_b != 0);
    pack_a_ = config.pack_a || p_.trans_a != 0;
  }

  bool Run() noexcept {
    const int64_t kc = config_.kc > 0 ? std::min(config_.kc, p_.k) : p_.k;
    const int64_t k_blocks = kc > 0 ? CeilDiv(p_.k, kc) : 1;
    // Blocks of even size: 1111 is 556 + 555, not 1024 + 87.
    const int64_t k_step = k_blocks > 1 ? CeilDiv(CeilDiv(p_.k, k_blocks), 4) * 4 : p_.k;
    const int64_t rows = part_.row_end - part_.row_begin;
    int64_t m_step = config_.mc > 0 ? std::min(config_.mc, rows) : rows;
    if (pack_a_ && config_.mc == 0) m_step = std::min(m_step, kPackedRows);
    const int64_t m_blocks = CeilDiv(rows, m_step);
    m_step = CeilDiv(rows, m_blocks);

    int64_t group_step = part_.column_end - part_.column_begin;
    if (pack_all_) {
      group_step = std::clamp<int64_t>(
          kPackedBlockFloats / std::max<int64_t>(1, k_step * kGroupColumns), 1, group_step);
    }
    if (!ReserveScratch(k_step, m_step, group_step)) return false;

    for (int64_t g = part_.column_begin; g < part_.column_end; g += group_step) {
      const int64_t g_end = std::min(g + group_step, part_.column_end);
      int64_t p = 0;
      do {
        k_begin_ = p;
        k_count_ = std::min(k_step, p_.k - p);
        SetFinish();
        PackColumns(g, g_end);
        for (int64_t i = part_.row_begin; i < part_.row_end; i += m_step) {
          const int64_t i_end = std::min(i + m_step, part_.row_end);
          SetRows(i, i_end);
          for (int64_t group = g; group < g_end; ++group) {
            SetAhead(group + 1 < g_end ? group + 1 : g, group + 1 < g_end ? p : p + k_step);
            RunGroup(group, g, i, i_end);
          }
        }
        p += k_step;
      } while (p < p_.k);
    }
    return true;
  }

 private:
  // Where the rows of one group start for the current k block, and how far apart they are.
  struct GroupView {
    const float* b;
    int64_t ldb;
    int64_t width;  // columns that may be read
    BAccess access;
  };

  bool ReserveScratch(int64_t k_step, int64_t m_step, int64_t group_step) noexcept {
    const int64_t last = PackedGroupCount(p_.n) - 1;
    // A plain B whose last group does not end on a vector is copied, so that nothing is read beyond
    // its end.
    pack_last_ = !packed_ && !pack_all_ && p_.n % kernels_.width != 0 && part_.column_end > last;
    int64_t b_floats = 0;
    if (pack_all_) b_floats = k_step * kGroupColumns * group_step;
    if (pack_last_) b_floats = k_step * kGroupColumns;
    // One cache line more than k: rows a power of two apart would share cache sets.
    packed_lda_ = CeilDiv(k_step, 16) * 16 + 16;
    const int64_t a_floats = pack_a_ ? m_step * packed_lda_ : 0;
    if (a_floats + b_floats == 0) return true;
    float* memory = Scratch::Get().Reserve(static_cast<size_t>(a_floats + b_floats));
    if (memory == nullptr) return false;
    b_scratch_ = memory;
    a_scratch_ = memory + b_floats;
    return true;
  }

  void SetFinish() noexcept {
    const bool first = k_begin_ == 0;
    const bool last = k_begin_ + k_count_ >= p_.k;
    finish_.alpha = alpha_;
    finish_.beta = first ? beta_ : 1.0F;
    finish_.bias = last ? bias_ : nullptr;
    finish_.activation = last ? ActivationOf(p_.epilogue) : kNoActivation;
  }

  // Width of a packed group in scratch: a whole number of vectors, whatever n is.
  int64_t ScratchWidth(int64_t group) const noexcept {
    const int64_t left = std::min(p_.n - group * kGroupColumns, kGroupColumns);
    return CeilDiv(left, kernels_.width) * kernels_.width;
  }

  void PackColumns(int64_t group_begin, int64_t group_end) noexcept {
    if (pack_last_) group_begin = PackedGroupCount(p_.n) - 1;
    if (!pack_all_ && !pack_last_) return;
    float* to = b_scratch_;
    for (int64_t group = group_begin; group < group_end; ++group) {
      const int64_t column = group * kGroupColumns;
      PackArgs args;
      args.from_row = p_.trans_b != 0 ? 1 : ldb_;
      args.from_column = p_.trans_b != 0 ? ldb_ : 1;
      args.from = b_ + k_begin_ * args.from_row + column * args.from_column;
      args.rows = k_count_;
      args.columns = std::min(p_.n - column, kGroupColumns);
      args.to = to;
      args.width = ScratchWidth(group);
      kernels_.pack(args);
      to += k_count_ * args.width;
    }
  }

  void SetRows(int64_t begin, int64_t end) noexcept {
    if (!pack_a_) {
      rows_a_ = a_ + begin * p_.lda + k_begin_;
      rows_lda_ = p_.lda;
      return;
    }
    PackArgs args;
    args.from_row = p_.trans_a != 0 ? 1 : p_.lda;
    args.from_column = p_.trans_a != 0 ? p_.lda : 1;
    args.from = a_ + begin * args.from_row + k_begin_ * args.from_column;
    args.rows = end - begin;
    args.columns = k_count_;
    args.to = a_scratch_;
    args.width = packed_lda_;
    kernels_.pack(args);
    rows_a_ = a_scratch_;
    rows_lda_ = packed_lda_;
  }

  GroupView View(int64_t group, int64_t first_group) const noexcept {
    GroupView view;
    if (packed_) {
      view.width = PackedGroupWidth(p_.n, group);
      view.ldb = view.width;
      view.b = b_ + group * kGroupColumns * p_.k + k_begin_ * view.width;
    } else if (pack_all_ || (pack_last_ && group == PackedGroupCount(p_.n) - 1)) {
      view.width = ScratchWidth(group);
      view.ldb = view.width;
      view.b = b_scratch_ + (pack_all_ ? (group - first_group) * kGroupColumns * k_count_ : 0);
    } else {
      view.width = std::min(p_.n - group * kGroupColumns, kGroupColumns);
      view.ldb = ldb_;
      view.b = b_ + k_begin_ * ldb_ + group * kGroupColumns;
    }
    view.access = view.ldb == kGroupColumns
                      ? (packed_ && config_.prefetch > 0 ? kGroupPrefetch : kGroupStride)
                      : kAnyStride;
    return view;
  }

  // Vectors of the next tile when `left` are: the configured width, or the widest that fits.
  int NextVectors(int64_t left) const noexcept {
    if (left >= config_.vectors) return config_.vectors;
    int vectors = static_cast<int>(left);
    while (kernels_.max_rows[vectors] == 0) --vectors;
    return vectors;
  }

  void RunGroup(int64_t group, int64_t first_group, int64_t row_begin, int64_t row_end) noexcept {
    const GroupView view = View(group, first_group);
    const int64_t column = group * kGroupColumns;
    const int64_t columns = std::min(p_.n - column, kGroupColumns);
    const int64_t width = kernels_.width;
    TileArgs args;
    args.lda = rows_lda_;
    args.ldb = view.ldb;
    args.ldc = p_.ldc;
    args.k = k_count_;
    args.prefetch = config_.prefetch * kGroupColumns;
    args.ahead = ahead_;
    args.ahead_step = 0;
    BAccess access = view.access;
    if (ahead_ != nullptr && access == kGroupStride) {
      access = kGroupAhead;
      const int64_t strips = CeilDiv(CeilDiv(columns, width), config_.vectors);
      const int64_t passes = strips * CeilDiv(row_end - row_begin, config_.rows);
      args.ahead_step = CeilDiv(kGroupColumns * int64_t{sizeof(float)}, passes);
    }
    args.finish = finish_;
    for (int64_t j = 0; j < columns;) {
      const int vectors = NextVectors(CeilDiv(columns - j, width));
      args.b = view.b + j;
      args.columns = std::min(columns - j, vectors * width);
      if (bias_ != nullptr && finish_.bias != nullptr) args.finish.bias = bias_ + column + j;
      RunStrip(&args, access, vectors, row_end - row_begin, c_ + row_begin * p_.ldc + column + j);
      j += vectors * width;
    }
  }

  // The block of a packed B that RunGroup meets after the present one.
  void SetAhead(int64_t group, int64_t k_begin) noexcept {
    ahead_ = nullptr;
    if (!config_.ahead || !packed_ || k_begin >= p_.k) return;
    ahead_ = reinterpret_cast<const char*>(b_ + group * kGroupColumns * p_.k +
                                           k_begin * PackedGroupWidth(p_.n, group));
  }

  // `tiles` tiles of `rows` rows below each other.
  void RunTiles(TileArgs* args, BAccess access, int vectors, int64_t rows, int64_t tiles) noexcept {
    args->tiles = tiles;
    kernels_.tile[access][vectors][rows](*args);
    args->a += tiles * rows * args->lda;
    args->c += tiles * rows * args->ldc;
    args->ahead += tiles * args->k * args->ahead_step;
  }

  // Rows cut evenly: 128 rows of a 6-row tile are 18 x 6 + 4 x 5, not 21 x 6 + 2.
  void RunStrip(TileArgs* args, BAccess access, int vectors, int64_t rows, float* c) noexcept {
    const int64_t most = vectors == config_.vectors ? config_.rows : kernels_.max_rows[vectors];
    const int64_t tiles = CeilDiv(rows, most);
    const int64_t fewer = rows / tiles;
    const int64_t longer = rows % tiles;
    args->a = rows_a_;
    args->c = c;
    if (longer > 0) RunTiles(args, access, vectors, fewer + 1, longer);
    RunTiles(args, access, vectors, fewer, tiles - longer);
  }

  const Problem& p_;
  const KernelConfig& config_;
  const MicroKernels& kernels_;
  const Part& part_;
  const float* a_;
  const float* b_;
  float* c_;
  const float* bias_;
  float alpha_;
  float beta_;
  int64_t ldb_;
  bool packed_;
  bool pack_all_;
  bool pack_last_ = false;
  bool pack_a_;
  // The current k block and row block.
  int64_t k_begin_ = 0;
  int64_t k_count_ = 0;
  const float* rows_a_ = nullptr;
  int64_t rows_lda_ = 0;
  int64_t packed_lda_ = 0;
  const char* ahead_ = nullptr;
  float* a_scratch_ = nullptr;
  float* b_scratch_ = nullptr;
  Finish finish_ = {};
};

}  // namespace

bool RunBlock(const Problem& problem, const KernelConfig& config, const Operands& operands,
              int64_t item, const Part& part) noexcept {
  if (part.row_begin >= part.row_end || part.column_begin >= part.column_end) return true;
  return Nest(problem, config, operands, item, part).Run();
}

void RunDot(const Problem& problem, const KernelConfig& config, const Operands& operands,
            int64_t item, int64_t begin, int64_t end) noexcept {
  const float* a = static_cast<const float*>(operands.a) + item * problem.stride_a;
  const float* b = (problem.b_layout == BLayout::kPacked ? operands.packed_b
                                                         : static_cast<const float*>(operands.b)) +
                   item * problem.stride_b;
  float* c = static_cast<float*>(operands.c) + item * problem.stride_c;
  const float* bias = BiasOf(problem, operands);
  DotArgs args;
  if (problem.n == 1) {
    args.a = a + begin * problem.lda;
    args.lda = problem.lda;
    args.b = b;
    args.c_stride = problem.ldc;
    args.bias_stride = 0;
  } else {  // one row: the rows of the transposed B play the part of A
    args.a = b + begin * problem.ldb;
    args.lda = problem.ldb;
    args.b = a;
    args.c_stride = 1;
    args.bias_stride = 1;
  }
  args.k = problem.k;
  args.c = c + begin * args.c_stride;
  args.rows = end - begin;
  args.finish.alpha = operands.alpha;
  args.finish.beta = operands.beta;
  args.finish.bias = bias == nullptr ? nullptr : bias + begin * args.bias_stride;
  args.finish.activation = ActivationOf(problem.epilogue);
  config.kernels->dot(args);
}

}  // namespace tunableop::cpu
