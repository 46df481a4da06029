#include "provider/provider.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include "backends/rtc/kernel_library.h"
#include "provider/capability.h"
#include "provider/fusion/compiled.h"
#include "provider/gpu/allocators.h"
#include "provider/guard.h"
#include "provider/ort_runtime.h"
#include "provider/processors.h"
#include "provider/run_gate.h"
#include "provider/sessions.h"

namespace tunableop {
namespace {

// That compile at once. No session needs many modules, and each takes a second or two.
constexpr size_t kCompilers = 8;

// Why no operator but MatMul and Gemm is claimed on this card; empty: others are.
std::string WhyOnlyProducts(ClaimPolicy policy, Card& card) {
  switch (policy) {
    case ClaimPolicy::kGemm:
      return "claim=gemm takes MatMul and Gemm only";
    case ClaimPolicy::kWeights:
      return "claim=weights takes MatMul and Gemm only";
    case ClaimPolicy::kAuto:
      if (HasStockGpu()) return "claim=auto, and " + card.Name() + " has a stock provider for it";
      break;
    case ClaimPolicy::kAll:
      break;
  }
  // A small one, to know that a kernel gets all the way: a node that is claimed cannot be given
  // back when its own turns out not to.
  const Result<DeviceFunction> probe = card.kernels().Get("cast", "f32", "f16", "cast");
  return probe.ok() ? std::string() : std::string(probe.status().message());
}

ClaimRules RulesOf(const SessionState& state, const GpuSession* gpu) {
  if (gpu == nullptr) {
    return {state.options().claim, "a CPU",
            [](DataType type) { return type == DataType::kFloat32; }};
  }
  ClaimRules rules{state.options().claim, gpu->card().Name(),
                   [&card = gpu->card()](DataType type) { return card.Runs(type); }};
  rules.on_card = true;
  // Products of two computed matrices are attention's: the stock provider of the card folds scales
  // and transpositions into them, which it cannot when they are ours (docs/benchmarks.md).
  rules.leaves_computed = rules.policy == ClaimPolicy::kAuto && HasStockGpu();
  rules.only_products = WhyOnlyProducts(rules.policy, gpu->card());
  if (state.options().fused_groups) {
    rules.fuses = FusionPlace{gpu->device().info().arch, state.options().precision};
  }
  rules.prepare = [&card = gpu->card()](std::span<const ModuleName> modules) {
    return card.kernels().Prepare(modules, std::min(kCompilers, ProcessorsOfProcess().size()));
  };
  return rules;
}

// What the caller of Run wrote; 0: nothing, or that there is to be no graph.
Result<int> GraphIdOf(const OrtRunOptions* options) {
  const char* text = Ort().api->GetRunConfigEntry(options, "gpu_graph_id");
  if (text == nullptr) return 0;
  int id = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, id);
  if (error != std::errc() || at != end || id < -1) {
    return Status(StatusCode::kInvalidArgument,
                  "TunableOp run option 'gpu_graph_id': expected -1 or 0 (without a graph) or a "
                  "number from 1, found '" +
                      std::string(text) + "'");
  }
  return std::max(id, 0);
}

}  // namespace

Provider::Provider(std::shared_ptr<SessionState> state, std::shared_ptr<GpuSession> gpu,
                   const OrtKernelRegistry* registry, Log process_log)
    : OrtEp{},
      state_(std::move(state)),
      gpu_(std::move(gpu)),
      registry_(registry),
      process_log_(process_log) {
  ort_version_supported = Ort().version;
  GetName = &GetNameImpl;
  GetCapability = &GetCapabilityImpl;
  GetKernelRegistry = &GetKernelRegistryImpl;
  SetDynamicOptions = &SetDynamicOptionsImpl;
  IsConcurrentRunSupported = &IsConcurrentRunSupportedImpl;
  OnRunStart = &OnRunStartImpl;
  OnRunEnd = &OnRunEndImpl;
  OnSessionInitializationEnd = &OnSessionInitializationEndImpl;
  if (Ort().Has(ort_since::OrtEp_CreateProfiler)) CreateProfiler = &CreateProfilerImpl;
  if (gpu_ == nullptr) return;
  CreateAllocator = &CreateAllocatorImpl;
  Compile = &CompileImpl;
  ReleaseNodeComputeInfos = &ReleaseNodeComputeInfosImpl;
  if (Ort().Has(ort_since::OrtEp_Sync)) Sync = &SyncImpl;
  if (!gpu_->graphs().enabled()) return;
  IsGraphCaptureEnabled = &IsGraphCaptureEnabledImpl;
  IsGraphCaptured = &IsGraphCapturedImpl;
  ReplayGraph = &ReplayGraphImpl;
  GetGraphCaptureNodeAssignmentPolicy = &GraphPolicyImpl;
  if (Ort().Has(ort_since::OrtEp_ReleaseCapturedGraph)) {
    ReleaseCapturedGraph = &ReleaseCapturedGraphImpl;
  }
}

Provider::~Provider() {
  state_->StopBackground();
  state_->SaveOwnCache(process_log_);
  if (gpu_ != nullptr) gpu_->Close();  // after the background's measurements, which use the card
}

const char* Provider::GetNameImpl(const OrtEp* /*self*/) noexcept { return kProviderName; }

OrtStatus* Provider::GetCapabilityImpl(OrtEp* self, const OrtGraph* graph,
                                       OrtEpGraphSupportInfo* support) noexcept {
  return Guard([&]() -> Status {
    SessionState& state = *static_cast<Provider*>(self)->state_;
    std::vector<NodeDecision> decisions;
    const StockAdvice advice = [&state](const NodeFacts& facts) {
      return state.StockIsFaster(facts.op_type, facts.name, facts.k, facts.n);
    };
    const ClaimRules rules = RulesOf(state, static_cast<Provider*>(self)->gpu_.get());
    TUNABLEOP_RETURN_IF_ERROR(ClaimNodes(graph, support, rules, decisions, advice));
    const OrtNode* parent = nullptr;
    TUNABLEOP_RETURN_IF_ORT_ERROR(Ort().api->Graph_GetParentNode(graph, &parent));
    if (state.log().debug_enabled()) {
      for (const NodeDecision& decision : decisions) {
        state.log().Debug("node '" + decision.name + "' (" + decision.op_type + ") " +
                          decision.reason);
      }
    }
    state.AddDecisions(std::move(decisions), /*ends_round=*/parent == nullptr);
    return Status::Ok();
  });
}

OrtStatus* Provider::CompileImpl(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes,
                                 size_t count, OrtNodeComputeInfo** infos,
                                 OrtNode** /*ep_context_nodes*/) noexcept {
  const Provider& provider = *static_cast<Provider*>(self);
  std::fill_n(infos, count, nullptr);
  OrtStatus* status = Guard([&]() -> Status {
    for (size_t i = 0; i < count; ++i) {
      Result<OrtNodeComputeInfo*> made =
          CompileGroup(graphs[i], fused_nodes[i], provider.state_, provider.gpu_);
      if (!made.ok()) return made.TakeStatus();
      infos[i] = made.value();
    }
    return Status::Ok();
  });
  if (status != nullptr) {
    ReleaseNodeComputeInfosImpl(self, infos, count);
    std::fill_n(infos, count, nullptr);
  }
  return status;
}

void Provider::ReleaseNodeComputeInfosImpl(OrtEp* /*self*/, OrtNodeComputeInfo** infos,
                                           size_t count) noexcept {
  for (size_t i = 0; i < count; ++i) ReleaseGroup(infos[i]);
}

OrtStatus* Provider::GetKernelRegistryImpl(OrtEp* self,
                                           const OrtKernelRegistry** registry) noexcept {
  *registry = static_cast<Provider*>(self)->registry_;
  return nullptr;
}

OrtStatus* Provider::OnSessionInitializationEndImpl(OrtEp* self) noexcept {
  static_cast<Provider*>(self)->state_->heap_trim().TrimAll();
  return nullptr;
}

OrtStatus* Provider::OnRunStartImpl(OrtEp* self, const OrtRunOptions* options) noexcept {
  Runs().Started();
  const Provider& provider = *static_cast<Provider*>(self);
  if (provider.gpu_ == nullptr || !provider.gpu_->graphs().enabled()) return nullptr;
  OrtStatus* status = Guard([&]() -> Status {
    Result<int> id = GraphIdOf(options);
    if (!id.ok()) return id.TakeStatus();
    return provider.gpu_->graphs().Start(id.value(), provider.state_->Choices());
  });
  if (status != nullptr) Runs().Ended();  // there will be no OnRunEnd
  return status;
}

OrtStatus* Provider::OnRunEndImpl(OrtEp* self, const OrtRunOptions* /*options*/,
                                  bool sync) noexcept {
  const std::shared_ptr<GpuSession>& gpu = static_cast<Provider*>(self)->gpu_;
  OrtStatus* status = nullptr;
  if (gpu != nullptr && gpu->graphs().enabled()) {
    status = Guard([&] { return gpu->graphs().End(gpu->kernels()); });
  }
  if (sync && status == nullptr) status = SyncImpl(self);
  Runs().Ended();
  return status;
}

bool Provider::IsGraphCaptureEnabledImpl(const OrtEp* self) noexcept {
  return static_cast<const Provider*>(self)->gpu_->graphs().WantsGraph();
}

bool Provider::IsGraphCapturedImpl(const OrtEp* self, int id) noexcept {
  const Provider& provider = *static_cast<const Provider*>(self);
  if (id < 1) return false;
  try {
    return provider.gpu_->graphs().IsCaptured(id, provider.state_->Choices());
  } catch (const std::exception& error) {  // no memory: an ordinary run will say so
    return false;
  }
}

OrtStatus* Provider::ReplayGraphImpl(OrtEp* self, int id) noexcept {
  const ServedRun run;
  return Guard([&] { return static_cast<Provider*>(self)->gpu_->graphs().Replay(id); });
}

OrtStatus* Provider::ReleaseCapturedGraphImpl(OrtEp* self, int id) noexcept {
  static_cast<Provider*>(self)->gpu_->graphs().Release(id, false);
  return nullptr;
}

OrtGraphCaptureNodeAssignmentPolicy Provider::GraphPolicyImpl(const OrtEp* /*self*/) noexcept {
  return OrtGraphCaptureNodeAssignmentPolicy_ALLOW_CPU_FOR_SHAPES;
}

OrtStatus* Provider::SyncImpl(OrtEp* self) noexcept {
  const std::shared_ptr<GpuSession>& gpu = static_cast<Provider*>(self)->gpu_;
  if (gpu == nullptr) return nullptr;
  return Guard([&] { return gpu->Synchronize(); });
}

OrtStatus* Provider::CreateAllocatorImpl(OrtEp* self, const OrtMemoryInfo* info,
                                         OrtAllocator** allocator) noexcept {
  *allocator = nullptr;
  return Guard([&]() -> Status {
    const GpuSession& gpu = *static_cast<Provider*>(self)->gpu_;
    const bool host =
        Ort().api->MemoryInfoGetDeviceMemType(info) == OrtDeviceMemoryType_HOST_ACCESSIBLE;
    *allocator = host ? MakeSessionAllocator(gpu.host_memory(), gpu.card().host_memory())
                      : MakeSessionAllocator(gpu.memory(), gpu.card().memory());
    return Status::Ok();
  });
}

OrtStatus* Provider::IsConcurrentRunSupportedImpl(OrtEp* /*self*/, bool* supported) noexcept {
  *supported = true;
  return nullptr;
}

OrtStatus* Provider::CreateProfilerImpl(OrtEp* self, OrtEpProfilerImpl** profiler) noexcept {
  *profiler = nullptr;
  return Guard([&] {
    *profiler = MakeProfiler(static_cast<Provider*>(self)->state_->profiler());
    return Status::Ok();
  });
}

OrtStatus* Provider::SetDynamicOptionsImpl(OrtEp* self, const char* const* keys,
                                           const char* const* values, size_t count) noexcept {
  return Guard([&]() -> Status {
    for (size_t i = 0; i < count; ++i) {
      TUNABLEOP_RETURN_IF_ERROR(static_cast<Provider*>(self)->SetDynamicOption(keys[i], values[i]));
    }
    return Status::Ok();
  });
}

Status Provider::SetDynamicOption(std::string_view key, std::string_view value) {
  constexpr std::string_view kPrefix = kOptionPrefix;
  if (key.starts_with(kPrefix)) key.remove_prefix(kPrefix.size());
  // ONNX Runtime sends every option to every provider: its own ("ep.dynamic...") and other
  // providers'
  // ("ep.<name>...") are not ours to judge.
  if (key.starts_with("ep.")) return Status::Ok();
  if (key == "cache.save") return state_->SaveCache(std::string(value));
  if (key == "cache.load") {
    std::vector<std::string> problems;  // logged and kept as notes; the session goes on
    return state_->LoadCache(std::string(value), problems);
  }
  if (key == "tuning") {
    const std::optional<TuningMode> mode = ParseTuningMode(value);
    if (!mode) {
      return {StatusCode::kInvalidArgument,
              "TunableOp option 'tuning': expected one of off, cached, online, background, record, "
              "found '" +
                  std::string(value) + "'"};
    }
    state_->SetMode(*mode);
    return Status::Ok();
  }
  if (key == "session.token") {
    Sessions().Name(std::string(value), state_, gpu_);
    return Status::Ok();
  }
  return {StatusCode::kInvalidArgument,
          "TunableOp has no dynamic option '" + std::string(key) +
              "'; the options are: tuning, cache.save, cache.load, session.token"};
}

}  // namespace tunableop
