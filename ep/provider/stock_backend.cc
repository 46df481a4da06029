#include "provider/stock_backend.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gemm/packed_b.h"
#include "provider/onnx_writer.h"
#include "provider/ort_runtime.h"
#include "provider/stock_session.h"

namespace tunableop {
namespace {

constexpr char kLibrary[] = "stock";
constexpr char kKernel[] = "CPUExecutionProvider";
// ONNX Runtime copies a weight while it packs it (measured with 1.24 to 1.32): that copy, which
// goes afterwards, and the packed one.
constexpr size_t kWeightCopies = 2;
constexpr size_t kOverheadRuns = 2000;
// AloneMs: longer than the threads of a pool spin after their last work.
constexpr std::chrono::milliseconds kCalm{60};
constexpr int kWarmUps = 3;  // the first of them makes the session
constexpr size_t kMostRuns = 1000;
constexpr size_t kFewestRuns = 3;  // one that the system interrupted is no figure

// The matrices of B that a call reads.
int64_t WeightMatrices(const Problem& p) noexcept {
  return p.batch > 1 && p.stride_b != 0 ? p.batch : 1;
}

bool IsGemm(const Problem& p) noexcept {
  return p.trans_a != 0 || p.trans_b != 0 || p.alpha != ScalarClass::kOne ||
         p.beta != ScalarClass::kZero || p.epilogue != Epilogue::kNone;
}

// Why one node cannot express the problem; nullopt when it can.
std::optional<std::string> WhyNot(const Problem& p) {
  if (p.a_type != DataType::kFloat32 || p.b_type != DataType::kFloat32 ||
      p.c_type != DataType::kFloat32 || p.precision != Precision::kExact) {
    return "only exact fp32";
  }
  if (p.m == 0 || p.n == 0 || p.k == 0 || p.batch == 0) return "empty matrices";
  if (p.threads == 0) return "no CPU threads";
  if (p.epilogue != Epilogue::kNone && p.epilogue != Epilogue::kBias) {
    return "epilogue " + std::string(Name(p.epilogue));
  }
  if (p.epilogue == Epilogue::kBias && p.beta != ScalarClass::kZero) return "a bias beside beta";
  const bool packed = p.b_layout == BLayout::kPacked;
  if (p.lda != (p.trans_a != 0 ? p.m : p.k) || p.ldc != p.n ||
      (!packed && p.ldb != (p.trans_b != 0 ? p.k : p.n))) {
    return "a leading dimension with gaps";
  }
  if (packed && p.b_constant == 0) return "a packed B that is not constant";
  if (p.batch == 1) return std::nullopt;
  if (IsGemm(p)) return "a Gemm in batches";
  if (p.stride_a == 0 && p.stride_b == 0) return "one product for a whole batch";
  const int64_t stride_b = packed ? PackedFloats(p.k, p.n) : p.k * p.n;
  if (p.stride_c != p.m * p.n || (p.stride_a != 0 && p.stride_a != p.m * p.k) ||
      (p.stride_b != 0 && p.stride_b != stride_b)) {
    return "gaps between batch items";
  }
  return std::nullopt;
}

NodeSpec SpecOf(const Problem& p, const Operands& operands) {
  NodeSpec node;
  node.gemm = IsGemm(p);
  node.a = p.trans_a != 0 ? std::vector{p.k, p.m} : std::vector{p.m, p.k};
  node.b = p.trans_b != 0 ? std::vector{p.n, p.k} : std::vector{p.k, p.n};
  node.y = {p.m, p.n};
  if (p.batch > 1) {
    if (p.stride_a != 0) node.a.insert(node.a.begin(), p.batch);
    if (p.stride_b != 0) node.b.insert(node.b.begin(), p.batch);
    node.y.insert(node.y.begin(), p.batch);
  }
  node.b_constant = p.b_constant != 0;
  node.trans_a = p.trans_a != 0;
  node.trans_b = p.trans_b != 0;
  node.alpha = operands.alpha;
  if (p.epilogue == Epilogue::kBias) {
    node.c = {p.n};
  } else if (p.beta != ScalarClass::kZero) {
    node.c = node.y;
    node.beta = operands.beta;
  }
  return node;
}

// B as a session takes it, made from the packed layout; null when there is no memory.
std::unique_ptr<float[]> Unpacked(const Problem& p, const float* packed) {
  const int64_t matrix = p.k * p.n;
  const int64_t count = WeightMatrices(p);
  std::unique_ptr<float[]> out(new (std::nothrow) float[static_cast<size_t>(matrix * count)]);
  if (out == nullptr) return nullptr;
  for (int64_t i = 0; i < count; ++i) {
    UnpackB(packed + i * PackedFloats(p.k, p.n), p.k, p.n, out.get() + i * matrix, p.n);
  }
  return out;
}

class StockPlan final : public Plan {
 public:
  explicit StockPlan(const Problem& problem, StockSession::Idle idle = StockSession::Idle::kSleep)
      : problem_(problem), idle_(idle) {}

  Status Run(const Operands& operands, Executor& /*executor*/) const noexcept override {
    try {
      const std::lock_guard lock(mutex_);
      return RunLocked(operands);
    } catch (const std::bad_alloc&) {
      return {StatusCode::kOutOfMemory, "stock: no memory for a nested session"};
    } catch (const std::exception& error) {
      return {StatusCode::kInternal, error.what()};
    } catch (...) {
      return {StatusCode::kInternal, "stock: unknown exception"};
    }
  }

 private:
  // What is part of the session, not of a call.
  struct Fixed {
    const void* weight = nullptr;
    float alpha = 1.0F;
    float beta = 0.0F;
    bool operator==(const Fixed&) const = default;
  };

  Status RunLocked(const Operands& operands) const {
    const bool packed = problem_.b_layout == BLayout::kPacked;
    const void* b = packed ? static_cast<const void*>(operands.packed_b) : operands.b;
    const bool bias = problem_.epilogue == Epilogue::kBias;
    if (operands.a == nullptr || b == nullptr || operands.c == nullptr ||
        (bias && operands.bias == nullptr)) {
      return {StatusCode::kInvalidArgument, "stock: an operand is missing"};
    }
    const bool constant = problem_.b_constant != 0;
    const Fixed fixed{constant ? b : nullptr, operands.alpha, operands.beta};
    if (session_ == nullptr || fixed != fixed_) {
      session_.reset();  // first, so that there are never two
      unpacked_.reset();
      TUNABLEOP_RETURN_IF_ERROR(Make(operands));
      fixed_ = fixed;
    }
    const void* c = bias ? operands.bias : nullptr;
    if (problem_.beta != ScalarClass::kZero) c = operands.c;
    return session_->Run({operands.a, constant ? nullptr : b, c, operands.c});
  }

  Status Make(const Operands& operands) const {
    const NodeSpec node = SpecOf(problem_, operands);
    const auto* weight = static_cast<const float*>(operands.b);
    if (problem_.b_layout == BLayout::kPacked) {
      unpacked_ = Unpacked(problem_, operands.packed_b);
      if (unpacked_ == nullptr) {
        return {StatusCode::kOutOfMemory, "stock: no memory for a copy of the weight"};
      }
      weight = unpacked_.get();
    }
    Result<std::unique_ptr<StockSession>> session =
        StockSession::Create(node, problem_.threads, idle_, weight);
    if (!session.ok()) return session.TakeStatus();
    session_ = std::move(session).value();
    return Status::Ok();
  }

  const Problem problem_;
  const StockSession::Idle idle_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<float[]> unpacked_;  // the session may read it
  mutable std::unique_ptr<StockSession> session_;
  mutable Fixed fixed_;
};

Status Time(const Plan& plan, const Operands& operands, double& ms) {
  SerialExecutor executor;
  const auto start = std::chrono::steady_clock::now();
  Status status = plan.Run(operands, executor);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  ms = spent.count();
  return status;
}

double MedianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Stock final : public StockBackend {
 public:
  explicit Stock(size_t max_bytes) : max_bytes_(max_bytes) {}

  std::string_view library() const noexcept override { return kLibrary; }
  std::string identity() const override { return "onnxruntime " + Ort().runtime_version; }

  std::vector<Candidate> Candidates(const Problem& problem,
                                    CandidateScope /*scope*/) const override {
    if (WhyNot(problem)) return {};
    return {Candidate{kLibrary, kKernel, -1, 0}};
  }

  Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                        const Candidate& candidate) const override {
    if (candidate.library != kLibrary || candidate.kernel != kKernel) {
      return Status(StatusCode::kNotFound, "stock: no kernel '" + candidate.FullName() + "'");
    }
    TUNABLEOP_RETURN_IF_ERROR(Check(problem));
    return std::unique_ptr<Plan>(std::make_unique<StockPlan>(problem));
  }

  Result<double> AloneMs(const Problem& problem, const Operands& operands, double budget_ms,
                         Pacer* pacer) const override {
    TUNABLEOP_RETURN_IF_ERROR(Check(problem));
    if (problem.threads > 1) std::this_thread::sleep_for(kCalm);
    const StockPlan plan(problem, StockSession::Idle::kSpin);
    double ms = 0.0;
    const auto time = [&] {
      if (pacer != nullptr && !pacer->WaitForTurn()) {
        return Status(StatusCode::kCancelled, "stock: measuring was given up");
      }
      return Time(plan, operands, ms);
    };
    for (int i = 0; i < kWarmUps; ++i) TUNABLEOP_RETURN_IF_ERROR(time());
    std::vector<double> times;
    for (double spent = 0.0;
         times.size() < kFewestRuns || (spent < budget_ms && times.size() < kMostRuns);) {
      TUNABLEOP_RETURN_IF_ERROR(time());
      times.push_back(ms);
      spent += ms;
    }
    return std::max(0.0, MedianOf(times) - OverheadMs());
  }

  double OverheadMs() const override {
    std::call_once(overhead_once_, [this] { overhead_ms_ = MeasureOverhead(); });
    return overhead_ms_;
  }

 private:
  Status CheckMemory(const Problem& p) const {
    size_t bytes = 0;
    // Validate has seen to it that the elements of B can be counted.
    const auto elements = static_cast<size_t>(p.k * p.n * WeightMatrices(p));
    const size_t copies = kWeightCopies + (p.b_layout == BLayout::kPacked ? 1 : 0);
    if (__builtin_mul_overflow(elements, sizeof(float) * copies, &bytes)) bytes = SIZE_MAX;
    if (bytes <= max_bytes_) return Status::Ok();
    return {StatusCode::kOutOfMemory, "stock: a session with this weight takes " +
                                          std::to_string(bytes) + " bytes; the ceiling is " +
                                          std::to_string(max_bytes_)};
  }

  Status Check(const Problem& problem) const {
    if (Ort().api == nullptr) {
      return {StatusCode::kNotSupported, "stock: no ONNX Runtime has loaded this library"};
    }
    TUNABLEOP_RETURN_IF_ERROR(Validate(problem));
    if (const std::optional<std::string> why = WhyNot(problem)) {
      return {StatusCode::kNotSupported, "stock: " + *why + " (" + ToString(problem) + ")"};
    }
    return problem.b_constant != 0 ? CheckMemory(problem) : Status::Ok();
  }

  static double MeasureOverhead() {
    Problem problem;
    problem.m = problem.n = problem.k = problem.lda = problem.ldb = problem.ldc = 1;
    const StockPlan plan(problem);
    const std::array<float, 2> in = {1.0F, 1.0F};
    float out = 0.0F;
    Operands operands;
    operands.a = in.data();
    operands.b = in.data() + 1;
    operands.c = &out;
    std::vector<double> times(kOverheadRuns);
    for (double& time : times) {
      if (!Time(plan, operands, time).ok()) return 0.0;
    }
    return MedianOf(times);
  }

  const size_t max_bytes_;
  mutable std::once_flag overhead_once_;
  mutable double overhead_ms_ = 0.0;
};

}  // namespace

std::shared_ptr<const StockBackend> MakeStockBackend(size_t max_bytes) {
  return std::make_shared<const Stock>(max_bytes);
}

}  // namespace tunableop
