#include "backends/cpu/prior.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/native_plan.h"
#include "backends/cpu/work_division.h"
#include "gemm/packed_b.h"

namespace tunableop::cpu {
namespace {

// The default scope's length: what a tuner with a small budget can measure.
constexpr size_t kFew = 5;

// Splitting pays when the product takes longer than this, alone: waking a second thread and waiting
// for it costs about 2 us (measured with ONNX Runtime's pool).
constexpr double kMinSplitMicroseconds = 5.0;
// A core's speed, for that estimate only: 100 GFLOP/s, 40 GB/s.
constexpr double kFlopsPerMicrosecond = 1e5;
constexpr double kBytesPerMicrosecond = 4e4;

// From this many bytes on B comes from memory in every call, and prefetching it can help.
constexpr double kStreamingBytes = 4e6;

// Up to here a product with a streaming B is limited by memory as much as by arithmetic.
constexpr int64_t kDecodeRows = 48;

// Beyond the decode sizes the next block of B is still worth fetching up to here (measured with B
// in the third cache: 128x3072x768 3.90 to 3.64 ms; with m = 512 nothing).
constexpr int64_t kAheadRows = 384;
constexpr int64_t kAheadKc = 1024;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Second-level cache of a core. A property of the machine, so the same in every call.
int64_t SecondLevelCache() {
  static const int64_t bytes = [] {
    int64_t found = 0;
#if defined(_SC_LEVEL2_CACHE_SIZE)
    found = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    // Virtual machines may hide it; 1 MiB is what most server cores have at least.
    return found > 0 ? std::clamp<int64_t>(found, 128 << 10, 4 << 20) : int64_t{1} << 20;
  }();
  return bytes;
}

// Rows of B in a block when the tile is as wide as a group. A block of one group (64 columns) may
// fill a quarter of the second-level cache: measured best on Zen 4 (1 MiB: 1024) and Emerald Rapids
// (2 MiB: 2048).
int64_t WideKc() { return SecondLevelCache() / 4 / (kGroupColumns * int64_t{sizeof(float)}); }

// The same when a group is several tiles wide: the columns of one of them should stay in the
// first-level cache, 32 KiB / 64 bytes (AVX2, k = 3072: 4 % faster than one block).
constexpr int64_t kNarrowKc = 512;

class Ranking {
 public:
  Ranking(const MicroKernels& kernels, const Problem& problem)
      : kernels_(kernels), p_(Flattened(problem)) {
    groups_ = PackedGroupCount(p_.n);
    group_vectors_ = static_cast<int>(
        std::max<int64_t>(1, CeilDiv(std::min(p_.n, kGroupColumns), kernels.width)));
    leaves_cache_ = 4.0 * static_cast<double>(p_.k) * static_cast<double>(p_.n) >=
                    0.5 * static_cast<double>(SecondLevelCache());
    streams_ = 4.0 * static_cast<double>(p_.k) * static_cast<double>(p_.n) >= kStreamingBytes;
  }

  std::vector<KernelConfig> Run(CandidateScope scope) {
    splits_ = RankSplits();
    const bool decode = p_.m <= kDecodeRows && p_.b_layout == BLayout::kPacked && streams_;
    if (DotSupports(p_)) AddDots();
    if (p_.m == 1) {
      AddRow();
    } else if (decode) {
      AddDecode();
    } else {
      AddGeneral();
    }
    if (scope == CandidateScope::kDefault) {
      if (configs_.size() > kFew) configs_.resize(kFew);
    } else {
      AddRest();
    }
    return std::move(configs_);
  }

 private:
  // All ways to divide the work, the most promising first.
  std::vector<Split> RankSplits() const {
    const int64_t threads = p_.threads;
    const double flops = Flops(p_);
    const double bytes = 4.0 * static_cast<double>(p_.k) * static_cast<double>(p_.n) *
                         static_cast<double>(p_.stride_b != 0 ? p_.batch : 1);
    const bool worth =
        flops / kFlopsPerMicrosecond + bytes / kBytesPerMicrosecond > kMinSplitMicroseconds;
    struct Scored {
      Split split;
      double score;
    };
    std::vector<Scored> scored = {{Split::kNone, worth ? 0.0 : 2.0}};
    if (threads > 1) {
      for (const Split split : {Split::kBatch, Split::kRows, Split::kColumns, Split::kGrid}) {
        if (split == Split::kBatch && p_.batch < 2) continue;
        if (split == Split::kRows && p_.m < 2) continue;
        if (split == Split::kColumns && groups_ < 2) continue;
        if (split == Split::kGrid && (threads < 4 || p_.m < 2 || groups_ < 2)) continue;
        scored.push_back({split, Score(split)});
      }
    }
    std::stable_sort(scored.begin(), scored.end(),
                     [](const Scored& a, const Scored& b) { return a.score > b.score; });
    std::vector<Split> splits;
    for (const Scored& entry : scored) splits.push_back(entry.split);
    return splits;
  }

  // Share of the threads' time that is spent on useful arithmetic, roughly.
  double Score(Split split) const {
    const int64_t threads = p_.threads;
    const WorkDivision division(split, threads, p_.batch, p_.m, groups_, p_.m, p_.n);
    // The largest part is what everybody waits for; it is the last one.
    double largest = 0.0;
    int64_t rows = 0;
    for (int64_t i = 0; i < division.count(); ++i) {
      const Part part = division.Get(i);
      const double size = static_cast<double>(part.item_end - part.item_begin) *
                          static_cast<double>(part.row_end - part.row_begin) *
                          static_cast<double>(part.column_end - part.column_begin);
      if (size > largest) {
        largest = size;
        rows = part.row_end - part.row_begin;
      }
    }
    double score = static_cast<double>(p_.batch) * static_cast<double>(p_.m) *
                   static_cast<double>(groups_) / (largest * static_cast<double>(threads));
    // Few rows use each loaded vector of B few times.
    score *= static_cast<double>(rows) / (static_cast<double>(rows) + 1.0);
    // Every thread reads all of the operand that is not divided. That is cheap for a B that fits in
    // a core's cache (64x256x64 on two threads: rows 7.1, columns 9.0 us) and dear for a larger one
    // (128x3072x768: rows 2.1, columns 1.8 ms). A plain B that is packed on the fly would even be
    // packed by every thread.
    const bool packs = p_.b_layout == BLayout::kPlain && (p_.trans_b != 0 || p_.n % kernels_.width);
    const bool small_b = 4.0 * static_cast<double>(p_.k) * static_cast<double>(p_.n) <=
                         0.5 * static_cast<double>(SecondLevelCache());
    if (split == Split::kRows && packs) score *= 0.8;
    if (split == Split::kRows && p_.n > p_.m && !small_b) score *= 0.9;
    if (split == Split::kColumns && (p_.m > p_.n || small_b)) score *= 0.97;
    return score;
  }

  // The same, fetching the next block of B meanwhile: there must be one, and time to fetch it.
  KernelConfig Ahead(TileShape tile, Split split, int64_t kc) const {
    KernelConfig config = Config(tile, split, kc);
    config.ahead = p_.b_layout == BLayout::kPacked && p_.n > kGroupColumns;
    return config;
  }

  KernelConfig Config(TileShape tile, Split split, int64_t kc = 0, int64_t prefetch = 0) const {
    KernelConfig config;
    config.kernels = &kernels_;
    // Never wider than C, nor taller: kernels that would do the same get the same name.
    config.vectors = std::min(tile.vectors, group_vectors_);
    while (kernels_.max_rows[config.vectors] == 0) --config.vectors;
    int64_t rows = tile.rows;
    if (config.vectors < tile.vectors) rows = kernels_.max_rows[config.vectors];
    rows = std::min<int64_t>(rows, kernels_.max_rows[config.vectors]);
    config.rows = static_cast<int>(std::clamp<int64_t>(p_.m, 1, rows));
    config.kc = kc < p_.k ? kc : 0;
    config.split = split;
    if (p_.b_layout == BLayout::kPacked && p_.n >= kGroupColumns) config.prefetch = prefetch;
    return config;
  }

  void Add(const KernelConfig& config) {
    if (std::find(configs_.begin(), configs_.end(), config) == configs_.end()) {
      configs_.push_back(config);
    }
  }

  void AddDots() {
    for (const Split split : splits_) {
      KernelConfig config;
      config.kernels = &kernels_;
      config.dot = true;
      // A dot kernel has one extent to divide.
      config.split = split == Split::kColumns || split == Split::kGrid ? Split::kRows : split;
      Add(config);
      if (configs_.size() == 2) break;
    }
  }

  // The widest tile of one row.
  TileShape RowTile() const {
    int vectors = kMaxTileVectors;
    while (kernels_.max_rows[vectors] == 0) --vectors;
    return {1, vectors};
  }

  // One row: B is read once, from wherever it is; nothing else matters.
  void AddRow() {
    const TileShape tile = RowTile();
    if (streams_) Add(Config(tile, splits_[0], 0, 32));
    Add(Config(tile, splits_[0]));
    if (splits_.size() > 1) Add(Config(tile, splits_[1], 0, streams_ ? 32 : 0));
    Add(Config(tile, splits_[0], 512));
    AddPacked(tile);
  }

  // A few rows and a B that comes from memory. If one tile holds all rows, B passes once, and only
  // the distance of the prefetch matters. Otherwise a block of k stays in the second cache while
  // the tiles pass over it, and the next block is fetched meanwhile (measured with B in memory,
  // 4096 x 4096: 1.14x for m = 8, 1.27x for 16, 1.48x for 32, 1.45x for 64, 1.22x for 128).
  void AddDecode() {
    TileShape single = {0, 0};  // the widest that holds all rows and divides a group evenly
    for (const TileShape tile : kernels_.preferred) {
      const bool even = tile.vectors > 0 && group_vectors_ % tile.vectors == 0;
      if (even && tile.rows >= p_.m && tile.vectors > single.vectors) single = tile;
    }
    const TileShape main = kernels_.preferred[0];
    const TileShape tall = kernels_.preferred[1];
    const TileShape few = single.rows != 0 && single.vectors < group_vectors_ ? single : main;
    const KernelConfig ahead = Ahead(p_.m <= 12 ? few : main, splits_[0], 512);
    // With one pass over B there is nothing to hide the fetching behind.
    const bool one_pass = single.rows != 0 && single.vectors >= group_vectors_;
    if (!one_pass) Add(ahead);
    if (single.rows != 0) Add(Config(single, splits_[0], 0, 32));
    if (one_pass) Add(ahead);
    if (p_.m > 12) Add(Ahead(tall, splits_[0], 512));
    if (single.rows != 0) Add(Config(single, splits_[0], 512, 16));
    // Tall tiles load less of B for each of their rows; the fewer passes over B, the better they
    // do.
    if (p_.m > 3 * main.rows) Add(Config(tall, splits_[0], 0, 16));
    Add(Config(main, splits_[0], 512, 16));
    Add(Config(tall, splits_[0], 512, 16));
    Add(Config(main, splits_[0], DefaultKc()));
    if (splits_.size() > 1) Add(Config(main, splits_[1], 512, 16));
  }

  // Up to half as much again as fits is not worth a second pass over C (k = 3072 on 2 MiB: one
  // block 166, two 163 GFLOP/s).
  int64_t DefaultKc() const {
    const bool wide = kernels_.preferred[0].vectors * kernels_.width >= kGroupColumns;
    const int64_t most = wide ? WideKc() : kNarrowKc;
    return p_.k <= most + most / 2 ? 0 : most;
  }

  // A plain B packed on the fly: pays when its rows are read by many tiles.
  void AddPacked(TileShape tile) {
    if (p_.b_layout == BLayout::kPacked || p_.trans_b != 0) return;
    KernelConfig config = Config(tile, splits_[0], DefaultKc());
    config.pack_b = true;
    Add(config);
  }

  void AddGeneral() {
    const TileShape main = kernels_.preferred[0];
    const int64_t kc = DefaultKc();
    // Rows of a plain B a multiple of 2 KiB apart fall into few cache sets; packing them pays once
    // enough rows of A use them.
    const bool conflicts = p_.b_layout == BLayout::kPlain && p_.ldb % 512 == 0 && p_.k >= 64;
    if (conflicts && p_.m >= 48) AddPacked(main);
    // With many rows B is a small part of the traffic, and longer blocks are worth more.
    if (p_.m <= kAheadRows && leaves_cache_) Add(Ahead(main, splits_[0], kAheadKc));
    Add(Config(main, splits_[0], kc));
    Add(Config(kernels_.preferred[1], splits_[0], kc));
    if (splits_.size() > 1) Add(Config(main, splits_[1], kc));
    AddPacked(main);
    if (p_.k > 768) Add(Config(main, splits_[0], kc == 0 ? CeilDiv(p_.k, 2) : kc / 2));
    if (kernels_.preferred[2].rows != 0) Add(Config(kernels_.preferred[2], splits_[0], kc));
  }

  // Everything else that is sensible: tens.
  void AddRest() {
    for (const TileShape tile : kernels_.preferred) {
      if (tile.rows == 0) continue;
      for (const int64_t kc : {int64_t{0}, int64_t{256}, int64_t{512}, int64_t{1024}}) {
        for (const Split split : splits_) Add(Config(tile, split, kc));
        if (leaves_cache_) Add(Ahead(tile, splits_[0], kc));
        if (streams_ && p_.m <= 64) {
          for (const int64_t prefetch : {16, 48}) Add(Config(tile, splits_[0], kc, prefetch));
        }
      }
      AddPacked(tile);
      KernelConfig config = Config(tile, splits_[0], DefaultKc());
      config.pack_a = true;
      Add(config);
      for (const int64_t mc : {192, 384}) {
        if (mc >= p_.m) continue;
        for (const int64_t kc : {DefaultKc(), int64_t{1024}}) {
          config = Config(tile, splits_[0], kc);
          config.mc = mc;
          Add(config);
        }
      }
    }
    for (int vectors = 1; vectors <= kMaxTileVectors; ++vectors) {
      if (kernels_.max_rows[vectors] == 0) continue;
      Add(Config({kernels_.max_rows[vectors], vectors}, splits_[0]));
    }
  }

  const MicroKernels& kernels_;
  const Problem p_;  // flattened
  int64_t groups_;
  int group_vectors_;  // vectors across the widest group
  bool leaves_cache_;  // B does not stay in the second-level cache from call to call
  bool streams_;
  std::vector<Split> splits_;
  std::vector<KernelConfig> configs_;
};

}  // namespace

std::vector<KernelConfig> RankedConfigs(const MicroKernels& kernels, const Problem& problem,
                                        CandidateScope scope) {
  return Ranking(kernels, problem).Run(scope);
}

}  // namespace tunableop::cpu
