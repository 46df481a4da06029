#include "module/simulated_backend.h"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <numbers>
#include <random>
#include <utility>

#include "gemm/packed_b.h"

namespace tunableop::bindings {

struct SimulatedBackend::State {
  explicit State(SimulatedKernel k) : kernel(std::move(k)), random(kernel.seed) {}

  // Milliseconds of the next call; counts it.
  double NextCall(int64_t& number) {
    const std::lock_guard lock(mutex);
    number = calls++;
    double ms = kernel.ms;
    if (kernel.noise > 0.0) {
      ms *= std::exp(kernel.noise * std::normal_distribution<double>()(random));
    }
    if (kernel.spikes > 0.0 && std::uniform_real_distribution<double>()(random) < kernel.spikes) {
      ms *= 10.0;
    }
    return number >= kernel.after ? ms * kernel.later_factor : ms;
  }

  const SimulatedKernel kernel;
  std::mutex mutex;
  std::mt19937_64 random;
  int64_t calls = 0;
};

namespace {

int64_t RealNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Rounds to the 8 significant bits that bf16 has (Dekker's splitting).
float Round(float value) {
  const float scaled = value * 65537.0F;
  return scaled - (scaled - value);
}

float Activate(Epilogue epilogue, float x) {
  if (epilogue == Epilogue::kRelu || epilogue == Epilogue::kBiasRelu) return x < 0.0F ? 0.0F : x;
  if (epilogue == Epilogue::kGelu || epilogue == Epilogue::kBiasGelu) {
    return 0.5F * x * (1.0F + std::erf(x / std::numbers::sqrt2_v<float>));
  }
  return x;
}

class SimulatedPlan final : public Plan {
 public:
  SimulatedPlan(const Problem& problem, std::shared_ptr<SimulatedBackend::State> state,
                std::shared_ptr<VirtualClock> clock)
      : p_(problem), state_(std::move(state)), clock_(std::move(clock)) {}

  Status Run(const Operands& o, Executor& /*executor*/) const noexcept override {
    const int64_t begin = RealNow();
    int64_t call = 0;
    const double ms = state_->NextCall(call);
    const SimulatedKernel& kernel = state_->kernel;
    const std::string_view defect = call >= kernel.after ? kernel.defect : std::string_view();
    if (clock_ != nullptr) {
      clock_->ns.fetch_add(static_cast<int64_t>(ms * clock_->load.load() * 1e6));
    }
    if (defect == "hangs") HangGate::Wait();
    if (defect == "error") return {StatusCode::kInternal, "simulated failure"};
    for (int64_t b = 0; b < p_.batch; ++b) Multiply(o, b, defect);
    if (p_.m > 0 && p_.n > 0) Spoil(o, defect);
    while (clock_ == nullptr && RealNow() - begin < static_cast<int64_t>(ms * 1e6)) {
    }
    return Status::Ok();
  }

 private:
  float A(const Operands& o, int64_t b, int64_t i, int64_t l) const {
    const auto* a = static_cast<const float*>(o.a) + b * p_.stride_a;
    return p_.trans_a != 0 ? a[l * p_.lda + i] : a[i * p_.lda + l];
  }
  float B(const Operands& o, int64_t b, int64_t l, int64_t j) const {
    if (p_.b_layout == BLayout::kPacked) {
      return PackedAt(o.packed_b + b * p_.stride_b, p_.k, p_.n, l, j);
    }
    const auto* matrix = static_cast<const float*>(o.b) + b * p_.stride_b;
    return p_.trans_b != 0 ? matrix[j * p_.ldb + l] : matrix[l * p_.ldb + j];
  }

  void Multiply(const Operands& o, int64_t b, std::string_view defect) const {
    const bool biased = p_.epilogue == Epilogue::kBias || p_.epilogue == Epilogue::kBiasRelu ||
                        p_.epilogue == Epilogue::kBiasGelu;
    const float alpha = defect == "ignores_alpha" ? 1.0F : o.alpha;
    const float beta = defect == "ignores_beta" ? 0.0F : o.beta;
    auto* c = static_cast<float*>(o.c) + b * p_.stride_c;
    for (int64_t i = 0; i < p_.m; ++i) {
      for (int64_t j = 0; j < p_.n; ++j) {
        const bool last = i == p_.m - 1 && j == p_.n - 1 && b == p_.batch - 1;
        if (defect == "unwritten" && last) continue;
        float sum = 0.0F;
        for (int64_t l = 0; l < p_.k; ++l) {
          float x = A(o, b, i, l);
          float y = B(o, b, l, j);
          if (defect == "nan_if_negative" && x < 0.0F) {
            x = std::numeric_limits<float>::quiet_NaN();
          }
          if (defect == "low_precision") {
            x = Round(x);
            y = Round(y);
          }
          sum += x * y;
        }
        float value = alpha * sum;
        float& out = c[i * p_.ldc + j];
        if (beta != 0.0F) value += beta * out;
        if (defect == "reads_poison") value += 0.0F * out;
        if (biased && defect != "ignores_bias") value += static_cast<const float*>(o.bias)[j];
        out = Activate(p_.epilogue, value);
      }
    }
  }

  // Damages what was computed, in the last batch item.
  void Spoil(const Operands& o, std::string_view defect) const {
    auto* c = static_cast<float*>(o.c) + (p_.batch - 1) * p_.stride_c;
    const auto spoil = [](float& value) { value = value * 1.01F + 0.01F; };
    if (defect == "one_element") spoil(c[p_.m / 2 * p_.ldc + p_.n / 2]);
    if (defect == "last_row") {
      for (int64_t j = 0; j < p_.n; ++j) spoil(c[(p_.m - 1) * p_.ldc + j]);
    }
    if (defect == "last_column") {
      for (int64_t i = 0; i < p_.m; ++i) spoil(c[i * p_.ldc + p_.n - 1]);
    }
    if (defect == "some_rows") {
      std::mt19937_64 random(state_->kernel.seed);
      for (int64_t i = 0; i < state_->kernel.wrong_rows; ++i) {
        float* row = c + static_cast<int64_t>(random() % static_cast<uint64_t>(p_.m)) * p_.ldc;
        for (int64_t j = 0; j < p_.n; ++j) spoil(row[j]);
      }
    }
    if (defect == "overwrites_a") {
      auto* a = const_cast<float*>(static_cast<const float*>(o.a));
      for (int64_t i = 0; i < p_.m * p_.k; ++i) a[i] += 1.0F;
    }
    if (defect == "gap" && p_.ldc > p_.n && p_.m > 1) c[p_.n] = 0.0F;
    if (defect == "past_end") c[(p_.m - 1) * p_.ldc + p_.n] = 0.0F;
  }

  const Problem p_;
  const std::shared_ptr<SimulatedBackend::State> state_;
  const std::shared_ptr<VirtualClock> clock_;
};

}  // namespace

namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  int64_t waiting = 0;
};

Gate& TheGate() {
  static auto& gate = *new Gate;
  return gate;
}

}  // namespace

void HangGate::Wait() {
  Gate& gate = TheGate();
  std::unique_lock lock(gate.mutex);
  ++gate.waiting;
  gate.changed.wait(lock, [&] { return gate.open; });
  --gate.waiting;
  gate.changed.notify_all();
}

void HangGate::Open() {
  Gate& gate = TheGate();
  std::unique_lock lock(gate.mutex);
  gate.open = true;
  gate.changed.notify_all();
  gate.changed.wait(lock, [&] { return gate.waiting == 0; });
  gate.open = false;
}

int64_t HangGate::waiting() noexcept {
  Gate& gate = TheGate();
  const std::lock_guard lock(gate.mutex);
  return gate.waiting;
}

SimulatedBackend::SimulatedBackend(std::string library, std::vector<SimulatedKernel> kernels,
                                   bool virtual_time, bool may_hang)
    : library_(std::move(library)), may_hang_(may_hang) {
  if (virtual_time) clock_ = std::make_shared<VirtualClock>();
  for (SimulatedKernel& kernel : kernels) {
    states_.push_back(std::make_shared<State>(std::move(kernel)));
  }
}

SimulatedBackend::~SimulatedBackend() = default;

std::vector<Candidate> SimulatedBackend::Candidates(const Problem& /*problem*/,
                                                    CandidateScope scope) const {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (scope == CandidateScope::kDefault && i == 5) break;
    candidates.push_back({library_, states_[i]->kernel.name, static_cast<int64_t>(i), 0});
  }
  return candidates;
}

Result<std::unique_ptr<Plan>> SimulatedBackend::Prepare(const Problem& problem,
                                                        const Candidate& candidate) const {
  for (const std::shared_ptr<State>& state : states_) {
    if (state->kernel.name != candidate.kernel) continue;
    if (state->kernel.defect == "unprepared") {
      return Status(StatusCode::kNotSupported, "simulated refusal");
    }
    return std::unique_ptr<Plan>(std::make_unique<SimulatedPlan>(problem, state, clock_));
  }
  return Status(StatusCode::kNotFound, "no kernel " + candidate.FullName());
}

std::vector<int64_t> SimulatedBackend::calls() const {
  std::vector<int64_t> calls;
  for (const std::shared_ptr<State>& state : states_) {
    const std::lock_guard lock(state->mutex);
    calls.push_back(state->calls);
  }
  return calls;
}

}  // namespace tunableop::bindings
