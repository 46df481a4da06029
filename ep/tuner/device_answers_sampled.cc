#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tuner/device_answers.h"
#include "tuner/host_memory.h"
#include "tuner/operand_ranges.h"
#include "tuner/scratch.h"

namespace tunableop {
namespace {

constexpr int64_t kEdgeRows = 4;    // the first and the last so many
constexpr int64_t kOtherRows = 8;   // at random, where a row of op(A) is one piece
constexpr int64_t kBlock = 64;      // columns: the first and the last so many
constexpr int64_t kMostBlocks = 8;  // of columns, the others at random
constexpr size_t kPatternBytes = size_t{64} << 10;

// A run of neighbouring rows or columns.
struct Run {
  int64_t first;
  int64_t count;
};

int64_t CountOf(const std::vector<Run>& runs) {
  int64_t count = 0;
  for (const Run& run : runs) count += run.count;
  return count;
}

// The first and the last `edge` of `size`, and `more` runs of `edge` at random between them. All of
// them where that is no more.
std::vector<Run> Choose(int64_t size, int64_t edge, int64_t length, int64_t more, uint64_t seed) {
  if (size <= 2 * edge + more * length) return {{0, size}};
  std::vector<Run> runs = {{0, edge}};
  const int64_t between = (size - 2 * edge) / length;
  std::vector<int64_t> chosen;
  std::mt19937_64 random(seed);
  while (static_cast<int64_t>(chosen.size()) < more) {
    const auto at = static_cast<int64_t>(random() % static_cast<uint64_t>(between));
    if (std::find(chosen.begin(), chosen.end(), at) == chosen.end()) chosen.push_back(at);
  }
  std::sort(chosen.begin(), chosen.end());
  for (const int64_t at : chosen) runs.push_back({edge + at * length, length});
  runs.push_back({size - edge, edge});
  return runs;
}

// function(from, to, count) for each piece of a stored matrix that is in some of its rows and
// columns, in elements; `to`: in the matrix that these alone would be.
template <typename Function>
Status ForEachPiece(const std::vector<Run>& rows, const std::vector<Run>& columns, int64_t leading,
                    const Function& function) {
  int64_t to = 0;
  for (const Run& row_run : rows) {
    for (int64_t row = row_run.first; row < row_run.first + row_run.count; ++row) {
      for (const Run& run : columns) {
        TUNABLEOP_RETURN_IF_ERROR(function(row * leading + run.first, to, run.count));
        to += run.count;
      }
    }
  }
  return Status::Ok();
}

const char* At(const void* data, size_t size, int64_t index) {
  return static_cast<const char*>(data) + static_cast<size_t>(index) * size;
}
char* At(void* data, size_t size, int64_t index) {
  return static_cast<char*>(data) + static_cast<size_t>(index) * size;
}

// The sampled rows and columns are a problem of their own, without gaps, and what a kernel left is
// judged as the answer to that.
class SampledAnswers final : public DeviceAnswers {
 public:
  explicit SampledAnswers(const Setting& setting)
      : DeviceAnswers(setting.stream), problem_(setting.problem), operands_(setting.operands) {}

  ~SampledAnswers() override {
    if (stream_.broken() || scratch_ == nullptr) return;
    static_cast<void>(stream_.device().Fill(scratch_, 0, size_, stream_.native()));
  }

  Status SetUp(const Setting& setting, int64_t most_copies) {
    Result<size_t> size = Scratch::BytesFor(problem_, setting.max_bytes);
    if (!size.ok()) return size.TakeStatus();
    size_ = size.value();
    Result<void*> scratch = stream_.Allocate(size_);
    if (!scratch.ok()) return scratch.TakeStatus();
    scratch_ = scratch.value();
    ChooseSample(most_copies);
    TUNABLEOP_RETURN_IF_ERROR(AllocateOnHost(setting));
    TUNABLEOP_RETURN_IF_ERROR(FetchOperands());
    TUNABLEOP_RETURN_IF_ERROR(stream_.Finish());
    verifier_.emplace(sample_, view_, setting.host, setting.budget,
                      setting.max_bytes - host_bytes_);
    note_ = "checked in " + std::to_string(sample_.m * sample_.batch) + " rows and " +
            std::to_string(sample_.n) + " columns";
    return Status::Ok();
  }

  Status Prepare() override {
    // Poison everywhere: a piece of it, then what is there once more behind it, and so on.
    const size_t piece = std::min(pattern_bytes_, size_);
    TUNABLEOP_RETURN_IF_ERROR(
        stream_.Copy(scratch_, pattern_.data(), piece, CopyKind::kHostToDevice));
    for (size_t done = piece; done < size_;) {
      const size_t more = std::min(done, size_ - done);
      TUNABLEOP_RETURN_IF_ERROR(stream_.Copy(static_cast<char*>(scratch_) + done, scratch_, more,
                                             CopyKind::kDeviceToDevice));
      done += more;
    }
    if (operands_.beta == 0.0F) return Status::Ok();
    const size_t bytes = RangesOf(problem_, operands_).c.bytes;
    return stream_.Copy(c_, operands_.c, bytes, CopyKind::kDeviceToDevice);
  }

  Result<Verifier::Verdict> Check(const std::string& name) override {
    for (size_t i = 0; i < items_.size(); ++i) {
      const char* item = At(c_, c_size_, items_[i] * problem_.stride_c);
      char* copy = At(image_->c(), c_size_, static_cast<int64_t>(i) * sample_.stride_c);
      TUNABLEOP_RETURN_IF_ERROR(
          ForEachPiece(rows_, columns_, problem_.ldc, [&](int64_t from, int64_t to, int64_t count) {
            return stream_.Copy(At(copy, c_size_, to), At(item, c_size_, from),
                                static_cast<size_t>(count) * c_size_, CopyKind::kDeviceToHost);
          }));
    }
    const size_t before =
        static_cast<size_t>(static_cast<char*>(c_) - static_cast<char*>(scratch_));
    const size_t extent = RangesOf(problem_, operands_).c.bytes;
    const size_t after = std::min(before, size_ - before - extent);
    char* margins = static_cast<char*>(margins_.data());
    TUNABLEOP_RETURN_IF_ERROR(stream_.Copy(margins, scratch_, before, CopyKind::kDeviceToHost));
    TUNABLEOP_RETURN_IF_ERROR(stream_.Copy(margins + before, static_cast<char*>(c_) + extent, after,
                                           CopyKind::kDeviceToHost));
    TUNABLEOP_RETURN_IF_ERROR(stream_.Finish());
    Verifier::Verdict verdict = verifier_->Check(*image_, name);
    const bool intact = std::memcmp(margins, pattern_.data(), before) == 0 &&
                        std::memcmp(margins + before, pattern_.data(), after) == 0;
    if (verdict.right && !intact) {
      verdict = {false, HUGE_VAL, "wrong answer: wrote outside of C"};
    }
    return verdict;
  }

 private:
  void ChooseSample(int64_t most_copies) {
    c_size_ = SizeOf(problem_.c_type);
    items_ = {0};
    if (problem_.batch > 1) items_.push_back(problem_.batch - 1);
    const auto items = static_cast<int64_t>(items_.size());
    rows_ = Choose(problem_.m, std::min(kEdgeRows, problem_.m), 1,
                   problem_.trans_a != 0 ? 0 : kOtherRows, 1);
    // A block of columns of B is one piece for each of the k rows, or for each column.
    const int64_t each = problem_.trans_b != 0 ? kBlock : problem_.k;
    const int64_t b_items = problem_.stride_b == 0 ? 1 : items;
    const int64_t blocks =
        std::clamp<int64_t>(most_copies / std::max<int64_t>(1, each * b_items), 2, kMostBlocks);
    columns_ = Choose(problem_.n, std::min(kBlock, problem_.n), kBlock, blocks - 2, 2);
    sample_ = problem_;
    sample_.m = CountOf(rows_);
    sample_.n = CountOf(columns_);
    sample_.batch = items;
    sample_.lda = problem_.trans_a != 0 ? sample_.m : problem_.k;
    sample_.ldb = problem_.trans_b != 0 ? problem_.k : sample_.n;
    sample_.ldc = sample_.n;
    sample_.stride_a = items > 1 && problem_.stride_a != 0 ? sample_.m * problem_.k : 0;
    sample_.stride_b = items > 1 && problem_.stride_b != 0 ? sample_.n * problem_.k : 0;
    sample_.stride_c = items > 1 ? sample_.m * sample_.n : 0;
  }

  Status AllocateOnHost(const Setting& setting) {
    const OperandRanges sample = RangesOf(sample_, operands_);
    const size_t image = Scratch::BytesFor(sample_, SIZE_MAX).value();
    const std::array<size_t, 7> bytes = {sample.a.bytes,
                                         sample.b.bytes,
                                         sample.c.bytes,
                                         sample.bias.bytes,
                                         image,
                                         kPatternBytes,
                                         4096};
    const std::array<HostMemory*, 7> memory = {
        &a_, &b_, &c_copy_, &bias_, &image_memory_, &pattern_, &margins_};
    for (size_t i = 0; i < bytes.size(); ++i) {
      host_bytes_ += bytes[i];
      if (host_bytes_ > setting.max_bytes) {
        return {StatusCode::kOutOfMemory, "checking takes more than the ceiling of " +
                                              std::to_string(setting.max_bytes) + " bytes"};
      }
      Result<HostMemory> made = HostMemory::Create(stream_, std::max<size_t>(1, bytes[i]), true);
      if (!made.ok()) return made.TakeStatus();
      *memory[i] = std::move(made.value());
    }
    image_.emplace(Scratch::Image(sample_, image_memory_.data()));
    // Everything in the image is its poison now.
    pattern_bytes_ = kPatternBytes;
    auto* pattern = static_cast<char*>(pattern_.data());
    for (size_t at = 0; at < kPatternBytes; at += c_size_) {
      std::memcpy(pattern + at, image_->memory(), c_size_);
    }
    c_ = static_cast<char*>(scratch_) + Scratch::OffsetOfC(problem_);
    view_ = operands_;
    view_.a = a_.data();
    view_.b = b_.data();
    view_.b_transposed = nullptr;
    view_.c = operands_.beta != 0.0F ? c_copy_.data() : nullptr;
    view_.bias = operands_.bias != nullptr ? bias_.data() : nullptr;
    return Status::Ok();
  }

  Status FetchOperands() {
    const std::vector<Run> depth = {{0, problem_.k}};
    const bool at = problem_.trans_a != 0;
    const bool bt = problem_.trans_b != 0;
    TUNABLEOP_RETURN_IF_ERROR(Fetch(a_.data(), operands_.a, problem_.a_type, at ? depth : rows_,
                                    at ? rows_ : depth, problem_.lda, problem_.stride_a,
                                    sample_.stride_a));
    TUNABLEOP_RETURN_IF_ERROR(Fetch(b_.data(), operands_.b, problem_.b_type, bt ? columns_ : depth,
                                    bt ? depth : columns_, problem_.ldb, problem_.stride_b,
                                    sample_.stride_b));
    if (operands_.bias != nullptr) {
      TUNABLEOP_RETURN_IF_ERROR(
          Fetch(bias_.data(), operands_.bias, problem_.c_type, {{0, 1}}, columns_, 0, 0, 0));
    }
    if (operands_.beta == 0.0F) return Status::Ok();
    return Fetch(c_copy_.data(), operands_.c, problem_.c_type, rows_, columns_, problem_.ldc,
                 problem_.stride_c, sample_.stride_c);
  }

  Status Fetch(void* to, const void* from, DataType type, const std::vector<Run>& rows,
               const std::vector<Run>& columns, int64_t leading, int64_t stride,
               int64_t sample_stride) {
    const size_t size = SizeOf(type);
    const size_t items = stride == 0 ? 1 : items_.size();
    for (size_t i = 0; i < items; ++i) {
      const char* item = At(from, size, items_[i] * stride);
      char* copy = At(to, size, static_cast<int64_t>(i) * sample_stride);
      TUNABLEOP_RETURN_IF_ERROR(
          ForEachPiece(rows, columns, leading, [&](int64_t at, int64_t copy_at, int64_t count) {
            return copies_.Fetch(stream_, At(copy, size, copy_at), At(item, size, at),
                                 static_cast<size_t>(count) * size);
          }));
    }
    return Status::Ok();
  }

  const Problem& problem_;
  const Operands& operands_;  // the card's
  size_t size_ = 0;
  size_t c_size_ = 0;
  void* scratch_ = nullptr;  // on the card
  std::vector<int64_t> items_;
  std::vector<Run> rows_;  // the same in all of them
  std::vector<Run> columns_;
  Problem sample_;
  Operands view_;  // of the sample, on the host
  HostMemory a_;
  HostMemory b_;
  HostMemory c_copy_;
  HostMemory bias_;
  HostMemory image_memory_;
  HostMemory pattern_;
  HostMemory margins_;
  size_t pattern_bytes_ = 0;
  std::optional<Scratch> image_;
  std::optional<Verifier> verifier_;
};

}  // namespace

Result<std::unique_ptr<DeviceAnswers>> DeviceAnswers::CreateSampled(const Setting& setting,
                                                                    int64_t most_copies) {
  auto self = std::make_unique<SampledAnswers>(setting);
  TUNABLEOP_RETURN_IF_ERROR(self->SetUp(setting, most_copies));
  return std::unique_ptr<DeviceAnswers>(std::move(self));
}

}  // namespace tunableop
