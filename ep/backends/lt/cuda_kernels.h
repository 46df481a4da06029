// cublasLt's kernels: their names, how to make one of its name, and how to look for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/gpu/vendor_library.h"
#include "backends/lt/algo_config.h"
#include "backends/lt/core.h"
#include "backends/lt/random.h"
#include "backends/lt/traits_cuda.h"

namespace tunableop::lt {

// Everything but Load and Version needs Asking; so it is not thread-safe by itself.
class CudaKernels {
 public:
  using Traits = CudaTraits;

  static Result<CudaKernels> Load(const VendorLibrary& library);

  // What a card needs for a version is NVIDIA's promise, so that no card has to be asked.
  static constexpr bool kMayLackTheCard = false;

  // From sm_80 on there is everything (cuBLAS's table of types for cublasLtMatmul), on cards that
  // the release was made for. `version`: begins as Version's.
  static std::optional<bool> KnownToRun(std::string_view version, std::string_view arch,
                                        DataType type) noexcept;

  // "13.1.0". kNotSupported: too old, or the card is. Uses nothing of the card.
  Result<std::string> Version(const Core<CudaTraits>& core) const;

  // Nothing: excluded, or its settings do not make the same kernel again.
  std::optional<Kernel<CudaTraits>> Name(const Core<CudaTraits>& core,
                                         const Description<CudaTraits>& description,
                                         const Traits::HeuristicResult& result) const;
  // kNotFound: no such algorithm in this build. kNotSupported: it cannot run this.
  Result<Kernel<CudaTraits>> Find(const Core<CudaTraits>& core,
                                  const Description<CudaTraits>& description, std::string_view name,
                                  int64_t opaque_id) const;

  using IsKnown = std::function<bool(const std::string& name)>;
  // At most `count` kernels drawn at random of all settings of all algorithms, half of them of the
  // algorithms in `names`.
  std::vector<Kernel<CudaTraits>> Draw(const Core<CudaTraits>& core,
                                       const Description<CudaTraits>& description,
                                       std::span<const std::string_view> names, Random& random,
                                       size_t count, const IsKnown& is_known) const;
  // At most `count` that differ from `name` in one or two settings.
  std::vector<Kernel<CudaTraits>> Near(const Core<CudaTraits>& core,
                                       const Description<CudaTraits>& description,
                                       std::string_view name, Random& random, size_t count,
                                       const IsKnown& is_known) const;

 private:
  struct Functions {
    cuda_abi::cublasLtGetProperty_fn property;
    // Null: kernels are found in the library's own list only, and there is no search.
    cuda_abi::cublasLtMatmulAlgoGetIds_fn ids;
    cuda_abi::cublasLtMatmulAlgoInit_fn init;
    cuda_abi::cublasLtMatmulAlgoCheck_fn check;
    cuda_abi::cublasLtMatmulAlgoCapGetAttribute_fn cap;
    cuda_abi::cublasLtMatmulAlgoConfigSetAttribute_fn set;
    cuda_abi::cublasLtMatmulAlgoConfigGetAttribute_fn get;
  };
  // What an algorithm can be set to.
  struct Choices {
    int32_t id = 0;
    Traits::Algo algo{};  // with the settings it begins with
    std::vector<uint32_t> tiles;
    std::vector<uint32_t> stages;
    bool can_split_k = false;
    std::vector<uint32_t> reductions;  // single ones
    uint32_t swizzles = 1;             // 0 up to one less
    uint32_t customs = 1;              // 0 up to one less
  };
  // Types and precision.
  using Kind = std::pair<DataType, Precision>;

  explicit CudaKernels(const Functions& functions) : functions_(functions) {}

  Result<Kernel<CudaTraits>> FindInHeuristic(const Core<CudaTraits>& core,
                                             const Description<CudaTraits>& description,
                                             const std::string& name) const;
  Result<Traits::Algo> Init(const Core<CudaTraits>& core, const ColumnMajorGemm& gemm,
                            int32_t id) const;
  bool ReadConfig(const Traits::Algo& algo, AlgoConfig& config) const;
  // What differs from `algo` is set in it.
  bool Apply(const AlgoConfig& config, Traits::Algo& algo) const;
  bool FitsAlignment(const Traits::Algo& algo, const ColumnMajorGemm& gemm) const;
  Choices ReadChoices(const ColumnMajorGemm& gemm, int32_t id, const Traits::Algo& algo) const;
  const std::vector<Choices>& AllChoices(const Core<CudaTraits>& core,
                                         const ColumnMajorGemm& gemm) const;
  AlgoConfig DrawConfig(const Choices& choices, bool clusters, Random& random) const;
  void Change(const Choices& choices, Random& random, AlgoConfig& config) const;
  // OK: `kernel` can run it.
  Status Check(const Core<CudaTraits>& core, const Description<CudaTraits>& description,
               const AlgoConfig& config, const Traits::Algo& start,
               Kernel<CudaTraits>& kernel) const;

  Functions functions_;
  mutable std::map<Kind, std::vector<Choices>> choices_;
};

}  // namespace tunableop::lt
