#include "backends/lt/hip_kernels.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

namespace tunableop::lt {
namespace {

// 0.6 (ROCm 6.0): before it, functions took other numbers for data types.
constexpr int kFloorVersion = 600;
constexpr size_t kRevisionLength = 8;  // characters of the git revision: as git shortens it
constexpr std::string_view kIndexPrefix = "index:";

// Some tens of microseconds each, as far as is known.
constexpr size_t kMaxChecks = 1024;
// How far from a good kernel to look, in positions.
constexpr size_t kReach = 24;

// A function of another C++ library; whatever it throws is its failure.
template <typename Call>
bool Succeeds(const Call& call) noexcept {
  try {
    return call() == 0;
  } catch (...) {  // NOLINT(bugprone-empty-catch): the answer is no
    return false;
  }
}

}  // namespace

Result<HipKernels> HipKernels::Load(const VendorLibrary& library) {
  HipKernels kernels;
  Binder bind(library, HipTraits::kPrefix);
  bind("GetVersion", kernels.version_);
  TUNABLEOP_RETURN_IF_ERROR(bind.status());
  kernels.revision_ =
      lt::Find<hip_abi::hipblasLtGetGitRevision_fn>(library, "hipblasLtGetGitRevision");
  // They take and return std::string and std::vector of libstdc++, in its C++11 form.
#if defined(__GLIBCXX__) && _GLIBCXX_USE_CXX11_ABI
  Extension& ext = kernels.extension_;
  ext.all = lt::Find<hip_abi::getAllAlgos_fn>(library, hip_abi::getAllAlgos_symbol);
  ext.index = lt::Find<hip_abi::getIndexFromAlgo_fn>(library, hip_abi::getIndexFromAlgo_symbol);
  ext.from_index =
      lt::Find<hip_abi::getAlgosFromIndex_fn>(library, hip_abi::getAlgosFromIndex_symbol);
  ext.supported =
      lt::Find<hip_abi::matmulIsAlgoSupported_fn>(library, hip_abi::matmulIsAlgoSupported_symbol);
  ext.solution_name = lt::Find<hip_abi::getSolutionNameFromAlgo_fn>(
      library, hip_abi::getSolutionNameFromAlgo_symbol);
  ext.kernel_name =
      lt::Find<hip_abi::getKernelNameFromAlgo_fn>(library, hip_abi::getKernelNameFromAlgo_symbol);
#endif
  return kernels;
}

Result<std::string> HipKernels::Version(const Core<HipTraits>& core) const {
  Asking<HipTraits> asking(core);
  TUNABLEOP_RETURN_IF_ERROR(asking.TakeStatus());
  void* const handle = core.handle.get();
  int version = 0;
  TUNABLEOP_RETURN_IF_ERROR(ToStatus<HipTraits>(version_(handle, &version), "GetVersion"));
  std::string text = std::to_string(version / 100000) + "." + std::to_string(version / 100 % 1000) +
                     "." + std::to_string(version % 100);
  if (version < kFloorVersion) {
    return Status(StatusCode::kNotSupported,
                  "hipBLASLt " + text + " is older than 0.6, which is ROCm 6.0");
  }
  std::array<char, 1024> revision{};  // the library is not told how long it is
  if (revision_ != nullptr && revision_(handle, revision.data()) == 0) {
    revision.back() = '\0';
    std::string short_revision(revision.data());
    std::erase_if(short_revision, [](unsigned char c) { return std::isalnum(c) == 0; });
    if (!short_revision.empty()) text += "-" + short_revision.substr(0, kRevisionLength);
  }
  return text;
}

int64_t HipKernels::IndexOf(Traits::Algo algo) const {
  if (extension_.index != nullptr) return extension_.index(algo);
  int32_t index = -1;  // where the library keeps it, in all versions seen
  std::memcpy(&index, algo.data, sizeof(index));
  return index;
}

std::string HipKernels::NameOf(const Core<HipTraits>& core, Traits::Algo algo) const {
  std::string name;
  for (const auto function : {extension_.solution_name, extension_.kernel_name}) {
    if (function == nullptr || !name.empty()) continue;
    static_cast<void>(Succeeds([&] {
      name = function(core.handle.get(), algo);
      return 0;
    }));
  }
  if (name.empty()) name = std::string(kIndexPrefix) + std::to_string(IndexOf(algo));
  return name;
}

HipKernels::Catalogue& HipKernels::All(const Core<HipTraits>& core,
                                       const ColumnMajorGemm& gemm) const {
  const Kind kind(gemm.type, gemm.precision, gemm.first.transposed, gemm.second.transposed);
  const auto [entry, is_new] = catalogues_.try_emplace(kind);
  Catalogue& all = entry->second;
  if (!is_new || extension_.all == nullptr) return all;
  const auto operation = [](bool transposed) {
    return transposed ? HipTraits::kOpT : HipTraits::kOpN;
  };
  const int type = HipTraits::TypeOf(gemm.type);
  std::vector<Traits::HeuristicResult> results;
  if (!Succeeds([&] {
        return extension_.all(core.handle.get(), hip_abi::HIPBLASLT_GEMM,
                              operation(gemm.first.transposed), operation(gemm.second.transposed),
                              type, type, type, type,
                              HipTraits::ComputeOf(gemm.type, gemm.precision), results);
      })) {
    return all;
  }
  for (const Traits::HeuristicResult& result : results) {
    if (all.by_index.emplace(IndexOf(result.algo), all.algos.size()).second) {
      all.algos.push_back(result.algo);
    }
  }
  return all;
}

std::optional<size_t> HipKernels::Position(const Core<HipTraits>& core, Catalogue& all,
                                           const std::string& name, int64_t opaque_id) const {
  const auto place = all.by_index.find(opaque_id);
  if (place != all.by_index.end() && NameOf(core, all.algos[place->second]) == name) {
    return place->second;
  }
  // The index moved, as it does from one build of the library to the next; or it was not given.
  if (all.by_name.empty()) {
    for (size_t i = 0; i < all.algos.size(); ++i) {
      all.by_name.emplace(NameOf(core, all.algos[i]), i);
    }
  }
  const auto named = all.by_name.find(name);
  if (named == all.by_name.end()) return std::nullopt;
  return named->second;
}

Status HipKernels::Fit(const Core<HipTraits>& core, const Description<HipTraits>& description,
                       const Traits::Algo& algo, Kernel<HipTraits>& kernel) const {
  kernel.launch.algo = algo;
  const ColumnMajorGemm& gemm = description.gemm;
  const auto alpha = static_cast<float>(gemm.alpha);
  const auto beta = static_cast<float>(gemm.beta);
  const bool wide = gemm.type == DataType::kFloat64;
  if (!Succeeds([&] {
        return extension_.supported(core.handle.get(), description.desc.get(),
                                    wide ? static_cast<const void*>(&gemm.alpha) : &alpha,
                                    description.first.get(), description.second.get(),
                                    wide ? static_cast<const void*>(&gemm.beta) : &beta,
                                    description.out.get(), description.out.get(),
                                    kernel.launch.algo, kernel.launch.workspace_bytes);
      })) {
    return {StatusCode::kNotSupported, "the library refuses it for this problem"};
  }
  if (kernel.launch.workspace_bytes > kLtWorkspaceBytes) {
    return {StatusCode::kNotSupported, "it needs too large a workspace"};
  }
  return Status::Ok();
}

std::optional<Kernel<HipTraits>> HipKernels::Name(const Core<HipTraits>& core,
                                                  const Description<HipTraits>& /*description*/,
                                                  const Traits::HeuristicResult& result) const {
  const int64_t index = IndexOf(result.algo);
  seen_.try_emplace(index, result.algo);
  return Kernel<HipTraits>{NameOf(core, result.algo), index, {result.algo, result.workspaceSize}};
}

HipTraits::Algo HipKernels::FromIndex(const Core<HipTraits>& core, int64_t index,
                                      const Traits::Algo& otherwise) const {
  if (extension_.from_index == nullptr) return otherwise;
  std::vector<int> indices{static_cast<int>(index)};
  std::vector<Traits::HeuristicResult> fresh;
  const bool found =
      Succeeds([&] { return extension_.from_index(core.handle.get(), indices, fresh); });
  return found && fresh.size() == 1 ? fresh.front().algo : otherwise;
}

Result<Kernel<HipTraits>> HipKernels::FindInHeuristic(const Core<HipTraits>& core,
                                                      const Description<HipTraits>& description,
                                                      const std::string& name) const {
  auto results = AskHeuristic(core, description, kLtWorkspaceBytes, HipTraits::kAllRequest);
  if (!results.ok()) return results.TakeStatus();
  for (const Traits::HeuristicResult& result : results.value()) {
    if (NameOf(core, result.algo) != name) continue;
    return Kernel<HipTraits>{name, IndexOf(result.algo), {result.algo, result.workspaceSize}};
  }
  return Status(StatusCode::kNotFound, "hipBLASLt's list for this problem has no " + name);
}

Result<Kernel<HipTraits>> HipKernels::Find(const Core<HipTraits>& core,
                                           const Description<HipTraits>& description,
                                           std::string_view name, int64_t opaque_id) const {
  const std::string text(name);
  if (extension_.supported == nullptr) return FindInHeuristic(core, description, text);
  Traits::Algo algo{};
  const auto seen = seen_.find(opaque_id);
  if (seen != seen_.end() && NameOf(core, seen->second) == text) {
    algo = FromIndex(core, opaque_id, seen->second);
  } else {
    Catalogue& all = All(core, description.gemm);
    if (all.algos.empty()) return FindInHeuristic(core, description, text);
    const std::optional<size_t> position = Position(core, all, text, opaque_id);
    if (!position) {
      return Status(StatusCode::kNotFound, "this hipBLASLt has no kernel named " + text);
    }
    const Traits::Algo& listed = all.algos[*position];
    algo = FromIndex(core, IndexOf(listed), listed);
  }
  Kernel<HipTraits> kernel{text, IndexOf(algo), {}};
  const Status status = Fit(core, description, algo, kernel);
  if (!status.ok()) return Status(status.code(), text + ": " + std::string(status.message()));
  return kernel;
}

std::vector<Kernel<HipTraits>> HipKernels::Draw(const Core<HipTraits>& core,
                                                const Description<HipTraits>& description,
                                                std::span<const std::string_view> /*names*/,
                                                Random& random, size_t count,
                                                const IsKnown& is_known) const {
  std::vector<Kernel<HipTraits>> kernels;
  if (extension_.supported == nullptr) return kernels;
  const Catalogue& all = All(core, description.gemm);
  std::vector<size_t> order(all.algos.size());
  std::iota(order.begin(), order.end(), size_t{0});
  random.Shuffle(std::span<size_t>(order));
  order.resize(std::min(order.size(), kMaxChecks));
  for (const size_t i : order) {
    if (kernels.size() >= count) break;
    Kernel<HipTraits> kernel{NameOf(core, all.algos[i]), IndexOf(all.algos[i]), {}};
    if (is_known(kernel.name)) continue;
    if (Fit(core, description, all.algos[i], kernel).ok()) kernels.push_back(std::move(kernel));
  }
  return kernels;
}

std::vector<Kernel<HipTraits>> HipKernels::Near(const Core<HipTraits>& core,
                                                const Description<HipTraits>& description,
                                                std::string_view name, Random& /*random*/,
                                                size_t count, const IsKnown& is_known) const {
  std::vector<Kernel<HipTraits>> kernels;
  if (extension_.supported == nullptr) return kernels;
  Catalogue& all = All(core, description.gemm);
  const std::optional<size_t> base = Position(core, all, std::string(name), -1);
  if (!base) return kernels;
  const auto offer = [&](size_t i) {
    Kernel<HipTraits> kernel{NameOf(core, all.algos[i]), IndexOf(all.algos[i]), {}};
    if (kernel.name == name || is_known(kernel.name)) return;
    if (Fit(core, description, all.algos[i], kernel).ok()) kernels.push_back(std::move(kernel));
  };
  for (size_t away = 1; away <= kReach && kernels.size() < count; ++away) {
    if (*base + away < all.algos.size()) offer(*base + away);
    if (*base >= away && kernels.size() < count) offer(*base - away);
  }
  return kernels;
}

}  // namespace tunableop::lt
