#include "backends/lt/cuda_kernels.h"

#include <array>
#include <charconv>
#include <system_error>

namespace tunableop::lt {
namespace {

namespace abi = cuda_abi;

// 11.11 (CUDA 11.8) is the first whose kernels are told by the settings of AlgoConfig: the cluster
// shape came with it. It is also the oldest whose numbers were compared.
constexpr int kFloorMajor = 11;
constexpr int kFloorMinor = 11;
// libraryPropertyType of library_types.h
constexpr int kMajorVersion = 0;
constexpr int kMinorVersion = 1;
constexpr int kPatchLevel = 2;

// The oldest compute capability of a CUDA version, from its release notes: "sm_75" is 75.
constexpr int OldestCard(int major) { return major >= 13 ? 75 : major == 12 ? 50 : 35; }

// The number at the beginning of `text`, which is moved behind it; 0: there is none.
int TakeNumber(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return 0;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// 0: it does not say.
int CapabilityOf(std::string_view arch) {
  constexpr std::string_view kStart = "sm_";
  if (!arch.starts_with(kStart)) return 0;
  arch.remove_prefix(kStart.size());
  return TakeNumber(arch);
}

// Whether a release has all types on a card, from CUDA's release notes: sm_8x and sm_9x since 11.8,
// sm_10x and sm_12x since 12.8. Of newer cards nothing is known.
bool IsMadeFor(std::string_view version, int capability) {
  constexpr int kOfMinor = 10;
  const int generation = capability / kOfMinor;
  if (generation == 8 || generation == 9) return true;
  const int major = TakeNumber(version);
  if (!version.empty()) version.remove_prefix(1);
  const bool has_newer = major > 12 || (major == 12 && TakeNumber(version) >= 8);
  return has_newer && (generation == 10 || generation == 12);
}

// Only INPLACE, COMPUTE_TYPE and OUTPUT_TYPE alone, never a mask of several.
bool IsAllowed(uint32_t reduction, const ColumnMajorGemm& gemm) {
  return (reduction & ~CudaTraits::ReductionsOf(gemm.type, gemm.precision)) == 0;
}

}  // namespace

Result<CudaKernels> CudaKernels::Load(const VendorLibrary& library) {
  Functions functions{};
  Binder bind(library, CudaTraits::kPrefix);
  bind("GetProperty", functions.property);
  bind("MatmulAlgoCheck", functions.check);
  bind("MatmulAlgoCapGetAttribute", functions.cap);
  bind("MatmulAlgoConfigSetAttribute", functions.set);
  bind("MatmulAlgoConfigGetAttribute", functions.get);
  TUNABLEOP_RETURN_IF_ERROR(bind.status());
  functions.ids = lt::Find<abi::cublasLtMatmulAlgoGetIds_fn>(library, "cublasLtMatmulAlgoGetIds");
  functions.init = lt::Find<abi::cublasLtMatmulAlgoInit_fn>(library, "cublasLtMatmulAlgoInit");
  return CudaKernels(functions);
}

std::optional<bool> CudaKernels::KnownToRun(std::string_view version, std::string_view arch,
                                            DataType type) noexcept {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat16:
    case DataType::kBFloat16:
    case DataType::kFloat64:
      if (IsMadeFor(version, CapabilityOf(arch))) return true;
      break;
  }
  return std::nullopt;
}

Result<std::string> CudaKernels::Version(const Core<CudaTraits>& core) const {
  std::array<int, 3> version{};
  for (const int part : {kMajorVersion, kMinorVersion, kPatchLevel}) {
    TUNABLEOP_RETURN_IF_ERROR(ToStatus<CudaTraits>(
        functions_.property(part, &version[static_cast<size_t>(part)]), "GetProperty"));
  }
  std::string text = std::to_string(version[0]) + "." + std::to_string(version[1]) + "." +
                     std::to_string(version[2]);
  if (version[0] < kFloorMajor || (version[0] == kFloorMajor && version[1] < kFloorMinor)) {
    return Status(StatusCode::kNotSupported,
                  "cublasLt " + text + " is older than 11.11, which is CUDA 11.8");
  }
  const int card = CapabilityOf(core.device->info().arch);
  if (card != 0 && card < OldestCard(version[0])) {
    return Status(StatusCode::kNotSupported, "cublasLt " + text + " is for cards from sm_" +
                                                 std::to_string(OldestCard(version[0])) + " on");
  }
  return text;
}

Result<CudaTraits::Algo> CudaKernels::Init(const Core<CudaTraits>& core,
                                           const ColumnMajorGemm& gemm, int32_t id) const {
  const int type = CudaTraits::TypeOf(gemm.type);
  const int scale = CudaTraits::TypeOf(ScaleTypeOf(gemm.type));
  Traits::Algo algo{};
  TUNABLEOP_RETURN_IF_ERROR(ToStatus<CudaTraits>(
      functions_.init(core.handle.get(), CudaTraits::ComputeOf(gemm.type, gemm.precision), scale,
                      type, type, type, type, id, &algo),
      "MatmulAlgoInit"));
  return algo;
}

bool CudaKernels::ReadConfig(const Traits::Algo& algo, AlgoConfig& config) const {
  const auto read = [&](int attribute, auto& value) {
    size_t written = 0;
    return functions_.get(&algo, attribute, &value, sizeof(value), &written) == 0;
  };
  return read(abi::CUBLASLT_ALGO_CONFIG_ID, config.id) &&
         read(abi::CUBLASLT_ALGO_CONFIG_TILE_ID, config.tile) &&
         read(abi::CUBLASLT_ALGO_CONFIG_STAGES_ID, config.stages) &&
         read(abi::CUBLASLT_ALGO_CONFIG_SPLITK_NUM, config.split_k) &&
         read(abi::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, config.reduction) &&
         read(abi::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, config.swizzle) &&
         read(abi::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, config.custom) &&
         read(abi::CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, config.inner) &&
         read(abi::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, config.cluster);
}

bool CudaKernels::Apply(const AlgoConfig& config, Traits::Algo& algo) const {
  AlgoConfig now;
  if (!ReadConfig(algo, now)) return false;
  const auto write = [&](int attribute, auto is, auto wanted) {
    return is == wanted || functions_.set(&algo, attribute, &wanted, sizeof(wanted)) == 0;
  };
  return now.id == config.id && write(abi::CUBLASLT_ALGO_CONFIG_TILE_ID, now.tile, config.tile) &&
         write(abi::CUBLASLT_ALGO_CONFIG_STAGES_ID, now.stages, config.stages) &&
         write(abi::CUBLASLT_ALGO_CONFIG_SPLITK_NUM, now.split_k, config.split_k) &&
         write(abi::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, now.reduction, config.reduction) &&
         write(abi::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, now.swizzle, config.swizzle) &&
         write(abi::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, now.custom, config.custom) &&
         write(abi::CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, now.inner, config.inner) &&
         write(abi::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, now.cluster, config.cluster);
}

bool CudaKernels::FitsAlignment(const Traits::Algo& algo, const ColumnMajorGemm& gemm) const {
  const auto fits = [&](int attribute, uint32_t aligned) {
    uint32_t needed = 0;
    size_t written = 0;
    return functions_.cap(&algo, attribute, &needed, sizeof(needed), &written) != 0 ||
           needed <= aligned;
  };
  return fits(abi::CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES, gemm.first.align_bytes) &&
         fits(abi::CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES, gemm.second.align_bytes) &&
         fits(abi::CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES, gemm.out.align_bytes) &&
         fits(abi::CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES, gemm.out.align_bytes);
}

Status CudaKernels::Check(const Core<CudaTraits>& core, const Description<CudaTraits>& description,
                          const AlgoConfig& config, const Traits::Algo& start,
                          Kernel<CudaTraits>& kernel) const {
  const auto refuse = [](const char* reason) { return Status(StatusCode::kNotSupported, reason); };
  if (!IsAllowed(config.reduction, description.gemm)) {
    return refuse("its partial sums would be kept in 16 bits");
  }
  Traits::Algo algo = start;
  if (!Apply(config, algo)) return refuse("the algorithm has no such settings");
  Traits::HeuristicResult result{};
  const int status = functions_.check(core.handle.get(), description.desc.get(),
                                      description.first.get(), description.second.get(),
                                      description.out.get(), description.out.get(), &algo, &result);
  if (status != 0) return refuse("the library refuses it for this problem");
  if (result.workspaceSize > kLtWorkspaceBytes) return refuse("it needs too large a workspace");
  kernel.launch = {algo, result.workspaceSize};
  return Status::Ok();
}

std::optional<Kernel<CudaTraits>> CudaKernels::Name(const Core<CudaTraits>& core,
                                                    const Description<CudaTraits>& description,
                                                    const Traits::HeuristicResult& result) const {
  AlgoConfig config;
  if (!ReadConfig(result.algo, config)) return std::nullopt;
  if (functions_.init == nullptr) {
    if (!IsAllowed(config.reduction, description.gemm)) return std::nullopt;
    return Kernel<CudaTraits>{ToName(config), -1, {result.algo, result.workspaceSize}};
  }
  Result<Kernel<CudaTraits>> kernel = Find(core, description, ToName(config), -1);
  if (!kernel.ok()) return std::nullopt;
  return std::move(kernel).value();
}

Result<Kernel<CudaTraits>> CudaKernels::FindInHeuristic(const Core<CudaTraits>& core,
                                                        const Description<CudaTraits>& description,
                                                        const std::string& name) const {
  auto results = AskHeuristic(core, description, kLtWorkspaceBytes, Traits::kAllRequest);
  if (!results.ok()) return results.TakeStatus();
  for (const Traits::HeuristicResult& result : results.value()) {
    std::optional<Kernel<CudaTraits>> kernel = Name(core, description, result);
    if (kernel && kernel->name == name) return std::move(*kernel);
  }
  return Status(StatusCode::kNotFound, "cublasLt's list for this problem has no " + name);
}

Result<Kernel<CudaTraits>> CudaKernels::Find(const Core<CudaTraits>& core,
                                             const Description<CudaTraits>& description,
                                             std::string_view name, int64_t /*opaque_id*/) const {
  const std::string text(name);
  const std::optional<AlgoConfig> config = ParseName(name);
  if (!config) return Status(StatusCode::kNotFound, "cublasLt has no kernel named " + text);
  if (functions_.init == nullptr) return FindInHeuristic(core, description, text);
  Result<Traits::Algo> start = Init(core, description.gemm, config->id);
  if (!start.ok()) {
    if (start.status().code() == StatusCode::kOutOfMemory) return start.TakeStatus();
    return Status(StatusCode::kNotFound, "this cublasLt has no algorithm " +
                                             std::to_string(config->id) + " for such a product");
  }
  if (!FitsAlignment(start.value(), description.gemm)) {
    return Status(StatusCode::kNotSupported, text + " needs a larger alignment");
  }
  Kernel<CudaTraits> kernel{text, -1, {}};
  const Status status = Check(core, description, *config, start.value(), kernel);
  if (!status.ok()) return Status(status.code(), text + ": " + std::string(status.message()));
  return kernel;
}

}  // namespace tunableop::lt
