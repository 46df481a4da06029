// What a user can set, by the keys of the public contract (provider options, or session config
// entries "ep.tunableopexecutionprovider.<key>").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gemm/status.h"
#include "tuner/tuner.h"

namespace tunableop {

enum class TuningMode : uint8_t {
  kOff,     // the default kernel always; the cache is not used
  kCached,  // what the cache knows, else the default kernel; never a measurement
  kOnline,  // measure at the first use of a problem
};
enum class ClaimPolicy : uint8_t {
  kAuto,     // every MatMul and Gemm that a kernel can run
  kAll,      // the same, whatever a measurement says
  kWeights,  // only those whose B is a constant weight
};

struct Options {
  TuningMode tuning = TuningMode::kOnline;
  ClaimPolicy claim = ClaimPolicy::kAuto;
  std::string cache_path;  // empty: no file
  size_t cache_size = 2048;
  int threads = 0;  // 0: found by looking at ONNX Runtime's pool
  TunerOptions tuner;
};

// Every key must be known and every value in range; the error names the key, what was found and
// what is allowed. `pairs` are (key without prefix, value).
Result<Options> ParseOptions(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace tunableop
