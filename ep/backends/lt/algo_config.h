// A cublasLt algorithm by its settings, which is all that there is to it: the library makes the
// same kernel of the same settings, in any build that knows the algorithm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tunableop::lt {

struct AlgoConfig {
  int32_t id = 0;
  uint32_t tile = 0;    // cublasLtMatmulTile_t
  uint32_t stages = 0;  // cublasLtMatmulStages_t
  int32_t split_k = 0;
  uint32_t reduction = 0;  // cublasLtReductionScheme_t
  uint32_t swizzle = 0;
  uint32_t custom = 0;
  uint16_t inner = 0;    // cublasLtMatmulInnerShape_t
  uint16_t cluster = 0;  // cublasLtClusterShape_t

  bool operator==(const AlgoConfig&) const = default;
};

// "66:t20.s35.k1.r0.w0.c0.i0.u3", in the order of the members.
std::string ToName(const AlgoConfig& config);
// Nothing: not such a name.
std::optional<AlgoConfig> ParseName(std::string_view name);

}  // namespace tunableop::lt
