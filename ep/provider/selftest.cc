#include "provider/selftest.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "backends/gpu/devices.h"
#include "backends/registry.h"
#include "gemm/backend.h"
#include "gemm/device_memory.h"
#include "gemm/device_queue.h"
#include "gemm/executor.h"
#include "tuner/device_answers.h"
#include "tuner/device_copies.h"
#include "tuner/device_stream.h"
#include "tuner/host_copies.h"
#include "tuner/owned_operands.h"
#include "tuner/scratch.h"
#include "tuner/verifier.h"

namespace tunableop {
namespace {

using Backends = std::span<const std::shared_ptr<const Backend>>;

constexpr size_t kMostBytes = size_t{1} << 30;
constexpr size_t kTestWorkspaceBytes = size_t{32} << 20;  // as sessions have
constexpr double kReferenceBudget = 3e7;  // multiplications; the rest is compared with the first
constexpr double kHangMs = 5000.0;
constexpr double kMostMs = 4000.0;  // for one problem
constexpr size_t kExplored = 24;    // kernels that no list has, for each library
constexpr size_t kExploredQuickly = 6;

// Where kernels run and how what they left is judged.
class Bench {
 public:
  virtual ~Bench() = default;
  // With the C that kernels write to.
  virtual const Operands& operands() const noexcept = 0;
  virtual Executor& executor() noexcept = 0;
  virtual Status Prepare() = 0;
  virtual Result<Verifier::Verdict> Check(const std::string& name) = 0;
  // Gives operands() a transposed copy of B, which `backend` makes. By default nobody does.
  virtual Status Transpose(const Backend& /*backend*/) {
    return {StatusCode::kNotSupported, "there is no transposed copy of B"};
  }
  // Why nothing more can run here; empty: it can.
  virtual std::string Stopped() const { return {}; }
};

class HostBench final : public Bench {
 public:
  static Result<std::unique_ptr<Bench>> Create(const Problem& problem) {
    auto bench = std::make_unique<HostBench>();
    Result<OwnedOperands> made = OwnedOperands::MakeUp(problem, kMostBytes);
    if (!made.ok()) return made.TakeStatus();
    bench->owned_.emplace(std::move(made).value());
    bench->reference_ = bench->owned_->view();
    Result<Scratch> scratch = Scratch::Create(problem, kMostBytes);
    if (!scratch.ok()) return scratch.TakeStatus();
    bench->scratch_.emplace(std::move(scratch).value());
    bench->operands_ = bench->reference_;
    bench->operands_.c = bench->scratch_->c();
    bench->problem_ = problem;
    bench->verifier_.emplace(bench->problem_, bench->reference_, bench->executor_, kReferenceBudget,
                             kMostBytes);
    return std::unique_ptr<Bench>(std::move(bench));
  }
  const Operands& operands() const noexcept override { return operands_; }
  Executor& executor() noexcept override { return executor_; }
  Status Prepare() override {
    verifier_->Prepare(*scratch_);
    return Status::Ok();
  }
  Result<Verifier::Verdict> Check(const std::string& name) override {
    return verifier_->Check(*scratch_, name);
  }

 private:
  Problem problem_;
  SerialExecutor executor_;
  std::optional<OwnedOperands> owned_;
  Operands reference_;
  Operands operands_;
  std::optional<Scratch> scratch_;
  std::optional<Verifier> verifier_;
};

class CardBench final : public Bench {
 public:
  static Result<std::unique_ptr<Bench>> Create(const Problem& problem,
                                               const std::shared_ptr<const Device>& device) {
    auto bench = std::make_unique<CardBench>();
    bench->problem_ = problem;
    Result<OwnedOperands> made = OwnedOperands::MakeUp(problem, kMostBytes);
    if (!made.ok()) return made.TakeStatus();
    Result<OwnedOperands> copies = CopyToDevice(problem, made.value().view(), device, kMostBytes);
    if (!copies.ok()) return copies.TakeStatus();
    bench->on_card_.emplace(std::move(copies).value());
    bench->operands_ = bench->on_card_->view();
    Result<DeviceStream> stream = DeviceStream::Create(device);
    if (!stream.ok()) return stream.TakeStatus();
    bench->session_stream_ = std::move(stream).value();
    Result<DeviceBuffer> workspace = DeviceBuffer::Create(device, kTestWorkspaceBytes);
    if (!workspace.ok()) return workspace.TakeStatus();
    bench->queue_ = std::make_unique<DeviceQueue>(device, bench->session_stream_.get(),
                                                  std::move(workspace).value());
    Result<std::unique_ptr<MeasuringStream>> measuring =
        MeasuringStream::Create(*bench->queue_, {}, kHangMs);
    if (!measuring.ok()) return measuring.TakeStatus();
    bench->measuring_ = std::move(measuring).value();
    Result<std::unique_ptr<DeviceAnswers>> answers =
        DeviceAnswers::CreateWhole({bench->problem_, bench->on_card_->view(), *bench->measuring_,
                                    bench->host_, kReferenceBudget, kMostBytes, /*verify=*/true});
    if (!answers.ok()) return answers.TakeStatus();
    bench->answers_ = std::move(answers).value();
    bench->operands_.c = bench->answers_->c();
    return std::unique_ptr<Bench>(std::move(bench));
  }
  const Operands& operands() const noexcept override { return operands_; }
  Executor& executor() noexcept override { return measuring_->executor(); }
  Status Prepare() override { return answers_->Prepare(); }
  Result<Verifier::Verdict> Check(const std::string& name) override {
    return answers_->Check(name);
  }
  Status Transpose(const Backend& backend) override {
    if (transposed_ == nullptr) {
      Result<void*> memory = measuring_->Allocate(BytesOfTransposedB(problem_));
      if (!memory.ok()) return memory.TakeStatus();
      transposed_ = memory.value();
    }
    operands_.b_transposed = transposed_;
    Status status = backend.TransposeB(problem_, operands_.b, transposed_, executor());
    if (status.code() != StatusCode::kNotSupported) return status;
    std::vector<char> on_host(BytesOfTransposedB(problem_));
    TransposeB(problem_, answers_->b_on_host(), host_, on_host.data());
    return measuring_->Copy(transposed_, on_host.data(), on_host.size(), CopyKind::kHostToDevice);
  }
  std::string Stopped() const override {
    if (measuring_->hung()) return "a kernel did not end";
    return measuring_->broken() ? "the card is lost" : "";
  }

 private:
  Problem problem_;
  SerialExecutor host_;
  std::optional<OwnedOperands> on_card_;
  Operands operands_;
  DeviceStream session_stream_;
  std::unique_ptr<DeviceQueue> queue_;
  std::unique_ptr<MeasuringStream> measuring_;
  std::unique_ptr<DeviceAnswers> answers_;
  void* transposed_ = nullptr;
};

bool IsRefusal(StatusCode code) noexcept {
  return code == StatusCode::kNotSupported || code == StatusCode::kOutOfMemory;
}

// `listed`: by the library itself, which is to be trusted then.
void TestOne(const Problem& problem, const Backend& backend, const Candidate& candidate,
             bool listed, Bench& bench, LibraryVerdict& verdict) {
  const auto failed = [&](std::string_view why) {
    verdict.failures.push_back(candidate.kernel + ": " + std::string(why));
  };
  const auto ended_with = [&](const Status& status) {
    if (IsRefusal(status.code())) {
      ++verdict.refused;
    } else {
      failed(status.message());
    }
  };
  Result<std::unique_ptr<Plan>> plan = backend.Prepare(problem, candidate);
  if (!plan.ok()) return ended_with(plan.status());
  if (plan.value()->needs_transposed_b()) {
    if (Status status = bench.Transpose(backend); !status.ok()) return ended_with(status);
  }
  if (Status status = bench.Prepare(); !status.ok()) return failed(status.message());
  if (Status status = plan.value()->Run(bench.operands(), bench.executor()); !status.ok()) {
    return ended_with(status);
  }
  Result<Verifier::Verdict> checked = bench.Check(candidate.FullName());
  if (!checked.ok()) return failed(checked.status().message());
  ++verdict.kernels;
  if (checked.value().right) {
    verdict.error = std::max(verdict.error, checked.value().error);
  } else if (!listed) {
    ++verdict.inexact;
  } else {
    failed(checked.value().reason);
  }
}

SelfTestVerdict TestAll(const SelfTestRequest& request, const Problem& problem, Backends backends,
                        Bench& bench) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end =
      Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(kMostMs));
  const bool apart =
      problem.batch <= 1 || problem.stride_c >= (problem.m - 1) * problem.ldc + problem.n;
  SelfTestVerdict result{problem, problem.epilogue == Epilogue::kNone && apart, {}, {}};
  for (const std::shared_ptr<const Backend>& backend : backends) {
    if (bench.executor().queue() == nullptr && backend->may_hang()) continue;  // a user's own
    LibraryVerdict verdict;
    verdict.library = backend->library();
    std::vector<Candidate> candidates = backend->Candidates(problem, CandidateScope::kAll);
    const size_t listed = candidates.size();
    if (!candidates.empty()) {
      std::vector<TimedCandidate> known;
      for (const Candidate& candidate : candidates) known.push_back({candidate, 0.0});
      for (Candidate& candidate : backend->Explore(problem, known, request.seed,
                                                   request.quick ? kExploredQuickly : kExplored)) {
        candidates.push_back(std::move(candidate));
      }
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& candidate = candidates[i];
      if (Clock::now() > end) {
        ++verdict.left_out;
        continue;
      }
      TestOne(problem, *backend, candidate, i < listed, bench, verdict);
      result.stopped = bench.Stopped();
      if (!result.stopped.empty()) {
        result.stopped = candidate.FullName() + ": " + result.stopped;
        break;
      }
    }
    result.libraries.push_back(std::move(verdict));
    if (!result.stopped.empty()) break;
  }
  return result;
}

}  // namespace

Result<SelfTestVerdict> RunSelfTest(const SelfTestRequest& request, const Problem& problem) {
  if (request.device == "cpu") {
    Result<std::unique_ptr<Bench>> bench = HostBench::Create(problem);
    if (!bench.ok()) return bench.TakeStatus();
    return TestAll(request, problem, CpuBackends(), *bench.value());
  }
  for (const Gpu& gpu : Gpus()) {
    const std::string id =
        std::string(gpu.device->backend()) + ":" + std::to_string(gpu.device->ordinal());
    if (id != request.device) continue;
    Result<std::unique_ptr<Bench>> bench = CardBench::Create(problem, gpu.device);
    if (!bench.ok()) return bench.TakeStatus();
    return TestAll(request, problem, gpu.backends, *bench.value());
  }
  return Status(StatusCode::kNotFound, "device: there is no '" + request.device + "'");
}

}  // namespace tunableop
