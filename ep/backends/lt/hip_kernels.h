// hipBLASLt's kernels ("solutions"): positions in a list that belongs to one build of the library,
// with names that outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "backends/gpu/vendor_library.h"
#include "backends/lt/core.h"
#include "backends/lt/random.h"
#include "backends/lt/traits_hip.h"

namespace tunableop::lt {

// Everything but Load and Version needs Asking; so it is not thread-safe by itself.
class HipKernels {
 public:
  using Traits = HipTraits;

  static Result<HipKernels> Load(const VendorLibrary& library);

  // It is built for some cards only, and its handles are made on any.
  static constexpr bool kMayLackTheCard = true;
  static std::optional<bool> KnownToRun(std::string_view /*version*/, std::string_view /*arch*/,
                                        DataType /*type*/) noexcept {
    return std::nullopt;
  }

  // "1.0.0-abcdef12". kNotSupported: too old.
  Result<std::string> Version(const Core<HipTraits>& core) const;

  Result<Kernel<HipTraits>> Find(const Core<HipTraits>& core,
                                 const Description<HipTraits>& description, std::string_view name,
                                 int64_t opaque_id) const;
  std::optional<Kernel<HipTraits>> Name(const Core<HipTraits>& core,
                                        const Description<HipTraits>& description,
                                        const Traits::HeuristicResult& result) const;

  using IsKnown = std::function<bool(const std::string& name)>;
  // At most `count` drawn at random of all that the library has for the types.
  std::vector<Kernel<HipTraits>> Draw(const Core<HipTraits>& core,
                                      const Description<HipTraits>& description,
                                      std::span<const std::string_view> names, Random& random,
                                      size_t count, const IsKnown& is_known) const;
  // At most `count` whose index is near that of `name`: the library keeps relatives together.
  std::vector<Kernel<HipTraits>> Near(const Core<HipTraits>& core,
                                      const Description<HipTraits>& description,
                                      std::string_view name, Random& random, size_t count,
                                      const IsKnown& is_known) const;

 private:
  // The C++ functions of hipblaslt_ext. Each may be missing. They may crash on an index that the
  // library does not have, so they are only called with indices that it has given itself.
  struct Extension {
    hip_abi::getAllAlgos_fn all = nullptr;
    hip_abi::getIndexFromAlgo_fn index = nullptr;
    hip_abi::getAlgosFromIndex_fn from_index = nullptr;
    hip_abi::matmulIsAlgoSupported_fn supported = nullptr;
    hip_abi::getSolutionNameFromAlgo_fn solution_name = nullptr;
    hip_abi::getKernelNameFromAlgo_fn kernel_name = nullptr;
  };
  // All that the library has for one combination of types, transposes and precision.
  struct Catalogue {
    std::vector<Traits::Algo> algos;
    std::unordered_map<int64_t, size_t> by_index;
    std::unordered_map<std::string, size_t> by_name;  // made when first needed
  };
  using Kind = std::tuple<DataType, Precision, bool, bool>;

  int64_t IndexOf(Traits::Algo algo) const;
  std::string NameOf(const Core<HipTraits>& core, Traits::Algo algo) const;
  Catalogue& All(const Core<HipTraits>& core, const ColumnMajorGemm& gemm) const;
  // The library's algorithm of an index that it has.
  Traits::Algo FromIndex(const Core<HipTraits>& core, int64_t index,
                         const Traits::Algo& otherwise) const;
  std::optional<size_t> Position(const Core<HipTraits>& core, Catalogue& all,
                                 const std::string& name, int64_t opaque_id) const;
  // Makes `algo` one for this problem. The library writes into it.
  Status Fit(const Core<HipTraits>& core, const Description<HipTraits>& description,
             const Traits::Algo& algo, Kernel<HipTraits>& kernel) const;
  Result<Kernel<HipTraits>> FindInHeuristic(const Core<HipTraits>& core,
                                            const Description<HipTraits>& description,
                                            const std::string& name) const;

  hip_abi::hipblasLtGetVersion_fn version_ = nullptr;
  hip_abi::hipblasLtGetGitRevision_fn revision_ = nullptr;
  Extension extension_;
  mutable std::map<Kind, Catalogue> catalogues_;
  // What the library's lists gave: so that the first GEMM needs no catalogue.
  mutable std::unordered_map<int64_t, Traits::Algo> seen_;
};

}  // namespace tunableop::lt
