#include "backends/cpu/native_backend.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cpu/instruction_sets.h"
#include "backends/cpu/kernel_config.h"
#include "backends/cpu/native_plan.h"
#include "backends/cpu/prior.h"

namespace tunableop {
namespace {

constexpr std::string_view kNative = "native";

class NativeBackend final : public Backend {
 public:
  explicit NativeBackend(const cpu::MicroKernels& best) : best_(best) {}

  std::string_view library() const noexcept override { return kNative; }

  std::string identity() const override {
    return std::string(TUNABLEOP_VERSION) + "+" + best_.name;
  }

  std::vector<Candidate> Candidates(const Problem& problem, CandidateScope scope) const override {
    std::vector<Candidate> candidates;
    if (!cpu::NativeSupports(problem) || !Validate(problem).ok()) return candidates;
    for (const cpu::KernelConfig& config : cpu::RankedConfigs(best_, problem, scope)) {
      candidates.push_back(Candidate{std::string(kNative), cpu::ToName(config), -1, 0});
    }
    return candidates;
  }

  Result<std::unique_ptr<Plan>> Prepare(const Problem& problem,
                                        const Candidate& candidate) const override {
    if (candidate.library != kNative) {
      return Status(StatusCode::kNotFound, "not a native kernel: " + candidate.FullName());
    }
    TUNABLEOP_RETURN_IF_ERROR(Validate(problem));
    if (!cpu::NativeSupports(problem)) {
      return Status(StatusCode::kNotSupported,
                    "native kernels compute fp32 exactly, not " + ToString(problem));
    }
    Result<cpu::KernelConfig> config = cpu::ParseName(candidate.kernel);
    if (!config.ok()) return config.TakeStatus();
    if (config.value().dot && !cpu::DotSupports(cpu::Flattened(problem))) {
      return Status(StatusCode::kNotSupported,
                    candidate.kernel + " needs one row or column: " + ToString(problem));
    }
    return std::unique_ptr<Plan>(std::make_unique<cpu::NativePlan>(problem, config.value()));
  }

 private:
  const cpu::MicroKernels& best_;
};

}  // namespace

std::shared_ptr<const Backend> MakeNativeBackend() {
  const auto runnable = cpu::RunnableKernels();
  if (runnable.empty()) return nullptr;
  return std::make_shared<NativeBackend>(*runnable.front());
}

}  // namespace tunableop
