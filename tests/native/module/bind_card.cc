// One problem on a card: its kernels tuned, timed and checked, for benchmarks and tests.
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/gpu/devices.h"
#include "gemm/device_memory.h"
#include "gemm/device_queue.h"
#include "module/module.h"
#include "module/tuner_arguments.h"
#include "tuner/device_answers.h"
#include "tuner/device_copies.h"
#include "tuner/device_stream.h"
#include "tuner/device_timer.h"
#include "tuner/device_tuner.h"
#include "tuner/host_copies.h"
#include "tuner/owned_operands.h"

namespace py = pybind11;

namespace tunableop::bindings {
namespace {

constexpr size_t kMostBytes = size_t{8} << 30;
constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // as sessions have
constexpr double kReferenceBudget = 3e7;
constexpr double kHangMs = 10'000.0;

void Throw(const Status& status) {
  if (status.ok()) return;
  const py::gil_scoped_acquire acquire;  // a Python error is made of it
  ThrowIfError(status);
}

template <typename T>
T Value(Result<T> result) {
  if (!result.ok()) Throw(result.status());
  return std::move(result).value();
}

const Gpu& FindGpu(const std::string& id) {
  std::string there;
  for (const Gpu& gpu : Gpus()) {
    const std::string name =
        std::string(gpu.device->backend()) + ":" + std::to_string(gpu.device->ordinal());
    if (name == id) return gpu;
    there += " " + name;
  }
  ThrowIfError({StatusCode::kNotFound, "no card '" + id + "'; there are:" + there});
  return Gpus().front();
}

// Operands, a queue as a session has one, and another to measure on.
class CardProblem {
 public:
  CardProblem(const std::string& device, const Problem& problem)
      : gpu_(FindGpu(device)), problem_(problem) {
    ThrowIfError(Validate(problem_));
    const OwnedOperands made = Value(OwnedOperands::MakeUp(problem_, kMostBytes));
    operands_.emplace(Value(CopyToDevice(problem_, made.view(), gpu_.device, kMostBytes)));
    stream_ = Value(DeviceStream::Create(gpu_.device));
    queue_ = std::make_unique<DeviceQueue>(
        gpu_.device, stream_.get(), Value(DeviceBuffer::Create(gpu_.device, kWorkspaceBytes)));
    measuring_ = Value(MeasuringStream::Create(*queue_, {}, kHangMs));
    answers_ = Value(DeviceAnswers::CreateWhole({problem_, operands_->view(), *measuring_, host_,
                                                 kReferenceBudget, kMostBytes, /*verify=*/true}));
    timer_ = Value(DeviceTimer::Create(*measuring_, kMostBytes));
    call_ = operands_->view();
    call_.c = answers_->c();
  }

  // Of all libraries, in their order; and, with `explored` above 0, as many that no list has.
  std::vector<Candidate> Candidates(bool all, size_t explored, uint64_t seed) const {
    std::vector<Candidate> list;
    for (const std::shared_ptr<const Backend>& backend : gpu_.backends) {
      std::vector<TimedCandidate> known;
      for (Candidate& candidate :
           backend->Candidates(problem_, all ? CandidateScope::kAll : CandidateScope::kDefault)) {
        known.push_back({candidate, 0.0});
        list.push_back(std::move(candidate));
      }
      if (explored == 0 || known.empty()) continue;
      for (Candidate& candidate : backend->Explore(problem_, known, seed, explored)) {
        list.push_back(std::move(candidate));
      }
    }
    return list;
  }

  // The election, as a session holds it. Leaves out the plan.
  TuneResult Tune(double max_tuning_ms, bool cold, bool all) const {
    TunerOptions options;
    options.max_tuning_ms = max_tuning_ms;
    options.cold_b = cold;
    options.max_scratch_bytes = kMostBytes;
    options.candidates = all ? CandidateScope::kAll : CandidateScope::kDefault;
    const py::gil_scoped_release release;
    SerialExecutor host;
    Operands operands = operands_->view();
    if (operands.c == nullptr) operands.c = answers_->c();  // which measuring leaves alone
    TuneResult result =
        Value(TuneOnDevice(problem_, operands, *queue_, host, gpu_.backends, options));
    result.plan = nullptr;
    return result;
  }

  // Milliseconds of each candidate, one figure for each round; every candidate runs once in each
  // round, in an order drawn anew. Raises when one of them cannot run.
  std::vector<std::vector<double>> Time(const std::vector<Candidate>& candidates, int rounds,
                                        bool cold, uint64_t seed) {
    const py::gil_scoped_release release;
    std::vector<std::unique_ptr<Plan>> plans;
    for (const Candidate& candidate : candidates) plans.push_back(Prepare(candidate));
    const Caches caches = cold ? Caches::kCold : Caches::kWarm;
    std::vector<std::vector<double>> times(candidates.size());
    std::vector<double> expected(candidates.size());
    for (size_t i = 0; i < plans.size(); ++i) {  // what a kernel does at its first call is no time
      Throw(Measure(*plans[i], 0.0, caches, expected[i]));
    }
    std::vector<size_t> order(candidates.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::mt19937_64 random(seed);
    for (int round = 0; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t i : order) {
        double ms = 0.0;
        Throw(Measure(*plans[i], expected[i], caches, ms));
        times[i].push_back(ms);
      }
    }
    return times;
  }

  // The error relative to the tolerance, and why it is wrong (empty: it is right).
  std::pair<double, std::string> Check(const Candidate& candidate) {
    const py::gil_scoped_release release;
    const std::unique_ptr<Plan> plan = Prepare(candidate);
    Throw(answers_->Prepare());
    Throw(plan->Run(call_, measuring_->executor()));
    const Verifier::Verdict verdict = Value(answers_->Check(candidate.FullName()));
    return {verdict.error, verdict.reason};
  }

  bool can_be_cold() const { return timer_->CanBeCold(); }

 private:
  std::unique_ptr<Plan> Prepare(const Candidate& candidate) {
    for (const std::shared_ptr<const Backend>& backend : gpu_.backends) {
      if (backend->library() != candidate.library) continue;
      std::unique_ptr<Plan> plan = Value(backend->Prepare(problem_, candidate));
      if (plan->needs_transposed_b() && call_.b_transposed == nullptr) TransposeOnHost();
      return plan;
    }
    Throw({StatusCode::kNotFound, "no library '" + candidate.library + "' on this card"});
    return nullptr;
  }
  // For all libraries alike: not every one can do it on the card.
  void TransposeOnHost() {
    std::vector<char> transposed(BytesOfTransposedB(problem_));
    TransposeB(problem_, answers_->b_on_host(), host_, transposed.data());
    void* const copy = Value(measuring_->Allocate(transposed.size()));
    Throw(measuring_->Copy(copy, transposed.data(), transposed.size(), CopyKind::kHostToDevice));
    call_.b_transposed = copy;
  }
  Status Measure(const Plan& plan, double expected_ms, Caches caches, double& ms) const {
    return timer_->Measure([&] { return plan.Run(call_, measuring_->executor()); }, 1, expected_ms,
                           caches, ms);
  }

  const Gpu& gpu_;
  const Problem problem_;
  SerialExecutor host_;
  std::optional<OwnedOperands> operands_;
  DeviceStream stream_;
  std::unique_ptr<DeviceQueue> queue_;
  std::unique_ptr<MeasuringStream> measuring_;
  std::unique_ptr<DeviceAnswers> answers_;
  std::unique_ptr<DeviceTimer> timer_;
  Operands call_;
};

py::list Cards() {
  py::list list;
  for (const Gpu& gpu : Gpus()) {
    py::dict card;
    card["id"] = std::string(gpu.device->backend()) + ":" + std::to_string(gpu.device->ordinal());
    card["name"] = gpu.device->info().name;
    card["libraries"] = gpu.backends.size();
    card["reason"] = gpu.reason;
    list.append(std::move(card));
  }
  return list;
}

}  // namespace

void BindCard(py::module_& module) {
  module.def("cards", &Cards);
  py::class_<CardProblem>(module, "CardProblem")
      .def(py::init<const std::string&, const Problem&>(), py::arg("device"), py::arg("problem"))
      .def("candidates", &CardProblem::Candidates, py::arg("all") = true, py::arg("explored") = 0,
           py::arg("seed") = 0)
      .def(
          "tune",
          [](const CardProblem& card, double max_tuning_ms, bool cold, bool all) {
            return ToDict(card.Tune(max_tuning_ms, cold, all));
          },
          py::arg("max_tuning_ms"), py::arg("cold") = true, py::arg("all") = true)
      .def("time", &CardProblem::Time, py::arg("candidates"), py::arg("rounds"), py::arg("cold"),
           py::arg("seed") = 0)
      .def("check", &CardProblem::Check, py::arg("candidate"))
      .def_property_readonly("can_be_cold", &CardProblem::can_be_cold);
}

}  // namespace tunableop::bindings
