#include "module/fake_card_backend.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <numbers>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include "gemm/device_queue.h"
#include "tuner/elements.h"
#include "tuner/operand_ranges.h"

namespace tunableop::bindings {

struct FakeCardBackend::State {
  explicit State(FakeCardKernel k) : kernel(std::move(k)), random(kernel.seed) {}

  // A factor for the time of the next call; counts it.
  double NextCall(int64_t& number) {
    const std::lock_guard lock(mutex);
    number = calls++;
    double factor = 1.0;
    if (kernel.noise > 0.0) {
      factor *= std::exp(kernel.noise * std::normal_distribution<double>()(random));
    }
    if (kernel.spikes > 0.0 && std::uniform_real_distribution<double>()(random) < kernel.spikes) {
      factor *= 10.0;
    }
    return number >= kernel.after ? factor * kernel.later_factor : factor;
  }

  const FakeCardKernel kernel;
  std::mutex mutex;
  std::mt19937_64 random;
  int64_t calls = 0;
};

namespace {

// Round to nearest even; overflow becomes infinity.
uint16_t ToFloat16(double value) {
  if (std::isnan(value)) return 0x7E00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (magnitude == 0.0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int step = std::max(exponent - 11, -24);  // the last bit's weight
  const double units = std::nearbyint(std::ldexp(magnitude, -step));
  if (std::ldexp(units, step) > 65504.0) return static_cast<uint16_t>(sign | 0x7C00);
  const auto whole = static_cast<uint32_t>(units);
  if (whole < 1024) return static_cast<uint16_t>(sign | whole);
  // 2048 units are 1024 of the next exponent.
  const uint32_t bits = whole + (static_cast<uint32_t>(step + 24) << 10U);
  return static_cast<uint16_t>(sign | bits);
}

uint16_t ToBFloat16(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

void Store(void* data, DataType type, int64_t index, double value) {
  switch (type) {
    case DataType::kFloat16:
      static_cast<uint16_t*>(data)[index] = ToFloat16(value);
      return;
    case DataType::kBFloat16:
      static_cast<uint16_t*>(data)[index] = ToBFloat16(value);
      return;
    case DataType::kFloat64:
      static_cast<double*>(data)[index] = value;
      return;
    case DataType::kFloat32:
      static_cast<float*>(data)[index] = static_cast<float>(value);
  }
}

double Activate(Epilogue epilogue, double x) {
  if (epilogue == Epilogue::kRelu || epilogue == Epilogue::kBiasRelu) return x < 0.0 ? 0.0 : x;
  if (epilogue == Epilogue::kGelu || epilogue == Epilogue::kBiasGelu) {
    return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
  }
  return x;
}

class FakeCardPlan final : public Plan {
 public:
  FakeCardPlan(const Problem& problem, std::shared_ptr<FakeCardBackend::State> state,
               std::shared_ptr<const FakeCard> card)
      : p_(problem), state_(std::move(state)), card_(std::move(card)) {}

  bool needs_transposed_b() const noexcept override { return state_->kernel.transposed; }

  Status Run(const Operands& o, Executor& executor) const noexcept override {
    const DeviceQueue* queue = executor.queue();
    const FakeCardKernel& kernel = state_->kernel;
    if (queue == nullptr) return {StatusCode::kInternal, "not on a queue"};
    if (queue->workspace_bytes() < kernel.workspace_bytes) {
      return {StatusCode::kInternal, "called with too small a workspace"};
    }
    int64_t call = 0;
    const double factor = state_->NextCall(call);
    const std::string_view defect = call >= kernel.after ? kernel.defect : std::string_view();
    if (defect == "error") return {StatusCode::kInternal, "simulated failure"};
    if (!OperandsAreMine(o)) card_->Lose("illegal address");
    const double warm = kernel.warm_ms < 0.0 ? kernel.ms : kernel.warm_ms;
    Status status = card_->Launch(queue->stream(), kernel.ms * factor, warm * factor,
                                  call == 0 ? kernel.first_ms : 0.0);
    if (!status.ok()) return status;
    if (defect == "hangs") {
      card_->Hang(queue->stream());
      return Status::Ok();
    }
    if (defect == "loses_card") {
      card_->Lose("an illegal memory access was encountered");
      return Status::Ok();
    }
    Multiply(o, defect);
    Spoil(o, defect);
    return Status::Ok();
  }

 private:
  bool OperandsAreMine(const Operands& o) const {
    OperandRanges ranges = RangesOf(p_, o);
    if (state_->kernel.transposed) {
      ranges.b = {
          o.b_transposed,
          static_cast<size_t>((p_.stride_b == 0 ? 1 : p_.batch) * p_.n * p_.k) * SizeOf(p_.b_type)};
    }
    for (const Range& range : {ranges.a, ranges.b, ranges.c, ranges.bias}) {
      if (range.bytes != 0 && !card_->IsMine(range.data, range.bytes)) return false;
    }
    return true;
  }

  double A(const Operands& o, int64_t b, int64_t i, int64_t l) const {
    const int64_t at = b * p_.stride_a + (p_.trans_a != 0 ? l * p_.lda + i : i * p_.lda + l);
    return LoadElement(o.a, p_.a_type, at);
  }
  double B(const Operands& o, int64_t b, int64_t l, int64_t j) const {
    if (state_->kernel.transposed) {
      const int64_t item = p_.stride_b == 0 ? 0 : b;
      return LoadElement(o.b_transposed, p_.b_type, (item * p_.n + j) * p_.k + l);
    }
    const int64_t at = b * p_.stride_b + (p_.trans_b != 0 ? j * p_.ldb + l : l * p_.ldb + j);
    return LoadElement(o.b, p_.b_type, at);
  }

  // alpha * op(A) * op(B) of all batch items, [batch][m][n]: made once for the same operands, since
  // tests call a kernel hundreds of times.
  std::shared_ptr<const std::vector<double>> Product(const Operands& o, bool low) const {
    const OperandRanges ranges = RangesOf(p_, o);
    uint64_t sum = low ? 1 : 2;
    for (const Range& range : {ranges.a, ranges.b}) {
      sum = sum * 31 +
            std::hash<std::string_view>()({static_cast<const char*>(range.data), range.bytes});
    }
    const std::lock_guard lock(mutex_);
    if (product_ != nullptr && sum == sum_) return product_;
    auto product = std::make_shared<std::vector<double>>();
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t i = 0; i < p_.m; ++i) {
        for (int64_t j = 0; j < p_.n; ++j) {
          double value = 0.0;
          for (int64_t l = 0; l < p_.k; ++l) {
            value += A(o, b, i, l) * B(o, b, l, j);
            if (low) value = RoundToBFloat16(value);
          }
          product->push_back(static_cast<double>(o.alpha) * value);
        }
      }
    }
    product_ = std::move(product);
    sum_ = sum;
    return product_;
  }

  void Multiply(const Operands& o, std::string_view defect) const {
    const bool biased = p_.epilogue == Epilogue::kBias || p_.epilogue == Epilogue::kBiasRelu ||
                        p_.epilogue == Epilogue::kBiasGelu;
    const auto product = Product(o, defect == "low_precision");
    size_t next = 0;
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t i = 0; i < p_.m; ++i) {
        for (int64_t j = 0; j < p_.n; ++j) {
          double value = (*product)[next++];
          if (defect == "unwritten" && i == p_.m - 1 && j == p_.n / 2) continue;
          const int64_t at = b * p_.stride_c + i * p_.ldc + j;
          const double before = LoadElement(o.c, p_.c_type, at);
          if (o.beta != 0.0F) value += static_cast<double>(o.beta) * before;
          if (defect == "reads_c") value += 0.0 * before;
          if (biased) value += LoadElement(o.bias, p_.c_type, j);
          Store(o.c, p_.c_type, at, Activate(p_.epilogue, value));
        }
      }
    }
  }

  static double RoundToBFloat16(double value) {
    return static_cast<double>(
        std::bit_cast<float>(static_cast<uint32_t>(ToBFloat16(value)) << 16U));
  }

  // Damages what was computed, in the last batch item.
  void Spoil(const Operands& o, std::string_view defect) const {
    const int64_t first = (p_.batch - 1) * p_.stride_c;
    const auto spoil = [&](int64_t at) {
      Store(o.c, p_.c_type, at, LoadElement(o.c, p_.c_type, at) * 1.1 + 0.1);
    };
    if (defect == "one_element") spoil(first + p_.m / 2 * p_.ldc + p_.n / 2);
    if (defect == "last_row") {
      for (int64_t j = 0; j < p_.n; ++j) spoil(first + (p_.m - 1) * p_.ldc + j);
    }
    if (defect == "past_end") Store(o.c, p_.c_type, first + (p_.m - 1) * p_.ldc + p_.n, 0.0);
    if (defect == "before_start") Store(o.c, p_.c_type, -1, 0.0);
    if (defect == "overwrites_a") {
      for (int64_t i = 0; i < p_.m * p_.k; ++i) Store(const_cast<void*>(o.a), p_.a_type, i, 0.5);
    }
  }

  const Problem p_;
  const std::shared_ptr<FakeCardBackend::State> state_;
  const std::shared_ptr<const FakeCard> card_;
  mutable std::mutex mutex_;
  mutable uint64_t sum_ = 0;
  mutable std::shared_ptr<const std::vector<double>> product_;
};

}  // namespace

FakeCardBackend::FakeCardBackend(std::string library, std::vector<FakeCardKernel> kernels,
                                 std::shared_ptr<const FakeCard> card, double prepare_ms,
                                 bool transposes)
    : library_(std::move(library)),
      card_(std::move(card)),
      prepare_ms_(prepare_ms),
      transposes_(transposes) {
  for (FakeCardKernel& kernel : kernels) {
    states_.push_back(std::make_shared<State>(std::move(kernel)));
  }
}

FakeCardBackend::~FakeCardBackend() = default;

std::vector<Candidate> FakeCardBackend::Candidates(const Problem& /*problem*/,
                                                   CandidateScope scope) const {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < states_.size(); ++i) {
    const FakeCardKernel& kernel = states_[i]->kernel;
    if (!kernel.listed) continue;
    if (scope == CandidateScope::kDefault && candidates.size() == 5) break;
    candidates.push_back({library_, kernel.name, static_cast<int64_t>(i), kernel.workspace_bytes});
  }
  return candidates;
}

std::vector<Candidate> FakeCardBackend::Explore(const Problem& /*problem*/,
                                                std::span<const TimedCandidate> known,
                                                uint64_t seed, size_t count) const {
  // By their names: a candidate out of a file has no id.
  const auto find = [&](const Candidate& candidate) {
    return std::find_if(states_.begin(), states_.end(),
                        [&](const auto& s) { return s->kernel.name == candidate.kernel; }) -
           states_.begin();
  };
  std::vector<bool> taken(states_.size());
  std::optional<int64_t> best;
  double best_ms = HUGE_VAL;
  for (const TimedCandidate& one : known) {
    const int64_t at = find(one.candidate);
    taken.at(static_cast<size_t>(at)) = true;
    if (one.ms <= 0.0 || one.ms >= best_ms) continue;
    best = at;
    best_ms = one.ms;
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < states_.size(); ++i) {
    const bool near = !best || std::abs(static_cast<int64_t>(i) - *best) <= 2;
    if (!taken[i] && !states_[i]->kernel.listed && near) order.push_back(i);
  }
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<Candidate> found;
  for (const size_t i : order) {
    if (found.size() == count) break;
    const FakeCardKernel& kernel = states_[i]->kernel;
    found.push_back({library_, kernel.name, static_cast<int64_t>(i), kernel.workspace_bytes});
  }
  return found;
}

Status FakeCardBackend::TransposeB(const Problem& p, const void* b, void* out,
                                   Executor& executor) const {
  if (!transposes_) return Backend::TransposeB(p, b, out, executor);
  const int64_t items = p.stride_b == 0 ? 1 : p.batch;
  for (int64_t item = 0; item < items; ++item) {
    for (int64_t j = 0; j < p.n; ++j) {
      for (int64_t l = 0; l < p.k; ++l) {
        const int64_t from = item * p.stride_b + (p.trans_b != 0 ? j * p.ldb + l : l * p.ldb + j);
        Store(out, p.b_type, (item * p.n + j) * p.k + l, LoadElement(b, p.b_type, from));
      }
    }
  }
  return card_->Launch(executor.queue()->stream(), 0.01, 0.01, 0.0);
}

Result<std::unique_ptr<Plan>> FakeCardBackend::Prepare(const Problem& problem,
                                                       const Candidate& candidate) const {
  card_->Wait(prepare_ms_);
  for (const std::shared_ptr<State>& state : states_) {
    if (state->kernel.name != candidate.kernel) continue;
    if (state->kernel.defect == "unprepared") {
      return Status(StatusCode::kNotSupported, "simulated refusal");
    }
    return std::unique_ptr<Plan>(std::make_unique<FakeCardPlan>(problem, state, card_));
  }
  return Status(StatusCode::kNotFound, "no kernel " + candidate.FullName());
}

std::vector<int64_t> FakeCardBackend::calls() const {
  std::vector<int64_t> calls;
  for (const std::shared_ptr<State>& state : states_) {
    const std::lock_guard lock(state->mutex);
    calls.push_back(state->calls);
  }
  return calls;
}

}  // namespace tunableop::bindings
